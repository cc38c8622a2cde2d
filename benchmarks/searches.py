"""A search for a text that occurs nowhere, and statistics, against a scan of all columns; and `grep -aF` on the same
files.

A search takes one thread for each processor, and a scan does so for compressed batches alone, four at most. So the goal
is about what a user waits. The second row of each codec has one thread on both sides.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from functools import partial

import kafka_segment_source
from benchmarks.logs import Log, LogShape, log
from benchmarks.measure import alternate, repeat
from benchmarks.results import Goal, Row, Settings, Works, row

TITLE = "search and statistics"
GOAL = Goal(most=0.6)  # of the time of a scan


_RECORDS = {"none": 6_600_000, "zstd": 6_600_000}
_TEXT = "order-4711-is-nowhere"
_ALL = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def rows(settings: Settings) -> Iterator[Row]:
    """For each codec: the share of the time of a scan, with the threads of each by default and with one."""
    for codec, records in _RECORDS.items():
        events = log(LogShape(records // (10 if settings.quick else 1), codec))
        runs = settings.runs
        for name, threads, goal in (("", None, GOAL), (", one thread each", 1, None)):
            pairs = alternate(partial(_search, events, threads), partial(_scan, events, threads), runs)
            note = f"{min(one for one, _ in pairs):.2f} s and {min(other for _, other in pairs):.2f} s"
            shares = [one / other for one, other in pairs]
            yield row(f"{codec}{name}", shares, "of a scan's time", goal, note, headline=goal is not None)
        pairs = alternate(partial(_sum_up, events), partial(_scan, events, 1), runs)
        shares = [one / other for one, other in pairs]
        yield row(f"stats, {codec}, one thread each", shares, "of a scan's time", None, "")
        if codec == "none" and shutil.which("grep") is not None:
            times = repeat(partial(_grep, events), runs)
            size = events.stored_bytes / 1e9
            yield row("grep -aF on the same files", times, "s", None, f"{size:.2f} GB; the limit")


def works(settings: Settings) -> Works:
    """A search in each log, with one thread."""

    def make(codec: str) -> partial[None]:
        return partial(_search, log(LogShape(_RECORDS[codec] // (10 if settings.quick else 1), codec)), 1)

    return {f"{codec}, one thread": partial(make, codec) for codec in _RECORDS}


def _search(events: Log, threads: int | None) -> None:
    found = kafka_segment_source.search(str(events.path), _TEXT, fixed=True, threads=threads, includeHeaders=True)
    assert sum(batch.num_rows for batch in found) == 0


def _sum_up(events: Log) -> None:
    [found] = kafka_segment_source.stats(str(events.path), threads=1)
    assert found.sums["records"] == events.records


def _scan(events: Log, threads: int | None) -> None:
    found = kafka_segment_source.scan(str(events.path), _ALL, threads)
    assert sum(batch.num_rows for batch in found) == events.records


def _grep(events: Log) -> None:
    files = sorted(map(str, events.path.glob("*.log")))
    done = subprocess.run(["grep", "-aFc", _TEXT, *files], check=False, capture_output=True)
    assert done.returncode == 1, done.stderr
