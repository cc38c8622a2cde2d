"""A byte range of a `.log` → chunks of whole batches whose headers are proven. This runs on executors.

Input: a planned split. Output: `Chunk`s. One chunk is in memory at a time; a larger batch is read whole, up to
maxBatchBytes. With checkCrcs, every batch in a chunk has the CRC that its header states. Its offsets continue the
order of offsets inside the segment.

Errors:

- CorruptRecordError for damage. The given `Damage` raises it, or reports it and skips the batch.
- UnsupportedFormatError for a wanted batch of a newer magic. It is raised in every mode.

Where a log ends: the last segment may end in a torn batch, because a broker writes there or has died. It may also end
in zeros, which are preallocated space. Both end the log without an error, if no other bytes follow. In the middle of a
log, or before another whole batch, both are damage, since Kafka trims a segment when it rolls.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafka_segment_source import format as fmt
from kafka_segment_source.decoding.damage import Damage
from kafka_segment_source.decoding.faults import Faults
from kafka_segment_source.decoding.split import BatchPlace, SegmentSplit
from kafka_segment_source.errors import DataError
from kafka_segment_source.kernels import crc32
from kafka_segment_source.kernels import headers as h
from kafka_segment_source.logdir.checksums import crc32cs, crc_holds, crc_of
from kafka_segment_source.pruning.disorder import is_witness
from kafka_segment_source.storage.files import Bytes, InputFile, pause
from kafka_segment_source.trust import Trust

CHUNK_BYTES = 2 * 1024 * 1024  # a chunk, and the columns made of it, fit into the processor's caches
_HEADERS = 16384  # batches in a chunk at most
_RELATIVE_OFFSETS = 2**31  # an index file has 31 bits for an offset above the base, so Kafka rolls a segment before
# The search for the next whole batch after damage computes a CRC for every place that looks like a batch. Budget for
# one range: 8 × segment size + 64 MiB of CRC work. Then the rest is skipped. Without it, crafted bytes make the search
# quadratic.
_SEARCH_EFFORT = 8
_LEAST_EFFORT = 64 * 1024 * 1024
_LOOKS = 8  # reads of a log end that a broker writes to; pauses of 30 ms in all follow where a batch is only begun
_UNWRITTEN = 8  # zeros at the end of a batch that is only begun; fewer zeros may belong to its last record
_FIRST_WINDOW = 4096  # bytes of the first search: the next batch is mostly near
_LOOK = 1024  # the least cost of a look at one place, in bytes of CRC work

# A batch with a magic above 2 may be of a newer format. It counts as one if it has a right CRC at the place where magic
# 2 has it. This proves where the batch ends, and that its bytes are as written, except for the magic byte. The CRC does
# not cover that byte. So a batch of magic 2 with one flipped bit in the magic byte looks like a newer format.
# Therefore the magics that one flipped bit can make are damage, except for 3. That is the number of the next format.
# To skip good records would be worse than to refuse a damaged batch. A newer format that has its CRC elsewhere looks
# like damage.
_NEXT_MAGIC = fmt.MAGIC_V2 + 1
_FLIPPED_MAGICS = frozenset({fmt.MAGIC_V2 ^ 1 << bit for bit in range(8)} - {fmt.MAGIC_V0, _NEXT_MAGIC})

HeaderTable = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole batches. `headers` (int64[FIELDS, n], kernels.headers) describe the batches in `data`.

    position: where byte 0 of `data` lies in the file. The next chunk uses both arrays again: copy what you need before
    you ask for it.
    """

    data: Bytes
    headers: HeaderTable
    position: int


_WITNESS_FIELDS = [h.MAGIC, h.ATTRIBUTES, h.COUNT, h.MAX_TIMESTAMP]


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
    ) -> None:
        self._file = file
        self._split = split
        self._check_crcs = trust.check_crcs
        self._max_batch_bytes = trust.max_batch_bytes
        self._damage = damage
        self._faults = Faults(split.path)
        self._chunk_bytes = chunk_bytes
        self.last: BatchPlace | None = None
        self.is_done = False
        self._is_stale = False  # the bytes at hand are older than those in the file
        self._written_at = -1
        self._zero_end: bool | None = None
        self._limit = split.end  # no byte after it is read, unless a batch begins before it and ends after it
        self._last_offset = split.base_offset - 1
        self._effort = _SEARCH_EFFORT * split.segment_size + _LEAST_EFFORT
        most = (split.segment_size - split.start) // (fmt.LOG_OVERHEAD + fmt.MIN_LENGTH_V0) + 1
        self._table = np.empty(
            (h.FIELDS, min(_HEADERS, max(most, 1))), np.int64
        )  # a small one where segments are small
        self._report = np.zeros(2, np.int64)

    def chunks(self) -> Iterator[Chunk]:
        """Yields the chunks of the range, in order. It ends where the range, its offsets or the log end."""
        buffer = np.empty(min(self._chunk_bytes, max(self._limit - self._split.start, fmt.BATCH_OVERHEAD)), np.uint8)
        position: int | None = self._split.start
        while position is not None and not self._is_past_range(position):
            count = min(len(buffer), self._limit - position)
            self._file.read_into(position, buffer[:count])
            before, position = position, (yield from self._read_batches(buffer, position, position + count))
            if position is not None:
                self._effort -= max(before + count - position, 0)  # bytes that are read a second time
            if position == before and self._report[h.FOUND] > len(buffer):  # one batch needs more room
                buffer = np.empty(int(self._report[h.FOUND]), np.uint8)

    def _is_past_range(self, position: int) -> bool:
        """Whether reading ends at `position`."""
        if self._limit <= position < self._split.segment_size:
            self._go_past_end(position)
        return position >= self._limit

    def _go_past_end(self, position: int) -> None:
        """Extends the range to the end of the file, unless the batch there proves that no wanted row follows."""
        wanted_end = self._split.bounds.offsets.end
        if self._last_offset >= wanted_end - 1 or self._read_base_offset(position) >= wanted_end:
            self.is_done = True
        else:
            self._limit = self._split.segment_size

    def _read_base_offset(self, position: int) -> int:
        """Reads the base offset that the bytes at `position` state, without proof; -1 where the file has ended."""
        data = self._file.read_at(position, fmt.LENGTH_AT)
        return int.from_bytes(data, "big", signed=True) if len(data) == fmt.LENGTH_AT else -1

    def _read_batches(self, buffer: Bytes, start: int, end: int) -> Generator[Chunk, None, int | None]:
        """Yields chunks of the batches in `buffer`, the bytes from `start` to `end` of the file.

        It returns the position where reading goes on. That is None where no more rows are wanted, and `start` where the
        batch there needs more bytes. After damage, the next batch is looked for in these bytes first. To read them
        again for each damaged batch would be quadratic.
        """
        at: int | None = start
        while at is not None and at < end:
            here = buffer[at - start : end - start]
            headers = self._table[:, : h.walk_headers(here, len(here), at, self._table, self._report)]
            at, stuck = yield from self._find_sound_batches(buffer, start, headers, at)
            if self._is_stale:
                self._is_stale = False
                break
            if at is None or not stuck or self._report[h.STOPPED_BY] == h.USED_UP:
                continue
            if self._report[h.STOPPED_BY] == h.INCOMPLETE and at > start:
                break
            stuck_at, at = at, self._pass_missing_batch(at, buffer[at - start : end - start][: fmt.MAGIC_END])
            if at == stuck_at:
                break
        return at

    def _find_sound_batches(
        self, buffer: Bytes, start: int, headers: HeaderTable, at: int
    ) -> Generator[Chunk, None, tuple[int | None, bool]]:
        """Yields chunks of the sound batches among `headers`, which begin at position `at`.

        It returns where to go on (None: nowhere), and whether the walk over the headers stopped at that place.
        """
        bad = self._find_bad_crcs(buffer, start, headers)
        while headers.shape[1]:
            fault = self._find_first_fault(headers, bad, buffer, start)
            good = headers if fault is None else headers[:, : fault[0]]
            wanted, more = self._count_wanted(good)
            if wanted:
                yield Chunk(buffer, good[:, :wanted], start)
            if not more:
                self.is_done = True
                return None, False
            if good.shape[1]:
                self._last_offset = int(good[h.LAST_OFFSET, -1])
                self.last = BatchPlace(*good[[h.POSITION, h.BASE_OFFSET, h.CRC], -1].tolist())
                at = int(good[h.POSITION, -1] + good[h.SIZE, -1])
            if fault is None:
                break
            size = int(headers[h.SIZE, fault[0]])
            seen = buffer[at - start : at - start + size]
            is_tail, after = self._look_at_tail(at, seen) if bad[fault[0]] else (False, None)
            if is_tail:
                self._is_stale = after is not None
                return after, False
            after = self._pass_damage(fault[1], at, size)
            if after is None:
                return None, False
            at = after
            column = int(np.searchsorted(headers[h.POSITION], at))
            if column == headers.shape[1]:
                return at, at == int(headers[h.POSITION, -1] + headers[h.SIZE, -1])
            if headers[h.POSITION, column] != at:
                return at, False
            headers, bad = headers[:, column:], bad[column:]
        return at, True

    def _count_wanted(self, headers: HeaderTable) -> tuple[int, bool]:
        """Counts the batches before the end of the wanted rows. The second value is True if that end lies further on.

        The end is the first batch past the offset bounds, or the batch after a witness (`disorder.py`).
        """
        count = headers.shape[1]
        is_v2 = headers[h.MAGIC] == fmt.MAGIC_V2
        end = self._split.bounds.offsets.end
        is_wrapper = ~is_v2 & (headers[h.ATTRIBUTES] & fmt.CODEC_MASK != fmt.CODEC_NONE)
        past = ~is_wrapper & (headers[h.BASE_OFFSET] >= end)  # a wrapper states only its last offset ...
        past[1:] |= headers[h.LAST_OFFSET, :-1] >= end - 1  # ... but a batch after the last wanted offset is past
        if past.any():
            count = int(np.argmax(past))
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

        No checksum covers a batch's offset. If one batch jumps ahead and the next one steps back behind it, the first
        one is wrong. If it were believed, every batch up to its offset would be lost.
        """
        count = int(np.argmax(bad)) if bad.any() else headers.shape[1]
        base, last = headers[h.BASE_OFFSET, :count], headers[h.LAST_OFFSET, :count]
        before = headers[h.AFTER, :count]
        before[:1] = self._last_offset
        before[1:] = last[:-1]
        limit = fmt.MAX_OFFSET if self._split.next_base_offset is None else self._split.next_base_offset
        following = np.full(count, limit, np.int64)
        following[:-1] = base[1:]
        if 0 < count == headers.shape[1] and base[-1] > before[-1] + 1:
            following[-1] = self._read_proven_offset(int(headers[h.POSITION, -1] + headers[h.SIZE, -1]), limit)
        jumped = (base > before + 1) & (following <= last) & (following > before)
        fits = following - before == last - base + 2  # without the jump it would exactly fill the gap before it
        jumped &= (following != base) | fits  # otherwise the next batch repeats this one
        wrong = (base <= before) | (last >= limit) | jumped
        if wrong.any():
            at = int(np.argmax(wrong))
            to = int(following[at]) if jumped[at] else limit
            place, offsets = int(headers[h.POSITION, at]), (int(base[at]), int(last[at]))
            return at, self._faults.out_of_order(place, offsets, (int(before[at]) + 1, to - 1))
        if count == headers.shape[1]:
            return None
        size, magic, stated, position, offset = headers[
            [h.SIZE, h.MAGIC, h.CRC, h.POSITION, h.BASE_OFFSET], count
        ].tolist()
        crc = crc_of(memoryview(data[position - start : position - start + size]), magic)  # type: ignore[arg-type]
        return count, self._faults.bad_crc(position, offset, crc, stated)

    def _read_proven_offset(self, position: int, otherwise: int) -> int:
        """Reads the offset of the batch at `position`. Where no proven batch begins there, it returns `otherwise`."""
        if not self._has_batch_at(position):
            return otherwise
        return int.from_bytes(self._file.read_at(position, fmt.LENGTH_AT), "big", signed=True)

    def _find_bad_crcs(self, data: Bytes, position: int, headers: HeaderTable) -> npt.NDArray[np.bool_]:
        """Marks the batches whose bytes do not have the stated CRC. position: where data[0] lies in the file."""
        bad = np.zeros(headers.shape[1], np.bool_)
        if not self._check_crcs:
            return bad
        recent = headers[h.MAGIC] == fmt.MAGIC_V2
        starts = headers[h.POSITION, recent] - position
        bad[recent] = crc32cs(data, starts, starts + headers[h.SIZE, recent]) != headers[h.CRC, recent]
        if not recent.all():
            crc32.bad_crc32s(data, position, headers, bad)
        return bad

    # ---- where no whole batch is ----

    def _pass_missing_batch(self, position: int, seen: Bytes) -> int | None:
        """Finds where to go on if no whole batch begins at `position`.

        It returns `position` if more bytes are needed there, a later position, or None. seen: the first bytes that were
        read at `position`.
        """
        stopped_by = int(self._report[h.STOPPED_BY])
        needed = int(self._report[h.FOUND]) if stopped_by == h.INCOMPLETE else 0
        size = self._split.segment_size
        if stopped_by != h.INCOMPLETE:
            is_tail, after = self._look_at_tail(position, seen)
            if is_tail:
                return after
        if stopped_by == h.INCOMPLETE and position + needed <= size:
            if needed <= self._max_batch_bytes:
                self._limit = max(self._limit, position + needed)
                return position
            error = self._faults.too_large(position, needed, self._max_batch_bytes)
        elif stopped_by == h.INCOMPLETE:
            error = self._faults.cut_short(position, size - position, needed)
            found = self._find_next_batch(position + 1) if self._split.next_base_offset is None else None
            if self._split.next_base_offset is None and found is None and self._effort > 0:
                return None  # a torn tail
            if found is not None:
                return self._report_skipped(error, found)
        elif stopped_by == h.BAD_MAGIC and self._has_batch_at(position):
            return self._pass_newer_batch(position)
        else:
            error = self._faults.bad_header(position, stopped_by, int(self._report[h.FOUND]))
            if stopped_by in (h.BAD_COUNT, h.BAD_LAST_OFFSET):  # whole by its length, which may be right
                needed = self._read_claimed_size(position)
        return self._pass_damage(error, position, needed)

    def _pass_newer_batch(self, position: int) -> int | None:
        """Finds where to go on after a whole batch of a newer magic.

        Such a batch ends the query, unless it holds no wanted row. Its first offset and the next batch's prove that.
        """
        wanted = self._split.bounds.offsets
        first, after = self._read_base_offset(position), position + self._read_claimed_size(position)
        if self._last_offset >= wanted.end - 1 or first >= wanted.end:
            self.is_done = True
            return None
        if self._has_batch_at(after) and self._read_base_offset(after) <= wanted.start:
            return after
        magic = self._file.read_at(position + fmt.MAGIC_AT, 1)[0]
        return self._report_skipped(self._faults.newer_magic(position, first, magic), after)

    def _read_claimed_size(self, position: int) -> int:
        """Reads how many bytes the batch at `position` has, by its length field."""
        length = self._file.read_at(position + fmt.LENGTH_AT, fmt.LOG_OVERHEAD - fmt.LENGTH_AT)
        return int.from_bytes(length, "big") + fmt.LOG_OVERHEAD

    def _look_at_tail(self, position: int, seen: Bytes) -> tuple[bool, int | None]:
        """Whether a log's last segment legally ends at `position`, where no whole batch was; and where to go on.

        The log may end there in two cases. Either zeros follow, which are preallocated space. Or a broker is writing
        there: the bytes are no longer those that were `seen`. If a whole batch is now there, reading goes on at it; a
        position gets this answer once only. Where zeros reach into a batch, a broker may be about to write its end, so
        this waits a little. After that it is damage.
        """
        if self._split.next_base_offset is not None:
            return False, None
        for look in range(_LOOKS):  # a broker may write between two of these reads
            if self._file.read_at(position, len(seen)) != seen.tobytes():
                is_whole = self._written_at != position and self._has_batch_at(position)
                self._written_at = position
                return True, position if is_whole else None
            if self._zero_end is False:
                break
            if self._ends_in_zeros():
                if self._is_zero_to_end(position):
                    return True, None
                if self._is_only_begun(position):
                    pause(look)
        return False, None

    def _is_only_begun(self, position: int) -> bool:
        """Whether preallocated zeros reach into the end of the batch at `position`, and nothing but zeros follows."""
        header = self._file.read_at(position, fmt.LOG_OVERHEAD)
        length = int.from_bytes(header[fmt.LENGTH_AT :], "big", signed=True)
        after = position + (length + fmt.LOG_OVERHEAD if length >= fmt.MIN_LENGTH_V0 else fmt.MAGIC_END)
        return after < self._split.segment_size and self._is_zero_to_end(after - _UNWRITTEN)

    def _ends_in_zeros(self) -> bool:
        """Whether the file ended in zeros at the first call."""
        if self._zero_end is None:
            at = max(self._split.segment_size - _UNWRITTEN, 0)
            self._zero_end = not any(self._file.read_at(at, _UNWRITTEN))
        return self._zero_end

    def _is_zero_to_end(self, position: int) -> bool:
        window = _FIRST_WINDOW
        while position < self._split.segment_size:
            block = self._file.read_at(position, min(window, self._split.segment_size - position))
            if not block or block != bytes(len(block)):  # five times as fast as to count the zeros
                return not block
            position += len(block)
            window = min(2 * window, CHUNK_BYTES)
        return True

    def _pass_damage(self, error: DataError, position: int, claimed_size: int) -> int | None:
        """Finds where to go on after damage at `position`: at the next proven batch, or None if there is none."""
        self._damage.allow(error)
        self._effort -= min(claimed_size, self._split.segment_size - position)
        if self._effort < 0:
            return self._report_skipped(error, None)
        if claimed_size and self._has_batch_at(position + claimed_size):
            return self._report_skipped(error, position + claimed_size)
        return self._report_skipped(error, self._find_next_batch(position + 1))

    def _report_skipped(self, error: DataError, found: int | None) -> int | None:
        """Raises `error`, or reports that the bytes from its position are skipped.

        They are skipped up to `found`; None: to the end of the file. It returns `found`.
        """
        self._damage.allow(error)
        self._damage.skip(error, self._split.segment_size if found is None else found)
        return found

    def _find_next_batch(self, position: int) -> int | None:
        """Finds the first position ≥ `position` of a whole batch that continues this log, by header and CRC."""
        size = self._split.segment_size
        end_offset = self._find_offset_limit()
        window = _FIRST_WINDOW
        while size - position >= fmt.LOG_OVERHEAD + fmt.MIN_LENGTH_V0:
            buffer = np.empty(min(window, size - position), np.uint8)
            self._file.read_into(position, buffer)
            at = h.find_batch(buffer, 0, len(buffer), self._last_offset + 1, end_offset)
            while at >= 0:
                if self._has_batch_at(position + at):
                    return int(position + at)
                if self._effort < 0:
                    return None
                at = h.find_batch(buffer, at + 1, len(buffer), self._last_offset + 1, end_offset)
            if len(buffer) == size - position:
                return None
            position += len(buffer) - fmt.BATCH_OVERHEAD + 1
            window = min(2 * window, CHUNK_BYTES)
        return None

    def _find_offset_limit(self) -> int:
        """The exclusive bound of the segment's offsets. For the last segment: of the offsets that an index can hold."""
        following = self._split.next_base_offset
        return self._split.base_offset + _RELATIVE_OFFSETS if following is None else following

    def _has_batch_at(self, position: int) -> bool:
        """Whether a whole batch with a right CRC begins at `position` and continues this log.

        A batch of a newer magic counts too (see `_FLIPPED_MAGICS`). Each call reduces the budget of the search.
        """
        self._effort -= _LOOK
        header = self._file.read_at(position, fmt.BATCH_OVERHEAD)
        if len(header) < fmt.MAGIC_END:
            return False
        magic = header[fmt.MAGIC_AT]
        base = int.from_bytes(header[: fmt.LENGTH_AT], "big", signed=True)
        length = int.from_bytes(header[fmt.LENGTH_AT : fmt.LOG_OVERHEAD], "big", signed=True)
        fits = _smallest_length(magic) <= length <= self._split.segment_size - position - fmt.LOG_OVERHEAD
        if not fits or length > self._max_batch_bytes or base <= self._last_offset:
            return False
        self._effort -= length
        crc_at = fmt.CRC_AT if magic >= fmt.MAGIC_V2 else fmt.LEGACY_CRC_AT
        stored = int.from_bytes(header[crc_at : crc_at + 4], "big")
        return crc_holds(self._file.read_at(position, length + fmt.LOG_OVERHEAD), magic, stored)


def _smallest_length(magic: int) -> int:
    """The least length that a batch of this magic can state. It is larger than any length for an impossible magic."""
    if magic > fmt.LARGEST_MAGIC or magic in _FLIPPED_MAGICS:
        return 2**31
    if magic < fmt.MAGIC_V2:
        return fmt.MIN_LENGTH_V1 if magic == fmt.MAGIC_V1 else fmt.MIN_LENGTH_V0
    return fmt.MIN_BATCH_LENGTH
