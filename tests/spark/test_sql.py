"""SQL: views and tables made with USING kafkaseg, their options, and what dropping one leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.support.batches import data
from tests.support.logs import simple_log, simple_segment

CONF = "spark.sql.python.filterPushdown.enabled"
ROWS = list(range(10))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """orders-0: offsets 0 to 9, timestamp as many seconds, in two segments; a blank in its path."""
    segments = [
        simple_segment([data(first, *(1000 * offset for offset in range(first, first + 5)))], index=[], timeindex=[])
        for first in (0, 5)
    ]
    return simple_log(*segments).write(tmp_path_factory.mktemp("with blank") / "a b")


@pytest.fixture(params=["conf off", "conf on"])
def session(request: pytest.FixtureRequest, spark: SparkSession, path: Path) -> Iterator[SparkSession]:
    """Each conf its session; views and the tables of a test are gone after it."""
    session = spark.newSession()
    session.conf.set(CONF, str(request.param == "conf on").lower())
    yield session
    session.sql("DROP TABLE IF EXISTS t")


@pytest.fixture(scope="module")
def one_session(spark: SparkSession) -> SparkSession:
    return spark.newSession()


def offsets(df: DataFrame) -> list[int]:
    return sorted(row[0] for row in df.select("offset").collect())


def test_a_temporary_view_using_kafkaseg(session: SparkSession, path: Path) -> None:
    """Filtered, whole, and both in one query; options apply."""
    session.sql(f"CREATE TEMPORARY VIEW v USING kafkaseg OPTIONS (path '{path}', since '1970-01-01T00:00:01Z')")

    assert offsets(session.sql("SELECT * FROM v WHERE offset >= 7")) == [7, 8, 9]
    assert offsets(session.sql("SELECT * FROM v")) == ROWS[1:]
    both = "SELECT * FROM v WHERE offset < 3 UNION ALL SELECT * FROM v WHERE offset >= 7"
    assert offsets(session.sql(both)) == [1, 2, 7, 8, 9]


def test_a_table_using_kafkaseg(session: SparkSession, path: Path) -> None:
    """Its options reach every later query; two scans in one query, and query after query, get their own rows."""
    session.sql(
        f"CREATE TABLE t USING kafkaseg OPTIONS (path '{path}', SINCE '1970-01-01T00:00:01Z', includeHeaders true)"
        " TBLPROPERTIES ('made.by' = 'a test') COMMENT 'orders'"
    )

    assert session.table("t").columns[-1] == "headers"
    assert offsets(session.sql("SELECT * FROM t WHERE offset >= 7")) == [7, 8, 9]
    assert offsets(session.sql("SELECT * FROM t")) == ROWS[1:]
    both = "SELECT * FROM t WHERE offset < 3 UNION ALL SELECT * FROM t WHERE offset >= 7"
    assert offsets(session.sql(both)) == [1, 2, 7, 8, 9]
    assert session.sql("SELECT 1 FROM t a JOIN t b ON a.offset = b.offset + 5 WHERE b.offset < 3").count() == 2
    assert offsets(session.sql("SELECT * FROM t WITH (until = '3000')")) == [1, 2]
    assert offsets(session.sql(f"SELECT * FROM t WITH (path = '{path}', until = '3000')")) == [0, 1, 2]


def test_a_table_with_columns(session: SparkSession, path: Path) -> None:
    """Spark keeps none of its options, which the error says; with a path in the query it works."""
    session.sql(f"CREATE TABLE t (offset BIGINT, topic STRING) USING kafkaseg OPTIONS (path '{path}')")

    with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW … USING kafkaseg"):
        session.sql("SELECT * FROM t").collect()
    answer = session.sql(f"SELECT * FROM t WITH (path = '{path}') WHERE offset > 7")
    assert sorted(map(tuple, answer.collect())) == [(8, "orders"), (9, "orders")]


def test_dropping_a_table_leaves_the_files(one_session: SparkSession, path: Path) -> None:
    """Also one made by LOCATION, or by the catalog's API."""
    before = {file: file.read_bytes() for file in path.iterdir()}
    one_session.sql(f"CREATE TABLE t USING kafkaseg LOCATION '{path}'")
    assert one_session.table("t").count() == 10
    one_session.sql("DROP TABLE t")
    one_session.catalog.createTable("t", source="kafkaseg", path=str(path), until="3000")
    assert one_session.table("t").count() == 3
    one_session.sql("DROP TABLE t")

    assert before == {file: file.read_bytes() for file in path.iterdir()}


def test_a_wrong_option_fails_where_it_is_given(one_session: SparkSession, path: Path) -> None:
    """At CREATE, by name; the table is not made. load() accepts nothing that only a catalog adds."""
    with pytest.raises(PySparkException, match="option 'sinse' is unknown; did you mean 'since'"):
        one_session.sql(f"CREATE TABLE t USING kafkaseg OPTIONS (path '{path}', sinse '-2h')")
    assert not one_session.catalog.tableExists("t")
    with pytest.raises(PySparkException, match="option 'path' is missing"):
        one_session.sql("CREATE TABLE t USING kafkaseg OPTIONS (since '-2h')")
    with pytest.raises(PySparkException, match="option 'owner' is unknown"):
        one_session.read.format("kafkaseg").option("owner", "me").load(str(path))


@pytest.mark.parametrize(
    "made",
    [
        "OPTIONS (path 's3://AKIA:canary@bucket')",
        "OPTIONS (PATH 's3a://AKIA:can%2Fary@bucket/x')",
        "LOCATION 's3://AKIA:canary@bucket'",
        "LOCATION 'gs://user:canary@bucket/x'",
        "OPTIONS (path 'az://c/logs?sig=canary')",
        "LOCATION 'az://c/logs?sig=canary'",
        "LOCATION 'abfss://c@a.dfs.core.windows.net/logs?sv=2024&sig=canary'",
        "LOCATION 'https://a.blob.core.windows.net/c/logs?sv=2024&sig=canary'",
        "OPTIONS (path 's3://bucket/x', AWS_ENDPOINT_URL 'http://user:canary@host')",
        "LOCATION 's3://bucket/x' OPTIONS (`fs.s3a.endpoint` 'user:canary@host')",
    ],
)
def test_a_table_keeps_no_secret_of_a_url(one_session: SparkSession, made: str) -> None:
    """Wherever it stands; the table is not made."""
    with pytest.raises(PySparkException, match="CREATE TABLE would keep the secret in '") as caught:
        one_session.sql(f"CREATE TABLE t USING kafkaseg {made}")
    assert "canary" not in str(caught.value).partition("== SQL")[0]
    assert not one_session.catalog.tableExists("t")


def test_a_tables_schema_equals_that_of_load(one_session: SparkSession, path: Path) -> None:
    """But for the metadata that carries the options, which no other DataFrame has."""
    one_session.sql(f"CREATE TABLE t USING kafkaseg OPTIONS (path '{path}', includeHeaders true, includeMetadata true)")
    table = one_session.table("t").schema
    one_session.sql("DROP TABLE t")
    loaded = (
        one_session.read.format("kafkaseg").options(includeHeaders=True, includeMetadata=True).load(str(path)).schema
    )

    assert [field.metadata for field in loaded.fields] == [{}] * len(loaded.fields)
    assert [(field.name, field.dataType, field.nullable) for field in table.fields] == [
        (field.name, field.dataType, field.nullable) for field in loaded.fields
    ]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `a%20b`, where orders-0 has offset 0, and `a b`, where it has offset 7."""
    parent = tmp_path_factory.mktemp("both")
    for name, offset in [("a%20b", 0), ("a b", 7)]:
        simple_log(simple_segment([data(offset, 5)])).write(parent / name)
    return parent


@pytest.mark.parametrize("end", ["", "/orders-0", "/orders-*"])
@pytest.mark.parametrize(("name", "wanted"), [("a%20b", [0]), ("a b", [7])])
def test_a_path_with_a_percent_sign(
    one_session: SparkSession, both: Path, name: str, wanted: list[int], end: str
) -> None:
    """It is the directory of that very name in a table, a view and load(), also by LOCATION and with a glob."""
    path = f"{both}/{name}{end}"
    one_session.sql(f"CREATE TEMPORARY VIEW v USING kafkaseg OPTIONS (path '{path}')")
    assert offsets(one_session.table("v")) == wanted
    one_session.catalog.dropTempView("v")
    assert offsets(one_session.read.format("kafkaseg").load(path)) == wanted
    assert offsets(one_session.read.format("kafkaseg").load([path, path])) == wanted
    for made in (f"OPTIONS (path '{path}')", f"LOCATION '{path}'"):
        one_session.sql(f"CREATE TABLE t USING kafkaseg {made}")
        assert offsets(one_session.table("t")) == wanted
        one_session.sql("DROP TABLE t")
    one_session.catalog.createTable("t", source="kafkaseg", path=path)
    assert offsets(one_session.table("t")) == wanted
    one_session.sql("DROP TABLE t")


def test_table_properties_are_no_options(one_session: SparkSession, path: Path) -> None:
    """Whatever they are called; an option of the same name keeps its value."""
    properties = "'since' = '1970-01-01T00:00:05Z', 'topic' = 'the orders', 'mode' = 'prod', 'option.until' = '3000', 'paths' = '/x'"
    one_session.sql(
        f"CREATE TABLE t USING kafkaseg OPTIONS (path '{path}', since '1970-01-01T00:00:01Z') TBLPROPERTIES ({properties})"
    )
    assert offsets(one_session.table("t")) == ROWS[1:]
    assert one_session.table("t").select("topic").distinct().collect() == [("orders",)]
    one_session.sql("DROP TABLE t")
    one_session.sql(f"CREATE TABLE t USING kafkaseg LOCATION '{path}' TBLPROPERTIES ({properties})")
    assert offsets(one_session.table("t")) == ROWS
    one_session.sql("DROP TABLE t")

    with pytest.raises(PySparkException, match="option 'path' is missing"):
        one_session.sql(f"CREATE TABLE t USING kafkaseg TBLPROPERTIES ('path' = '{path}')")


def test_load_of_no_path(one_session: SparkSession) -> None:
    """An empty list is told that it has no path."""
    with pytest.raises(PySparkException, match=r"option 'path' is (missing|an empty list)"):
        one_session.read.format("kafkaseg").load([])
