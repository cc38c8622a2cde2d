"""Planning at 1,000, 10,000 and (with --long) 100,000 segments, in microseconds a segment, from a local
disk's cache."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import kafka_segment_source
from benchmarks.logs import FIRST_OFFSET, FIRST_TIMESTAMP, LAST_OFFSET, Log, LogShape, log
from benchmarks.measure import repeat
from benchmarks.results import Goal, Row, Settings, Works, row

TITLE = "planning"

GOAL = Goal(most=150)  # µs a segment
_RECORDS = 24  # a segment: three batches
_LONG = 100_000


def rows(settings: Settings) -> Iterator[Row]:
    """For each number of segments: everything, offsets, a time window with and without a declared disorder."""
    for count in (1_000,) if settings.quick else (1_000, 10_000, _LONG) if settings.long else (1_000, 10_000):
        events = log(_shape(count))
        for kind, options in _kinds(events).items():
            times = repeat(partial(_plan, str(events.path), options), 3)
            measured = [each / count * 1e6 for each in times]
            goal = None if "trustIndexes" in kind else GOAL
            note = f"{_plan(str(events.path), options)} segments kept, {min(times):.2f} s"
            headline = kind == "since, until" and count == 10_000
            yield row(f"{count:,} segments, {kind}", measured, "µs a segment", goal, note, headline)
        if count == _LONG:
            events.delete()


def works(settings: Settings) -> Works:
    """A plan of each kind, of 1,000 segments."""
    shape = _shape(200 if settings.quick else 1_000)

    def make(kind: str) -> partial[int]:
        events = log(shape)
        return partial(_plan, str(events.path), _kinds(events)[kind])

    return {kind: partial(make, kind) for kind in _kinds(log(shape))}


def _shape(count: int) -> LogShape:
    return LogShape(_RECORDS * count, segments=count, batch_bytes=1024)


def _kinds(events: Log) -> dict[str, dict[str, Any]]:
    middle = events.batches[len(events.batches) // 2]
    since, until = int(middle[FIRST_TIMESTAMP]), int(middle[FIRST_TIMESTAMP]) + 1000
    offsets = f'{{"events": {{"0": {middle[FIRST_OFFSET]}}}}}', f'{{"events": {{"0": {middle[LAST_OFFSET] + 1}}}}}'
    return {
        "no bounds": {},
        "offsets": {"startingOffsets": offsets[0], "endingOffsets": offsets[1]},
        "since": {"since": since},
        "since, until": {"since": since, "until": until},
        "since, until, timestampDisorder": {"since": since, "until": until, "timestampDisorder": "10ms"},
        "startingTimestamp, endingTimestamp": {"startingTimestamp": since, "endingTimestamp": until},
        "trustIndexes=false, since": {"since": since, "trustIndexes": False},
    }


def _plan(path: str, options: dict[str, Any]) -> int:
    return kafka_segment_source.plan(path, **options).segments_kept
