"""Where a scan's time goes, by function: `python -m benchmarks.profile [CODEC …] [--value-bytes 119] [--headers]`.

One thread, no Spark, in wall time: for a quiet machine (`stages.py` bears a busy one). A kernel's time is that of the
Python function which calls it: numba's dispatchers are invisible to the profiler. It adds to each call: what is called
for each batch looks a little dearer than it is.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.logs import CODECS, Log, LogShape, log
from benchmarks.plain_scan import read

_SHOWN = 0.01  # of the time: functions below are summed up


def main() -> None:
    """A table for each codec."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile")
    parser.add_argument("codec", nargs="*", help=f"of {', '.join(CODECS)} (default: all)")
    parser.add_argument("--value-bytes", type=int, default=119)
    parser.add_argument("--headers", action="store_true")
    parser.add_argument("--records", type=int, default=1_000_000)
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 130, highlight=False)
    for codec in arguments.codec or CODECS:
        events = log(LogShape(arguments.records, codec, arguments.value_bytes, arguments.headers))
        read(events)
        begin = time.process_time()
        read(events)
        console.print(_table(events, time.process_time() - begin))


def _table(events: Log, seconds: float) -> Table:
    profiler = cProfile.Profile()
    profiler.runcall(read, events)
    stats = pstats.Stats(profiler)
    own = {where: (numbers[0], numbers[2]) for where, numbers in stats.stats.items()}  # type: ignore[attr-defined]
    total = sum(spent for _, spent in own.values())
    shape = events.shape
    what = f"{shape.codec}, {shape.value_bytes} B{', headers' if shape.headers else ''}"
    speed = f"{events.records / seconds / 1e6:.2f} M rows/s, {seconds / events.records * 1e9:.0f} ns a row unprofiled"
    table = Table("function", "share", "ns a row", "µs a batch", "calls a batch", title=f"{what}: {speed}")
    others = total
    for (path, line, name), (calls, spent) in sorted(own.items(), key=lambda each: -each[1][1]):
        if spent >= _SHOWN * total:
            others -= spent
            where = name if path == "~" else f"{Path(path).name}:{line} {name}"
            _add(table, where.replace("[", "\\["), spent, total, events, f"{calls / len(events.batches):.2f}")
    _add(table, "others", others, total, events, "")
    return table


def _add(table: Table, name: str, spent: float, total: float, events: Log, calls: str) -> None:
    a_row, a_batch = spent / events.records * 1e9, spent / len(events.batches) * 1e6
    table.add_row(name, f"{spent / total:.1%}", f"{a_row:.1f}", f"{a_batch:.2f}", calls)


if __name__ == "__main__":
    main()
