"""A query over 1,000 tiny segments, against the same rows in four: what a segment costs beside its bytes. And tasks of
one small segment each, against tasks of ready Arrow batches: what a task costs beside Spark's own part."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import kafka_segment_source
from benchmarks import sessions
from benchmarks.logs import LogShape, log
from benchmarks.measure import alternate
from benchmarks.results import Goal, Row, Settings, row

TITLE = "1,000 tiny segments"

_SEGMENTS = 1_000
_RECORDS = 24  # a segment: three batches
_TASKS = 24
_OF_A_TASK = 120  # records: 15 kB
TASK = Goal(most=10)  # ms


def rows(settings: Settings) -> Iterator[Row]:
    """In Spark, and without."""
    many = log(LogShape(_RECORDS * _SEGMENTS, segments=_SEGMENTS, batch_bytes=1024))
    few = log(LogShape(_RECORDS * _SEGMENTS, batch_bytes=1024))
    frames = sessions.segments(many), sessions.segments(few)
    if (counted := frames[0].count()) != many.records:
        raise AssertionError(f"{counted} rows of {many.records}")
    pairs = alternate(lambda: sessions.touch(frames[0]), lambda: sessions.touch(frames[1]), settings.runs)
    tasks = len(kafka_segment_source.plan(str(many.path)).tasks)
    note = f"{tasks} tasks; the same rows in four segments: {min(few for _, few in pairs):.2f} s"
    yield row("query in Spark, planned before", [many for many, _ in pairs], "s", None, note, headline=True)
    pairs = alternate(
        lambda: sessions.touch(sessions.segments(many)), lambda: sessions.touch(sessions.segments(few)), settings.runs
    )
    note = f"the same rows in four segments: {min(few for _, few in pairs):.2f} s"
    yield row("load and query in Spark", [many for many, _ in pairs], "s", None, note)
    pairs = alternate(lambda: _scan(str(many.path)), lambda: _scan(str(few.path)), settings.runs)
    measured = [(ours - theirs) / _SEGMENTS * 1e6 for ours, theirs in pairs]
    yield row("scan without Spark: a segment beside its bytes", measured, "µs a segment")
    yield from _small_tasks(settings)


def _small_tasks(settings: Settings) -> Iterator[Row]:
    events = log(LogShape(_TASKS * _OF_A_TASK, segments=_TASKS, batch_bytes=1024))
    ready = sessions.make_ready(events, sessions.columns_of(events))
    ours = sessions.spark().read.format("kafkaseg").option("packBytes", "0").load(str(events.path))
    theirs = sessions.ceiling(ready, sessions.columns_of(events))
    if (tasks := ours.rdd.getNumPartitions()) != _TASKS:
        raise AssertionError(f"{tasks} tasks of {_TASKS}")
    pairs = alternate(lambda: sessions.touch(ours), lambda: sessions.touch(theirs), 2 * settings.runs)
    cores = sessions.spark().sparkContext.defaultParallelism
    measured = [(one - other) / _TASKS * cores * 1e3 for one, other in pairs]
    note = f"an empty one takes {min(other for _, other in pairs) / _TASKS * cores * 1e3:.0f} ms"
    yield row("a task of one small segment, beside an empty one of Spark", measured, "ms", TASK, note, headline=True)
    shutil.rmtree(ready)


def _scan(path: str) -> int:
    return sum(batch.num_rows for batch in kafka_segment_source.scan(path, threads=1))
