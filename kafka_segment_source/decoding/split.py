"""SegmentSplit: one range of one segment. The driver sends it to the executors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange, ScanBounds
from kafka_segment_source.logdir.probe import BatchHeader, HeaderProbe
from kafka_segment_source.logdir.segments import PartitionLog, Segment
from kafka_segment_source.storage.paths import parent_of
from kafka_segment_source.storage.store import LOCAL, NO_VERSION, FileVersion, Storage
from kafka_segment_source.storage.tiered.identity import read_identity


class BatchPlace(NamedTuple):
    """Where a batch lies: its byte position, the base offset of its header, and its CRC. This identifies the batch."""

    position: int
    base_offset: int
    crc: int

    def is_in(self, probe: HeaderProbe) -> bool:
        """Whether the file has this batch at this position."""
        header = probe.at(self.position)
        return header is not None and place_of(header) == self


def place_of(header: BatchHeader) -> BatchPlace:
    """The place of the batch with this header."""
    return BatchPlace(header.position, header.base_offset, header.crc)


class SegmentSplit(NamedTuple):
    """A range of one segment for one task: the rows inside `bounds` whose offsets the segment holds.

    start, end: byte positions of whole batches that hold these rows. They are hints. `anchor` proves the start. If the
    batch at `end` does not prove the end, the reader goes on (`split_file.py`).
    segment_size: bytes of the `.log` when it was planned. No later byte is read, so a live broker may append.
    base_offset, next_base_offset: every offset of the segment lies in [base, next). next is None for the last segment.
    stop_timestamp: ms. After a data batch reaches it, no later row is wanted (`disorder.py`). None: never stop.
    gap_is_loss: the next segment is read too, and planning found no reason for a gap before it (`gaps.py`).
    copies: paths of all copies of the partition, if there are several (`mending.py`). Empty: only the segment's
    directory.
    served_to: with several copies, the offset from which another copy is read.
    version: the state of the file when it was listed.
    before: the same for the file of the segment before it.
    anchor: a batch at or before `start`; None where `start` is 0.
    uncut: with several copies, the offsets that all pieces of a segment return together (`cuts.py`). None: it was not
    cut.
    log_end: for the last segment, the offset after its last whole batch; None where it is not known.
    asks_in_gaps: with several copies, whether the others are asked for offsets that are missing between two batches
    (`gaps.py`). False where its own copy is marked as compacted, and where they were asked.
    lost_places: of a compacted log, whose gaps show no loss: where planning knows that offsets are missing, or may be.
    Transactions that were open there may have ended in them. In order.
    storage: where the file is.
    index_size: bytes of its `.index` when it was planned. None if it has none.
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
    stop_timestamp: int | None = None
    gap_is_loss: bool = False
    copies: tuple[str, ...] = ()
    served_to: int = kafka_format.MAX_OFFSET
    version: FileVersion = NO_VERSION
    before: FileVersion | None = None
    anchor: BatchPlace | None = None
    uncut: OffsetRange | None = None
    log_end: int | None = None
    asks_in_gaps: bool = False
    lost_places: tuple[int, ...] = ()
    storage: Storage = LOCAL
    index_size: int | None = None

    @property
    def is_of_last(self) -> bool:
        """Whether no later segment was listed."""
        return self.next_base_offset is None

    @property
    def was_rolled(self) -> bool:
        """Whether a broker has ended the segment. Then it ends in a whole batch. A tier has only such segments."""
        return self.next_base_offset is not None or read_identity(self.version) is not None

    @property
    def stated_end(self) -> int | None:
        """The offset after the segment's last one: where the next segment begins, or what the manifest of a tier
        states. None for the last segment of a directory."""
        if self.next_base_offset is not None:
            return self.next_base_offset
        identity = read_identity(self.version)
        return None if identity is None or identity.last_offset is None else identity.last_offset + 1

    @property
    def size(self) -> int:
        """Bytes to read."""
        return self.end - self.start

    @property
    def span(self) -> OffsetRange:
        """The offsets that this split can hold. They end at MAX_OFFSET where only reading finds the end."""
        end = kafka_format.MAX_OFFSET if self.next_base_offset is None else self.next_base_offset
        return OffsetRange(max(self.base_offset, self.bounds.offsets.start), min(self.bounds.offsets.end, end))

    @property
    def start_offset(self) -> int:
        """Inclusive bound of the offsets that this split can hold."""
        return self.span.start

    @property
    def end_offset(self) -> int | None:
        """Exclusive bound of the offsets that this split can hold; None where only reading finds it."""
        end = self.span.end
        return end if end < kafka_format.MAX_OFFSET else None


def split_of(
    log: PartitionLog,
    segment: Segment,
    bounds: ScanBounds,
    start: int = 0,
    end: int | None = None,
    *,
    stop_timestamp: int | None = None,
    gap_is_loss: bool = False,
    log_end: int | None = None,
) -> SegmentSplit:
    """Makes a split of one of the log's segments. It is the whole segment unless positions are given."""
    return SegmentSplit(
        path=segment.path,
        topic=log.topic,
        partition=log.partition,
        start=start,
        end=segment.size if end is None else end,
        segment_size=segment.size,
        base_offset=segment.base_offset,
        next_base_offset=segment.next_base_offset,
        bounds=bounds,
        stop_timestamp=stop_timestamp,
        gap_is_loss=gap_is_loss,
        version=segment.version,
        before=segment.before,
        log_end=log_end,
        copies=log.copies,
        served_to=segment.offsets.end,
        asks_in_gaps=parent_of(segment.path) in log.unmarked if log.unmarked else False,
        lost_places=log.lost_places if log.compacted else (),
        storage=segment.storage,
        index_size=segment.index_size,
    )


Columns = tuple[Any, ...]
"""Splits by columns: a list with a value for each split, or one value that all of them have. No value is a list."""

_NAME = kafka_format.BASE_OFFSET_DIGITS + len(kafka_format.LOG_SUFFIX)


def to_columns(splits: Sequence[SegmentSplit]) -> Columns:
    """Returns columns of splits, at least one. They take few bytes, as splits of a task have most values in common."""
    return tuple(
        column[0] if column.count(column[0]) == len(column) else column
        for column in map(list, zip(*map(_to_row, splits), strict=True))
    )


def from_columns(columns: Columns, count: int) -> tuple[SegmentSplit, ...]:
    """Returns the `count` splits that `to_columns` converted."""
    return tuple(map(_from_row, zip(*(_spread(column, count) for column in columns), strict=True)))


def _spread(column: Any, count: int) -> Sequence[Any]:
    return column if isinstance(column, list) else [column] * count


# The fields that are shortened on the way to a task. All others go as they are.
_PATH, _END, _BOUNDS = map(SegmentSplit._fields.index, ("path", "end", "bounds"))
_BASE, _SIZE = map(SegmentSplit._fields.index, ("base_offset", "segment_size"))


def _to_row(split: SegmentSplit) -> list[Any]:
    """The values of a split, in the order of its fields. None stands for a value that another field has too."""
    row: list[Any] = list(split)
    directory, name = split.path[:-_NAME], split.path[-_NAME:]
    offsets, times = split.bounds
    row[_PATH] = directory, None if name == kafka_format.segment_file(split.base_offset) else name
    row[_END] = None if split.end == split.segment_size else split.end
    row[_BOUNDS] = None if offsets.start == split.base_offset else offsets.start, offsets.end, times
    return row


def _from_row(row: Sequence[Any]) -> SegmentSplit:
    """Returns the split that `_to_row` converted."""
    values = list(row)
    (directory, name), (start, end, times) = values[_PATH], values[_BOUNDS]
    base, size = values[_BASE], values[_SIZE]
    values[_PATH] = directory + (kafka_format.segment_file(base) if name is None else name)
    values[_END] = size if values[_END] is None else values[_END]
    values[_BOUNDS] = ScanBounds(OffsetRange(base if start is None else start, end), times)
    return SegmentSplit._make(values)


def anchored(split: SegmentSplit, probe: HeaderProbe) -> SegmentSplit:
    """Returns the split with an anchor: the batch at its start, as `probe` reads it from the split's file."""
    if split.start == 0:
        return split if split.anchor is None else split._replace(anchor=None)
    header = probe.at(split.start)
    return split._replace(anchor=None if header is None else place_of(header))
