"""A probe in a process of its own: a fresh Spark session and the time until its first row. Prints JSON."""

from __future__ import annotations

import json
import sys
import time

from benchmarks.sessions import start


def main() -> None:
    """`python -m benchmarks.first_row FORMAT PATH`."""
    fmt, path = sys.argv[1:]
    begin = time.perf_counter()
    spark = start({})
    started = time.perf_counter()
    rows = []
    for _ in range(3):
        frame = spark.read.format(fmt).schema("`offset` bigint, value binary").load(path)
        frame.limit(1).collect()
        rows.append(time.perf_counter())
    spark.stop()
    print(json.dumps({"session": started - begin, "first": rows[0] - started, "third": rows[2] - rows[1]}))


if __name__ == "__main__":
    main()
