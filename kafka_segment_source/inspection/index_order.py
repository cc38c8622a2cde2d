"""Every entry of a segment's index files as it is stored, and which keep their order, by the rules of
`index_entries.py`. It reads no `.log`.

`logdir/indexes.py` gives the valid entries, which reads use. Here are all of them, for those that look for faults.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.logdir.index_entries import count_leading, keep_offset_order, keep_time_order, most_entries
from kafka_segment_source.logdir.indexes import (
    AbortEntries,
    OffsetEntries,
    TimeEntries,
    written_aborts,
    written_offsets,
    written_times,
)
from kafka_segment_source.logdir.segments import Segment

Mask = npt.NDArray[np.bool_]


def _bound(size: int | None, entry_bytes: int, log_size: int) -> int | None:
    """How many bytes of an index file of `size` bytes are read: at most one entry more than the log has room for."""
    return None if size is None else min(size, (most_entries(log_size) + 1) * entry_bytes)


def written_offsets_of(segment: Segment) -> OffsetEntries:
    """Reads every entry of a segment's `.index`, in order or not, and at most one more than the log has room for."""
    size = _bound(segment.index_size, kafka_format.OFFSET_INDEX_ENTRY, segment.size)
    return written_offsets(segment.index_path, segment.storage, size, segment.base_offset, segment.size)


def written_times_of(segment: Segment) -> TimeEntries:
    """Reads every entry of a segment's `.timeindex`, in order or not."""
    size = _bound(segment.time_index_size, kafka_format.TIME_INDEX_ENTRY, segment.size)
    return written_times(segment.time_index_path, segment.storage, size, segment.base_offset, segment.size)


def written_aborts_of(segment: Segment) -> AbortEntries:
    """Reads every entry of a segment's `.txnindex`, in order or not."""
    size = _bound(segment.transaction_index_size, kafka_format.TRANSACTION_INDEX_ENTRY, segment.size)
    return written_aborts(segment.transaction_index_path, segment.storage, size)


def sound_offsets(index: OffsetEntries, base_offset: int) -> int:
    """Counts the leading entries that keep the order of an offset index. It is all of them if the file is sound."""
    return count_leading(keep_offset_order(index.offsets - base_offset, index.positions))


def sound_times(index: TimeEntries, base_offset: int) -> int:
    """Counts the leading entries that keep the order of a time index. It is all of them if the file is sound."""
    return count_leading(keep_time_order(index.timestamps, index.offsets - base_offset))


def sound_aborts(index: AbortEntries, segment: Segment) -> Mask:
    """Which entries keep the rules of a transaction index that need no batch."""
    before = np.concatenate(([segment.base_offset - 1], index.last_offsets[:-1]))
    limit = segment.span.end
    good = (index.versions == 0) & (index.last_offsets > before) & (index.last_offsets < limit)
    good &= (index.first_offsets <= index.last_offsets) & (index.producer_ids >= 0) & (index.first_offsets >= 0)
    return np.asarray(good)
