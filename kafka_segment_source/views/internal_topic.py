"""Makes the views of internal topics. Each is one task, as a later record may replace any earlier one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kafka_segment_source.internal_topics.log_records import TopicRead
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reporting import Warnings, logger
from kafka_segment_source.schema import Column, Table
from kafka_segment_source.source import Source
from kafka_segment_source.trust import Policy
from kafka_segment_source.views.view import Task, View, to_batches

PlanRows = Callable[[TopicRead, Warnings], Task]
ReadRows = Callable[[Task, TopicRead, Warnings], Iterator[Mapping[str, Any]]]


def make_view(columns: tuple[Column, ...], plan_rows: PlanRows, read_rows: ReadRows) -> View:
    """Makes the view of a module of `internal_topics/`, from its columns, what plans it, and what makes its rows."""
    table = Table(columns)
    return View(table, _OneTask(plan_rows), _Rows(table, read_rows))


@dataclass(frozen=True)
class _OneTask:
    plan_rows: PlanRows

    def __call__(self, options: ReadOptions, warnings: Warnings) -> Sequence[Task]:
        read = TopicRead(options.source, options.policy, options.bounds.until, options.content.history)
        return [(read, self.plan_rows(read, warnings))]


@dataclass(frozen=True)
class _Rows:
    table: Table
    read_rows: ReadRows

    def __call__(self, task: tuple[TopicRead, Task], _: Source, __: Policy) -> Iterator[pa.RecordBatch]:
        read, planned = task
        warnings = Warnings()
        yield from to_batches(self.read_rows(planned, read, warnings), self.table)
        for warning in warnings:
            logger.warning("%s", warning)
