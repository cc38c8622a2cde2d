"""Planning many segments of 10,000 partitions in a simulated storage: CPU time and memory a segment, and the bytes of
Spark's tasks. The set has 100,000 segments, with --long a million.

The storage costs about a microsecond an operation. `planning.py` has what a disk costs.
"""

from __future__ import annotations

import pickle
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks.many_segments import ROOT, TOPIC, ManySegments
from benchmarks.results import Goal, Row, Settings, Works, row
from kafka_segment_source.keywords import option_texts
from kafka_segment_source.options import parse_options
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.storage.store import LOCAL
from kafka_segment_source.zones.update_plan import plan_updates
from kafka_segment_source.zones.updates import run_updates

TITLE = "many segments"

TIME = Goal(most=40)  # µs of CPU a segment
MEMORY = Goal(most=1.5)  # KB a segment
TASK = Goal(most=60)  # bytes of a split that shares a task
_PARTITIONS = 10_000
_MAPS = "/maps"


def rows(settings: Settings) -> Iterator[Row]:
    """For each kind of bounds: CPU time and memory of planning, and the bytes of a task."""
    partitions = 100 if settings.quick else _PARTITIONS
    segments = 100 if settings.quick or settings.long else 10
    storage = ManySegments(partitions, segments)
    _make_maps(ManySegments(min(partitions, 100), segments), storage)
    kinds = _kinds(storage)
    count = partitions * segments
    for kind, options in kinds.items():
        plan = partial(_plan, storage, options)
        times = [_cpu_of(plan) / count * 1e6 for _ in range(1 if settings.long else 3)]
        found = plan()
        note = f"{found.segments_kept:,} of {count:,} segments kept, {len(found.tasks):,} tasks"
        yield row(f"{kind}: CPU", times, "µs a segment", TIME, note, headline=True)
        del found
        yield row(f"{kind}: memory", _memory_of(plan) / count / 1e3, "KB a segment", MEMORY, headline=True)
    plan_all = _plan(storage, {})
    sizes = [(len(pickle.dumps(_task(splits), 5)), len(splits)) for splits in plan_all.tasks]
    size, splits = max(sizes)
    yield row("a task that many splits share", size / splits, "B a split", TASK, f"{splits:,} splits", headline=True)
    begin = time.process_time()
    str(plan_all)
    yield row("a plan as text", time.process_time() - begin, "s", Goal(most=5), headline=True)


def works(settings: Settings) -> Works:
    """A plan of each kind, of 1,000 partitions with ten segments each."""

    def make(kind: str) -> partial[ReadPlan]:
        storage = ManySegments(100 if settings.quick else 1_000, 10)
        _make_maps(ManySegments(100, 10), storage)
        return partial(_plan, storage, _kinds(storage)[kind])

    return {kind: partial(make, kind) for kind in _kinds(ManySegments(1, 1))}


def _kinds(storage: ManySegments) -> dict[str, dict[str, Any]]:
    middle = storage.segments // 2
    since = storage.last_timestamps[middle]
    offsets = {TOPIC: {str(number): storage.end_offsets[middle] for number in range(storage.partitions)}}
    return {
        "no bounds": {},
        "since": {"since": since},
        "offsets": {"startingOffsets": offsets},
        "zone maps": {"since": since, "until": since + 1, "zoneMaps": _MAPS},
        "read_committed": {"isolationLevel": "read_committed"},
    }


def _make_maps(some: ManySegments, storage: ManySegments) -> None:
    """Makes zone maps of a few partitions, and gives every partition a copy, as all have the same bytes."""
    options, _ = parse_options(option_texts(ROOT, {"assign": {TOPIC: [0]}}))
    source, policy = options.source._replace(storage=some), options.policy
    run_updates(plan_updates(source, policy, _MAPS), policy.trust.max_batch_bytes)
    [(path, data)] = some.written.items()
    for number in range(storage.partitions):
        storage.replace(path.replace(f"{TOPIC}-0", f"{TOPIC}-{number}"), data)


def _plan(storage: ManySegments, options: dict[str, Any]) -> ReadPlan:
    parsed, warnings = parse_options(option_texts(ROOT, options))
    return make_plan(parsed._replace(source=parsed.source._replace(storage=storage)), warnings)


def _task(splits: tuple[Any, ...]) -> object:
    from kafka_segment_source.spark.reader import SegmentPartition  # noqa: PLC0415 # it loads pyspark

    return SegmentPartition(tuple(split._replace(storage=LOCAL) for split in splits))


def _cpu_of(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _memory_of(work: Callable[[], object]) -> float:
    """Peak memory of the work, with its result."""
    tracemalloc.start()
    try:
        work()
        return float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
