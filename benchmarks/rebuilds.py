"""`rebuild` against `cp` of the same files and a pass that checks every CRC, one after the other."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import kafka_segment_source
from benchmarks.logs import Log, LogShape, log
from benchmarks.measure import seconds
from benchmarks.results import Goal, Row, Settings, row

TITLE = "rebuild of a log, one thread"

SPEED = Goal(most=1.3)  # times cp and a CRC pass
_ROWS = 20_000_000


def rows(settings: Settings) -> Iterator[Row]:
    """Large and small batches; cp, the CRC pass and rebuild take turns. All of them wait for the disk."""
    for name, codec, batch_bytes in (("batches of 16 KB", "none", 16_384), ("batches of 1 KB", "none", 1_024)):
        count = _ROWS // (32 if settings.quick else 4)
        events = log(LogShape(count, codec, segments=4, batch_bytes=batch_bytes))
        _rebuild(events)  # the files are in memory for all of them
        runs = [_measure(events) for _ in range(3)]
        copied, checked, rebuilt = (min(each) for each in zip(*runs, strict=True))
        note = (
            f"{events.stored_bytes / 1e6:,.0f} MB in {rebuilt:.1f} s, {events.stored_bytes / rebuilt / 1e6:.0f} MB/s; cp"
            f" {copied:.1f} s, CRC pass {checked:.1f} s"
        )
        yield row(name, [both / (one + other) for one, other, both in runs], "of cp and a CRC pass", SPEED, note)


def _measure(events: Log) -> tuple[float, float, float]:
    return seconds(lambda: _copy(events)), seconds(lambda: _check(events)), seconds(lambda: _rebuild(events))


def _copy(events: Log) -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cp", "-r", str(events.path), folder], check=True)
        for path in Path(folder).rglob("*.log"):
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)


def _check(events: Log) -> None:
    reader = kafka_segment_source.scan(str(events.path), ["lastOffset"], view="batches", checkCrcs=True)
    assert sum(batch.num_rows for batch in reader)


def _rebuild(events: Log) -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = kafka_segment_source.rebuild(str(events.path), Path(folder) / "new")
        assert report.records == events.records
