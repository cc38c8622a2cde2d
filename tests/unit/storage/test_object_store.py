"""Versions of objects, of stores with and without ETags."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import obstore
import pytest
from obstore.store import MemoryStore

from kafka_segment_source.storage import object_client, object_file, object_store
from kafka_segment_source.storage.object_store import ObjectStorage
from kafka_segment_source.storage.settings import Settings
from kafka_segment_source.storage.store import ReplacedError, ServiceError

ROOT = "s3://bucket"
PATH = f"{ROOT}/orders-0/00000000000000000000.log"


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> ObjectStorage:
    monkeypatch.setattr(object_client, "_clients", {(os.getpid(), ROOT, Settings()): MemoryStore()})
    monkeypatch.setattr(object_file, "_quote", str)  # this store alone wants ETags without quotes
    found = ObjectStorage()
    found.replace(PATH, b"0123456789")
    return found


@pytest.mark.parametrize("has_e_tags", [True, False])
def test_the_condition_of_a_read_is_an_e_tag_or_nothing(
    storage: ObjectStorage, has_e_tags: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time that takes the place of an ETag is no condition that a server could meet."""
    made = object_file.version_of

    def without_e_tag(found: Any) -> Any:
        return made({**found, "e_tag": None, "last_modified": datetime(2026, 1, 1, tzinfo=UTC)})

    if not has_e_tags:
        for module in (object_store, object_file):
            monkeypatch.setattr(module, "version_of", without_e_tag)
    entry = storage.look_at(PATH)
    assert entry is not None and entry.size == 10
    assert (object_file.find_e_tag(entry.version) is not None) is has_e_tags

    with_version = storage.open(PATH, entry.version)
    assert with_version.read_at(2, 3) == b"234"
    storage.replace(PATH, b"another", entry.version)
    assert storage.open(PATH).read_at(0, 10) == b"another"


def test_without_e_tags_a_replaced_object_is_noticed_by_its_size_or_time(
    storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read never joins the bytes of two versions, also where no server can compare them."""
    changed = datetime(2026, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC)
    made = object_file.version_of

    def without_e_tag(found: Any) -> Any:
        return made({**found, "e_tag": None, "last_modified": changed})

    for module in (object_store, object_file):
        monkeypatch.setattr(module, "version_of", without_e_tag)
    entry = storage.look_at(PATH)
    assert entry is not None
    changed = changed.replace(microsecond=0)  # the header of an answer has whole seconds
    assert storage.open(PATH, entry.version).read_at(8, 2) == b"89"

    changed = changed.replace(second=9)
    with pytest.raises(ReplacedError):
        storage.open(PATH, entry.version).read_at(2, 3)

    storage.replace(PATH, bytes(200_000))
    file = storage.open(PATH)
    assert file.read_at(0, 2) == bytes(2)
    storage.replace(PATH, bytes(300_000))
    with pytest.raises(ReplacedError):
        file.read_at(150_000, 2)


def test_a_write_over_another_version_is_refused(storage: ObjectStorage) -> None:
    """Only an object that is still the one that was read is replaced."""
    entry = storage.look_at(PATH)
    assert entry is not None
    storage.replace(PATH, b"by somebody else")

    with pytest.raises(ReplacedError):
        storage.replace(PATH, b"ours", entry.version)
    assert storage.open(PATH).read_at(0, 100) == b"by somebody else"


@pytest.mark.parametrize("listed", ['"0x25"', "0x25", 'W/"0x25"'])
def test_one_version_by_all_forms_of_its_e_tag(listed: str) -> None:
    """A listing and a read may state the same ETag with quotes and without: it is one version, and If-Match has
    quotes."""
    version, read = (object_file.version_of({"size": 1, "e_tag": e_tag}) for e_tag in (listed, '"0x25"'))
    assert version == read and object_file.find_e_tag(version) == '"0x25"'


def test_a_directory_that_vanished_is_empty(storage: ObjectStorage) -> None:
    """The directory above does not name it any more. If all of a bucket is gone, no listing can prove that."""
    parent, directory = f"{ROOT}/logs", f"{ROOT}/logs/orders-1"
    storage.replace(f"{directory}/x.log", b"x")
    storage.replace(f"{parent}/orders-2/x.log", b"x")
    assert [entry.name for entry in storage.list(parent)] == ["orders-1", "orders-2"]
    store = object_client._clients[os.getpid(), ROOT, Settings()]
    obstore.delete(store, "logs/orders-1/x.log")
    assert storage.list(directory) == []
    assert storage.list(f"{ROOT}/never/there") == []
    obstore.delete(store, ["logs/orders-2/x.log", PATH.removeprefix(f"{ROOT}/")])
    assert storage.list(directory) == [] and storage.list(ROOT) == []
    with pytest.raises(ServiceError, match="nothing below it, after 4 tries"):
        storage.list(f"{parent}/orders-2")


def test_clients_are_kept_for_the_last_settings_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was used last stays. A client of the process that this one was forked from stays too."""
    of_parent = (-1, ROOT, Settings())
    monkeypatch.setattr(object_client, "_clients", {of_parent: None})
    monkeypatch.setattr(object_client, "_make_client", lambda root, settings: object())
    first = Settings((("aws_region", "first"),))
    kept = object_client.find_client(ROOT, first)
    for number in range(3 * object_client._MOST_CLIENTS):
        object_client.find_client(ROOT, Settings((("aws_region", str(number)),)))
        assert object_client.find_client(ROOT, first) is kept
    assert len(object_client._clients) == object_client._MOST_CLIENTS + 1 and of_parent in object_client._clients
