"""The stream reader of Spark's data source: connects `streams/` to Spark's micro-batches.

Spark makes this object in one Python process of a query, and calls there all methods but `read`. That process lives
as long as the query. `read` runs in the executors, with a reader that was pickled before anything else was called. So
all that a task needs is in its partition.

Spark 4.0 and 4.1 know no limits: they call `latestOffset()`, and always want all that is there. Later versions pass the
start of the micro-batch and a limit (SPARK-55304).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kafka_segment_source.errors import UnsupportedError
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reporting import Warnings, log_warnings
from kafka_segment_source.spark.reader import SegmentPartition, read_rows
from kafka_segment_source.streams.positions import JsonOffsets, Positions, from_json, schemas_of, to_json
from kafka_segment_source.streams.stream import LogStream

if TYPE_CHECKING:
    import pyarrow as pa

    from kafka_segment_source.schema_registry.stream_schemas import SchemaFollower
    from kafka_segment_source.values.typed import TypedColumns

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # Spark 4.0 and 4.1
    HAS_LIMITS = False

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands for Spark's class of that name."""
else:
    HAS_LIMITS = True


class KafkaSegmentStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what the logs have gained since the last micro-batch."""

    def __init__(self, options: ReadOptions, warnings: Warnings, columns: tuple[str, ...]) -> None:
        self._options = options
        self._warnings = warnings
        self._columns = columns
        self._stream: LogStream | None = None
        self._schemas: SchemaFollower | None = None
        self._is_checked = False
        if not HAS_LIMITS and options.pace.names:
            raise UnsupportedError(
                f"option {options.pace.names[0]!r} needs Spark 4.2 or later, and this is {pyspark.__version__}: leave it"
                " out, and a micro-batch takes all that is there"
            )

    @property
    def stream(self) -> LogStream:
        """The stream of this process. Nothing is read before it is first used."""
        if self._stream is None:
            log_warnings(self._warnings)
            self._stream = LogStream(self._options)
        return self._stream

    def initialOffset(self) -> JsonOffsets:
        return self._to_json(self.stream.find_initial())

    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> JsonOffsets:
        begin = None if start is None else self._from_json(start)
        limited = HAS_LIMITS and limit is not None and not isinstance(limit, ReadAllAvailable)
        return self._to_json(self.stream.find_next(begin, limited))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark passes this limit to `latestOffset`, unless the trigger wants all. The values are those of the options,
        which can have more than one limit."""
        limits = self._options.pace
        if limits.most_offsets is not None:
            return ReadMaxRows(limits.most_offsets)
        if limits.most_bytes is not None:
            return ReadMaxBytes(limits.most_bytes)
        if limits.least_offsets is not None:
            return ReadMinRows(limits.least_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.stream.set_target()

    def reportLatestOffset(self) -> JsonOffsets:
        return self._to_json(self.stream.find_latest())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        plan = self.stream.plan(self._from_json(start), from_json(end))
        if plan is None:
            return []
        typed = self._options.content.typed
        typed = None if typed is None else self._follow_schemas(typed)
        return [SegmentPartition(splits, typed) for splits in plan.tasks]

    def _to_json(self, positions: Positions) -> JsonOffsets:
        typed = self._options.content.typed
        return to_json(positions, None if typed is None else typed.readers)

    def _from_json(self, start: dict[str, Any]) -> Positions:
        """Converts the start of a micro-batch. The first one is that of the checkpoint, and is checked."""
        if self._options.content.typed is not None and not self._is_checked:
            from kafka_segment_source.schema_registry.stream_schemas import check_checkpoint  # noqa: PLC0415  # as below

            check_checkpoint(self._options.content.typed, self._options.formats, schemas_of(start))
            self._is_checked = True
        return from_json(start)

    def _follow_schemas(self, typed: TypedColumns) -> TypedColumns:
        from kafka_segment_source.schema_registry.stream_schemas import SchemaFollower  # noqa: PLC0415  # few streams have any

        if self._schemas is None:
            options = self._options
            self._schemas = SchemaFollower(typed, options.formats, options.source, options.policy)
        return self._schemas.refresh()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_rows(partition, self._options.source, self._options.policy, self._options.content, self._columns)
