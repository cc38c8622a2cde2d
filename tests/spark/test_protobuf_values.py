"""`format("kafkaseg")` with valueFormat=protobuf: types that Spark takes, SQL tables, and errors."""

from __future__ import annotations

import random
from inspect import signature
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, _parse_datatype_string

pytest.importorskip("google.protobuf")
pytest.importorskip("grpc_tools")

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import MisfitError, cause_of
from kafka_segment_source.values.protobuf_columns import make_columns
from kafka_segment_source.values.protobuf_files import load_file
from tests.support import protobuf_cases as cases
from tests.support.schema_logs import SchemaLog, framed, write_values

EVERYTHING = """syntax = "proto3";
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto"; import "google/protobuf/any.proto";
message Everything {
  uint64 id = 1; optional string select = 2; bytes hash = 3; float f = 4; double d = 5; bool flag = 6; uint32 u = 7;
  enum Kind { A = 0; B = 1; } Kind kind = 8; repeated Kind kinds = 9; map<string, In> ins = 10; map<int64, uint64> sums = 11;
  message In { int32 x = 1; Empty none = 2; } In inner = 12; message Empty { } oneof either { string text = 13; In other = 14; }
  google.protobuf.Timestamp at = 15; google.protobuf.Duration took = 16; google.protobuf.Struct any = 17;
  google.protobuf.StringValue wrapped = 18; google.protobuf.Any packed = 19; Everything parent = 20;
}"""  # fmt: skip


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    SchemaLog(tmp_path).register("orders-value", 1, EVERYTHING, schemaType="PROTOBUF")
    rng = random.Random(5)
    message = cases.find_class(load_file(EVERYTHING, lambda _: None).files, "Everything")
    values: list[bytes | None] = [None]
    for _ in range(50):
        row = message()
        cases.fill(rng, row)
        values.append(framed(1, b"\0" + row.SerializeToString()))
    return write_values(tmp_path, values)


@pytest.mark.parametrize("seed", range(20))
def test_types_are_exactly_those_that_spark_makes_of_them(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    text = cases.write_text(rng, cases.make_shape(rng, seed % 2 == 0), seed % 2 == 0)
    columns = make_columns(load_file(text, lambda _: None).find("shop.v1.Root"))
    parsed = _parse_datatype_string(f"value {columns.spark}")
    assert isinstance(parsed, StructType)
    in_utc = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}  # 4.1 has it by default
    assert to_arrow_schema(parsed, **in_utc).field("value").type == columns.arrow


def test_every_type(spark: SparkSession, everything: Path) -> None:
    """Rows are those of scan; a table keeps them."""
    options = {"subscribe": "orders", "valueFormat": "auto"}
    frame = spark.read.format("kafkaseg").options(**options).load(str(everything))
    expected = kafkaseg.scan(everything, **options).read_all()["value"].to_pylist()
    assert frame.orderBy("offset").toArrow()["value"].to_pylist() == expected
    assert frame.where("value.flag").count() == sum(1 for row in expected if row and row["flag"])
    assert dict(frame.select("value.*").dtypes)["took"] == "interval day to second"
    spark.sql("DROP TABLE IF EXISTS protobuf_table")
    given = f"path '{everything}', subscribe 'orders', valueFormat 'protobuf'"
    spark.sql(f"CREATE TABLE protobuf_table USING kafkaseg OPTIONS ({given})")
    try:
        assert spark.sql("SELECT count(value.id) AS n FROM protobuf_table").first()["n"] == 50  # type: ignore[index]
    finally:
        spark.sql("DROP TABLE protobuf_table")


def test_a_value_that_does_not_fit(spark: SparkSession, everything: Path) -> None:
    write_values(everything, [framed(1, b"\0\x08"), None])
    frame = spark.read.format("kafkaseg").options(subscribe="orders", valueFormat="protobuf")
    with pytest.raises(PySparkException) as caught:
        frame.load(str(everything)).collect()
    cause = cause_of(caught.value)
    assert isinstance(cause, MisfitError) and cause.offset == 0 and "schema id 1" in str(cause.found)
    rows = frame.option("valueMode", "PERMISSIVE").load(str(everything)).select("value", "_corrupt_record").collect()
    assert [tuple(row) for row in rows] == [(None, framed(1, b"\0\x08")), (None, None)]


def test_a_stream(spark: SparkSession, everything: Path, tmp_path: Path) -> None:
    stream = spark.readStream.format("kafkaseg").options(
        subscribe="orders", valueFormat="protobuf", startingOffsets="earliest"
    )
    query = (
        stream.load(str(everything))
        .select("value.id")
        .writeStream.format("memory")
        .queryName("protobuf_rows")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(60)
    finally:
        query.stop()
    assert spark.table("protobuf_rows").where("id is not null").count() == 50
