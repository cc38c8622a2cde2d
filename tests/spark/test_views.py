"""Views in Spark: batches with every bound and filter, through load, read and SQL, equal those of `scan`."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import kafka_segment_source as kafkaseg
from tests.support.rows import FIXTURES

DATA = FIXTURES / "transactions" / "data"
CONF = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set(CONF, "true")
    return session


def whole() -> list[tuple[object, ...]]:
    """The rows of the view, by `scan`."""
    return [tuple(row.values()) for row in kafkaseg.scan(DATA, view="batches").read_all().to_pylist()]


def test_load_gives_the_rows_of_scan(session: SparkSession) -> None:
    """All columns, with their types; timestamps as moments."""
    frame = session.read.format("kafkaseg").option("view", "batches").load(str(DATA))
    names = kafkaseg.scan(DATA, view="batches").schema.names
    assert frame.columns == names
    plain = frame.selectExpr(
        *(
            f"unix_millis({name}) AS {name}" if "imestamp" in name and name != "timestampType" else name
            for name in names
        )
    ).drop("deleteHorizon")
    expected = [
        tuple(
            round(value.timestamp() * 1000) if hasattr(value, "timestamp") else value
            for name, value in zip(names, row, strict=True)
            if name != "deleteHorizon"
        )
        for row in whole()
    ]
    assert sorted(map(tuple, plain.collect())) == sorted(expected)


@pytest.mark.parametrize(
    ("condition", "keeps"),
    [
        ("lastOffset >= 20", lambda base, last: last >= 20),
        ("lastOffset < 20", lambda base, last: last < 20),
        ("baseOffset < 20", lambda base, last: base < 20),
        ("baseOffset > 20 AND lastOffset <= 60", lambda base, last: base > 20 and last <= 60),
        ("baseOffset IN (0, 20, 21)", lambda base, last: base in (0, 20, 21)),
        ("NOT lastOffset > 20", lambda base, last: last <= 20),
    ],
)
def test_filters_prune_and_never_lose_a_batch(session: SparkSession, condition: str, keeps: object) -> None:
    """Through `read`, which pushes them down: those of every row that the filter keeps."""
    frame = kafkaseg.read(session, DATA, ["topic", "partition", "baseOffset", "lastOffset"], view="batches")
    found = sorted(map(tuple, frame.filter(condition).collect()))
    assert found == sorted(row[:4] for row in whole() if keeps(row[2], row[3]))  # type: ignore[operator]


def test_a_view_in_sql(session: SparkSession) -> None:
    """CREATE TEMPORARY VIEW and CREATE TABLE keep the option."""
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW b USING kafkaseg OPTIONS (path '{DATA}', view 'batches')")
    [row] = session.sql("SELECT count(*), sum(size), count_if(isControl) FROM b").collect()
    rows = whole()
    assert tuple(row) == (len(rows), sum(row[6] for row in rows), sum(row[17] for row in rows))  # type: ignore[misc]
    session.sql(f"CREATE TABLE batches_of USING kafkaseg OPTIONS (path '{DATA}', view 'batches')")
    try:
        assert session.sql("SELECT count(*) FROM batches_of").first()[0] == len(rows)  # type: ignore[index]
    finally:
        session.sql("DROP TABLE batches_of")


def test_transactions_through_load_and_sql(session: SparkSession) -> None:
    """One Spark partition a topic-partition; the rows are those of `scan`, with the types of the view."""
    frame = session.read.format("kafkaseg").option("view", "transactions").load(str(DATA))
    table = kafkaseg.scan(DATA, view="transactions").read_all()
    assert frame.columns == table.schema.names
    assert frame.rdd.getNumPartitions() == len({(row["topic"], row["partition"]) for row in table.to_pylist()})
    plain = [name for name in table.schema.names if not name.endswith("Timestamp")]
    wanted = [tuple(row[name] for name in plain) for row in table.to_pylist()]
    assert sorted(map(tuple, frame.select(plain).collect()), key=str) == sorted(wanted, key=str)
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW t USING kafkaseg OPTIONS (path '{DATA}', view 'transactions')")
    query = "SELECT firstOffset, unix_millis(firstTimestamp) FROM t WHERE state = 'open'"
    [row] = session.sql(query).collect()
    first = next(each for each in table.to_pylist() if each["state"] == "open")["firstTimestamp"]
    assert tuple(row) == (531, round(first.timestamp() * 1000))


def test_views_of_index_files_are_those_of_scan(session: SparkSession) -> None:
    """Segments through `read`, entries through SQL with proofs: each task's rows once."""
    names = ["topic", "partition", "baseOffset", "nextBaseOffset", "indexEntries", "isActive", "file_path"]
    expected = kafkaseg.scan(DATA, names, view="segments").read_all().to_pylist()
    found = kafkaseg.read(session, DATA, names, view="segments").collect()
    assert sorted(map(tuple, found), key=str) == sorted((tuple(row.values()) for row in expected), key=str)

    session.sql(
        "CREATE OR REPLACE TEMPORARY VIEW aborts USING kafkaseg"
        f" OPTIONS (path '{DATA}', view 'abortedTransactions', checkCrcs 'true')"
    )
    counted = session.sql(
        "SELECT partition, count(*), bool_and(isProven) FROM aborts WHERE topic = 'ledger' GROUP BY 1"
    )
    rows = kafkaseg.scan(DATA, ["topic", "partition"], view="abortedTransactions", subscribe="ledger").read_all()
    assert sorted(map(tuple, counted.collect())) == [
        (number, rows["partition"].to_pylist().count(number), True) for number in (0, 1)
    ]


def test_the_newest_record_of_each_key(session: SparkSession) -> None:
    """A task a partition; a filter is applied to the rows, and so never changes which one is the newest."""
    orders = FIXTURES.parent.parent / "examples" / "data" / "orders" / "data"
    names = ["partition", "key", "offset"]
    expected = kafkaseg.scan(orders, names, subscribe="orders", view="latest").read_all().to_pylist()
    frame = session.read.format("kafkaseg").options(subscribe="orders", view="latest").load(str(orders))
    assert frame.rdd.getNumPartitions() == len({row["partition"] for row in expected})
    found = {(row.partition, bytes(row.key), row.offset) for row in frame.select(*names).collect()}
    assert found == {tuple(row.values()) for row in expected} and len(found) == len(expected)
    some = kafkaseg.read(session, orders, subscribe="orders", view="latest").filter("offset < 300 AND partition = 1")
    assert some.count() == sum(row["offset"] < 300 and row["partition"] == 1 for row in expected)
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW newest USING kafkaseg OPTIONS (path '{orders}', view 'latest')")
    assert session.sql("SELECT count(*) FROM newest WHERE topic = 'orders'").first()[0] == len(expected)
