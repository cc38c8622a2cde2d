"""A byte range of a `.log` → chunks of whole batches whose headers are proven. This runs on executors.

Input: a planned split. Output: `Chunk`s. One chunk is in memory at a time; a larger batch is read whole, up to
maxBatchBytes. With checkCrcs, every batch in a chunk has the CRC that its header states. Its offsets continue the
order of offsets inside the segment.

Errors:

- CorruptRecordError for damage. The given `Damage` raises it, or reports it and skips the batch.
- UnsupportedFormatError for a wanted batch of a newer magic. It is raised in every mode.

`log_tail.py` decides where a log ends. `batch_search.py` finds the next batch after damage.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.batch_search import BatchSearch
from kafka_segment_source.decoding.damage import Damage
from kafka_segment_source.decoding.faults import Faults
from kafka_segment_source.decoding.header_table import is_wrapper
from kafka_segment_source.decoding.log_tail import LogTail
from kafka_segment_source.decoding.offset_order import (
    Disorder,
    find_disorder,
    is_misplaced,
    needs_witness,
    overlap,
    shows_gaps,
)
from kafka_segment_source.decoding.split import BatchPlace, SegmentSplit
from kafka_segment_source.errors import DataError
from kafka_segment_source.kernels import batch_headers, batch_proof
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.checksums import crc_of
from kafka_segment_source.logdir.offset_proof import limit_of
from kafka_segment_source.pruning.disorder import is_witness
from kafka_segment_source.storage.files import Bytes, InputFile
from kafka_segment_source.trust import Trust

CHUNK_BYTES = 2 * 1024 * 1024  # a chunk, and the columns made of it, fit into the processor's caches
_HEADERS = 16384  # batches in a chunk at most
_WITNESSES = 64  # batches behind damage that are at hand, to look at before the file is searched

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


class _Skipped(NamedTuple):
    """The batch that was left out right before some others.

    end: the position after it.
    first, last: the offsets that it states.
    is_whole: whether it has the CRC that it states.
    """

    end: int = -1
    first: int = -1
    last: int = -1
    is_whole: bool = False


class BatchReader:
    """Reads one split's byte range chunk by chunk.

    last: the last batch that was believed; None before the first one. is_done: whether the reader has proof that no
    wanted row follows. It is False where only the range or the log ended.
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
        self.last: BatchPlace | None = None
        self.is_done = False
        self._believed_end = (
            0  # the position after the last batch that was believed; 0: the offset before byte 0 is known
        )
        self._skipped = _Skipped()
        self._limit = split.end  # no byte after it is read, unless a batch begins before it and ends after it
        self._offset_limit = limit_of(split.base_offset, split.next_base_offset)  # exclusive, of the segment
        self._search = BatchSearch(file, split, trust.max_batch_bytes)
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
        self._note_believed(headers)

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
        if self._search.last_offset >= wanted_end - 1 or self._search.read_base_offset(position) >= wanted_end:
            self.is_done = True
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
        is_in_order = bool(self._report[batch_proof.IN_ORDER]) and at != self._skipped.end
        while headers.shape[1]:
            fault = None if is_in_order else self._find_first_fault(headers, bad, buffer, start)
            good = headers if fault is None else headers[:, : fault[0]]
            wanted, more = self.count_wanted(good)
            if not more and fault is not None and self._is_end_in_doubt(headers, fault[0]):
                more = True
            if wanted:
                yield Chunk(buffer, good[:, :wanted], start)
            if not more:
                self.is_done = True
                return _NO_MORE
            if good.shape[1]:
                self._note_believed(good)
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
            self._skipped = _Skipped(at, first, last, not bad[column - 1])
            headers, bad = headers[:, column:], bad[column:]
        return Outcome(Why.WALK_STOPPED, at)

    def _is_end_in_doubt(self, headers: HeaderTable, at: int) -> bool:
        """Whether the batch that ends the wanted offsets leaves a gap before it, and batch `at`, the first one that is
        out of order behind it, states wanted offsets: then either of them may be wrong (`offset_proof.py`)."""
        end = self._split.bounds.offsets.end
        base, last, before = headers[[batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET, batch_headers.AFTER]]
        reaching = int(np.argmax(last[:at] >= end - 1))
        return bool(base[reaching] > before[reaching] + 1 and base[reaching] >= end and base[at] < end)

    def _note_believed(self, headers: HeaderTable) -> None:
        """Notes that these batches are believed. There is at least one."""
        last = headers[:, -1].tolist()
        self._believed_end = last[batch_headers.POSITION] + last[batch_headers.SIZE]
        self._search.last_offset = last[batch_headers.LAST_OFFSET]
        self.last = BatchPlace(last[batch_headers.POSITION], last[batch_headers.BASE_OFFSET], last[batch_headers.CRC])

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

    # ---- what may be believed ----

    def _find_first_fault(
        self, headers: HeaderTable, bad: npt.NDArray[np.bool_], data: Bytes, start: int
    ) -> tuple[int, DataError] | None:
        """Finds the first batch that cannot be believed: its column and the error.

        bad: the batches with a wrong CRC. start: where data[0] lies in the file.
        """
        first = int(bad.argmax())
        count = first if bad[first] else headers.shape[1]
        before, limit = self._search.last_offset, self._offset_limit
        if self.last is None and self._split.start and self._is_borne_out(headers):
            before = max(before, int(headers[batch_headers.BASE_OFFSET, 0]) - 1)
        following = limit
        good = headers[:, :count]
        is_before_damage = False
        if count and needs_witness(good, self._search.last_offset):
            earlier = int(headers[batch_headers.LAST_OFFSET, count - 2]) if count > 1 else before
            is_before_damage = count < headers.shape[1]
            later = _find_later_offset(headers[:, count:], bad[count:], earlier)
            if later is None:
                next_position = self._search.find_following(end_of(good), earlier)
                later = limit if next_position is None else self._search.read_base_offset(next_position)
                is_before_damage = is_before_damage or next_position != end_of(good)
            following, is_before_damage = later, is_before_damage and later != limit
        is_behind_damage = int(headers[batch_headers.POSITION, 0]) != self._believed_end
        wrong = find_disorder(good, before, limit, following, is_behind_damage)
        if count > 1 and (wrong is None or (wrong.column == 1 and overlap(good))):
            wrong = self._doubt_first(headers, count, before) or wrong
        if wrong is None and count and headers[batch_headers.POSITION, 0] == self._skipped.end:
            wrong = self._doubt_behind_skipped(headers)
        if wrong is None and is_before_damage:
            wrong = self._doubt_last(good, earlier, following)
            after = self._read_following(headers, count - 1)
            if wrong is None and after is not None and is_misplaced(headers, count - 1, earlier, after):
                wrong = Disorder(count - 1, earlier + 1, after - 1)
        if wrong is not None:
            fields = [batch_headers.POSITION, batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET]
            place, base, last = headers[fields, wrong.column].tolist()
            return wrong.column, self._faults.out_of_order(place, (base, last), (wrong.first, wrong.last))
        if count == headers.shape[1]:
            return None
        size, magic, stated, position, offset = headers[
            [
                batch_headers.SIZE,
                batch_headers.MAGIC,
                batch_headers.CRC,
                batch_headers.POSITION,
                batch_headers.BASE_OFFSET,
            ],
            count,
        ].tolist()
        crc = crc_of(memoryview(data[position - start : position - start + size]), magic)  # type: ignore[arg-type]
        return count, self._faults.bad_crc(position, offset, crc, stated)

    def _is_borne_out(self, headers: HeaderTable) -> bool:
        """Whether the first batch of a range inside the file has its offset from more than its own header.

        The plan begins at a batch that its neighbours bear out. The batch after it may be damaged: a number that fits
        is no accident. A wrapper of magic 0 or 1 states only its last offset.
        """
        if headers[batch_headers.MAGIC, 0] != kafka_format.MAGIC_V2:
            return False
        base, last = headers[[batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET], 0].tolist()
        return bool(base == self._split.bounds.offsets.start or self._read_following(headers, 0) == last + 1)

    def _read_following(self, headers: HeaderTable, at: int) -> int | None:
        """Returns the first offset that the batch after batch `at` states, also where the table or the range ends.

        None if there is none, or if it is a wrapper of magic 0 or 1, which states only its last offset.
        """
        if at + 1 < headers.shape[1]:
            magic, base = headers[[batch_headers.MAGIC, batch_headers.BASE_OFFSET], at + 1].tolist()
            return int(base) if magic == kafka_format.MAGIC_V2 else None
        header = self._file.read_at(end_of(headers), kafka_format.MAGIC_END)
        is_v2 = len(header) == kafka_format.MAGIC_END and header[kafka_format.MAGIC_AT] == kafka_format.MAGIC_V2
        return int.from_bytes(header[: kafka_format.LENGTH_AT], "big", signed=True) if is_v2 else None

    def _doubt_behind_skipped(self, headers: HeaderTable) -> Disorder | None:
        """Decides about the batch right behind one that was left out.

        If it states offsets of that one, and leaves a gap behind the batch before, the gap must have room for it.
        Without a gap, the one that was left out is foreign. A wrapper of magic 0 or 1 states only its last offset. As
        that one may be foreign in any case, only another copy is believed more.
        """
        skipped, after = self._skipped, self._read_following(headers, 0)
        if after is not None and is_misplaced(headers, 0, skipped.last, after):
            return Disorder(0, skipped.last + 1, after - 1)
        magic, first = headers[[batch_headers.MAGIC, batch_headers.BASE_OFFSET], 0].tolist()
        expected = self._search.last_offset + 1
        least = expected + skipped.last - skipped.first + 1
        is_in_gap = magic == kafka_format.MAGIC_V2 and expected < first < least
        is_either = self._split.copies and is_in_gap and skipped.is_whole and first <= skipped.last
        return Disorder(0, least, self._offset_limit - 1) if is_either else None

    def _doubt_first(self, headers: HeaderTable, count: int, before: int) -> Disorder | None:
        """Decides about a batch behind damage: in a file that shows no compaction, the batch after it begins where it
        ends. If there are other copies, they have it at the right place.

        headers: it and the batches after it. count: of those before the next damage, two or more. before: the last
        offset before the damage.
        """
        good = headers[:, :count]
        is_behind_damage = self.last is not None or not self._split.start
        if not self._split.copies or not is_behind_damage:
            return None
        fields = [batch_headers.POSITION, batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET, batch_headers.COUNT]
        (position, _), (base, following), (last, _), (records, _) = good[fields, :2].tolist()
        if position == self._believed_end or following == last + 1 or records != last - base + 1:
            return None
        if is_misplaced(headers, 1, last, self._read_following(headers, 1)):
            return None
        return None if shows_gaps(good[:, 2:]) else Disorder(0, before + 1, following - 1)

    def _doubt_last(self, good: HeaderTable, earlier: int, following: int) -> Disorder | None:
        """Decides about a batch between a gap and damage. In a file that shows no compaction, it stands at a wrong
        place. If there are other copies, they have it at the right one.

        good: the batches up to it; the rule before has filled in AFTER. earlier: the last offset before the gap.
        following: the offset of the next sound batch. An index entry decides nothing, as an index may be damaged too.
        """
        fields = [batch_headers.POSITION, batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET, batch_headers.COUNT]
        position, base, last, count = good[fields, -1].tolist()
        if good[batch_headers.MAGIC, -1] != kafka_format.MAGIC_V2:
            return None  # a wrapper states only its last offset, so every wrapper seems to leave a gap
        ends = end_of(good[:, :-1]) if good.shape[1] > 1 else self._believed_end
        first = 1 if self.last is None and self._split.start else 0  # what lies before the range is not known
        is_whole = not shows_gaps(good[:, first:-1]) and count == last - base + 1
        if self._split.copies and is_whole and position == ends:
            return Disorder(good.shape[1] - 1, earlier + 1, following - 1)
        return None

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
        if claimed_size and self._search.has_batch_at(position + claimed_size):
            return self._report_skipped(error, position + claimed_size)
        return self._report_skipped(error, self._search.find_next_batch(position + 1))

    def _report_skipped(self, error: DataError, following: int | None) -> int | None:
        """Raises `error`, or reports that the bytes from its position are skipped.

        They are skipped up to `found`; None: to the end of the file. It returns `found`.
        """
        self._damage.allow(error)
        self._damage.skip(error, self._split.segment_size if following is None else following)
        return following


def _find_later_offset(headers: HeaderTable, bad: npt.NDArray[np.bool_], before: int) -> int | None:
    """Returns the offset of the first sound batch above the offset `before`, of the next few batches. None if none is.

    bad: the batches with a wrong CRC.
    """
    bases = headers[batch_headers.BASE_OFFSET, :_WITNESSES]
    later = bases[~bad[:_WITNESSES] & (bases > before)]
    return int(later[0]) if len(later) else None


def most_headers(split: SegmentSplit) -> int:
    """Returns how many headers a table for this split has room for: few where segments are small."""
    most = (split.segment_size - split.start) // (kafka_format.LOG_OVERHEAD + kafka_format.MIN_LENGTH_V0) + 1
    return min(_HEADERS, max(most, 1))


def end_of(headers: HeaderTable) -> int:
    """The position after the last of these batches."""
    return int(headers[batch_headers.POSITION, -1] + headers[batch_headers.SIZE, -1])


def _count_before(headers: HeaderTable, end: int) -> int:
    """Counts the batches before the first one that is past the offset `end` (exclusive)."""
    # A wrapper states only its last offset. But a batch after the last wanted offset is past, whatever it is.
    past = ~is_wrapper(headers) & (headers[batch_headers.BASE_OFFSET] >= end)
    past[1:] |= headers[batch_headers.LAST_OFFSET, :-1] >= end - 1
    return int(np.argmax(past)) if past.any() else headers.shape[1]
