"""The reader that Spark plans with on the driver and runs on the executors: two calls into the one way through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafka_segment_source.options import ReadOptions
from kafka_segment_source.planning import SegmentSplit, make_plan
from kafka_segment_source.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa


class SegmentPartition(InputPartition):
    """One Spark partition: the split of one segment."""

    def __init__(self, split: SegmentSplit) -> None:
        super().__init__(split.path)
        self.split = split


class KafkaSegmentReader(DataSourceReader):
    """Plans once on the driver; each task reads one split. Only options and column names cross to the executors."""

    def __init__(self, options: ReadOptions, warnings: list[str], columns: tuple[str, ...]) -> None:
        self._options = options
        self._warnings = warnings
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        from kafka_segment_source.reporting import logger

        plan = make_plan(self._options, self._warnings)
        for warning in plan.warnings:
            logger.warning("%s", warning)
        return [SegmentPartition(split) for split in plan.splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # planning runs in a process of its own, which has no use for the kernels
        from kafka_segment_source.scanning import read_split

        if isinstance(partition, SegmentPartition):  # Spark hands over InputPartition(None) where nothing is planned
            yield from read_split(partition.split, self._options, arrow_schema(self._columns))
