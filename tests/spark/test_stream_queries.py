"""`readStream` through Spark: what its engine calls, checkpoints, triggers, limits and errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from kafka_segment_source.errors import DataLossError, OptionError, UnsupportedError, cause_of
from kafka_segment_source.spark.stream_reader import HAS_LIMITS
from tests.support.growing_log import GrowingPartition
from tests.support.rows import FIXTURES

LEDGER = FIXTURES / "transactions"
needs_limits = pytest.mark.skipif(not HAS_LIMITS, reason="Spark 4.1 has no limits of micro-batches")


def stream(spark: SparkSession, path: Path, **options: Any) -> DataFrame:
    return spark.readStream.format("kafkaseg").options(startingOffsets="earliest", **options).load(str(path))


def run(frame: DataFrame, folder: Path, **trigger: Any) -> list[Any]:
    """Runs a query into Parquet until it has read what there is. Returns the progress of its micro-batches."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**trigger or {"availableNow": True})
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return [each for each in query.recentProgress if each.numInputRows or each.sources]


def offsets(spark: SparkSession, folder: Path) -> list[tuple[int, int]]:
    found = spark.read.parquet(str(folder / "rows")).select("partition", "offset").collect()
    return sorted((row[0], row[1]) for row in found)


def test_rows_of_a_real_consumer(spark: SparkSession, tmp_path: Path) -> None:
    """All of a log in one run are the rows that a read_committed consumer saw. A second run adds nothing."""
    frame = stream(spark, LEDGER / "data", isolationLevel="read_committed")
    for _ in range(2):
        run(frame, tmp_path)
    columns = ["topic", "partition", "offset", "key", "value"]
    found = spark.read.parquet(str(tmp_path / "rows")).select(columns).toArrow()
    saved = pq.read_table(LEDGER / "expected.read_committed.parquet").select(columns)
    order = [(name, "ascending") for name in columns[:3]]
    assert found.sort_by(order).to_pylist() == saved.sort_by(order).to_pylist()


def test_a_log_that_grows(spark: SparkSession, tmp_path: Path) -> None:
    """Each run takes what is new. Its checkpoint has the offsets in Spark's form."""
    logs = tmp_path / "logs"
    partition = GrowingPartition(logs / "t-0")
    for count in (10, 5):
        partition.write(count)
        partition.roll()
        run(stream(spark, logs), tmp_path)
    GrowingPartition(logs / "t-1").write(3)
    run(stream(spark, logs), tmp_path)
    assert offsets(spark, tmp_path) == [*((0, at) for at in range(15)), *((1, at) for at in range(3))]
    written = sorted(int(path.name) for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name.isdigit())
    last = (tmp_path / "checkpoint" / "offsets" / str(written[-1])).read_text().splitlines()[-1]
    assert json.loads(last) == {"t": {"0": 15, "1": 3}}


def test_a_micro_batch_that_was_not_committed_is_read_again(spark: SparkSession, tmp_path: Path) -> None:
    """The checkpoint has its offsets but no commit, as after a crash. The sink keeps the same rows once."""
    logs = tmp_path / "logs"
    partition = GrowingPartition(logs / "t-0")
    partition.write(10)
    run(stream(spark, logs), tmp_path)
    commits = tmp_path / "checkpoint" / "commits"
    last = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)
    partition.write(5)
    for _ in range(1 if HAS_LIMITS else 2):  # under Spark 4.1, a run that repeats a micro-batch ends with it
        run(stream(spark, logs), tmp_path)
    assert offsets(spark, tmp_path) == [(0, at) for at in range(15)]


@needs_limits
def test_limits(spark: SparkSession, tmp_path: Path) -> None:
    """No micro-batch takes more offsets than the limit, under availableNow too. The progress shows how far behind."""
    logs = tmp_path / "logs"
    for number, count in ((0, 30), (1, 10)):
        partition = GrowingPartition(logs / f"t-{number}")
        for _ in range(count // 5):
            partition.write(5)
    progress = run(stream(spark, logs, maxOffsetsPerTrigger=20), tmp_path)
    taken = [each.numInputRows for each in progress if each.numInputRows]
    assert sum(taken) == 40 and max(taken) <= 20 and len(taken) <= 4
    assert taken[0] == 20
    assert json.loads(progress[0].sources[0].latestOffset) == {"t": {"0": 30, "1": 10}}
    assert offsets(spark, tmp_path) == [*((0, at) for at in range(30)), *((1, at) for at in range(10))]


@pytest.mark.skipif(HAS_LIMITS, reason="only Spark 4.1 has no limits of micro-batches")
def test_limits_without_admission_control(spark: SparkSession, tmp_path: Path) -> None:
    """An option that asks for a limit is refused in words."""
    GrowingPartition(tmp_path / "logs" / "t-0").write(5)
    with pytest.raises(StreamingQueryException) as caught:
        run(stream(spark, tmp_path / "logs", maxOffsetsPerTrigger=20), tmp_path)
    error = cause_of(caught.value)
    assert isinstance(error, UnsupportedError) and "'maxOffsetsPerTrigger' needs Spark 4.2 or later" in str(error)


def test_columns_bounds_and_a_long_query(spark: SparkSession, tmp_path: Path) -> None:
    """One query over several triggers: a subset of the columns, rows by time, headers."""
    logs = tmp_path / "logs"
    partition = GrowingPartition(logs / "t-0")
    partition.write(10)
    frame = (
        spark.readStream.format("kafkaseg")
        .schema("offset bigint, headers array<struct<key: string, value: binary>>")
        .options(startingOffsets="earliest", includeHeaders=True, since="+1004", until="+1017")
        .load(str(logs))
    )
    query = (
        frame.writeStream.format("memory")
        .queryName("long_query")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="1 second")
        .start()
    )
    try:
        query.processAllAvailable()
        partition.write(10)
        partition.roll()
        partition.write(10)
        for _ in range(20):
            query.processAllAvailable()
            if spark.table("long_query").count() == 13:
                break
            query.awaitTermination(1)
        assert sorted(row[0] for row in spark.table("long_query").select("offset").collect()) == list(range(4, 17))
    finally:
        query.stop()


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"endingOffsets": "latest"}, OptionError, "option 'endingOffsets' is not for streams: a stream has no end"),
        ({"maxBytesPerTrigger": "lots"}, OptionError, "option 'maxBytesPerTrigger' is 'lots': expected bytes"),
        ({"subscribe": "nothing"}, OptionError, "option 'subscribe' names topic 'nothing'"),
        ({"startingOffsets": '{"t":{"0":99}}'}, DataLossError, "asks for offset 99 of partition t-0"),
    ],
)
def test_a_wrong_request(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], kind: type[Exception], words: str
) -> None:
    """It is an error of one sentence, which `cause_of` gives back."""
    logs = tmp_path / "logs"
    GrowingPartition(logs / "t-0").write(5)
    with pytest.raises(StreamingQueryException) as caught:
        run(spark.readStream.format("kafkaseg").options(**options).load(str(logs)), tmp_path)
    error = cause_of(caught.value)
    assert isinstance(error, kind) and words in str(error)


def test_a_checkpoint_of_something_else(spark: SparkSession, tmp_path: Path) -> None:
    """That of Spark's rate source, and one whose offsets are beyond the files."""
    logs = tmp_path / "logs"
    partition = GrowingPartition(logs / "t-0")
    partition.write(10)
    run(stream(spark, logs), tmp_path)
    shutil.rmtree(logs)
    GrowingPartition(logs / "t-0").write(4)
    with pytest.raises(StreamingQueryException) as caught:
        run(stream(spark, logs), tmp_path)
    assert "t-0 was read up to offset 10, but its files end at 4" in str(cause_of(caught.value))
    last = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    lines = last.read_text().splitlines()
    last.write_text("\n".join([*lines[:-1], "1234"]))
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    with pytest.raises(StreamingQueryException) as caught:
        run(stream(spark, logs), tmp_path)
    assert "a checkpoint of another source: found the offset 1234" in str(cause_of(caught.value))
