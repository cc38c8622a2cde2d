"""`kafkaseg` as such: help, wrong use, exit codes, interruption, the demo, plans."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click.testing
import pytest

from kafka_segment_source.cli import demo, plan, shared, verify
from kafka_segment_source.cli.shared import COMMANDS
from kafka_segment_source.option_table import OPTIONS
from kafka_segment_source.planning import display, planner
from kafka_segment_source.planning import plan as plan_module
from kafka_segment_source.storage import store
from tests.cli.runner import LOGS, answer, copy_of, run
from tests.support import writer
from tests.support.writer import Rec

ON_PATHS = [name for name in COMMANDS if name not in ("demo", "completion")]


def arguments(command: str) -> list[str]:
    return {
        "offsets": ["--time", "-2h"],
        "zonemap": ["--to", "/no/such/maps"],
        "report": ["--to", "/no/such/page"],
        "export": ["--to", "/no/such/table"],
        "rebuild": ["--to", "/no/such/logs"],
    }.get(command, [])


def run_on(command: str, path: object) -> click.testing.Result:
    before = ["pattern"] if command == "grep" else []
    return run(command, *before, path, *arguments(command))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(command: str) -> None:
    """Every command explains itself in a sentence that fits the list of commands, and shows how it is used."""
    whole = run("--help", columns=80).stdout
    own = run(command, "--help", columns=80).stdout

    assert re.search(rf"^  {command} +[A-Z][^.]*(:[^.]*)?\.$", whole, re.MULTILINE)
    assert max(map(len, [*whole.splitlines(), *own.splitlines()])) <= 80
    assert "TEXT" not in own
    assert command == "demo" or f"kafkaseg {command} " in own
    assert "--json" in own or command == "completion"


@pytest.mark.parametrize("command", ON_PATHS)
def test_a_path_that_is_not_there(command: str) -> None:
    """One sentence, exit code 2."""
    result = run_on(command, "/no/such/path")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "kafkaseg: path '/no/such/path' does not exist\n"


@pytest.mark.parametrize("command", ON_PATHS)
def test_an_empty_directory(command: str, tmp_path: Path) -> None:
    """One sentence that says what was expected, exit code 2."""
    result = run_on(command, tmp_path)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert "holds no log segments" in result.stderr


@pytest.mark.parametrize("command", ON_PATHS)
def test_a_path_one_level_too_high(command: str, tmp_path: Path) -> None:
    """The message names the directory that was meant."""
    (tmp_path / "another").mkdir()
    (tmp_path / "disk2").symlink_to(LOGS)
    (tmp_path / "server.properties").touch()
    result = run_on(command, tmp_path)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(f"that hold them; there are such directories in {str(tmp_path / 'disk2')!r}\n")
    (tmp_path / "disk1").symlink_to(LOGS)
    assert f"in {str(tmp_path / 'disk1')!r} and 1 more of its directories\n" in run_on(command, tmp_path).stderr


@pytest.mark.parametrize("command", ON_PATHS)
def test_a_directory_without_permission(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's reason, without a traceback. The question was right, and may be asked again: exit code 1, and 2
    of grep, as 1 is that it found nothing."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Cannot list directory")

    monkeypatch.setattr(store.LocalStorage, "list", refuse)

    result = run_on(command, LOGS)

    assert result.exit_code == (2 if command == "grep" else 1)
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


def table(*arguments: object, columns: int = 80) -> list[str]:
    """The lines of a plan, which are no wider than the terminal."""
    result = run("plan", *arguments, columns=columns)
    assert result.exit_code == 0
    lines: list[str] = result.stdout.splitlines()
    assert max(map(len, lines)) <= columns
    return lines


@pytest.fixture
def long_names(tmp_path: Path) -> Path:
    """Three partitions of a topic with a name of 70 characters."""
    for number in (2, 9, 10):
        copy_of(LOGS / "orders-0", tmp_path).rename(tmp_path / f"{'long-name-' * 7}-{number}")
    return tmp_path


def test_a_plan_with_long_names(long_names: Path) -> None:
    """At 80 columns each partition has a line; whether it is read and the byte range are below it, whole."""
    lines = table(long_names, "--since", "2026-03-10T09:50")
    name = "long-name-" * 7
    assert lines[:5] == [
        "reads 6 of 18 segments, 28.4 kB of 154.8 kB (18.3 %)",
        "  segment  read  bytes, or why not",
        f"{name}-2",
        "  798      yes   6,877 to 9,155",
        "  1006     yes   0 to 7,174",
    ]
    assert [line for line in lines if line.startswith(name)] == [f"{name}-{number}" for number in (2, 9, 10)] * 2
    assert lines[-1] == "  615      no    nothing after 2026-03-10T09:41:37.521Z (time index)"

    wide = table(long_names, "--since", "2026-03-10T09:50", columns=160)
    assert wide[2].split() == [f"{name}-2/798", "yes", "6,877", "to", "9,155"]


def test_a_plan_shows_what_is_read_first(tmp_path: Path) -> None:
    """Of more segments than are shown, those that are read are shown, and the line below says how many are left."""
    for number in reversed(range(12)):
        copy_of(LOGS / "orders-0", tmp_path).rename(tmp_path / f"orders-{number}")
    lines = table(tmp_path, "--since", "2026-03-10T09:50")
    names = [line.split()[:2] for line in lines[2:-1]]
    assert names[:24] == [[f"orders-{number}/{base}", "yes"] for number in range(12) for base in (798, 1006)]
    assert names[24:26] == [["orders-0/0", "no"], ["orders-0/174", "no"]]
    assert lines[-1] == "… and 32 more"
    assert table(tmp_path)[-1] == "… and 32 more, of which 32 are read"


def test_a_plan_of_many_warnings_shows_each_kind_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever partitions and numbers they name. JSON has them all."""
    monkeypatch.setattr(planner, "WORTH_SAYING", 1)
    for number in range(4):
        copy_of(LOGS / "orders-0", tmp_path / "one").rename(tmp_path / f"orders-{number}")
        (tmp_path / f"orders-{number}" / f"{174:020d}.log").unlink()
    asked = (tmp_path, "--fail-on-data-loss", "false", "--until", "2026-03-10T09:30")
    assert len(answer("plan", *asked, "--json")["warnings"]) == 5
    assert sum(line.startswith("warning: ") for line in table(*asked, columns=1000)) == 5
    monkeypatch.setattr(display, "_MANY_WARNINGS", 3)
    shown = [line for line in table(*asked, columns=1000) if line.startswith("warning: ")]
    assert [line.endswith(" (and 3 more like it)") for line in shown] == [True, False]


@pytest.mark.parametrize("command", ["cat", "stats", "count", "batches", "transactions"])
def test_lost_offsets_that_are_left_out_count(command: str, tmp_path: Path) -> None:
    """They do so where planning misses them, too: the last `.log` is gone, and its index is there."""
    for number in range(3):
        copied = copy_of(LOGS / "orders-0", tmp_path / "one").rename(tmp_path / f"orders-{number}")
        assert run(command, copied).exit_code == 0
        sorted(copied.glob("*.log"))[-1].unlink()
        result = run(command, tmp_path, "--fail-on-data-loss", "false")
        assert result.exit_code == 1, result.stderr
        assert "no file holds the offsets" in result.stderr


def test_a_plan_says_which_replica_it_reads(tmp_path: Path) -> None:
    """Where there are several log directories, each segment has the name of its own; where there is one, none has."""
    for broker in ("broker-1", "broker-2"):
        copy_of(LOGS / "orders-0", tmp_path / broker)
    lines = table(tmp_path / "broker-1", tmp_path / "broker-2")
    bases = (0, 174, 382, 615, 798, 1006)
    assert [line.split()[:2] for line in lines[2:8]] == [[f"broker-1/orders-0/{base}", "yes"] for base in bases]
    assert ["broker-2/orders-0/0", "no"] in [line.split()[:2] for line in lines[8:]]
    assert table(tmp_path / "broker-1")[2].split()[0] == "orders-0/0"


def test_a_plan_of_one_segment(tmp_path: Path) -> None:
    """One segment is no "segments"."""
    file = LOGS / "orders-0" / f"{0:020d}.log"
    assert table(file)[0].startswith("reads 1 of 1 segment, ")


def test_messages_name_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """An option is a flag on the command line, in errors, warnings and the warnings of a plan."""
    monkeypatch.setattr(planner, "WORTH_SAYING", 1)
    cases = {
        ("cat", LOGS, "--topic", "x"): "--topic and --partition name one partition directory, but the path holds 4",
        ("plan", LOGS, "--subscribe", "x"): "--subscribe names topic 'x', but the path holds 'orders', 'payments'",
        ("plan", LOGS, "--starting-offsets", "latest"): "--starting-offsets is 'latest': a batch query would",
        ("offsets", LOGS, "--time", "x"): "--time is 'x': expected",
    }
    for arguments, said in cases.items():
        assert run(*arguments).stderr.startswith(f"kafkaseg: {said}")
    plan = run("plan", LOGS, "--until", "2026-03-10T09:30", columns=1000).stdout
    assert "warning: --until cannot end the read early" in plan
    assert "--timestamp-disorder 10s leaves them out" in plan


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("skipped (mode=DROPMALFORMED): x", "skipped (--mode DROPMALFORMED): x"),
        ("option 'mode' is not for view=topics", "--mode is not for --view topics"),
        ("at most 5 (maxBatchBytes)", "at most 5 (--max-batch-bytes)"),
        ("give the options 'topic' and 'partition'", "give --topic and --partition"),
        ("option 'path' is '': one of its paths is empty", "PATH is '': one of its paths is empty"),
        ("storage option 'mode' is unknown", "storage option 'mode' is unknown"),
        ("in /a/mode=b/includeControl/c.log at byte 1", "in /a/mode=b/includeControl/c.log at byte 1"),
        ("path '/a/b/since=1/maxBatchBytes' does not exist", "path '/a/b/since=1/maxBatchBytes' does not exist"),
        ("partition topic-0 of topic", "partition topic-0 of topic"),
    ],
)
def test_flags_in_messages(message: str, said: str) -> None:
    """Every form in which messages name options; paths and plain words stay."""
    assert shared.name_flags(message) == said


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


def test_a_plan_of_many_segments_counts_the_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the rows: how many segments each reason leaves out, whatever numbers and times are in it."""
    monkeypatch.setattr(display, "_MANY_ROWS", 50)
    for number in reversed(range(12)):
        copy_of(LOGS / "orders-0", tmp_path).rename(tmp_path / f"orders-{number}")
    lines = table(tmp_path, "--since", "2026-03-10T09:50")
    assert lines[0].startswith("reads 24 of 72 segments, ")
    assert lines[1] == "not read: 48, before the time bounds"
    assert lines[2].split() == ["segment", "read", "bytes,", "or", "why", "not"]
    assert lines[3].split()[:2] == ["orders-0/798", "yes"]
    assert lines[-1] == "… and 32 more"


@pytest.mark.parametrize("command", ["verify", "zonemap", "cat"])
def test_threads(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of threads gives the same answer, and the default is as good."""
    monkeypatch.setattr(plan_module, "_BYTES_A_THREAD", 1)
    answers = []
    for threads in ((), ("--threads", 1), ("--threads", 3)):
        out = tmp_path / f"out{len(answers)}"
        arguments = {
            "verify": ("verify", LOGS, "--deep", "--json"),
            "zonemap": ("zonemap", LOGS, "--to", out, "--json"),
            "cat": ("cat", LOGS, "--format", "parquet", "--output", out),
        }[command]
        done = run(*arguments, *threads)
        assert done.exit_code == 0, done.stderr
        written = [path.read_bytes() for path in ([out] if out.is_file() else sorted(out.rglob("*.parquet")))]
        answers.append((done.stdout, written))
    assert answers[0] == answers[1] == answers[2]
    assert (command == "verify") == (not answers[0][1])
    assert run(*arguments, "--threads", 0).exit_code == 2


def test_a_topic_with_the_longest_name(tmp_path: Path) -> None:
    """Kafka allows 249 characters, and file systems 255 bytes. The files of a topic have suffixes."""
    topic = "t" * 249
    folder = tmp_path / f"{topic}-0"
    folder.mkdir()
    data = writer.record_batch([Rec(0, 1000, b"k", b"v"), Rec(1, 1000, None, b"w")])
    (folder / writer.segment_name(0)).write_bytes(data)
    for arguments in (
        ("rebuild", tmp_path, "--to", tmp_path.parent / "rebuilt"),
        ("zonemap", tmp_path, "--to", tmp_path.parent / "maps", "--keys"),
        ("cat", tmp_path, "--zone-maps", tmp_path.parent / "maps", "--key", "k"),
    ):
        result = run(*arguments)
        assert result.exit_code == 0, result.stderr


def test_a_record_without_a_key_is_no_damage(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    data = writer.record_batch([Rec(0, 1000, b"k", b"v"), Rec(1, 1000, None, b"w")])
    (folder / writer.segment_name(0)).write_bytes(data)
    result = run("cat", tmp_path, "--latest")
    assert result.exit_code == 0 and "1 record without a key" in result.stderr
