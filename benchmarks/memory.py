"""Peak resident memory of a Python worker that scans a segment of 1 GB, per codec, and one with records of 50 MB."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.logs import CODECS, LogShape, log
from benchmarks.measure import probe
from benchmarks.results import Goal, Row, Settings, row

TITLE = "memory of a Python worker"

GOAL = Goal(most=350)  # MiB
_SEGMENT = 10**9
_LARGE = 50 * 10**6


def rows(settings: Settings) -> Iterator[Row]:
    """One segment, one task; the segment is deleted after."""
    for codec in ("zstd",) if settings.quick else CODECS:
        stored = _SEGMENT // (16 if settings.quick else 1)
        shape = LogShape(1, codec, segments=1).of_bytes(stored)
        yield _peak(f"{codec}, 119 B, {stored / 1e6:.0f} MB", shape, GOAL, headline=True)
    for codec in ("none",) if settings.quick else ("none", "lz4", "zstd"):
        shape = LogShape(2 if settings.quick else 8, codec, value_bytes=_LARGE, segments=1, batch_bytes=1)
        yield _peak(f"{codec}, records of 50 MB", shape)


def _peak(name: str, shape: LogShape, goal: Goal | None = None, headline: bool = False) -> Row:
    events = log(shape)
    told = probe("peak", str(events.path), "false")
    records, stored = events.records, events.stored_bytes
    events.delete()
    if told["rows"] != records:
        raise AssertionError(f"{name}: {told['rows']} rows of {records}")
    note = f"{records:,} rows, {stored / 1e6:.0f} MB; {told['before']:.0f} MiB before the first byte"
    return row(name, told["peak"], "MiB", goal, note, headline)
