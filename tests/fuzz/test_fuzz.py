"""Mutated real segments, in processes of their own: right rows or one of our errors, as `contract.py` states it.

The suite tries the same cases every time, and `make test-cases` more of them. `KAFKASEG_LONG=1` tries many more,
`KAFKASEG_LONG=50000` as many as that. A failure names its case; `python -m tests.fuzz.run --case N` repeats it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.mutations import case
from tests.support.cases import count_cases
from tests.support.compiled import bounds_checked_code

ROOT = Path(__file__).parents[2]
_WANTED = os.environ.get("KAFKASEG_LONG", "")
LONG = int(_WANTED) if _WANTED.isdecimal() and int(_WANTED) > 1 else 20_000 if _WANTED else 0
CASES = LONG or count_cases(200, 2_000)
MEMORY_MIB = 1024  # peak resident size of the whole process, numba's compiler and pyarrow included


def run(first: int, count: int, seconds: float, **environment: str) -> dict[str, Any]:
    """Runs cases in another process; its findings. Fails with what it said if it crashed, hung or found a violation."""
    command = [sys.executable, "-m", "tests.fuzz.run", "--first", str(first), "--count", str(count)]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"no end after {seconds} s; last words: {(error.stderr or b'')[-200:]!r}")
    if done.returncode:
        pytest.fail(f"exit status {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_mutated_segments() -> None:
    """Thousands of damaged logs give right rows or our error, each in seconds, all in bounded memory."""
    found = run(0, CASES, seconds=300 + CASES)
    assert found["cases"] == CASES
    assert found["peakMiB"] <= MEMORY_MIB
    assert min(found["outcomes"].values()) > 0


def test_mutated_segments_with_bounds_checked() -> None:
    """The same with kernels that check every index: they read and write nothing outside their arrays."""
    count = LONG // 10 or count_cases(50, 500)
    environment = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(bounds_checked_code())}
    assert run(1_000_000, count, seconds=600 + count, **environment)["cases"] == count


def test_mutated_segments_without_the_jit() -> None:
    """The same with kernels run by the interpreter, where an index below zero or a wrapped number would show too."""
    count = LONG // 100 or count_cases(10, 100)
    assert run(2_000_000, count, seconds=600 + 10 * count, NUMBA_DISABLE_JIT="1")["cases"] == count


def test_a_case_is_the_same_every_time() -> None:
    """The number of a case says everything about it."""
    assert [case(number) for number in range(50)] == [case(number) for number in range(50)]
