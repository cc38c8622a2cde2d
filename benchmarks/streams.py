"""Streams: all of a log by availableNow against a batch read, triggers that find nothing, the newest records of a large
log, and what a micro-batch costs beside its rows."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from benchmarks import sessions
from benchmarks.logs import TOPIC, Log, LogShape, cache_directory, linked_partitions, log
from benchmarks.measure import alternate
from benchmarks.results import Goal, Row, Settings, row
from kafka_segment_source.decoding.tables import RECORDS, Reading
from kafka_segment_source.options import parse_options
from kafka_segment_source.scanning import read_splits
from kafka_segment_source.streams.listings import LISTING_SECONDS
from kafka_segment_source.streams.stream import LogStream
from tests.support.growing_log import write_high_watermarks

TITLE = "streams"

SHARE = Goal(least=0.9)  # of the rows/s of a batch read
EMPTY = Goal(most=200)  # ms, at 1,000 partitions
FLAT = Goal(most=1.2)  # of the small log's time
_RECORDS = 10_000_000
_SMALL = 10_000
_PARTITIONS = 6  # of 10 million records each: half a minute for a batch read
_NEWEST = 1_000
_TRIGGERS = 11
_SETTLING_SECONDS = 3.0  # then the times of files can be trusted: nothing has changed since
_MICRO_BATCHES = 12


def rows(settings: Settings) -> Iterator[Row]:
    """What needs no Spark first."""
    for count in (10, 100) if settings.quick else (10, 100, 1_000):
        yield from _empty_triggers(count)
    large = log(LogShape(_RECORDS // (20 if settings.quick else 1), segments=8))
    yield _newest(large, settings.runs)
    with linked_partitions(large, 1 if settings.quick else _PARTITIONS) as path:
        yield from _available_now(large, path, 1 if settings.quick else _PARTITIONS, 1 if settings.quick else 2)
    yield _micro_batches(3 if settings.quick else _MICRO_BATCHES)


def _empty_triggers(count: int) -> Iterator[Row]:
    """Triggers over partitions of one small segment each, when the listing is too old to answer. In CPU time: one
    thread, and all files are in memory."""
    one = log(LogShape(24, segments=1, batch_bytes=1024))
    root = Path(tempfile.mkdtemp(prefix="stream-", dir=cache_directory()))
    try:
        ends = {(TOPIC, number): one.records for number in range(count)}
        for topic, number in ends:
            shutil.copytree(one.path, root / f"{topic}-{number}")
        write_high_watermarks(root, ends)
        time.sleep(_SETTLING_SECONDS)
        moments = iter(range(10**6))
        clock = lambda: next(moments) * 2 * LISTING_SECONDS  # noqa: E731  # no listing answers twice
        stream = LogStream(parse_options({"path": str(root)}, is_stream=True)[0], clock=clock)
        positions = stream.find_initial()
        if positions != ends:
            raise AssertionError(f"{len(positions)} partitions, not {count} with {one.records} records each")
        unchanged, rewritten = [], []
        stream.find_next(positions, limited=True)
        for _ in range(_TRIGGERS):
            unchanged.append(_time_trigger(stream, positions))
        for _ in range(_TRIGGERS):
            write_high_watermarks(root, ends)
            rewritten.append(_time_trigger(stream, positions))
    finally:
        shutil.rmtree(root)
    goal = EMPTY if count == 1_000 else None
    name = f"a trigger over {count:,} partitions, nothing changed"
    yield row(name, unchanged, "ms of CPU time", goal, headline=count == 1_000)
    name = f"a trigger over {count:,} partitions, high watermarks written again"
    yield row(name, rewritten, "ms of CPU time", goal, headline=count == 1_000)


def _time_trigger(stream: LogStream, positions: dict[tuple[str, int], int]) -> float:
    begin = time.process_time()
    found = stream.find_next(positions, limited=True)
    spent = time.process_time() - begin
    if found != positions:
        raise AssertionError("a trigger without new records moved the stream")
    return spent * 1000


def _newest(large: Log, runs: int) -> Row:
    """The newest records, by a stream that has just been started with a checkpoint, without Spark."""
    small = log(LogShape(_SMALL, segments=8))  # as many as the large one: a listing is the same work
    pairs = [(_read_newest(large), _read_newest(small)) for _ in range(10 * runs)][1:]
    first, second = (statistics.median(times) * 1e3 for times in zip(*pairs, strict=True))
    note = f"{first:.1f} and {second:.1f} ms of CPU time"
    name = f"the newest {_NEWEST:,} of {large.records:,} records, of a log with {small.records:,}"
    return row(name, [first / second for first, second in pairs], "of its time", FLAT, note, headline=True)


def _read_newest(events: Log) -> float:
    """Reads them. Returns the CPU time in seconds."""
    begin = time.process_time()
    stream = LogStream(parse_options({"path": str(events.path)}, is_stream=True)[0])
    start = {(TOPIC, 0): events.records - _NEWEST}
    plan = stream.plan(start, stream.find_next(start, limited=True))
    schema = RECORDS.arrow_schema(list(sessions.columns_of(events)))
    tasks = [] if plan is None else plan.tasks
    reading = Reading(stream.options.source, stream.options.policy, stream.options.content, RECORDS)
    found = sum(batch.num_rows for splits in tasks for batch in read_splits(splits, reading, schema))
    if found != _NEWEST:
        raise AssertionError(f"{found} rows, not the newest {_NEWEST}")
    return time.process_time() - begin


# ---- in Spark ----


def _available_now(events: Log, path: Path, partitions: int, runs: int) -> Iterator[Row]:
    """From `load` to the end, into a sink that drops all rows; and the micro-batch alone, by Spark's progress."""
    triggers: list[float] = []
    records = partitions * events.records

    def stream() -> None:
        reader = sessions.spark().readStream.format("kafkaseg").option("startingOffsets", "earliest")
        progress = _run(reader.load(str(path)), availableNow=True)
        if sum(each["numInputRows"] for each in progress) != records:
            raise AssertionError(f"a stream has not read {records} rows: {progress}")
        triggers.append(sum(each["durationMs"]["triggerExecution"] for each in progress) / 1000)

    def batch() -> None:
        sessions.spark().read.format("kafkaseg").load(str(path)).write.format("noop").mode("overwrite").save()

    costs: tuple[list[float], list[float]] = ([], [])
    whole = partial(_count_cpu, stream, costs[0])
    of_batch = partial(_count_cpu, batch, costs[1])
    pairs = alternate(whole, of_batch, runs)
    speeds = [records / min(times) / 1e6 for times in zip(*pairs, strict=True)]
    note = f"{speeds[0]:.2f} of {speeds[1]:.2f} M rows/s"
    if costs[0]:
        own, least = (statistics.median(cost[1:]) / records * 1e9 for cost in costs)
        note += f"; by CPU time {least / own:.2f}, {own:.0f} and {least:.0f} ns a row"
    name = f"all of {records:,} records by availableNow"
    yield row(name, [second / first for first, second in pairs], "of a batch read", SHARE, note, headline=True)
    shares = [second / spent for (_, second), spent in zip(pairs, triggers[1:], strict=True)]
    note = f"beside it {statistics.median(first for first, _ in pairs) - statistics.median(triggers[1:]):.1f} s a query"
    yield row(f"{name}, its micro-batch alone", shares, "of a batch read", SHARE, note, headline=True)


def _count_cpu(work: Callable[[], object], costs: list[float]) -> None:
    """Runs it and notes the CPU time of Spark and its workers, where the system tells."""
    begin = sessions.cpu_seconds()
    work()
    end = sessions.cpu_seconds()
    if begin is not None and end is not None:
        costs.append(end - begin)


def _micro_batches(count: int) -> Row:
    """Micro-batches of 100 records or so, one a second: what Spark's progress says of each."""
    events = log(LogShape(_SMALL, segments=1))
    rate = sessions.spark().readStream.format("rate").options(rowsPerSecond="100", numPartitions="1").load()
    ours = (
        sessions.spark().readStream.format("kafkaseg").options(startingOffsets="earliest", maxOffsetsPerTrigger="100")
    )
    kinds = {"rate": rate, "kafkaseg": ours.load(str(events.path))}
    times = {name: _micro_batch_times(kind, count) for name, kind in kinds.items()}
    middle = sorted(times["rate"])[len(times["rate"]) // 2]
    note = f"rate: {middle:.0f} ms; both without the first two"
    return row("a micro-batch of 100 records", times["kafkaseg"], "ms", None, note, headline=True)


def _micro_batch_times(frame: DataFrame, count: int) -> list[float]:
    """Milliseconds of single micro-batches. The first two do not count: they start processes."""
    found = _run(frame, count + 2, processingTime="1 second")
    return [float(each["durationMs"]["triggerExecution"]) for each in found[2:]]


def _run(frame: DataFrame, count: int | None = None, **trigger: Any) -> list[Any]:
    """Runs a query to its end, or until it has had `count` micro-batches with rows. Returns their progress."""
    folder = tempfile.mkdtemp(prefix=f"checkpoint-{os.getpid()}-", dir=cache_directory())
    writer = frame.writeStream.format("noop").option("checkpointLocation", folder).trigger(**trigger)
    query = writer.start()
    try:
        while True:
            ended = query.awaitTermination(None if count is None else 1)
            found = [each for each in query.recentProgress if each["numInputRows"]]
            if count is None or ended or len(found) >= count:
                return found[:count]
    finally:
        query.stop()
        shutil.rmtree(folder)
