"""`format("kafkaseg")`: takes Spark's options and schema, and returns this package's schema and reader."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Unpack

import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from kafka_segment_source.decoding.tables import split_table
from kafka_segment_source.errors import SchemaError, UnsupportedError
from kafka_segment_source.keywords import PathsLike, ScanOptions, StreamOptions, option_texts
from kafka_segment_source.option_values import OF_SPLITS
from kafka_segment_source.options import find_view, parse_options
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.request import Content
from kafka_segment_source.schema import Table
from kafka_segment_source.schema_registry.typing import split_names, type_columns
from kafka_segment_source.spark import catalog_table, remembered
from kafka_segment_source.spark.hadoop import hadoop_options
from kafka_segment_source.spark.reader import PUSHDOWN_CONF, PUSHES_FILTERS
from kafka_segment_source.views.by_name import table_of, view_of

if TYPE_CHECKING:
    from kafka_segment_source.values.avro_columns import Wanted

OLDEST_SPARK = (4, 0)


class KafkaSegmentDataSource(DataSource):
    """Kafka's log segment directories as a Spark table.

    Options: those of docs/options.md. Each raises its own error of `kafka_segment_source.errors` before any job starts.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        check_spark_version(pyspark.__version__)
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "kafkaseg"

    def schema(self) -> StructType | str:
        created = catalog_table.created_with(self.options)
        options, _ = parse_options(remembered.without_memory(self.options) if created is None else created)
        options = type_columns(options, Warnings())
        table = _find_table(options.content)
        columns = table.default_names(options.content)
        if created is None:
            return table.spark_ddl(columns)
        return catalog_table.schema(table.arrow_schema(columns), created)

    def reader(self, schema: StructType) -> DataSourceReader:
        given = catalog_table.options_of_query(self.options, schema)
        options, warnings = parse_options(remembered.without_memory(given))
        options = type_columns(options, warnings, _find_wanted(schema))
        fields = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        names = _find_table(options.content).check_columns(fields)
        check_nullable(schema)
        if not names and not PUSHES_FILTERS:  # Spark 4.0 takes such batches for empty ones
            raise SchemaError("this Spark counts no rows of a schema without columns: give it one column")
        view = view_of(options.content.view)
        if view is not None:
            from kafka_segment_source.spark.view_reader import ViewReader  # noqa: PLC0415  # records and batches do without

            return ViewReader(view, options, warnings, names)
        return remembered.reader_of(given, options, warnings, names)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from kafka_segment_source.spark.stream_reader import (  # noqa: PLC0415  # batch reads do without
            KafkaSegmentStreamReader,
        )

        options, warnings = parse_options(remembered.without_memory(self.options), is_stream=True)
        options = type_columns(options, warnings, _find_wanted(schema))
        names = _find_table(options.content).check_columns(
            [(field.name, field.dataType.simpleString()) for field in schema.fields]
        )
        check_nullable(schema)
        return KafkaSegmentStreamReader(options, warnings, names)


def _find_table(content: Content) -> Table:
    """The columns of a read: of its view, or of records with typed keys and values."""
    return table_of(content.view) if content.typed is None else split_table(content)


def _find_wanted(schema: StructType) -> dict[str, Wanted]:
    """The fields of keys and values that a schema has, by column. The user may have left some out."""
    return {
        field.name: _find_wanted(field.dataType) if isinstance(field.dataType, StructType) else {}
        for field in schema.fields
    }


def _name_columns(
    texts: Mapping[str, str], columns: Sequence[str], is_stream: bool = False
) -> tuple[Table, tuple[str, ...]]:
    """The columns of a read by its option texts, and the names of those that the user wants of them."""
    options, _ = parse_options(texts, is_stream=is_stream)
    names, wanted = split_names(options.formats, columns)
    table = _find_table(type_columns(options, Warnings(), wanted).content)
    return table, table.check_names(names or ())


def check_spark_version(version: str) -> None:
    """Raises UnsupportedError for a Spark older than 4.0. The message names the version to install."""
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < OLDEST_SPARK:
        raise UnsupportedError(f"kafkaseg needs Spark 4.0 or later, and this is {version}: pip install 'pyspark>=4.0'")


def check_nullable(schema: StructType) -> None:
    """Raises SchemaError for a column, or a part of a column, that is declared NOT NULL.

    All columns are nullable, as in Spark's kafka source.
    """
    for field in schema.fields:
        declared = field.json()
        if '"nullable":false' in declared or '"containsNull":false' in declared:
            raise SchemaError(f"the schema declares column {field.name!r} NOT NULL, but every column is nullable")


def register(spark: SparkSession) -> None:
    """Registers `format("kafkaseg")` in a session that has not found the package itself (Spark Connect, zip files).

    Args:
        spark: The session.

    Example:
        >>> kafka_segment_source.register(spark)
        >>> spark.read.format("kafkaseg").load("examples/data/orders/data/orders-0").count()
        1164
    """
    try:
        spark.dataSource.register(KafkaSegmentDataSource)
    except AnalysisException as error:  # Spark 4.0 refuses a format that it has found itself
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def read(
    spark: SparkSession, path: PathsLike, columns: Sequence[str] | None = None, **options: Unpack[ScanOptions]
) -> DataFrame:
    """Makes a DataFrame of the records under `path`, or of another view.

    It reads only the bytes that its `.filter()` leaves possible.

    For paths in S3 it takes `fs.s3a.*` from the session's Hadoop configuration, where the options do not say otherwise.
    A data source cannot see that configuration itself.

    Filters on timestamp, offset, partition and topic prune. This turns on `spark.sql.python.filterPushdown.enabled` in
    the session. Spark 4.0 cannot push filters: there, only options prune.

    With Spark 4.1 to 4.3, use each DataFrame for one question, in one thread at a time. It reads the rows of every
    filter that it ever had. Each call of `read` starts without filters.

    Args:
        spark: The session.
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        columns: Names of the wanted columns, in order. By default, the options decide.
        options: The options of docs/options.md under their own names, with Python values.

    Returns:
        The DataFrame. An action reads it, and then raises the errors of `scan`.

    Raises:
        SchemaError: A column does not exist.
        OptionError: The path or a value has a type that no option takes.

    Example:
        >>> frame = kafka_segment_source.read(spark, "examples/data/orders/data", subscribe="orders")
        >>> frame.filter("timestamp >= '2026-03-10T09:50:00Z'").count()
        712
    """
    texts = hadoop_options(spark) | option_texts(path, options)
    view = find_view(texts)
    table, names = (table_of(view), None) if columns is None else _name_columns(texts, columns)
    if PUSHES_FILTERS:
        spark.conf.set(PUSHDOWN_CONF, "true")
    reader = spark.read.format(KafkaSegmentDataSource.name()).options(**texts)
    if view not in OF_SPLITS:
        return (reader if names is None else reader.schema(table.spark_ddl(names))).load()
    return remembered.load(reader, view, table, names)


def read_stream(
    spark: SparkSession, path: PathsLike, columns: Sequence[str] | None = None, **options: Unpack[StreamOptions]
) -> DataFrame:
    """Makes a streaming DataFrame of what the logs under `path` gain. `spark.readStream` does the same with texts.

    For paths in S3 it takes `fs.s3a.*` from the session's Hadoop configuration, where the options do not say otherwise.

    Args:
        spark: The session.
        path: A partition directory, a log directory or a glob; or a list of these.
        columns: Names of the wanted columns, in order. By default, the options decide.
        options: The options of docs/options.md that streams have, under their own names, with Python values.

    Returns:
        The DataFrame. `writeStream` starts a query over it, which raises StreamingQueryException. `errors.cause_of`
        gives the error of this package back from that.

    Raises:
        SchemaError: A column does not exist.
        OptionError: The path or a value has a type that no option takes.

    Example:
        >>> frame = kafka_segment_source.read_stream(spark, "examples/data/orders/data", startingOffsets="earliest")
        >>> frame.isStreaming
        True
    """
    texts = hadoop_options(spark) | option_texts(path, options)
    reader = spark.readStream.format(KafkaSegmentDataSource.name()).options(**texts)
    if columns is None:
        return reader.load()
    table, names = _name_columns(texts, columns, is_stream=True)
    return reader.schema(table.spark_ddl(names)).load()
