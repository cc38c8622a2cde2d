"""Reads Kafka's index files as read-only arrays, with absolute offsets, up to the first invalid entry.

An index is only a hint. Its user must prove each entry by the batch header that it points to (`ranges.py`). Nothing
here opens a `.log`. A file that is missing, empty, zero-padded, torn or damaged gives its valid prefix, which may be
empty. It raises no error and makes the scan slower. `inspection/index_rules.py` reports what is wrong with a file.

An index has at most one entry per batch. An index is not used if its `.log` has no room for that many batches, or if it
has more than 64 MiB of entries. It then gives no entry, and its `fault` states the reason. Memory stays within a few
times those bounds.

Kafka: OffsetIndex, TimeIndex, AbstractIndex (`org.apache.kafka.storage.internals.log`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import FileChangedError, PathError
from kafka_segment_source.keywords import STORAGE_OPTIONS, PathLike, option_texts
from kafka_segment_source.logdir.names import base_offset_of
from kafka_segment_source.storage.ahead import run_together
from kafka_segment_source.storage.files import UNUSABLE, InputFile, file_version, look_at
from kafka_segment_source.storage.paths import name_of, resolve_path
from kafka_segment_source.storage.routed import make_storage
from kafka_segment_source.storage.settings import make_settings
from kafka_segment_source.storage.store import Kind, Storage

Longs = npt.NDArray[np.int64]
_BLOCK_ENTRIES = 8192  # entries per read: of a padded file the valid part is read, and at most one block more
_USUAL_INTERVAL = 4096  # bytes of a `.log` between two entries, unless index.interval.bytes says less
_MORE = 512  # entries that are read beyond those of the usual interval
_PADDING = 128  # entries of zeros that are taken for the beginning or the end of padding
_LARGEST_LOG = 2**31 - 1  # bytes: positions in a segment are 32-bit
_LEAST_BATCH = (
    kafka_format.LOG_OVERHEAD + kafka_format.MIN_LENGTH_V0
)  # bytes of a message of magic 0 without key and value
_MOST_AHEAD = 4 * 1024 * 1024  # bytes: a larger file is most likely padded, so it is read block by block
_END_BYTES = 4080  # of an end of an index: whole entries of both kinds
_NONE = np.empty(0, np.int64)
_MOST_BYTES = 64 * 1024 * 1024  # of entries; brokers roll a segment when its index has 10 MiB (segment.index.bytes)

_OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_ABORTED_TXN = np.dtype([("version", ">i2"), ("producer", ">i8"), ("first", ">i8"), ("last", ">i8"), ("stable", ">i8")])
assert _OFFSET_ENTRY.itemsize == kafka_format.OFFSET_INDEX_ENTRY
assert _ABORTED_TXN.itemsize == kafka_format.TRANSACTION_INDEX_ENTRY
assert _TIME_ENTRY.itemsize == kafka_format.TIME_INDEX_ENTRY


@dataclass(frozen=True, slots=True)
class OffsetIndex:
    """The entries of a `.index` file: which byte of the `.log` to begin at for an offset.

    A broker writes one for about every 4 KiB of the log (index.interval.bytes). The offset of an entry may differ from
    that of the batch at its position. Kafka 2.0 to 4.0 may write the last offset of a whole append, which belongs to a
    batch much further on.

    path: of the file.
    offsets: absolute, int64[n]. They grow strictly.
    positions: bytes from the start of the `.log`, int64[n]. They grow strictly.
    fault: why an existing file is not used, or None. `read` raises an error instead.
    """

    path: str
    offsets: Longs
    positions: Longs
    fault: str | None = None

    @classmethod
    def read(
        cls,
        path: PathLike,
        *,
        base_offset: int | None = None,
        storage_options: Mapping[str, object] | None = None,
    ) -> OffsetIndex:
        """Reads a `.index` file up to its padding, or up to the first entry that breaks the order.

        The `.log` is not opened. If it is beside the file, its size bounds the positions.

        Args:
            path: The file, in a file system or a bucket.
            base_offset: The first offset of the segment. By default, the 20 digits of the file's name.
            storage_options: The options of the object store.

        Returns:
            The entries.

        Raises:
            PathError: There is no such file, its name states no offset, or it has more entries than its log has room
                for.
            StorageError: The file cannot be read. A retry may help.

        Example:
            >>> import kafka_segment_source
            >>> index = kafka_segment_source.OffsetIndex.read(
            ...     "examples/data/orders/data/orders-0/00000000000000000000.index"
            ... )
            >>> slot = index.floor(100)
            >>> int(index.offsets[slot]), int(index.positions[slot])
            (94, 3127)
        """
        place = _find_index(path, base_offset, storage_options)
        return _read_offsets(place.path, place.storage, place.size, place.base_offset, place.log_size)

    def __len__(self) -> int:
        return len(self.offsets)

    def floor(self, offset: int) -> int:
        """Finds where a search for an offset begins, as Kafka's `OffsetIndex.lookup`.

        Args:
            offset: Absolute.

        Returns:
            The slot of the largest entry with an offset ≤ `offset`. -1 if there is none: Kafka then begins at byte 0.
        """
        return int(np.searchsorted(self.offsets, offset, side="right")) - 1

    def ceiling(self, offset: int) -> int:
        """Finds the first entry at or after an offset.

        Args:
            offset: Absolute.

        Returns:
            The slot of the least entry with an offset ≥ `offset`. len(self) if there is none.
        """
        return int(np.searchsorted(self.offsets, offset, side="left"))

    def upper_bound(self, position: int, size: int) -> int:
        """Finds an offset that no fetch of these bytes reaches, as Kafka's `OffsetIndex.fetchUpperBoundOffset`.

        A broker asks it for the aborted transactions of a read_committed fetch.

        Args:
            position: Where the fetch begins, in bytes of the `.log`.
            size: Bytes of the fetch.

        Returns:
            The slot of the least entry with a position ≥ `position` + `size`. len(self) if there is none: Kafka then
            takes the next segment's base offset, or the log end offset.
        """
        return int(np.searchsorted(self.positions, position + size, side="left"))


@dataclass(frozen=True, slots=True)
class TimeIndex:
    """The entries of a `.timeindex` file: up to which offset nothing is later than a timestamp.

    An entry states that no record up to its offset is later than its timestamp. It states nothing about the records
    after it.

    path: of the file.
    timestamps: epoch ms, int64[n]. They grow strictly.
    offsets: absolute, int64[n]. They never shrink.
    fault: why an existing file is not used, or None. `read` raises an error instead.
    """

    path: str
    timestamps: Longs
    offsets: Longs
    fault: str | None = None

    @classmethod
    def read(
        cls,
        path: PathLike,
        *,
        base_offset: int | None = None,
        storage_options: Mapping[str, object] | None = None,
    ) -> TimeIndex:
        """Reads a `.timeindex` file up to its padding, or up to the first entry that breaks the order.

        Args:
            path: The file, in a file system or a bucket.
            base_offset: The first offset of the segment. By default, the 20 digits of the file's name.
            storage_options: The options of the object store.

        Returns:
            The entries.

        Raises:
            PathError: There is no such file, its name states no offset, or it has more entries than its log has room
                for.
            StorageError: The file cannot be read. A retry may help.

        Example:
            >>> import kafka_segment_source
            >>> index = kafka_segment_source.TimeIndex.read(
            ...     "examples/data/orders/data/orders-0/00000000000000000000.timeindex"
            ... )
            >>> int(index.timestamps[-1]), int(index.offsets[-1])
            (1773133793929, 173)
        """
        place = _find_index(path, base_offset, storage_options)
        return _read_times(place.path, place.storage, place.size, place.base_offset, None, place.log_size)

    def __len__(self) -> int:
        return len(self.timestamps)

    def floor(self, timestamp: int) -> int:
        """Finds the entry that Kafka's `TimeIndex.lookup` finds.

        Args:
            timestamp: Epoch ms.

        Returns:
            The slot of the largest entry with a timestamp ≤ `timestamp`. -1 if there is none.
        """
        return int(np.searchsorted(self.timestamps, timestamp, side="right")) - 1

    def ceiling(self, timestamp: int) -> int:
        """Finds the first entry at or after a timestamp.

        Args:
            timestamp: Epoch ms.

        Returns:
            The slot of the least entry with a timestamp ≥ `timestamp`. len(self) if there is none.
        """
        return int(np.searchsorted(self.timestamps, timestamp, side="left"))

    def before(self, timestamp: int) -> int:
        """Finds the last entry that proves its records to be before a timestamp.

        Args:
            timestamp: Epoch ms.

        Returns:
            The slot of the largest entry with a timestamp < `timestamp`. -1 if there is none.
        """
        return self.ceiling(timestamp) - 1


@dataclass(frozen=True, slots=True)
class TransactionIndex:
    """The entries of a `.txnindex` file: the transactions whose ABORT marker is in the segment, as they are stored.

    Kafka: TransactionIndex, AbortedTxn. All arrays are int64[n], in order of the markers.

    path: of the file.
    versions: of the entries' format, 0.
    producer_ids: whose transactions they are.
    first_offsets: of each transaction's first record, absolute. It may lie in an earlier segment.
    last_offsets: of each transaction's ABORT marker, absolute.
    last_stable_offsets: of the partition, right after the marker was written.
    fault: why no entry could be read, or None. `read` raises an error instead.
    """

    path: str
    versions: Longs
    producer_ids: Longs
    first_offsets: Longs
    last_offsets: Longs
    last_stable_offsets: Longs
    fault: str | None = None

    @classmethod
    def read(cls, path: PathLike, *, storage_options: Mapping[str, object] | None = None) -> TransactionIndex:
        """Reads a `.txnindex` file up to the first entry that breaks the order.

        Args:
            path: The file, in a file system or a bucket.
            storage_options: The options of the object store.

        Returns:
            The entries.

        Raises:
            PathError: There is no such file, or it has more entries than any log has room for.
            StorageError: The file cannot be read. A retry may help.

        Example:
            >>> import kafka_segment_source
            >>> index = kafka_segment_source.TransactionIndex.read(
            ...     "tests/fixtures/transactions/data/ledger-0/00000000000000000000.txnindex"
            ... )
            >>> index.overlapping(20, 40).tolist()
            [1]
        """
        place = _find_index(path, 0, storage_options)
        blocks = list(_read_blocks(place.path, place.storage, place.size, _ABORTED_TXN, _LARGEST_LOG))
        entries = _concatenate_blocks(blocks, _ABORTED_TXN)
        if len(entries):
            entries = entries[: _count_leading(_compare_with_previous(np.greater, -1, _to_int64(entries["last"])))]
        return _to_transaction_index(place.path, entries)

    def __len__(self) -> int:
        return len(self.versions)

    def floor(self, offset: int) -> int:
        """Finds the last transaction that was aborted at or before an offset.

        Args:
            offset: Absolute.

        Returns:
            The slot of the largest entry with a marker at an offset ≤ `offset`. -1 if there is none.
        """
        return int(np.searchsorted(self.last_offsets, offset, side="right")) - 1

    def ceiling(self, offset: int) -> int:
        """Finds the first transaction that was aborted at or after an offset.

        Args:
            offset: Absolute.

        Returns:
            The slot of the least entry with a marker at an offset ≥ `offset`. len(self) if there is none.
        """
        return int(np.searchsorted(self.last_offsets, offset, side="left"))

    def overlapping(self, start: int, end: int) -> Longs:
        """Finds the transactions that a broker names to a read_committed fetch, as Kafka's `collectAbortedTxns`.

        Args:
            start: The first offset of the fetch.
            end: Its upper bound, exclusive (`OffsetIndex.upper_bound`).

        Returns:
            The slots of the entries whose marker is at or after `start` and whose first record is before `end`, int64.
            Kafka goes on with the next segments until an entry's last stable offset is at or after `end`.
        """
        return np.flatnonzero((self.last_offsets >= start) & (self.first_offsets < end))


class _Place(NamedTuple):
    """An index file that a user names. log_size: bytes of the `.log` beside it, or the most that a `.log` can have."""

    path: str
    storage: Storage
    size: int
    base_offset: int
    log_size: int


def _find_index(given: PathLike, base_offset: int | None, storage_options: Mapping[str, object] | None) -> _Place:
    """Looks at the index file at a path. Raises PathError if it is none, and StorageError if the storage fails."""
    texts = option_texts(given, {STORAGE_OPTIONS: storage_options})
    given = texts.pop("path")
    storage = make_storage(make_settings(texts))
    path = resolve_path(given, storage)
    entry = look_at(path, storage)
    if entry is None or entry.kind is Kind.BROKEN_LINK:
        raise PathError(f"file {given!r} does not exist")
    if entry.kind is not Kind.FILE:
        raise PathError(f"path {given!r} is {entry.kind.value}, expected an index file")
    stem = path[: len(path) - len(name_of(path)) + kafka_format.BASE_OFFSET_DIGITS]
    named = base_offset_of(name_of(stem) + kafka_format.LOG_SUFFIX)
    if base_offset is None:
        base_offset = named
    if base_offset is None:
        raise PathError(
            f"the name of file {given!r} does not say where its segment begins: found no 20 digits; give base_offset"
        )
    log = None if named is None else file_version(stem + kafka_format.LOG_SUFFIX, storage)
    return _Place(path, storage, entry.size, base_offset, _LARGEST_LOG if log is None else log.size)


def read_offset_index(path: str, storage: Storage, size: int | None, base_offset: int, log_size: int) -> OffsetIndex:
    """Returns the valid prefix of the `.index` at `path`.

    Valid entries have growing offsets, and growing positions above 0. Kafka never indexes the first append of a
    segment.

    size: bytes of the file as it was listed. None if there is no such file.
    base_offset: of the segment.
    log_size: bytes of its `.log`. Every valid position is below this.
    """
    try:
        return _read_offsets(path, storage, size, base_offset, log_size)
    except UNUSABLE as error:
        return OffsetIndex(path, _NONE, _NONE, str(error))


def _read_offsets(path: str, storage: Storage, size: int | None, base_offset: int, log_size: int) -> OffsetIndex:
    """Does the same. Raises an error of UNUSABLE."""
    parts: list[tuple[Longs, Longs]] = []
    last_offset, last_position = -1, 0
    for block in _read_blocks(path, storage, size, _OFFSET_ENTRY, log_size):
        offsets, positions = _to_int64(block["offset"]), _to_int64(block["position"])
        good = _compare_with_previous(np.greater, last_offset, offsets) & _compare_with_previous(
            np.greater, last_position, positions
        )
        good &= positions < log_size
        count = _count_leading(good)
        parts.append((offsets[:count], positions[:count]))
        if count < len(block):
            break
        last_offset, last_position = offsets[-1], positions[-1]
    offsets, positions = _concatenate_columns(parts)
    return OffsetIndex(path, offsets + base_offset, positions)


def read_time_index(
    path: str,
    storage: Storage,
    size: int | None,
    base_offset: int,
    next_base_offset: int | None,
    log_size: int = _LARGEST_LOG,
) -> TimeIndex:
    """Returns the valid prefix of the `.timeindex` at `path`.

    (0, 0) is always padding. As an entry it would state that the first record is no later than 1970.

    size: bytes of the file as it was listed. None if there is no such file.
    next_base_offset: of the next segment, above every offset of this one. None for the last segment.
    """
    try:
        return _read_times(path, storage, size, base_offset, next_base_offset, log_size)
    except UNUSABLE as error:
        return TimeIndex(path, _NONE, _NONE, str(error))


def _read_times(
    path: str, storage: Storage, size: int | None, base_offset: int, next_base_offset: int | None, log_size: int
) -> TimeIndex:
    """Does the same. Raises an error of UNUSABLE."""
    limit = (next_base_offset if next_base_offset is not None else kafka_format.MAX_OFFSET) - base_offset
    parts: list[tuple[Longs, Longs]] = []
    last_timestamp, last_offset = -1, 0
    for block in _read_blocks(path, storage, size, _TIME_ENTRY, log_size):
        timestamps, offsets = _to_int64(block["timestamp"]), _to_int64(block["offset"])
        good = _compare_with_previous(np.greater, last_timestamp, timestamps) & _compare_with_previous(
            np.greater_equal, last_offset, offsets
        )
        good &= (offsets < limit) & ((timestamps != 0) | (offsets != 0))
        count = _count_leading(good)
        parts.append((timestamps[:count], offsets[:count]))
        if count < len(block):
            break
        last_timestamp, last_offset = timestamps[-1], offsets[-1]
    timestamps, offsets = _concatenate_columns(parts)
    return TimeIndex(path, timestamps, offsets + base_offset)


def read_last_offsets(path: str, storage: Storage, size: int, base_offset: int, log_size: int) -> OffsetIndex | None:
    """Returns the last entries of the `.index` at `path`, by one small read. None if they are not valid.

    Arguments are those of `read_offset_index`. Padding is not valid.
    """
    count = size // _OFFSET_ENTRY.itemsize
    first = max(count - _END_BYTES // _OFFSET_ENTRY.itemsize, 0)
    try:
        entries = _read_entries(path, storage, _OFFSET_ENTRY, first, count)
    except FileChangedError:
        return None
    except UNUSABLE as error:
        return OffsetIndex(path, _NONE, _NONE, str(error))
    offsets, positions = _to_int64(entries["offset"]), _to_int64(entries["position"])
    good = _compare_with_previous(np.greater, -1, offsets) & _compare_with_previous(np.greater, 0, positions)
    good &= positions < log_size
    return OffsetIndex(path, offsets + base_offset, positions) if len(good) and good.all() else None


def read_time_ends(
    path: str, storage: Storage, size: int, base_offset: int, next_base_offset: int | None, log_size: int
) -> TimeIndex | None:
    """Returns the first and the last entries of the `.timeindex` at `path`, by two small reads at once.

    Arguments are those of `read_time_index`. None if they are not valid, taken together, or if the file is most likely
    padded.
    """
    count = size // _TIME_ENTRY.itemsize
    at_end = _END_BYTES // _TIME_ENTRY.itemsize
    if not 2 * at_end < count <= min(most_entries(log_size), _MOST_AHEAD // _TIME_ENTRY.itemsize):
        return None
    found: list[npt.NDArray[np.void] | None] = [None, None]

    def read(slot: int, first: int) -> None:
        found[slot] = _read_entries(path, storage, _TIME_ENTRY, first, first + at_end)

    try:
        run_together(lambda: read(0, 0), lambda: read(1, count - at_end))
    except FileChangedError:
        return None
    except UNUSABLE as error:
        return TimeIndex(path, _NONE, _NONE, str(error))
    entries = np.concatenate([part for part in found if part is not None])
    timestamps, offsets = _to_int64(entries["timestamp"]), _to_int64(entries["offset"])
    limit = (next_base_offset if next_base_offset is not None else kafka_format.MAX_OFFSET) - base_offset
    good = _compare_with_previous(np.greater, -1, timestamps) & _compare_with_previous(np.greater_equal, 0, offsets)
    good &= (offsets < limit) & ((timestamps != 0) | (offsets != 0))
    return TimeIndex(path, timestamps, offsets + base_offset) if good.all() else None


def written_offsets(path: str, storage: Storage, size: int | None, base_offset: int, log_size: int) -> OffsetIndex:
    """Returns every whole entry of a `.index` up to its zero padding, in order or not. The checks of index files use
    it.

    This function and the next two read at most the first 64 MiB. `size` may limit that to fewer bytes. Of a padded
    index, this function and the next one read only the part that the `.log` makes likely, and the end of the file. If
    either shows more than padding, they read it whole.

    log_size: bytes of the `.log`.
    """
    entries, fault = _read_unpadded(path, storage, size, _OFFSET_ENTRY, log_size)
    return OffsetIndex(path, _to_int64(entries["offset"]) + base_offset, _to_int64(entries["position"]), fault)


def written_times(path: str, storage: Storage, size: int | None, base_offset: int, log_size: int) -> TimeIndex:
    """Does the same as `written_offsets` for a `.timeindex`. A (0, 0) at the start stays, as a record may be of
    1970."""
    entries, fault = _read_unpadded(path, storage, size, _TIME_ENTRY, log_size)
    return TimeIndex(path, _to_int64(entries["timestamp"]), _to_int64(entries["offset"]) + base_offset, fault)


def written_aborts(path: str, storage: Storage, size: int | None) -> TransactionIndex:
    """Returns every whole entry of a `.txnindex`. It returns no entry if the file does not exist."""
    entries, fault = _read_every_entry(path, storage, size, _ABORTED_TXN)
    return _to_transaction_index(path, entries, fault)


def _to_transaction_index(path: str, entries: npt.NDArray[np.void], fault: str | None = None) -> TransactionIndex:
    names = ("version", "producer", "first", "last", "stable")
    versions, producer_ids, first_offsets, last_offsets, stable = (_to_int64(entries[name]) for name in names)
    return TransactionIndex(path, versions, producer_ids, first_offsets, last_offsets, stable, fault)


def most_entries(log_size: int) -> int:
    """Returns an upper bound for the entries of any index of a `.log` of `log_size` bytes.

    The bound is one entry per batch, and a last one of a time index. An index may have some entries more than a log
    that was cut. So the bound is at least one block, which costs nothing.
    """
    return max(log_size // _LEAST_BATCH + 2, _BLOCK_ENTRIES)


def _read_blocks(path: str, storage: Storage, size: int | None, entry: np.dtype[np.void], log_size: int):  # type: ignore[no-untyped-def]  # Iterator of arrays
    """Yields the whole entries of the file, block by block. It ignores odd bytes at the end, and yields nothing if the
    file is gone.

    Raises an error of UNUSABLE if the file cannot be read. Raises PathError if it has more entries than there can be. A
    caller that finds padding asks for no further block, so padding does not count.
    """
    left = (size or 0) // entry.itemsize
    if left == 0:
        return
    most = min(most_entries(log_size), _MOST_BYTES // entry.itemsize)
    try:
        with InputFile(path, storage) as file:
            if _BLOCK_ENTRIES < left <= _MOST_AHEAD // entry.itemsize:
                file.read_ahead(0, left * entry.itemsize)
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


def _read_entries(path: str, storage: Storage, entry: np.dtype[np.void], first: int, end: int) -> npt.NDArray[np.void]:
    """Returns the entries with first ≤ number < end, by one read of no more than these bytes."""
    data = np.empty((end - first) * entry.itemsize, np.uint8)
    with InputFile(path, storage) as file:
        file.read_into(first * entry.itemsize, data)
    return data.view(entry)


def _read_every_entry(
    path: str, storage: Storage, size: int | None, entry: np.dtype[np.void]
) -> tuple[npt.NDArray[np.void], str | None]:
    """Returns every whole entry with the padding, within the limit of 64 MiB. If the file cannot be read, it returns no
    entry and the reason."""
    try:
        return _concatenate_blocks(
            list(_read_blocks(path, storage, min(size or 0, _MOST_BYTES), entry, _LARGEST_LOG)), entry
        ), None
    except UNUSABLE as error:
        return np.empty(0, entry), str(error)


def _read_unpadded(
    path: str, storage: Storage, size: int | None, entry: np.dtype[np.void], log_size: int
) -> tuple[npt.NDArray[np.void], str | None]:
    """Returns every whole entry up to the padding. If the file cannot be read, it returns no entry and the reason."""
    likely = (log_size // _USUAL_INTERVAL + _MORE) * entry.itemsize
    is_padded = likely < (size or 0) and _ends_in_padding(path, storage, min(size or 0, _MOST_BYTES), entry)
    entries, fault = _read_every_entry(path, storage, likely if is_padded else size, entry)
    if is_padded and _count_written(entries[-_PADDING:]):
        entries, fault = _read_every_entry(path, storage, size, entry)
    return entries[: _count_written(entries)], fault


def _ends_in_padding(path: str, storage: Storage, size: int, entry: np.dtype[np.void]) -> bool:
    """Whether the last entries of the first `size` bytes are zeros. False if they cannot be read."""
    count = size // entry.itemsize
    try:
        return not _count_written(_read_entries(path, storage, entry, max(count - _PADDING, 0), count))
    except (FileChangedError, *UNUSABLE):
        return False


def _count_written(entries: npt.NDArray[np.void]) -> int:
    """Counts the entries up to the last one that is not zeros."""
    if any(entries[-1:].tobytes()):
        return len(entries)  # nearly every file ends here
    written = np.flatnonzero(entries != np.zeros(1, entries.dtype))
    return int(written[-1]) + 1 if len(written) else 0


def _count_leading(good: npt.NDArray[np.bool_]) -> int:
    """Returns the number of true values before the first false one."""
    return len(good) if good.all() else int(np.argmin(good))


def _compare_with_previous(compare: np.ufunc, last: int, column: Longs) -> npt.NDArray[np.bool_]:
    """Compares column[i] with column[i-1], and column[0] with `last`."""
    result = np.empty(len(column), np.bool_)
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


def _concatenate_blocks(parts: list[npt.NDArray[np.void]], entry: np.dtype[np.void]) -> npt.NDArray[np.void]:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, entry)


def _to_int64(column: npt.NDArray[np.signedinteger[npt.NBitBase]]) -> Longs:
    return column.astype(np.int64)
