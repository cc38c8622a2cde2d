"""Makes the zones of a segment by decoding it once. This runs on the executor, so it loads the kernels.

Comes in: a split that begins at a batch. Goes out: `MappedSegment`. It has the zones of the whole batches up to the end
of the log, or up to the first damage, which it states. Every batch of a zone has a matching CRC and was decoded. Keys
and values are not copied. At most one chunk is in memory at a time, and the key filters of the segment, if wanted.

A zone holds the batches that begin in one cell of ZONE_BYTES of the file. So a map that continues from the start of a
zone equals one that is made from the start of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.damage import Damage
from kafka_segment_source.decoding.records import Decoder, RecordColumns
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.errors import DataError
from kafka_segment_source.kernels import batch_headers, record_batches
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.reporting import Advance
from kafka_segment_source.storage.files import lasting_version
from kafka_segment_source.trust import Trust
from kafka_segment_source.zones import zone_table
from kafka_segment_source.zones.key_filters import ZoneFilter, identify
from kafka_segment_source.zones.key_making import FilterMaker, HashedKeys, hash_keys
from kafka_segment_source.zones.pruning import is_there
from kafka_segment_source.zones.zone_table import ZoneTable, no_zones

# For a window of 0.5 % of a 1 GiB log (benchmarks/zone_maps.py):
# - cells of 64 KiB: 5.5 MB are read, and the maps have 151 kB
# - cells of 256 KiB: 6.1 MB are read, and the maps have 43 kB
# - cells of 1 MiB: 8.2 MB are read, and the maps have 16 kB
ZONE_BYTES = 256 * 1024

# Rows of the count and the timestamps of each batch, int64[3, n]
_COUNT, _MIN, _MAX = range(3)

BatchTimes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MappedSegment:
    """The zones of one segment.

    zones: of the batches that were read.
    damage: the damage that ended the map early, or None.
    bytes_read: of the file.
    filters: the key filter of each zone, with its identity. None if they were not asked for, or are written already.
    filter_bytes: of the file of filters that was written.
    """

    zones: ZoneTable
    damage: str | None
    bytes_read: int
    filters: tuple[ZoneFilter, ...] | None = None
    filter_bytes: int = 0


def map_segment(
    split: SegmentSplit,
    max_batch_bytes: int,
    advance: Advance = lambda _: None,
    keys: bool = False,
    cell: int = ZONE_BYTES,
) -> MappedSegment:
    """Returns the zones of a segment from the batch at `split.start` on.

    Raises StorageError, and FileChangedError if the file is not the one that was planned.

    advance: is called with the number of further bytes that are done.
    keys: whether key filters are made. cell: bytes of the file in which the batches of one zone begin.
    """
    damage, is_cut = None, False
    maker = FilterMaker(cell) if keys else None
    tables = [no_zones()]
    done = split.start
    noted = Damage(drop=False)
    own = split._replace(asks_in_gaps=False)  # a map describes one file
    with SplitFile(own, Trust(max_batch_bytes=max_batch_bytes), noted) as source:
        version = lasting_version(source.version)
        try:
            for headers, times in _decode_sound_batches(source, maker):
                tables.append(_join_by_cell(_make_batch_zones(headers, times), cell))
                end = int(tables[-1][zone_table.END, -1])
                advance(end - done)
                done = end
            source.finish()
        except DataError as error:
            damage = str(error)
            is_cut = error.position == split.segment_size
        advance(split.end - done)
        zones = _join_by_cell(np.concatenate(tables, axis=1), cell)
        if is_cut:
            zones = zones[:, :-1]  # a read of the last batch notices what is lost behind it
        if source.has_changed():
            zones = _drop_truncated(source, zones)
    zones[zone_table.SEGMENT] = split.base_offset
    of_file = [zone_table.FILE_SIZE, zone_table.FILE_INODE, zone_table.FILE_CHANGED]
    zones[of_file] = np.array([version.as_numbers()]).T
    filters = None
    if maker is not None:
        maker.finish()
        starts = zones[zone_table.START].tolist()
        filters = tuple(zip(identify(zones), map(maker.of_zone, starts), strict=True))
    return MappedSegment(zones, damage, done - split.start, filters)


def _drop_truncated(source: SplitFile, zones: ZoneTable) -> ZoneTable:
    """Returns the zones up to the first that is no longer in the file.

    A log may be truncated and filled again while it is read. Later zones would then prove earlier ones that are gone.
    """
    probe = source.probe()
    gone = (at for at in range(zones.shape[1]) if not is_there(probe, zones, at, at))
    return zones[:, : next(gone, zones.shape[1])]


def _decode_sound_batches(source: SplitFile, maker: FilterMaker | None) -> Iterator[tuple[HeaderTable, BatchTimes]]:
    """Yields headers of consecutive batches that were decoded, at least one at a time, and the times of each.

    Both arrays are used again for the next batches. If damage ends the batches, it then raises DataError. maker: takes
    their keys.
    """
    decoder = source.decoder(include_control=False)
    for chunk in source.chunks():
        headers, times, keys, error = _decode_chunk(decoder, chunk, maker is not None)
        if headers.shape[1]:
            if maker is not None:
                maker.add(keys)
            yield headers, times
        if error is not None:
            raise error


def _decode_chunk(
    decoder: Decoder, chunk: Chunk, hashes_keys: bool
) -> tuple[HeaderTable, BatchTimes, list[HashedKeys], DataError | None]:
    """Returns the headers of a chunk's batches before the first damaged one, the times of each, their keys if wanted,
    and the damage."""
    headers, damage = chunk.headers, None
    while headers.shape[1]:
        times, keys = np.empty((3, headers.shape[1]), np.int64), []
        times[_COUNT], times[_MIN], times[_MAX] = 0, zone_table.NO_MINIMUM, zone_table.NO_MAXIMUM
        try:
            for records in decoder.decode(Chunk(chunk.data, headers, chunk.position)):
                _add_records(records, headers, times)
                if hashes_keys:
                    keys.append(hash_keys(records))
        except DataError as error:  # rows of sound batches may be lost too: decode again, without the damaged part
            sound = int(np.searchsorted(headers[batch_headers.POSITION], error.position))
            headers, damage = headers[:, :sound], error
            continue
        return headers, times, keys, damage
    return headers, np.empty((3, 0), np.int64), [], damage


def _add_records(records: RecordColumns, headers: HeaderTable, times: BatchTimes) -> None:
    """Adds the count and the least and largest timestamp of records to `times`, by batch. A batch may come in parts."""
    batches = records.ints[record_batches.BATCH, : records.count]
    timestamps = records.longs[record_batches.TIMESTAMP, : records.count]
    starts = np.flatnonzero(np.diff(batches, prepend=-1))
    at = np.searchsorted(headers[batch_headers.POSITION], records.headers[batch_headers.POSITION, batches[starts]])
    times[_COUNT, at] += np.diff(starts, append=records.count)
    times[_MIN, at] = np.minimum(times[_MIN, at], np.minimum.reduceat(timestamps, starts))
    times[_MAX, at] = np.maximum(times[_MAX, at], np.maximum.reduceat(timestamps, starts))


def _make_batch_zones(headers: HeaderTable, times: BatchTimes) -> ZoneTable:
    """Returns each batch as a zone of its own. It does not fill SEGMENT and the rows about the file."""
    zones = no_zones(headers.shape[1])
    zones[zone_table.START] = zones[zone_table.LAST_POSITION] = headers[batch_headers.POSITION]
    zones[zone_table.END] = headers[batch_headers.POSITION] + headers[batch_headers.SIZE]
    zones[zone_table.FIRST_OFFSET], zones[zone_table.LAST_OFFSET] = (
        headers[batch_headers.BASE_OFFSET],
        headers[batch_headers.LAST_OFFSET],
    )
    zones[zone_table.FIRST_CRC] = zones[zone_table.LAST_CRC] = headers[batch_headers.CRC]
    zones[zone_table.LAST_EPOCH] = headers[batch_headers.LEADER_EPOCH]
    zones[zone_table.RECORDS], zones[zone_table.MIN_TIMESTAMP], zones[zone_table.MAX_TIMESTAMP] = (
        times[_COUNT],
        times[_MIN],
        times[_MAX],
    )
    return zones


def _join_by_cell(zones: ZoneTable, cell: int) -> ZoneTable:
    """Joins neighbouring zones that begin in the same cell."""
    if not zones.shape[1]:
        return zones
    firsts = np.flatnonzero(np.diff(zones[zone_table.START] // cell, prepend=-1))
    lasts = np.append(firsts[1:], zones.shape[1]) - 1
    joined = zones[:, firsts]
    ends = [
        zone_table.END,
        zone_table.LAST_OFFSET,
        zone_table.LAST_POSITION,
        zone_table.LAST_CRC,
        zone_table.LAST_EPOCH,
    ]
    joined[ends] = zones[:, lasts][ends]
    joined[zone_table.RECORDS] = np.add.reduceat(zones[zone_table.RECORDS], firsts)
    joined[zone_table.MIN_TIMESTAMP] = np.minimum.reduceat(zones[zone_table.MIN_TIMESTAMP], firsts)
    joined[zone_table.MAX_TIMESTAMP] = np.maximum.reduceat(zones[zone_table.MAX_TIMESTAMP], firsts)
    return joined
