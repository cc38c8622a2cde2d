"""The reader of Spark's data source for views that are not made of splits. It pushes no filter: Spark applies them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reporting import Warnings, log_warnings
from kafka_segment_source.views.view import Task, View, plan_view, read_task

if TYPE_CHECKING:
    import pyarrow as pa


class ViewPartition(InputPartition):
    """One Spark partition: one task of a view."""

    def __init__(self, task: Task) -> None:
        super().__init__(None)
        self.task = task


class ViewReader(DataSourceReader):
    """Plans once on the driver. Each Spark partition reads one task."""

    def __init__(self, view: View, options: ReadOptions, warnings: Warnings, columns: tuple[str, ...]) -> None:
        self._view = view
        self._options = options
        self._warnings = warnings
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        plan = plan_view(self._view, self._options, self._warnings)
        log_warnings(plan.warnings)
        return [ViewPartition(task) for task in plan.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, ViewPartition):  # Spark passes InputPartition(None) for an empty plan
            schema = self._view.table.arrow_schema(self._columns)
            yield from read_task(self._view, partition.task, self._options.source, self._options.policy, schema)
