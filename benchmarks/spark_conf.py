"""What single settings of Spark gain or cost, each against conf/spark-defaults.conf in sessions of their
own, taken in turn."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from typing import Any

from benchmarks.full_scan import RECORDS
from benchmarks.logs import LogShape, log
from benchmarks.measure import probe
from benchmarks.results import Row, Settings, row

TITLE = "settings of Spark, against conf/spark-defaults.conf"

#: Name → what differs from conf/spark-defaults.conf; more can be tried by adding a line.
VARIANTS: dict[str, dict[str, str]] = {
    "TCP, not unix domain sockets": {"spark.python.unix.domain.socket.enabled": "false"},
    "workers not used again": {"spark.python.worker.reuse": "false"},
    "a preloading daemon": {"spark.python.daemon.module": "benchmarks.preloading_daemon"},
    "spark.buffer.size 1 MiB": {"spark.buffer.size": str(2**20)},
    "parallel garbage collector": {"spark.driver.extraJavaOptions": "-XX:+UseParallelGC"},
}
_TASKS = 200


def rows(settings: Settings) -> Iterator[Row]:
    """For each setting: a full scan, a query of 200 tasks, the first query; below 1 is faster."""
    shape = LogShape(RECORDS[119] // (8 if settings.quick else 1), "lz4")
    paths = [str(log(each).path) for each in (shape, LogShape(24 * _TASKS, segments=_TASKS, batch_bytes=1024))]
    sessions = 1 if settings.quick else 3
    for name, conf in VARIANTS.items():
        told: list[tuple[Any, Any]] = []
        for _ in range(sessions):
            told.append(tuple(probe("conf_session", json.dumps(each), *paths, "3") for each in (conf, {})))
        for what, key in (("full scan, lz4", "scans"), (f"{_TASKS} tasks", "tasks"), ("first query", "first")):
            ratios = [_middle(changed[key]) / _middle(usual[key]) for changed, usual in told]
            note = f"{min(_middle(changed[key]) for changed, _ in told):.2f} s"
            yield row(f"{name}: {what}", ratios, "of the usual time", None, note)


def _middle(times: float | list[float]) -> float:
    return statistics.median(times) if isinstance(times, list) else times
