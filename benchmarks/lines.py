"""`kafkaseg cat` to nowhere, beside a scan of the same columns: what a printed row costs beyond reading it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import kafka_segment_source
from benchmarks.logs import Log, LogShape, log
from benchmarks.measure import alternate
from benchmarks.results import Goal, Row, Settings, Works, row

TITLE = "records as lines"
GOAL = Goal(most=1.0)  # µs a row

_RECORDS = 4_000_000
_COLUMNS = ["topic", "partition", "offset", "timestamp", "key", "value"]


def rows(settings: Settings) -> Iterator[Row]:
    """For text and JSON lines: µs a row beyond a scan, of whole processes, with and without a buffer."""
    records = _RECORDS // (10 if settings.quick else 1)
    events = log(LogShape(records, "none"))
    for name, arguments, unbuffered in (
        ("text", [], ""),
        ("JSON", ["--json"], ""),
        ("JSON, PYTHONUNBUFFERED=1", ["--json"], "1"),
    ):
        command = _cat_command(events, arguments)
        pairs = alternate(partial(_run, command, unbuffered), partial(_run, _scan_command(events), ""), settings.runs)
        found = [(one - other) * 1e6 / records for one, other in pairs]
        note = f"{min(one for one, _ in pairs):.2f} s and {min(other for _, other in pairs):.2f} s"
        yield row(name, found, "µs a row beyond a scan", GOAL, note, headline=not unbuffered)


def works(settings: Settings) -> Works:
    """`kafkaseg cat` as a process."""

    def make(arguments: list[str]) -> partial[None]:
        return partial(
            _run, _cat_command(log(LogShape(_RECORDS // (10 if settings.quick else 1), "none")), arguments), ""
        )

    return {"text": partial(make, []), "JSON": partial(make, ["--json"])}


def _cat_command(events: Log, arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "kafka_segment_source.cli", "cat", *arguments, str(events.path)]


def _scan_command(events: Log) -> list[str]:
    source = f"for batch in {kafka_segment_source.__name__}.scan({str(events.path)!r}, {_COLUMNS!r}): pass"
    return [sys.executable, "-c", f"import {kafka_segment_source.__name__}\n{source}"]


def _run(command: list[str], unbuffered: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
