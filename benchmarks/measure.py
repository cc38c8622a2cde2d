"""Stopwatches: one thing several times, or two in turn; a probe in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def repeat(work: Callable[[], object], runs: int) -> list[float]:
    """Wall times of `runs` calls, after one that does not count."""
    work()
    return [seconds(work) for _ in range(runs)]


def repeat_cpu(work: Callable[[], object], runs: int) -> list[float]:
    """As `repeat`, in CPU time of this process: for loops of one thread, it bears a busy machine better."""
    work()
    measured = []
    for _ in range(runs):
        begin = time.process_time()
        work()
        measured.append(time.process_time() - begin)
    return measured


def alternate(one: Callable[[], object], other: Callable[[], object], runs: int) -> list[tuple[float, float]]:
    """Wall times of both, a pair a run, after one of each that does not count; which goes first changes
    with each run."""
    one()
    other()
    pairs = []
    for run in range(runs):
        if run % 2:
            second = seconds(other)
            pairs.append((seconds(one), second))
        else:
            pairs.append((seconds(one), seconds(other)))
    return pairs


def probe(module: str, *arguments: str, env: Mapping[str, str] | None = None, python: str = sys.executable) -> Any:
    """Runs `python -m benchmarks.<module>` and answers the JSON of its last line; RuntimeError if it fails."""
    done = subprocess.run(
        [python, "-m", f"benchmarks.{module}", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment(python), **(env or {})},
        check=False,
        capture_output=True,
        text=True,
    )
    return _answer(module, done.returncode, done.stdout, done.stderr)


def probes(module: str, arguments: Sequence[Sequence[str]], env: Mapping[str, str]) -> list[Any]:
    """Several probes at once; None for one that failed."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.{module}", *each],
            cwd=ROOT,
            env={**os.environ, **environment(sys.executable), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for each in arguments
    ]
    answers = []
    for each in started:
        told, complaint = each.communicate()
        try:
            answers.append(_answer(module, each.returncode, told, complaint))
        except RuntimeError as error:
            print(error, file=sys.stderr)
            answers.append(None)
    return answers


def environment(python: str) -> dict[str, str]:
    """What Spark needs to find: the interpreter, this folder's modules in workers, the settings that users get."""
    return {
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "SPARK_CONF_DIR": str(ROOT / "conf"),
    }


def _answer(module: str, status: int, told: str, complaint: str) -> Any:
    if status or not told.strip():
        end = "\n".join(complaint.splitlines()[-20:])
        raise RuntimeError(f"probe {module} failed with status {status}; end of what it said:\n{end}")
    return json.loads(told.splitlines()[-1])
