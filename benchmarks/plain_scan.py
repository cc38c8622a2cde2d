"""`scan` without Spark: one thread from file to Arrow batches, each codec and value size, with and without headers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import kafka_segment_source
from benchmarks.full_scan import RECORDS
from benchmarks.logs import CODECS, Log, LogShape, log
from benchmarks.measure import repeat_cpu, seconds
from benchmarks.results import Row, Settings, Works, row

TITLE = "full scan without Spark, one thread"


def rows(settings: Settings) -> Iterator[Row]:
    """A row for each kind of log that `full_scan` reads."""
    for shape in _shapes(settings):
        yield _measure(log(shape), settings.runs)


def works(settings: Settings) -> Works:
    """A scan of each kind of log."""
    return {_name_of(shape): partial(lambda shape: partial(read, log(shape)), shape) for shape in _shapes(settings)}


def _shapes(settings: Settings) -> Iterator[LogShape]:
    for size, records in RECORDS.items():
        for headers in (False, True):
            for codec in CODECS:
                if not settings.quick or (size == 119 and not headers):
                    yield LogShape(records // (8 if settings.quick else 1), codec, size, headers)


def _name_of(shape: LogShape) -> str:
    return f"{shape.codec}, {shape.value_bytes} B{', headers' if shape.headers else ''}"


def _measure(events: Log, runs: int) -> Row:
    shape = events.shape
    wall: list[float] = []
    times = repeat_cpu(lambda: wall.append(seconds(lambda: read(events))), runs)
    best = min(wall)
    plain, stored = events.plain_bytes / best / 1e6, events.stored_bytes / best / 1e6
    note = f"{events.records / best / 1e6:.2f} M rows/s, {plain:.0f} MB/s of records, {stored:.0f} MB/s of log"
    headline = shape.value_bytes == 119 and not shape.headers
    return row(
        _name_of(shape), [each / events.records * 1e9 for each in times], "ns of CPU a row", None, note, headline
    )


def read(events: Log, **options: Any) -> int:
    """How many rows a scan of the log gives."""
    options = {"threads": 1, "includeHeaders": events.shape.headers, **options}
    batches = kafka_segment_source.scan(str(events.path), **options)
    return sum(batch.num_rows for batch in batches)
