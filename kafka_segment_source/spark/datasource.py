"""`format("kafkaseg")`: Spark's options and schema in, this package's plan and batches out."""

from __future__ import annotations

from collections.abc import MutableMapping

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from kafka_segment_source.errors import SchemaError, UnsupportedError
from kafka_segment_source.options import parse_options
from kafka_segment_source.schema import check_columns, default_columns, spark_ddl
from kafka_segment_source.spark.reader import KafkaSegmentReader

OLDEST_SPARK = (4, 1)


class KafkaSegmentDataSource(DataSource):
    """Kafka's log segment directories as a Spark table.

    Options: those of the README. Each raises its own error of `kafka_segment_source.errors` before any job starts.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        check_spark_version(pyspark.__version__)
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "kafkaseg"

    def schema(self) -> str:
        options, _ = parse_options(self.options)
        return spark_ddl(default_columns(options.include_headers, options.include_metadata))

    def reader(self, schema: StructType) -> DataSourceReader:
        options, warnings = parse_options(self.options)
        names = check_columns([(field.name, field.dataType.simpleString()) for field in schema.fields])
        check_nullable(schema)
        return KafkaSegmentReader(options, warnings, names)


def check_spark_version(version: str) -> None:
    """Raises UnsupportedError, in one sentence that says what to install, for a Spark older than 4.1."""
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < OLDEST_SPARK:
        raise UnsupportedError(f"kafkaseg needs Spark 4.1 or later, and this is {version}: pip install 'pyspark>=4.1'")


def check_nullable(schema: StructType) -> None:
    """Raises SchemaError for a column, or a part of one, declared NOT NULL: all are nullable, as in Spark's kafka source."""
    for field in schema.fields:
        declared = field.json()
        if '"nullable":false' in declared or '"containsNull":false' in declared:
            raise SchemaError(f"the schema declares column {field.name!r} NOT NULL, but every column is nullable")


def register(spark: SparkSession) -> None:
    """Makes `format("kafkaseg")` known to a session that did not find the package by itself (Spark Connect, zip files)."""
    spark.dataSource.register(KafkaSegmentDataSource)
