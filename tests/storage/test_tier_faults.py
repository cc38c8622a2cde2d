"""Faults of a bucket that holds a tier: what passes is tried again, what lasts is an error, and no row is missing."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import PathError, StorageError
from tests.support import tiered_encoder as encoder
from tests.support.batches import data
from tests.support.buckets import Bucket, options_of
from tests.support.faulty_proxy import Fault, Proxy, answer, end_early, proxying, reset
from tests.support.logs import simple_log, simple_segment
from tests.support.rows import OFFSET, Row, scanned
from tests.support.tiers import TIERED

KEPT, OTHER = encoder.Names("kept"), encoder.Names("other", topic_id=bytes(range(16, 32)))
DATA = TIERED / "local-tier" / "data" / "kept-0"
MANIFESTS = rf"GET .*kept-{KEPT.id_text}/0/.*rsm-manifest"
SECONDS = 30  # for an error, on a busy machine
FAULTS: dict[str, tuple[Fault, str]] = {
    "503": (answer(503, "SlowDown"), "throttles (503 SlowDown, after 4 tries)"),
    "500": (answer(500, "InternalError"), "answered 500 InternalError, after 4 tries"),
    "403": (answer(403, "AccessDenied"), "the store does not allow it (403 AccessDenied)"),
    "404": (answer(404, "NoSuchKey"), "the store lists it, and does not have the version that it lists"),
    "reset": (reset, "broke, after 4 tries"),
    "early end": (end_early, "the connection to the store broke"),
}


@pytest.fixture
def proxy(s3_server: str) -> Iterator[Proxy]:
    with proxying(s3_server) as running:
        yield running


@pytest.fixture
def behind(bucket: Bucket, proxy: Proxy) -> Bucket:
    """The bucket as it is seen through the proxy. It has a tier with topics kept and other."""
    segments = encoder.read_segments(DATA)
    for key, each in (encoder.encode_aiven(segments, KEPT) | encoder.encode_aiven(segments[:2], OTHER)).items():
        bucket.put(f"tier/{key}", each)
    return replace(bucket, options=options_of(proxy.url))


def read(bucket: Bucket, *others: str, **options: Any) -> list[Row]:
    return scanned([f"{bucket.url}/tier", *others], storage_options=bucket.options, **options)


@pytest.fixture
def every_row(behind: Bucket) -> list[Row]:
    return read(behind)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_all_manifests_that_passes(name: str, every_row: list[Row], behind: Bucket, proxy: Proxy) -> None:
    """The first manifests get no good answer. Then a later one says the name, and every row is read."""
    proxy.fail(FAULTS[name][0], MANIFESTS, times=2 if name in ("403", "404") else 12)
    assert read(behind) == every_row


@pytest.mark.parametrize("selection", [{}, {"subscribe": "kept"}, {"subscribePattern": "k.*"}])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_all_manifests_that_lasts(
    name: str, selection: dict[str, str], behind: Bucket, proxy: Proxy
) -> None:
    """One sentence that names a manifest as the file that cannot be read, soon."""
    fault, said = FAULTS[name]
    proxy.fail(fault, MANIFESTS)
    begun = time.monotonic()
    with pytest.raises(StorageError) as caught:
        read(behind, **selection)
    assert time.monotonic() - begun < SECONDS
    text = str(caught.value)
    assert re.match(rf"file '{behind.url}/tier/kept-{KEPT.id_text}/0/.*rsm-manifest' cannot be read: ", text), text
    assert said in text and "\n" not in text, text


@pytest.mark.parametrize("name", FAULTS)
def test_another_topic_is_read(name: str, behind: Bucket, proxy: Proxy) -> None:
    """The directory's name shows that the topic is not meant."""
    expected = read(behind, subscribe="other")
    proxy.fail(FAULTS[name][0], MANIFESTS)
    assert read(behind, subscribe="other") == expected and expected


@pytest.mark.parametrize("name", ["503", "403", "404"])
@pytest.mark.parametrize("number", [0, 2, -1])
def test_one_manifest_that_lasts(number: int, name: str, behind: Bucket, proxy: Proxy) -> None:
    """It is the file that cannot be read, not a directory that cannot be listed. `ls` and `verify` say it too."""
    stem = f"{encoder.read_segments(DATA)[number].base:020d}"
    proxy.fail(FAULTS[name][0], rf"GET .*kept-.*/{stem}-.*rsm-manifest")
    for show in (kafkaseg.scan, kafkaseg.list_partitions, kafkaseg.verify):
        with pytest.raises(StorageError, match=rf"file '.*{stem}-.*rsm-manifest' cannot be read: "):
            show(f"{behind.url}/tier", storage_options=behind.options)


@pytest.mark.parametrize("name", FAULTS)
def test_a_tier_with_a_young_disk(name: str, behind: Bucket, proxy: Proxy, tmp_path: Path) -> None:
    """The disk has the newest segment alone. Its rows are never all that is returned."""
    newest = encoder.read_segments(DATA)[-1].base
    local = tmp_path / "kept-0"
    shutil.copytree(DATA, local)
    (local / "partition.metadata").write_text(f"version: 0\ntopic_id: {KEPT.id_text}")
    for path in local.iterdir():
        if path.suffix in (".log", ".index", ".timeindex") and int(path.stem) < newest:
            path.unlink()
    expected = read(behind, str(local), subscribe="kept")
    assert expected[0][OFFSET] < newest
    proxy.fail(FAULTS[name][0], MANIFESTS, times=2 if name in ("403", "404") else 12)
    assert read(behind, str(local), subscribe="kept") == expected
    proxy.fail(FAULTS[name][0], MANIFESTS)
    with pytest.raises(StorageError, match=r"rsm-manifest' cannot be read"):
        read(behind, str(local), subscribe="kept")


@pytest.mark.parametrize("name", ["503", "403", "404"])
def test_leader_epochs_that_the_store_does_not_give(name: str, bucket: Bucket, proxy: Proxy) -> None:
    """Which uploads count is not decided without them. It is an error, not the history of another leader."""
    bucket.put_tree(TIERED / "moved-tier" / "tier", "tier")
    seen = replace(bucket, options=options_of(proxy.url))
    assert read(seen)
    proxy.fail(FAULTS[name][0], "GET .*leader_epoch_checkpoint")
    with pytest.raises(StorageError, match="leader_epoch_checkpoint' cannot be read"):
        read(seen)


def test_a_copy_whose_objects_are_all_gone(bucket: Bucket, tmp_path: Path) -> None:
    """A bucket keeps no empty directory. A prefix that is gone is the same: the other copy is read, and it is said."""
    simple_log(simple_segment([data(0, 0), data(1, 10)])).write(tmp_path)
    bucket.put_tree(tmp_path, "one")
    paths = [f"{bucket.url}/one/orders-0", f"{bucket.url}/two/orders-0"]
    options = {"storage_options": bucket.options}
    for given in (paths, paths[::-1]):
        assert [row[OFFSET] for row in scanned(given, **options)] == [0, 1]
        assert any(f"{paths[1]!r} does not exist" in each for each in kafkaseg.plan(given, **options).warnings)
    with pytest.raises(PathError, match=re.escape(f"path {paths[1]!r} does not exist")):
        scanned(paths[1], **options)
    with pytest.raises(PathError, match="orders-1' does not exist"):
        scanned([paths[0], f"{bucket.url}/two/orders-1"], **options)
