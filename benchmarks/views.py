"""view=batches against the records of the same log: bytes and time, by `scan` and in Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it

import kafka_segment_source as kafkaseg
from benchmarks import sessions
from benchmarks.full_scan import RECORDS
from benchmarks.logs import Log, LogShape, log
from benchmarks.measure import alternate
from benchmarks.results import Goal, Row, Settings, Works, row

TITLE = "batches as a table"

_LARGE = 10**9  # bytes
_IO = Path("/proc/self/io")


def rows(settings: Settings) -> Iterator[Row]:
    """Large batches, of which headers alone are read, and small ones, of which every byte is."""
    large = log(LogShape(RECORDS[119], segments=8).of_bytes(_LARGE // (32 if settings.quick else 1)))
    read = bytes_read(lambda: _scan(large, view="batches"))
    if read is not None:
        stored = sum(path.stat().st_size for path in large.path.glob("*.log"))
        yield row("batches of 16 KB: bytes read", read / stored, "of the log's", Goal(most=0.02))
    pairs = alternate(lambda: _scan(large, view="batches"), lambda: _scan(large), settings.runs)
    note = f"{min(ours for ours, _ in pairs) / _scan(large, view='batches') * 1e9:.0f} ns a batch"
    yield row("batches of 16 KB: time", _ratios(pairs), "of a full scan", Goal(most=0.05), note, headline=True)
    batches, records = _batches(large), sessions.segments(large)
    pairs = alternate(lambda: _touch(batches), lambda: sessions.touch(records), settings.runs)
    note = f"planned before; {min(ours for ours, _ in pairs):.2f} s"
    yield row("batches of 16 KB: time in Spark", _ratios(pairs), "of a full scan", Goal(most=0.1), note)
    small = log(LogShape(RECORDS[119], segments=4, batch_bytes=1024))
    pairs = alternate(lambda: _scan(small, view="batches"), lambda: _scan(small, ["offset"]), settings.runs)
    yield row("batches of 1 KB: time", _ratios(pairs), "of a scan of the column offset", Goal(most=1.0))


def works(settings: Settings) -> Works:
    """view=batches of large batches and of small ones."""
    records = RECORDS[119] // (32 if settings.quick else 4)

    def make(batch_bytes: int) -> partial[int]:
        return partial(_scan, log(LogShape(records, batch_bytes=batch_bytes)), view="batches")

    return {f"batches of {size:,} bytes": partial(make, size) for size in (1024, 4096, 8192, 16384)}


def _scan(events: Log, columns: Sequence[str] | None = None, view: str = "records") -> int:
    return sum(batch.num_rows for batch in kafkaseg.scan(events.path, columns, threads=1, view=view))


def _batches(events: Log) -> DataFrame:
    return sessions.spark().read.format("kafkaseg").option("view", "batches").load(str(events.path))


def _touch(frame: DataFrame) -> object:
    """One row that needs every value of the frame."""
    return frame.agg(*(F.max(name) for name in frame.columns)).collect()


def _ratios(pairs: Sequence[tuple[float, float]]) -> list[float]:
    return [ours / theirs for ours, theirs in pairs]


def bytes_read(work: Callable[[], object]) -> int | None:
    """Bytes that this process reads by system calls; None where the system does not tell."""
    work()
    if not _IO.exists():
        return None
    before = _count_read()
    work()
    return _count_read() - before


def _count_read() -> int:
    return int(_IO.read_text().split()[1])
