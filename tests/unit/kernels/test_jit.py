"""Kernels are compiled once per machine, by one of the processes that start together, wherever the package is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kafka_segment_source import kafka_format
from kafka_segment_source.kernels import arrow_buffers, batch_headers, machine_code
from kafka_segment_source.kernels.jit import Kernel
from tests.support.rows import FIXTURES

CALL = """
import json, sys
import numpy as np
from kafka_segment_source.kernels import arrow_buffers
offsets, validity = np.zeros(4, np.int32), np.zeros(1, np.uint8)
nulls = arrow_buffers.offsets_and_validity(np.array([2, -1, 3], np.int32), 3, offsets, validity)
from kafka_segment_source.kernels import machine_code
answer = [nulls, offsets.tolist(), validity.tolist()]
print(json.dumps([answer, machine_code.COMPILED, "numba" in sys.modules]))
"""
ANSWER = [1, [0, 2, 2, 5], [0b101]]


def call_kernel(environment: dict[str, str], before: str = "") -> subprocess.Popen[str]:
    """A fresh process that calls one kernel. It prints the answer, what it compiled, and whether it loaded numba."""
    return subprocess.Popen(
        [sys.executable, "-c", before + CALL],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def answer_of(process: subprocess.Popen[str]) -> list[object]:
    told, _ = process.communicate(timeout=300)
    assert process.returncode == 0, told
    found: list[object] = json.loads(told)
    return found


def test_processes_that_start_together_compile_once(tmp_path: Path) -> None:
    """Of four processes over an empty cache one compiles a kernel and keeps it. The others load it without numba."""
    started = [call_kernel({"NUMBA_CACHE_DIR": str(tmp_path)}) for _ in range(4)]
    told = sorted(answer_of(process)[1:] for process in started)  # type: ignore[type-var]
    assert told == [[[], False]] * 3 + [[["offsets_and_validity"], True]]
    assert [path.name.partition("-")[0] for path in tmp_path.iterdir()] == ["offsets_and_validity"]


def test_an_install_that_cannot_be_written_to_keeps_its_kernels_elsewhere(tmp_path: Path) -> None:
    """Where neither the package nor a home can be written to, compiled code goes to a private temporary directory."""
    deny = "import os; os.access = lambda path, mode: False\n"  # as an account without rights would be told
    environment = {"HOME": "/nonexistent", "TMPDIR": str(tmp_path), "NUMBA_CACHE_DIR": ""}
    assert answer_of(call_kernel(environment, deny)) == [ANSWER, ["offsets_and_validity"], True]
    assert list(tmp_path.glob("kafkaseg-kernels-*/offsets_and_validity-*.o"))
    assert answer_of(call_kernel(environment, deny)) == [ANSWER, [], False]


def test_an_account_without_a_home(tmp_path: Path) -> None:
    """A number without an entry in the list of users, as containers run: Python knows no home for it."""
    deny = "import os, pathlib; os.access = lambda path, mode: False\n"
    deny += "def home(): raise RuntimeError('Could not determine home directory.')\npathlib.Path.home = home\n"
    environment = {"TMPDIR": str(tmp_path), "NUMBA_CACHE_DIR": ""}
    assert answer_of(call_kernel(environment, deny)) == [ANSWER, ["offsets_and_validity"], True]


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped"])
def test_damaged_code_is_not_read(damage: str, tmp_path: Path) -> None:
    """Code that is not as it was written is never loaded."""
    made = b"symbol\ncode"
    path = tmp_path / "one.o"
    machine_code._write(path, "symbol", b"code")
    assert machine_code._read(path) == ("symbol", b"code")
    whole = path.read_bytes()
    assert whole.endswith(made)
    flipped = whole[:-1] + bytes([whole[-1] ^ 1])
    path.write_bytes({"empty": b"", "cut": whole[:-1], "flipped": flipped}[damage])
    assert machine_code._read(path) is None


def test_arrays_of_other_types_are_refused() -> None:
    """A kernel would read them as something else."""
    lengths, offsets, validity = np.array([1, 2], np.int32), np.zeros(3, np.int32), np.zeros(1, np.uint8)
    assert isinstance(arrow_buffers.offsets_and_validity, Kernel)
    read_only = np.frombuffer(bytes(8), np.int32)
    for wrong in (lengths.astype(np.int64), lengths.reshape(1, 2), np.zeros(4, np.int32)[::2], read_only):
        with pytest.raises(TypeError):
            arrow_buffers.offsets_and_validity(wrong, 2, offsets, validity)
    with pytest.raises(TypeError):
        arrow_buffers.offsets_and_validity(lengths, 2.0, offsets, validity)
    with pytest.raises(ValueError, match="argument"):
        arrow_buffers.offsets_and_validity(lengths, 2, offsets)


def test_a_kernel_that_needs_numba_is_called_by_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where numba makes other code than this package can call, numba calls it."""
    monkeypatch.setattr("kafka_segment_source.kernels.compiler._SYSTEM_FUNCTIONS", set())
    monkeypatch.setattr(machine_code, "_find_directory", lambda: tmp_path)
    walk = batch_headers.read_headers
    again = Kernel(walk.function, walk.signature)  # type: ignore[attr-defined]  # it is declared as its function
    log = next((FIXTURES / "records").rglob("*.log"))
    tables, counts = np.zeros((2, batch_headers.FIELDS, 100), np.int64), []
    with log.open("rb") as file:
        for call, table in zip((walk, again), tables, strict=True):
            room, report = np.zeros(kafka_format.BATCH_OVERHEAD, np.uint8), np.zeros(2, np.int64)
            counts.append(call(file.fileno(), room, 0, log.stat().st_size, table, report))
    assert counts[0] == counts[1] > 0 and np.array_equal(*tables)
    assert type(again._run).__name__ == "CPUDispatcher"
    assert not list(tmp_path.iterdir())
