"""scanning: with any number of threads, the Arrow batches, the error and the place where it comes are those of one."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from kafka_segment_source import scanning_threads
from kafka_segment_source.decoding import split_file
from kafka_segment_source.decoding.tables import SPLIT_TABLES
from kafka_segment_source.errors import KafkaSegmentError
from kafka_segment_source.keywords import option_texts
from kafka_segment_source.options import parse_options
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.reporting import logger
from kafka_segment_source.scanning import read_splits
from kafka_segment_source.scanning_threads import read_splits_in_threads
from kafka_segment_source.storage import retrying
from tests.support import transactions
from tests.support.hurt_copies import case
from tests.support.logs import GeneratedLog
from tests.support.reads import plan_in
from tests.support.simulated_files import SimulatedFiles
from tests.support.strategies import Bounds, logs_and_bounds, options_of, partition_logs

COLUMNS = ["offset", "key", "value", "topic"]
Outcome = tuple[list[pa.RecordBatch], str, list[str]]

CHUNKS = st.sampled_from([120, 400, 2_000_000])
WAITING = st.sampled_from([1, 500, 2_000_000])
THREADS = st.integers(2, 5)
DAMAGE = st.none() | st.integers(1, 2**32) | st.integers(1, 2**32)
ways = st.fixed_dictionaries(
    {"mode": st.sampled_from(["FAILFAST", "DROPMALFORMED"]), "failOnDataLoss": st.booleans()},
    optional={
        "includeControl": st.booleans(),
        "minPartitions": st.integers(1, 9),
        "maxRecordsPerPartition": st.integers(1, 7),
        "view": st.just("batches"),
        "checkCrcs": st.booleans(),
    },
) | st.fixed_dictionaries(
    {
        "view": st.just("latest"),
        "mode": st.sampled_from(["FAILFAST", "DROPMALFORMED"]),
        "failOnDataLoss": st.booleans(),
    },
    optional={"includeTombstones": st.booleans(), "offsetMapBytes": st.just(1)},
)


class Said(logging.Handler):
    """Keeps what the package logs."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def read(plan: ReadPlan, threads: int, chunk: int, waiting: int) -> Outcome:
    """The batches of a plan, the error after them, and what was logged, sorted."""
    names = [name for name in COLUMNS if plan.options.content.view != "batches"] or [
        "baseOffset",
        "lastOffset",
        "count",
    ]
    schema = SPLIT_TABLES[plan.options.content.view].arrow_schema(names)
    found, error, said = [], "", Said()
    logger.addHandler(said)
    with ExitStack() as patches:
        patches.callback(logger.removeHandler, said)
        patches.enter_context(mock.patch.dict(split_file.SplitFile.__init__.__kwdefaults__, chunk_bytes=chunk))
        patches.enter_context(mock.patch.object(scanning_threads, "_MOST_WAITING", waiting))
        patches.enter_context(mock.patch.object(scanning_threads, "_BYTES_A_THREAD", 1))
        try:
            for batch in (
                read_splits(plan.splits, plan.reading, schema)
                if threads == 1
                else read_splits_in_threads(plan.splits, plan.reading, schema, lambda _: None, threads)
            ):
                found.append(batch)
        except KafkaSegmentError as raised:
            error = f"{type(raised).__name__}: {raised}"
    return found, error, sorted(said.messages)


def check(plan: ReadPlan, threads: int, chunk: int, waiting: int) -> str:
    """Raises AssertionError if several threads and one differ. After an error, threads may have logged more.

    Returns words about the read.
    """
    one, many = read(plan, 1, chunk, waiting), read(plan, threads, chunk, waiting)
    assert many[:2] == one[:2]
    assert one[1] or many[2] == one[2]
    return f"{min(len(one[0]), 3)} batches, {min(len(one[2]), 1)} warnings, {one[1].partition(':')[0] or 'no error'}"


def spoil(directory: str, seed: int | None) -> None:
    """Changes a few bytes of `.log` files."""
    if seed is None:
        return
    random = Random(seed)
    for path in sorted(Path(directory).rglob("*.log")):
        data = bytearray(path.read_bytes())
        for _ in range(random.choice((1, 1, 2)) if data else 0):
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        path.write_bytes(data)


def plan_of(directory: str, **options: Any) -> ReadPlan | None:
    """None where planning itself ends in an error."""
    try:
        parsed, warnings = parse_options(option_texts(directory, options))
        return make_plan(parsed, warnings)
    except KafkaSegmentError:
        return None


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    with mock.patch.object(logger, "propagate", False):
        yield


@given(
    pair=logs_and_bounds(partition_logs(magics=(0, 1, 2), log_damage=True)),
    damage=DAMAGE,
    how=ways,
    threads=THREADS,
    chunk=CHUNKS,
    waiting=WAITING,
)
def test_any_log(
    pair: tuple[GeneratedLog, Bounds], damage: int | None, how: dict[str, Any], threads: int, chunk: int, waiting: int
) -> None:
    """Any log, damaged or not, with any bounds and options."""
    log, asked = pair
    with tempfile.TemporaryDirectory() as directory:
        log.write(Path(directory))
        spoil(directory, damage)
        plan = plan_of(directory, **(options_of(asked) | how))
        if plan is not None:
            event(check(plan, threads, chunk, waiting))


@given(
    log=transactions.logs,
    damage=DAMAGE,
    how=ways,
    threads=THREADS,
    chunk=CHUNKS,
    waiting=WAITING,
)
def test_read_committed(
    log: transactions.Log, damage: int | None, how: dict[str, Any], threads: int, chunk: int, waiting: int
) -> None:
    """Transactions, whose markers are read ahead of the rows."""
    with tempfile.TemporaryDirectory() as directory:
        transactions.write(log, Path(directory), [0], True)
        spoil(directory, damage)
        plan = plan_of(directory, isolationLevel="read_committed", **how)
        if plan is not None:
            event(check(plan, threads, chunk, waiting))


@pytest.mark.parametrize("part", range(3))
def test_hurt_copies(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several copies with damage of their own: rows that one copy lacks come from another, in the same place."""
    monkeypatch.setattr(retrying, "wait", lambda _: None)
    for seed in range(part * 20, part * 20 + 20):
        files = SimulatedFiles()
        paths = case(seed).write(files)
        for options in ({"mode": "DROPMALFORMED", "failOnDataLoss": False}, {"isolationLevel": "read_committed"}):
            with suppress(KafkaSegmentError):
                check(plan_in(files, paths, **options), 3, 300, 100)
