"""Returns the byte ranges of a segment in which rows of a time range, or with some keys, can be, by its zones.

A run of zones is left out only if the file still has the run's first batch and its last batch where the table has them.
Both must have the same offset and CRC as in the table. The last one must also have the same leader epoch and end. Then
two facts follow:

- The bytes between hold the offsets of the run, because offsets grow along a file.
- No offset at or below the last batch was ever truncated. A truncation removes everything after a point. Later batches
  in that place have another epoch or another CRC. So every offset has the timestamp and the key that it had, unless it
  is gone.

This costs two headers per run. No size, time or name is trusted. Any part of a run that is not proven is read.

A piece after a run begins with the batch after it. Only the last batch of the run shows whether that one states a wrong
offset. So if it does not go on where the run ends, the piece begins at the last batch of the run (`offset_proof.py`).
This costs one more header per piece.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kafka_segment_source.bounds import OffsetRange, TimeRange
from kafka_segment_source.logdir.offset_proof import bears_out
from kafka_segment_source.logdir.probe import HeaderProbe
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import Segment
from kafka_segment_source.pruning.ranges import ByteRange, Pruned
from kafka_segment_source.zones import zone_table
from kafka_segment_source.zones.zone_table import ZoneTable

Mask = npt.NDArray[np.bool_]

_OF_RUNS = np.array([zone_table.START, zone_table.END, zone_table.MIN_TIMESTAMP, zone_table.MAX_TIMESTAMP])
_OF_HEAD = np.array([zone_table.START, zone_table.FIRST_OFFSET, zone_table.FIRST_CRC])
_OF_TAIL = np.array(
    [zone_table.LAST_POSITION, zone_table.LAST_OFFSET, zone_table.LAST_CRC, zone_table.LAST_EPOCH, zone_table.END]
)


def prune(
    view: SegmentView,
    byte_range: ByteRange,
    times: TimeRange,
    zones: ZoneTable,
    holding: Mask | None = None,
    shows_loss_at_end: bool = False,
) -> Pruned:
    """Returns the pieces of `found` that hold every wanted data row inside `times`.

    zones: those of the view's segment. holding: which of them may hold a row with a wanted key; None: all.
    shows_loss_at_end: a read notices offsets that are missing after the segment (`PartitionLog.shows_loss_at_end`). The
    last batch of the segment is then read, if wanted offsets are missing after it.
    """
    if zones.shape[1] and zones[zone_table.END, -1] > view.segment.size:  # ends grow
        zones = zones[:, zones[zone_table.END] <= view.segment.size]
        holding = None if holding is None else holding[: zones.shape[1]]
    runs = list(_find_runs(zones, byte_range, times, holding))
    proven = [run for run in runs if is_there(view.probe, zones, *run)]
    is_stale = len(proven) < len(runs)
    covered = 0 if is_stale or not zones.shape[1] else int(zones[zone_table.END, -1])
    if not proven:
        return Pruned((byte_range,), covered, is_stale)
    pieces = []
    rest = byte_range
    for first, last in proven:
        begin, first_offset = int(zones[zone_table.START, first]), int(zones[zone_table.FIRST_OFFSET, first])
        end, after = int(zones[zone_table.END, last]), int(zones[zone_table.LAST_OFFSET, last]) + 1
        pieces.append(ByteRange(rest.start, begin, rest.first_offset, first_offset))
        rest = ByteRange(end, byte_range.end, max(rest.first_offset, after), byte_range.end_offset)
    last_zone = proven[-1][1]
    if shows_loss_at_end and _leaves_gap(view.segment, zones, last_zone, byte_range):
        rest = rest._replace(start=int(zones[zone_table.LAST_POSITION, last_zone]))
    pieces.append(rest)
    tails = {int(zones[zone_table.END, last]): int(zones[zone_table.LAST_POSITION, last]) for _, last in proven}
    wanted = (
        piece._replace(start=_find_start(view.probe, piece.start, tails.get(piece.start)))
        for piece in pieces
        if _may_hold_rows(piece)
    )
    by_keys = 0 if holding is None else _count_by_keys(zones, byte_range, times, proven)
    return Pruned(tuple(wanted), covered, is_stale, by_keys)


def _leaves_gap(segment: Segment, zones: ZoneTable, last: int, byte_range: ByteRange) -> bool:
    """Whether zone `last` ends the segment, and wanted offsets are missing after it."""
    if not int(zones[zone_table.END, last]) == segment.size == byte_range.end:
        return False
    wanted = OffsetRange(byte_range.first_offset, byte_range.end_offset)
    return not segment.gap_behind(int(zones[zone_table.LAST_OFFSET, last])).intersect(wanted).is_empty


def _count_by_keys(zones: ZoneTable, byte_range: ByteRange, times: TimeRange, proven: list[tuple[int, int]]) -> int:
    """Counts the bytes of `found` in proven runs whose zones have rows inside `times`: keys alone leave them out."""
    total = 0
    for first, last in proven:
        for start, end, least, largest in zones[_OF_RUNS, first : last + 1].T.tolist():
            if largest >= times.since and least < times.until:
                total += min(end, byte_range.end) - max(start, byte_range.start)
    return total


def _find_start(probe: HeaderProbe, start: int, tail_at: int | None) -> int:
    """Returns where a piece begins: at `start`, or at the batch before it if that one does not bear it out.

    tail_at: the position of the batch before it, the last one of a run. None if the piece does not follow a run.
    """
    if tail_at is None:
        return start
    header, before = probe.at(start), probe.at(tail_at)
    reached = None if before is None else before.last_offset
    is_borne_out = header is not None and bears_out(header, reached, None, is_last=False)
    return start if is_borne_out else tail_at


def _find_runs(
    zones: ZoneTable, byte_range: ByteRange, times: TimeRange, holding: Mask | None
) -> Iterator[tuple[int, int]]:
    """Yields the first and last zone of each run of neighbours that reach into `found` and hold no row inside `times`,
    or none with a wanted key."""
    if zones.shape[1] == 1:  # a small segment: arrays would take longer
        start, end, least, largest = zones[_OF_RUNS, 0].tolist()
        is_wanted = largest >= times.since and least < times.until and (holding is None or holding[0])
        if end > byte_range.start and start < byte_range.end and not is_wanted:
            yield 0, 0
        return
    outside = (zones[zone_table.END] > byte_range.start) & (zones[zone_table.START] < byte_range.end)
    wanted = np.ones(zones.shape[1], np.bool_)
    if times.has_since:
        wanted &= zones[zone_table.MAX_TIMESTAMP] >= times.since
    if times.has_until:
        wanted &= zones[zone_table.MIN_TIMESTAMP] < times.until
    if holding is not None:
        wanted &= holding
    outside &= ~wanted
    borders = np.flatnonzero(np.diff(np.concatenate(([False], outside, [False]))))
    for first, after in borders.reshape(-1, 2).tolist():
        yield first, after - 1


def is_there(probe: HeaderProbe, zones: ZoneTable, first: int, last: int) -> bool:
    """Whether the file has the first batch of zone `first` and the last batch of zone `last` where the table has
    them."""
    position, *expected = zones[_OF_HEAD, first].tolist()
    head = probe.at(position)
    if head is None or [head.base_offset, head.crc] != expected:
        return False
    position, *expected = zones[_OF_TAIL, last].tolist()
    tail = probe.at(position)
    return tail is not None and [tail.last_offset, tail.crc, tail.leader_epoch, tail.end] == expected


def _may_hold_rows(piece: ByteRange) -> bool:
    return piece.start < piece.end and piece.first_offset < piece.end_offset
