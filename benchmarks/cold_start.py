"""What a first query waits for: compiling, loading what was compiled, importing; and many workers that
start at once."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator

from benchmarks.logs import Log, LogShape, cache_directory, log
from benchmarks.measure import probe, probes
from benchmarks.results import Goal, Row, Settings, row
from benchmarks.sessions import make_ready

TITLE = "cold start"

WORKERS = 16
FIRST = Goal(most=0.35)  # s
_COLUMNS = ("offset", "value")


def rows(settings: Settings) -> Iterator[Row]:
    """Fresh sessions with a cold and a warm cache of the compiler; sixteen processes with a cold one,
    then a warm one."""
    events = log(LogShape(100_000))
    yield _first_row_without_spark(events, 1 if settings.quick else 5)
    yield from _first_row(events, 1 if settings.quick else 3)
    yield from _many(events)


def _first_row_without_spark(events: Log, runs: int) -> Row:
    """From `import kafka_segment_source` to the first batch, in a fresh process with compiled kernels on the disk."""
    taken = [probe("one_worker", str(events.path))["first"] for _ in range(runs + 1)][1:]
    return row("first row without Spark, warm cache", taken, "s", FIRST, headline=True)


def _first_row(events: Log, runs: int) -> Iterator[Row]:
    """From a session that has just started to its first row; the ceiling source shows Spark's own part."""
    ready = make_ready(events, _COLUMNS)
    cold, warm, most = [], [], []
    for _ in range(runs):
        cache = tempfile.mkdtemp(prefix="numba-", dir=cache_directory())
        cold.append(probe("first_row", "kafkaseg", str(events.path), env={"NUMBA_CACHE_DIR": cache}))
        warm.append(probe("first_row", "kafkaseg", str(events.path), env={"NUMBA_CACHE_DIR": cache}))
        most.append(probe("first_row", "ceiling", str(ready)))
        shutil.rmtree(cache)
    shutil.rmtree(ready)
    starts = [each["session"] for each in (*cold, *warm, *most)]
    note = f"after {min(starts):.1f} s of starting Spark"
    yield row("first row, cold cache of the compiler", [each["first"] for each in cold], "s", None, note)
    yield row("first row, warm cache", [each["first"] for each in warm], "s", None, note, headline=True)
    yield row("first row of the ceiling source", [each["first"] for each in most], "s", None, note)
    yield row("third query of the session, first row", [each["third"] for each in (*cold, *warm)], "s")


def _many(events: Log) -> Iterator[Row]:
    """As many processes at once as a large machine starts."""
    cache = tempfile.mkdtemp(prefix="numba-", dir=cache_directory())
    for state in ("cold", "warm"):
        answers = probes("one_worker", [[str(events.path)]] * WORKERS, {"NUMBA_CACHE_DIR": cache})
        sound = [each for each in answers if each is not None and each["rows"] == events.records]
        compiled = Counter(name for each in sound for name in each["compiled"])
        busy = sum(1 for each in sound if each["compiled"])
        twice = [name for name, count in compiled.items() if count > 1]
        times = [each["seconds"] for each in sound]
        name = f"{WORKERS} workers at once, {state} cache"
        yield row(f"{name}: failed", float(WORKERS - len(sound)), "workers", Goal(most=0))
        note = f"{len(compiled)} functions compiled, by {busy} workers; more than once: {', '.join(twice) or 'none'}"
        yield row(f"{name}: compiled more than once", float(len(twice)), "functions", Goal(most=0), note)
        yield row(f"{name}: each read its log after", times, "s", note=f"the last after {max(times):.1f} s")
    shutil.rmtree(cache)
