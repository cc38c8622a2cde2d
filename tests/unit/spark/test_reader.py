"""What a Spark worker does beside the rows."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

import kafka_segment_source as kafkaseg
from benchmarks.logs import LogShape, log
from kafka_segment_source import scanning_threads
from kafka_segment_source.bounds import OffsetRange, ScanBounds, TimeRange
from kafka_segment_source.decoding.split import BatchPlace, SegmentSplit
from kafka_segment_source.errors import MisfitError
from kafka_segment_source.spark import reader as spark_reader
from kafka_segment_source.spark.datasource import KafkaSegmentDataSource
from kafka_segment_source.spark.reader import SegmentPartition
from kafka_segment_source.storage.store import LOCAL, FileVersion
from tests.support.schema_logs import SchemaLog, framed, write_values

READ = """
import gc, sys
from tests.support.readers import reader_of
reader = reader_of(sys.argv[1])
partitions = reader.partitions()
print(gc.get_freeze_count())
for partition in partitions:
    assert sum(batch.num_rows for batch in reader.read(partition)) == 2
    print(gc.get_freeze_count())
"""


def test_the_first_task_of_a_worker_exempts_loaded_modules_from_collection(log_directory: Path) -> None:
    """It does so once: Spark collects garbage after each task, and need not look at the loaded modules each time."""
    command = [sys.executable, "-c", READ, str(log_directory)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    planned, first, *others = map(int, done.stdout.split())
    assert planned < 1_000 and first > 30_000  # Python 3.12 begins with some
    assert set(others) == {first}


few = st.integers(0, 2)
versions = st.builds(FileVersion, few, st.sampled_from([1, "an-etag"]), few)
splits = st.builds(
    SegmentSplit,
    path=st.builds(
        "{}/{:020d}{}".format,
        st.sampled_from(["/a/b-0", "s3://a/b-0", ""]),
        few,
        st.sampled_from([".log", ".log.swap"]),
    )
    | st.sampled_from(["x", "/x.log"]),
    topic=st.sampled_from(["a", "b"]),
    partition=few,
    start=few,
    end=few,
    segment_size=few,
    base_offset=few,
    next_base_offset=st.none() | few,
    bounds=st.builds(ScanBounds, st.builds(OffsetRange, few, few), st.builds(TimeRange, few, few)),
    stop_timestamp=st.none() | few,
    gap_is_loss=st.booleans(),
    copies=st.sampled_from([(), ("/a", "/b")]),
    served_to=few,
    version=versions,
    before=st.none() | versions,
    anchor=st.none() | st.builds(BatchPlace, few, few, few),
    log_end=st.none() | few,
    storage=st.just(LOCAL),
)


@given(st.lists(splits, min_size=1, max_size=5))
def test_a_task_arrives_as_it_was_sent(some: list[SegmentSplit]) -> None:
    """Whatever its splits have in common."""
    assert pickle.loads(pickle.dumps(SegmentPartition(tuple(some)))).splits == tuple(some)


@pytest.mark.parametrize("options", [{}, {"since": 0}, {"startingOffsets": '{"events": {"0": 5}}'}])
def test_a_split_of_a_shared_task_takes_few_bytes(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a quarter of what it takes alone at most: about 50 bytes beside the first one."""
    with tempfile.TemporaryDirectory() as directory:
        monkeypatch.setenv("KAFKASEG_BENCH_DIR", directory)
        plan = kafkaseg.plan(log(LogShape(600, segments=100, batch_bytes=1024)).path, **options)
        assert len(plan.splits) > 90
        one, many = (len(pickle.dumps(SegmentPartition(plan.splits[:count]), 5)) for count in (1, len(plan.splits)))
        assert one < 1000
        assert (many - one) / (len(plan.splits) - 1) < 60


@pytest.mark.parametrize("least", [0, 2**40])
def test_typed_values_are_decoded_ahead_in_a_large_task(
    least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows, and the error of a value that does not fit, are those of one thread."""
    monkeypatch.setattr(spark_reader, "_LEAST_AHEAD", least)
    used = []
    in_threads = scanning_threads.read_splits_in_threads

    def note_threads(*given: Any, threads: int) -> Iterator[Any]:
        used.append(threads)
        return in_threads(*given, threads=threads)

    monkeypatch.setattr(scanning_threads, "read_splits_in_threads", note_threads)
    schema = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    SchemaLog(tmp_path).register("orders-value", 1, schema)
    write_values(tmp_path, [framed(1, b"\x02"), None, b"no value", framed(1, b"\x04")])

    def read(**more: str) -> list[Any]:
        given = {"path": str(tmp_path), "subscribe": "orders", "valueFormat": "avro"} | more
        reader = KafkaSegmentDataSource(given).reader(StructType().add("value", StructType().add("id", "long")))
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        return [row for batch in batches for row in batch["value"].to_pylist()]  # type: ignore[index]

    assert read(valueMode="PERMISSIVE") == [{"id": 1}, None, None, {"id": 2}]
    with pytest.raises(MisfitError, match="orders-0") as caught:
        read()
    assert caught.value.offset == 2
    assert used == ([2, 2] if least == 0 else [])
