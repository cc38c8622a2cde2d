"""read_committed through Spark: planned on the driver, decided in the tasks."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.support.rows import FIXTURES

LEDGER = FIXTURES / "transactions"
COLUMNS = ["topic", "partition", "offset", "key", "value"]


@pytest.mark.parametrize("option", ["isolationLevel", "kafka.isolation.level"])
def test_rows_of_a_real_consumer(spark: SparkSession, option: str) -> None:
    """Both spellings give what a real read_committed consumer saw, in tasks of a few records each."""
    reader = spark.read.format("kafkaseg").option(option, "read_committed").option("maxRecordsPerPartition", 50)
    found = reader.load(str(LEDGER / "data")).select(COLUMNS).toArrow()

    saved = pq.read_table(LEDGER / "expected.read_committed.parquet").select(COLUMNS)
    order = [(name, "ascending") for name in COLUMNS[:3]]
    assert found.sort_by(order).to_pylist() == saved.sort_by(order).to_pylist()


def test_filters_above_the_read(spark: SparkSession) -> None:
    """A filter on offsets, whether Spark pushes it or not, sees the same transactions."""
    reader = spark.read.format("kafkaseg").option("isolationLevel", "read_committed")
    frame = reader.load(str(LEDGER / "data" / "ledger-0")).filter("offset >= 100 AND offset < 300")
    saved = pq.read_table(LEDGER / "expected.read_committed.parquet").to_pylist()
    wanted = [row["offset"] for row in saved if (row["topic"], row["partition"]) == ("ledger", 0)]
    found = sorted(row["offset"] for row in frame.select("offset").collect())
    assert found == sorted(offset for offset in wanted if 100 <= offset < 300)
