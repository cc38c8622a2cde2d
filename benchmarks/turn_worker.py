"""One of the two processes of `turn.py`: it does works of the benchmark's groups, one at a time, as it is told.

It imports the version of the package that its folder holds. Each line of its input is a JSON object with a group and a
work of it; it answers with a line of JSON: seconds of wall time and of CPU time, or an error. The CPU time is that of
all threads, and of the processes that the work has started and waited for.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import kafka_segment_source
from benchmarks.__main__ import GROUPS
from benchmarks.results import Settings


def main() -> None:
    """`python -m benchmarks.turn_worker [--quick]`, by `turn.py` alone."""
    settings = Settings(quick="--quick" in sys.argv)
    logging.getLogger("kafka_segment_source").setLevel(logging.ERROR)  # plans warn of what is measured here
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a work prints is no answer
    _answer(answers, {"package": str(kafka_segment_source.__file__)})
    prepared: tuple[str, str] | None = None
    work: Callable[[], object] | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        wanted = (asked["group"], asked["work"])
        try:
            if prepared != wanted or work is None:
                work = importlib.import_module(f"benchmarks.{GROUPS[wanted[0]]}").works(settings)[wanted[1]]()
                prepared = wanted
            _answer(answers, _measure(work))
        except Exception as error:  # an older version may lack what a work needs
            _answer(answers, {"error": f"{type(error).__name__}: {error}"})


def _measure(work: Callable[[], object]) -> dict[str, float]:
    cpu, wall = _cpu(), time.perf_counter()
    work()
    return {"time": time.perf_counter() - wall, "CPU": _cpu() - cpu}


def _cpu() -> float:
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def _answer(answers: Any, said: dict[str, Any]) -> None:
    print(json.dumps(said), file=answers, flush=True)


if __name__ == "__main__":
    main()
