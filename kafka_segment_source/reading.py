"""A byte range of a `.log` → chunks of whole batches whose headers may be believed. Executor side.

Comes in: a split, as planned. Goes out: `Chunk`s, at most a chunk's bytes in memory at a time (a larger batch is
read whole, up to maxBatchBytes). Every batch that goes out has held its CRC and continues the order of offsets
inside its segment. Raised, or reported and skipped, by the `Damage` given: CorruptRecordError.

Where a log ends. The last segment may end in a torn batch (a broker is writing, or died) or in zeros (preallocated
space): that ends the log quietly, if nothing but that follows. The same in the middle of a log, or before another
whole batch, is damage: Kafka trims a segment when it rolls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kafka_segment_source import format as fmt
from kafka_segment_source.checksums import crc_holds
from kafka_segment_source.errors import CorruptRecordError, DataError
from kafka_segment_source.files import Bytes, InputFile
from kafka_segment_source.kernels import crc32
from kafka_segment_source.kernels import headers as h
from kafka_segment_source.reporting import logger
from kafka_segment_source.splits import SegmentSplit

CHUNK_BYTES = 8 * 1024 * 1024
_HEADERS = 16384  # batches in a chunk at most
_RELATIVE_OFFSETS = 2**31  # index files name offsets by 31 bits above the base, so Kafka rolls a segment before
_SEARCH_EFFORT = 8  # searching past damage gives up after checksumming so many times the segment's size

HeaderTable = npt.NDArray[np.int64]


@dataclass(slots=True)
class Damage:
    """What to do with a damaged batch: end the query (FAILFAST), or say so and go on (DROPMALFORMED)."""

    drop: bool
    skipped: list[DataError] = field(default_factory=list)

    def __call__(self, error: DataError) -> None:
        self.allow(error)
        self.skipped.append(error)
        logger.warning("skipped (mode=DROPMALFORMED): %s", error)

    def allow(self, error: DataError) -> None:
        """Raises `error` where damage ends the query."""
        if not self.drop:
            raise error

    def skip(self, error: DataError, end: int) -> None:
        """Reports that nothing was read from where `error` is to the byte position `end`."""
        self.skipped.append(error)
        logger.warning("skipped up to byte %d (mode=DROPMALFORMED): %s", end, error)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole batches: `headers` (int64[FIELDS, n], kernels.headers) of batches in `data`, whose byte 0 is at `position`.

    Both arrays are used again for the next chunk: take what you need before asking for it.
    """

    data: Bytes
    headers: HeaderTable
    position: int


class BatchReader:
    """Reads one split's byte range chunk by chunk."""

    def __init__(
        self, file: InputFile, split: SegmentSplit, *, check_crcs: bool, max_batch_bytes: int, damage: Damage
    ) -> None:
        self._file = file
        self._split = split
        self._check_crcs = check_crcs
        self._max_batch_bytes = max_batch_bytes
        self._damage = damage
        self._limit = split.end  # nothing after is read, unless a batch that begins before reaches over it
        self._last_offset = split.base_offset - 1
        self._table = np.empty((h.FIELDS, _HEADERS), np.int64)
        self._report = np.zeros(3, np.int64)

    def chunks(self) -> Iterator[Chunk]:
        """The chunks of the range, in order; ends where the range, its offsets or the log end."""
        buffer = np.empty(min(CHUNK_BYTES, max(self._limit - self._split.start, fmt.BATCH_OVERHEAD)), np.uint8)
        position: int | None = self._split.start
        while position is not None and position < self._limit:
            count = min(len(buffer), self._limit - position)
            self._file.read_into(position, buffer[:count])
            whole = h.walk_headers(buffer, count, position, self._table, self._report)
            headers = self._table[:, :whole]
            fault = self._first_fault(buffer, position, headers)
            good = headers if fault is None else headers[:, : fault[0]]
            wanted, more = self._wanted(good)
            if wanted:
                yield Chunk(buffer, good[:, :wanted], position)
            if not more:
                return
            if good.shape[1]:
                self._last_offset = int(good[h.LAST_OFFSET, -1])
                position = int(good[h.POSITION, -1] + good[h.SIZE, -1])
            if fault is not None:
                position = self._after_damage(fault[1], position, int(headers[h.SIZE, fault[0]]))
            elif not good.shape[1]:
                needed = int(self._report[h.FOUND]) if self._report[h.STOPPED_BY] == h.INCOMPLETE else 0
                position = self._no_whole_batch(position, needed)
                if len(buffer) < needed <= self._max_batch_bytes:
                    buffer = np.empty(needed, np.uint8)

    def _wanted(self, headers: HeaderTable) -> tuple[int, bool]:
        """How many of these batches come before the end of what is wanted, and whether that end is not reached yet.

        The end is the first batch past the offset bounds, or whatever follows a witness (`disorder.py`).
        """
        count = headers.shape[1]
        is_v2 = headers[h.MAGIC] == fmt.MAGIC_V2
        end = self._split.bounds.offsets.end
        is_wrapper = ~is_v2 & (headers[h.ATTRIBUTES] & fmt.CODEC_MASK != fmt.CODEC_NONE)
        past = ~is_wrapper & (headers[h.BASE_OFFSET] >= end)  # a wrapper tells only its last offset ...
        past[1:] |= headers[h.LAST_OFFSET, :-1] >= end - 1  # ... but what follows the last wanted offset is past
        if past.any():
            count = int(np.argmax(past))
        stop = self._split.stop_timestamp
        if stop is not None and self._check_crcs:
            proves = is_v2 & (headers[h.ATTRIBUTES] & fmt.CONTROL_MASK == 0) & (headers[h.COUNT] > 0)
            proves &= headers[h.MAX_TIMESTAMP] >= stop
            if proves[:count].any():
                return int(np.argmax(proves)) + 1, False
        return count, count == headers.shape[1]

    # ---- what may be believed ----

    def _first_fault(self, data: Bytes, position: int, headers: HeaderTable) -> tuple[int, DataError] | None:
        """The first batch that may not be believed, by its column, and why."""
        fault = self._first_bad_crc(data, position, headers) if self._check_crcs else None
        count = headers.shape[1] if fault is None else fault[0]
        before = np.concatenate(([self._last_offset], headers[h.LAST_OFFSET, : max(count - 1, 0)]))[:count]
        limit = fmt.MAX_OFFSET if self._split.next_base_offset is None else self._split.next_base_offset
        wrong = (headers[h.BASE_OFFSET, :count] <= before) | (headers[h.LAST_OFFSET, :count] >= limit)
        if not wrong.any():
            return fault
        at = int(np.argmax(wrong))
        base, last = int(headers[h.BASE_OFFSET, at]), int(headers[h.LAST_OFFSET, at])
        expected = f"offsets from {int(before[at]) + 1} to {limit - 1}"
        return at, self._error("batch out of order", int(headers[h.POSITION, at]), base, f"{base} to {last}", expected)

    def _first_bad_crc(self, data: Bytes, position: int, headers: HeaderTable) -> tuple[int, DataError] | None:
        at = self._first_bad_crc32c(memoryview(data), position, headers)  # type: ignore[arg-type]  # arrays are buffers
        old = int(crc32.first_bad_crc32(data, position, headers[:, :at]))
        at = at if old < 0 else old
        if at == headers.shape[1]:
            return None
        what = "batch whose bytes do not have the CRC that its header states"
        expected = f"0x{int(headers[h.CRC, at]):08x}"
        found = int(headers[h.POSITION, at]), int(headers[h.BASE_OFFSET, at])
        return at, self._error(what, *found, "another CRC", expected)

    def _first_bad_crc32c(self, view: memoryview, position: int, headers: HeaderTable) -> int:
        """The first batch of magic 2 that does not hold its CRC, or how many batches there are."""
        recent = np.flatnonzero(headers[h.MAGIC] == fmt.MAGIC_V2)
        starts = (headers[h.POSITION, recent] - position).tolist()
        columns = zip(
            recent.tolist(), starts, headers[h.SIZE, recent].tolist(), headers[h.CRC, recent].tolist(), strict=True
        )
        for at, start, size, stored in columns:
            if not crc_holds(view[start : start + size], fmt.MAGIC_V2, stored):
                return int(at)
        return int(headers.shape[1])

    # ---- where no whole batch is ----

    def _no_whole_batch(self, position: int, needed: int) -> int | None:
        """Where to go on if no whole batch begins at `position`: there again with more bytes, further on, or None."""
        stopped_by = int(self._report[h.STOPPED_BY])
        size = self._split.segment_size
        if stopped_by == h.INCOMPLETE and position + needed <= size:
            if needed <= self._max_batch_bytes:
                self._limit = max(self._limit, position + needed)
                return position
            error = self._error(
                "batch larger than maxBatchBytes", position, None, f"{needed} bytes", f"at most {self._max_batch_bytes}"
            )
        elif stopped_by == h.INCOMPLETE:
            error = self._error("batch cut short", position, None, f"{size - position} bytes", f"{needed} bytes")
            if self._split.next_base_offset is None and self._search(position + 1) is None:
                return None  # a torn tail
        elif stopped_by == h.ZEROS:
            error = self._error(
                "zeros where a batch should be", position, None, "zeros", "a batch or the end of the log"
            )
            if self._split.next_base_offset is None and self._zeros_to_end(position):
                return None  # preallocated space
        else:
            error = self._impossible(position, stopped_by)
        return self._after_damage(error, position, needed)

    def _impossible(self, position: int, stopped_by: int) -> DataError:
        what, expected = {
            h.BAD_LENGTH: (
                "batch of impossible length",
                f"at least {fmt.MIN_LENGTH_V0} bytes, {fmt.MIN_BATCH_LENGTH} for magic 2",
            ),
            h.BAD_MAGIC: ("batch of unknown magic", "0, 1 or 2"),
            h.BAD_COUNT: ("batch with a negative count", "0 records or more"),
            h.BAD_LAST_OFFSET: ("batch that ends before it begins", "baseOffset ≥ 0 and lastOffsetDelta ≥ 0"),
        }[stopped_by]
        return self._error(what, position, None, int(self._report[h.FOUND]), expected)

    def _zeros_to_end(self, position: int) -> bool:
        while position < self._split.segment_size:
            block = self._file.read_at(position, min(CHUNK_BYTES, self._split.segment_size - position))
            if not block or block.count(0) != len(block):
                return not block
            position += len(block)
        return True

    def _after_damage(self, error: DataError, position: int, claimed_size: int) -> int | None:
        """Where to go on after damage at `position`: at the next believable batch, or None if there is none."""
        self._damage.allow(error)
        found: int | None = position + claimed_size
        if not claimed_size or not self._holds(position + claimed_size):
            found = self._search(position + 1)
        self._damage.skip(error, self._split.segment_size if found is None else found)
        return found

    def _search(self, position: int) -> int | None:
        """The first position ≥ `position` of a whole batch that continues this log, by header and CRC."""
        size = self._split.segment_size
        effort = _SEARCH_EFFORT * size
        end_offset = self._offset_limit()
        buffer = np.empty(min(CHUNK_BYTES, max(size - position, 0)), np.uint8)
        while size - position >= fmt.LOG_OVERHEAD + fmt.MIN_LENGTH_V0:
            count = min(len(buffer), size - position)
            self._file.read_into(position, buffer[:count])
            at = h.find_batch(buffer, 0, count, self._last_offset + 1, end_offset)
            while at >= 0:
                if self._holds(position + at):
                    return int(position + at)
                claimed = int.from_bytes(buffer[at + fmt.LENGTH_AT : at + fmt.LOG_OVERHEAD].tobytes(), "big")
                effort -= min(claimed, size - position - at)
                if effort < 0:
                    return None
                at = h.find_batch(buffer, at + 1, count, self._last_offset + 1, end_offset)
            if count == size - position:
                return None
            position += count - fmt.BATCH_OVERHEAD + 1
        return None

    def _offset_limit(self) -> int:
        """Exclusive bound of the segment's offsets; in the last one, of those that its index files could name."""
        following = self._split.next_base_offset
        return self._split.base_offset + _RELATIVE_OFFSETS if following is None else following

    def _holds(self, position: int) -> bool:
        """Whether a whole batch with a good CRC that continues this log begins at `position`."""
        header = self._file.read_at(position, fmt.BATCH_OVERHEAD)
        if len(header) < fmt.MAGIC_END:
            return False
        magic = header[fmt.MAGIC_AT]
        base = int.from_bytes(header[: fmt.LENGTH_AT], "big", signed=True)
        length = int.from_bytes(header[fmt.LENGTH_AT : fmt.LOG_OVERHEAD], "big", signed=True)
        smallest = {
            fmt.MAGIC_V0: fmt.MIN_LENGTH_V0,
            fmt.MAGIC_V1: fmt.MIN_LENGTH_V1,
            fmt.MAGIC_V2: fmt.MIN_BATCH_LENGTH,
        }
        fits = smallest.get(magic, length + 1) <= length <= self._split.segment_size - position - fmt.LOG_OVERHEAD
        if not fits or length > self._max_batch_bytes or base <= self._last_offset:
            return False
        crc_at = fmt.CRC_AT if magic == fmt.MAGIC_V2 else fmt.LEGACY_CRC_AT
        stored = int.from_bytes(header[crc_at : crc_at + 4], "big")
        return crc_holds(self._file.read_at(position, length + fmt.LOG_OVERHEAD), magic, stored)

    def _error(self, what: str, position: int, offset: int | None, found: object, expected: object) -> DataError:
        return CorruptRecordError(
            what, path=self._split.path, position=position, offset=offset, found=found, expected=expected
        )
