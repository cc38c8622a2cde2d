"""Index files that a user names, as arrays: the public classes `OffsetIndex`, `TimeIndex` and `TransactionIndex`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import PathError
from kafka_segment_source.keywords import STORAGE_OPTIONS, PathLike, option_texts
from kafka_segment_source.logdir import index_entries
from kafka_segment_source.logdir.indexes import AbortEntries, OffsetEntries, TimeEntries, abort_arrays
from kafka_segment_source.logdir.names import base_offset_of
from kafka_segment_source.storage.files import file_version, look_at
from kafka_segment_source.storage.paths import name_of, resolve_path
from kafka_segment_source.storage.routed import make_storage
from kafka_segment_source.storage.settings import make_settings
from kafka_segment_source.storage.store import Kind, Storage


@dataclass(frozen=True, slots=True)
class OffsetIndex(OffsetEntries):
    """The entries of a `.index` file: which byte of the `.log` to begin at for an offset.

    A broker writes one for about every 4 KiB of the log (index.interval.bytes). The offset of an entry may differ from
    that of the batch at its position. Kafka 2.0 to 4.0 may write the last offset of a whole append, which belongs to a
    batch much further on.

    path: of the file.
    offsets: absolute, int64[n]. They grow strictly.
    positions: bytes from the start of the `.log`, int64[n]. They grow strictly.
    fault: None, as `read` raises an error instead.
    """

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
        offsets, positions = index_entries.valid_offsets(place.path, place.storage, place.size, place.log_size)
        return cls(place.path, offsets + place.base_offset, positions)


@dataclass(frozen=True, slots=True)
class TimeIndex(TimeEntries):
    """The entries of a `.timeindex` file: up to which offset nothing is later than a timestamp.

    An entry states that no record up to its offset is later than its timestamp. It states nothing about the records
    after it.

    path: of the file.
    timestamps: epoch ms, int64[n]. They grow strictly.
    offsets: absolute, int64[n]. They never shrink.
    fault: None, as `read` raises an error instead.
    """

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
        limit = kafka_format.MAX_OFFSET - place.base_offset
        timestamps, offsets = index_entries.valid_times(place.path, place.storage, place.size, limit, place.log_size)
        return cls(place.path, timestamps, offsets + place.base_offset)


@dataclass(frozen=True, slots=True)
class TransactionIndex(AbortEntries):
    """The entries of a `.txnindex` file: the transactions whose ABORT marker is in the segment, as they are stored.

    Kafka: TransactionIndex, AbortedTxn. All arrays are int64[n], in order of the markers.

    path: of the file.
    versions: of the entries' format, 0.
    producer_ids: whose transactions they are.
    first_offsets: of each transaction's first record, absolute. It may lie in an earlier segment.
    last_offsets: of each transaction's ABORT marker, absolute.
    last_stable_offsets: of the partition, right after the marker was written.
    fault: None, as `read` raises an error instead.
    """

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
        entries = index_entries.valid_aborts(place.path, place.storage, place.size)
        return cls(place.path, *abort_arrays(entries))


class _Place(NamedTuple):
    """An index file that a user names.

    log_size: bytes of the `.log` beside it, or the most that a `.log` can have.
    """

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
    return _Place(path, storage, entry.size, base_offset, kafka_format.LARGEST_LOG if log is None else log.size)
