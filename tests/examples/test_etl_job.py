"""The scheduled job: exact rows for a window, whatever happened to the runs before it, and words for what cannot be."""

from __future__ import annotations

import importlib.util
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.support.rows import ORDERS, TIMESTAMP, Row, expected, in_scan_order, keep

ROOT = Path(__file__).parent.parent.parent
JOB = ROOT / "examples" / "etl_job.py"
CONF = ROOT / "conf"
NINE = datetime(2026, 3, 10, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
START = "--window-start=2026-03-10T09:00Z"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("etl_job", JOB)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["etl_job"] = module  # where dataclasses look for their types
    spec.loader.exec_module(module)
    return module


etl_job = _load()
WINDOW = etl_job.Window(NINE, NINE + HOUR)


class Killed(BaseException):
    """What no `except` of the job catches; and it has no `finally` that does more than close files, as a kill does."""


def configuration(directory: Path, *changes: tuple[str, str]) -> Path:
    """The shipped configuration with its own destination, and with these texts replaced."""
    text = (CONF / "etl_job.toml").read_text(encoding="utf-8")
    own = [
        ("../examples/data/orders/data", str(ORDERS / "data")),
        ("../spark-warehouse/etl", str(directory / "out")),
        ("../spark-warehouse/zone-maps", str(directory / "maps")),
    ]
    for old, new in (*own, *changes):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = directory / "job.toml"
    path.write_text(text, encoding="utf-8")
    return path


def hour_of(row: Row) -> str:
    return f"{datetime.fromtimestamp(row[TIMESTAMP] / 1000, UTC):%Y-%m-%dT%H}"


def consumed(window: Any) -> list[tuple[str, Row]]:
    """Hour and row of each record that a real consumer saw with a timestamp in the window."""
    since, until = (int(moment.timestamp() * 1000) for moment in (window.since, window.until))
    rows = keep(expected(ORDERS / "data"), lambda row: since <= row[TIMESTAMP] < until)
    return sorted((hour_of(row), row) for row in rows)


def read_by_spark(spark: SparkSession, destination: Path) -> list[tuple[str, Row]]:
    """Hour and row of each record that Spark finds in the destination, in order."""
    table = spark.read.parquet(str(destination)).toArrow()
    return sorted(zip(table["hour"].to_pylist(), in_scan_order(table), strict=True))


def read_files(destination: Path) -> list[tuple[str, Row]]:
    """The same without Spark: from the files that are in place."""
    found = []
    for path in destination.glob("topic=*/hour=*/*.parquet"):
        topic, hour = (part.partition("=")[2] for part in path.relative_to(destination).parts[:2])
        table = pq.ParquetFile(path).read()
        table = table.append_column("topic", pa.array([topic] * table.num_rows))
        found += [(hour, row) for row in in_scan_order(table)]
    return sorted(found)


def files(destination: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of every file in place, by name."""
    paths = sorted(destination.glob("topic=*/**/*.*"))
    return {str(path.relative_to(destination)): (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}


def staged_leftovers(destination: Path) -> list[str]:
    return sorted(path.name for path in (destination / "_staging").iterdir() if path.name != "lock")


@pytest.fixture(scope="module")
def finished(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """A configuration and the summary of one run of 09:00 to 10:00 with it. Not to be changed: copy it."""
    config = etl_job.load_config(configuration(tmp_path_factory.mktemp("finished")))
    return config, etl_job.run(spark, config, WINDOW)


@pytest.fixture
def done(finished: tuple[Any, Any], tmp_path: Path) -> Any:
    """The configuration of a copy of what that run wrote."""
    shutil.copytree(finished[0].destination, tmp_path / "done")
    return replace(finished[0], destination=tmp_path / "done")


@pytest.fixture
def staging_without_spark(finished: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Staging the window 09:00 to 10:00 copies what Spark wrote for it."""
    monkeypatch.setattr(etl_job, "_stage", copying_stage(finished[0].destination))
    monkeypatch.setattr(etl_job, "_update_zone_maps", lambda *_: None)


def copying_stage(destination: Path) -> Callable[..., dict[Path, Path]]:
    """What stages copies of the files that a run has put in place at `destination`, without Spark."""
    names = [Path(name) for name in files(destination)]

    def stage(_spark: Any, _config: Any, _window: Any, staging: Path) -> dict[Path, Path]:
        staged = {name: staging / name.parent / f"file={name.stem}" / "part.parquet" for name in names}
        for name, path in staged.items():
            path.parent.mkdir(parents=True)
            shutil.copyfile(destination / name, path)
        return staged

    return stage


def without_last_rows(destination: Path) -> None:
    """Makes of what a run wrote what an earlier one would have: late records missing, one partition not
    there at all."""
    for number, path in enumerate(sorted(destination.glob("topic=*/hour=*/*.parquet"))):
        table = pq.ParquetFile(path).read()
        pq.write_table(table.slice(0, table.num_rows - 50), path)
        if number == 0:
            path.unlink()


def dies_at(call: int, real: Callable[..., None]) -> Callable[..., None]:
    """The function, but its call of that number never returns: it dies before it acts."""
    calls = iter(range(call + 1))

    def dying(*arguments: Any) -> None:
        if next(calls) == call:
            raise Killed
        real(*arguments)

    return dying


# ---- exact rows ----


def test_the_window_holds_what_a_consumer_saw_by_topic_and_hour(spark: SparkSession, finished: tuple[Any, Any]) -> None:
    """Every record with a timestamp in the hour is there once, with all its columns; the next hour's is not."""
    config, summary = finished
    found = read_by_spark(spark, config.destination)
    assert found == consumed(WINDOW)
    assert {hour for hour, _ in found} == {"2026-03-10T09"}
    assert (summary.rows, summary.files) == (5_999, 4)
    assert sorted(files(config.destination)) == [
        f"topic={topic}/hour=2026-03-10T09/partition-{partition}.parquet"
        for topic, partition in (("orders", 0), ("orders", 1), ("orders", 2), ("payments", 0))
    ]
    assert staged_leftovers(config.destination) == []


def test_zone_maps_are_made_once_and_spare_the_rest_of_the_log(
    spark: SparkSession, finished: tuple[Any, Any], tmp_path: Path
) -> None:
    """The run made a map of each partition; a window that needs part of the log reads that part, late
    records included."""
    config = replace(finished[0], destination=tmp_path / "out")
    assert sorted(path.name for path in config.zone_maps.iterdir()) == [
        *(f"orders-{n}.parquet" for n in range(3)),
        "payments-0.parquet",
    ]
    before_ten = etl_job.Window(NINE - HOUR, NINE)
    mapped, whole = etl_job.plan(config, before_ten), etl_job.plan(replace(config, zone_maps=None), before_ten)
    assert (mapped.bytes_to_read, whole.bytes_to_read) == (0, whole.bytes_total)
    made = files(config.zone_maps.parent)
    assert etl_job.run(spark, config, before_ten).rows == 0
    assert files(config.zone_maps.parent) == made


def test_files_are_in_offset_order_and_timestamps_have_statistics(finished: tuple[Any, Any]) -> None:
    """A reader that wants a range of offsets or times can skip row groups."""
    for path in finished[0].destination.glob("topic=*/hour=*/*.parquet"):
        file = pq.ParquetFile(path)
        offsets = file.read(["offset"])["offset"].to_pylist()
        assert offsets == sorted(offsets)
        kinds = {file.schema.column(n).name: file.schema.column(n).physical_type for n in range(len(file.schema))}
        assert kinds["timestamp"] == "INT64"


def test_the_line_for_the_log_says_rows_bytes_and_time(finished: tuple[Any, Any]) -> None:
    """One line of key=value, whose bytes read and pruned are all bytes of the topics' segments."""
    _, summary = finished
    log_bytes = sum(path.stat().st_size for path in (ORDERS / "data").glob("*-*/*.log"))
    assert summary.bytes_read + summary.bytes_pruned == log_bytes
    assert re.fullmatch(
        r"etl_job status=done window=2026-03-10T09:00Z/2026-03-10T10:00Z topics=orders,payments rows=5999 files=4"
        r" bytes_read=\d+ bytes_pruned=\d+ bytes_written=\d+ seconds=[\d.]+",
        str(summary),
    )


def test_run_again_and_beside_its_neighbours(spark: SparkSession, done: Any) -> None:
    """Hour after hour, the same hour again, and a window over both: each record once, other hours' files untouched."""
    next_hour = etl_job.Window(NINE + HOUR, NINE + 2 * HOUR)
    before = files(done.destination)
    assert etl_job.run(spark, done, next_hour).rows == 1
    assert {name: files(done.destination)[name] for name in before} == before

    later = {name: each for name, each in files(done.destination).items() if "T10" in name}
    etl_job.run(spark, done, WINDOW)
    assert {name: each for name, each in files(done.destination).items() if "T10" in name} == later
    assert not set(files(done.destination).values()) & set(before.values())  # 09 was written again

    both = etl_job.Window(NINE - HOUR, NINE + 2 * HOUR)
    assert etl_job.run(spark, done, both).rows == 6_000
    assert read_by_spark(spark, done.destination) == consumed(both)
    assert len(files(done.destination)) == 5
    assert staged_leftovers(done.destination) == []


def test_another_topic_in_the_same_place_is_left_alone(spark: SparkSession, done: Any) -> None:
    """A job for some topics replaces files of those alone."""
    before = files(done.destination)
    etl_job.run(spark, replace(done, topics=("payments",)), WINDOW)
    changed = {name for name, each in files(done.destination).items() if before[name] != each}
    assert changed == {name for name in before if name.startswith("topic=payments/")}


# ---- death ----


@pytest.mark.usefixtures("staging_without_spark")
@pytest.mark.parametrize("function", ["_sync", "_replace"])
def test_killed_at_any_step_of_the_commit(function: str, done: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is as the last run left it or as this one makes it; the next run completes the window."""
    without_last_rows(done.destination)
    old = {path: path.read_bytes() for path in done.destination.glob("topic=*/hour=*/*.parquet")}
    new = consumed(WINDOW)
    earlier = {row for _, row in map(_hashable, read_files(done.destination))}
    real = getattr(etl_job, function)
    deaths = 0
    while True:
        for path in done.destination.glob("topic=*/hour=*/*.parquet"):
            path.unlink()
        for path, content in old.items():
            path.write_bytes(content)
        monkeypatch.setattr(etl_job, function, dies_at(deaths, real))
        try:
            etl_job.run(None, done, WINDOW)
            break
        except Killed:
            deaths += 1
        half = [row for _, row in map(_hashable, read_files(done.destination))]
        assert len(half) == len(set(half))
        assert earlier <= set(half) <= {row for _, row in map(_hashable, new)}
        assert staged_leftovers(done.destination) == ["2026-03-10T09_2026-03-10T09"]
        monkeypatch.setattr(etl_job, function, real)
        etl_job.run(None, done, WINDOW)
        assert read_files(done.destination) == new
        assert staged_leftovers(done.destination) == []
    assert deaths >= 4
    assert read_files(done.destination) == new


def _hashable(found: tuple[str, Row]) -> tuple[str, str]:
    return found[0], repr(found[1])


@pytest.mark.usefixtures("staging_without_spark")
def test_a_file_that_the_window_has_no_rows_for_any_more_goes(done: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With allow_fewer_rows a partition that is gone takes its file along, also when the first try died before that."""
    gone = done.destination / "topic=orders" / "hour=2026-03-10T09" / "partition-7.parquet"
    foreign = gone.with_name("notes.parquet")
    for path in (gone, foreign):
        shutil.copyfile(gone.with_name("partition-0.parquet"), path)
    allowed = replace(done, allow_fewer_rows=True)
    with monkeypatch.context() as patch:
        patch.setattr(etl_job, "_remove", dies_at(0, etl_job._remove))
        with pytest.raises(Killed):
            etl_job.run(None, allowed, WINDOW)
    assert gone.exists()
    etl_job.run(None, allowed, WINDOW)
    assert not gone.exists()
    assert foreign.exists()


def test_killed_while_spark_writes(spark: SparkSession, done: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is staged, whole or in part, is read by nobody, changes nothing, and is gone after the next run."""
    leftover = (
        done.destination / "_staging" / "2026-03-10T09_2026-03-10T09" / "f00" / "topic=orders" / "hour=2026-03-10T09"
    )
    leftover.mkdir(parents=True)
    shutil.copyfile(
        done.destination / "topic=orders/hour=2026-03-10T09/partition-0.parquet", leftover / "part-0.parquet"
    )
    (leftover / "part-1.parquet").write_bytes(b"PAR1 and no more")
    before = files(done.destination)
    with monkeypatch.context() as patch:
        patch.setattr(etl_job, "_present", dies_at(0, etl_job._present))  # Spark is done, nothing is in place
        with pytest.raises(Killed):
            etl_job.run(spark, done, WINDOW)
    assert len(staged_leftovers(done.destination)) == 1
    assert files(done.destination) == before
    assert read_by_spark(spark, done.destination) == consumed(WINDOW)
    etl_job.run(spark, done, WINDOW)
    assert staged_leftovers(done.destination) == []
    assert read_by_spark(spark, done.destination) == consumed(WINDOW)


def test_a_process_killed_half_way_and_the_command_run_again(
    spark: SparkSession, finished: tuple[Any, Any], tmp_path: Path
) -> None:
    """SIGKILL after the second file is in place; the same command then exits with 0, one line, and exact rows.

    The process that dies stages copies of what Spark wrote: its death comes after staging. The command has a Spark of
    its own.
    """
    config = configuration(tmp_path)
    destination = tmp_path / "out"
    script = f"""
import os, pathlib, signal
from tests.examples.test_etl_job import copying_stage, etl_job
calls = []
def replace(source, target):
    os.replace(source, target)
    calls.append(target)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
etl_job._replace = replace
etl_job._stage = copying_stage(pathlib.Path({str(finished[0].destination)!r}))
etl_job._update_zone_maps = lambda *_: None
etl_job.main({["--config", str(config), START]!r}, object())
"""
    killed = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False, capture_output=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert len(files(destination)) == 2
    assert len(staged_leftovers(destination)) == 1
    assert set(map(_hashable, read_by_spark(spark, destination))) < set(map(_hashable, consumed(WINDOW)))

    command = [sys.executable, str(JOB), "--config", str(config), START]
    again = subprocess.run(command, check=False, capture_output=True, timeout=300, text=True)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("etl_job status=done window=2026-03-10T09:00Z/2026-03-10T10:00Z ")
    assert again.stdout.count("\n") == 1
    assert read_by_spark(spark, destination) == consumed(WINDOW)
    assert staged_leftovers(destination) == []


# ---- what cannot be ----


def says(
    capsys: pytest.CaptureFixture[str], arguments: list[str], spark: SparkSession | None = None
) -> tuple[int, str]:
    """Exit code of the command and its one sentence."""
    code = etl_job.main(arguments, spark)
    out, err = capsys.readouterr()
    assert (out == "") == (code != 0)
    assert err.count("\n") == 1, err
    assert err.startswith("etl_job: ")
    return code, err.strip().removeprefix("etl_job: ")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (str(ORDERS / "data"), "/nowhere", "path '/nowhere' does not exist"),
        ('"orders", "payments"', '"order"', "'subscribe' names topic 'order', but the path holds 'orders', 'payments'"),
        ('"orders", "payments"', "", r'needs topics = \["…", …\], and has \[\]'),
        ('"orders", "payments"', '"../orders"', "'../orders' cannot be the name of a topic"),
        ("destination = ", "destinations = ", "has 'destinations' at the top; known there: destination, paths"),
        ("hours = 1", "hour = 1", r"has 'hour' in \[window\]; known there: delay_minutes, hours"),
        ("hours = 1", "hours = 0", "hours is 0; expected a whole number, 1 or more"),
        ("allow_fewer_rows = false", 'allow_fewer_rows = "no"', "allow_fewer_rows is 'no'; expected true or false"),
        ("[read]", "[[read]]", r"\[read\] is .*; expected a table"),
        ("isolationLevel = ", "isolationLevl = ", "'isolationLevl' is unknown; did you mean 'isolationLevel'"),
        ('"read_committed"', '"read_twice"', "'isolationLevel' is 'read_twice': expected read_uncommitted or"),
        ("zone_maps = ", "zone_map = ", "has 'zone_map' at the top; known there: .*zone_maps"),
        ("includeHeaders = true", 'zoneMaps = "x"', r"\[read\] has 'zoneMaps', which the job sets"),
        ("includeHeaders = true", 'since = "-2h"', r"\[read\] has 'since', which the job sets"),
        ("includeHeaders = true", "includeHeaders = [1]", r"\[read\] has includeHeaders = \[1\]; expected text"),
        ("hours = 1", "hours = ", "job.toml' cannot be read: "),
    ],
)
def test_a_wrong_configuration(
    old: str, new: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and a sentence that names the key, before Spark starts and before anything is written."""
    code, said = says(capsys, ["--config", str(configuration(tmp_path, (old, new))), START])
    assert code == 2
    assert re.search(sentence, said), said
    assert not (tmp_path / "out").exists()


def test_a_destination_without_atomic_renames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An object store is refused."""
    config = configuration(tmp_path, (str(tmp_path / "out"), "s3a://bucket/etl"))
    assert says(capsys, ["--config", str(config), START]) == (
        2,
        "destination is 's3a://bucket/etl'; expected a directory, on a file system that renames files atomically",
    )


def test_a_missing_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2."""
    code, said = says(capsys, ["--config", "/nowhere.toml"])
    assert (code, said[:49]) == (2, "the configuration '/nowhere.toml' cannot be read:")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--since=2026-03-10T09", "--until=2026-03-10T09:00Z"], "the window is empty: since is 2026-03-10T09:00Z"),
        (["--since=2026-03-10T10", "--until=2026-03-10T09"], "the window is empty: since is 2026-03-10T10:00Z"),
        (
            ["--since=2026-03-10T09:30Z", "--until=2026-03-10T10"],
            "since is 2026-03-10T09:30:00+00:00, and a window begins",
        ),
        (
            ["--window-start=2026-03-10T09:00+05:30"],
            "since is 2026-03-10T09:00:00+05:30, and a window begins and ends on",
        ),
        (["--window-start=1969-12-31"], "since is 1969-12-31T00:00:00+00:00, and a window begins"),
    ],
)
def test_a_window_that_cannot_be(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Empty, backwards, or not whole hours: exit code 2."""
    code, said = says(capsys, ["--config", str(configuration(tmp_path)), *arguments])
    assert code == 2
    assert said.startswith(sentence)


@pytest.mark.parametrize(
    "arguments",
    [["--since=2026-03-10"], ["--window-start=yesterday"], [START, "--since=2026-03-10", "--until=2026-03-11"]],
)
def test_a_command_line_that_cannot_be(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half a window, no time, two windows: exit code 2, by argparse."""
    with pytest.raises(SystemExit) as caught:
        etl_job.main(["--config", str(configuration(tmp_path)), *arguments])
    assert caught.value.code == 2
    assert "etl_job: error: " in capsys.readouterr().err


def test_hours_without_records(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0: a night without orders is no failure; the sentence says so, and nothing is in place."""
    code, said = says(capsys, ["--config", str(configuration(tmp_path)), "--window-start=2026-03-11T03"], spark)
    assert code == 0
    assert said == "no record of orders, payments has a timestamp in 2026-03-11T03:00Z/2026-03-11T04:00Z"
    assert files(tmp_path / "out") == {}


def test_damaged_data(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1 and the sentence of the source, without Spark's pages; what was saved before stays."""
    shutil.copytree(ORDERS / "data" / "payments-0", tmp_path / "payments-0")
    log = tmp_path / "payments-0" / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[700] ^= 1
    log.write_bytes(content)
    config = configuration(tmp_path, (str(ORDERS / "data"), str(tmp_path / "payments-0")), ('"orders", ', ""))
    code, said = says(capsys, ["--config", str(config), START], spark)
    assert code == 1
    assert str(log) in said
    assert re.search(r", offset 8: found 0x[0-9a-f]{8}, expected 0x69762b67$", said)
    assert files(tmp_path / "out") == {}


@pytest.mark.usefixtures("staging_without_spark")
def test_segments_that_retention_took_do_not_take_the_rows_along(
    done: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that would leave fewer rows in a file than it has is refused, and nothing is replaced."""
    more = done.destination / "topic=payments" / "hour=2026-03-10T09" / "partition-0.parquet"
    table = pq.ParquetFile(more).read()
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), more)
    before = files(done.destination)
    config = configuration(tmp_path, (str(tmp_path / "out"), str(done.destination)))
    code, said = says(capsys, ["--config", str(config), START], spark=object())  # type: ignore[arg-type]
    assert code == 1
    assert said.startswith(f"{more} has 2,000 rows and the segments hold 1,999 of them now, so nothing was replaced;")
    assert files(done.destination) == before


@pytest.mark.usefixtures("staging_without_spark")
def test_two_runs_for_one_hour_exclude_each_other(
    done: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """While another process has an hour of the window, exit code 1; hours beside it do not matter."""
    config = configuration(tmp_path, (str(tmp_path / "out"), str(done.destination)))
    hold = "import fcntl, sys; f = open(sys.argv[1], 'ab'); fcntl.lockf(f, fcntl.LOCK_EX, int(sys.argv[3]), int(sys.argv[2])); print(flush=True); input()"
    nine = int(NINE.timestamp()) // 3600
    for first, count, code in ((nine - 2, 3, 1), (nine - 2, 2, 0), (nine + 1, 5, 0)):
        command = [sys.executable, "-c", hold, str(done.destination / "_staging" / "lock"), str(first), str(count)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            assert etl_job.main(["--config", str(config), START], object()) == code  # type: ignore[arg-type]
            holder.communicate(b"\n")
    assert "another run is writing an hour of 2026-03-10T09:00Z/2026-03-10T10:00Z" in capsys.readouterr().err


# ---- configuration ----


@pytest.mark.parametrize(
    ("now", "hours", "delay", "window"),
    [
        ("2026-03-10T10:10:00Z", 1, 10, "2026-03-10T09:00Z/2026-03-10T10:00Z"),
        ("2026-03-10T10:09:59Z", 1, 10, "2026-03-10T08:00Z/2026-03-10T09:00Z"),
        ("2026-03-10T10:00:00Z", 1, 0, "2026-03-10T09:00Z/2026-03-10T10:00Z"),
        ("2026-03-10T10:00:00+01:00", 24, 0, "2026-03-09T00:00Z/2026-03-10T00:00Z"),
    ],
)
def test_the_newest_window(now: str, hours: int, delay: int, window: str) -> None:
    """It has ended, the delay included, and it is whole."""
    config = etl_job.Config(("p",), ("t",), Path("d"), hours, timedelta(minutes=delay))
    assert str(config.newest_window(datetime.fromisoformat(now))) == window


@pytest.mark.parametrize("name", ["etl_job.toml", "spark-defaults.conf"])
def test_each_setting_has_its_reason(name: str) -> None:
    """The line above each setting is a comment."""
    lines = (CONF / name).read_text(encoding="utf-8").splitlines()
    settings = [n for n, line in enumerate(lines) if line.strip() and not line.startswith(("#", "["))]
    assert settings
    assert [lines[n] for n in settings if not lines[n - 1].startswith("# ")] == []


@pytest.mark.parametrize("page", [ROOT / "docs" / "etl.md", JOB], ids=["docs", "job"])
def test_documented_commands_are_understood(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `python examples/etl_job.py …` parses, with the shipped configuration, in the repository's root."""
    monkeypatch.chdir(ROOT)
    lines = re.findall(
        r"^ *python examples/etl_job\.py (.+?)(?:   .*)?$", page.read_text(encoding="utf-8"), re.MULTILINE
    )
    windows = [str(etl_job._parse(line.split("  ")[0].split())[1]) for line in lines]
    assert windows[1:] == ["2026-03-10T09:00Z/2026-03-10T10:00Z", "2026-03-10T00:00Z/2026-03-11T00:00Z"]


def test_the_documented_line_is_what_a_run_says(finished: tuple[Any, Any]) -> None:
    """Up to what depends on the machine and on Parquet's version."""
    documented = re.search(r"^etl_job status=.*", (ROOT / "docs" / "etl.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert documented is not None
    assert documented[0].split("bytes_written")[0] == str(finished[1]).split("bytes_written")[0]


def test_spark_knows_the_settings(spark: SparkSession) -> None:
    """Spark takes any name without a word: those of SQL are compared with its own list."""
    text = (CONF / "spark-defaults.conf").read_text(encoding="utf-8")
    names = {line.split()[0] for line in text.splitlines() if line.startswith("spark.sql.")}
    known = {row["key"] for row in spark.sql("SET -v").collect()}
    assert names - known == set()
