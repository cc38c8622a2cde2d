"""The readers: processes that plan, wait, read and hand back what they got.

In: a `Question`. Out: an `Answer`: the rows that came out, also those before an error, the error, and what was logged.
Nothing but a process that ended raises. Of the package only what `scanning.scan` is put together from is used.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import re
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafka_segment_source import errors
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.options import parse_options
from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.queries import scan
from kafka_segment_source.request import Content
from kafka_segment_source.scanning import read_split
from tests.conformance.soaking.topics import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPLITS = "splits"  # make_plan, then read_split for each split, in any order, as Spark's tasks do
SCAN = "scan"
SPARK = "spark"

_STOP_SECONDS = 30
_OUR_ERRORS = sorted(name for name, each in vars(errors).items() if isinstance(each, type))
_NAMED_ERROR = re.compile(rf"kafka_segment_source\.errors\.({'|'.join(_OUR_ERRORS)}): (.*)")
_LOST = re.compile("going on without|has no marker|skipped|are missing|reading what is there")


@dataclass(frozen=True)
class Question:
    """One read: what is asked, by which way, and the seconds between planning and reading.

    options: as Spark would give them, `path` among them. The other fields repeat for the judge what they say.
    starts, ends, since, until: None where there is no bound.
    """

    topic: str
    partitions: tuple[TopicPartition, ...]
    way: str
    delay: float
    options: dict[str, str]
    committed: bool = False
    strict: bool = True
    start: int | None = None
    end: int | None = None
    since: int | None = None
    until: int | None = None

    def __str__(self) -> str:
        said = " ".join(f"{name}={value}" for name, value in sorted(self.options.items()))
        return f"{self.way}, {self.delay:g} s, {said}"


@dataclass(frozen=True)
class Answer:
    """What came of a question. kind, message: of the error, if there was one; warnings: of the package's logger."""

    rows: pa.Table
    kind: str | None = None
    message: str = ""
    warnings: tuple[str, ...] = ()
    in_order: bool = True

    @property
    def said_loss(self) -> bool:
        """Whether a warning said that something is left out."""
        return any(_LOST.search(warning) for warning in self.warnings)


class ReaderDiedError(Exception):
    """A reader's process ended by itself."""


class Reader:
    """A process that answers one question at a time; a context manager, which stops it.

    spark: whether it has a session; log: a file for what the process and its children print.
    """

    def __init__(self, spark: bool, log: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, self._theirs = context.Pipe()
        self._log = log
        self._process: SpawnProcess = context.Process(
            target=_serve, args=(self._theirs, spark, str(log)), daemon=True, name="spark" if spark else "reader"
        )

    def __enter__(self) -> Reader:
        self._process.start()
        self._theirs.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.close()  # the end of its input ends it
        self._process.join(_STOP_SECONDS)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(_STOP_SECONDS)

    def ask(self, question: Question) -> Answer:
        """The answer, however long it takes."""
        try:
            self._ours.send(question)
            answer = self._ours.recv()
        except (EOFError, OSError) as error:
            self._process.join(_STOP_SECONDS)
            status, said = self._process.exitcode, self._log.read_text(errors="replace")[-2000:]
            raise ReaderDiedError(f"{self._process.name} ended with {status} at: {question}\n{said}") from error
        assert isinstance(answer, Answer)
        return answer


# ---- in the reader's process ----


def _serve(connection: Connection, spark: bool, log: str) -> None:
    with open(log, "ab") as out:
        os.dup2(out.fileno(), sys.stdout.fileno())
        os.dup2(out.fileno(), sys.stderr.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks decides when it is over
    with _session() if spark else _no_session() as session:
        while True:
            try:
                question = connection.recv()
            except EOFError:
                return
            connection.send(_answer(question, session))


@dataclass
class _Collected:
    """What has come so far."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    in_order: bool = True
    _last: dict[object, int] = field(default_factory=dict)

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes a batch of one partition."""
        self.batches.append(batch)
        names = batch.schema.names
        place = batch.column(names.index("topic"))[0].as_py(), batch.column(names.index("partition"))[0].as_py()
        offsets = batch.column(names.index("offset")).to_numpy()
        first = self._last.get(place, -1)
        self.in_order = self.in_order and bool(offsets[0] > first and (offsets[1:] > offsets[:-1]).all())
        self._last[place] = int(offsets[-1])


def _answer(question: Question, session: SparkSession | None) -> Answer:
    collected = _Collected()
    with _warnings() as warnings:
        try:
            if session is not None:
                rows = _by_spark(question, session)
                return Answer(rows, warnings=tuple(warnings))
            _by_splits(question, collected) if question.way == SPLITS else _by_scan(question, collected)
            kind, message = None, ""
        except Exception as error:
            kind, message = _named(error)
    rows = pa.Table.from_batches(collected.batches, _schema())
    return Answer(rows, kind, message, tuple(warnings), collected.in_order)


def _by_splits(question: Question, collected: _Collected) -> None:
    """What Spark does: a plan, and later its splits, in no particular order."""
    options, warnings = parse_options(question.options)
    plan = make_plan(options, warnings)
    splits = list(plan.splits)
    time.sleep(question.delay)
    random.shuffle(splits)
    schema = _schema()
    for split in splits:
        one = _Collected()
        try:
            for batch in read_split(split, plan.reading, schema):
                one.add(batch)
        finally:
            collected.batches += one.batches
            collected.in_order = collected.in_order and one.in_order


def _by_scan(question: Question, collected: _Collected) -> None:
    options: dict[str, Any] = {name: value for name, value in question.options.items() if name != "path"}
    [*paths] = parse_options(question.options)[0].source.paths
    batches = scan(paths, **options)
    time.sleep(question.delay)
    for batch in batches:
        collected.add(batch)


def _by_spark(question: Question, session: SparkSession) -> pa.Table:
    """A DataFrame is planned once: asking for the number of its partitions does it, collecting it uses that plan."""
    frame: Any = session.read.format("kafkaseg").options(**question.options).load()
    frame._jdf.queryExecution().toRdd().getNumPartitions()
    time.sleep(question.delay)
    return frame.toArrow().cast(_schema())


def _schema() -> pa.Schema:
    return RECORDS.arrow_schema(RECORDS.default_names(Content()))


def _named(error: Exception) -> tuple[str, str]:
    """The kind and the first line of an error; of one that Spark wraps, those of the error that it wraps."""
    found = _NAMED_ERROR.findall(str(error))
    if found and not isinstance(error, errors.KafkaSegmentError):
        return found[-1][0], found[-1][1]
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    return type(error).__name__, f"{lines[0]} [{' < '.join(_find_places(error))}]"


def _find_places(error: Exception) -> list[str]:
    """The functions of the package that the error passed, with their lines, innermost first."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.name}:{frame.lineno}" for frame in reversed(frames) if "/kafka_segment_source/" in frame.filename]


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """What the package logs meanwhile; nothing of it is printed."""
    heard: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    logger, ear = logging.getLogger("kafka_segment_source"), Ear(logging.WARNING)
    logger.addHandler(ear)
    logger.propagate = False
    try:
        yield heard
    finally:
        logger.removeHandler(ear)


@contextmanager
def _no_session() -> Iterator[None]:
    yield None


@contextmanager
def _session() -> Iterator[SparkSession]:
    """Spark with two cores, on the loopback address, whose workers find this package as this process does."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "1g",
    }
    builder = SparkSession.builder.master("local[2]").appName("kafkaseg soak")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    gateway: Any = SparkContext._gateway
    try:
        yield session
    finally:
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(_STOP_SECONDS)
