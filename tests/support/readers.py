"""Readers of Spark's data source without a JVM, and the log that tests of pushdown plan for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql.types import LongType, StructType

from kafka_segment_source.spark.datasource import KafkaSegmentDataSource

ALL = {0, 2, 4, 6, 8}  # base offsets of `orders`, as the fixture log_directory has them


def reader_of(path: Path, **options: str) -> Any:
    """Makes the reader of a query for the column `offset`."""
    source = KafkaSegmentDataSource({"path": str(path), **options})
    return source.reader(StructType().add("offset", LongType()))
