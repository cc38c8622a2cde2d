"""A byte range of a `.log` → chunks of whole batches whose headers are proven. This runs on executors.

Input: a planned split. Output: `Chunk`s. One chunk is in memory at a time; a larger batch is read whole, up to
maxBatchBytes. With checkCrcs, every batch in a chunk has the CRC that its header states. Its offsets continue the
order of offsets inside the segment.

Errors:

- CorruptRecordError for damage. The given `Damage` raises it, or reports it and skips the batch.
- UnsupportedFormatError for a wanted batch of a newer magic. It is raised in every mode.

`belief.py` decides which offsets are believed, and `log_tail.py` where a log ends. `batch_search.py` finds the next
batch after damage.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.batch_search import BatchSearch
from kafka_segment_source.decoding.belief import Belief, Skipped
from kafka_segment_source.decoding.damage import Damage
from kafka_segment_source.decoding.faults import Faults
from kafka_segment_source.decoding.header_table import end_of, is_wrapper
from kafka_segment_source.decoding.log_tail import LogTail
from kafka_segment_source.decoding.split import BatchPlace, SegmentSplit
from kafka_segment_source.errors import DataError
from kafka_segment_source.kernels import batch_headers, batch_proof
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.offset_proof import limit_of
from kafka_segment_source.pruning.disorder import is_witness
from kafka_segment_source.storage.files import Bytes, InputFile
from kafka_segment_source.trust import Trust

CHUNK_BYTES = 2 * 1024 * 1024  # a chunk, and the columns made of it, fit into the processor's caches
_HEADERS = 16384  # batches in a chunk at most

TakeBuffer = Callable[[int], Bytes]
"""Returns a buffer of a size, for the bytes of the next chunks."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole batches. `headers` (int64[FIELDS, n], kernels.batch_headers) describe the batches in `data`.

    position: where byte 0 of `data` lies in the file. The next chunk uses the headers again, and the data too unless
    `buffers` gives another buffer: copy what you need before you ask for it.
    """

    data: Bytes
    headers: HeaderTable
    position: int


_WITNESS_FIELDS = [batch_headers.MAGIC, batch_headers.ATTRIBUTES, batch_headers.COUNT, batch_headers.MAX_TIMESTAMP]


class Why(Enum):
    """Why a walk over the batches of a buffer ended."""

    NO_MORE_WANTED = auto()  # no wanted row follows, or the log ends
    IS_STALE = auto()  # the bytes at hand are older than those in the file
    PASSED_DAMAGE = auto()  # a sound batch may begin behind it
    WALK_STOPPED = auto()  # the batches that the walk over the headers has proven are used up


class Outcome(NamedTuple):
    """Where a walk over the batches of a buffer ended.

    at: where reading goes on; -1 if nothing more is wanted.
    """

    why: Why
    at: int = -1


_NO_MORE = Outcome(Why.NO_MORE_WANTED)


class BatchReader:
    """Reads one split's byte range chunk by chunk.

    is_done: whether the reader has proof that no wanted row follows. It is False where only the range or the log ended.
    next_base: the base offset of the batch right behind the last wanted one, where it was seen.
    """

    def __init__(
        self,
        file: InputFile,
        split: SegmentSplit,
        trust: Trust,
        damage: Damage,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        buffers: TakeBuffer | None = None,
    ) -> None:
        """buffers: gives the buffer of each read; it may be the same one. None: a buffer of the reader's own."""
        self._file = file
        self._buffers = buffers
        self._split = split
        self._check_crcs = trust.check_crcs
        self._max_batch_bytes = trust.max_batch_bytes
        self._damage = damage
        self._faults = Faults(split.path)
        self._chunk_bytes = chunk_bytes
        self.is_done = False
        self.next_base: int | None = None
        self._limit = split.end  # no byte after it is read, unless a batch begins before it and ends after it
        self._offset_limit = limit_of(split.base_offset, split.next_base_offset)  # exclusive, of the segment
        self._search = BatchSearch(file, split, trust.max_batch_bytes)
        self._belief = Belief(file, split, self._search, self._faults)
        self._tail = LogTail(file, split, self._search)
        most = most_headers(split)
        self._table = np.empty((batch_headers.FIELDS, most), np.int64)
        self._bad = np.empty(most, np.bool_)
        self._report = np.zeros(batch_proof.REPORT, np.int64)

    def chunks(self) -> Iterator[Chunk]:
        """Yields the chunks of the range, in order. It ends where the range, its offsets or the log end."""
        yield from self.read_from(self._split.start)

    def note_before(self, headers: HeaderTable) -> None:
        """Takes the batches just before the split, which another reader believed. They contradict a wrong offset."""
        self._belief.note(headers)

    @property
    def last(self) -> BatchPlace | None:
        """The last batch that was believed; None before the first one."""
        return self._belief.last

    @property
    def last_offset(self) -> int:
        """The last offset that was believed, or the one before the segment's first."""
        return self._search.last_offset

    def read_from(self, position: int | None) -> Iterator[Chunk]:
        """Yields the chunks from the batch at `position` on."""
        size = min(self._chunk_bytes, max(self._limit - (position or 0), kafka_format.BATCH_OVERHEAD))
        buffer: Bytes | None = None
        while position is not None and not self._is_past_range(position):
            if buffer is None or self._buffers is not None:
                buffer = np.empty(size, np.uint8) if self._buffers is None else self._buffers(size)
            count = min(len(buffer), self._limit - position)
            self._file.read_into(position, buffer[:count])
            before, position = position, (yield from self._read_batches(buffer, position, position + count))
            if position is not None:
                self._search.effort -= max(before + count - position, 0)  # bytes that are read a second time
            if position == before and self._report[batch_headers.FOUND] > len(buffer):  # one batch needs more room
                size, buffer = int(self._report[batch_headers.FOUND]), None

    def _is_past_range(self, position: int) -> bool:
        """Whether reading ends at `position`."""
        if self._limit <= position < self._split.segment_size:
            self._go_past_end(position)
        return position >= self._limit

    def _go_past_end(self, position: int) -> None:
        """Extends the range to the end of the file, unless the batch there proves that no wanted row follows."""
        wanted_end = self._split.bounds.offsets.end
        following = self._search.read_base_offset(position)
        if self._search.last_offset >= wanted_end - 1 or following >= wanted_end:
            self.is_done, self.next_base = True, following
        else:
            self._limit = self._split.segment_size

    def _read_batches(self, buffer: Bytes, start: int, end: int) -> Generator[Chunk, None, int | None]:
        """Yields chunks of the batches in `buffer`, the bytes from `start` to `end` of the file.

        It returns the position where reading goes on. That is None where no more rows are wanted, and `start` where the
        batch there needs more bytes. After damage, the next batch is looked for in these bytes first. To read them
        again for each damaged batch would be quadratic.
        """
        at: int | None = start
        while at is not None and at < end:
            before, limit = self._search.last_offset, self._offset_limit
            count = batch_proof.prove_batches(
                buffer[at - start : end - start],
                at,
                self._check_crcs,
                before,
                limit,
                self._table,
                self._bad,
                self._report,
            )
            why, at = yield from self._find_sound_batches(buffer, start, count, at)
            if why is Why.NO_MORE_WANTED:
                return None
            if why is Why.IS_STALE:
                break
            if why is Why.PASSED_DAMAGE or self._report[batch_headers.STOPPED_BY] == batch_headers.USED_UP:
                continue
            if self._report[batch_headers.STOPPED_BY] == batch_headers.INCOMPLETE and at > start:
                break
            stuck_at, at = at, self._pass_missing_batch(at, buffer[at - start : end - start][: kafka_format.MAGIC_END])
            if at == stuck_at:
                break
        return at

    def _find_sound_batches(self, buffer: Bytes, start: int, count: int, at: int) -> Generator[Chunk, None, Outcome]:
        """Yields chunks of the sound ones among `count` batches of the table, which begin at position `at`."""
        headers, bad = self._table[:, :count], self._bad[:count]
        is_in_order = bool(self._report[batch_proof.IN_ORDER]) and at != self._belief.skipped.end
        while headers.shape[1]:
            fault = None if is_in_order else self._belief.find_first_fault(headers, bad, buffer, start)
            good = headers if fault is None else headers[:, : fault[0]]
            wanted, more = self.count_wanted(good)
            if not more and fault is not None and self._belief.is_end_in_doubt(headers, fault[0]):
                more = True
            if wanted:
                yield Chunk(buffer, good[:, :wanted], start)
            if not more:
                self.end_before(good, wanted)
                return _NO_MORE
            if good.shape[1]:
                self._belief.note(good)
                at = end_of(good)
            if fault is None:
                break
            size = int(headers[batch_headers.SIZE, fault[0]])
            seen = buffer[at - start : at - start + size]
            is_tail, after = self._tail.look_at(at, seen) if bad[fault[0]] else (False, None)
            if is_tail:
                return _NO_MORE if after is None else Outcome(Why.IS_STALE, after)
            after = self._pass_damage(fault[1], at, size)
            if after is None:
                return _NO_MORE
            at = after
            column = int(np.searchsorted(headers[batch_headers.POSITION], at))
            if column == headers.shape[1]:
                return Outcome(Why.WALK_STOPPED if at == end_of(headers) else Why.PASSED_DAMAGE, at)
            if headers[batch_headers.POSITION, column] != at:
                return Outcome(Why.PASSED_DAMAGE, at)
            first, last = headers[[batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET], column - 1].tolist()
            self._belief.skipped = Skipped(at, first, last, not bad[column - 1])
            headers, bad = headers[:, column:], bad[column:]
        return Outcome(Why.WALK_STOPPED, at)

    def count_wanted(self, headers: HeaderTable) -> tuple[int, bool]:
        """Counts the batches before the end of the wanted rows. The second value is True if that end lies further on.

        The end is the first batch past the offset bounds, or the batch after a witness (`disorder.py`). headers: their
        offsets grow.
        """
        count = headers.shape[1]
        end = self._split.bounds.offsets.end
        if count and headers[batch_headers.LAST_OFFSET, -1] >= end - 1:
            count = _count_before(headers, end)
        stop = self._split.stop_timestamp
        if stop is not None and self._check_crcs:
            magics, attributes, records, latest = headers[_WITNESS_FIELDS]
            proves = is_witness(magics, attributes, records, latest, stop)
            if proves[:count].any():
                return int(np.argmax(proves)) + 1, False
        return count, count == headers.shape[1]

    def end_before(self, headers: HeaderTable, count: int) -> None:
        """Notes that of these batches `count` are wanted, and that no wanted row follows them."""
        self.is_done = True
        if count < headers.shape[1]:
            self.next_base = int(headers[batch_headers.BASE_OFFSET, count])

    # ---- where no whole batch is ----

    def _pass_missing_batch(self, position: int, seen: Bytes) -> int | None:
        """Finds where to go on if no whole batch begins at `position`.

        It returns `position` if more bytes are needed there, a later position, or None. seen: the first bytes that were
        read at `position`.
        """
        stopped_by = int(self._report[batch_headers.STOPPED_BY])
        needed = int(self._report[batch_headers.FOUND]) if stopped_by == batch_headers.INCOMPLETE else 0
        size = self._split.segment_size
        if stopped_by != batch_headers.INCOMPLETE:
            is_tail, after = self._tail.look_at(position, seen)
            if is_tail:
                return after
        if stopped_by == batch_headers.INCOMPLETE and position + needed <= size:
            if needed <= self._max_batch_bytes:
                self._limit = max(self._limit, position + needed)
                return position
            error = self._faults.too_large(position, needed, self._max_batch_bytes)
        elif stopped_by == batch_headers.INCOMPLETE:
            error = self._faults.cut_short(position, size - position, needed)
            following = self._search.find_next_batch(position + 1) if not self._split.was_rolled else None
            if not self._split.was_rolled and following is None and self._search.effort > 0:
                return None  # a torn tail
            if following is not None:
                return self._report_skipped(error, following)
        elif stopped_by == batch_headers.BAD_MAGIC and self._search.has_batch_at(position):
            return self._pass_newer_batch(position)
        else:
            error = self._faults.bad_header(position, stopped_by, int(self._report[batch_headers.FOUND]))
            if stopped_by in (
                batch_headers.BAD_COUNT,
                batch_headers.BAD_LAST_OFFSET,
            ):  # whole by its length, which may be right
                needed = self._search.read_claimed_size(position)
        return self._pass_damage(error, position, needed)

    def _pass_newer_batch(self, position: int) -> int | None:
        """Finds where to go on after a whole batch of a newer magic.

        Such a batch ends the query, unless it holds no wanted row. Its first offset and the next batch's prove that.
        """
        wanted = self._split.bounds.offsets
        first, after = self._search.read_base_offset(position), position + self._search.read_claimed_size(position)
        if self._search.last_offset >= wanted.end - 1 or first >= wanted.end:
            self.is_done = True
            return None
        if self._search.has_batch_at(after) and self._search.read_base_offset(after) <= wanted.start:
            return after
        magic = self._file.read_at(position + kafka_format.MAGIC_AT, 1)[0]
        return self._report_skipped(self._faults.newer_magic(position, first, magic), after)

    def _pass_damage(self, error: DataError, position: int, claimed_size: int) -> int | None:
        """Finds where to go on after damage at `position`: at the next proven batch, or None if there is none."""
        self._damage.allow(error)
        self._search.effort -= min(claimed_size, self._split.segment_size - position)
        if self._search.effort < 0:
            return self._report_skipped(error, None)
        end = position + claimed_size
        if claimed_size and self._search.has_batch_at(end):
            return self._report_skipped(error, self._search.find_swallowed(position, end) or end)
        return self._report_skipped(error, self._search.find_next_batch(position + 1))

    def _report_skipped(self, error: DataError, following: int | None) -> int | None:
        """Raises `error`, or reports that the bytes from its position are skipped.

        They are skipped up to `found`; None: to the end of the file. It returns `found`.
        """
        self._damage.allow(error)
        self._damage.skip(error, self._split.segment_size if following is None else following)
        return following


def most_headers(split: SegmentSplit) -> int:
    """Returns how many headers a table for this split has room for: few where segments are small."""
    most = (split.segment_size - split.start) // (kafka_format.LOG_OVERHEAD + kafka_format.MIN_LENGTH_V0) + 1
    return min(_HEADERS, max(most, 1))


def _count_before(headers: HeaderTable, end: int) -> int:
    """Counts the batches before the first one that is past the offset `end` (exclusive)."""
    # A wrapper states only its last offset. But a batch after the last wanted offset is past, whatever it is.
    past = ~is_wrapper(headers) & (headers[batch_headers.BASE_OFFSET] >= end)
    past[1:] |= headers[batch_headers.LAST_OFFSET, :-1] >= end - 1
    return int(np.argmax(past)) if past.any() else headers.shape[1]
