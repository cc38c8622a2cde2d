"""Which entries of index files are valid: reads them as they are stored, block by block, up to the first invalid one.

`indexes.py` gives them names, absolute offsets and lookups. `valid_` functions stop at the first invalid entry.
`written_` functions return every whole entry up to the zero padding.

An index has at most one entry per batch. A file is not used if its `.log` has no room for that many batches, or if it
has more than 64 MiB of entries. Memory stays within a few times those bounds.

If the file cannot be read, `valid_` functions raise an error of UNUSABLE, and `written_` functions return its text.
Odd bytes at the end of a file are ignored. A file that is gone has no entry.

Kafka: OffsetIndex, TimeIndex, AbstractIndex (`org.apache.kafka.storage.internals.log`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import FileChangedError, PathError
from kafka_segment_source.storage.ahead import run_together
from kafka_segment_source.storage.files import UNUSABLE, InputFile
from kafka_segment_source.storage.store import Storage

Longs = npt.NDArray[np.int64]
Entries = npt.NDArray[np.void]
_BLOCK_ENTRIES = 8192  # entries per read: of a padded file the valid part is read, and at most one block more
_USUAL_INTERVAL = 4096  # bytes of a `.log` between two entries, unless index.interval.bytes says less
_MORE = 512  # entries that are read beyond those of the usual interval
_PADDING = 128  # entries of zeros that are taken for the beginning or the end of padding
_LEAST_BATCH = (
    kafka_format.LOG_OVERHEAD + kafka_format.MIN_LENGTH_V0
)  # bytes of a message of magic 0 without key and value
_MOST_AHEAD = 4 * 1024 * 1024  # bytes: a larger file is most likely padded, so it is read block by block
_END_BYTES = 4080  # of an end of an index: whole entries of both kinds
_FEW_ENTRIES = 32  # of a block
_MOST_BYTES = 64 * 1024 * 1024  # of entries; brokers roll a segment when its index has 10 MiB (segment.index.bytes)

OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
ABORTED_TXN = np.dtype([("version", ">i2"), ("producer", ">i8"), ("first", ">i8"), ("last", ">i8"), ("stable", ">i8")])
assert OFFSET_ENTRY.itemsize == kafka_format.OFFSET_INDEX_ENTRY
assert ABORTED_TXN.itemsize == kafka_format.TRANSACTION_INDEX_ENTRY
assert TIME_ENTRY.itemsize == kafka_format.TIME_INDEX_ENTRY


def valid_offsets(path: str, storage: Storage, size: int | None, log_size: int) -> tuple[Longs, Longs]:
    """Returns the offsets and positions of the valid prefix of a `.index`, int64[n] each. The offsets are relative.

    Valid entries have growing offsets, and growing positions above 0. Kafka never indexes the first append of a
    segment.

    size: bytes of the file as it was listed. None if there is no such file.
    log_size: bytes of its `.log`. Every valid position is below this.
    """
    parts: list[tuple[Longs, Longs]] = []
    last_offset, last_position = -1, 0
    for block in read_blocks(path, storage, size, OFFSET_ENTRY, log_size):
        offsets, positions = to_int64(block["offset"]), to_int64(block["position"])
        if len(block) <= _FEW_ENTRIES:
            count = _count_few_offsets(block, last_offset, last_position, log_size)
        else:
            count = count_leading(_are_valid_offsets(offsets, positions, last_offset, last_position, log_size))
        if count < len(block):
            parts.append((offsets[:count], positions[:count]))
            break
        parts.append((offsets, positions))
        last_offset, last_position = int(offsets[-1]), int(positions[-1])
    return _concatenate_columns(parts)


def valid_last_offsets(path: str, storage: Storage, size: int, log_size: int) -> tuple[Longs, Longs] | None:
    """Returns the last entries of a `.index`, by one small read. None if they are not valid. Padding is not valid.

    Arguments and result are those of `valid_offsets`.
    """
    count = size // OFFSET_ENTRY.itemsize
    first = max(count - _END_BYTES // OFFSET_ENTRY.itemsize, 0)
    try:
        entries = _read_entries(path, storage, OFFSET_ENTRY, first, count)
    except FileChangedError:
        return None
    offsets, positions = to_int64(entries["offset"]), to_int64(entries["position"])
    good = _are_valid_offsets(offsets, positions, -1, 0, log_size)
    return (offsets, positions) if len(good) and good.all() else None


def offsets_behind(path: str, storage: Storage, size: int, known: tuple[int, int, int]) -> Longs:
    """Returns the relative offsets of a few entries of a `.index` behind its valid ones, by one read, int64[n]. It
    returns none if they are not in order up to the padding: damage may state anything.

    known: the number of valid entries, and the offset and position of the last one.
    """
    first, last_offset, last_position = known
    count = min(size // OFFSET_ENTRY.itemsize, first + _MORE)
    if first >= count:
        return np.empty(0, np.int64)
    entries = _read_entries(path, storage, OFFSET_ENTRY, first, count)
    written = entries[: _count_written(entries)]
    offsets, positions = to_int64(written["offset"]), to_int64(written["position"])
    return offsets if keep_offset_order(offsets, positions, last_offset, last_position).all() else offsets[:0]


def _are_valid_offsets(
    offsets: Longs, positions: Longs, last_offset: int, last_position: int, log_size: int
) -> npt.NDArray[np.bool_]:
    return keep_offset_order(offsets, positions, last_offset, last_position) & (positions < log_size)


def keep_offset_order(
    offsets: Longs, positions: Longs, last_offset: int = -1, last_position: int = 0
) -> npt.NDArray[np.bool_]:
    """Whether each entry of a `.index` is after the one before: both the relative offset and the position grow.

    last_offset, last_position: of the entry before the first one. At the start of a file nothing is at position 0.
    `_count_few_offsets` is the same rule for few entries.
    """
    good = _compare_with_previous(np.greater, last_offset, offsets)
    good &= _compare_with_previous(np.greater, last_position, positions)
    return good


def valid_times(path: str, storage: Storage, size: int | None, offset_limit: int, log_size: int) -> tuple[Longs, Longs]:
    """Returns the timestamps and offsets of the valid prefix of a `.timeindex`, int64[n] each. The offsets are
    relative.

    (0, 0) is always padding. As an entry it would state that the first record is no later than 1970.

    size: bytes of the file as it was listed. None if there is no such file.
    offset_limit: every valid relative offset is below this.
    log_size: bytes of its `.log`.
    """
    parts: list[tuple[Longs, Longs]] = []
    last_timestamp, last_offset = kafka_format.NO_TIMESTAMP, 0
    for block in read_blocks(path, storage, size, TIME_ENTRY, log_size):
        timestamps, offsets = to_int64(block["timestamp"]), to_int64(block["offset"])
        if len(block) <= _FEW_ENTRIES:
            count = _count_few_times(block, last_timestamp, last_offset, offset_limit)
        else:
            count = count_leading(_are_valid_times(timestamps, offsets, last_timestamp, last_offset, offset_limit))
        if count < len(block):
            parts.append((timestamps[:count], offsets[:count]))
            break
        parts.append((timestamps, offsets))
        last_timestamp, last_offset = int(timestamps[-1]), int(offsets[-1])
    return _concatenate_columns(parts)


def valid_time_ends(
    path: str, storage: Storage, size: int, offset_limit: int, log_size: int
) -> tuple[Longs, Longs] | None:
    """Returns the first and the last entries of a `.timeindex`, by two small reads at once.

    Arguments and result are those of `valid_times`. None if they are not valid, taken together, or if the file is most
    likely padded.
    """
    count = size // TIME_ENTRY.itemsize
    at_end = _END_BYTES // TIME_ENTRY.itemsize
    if not 2 * at_end < count <= min(most_entries(log_size), _MOST_AHEAD // TIME_ENTRY.itemsize):
        return None
    blocks: list[Entries | None] = [None, None]

    def read(slot: int, first: int) -> None:
        blocks[slot] = _read_entries(path, storage, TIME_ENTRY, first, first + at_end)

    try:
        run_together(lambda: read(0, 0), lambda: read(1, count - at_end))
    except FileChangedError:
        return None
    entries = np.concatenate([part for part in blocks if part is not None])
    timestamps, offsets = to_int64(entries["timestamp"]), to_int64(entries["offset"])
    return (
        (timestamps, offsets)
        if _are_valid_times(timestamps, offsets, kafka_format.NO_TIMESTAMP, 0, offset_limit).all()
        else None
    )


def _are_valid_times(
    timestamps: Longs, offsets: Longs, last_timestamp: int, last_offset: int, offset_limit: int
) -> npt.NDArray[np.bool_]:
    good = keep_time_order(timestamps, offsets, last_timestamp, last_offset)
    good &= (offsets < offset_limit) & ((timestamps != 0) | (offsets != 0))
    return good


def keep_time_order(
    timestamps: Longs, offsets: Longs, last_timestamp: int = kafka_format.NO_TIMESTAMP, last_offset: int = 0
) -> npt.NDArray[np.bool_]:
    """Whether each entry of a `.timeindex` is after the one before: the timestamp grows, the relative offset does not
    shrink.

    last_timestamp, last_offset: of the entry before the first one. `_count_few_times` is the same rule for few entries.
    """
    good = _compare_with_previous(np.greater, last_timestamp, timestamps)
    good &= _compare_with_previous(np.greater_equal, last_offset, offsets)
    return good


def valid_aborts(path: str, storage: Storage, size: int | None) -> Entries:
    """Returns the entries of a `.txnindex` up to the first one whose marker is not after the one before.

    size: bytes of the file as it was listed. None if there is no such file.
    """
    entries = _concatenate_blocks(
        list(read_blocks(path, storage, size, ABORTED_TXN, kafka_format.LARGEST_LOG)), ABORTED_TXN
    )
    if not len(entries):
        return entries
    return entries[: count_leading(_compare_with_previous(np.greater, -1, to_int64(entries["last"])))]


def most_entries(log_size: int) -> int:
    """Returns an upper bound for the entries of any index of a `.log` of `log_size` bytes.

    The bound is one entry per batch, and a last one of a time index. An index may have some entries more than a log
    that was cut. So the bound is at least one block, which costs nothing.
    """
    return max(log_size // _LEAST_BATCH + 2, _BLOCK_ENTRIES)


def read_blocks(
    path: str, storage: Storage, size: int | None, entry: np.dtype[np.void], log_size: int
) -> Iterator[Entries]:
    """Yields the whole entries of the file, block by block. It ignores odd bytes at the end, and yields nothing if the
    file is gone.

    Raises an error of UNUSABLE if the file cannot be read. Raises PathError if it has more entries than there can be. A
    caller that finds padding asks for no further block, so padding does not count.
    """
    left = (size or 0) // entry.itemsize
    if left == 0:
        return
    try:
        with InputFile(path, storage) as file:
            if _BLOCK_ENTRIES < left <= _MOST_AHEAD // entry.itemsize:
                file.read_ahead(0, left * entry.itemsize)
            at = 0
            while left > 0:
                if at > 0:
                    _check_count(path, entry, at // entry.itemsize, log_size)
                data = file.read_at(at, min(left, _BLOCK_ENTRIES) * entry.itemsize)
                block = np.frombuffer(data, entry, len(data) // entry.itemsize)
                if len(block) == 0:
                    return
                yield block
                at += len(block) * entry.itemsize
                left -= len(block)
    except FileChangedError:
        return  # a broker has deleted it with its segment


def _check_count(path: str, entry: np.dtype[np.void], count: int, log_size: int) -> None:
    """Raises PathError if a file of more than `count` entries cannot be the index of its `.log`."""
    most = min(most_entries(log_size), _MOST_BYTES // entry.itemsize)
    if count >= most:
        raise PathError(
            f"file {path!r} cannot be the index of its segment: found more than {count:,}"
            f" entries, expected at most {most:,} beside a .log of {log_size:,} bytes"
        )


def _read_entries(path: str, storage: Storage, entry: np.dtype[np.void], first: int, end: int) -> Entries:
    """Returns the entries with first ≤ number < end, by one read of no more than these bytes."""
    data = np.empty((end - first) * entry.itemsize, np.uint8)
    with InputFile(path, storage) as file:
        file.read_into(first * entry.itemsize, data)
    return data.view(entry)


def written_entries(
    path: str, storage: Storage, size: int | None, entry: np.dtype[np.void]
) -> tuple[Entries, str | None]:
    """Returns every whole entry with the padding, within the limit of 64 MiB. If the file cannot be read, it returns no
    entry and the reason."""
    try:
        return _concatenate_blocks(
            list(read_blocks(path, storage, min(size or 0, _MOST_BYTES), entry, kafka_format.LARGEST_LOG)), entry
        ), None
    except UNUSABLE as error:
        return np.empty(0, entry), str(error)


def written_unpadded(
    path: str, storage: Storage, size: int | None, entry: np.dtype[np.void], log_size: int
) -> tuple[Entries, str | None]:
    """Returns every whole entry up to the padding. If the file cannot be read, it returns no entry and the reason."""
    likely = (log_size // _USUAL_INTERVAL + _MORE) * entry.itemsize
    is_padded = likely < (size or 0) and _ends_in_padding(path, storage, min(size or 0, _MOST_BYTES), entry)
    entries, fault = written_entries(path, storage, likely if is_padded else size, entry)
    if is_padded and _count_written(entries[-_PADDING:]):
        entries, fault = written_entries(path, storage, size, entry)
    return entries[: _count_written(entries)], fault


def _ends_in_padding(path: str, storage: Storage, size: int, entry: np.dtype[np.void]) -> bool:
    """Whether the last entries of the first `size` bytes are zeros. False if they cannot be read."""
    count = size // entry.itemsize
    try:
        return not _count_written(_read_entries(path, storage, entry, max(count - _PADDING, 0), count))
    except (FileChangedError, *UNUSABLE):
        return False


def _count_written(entries: Entries) -> int:
    """Counts the entries up to the last one that is not zeros."""
    if any(entries[-1:].tobytes()):
        return len(entries)  # nearly every file ends here
    written = np.flatnonzero(entries != np.zeros(1, entries.dtype))
    return int(written[-1]) + 1 if len(written) else 0


def count_leading(good: npt.NDArray[np.bool_]) -> int:
    """Returns the number of true values before the first false one."""
    return len(good) if good.all() else int(np.argmin(good))


def _count_few_offsets(block: Entries, last_offset: int, last_position: int, log_size: int) -> int:
    """Returns the number of valid entries before the first other one. For few entries it is faster than arrays."""
    count = 0
    for offset, position in block.tolist():
        if offset <= last_offset or not last_position < position < log_size:
            break
        last_offset, last_position = offset, position
        count += 1
    return count


def _count_few_times(block: Entries, last_timestamp: int, last_offset: int, offset_limit: int) -> int:
    """Returns the number of valid entries of a `.timeindex` before the first other one."""
    count = 0
    for timestamp, offset in block.tolist():
        if timestamp <= last_timestamp or not last_offset <= offset < offset_limit or not (timestamp or offset):
            break
        last_timestamp, last_offset = timestamp, offset
        count += 1
    return count


def _compare_with_previous(compare: np.ufunc, last: int, column: Longs) -> npt.NDArray[np.bool_]:
    """Compares column[i] with column[i-1], and column[0] with `last`."""
    result = np.empty(len(column), np.bool_)
    if not len(column):
        return result
    result[0] = compare(column[0], last)
    compare(column[1:], column[:-1], out=result[1:])
    return result


def _concatenate_columns(parts: list[tuple[Longs, Longs]]) -> tuple[Longs, Longs]:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    first, second = zip(*parts, strict=True)
    return np.concatenate(first), np.concatenate(second)


def _concatenate_blocks(parts: list[Entries], entry: np.dtype[np.void]) -> Entries:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, entry)


def to_int64(column: npt.NDArray[np.signedinteger[npt.NBitBase]]) -> Longs:
    return column.astype(np.int64)
