"""Makes the views of internal topics. Each is one task, as a later record may replace any earlier one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reporting import Warnings, logger
from kafka_segment_source.schema import Column, Table
from kafka_segment_source.views.view import Task, View, to_batches

PlanRows = Callable[[ReadOptions, Warnings], Task]
ReadRows = Callable[[Task, ReadOptions, Warnings], Iterator[Mapping[str, Any]]]


def make_view(columns: tuple[Column, ...], plan_rows: PlanRows, read_rows: ReadRows) -> View:
    """Makes the view of a module of `internal_topics/`, from its columns and its two functions."""
    table = Table(columns)
    return View(table, _OneTask(plan_rows), _Rows(table, read_rows))


@dataclass(frozen=True)
class _OneTask:
    plan_rows: PlanRows

    def __call__(self, options: ReadOptions, warnings: Warnings) -> Sequence[Task]:
        return [self.plan_rows(options, warnings)]


@dataclass(frozen=True)
class _Rows:
    table: Table
    read_rows: ReadRows

    def __call__(self, task: Task, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        warnings = Warnings()
        yield from to_batches(self.read_rows(task, options, warnings), self.table)
        for warning in warnings:
            logger.warning("%s", warning)
