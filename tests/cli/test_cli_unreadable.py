"""A partition directory that may not be listed: said by what shows a disk, an error for a read that selects it."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import StorageError
from kafka_segment_source.storage.store import Entries, LocalStorage
from tests.cli.runner import LOGS, answer, run

LOCKED = "orders-1"
SAID = f"path {str(LOGS / LOCKED)!r} cannot be listed: Permission denied"


@pytest.fixture(autouse=True)
def locked(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the example's directories is locked, for root too."""
    list_all = LocalStorage.list

    def list_some(self: LocalStorage, directory: str) -> Entries:
        if os.path.basename(directory) == LOCKED:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), directory)
        return list_all(self, directory)

    monkeypatch.setattr(LocalStorage, "list", list_some)


PATHS = {
    "the log directory": [LOGS],
    "a glob": [LOGS / "*-[0-9]"],
    "each directory": sorted(LOGS.glob("*-[0-9]")),
}


@pytest.mark.parametrize("paths", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("columns", [80, 140])
def test_what_shows_a_disk_goes_on(paths: list[Path], columns: int) -> None:
    """`ls` and `verify` show the other partitions, and say what they could not: exit code 1."""
    others = {path.name for path in LOGS.glob("*-[0-9]")} - {LOCKED}

    listed = answer("ls", *paths, "--json", exit_code=1)["partitions"]
    assert {f"{each['topic']}-{each['partition']}": each["damage"] for each in listed} == {
        **{name: [] for name in others},
        LOCKED: [SAID],
    }
    assert (
        sum(each["records"] for each in listed)
        == kafkaseg.scan(LOGS, ["offset"], assign=assigned(others)).read_all().num_rows
    )
    told = run("ls", *paths, columns=columns)
    assert (told.exit_code, told.stderr) == (1, f"kafkaseg: unreadable: {SAID}; `kafkaseg verify` says what it means\n")
    assert "≥ 4,524 records" in told.stdout
    assert SAID in told.stdout.replace("\n", " ") and "log unreadable" in told.stdout and "damaged" not in told.stdout

    verified = answer("verify", *paths, "--json", exit_code=1)
    assert [(each["path"], each["what"]) for each in verified["problems"]] == [(str(LOGS / LOCKED), SAID)]
    assert verified["partitions"] == len(others) + 1
    told = run("verify", *paths, columns=columns)
    assert told.exit_code == 1 and "1 problem: " in told.stdout


def assigned(names: set[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name in sorted(names):
        topic, _, partition = name.rpartition("-")
        found.setdefault(topic, []).append(int(partition))
    return found


@pytest.mark.parametrize("paths", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("command", ["cat", "count", "plan", "batches", "transactions", "offsets"])
def test_a_read_that_selects_it_is_an_error(command: str, paths: list[Path]) -> None:
    """Never fewer rows in silence: one sentence that names the directory."""
    more = ["--time", "2026-03-10T09:30"] if command == "offsets" else []
    result = run(command, *paths, *more)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr in {f"kafkaseg: {SAID}\n", f"kafkaseg: {SAID.replace(str(LOGS / LOCKED), str(paths[0]))}\n"}


def test_a_read_of_others_is_not_hurt() -> None:
    """Another topic, other partitions of the same topic."""
    assert kafkaseg.scan(LOGS, ["offset"], subscribe="payments").read_all().num_rows > 0
    assert kafkaseg.scan(LOGS, ["offset"], assign={"orders": [0, 2]}).read_all().num_rows == 1164 + 1360
    for command in ("ls", "verify", "count", "plan", "batches"):
        assert run(command, LOGS, "--subscribe", "payments").exit_code == 0
    with pytest.raises(StorageError):
        kafkaseg.scan(LOGS, ["offset"], subscribe="orders")


def test_one_that_is_alone() -> None:
    """Nothing else can be shown: the error ends the command."""
    for command in ("ls", "verify", "cat"):
        assert run(command, LOGS / LOCKED).stderr == f"kafkaseg: {SAID}\n"


def test_a_selection_over_a_path_that_cannot_be_listed() -> None:
    """It may be a log directory that holds what is selected, whatever its name is."""
    assert run("ls", LOGS / "orders-0", LOGS / LOCKED, "--subscribe", "orders").stderr == f"kafkaseg: {SAID}\n"


def test_a_dead_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broker has given up hurts nobody: a warning."""
    name = "orders-9.0123456789abcdef0123456789abcdef-delete"
    monkeypatch.setattr(sys.modules[__name__], "LOCKED", name)
    (tmp_path / "orders-0").symlink_to(LOGS / "orders-0")
    (tmp_path / name).mkdir()

    result = run("ls", tmp_path)
    assert (
        result.exit_code == 0
        and result.stderr == f"kafkaseg: path {str(tmp_path / name)!r} cannot be listed: Permission denied\n"
    )


def test_the_report(tmp_path: Path) -> None:
    """The page has the others, and says it."""
    pytest.importorskip("matplotlib")
    result = run("report", LOGS, "--to", tmp_path / "page.html", "--json")

    assert result.exit_code == 0
    assert json.loads(result.stdout)["warnings"] == [SAID]
    page = (tmp_path / "page.html").read_text()
    assert SAID.replace("'", "&#39;") in page and "Not here: path" not in page
    assert page.count("<svg") == 2
