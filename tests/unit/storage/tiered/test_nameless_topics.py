"""A tier's topic of which no manifest says the name: it is still there, and none of its records is missing in silence.

The stores are Aiven's, written by the encoder from a real broker's segments. Damage and newer versions are made here.
`tests/storage/test_tier_faults.py` has the faults of a bucket.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import (
    CorruptRecordError,
    DataError,
    OptionError,
    PathError,
    StorageError,
    UnsupportedFormatError,
)
from kafka_segment_source.storage.store import LocalStorage
from tests.cli.runner import run
from tests.support import tiered_encoder as encoder
from tests.support.rows import OFFSET, TOPIC, Row, read_answer, scanned
from tests.support.tiers import TIERED

DATA = TIERED / "local-tier" / "data" / "kept-0"
KEPT, OTHER = encoder.Names("kept"), encoder.Names("other", topic_id=bytes(range(16, 32)))
SHOWN = f"kept-{KEPT.id_text}"
SMALL = 16  # more manifests than a fixed number of tries may look at

Change = Callable[[Path], object]


def cut(manifest: Path) -> None:
    manifest.write_bytes(manifest.read_bytes()[:100])


def make_newer(manifest: Path) -> None:
    manifest.write_text(manifest.read_text().replace('"version":"1"', '"version":"2"'))


def enlarge(manifest: Path) -> None:
    manifest.write_bytes(b" " * (4 * 1024 * 1024 + 1))


def misname(manifest: Path) -> None:
    manifest.write_text(manifest.read_text().replace('"kept"', '"sept"'))


@pytest.fixture(scope="module")
def segments() -> list[encoder.LocalSegment]:
    return encoder.read_segments(DATA)


@pytest.fixture(scope="module")
def every_row() -> list[Row]:
    """All rows of topic kept."""
    return [
        row for row in read_answer(TIERED / "local-tier" / "expected.read_uncommitted.parquet") if row[TOPIC] == "kept"
    ]


@pytest.fixture
def store(segments: list[encoder.LocalSegment], tmp_path: Path) -> Path:
    """Two topics, of five segments and of two."""
    objects = encoder.encode_aiven(segments, KEPT) | encoder.encode_aiven(segments[:2], OTHER)
    return encoder.write_objects(objects, tmp_path / "store")


def manifests_of(store: Path, topic: str = "kept", partition: int = 0) -> list[Path]:
    return sorted(store.glob(f"{topic}-*/{partition}/*.rsm-manifest"))


def hurt(store: Path, change: Change, topic: str = "kept", partition: int = 0) -> None:
    for manifest in manifests_of(store, topic, partition):
        change(manifest)


def rows_in(segments: list[encoder.LocalSegment], every_row: list[Row]) -> list[Row]:
    return [row for row in every_row if row[OFFSET] <= segments[-1].end]


DAMAGE = [
    (cut, CorruptRecordError, "manifest that is no JSON"),
    (make_newer, UnsupportedFormatError, "manifest of an unknown version"),
    (enlarge, CorruptRecordError, "manifest that is too large"),
    (misname, CorruptRecordError, "manifest of another topic than its name says"),
]
IDS = ["cut", "newer", "large", "misnamed"]


@pytest.mark.parametrize("options", [{}, {"subscribe": "kept"}, {"assign": {"kept": [0]}}, {"subscribePattern": "k.*"}])
@pytest.mark.parametrize(("change", "kind", "said"), DAMAGE, ids=IDS)
def test_all_manifests_of_a_topic(
    change: Change, kind: type[DataError], said: str, options: dict[str, Any], store: Path
) -> None:
    """Wherever a selection could mean the topic, the read ends with the documented error, which names its object."""
    hurt(store, change)
    with pytest.raises(kind, match=f"{said}.*{SHOWN}/0/.*rsm-manifest"):
        scanned(store, **options)


@pytest.mark.parametrize("options", [{"subscribe": "other"}, {"assign": {"other": [0]}}, {"subscribePattern": "o.*r"}])
def test_a_selection_that_cannot_mean_it(options: dict[str, Any], store: Path) -> None:
    """The other topic is read, and nothing is said."""
    expected = scanned(store, **options)
    hurt(store, cut)
    assert scanned(store, **options) == expected and expected
    assert not kafkaseg.plan(store, **options).warnings


def test_assign_of_another_partition(segments: list[encoder.LocalSegment], store: Path) -> None:
    """The number of a partition is known without a manifest."""
    hurt(store, cut)
    with pytest.raises(OptionError, match=f"names partition kept-1, but the path holds '{SHOWN}-0'"):
        scanned(store, assign={"kept": [1]})


def test_dropmalformed_says_what_it_drops(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The rows of the other topic, and a warning for each segment that is skipped."""
    expected = scanned(store, subscribe="other")
    hurt(store, cut)
    caplog.clear()
    assert scanned(store, mode="DROPMALFORMED") == expected
    assert sum("skipped" in each and SHOWN in each for each in caplog.messages) == len(manifests_of(store))


@pytest.mark.parametrize(("change", "kind", "said"), DAMAGE, ids=IDS)
def test_what_shows_the_topic(change: Change, kind: type[DataError], said: str, store: Path) -> None:
    """`ls`, `plan` and `verify` have it by its topic id."""
    hurt(store, change)
    listing = kafkaseg.list_partitions(store)
    assert [each.topic for each in listing.partitions] == [SHOWN, "other"]
    for warnings in (listing.warnings, kafkaseg.plan(store).warnings):
        [warning] = warnings
        assert f"the name of topic id {KEPT.id_text} is not known" in warning and SHOWN in warning
    report = kafkaseg.verify(store)
    problems = [finding for each in report.partitions for finding in each.problems]
    assert len(problems) == len(manifests_of(store))
    assert all(said in finding.what and finding.path.endswith(".rsm-manifest") for finding in problems)
    answered = run("verify", str(store))
    assert answered.exit_code != 0 and KEPT.id_text in answered.stdout


@pytest.mark.parametrize("broken", [1, SMALL, SMALL + 3])
def test_the_first_manifests_are_broken(broken: int, segments: list[encoder.LocalSegment], tmp_path: Path) -> None:
    """One manifest that can be read is enough for the name, wherever it is."""
    many = [
        encoder.LocalSegment(base=1000 * at, end=1000 * at + 999, log=segments[0].log) for at in range(1, SMALL + 4)
    ]
    store = encoder.write_objects(encoder.encode_aiven([*many, segments[0]], KEPT), tmp_path)
    last = manifests_of(store)[broken:]
    for manifest in manifests_of(store)[:broken]:
        cut(manifest)
    listed = kafkaseg.list_partitions(store).partitions
    assert [each.topic for each in listed] == ["kept" if last else SHOWN]
    with pytest.raises(CorruptRecordError, match="manifest that is no JSON"):
        scanned(store, subscribe="kept")


@pytest.mark.parametrize("hurt_partition", [0, 1])
def test_another_partition_says_the_name(
    hurt_partition: int, segments: list[encoder.LocalSegment], tmp_path: Path
) -> None:
    """The partition whose manifests are all broken has the topic's name, and its segments are damaged."""
    one = encoder.Names("kept", 1, KEPT.topic_id)
    store = encoder.write_objects(
        encoder.encode_aiven(segments, KEPT) | encoder.encode_aiven(segments, one), tmp_path / "store"
    )
    whole = scanned(store)
    hurt(store, cut, partition=hurt_partition)
    with pytest.raises(CorruptRecordError, match=rf"kept-[^/]+/{hurt_partition}/.*\.rsm-manifest"):
        scanned(store)
    assert scanned(store, mode="DROPMALFORMED") == [row for row in whole if row[1] != hurt_partition]
    names = [each.name for each in kafkaseg.list_partitions(store).partitions]
    assert names == ["kept-0", "kept-1"]


@pytest.mark.parametrize("begin", [0, -1])
def test_a_disk_beside_the_tier_says_the_name(
    begin: int, segments: list[encoder.LocalSegment], every_row: list[Row], store: Path, tmp_path: Path
) -> None:
    """Its topic id is the tier's. What it holds whole is read from it, what only the tier has is damage."""
    local = tmp_path / "local"
    shutil.copytree(DATA, local / "kept-0")
    (local / "kept-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {KEPT.id_text}")
    for path in (local / "kept-0").iterdir():
        if path.suffix in (".log", ".index", ".timeindex") and int(path.stem) < segments[begin].base:
            path.unlink()
    hurt(store, cut)
    assert [each.name for each in kafkaseg.list_partitions([store, local]).partitions] == [
        "kept-0",
        "kept-0",
        "other-0",
    ]
    if begin == 0:
        assert scanned([store, local], subscribe="kept") == every_row
        return
    with pytest.raises(CorruptRecordError, match=r"manifest that is no JSON .*no copy holds the offsets 0 to 95 whole"):
        scanned([store, local], subscribe="kept")
    found = scanned([store, local], subscribe="kept", mode="DROPMALFORMED", failOnDataLoss=False)
    assert found == [row for row in every_row if row[OFFSET] >= segments[begin].base]


def test_the_option_topic_says_the_name(store: Path) -> None:
    hurt(store, cut)
    path = store / SHOWN / "0"
    [each] = kafkaseg.list_partitions(path, topic="kept").partitions
    assert each.name == "kept-0"
    with pytest.raises(CorruptRecordError, match="manifest that is no JSON"):
        scanned(path, topic="kept")


def test_offsets_of_the_topic_by_its_name(store: Path) -> None:
    """Options that name the partition cannot be applied to it. That is an error too."""
    starts = json.dumps({"kept": {"0": 100}})
    assert scanned(store, subscribe="kept", startingOffsets=starts)
    hurt(store, cut)
    with pytest.raises((OptionError, CorruptRecordError), match=KEPT.id_text):
        scanned(store, subscribe="kept", startingOffsets=starts)


def test_a_topic_without_a_whole_segment(store: Path) -> None:
    """It holds no data, as its first upload may be under way: it is said, and the other topic is read."""
    expected = scanned(store, subscribe="other")
    hurt(store, Path.unlink)
    assert scanned(store) == expected
    [warning, unfinished] = kafkaseg.plan(store).warnings
    assert "is missing" in unfinished and KEPT.id_text in warning and "no segment of it has a manifest" in warning
    with pytest.raises(OptionError, match="names topic 'kept', but the path holds"):
        scanned(store, subscribe="kept")


# --- storages that fail on a machine ----------------------------------------------------------------------------------


class FailingStorage:
    """Fails to open the manifests of a topic, or to list a directory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: OSError, part: str, times: int = 10**9) -> None:
        self.left = times
        opens, lists = LocalStorage.open, LocalStorage.list

        def fail(path: str) -> None:
            if part in path and self.left:
                self.left -= 1
                raise error

        def open_file(storage: LocalStorage, path: str, version: Any = None) -> Any:
            fail(path)
            return opens(storage, path, version)

        def list_files(storage: LocalStorage, directory: str) -> Any:
            fail(f"{directory}/")
            return lists(storage, directory)

        monkeypatch.setattr(LocalStorage, "open", open_file)
        monkeypatch.setattr(LocalStorage, "list", list_files)


def test_a_disk_that_fails(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A StorageError that names a manifest, and no word about a listing. Another topic is read."""
    expected = scanned(store, subscribe="other")
    FailingStorage(monkeypatch, OSError(5, "Input/output error"), f"{SHOWN}/0/0")
    for options in ({}, {"subscribe": "kept"}, {"subscribePattern": "kept"}):
        with pytest.raises(StorageError, match=r"file '.*rsm-manifest' cannot be read: Input/output error"):
            scanned(store, **options)
    for show in (kafkaseg.list_partitions, kafkaseg.verify, kafkaseg.plan):
        with pytest.raises(StorageError, match=r"\.rsm-manifest' cannot be read"):
            show(store)
    assert scanned(store, subscribe="other") == expected


@pytest.mark.parametrize("times", [1, 3])
def test_a_disk_that_fails_for_a_moment(
    times: int, store: Path, segments: list[encoder.LocalSegment], every_row: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later manifest says the name, and all can be read by then."""
    FailingStorage(monkeypatch, OSError(5, "Input/output error"), f"{SHOWN}/0/0", times)
    assert scanned(store, subscribe="kept") == rows_in(segments, every_row)


def test_a_directory_that_cannot_be_searched(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hold a tier, so it is not passed over."""
    (tmp_path / "archive").mkdir()
    (tmp_path / "lost+found").mkdir()
    FailingStorage(monkeypatch, OSError(13, "Permission denied"), "/lost+found/")
    assert scanned(tmp_path)
    FailingStorage(monkeypatch, OSError(13, "Permission denied"), "/archive/")
    with pytest.raises(StorageError, match=r"path '.*/archive' cannot be listed: Permission denied"):
        scanned(tmp_path)


@pytest.mark.parametrize("layout", ["aiven", "local"])
def test_objects_that_vanish_while_they_are_listed(
    layout: str,
    segments: list[encoder.LocalSegment],
    every_row: list[Row],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are listed again. What is still there is read, and nothing of it is left out."""
    encode = encoder.encode_aiven if layout == "aiven" else encoder.encode_local_tier
    store = encoder.write_objects(encode(segments, KEPT), tmp_path)
    part = ".rsm-manifest" if layout == "aiven" else ".leader_epoch_checkpoint"
    FailingStorage(monkeypatch, FileNotFoundError(2, "No such file or directory"), part, 7)
    assert scanned(store) == rows_in(segments, every_row)


def test_a_directory_without_tier_objects_is_no_topic(tmp_path: Path) -> None:
    """Its name may end like one with a topic id."""
    (tmp_path / SHOWN / "0").mkdir(parents=True)
    (tmp_path / SHOWN / "0" / "notes.txt").write_text("no segment")
    with pytest.raises(PathError, match="holds no log segments"):
        scanned(tmp_path)
