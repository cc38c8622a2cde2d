"""Logs in Google Cloud Storage, by a server that answers as its XML API does: generations, and bearer tokens."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import obstore
import pytest
from obstore.store import GCSStore

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import FileChangedError, PathError, StorageError
from kafka_segment_source.options import parse_options
from kafka_segment_source.storage.files import file_version, write_atomically
from kafka_segment_source.storage.store import NO_VERSION
from tests.cli.runner import LOGS, run
from tests.support import s3_server
from tests.support.batches import data
from tests.support.buckets import CANARY
from tests.support.logs import simple_segment
from tests.support.rows import FIXTURES
from tests.support.writer import segment_name

BUCKET = "logs"


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    """The options that lead to a bucket with the logs of the demo, and with transactions."""
    with s3_server.serving("", CANARY, is_google=True) as url:
        given = {"google_base_url": url, "google_bearer_token": CANARY, "google_allow_http": "true"}
        make_bucket(url)
        for name, root in (("kafka", LOGS), ("transactions", FIXTURES / "transactions" / "data")):
            for path in sorted(root.rglob("*")):
                if path.is_file():
                    obstore.put(client(given), f"{name}/{path.relative_to(root).as_posix()}", path.read_bytes())
        yield given


def client(given: dict[str, str]) -> GCSStore:
    config = {name: given[name] for name in ("google_base_url", "google_bearer_token")}
    return GCSStore(BUCKET, config=config, client_options={"allow_http": True})  # type: ignore[arg-type]


def make_bucket(url: str) -> None:
    headers = {"Authorization": f"Bearer {CANARY}", "Content-Type": "text/plain"}
    urllib.request.urlopen(urllib.request.Request(f"{url}/{BUCKET}", b"", headers, method="PUT")).read()


def test_rows(options: dict[str, str]) -> None:
    """The rows of the disk: within bounds, by a glob, and committed ones."""
    path = f"gs://{BUCKET}/kafka"
    expected = kafkaseg.scan(LOGS, since="2026-03-10T09:30").read_all()
    assert kafkaseg.scan(path, since="2026-03-10T09:30", storage_options=options).read_all() == expected
    found = kafkaseg.plan(f"{path}/orders-*", storage_options=options)
    assert found.segments_kept == kafkaseg.plan(f"{LOGS}/orders-*").segments_kept
    committed = kafkaseg.scan(FIXTURES / "transactions" / "data", isolationLevel="read_committed").read_all()
    url = f"gs://{BUCKET}/transactions"
    assert kafkaseg.scan(url, isolationLevel="read_committed", storage_options=options).read_all() == committed


def test_zone_maps(options: dict[str, str]) -> None:
    """They are made, left as they are, and made again where a log has grown: Google wants a generation for that."""
    path, maps = f"gs://{BUCKET}/growing/t-0", f"gs://{BUCKET}/maps"
    for at in (0, 10):
        segment = simple_segment([data(offset, 10 * offset) for offset in range(at, at + 10)])
        obstore.put(client(options), f"growing/t-0/{segment_name(at)}", segment.log)
        first, second = (kafkaseg.update_zone_maps_locally(path, maps, storage_options=options) for _ in range(2))
        assert (first.files_written, second.files_written) == (1, 0)
    plan = kafkaseg.plan(path, storage_options=options, zoneMaps=maps, since=150)
    assert plan.segments_kept == 1 and not plan.warnings


def test_a_file_that_was_written_meanwhile(options: dict[str, str]) -> None:
    """It is not replaced, whether it was there before or not."""
    path = f"gs://{BUCKET}/files/one"
    storage = parse_options({"path": path, **options})[0].source.storage
    write_atomically(path, storage, b"1", NO_VERSION)
    version = file_version(path, storage)
    with pytest.raises(FileChangedError, match="written by another process"):
        write_atomically(path, storage, b"2", NO_VERSION)
    write_atomically(path, storage, b"3", version)
    with pytest.raises(FileChangedError, match="written by another process"):
        write_atomically(path, storage, b"4", version)
    obstore.delete(client(options), "files/one")
    with pytest.raises(FileChangedError, match="written by another process"):
        write_atomically(path, storage, b"5", version)
    assert file_version(path, storage) is None


def test_an_object_that_was_written_again(options: dict[str, str]) -> None:
    """Its version is asked for: the rows are those of the new one, or an error says what is lost."""
    plan = kafkaseg.plan(f"gs://{BUCKET}/kafka/orders-1", storage_options=options)
    before = plan.to_reader(["offset"]).read_all()
    store = client(options)
    key = next(each["path"] for each in obstore.list(store, "kafka/orders-1").collect() if each["path"][-4:] == ".log")
    content = bytes(obstore.get(store, key).bytes())
    obstore.put(store, key, content)
    assert plan.to_reader(["offset"]).read_all() == before
    obstore.delete(store, key)
    with pytest.raises(FileChangedError, match="are gone"):
        plan.to_reader(["offset"]).read_all()
    obstore.put(store, key, content)


def test_faults(options: dict[str, str]) -> None:
    """No such bucket, and a wrong token, which no message shows."""
    with pytest.raises(PathError, match="there is no bucket 'nothing'"):
        kafkaseg.plan("gs://nothing/x", storage_options=options)
    wrong = options | {"google_bearer_token": "another-canary"}
    with pytest.raises(StorageError, match="does not") as caught:
        kafkaseg.plan(f"gs://{BUCKET}/kafka", storage_options=wrong)
    assert "canary" not in str(caught.value)


def test_a_command(options: dict[str, str]) -> None:
    """`kafkaseg ls` of a bucket."""
    flags = [word for name, text in options.items() for word in ("--storage-option", f"{name}={text}")]
    done = run("ls", f"gs://{BUCKET}/kafka", *flags)
    assert done.exit_code == 0 and "orders-0" in done.stdout and CANARY not in done.output
