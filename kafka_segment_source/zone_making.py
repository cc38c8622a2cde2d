"""A segment → its zones, by decoding it once. Executor side: the kernels are here.

Comes in: a split that begins at a batch. Goes out: `MappedSegment`: the zones of its whole batches up to the end of the
log or the first damage, which is said. Every batch that goes into a zone has held its CRC and was decoded; keys and
values are not copied. At most a chunk is in memory at a time.

A zone is the batches that begin in one cell of ZONE_BYTES of the file, so that mapping on from the start of a zone gives
what mapping from the start of the file would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafka_segment_source import zone_maps as z
from kafka_segment_source.decode import Decoder, RecordColumns
from kafka_segment_source.errors import DataError
from kafka_segment_source.files import FileVersion, InputFile, file_version
from kafka_segment_source.kernels import headers as h
from kafka_segment_source.kernels import record_batches as k
from kafka_segment_source.reading import BatchReader, Chunk, Damage, HeaderTable
from kafka_segment_source.splits import SegmentSplit
from kafka_segment_source.zone_maps import ZoneTable, no_zones

# A window of 0.5 % of 1 GiB with late records: 64 KiB, 256 KiB, 1 MiB were measured, see docs/zone-maps.md
ZONE_BYTES = 256 * 1024

# Rows of what is known of each batch, int64[3, n]
_COUNT, _MIN, _MAX = range(3)

BatchTimes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MappedSegment:
    """zones: of what was read; damage: what kept the rest from being mapped, None if nothing did; bytes_read: of the file."""

    zones: ZoneTable
    damage: str | None
    bytes_read: int


def map_segment(
    split: SegmentSplit, max_batch_bytes: int, advance: Callable[[int], None] = lambda _: None, cell: int = ZONE_BYTES
) -> MappedSegment:
    """The zones of a segment from the batch at `split.start` on.

    advance: told how many bytes more are done; cell: bytes of the file in which the batches of one zone begin. Raises
    FileChangedError and PathError.
    """
    version = file_version(split.path)
    damage: DataError | None = None
    tables: list[ZoneTable] = []
    done = split.start
    with InputFile(split.path) as file:
        policy = Damage(drop=False)
        reader = BatchReader(file, split, check_crcs=True, max_batch_bytes=max_batch_bytes, damage=policy)
        decoder = Decoder(
            split, check_crcs=True, max_batch_bytes=max_batch_bytes, include_control=False, damage=policy
        )
        chunks = reader.chunks()
        while damage is None:
            try:
                chunk = next(chunks, None)
            except DataError as error:
                damage = error
                break
            if chunk is None:
                break
            headers, times, damage = _decoded(decoder, chunk)
            if headers.shape[1]:
                tables.append(_zones(headers, times, cell))
                end = int(headers[h.POSITION, -1] + headers[h.SIZE, -1])
                advance(end - done)
                done = end
    advance(split.end - done)
    zones = _joined(tables, cell)
    zones[z.SEGMENT] = split.base_offset
    zones[[z.FILE_SIZE, z.FILE_INODE, z.FILE_CHANGED]] = np.array(_told(version)).reshape(3, 1)
    return MappedSegment(zones, None if damage is None else str(damage), done - split.start)


def _told(version: FileVersion) -> list[int]:
    return [version.size, version.inode, version.changed]


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


def _zones(headers: HeaderTable, times: BatchTimes, cell: int) -> ZoneTable:
    """Zones of consecutive batches; SEGMENT and what concerns the file are not filled."""
    firsts = np.flatnonzero(np.diff(headers[h.POSITION] // cell, prepend=-1))
    lasts = np.append(firsts[1:], headers.shape[1]) - 1
    zones = no_zones(len(firsts))
    zones[z.START] = headers[h.POSITION, firsts]
    zones[z.END] = headers[h.POSITION, lasts] + headers[h.SIZE, lasts]
    zones[z.FIRST_OFFSET] = headers[h.BASE_OFFSET, firsts]
    zones[z.LAST_OFFSET] = headers[h.LAST_OFFSET, lasts]
    zones[z.FIRST_CRC] = headers[h.CRC, firsts]
    zones[z.LAST_POSITION] = headers[h.POSITION, lasts]
    zones[z.LAST_CRC] = headers[h.CRC, lasts]
    zones[z.LAST_EPOCH] = headers[h.LEADER_EPOCH, lasts]
    zones[z.RECORDS] = np.add.reduceat(times[_COUNT], firsts)
    zones[z.MIN_TIMESTAMP] = np.minimum.reduceat(times[_MIN], firsts)
    zones[z.MAX_TIMESTAMP] = np.maximum.reduceat(times[_MAX], firsts)
    return zones


def _joined(tables: list[ZoneTable], cell: int) -> ZoneTable:
    """The tables of chunks that follow one another as one; a zone that goes on in the next chunk is one zone."""
    zones = np.concatenate([no_zones(), *tables], axis=1)
    goes_on = np.diff(zones[z.START] // cell, append=-1) == 0
    first, second = zones[:, :-1][:, goes_on[:-1]], zones[:, 1:][:, goes_on[:-1]]
    return zones
