"""Large valid log directories, written at the speed of the disk and kept between runs.

In: a `LogShape`. Out: a `Log`: the partition directory, and one row of numbers for each batch in it. A few batches are
built record by record; all others are copies of them with their own base offset, timestamps and CRC stamped in. Index
files hold the entries that Kafka 4.1 writes, for a segment that was closed.

Logs lie in the directory that KAFKASEG_BENCH_DIR names, by default under the system's temporary directory.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from benchmarks import values
from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.options import parse_options
from tests.support import writer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPIC = "events"
ORIGIN = 1_773_100_800_000  # ms; 2026-03-10
INDEX_INTERVAL = 4096  # index.interval.bytes
RECORDS_A_MS = 10
DISORDER = 10  # ms; no record is older than the newest before it by more

_VERSION = 2  # of what is written here: another number, and logs kept from earlier runs are not used
_TEMPLATES = 24
_JITTER = (0, 0, 0, 1, 2, 3)  # ms

# Columns of a log's table of batches
SEGMENT, POSITION, SIZE, FIRST_OFFSET, LAST_OFFSET, FIRST_TIMESTAMP, LAST_TIMESTAMP = range(7)


@dataclass(frozen=True)
class LogShape:
    """What a log is to hold: at least `records` records, in `segments` segments of the same number of records.

    batch_bytes: stored bytes of a batch, compressed or not: producers fill batches by what they estimate to be stored.
    late_every: one batch in `late_every` comes late, by up to late_ms; 0: none does.
    """

    records: int
    codec: str = "none"
    value_bytes: int = 119
    headers: bool = False
    segments: int = 4
    batch_bytes: int = 16 * 1024
    late_every: int = 0
    late_ms: int = 0

    @property
    def name(self) -> str:
        """Names the log's directory in the cache."""
        with_headers = "-headers" if self.headers else ""
        what = f"{self.codec}-{self.value_bytes}b{with_headers}"
        late = f"-late{self.late_every}-{self.late_ms}" if self.late_every else ""
        return f"v{_VERSION}-{what}-{self.records}r-{self.segments}s-{self.batch_bytes}bb{late}"

    def of_bytes(self, stored: int) -> LogShape:
        """The same shape with as many records as make about `stored` bytes of log."""
        templates = _templates(self.codec, self.value_bytes, self.headers, self.batch_bytes)
        a_record = sum(len(each.data) for each in templates) / sum(each.count for each in templates)
        return replace(self, records=round(stored / a_record))


@dataclass(frozen=True)
class Log:
    """A log on disk. batches: int64[n, 7], a row a batch; plain_bytes: of the batches' records, decompressed."""

    shape: LogShape
    path: Path
    batches: npt.NDArray[np.int64]
    plain_bytes: int

    @property
    def records(self) -> int:
        """How many records it holds."""
        return int(self.batches[-1, LAST_OFFSET]) + 1

    @property
    def stored_bytes(self) -> int:
        """Bytes of its `.log` files."""
        return int(self.batches[:, SIZE].sum())

    def bytes_of_times(self, since: int, until: int) -> int:
        """Stored bytes of the batches with a record in [since, until)."""
        rows = self.batches
        return int(rows[(rows[:, LAST_TIMESTAMP] >= since) & (rows[:, FIRST_TIMESTAMP] < until), SIZE].sum())

    def bytes_of_offsets(self, start: int, end: int) -> int:
        """Stored bytes of the batches with an offset in [start, end)."""
        rows = self.batches
        return int(rows[(rows[:, LAST_OFFSET] >= start) & (rows[:, FIRST_OFFSET] < end), SIZE].sum())

    def delete(self) -> None:
        """Gives its space back."""
        shutil.rmtree(self.path.parent)


@dataclass(frozen=True)
class _Template:
    """One batch, to be stamped: `data` is written again for each copy."""

    data: bytearray
    count: int
    span: int  # ms from the batch's first timestamp to its last
    plain_bytes: int


def column_names(headers: bool) -> tuple[str, ...]:
    """The columns of a read, with headers or without."""
    options, _ = parse_options({"path": "/", "includeHeaders": str(headers)})
    return RECORDS.default_names(options.content)


@contextmanager
def linked_partitions(events: Log, count: int) -> Iterator[Path]:
    """A log directory with the same log as several partitions. They share their bytes on the disk."""
    root = Path(tempfile.mkdtemp(prefix="linked-", dir=cache_directory()))
    try:
        for number in range(count):
            shutil.copytree(events.path, root / f"{TOPIC}-{number}", copy_function=os.link)
        yield root
    finally:
        shutil.rmtree(root)


def cache_directory() -> Path:
    """Where everything that the benchmarks write lies."""
    default = Path(tempfile.gettempdir()) / f"kafkaseg-bench-{os.getuid()}"
    folder = Path(os.environ.get("KAFKASEG_BENCH_DIR", default))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def log(shape: LogShape) -> Log:
    """The log of this shape, written the first time it is asked for."""
    folder = cache_directory() / shape.name
    if not folder.is_dir():
        unfinished = folder.with_suffix(f".part-{os.getpid()}")
        shutil.rmtree(unfinished, ignore_errors=True)
        _write(shape, unfinished)
        unfinished.rename(folder)
    plain = int((folder / "plain_bytes").read_text())
    return Log(shape, folder / f"{TOPIC}-0", np.load(folder / "batches.npy"), plain)


def _write(shape: LogShape, folder: Path) -> None:
    directory = folder / f"{TOPIC}-0"
    directory.mkdir(parents=True)
    source = Stamped(shape)
    rows: list[tuple[int, ...]] = []
    for segment in range(shape.segments):
        base = source.next_offset
        last = shape.records * (segment + 1) // shape.segments
        with (directory / writer.segment_name(base)).open("wb") as file:
            written = [(segment, *row) for row in _fill(file, source, last)]
        index, timeindex = index_files(np.array(written, np.int64), base)
        (directory / writer.segment_name(base, ".index")).write_bytes(index)
        (directory / writer.segment_name(base, ".timeindex")).write_bytes(timeindex)
        rows += written
    np.save(folder / "batches.npy", np.array(rows, np.int64))
    (folder / "plain_bytes").write_text(str(source.plain_bytes))


def fill(source: Stamped, end_offset: int) -> tuple[bytes, npt.NDArray[np.int64]]:
    """The bytes of a segment up to `end_offset`, and a row for each of its batches as in `Log.batches`."""
    file = io.BytesIO()
    rows = [(0, *row) for row in _fill(file, source, end_offset)]
    return file.getvalue(), np.array(rows, np.int64)


def _fill(file: BinaryIO, source: Stamped, end_offset: int) -> Iterator[tuple[int, ...]]:
    """Writes batches up to `end_offset`, at least one; a row of the table for each, less its segment."""
    position = 0
    while position == 0 or source.next_offset < end_offset:
        data, *ranges = source.next()
        file.write(data)
        yield position, len(data), *ranges
        position += len(data)


class Stamped:
    """Copies of the templates, one after the other, each with its own offsets and timestamps."""

    def __init__(self, shape: LogShape) -> None:
        self._shape = shape
        self._templates = _templates(shape.codec, shape.value_bytes, shape.headers, shape.batch_bytes)
        self._count = 0
        self.next_offset = 0
        self.plain_bytes = 0

    def next(self) -> tuple[bytearray, int, int, int, int]:
        """A batch (valid until the same template's turn comes again), its offsets and timestamps, both inclusive."""
        template = self._templates[self._count % len(self._templates)]
        first_offset, first = self.next_offset, ORIGIN + self.next_offset // RECORDS_A_MS - self._late()
        data = template.data
        struct.pack_into(">q", data, kafka_format.BASE_OFFSET_AT, first_offset)
        struct.pack_into(">qq", data, kafka_format.BASE_TIMESTAMP_AT, first, first + template.span)
        struct.pack_into(">I", data, kafka_format.CRC_AT, crc32c(memoryview(data)[kafka_format.CRC_FROM :]))
        self._count += 1
        self.next_offset += template.count
        self.plain_bytes += template.plain_bytes
        return data, first_offset, self.next_offset - 1, first, first + template.span

    def _late(self) -> int:
        """By how many ms the next batch is late: any number up to the most, the same in every log."""
        every = self._shape.late_every
        if not every or self._count % every != every - 1:
            return 0
        return (self._count * 7919) % self._shape.late_ms


def index_files(rows: npt.NDArray[np.int64], base: int) -> tuple[bytes, bytes]:
    """`.index` and `.timeindex` of one segment, as Kafka 4.1 writes them: an entry a batch, once an interval has
    passed.

    rows: of the segment, as in `Log.batches`. Kafka: LogSegment.append; the last time entry is that of closing.
    """
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    since_entry, newest, newest_offset = 0, -1, -1
    for _, position, size, _, last_offset, _, last_timestamp in rows.tolist():
        if last_timestamp > newest:
            newest, newest_offset = last_timestamp, last_offset
        if since_entry > INDEX_INTERVAL:
            offsets.append((last_offset, position))
            if not times or newest > times[-1][0]:
                times.append((newest, newest_offset))
            since_entry = 0
        since_entry += size
    if not times or newest > times[-1][0]:
        times.append((newest, newest_offset))
    return writer.offset_index(offsets, base), writer.time_index(times, base)


# --- the batches that all others are copies of -----------------------------------------------------------------------


@lru_cache(maxsize=8)
def _templates(codec: str, value_bytes: int, headers: bool, batch_bytes: int) -> tuple[_Template, ...]:
    chance = random.Random(f"{value_bytes} {headers}")
    count = max(1, round(batch_bytes / len(_record(chance, 1, value_bytes, headers))))
    sample = _template(chance, codec, value_bytes, headers, count)
    for _ in range(3):  # what a larger batch compresses to is known once it is compressed
        count = max(1, round(count * batch_bytes / len(sample.data)))
        sample = _template(chance, codec, value_bytes, headers, count)
    several = max(1, min(_TEMPLATES, 2**25 // sample.plain_bytes))  # records may be large
    return tuple(_template(chance, codec, value_bytes, headers, count) for _ in range(several))


def _template(chance: random.Random, codec: str, value_bytes: int, headers: bool, count: int) -> _Template:
    deltas = [number // RECORDS_A_MS + (chance.choice(_JITTER) if number else 0) for number in range(count)]
    body = b"".join(_record(chance, number, value_bytes, headers, deltas[number]) for number in range(count))
    stored = "snappy-xerial" if codec == "snappy" else codec
    batch = writer.record_batch_of(
        writer.compress(stored, body),  # type: ignore[arg-type]  # one of its words
        attributes=writer.CODEC_IDS[stored],
        last_offset_delta=count - 1,
        base_timestamp=ORIGIN,
        max_timestamp=ORIGIN + max(deltas),
        count=count,
    )
    return _Template(bytearray(batch), count, max(deltas), len(body))


def _record(chance: random.Random, number: int, value_bytes: int, headers: bool, delta: int = 0) -> bytes:
    return writer.record(
        writer.Rec(
            offset_delta=number,
            timestamp=ORIGIN + delta,
            key=values.key(chance),
            value=values.value(chance, value_bytes),
            headers=values.headers(chance) if headers else (),
        ),
        ORIGIN,
    )
