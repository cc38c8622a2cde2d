"""Full scans in Spark, each codec, value size, with and without headers, against the ceiling source in the same
session.

The figures are CPU times of Spark and its workers together, which can be believed on a busy machine, and the wall times
of both: where the cores are the limit, the two agree.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator, Sequence
from functools import partial

from pyspark.sql import DataFrame

import kafka_segment_source
from benchmarks import sessions
from benchmarks.logs import CODECS, Log, LogShape, log
from benchmarks.measure import alternate, repeat_cpu
from benchmarks.results import Goal, Row, Settings, row

TITLE = "full scan in Spark, beside the ceiling"

BEYOND = Goal(most=1.3)

#: gzip has no goal: one core of any library is slower than Spark's transport.
GOALS = {
    "none": Goal(least=0.90),
    "snappy": Goal(least=0.80),
    "lz4": Goal(least=0.80),
    "zstd": Goal(least=0.80),
}
RECORDS = {20: 3_000_000, 119: 2_000_000, 1024: 300_000}  # by value size: about a second each
_FOUR = ("key", "value", "offset", "timestamp")


def rows(settings: Settings) -> Iterator[Row]:
    """A row for each kind of log; in the quick set, one value size."""
    shapes = [
        LogShape(records // (8 if settings.quick else 1), codec, size, headers)
        for size, records in RECORDS.items()
        for headers in (False, True)
        for codec in CODECS
        if not settings.quick or (size == 119 and not headers)
    ]
    for shape in shapes:
        name = f"{shape.codec}, {shape.value_bytes} B{', headers' if shape.headers else ''}"
        headline = shape.value_bytes == 119 and not shape.headers
        runs = settings.runs if headline else 3
        yield from _compare(name, log(shape), None, runs, GOALS.get(shape.codec), headline)
    if settings.quick:
        return
    plain = log(LogShape(RECORDS[119]))
    for columns in (_FOUR, ("value",)):
        yield from _compare(f"none, 119 B, only {', '.join(columns)}", plain, columns, settings.runs, GOALS["none"])
    small = log(LogShape(RECORDS[119] // 2, batch_bytes=1024))
    yield from _compare("none, 119 B, batches of 1 KiB", small, None, settings.runs)
    small = log(LogShape(RECORDS[119] // 2, "lz4", batch_bytes=1024))
    yield from _compare("lz4, 119 B, batches of 1 KiB", small, None, settings.runs)


def _compare(
    name: str, events: Log, columns: Sequence[str] | None, runs: int, goal: Goal | None = None, headline: bool = False
) -> Iterator[Row]:
    """CPU times a row of this package and of the ceiling, what lies between in terms of a scan without Spark, and the
    ceiling's wall time over this package's. The answers of both are equal."""
    columns = columns or sessions.columns_of(events)
    ready = sessions.make_ready(events, columns)
    try:
        ours, most = sessions.segments(events, columns), sessions.ceiling(ready, columns)
        if sessions.touch(ours) != sessions.touch(most):
            raise AssertionError(f"{name}: the two sources do not have the same rows")
        costs: tuple[list[float], list[float]] = ([], [])
        pairs = alternate(partial(_touch, ours, costs[0]), partial(_touch, most, costs[1]), runs)
    finally:
        shutil.rmtree(ready)
    speeds = [events.records / min(times) / 1e6 for times in zip(*pairs, strict=True)]
    if costs[0]:
        alone = statistics.median(repeat_cpu(lambda: _scan(events, columns), runs)) / events.records * 1e9
        own, least = ([cost / events.records * 1e9 for cost in each[1:]] for each in costs)
        beyond = [(one - other) / alone for one, other in zip(own, least, strict=True)]
        yield row(f"{name}: CPU", own, "ns a row", headline=headline)
        yield row(f"{name}: CPU of the ceiling", least, "ns a row", headline=headline)
        note = f"the scan alone {alone:.0f} ns a row"
        yield row(f"{name}: CPU beyond the ceiling", beyond, "times the scan alone", BEYOND, note, headline)
    note = f"{speeds[0]:.2f} of {speeds[1]:.2f} M rows/s"
    yield row(f"{name}: speed", [most / ours for ours, most in pairs], "of the ceiling", goal, note, headline)


def _scan(events: Log, columns: Sequence[str]) -> None:
    for _ in kafka_segment_source.scan(str(events.path), list(columns), includeHeaders=events.shape.headers):
        pass


def _touch(frame: DataFrame, costs: list[float]) -> None:
    """Runs the query and notes the CPU time it took, where the system tells."""
    begin = sessions.cpu_seconds()
    sessions.touch(frame)
    end = sessions.cpu_seconds()
    if begin is not None and end is not None:
        costs.append(end - begin)
