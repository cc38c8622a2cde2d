"""Kafka's index files as read-only arrays: what they say, absolute, up to where they stop making sense.

An index is a hint. Whoever uses an entry proves it by the batch header it leads to (`ranges.py`); nothing here
opens a `.log`. A file that is missing, empty, zero-padded, torn or garbled gives its valid prefix, perhaps empty:
no error, a slower scan. What is wrong with one, `inspection/index_rules.py` says.

An index has at most one entry a batch. One with more than its `.log` has room for, or with more than 64 MiB of them, is
nobody's: none of its entries is given, and its `fault` says so in words. Memory stays within a few times those bounds.

Kafka: OffsetIndex, TimeIndex, AbstractIndex (`org.apache.kafka.storage.internals.log`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafka_segment_source import format as fmt
from kafka_segment_source.errors import FileChangedError, PathError
from kafka_segment_source.storage.files import UNUSABLE, InputFile

Longs = npt.NDArray[np.int64]
_BLOCK_ENTRIES = 8192  # entries read at a time: a padded file costs its valid part and at most one block more
_LARGEST_LOG = 2**31 - 1  # bytes: positions in a segment are 32-bit
_LEAST_BATCH = fmt.LOG_OVERHEAD + fmt.MIN_LENGTH_V0  # bytes: a message of magic 0 without key and value
_NONE = np.empty(0, np.int64)
_MOST_BYTES = 64 * 1024 * 1024  # of entries; brokers roll a segment whose index reaches 10 MiB (segment.index.bytes)

_OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_ABORTED_TXN = np.dtype([("version", ">i2"), ("producer", ">i8"), ("first", ">i8"), ("last", ">i8"), ("stable", ">i8")])
assert _OFFSET_ENTRY.itemsize == fmt.OFFSET_INDEX_ENTRY
assert _ABORTED_TXN.itemsize == fmt.TRANSACTION_INDEX_ENTRY
assert _TIME_ENTRY.itemsize == fmt.TIME_INDEX_ENTRY


@dataclass(frozen=True, slots=True)
class OffsetIndex:
    """Valid entries of a `.index` file: offsets (absolute, int64[n]) and positions (bytes in the `.log`, int64[n]).

    Both grow strictly. An entry's offset is not always that of the batch at its position: it may be the last one
    of a whole append, so of a batch much further on (Kafka 2.0 to 4.0). fault: why it is not used, although it is
    there.
    """

    path: str
    offsets: Longs
    positions: Longs
    fault: str | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def floor(self, offset: int) -> int:
        """The slot of the largest entry with offset ≤ the target; -1 if there is none (Kafka: lookup)."""
        return int(np.searchsorted(self.offsets, offset, side="right")) - 1

    def ceiling(self, offset: int) -> int:
        """The slot of the least entry with offset ≥ the target; len(self) if there is none (Kafka:
        fetchUpperBoundOffset)."""
        return int(np.searchsorted(self.offsets, offset, side="left"))


@dataclass(frozen=True, slots=True)
class TimeIndex:
    """Valid entries of a `.timeindex` file: timestamps (ms, int64[n]) and offsets (absolute, int64[n]).

    Timestamps grow strictly, offsets never shrink. An entry says that no record up to its offset is later than
    its timestamp; it says nothing of records after it. fault: why it is not used, although it is there.
    """

    path: str
    timestamps: Longs
    offsets: Longs
    fault: str | None = None

    def __len__(self) -> int:
        return len(self.timestamps)

    def before(self, timestamp: int) -> int:
        """The slot of the largest entry with timestamp < the target (strictly); -1 if there is none."""
        return int(np.searchsorted(self.timestamps, timestamp, side="left")) - 1


def read_offset_index(path: str, size: int | None, base_offset: int, log_size: int) -> OffsetIndex:
    """The valid prefix of the `.index` at `path`, listed with `size` bytes (None: not there).

    base_offset: of the segment; log_size: bytes of its `.log`, which every position lies below. Valid entries have
    growing offsets and growing positions above 0: the first append of a segment is never indexed.
    """
    parts: list[tuple[Longs, Longs]] = []
    last_offset, last_position = -1, 0
    try:
        for block in _blocks(path, size, _OFFSET_ENTRY, log_size):
            offsets, positions = _native(block["offset"]), _native(block["position"])
            good = _follows(np.greater, last_offset, offsets) & _follows(np.greater, last_position, positions)
            good &= positions < log_size
            count = _leading(good)
            parts.append((offsets[:count], positions[:count]))
            if count < len(block):
                break
            last_offset, last_position = offsets[-1], positions[-1]
    except UNUSABLE as error:
        return OffsetIndex(path, _NONE, _NONE, str(error))
    offsets, positions = _columns(parts)
    return OffsetIndex(path, offsets + base_offset, positions)


def read_time_index(
    path: str, size: int | None, base_offset: int, next_base_offset: int | None, log_size: int = _LARGEST_LOG
) -> TimeIndex:
    """The valid prefix of the `.timeindex` at `path`, listed with `size` bytes (None: not there).

    next_base_offset: of the next segment, above every offset of this one; None for the last. (0, 0) is always
    padding: as an entry it would claim that the first record is no later than 1970.
    """
    limit = (next_base_offset if next_base_offset is not None else fmt.MAX_OFFSET) - base_offset
    parts: list[tuple[Longs, Longs]] = []
    last_timestamp, last_offset = -1, 0
    try:
        for block in _blocks(path, size, _TIME_ENTRY, log_size):
            timestamps, offsets = _native(block["timestamp"]), _native(block["offset"])
            good = _follows(np.greater, last_timestamp, timestamps) & _follows(np.greater_equal, last_offset, offsets)
            good &= (offsets < limit) & ((timestamps != 0) | (offsets != 0))
            count = _leading(good)
            parts.append((timestamps[:count], offsets[:count]))
            if count < len(block):
                break
            last_timestamp, last_offset = timestamps[-1], offsets[-1]
    except UNUSABLE as error:
        return TimeIndex(path, _NONE, _NONE, str(error))
    timestamps, offsets = _columns(parts)
    return TimeIndex(path, timestamps, offsets + base_offset)


def written_offsets(path: str, size: int | None, base_offset: int) -> OffsetIndex:
    """Every whole entry of a `.index` up to its zero padding, in order or not: for whoever wants to know what is wrong.

    Of this and of the two below at most the first 64 MiB are looked at; `size` limits that to fewer bytes.
    """
    entries, fault = _unpadded(path, size, _OFFSET_ENTRY)
    return OffsetIndex(path, _native(entries["offset"]) + base_offset, _native(entries["position"]), fault)


def written_times(path: str, size: int | None, base_offset: int) -> TimeIndex:
    """As `written_offsets`, of a `.timeindex`; a (0, 0) in front stays: some record may be of 1970."""
    entries, fault = _unpadded(path, size, _TIME_ENTRY)
    return TimeIndex(path, _native(entries["timestamp"]), _native(entries["offset"]) + base_offset, fault)


@dataclass(frozen=True, slots=True)
class AbortedTransactions:
    """Entries of a `.txnindex`, as they stand (int64[n] each): producer id, offset of the transaction's first record,
    of its ABORT marker, and the last stable offset after it. fault: why none could be read. Kafka: TransactionIndex,
    AbortedTxn."""

    versions: Longs
    producer_ids: Longs
    first_offsets: Longs
    last_offsets: Longs
    last_stable_offsets: Longs
    fault: str | None = None

    def __len__(self) -> int:
        return len(self.versions)


def written_aborts(path: str, size: int | None) -> AbortedTransactions:
    """Every whole entry of a `.txnindex`; none if there is no such file."""
    entries, fault = _every(path, size, _ABORTED_TXN)
    names = ("version", "producer", "first", "last", "stable")
    versions, producer_ids, first_offsets, last_offsets, stable = (_native(entries[name]) for name in names)
    return AbortedTransactions(versions, producer_ids, first_offsets, last_offsets, stable, fault)


def most_entries(log_size: int) -> int:
    """More entries than any index of a `.log` of so many bytes has: one a batch, and a last one of a time index.

    An index may be some entries ahead of a log that was cut; a block of them costs nothing.
    """
    return max(log_size // _LEAST_BATCH + 2, _BLOCK_ENTRIES)


def _blocks(path: str, size: int | None, entry: np.dtype[np.void], log_size: int):  # type: ignore[no-untyped-def]  # Iterator of arrays
    """The whole entries of the file, block by block; odd bytes at its end are no entry. Nothing if it is gone.

    One of UNUSABLE if it cannot be read, and PathError where there are more entries, none of them padding, than there
    can be: whoever meets padding asks for no more.
    """
    left = (size or 0) // entry.itemsize
    if left == 0:
        return
    most = min(most_entries(log_size), _MOST_BYTES // entry.itemsize)
    try:
        with InputFile(path) as file:
            at = 0
            while left > 0:
                if at >= most * entry.itemsize:
                    raise PathError(
                        f"file {path!r} cannot be the index of its segment: found more than {at // entry.itemsize:,}"
                        f" entries, expected at most {most:,} beside a .log of {log_size:,} bytes"
                    )
                data = file.read_at(at, min(left, _BLOCK_ENTRIES) * entry.itemsize)
                block = np.frombuffer(data, entry, len(data) // entry.itemsize)
                if len(block) == 0:
                    return
                yield block
                at += len(block) * entry.itemsize
                left -= len(block)
    except FileChangedError:
        return  # a broker has deleted it with its segment


def _every(path: str, size: int | None, entry: np.dtype[np.void]) -> tuple[npt.NDArray[np.void], str | None]:
    """Every whole entry, padding too, as far as this package looks; or none, and why the file cannot be read."""
    try:
        return _join(list(_blocks(path, min(size or 0, _MOST_BYTES), entry, _LARGEST_LOG)), entry), None
    except UNUSABLE as error:
        return np.empty(0, entry), str(error)


def _unpadded(path: str, size: int | None, entry: np.dtype[np.void]) -> tuple[npt.NDArray[np.void], str | None]:
    entries, fault = _every(path, size, entry)
    written = np.flatnonzero(entries != np.zeros(1, entry))
    return (entries[: written[-1] + 1] if len(written) else entries[:0]), fault


def _leading(good: npt.NDArray[np.bool_]) -> int:
    """How many are true before the first that is not."""
    return len(good) if good.all() else int(np.argmin(good))


def _follows(compare: np.ufunc, last: int, column: Longs) -> npt.NDArray[np.bool_]:
    """Whether each value compares so with the one before it; `last` is before the first."""
    result = np.empty(len(column), np.bool_)
    result[0] = compare(column[0], last)
    compare(column[1:], column[:-1], out=result[1:])
    return result


def _columns(parts: list[tuple[Longs, Longs]]) -> tuple[Longs, Longs]:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    first, second = zip(*parts, strict=True)
    return np.concatenate(first), np.concatenate(second)


def _join(parts: list[npt.NDArray[np.void]], entry: np.dtype[np.void]) -> npt.NDArray[np.void]:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, entry)


def _native(column: npt.NDArray[np.signedinteger[npt.NBitBase]]) -> Longs:
    return column.astype(np.int64)
