"""Where one copy ends: after its last whole batch, or in damage that may hide more.

Comes in: a copy's log, as listed. Its last segment alone is read, from the last index entry on: headers, and the bytes
too where some of them are no whole batch. Raises StorageError, and FileChangedError if the file changes meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import DataError
from kafka_segment_source.kafka_format import MAGIC_END, MAX_OFFSET
from kafka_segment_source.logdir.offset_proof import limit_of
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import PartitionLog, Segment
from kafka_segment_source.storage.files import InputFile
from kafka_segment_source.trust import Policy

if TYPE_CHECKING:
    from kafka_segment_source.partition.survey import Survey


class Stray(NamedTuple):
    """A whole batch that a survey left out, and the offsets that are missing at its place, if they have room for it and
    for the batches that were left out beside it."""

    batch: BatchHeader
    gap: OffsetRange


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a copy: the offset and the byte position after its last whole batch, and that batch or None.

    is_clean: whether only preallocated zeros follow.
    damage: the bytes that follow and may not end a log, as an error. None if there are none.
    expected: the offset after the batch before the last one; None if it is not known.
    hides_batches: whether damage lies right before the last batch.
    strays: whole batches that were left out, as their offsets contradict those around them. Not those that the file
        also has at their place.
    is_torn: whether bytes of the damage are no whole batch.
    """

    end: int
    position: int = 0
    last: BatchHeader | None = None
    is_clean: bool = True
    damage: DataError | None = None
    expected: int | None = None
    hides_batches: bool = False
    strays: tuple[Stray, ...] = ()
    is_torn: bool = False


def find_tail(log: PartitionLog, policy: Policy) -> Tail:
    """Returns the end of a copy that has segments."""
    segment = log.segments[-1]
    if not segment.size:
        return Tail(segment.base_offset)
    if segment.next_base_offset is not None:  # the path names single files
        return Tail(segment.next_base_offset, segment.size)
    tail = Tail(segment.base_offset)
    with SegmentView(segment, policy.trust) as view:
        start = view.start_position(MAX_OFFSET)
        for header in view.probe.walk(start):
            if header is None or header.last_offset >= limit_of(segment.base_offset, None):
                return _find_torn_tail(log, segment, policy)
            expected = header.base_offset if tail.last is None and start else tail.end
            tail = Tail(header.last_offset + 1, header.end, header, expected=expected)
    return tail


def _find_torn_tail(log: PartitionLog, segment: Segment, policy: Policy) -> Tail:
    """Returns the end of a file in which more bytes follow the last proven batch.

    These bytes may hold whole batches after damage.
    """
    # imported here, so that the kernels are loaded only for reading whole segments
    from kafka_segment_source.partition.survey import survey

    everything = OffsetRange(segment.base_offset)
    surveyed = survey(log, segment, everything, policy, start_offset=MAX_OFFSET)
    last = surveyed.last
    position = 0 if last is None else last.end
    with InputFile(segment.path, segment.storage, segment.version) as file:
        is_clean = not any(file.read_at(position, MAGIC_END))
    end = segment.base_offset if last is None else last.last_offset + 1
    count = surveyed.batches.shape[1]
    expected = surveyed.header(count - 2).last_offset + 1 if count > 1 else None
    if last is not None and count == 1 and (last.position == 0 or surveyed.faults[0] is not None):
        expected = segment.base_offset
    hides_batches = last is not None and surveyed.faults[-2] is not None
    strays, is_torn = find_strays(surveyed, policy)
    damage = surveyed.faults[-1] or surveyed.find_displaced()
    if damage is None and strays:
        damage = next(place.fault for place in surveyed.left_out_places())
    return Tail(end, position, last, is_clean, damage, expected, hides_batches, strays, is_torn)


def find_strays(surveyed: Survey, policy: Policy) -> tuple[tuple[Stray, ...], bool]:
    """Returns the whole batches that a survey of the last segment left out. Returns too whether there are other bytes
    that no gap explains."""
    strays: list[Stray] = []
    is_torn = False
    with SegmentView(surveyed.segment, policy.trust) as view:
        for place in surveyed.left_out_places():
            whole, end = read_whole_batches(view, place.start, place.end)
            is_torn = is_torn or (end < place.end and place.gap.is_empty)
            strays += explain_by_gap([batch for batch in whole if not surveyed.has(batch)], place.gap)
    return tuple(strays), is_torn


def read_whole_batches(view: SegmentView, start: int, end: int) -> tuple[list[BatchHeader], int]:
    """Returns the whole batches from one position up to another, whatever offsets they state, and the position after
    the last one that follows without other bytes before it."""
    whole: list[BatchHeader] = []
    while start < end and (header := view.probe.proven(start)) is not None:
        whole.append(header)
        start = header.end
    return whole, start


def explain_by_gap(batches: list[BatchHeader], gap: OffsetRange) -> list[Stray]:
    """Returns batches that were left out at one place, each with the gap there if it has room for all of them."""
    needed = sum(batch.last_offset - batch.base_offset + 1 for batch in batches)
    room = gap if needed <= gap.end - gap.start else OffsetRange(0, 0)
    return [Stray(batch, room) for batch in batches]
