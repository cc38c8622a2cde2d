"""A view: a table that is made of a log's other files, or of whole logs. Its rows lie in tasks of its own.

The views `records` and `batches` are not of this kind: their rows lie in splits (`decoding/tables.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reporting import logger
from kafka_segment_source.schema import Table

_ROWS_AT_ONCE = 8192

Task = Any  # what one Spark partition reads; it can be pickled


@dataclass(frozen=True)
class View:
    """table: its columns.

    plan: options → tasks, on the driver. It appends a sentence for each problem to the list of warnings.
    read: a task → Arrow batches that have the columns of the table and perhaps more, on an executor.
    """

    table: Table
    plan: Callable[[ReadOptions, list[str]], Sequence[Task]]
    read: Callable[[Task, ReadOptions], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class ViewPlan:
    """The tasks of one read of a view. They are read one after another."""

    view: View
    options: ReadOptions
    tasks: tuple[Task, ...]
    warnings: tuple[str, ...]

    def to_reader(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Reads the rows lazily. Raises SchemaError for an unknown column. The reader raises what the view raises."""
        table = self.view.table
        schema = table.arrow_schema(
            table.default_names(self.options) if columns is None else table.check_names(columns)
        )
        for warning in self.warnings:
            logger.warning("%s", warning)
        return pa.RecordBatchReader.from_batches(schema, self.batches(schema))

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Reads the rows of this plan as batches of exactly `schema`, without the warnings of the plan."""
        return (batch for task in self.tasks for batch in read_task(self.view, task, self.options, schema))


def plan_view(view: View, options: ReadOptions, warnings: Sequence[str]) -> ViewPlan:
    """Plans a read of a view. The plan includes the `warnings` of parsing."""
    noted = list(warnings)
    tasks = tuple(view.plan(options, noted))
    return ViewPlan(view, options, tasks, tuple(dict.fromkeys(noted)))


def read_task(view: View, task: Task, options: ReadOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one task as batches of exactly `schema`. No batch is empty."""
    for batch in view.read(task, options):
        if batch.num_rows:
            yield batch.select(schema.names)


def to_batches(rows: Iterable[Mapping[str, Any]], table: Table) -> Iterator[pa.RecordBatch]:
    """Makes Arrow batches of rows, each a dict with a value for each column of the table."""
    schema = table.arrow_schema([column.name for column in table.columns])
    remaining = iter(rows)
    while some := list(islice(remaining, _ROWS_AT_ONCE)):
        yield pa.RecordBatch.from_pylist(some, schema=schema)
