"""Where one copy ends: after its last whole batch, or in damage that may hide more.

Comes in: a copy's log, as listed. Its last segment alone is read, from the last index entry on: headers, and the bytes
too where some of them are no whole batch. Raises StorageError, and FileChangedError if the file changes meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import DataError
from kafka_segment_source.kafka_format import MAGIC_END, MAX_OFFSET
from kafka_segment_source.logdir.leader_epochs import UNKNOWN
from kafka_segment_source.logdir.offset_proof import limit_of
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import PartitionLog, Segment
from kafka_segment_source.partition.strays import Stray, find_stray_batches
from kafka_segment_source.storage.files import InputFile
from kafka_segment_source.trust import Policy

if TYPE_CHECKING:
    from kafka_segment_source.partition.survey import LeftOut


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a copy: the offset and the byte position after its last whole batch, and that batch or None.

    is_clean: whether only preallocated zeros follow.
    damage: the bytes that follow and may not end a log, as an error. None if there are none.
    expected: the offset after the batch before the last one; None if it is not known.
    before: the damage right before the last batch. None if there is none.
    strays: whole batches that were left out, as their offsets contradict those around them. Not those that the file
        also has at their place.
    left_out: all places of bytes that were left out.
    is_torn: whether bytes of the damage are no whole batch, or one that the file also has at its place.
    """

    end: int
    position: int = 0
    last: BatchHeader | None = None
    is_clean: bool = True
    damage: DataError | None = None
    expected: int | None = None
    before: DataError | None = None
    strays: tuple[Stray, ...] = ()
    is_torn: bool = False
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, slots=True)
class LastEpoch:
    """What is believed of the leader epoch of a copy's last batch. No CRC covers it (`last_epochs.py`).

    is_disputed: whether another copy has that batch with another epoch, and that one may be right.
    possible: the epochs that copies state for it, and that may be right, if they state several. One is right.
    is_stated: whether it is the one that the batch states, though the copy's `leader-epoch-checkpoint` lacks it.
    is_later: whether it is later than all lines of that checkpoint.
    is_noted: whether it is the one that the checkpoint has there, though the batch states another one.
    behind: the one that a damaged batch behind it states, if that counts; else UNKNOWN.
    """

    is_disputed: bool = False
    possible: frozenset[int] = frozenset()
    is_stated: bool = False
    is_later: bool = False
    is_noted: bool = False
    behind: int = UNKNOWN

    @property
    def least(self) -> int:
        """The earliest of those that are possible. UNKNOWN if there are none."""
        return min(self.possible, default=UNKNOWN)


def find_tail(log: PartitionLog, policy: Policy) -> Tail:
    """Returns the end of a copy that has segments."""
    segment = log.segments[-1]
    if not segment.size:
        return Tail(segment.base_offset)
    if segment.next_base_offset is not None:  # the path names single files
        return Tail(segment.next_base_offset, segment.size)
    tail, limit = Tail(segment.base_offset), limit_of(segment.base_offset, None)
    with SegmentView(segment, policy.trust) as view:
        start = view.start_position(MAX_OFFSET)
        for header in view.probe.walk(start):
            if header is None or not segment.base_offset <= header.base_offset <= header.last_offset < limit:
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
    found = find_stray_batches(surveyed, policy)
    if any(stray.batch.base_offset >= segment.base_offset for stray in found.strays):
        surveyed = survey(log, segment, everything, policy)  # what belongs here may lie before
        found = find_stray_batches(surveyed, policy)
    last = surveyed.last
    position = 0 if last is None else last.end
    with InputFile(segment.path, segment.storage, segment.version) as file:
        is_clean = surveyed.faults[-1] is None and not any(file.read_at(position, MAGIC_END))
    end = segment.base_offset if last is None else last.last_offset + 1
    count = surveyed.batches.shape[1]
    expected = surveyed.header(count - 2).last_offset + 1 if count > 1 else None
    if last is not None and count == 1 and (last.position == 0 or surveyed.faults[0] is not None):
        expected = segment.base_offset
    before = None if last is None else surveyed.faults[-2]
    left_out = tuple(surveyed.left_out_places())
    damage = surveyed.faults[-1] or surveyed.find_displaced()
    if damage is None and found.strays:
        damage = left_out[0].fault
    return Tail(end, position, last, is_clean, damage, expected, before, found.strays, found.is_torn, left_out)
