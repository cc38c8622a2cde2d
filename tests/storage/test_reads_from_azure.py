"""Logs in Azure Blob Storage, by Azurite: `make test-stores` runs these where npm is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
from obstore.store import AzureStore

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import FileChangedError, PathError, StorageError
from tests.cli.runner import LOGS, run
from tests.support.store_servers import AZURE_ACCOUNT, AZURE_KEY, serving_azurite

pytestmark = pytest.mark.skipif("azurite" not in os.environ.get("KAFKASEG_STORES", ""), reason="KAFKASEG_STORES")

CONTAINER = "logs"
TRANSACTIONS = Path(__file__).parents[1] / "fixtures" / "transactions" / "data"


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    """The options that lead to a container with the log of the demo."""
    with serving_azurite() as url:
        given = {
            "azure_storage_account_name": AZURE_ACCOUNT,
            "azure_storage_account_key": AZURE_KEY,
            "azure_storage_endpoint": url,
            "azure_allow_http": "true",
        }
        _make_container(url)
        store = _client(given)
        for path in sorted(LOGS.rglob("*")):
            if path.is_file():
                obstore.put(store, f"kafka/{path.relative_to(LOGS).as_posix()}", path.read_bytes())
        yield given


def _client(given: dict[str, str]) -> AzureStore:
    return AzureStore(CONTAINER, config=given, client_options={"allow_http": True})  # type: ignore[arg-type]


def _make_container(url: str) -> None:
    import base64  # noqa: PLC0415
    import hashlib  # noqa: PLC0415
    import hmac  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415
    from email.utils import formatdate  # noqa: PLC0415

    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    named = "".join(f"{name}:{text}\n" for name, text in sorted(headers.items()))
    text = "PUT" + "\n" * 12 + named + f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{CONTAINER}\nrestype:container"
    digest = hmac.new(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(digest).decode()}"
    request = urllib.request.Request(f"{url}/{CONTAINER}?restype=container", method="PUT", headers=headers)
    urllib.request.urlopen(request).read()


@pytest.mark.parametrize(
    "path", [f"az://{CONTAINER}/kafka", f"abfss://{CONTAINER}@{AZURE_ACCOUNT}.dfs.core.windows.net/kafka"]
)
def test_rows(path: str, options: dict[str, str]) -> None:
    """Both spellings give the rows of the disk, with a glob too."""
    expected = kafkaseg.scan(LOGS, since="2026-03-10T09:30").read_all()
    assert kafkaseg.scan(path, since="2026-03-10T09:30", storage_options=options).read_all() == expected
    found = kafkaseg.plan(f"{path}/orders-*", storage_options=options)
    assert found.segments_kept == kafkaseg.plan(f"{LOGS}/orders-*").segments_kept


def test_committed_records(options: dict[str, str]) -> None:
    """The last stable offset is looked up twice, by a listing and by reads, whose ETags have different forms."""
    url, given = f"az://{CONTAINER}/transactions", {"isolationLevel": "read_committed"}
    for path in sorted(TRANSACTIONS.rglob("*")):
        if path.is_file():
            key = f"transactions/{path.relative_to(TRANSACTIONS).as_posix()}"
            obstore.put(_client(options), key, path.read_bytes())
    expected = kafkaseg.scan(TRANSACTIONS, **given).read_all()
    assert kafkaseg.scan(url, storage_options=options, **given).read_all() == expected
    assert expected.num_rows > 0


def test_zone_maps(options: dict[str, str]) -> None:
    """They are written by conditional puts, and used."""
    path, maps = f"az://{CONTAINER}/kafka", f"az://{CONTAINER}/maps"
    first, second = (
        kafkaseg.update_zone_maps_locally(path, maps, subscribe="orders", storage_options=options) for _ in range(2)
    )
    assert (first.files_written, second.files_written) == (3, 0)


def test_a_blob_that_was_written_again(options: dict[str, str]) -> None:
    """Its version is asked for: the rows are those of the new one, or an error says what is lost."""
    plan = kafkaseg.plan(f"az://{CONTAINER}/kafka/orders-1", storage_options=options)
    before = plan.to_reader(["offset"]).read_all()
    key = next(
        each["path"]
        for each in obstore.list(_client(options), "kafka/orders-1").collect()
        if each["path"].endswith(".log")
    )
    data = bytes(obstore.get(_client(options), key).bytes())
    obstore.put(_client(options), key, data)
    assert plan.to_reader(["offset"]).read_all() == before
    obstore.delete(_client(options), key)
    with pytest.raises(FileChangedError, match="are gone"):
        plan.to_reader(["offset"]).read_all()
    obstore.put(_client(options), key, data)


def test_faults(options: dict[str, str]) -> None:
    """No such container, and a wrong key."""
    with pytest.raises(PathError, match="there is no bucket 'nothing'"):
        kafkaseg.plan("az://nothing/x", storage_options=options)
    wrong = options | {"azure_storage_account_key": "d3Jvbmc="}
    with pytest.raises(StorageError, match=r"does not (accept the credentials|allow it)"):
        kafkaseg.plan(f"az://{CONTAINER}/kafka", storage_options=wrong)


def test_a_command(options: dict[str, str], tmp_path: Path) -> None:
    """`kafkaseg ls` of a container."""
    flags = [word for name, text in options.items() for word in ("--storage-option", f"{name}={text}")]
    done = run("ls", f"az://{CONTAINER}/kafka", *flags)
    assert done.exit_code == 0 and "orders-0" in done.stdout and AZURE_KEY not in done.output
