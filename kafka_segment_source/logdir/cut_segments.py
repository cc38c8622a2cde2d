"""Finds a segment whose `.log` was cut where a batch ends, by its index files: they lead behind its end.

A broker appends to the `.log` before it adds an entry to an index. It cuts the index files with the `.log`. So an entry
that leads behind the last batch shows that more batches were there. In a compacted log nothing else shows it, as
offsets may be missing before the next segment.

But in a copy of a running broker, the index of before a compaction may lie beside the `.log` of after it. So the
`.index` must be that of this `.log`: its last entry inside leads to a batch, and its last one of all has an offset
before the next segment. Where no entry leads inside, the `.timeindex` must have an offset behind the end too.

Kafka: LogSegment.append, LogSegment.truncateTo.
"""

from __future__ import annotations

from contextlib import suppress

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.logdir.indexes import (
    OffsetEntries,
    find_last_offset,
    read_last_offsets,
    read_offset_index,
    read_offsets_behind,
)
from kafka_segment_source.logdir.probe import HeaderProbe
from kafka_segment_source.storage.files import UNUSABLE, file_version
from kafka_segment_source.storage.store import Storage


def find_lost_end(
    path: str,
    storage: Storage,
    base_offset: int,
    log_size: int,
    index_size: int,
    limit: int,
    end: int,
    probe: HeaderProbe,
) -> int | None:
    """Returns the last offset that the `.index` of a segment has behind the batches of its `.log`. None if it shows no
    loss, if it cannot be read, or if it is gone.

    path, base_offset, log_size: of the `.log`. index_size: of the `.index`. Sizes are in bytes.
    limit: where the next segment begins. end: the offset after the last batch, where the bytes of the `.log` end.
    probe: reads its headers.
    """
    stem = path.removesuffix(kafka_format.LOG_SUFFIX)
    index_path = stem + kafka_format.INDEX_SUFFIX
    if read_last_offsets(index_path, storage, index_size, base_offset, log_size) is not None:
        return None  # all of it leads inside
    entries = read_offset_index(index_path, storage, index_size, base_offset, log_size)
    if entries.fault is not None:
        return None
    behind, has_time = [], False
    with suppress(FileChangedError, *UNUSABLE):  # an index that cannot be read says nothing
        behind = read_offsets_behind(entries, storage, index_size, base_offset).tolist()
        has_time = not len(entries) and _has_time_behind(stem, storage, base_offset, end)
    if not behind or not end <= behind[-1] < limit:
        return None
    is_own = _leads_to_batch(entries, probe) if len(entries) else has_time
    return int(behind[-1]) if is_own else None


def _leads_to_batch(entries: OffsetEntries, probe: HeaderProbe) -> bool:
    """Whether the last entry leads to a batch that may have its offset."""
    header = probe.proven(int(entries.positions[-1]))
    return header is not None and header.base_offset <= entries.offsets[-1]


def _has_time_behind(stem: str, storage: Storage, base_offset: int, end: int) -> bool:
    """Whether the `.timeindex` has an offset at or after `end`."""
    path = stem + kafka_format.TIME_INDEX_SUFFIX
    version = file_version(path, storage)
    last = None if version is None else find_last_offset(path, storage, version.size, base_offset)
    return last is not None and last >= end
