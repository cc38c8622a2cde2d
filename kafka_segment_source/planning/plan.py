"""ReadPlan: what a scan reads, what it leaves out and why. It prints, JSON can carry it, and it can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reporting import logger

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class DroppedSegment:
    """A segment that is not read, and why that is safe."""

    path: str
    size: int
    reason: str


@dataclass(frozen=True, repr=False)
class ReadPlan:
    """What a scan reads. Byte counts are of `.log` files.

    options: what was asked, with times ago as moments; splits: in order of topic, partition and offset; tasks: the
    same, grouped as Spark partitions; bytes_total: of all segments of the selected partitions; warnings: one sentence
    each; bytes_saved_by_zone_maps: what would be read without them, and is not.
    """

    options: ReadOptions
    splits: tuple[SegmentSplit, ...]
    tasks: tuple[tuple[SegmentSplit, ...], ...]
    dropped: tuple[DroppedSegment, ...]
    bytes_total: int
    warnings: tuple[str, ...] = ()
    bytes_saved_by_zone_maps: int = 0

    @property
    def segments_total(self) -> int:
        return self.segments_kept + len(self.dropped)

    @property
    def segments_kept(self) -> int:
        return len({split.path for split in self.splits})

    @property
    def bytes_to_read(self) -> int:
        return sum(split.size for split in self.splits)

    def to_dict(self) -> dict[str, Any]:
        """The plan as `kafkaseg plan --json` prints it. endOffset is null where only reading tells."""
        return {
            "segmentsTotal": self.segments_total,
            "segmentsKept": self.segments_kept,
            "bytesTotal": self.bytes_total,
            "bytesToRead": self.bytes_to_read,
            "bytesSavedByZoneMaps": self.bytes_saved_by_zone_maps,
            "splits": [
                {
                    "path": split.path,
                    "start": split.start,
                    "end": split.end,
                    "startOffset": split.start_offset,
                    "endOffset": split.end_offset,
                }
                for split in self.splits
            ],
            "dropped": [{"path": dropped.path, "reason": dropped.reason} for dropped in self.dropped],
            "warnings": list(self.warnings),
        }

    # Reading loads the kernels, and planning does without them.

    def to_reader(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """The rows of this plan, read lazily, with one batch in memory at a time.

        What was shown is what is read: nothing is planned again. Warnings of the plan go to the package's logger.

        Args:
            columns: Names of the columns wanted, in order. By default those that the options ask for.

        Returns:
            A reader that gives segments one after another, by topic, partition and offset.

        Raises:
            SchemaError: A column that is not there.
            DataError: Damaged data; raised by the reader.
            DataLossError: Offsets that are gone by now; raised by the reader.

        Example:
            >>> import kafka_segment_source
            >>> path = "examples/data/orders/data"
            >>> plan = kafka_segment_source.plan(path, subscribe="orders", since="2026-03-10T09:50")
            >>> plan.segments_kept
            6
            >>> plan.to_reader(columns=["partition", "offset"]).read_all().num_rows
            712
        """
        schema = self.schema(columns)
        for warning in self.warnings:
            logger.warning("%s", warning)
        return pa.RecordBatchReader.from_batches(schema, self.batches(schema))

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """The Arrow schema of these columns, or of those that the options ask for; SchemaError for an unknown name."""
        names = RECORDS.default_names(self.options) if columns is None else RECORDS.check_names(columns)
        return RECORDS.arrow_schema(names)

    def batches(self, schema: pa.Schema, advance: Callable[[int], None] = lambda _: None) -> Iterator[pa.RecordBatch]:
        """The rows of this plan, without its warnings. advance: is told the size of each split that is done."""
        from kafka_segment_source.scanning import read_splits

        return read_splits(self.splits, self.options, schema, advance)

    # Printing is rich's work, and only printing loads it.

    def __rich__(self) -> RenderableType:
        from kafka_segment_source.planning.display import Row, as_table, sums_line

        segments = self.segments_kept, self.segments_total
        sums = sums_line(segments, (self.bytes_to_read, self.bytes_total), self.bytes_saved_by_zone_maps)
        rows = [Row(split.path, True, f"{split.start:,} to {split.end:,}") for split in self.splits]
        rows += [Row(dropped.path, False, dropped.reason) for dropped in self.dropped]
        return as_table(sums, rows, self.warnings)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        from kafka_segment_source.planning.display import as_text

        return as_text(self.__rich__())

    def _repr_html_(self) -> str:
        from kafka_segment_source.planning.display import as_html

        return as_html(self.__rich__())
