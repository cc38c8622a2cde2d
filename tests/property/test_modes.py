"""The kernels under another numba: interpreted, so that Python itself checks every index, and compiled
with bounds checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cases import takes_long
from tests.support.compiled import bounds_checked_code

ROOT = Path(__file__).parent.parent.parent
SELECTION = ["tests/property/test_kernels.py", "tests/property/test_decoding.py", "tests/unit/decoding/test_damage.py"]
SELECTION += ["tests/property/test_latest.py", "tests/property/test_block_codecs.py"]
SELECTION += ["tests/property/test_message_sets.py", "tests/property/test_search.py::test_texts_anywhere_in_a_block"]
SELECTION += ["tests/property/test_stats.py::test_stats_are_those_of_a_naive_pass"]
MODES = {
    "interpreted": {"NUMBA_DISABLE_JIT": "1"},
    "bounds checked": {"NUMBA_BOUNDSCHECK": "1"},
}


@takes_long
@pytest.mark.parametrize("mode", MODES)
def test_kernels_in_another_mode(mode: str, tmp_path: Path) -> None:
    """A few examples of every kernel's tests pass as well, and no array is indexed outside its bounds."""
    directory = bounds_checked_code() if mode == "bounds checked" else tmp_path
    command = [sys.executable, "-m", "pytest", *SELECTION, "--hypothesis-profile=few", "-x", "-p", "no:randomly"]
    if mode == "interpreted":
        command += ["-W", "ignore::RuntimeWarning"]  # numpy warns of the 64-bit wrap that the format asks for
    environment = {**os.environ, **MODES[mode], "NUMBA_CACHE_DIR": str(directory)}  # compiled code is kept by mode
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    compiled = any(directory.rglob("*.nbc"))
    assert compiled == (mode == "bounds checked")
