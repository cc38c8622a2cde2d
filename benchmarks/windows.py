"""Windows of a fixed size in logs of 1, 10 and 100 times a size: bytes to read against the window's own, and wall time.

The window is 0.5 % of the largest log. Its own bytes are those of the batches that hold its rows, with a declared
disorder those of the window widened by it. From the bytes to read, an index interval a segment is taken off: 4 KiB, and
the batch that it ends in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import kafka_segment_source
from benchmarks import sessions
from benchmarks.full_scan import RECORDS
from benchmarks.logs import (
    DISORDER,
    FIRST_OFFSET,
    FIRST_TIMESTAMP,
    INDEX_INTERVAL,
    LAST_OFFSET,
    LAST_TIMESTAMP,
    SIZE,
    TOPIC,
    Log,
    LogShape,
    log,
)
from benchmarks.measure import alternate, seconds
from benchmarks.plain_scan import read
from benchmarks.results import Goal, Row, Settings, row

TITLE = "windows, 0.5 % of the largest log"

WINDOW = 0.005
WHERE = 0.55  # of the log: not at the border of two segments
BYTES = Goal(most=1.1)  # of the window's own
TIME = Goal(most=0.1)  # of a full scan
FLAT = Goal(most=1.2)  # of the smallest log's time
OFFSETS, DECLARED, TIMES = "offsets", "time, timestampDisorder", "time"
_SMALLEST = 16 * 2**20
_SEGMENT = 256 * 2**20
_SIZES = (1, 10, 100)


@dataclass(frozen=True)
class _Window:
    """A question, as options, and the bytes of the batches that hold its answer."""

    options: dict[str, Any]
    own_bytes: int


def rows(settings: Settings) -> Iterator[Row]:
    """Bytes of each window in each log, then their times: without Spark, and in Spark for the largest."""
    smaller = 32 if settings.quick else 1
    logs = {size: log(_shape(size * _SMALLEST // smaller, _SEGMENT // smaller)) for size in _SIZES}
    span = int(logs[_SIZES[-1]].stored_bytes * WINDOW)
    for kind in (OFFSETS, DECLARED, TIMES):
        windows = {size: window_of(kind, events, span) for size, events in logs.items()}
        for size, events in logs.items():
            yield _bytes(f"{kind}: bytes, {events.stored_bytes / 1e6:.0f} MB", events, windows[size], kind)
        yield from _flat(kind, logs, windows, settings)
    largest = logs[_SIZES[-1]]
    yield from _of_full_scan(largest, span, settings)


def _shape(stored: int, segment: int) -> LogShape:
    return LogShape(RECORDS[119], segments=max(1, round(stored / segment))).of_bytes(stored)


def window_of(kind: str, events: Log, span: int) -> _Window:
    """`span` bytes of the log by offset or by time, its ends inside batches."""
    ends = events.batches[:, SIZE].cumsum()
    middle = events.stored_bytes * WHERE
    first, last = (events.batches[int(ends.searchsorted(middle + half))] for half in (-span / 2, span / 2))
    if kind == OFFSETS:
        start, end = int(first[FIRST_OFFSET]) + 1, int(last[LAST_OFFSET])
        names = {"startingOffsets": start, "endingOffsets": end}
        options: dict[str, Any] = {name: json.dumps({TOPIC: {"0": offset}}) for name, offset in names.items()}
        return _Window(options, events.bytes_of_offsets(start, end))
    since, until = int(first[FIRST_TIMESTAMP]) + 1, int(last[LAST_TIMESTAMP])
    options = {"since": since, "until": until}
    if kind == DECLARED:
        widened = events.bytes_of_times(since - DISORDER, until + DISORDER)
        return _Window({**options, "timestampDisorder": f"{DISORDER}ms"}, widened)
    return _Window(options, events.bytes_of_times(since, until))


def _bytes(name: str, events: Log, window: _Window, kind: str) -> Row:
    plan = kafka_segment_source.plan(str(events.path), **window.options)
    allowed = plan.segments_kept * (INDEX_INTERVAL + int(events.batches[:, SIZE].max()))
    figure = max(plan.bytes_to_read - allowed, 0) / window.own_bytes
    note = f"{plan.bytes_to_read / 1e6:.2f} of {window.own_bytes / 1e6:.2f} MB, {plan.segments_kept} segments"
    return row(name, figure, "of its own", BYTES if kind != TIMES else None, note, kind == DECLARED)


def _flat(kind: str, logs: dict[int, Log], windows: dict[int, _Window], settings: Settings) -> Iterator[Row]:
    """Times in the larger logs over those in the smallest, taken in turn."""
    taken: dict[int, list[float]] = {size: [] for size in logs}
    for _ in range(2 * settings.runs + 1):
        for size, events in logs.items():
            taken[size].append(seconds(lambda events=events, size=size: read(events, **windows[size].options)))
    smallest = taken[_SIZES[0]][1:]
    for size in _SIZES[1:]:
        times = taken[size][1:]
        ratios = [large / small for large, small in zip(times, smallest, strict=True)]
        note = f"{min(times) * 1e3:.1f} of {min(smallest) * 1e3:.1f} ms"
        goal = FLAT if kind != TIMES else None
        yield row(f"{kind}: time, log {size} times as large", ratios, "of the smallest's", goal, note)


def _of_full_scan(events: Log, span: int, settings: Settings) -> Iterator[Row]:
    whole_frame = sessions.segments(events)
    for kind in (OFFSETS, DECLARED, TIMES):
        window = window_of(kind, events, span)
        goal = TIME if kind != TIMES else None
        pairs = alternate(lambda window=window: read(events, **window.options), lambda: read(events), 2)
        yield row(f"{kind}: time, without Spark", [part / whole for part, whole in pairs], "of a full scan", goal)

        reader = sessions.spark().read.format("kafkaseg")
        frame = reader.options(**{name: str(value) for name, value in window.options.items()}).load(str(events.path))
        runs = 2 if settings.quick else 3
        pairs = alternate(lambda frame=frame: sessions.touch(frame), lambda: sessions.touch(whole_frame), runs)
        note = f"{min(part for part, _ in pairs):.2f} of {min(whole for _, whole in pairs):.2f} s"
        ratios = [part / whole for part, whole in pairs]
        yield row(f"{kind}: time in Spark", ratios, "of a full scan", goal, note, kind == DECLARED)
