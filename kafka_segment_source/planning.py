"""Options → a ReadPlan: which byte range of which segment is read, which segments are not, and why.

Runs on the driver, without Spark and without the kernels: names, index files, a few batch headers. The splits it
makes are small frozen values that cross to the executors.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_segment_source import format as fmt
from kafka_segment_source.bounds import OffsetRange, ScanBounds
from kafka_segment_source.catalog import PartitionLog, Segment, list_logs
from kafka_segment_source.errors import OptionError
from kafka_segment_source.options import (
    EARLIEST,
    LATEST,
    OffsetLimit,
    PathsLike,
    ReadOptions,
    TopicPartition,
    option_texts,
    parse_options,
)
from kafka_segment_source.ranges import Dropped, narrow


@dataclass(frozen=True, slots=True)
class SegmentSplit:
    """A range of one segment for one task: whole batches at positions start ≤ p < end, rows inside `bounds`.

    segment_size: bytes of the `.log` when it was planned; nothing after is read, so a live broker may append.
    base_offset, next_base_offset: every offset of the segment lies in [base, next); next is None for the last one.
    """

    path: str
    topic: str
    partition: int
    start: int
    end: int
    segment_size: int
    base_offset: int
    next_base_offset: int | None
    bounds: ScanBounds

    @property
    def end_offset(self) -> int | None:
        """Exclusive bound of the offsets that this split can hold; None where only reading tells."""
        ends = [end for end in (self.next_base_offset, self.bounds.offsets.end) if end is not None]
        return min(ends) if min(ends) < fmt.MAX_OFFSET else None


@dataclass(frozen=True, slots=True)
class DroppedSegment:
    """A segment that is not read, and why that is safe."""

    path: str
    size: int
    reason: str


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What a scan reads. Byte counts are of `.log` files; bytes_total is of all segments of the selected partitions."""

    splits: tuple[SegmentSplit, ...]
    dropped: tuple[DroppedSegment, ...]
    bytes_total: int
    warnings: tuple[str, ...] = ()

    @property
    def segments_total(self) -> int:
        return self.segments_kept + len(self.dropped)

    @property
    def segments_kept(self) -> int:
        return len({split.path for split in self.splits})

    @property
    def bytes_to_read(self) -> int:
        return sum(split.end - split.start for split in self.splits)

    def __str__(self) -> str:
        share = 100 * self.bytes_to_read / self.bytes_total if self.bytes_total else 0.0
        lines = [
            f"reads {self.segments_kept} of {self.segments_total} segments,"
            f" {self.bytes_to_read:,} of {self.bytes_total:,} bytes ({share:.1f} %)"
        ]
        lines += [f"  keep {_short(s.path)}  bytes {s.start:,} to {s.end:,}" for s in self.splits]
        lines += [f"  drop {_short(d.path)}  {d.reason}" for d in self.dropped]
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)


def make_plan(options: ReadOptions, warnings: list[str] | None = None) -> ReadPlan:
    """The plan of a read. Raises PathError and OptionError for what is not there or cannot be meant."""
    logs = list_logs(options)
    _check_map("startingOffsets", options.starting_offsets, logs)
    _check_map("endingOffsets", options.ending_offsets, logs)
    splits: list[SegmentSplit] = []
    dropped: list[DroppedSegment] = []
    for log in logs:
        bounds = ScanBounds(_offset_range(options, log.topic_partition), options.times)
        for segment in log.segments:
            found = narrow(segment, bounds, options.check_crcs)
            if isinstance(found, Dropped):
                dropped.append(DroppedSegment(segment.path, segment.size, found.reason))
            else:
                within = bounds.offsets.intersect(OffsetRange(found.first_offset))
                splits.append(_split(log, segment, found.start, found.end, ScanBounds(within, bounds.times)))
    total = sum(segment.size for log in logs for segment in log.segments)
    return ReadPlan(tuple(splits), tuple(dropped), total, tuple(warnings or ()))


def plan(path: PathsLike, **options: object) -> ReadPlan:
    """What a read of `path` with these options would read, and why; no Spark needed, no data decoded.

    path, options: as for `scan`. Raises UsageError for what is not there or cannot be meant.
    """
    parsed, warnings = parse_options(option_texts(path, options))
    return make_plan(parsed, warnings)


def _split(log: PartitionLog, segment: Segment, start: int, end: int, bounds: ScanBounds) -> SegmentSplit:
    return SegmentSplit(
        path=segment.path,
        topic=log.topic,
        partition=log.partition,
        start=start,
        end=end,
        segment_size=segment.size,
        base_offset=segment.base_offset,
        next_base_offset=segment.next_base_offset,
        bounds=bounds,
    )


def _check_map(option: str, limit: OffsetLimit, logs: list[PartitionLog]) -> None:
    """A map must name exactly the partitions selected, as in Spark's source."""
    if limit.everywhere is not None:
        return
    there = {log.topic_partition for log in logs}
    for kind, wrong in (("does not name", there - set(limit.by_partition)), ("names", set(limit.by_partition) - there)):
        if wrong:
            shown = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(wrong)[:10])
            raise OptionError(
                f"option {option!r} must name exactly the partitions selected:"
                f" it {kind} {shown}{', which is selected' if kind == 'does not name' else ', which is not'}"
            )


def _offset_range(options: ReadOptions, topic_partition: TopicPartition) -> OffsetRange:
    start = _resolve(options.starting_offsets, topic_partition)
    end = _resolve(options.ending_offsets, topic_partition)
    first = 0 if start == EARLIEST else start
    last = fmt.MAX_OFFSET if end == LATEST else end
    if first > last:
        topic, partition = topic_partition
        raise OptionError(
            f"option 'startingOffsets' ({first}) is after option 'endingOffsets' ({last}) for partition {topic}-{partition}"
        )
    return OffsetRange(first, last)


def _resolve(limit: OffsetLimit, topic_partition: TopicPartition) -> int:
    return limit.by_partition[topic_partition] if limit.everywhere is None else limit.everywhere


def _short(path: str) -> str:
    return "/".join(path.rsplit("/", 2)[1:])
