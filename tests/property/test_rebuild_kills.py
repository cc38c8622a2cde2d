"""rebuild: wherever runs are killed, and where the disk is full, the same call goes on and the sources are untouched.

A case is a number: `python -m tests.property.test_rebuild_kills 17` runs one, `… 0 300` many.
"""

from __future__ import annotations

import errno
import hashlib
import json
import multiprocessing
import os
import re
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kafka_segment_source import scan, verify
from kafka_segment_source.errors import PathError, StorageError
from kafka_segment_source.rebuilding import rebuild_run as rebuild_module
from kafka_segment_source.rebuilding import target_files
from kafka_segment_source.rebuilding.rebuild import rebuild
from tests.support.cases import count_cases
from tests.support.dying_rebuild import run_rebuild
from tests.support.growing_log import GrowingPartition
from tests.support.layouts import encode_batches, write_copies
from tests.support.numbered import run_numbered
from tests.support.writer import segment_name

CASES = count_cases(6, 60)
KILLS = 6  # of each case
PRELOADED = [
    "tests.support.dying_rebuild",
    "kafka_segment_source.kernels.machine_code",
    "kafka_segment_source.scanning",
]


def hash_files(folder: Path) -> dict[str, str]:
    """A hash of each file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def make_logs(random: Random, logs: Path) -> None:
    """One to three partitions of several segments, with open and ended transactions."""
    for number in range(random.randint(1, 3)):
        log = GrowingPartition(logs / f"t-{number}")
        for _ in range(random.randint(1, 12)):
            kind = random.choice(["plain", "plain", "open", "end", "roll"])
            if kind == "roll":
                log.roll()
            elif kind == "end" and log.open:
                log.end_transaction(random.choice(sorted(log.open)), random.random() < 0.6)
            else:
                log.write(random.choice([1, 5, 50]), random.randrange(3) if kind == "open" else -1)
        log.write(2)


def read(path: Path, level: str) -> list[dict[str, Any]]:
    return scan(path, ["partition", "offset", "value"], isolationLevel=level).read_all().to_pylist()


def check(number: int, context: Any) -> int:
    """Tries one case. Returns how often a run was killed."""
    random = Random(number)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_logs(random, folder / "logs")
        before = hash_files(folder / "logs")
        options = random.choice([{}, {}, {"segment_bytes": 300}, {"threads": 2}])
        rebuild(folder / "logs", folder / "at-once", **options)
        killed = 0
        for _ in range(KILLS):
            step = random.choice([1, 2, 3, 5, 8, 13, 21, 34, random.randint(1, 200)])
            run = context.Process(target=run_rebuild, args=(str(folder / "logs"), str(folder / "new"), options, step))
            run.start()
            run.join(60)
            assert run.exitcode in (0, -9), f"a run ended with {run.exitcode}"
            if run.exitcode == 0:
                break
            killed += 1
        if (folder / "new/rebuild.json").exists() and not (folder / "new/.rebuild").exists():
            with pytest.raises(PathError, match="finished rebuild"):
                rebuild(folder / "logs", folder / "new", **options)
        else:
            with pytest.raises(PathError, match="another request") if has_progress(folder / "new") else nothing():
                rebuild(folder / "logs", folder / "new", segment_bytes=77)
            if has_progress(folder / "new"):
                rebuild(folder / "logs", folder / "new", **options)
            else:
                return killed
        assert hash_files(folder / "logs") == before, "a source was changed"
        found, wanted = hash_files(folder / "new"), hash_files(folder / "at-once")
        del found["rebuild.json"], wanted["rebuild.json"]  # they name their target
        assert found == wanted, f"{set(found.items()) ^ set(wanted.items())}"
        assert not list((folder / "new").rglob(".*")), "files of the rebuild itself are left"
        for level in ("read_uncommitted", "read_committed"):
            assert read(folder / "new", level) == read(folder / "logs", level)
        assert verify(folder / "new").is_ok
        return killed


def has_progress(target: Path) -> bool:
    """Whether a rebuild keeps a whole segment. Before that, another request may begin."""
    states = {path.name for path in (target / ".rebuild").glob("*.json")} - {"request.json"}
    return (target / ".rebuild/request.json").exists() and (bool(states) or len(list(target.iterdir())) > 1)


class nothing:  # noqa: N801  # stands for a context manager of pytest
    """A context in which no error is expected."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def context() -> Any:
    """Processes that begin with everything loaded."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(PRELOADED)
    return made


def test_a_killed_rebuild_goes_on(context: Any) -> None:
    killed = 0
    for number in range(CASES):
        try:
            killed += check(number, context)
        except AssertionError as error:
            pytest.fail(f"case {number}: {error}")
    assert killed >= CASES


def test_a_full_disk_ends_it_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After room was made, the same call goes on; nothing else may be in the target meanwhile."""
    make_logs(Random(4), tmp_path / "logs")
    before = hash_files(tmp_path / "logs")
    write, left = target_files.NewFile.write, 0

    def fail_later(file: target_files.NewFile, data: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            with target_files.written(file.path):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(file, data)

    monkeypatch.setattr(target_files.NewFile, "write", fail_later)
    with pytest.raises(StorageError, match=r"cannot be written: No space left on device$"):
        rebuild(tmp_path / "logs", tmp_path / "new")
    assert os.listdir(tmp_path / "new") == [".rebuild"]
    monkeypatch.undo()
    rebuild(tmp_path / "logs", tmp_path / "new")
    assert read(tmp_path / "new", "read_uncommitted") == read(tmp_path / "logs", "read_uncommitted")
    assert hash_files(tmp_path / "logs") == before


def test_room_is_checked_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_logs(Random(4), tmp_path / "logs")
    monkeypatch.setattr("kafka_segment_source.rebuilding.rebuild_run.count_free_bytes", lambda _: 1000)
    with pytest.raises(StorageError, match=re.escape("has too little room: found 1,000 free bytes, expected")):
        rebuild(tmp_path / "logs", tmp_path / "new")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_target_without_permission(tmp_path: Path) -> None:
    make_logs(Random(4), tmp_path / "logs")
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(StorageError, match="cannot be written: Permission denied"):
        rebuild(tmp_path / "logs", tmp_path / "closed/new")


def kill_with_progress(logs: Path, target: Path, context: Any) -> None:
    """Kills a rebuild of a log of several segments where it has kept the first one."""
    run = context.Process(target=run_rebuild, args=(str(logs), str(target), {}, 22))  # steps
    run.start()
    run.join(60)
    assert run.exitcode == -9
    assert has_progress(target)


def test_a_source_that_has_grown_is_read_again(tmp_path: Path, context: Any) -> None:
    log = GrowingPartition(tmp_path / "logs/t-0")
    log.write(5)
    log.roll()
    log.write(5)
    kill_with_progress(tmp_path / "logs", tmp_path / "new", context)
    log.write(7)
    rebuild(tmp_path / "logs", tmp_path / "new")
    assert read(tmp_path / "new", "read_uncommitted") == read(tmp_path / "logs", "read_uncommitted")


def test_a_source_that_was_compacted_is_read_again(tmp_path: Path, context: Any) -> None:
    """A segment that the dead run has kept whole has other records by now."""
    logs = Path(*write_copies(tmp_path, {0: "[0-4 e0]", 5: "[5-9 e0]", 10: "[10-14 e0]"}))
    kill_with_progress(logs, tmp_path / "new", context)
    (logs / "t-0" / segment_name(0)).write_bytes(encode_batches("[0-4 e0 (0,2)]"))
    rebuild(logs, tmp_path / "new")
    assert read(tmp_path / "new", "read_uncommitted") == read(logs, "read_uncommitted")


def main(arguments: list[str]) -> int:
    """Runs one case, or many."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(PRELOADED)
    return run_numbered(arguments, lambda number: f"{check(number, made)} kills")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))


@pytest.mark.parametrize("has_request", [True, False])
def test_a_run_that_died_while_it_removed_its_folder(has_request: bool, tmp_path: Path) -> None:
    """The report is there, so the rebuild is done. What is left of the folder goes: no broker takes such a name."""
    logs, to = tmp_path / "logs", tmp_path / "to"
    make_logs(Random(1), logs)
    before = rebuild(logs, to)
    files_before = hash_files(to)
    folder = to / ".rebuild"
    (folder / "t-0").mkdir(parents=True)
    if has_request:
        (folder / "request.json").write_text(json.dumps(request_of(logs, to, tmp_path)))
        assert rebuild(logs, to).to_dict() == before.to_dict()
    else:
        with pytest.raises(PathError, match="holds a finished rebuild"):
            rebuild(logs, to)
    assert hash_files(to) == files_before and not folder.exists()


def request_of(logs: Path, to: Path, scratch: Path) -> dict[str, Any]:
    """What a run notes of its request, from a run that ends in an error after that."""
    other = scratch / "other"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rebuild_module, "count_free_bytes", lambda _: 0)
        with pytest.raises(StorageError):
            rebuild(logs, other)
    found: dict[str, Any] = json.loads((other / ".rebuild" / "request.json").read_text())
    return found
