"""Zone maps: what one decoding pass over a partition's segments proves for good, and the Parquet file that keeps it.

A zone is some consecutive whole batches of one segment. A zone table is int64[FIELDS, n], one column a zone, in order
of segment and position. Two facts make it worth keeping (Kafka: Cleaner, UnifiedLog.truncateTo):

- Timestamps belong to offsets: compaction removes records and never changes those that stay. So the bounds of a zone
  hold for its offsets until the log is truncated below them, or the topic made anew.
- Positions belong to one state of one file: compaction moves everything, and a broker copies the old file's times.

So nothing of a table is used because a name, a size or a time agrees: whoever leaves a run of zones out first finds its
first and its last batch in the file, where the table has them (`pruning.py`).

`read_zone_map` takes the path of a file and gives a table that is whole and in order, or raises ValueError with the
reason; `write_zone_map` replaces a file at once. FILE_SIZE, FILE_INODE and FILE_CHANGED say for `updates.py`, and
for nobody else, which segments need not be read again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.storage.files import UNUSABLE, InputFile, write_atomically

# Rows of a zone table
SEGMENT = 0  # base offset
START = 1  # byte position of its first batch; zones of a segment follow one another from 0 on
END = 2
FIRST_OFFSET = 3  # of its first batch, as the header has it: a wrapper of magic 0 or 1 tells its last
LAST_OFFSET = 4  # of its last batch
RECORDS = 5  # data records; those of control batches are not counted, those of aborted transactions are
MIN_TIMESTAMP = 6  # ms, of data records; a missing timestamp is -1, as in every bound; no record: the largest int64
MAX_TIMESTAMP = 7  # ms; no record: the smallest int64
FIRST_CRC = 8  # of its first batch
LAST_POSITION = 9  # byte position of its last batch
LAST_CRC = 10
LAST_EPOCH = 11  # leader epoch of its last batch; -1: none
FILE_SIZE = 12  # of the segment's file when it was read: bytes
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
"""The rows of a table by their names in the file."""

NO_MINIMUM, NO_MAXIMUM = 2**63 - 1, -(2**63)

ZoneTable = npt.NDArray[np.int64]

_VERSION = "2"  # maps of version 1 may have been continued over a file that was another by then
_MOST_ZONES = 2**23  # of 256 KiB: a partition of 2 TiB, whose map takes some 88 MB, and 1 GB of memory
_MOST_BYTES = 128 * 2**20
_MAGIC = b"PAR1"  # at both ends of a Parquet file
_VERSION_KEY, _TOPIC_ID_KEY, _CHECKSUM_KEY = b"kafkaseg.version", b"kafkaseg.topicId", b"kafkaseg.xxh64"


@dataclass(frozen=True, slots=True)
class ZoneMap:
    """One partition's zones, and the id of its topic (`partition.metadata`), None where there is none."""

    zones: ZoneTable
    topic_id: str | None = None

    def of_segment(self, base_offset: int) -> ZoneTable:
        """The zones of one segment, in order; perhaps none."""
        first, after = np.searchsorted(self.zones[SEGMENT], (base_offset, base_offset + 1))
        return self.zones[:, first:after]

    def equals(self, other: ZoneMap) -> bool:
        """Whether both would make the same file."""
        return self.topic_id == other.topic_id and np.array_equal(self.zones, other.zones)


def no_zones(count: int = 0) -> ZoneTable:
    """A table of so many zones, to be filled."""
    return np.zeros((FIELDS, count), np.int64)


def zone_map_path(directory: str, topic: str, partition: int) -> str:
    """The file of one partition; a topic named by an option may hold what a file's name cannot."""
    return os.path.join(directory, f"{quote(topic, safe='')}-{partition}.parquet")


def read_zone_map(path: str) -> ZoneMap | None:
    """A partition's zone map, None if there is no such file. ValueError says why one cannot be used."""
    try:
        with InputFile(path) as file:
            data = _whole(file)
    except FileChangedError:
        return None
    except UNUSABLE as error:
        raise ValueError(str(error)) from error
    return from_parquet(data)


def _whole(file: InputFile) -> bytes:
    """A file that may be a map. ValueError, before more than a few bytes are read, where it cannot be one."""
    size = file.version().size
    if size > _MOST_BYTES:
        raise ValueError(f"found {size:,} bytes, expected at most {_MOST_BYTES:,}")
    head, tail = file.read_at(0, len(_MAGIC)), file.read_at(max(size - len(_MAGIC), 0), len(_MAGIC))
    if (head, tail) != (_MAGIC, _MAGIC):
        raise ValueError(f"it is damaged: it begins with {head!r} and ends in {tail!r}, expected {_MAGIC!r}")
    return file.read_all(_MOST_BYTES)


def write_zone_map(path: str, zone_map: ZoneMap) -> None:
    """Puts a zone map in the place of the one that is there; PathError or StorageError where that cannot be done."""
    write_atomically(path, to_parquet(zone_map))


def to_parquet(zone_map: ZoneMap) -> bytes:
    """The bytes of a zone map's file."""
    import pyarrow.parquet as pq

    metadata = {_VERSION_KEY: _VERSION, _CHECKSUM_KEY: _checksum(zone_map)}
    if zone_map.topic_id is not None:
        metadata[_TOPIC_ID_KEY] = zone_map.topic_id
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in COLUMNS], metadata)
    table = pa.Table.from_arrays([pa.array(row) for row in zone_map.zones], schema=schema)
    out = pa.BufferOutputStream()
    # neighbours differ by little; plain columns take twice the bytes
    pq.write_table(table, out, compression="zstd", use_dictionary=False, column_encoding="DELTA_BINARY_PACKED")
    return bytes(out.getvalue())


def from_parquet(data: bytes) -> ZoneMap:
    """The zone map in the bytes of a file; ValueError says why they cannot be believed."""
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        if file.metadata.num_rows > _MOST_ZONES:
            raise ValueError(f"found {file.metadata.num_rows:,} zones, expected at most {_MOST_ZONES:,}")
        table = file.read(use_threads=False)
        metadata = table.schema.metadata or {}
        version = metadata.get(_VERSION_KEY, b"none").decode()
        if version != _VERSION:
            raise ValueError(f"found version {version[:20]!r}, expected {_VERSION!r}")
        if table.schema.names != list(COLUMNS):
            raise ValueError(f"found columns {', '.join(table.schema.names)[:60]}, expected {', '.join(COLUMNS)[:60]}")
        columns = [column.combine_chunks().to_numpy(zero_copy_only=False) for column in table.columns]
        topic_id = metadata.get(_TOPIC_ID_KEY)
        zones = np.stack(columns).astype(np.int64, casting="safe", copy=False)
        found = ZoneMap(zones, None if topic_id is None else topic_id.decode())
        checksum = metadata.get(_CHECKSUM_KEY, b"none").decode()
    except Exception as error:  # damaged bytes make pyarrow raise almost anything
        raise ValueError(
            f"it is damaged: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        ) from error
    if checksum != _checksum(found):  # bits that flip in a minimum or maximum would cost rows
        raise ValueError(f"it is damaged: found checksum {_checksum(found)}, expected {checksum}")
    if not _is_in_order(zones):
        raise ValueError("it is damaged: its zones do not follow one another")
    return found


def _checksum(zone_map: ZoneMap) -> str:
    told = f"{_VERSION} {len(COLUMNS)} {zone_map.zones.shape[1]} {zone_map.topic_id or ''}\n"
    checksum = xxhash.xxh64(told.encode())
    checksum.update(zone_map.zones.tobytes())
    return checksum.hexdigest()


def _is_in_order(zones: ZoneTable) -> bool:
    """Whether segments come in order, and each one's zones cover it from 0 on without a gap, with offsets that grow."""
    sound = (zones[START] <= zones[LAST_POSITION]) & (zones[LAST_POSITION] < zones[END])
    sound &= (zones[SEGMENT] <= zones[FIRST_OFFSET]) & (zones[FIRST_OFFSET] <= zones[LAST_OFFSET])
    before, after = zones[:, :-1], zones[:, 1:]
    follows = (before[SEGMENT] == after[SEGMENT]) & (before[END] == after[START])
    follows &= before[LAST_OFFSET] < after[FIRST_OFFSET]
    begins = (before[SEGMENT] < after[SEGMENT]) & (after[START] == 0)
    return bool(sound.all() and (follows | begins).all() and (zones[START, :1] == 0).all())
