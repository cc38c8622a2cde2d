"""LIMIT: a stand-in for Spark's coming hook `pushLimit`, and readers without a JVM. Never fewer rows than asked for."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as spark_api

from kafka_segment_source.option_values import BATCHES
from kafka_segment_source.spark.reader import KafkaSegmentReader
from tests.support.batches import data
from tests.support.logs import GeneratedLog, simple_log, simple_segment
from tests.support.readers import reader_of
from tests.support.rows import FIXTURES
from tests.support.strategies import partition_logs


@pytest.fixture(autouse=True)
def _repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers of this Spark have the hook."""
    monkeypatch.setattr(spark_api.DataSourceReader, "pushLimit", lambda self, limit: False, raising=False)


def tasks_of(reader: Any, limit: int) -> list[Any]:
    """Spark's calls while it plans: the hook, then the partitions."""
    assert reader.pushLimit(limit) is True
    return list(reader.partitions())


def rows_of(reader: Any, tasks: list[Any]) -> list[int]:
    """The offsets that the executors read: each gets the reader and a task as bytes."""
    return [
        offset
        for task in tasks
        for batch in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(task)))
        for offset in batch.column(0).to_pylist()
    ]


def test_the_hook_is_hidden_as_spark_compares_it(log_directory: Path) -> None:
    """With the conf off, Spark refuses a reader whose hook is not the function of the base class."""
    reader = reader_of(log_directory)
    assert type(reader) is KafkaSegmentReader
    assert reader.pushLimit.__func__ is spark_api.DataSourceReader.pushLimit  # type: ignore[attr-defined]


def test_only_the_first_segments_are_read(log_directory: Path) -> None:
    """One task, which needs no file behind the rows."""
    reader = reader_of(log_directory)
    tasks = tasks_of(reader, 3)
    for path in log_directory.glob("*/*.log"):
        if (path.parent.name, int(path.stem)) not in (("orders-0", 0), ("orders-0", 2)):
            path.unlink()

    assert len(tasks) == 1
    assert rows_of(reader, tasks) == [0, 1, 2]


def test_what_was_removed_since_is_read_further_on(tmp_path: Path) -> None:
    """Compaction between planning and reading: the task goes on in the next segments."""
    segments = [simple_segment([data(first, 0, 0)], index=[], timeindex=[]) for first in range(0, 10, 2)]
    simple_log(*segments).write(tmp_path / "log")
    reader = reader_of(tmp_path / "log")
    tasks = tasks_of(reader, 2)
    compacted = [simple_segment([data(0, 0, offsets=[1], last=1)], index=[], timeindex=[]), *segments[1:]]
    simple_log(*compacted).write(tmp_path / "new")
    shutil.copy(next((tmp_path / "new").glob("*/*0.log")), next((tmp_path / "log").glob("*/*0.log")))

    assert rows_of(reader, tasks) == [1, 2]


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, 100),  # more than there is
        ({}, 200_000),  # more than one task should read
        ({"key": "no such key"}, 3),
        ({"since": "7000"}, 5),  # there are six; the first batch of each partition begins before
    ],
)
def test_without_a_proof_the_plan_keeps_its_tasks(options: dict[str, str], limit: int, log_directory: Path) -> None:
    """All splits, in parallel. Each task still ends after so many rows."""
    whole = list(reader_of(log_directory, **options).partitions())
    planned = tasks_of(reader_of(log_directory, **options), limit)

    assert len(planned) > 1
    assert [task.splits for task in planned] == [task.splits for task in whole]


def test_each_task_ends_after_so_many_rows(log_directory: Path) -> None:
    """Where a plan keeps its tasks, too."""
    reader = reader_of(log_directory, trustIndexes="false")
    reader.pushLimit(1)
    whole = reader_of(log_directory).partitions()
    assert [len(rows_of(reader, [task])) for task in whole] == [1] * len(whole)


def test_no_limit_is_taken_under_a_filter(log_directory: Path) -> None:
    """Spark keeps a Filter above the scan, so it pushes no limit below it; if it did, rows would be missing."""
    if not hasattr(spark_api, "Filter"):
        pytest.skip("this Spark pushes no filter")
    reader = reader_of(log_directory)
    reader.pushFilters([spark_api.StringContains(("topic",), "pay")])
    assert reader.pushLimit(1) is False
    assert len(rows_of(reader, list(reader.partitions()))) == 20


def test_a_view_of_batches(log_directory: Path) -> None:
    """One row a batch."""
    from pyspark.sql.types import LongType, StructType  # noqa: PLC0415

    from kafka_segment_source.spark.datasource import KafkaSegmentDataSource  # noqa: PLC0415

    source = KafkaSegmentDataSource({"path": str(log_directory), "view": BATCHES})
    reader: Any = source.reader(StructType().add("lastOffset", LongType()))
    tasks = tasks_of(reader, 3)
    assert len(tasks) == 1
    assert rows_of(reader, tasks) == [1, 3, 5]


@given(
    log=partition_logs(magics=(0, 1, 2), max_segments=5),
    limit=st.integers(1, 40),
    options=st.fixed_dictionaries(
        {},
        optional={
            "isolationLevel": st.just("read_committed"),
            "includeControl": st.just("true"),
            "since": st.integers(90, 300).map(str),
            "until": st.integers(300, 500).map(str),
            "maxRecordsPerPartition": st.integers(1, 5).map(str),
        },
    ),
)
def test_never_fewer_rows(log: GeneratedLog, limit: int, options: dict[str, str]) -> None:
    """With any options: as many rows of the whole read as were asked for, or all of them; and each once."""
    with tempfile.TemporaryDirectory() as directory:
        log.write(Path(directory))
        whole = reader_of(Path(directory), **options)
        every = rows_of(whole, list(whole.partitions()))
        reader = reader_of(Path(directory), **options)
        tasks = tasks_of(reader, limit)
        found = rows_of(reader, tasks)
        assert len(found) >= min(limit, len(every))
        assert len(set(found)) == len(found) and set(found) <= set(every)
        if len(tasks) == 1 and len(list(whole.partitions())) > 1:
            assert found == every[:limit]


def test_logs_of_brokers() -> None:
    """Transactions, compaction, every codec."""
    for folder in ("transactions", "codecs", "compacted"):
        logs = FIXTURES / folder / "data"
        for isolation in ("read_uncommitted", "read_committed"):
            whole = reader_of(logs, isolationLevel=isolation)
            every = rows_of(whole, list(whole.partitions()))
            for limit in (1, 10, len(every), len(every) + 1):
                reader = reader_of(logs, isolationLevel=isolation)
                assert len(rows_of(reader, tasks_of(reader, limit))) >= min(limit, len(every))
