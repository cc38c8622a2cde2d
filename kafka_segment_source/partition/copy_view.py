"""Reads from one copy what the choice between copies needs: its end, its segments, and single batches.

Each fact is read when it is first needed, with the help of the index.

Comes in: a copy's log, as listed. Whole segments are read only for questions that a sound copy does not raise
(`survey.py`). Raises StorageError, and FileChangedError if a file changes meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, islice
from typing import TYPE_CHECKING

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.epoch_checkpoint import Epochs
from kafka_segment_source.errors import DataError
from kafka_segment_source.kafka_format import MAGIC_V2, MAX_OFFSET
from kafka_segment_source.logdir.leader_epochs import UNKNOWN, read_epochs
from kafka_segment_source.logdir.offset_proof import limit_of
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import PartitionLog, Segment
from kafka_segment_source.partition.choice import DAMAGED, VOID
from kafka_segment_source.partition.copy_tail import LastEpoch, Tail, find_tail
from kafka_segment_source.partition.strays import Stray, find_stray_batches
from kafka_segment_source.trust import Policy

if TYPE_CHECKING:
    from kafka_segment_source.partition.survey import LeftOut, Rows, Survey

_MOST_ANSWERS = 8  # that are kept of a segment: without an index file, each search would begin at its first batch
_POSITIVE = 2**31 - 1  # the bits of a leader epoch without its sign
_MOST_WALKED = 64 * 1024 * 1024  # bytes to walk for the end of a segment; a broker's index leaves 4 KiB


class CopyView:
    """Reads the files of one copy.

    has_compacted_topic: whether a copy of its partition is marked as compacted.
    has_lost: whether another copy's history counts, so that this one is used up to an offset at most. Compaction may
        then have removed records in favour of some that do not count: what is gone from it proves nothing.
    has_misplaced_end: whether its last batch states wrong offsets. So nothing from its end on is known of it.
    has_proven_end: whether another copy has its last batch at the same place.
    last_epoch: what other copies show about the leader epoch of its last batch.
    positions: what `copy_bytes.py` has found, by the path of a segment and an offset.
    policy: what is believed of its files.
    """

    def __init__(self, log: PartitionLog, policy: Policy) -> None:
        self.log = log
        self.has_compacted_topic = log.compacted
        self.has_lost = False
        self.has_misplaced_end = False
        self.has_proven_end = False
        self.last_epoch = LastEpoch()
        self.policy = policy
        self.positions: dict[tuple[str, int], tuple[int, int]] = {}
        self._bases = [segment.base_offset for segment in log.segments]
        # bytes of all segments before each one
        self._sizes = [0, *accumulate(segment.size for segment in log.segments)]
        self._tail: Tail | None = None
        self._epochs: Epochs | None = None
        self.epochs_fault: str | None = None  # a sentence, once the epochs were read
        self._firsts: dict[str, int] = {}
        self._answers: dict[str, deque[tuple[int, BatchHeader]]] = {}  # the last ones of batch_at, each with its offset
        self._ends: dict[str, int | None] = {}
        self._surveys: dict[str, Survey] = {}
        self._strays: dict[str, Sequence[Stray]] = {}
        self.left_out: dict[str, Sequence[BatchHeader]] = {}  # by file, as `left_out_batches.py` found them

    @property
    def start(self) -> int:
        """The first offset that the copy may hold."""
        held = next((segment.base_offset for segment in self.log.segments if segment.size), None)
        first = held if held is not None else self._bases[-1] if self._bases else 0
        return max(first, self.log.offsets.start) if self._bases else 0

    @property
    def end(self) -> int:
        """The offset after the copy's last whole batch, or the end of the wanted offsets if that is lower."""
        return min(self.tail.end, self.log.offsets.end)

    @property
    def tail(self) -> Tail:
        """The end of the copy."""
        if self._tail is None:
            self._tail = find_tail(self.log, self.policy) if self.log.segments else Tail(0)
        return self._tail

    @property
    def unproven_gap(self) -> OffsetRange | None:
        """The gap before the last batch, where no damage explains it. None if there is none.

        No CRC covers the offset of that batch, and no batch after it proves it. So compaction need not have made the
        gap, unless another copy has the same batch at its place: what other copies have there is read. A wrapper of
        magic 0 or 1 does not state where it begins.
        """
        tail, last, expected = self.tail, self.tail.last, self.tail.expected
        if last is None or expected is None or tail.before is not None or last.magic != MAGIC_V2 or self.has_proven_end:
            return None
        return OffsetRange(expected, last.base_offset) if last.base_offset > expected else None

    @property
    def last_batch(self) -> BatchHeader | None:
        """The last whole batch of the copy, also where its last segments have none: they are empty, or damaged."""
        if self.tail.last is not None or not self.log.segments:
            return self.tail.last
        last, earlier = self.log.segments[-1], self.log.segments[:-1]
        header = self._find_last(last, self.tail.end) if self.tail.position else None
        for segment in reversed(earlier):
            header = header or self._find_last(segment, segment.span.end)
        return header

    def _find_last(self, segment: Segment, end: int) -> BatchHeader | None:
        """Returns the last whole batch of a segment that ends at the offset `end` or below."""
        last = None
        with self.open_view(segment) as view:
            start = view.start_position(MAX_OFFSET)
            for header in view.probe.walk(start) if segment.size - start <= _MOST_WALKED else (None,):
                if header is None or header.last_offset >= end:
                    survey = self.survey(segment)
                    at = survey.first_from(end) - 1
                    return survey.header(at) if at >= 0 else None
                last = header
        return last

    @property
    def epochs(self) -> Epochs:
        """The entries of the copy's `leader-epoch-checkpoint`."""
        if self._epochs is None:
            self._epochs, self.epochs_fault = read_epochs(self.log.directory, self.log.storage)
        return self._epochs

    def header_behind(self) -> BatchHeader | None:
        """Returns the header right behind the copy's last whole batch, if it states just the next offset, but for one
        bit. Its own batch is damaged, or torn."""
        if self.tail.is_clean:
            return None
        position = self.tail.position
        with self.open_view(self.log.segments[-1]) as view:
            header = view.probe.torn(position)
            known = self.last_batch or header
            if known is None or known.magic == MAGIC_V2:  # in older formats the CRC stands in the place of an epoch
                header = view.probe.repaired(position, OffsetRange(self.tail.end)) or header
        if header is None or header.base_offset != self.tail.end:
            return None
        return header._replace(last_offset=max(header.base_offset, header.last_offset))

    def find_epoch_behind(self) -> int:
        """Returns the latest leader epoch that a torn or damaged batch behind the last whole one states, or one with a
        wrong offset in the last file, or the last one itself, if the sign of its epoch is wrong. UNKNOWN if there is
        none."""
        header = self.header_behind()
        batches = [stray.batch for stray in self.tail.strays if not self.has_at_its_place(stray.batch)]
        batches += [header] if header is not None else []
        epochs = [batch.leader_epoch for batch in batches if batch.magic == MAGIC_V2]
        if (last := self.last_batch) is not None and last.leader_epoch < UNKNOWN:
            epochs.append(last.leader_epoch & _POSITIVE)
        return max(epochs, default=UNKNOWN)

    def segment_of(self, offset: int) -> Segment | None:
        """Returns the segment that may hold an offset, by names."""
        at = bisect_right(self._bases, offset) - 1
        if at < 0 or offset >= self.log.segments[at].span.end:
            return None
        return self.log.segments[at]

    def segment_below(self, offset: int) -> tuple[Segment | None, int]:
        """Returns the last segment that begins below an offset, or None, and the bytes of all segments before it."""
        at = bisect_left(self._bases, offset) - 1
        return (None, 0) if at < 0 else (self.log.segments[at], self._sizes[at])

    def segment_before(self, segment: Segment) -> Segment | None:
        """Returns the segment before another one."""
        at = bisect_left(self._bases, segment.base_offset) - 1
        return self.log.segments[at] if at >= 0 else None

    def segments_in(self, offsets: OffsetRange) -> tuple[Segment, ...]:
        """Returns the segments that may hold some of these offsets, by names."""
        segments = self.log.segments[slice(*self._find_slots(offsets))]
        return tuple(segment for segment in segments if not segment.span.intersect(offsets).is_empty)

    def segments_around(self, offsets: OffsetRange) -> tuple[Segment, ...]:
        """Returns the segments that may hold some of these offsets, and one more on either side."""
        first, after = self._find_slots(offsets)
        return self.log.segments[max(first - 1, 0) : after + 1]

    def _find_slots(self, offsets: OffsetRange) -> tuple[int, int]:
        return max(bisect_right(self._bases, offsets.start) - 1, 0), bisect_left(self._bases, offsets.end)

    def batch_at(self, offset: int) -> BatchHeader | None:
        """Returns the batch that holds an offset, or the first one after it in the same segment. None if none can be
        proven."""
        last = self.tail.last
        if last is not None and last.base_offset <= offset <= last.last_offset:
            return last
        segment = self.segment_of(offset)
        if segment is None or not segment.size:
            return None
        header = self._find_again(segment, offset)
        if header is None:
            with self.open_view(segment) as view:
                header = next(view.headers_from(offset, known=self._find_below(segment, offset)), None)
            if header is not None:
                self._answers.setdefault(segment.path, deque(maxlen=_MOST_ANSWERS)).append((offset, header))
        return None if header is None or self._is_outside(segment, header) else header

    def _is_outside(self, segment: Segment, header: BatchHeader) -> bool:
        """Whether a batch of a segment states offsets that its names do not leave to it, or is the last one, which was
        left out."""
        limit = limit_of(segment.base_offset, segment.next_base_offset)
        is_left_out = self.has_misplaced_end and segment.is_last and header.position >= self.tail.position
        return header.last_offset >= limit or is_left_out

    def _find_again(self, segment: Segment, offset: int) -> BatchHeader | None:
        """Returns one of the last answers in a segment, if it is the answer for this offset too."""
        answers = self._answers.get(segment.path, deque())
        same = next((answer for answer in answers if answer[0] <= offset <= answer[1].last_offset), None)
        if same is None:
            return None
        answers.remove(same)  # the one that was used longest ago is dropped first
        answers.append(same)
        return same[1]

    def _find_below(self, segment: Segment, offset: int) -> BatchHeader | None:
        """Returns the last batch below an offset among the last answers in a segment."""
        below = [header for _, header in self._answers.get(segment.path, ()) if header.last_offset < offset]
        return max(below, key=lambda header: header.position, default=None)

    def first_batch_of(self, segment: Segment) -> BatchHeader | None:
        """Returns the batch at the first byte of a segment. None if its bytes do not prove it."""
        with self.open_view(segment) as view:
            return view.probe.proven(0)

    def first_offset_of(self, segment: Segment) -> int:
        """Returns the offset of the first batch of a segment. Its base offset if its bytes do not prove another one: a
        wrapper of magic 0 or 1 states only its last offset. With damage right behind it, the segment is read."""
        if segment.path not in self._firsts:
            with self.open_view(segment) as view:
                self._read_first_offset(view)
        return self._firsts[segment.path]

    def _read_first_offset(self, view: SegmentView) -> None:
        headers = list(islice(view.probe.walk(0), 2))
        self._firsts[view.segment.path] = _find_first_offset(view.segment, headers[0] if headers else None)
        if None in headers:
            self.survey(view.segment)

    def is_misplaced_before(self, segment: Segment, fault: DataError, expected: int, header: BatchHeader) -> bool:
        """Whether the damage right before a batch is a whole batch of which the offset alone is wrong.

        Its length is exactly the room between `expected`, the offset after the batch before it, and `header`. Two
        numbers that fit are no accident.
        """
        if fault.position is None:
            return False
        with self.open_view(segment) as view:
            wrong = view.probe.proven(fault.position)
        if wrong is None or wrong.end != header.position:
            return False
        return expected + wrong.last_offset - wrong.base_offset + 1 == header.base_offset

    def end_of(self, segment: Segment) -> int | None:
        """Returns the offset after the last batch of a segment that others follow.

        None if damage hides it, if the segment was cut, or if the index does not help.
        """
        if segment.path not in self._ends:
            self._ends[segment.path] = self._find_end(segment)
        return self._ends[segment.path]

    def all_strays_of(self, segment: Segment) -> Sequence[Stray]:
        """Returns the whole batches of a segment at a wrong place. It returns none if the segment was not read for its
        end (`end_of`)."""
        if segment.is_last:
            return self.tail.strays
        surveyed = self.survey_of(segment)
        if surveyed is not None and segment.path not in self._strays:
            self._strays[segment.path] = find_stray_batches(surveyed, self.policy).strays
        return self._strays.get(segment.path, ())

    def left_out_places(self, segment: Segment) -> Sequence[LeftOut]:
        """Returns where damage was left out of a segment, as far as the segment was read."""
        surveyed = self.survey_of(segment)
        if surveyed is None:
            return self.tail.left_out if segment.is_last else ()
        return surveyed.left_out_places()

    def strays_of(self, segment: Segment) -> list[Stray]:
        """Returns those of `all_strays_of` with offsets that its names do not leave to the segment."""
        span = segment.span
        return [
            stray
            for stray in self.all_strays_of(segment)
            if not span.start <= stray.batch.base_offset <= stray.batch.last_offset < span.end
        ]

    def sound_runs(self, segment: Segment) -> tuple[OffsetRange, ...]:
        """Returns the offsets of a segment that lie between damage, in order. It returns none if the segment was not
        read for its end."""
        surveyed = self.survey_of(segment)
        runs: list[OffsetRange] = []
        is_behind_damage = True
        for extent in () if surveyed is None else surveyed.extents():
            if extent.holding == DAMAGED:
                is_behind_damage = True
            elif extent.holding > VOID:
                start = extent.offsets.start if is_behind_damage else runs.pop().start
                runs.append(OffsetRange(start, extent.offsets.end))
                is_behind_damage = False
        return tuple(runs)

    def _find_end(self, segment: Segment) -> int | None:
        with self.open_view(segment) as view:
            self._read_first_offset(view)
            reached, start = segment.base_offset, view.start_position(MAX_OFFSET)
            if segment.size - start > _MOST_WALKED:
                return None
            limit = limit_of(segment.base_offset, segment.next_base_offset)
            for header in view.probe.walk(start):
                if header is None or header.last_offset >= limit:
                    surveyed = self.survey(segment)
                    last = surveyed.last
                    return None if last is None or surveyed.faults[-1] is not None else last.last_offset + 1
                reached = header.last_offset + 1
            if reached < segment.span.end and view.find_lost_end(reached) is not None:
                self.survey(segment)  # says what is lost
                return None
        return reached

    def rows(self, header: BatchHeader) -> Rows | None:
        """Returns the records of one of the copy's batches, or None if they cannot be decoded."""
        segment = self.segment_of(header.base_offset)  # a foreign batch may reach past the next name
        return None if segment is None else self.rows_in(header, segment)

    def rows_in(self, header: BatchHeader, segment: Segment) -> Rows | None:
        """Returns the records of a batch of a segment, or None if they cannot be decoded, as those of a torn one."""
        with self.open_view(segment) as view:
            if view.probe.proven(header.position) is None:
                return None
        # imported here, so that the kernels are loaded only for reading whole segments
        from kafka_segment_source.partition.survey import rows_of

        try:
            return rows_of(self.log, segment, header, self.policy.trust)
        except DataError:
            return None

    def survey(self, segment: Segment) -> Survey:
        """Reads all of a segment, from its first byte to its last."""
        # imported here, so that the kernels are loaded only for reading whole segments
        from kafka_segment_source.partition.survey import survey

        if segment.path not in self._surveys:
            self._surveys[segment.path] = survey(self.log, segment, OffsetRange(segment.base_offset), self.policy)
        return self._surveys[segment.path]

    def survey_of(self, segment: Segment) -> Survey | None:
        """Returns the survey of a segment if it was read before, or None."""
        return self._surveys.get(segment.path)

    def leave_last_batch(self, log: PartitionLog, *, is_held: bool) -> None:
        """Leaves out the last batch, as it states wrong offsets. log: what is read of the copy now. is_held: whether
        another copy has the batch.

        Damage right before it is the damage at the end then, if none follows the batch, or if no copy holds it.
        """
        tail, damage = self.tail, self.tail.before
        assert tail.last is not None
        assert tail.expected is not None
        self.has_misplaced_end = True
        self._tail = replace(tail, end=tail.expected, position=tail.last.position, last=None)
        if damage is not None and (tail.damage is None or not is_held):
            position = tail.last.position if damage.position is None else damage.position
            self._tail = replace(self._tail, position=position, damage=damage, is_torn=True)
        self.log = log

    def batches_in(self, offsets: OffsetRange) -> Iterator[BatchHeader]:
        """Yields the sound batches with some of these offsets. The first one may come twice."""
        first = self.batch_at(offsets.start) if self.log.segments else None
        if first is not None and first.base_offset < offsets.end:
            yield first
        yield from self.headers_in(offsets)

    def has_batches_in(self, offsets: OffsetRange) -> bool:
        """Whether the copy has a sound batch with some of these offsets."""
        return any(self.batches_in(offsets))

    def has_at_its_place(self, batch: BatchHeader) -> bool:
        """Whether this copy has the batch of another one, at the same offset."""
        there = self.batch_at(batch.base_offset) if self.log.segments else None
        return there is not None and (there.base_offset, there.crc) == (batch.base_offset, batch.crc)

    def headers_in(self, offsets: OffsetRange) -> Iterator[BatchHeader]:
        """Yields the sound batches that begin at one of these offsets, in order."""
        for segment in self.segments_in(offsets):
            for header in self._headers_of(segment, offsets.start) if segment.size else ():
                if header.base_offset >= offsets.end:
                    return
                if header.base_offset >= offsets.start:
                    yield header

    def _headers_of(self, segment: Segment, start: int) -> Iterator[BatchHeader]:
        """Yields the sound batches of a segment from the one that holds `start` on. Where damage begins, the segment is
        read."""
        reached = start
        with self.open_view(segment) as view:
            for header in view.headers_from(start, known=self._find_below(segment, start)):
                if header is None or self._is_outside(segment, header):
                    break
                yield header
                reached = header.last_offset + 1
            else:
                return
        surveyed = self.survey(segment)
        headers = map(surveyed.header, range(surveyed.first_from(reached), surveyed.batches.shape[1]))
        yield from (header for header in headers if not self._is_outside(segment, header))

    def open_view(self, segment: Segment) -> SegmentView:
        """Opens the files of a segment."""
        return SegmentView(segment, self.policy.trust)


def _find_first_offset(segment: Segment, header: BatchHeader | None) -> int:
    if header is None or header.magic < MAGIC_V2:
        return segment.base_offset
    is_inside = header.last_offset < limit_of(segment.base_offset, segment.next_base_offset)
    return header.base_offset if is_inside else segment.base_offset
