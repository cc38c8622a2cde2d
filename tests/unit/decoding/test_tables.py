"""tables: the columns of Spark's kafka source, and which user schemas are served."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafka_segment_source.decoding.arrow import RECORD_BUILDERS
from kafka_segment_source.decoding.batch_rows import BATCH_BUILDERS
from kafka_segment_source.decoding.tables import RECORDS, SPLIT_TABLES
from kafka_segment_source.errors import SchemaError
from kafka_segment_source.option_values import BATCHES
from kafka_segment_source.options import parse_options

KAFKA = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def test_columns_are_those_of_the_kafka_source() -> None:
    """Names, order and types of the first seven columns are Spark's kafka source's."""
    assert [(c.name, c.spark_type) for c in RECORDS.columns[:7]] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    assert RECORDS.columns[7].spark_type == "array<struct<key:string,value:binary>>"


@pytest.mark.parametrize(
    ("options", "added"),
    [
        ((), []),
        (("includeHeaders",), ["headers"]),
        (("includeMetadata",), ["metadata"]),
        (("includeControl",), ["controlType"]),
        (("includeHeaders", "includeMetadata", "includeControl"), ["headers", "metadata", "controlType"]),
    ],
)
def test_default_columns(options: tuple[str, ...], added: list[str]) -> None:
    """Columns that options add come last, and only when asked for."""
    texts = {"path": "/x", **dict.fromkeys(options, "true")}
    assert list(RECORDS.default_names(parse_options(texts)[0].content)) == KAFKA + added


def test_every_column_has_a_builder() -> None:
    """A table's columns and its builders have the same names."""
    assert {column.name for column in RECORDS.columns} == RECORD_BUILDERS.keys()
    assert {column.name for column in SPLIT_TABLES[BATCHES].columns} == BATCH_BUILDERS.keys()


def test_any_subset_in_any_order_is_served() -> None:
    """A user's schema may leave columns out and order them freely; columns that an option adds are there without it."""
    fields = [("offset", "bigint"), ("headers", "array<struct<key:string,value:binary>>"), ("key", "binary")]
    assert RECORDS.check_columns(fields) == ("offset", "headers", "key")
    assert RECORDS.check_columns([]) == ()
    assert RECORDS.arrow_schema(("offset", "key")) == pa.schema([("offset", pa.int64()), ("key", pa.binary())])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([("offzet", "bigint")], r"no column 'offzet'; did you mean 'offset'\? \(there are key, value, topic"),
        ([("Timestamp", "timestamp")], r"no column 'Timestamp'; did you mean 'timestamp'\?"),
        ([("zzz", "int")], r"no column 'zzz' \(there are key, "),
        ([("key", "binary"), ("key", "binary")], "column 'key' is named more than once"),
        ([("offset", "int")], "gives column 'offset' the type int, but it is bigint"),
        ([("timestamp", "timestamp_ntz")], "gives column 'timestamp' the type timestamp_ntz, but it is timestamp"),
        ([("key", "string")], "gives column 'key' the type string, but it is binary"),
    ],
)
def test_what_is_not_served(fields: list[tuple[str, str]], said: str) -> None:
    """An unknown name (with the nearest known one), a name given twice or another type is a SchemaError
    that says so."""
    with pytest.raises(SchemaError, match=said):
        RECORDS.check_columns(fields)
