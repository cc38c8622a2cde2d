"""`scan` with one thread and with two, in turns: how much faster two are, what CPU time they cost more, and memory.

The wall ratio needs two cores that nothing else uses. The CPU times in the notes can be believed on a busy machine too.
"""

from __future__ import annotations

import re
import statistics
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import kafka_segment_source
from benchmarks.logs import CODECS, Log, LogShape, log
from benchmarks.measure import alternate, probe
from benchmarks.plain_scan import read
from benchmarks.results import Goal, Row, Settings, Works, row

TITLE = "scan with two threads"

GOAL = Goal(least=1.8)  # times as fast as one thread
MEMORY_GOAL = Goal(most=64)  # MiB more a thread
_RECORDS = {119: 2_000_000, 1024: 300_000}  # by value size
_THREADS = 4  # of the comparison of memory


def rows(settings: Settings) -> Iterator[Row]:
    """For each codec and size: the times as fast, the CPU time a row, and the memory that each further thread takes."""
    for shape in shapes(settings):
        events = log(shape)
        pairs = alternate(partial(read, events, threads=1), partial(read, events, threads=2), 2 * settings.runs)
        one, two = (_cpu_of(events, threads, settings.runs) for threads in (1, 2))
        note = (
            f"at best {min(one for one, _ in pairs) / min(two for _, two in pairs):.2f}; CPU"
            f" {one / events.records * 1e9:.0f} ns a row with one, {two / events.records * 1e9:.0f} with two"
        )
        ratios = [one / two for one, two in pairs]
        yield row(name_of(shape), ratios, "times as fast as one", GOAL, note, headline=True)
    events = log(LogShape(_RECORDS[119] // (8 if settings.quick else 1), "zstd"))
    few, many = (_peak_of(events, threads) for threads in (1, _THREADS))
    note = f"{few:.0f} MiB with one, {many:.0f} with {_THREADS}"
    more = (many - few) / (_THREADS - 1)
    yield row("memory, zstd, a reader that waits", more, "MiB more a thread", MEMORY_GOAL, note, headline=True)


def works(settings: Settings) -> Works:
    """A scan of each log with two threads."""

    def make(shape: LogShape) -> partial[int]:
        return partial(read, log(shape), threads=2)

    return {f"{name_of(shape)}, two threads": partial(make, shape) for shape in shapes(settings)}


def shapes(settings: Settings) -> Iterator[LogShape]:
    for size, records in _RECORDS.items():
        for codec in CODECS:
            yield LogShape(records // (8 if settings.quick else 1), codec, size)


def name_of(shape: LogShape) -> str:
    return f"{shape.codec}, {shape.value_bytes} B"


def _cpu_of(events: Log, threads: int, runs: int) -> float:
    """CPU time of the process for one scan, in s."""
    measured = []
    for _ in range(runs):
        begin = time.process_time()
        read(events, threads=threads)
        measured.append(time.process_time() - begin)
    return statistics.median(measured)


def _peak_of(events: Log, threads: int) -> float:
    """Peak memory of a process that scans and often waits, in MiB."""
    return float(probe("threads", str(events.path), str(threads))["peak"])


def _scan_slowly(path: str, threads: int) -> float:
    """Scans with pauses, so that as much waits as may wait. Returns the peak memory of this process, in MiB."""
    for number, _ in enumerate(kafka_segment_source.scan(path, threads=threads)):
        if number % 20 == 0:
            time.sleep(0.2)
    # not ru_maxrss, which a process takes over from the one that started it
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


if __name__ == "__main__":
    print(f'{{"peak": {_scan_slowly(sys.argv[1], int(sys.argv[2]))}}}')
