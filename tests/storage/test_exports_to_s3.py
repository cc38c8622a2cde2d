"""`export` from a bucket into a bucket. Iceberg tables are not here: pyiceberg writes them, by a file system of its
own."""

from __future__ import annotations

import io
import multiprocessing
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import PathError, StorageError
from kafka_segment_source.storage.folders import Folder
from kafka_segment_source.storage.settings import make_settings
from tests.cli.runner import LOGS
from tests.support.buckets import CANARY, Bucket, make_bucket, serving_s3


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
