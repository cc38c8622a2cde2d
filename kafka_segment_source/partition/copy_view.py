"""What the files of one copy prove about it, for the choice between copies: where it ends, what a batch of it is, how
many bytes it has up to an offset. Each thing is looked up when it is first asked for, with the help of the index.

Comes in: a copy's log, as listed. Only a damaged end, or a question that a sound copy does not raise, costs reading a
segment (`survey.py`). Raises StorageError, and FileChangedError where a file changes meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import DataError
from kafka_segment_source.format import MAGIC_END, MAX_OFFSET
from kafka_segment_source.logdir.leader_epochs import Epochs, read_epochs
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import PartitionLog, Segment
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.storage.files import InputFile

if TYPE_CHECKING:
    from kafka_segment_source.partition.survey import Rows, Survey

_MOST_WALKED = 64 * 1024 * 1024  # bytes, to find the end of a segment; a broker's index leaves 4 KiB


@dataclass(frozen=True, slots=True)
class Tail:
    """How a copy ends: the offset and the byte position after its last whole batch, and that batch, None for none.

    is_clean: nothing but preallocated zeros follows. damage: what follows that may not end a log, None for nothing.
    """

    end: int
    position: int = 0
    last: BatchHeader | None = None
    is_clean: bool = True
    damage: DataError | None = None


class CopyView:
    """Looks into the files of one copy."""

    def __init__(self, log: PartitionLog, options: ReadOptions) -> None:
        self.log = log
        self._options = options
        self._bases = [segment.base_offset for segment in log.segments]
        self._sizes = [0, *accumulate(segment.size for segment in log.segments)]  # of all before each segment
        self._tail: Tail | None = None
        self._epochs: Epochs | None = None
        self._ends: dict[str, int | None] = {}
        self._places: dict[tuple[str, int], tuple[int, int]] = {}
        self._surveys: dict[str, Survey] = {}

    @property
    def start(self) -> int:
        """The first offset that it may hold."""
        return max(self._bases[0], self.log.offsets.start) if self._bases else 0

    @property
    def end(self) -> int:
        """The offset after its last whole batch, or after the last that is wanted of it."""
        return min(self.tail.end, self.log.offsets.end)

    @property
    def tail(self) -> Tail:
        """How it ends."""
        if self._tail is None:
            self._tail = self._find_tail() if self.log.segments else Tail(0)
        return self._tail

    @property
    def epochs(self) -> Epochs:
        """What its `leader-epoch-checkpoint` says."""
        if self._epochs is None:
            self._epochs = read_epochs(self.log.directory)
        return self._epochs

    def segment_of(self, offset: int) -> Segment | None:
        """The segment that may hold an offset, by names."""
        at = bisect_right(self._bases, offset) - 1
        if at < 0 or offset >= self.log.segments[at].span.end:
            return None
        return self.log.segments[at]

    def segments_in(self, offsets: OffsetRange) -> tuple[Segment, ...]:
        """The segments that may hold some of these offsets, by names."""
        found = self.log.segments[slice(*self._slots(offsets))]
        return tuple(segment for segment in found if not segment.span.intersect(offsets).is_empty)

    def segments_around(self, offsets: OffsetRange) -> tuple[Segment, ...]:
        """The same, with one more on either side."""
        first, after = self._slots(offsets)
        return self.log.segments[max(first - 1, 0) : after + 1]

    def _slots(self, offsets: OffsetRange) -> tuple[int, int]:
        return max(bisect_right(self._bases, offsets.start) - 1, 0), bisect_left(self._bases, offsets.end)

    def batch_at(self, offset: int) -> BatchHeader | None:
        """The batch that holds an offset, or the first after it in the same segment; None where none can be proven."""
        last = self.tail.last
        if last is not None and last.base_offset <= offset <= last.last_offset:
            return last
        segment = self.segment_of(offset)
        if segment is None or not segment.size:
            return None
        with self._view(segment) as view:
            return next(view.headers_from(offset), None)

    def end_of(self, segment: Segment) -> int | None:
        """The offset after the last batch of a segment that others follow; None where damage hides it, or
        no index helps."""
        if segment.path not in self._ends:
            self._ends[segment.path] = self._find_end(segment)
        return self._ends[segment.path]

    def _find_end(self, segment: Segment) -> int | None:
        with self._view(segment) as view:
            reached, start = segment.base_offset, view.start_position(MAX_OFFSET)
            if segment.size - start > _MOST_WALKED:
                return None
            for header in view.probe.walk(start):
                if header is None:
                    return None
                reached = header.last_offset + 1
        return reached

    def bytes_between(self, offsets: OffsetRange) -> tuple[int, int]:
        """How many bytes its batches of these offsets take, at least and at most: damage at either end
        leaves that open."""
        starts, ends = self._bytes_below(offsets.start), self._bytes_below(offsets.end)
        return max(ends[0] - starts[1], 0), ends[1] - starts[0]

    def _bytes_below(self, offset: int) -> tuple[int, int]:
        """Bytes up to the end of the last sound batch below an offset, and up to the first one that reaches it."""
        at = bisect_left(self._bases, offset) - 1  # the last segment that begins below
        if at < 0:
            return 0, 0
        segment, total = self.log.segments[at], self._sizes[at]
        if segment.span.end <= offset:
            return total + segment.size, total + segment.size
        key = segment.path, offset
        if key not in self._places:
            self._places[key] = self._positions_of(segment, offset)
        least, most = self._places[key]
        return total + least, total + most

    def _positions_of(self, segment: Segment, offset: int) -> tuple[int, int]:
        if segment.is_last and offset >= self.tail.end:
            return self.tail.position, self.tail.position
        with self._view(segment) as view:
            for header in view.headers_from(offset):
                if header is not None:
                    return header.position, header.position
                survey = self.survey(segment)  # damage lies before it
                at, count = survey.first_from(offset), survey.batches.shape[1]
                before = survey.header(at - 1).end if at else 0
                return before, survey.header(at).position if at < count else segment.size
        return segment.size, segment.size

    def may_end_at(self, position: int) -> bool:
        """Whether what stands in its last file from a position on may end a log."""
        with self._view(self.log.segments[-1]) as view:
            return view.probe.is_legal_tail(position)

    def rows(self, header: BatchHeader) -> Rows | None:
        """The records of one of its batches; None where they cannot be decoded."""
        from kafka_segment_source.partition.survey import rows_of

        segment = self.segment_of(header.last_offset)
        assert segment is not None
        try:
            return rows_of(self.log, segment, header, self._options)
        except DataError:
            return None

    def survey(self, segment: Segment) -> Survey:
        """All of a segment, read from its first byte to its last."""
        from kafka_segment_source.partition.survey import (
            survey,  # reads whole segments: only then are the kernels loaded
        )

        if segment.path not in self._surveys:
            self._surveys[segment.path] = survey(self.log, segment, OffsetRange(segment.base_offset), self._options)
        return self._surveys[segment.path]

    def _find_tail(self) -> Tail:
        segment = self.log.segments[-1]
        if not segment.size:
            return Tail(segment.base_offset)
        if segment.next_base_offset is not None:  # a path that names files
            return Tail(segment.next_base_offset, segment.size)
        found = Tail(segment.base_offset)
        with self._view(segment) as view:
            for header in view.probe.walk(view.start_position(MAX_OFFSET)):
                if header is None:
                    return self._torn_tail(segment)
                found = Tail(header.last_offset + 1, header.end, header)
        return found

    def _torn_tail(self, segment: Segment) -> Tail:
        """The end of a file after whose last proven batch more follows: whole batches, perhaps, after damage."""
        from kafka_segment_source.partition.survey import survey

        everything = OffsetRange(segment.base_offset)
        found = survey(self.log, segment, everything, self._options, start_offset=MAX_OFFSET)
        last = found.last
        position = 0 if last is None else last.end
        with InputFile(segment.path) as file:
            is_clean = not any(file.read_at(position, MAGIC_END))
        end = segment.base_offset if last is None else last.last_offset + 1
        return Tail(end, position, last, is_clean, found.faults[-1])

    def _view(self, segment: Segment) -> SegmentView:
        options = self._options
        return SegmentView(segment, options.trust)
