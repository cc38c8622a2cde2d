"""`export` into Parquet, Delta and Iceberg, against a scan of the same rows and the time that a writer takes alone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import kafka_segment_source
from benchmarks.logs import Log, LogShape, log
from benchmarks.measure import seconds
from benchmarks.plain_scan import read
from benchmarks.results import Goal, Row, Settings, Works, row

TITLE = "export of 10 million rows, one thread"

SPEED = Goal(least=0.8)  # of a scan and the writer, one after the other
_ROWS = 10_000_000
_KEPT = 500_000  # rows that the writer is given again and again, from memory
_GROUP = 16 * 1024 * 1024  # bytes of rows in a row group, as an export writes them


def rows(settings: Settings) -> Iterator[Row]:
    """Each format; scan, writer and export take turns."""
    events = log(_shape(settings))
    reader = kafka_segment_source.scan(str(events.path), threads=1)
    kept = list(islice(reader, max(1, min(_KEPT, events.records) // 65_536)))
    for form in ("parquet", "delta", "iceberg"):
        runs = []
        for _ in range(3):
            scanned = seconds(lambda: read(events))
            written = seconds(lambda: _write(kept, events.records))
            exported = seconds(lambda form=form: _export(events, form))
            runs.append((scanned, written, exported))
        scanned, written, exported = (min(each) for each in zip(*runs, strict=True))
        megabytes = events.stored_bytes / exported / 1e6
        note = (
            f"{events.records:,} rows in {exported:.1f} s, {megabytes:.0f} MB/s of log; scan {scanned:.1f} s, writer"
            f" {written:.1f} s"
        )
        ratios = [(one + other) / both for one, other, both in runs]
        yield row(form, ratios, "of the speed of scan and writer", SPEED, note)


def works(settings: Settings) -> Works:
    """An export into Parquet."""
    return {"parquet": lambda: partial(_export, log(_shape(settings)), "parquet")}


def _shape(settings: Settings) -> LogShape:
    return LogShape(_ROWS // (32 if settings.quick else 1), "lz4", segments=1 if settings.quick else 8)


def _export(events: Log, form: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}
        is_iceberg = form == "iceberg"
        [report] = kafka_segment_source.export(
            str(events.path),
            "lake.kafka.events" if is_iceberg else f"{folder}/events",
            form,
            catalog=catalog if is_iceberg else None,
            endAt="end",
        )
        assert report.rows == events.records


def _write(kept: list[pa.RecordBatch], count: int) -> None:
    """Writes about as many rows as the log has, from memory, with pyarrow alone."""
    with tempfile.TemporaryDirectory() as folder:
        done = 0
        with pq.ParquetWriter(Path(folder) / "rows.parquet", kept[0].schema, compression="zstd") as writer:
            waiting: list[pa.RecordBatch] = []
            while done < count:
                for batch in kept:
                    some = batch.slice(0, count - done)
                    waiting.append(some)
                    done += some.num_rows
                    if done >= count or sum(each.nbytes for each in waiting) >= _GROUP:
                        writer.write_table(pa.Table.from_batches(waiting))
                        waiting = []
                    if done >= count:
                        return
