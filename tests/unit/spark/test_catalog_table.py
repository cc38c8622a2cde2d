"""CREATE TABLE: what the catalog adds to options, and what a table keeps of them. No JVM."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from pyspark.sql.types import LongType, StructType

from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.errors import OptionError
from kafka_segment_source.options import parse_options
from kafka_segment_source.spark import catalog_table
from kafka_segment_source.spark.datasource import KafkaSegmentDataSource
from tests.support.readers import ALL


def test_what_the_catalog_adds_to_options_is_taken_off() -> None:
    """owner, provider and the like, properties of the table, and the doubles; unknown options stay, to be refused."""
    given_options = {
        "owner": "me",
        "provider": "kafkaseg",
        "location": "file:/x",
        "external": "true",
        "path": "file:/x",
        "since": "-2h",
        "option.since": "-2h",
        "sinse": "5",
        "option.sinse": "5",
        "transient_lastddltime": "7",
    }

    assert catalog_table.created_with(given_options) == {"path": "file:/x", "since": "-2h", "sinse": "5"}
    assert catalog_table.created_with({"path": "/x", "owner": "me"}) is None


@pytest.mark.parametrize("name", ["owner", "provider", "location", "option.since", "external"])
def test_nothing_unknown_is_accepted_elsewhere(name: str, log_directory: Path) -> None:
    """load() has no catalog that could have added it."""
    with pytest.raises(OptionError, match="unknown"):
        KafkaSegmentDataSource({"path": str(log_directory), name: "x"}).schema()


def test_a_tables_schema_is_that_of_load_and_carries_its_options(log_directory: Path) -> None:
    """Made without a JVM; the catalog keeps the metadata of its first column."""
    source = KafkaSegmentDataSource(
        {
            "owner": "me",
            "provider": "kafkaseg",
            "location": str(log_directory),
            "includeheaders": "true",
            "option.includeheaders": "true",
        }
    )
    schema = source.schema()

    assert isinstance(schema, StructType)
    types = {column.name: column.spark_type for column in RECORDS.columns}
    names = RECORDS.default_names(parse_options({"path": "/x", "includeHeaders": "true"})[0].content)
    assert [(name, types[name], True) for name in names] == [
        (field.name, field.dataType.simpleString(), field.nullable) for field in schema.fields
    ]
    query = KafkaSegmentDataSource({})
    assert {
        split.base_offset
        for partition in query.reader(StructType.fromJson(json.loads(schema.json()))).partitions()
        for split in partition.splits  # type: ignore[attr-defined]
    } == ALL


@pytest.mark.parametrize(
    "name", ["location", "option.PATH", "option.paths", "option.zoneMaps", "option.AWS_ENDPOINT_URL"]
)
@pytest.mark.parametrize("encoded", [False, True])
def test_a_secret_in_a_url_is_refused(name: str, encoded: bool) -> None:
    """In every option that is a URL, plainly or as the catalog writes it; the error names the option alone."""
    url = "s3a://AKIA:canary@bucket" if name != "option.zoneMaps" else "abfss://c@a.dfs.core.windows.net/z?sig=canary"
    if encoded:
        url = url[:8] + quote(url[8:], safe="@" if "?" in url else "")
    given = {"owner": "me", "provider": "kafkaseg", name: url, name.removeprefix("option."): url}
    with pytest.raises(OptionError, match="CREATE TABLE would keep the secret in") as caught:
        KafkaSegmentDataSource(given).schema()
    assert "canary" not in str(caught.value)


def test_a_querys_own_options_come_first(log_directory: Path) -> None:
    """SELECT … FROM t WITH (…): a path of its own replaces all, others are added to the table's."""
    schema = catalog_table.schema(RECORDS.arrow_schema(("offset",)), {"path": "/old", "since": "5", "until": "9"})

    assert catalog_table.options_of_query({"since": "6"}, schema) == {"path": "/old", "since": "6", "until": "9"}
    assert catalog_table.options_of_query({"path": "/new"}, schema) == {"path": "/new"}


def test_a_table_declared_with_columns_is_told_what_works() -> None:
    """Spark keeps none of its options."""
    with pytest.raises(OptionError, match="CREATE TEMPORARY VIEW") as caught:
        KafkaSegmentDataSource({}).reader(StructType().add("offset", LongType()))

    assert "WITH (path = '…')" in str(caught.value)
