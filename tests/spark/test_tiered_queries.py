"""Spark reads remote tiers: in tasks that open the objects by themselves, in a stream, with keys that nobody sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kafka_segment_source.errors import OptionError, cause_of
from tests.support.rows import in_scan_order, read_answer
from tests.support.tiers import AIVEN_STORES, KEY_FILE, TIERED, read_rows

LOCAL_TIER = TIERED / "local-tier"
KEYS = json.dumps({"key1": str(KEY_FILE)})


def answer_of(frame: DataFrame) -> list[Any]:
    return sorted(in_scan_order(frame.toArrow()), key=lambda row: row[:3])


def test_an_encrypted_tier(spark: SparkSession) -> None:
    """Tasks read the key themselves; a plan that Spark prints has none of it."""
    reader = spark.read.format("kafkaseg").option("includeHeaders", "true")
    frame = reader.option("tieredKeys", KEYS).load(str(AIVEN_STORES["aiven-encrypted"]))
    assert answer_of(frame) == [row for row in read_rows("aiven-encrypted", "ledger") if row[2] < 11010]
    secret = KEY_FILE.read_text().splitlines()[1]
    assert secret not in frame._jdf.queryExecution().toString()
    with pytest.raises(PySparkException) as caught:
        reader.option("tieredKeys", json.dumps({"key1": KEY_FILE.read_text()})).load(str(LOCAL_TIER)).count()
    assert isinstance(cause_of(caught.value), OptionError) and secret not in str(caught.value)


def test_a_stream_over_tier_and_disk(spark: SparkSession, tmp_path: Path) -> None:
    """In one run it has the rows of a consumer, each once. A second run adds none."""
    paths = [str(LOCAL_TIER / "tier"), str(LOCAL_TIER / "data")]
    stream = spark.readStream.format("kafkaseg").option("includeHeaders", "true").option("startingOffsets", "earliest")
    frame = stream.option("path", json.dumps(paths)).option("subscribePattern", ".*").load()
    for _ in range(2):
        query = (
            frame.writeStream.format("parquet")
            .option("path", str(tmp_path / "rows"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    found = answer_of(spark.read.parquet(str(tmp_path / "rows")))
    assert found == read_answer(LOCAL_TIER / "expected.read_uncommitted.parquet")
