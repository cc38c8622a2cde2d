"""Zone tables, int64 and nothing else, and the Parquet files that keep them.

One decoding pass over a partition's segments proves a table once and for all. A zone is a number of consecutive whole
batches of one segment. A zone table is int64[FIELDS, n], with one column per zone, sorted by segment and position. Two
facts make a table useful (Kafka: Cleaner, UnifiedLog.truncateTo):

- Timestamps belong to offsets. Compaction removes records and never changes the others. So the bounds of a zone are
  valid for its offsets until the log is truncated below them, or the topic is created again.
- Positions belong to one state of one file. Compaction moves everything, and a broker copies the old file's times.

So a table is never used because a name, a size or a time agrees. Before a reader leaves out a run of zones, it must
find the run's first and last batch in the file, where the table has them (`pruning.py`).

`read_zone_map` takes the path of a file. It returns a table that is whole and in order, or raises ValueError with the
reason. `write_zone_map` replaces a file atomically. FILE_SIZE, FILE_INODE and FILE_CHANGED serve `updates.py` only.
They show which segments need not be read again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.storage.files import UNUSABLE, InputFile, write_atomically
from kafka_segment_source.storage.paths import join_path, shorten_name
from kafka_segment_source.storage.store import NO_VERSION, FileVersion, Storage

# Rows of a zone table
SEGMENT = 0  # base offset
START = 1  # byte position of its first batch; the zones of a segment begin at 0 and have no gaps
END = 2
FIRST_OFFSET = 3  # of its first batch, as in the header; a wrapper of magic 0 or 1 states its last
LAST_OFFSET = 4  # of its last batch
RECORDS = 5  # data records; it counts those of aborted transactions, but not those of control batches
MIN_TIMESTAMP = 6  # ms, of data records; a missing timestamp is -1, as in every bound; no record: the largest int64
MAX_TIMESTAMP = 7  # ms; no record: the smallest int64
FIRST_CRC = 8  # of its first batch
LAST_POSITION = 9  # byte position of its last batch
LAST_CRC = 10
LAST_EPOCH = 11  # leader epoch of its last batch; -1: none
FILE_SIZE = 12  # bytes of the segment's file when it was read
FILE_INODE = 13
FILE_CHANGED = 14  # ctime, ns; 0: unknown
FIELDS = 15

COLUMNS = (
    "segment",
    "start",
    "end",
    "firstOffset",
    "lastOffset",
    "records",
    "minTimestamp",
    "maxTimestamp",
    "firstCrc",
    "lastPosition",
    "lastCrc",
    "lastEpoch",
    "fileSize",
    "fileInode",
    "fileChanged",
)
"""The names of the rows of a table in the file."""

NO_MINIMUM, NO_MAXIMUM = 2**63 - 1, -(2**63)

ZoneTable = npt.NDArray[np.int64]

_VERSION = "2"  # a map of version 1 may hold zones of two different files
_MOST_ZONES = 2**23  # zones of 256 KiB in 2 TiB; such a map has about 88 MB and takes 1 GB of memory
_MOST_BYTES = 128 * 2**20
_MAGIC = b"PAR1"  # at both ends of a Parquet file
_VERSION_KEY, _TOPIC_ID_KEY, _CHECKSUM_KEY = b"kafkaseg.version", b"kafkaseg.topicId", b"kafkaseg.xxh64"


@dataclass(frozen=True, slots=True)
class ZoneMap:
    """One partition's zones, and the id of its topic (`partition.metadata`) or None.

    version: of the file that it was read from.
    """

    zones: ZoneTable
    topic_id: str | None = None
    version: FileVersion = NO_VERSION

    def of_segment(self, base_offset: int) -> ZoneTable:
        """Returns the zones of one segment, in order. There may be none."""
        bases = self.zones[SEGMENT]
        first, after = bases.searchsorted(base_offset), bases.searchsorted(base_offset, side="right")
        return self.zones[:, first:after]

    def equals(self, other: ZoneMap) -> bool:
        """Whether both maps would make the same file."""
        return self.topic_id == other.topic_id and np.array_equal(self.zones, other.zones)


def no_zones(count: int = 0) -> ZoneTable:
    """Returns a table of `count` zones, to be filled."""
    return np.zeros((FIELDS, count), np.int64)


def zone_map_path(directory: str, topic: str, partition: int) -> str:
    """Returns the file of one partition. The topic is quoted, as an option may name one that is not valid in a file
    name."""
    name = f"{quote(topic, safe='')}-{partition}"
    return join_path(directory, f"{shorten_name(name)}.parquet")


def read_zone_map(path: str, storage: Storage) -> ZoneMap | None:
    """Returns a partition's zone map, or None if there is no such file. Raises ValueError if the map cannot be used."""
    try:
        with InputFile(path, storage) as file:
            data, version = _read_whole(file), file.version()
    except FileChangedError:
        return None
    except UNUSABLE as error:
        raise ValueError(str(error)) from error
    return replace(from_parquet(data), version=version)


def _read_whole(file: InputFile) -> bytes:
    """Returns the bytes of a file that may be a map.

    Raises ValueError if it cannot be one, before it reads more than a few bytes.
    """
    size = file.version().size
    if size > _MOST_BYTES:
        raise ValueError(f"found {size:,} bytes, expected at most {_MOST_BYTES:,}")
    head, tail = file.read_at(0, len(_MAGIC)), file.read_at(max(size - len(_MAGIC), 0), len(_MAGIC))
    if (head, tail) != (_MAGIC, _MAGIC):
        raise ValueError(f"it is damaged: it begins with {head!r} and ends in {tail!r}, expected {_MAGIC!r}")
    return file.read_all(_MOST_BYTES)


def write_zone_map(path: str, storage: Storage, zone_map: ZoneMap, known: FileVersion | None = None) -> None:
    """Writes a zone map and replaces an existing one. Raises PathError or StorageError if that fails.

    known: as in `write_atomically`. Raises FileChangedError for another version in a bucket.
    """
    write_atomically(path, storage, to_parquet(zone_map), known)


def to_parquet(zone_map: ZoneMap) -> bytes:
    """Returns the bytes of a zone map's file."""
    import pyarrow.parquet as pq

    metadata = {_VERSION_KEY: _VERSION, _CHECKSUM_KEY: _compute_checksum(zone_map)}
    if zone_map.topic_id is not None:
        metadata[_TOPIC_ID_KEY] = zone_map.topic_id
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in COLUMNS])
    table = pa.Table.from_arrays([pa.array(row) for row in zone_map.zones], schema=schema)
    out = pa.BufferOutputStream()
    # Neighbours differ by little: plain columns take twice the bytes. A small map takes half the time to read with lz4
    # that it takes with zstd, of the same bytes. Arrow's own schema would be half of the bytes of a small map.
    with pq.ParquetWriter(
        out,
        schema,
        compression="lz4",
        use_dictionary=False,
        column_encoding="DELTA_BINARY_PACKED",
        write_statistics=False,
        store_schema=False,
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(metadata)
    return bytes(out.getvalue())


def from_parquet(data: bytes) -> ZoneMap:
    """Returns the zone map in the bytes of a file. Raises ValueError with the reason if it is not valid."""
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        if file.metadata.num_rows > _MOST_ZONES:
            raise ValueError(f"found {file.metadata.num_rows:,} zones, expected at most {_MOST_ZONES:,}")
        table = file.read(use_threads=False)
        schema = table.schema
        metadata = schema.metadata or {}
        version = metadata.get(_VERSION_KEY, b"none").decode()
        if version != _VERSION:
            raise ValueError(f"found version {version[:20]!r}, expected {_VERSION!r}")
        if schema.names != list(COLUMNS):
            raise ValueError(f"found columns {', '.join(schema.names)[:60]}, expected {', '.join(COLUMNS)[:60]}")
        topic_id = metadata.get(_TOPIC_ID_KEY)
        zones = _to_zones(table)
        zone_map = ZoneMap(zones, None if topic_id is None else topic_id.decode())
        checksum = metadata.get(_CHECKSUM_KEY, b"none").decode()
    except Exception as error:  # damaged bytes make pyarrow raise almost anything
        raise ValueError(
            f"it is damaged: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        ) from error
    if checksum != _compute_checksum(zone_map):  # a flipped bit in a minimum or maximum would lose rows
        raise ValueError(f"it is damaged: found checksum {_compute_checksum(zone_map)}, expected {checksum}")
    if not _is_in_order(zones):
        raise ValueError("it is damaged: its zones do not follow one another")
    return zone_map


def _to_zones(table: pa.Table) -> ZoneTable:
    """Raises an error of pyarrow or numpy where a column has a null or another type than integers."""
    batches = table.combine_chunks().to_batches()
    if not batches:
        return no_zones()
    [batch] = batches
    zones: npt.NDArray[Any] = batch.to_tensor(row_major=False).to_numpy().T
    return zones.astype(np.int64, casting="safe", copy=False)


def _compute_checksum(zone_map: ZoneMap) -> str:
    head = f"{_VERSION} {len(COLUMNS)} {zone_map.zones.shape[1]} {zone_map.topic_id or ''}\n"
    checksum = xxhash.xxh64(head.encode())
    checksum.update(zone_map.zones.tobytes())
    return checksum.hexdigest()


def _is_in_order(zones: ZoneTable) -> bool:
    """Whether segments are in order, and the zones of each begin at 0 and have no gap between them, with growing
    offsets."""
    sound = (zones[START] <= zones[LAST_POSITION]) & (zones[LAST_POSITION] < zones[END])
    sound &= (zones[SEGMENT] <= zones[FIRST_OFFSET]) & (zones[FIRST_OFFSET] <= zones[LAST_OFFSET])
    before, after = zones[:, :-1], zones[:, 1:]
    follows = (before[SEGMENT] == after[SEGMENT]) & (before[END] == after[START])
    follows &= before[LAST_OFFSET] < after[FIRST_OFFSET]
    begins = (before[SEGMENT] < after[SEGMENT]) & (after[START] == 0)
    return bool(sound.all() and (follows | begins).all() and (zones[START, :1] == 0).all())
