"""`scan` without Spark: one thread from file to Arrow batches, each codec and value size, with and without headers."""

from __future__ import annotations

from collections.abc import Iterator

import kafka_segment_source
from benchmarks.full_scan import RECORDS
from benchmarks.logs import CODECS, Log, LogShape, log
from benchmarks.measure import repeat
from benchmarks.results import Row, Settings, row

TITLE = "full scan without Spark, one thread"


def rows(settings: Settings) -> Iterator[Row]:
    """A row for each kind of log that `full_scan` reads."""
    for size, records in RECORDS.items():
        for headers in (False, True):
            for codec in CODECS:
                if not settings.quick or (size == 119 and not headers):
                    shape = LogShape(records // (8 if settings.quick else 1), codec, size, headers)
                    yield _measure(log(shape), settings.runs)


def _measure(events: Log, runs: int) -> Row:
    shape = events.shape
    times = repeat(lambda: read(events), runs)
    name = f"{shape.codec}, {shape.value_bytes} B{', headers' if shape.headers else ''}"
    plain = events.plain_bytes / min(times) / 1e6
    stored = events.stored_bytes / min(times) / 1e6
    note = f"{plain:.0f} MB/s of records, {stored:.0f} MB/s of log"
    headline = shape.value_bytes == 119 and not shape.headers
    return row(name, [events.records / each / 1e6 for each in times], "M rows/s", None, note, headline)


def read(events: Log, **options: object) -> int:
    """How many rows a scan of the log gives."""
    options = {"threads": 1, "includeHeaders": events.shape.headers, **options}
    batches = kafka_segment_source.scan(str(events.path), **options)
    return sum(batch.num_rows for batch in batches)
