"""`kafkaseg` as such: help, wrong use, exit codes, interruption, the demo, plans."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_segment_source.cli import demo, plan, shared, verify
from kafka_segment_source.cli.shared import COMMANDS
from kafka_segment_source.options import OPTIONS
from kafka_segment_source.storage import store
from tests.cli.runner import LOGS, answer, run

ON_PATHS = [name for name in COMMANDS if name != "demo"]


def arguments(command: str) -> list[str]:
    return {
        "offsets": ["--time", "-2h"],
        "zonemap": ["--to", "/no/such/maps"],
        "report": ["--to", "/no/such/page"],
    }.get(command, [])


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(command: str) -> None:
    """Every command explains itself in a sentence that fits the list of commands, and shows how it is used."""
    whole = run("--help", columns=80).stdout
    own = run(command, "--help", columns=80).stdout

    assert re.search(rf"^  {command} +[A-Z][^.]*(:[^.]*)?\.$", whole, re.MULTILINE)
    assert max(map(len, [*whole.splitlines(), *own.splitlines()])) <= 80
    assert "TEXT" not in own
    assert command == "demo" or f"kafkaseg {command} " in own
    assert "--json" in own


@pytest.mark.parametrize("command", ON_PATHS)
def test_a_path_that_is_not_there(command: str) -> None:
    """One sentence, exit code 2."""
    result = run(command, "/no/such/path", *arguments(command))

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "kafkaseg: path '/no/such/path' does not exist\n"


@pytest.mark.parametrize("command", ON_PATHS)
def test_an_empty_directory(command: str, tmp_path: Path) -> None:
    """One sentence that says what was expected, exit code 2."""
    result = run(command, tmp_path, *arguments(command))

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert "holds no log segments" in result.stderr


@pytest.mark.parametrize("command", ON_PATHS)
def test_a_directory_without_permission(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's reason, without a traceback. The question was right, and may be asked again: exit code 1."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Cannot list directory")

    monkeypatch.setattr(store.LocalStorage, "list", refuse)

    result = run(command, LOGS, *arguments(command))

    assert result.exit_code == 1
    assert result.stderr == f"kafkaseg: path {str(LOGS)!r} cannot be listed: Permission denied\n"


def test_a_file_without_permission(tmp_path: Path) -> None:
    """A `.log` that may not be opened: exit code 1 as well."""
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(b"x")
    (folder / f"{0:020d}.log").chmod(0)

    for command in ("verify", "cat", "ls"):
        assert run(command, folder).exit_code == 1


def test_a_topic_that_is_not_there() -> None:
    """The message names what is there."""
    result = run("ls", LOGS, "--subscribe", "order")

    assert result.exit_code == 2
    assert "'orders', 'payments'" in result.stderr


def test_an_interrupted_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control-C ends with one word and exit code 130, as shells expect."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verify, "verify", interrupted)

    result = run("verify", LOGS)

    assert result.exit_code == 130
    assert result.stderr == "kafkaseg: interrupted\n"


@pytest.mark.parametrize("columns", [80, 140])
def test_demo(columns: int) -> None:
    """Plan, rows and counts of the bundled example, without Spark."""
    result = run("demo", columns=columns)

    assert result.exit_code == 0
    assert "reads 6 of 18 segments" in result.stdout
    assert "customer-0347" in result.stdout
    assert "09:30  83  ██" in result.stdout


def test_demo_as_json() -> None:
    """Counts per minute that add up to the rows of the window."""
    found = answer("demo", "--json")

    assert list(found["ordersPerMinute"]) == [f"2026-03-10T09:3{minute}:00.000Z" for minute in range(5)]
    assert sum(found["ordersPerMinute"].values()) == 346


def test_demo_without_its_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither repository nor bundle: one sentence."""
    for name in ("_IN_REPOSITORY", "_BUNDLED"):
        monkeypatch.setattr(demo, name, tmp_path / "gone")

    result = run("demo")

    assert result.exit_code == 2
    assert "the example's data is not there" in result.stderr


def test_plan() -> None:
    """A plan as a table and as JSON, with a time in each of the three forms."""
    since = ["--subscribe", "orders", "--since", "2026-03-10T09:50"]
    found = answer("plan", LOGS, *since, "--json")

    assert (found["segmentsTotal"], found["segmentsKept"]) == (18, 6)
    assert "reads 6 of 18 segments" in run("plan", LOGS, *since, columns=80).stdout
    assert answer("plan", LOGS, "--subscribe", "orders", "--since", "1773136200000", "--json") == found
    assert answer("plan", LOGS, "--since", "-5000 weeks", "--json")["segmentsKept"] == 24


def test_every_option_of_a_read_is_a_flag() -> None:
    """`kafkaseg plan` takes what a read takes, under names in the shell's spelling."""
    flags = {parameter.name for parameter in plan.plan_command.params}
    names = {option.name for option in OPTIONS if option.name not in ("path", "view") and not option.stream_only}
    assert flags >= names  # other views have commands of their own


def test_planning_does_without_the_kernels() -> None:
    """A plan is answered before numba would have been loaded."""
    code = "import sys; from kafka_segment_source.cli import cli; cli(['plan', sys.argv[1]], standalone_mode=False); assert 'numba' not in sys.modules"

    subprocess.run([sys.executable, "-c", code, str(LOGS)], check=True, stdout=subprocess.DEVNULL)


def test_a_bar_only_for_long_work(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """On a terminal, long work shows a bar on standard error; short work does not."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    for total, shown in ((10**6, False), (10**9, True)):
        with shared.progress("verifying", total) as advance:
            advance(total)

        assert ("verifying" in capfd.readouterr().err) == shown
