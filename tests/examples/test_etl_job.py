"""The scheduled job: each record once, at whatever moment the runs before died; and words for what cannot be."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from kafka_segment_source.errors import UsageError
from kafka_segment_source.spark.stream_reader import HAS_LIMITS
from tests.support.cases import count_cases
from tests.support.growing_log import GrowingPartition, list_rows
from tests.support.rows import ORDERS, TOPIC, expected, in_scan_order
from tests.support.spark_jars import find_jars

ROOT = Path(__file__).parent.parent.parent
JOB = ROOT / "examples" / "etl_job.py"
MOMENTS = count_cases(2, 10)
# Spark 4.0 and 4.1 finish a micro-batch that was begun, and end: the next run takes the rest
RUNS_AFTER_DEATH = 1 if HAS_LIMITS else 2
TABLE = "lake.db.events"  # where the format is Iceberg
Found = list[tuple[int, int, bytes]]  # partition, offset and value of each record, in order

# A process of the job: each number on its standard input is how often it runs
PROCESS = f"""
import json, sys
sys.path.insert(0, {str(JOB.parent)!r})
import etl_job
spark = etl_job.start_spark(json.loads(sys.argv[1]))
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        etl_job.take_new(spark, *json.loads(sys.argv[2]))
    print("done", flush=True)
"""


def _load() -> ModuleType:
    sys.path.insert(0, str(JOB.parent))  # where its other files are, as for a script
    spec = importlib.util.spec_from_file_location("etl_job", JOB)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


etl_job = _load()


# ---- death ----


def grow(partitions: list[GrowingPartition]) -> None:
    """Appends a batch to one of the partitions, or a part of one, whose rest comes later."""
    each = random.choice(partitions)
    each.mend()
    each.write(random.randint(1, 30), tears=random.random() < 0.5)


def list_steps(state: Path) -> list[Path]:
    """What the checkpoint has: a file for each micro-batch that was begun, and one for each that was finished."""
    return sorted(state.glob("checkpoint/*/[0-9]*"))


@contextmanager
def job_process(
    settings: dict[str, str], arguments: list[object], log: Path, code: str = PROCESS
) -> Iterator[subprocess.Popen[str]]:
    """A process of the job that has a session. It is killed in the end, and Spark's JVM with it."""
    command = [sys.executable, "-c", code, json.dumps(settings), json.dumps(arguments)]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        ) as process,
    ):
        try:
            assert stdout_of(process).readline() == "ready\n", log.read_text()
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def stdout_of(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def start_runs(process: subprocess.Popen[str], count: int) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{count}\n")
    process.stdin.flush()


@contextmanager
def runner_of(
    spark: SparkSession, settings: dict[str, str], arguments: list[object], log: Path
) -> Iterator[Callable[[], None]]:
    """What runs the job to its end: in the session of the tests, or in a process where the job needs settings."""
    if not settings:

        def run_here() -> None:
            for _ in range(RUNS_AFTER_DEATH):
                etl_job.take_new(spark, *arguments)

        yield run_here
        return
    with job_process(settings, arguments, log) as process:

        def run_there() -> None:
            start_runs(process, RUNS_AFTER_DEATH)
            assert stdout_of(process).readline() == "done\n", log.read_text()

        yield run_there


def settings_of(sink: str, state: Path) -> dict[str, str]:
    """Spark's settings for a format, with its jars. Skips the test where this Spark has none."""
    try:
        settings: dict[str, str] = etl_job.find_settings(sink)
    except UsageError as error:
        pytest.skip(str(error))
    if "spark.jars.packages" in settings:
        settings["spark.jars"] = find_jars(settings.pop("spark.jars.packages"))
    if sink == "iceberg":
        settings["spark.sql.catalog.lake"] = "org.apache.iceberg.spark.SparkCatalog"
        settings["spark.sql.catalog.lake.type"] = "hadoop"
        settings["spark.sql.catalog.lake.warehouse"] = str(state / "lake")
        settings["spark.sql.catalog.lake.cache-enabled"] = "false"  # a test puts another table in the same place
    return settings


def read_target(spark: SparkSession, sink: str, state: Path) -> Found:
    """Partition, offset and value of each record that a reader of the target finds, in order."""
    columns = ["partition", "offset", "value"]
    if sink == "parquet":
        found = spark.read.parquet(str(state / "table")).toArrow()
    elif sink == "delta":
        found = pytest.importorskip("deltalake").DeltaTable(str(state / "table")).to_pyarrow_table()
    else:
        tables = pytest.importorskip("pyiceberg.table")
        metadata = state / "lake" / "db" / "events" / "metadata"
        version = (metadata / "version-hint.text").read_text()
        found = tables.StaticTable.from_metadata(str(metadata / f"v{version}.metadata.json")).scan().to_arrow()
    return sorted(zip(*(found[name].to_pylist() for name in columns), strict=True))


@pytest.mark.parametrize("sink", ["parquet", "delta", "iceberg"])
def test_killed_at_any_moment(sink: str, spark: SparkSession, tmp_path: Path) -> None:
    """Whatever a run has left on the disk when it dies, the next run gives each record once.

    One process runs the job again and again, while the log grows. At some random moments, between a step of a
    micro-batch and the next, it is stopped (SIGSTOP), and what is on the disk is copied: a SIGKILL at that moment
    leaves the same. After the last copy it is killed. Runs of another session go on from each copy.
    """
    state, copies = tmp_path / "state", [tmp_path / f"left-{n}" for n in range(MOMENTS)]
    settings = settings_of(sink, state)
    target = TABLE if sink == "iceberg" else str(state / "table")
    logs = tmp_path / "logs"
    partitions = [GrowingPartition(logs / f"t-{n}") for n in range(2)]
    grow(partitions)
    options = {"startingOffsets": "earliest"}
    arguments = [str(logs), target, str(state / "checkpoint"), options, sink]
    with job_process(settings, arguments, tmp_path / "killed.txt") as process:
        start_runs(process, 1_000_000)
        for copy in copies:
            begin, seen = time.monotonic(), list_steps(state)
            end = float("inf")
            while time.monotonic() < end:
                assert process.poll() is None, (tmp_path / "killed.txt").read_text()
                grow(partitions)
                time.sleep(0.05)
                if end == float("inf") and list_steps(state) != seen:  # the moment follows a step by chance
                    end = time.monotonic() + random.uniform(0, time.monotonic() - begin)
            os.killpg(process.pid, signal.SIGSTOP)
            time.sleep(0.05)
            shutil.copytree(state, copy)
            if copy != copies[-1]:
                os.killpg(process.pid, signal.SIGCONT)
    shutil.rmtree(state)
    for each in partitions:
        each.mend()
    with runner_of(spark, settings, arguments, tmp_path / "after.txt") as run_job:
        for copy in copies:
            copy.rename(state)  # the same place: what a sink commits are whole paths
            run_job()
            assert read_target(spark, sink, state) == list_rows(partitions)
            shutil.rmtree(state)


# ---- a checkpoint and a target that do not belong together ----


@pytest.mark.parametrize("sink", ["parquet", "delta", "iceberg"])
def test_a_checkpoint_and_a_target_that_do_not_belong_together(sink: str, spark: SparkSession, tmp_path: Path) -> None:
    """A refusal before anything is written, and the ways on that it names. What belongs together goes on."""
    state = tmp_path / "state"
    settings = settings_of(sink, state)
    target, other = (TABLE, "lake.db.other") if sink == "iceberg" else (str(state / "table"), str(state / "other"))
    logs = tmp_path / "logs"
    partitions = [GrowingPartition(logs / f"t-{n}") for n in range(2)]
    with taker_of(spark, settings, tmp_path / "job.txt") as take:

        def run(to: str, checkpoint: str, from_target: bool = False) -> str:
            return take([str(logs), to, str(tmp_path / checkpoint), {"startingOffsets": "earliest"}, sink, from_target])

        def grow_all() -> None:
            for each in partitions:
                each.write(5)

        for _ in range(2):
            grow_all()
            run(target, "first")
        grow_all()
        before = read_target(spark, sink, state)
        assert len(before) == 20
        refused = (
            "do not belong together: the checkpoint is new, and the target has records already; nothing was written"
        )
        start = '{"t": {"0": 10, "1": 10}}'
        lost = run(target, "second")
        assert refused in lost
        assert f"a new --to and a new --checkpoint, with --starting-offsets '{start}'" in lost
        assert ("--from-target" in lost) == (sink != "parquet")
        elsewhere = run(other, "first")
        assert (
            "do not belong together: the checkpoint says that records were written, and the target is empty"
            in elsewhere
        )
        assert read_target(spark, sink, state) == before
        assert not (tmp_path / "second" / "offsets").exists()

        if sink == "parquet":
            assert "--from-target is for tables" in run(target, "second", True)
            assert run(target, "first") == '{"t": {"0": 15, "1": 15}}'
            (tmp_path / "first").rename(tmp_path / "gone")
            assert run(other, "first") == '{"t": {"0": 15, "1": 15}}'
            assert "the target has records of another checkpoint" in run(target, "first")
        else:
            assert run(target, "second", True) == '{"t": {"0": 15, "1": 15}}'
            assert "--from-target is for a new checkpoint, and" in run(target, "second", True)
            grow_all()
            assert run(target, "second") == '{"t": {"0": 20, "1": 20}}'
        assert read_target(spark, sink, state) == list_rows(partitions)


# A process of the job: each line on its standard input is the arguments of a run
TAKER = f"""
import json, sys
sys.path.insert(0, {str(JOB.parent)!r})
import etl_job
spark = etl_job.start_spark(json.loads(sys.argv[1]))
print("ready", flush=True)
for line in sys.stdin:
    try:
        print(etl_job.take_new(spark, *json.loads(line)), flush=True)
    except etl_job.UsageError as error:
        print(error, flush=True)
"""


@contextmanager
def taker_of(spark: SparkSession, settings: dict[str, str], log: Path) -> Iterator[Callable[[list[object]], str]]:
    """What runs the job once and returns its result or its refusal: in the session of the tests, or in a process."""
    if not settings:

        def take_here(arguments: list[object]) -> str:
            try:
                return str(etl_job.take_new(spark, *arguments))
            except UsageError as error:
                return str(error)

        yield take_here
        return
    with job_process(settings, [], log, TAKER) as process:

        def take_there(arguments: list[object]) -> str:
            assert process.stdin is not None
            process.stdin.write(json.dumps(arguments) + "\n")
            process.stdin.flush()
            answer = stdout_of(process).readline()
            assert answer, log.read_text()
            return answer.rstrip()

        yield take_there


def test_a_first_run_that_died_is_no_stranger(spark: SparkSession, tmp_path: Path) -> None:
    """Before the sink or the checkpoint has written the end of its first micro-batch, with files that no list has."""
    partition = GrowingPartition(tmp_path / "logs" / "t-0")
    partition.write(5)
    arguments = [str(tmp_path / "logs"), str(tmp_path / "state" / "table"), str(tmp_path / "checkpoint"), {}, "parquet"]
    arguments[3] = {"startingOffsets": "earliest"}  # type: ignore[call-overload]
    etl_job.take_new(spark, *arguments)
    left = [tmp_path / "state/table" / etl_job.etl_target.NOTE, *(tmp_path / "checkpoint/commits").iterdir()]
    left += (tmp_path / "state/table/_spark_metadata").iterdir()
    for number in range(1, len(left) + 1):  # the later file of a run is gone in each
        for file in left[:number]:
            file.unlink(missing_ok=True)
        for _ in range(RUNS_AFTER_DEATH):
            etl_job.take_new(spark, *arguments)
        assert read_target(spark, "parquet", tmp_path / "state") == list_rows([partition])


Checkpoint, Target = etl_job.etl_target.Checkpoint, etl_job.etl_target.Target


@pytest.mark.parametrize(
    ("begun", "finished", "last", "is_named", "has_records", "fits"),
    [
        (-1, -1, -1, False, False, True),  # the first run
        (-1, -1, -1, False, True, False),  # the checkpoint is lost
        (-1, -1, 4, False, True, False),  # and nobody knows whose the micro-batches are
        (0, -1, -1, False, False, True),  # died before the sink's commit
        (0, -1, 0, True, True, True),  # and after it
        (0, -1, -1, False, True, False),  # begun for another target
        (4, 4, 4, True, True, True),
        (5, 4, 4, True, True, True),
        (5, 4, 5, False, True, True),
        (4, 4, -1, False, False, False),  # the target is lost
        (4, 4, -1, False, True, False),  # a checkpoint of another target
        (4, 4, -1, True, True, True),  # the snapshots of an Iceberg table are expired
        (4, 4, 3, True, True, False),  # an old copy of the target
        (4, 3, 5, True, True, False),  # an old copy of the checkpoint
    ],
)
def test_what_belongs_together(
    begun: int, finished: int, last: int, is_named: bool, has_records: bool, fits: bool
) -> None:
    """The numbers of micro-batches decide: a sink has all that are finished, and none that was not begun."""
    target = Target(last, is_named, lambda: has_records)
    said = etl_job.etl_target.find_misfit(Checkpoint("id", begun, finished), target)
    assert (said is None) == fits


def test_a_target_that_has_lost_the_list_of_its_files_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A new list would have the new files alone: all others would no longer count."""
    partition = GrowingPartition(tmp_path / "logs" / "t-0")
    target = tmp_path / "table"
    arguments = (str(tmp_path / "logs"), str(target), str(tmp_path / "checkpoint"))
    for _ in range(2):
        partition.write(5)
        etl_job.take_new(spark, *arguments, {"startingOffsets": "earliest"}, "parquet")
    partition.write(5)
    shutil.rmtree(target / "_spark_metadata")
    for note in (target / etl_job.etl_target.NOTE, target / "not there"):
        with pytest.raises(UsageError, match="the target has lost _spark_metadata, the list of its files"):
            etl_job.take_new(spark, *arguments, {"startingOffsets": "earliest"}, "parquet")
        assert not (target / "_spark_metadata").exists()
        note.unlink(missing_ok=True)


# ---- the command ----


@pytest.fixture
def lent_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job uses the session of the tests, and does not stop it."""

    class Lent:
        def __getattr__(self, name: str) -> Any:
            return getattr(spark, name)

        def stop(self) -> None:
            pass

    monkeypatch.setattr(etl_job, "start_spark", lambda settings: Lent())


def run_command(*arguments: object) -> tuple[int, str, str]:
    """Returns the exit code of the command, its standard output, and its standard error."""
    told = CliRunner().invoke(etl_job.main, [str(each) for each in arguments])
    return told.exit_code, told.stdout, told.stderr


def places(directory: Path) -> list[str]:
    return [f"--to={directory / 'out'}", f"--checkpoint={directory / 'checkpoint'}"]


@pytest.mark.usefixtures("lent_spark")
def test_the_target_holds_what_a_consumer_saw(spark: SparkSession, tmp_path: Path) -> None:
    """All columns of all records of the selected topics. A second run adds nothing, and says the same."""
    for _ in range(2):
        arguments = ["--subscribe=orders", "--option=includeHeaders=true"]
        code, out, err = run_command(ORDERS / "data", *places(tmp_path), *arguments)
        assert (code, err) == (0, "")
        assert out == (
            f'etl_job: {tmp_path / "out"} has the records up to {{"orders": {{"0": 1164, "1": 1476, "2": 1360}}}}\n'
        )
        found = spark.read.parquet(str(tmp_path / "out")).toArrow()
        assert sorted(in_scan_order(found)) == [row for row in expected(ORDERS / "data") if row[TOPIC] == "orders"]


@pytest.mark.usefixtures("lent_spark")
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["/nowhere"], 2, "path '/nowhere' does not exist"),
        (
            ["LOGS", "--option=startingOffset=3"],
            2,
            "option 'startingoffset' is unknown; did you mean 'startingOffsets'?",
        ),
        (["LOGS", "--subscribe=order"], 2, "'subscribe' names topic 'order', but the path holds"),
        (["LOGS", "--isolation-level=read_twice"], 2, "expected read_uncommitted or read_committed"),
        (["LOGS", "--starting-offsets=now"], 2, "option 'startingOffsets' is"),
        (["DAMAGED"], 1, "CRC"),
    ],
)
def test_errors_are_one_sentence(arguments: list[str], code: int, sentence: str, tmp_path: Path) -> None:
    """What is wrong with the request ends with exit code 2, and what is wrong with the data with 1."""
    shutil.copytree(ORDERS / "data" / "orders-0", tmp_path / "logs" / "orders-0")
    if "DAMAGED" in arguments:
        (log, *_) = sorted((tmp_path / "logs" / "orders-0").glob("*.log"))
        content = bytearray(log.read_bytes())
        content[len(content) // 2] ^= 1
        log.write_bytes(content)
    path = {"LOGS": str(tmp_path / "logs"), "DAMAGED": str(tmp_path / "logs")}
    found, out, err = run_command(*(path.get(each, each) for each in arguments), *places(tmp_path))
    assert (found, out) == (code, "")
    assert err.count("\n") == 1
    assert err.startswith("etl_job: ")
    assert sentence in err


@pytest.mark.parametrize(
    ("version", "sink", "needed"),
    [("4.2.1", "iceberg", "4.1"), ("4.3.0", "iceberg", "4.1"), ("4.3.0", "delta", "4.1 or 4.2")],
)
def test_a_format_that_this_spark_does_not_have(
    version: str, sink: str, needed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said before a session starts, and nothing is written."""
    monkeypatch.setattr(etl_job.pyspark, "__version__", version)
    monkeypatch.setattr(etl_job, "start_spark", lambda _: pytest.fail("a session was started"))
    code, out, err = run_command(ORDERS / "data", *places(tmp_path), f"--format={sink}")
    assert (code, out) == (2, "")
    assert err == (
        f"etl_job: --format {sink} needs Spark {needed}, and this is {version}: take --format parquet, or write the"
        " table without Spark (docs/export.md)\n"
    )
    assert not list(tmp_path.iterdir())


def test_formats_that_a_spark_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark gets the package of its own version."""
    for version, sink in (("4.1.4", "delta"), ("4.1.4", "iceberg"), ("4.2.1", "delta")):
        monkeypatch.setattr(etl_job.pyspark, "__version__", version)
        assert f"{version[:3]}_2.13:" in etl_job.find_settings(sink)["spark.jars.packages"]


@pytest.mark.usefixtures("lent_spark")
def test_the_last_line_has_the_cause(spark: SparkSession, tmp_path: Path) -> None:
    """Of a failed task: the reason of the system, which is five exceptions down. No file may grow beyond 8 kB here."""
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    before = resource.prlimit(jvm, resource.RLIMIT_FSIZE)
    resource.prlimit(jvm, resource.RLIMIT_FSIZE, (8000, before[1]))
    try:
        code, out, err = run_command(ORDERS / "data", *places(tmp_path))
    finally:
        resource.prlimit(jvm, resource.RLIMIT_FSIZE, before)
    assert (code, out) == (1, "")
    assert err.startswith("etl_job: [TASK_WRITE_FAILED] Task failed while writing rows to ")
    assert err.endswith(": File too large\n")


def test_a_spark_that_does_not_start(tmp_path: Path) -> None:
    """The last line says why, and not only that it did not. What the JVM writes is passed on."""
    command = [sys.executable, str(JOB), str(ORDERS / "data"), *places(tmp_path), "--conf=spark.jars.packages=jar"]
    told = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    assert (told.returncode, told.stdout) == (1, "")
    assert 'Exception in thread "main"' in told.stderr
    last = told.stderr.splitlines()[-1]
    assert last.startswith("etl_job: Spark did not start: requirement failed: Provided Maven Coordinates must be in")


def test_a_malformed_flag_and_the_command_by_itself(tmp_path: Path) -> None:
    """click's own sentence, and exit code 2. No session is started."""
    command = [sys.executable, str(JOB), str(ORDERS / "data"), *places(tmp_path), "--conf=spark.ui.enabled"]
    told = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.endswith("Error: --conf is 'spark.ui.enabled'; expected NAME=VALUE\n")


def test_documented_commands_parse() -> None:
    """Each command of the page and of the job's own description, and each package they name."""
    text = (ROOT / "docs" / "etl.md").read_text(encoding="utf-8") + JOB.read_text(encoding="utf-8")
    commands = re.findall(r"examples/etl_job\.py (/.*)$", text.replace("\\\n", " "), re.MULTILINE)
    assert len(commands) >= 6
    for command in commands:
        etl_job.main.make_context("etl_job", shlex.split(command.split(">>")[0]))
    packages = {package for versions in etl_job.PACKAGES.values() for package in versions.values()}
    assert set(re.findall(r"--packages (io\.delta:\S+)", text)) <= packages
