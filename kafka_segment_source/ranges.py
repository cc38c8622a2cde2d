"""One segment, its index files and bounds → the byte range to read, or the reason to drop it.

Index entries are hints. What a range rests on is proven by batch headers:

- S1, S2 (start for offset ≥ a): the batch at P has baseOffset ≤ a, so everything before P ends below a. Largest
  such P among the entries near a. No property of the index is used.
- S3 (stop for offset < b): the batch at Q is magic 2 with baseOffset ≥ b, so everything from Q on is.
- trust of a time index, before `since` may use it: HEAD, the first batch is magic 2 (older writers left wrong
  maxima), and no batch up to the first entry's offset is later than that entry; TAIL, to drop a segment: from the
  batch of the last entry's offset to the end of the file nothing reaches `since`.

Whatever is missing or odd means "might match": more is read, never less. `start` never lies inside a batch.
Proofs and the counter-examples that break simpler rules are in docs and tests (tests/unit/test_ranges.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_segment_source import format as fmt
from kafka_segment_source.bounds import ScanBounds
from kafka_segment_source.catalog import Segment
from kafka_segment_source.files import InputFile
from kafka_segment_source.index import OffsetIndex, TimeIndex, read_offset_index, read_time_index
from kafka_segment_source.probe import BatchHeader, HeaderProbe
from kafka_segment_source.times import format_millis

_ATTEMPTS = 8  # index entries tried on each side before reading more instead
_HEAD_BATCHES = 1024  # batches looked at before a time index is given up: real files need 2 (median) to 65 (worst)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Whole batches to read: positions start ≤ p < end; no wanted row lies below first_offset."""

    start: int
    end: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """Why no row of a segment can match."""

    reason: str


def drop_by_name(segment: Segment, bounds: ScanBounds) -> Dropped | None:
    """What base offsets and sizes alone decide; no file is opened."""
    offsets = bounds.offsets
    if segment.size == 0:
        return Dropped("empty file")
    if offsets.is_empty or bounds.times.is_empty:
        return Dropped("the bounds leave no row")
    if segment.base_offset >= offsets.end:
        return Dropped(f"starts at offset {segment.base_offset}, the bounds end before {offsets.end}")
    if segment.next_base_offset is not None and segment.next_base_offset <= offsets.start:
        return Dropped(f"ends before offset {segment.next_base_offset}, the bounds start at {offsets.start}")
    return None


def narrow(segment: Segment, bounds: ScanBounds, check_crcs: bool) -> ByteRange | Dropped:
    """The byte range of `segment` that holds every row inside `bounds`, found in the index files."""
    dropped = drop_by_name(segment, bounds)
    if dropped is not None:
        return dropped
    first_offset = max(bounds.offsets.start, segment.base_offset)
    until_known_end = segment.next_base_offset is not None and segment.next_base_offset <= bounds.offsets.end
    needs_end = not until_known_end and bounds.offsets.end < fmt.MAX_OFFSET
    if not bounds.times.has_since and first_offset == segment.base_offset and not needs_end:
        return ByteRange(0, segment.size, first_offset)
    return _Narrowing(segment, bounds, check_crcs).run(first_offset, needs_end)


class _Narrowing:
    """The open files of one segment while its range is found."""

    def __init__(self, segment: Segment, bounds: ScanBounds, check_crcs: bool) -> None:
        self._segment = segment
        self._bounds = bounds
        self._check_crcs = check_crcs

    def run(self, first_offset: int, needs_end: bool) -> ByteRange | Dropped:
        segment = self._segment
        times = read_time_index(
            segment.time_index_path,
            segment.time_index_size if self._bounds.times.has_since else None,
            segment.base_offset,
            segment.next_base_offset,
        )
        offsets = read_offset_index(segment.index_path, segment.index_size, segment.base_offset, segment.size)
        with InputFile(segment.path) as file:
            probe = HeaderProbe(file, segment.size, self._check_crcs)
            if len(times) and head_holds(probe, times):
                since = self._bounds.times.since
                latest = int(times.timestamps[-1])
                if latest < since and tail_holds(probe, offsets, int(times.offsets[-1]), since):
                    return Dropped(f"no timestamp is after {format_millis(latest)} (time index)")
                slot = times.before(since)
                if slot >= 0:
                    first_offset = max(first_offset, int(times.offsets[slot]) + 1)
            start = start_position(probe, offsets, first_offset)
            end = end_position(probe, offsets, self._bounds.offsets.end) if needs_end else None
        return ByteRange(start, segment.size if end is None else max(start, end), first_offset)


def head_holds(probe: HeaderProbe, times: TimeIndex) -> bool:
    """HEAD: whether the head of the `.log` proves the first entry, and with it the running maximum of the rest."""
    seen = 0
    for header in probe.walk(0):
        if header is None or header.magic != fmt.MAGIC_V2 or seen == _HEAD_BATCHES:
            return False
        if header.base_offset > times.offsets[0]:
            break
        if header.max_timestamp > times.timestamps[0]:
            return False
        seen += 1
    return seen > 0


def tail_holds(probe: HeaderProbe, offsets: OffsetIndex, last_indexed: int, since: int) -> bool:
    """TAIL: whether every batch from the one that holds `last_indexed` to the end of the file is before `since`."""
    for header in probe.walk(start_position(probe, offsets, last_indexed)):
        if header is None or header.magic != fmt.MAGIC_V2 or header.max_timestamp >= since:
            return False
    return True


def start_position(probe: HeaderProbe, offsets: OffsetIndex, first_offset: int) -> int:
    """S1 and S2: the largest position, among entries near `first_offset`, before which every offset is lower."""
    slot = offsets.floor(first_offset)
    best = None
    for candidate in range(slot + 1, min(slot + 1 + _ATTEMPTS, len(offsets))):  # S2: later entries while they hold
        header = probe.at(int(offsets.positions[candidate]))
        if header is None or header.base_offset > first_offset:
            break
        best = candidate
    slot = slot if best is None else best
    for candidate in range(slot, max(slot - 2 * _ATTEMPTS, -1), -1):  # S1: the first that is proven
        header = probe.proven(int(offsets.positions[candidate]))
        if header is not None and header.base_offset <= first_offset:
            return header.position
    return 0


def end_position(probe: HeaderProbe, offsets: OffsetIndex, end_offset: int) -> int | None:
    """S3: the least position, among entries near `end_offset`, from which on every offset is ≥ it; None if none is proven."""
    slot = offsets.ceiling(end_offset)
    for candidate in range(slot, min(slot + _ATTEMPTS, len(offsets))):
        header = probe.proven(int(offsets.positions[candidate]))
        if header is not None and _begins_at_or_after(header, end_offset):
            return header.position
    return None


def _begins_at_or_after(header: BatchHeader, offset: int) -> bool:
    """Whether no record of the batch is below `offset`: a v0 or v1 wrapper tells only its last offset."""
    if header.magic == fmt.MAGIC_V2 or not header.is_compressed:
        return header.base_offset >= offset
    return False
