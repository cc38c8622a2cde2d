"""Bounds and a partition's log → the first batch or record inside them, and the steps of the search.

The steps are those of a broker (LocalLog.read, LogSegment.findOffsetByTimestamp): a segment, an entry of its time
index, an entry of its offset index, a scan from there on. They are noted as they were taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kafka_segment_source import times
from kafka_segment_source.bounds import ScanBounds
from kafka_segment_source.decoding.split import SegmentSplit, anchored, split_of
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import DroppedSegment, PartitionLog
from kafka_segment_source.pruning.ranges import ByteRange, narrow
from kafka_segment_source.reading.following import Follower
from kafka_segment_source.source import Source
from kafka_segment_source.trust import Policy


@dataclass(frozen=True, slots=True)
class FoundBatch:
    """A batch that a search ended at.

    position, size: in bytes of the `.log`.

    offset, timestamp: of the record in it that was looked for, in ms. None where a batch was looked for.
    """

    path: str
    position: int
    size: int
    base_offset: int
    last_offset: int
    offset: int | None = None
    timestamp: int | None = None

    @property
    def end(self) -> int:
        """The position after the batch."""
        return self.position + self.size

    @classmethod
    def of(cls, path: str, headers: HeaderTable, at: int) -> FoundBatch:
        """Makes it of a column of a header table."""
        fields = (batch_headers.POSITION, batch_headers.SIZE, batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET)
        position, size, base_offset, last_offset = (int(headers[field, at]) for field in fields)
        return cls(path, position, size, base_offset, last_offset)

    def to_dict(self) -> dict[str, Any]:
        """The batch as `kafkaseg offsets --json` prints it."""
        record = {} if self.offset is None else {"offset": self.offset, "timestamp": _format(self.timestamp)}
        return {
            "path": self.path,
            "position": self.position,
            "size": self.size,
            "baseOffset": self.base_offset,
            "lastOffset": self.last_offset,
            **record,
        }


@dataclass(frozen=True, slots=True)
class TimeEntry:
    """An entry of a `.timeindex`: no record up to the offset is later than the timestamp (ms)."""

    slot: int
    timestamp: int
    offset: int

    def to_dict(self) -> dict[str, Any]:
        """The entry as `kafkaseg offsets --json` prints it."""
        return {"slot": self.slot, "timestamp": _format(self.timestamp), "offset": self.offset}


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """An entry of a `.index`."""

    slot: int
    offset: int
    position: int

    def to_dict(self) -> dict[str, Any]:
        """The entry as `kafkaseg offsets --json` prints it."""
        return {"slot": self.slot, "offset": self.offset, "position": self.position}


@dataclass(frozen=True, slots=True)
class SearchStep:
    """What a search did with one segment.

    left_out: why it was not scanned, or None.
    time_entry, offset_entry: the index entries that gave the start of the scan, or None.
    start, end: the byte range that may hold what is looked for.
    found: where the scan ended. None if the range does not hold it.
    """

    path: str
    base_offset: int
    next_base_offset: int | None
    left_out: str | None = None
    time_entry: TimeEntry | None = None
    offset_entry: OffsetEntry | None = None
    start: int = 0
    end: int = 0
    found: FoundBatch | None = None

    @property
    def scanned_to(self) -> int:
        """The position where the scan ended, exclusive."""
        return self.end if self.found is None else self.found.end

    def to_dict(self) -> dict[str, Any]:
        """The step as `kafkaseg offsets --json` prints it."""
        place = {"path": self.path, "baseOffset": self.base_offset, "nextBaseOffset": self.next_base_offset}
        if self.left_out is not None:
            return {**place, "leftOut": self.left_out}
        return {
            **place,
            "timeIndexEntry": None if self.time_entry is None else self.time_entry.to_dict(),
            "offsetIndexEntry": None if self.offset_entry is None else self.offset_entry.to_dict(),
            "scannedFrom": self.start,
            "scannedTo": self.scanned_to,
            "found": None if self.found is None else self.found.to_dict(),
        }


ReadPart = Callable[[SegmentSplit, Callable[[int | None], None]], Iterator[FoundBatch]]
"""Reads a split. It calls the function after each chunk, with the offset after it, as far as that is known."""


def search(
    log: PartitionLog,
    bounds: ScanBounds,
    source: Source,
    policy: Policy,
    read: ReadPart,
    steps: list[SearchStep] | None = None,
) -> FoundBatch | None:
    """Returns the first thing that `read` finds inside the bounds, segment by segment. None if there is none.

    read: yields what a split holds, in order, and notes what it has passed.
    steps: gets one for each segment that was looked at.
    """
    for segment in log.segments:
        own = bounds._replace(offsets=bounds.offsets.intersect(log.offsets).intersect(segment.offsets))
        step = SearchStep(segment.path, segment.base_offset, segment.next_base_offset)
        with SegmentView(segment, policy.trust) as view:
            narrowed = narrow(view, own)
            if isinstance(narrowed, DroppedSegment):
                if steps is not None:
                    steps.append(replace(step, left_out=narrowed.reason))
                continue
            split = anchored(split_of(log, segment, own, narrowed.start, narrowed.end), view.probe)
            if steps is not None:
                step = replace(step, start=narrowed.start, end=narrowed.end, **_find_entries(view, narrowed, own))
        batch = next(_run(read, split, source, policy), None)
        if steps is not None:
            steps.append(replace(step, found=batch))
        if batch is not None:
            return batch
    return None


def _run(read: ReadPart, split: SegmentSplit, source: Source, policy: Policy) -> Iterator[FoundBatch]:
    if not split.copies:
        return read(split, lambda next_offset: None)
    follower = Follower(split, source, policy)
    return follower.run(lambda part: read(part, follower.note_passed))


def _find_entries(view: SegmentView, narrowed: ByteRange, bounds: ScanBounds) -> dict[str, Any]:
    """Finds the index entries that gave a byte range its start."""
    time_entry = offset_entry = None
    if bounds.times.has_since and view.has_trusted_times:
        index = view.times
        slot = index.before(bounds.times.since)
        while slot >= 0 and index.offsets[slot] + 1 > narrowed.first_offset:
            slot -= 1  # an entry beyond the log proves nothing about it
        if slot >= 0 and index.offsets[slot] + 1 == narrowed.first_offset:
            time_entry = TimeEntry(slot, int(index.timestamps[slot]), int(index.offsets[slot]))
    if narrowed.start > 0:
        offsets = view.offsets
        slot = int(np.searchsorted(offsets.positions, narrowed.start))
        if slot < len(offsets) and offsets.positions[slot] == narrowed.start:
            offset_entry = OffsetEntry(slot, int(offsets.offsets[slot]), narrowed.start)
    return {"time_entry": time_entry, "offset_entry": offset_entry}


def _format(timestamp: int | None) -> str | None:
    return None if timestamp is None else times.format_millis(timestamp)
