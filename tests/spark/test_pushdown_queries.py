"""No query returns a wrong row, whatever the conf: every shape that Spark 4.1 to 4.3 answered wrongly, and more.

The log is ten rows, offsets 0 to 9, in three segments that begin at 0, 3 and 7; a pruned query has fewer Spark
partitions than the whole.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, col, count_distinct, lit
from pyspark.sql.functions import max as largest

import kafka_segment_source
from kafka_segment_source.spark import remembered
from kafka_segment_source.spark.reader import PUSHES_FILTERS
from tests.support.batches import data
from tests.support.logs import simple_log, simple_segment

CONF = "spark.sql.python.filterPushdown.enabled"
START = 1_770_000_000_000  # ms; a row is a second after the one before it
ROWS = list(range(10))
OLD_SPARK = remembered.needed()
NO_PRUNING = not PUSHES_FILTERS
pushes = pytest.mark.skipif(NO_PRUNING, reason="this Spark pushes no filters")
only_old_spark = pytest.mark.skipif(not OLD_SPARK, reason="this Spark keeps a plan with its scan")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("pushdown"))


def write_log(directory: Path) -> Path:
    segments = []
    for first, end in ((0, 3), (3, 7), (7, 10)):
        timestamps = [START + 1000 * offset for offset in range(first, end)]
        segments.append(simple_segment([data(first, *timestamps)], index=[], timeindex=[(timestamps[-1], end - 1)]))
    return simple_log(*segments).write(directory)


@pytest.fixture(scope="module")
def sessions(spark: SparkSession) -> dict[str, SparkSession]:
    """Confs are a session's own: one with the conf as Spark has it, one with it on, one for read(), which
    turns it on."""
    sessions = {name: spark.newSession() for name in ("off", "on", "read")}
    sessions["off"].conf.set(CONF, "false")
    sessions["on"].conf.set(CONF, "true")
    return sessions


@pytest.fixture(params=["load, conf off", "load, conf on", "read"])
def df(request: pytest.FixtureRequest, sessions: dict[str, SparkSession], path: Path) -> Iterator[DataFrame]:
    """A new DataFrame of the log, in each of the three ways."""
    if request.param == "read":
        yield kafka_segment_source.read(sessions["read"], path)
    else:
        session = sessions[request.param.removeprefix("load, conf ")]
        yield session.read.format("kafkaseg").load(str(path))


def offsets(df: DataFrame) -> list[int]:
    return sorted(row[0] for row in df.select("offset").collect())


def spark_partitions(df: DataFrame) -> int:
    return df.rdd.getNumPartitions()


# ---- query shapes ----

SMALL, LARGE = "offset < 3", "offset >= 7"
ARE_SMALL, ARE_LARGE = [0, 1, 2], [7, 8, 9]


def filter_then_whole(df: DataFrame) -> None:
    assert offsets(df.filter(LARGE)) == ARE_LARGE
    assert df.count() == 10


def whole_then_filter(df: DataFrame) -> None:
    assert df.count() == 10
    assert offsets(df.filter(LARGE)) == ARE_LARGE


def filters_after_one_another(df: DataFrame) -> None:
    assert offsets(df.filter(LARGE)) == ARE_LARGE
    assert offsets(df.filter(SMALL)) == ARE_SMALL
    assert offsets(df.filter("offset in (1, 8)")) == [1, 8]


def nothing_matches_then_whole(df: DataFrame) -> None:
    assert offsets(df.filter("offset < 3 and offset > 7")) == []
    assert offsets(df) == ROWS


def union_apart(df: DataFrame) -> None:
    assert offsets(df.filter(SMALL).union(df.filter(LARGE))) == ARE_SMALL + ARE_LARGE


def union_overlapping(df: DataFrame) -> None:
    assert df.filter("offset >= 2").union(df.filter(LARGE)).count() == 11


def union_with_the_whole(df: DataFrame) -> None:
    assert df.filter(SMALL).union(df).count() == 13


def union_of_three(df: DataFrame) -> None:
    three = df.filter(SMALL).union(df.filter("offset = 5")).union(df.filter(LARGE))
    assert offsets(three) == [*ARE_SMALL, 5, *ARE_LARGE]


def self_join(df: DataFrame) -> None:
    small, large = df.filter(SMALL).alias("small"), df.filter(LARGE).alias("large")
    joined = small.join(large, col("small.offset") == col("large.offset") - lit(7))
    assert sorted((row[0], row[1]) for row in joined.select("small.offset", "large.offset").collect()) == [
        (0, 7),
        (1, 8),
        (2, 9),
    ]
    assert df.alias("a").join(df.filter(LARGE).alias("b"), "offset").count() == 3


def subqueries(df: DataFrame) -> None:
    df.createOrReplaceTempView("log")
    sql = df.sparkSession.sql
    assert offsets(sql("SELECT offset FROM log WHERE offset > (SELECT max(offset) FROM log WHERE offset < 7)")) == [
        7,
        8,
        9,
    ]
    assert offsets(
        sql("SELECT offset FROM log WHERE offset < 5 AND offset IN (SELECT offset - 6 FROM log WHERE offset > 6)")
    ) == [1, 2, 3]
    assert sql("SELECT (SELECT count(*) FROM log WHERE offset < 3), (SELECT count(*) FROM log)").first() == (3, 10)


def temp_view(df: DataFrame) -> None:
    df.createOrReplaceTempView("log")
    sql = df.sparkSession.sql
    assert offsets(sql("SELECT * FROM log WHERE offset >= 7")) == ARE_LARGE
    assert offsets(sql("SELECT * FROM log")) == ROWS
    assert (
        sql("WITH a AS (SELECT * FROM log WHERE offset < 3) SELECT * FROM a UNION ALL SELECT * FROM log").count() == 13
    )


def cached(df: DataFrame) -> None:
    small = df.filter(SMALL).cache()
    assert offsets(df.filter(LARGE)) == ARE_LARGE
    assert offsets(small) == ARE_SMALL  # filled only now
    small.unpersist()
    whole = df.cache()
    assert offsets(whole.filter(LARGE)) == ARE_LARGE
    whole.unpersist()


def explained_before_it_runs(df: DataFrame) -> None:
    small = df.filter(SMALL)
    small.explain(extended=True)
    assert offsets(df.filter(LARGE)) == ARE_LARGE
    assert sorted(row.offset for row in small.collect()) == ARE_SMALL


def optimized_long_before_it_runs(df: DataFrame) -> None:
    small = df.filter(SMALL)
    small.inputFiles()  # optimizes, and so pushes, but makes no physical plan
    assert offsets(df.filter(LARGE)) == ARE_LARGE
    assert sorted(row.offset for row in small.collect()) == ARE_SMALL


def replanned_while_it_runs(df: DataFrame) -> None:
    names = df.sparkSession.range(0, 12, 2).withColumnRenamed("id", "n")
    joined = df.filter(SMALL).join(broadcast(names), col("offset") == col("n"))
    joined.explain()
    kept = joined.select("n").distinct().cache()
    assert offsets(df.filter(LARGE)) == ARE_LARGE
    assert sorted(row.offset for row in joined.collect()) == [0, 2]
    assert sorted(row.n for row in kept.collect()) == [0, 2]
    kept.unpersist()


def row_by_row(df: DataFrame) -> None:
    small = df.filter(SMALL).select("offset").toLocalIterator()
    first = next(small).offset
    assert offsets(df.filter(LARGE)) == ARE_LARGE
    assert sorted([first, *(row.offset for row in small)]) == ARE_SMALL
    rdd = df.filter(SMALL).rdd
    assert df.rdd.count() == 10
    assert sorted(row.offset for row in rdd.collect()) == ARE_SMALL


def limits_and_aggregates(df: DataFrame) -> None:
    assert len(df.filter(LARGE).limit(2).collect()) == 2
    assert df.agg(largest("offset"), count_distinct("offset")).first() == (9, 10)
    assert df.filter("offset < 3 or offset >= 7").count() == 6


def timestamps_and_topics(df: DataFrame) -> None:
    moment = "timestamp_millis({})".format
    assert offsets(df.filter(f"timestamp >= {moment(START + 7000)}")) == ARE_LARGE
    assert offsets(df.filter(f"timestamp < {moment(START + 3000)} and topic = 'orders'")) == ARE_SMALL
    assert offsets(df.filter(f"timestamp > timestamp_micros({START * 1000 + 6_000_001})")) == ARE_LARGE
    assert offsets(df.filter("topic like 'x%' or partition <> 0")) == []
    assert offsets(df.filter("topic in ('a', 'orders') and partition in (0, 5) and offset <=> 4")) == [4]


SHAPES: list[Callable[[DataFrame], None]] = [
    filter_then_whole,
    whole_then_filter,
    filters_after_one_another,
    nothing_matches_then_whole,
    union_apart,
    union_overlapping,
    union_with_the_whole,
    union_of_three,
    self_join,
    subqueries,
    temp_view,
    cached,
    explained_before_it_runs,
    optimized_long_before_it_runs,
    replanned_while_it_runs,
    row_by_row,
    limits_and_aggregates,
    timestamps_and_topics,
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_every_shape_gets_the_right_rows(
    shape: Callable[[DataFrame], None], df: DataFrame, capfd: pytest.CaptureFixture[str]
) -> None:
    """load() with the conf off and on, and read()."""
    shape(df)


@pytest.mark.parametrize("shape", [union_apart, self_join], ids=lambda shape: shape.__name__)
def test_without_adaptive_execution_too(
    shape: Callable[[DataFrame], None], df: DataFrame, capfd: pytest.CaptureFixture[str]
) -> None:
    """Then every plan is made at once."""
    df.sparkSession.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        shape(df)
    finally:
        df.sparkSession.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.parametrize("conf", ["off", "on"])
def test_two_loads_in_one_query(conf: str, sessions: dict[str, SparkSession], path: Path) -> None:
    """Each has a relation of its own; so has each read()."""
    session = sessions[conf]
    one, other = (session.read.format("kafkaseg").load(str(path)) for _ in range(2))
    assert offsets(one.filter(SMALL).union(other.filter(LARGE))) == ARE_SMALL + ARE_LARGE
    one, other = (kafka_segment_source.read(sessions["read"], path) for _ in range(2))
    assert offsets(one.filter(SMALL).union(other.filter(LARGE))) == ARE_SMALL + ARE_LARGE
    assert spark_partitions(one.filter(SMALL).union(other.filter(LARGE))) == (6 if NO_PRUNING else 1 + 1)


# ---- pruning ----


def poison(path: Path, *base_offsets: int) -> None:
    """Overwrites whole segments: a task that reads one fails."""
    for base_offset in base_offsets:
        segment = path / f"{base_offset:020}.log"
        segment.write_bytes(b"\x5a" * segment.stat().st_size)


@pytest.mark.parametrize(
    ("condition", "expected", "partitions"),
    [
        ("offset in (5, 7)", [5, 7], 2),
        ("offset > 100", [], 1),
        (f"timestamp >= timestamp_millis({START + 7000})", ARE_LARGE, 1),
        ("topic in ('payments', 'refunds')", [], 1),
        ("topic like 'p%'", [], 1),
        ("partition > 0", [], 1),
        ("topic like 'o%' and partition = 0", ROWS, 3),
    ],
)
def test_read_prunes(
    condition: str, expected: list[int], partitions: int, sessions: dict[str, SparkSession], path: Path
) -> None:
    """A filter leaves whole segments out; Spark plans one empty partition for none at all."""
    filtered = kafka_segment_source.read(sessions["read"], path).filter(condition)

    assert spark_partitions(filtered) == (3 if NO_PRUNING else partitions)
    assert offsets(filtered) == expected


@pushes
def test_read_does_not_touch_what_it_leaves_out(sessions: dict[str, SparkSession], tmp_path: Path) -> None:
    """Every segment outside the filter is garbage, in the shapes that plan for more than one scan too."""
    log = write_log(tmp_path)
    poison(log, 3)
    df = kafka_segment_source.read(sessions["read"], log)

    assert offsets(df.filter(SMALL)) == ARE_SMALL
    assert offsets(df.filter(SMALL).union(df.filter(LARGE))) == ARE_SMALL + ARE_LARGE
    assert df.filter(SMALL).alias("a").join(df.filter(LARGE).alias("b"), "offset").count() == 0
    with pytest.raises(PySparkException):
        df.filter("offset = 4").count()


def test_read_takes_options_and_columns(sessions: dict[str, SparkSession], path: Path) -> None:
    """As scan does; a column that is never null is added where the always-true predicate needs one."""
    spark = sessions["read"]
    bounded = kafka_segment_source.read(spark, [path], startingOffsets={"orders": {"0": 4}}, includeHeaders=True)
    assert offsets(bounded.filter("offset < 6")) == [4, 5]
    assert bounded.columns[-1] == "headers"
    assert spark_partitions(bounded.filter("offset < 6")) == (2 if NO_PRUNING else 1)
    values = kafka_segment_source.read(spark, path, columns=["value"])
    assert values.columns == ["value"] and values.count() == 10
    some = kafka_segment_source.read(spark, path, columns=["timestamp", "partition"])
    assert some.columns == ["timestamp", "partition"]
    assert some.filter("partition = 1").count() == 0 and some.count() == 10


def test_load_with_the_conf_on_plans_every_segment(sessions: dict[str, SparkSession], path: Path) -> None:
    """On a Spark that would reuse the plan of a filter."""
    whole = sessions["on"].read.format("kafkaseg").load(str(path))

    assert spark_partitions(whole.filter(SMALL)) == (3 if OLD_SPARK or NO_PRUNING else 1)


@pushes
@pytest.mark.parametrize("conf", ["off", "on"])
def test_the_plain_reader_serves_a_repaired_spark(
    conf: str, spark: SparkSession, sessions: dict[str, SparkSession], path: Path
) -> None:
    """What load() gives there: it works with the conf off, and pushes with the conf on."""

    class Repaired(kafka_segment_source.KafkaSegmentDataSource):
        @classmethod
        def name(cls) -> str:
            return f"kafkaseg_repaired_{conf}"

        def reader(self, schema: Any) -> Any:
            from kafka_segment_source.options import parse_options  # noqa: PLC0415
            from kafka_segment_source.spark.reader import KafkaSegmentReader  # noqa: PLC0415

            return KafkaSegmentReader(*parse_options(self.options), ("offset",))

    session = sessions[conf]
    for each in (session, spark):  # .rdd looks sources up in the session that is active
        each.dataSource.register(Repaired)
    filtered = session.read.format(Repaired.name()).schema("offset long").load(str(path)).filter(SMALL)

    assert spark_partitions(filtered) == (1 if conf == "on" else 3)
    assert offsets(filtered) == ARE_SMALL


# ---- what read() cannot do must not be wrong ----


@only_old_spark
def test_the_conf_turned_off_under_a_read_is_an_error(spark: SparkSession, path: Path) -> None:
    """Such a query would take the plan of an earlier one; before any plan it simply reads all."""
    session = spark.newSession()
    df, fresh = (kafka_segment_source.read(session, path) for _ in range(2))
    df.filter(SMALL).explain()
    session.conf.set(CONF, "false")

    with pytest.raises(PySparkException, match="turned off under a DataFrame"):
        df.count()
    assert offsets(fresh.filter(LARGE)) == ARE_LARGE


@only_old_spark
def test_a_global_view_in_a_session_without_the_conf_is_an_error(spark: SparkSession, path: Path) -> None:
    """The view has its relation, not its session's conf."""
    df = kafka_segment_source.read(spark.newSession(), path)
    assert offsets(df.filter(SMALL)) == ARE_SMALL
    df.createOrReplaceGlobalTempView("log_of_read")

    with pytest.raises(PySparkException, match="turned off under a DataFrame"):
        spark.newSession().sql("SELECT count(*) FROM global_temp.log_of_read").collect()


@pushes
def test_a_lost_memory_reads_all(
    sessions: dict[str, SparkSession], path: Path, monkeypatch: Any, tmp_path: Path
) -> None:
    """As where the planning process shares no file with the one that called read()."""
    monkeypatch.setattr(remembered.tempfile, "tempdir", str(tmp_path))
    df = kafka_segment_source.read(sessions["read"], path)
    assert spark_partitions(df.filter(SMALL)) == 1
    for directory in tmp_path.iterdir():
        for file in directory.iterdir():
            file.unlink()

    assert offsets(df.filter(LARGE)) == ARE_LARGE
    assert spark_partitions(df.filter(LARGE)) == (3 if OLD_SPARK else 1)
    assert offsets(df) == ROWS


def test_threads_with_a_read_each_and_threads_sharing_one(sessions: dict[str, SparkSession], path: Path) -> None:
    """A few queries of two threads; more were tried by hand (docs/pushdown.md)."""
    shared = kafka_segment_source.read(sessions["read"], path, columns=["offset"])
    wrong: list[str] = []

    def ask(df: DataFrame, seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(4):
            start = chance.randrange(10)
            condition = f"offset >= {start} and offset < {start + 2}"
            if offsets(df.filter(condition)) != [offset for offset in (start, start + 1) if offset < 10]:
                wrong.append(condition)

    own = kafka_segment_source.read(sessions["read"], path, columns=["offset"])
    threads = [threading.Thread(target=ask, args=(df, seed)) for seed, df in enumerate((shared, shared, own))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
