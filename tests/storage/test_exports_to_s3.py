"""`export` from a bucket into a bucket. pyiceberg writes Iceberg tables by a file system of its own."""

from __future__ import annotations

import io
import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import PathError, StorageError
from kafka_segment_source.storage.folders import Folder
from kafka_segment_source.storage.settings import make_settings
from tests.cli.runner import LOGS
from tests.support.buckets import CANARY, USER, Bucket, make_bucket, serving_s3


def _serve(pipe: Any) -> None:
    with serving_s3() as url:
        pipe.send(url)
        pipe.recv()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server in a process of its own: deltalake holds the interpreter while it waits for an answer."""
    ours, its = multiprocessing.Pipe()
    process = multiprocessing.get_context("forkserver").Process(target=_serve, args=(its,), daemon=True)
    process.start()
    yield ours.recv()
    ours.send("end")
    process.join(10)


@pytest.fixture
def bucket(server: str) -> Bucket:
    return make_bucket(server)


def read_rows(bucket: Bucket, prefix: str) -> list[tuple[str, int, int]]:
    """The rows of the Parquet files that a reader of a directory takes."""
    rows: list[tuple[str, int, int]] = []
    for key in bucket.list_keys():
        if key.startswith(prefix) and key.endswith(".parquet") and "/_" not in key:
            table = pq.ParquetFile(io.BytesIO(bucket.get(key))).read(["topic", "partition", "offset"])
            rows += [tuple(row.values()) for row in table.to_pylist()]  # type: ignore[misc]
    return sorted(rows)


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_each_record_once(form: str, bucket: Bucket) -> None:
    """New records come with the second run, and nothing with the third."""
    for number in (0, 1):
        logs = bucket.put_tree(LOGS / f"orders-{number}", f"logs/orders-{number}")
    logs = logs.rpartition("/")[0]
    target = f"{bucket.url}/tables/events"
    options: dict[str, Any] = {"format": form, "by": ["partition"], "storage_options": bucket.options}
    assert kafkaseg.export(logs, target, **options)[0].rows == 1164 + 1476
    bucket.put_tree(LOGS / "payments-0", "logs/payments-0")
    assert [kafkaseg.export(logs, target, **options)[0].rows for _ in range(2)] == [2000, 0]
    kept = {"topic", "offset"}
    wanted = kafkaseg.scan(logs, ["topic", "partition", "offset"], storage_options=bucket.options).read_all()
    found = [
        pq.ParquetFile(io.BytesIO(bucket.get(key))).read([*kept]).num_rows
        for key in bucket.list_keys()
        if key.startswith("tables/") and key.endswith(".parquet")
    ]
    assert sum(found) == wanted.num_rows
    assert not any("/staged/" in key for key in bucket.list_keys())


def test_rows_are_those_of_a_scan(bucket: Bucket) -> None:
    target = f"{bucket.url}/events"
    kafkaseg.export(LOGS, target, storage_options=bucket.options)
    wanted = kafkaseg.scan(LOGS, ["topic", "partition", "offset"]).read_all()
    assert read_rows(bucket, "events/") == sorted(tuple(row.values()) for row in wanted.to_pylist())


def test_a_large_file_comes_in_parts(bucket: Bucket) -> None:
    folder = Folder(f"{bucket.url}/table", make_settings(bucket.options))
    data = bytes(range(256)) * 50_000
    with folder.open_new("large") as file:
        for start in range(0, len(data), 2**20):
            file.write(data[start : start + 2**20])
    assert bucket.get("table/large") == data
    folder.move("large", "moved")
    assert [folder.has("large"), folder.read("moved") == data] == [False, True]
    assert [folder.create("moved", b""), folder.create("new", b"a")] == [False, True]


def test_errors(bucket: Bucket, server: str) -> None:
    logs = bucket.put_tree(LOGS / "orders-0", "logs/orders-0")
    with pytest.raises(PathError, match="is inside"):
        kafkaseg.export(logs, f"{logs}/table", storage_options=bucket.options)
    for form in ("parquet", "delta"):
        with pytest.raises(
            StorageError, match=r"s3://nobody/table cannot be read or written: .*NoSuchBucket"
        ) as caught:
            kafkaseg.export(logs, "s3://nobody/table", form, storage_options=bucket.options)
        assert CANARY not in str(caught.value)


@pytest.mark.skipif(
    "s3proxy" not in os.environ.get("KAFKASEG_STORES", ""),
    reason="pyiceberg sends bodies in chunks, which the server of the tests does not read (make test-stores)",
)
def test_an_iceberg_table(bucket: Bucket, tmp_path: Path) -> None:
    """Its files are in the bucket, under the properties of the catalog."""
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"{bucket.url}/lake",
        "s3.endpoint": bucket.options["aws_endpoint_url"],
        "s3.access-key-id": USER,
        "s3.secret-access-key": CANARY,
        "s3.region": "us-east-1",
    }
    for rows in (2000, 0):
        [report] = kafkaseg.export(LOGS / "payments-0", "lake.kafka.payments", "iceberg", catalog=catalog)
        assert report.rows == rows
    assert sum(key.endswith(".parquet") for key in bucket.list_keys()) == 1
    table = load_catalog("lake", **catalog).load_table("kafka.payments")
    assert sorted(table.scan().to_arrow()["offset"].to_pylist()) == list(range(2000))
