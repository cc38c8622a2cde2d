"""`format("kafkaseg")`: rows, schemas, paths and errors as a user of Spark sees them, over real brokers'
directories."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from chispa import assert_df_equality
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.errors import (
    CorruptRecordError,
    KafkaSegmentError,
    OptionError,
    PathError,
    StorageError,
    UnsupportedError,
    cause_of,
)
from kafka_segment_source.spark.datasource import KafkaSegmentDataSource, check_spark_version
from kafka_segment_source.spark.reader import PUSHES_FILTERS
from tests.support import writer
from tests.support.rows import FIXTURES, LOG_DIRECTORIES, MESSAGE_SETS, OFFSET, TIMESTAMP, TOPIC, expected, keep
from tests.support.writer import Rec

ORDERS = LOG_DIRECTORIES["orders"]
PAYMENTS = ORDERS / "payments-0"
ORDER = ["topic", "partition", "offset"]
ALL = {**LOG_DIRECTORIES, **MESSAGE_SETS, "follower": FIXTURES / "follower" / "broker-2"}


def load(spark: SparkSession, path: Any, ddl: str | StructType | None = None, **options: Any) -> DataFrame:
    reader = spark.read.format("kafkaseg").options(**options)
    return (reader if ddl is None else reader.schema(ddl)).load(path if isinstance(path, list) else str(path))


def saved(spark: SparkSession, directory: Path, like: DataFrame) -> DataFrame:
    """What a real consumer saw of a directory, as a frame with the columns and types of another."""
    table = pq.read_table(directory.parent / "expected.read_uncommitted.parquet")
    micros = pa.compute.multiply(table["timestamp"], 1000).cast(pa.timestamp("us", tz="UTC"))
    table = table.set_column(table.schema.get_field_index("timestamp"), "timestamp", micros).select(like.columns)
    return spark.createDataFrame(table, schema=like.schema)


def in_order(frame: DataFrame) -> DataFrame:
    """The frame sorted, in one task: a shuffle would read everything twice."""
    return frame.coalesce(1).sortWithinPartitions(*ORDER)


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row["offset"] for row in frame.select("offset").collect())


def said(action: Any) -> str:
    """The text that a user sees of the error that an action ends in."""
    with pytest.raises(PySparkException) as caught:
        action()
    return str(caught.value)


# --- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_every_fixture(name: str, spark: SparkSession) -> None:
    """The frame of a real broker's log directory is what a real consumer saw, headers, types and
    nullability included."""
    frame = load(spark, ALL[name], includeHeaders="true")
    wanted = saved(spark, ALL[name], frame)
    if name == "compacted":  # its log start is for `scan` to prove
        frame, wanted = frame.where("topic <> 'trimmed'"), wanted.where("topic <> 'trimmed'")
    assert_df_equality(in_order(frame), in_order(wanted))


def test_the_kafka_sources_columns(spark: SparkSession) -> None:
    """Without options the columns are those of Spark's kafka source: names, order, types, all nullable."""
    assert load(spark, ORDERS).schema == StructType.fromDDL(
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
    )
    added = load(spark, ORDERS, includeHeaders="true", includeMetadata="true").schema
    assert added["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    assert added.names[7:] == ["headers", "metadata"]


def test_control_records_say_what_they_are(spark: SparkSession) -> None:
    """includeControl=true adds a column with their types, in a DataFrame and in SQL."""
    path = LOG_DIRECTORIES["transactions"] / "ledger-0"
    counts = pc.value_counts(kafkaseg.scan(path, includeControl=True).read_all()["controlType"]).to_pylist()
    wanted = {each["values"]: each["counts"] for each in counts}
    assert wanted.keys() == {None, "COMMIT", "ABORT"}

    frame = load(spark, path, includeControl="true")
    assert frame.schema.names[7:] == ["controlType"]
    assert {row["controlType"]: row["count"] for row in frame.groupBy("controlType").count().collect()} == wanted

    spark.sql(f"CREATE TEMPORARY VIEW control USING kafkaseg OPTIONS (path '{path}', includeControl 'true')")
    rows = spark.sql("SELECT controlType, count(*) AS n FROM control GROUP BY controlType").collect()
    spark.sql("DROP VIEW control")
    assert {row["controlType"]: row["n"] for row in rows} == wanted


def test_arrow_types_are_sparks_own(spark: SparkSession) -> None:
    """The Arrow schema of every column is exactly Spark's own form of it with zone UTC: Spark checks one batch only."""
    names = [column.name for column in RECORDS.columns]
    given = StructType.fromDDL(RECORDS.spark_ddl(names))
    zone = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}

    assert RECORDS.arrow_schema(names).equals(to_arrow_schema(given, **zone), check_metadata=True)
    assert [field.dataType.simpleString() for field in given] == [column.spark_type for column in RECORDS.columns]


def test_bounds(spark: SparkSession) -> None:
    """Bounds as options keep exactly the rows that they name, in SQL's view too."""
    rows = keep(expected(ORDERS), lambda row: row[TOPIC] == "payments")
    since, until = rows[200][TIMESTAMP], rows[600][TIMESTAMP]
    wanted = keep(rows, lambda row: since <= row[TIMESTAMP] < until)
    assert 0 < len(wanted) < len(rows)
    assert offsets(load(spark, PAYMENTS, since=since, until=until)) == sorted(row[OFFSET] for row in wanted)

    some = load(spark, PAYMENTS, startingOffsets='{"payments":{"0":10}}', endingOffsets='{"payments":{"0":15}}')
    assert offsets(some) == [10, 11, 12, 13, 14]


def test_one_partition_a_segment(spark: SparkSession) -> None:
    """Each segment kept is one Spark partition, with its rows in offset order."""
    segments = sorted(int(path.stem) for path in PAYMENTS.glob("*.log") if path.stat().st_size)
    groups = load(spark, PAYMENTS).select("offset").rdd.map(lambda row: row[0]).glom().collect()
    assert len(segments) > 2
    assert [group[0] for group in groups] == segments
    assert [group == sorted(group) for group in groups] == [True] * len(groups)


def test_the_session_zone_changes_no_instant(spark: SparkSession) -> None:
    """A session in another zone sees the same instants, and bounds without a zone stay UTC: the session's
    is not asked."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    query = "cast(timestamp as double)"
    frames = [load(each, PAYMENTS, since="2026-03-10T09:30:00") for each in (spark, session)]
    found = [sorted(row[0] for row in frame.selectExpr(query).collect()) for frame in frames]
    assert found[0] == found[1] and found[0][0] >= 1_773_135_000


# --- paths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["directory", "list", "list of one", "file", "glob", "URI", "relative", "option"])
def test_every_form_of_path(form: str, spark: SparkSession) -> None:
    """A partition, a list, one file, a glob, a URI, a relative path, and the path as an option."""
    rows = expected(ORDERS)
    last = max(PAYMENTS.glob("*.log"))
    if form == "option":
        assert spark.read.format("kafkaseg").option("path", str(PAYMENTS)).load().count() == 2000
        return
    path, wanted = {
        "directory": (str(ORDERS), lambda row: True),
        "list": ([str(ORDERS / "orders-1"), str(PAYMENTS)], lambda row: row[:2] in (("orders", 1), ("payments", 0))),
        "list of one": ([str(PAYMENTS)], lambda row: row[TOPIC] == "payments"),
        "file": (str(last), lambda row: row[TOPIC] == "payments" and row[OFFSET] >= int(last.stem)),
        "glob": (f"{ORDERS}/orders-[01]", lambda row: row[:2] in (("orders", 0), ("orders", 1))),
        "URI": (PAYMENTS.as_uri(), lambda row: row[TOPIC] == "payments"),
        "relative": (os.path.relpath(PAYMENTS), lambda row: row[TOPIC] == "payments"),
    }[form]
    found = [tuple(row) for row in in_order(load(spark, path).select(*ORDER)).collect()]
    assert found == [row[:3] for row in keep(rows, wanted)]


def test_internal_topics_only_when_named(spark: SparkSession) -> None:
    """Kafka's own topics come when subscribed to, and not otherwise."""
    directory = LOG_DIRECTORIES["transactions"]
    assert load(spark, directory).where("topic like '\\_\\_%'").count() == 0
    assert load(spark, directory, subscribe="__consumer_offsets").count() == 1


# --- schemas ---------------------------------------------------------------------------------------------------------


def test_a_schema_of_ones_own(spark: SparkSession) -> None:
    """Any subset of the columns in any order is served, the same values as without it; added columns need no option."""
    ddl = "headers array<struct<key:string,value:binary>>, offset bigint, key binary"
    frame = load(spark, PAYMENTS, ddl)
    whole = load(spark, PAYMENTS, includeHeaders="true").select("headers", "offset", "key")
    assert frame.columns == ["headers", "offset", "key"]
    assert_df_equality(frame.coalesce(1), whole.coalesce(1))


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("offzet bigint", "SchemaError: there is no column 'offzet'; did you mean 'offset'?"),
        ("offset int", "SchemaError: the schema gives column 'offset' the type int, but it is bigint"),
        ("timestamp timestamp_ntz", "gives column 'timestamp' the type timestamp_ntz, but it is timestamp"),
        ("headers map<string,binary>", "gives column 'headers' the type map<string,binary>"),
    ],
)
def test_schemas_that_are_not_served(ddl: str, text: str, spark: SparkSession) -> None:
    """A wrong name or type in a schema is an error that names the column and what it is."""
    assert text in said(lambda: load(spark, PAYMENTS, ddl).collect())


def test_a_column_declared_not_null(spark: SparkSession) -> None:
    """A column declared NOT NULL is refused: Spark would skip its null checks."""
    declared = StructType([StructField("offset", LongType(), nullable=False)])
    assert "declares column 'offset' NOT NULL, but every column is nullable" in said(
        lambda: load(spark, PAYMENTS, declared).collect()
    )


def test_counting(spark: SparkSession) -> None:
    """count() and a selection of no column count rows, also with a schema of one column or of none."""
    assert load(spark, ORDERS).count() == 6000
    assert load(spark, PAYMENTS).select().count() == 2000
    assert load(spark, PAYMENTS, "partition int").count() == 2000
    if PUSHES_FILTERS:
        assert load(spark, PAYMENTS, StructType([])).count() == 2000
    else:
        assert "counts no rows of a schema without columns" in said(
            lambda: load(spark, PAYMENTS, StructType([])).count()
        )


def test_nothing_to_read(spark: SparkSession) -> None:
    """A plan without a segment is a frame without rows."""
    frame = load(spark, ORDERS, since="2030-01-01")
    assert frame.collect() == [] and frame.count() == 0
    assert load(spark, ORDERS, since="5", until="5").count() == 0


# --- errors and warnings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "options", "text"),
    [
        ("/no/such/place", {}, "PathError: path '/no/such/place' does not exist"),
        (str(FIXTURES), {}, "holds no log segments: expected files like 00000000000000000000.log"),
        (str(ORDERS), {"sicne": "-2h"}, "OptionError: option 'sicne' is unknown; did you mean 'since'?"),
        (str(ORDERS), {"since": "yesterday"}, "OptionError: option 'since' is 'yesterday': expected ISO-8601"),
        (str(ORDERS), {"includeHeaders": "yes"}, "option 'includeHeaders' is 'yes': expected true or false"),
        (str(ORDERS), {"subscribe": "nope"}, "option 'subscribe' names topic 'nope', but the path holds 'orders', 'payments'"),
        (str(ORDERS), {"startingOffsets": "latest"}, "option 'startingOffsets' is 'latest': a batch query would read nothing"),
        (str(ORDERS), {"startingOffsets": '{"orders":{"0":1}}'}, "must name exactly the partitions selected"),
    ],
)  # fmt: skip
def test_errors_of_use_reach_the_user(path: str, options: dict[str, str], text: str, spark: SparkSession) -> None:
    """What the caller got wrong arrives in the text of Spark's own error, before any job runs."""
    assert text in said(lambda: load(spark, path, **options).collect())


def test_no_path_at_all(spark: SparkSession) -> None:
    """load() without a path says what to give."""
    assert "option 'path' is missing: give load(path)" in said(lambda: spark.read.format("kafkaseg").load().collect())


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A partition of three batches, the second one damaged."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    batches = [bytearray(writer.record_batch([Rec(0, 5, b"k", b"value")], base_offset=n)) for n in range(3)]
    batches[1][-3] ^= 1
    (folder / writer.segment_name(0)).write_bytes(b"".join(batches))
    return folder


def test_damage_reaches_the_user(damaged: Path, spark: SparkSession) -> None:
    """A damaged batch ends the query with file, position, offset, found and expected in the error's text."""
    text = said(lambda: load(spark, damaged).collect())
    (log,) = damaged.iterdir()
    assert f"in {log} at byte {log.stat().st_size // 3}, offset 1: found 0x" in text
    assert "CorruptRecordError" in text


def raised(action: Any) -> Exception:
    """What a query ends with."""
    with pytest.raises((PySparkException, Py4JError)) as caught:
        action()
    return caught.value


def test_the_cause_of_a_task_that_failed(damaged: Path, spark: SparkSession) -> None:
    """cause_of gives the error of a task back, whether rows are collected, counted or written, with its fields."""
    (log,) = damaged.iterdir()
    frame = load(spark, damaged)
    with pytest.raises(CorruptRecordError) as caught:
        kafkaseg.scan(damaged).read_all()
    expected = caught.value
    for action in (frame.collect, frame.count, lambda: frame.write.parquet(str(damaged.parent / "out"))):
        error = cause_of(raised(action))
        assert type(error) is CorruptRecordError
        assert str(error) == str(expected)
        assert (error.path, error.position, error.offset) == (str(log), log.stat().st_size // 3, 1)
        assert (error.what, error.found, error.expected) == (expected.what, expected.found, expected.expected)


@pytest.mark.parametrize(
    ("path", "options", "kind"),
    [
        ("/no/such/place", {}, PathError),
        (str(ORDERS), {"since": "soon"}, OptionError),
        (
            str(ORDERS),
            {"startingOffsets": '{"orders":{"0":9999999,"1":0,"2":0},"payments":{"0":0}}'},
            KafkaSegmentError,
        ),
    ],
)
def test_the_cause_of_a_plan_that_failed(path: str, options: dict[str, str], kind: type, spark: SparkSession) -> None:
    """cause_of gives the error of planning back: the same class and message as without Spark."""
    error = cause_of(raised(lambda: load(spark, path, **options).collect()))
    with pytest.raises(kind) as caught:
        kafkaseg.plan(path, **options)
    assert (type(error), str(error)) == (type(caught.value), str(caught.value))


def test_the_cause_of_a_disk_that_failed(tmp_path: Path, spark: SparkSession) -> None:
    """A StorageError keeps its errno across Spark: a segment that the system does not open."""
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    folder = tmp_path / "orders-0"
    folder.mkdir()
    path = folder / writer.segment_name(0)
    path.write_bytes(writer.record_batch([Rec(0, 5, b"k", b"value")]))
    path.chmod(0)
    error = cause_of(raised(lambda: load(spark, folder).collect()))
    assert isinstance(error, StorageError)
    assert (error.errno, error.filename) == (13, str(path))


def test_an_error_without_such_a_cause(spark: SparkSession) -> None:
    """Spark's own errors have none."""
    assert cause_of(raised(lambda: spark.sql("select nothing from nowhere"))) is None


def test_damage_may_be_dropped(damaged: Path, spark: SparkSession) -> None:
    """mode=DROPMALFORMED reads the rest."""
    assert offsets(load(spark, damaged, mode="DROPMALFORMED")) == [0, 2]


def test_options_without_a_meaning_are_warned_of_once(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """Options of brokers and of streams are accepted, and named in one warning each where Spark plans the query."""
    given = {
        "path": str(PAYMENTS),
        "kafka.bootstrap.servers": "x:9092",
        "groupIdPrefix": "a",
        "maxOffsetsPerTrigger": "5",
    }
    source = KafkaSegmentDataSource(given)
    source.reader(StructType.fromDDL("offset bigint")).partitions()
    (of_brokers,) = [message for message in caplog.messages if "mean nothing" in message]
    assert all(name.lower() in of_brokers.lower() for name in ("kafka.bootstrap.servers", "groupIdPrefix"))
    (of_streams,) = [message for message in caplog.messages if "are for streams" in message]
    assert "maxoffsetspertrigger" in of_streams.lower()


def test_a_notebook_of_the_kafka_source_moves_over(spark: SparkSession) -> None:
    """The options of Spark's kafka source are taken as they stand, a broker's address included."""
    options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "payments", "startingOffsets": "earliest"}
    frame = load(spark, ORDERS, **options, endingOffsets="latest", includeHeaders="true", failOnDataLoss="false")
    assert frame.selectExpr("cast(key as string)", "cast(value as string)", "headers").count() == 2000


# --- finding the source ----------------------------------------------------------------------------------------------


def test_no_registration_is_needed(spark: SparkSession) -> None:
    """A new session knows the format by itself; registering it is allowed and changes nothing."""
    session = spark.newSession()
    assert load(session, PAYMENTS).count() == 2000
    kafkaseg.register(session)
    assert load(session, PAYMENTS).count() == 2000


def test_in_sql(spark: SparkSession) -> None:
    """A temporary view over the format is a table like others."""
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW rows_test USING kafkaseg OPTIONS (path '{PAYMENTS}')")
    try:
        assert spark.sql("SELECT max(offset), count(*) FROM rows_test").collect() == [(1999, 2000)]
    finally:
        spark.sql("DROP VIEW rows_test")


@pytest.mark.parametrize("version", ["3.5.1", "3.4.0.dev0"])
def test_a_spark_that_is_too_old(version: str) -> None:
    """An older Spark is refused in one sentence that says what to install."""
    with pytest.raises(
        UnsupportedError, match=rf"kafkaseg needs Spark 4.0 or later, and this is {version}: pip install"
    ):
        check_spark_version(version)


@pytest.mark.parametrize("version", ["4.0.0", "4.3.0", "4.10.2", "5.0.0.dev1"])
def test_a_spark_that_is_new_enough(version: str) -> None:
    """Spark 4.0 and later are taken, whatever stands after the minor number."""
    check_spark_version(version)
