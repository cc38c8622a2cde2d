"""Spark itself has the partitions that `tests/unit/planning/test_spark_partitions.py` finds in plans,
with their rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id

from tests.support.batches import data
from tests.support.logs import simple_log, simple_segment


def write(folder: Path, segments: int) -> Path:
    """A partition of segments of four batches, each of one record."""
    bases = range(0, 4 * segments, 4)
    return simple_log(*[simple_segment([data(base + n, 5) for n in range(4)]) for base in bases]).write(folder)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, [4, 4, 4]),
        ({"minPartitions": 6}, [2, 2, 2, 2, 3, 1]),
        ({"maxRecordsPerPartition": 3}, [3, 1, 3, 1, 3, 1]),
    ],
    ids=["one a segment", "minPartitions", "maxRecordsPerPartition"],
)
def test_spark_partitions_and_their_rows(
    options: dict[str, Any], wanted: list[int], spark: SparkSession, tmp_path: Path
) -> None:
    """The number of Spark partitions, and how many rows each of them has."""
    df = spark.read.format("kafkaseg").options(**options).load(str(write(tmp_path, 3)))
    rows = Counter(row[0] for row in df.select(spark_partition_id()).collect())

    assert df.rdd.getNumPartitions() == len(wanted)
    assert [rows[number] for number in range(len(wanted))] == wanted


def test_more_than_256_are_put_together(spark: SparkSession, tmp_path: Path) -> None:
    """Of 257 small segments one Spark partition is made, of 256 none, and packBytes says how large it may be."""
    reader = spark.read.format("kafkaseg")
    path = str(write(tmp_path, 257))

    assert reader.load(path).rdd.getNumPartitions() == 1
    assert reader.option("endingOffsets", '{"orders":{"0":1024}}').load(path).rdd.getNumPartitions() == 256
    assert reader.options(endingOffsets="latest", packBytes=0).load(path).rdd.getNumPartitions() == 257


def test_a_micro_batch_writes_one_file_for_each_topic_partition(spark: SparkSession, tmp_path: Path) -> None:
    """As Spark's `kafka` source does, and not one for each small segment."""
    write(tmp_path / "logs", 30)
    stream = spark.readStream.format("kafkaseg").option("startingOffsets", "earliest").load(str(tmp_path / "logs"))
    query = stream.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
    query.option("checkpointLocation", str(tmp_path / "at")).trigger(availableNow=True).start().awaitTermination()

    assert len(list((tmp_path / "rows").glob("*.parquet"))) == 1
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 120
