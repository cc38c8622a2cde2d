"""A segment → its zones, by decoding it once. Executor side: the kernels are here.

Comes in: a split that begins at a batch. Goes out: `MappedSegment`: the zones of its whole batches up to the end of the
log or the first damage, which is said. Every batch that goes into a zone has held its CRC and was decoded; keys and
values are not copied. At most a chunk is in memory at a time.

A zone is the batches that begin in one cell of ZONE_BYTES of the file, so that mapping on from the start of a zone
gives what mapping from the start of the file would.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafka_segment_source.decoding.batches import Chunk, HeaderTable
from kafka_segment_source.decoding.damage import Damage
from kafka_segment_source.decoding.records import Decoder, RecordColumns
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.errors import DataError
from kafka_segment_source.kernels import headers as h
from kafka_segment_source.kernels import record_batches as k
from kafka_segment_source.reporting import Advance
from kafka_segment_source.storage.files import lasting_version
from kafka_segment_source.trust import Trust
from kafka_segment_source.zones import table as z
from kafka_segment_source.zones.pruning import is_there
from kafka_segment_source.zones.table import ZoneTable, no_zones

# Bytes read for a window of 0.5 % of a 1 GiB log, and bytes of its maps: 64 KiB 5.5 MB, 151 kB; 256 KiB 6.1 MB, 43 kB;
# 1 MiB 8.2 MB, 16 kB (benchmarks/zone_maps.py)
ZONE_BYTES = 256 * 1024

# Rows of what is known of each batch, int64[3, n]
_COUNT, _MIN, _MAX = range(3)

BatchTimes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MappedSegment:
    """zones: of what was read; damage: what kept the rest from being mapped, None if nothing did;
    bytes_read: of the file."""

    zones: ZoneTable
    damage: str | None
    bytes_read: int


def map_segment(
    split: SegmentSplit, max_batch_bytes: int, advance: Advance = lambda _: None, cell: int = ZONE_BYTES
) -> MappedSegment:
    """The zones of a segment from the batch at `split.start` on.

    advance: told how many bytes more are done; cell: bytes of the file in which the batches of one zone begin. Raises
    StorageError, and FileChangedError where the file is not the one that was planned.
    """
    damage = None
    tables = [no_zones()]
    done = split.start
    noted = Damage(drop=False)
    with SplitFile(split, Trust(max_batch_bytes=max_batch_bytes), noted) as source:
        version = lasting_version(source.version)
        try:
            for headers, times in _sound_batches(source):
                tables.append(_by_cell(_batches(headers, times), cell))
                end = int(tables[-1][z.END, -1])
                advance(end - done)
                done = end
            source.finish()
        except DataError as error:
            damage = str(error)
        advance(split.end - done)
        zones = _by_cell(np.concatenate(tables, axis=1), cell)
        if source.has_changed():
            zones = _without_truncated(source, zones)
    zones[z.SEGMENT] = split.base_offset
    zones[z.FILE_SIZE], zones[z.FILE_INODE], zones[z.FILE_CHANGED] = version.size, version.inode, version.changed
    return MappedSegment(zones, damage, done - split.start)


def _without_truncated(source: SplitFile, zones: ZoneTable) -> ZoneTable:
    """The zones up to the first that is not in the file any more: a log may be truncated, and refilled, while it is
    read, and the zones of what came after would prove those of what was before."""
    probe = source.probe()
    gone = (at for at in range(zones.shape[1]) if not is_there(probe, zones, at, at))
    return zones[:, : next(gone, zones.shape[1])]


def _sound_batches(source: SplitFile) -> Iterator[tuple[HeaderTable, BatchTimes]]:
    """Headers of consecutive batches that were decoded, at least one a time, and the times of each; then raises
    DataError if it was damage that ended them. Both are used again for the next."""
    decoder = source.decoder(include_control=False)
    for chunk in source.chunks():
        headers, times, error = _decoded(decoder, chunk)
        if headers.shape[1]:
            yield headers, times
        if error is not None:
            raise error


def _decoded(decoder: Decoder, chunk: Chunk) -> tuple[HeaderTable, BatchTimes, DataError | None]:
    """The headers of a chunk's batches before the first damaged one, the times of each, and the damage."""
    headers, damage = chunk.headers, None
    while headers.shape[1]:
        times = np.empty((3, headers.shape[1]), np.int64)
        times[_COUNT], times[_MIN], times[_MAX] = 0, z.NO_MINIMUM, z.NO_MAXIMUM
        try:
            for records in decoder.decode(Chunk(chunk.data, headers, chunk.position)):
                _take(records, headers, times)
        except DataError as error:  # rows of sound batches may be lost with it: once more, without what is damaged
            sound = int(np.searchsorted(headers[h.POSITION], error.position))
            headers, damage = headers[:, :sound], error
            continue
        return headers, times, damage
    return headers, np.empty((3, 0), np.int64), damage


def _take(records: RecordColumns, headers: HeaderTable, times: BatchTimes) -> None:
    """Takes records in: `times` gets their count, least and largest timestamp by batch. A batch may come in parts."""
    batches = records.ints[k.BATCH, : records.count]
    timestamps = records.longs[k.TIMESTAMP, : records.count]
    starts = np.flatnonzero(np.diff(batches, prepend=-1))
    at = np.searchsorted(headers[h.POSITION], records.headers[h.POSITION, batches[starts]])
    times[_COUNT, at] += np.diff(starts, append=records.count)
    times[_MIN, at] = np.minimum(times[_MIN, at], np.minimum.reduceat(timestamps, starts))
    times[_MAX, at] = np.maximum(times[_MAX, at], np.maximum.reduceat(timestamps, starts))


def _batches(headers: HeaderTable, times: BatchTimes) -> ZoneTable:
    """Each batch as a zone of its own; SEGMENT and what concerns the file are not filled."""
    zones = no_zones(headers.shape[1])
    zones[z.START] = zones[z.LAST_POSITION] = headers[h.POSITION]
    zones[z.END] = headers[h.POSITION] + headers[h.SIZE]
    zones[z.FIRST_OFFSET], zones[z.LAST_OFFSET] = headers[h.BASE_OFFSET], headers[h.LAST_OFFSET]
    zones[z.FIRST_CRC] = zones[z.LAST_CRC] = headers[h.CRC]
    zones[z.LAST_EPOCH] = headers[h.LEADER_EPOCH]
    zones[z.RECORDS], zones[z.MIN_TIMESTAMP], zones[z.MAX_TIMESTAMP] = times[_COUNT], times[_MIN], times[_MAX]
    return zones


def _by_cell(zones: ZoneTable, cell: int) -> ZoneTable:
    """Neighbours that begin in the same cell made one zone."""
    if not zones.shape[1]:
        return zones
    firsts = np.flatnonzero(np.diff(zones[z.START] // cell, prepend=-1))
    lasts = np.append(firsts[1:], zones.shape[1]) - 1
    joined = zones[:, firsts]
    ends = [z.END, z.LAST_OFFSET, z.LAST_POSITION, z.LAST_CRC, z.LAST_EPOCH]
    joined[ends] = zones[:, lasts][ends]
    joined[z.RECORDS] = np.add.reduceat(zones[z.RECORDS], firsts)
    joined[z.MIN_TIMESTAMP] = np.minimum.reduceat(zones[z.MIN_TIMESTAMP], firsts)
    joined[z.MAX_TIMESTAMP] = np.maximum.reduceat(zones[z.MAX_TIMESTAMP], firsts)
    return joined
