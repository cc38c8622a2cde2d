"""ReadPlan: what a scan reads, what it leaves out and why; a value that prints, and that JSON can carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka_segment_source.decoding.split import SegmentSplit

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

    splits: in order of topic, partition and offset; tasks: the same, grouped as Spark partitions; bytes_total: of all
    segments of the selected partitions; warnings: one sentence each; bytes_saved_by_zone_maps: what would be read
    without them, and is not.
    """

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
