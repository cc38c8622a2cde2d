"""The valid entries of index files as read-only arrays, with absolute offsets. `index_entries.py` has the rules.

An index is only a hint. Its user must prove each entry by the batch header that it points to (`ranges.py`). Nothing
here opens a `.log`. A file that is missing, empty, zero-padded, torn or damaged gives its valid prefix, which may be
empty. It raises no error and makes the scan slower. `inspection/index_rules.py` reports what is wrong with a file.

An index that is larger than any of its `.log` gives no entry, and its `fault` states the reason. `index_entries.py` has
the bounds.

Kafka: OffsetIndex, TimeIndex, AbstractIndex (`org.apache.kafka.storage.internals.log`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.logdir import index_entries
from kafka_segment_source.logdir.index_entries import Entries, Longs, to_int64
from kafka_segment_source.storage.files import UNUSABLE
from kafka_segment_source.storage.store import Storage

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class OffsetEntries:
    """The entries of a `.index` file: which byte of the `.log` to begin at for an offset.

    A broker writes one for about every 4 KiB of the log (index.interval.bytes). The offset of an entry may differ from
    that of the batch at its position. Kafka 2.0 to 4.0 may write the last offset of a whole append, which belongs to a
    batch much further on.

    path: of the file.
    offsets: absolute, int64[n]. They grow strictly.
    positions: bytes from the start of the `.log`, int64[n]. They grow strictly.
    fault: why an existing file is not used, or None.
    """

    path: str
    offsets: Longs
    positions: Longs
    fault: str | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def floor(self, offset: int) -> int:
        """Finds where a search for an offset begins, as Kafka's `OffsetIndex.lookup`.

        Args:
            offset: Absolute.

        Returns:
            The slot of the largest entry with an offset ≤ `offset`. -1 if there is none: Kafka then begins at byte 0.
        """
        return int(self.offsets.searchsorted(offset, side="right")) - 1

    def ceiling(self, offset: int) -> int:
        """Finds the first entry at or after an offset.

        Args:
            offset: Absolute.

        Returns:
            The slot of the least entry with an offset ≥ `offset`. len(self) if there is none.
        """
        return int(self.offsets.searchsorted(offset, side="left"))

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
        return int(self.positions.searchsorted(position + size, side="left"))


@dataclass(frozen=True, slots=True)
class TimeEntries:
    """The entries of a `.timeindex` file: up to which offset nothing is later than a timestamp.

    An entry states that no record up to its offset is later than its timestamp. It states nothing about the records
    after it.

    path: of the file.
    timestamps: epoch ms, int64[n]. They grow strictly.
    offsets: absolute, int64[n]. They never shrink.
    fault: why an existing file is not used, or None.
    """

    path: str
    timestamps: Longs
    offsets: Longs
    fault: str | None = None

    def __len__(self) -> int:
        return len(self.timestamps)

    def floor(self, timestamp: int) -> int:
        """Finds the entry that Kafka's `TimeIndex.lookup` finds.

        Args:
            timestamp: Epoch ms.

        Returns:
            The slot of the largest entry with a timestamp ≤ `timestamp`. -1 if there is none.
        """
        return int(self.timestamps.searchsorted(timestamp, side="right")) - 1

    def ceiling(self, timestamp: int) -> int:
        """Finds the first entry at or after a timestamp.

        Args:
            timestamp: Epoch ms.

        Returns:
            The slot of the least entry with a timestamp ≥ `timestamp`. len(self) if there is none.
        """
        return int(self.timestamps.searchsorted(timestamp, side="left"))

    def before(self, timestamp: int) -> int:
        """Finds the last entry that proves its records to be before a timestamp.

        Args:
            timestamp: Epoch ms.

        Returns:
            The slot of the largest entry with a timestamp < `timestamp`. -1 if there is none.
        """
        return self.ceiling(timestamp) - 1


@dataclass(frozen=True, slots=True)
class AbortEntries:
    """The entries of a `.txnindex` file: the transactions whose ABORT marker is in the segment, as they are stored.

    Kafka: TransactionIndex, AbortedTxn. All arrays are int64[n], in order of the markers.

    path: of the file.
    versions: of the entries' format, 0.
    producer_ids: whose transactions they are.
    first_offsets: of each transaction's first record, absolute. It may lie in an earlier segment.
    last_offsets: of each transaction's ABORT marker, absolute.
    last_stable_offsets: of the partition, right after the marker was written.
    fault: why no entry could be read, or None.
    """

    path: str
    versions: Longs
    producer_ids: Longs
    first_offsets: Longs
    last_offsets: Longs
    last_stable_offsets: Longs
    fault: str | None = None

    def __len__(self) -> int:
        return len(self.versions)

    def floor(self, offset: int) -> int:
        """Finds the last transaction that was aborted at or before an offset.

        Args:
            offset: Absolute.

        Returns:
            The slot of the largest entry with a marker at an offset ≤ `offset`. -1 if there is none.
        """
        return int(self.last_offsets.searchsorted(offset, side="right")) - 1

    def ceiling(self, offset: int) -> int:
        """Finds the first transaction that was aborted at or after an offset.

        Args:
            offset: Absolute.

        Returns:
            The slot of the least entry with a marker at an offset ≥ `offset`. len(self) if there is none.
        """
        return int(self.last_offsets.searchsorted(offset, side="left"))

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


def read_offset_index(path: str, storage: Storage, size: int | None, base_offset: int, log_size: int) -> OffsetEntries:
    """Returns the valid prefix of the `.index` at `path`. `index_entries.valid_offsets` says what is valid.

    size: bytes of the file as it was listed. None if there is no such file.
    base_offset: of the segment.
    log_size: bytes of its `.log`.
    """
    try:
        offsets, positions = index_entries.valid_offsets(path, storage, size, log_size)
    except UNUSABLE as error:
        return OffsetEntries(path, _NONE, _NONE, str(error))
    return OffsetEntries(path, offsets + base_offset, positions)


def read_time_index(
    path: str,
    storage: Storage,
    size: int | None,
    base_offset: int,
    next_base_offset: int | None,
    log_size: int = kafka_format.LARGEST_LOG,
) -> TimeEntries:
    """Returns the valid prefix of the `.timeindex` at `path`. `index_entries.valid_times` says what is valid.

    size: bytes of the file as it was listed. None if there is no such file.
    next_base_offset: of the next segment, above every offset of this one. None for the last segment.
    """
    try:
        limit = _limit_offsets(base_offset, next_base_offset)
        timestamps, offsets = index_entries.valid_times(path, storage, size, limit, log_size)
    except UNUSABLE as error:
        return TimeEntries(path, _NONE, _NONE, str(error))
    return TimeEntries(path, timestamps, offsets + base_offset)


def read_last_offsets(path: str, storage: Storage, size: int, base_offset: int, log_size: int) -> OffsetEntries | None:
    """Returns the last entries of the `.index` at `path`, by one small read. None if they are not valid.

    Arguments are those of `read_offset_index`. Padding is not valid.
    """
    try:
        entries = index_entries.valid_last_offsets(path, storage, size, log_size)
    except UNUSABLE as error:
        return OffsetEntries(path, _NONE, _NONE, str(error))
    return OffsetEntries(path, entries[0] + base_offset, entries[1]) if entries is not None else None


def read_offsets_behind(known: OffsetEntries, storage: Storage, size: int, base_offset: int) -> Longs:
    """Returns the offsets of the entries of a `.index` behind those that lead into its `.log`, absolute, int64[n], as
    far as one small read shows them. It returns none if there are no more, or if they are not in order.

    known: the valid entries, as `read_offset_index` returns them. size, base_offset: as there.

    Raises FileChangedError if the file is gone, and an error of UNUSABLE if it cannot be read.
    """
    last = int(known.offsets[-1]) - base_offset if len(known) else -1
    position = int(known.positions[-1]) if len(known) else 0
    return index_entries.offsets_behind(known.path, storage, size, (len(known), last, position)) + base_offset


def read_time_ends(
    path: str, storage: Storage, size: int, base_offset: int, next_base_offset: int | None, log_size: int
) -> TimeEntries | None:
    """Returns the first and the last entries of the `.timeindex` at `path`, by two small reads at once.

    Arguments are those of `read_time_index`. None if they are not valid, taken together, or if the file is most likely
    padded.
    """
    try:
        limit = _limit_offsets(base_offset, next_base_offset)
        entries = index_entries.valid_time_ends(path, storage, size, limit, log_size)
    except UNUSABLE as error:
        return TimeEntries(path, _NONE, _NONE, str(error))
    return TimeEntries(path, entries[0], entries[1] + base_offset) if entries is not None else None


def find_last_offset(path: str, storage: Storage, size: int, base_offset: int) -> int | None:
    """Returns the last offset that the index file at `path` mentions, whatever its kind. None if it mentions none.

    It asks no `.log`, so it is for a file whose `.log` is missing or has no bytes. size, base_offset: as above.
    """
    if path.endswith(kafka_format.TIME_INDEX_SUFFIX):
        offsets = read_time_index(path, storage, size, base_offset, None).offsets
    elif path.endswith(kafka_format.INDEX_SUFFIX):
        offsets = read_offset_index(path, storage, size, base_offset, kafka_format.LARGEST_LOG).offsets
    else:
        offsets = written_aborts(path, storage, size).last_offsets
    return next((int(offset) for offset in offsets[-1:] if base_offset <= offset < kafka_format.MAX_OFFSET), None)


def _limit_offsets(base_offset: int, next_base_offset: int | None) -> int:
    """Returns the relative offset that every one of a segment is below."""
    return (next_base_offset if next_base_offset is not None else kafka_format.MAX_OFFSET) - base_offset


def written_offsets(path: str, storage: Storage, size: int | None, base_offset: int, log_size: int) -> OffsetEntries:
    """Returns every whole entry of a `.index` up to its zero padding, in order or not. The checks of index files use
    it.

    This function and the next two read at most the first 64 MiB. `size` may limit that to fewer bytes. Of a padded
    index, this function and the next one read only the part that the `.log` makes likely, and the end of the file. If
    either shows more than padding, they read it whole.

    log_size: bytes of the `.log`.
    """
    entries, fault = index_entries.written_unpadded(path, storage, size, index_entries.OFFSET_ENTRY, log_size)
    return OffsetEntries(path, to_int64(entries["offset"]) + base_offset, to_int64(entries["position"]), fault)


def written_times(path: str, storage: Storage, size: int | None, base_offset: int, log_size: int) -> TimeEntries:
    """Returns every whole entry of a `.timeindex` up to its zero padding, in order or not. A (0, 0) at the start
    stays, as a record may be of 1970."""
    entries, fault = index_entries.written_unpadded(path, storage, size, index_entries.TIME_ENTRY, log_size)
    return TimeEntries(path, to_int64(entries["timestamp"]), to_int64(entries["offset"]) + base_offset, fault)


def written_aborts(path: str, storage: Storage, size: int | None) -> AbortEntries:
    """Returns every whole entry of a `.txnindex`. It returns no entry if the file does not exist."""
    entries, fault = index_entries.written_entries(path, storage, size, index_entries.ABORTED_TXN)
    return AbortEntries(path, *abort_arrays(entries), fault)


def abort_arrays(entries: Entries) -> tuple[Longs, Longs, Longs, Longs, Longs]:
    """Returns the arrays of `AbortEntries`, from `versions` to `last_stable_offsets`."""
    versions, producer_ids, firsts, lasts, stable = (
        to_int64(entries[name]) for name in ("version", "producer", "first", "last", "stable")
    )
    return versions, producer_ids, firsts, lasts, stable
