"""`format("kafkaseg")` with valueFormat: batch reads, SQL tables and streams, and types that Spark takes."""

from __future__ import annotations

import json
import random
import time
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, _parse_datatype_string

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import MisfitError, OptionError, cause_of
from kafka_segment_source.values.avro_columns import make_columns
from kafka_segment_source.values.avro_schema import parse_schema
from tests.support import writer
from tests.support.avro_cases import Branch, encode, make_case, value_of
from tests.support.schema_logs import SchemaLog, framed, write_records, write_values
from tests.support.writer import Rec

EVERYTHING = {
    "type": "record",
    "name": "Everything",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "select", "type": "string"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "sizes", "type": {"type": "map", "values": "double"}},
        {"name": "either", "type": ["null", "string", "long"]},
        {"name": "flag", "type": "boolean"},
        {"name": "nothing", "type": "null"},
        {"name": "none", "type": {"type": "record", "name": "Empty", "fields": []}},
        {"name": "inner", "type": ["null", {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}]},
    ],
}
OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NEW = dict(OLD, fields=[*OLD["fields"], {"name": "note", "type": "string", "default": ""}])


def load(spark: SparkSession, path: Path, **options: Any) -> DataFrame:
    options = {"subscribe": "orders", "valueFormat": "avro"} | options
    return spark.read.format("kafkaseg").options(**options).load(str(path))


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    SchemaLog(tmp_path).register("orders-value", 1, EVERYTHING)
    rng = random.Random(5)
    made = [framed(1, encode(EVERYTHING, value_of(EVERYTHING, rng))) for _ in range(50)]
    return write_values(tmp_path, [*made, None])


@pytest.mark.parametrize("seed", range(40))
def test_types_are_exactly_those_that_spark_makes_of_them(spark: SparkSession, seed: int) -> None:
    """Spark refuses a batch of another type: the Arrow type is the one that it makes of the DDL."""
    columns = make_columns(parse_schema(json.dumps(make_case(seed).reader)))
    parsed = _parse_datatype_string(f"value {columns.spark}")
    assert isinstance(parsed, StructType)
    in_utc = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}  # 4.1 has it by default
    assert to_arrow_schema(parsed, **in_utc).field("value").type == columns.arrow


def test_every_type(spark: SparkSession, everything: Path) -> None:
    """Rows are those of scan, under the types of from_avro."""
    frame = load(spark, everything)
    expected = kafkaseg.scan(everything, subscribe="orders", valueFormat="avro").read_all()
    rows = frame.orderBy("offset").toArrow()
    assert rows["value"].to_pylist() == expected["value"].to_pylist()
    flat = frame.select("value.*")
    assert dict(flat.dtypes)["price"] == "decimal(12,2)"
    assert flat.where("flag").count() == sum(1 for row in expected["value"].to_pylist() if row and row["flag"])
    assert frame.where("value is null").count() == 1


def test_a_schema_given_by_the_user(spark: SparkSession, everything: Path) -> None:
    """Some columns only; the names of the typed ones are those of the reader."""
    frame = kafkaseg.read(spark, everything, columns=["offset", "value"], subscribe="orders", valueFormat="avro")
    assert frame.columns == ["offset", "value"]
    assert frame.where("value.id is not null").count() == 50
    columns = ["offset", "value.inner.x", "value.id"]
    frame = kafkaseg.read(spark, everything, columns=columns, subscribe="orders", valueFormat="avro")
    assert frame.dtypes == [("offset", "bigint"), ("value", "struct<inner:struct<x:int>,id:bigint>")]
    assert frame.where("value.id is not null").count() == 50
    given = spark.read.format("kafkaseg").schema("value struct<id:bigint>, offset bigint")
    assert (
        given.options(subscribe="orders", valueFormat="avro").load(str(everything)).where("value.id = 0").count() >= 0
    )


def test_sql(spark: SparkSession, everything: Path) -> None:
    options = f"path '{everything}', subscribe 'orders', valueFormat 'avro'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW typed_orders USING kafkaseg OPTIONS ({options})")
    assert spark.sql("SELECT count(value.id) AS n FROM typed_orders").first()["n"] == 50  # type: ignore[index]
    spark.sql("DROP TABLE IF EXISTS typed_table")
    spark.sql(f"CREATE TABLE typed_table USING kafkaseg OPTIONS ({options})")
    try:
        if "timestamp_ntz" not in spark.table("typed_table").schema.simpleString():
            # Spark 4.1 keeps it as timestamp: other instants in other time zones, so it is an error
            with pytest.raises(PySparkException, match="local:timestamp_ntz"):
                spark.sql("SELECT count(value.id) FROM typed_table").collect()
            return
        assert spark.sql("SELECT count(value.id) AS n FROM typed_table").first()["n"] == 50  # type: ignore[index]
        wider = dict(EVERYTHING, fields=[{"name": "new", "type": "int", "default": 0}, *EVERYTHING["fields"]])
        log = SchemaLog(everything)
        log.register("orders-value", 1, EVERYTHING)
        log.register("orders-value", 2, wider, 2)  # the table keeps the fields that it was made with
        assert spark.sql("SELECT count(value.id) AS n FROM typed_table").first()["n"] == 50  # type: ignore[index]
        assert "new" not in spark.table("typed_table").schema.simpleString()
    finally:
        spark.sql("DROP TABLE typed_table")


def test_errors_and_permissive(spark: SparkSession, everything: Path) -> None:
    write_values(everything, [framed(7, b""), b"bad", None])
    with pytest.raises(PySparkException) as caught:
        load(spark, everything).collect()
    cause = cause_of(caught.value)
    assert isinstance(cause, MisfitError) and cause.offset == 0 and "schema id 7" in str(cause.found)
    rows = load(spark, everything, valueMode="PERMISSIVE").select("value", "_corrupt_record").collect()
    assert [(row[0], row[1]) for row in rows] == [(None, framed(7, b"")), (None, b"bad"), (None, None)]
    with pytest.raises(PySparkException) as caught:
        load(spark, everything, valueSchema="subject:none").collect()
    assert isinstance(cause_of(caught.value), OptionError)


def test_a_stream_keeps_its_schema_and_takes_new_writers(spark: SparkSession, tmp_path: Path) -> None:
    """A writer that appears while the stream runs is read as the schema of its beginning."""
    log = SchemaLog(tmp_path / "logs")
    log.register("orders-value", 1, OLD)
    first = Rec(0, 0, None, framed(1, encode(OLD, {"id": 1})))
    write_records(tmp_path / "logs" / "orders-0", [first])
    frame = (
        spark.readStream.format("kafkaseg")
        .options(subscribe="orders", valueFormat="avro", startingOffsets="earliest")
        .load(str(tmp_path / "logs"))
    )
    query = frame.select("offset", "value.*").writeStream.format("memory").queryName("typed_stream").start()
    try:
        query.processAllAvailable()
        log.register("orders-value", 2, NEW, 2)
        second = Rec(0, 1, None, framed(2, encode(NEW, {"id": 2, "note": "new"})))
        with (tmp_path / "logs" / "orders-0" / writer.segment_name(0)).open("ab") as file:
            file.write(writer.record_batch([second], base_offset=1))
        deadline = time.monotonic() + 60
        while len(rows := spark.sql("SELECT * FROM typed_stream ORDER BY offset").collect()) < 2:
            assert time.monotonic() < deadline
            query.processAllAvailable()
    finally:
        query.stop()
    assert [row.asDict() for row in rows] == [{"offset": 0, "id": 1}, {"offset": 1, "id": 2}]


def test_a_restarted_stream_keeps_the_schema_of_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """With a newer schema, `latest` ends with an error. Either schema can be named, and no row comes twice."""
    logs, checkpoint = tmp_path / "logs", str(tmp_path / "checkpoint")
    log = SchemaLog(logs)
    log.register("orders-value", 1, OLD)
    write_records(logs / "orders-0", [Rec(0, 0, None, framed(1, encode(OLD, {"id": 1})))])

    def run(**options: str) -> list[Any]:
        options = {"subscribe": "orders", "valueFormat": "avro", "startingOffsets": "earliest"} | options
        frame = spark.readStream.format("kafkaseg").options(**options).load(str(logs))
        stream = frame.select("offset", "value.*").writeStream.option("checkpointLocation", checkpoint)
        query = stream.foreachBatch(lambda batch, _: found.extend(batch.collect())).trigger(availableNow=True).start()
        found: list[Any] = []
        try:
            query.awaitTermination(60)
        finally:
            query.stop()
        return [row.asDict() for row in found]

    assert run() == [{"offset": 0, "id": 1}]
    log.register("orders-value", 2, NEW, 2)
    with (logs / "orders-0" / writer.segment_name(0)).open("ab") as file:
        for at in (1, 2):
            value = framed(2, encode(NEW, {"id": at + 1, "note": "new"}))
            file.write(writer.record_batch([Rec(0, at, None, value)], base_offset=at))
    for _ in range(2):
        with pytest.raises(PySparkException) as caught:
            run()
        assert "the checkpoint of this stream reads values as id:1" in str(caught.value)
        assert "valueSchema=id:1 to go on as before, or valueSchema=id:2" in str(caught.value)
    assert run(valueSchema="id:1") == [{"offset": 1, "id": 2}, {"offset": 2, "id": 3}]
    with (logs / "orders-0" / writer.segment_name(0)).open("ab") as file:
        value = framed(2, encode(NEW, {"id": 4, "note": "new"}))
        file.write(writer.record_batch([Rec(0, 3, None, value)], base_offset=3))
    assert run(valueSchema="id:2") == [{"offset": 3, "id": 4, "note": "new"}]


def test_unions_have_members(spark: SparkSession, tmp_path: Path) -> None:
    """As from_avro names them."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["null", "string", "long"]}]}
    SchemaLog(tmp_path).register("orders-value", 1, schema)
    write_values(tmp_path, [framed(1, encode(schema, {"u": Branch(at, v)})) for at, v in enumerate([None, "x", 5])])
    rows = load(spark, tmp_path).orderBy("offset").select("value.u").collect()
    assert [row.u and row.u.asDict() for row in rows] == [
        None,
        {"member0": "x", "member1": None},
        {"member0": None, "member1": 5},
    ]


def test_json(spark: SparkSession, tmp_path: Path) -> None:
    """A struct by DDL, in a batch read and in SQL; text without a schema, which parse_json takes."""
    write_values(tmp_path, [b'{"id": 5, "tags": ["a"]}', None, b'{"id": 6, "more": 1}'])
    options = {"valueFormat": "json", "valueSchema": "id bigint, tags array<string>"}
    rows = load(spark, tmp_path, **options).orderBy("offset").select("value.id", "value.tags").collect()
    assert [tuple(row) for row in rows] == [(5, ["a"]), (None, None), (6, None)]
    text = load(spark, tmp_path, valueFormat="json").selectExpr("variant_get(parse_json(value), '$.id', 'int') AS id")
    assert sorted(row.id or 0 for row in text.collect()) == [0, 5, 6]
