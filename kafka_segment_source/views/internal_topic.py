"""Makes the views of internal topics. Each is one task, as a later record may replace any earlier one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from kafka_segment_source.internal_topics.log_records import TopicRead
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reporting import Warnings, log_warnings
from kafka_segment_source.schema import Column, Table
from kafka_segment_source.source import Source
from kafka_segment_source.trust import Policy
from kafka_segment_source.views.view import Task, View, to_batches

PlanRows = Callable[[TopicRead, Warnings], Task]
ReadRows = Callable[[Task, TopicRead, Warnings], Iterator[Mapping[str, Any]]]


def make_view(columns: tuple[Column, ...], plan_rows: PlanRows, read_rows: ReadRows) -> View:
    """Makes the view of a module of `internal_topics/`, from its columns, what plans it, and what makes its rows."""
    table = Table(columns)
    return View(table, partial(_plan, plan_rows), partial(_read, read_rows, table))


def _plan(plan_rows: PlanRows, options: ReadOptions, warnings: Warnings) -> Sequence[Task]:
    read = TopicRead(options.source, options.policy, options.bounds.until, options.content.history)
    return [(read, plan_rows(read, warnings))]


def _read(
    read_rows: ReadRows, table: Table, task: tuple[TopicRead, Task], _: Source, __: Policy
) -> Iterator[pa.RecordBatch]:
    warnings = Warnings()
    read, planned = task
    yield from to_batches(read_rows(planned, read, warnings), table)
    log_warnings(warnings)
