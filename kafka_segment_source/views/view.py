"""A view: a table that is made of a log's other files, or of whole logs. Its rows lie in tasks of its own.

The views `records` and `batches` are not of this kind: their rows lie in splits (`decoding/tables.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafka_segment_source.options import ReadOptions
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.schema import Table
from kafka_segment_source.source import Source
from kafka_segment_source.trust import Policy

if TYPE_CHECKING:
    from rich.console import RenderableType

_ROWS_AT_ONCE = 8192

Task = Any  # what one Spark partition reads; it can be pickled


@dataclass(frozen=True)
class View:
    """table: its columns.

    plan: options → tasks, on the driver. It appends a sentence for each problem to the list of warnings.
    read: a task, its source and its policy → Arrow batches that have the columns of the table and perhaps more, on an
        executor.
    """

    table: Table
    plan: Callable[[ReadOptions, Warnings], Sequence[Task]]
    read: Callable[[Task, Source, Policy], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, repr=False)
class ViewPlan(ReadPlan):
    """The plan of a view whose rows lie in no byte ranges of `.log` files.

    It has no splits, drops nothing and counts no bytes. One thread reads its tasks, one after another.

    view: what reads a task.
    tasks: as the view makes them.
    """

    view: View = field(kw_only=True)

    def to_dict(self) -> dict[str, Any]:
        """The plan for JSON: the name of the view, the number of its tasks, and the warnings."""
        return {"view": self.options.content.view, "tasks": len(self.tasks), "warnings": list(self.warnings)}

    def _table(self) -> Table:
        return self.view.table

    def _read(self, schema: pa.Schema, advance: Callable[[int], None], threads: int | None) -> Iterator[pa.RecordBatch]:
        source, policy = self.options.source, self.options.policy
        return (batch for task in self.tasks for batch in read_task(self.view, task, source, policy, schema))

    def __rich__(self) -> RenderableType:
        from kafka_segment_source.planning.display import as_lines

        noun = "task" if len(self.tasks) == 1 else "tasks"
        return as_lines(f"view {self.options.content.view}: {len(self.tasks):,} {noun}", self.warnings)


def plan_view(view: View, options: ReadOptions, warnings: Sequence[str]) -> ViewPlan:
    """Plans a read of a view. The plan includes the `warnings` of parsing."""
    noted = Warnings(warnings)
    tasks = tuple(view.plan(options, noted))
    return ViewPlan(options, (), tasks, (), 0, tuple(dict.fromkeys(noted)), view=view)


def read_task(view: View, task: Task, source: Source, policy: Policy, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one task as batches of exactly `schema`. No batch is empty."""
    for batch in view.read(task, source, policy):
        if batch.num_rows:
            yield batch.select(schema.names)


def to_batches(rows: Iterable[Mapping[str, Any]], table: Table) -> Iterator[pa.RecordBatch]:
    """Makes Arrow batches of rows, each a dict with a value for each column of the table."""
    schema = table.arrow_schema([column.name for column in table.columns])
    remaining = iter(rows)
    while some := list(islice(remaining, _ROWS_AT_ONCE)):
        yield pa.RecordBatch.from_pylist(some, schema=schema)
