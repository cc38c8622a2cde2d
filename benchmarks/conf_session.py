"""A probe in a process of its own: a session with some settings, its first query, full scans, many small
tasks. Prints JSON."""

from __future__ import annotations

import json
import sys
import time

from benchmarks.measure import seconds
from benchmarks.sessions import start, touch


def main() -> None:
    """`python -m benchmarks.conf_session SETTINGS LARGE SMALL RUNS`: JSON, two paths, how often."""
    conf, large, small, runs = sys.argv[1:]
    spark = start(json.loads(conf))
    begin = time.perf_counter()
    spark.read.format("kafkaseg").load(small).limit(1).collect()
    first = time.perf_counter() - begin
    whole = spark.read.format("kafkaseg").load(large)
    tasks = spark.read.format("kafkaseg").option("packBytes", "0").load(small)
    touch(whole), touch(tasks)
    scans = [seconds(lambda: touch(whole)) for _ in range(int(runs))]
    many = [seconds(lambda: touch(tasks)) for _ in range(int(runs))]
    spark.stop()
    print(json.dumps({"first": first, "scans": scans, "tasks": many}))


if __name__ == "__main__":
    main()
