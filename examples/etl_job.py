"""A scheduled job: the records of a window of time from Kafka's segments into Parquet, by topic and hour (UTC).

    python examples/etl_job.py --config conf/etl_job.toml                                  the newest whole window
    python examples/etl_job.py --config conf/etl_job.toml --window-start 2026-03-10T09:00Z  one window again
    python examples/etl_job.py --config conf/etl_job.toml --since 2026-03-10 --until 2026-03-11

It writes DESTINATION/topic=orders/hour=2026-03-10T09/partition-0.parquet: one file for each topic, hour and Kafka
partition, its rows in offset order. Running it again for a window replaces those files and touches no others.

What makes that hold, wherever it dies:

- Spark writes into DESTINATION/_staging, which no reader of DESTINATION looks into. Then each file is moved to its
  place by one rename, which replaces the one before it. A record belongs to exactly one file, so that at every moment
  each file, and with it each record, is there once: as the last run left it, or as this one does.
- Nothing that a run left behind is needed by the next: it removes the leftovers of its window and starts again.
- A window is whole hours, so that no file belongs to two windows that do not both cover its hour. Others are refused.
- A record belongs to the hour of its own timestamp, however late it came: run a window again to take in late ones.
- Two runs for the same hour exclude each other by a lock that ends with its process.

Why not Spark's dynamic partition overwrite: it deletes the directories of a partition and then moves the new ones
there. Who reads meanwhile finds no rows, and a job that dies in between leaves none.

Exit codes: 0 the window is in place (a warning says if it has no records); 1 it failed: damaged or vanished data,
Spark, a disk that fails or is full, a missing permission, the network, another run at work; nothing is lost, run it
again; 2 wrong configuration, path or window: running it again will not help. Standard output has one line for the log,
standard error one sentence for each error.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shutil
import sys
import time
import tomllib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it

import kafka_segment_source
from kafka_segment_source.errors import KafkaSegmentError, UsageError, cause_of

if TYPE_CHECKING:
    from kafka_segment_source.planning.plan import ReadPlan

CONF = Path(__file__).resolve().parent.parent / "conf"
HOUR = timedelta(hours=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

DONE, FAILED, WRONG_USE = 0, 1, 2
# Options that the job sets itself, so that [read] may not; and those of [read] that zone maps are made with
_OF_THE_JOB = {"path", "paths", "subscribe", "subscribepattern", "assign", "since", "until", "zonemaps"}
_OF_THE_MAPS = {"topic", "partition", "maxbatchbytes"}
_KEYS = {
    "": {"paths", "topics", "destination", "zone_maps", "window", "read", "write"},
    "window": {"hours", "delay_minutes"},
    "write": {"allow_fewer_rows"},
}


class WrongUseError(ValueError):
    """The configuration or the window is invalid. Running the job again will not help."""


class RunError(Exception):
    """A run that could not be finished; what was in the destination is still there."""


# ---- what is asked for ----


@dataclass(frozen=True, slots=True)
class Window:
    """The hours from since up to until, both in UTC."""

    since: datetime
    until: datetime

    def __post_init__(self) -> None:
        for name, moment in (("since", self.since), ("until", self.until)):
            if moment.tzinfo is None or (moment - EPOCH) % HOUR or moment < EPOCH:
                raise WrongUseError(
                    f"{name} is {moment.isoformat()}, and a window begins and ends on a full hour (UTC)"
                )
        if self.since >= self.until:
            raise WrongUseError(f"the window is empty: since is {_text(self.since)}, until is {_text(self.until)}")

    @property
    def hours(self) -> list[str]:
        """The names of its hours, as in `hour=2026-03-10T09`."""
        count = (self.until - self.since) // HOUR
        return [f"{(self.since + n * HOUR).astimezone(UTC):%Y-%m-%dT%H}" for n in range(count)]

    def __str__(self) -> str:
        return f"{_text(self.since)}/{_text(self.until)}"


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration file, checked; see conf/etl_job.toml for what each key means and why."""

    paths: tuple[str, ...]
    topics: tuple[str, ...]
    destination: Path
    window_hours: int = 1
    delay: timedelta = timedelta()
    read: Mapping[str, str | int | bool] = field(default_factory=dict)
    allow_fewer_rows: bool = False
    zone_maps: Path | None = None

    def newest_window(self, now: datetime) -> Window:
        """The last window that ended at least `delay` ago; windows of n hours begin at multiples of n since 1970."""
        length = self.window_hours * HOUR
        until = EPOCH + (now - self.delay - EPOCH) // length * length
        return Window(until - length, until)


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did; `str` of it is the line for the log. Bytes read and pruned are those of `.log` files."""

    window: Window
    topics: tuple[str, ...]
    rows: int
    files: int
    bytes_read: int
    bytes_pruned: int
    bytes_written: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"etl_job status=done window={self.window} topics={','.join(self.topics)} rows={self.rows}"
            f" files={self.files} bytes_read={self.bytes_read} bytes_pruned={self.bytes_pruned}"
            f" bytes_written={self.bytes_written} seconds={self.seconds:.1f}"
        )


def load_config(path: str | os.PathLike[str]) -> Config:
    """Reads a configuration file; relative paths in it start at its directory. Raises WrongUseError."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        given = tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise WrongUseError(f"the configuration {os.fspath(path)!r} cannot be read: {error}") from error
    window, read, write = (_table(given, name) for name in ("window", "read", "write"))
    for table, keys in (("", given), ("window", window), ("write", write)):
        for key in keys:
            if key not in _KEYS[table]:
                place = f"in [{table}]" if table else "at the top"
                raise WrongUseError(
                    f"the configuration has {key!r} {place}; known there: {', '.join(sorted(_KEYS[table]))}"
                )
    directory = Path(path).resolve().parent
    return Config(
        paths=tuple(os.path.normpath(directory / each) for each in _strings(given, "paths")),
        topics=_topics(given),
        destination=_destination(given, directory),
        window_hours=_number(window, "hours", 1, least=1),
        delay=timedelta(minutes=_number(window, "delay_minutes", 0, least=0)),
        read=_read_options(read),
        allow_fewer_rows=_flag(write, "allow_fewer_rows"),
        zone_maps=_zone_maps(given, directory),
    )


def _table(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = given.get(name, {})
    if not isinstance(found, dict):
        raise WrongUseError(f"[{name}] is {found!r}; expected a table")
    return found


def _strings(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = given.get(key)
    if not isinstance(found, list) or not found or not all(isinstance(each, str) and each for each in found):
        raise WrongUseError(f'the configuration needs {key} = ["…", …], and has {found!r}')
    return tuple(found)


def _topics(given: Mapping[str, Any]) -> tuple[str, ...]:
    topics = _strings(given, "topics")
    for topic in topics:
        if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic):  # Kafka's rule, and a safe name for a directory
            raise WrongUseError(f"{topic!r} cannot be the name of a topic")
    return topics


def _destination(given: Mapping[str, Any], directory: Path) -> Path:
    found = given.get("destination")
    if not isinstance(found, str) or not found or "://" in found:
        raise WrongUseError(
            f"destination is {found!r}; expected a directory, on a file system that renames files atomically"
        )
    return Path(os.path.normpath(directory / found))


def _zone_maps(given: Mapping[str, Any], directory: Path) -> Path | None:
    found = given.get("zone_maps")
    if found is not None and (not isinstance(found, str) or not found or "://" in found):
        raise WrongUseError(f"zone_maps is {found!r}; expected a directory")
    return None if found is None else Path(os.path.normpath(directory / found))


def _number(table: Mapping[str, Any], key: str, default: int, least: int) -> int:
    found = table.get(key, default)
    if type(found) is not int or found < least:
        raise WrongUseError(f"{key} is {found!r}; expected a whole number, {least} or more")
    return found


def _flag(table: Mapping[str, Any], key: str) -> bool:
    found = table.get(key, False)
    if not isinstance(found, bool):
        raise WrongUseError(f"{key} is {found!r}; expected true or false")
    return found


def _read_options(given: Mapping[str, Any]) -> dict[str, str | int | bool]:
    for name, value in given.items():
        if name.lower() in _OF_THE_JOB:
            raise WrongUseError(f"[read] has {name!r}, which the job sets from paths, topics and the window")
        if not isinstance(value, (str, int)):
            raise WrongUseError(f"[read] has {name} = {value!r}; expected text, a number, true or false")
    return dict(given)


def _text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


# ---- a run ----


def plan(config: Config, window: Window) -> ReadPlan:
    """What the window costs to read. Needs no Spark; raises UsageError for paths, topics and options that cannot be."""
    return kafka_segment_source.plan(list(config.paths), **_options(config, window))


def run(spark: SparkSession, config: Config, window: Window) -> Summary:
    """Puts the window's records in place of what the destination has of its hours; on return all of it is on disk.

    Uses a new session of spark's context, so that the caller's settings stay. Raises WrongUseError, RunError,
    KafkaSegmentError, PySparkException or OSError; the destination then holds each file as it was or as it shall be.
    """
    started = time.monotonic()
    _update_zone_maps(spark, config)
    cost = plan(config, window)
    with _alone(config.destination, window) as staging:
        shutil.rmtree(staging, ignore_errors=True)
        staged = _stage(spark, config, window, staging / uuid.uuid4().hex)
        present = _present(config, window)
        rows = {name: _rows(path) for name, path in staged.items()}
        if not config.allow_fewer_rows:
            _check_no_fewer(config, rows, present)
        size = sum(path.stat().st_size for path in staged.values())
        _publish(config.destination, staged, present)
        shutil.rmtree(staging, ignore_errors=True)
    return Summary(
        window=window,
        topics=config.topics,
        rows=sum(rows.values()),
        files=len(rows),
        bytes_read=cost.bytes_to_read,
        bytes_pruned=cost.bytes_total - cost.bytes_to_read,
        bytes_written=size,
        seconds=time.monotonic() - started,
    )


def _options(config: Config, window: Window) -> dict[str, str | int | bool]:
    bounds = {"subscribe": ",".join(config.topics), "since": _text(window.since), "until": _text(window.until)}
    maps = {} if config.zone_maps is None else {"zoneMaps": str(config.zone_maps)}
    return {**config.read, **bounds, **maps}


def _update_zone_maps(spark: SparkSession, config: Config) -> None:
    """Maps what is new since the last run. What is damaged stays unmapped, and is said if the window needs it."""
    if config.zone_maps is None:
        return
    known = {name: value for name, value in config.read.items() if name.lower() in _OF_THE_MAPS}
    kafka_segment_source.update_zone_maps(
        spark, list(config.paths), str(config.zone_maps), subscribe=",".join(config.topics), **known
    )


@contextmanager
def _alone(destination: Path, window: Window) -> Iterator[Path]:
    """The window's staging directory, while no other process writes an hour of the window.

    The lock is a range of bytes, one for each hour since 1970, in a file that stays empty: windows that share an hour
    exclude each other, others do not, and the system drops it however the process ends.
    """
    root = destination / "_staging"  # readers of Parquet directories skip names that begin with "_"
    root.mkdir(parents=True, exist_ok=True)
    first, last = (window.since - EPOCH) // HOUR, (window.until - EPOCH) // HOUR
    with open(root / "lock", "ab") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, last - first, first)
        except (BlockingIOError, PermissionError) as error:
            raise RunError(f"another run is writing an hour of {window} to {destination}") from error
        yield root / f"{window.hours[0]}_{window.hours[-1]}"


def _stage(spark: SparkSession, config: Config, window: Window, staging: Path) -> dict[Path, Path]:
    """Lets Spark write the window; returns where each file lies, by where it belongs in the destination.

    The staging directory is new for each run: Spark may outlive a killed job for a moment, and write on into its own.
    """
    session = spark.newSession()
    kafka_segment_source.register(session)
    session.conf.set("spark.sql.session.timeZone", "UTC")  # of the name of the hour
    # the type that has statistics and that every reader knows
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    written = Observation()
    records = session.read.format("kafkaseg").options(**_options(config, window)).load(list(config.paths))
    (
        records.withColumn("hour", F.date_format("timestamp", "yyyy-MM-dd'T'HH"))
        .withColumn("file", F.col("partition"))
        .repartition("topic", "hour", "file")  # all rows of one file meet in one task
        .sortWithinPartitions("topic", "hour", "file", "offset")
        .observe(written, F.count(F.lit(1)).alias("rows"))
        .write.partitionBy("topic", "hour", "file")
        .option("compression", "zstd")
        .option("maxRecordsPerFile", 0)  # one file, whatever the session says
        .parquet(staging.as_uri())
    )
    staged: dict[Path, Path] = {}
    for path in staging.glob("topic=*/hour=*/file=*/*.parquet"):
        topic, hour, partition, _ = path.relative_to(staging).parts
        name = Path(topic, hour, f"partition-{partition.removeprefix('file=')}.parquet")
        if name in staged:
            raise RunError(f"Spark wrote more than one file for {name}")
        staged[name] = path
    arrived = sum(map(_rows, staged.values()))
    if arrived != written.get["rows"]:
        raise RunError(
            f"Spark wrote {written.get['rows']:,} rows and {arrived:,} are in {staging}: do all its workers share it?"
        )
    return staged


def _present(config: Config, window: Window) -> dict[Path, Path]:
    """The files that earlier runs put in place for the window, by name."""
    places = [Path(f"topic={topic}", f"hour={hour}") for topic in config.topics for hour in window.hours]
    found = [path for place in places for path in (config.destination / place).glob("partition-*.parquet")]
    return {path.relative_to(config.destination): path for path in found}


def _check_no_fewer(config: Config, rows: Mapping[Path, int], present: Mapping[Path, Path]) -> None:
    """Retention takes segments away: a window run again after that must not replace what was saved in time."""
    for name, path in sorted(present.items()):
        before, now = _rows(path), rows.get(name, 0)
        if now < before:
            raise RunError(
                f"{path} has {before:,} rows and the segments hold {now:,} of them now, so nothing was replaced;"
                " after retention or compaction, allow_fewer_rows = true in [write] replaces it all the same"
            )


def _publish(destination: Path, staged: Mapping[Path, Path], present: Mapping[Path, Path]) -> None:
    """Moves each staged file to its place, and removes those that this window has no more rows for."""
    for path in staged.values():
        _sync(path)  # its bytes must not come to the disk later than its name
    for name, path in sorted(staged.items()):
        (destination / name).parent.mkdir(parents=True, exist_ok=True)
        _replace(path, destination / name)
    for name in sorted(present.keys() - staged.keys()):
        _remove(destination / name)
    hours = {(destination / name).parent for name in (*staged, *present)}
    for directory in {destination, *hours, *(hour.parent for hour in hours)}:
        _sync(directory)


_replace = os.replace
_remove = os.unlink


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _rows(path: Path) -> int:
    try:
        return int(pq.read_metadata(path).num_rows)
    except pa.ArrowInvalid:  # somebody's damage; there are no rows to lose
        return 0


# ---- the command ----


def start_spark() -> SparkSession:
    """A session as spark-submit, the environment or conf/spark-defaults.conf describe it."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark looks for data sources with this interpreter
    os.environ.setdefault("SPARK_CONF_DIR", str(CONF))
    return SparkSession.builder.appName("kafkaseg etl").getOrCreate()


def main(arguments: Sequence[str] | None = None, spark: SparkSession | None = None) -> int:
    """Runs the job as the command line says; returns its exit code. A session that is given is used and left alone."""
    try:
        config, window = _parse(arguments)
        plan(config, window)  # an invalid request ends the job before Spark starts
        session = spark or start_spark()
        try:
            summary = run(session, config, window)
        finally:
            if spark is None:
                session.stop()
    except (WrongUseError, RunError, KafkaSegmentError, PySparkException, Py4JError, OSError) as error:
        return _fail(error)
    if summary.rows == 0:
        print(f"etl_job: no record of {', '.join(config.topics)} has a timestamp in {window}", file=sys.stderr)
    print(summary, flush=True)
    return DONE


def _parse(arguments: Sequence[str] | None) -> tuple[Config, Window]:
    parser = argparse.ArgumentParser(
        prog="etl_job",
        description="The records of a window of time from Kafka's segments into Parquet, by topic and hour (UTC).",
        epilog="Without a window: the newest whole one. Exit codes: 0 done; 1 failed, run it again; 2 wrong use.",
    )
    parser.add_argument("--config", required=True, metavar="FILE", help="see conf/etl_job.toml")
    parser.add_argument("--since", type=_moment, metavar="TIME", help="first hour, ISO-8601 (UTC unless it says)")
    parser.add_argument("--until", type=_moment, metavar="TIME", help="end of the last hour")
    parser.add_argument(
        "--window-start", type=_moment, metavar="TIME", help="the window of configured length from here"
    )
    given = parser.parse_args(arguments)
    config = load_config(given.config)
    if (given.since is None) != (given.until is None) or (given.since and given.window_start):
        parser.error("give --since and --until, or --window-start, or none of them")
    if given.since:
        return config, Window(given.since, given.until)
    if given.window_start:
        return config, Window(given.window_start, given.window_start + config.window_hours * HOUR)
    return config, config.newest_window(datetime.now(UTC))


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not ISO-8601, like 2026-03-10T09:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _fail(error: Exception) -> int:
    """Says in one sentence what happened; returns the exit code. Spark wraps an error of this package in pages of
    traceback."""
    cause = cause_of(error) or error
    sentence = next(iter(str(cause).strip().splitlines()), type(cause).__name__)
    print(f"etl_job: {sentence}", file=sys.stderr, flush=True)
    return WRONG_USE if isinstance(cause, (WrongUseError, UsageError)) else FAILED


if __name__ == "__main__":
    sys.exit(main())
