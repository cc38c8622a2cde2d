"""Kernels are compiled once per machine, by one of the processes that start together, wherever the package is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LOAD = "import kafka_segment_source.kernels.arrow_buffers"


def load_kernels(environment: dict[str, str], program: str = LOAD) -> subprocess.Popen[str]:
    """A fresh process that loads one kernel module and says what numba's cache did."""
    variables = os.environ | {"NUMBA_DEBUG_CACHE": "1"} | environment
    return subprocess.Popen(
        [sys.executable, "-c", program], env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_processes_that_start_together_compile_once(tmp_path: Path) -> None:
    """Of four processes over an empty cache one compiles and keeps a kernel; the others load it."""
    started = [load_kernels({"NUMBA_CACHE_DIR": str(tmp_path)}) for _ in range(4)]
    told = [process.communicate(timeout=300)[0] for process in started]

    assert [process.returncode for process in started] == [0] * 4
    saved = [line for text in told for line in text.splitlines() if "data saved" in line]
    loaded = [line for text in told for line in text.splitlines() if "data loaded" in line]
    assert len(saved) == len(set(saved)) > 0
    assert len(loaded) >= 3 * sum("copy_slices" in line or "offsets_and_validity" in line for line in saved)


def test_an_install_that_cannot_be_written_to_keeps_its_kernels_elsewhere(tmp_path: Path) -> None:
    """Where neither the package nor a home can be written to, compiled code goes to a private temporary directory."""
    deny = "import os; os.access = lambda path, mode: False\n"  # as an account without rights would be told
    environment = {"HOME": "/nonexistent", "TMPDIR": str(tmp_path), "NUMBA_CACHE_DIR": ""}
    process = load_kernels(environment, deny + LOAD)
    told, _ = process.communicate(timeout=300)

    assert process.returncode == 0, told
    assert "data saved" in told
    assert list(tmp_path.glob("kafkaseg-kernels-*/**/*.nbc"))
