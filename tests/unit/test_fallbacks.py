"""What is special to Linux on x86-64 has another way: each is forced here, and gives the same rows.

Interpreted kernels: tests/property/test_modes.py. Kernels that numba calls: tests/unit/kernels/test_jit.py. No file for
pushed filters: tests/unit/spark/test_remembered.py.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import StorageError
from kafka_segment_source.in_order import count_processors
from kafka_segment_source.kernels import machine_code
from kafka_segment_source.logdir import checksums
from kafka_segment_source.rebuilding import journal
from tests.support.rows import FIXTURES, ORDERS

CHECK = b"123456789", 0xE3069283  # of the catalogue of CRCs: CRC-32/ISCSI
ROWS = "import kafka_segment_source as k; print(k.scan({!r}).read_all().num_rows)"


def no_lock(*_: object) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


class NoLocks:
    """`fcntl` of a file system without locks."""

    LOCK_EX, LOCK_NB = 2, 4
    flock = staticmethod(no_lock)


def test_crc_by_another_layout_of_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the compiled module is not found alone, as in another release, the package is imported."""
    monkeypatch.setattr(checksums.PathFinder, "find_spec", lambda *_: None)
    assert checksums._load_crc32c()(CHECK[0]) == CHECK[1]


def test_crc_without_the_processor_s_instruction() -> None:
    """By tables, as on a processor that cannot compute it: the same, also under a read that checks it."""
    logs = str(FIXTURES / "codecs" / "data")
    code = f"from kafka_segment_source.logdir.checksums import crc32c; print(crc32c({CHECK[0]!r}))\n{ROWS.format(logs)}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"CRC32C_SW_MODE": "force"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert list(map(int, done.stdout.split())) == [CHECK[1], kafkaseg.scan(logs).read_all().num_rows]


@pytest.mark.parametrize("locks", [None, NoLocks], ids=["no module", "no lock"])
def test_kernels_are_compiled_without_a_lock(locks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that start together then compile the same code."""
    monkeypatch.setattr(machine_code, "fcntl", locks)
    with machine_code._in_turn():
        pass


@pytest.mark.parametrize("locks", [None, NoLocks], ids=["no module", "no lock"])
def test_no_rebuild_without_a_lock(locks: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two rebuilds could write the same files: one sentence, and nothing is written."""
    monkeypatch.setattr(journal, "fcntl", locks)
    with pytest.raises(StorageError, match=r"cannot be locked \((No locks available|Function not implemented)\)"):
        kafkaseg.rebuild(str(ORDERS / "data"), str(tmp_path / "to"))
    assert not list((tmp_path / "to").glob("*-*"))


def test_a_rebuild_without_advice_to_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """macOS has no posix_fadvise: the same files."""
    monkeypatch.setattr("kafka_segment_source.rebuilding.target_files._EARLY_BYTES", 1)
    for name in ("with", "without"):
        if name == "without":
            monkeypatch.delattr(os, "posix_fadvise")
        kafkaseg.rebuild(str(ORDERS / "data" / "orders-0"), str(tmp_path / name))
    files = {path.name: path.read_bytes() for path in (tmp_path / "with" / "orders-0").iterdir()}
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "without" / "orders-0").iterdir()}


def test_a_system_that_does_not_say_which_processors_it_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, then."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert count_processors() == (os.cpu_count() or 1)
