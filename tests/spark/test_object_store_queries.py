"""Spark reads logs in a bucket, and shows no secret: not in a plan, an error, the catalog or a file of filters."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import kafka_segment_source as kafkaseg
from tests.cli.runner import LOGS
from tests.support.buckets import CANARY, Bucket

HADOOP = {
    "fs.s3a.endpoint": "aws_endpoint_url",
    "fs.s3a.endpoint.region": "aws_region",
    "fs.s3a.access.key": "aws_access_key_id",
    "fs.s3a.secret.key": "aws_secret_access_key",
}
SINCE = "2026-03-10T09:50:00Z"


@pytest.fixture
def hadoop(spark: SparkSession, bucket: Bucket) -> Iterator[dict[str, str]]:
    """S3A's options, in the session's Hadoop configuration."""
    texts = {name: bucket.options[own] for name, own in HADOOP.items()}
    configuration = spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    for name, text in texts.items():
        configuration.set(name, text)
    yield texts
    for name in texts:
        configuration.unset(name)


def test_load_and_read(spark: SparkSession, bucket: Bucket, hadoop: dict[str, str]) -> None:
    """`load` takes either spelling of the options; `read` takes those of the session."""
    url = bucket.put_tree(LOGS, "orders").replace("s3://", "s3a://")
    expected = kafkaseg.scan(LOGS, ["offset"], since=SINCE).read_all().num_rows
    for options in (bucket.options, hadoop):
        frame = spark.read.format("kafkaseg").options(**options).option("since", SINCE).load(url)
        assert frame.count() == expected
    frame = kafkaseg.read(spark, url)
    assert frame.filter(f"timestamp >= '{SINCE}'").count() == expected
    shown = frame._jdf.queryExecution().toString() + frame._jdf.queryExecution().explainString(
        spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("extended")  # type: ignore[union-attr]
    )
    files = Path(tempfile.gettempdir()).glob("kafkaseg-pushed-*/*")
    assert CANARY not in shown + "".join(path.read_text(errors="replace") for path in files)


def test_zone_maps_by_a_job(spark: SparkSession, bucket: Bucket, hadoop: dict[str, str]) -> None:
    """The job's tasks read the bucket, and the driver writes the maps into it."""
    url = bucket.put_tree(LOGS, "orders")
    done = kafkaseg.update_zone_maps(spark, url, f"{bucket.url}/maps", subscribe="orders")
    assert (done.segments_mapped, done.files_written) == (18, 3)
    assert hadoop and CANARY not in repr(done)


def test_an_error(spark: SparkSession, bucket: Bucket) -> None:
    """What Spark passes on has the sentence and no secret."""
    url = f"s3a://not-{bucket.name}/x"
    with pytest.raises(PySparkException) as caught:
        spark.read.format("kafkaseg").options(**bucket.options).load(url).count()
    assert f"there is no bucket 'not-{bucket.name}'" in str(caught.value) and CANARY not in str(caught.value)


def test_a_table_keeps_no_secret(spark: SparkSession, bucket: Bucket) -> None:
    """CREATE TABLE refuses it and says how to do without: each query may have it."""
    url = bucket.put_tree(LOGS / "orders-0", "orders-0")
    session = spark.newSession()

    def clause(names: list[str]) -> str:
        return ", ".join(f"`{name}` '{bucket.options[name]}'" for name in names)

    secret = ["aws_access_key_id", "aws_secret_access_key"]
    rest = [name for name in bucket.options if name not in secret]
    with pytest.raises(PySparkException, match="CREATE TABLE would keep") as caught:
        session.sql(f"CREATE TABLE t USING kafkaseg OPTIONS (path '{url}', {clause([*rest, *secret])})")
    assert CANARY not in str(caught.value).partition("== SQL")[0]
    session.sql("DROP TABLE IF EXISTS t")
    session.sql(f"CREATE TABLE t USING kafkaseg OPTIONS (path '{url}', {clause(rest)})")
    try:
        given = ", ".join(f"`{name}` = '{bucket.options[name]}'" for name in secret)
        assert session.sql(f"SELECT * FROM t WITH ({given})").count() == 1164
    finally:
        session.sql("DROP TABLE t")
