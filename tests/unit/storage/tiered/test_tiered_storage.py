"""tiered/: remote tiers of real brokers and of the encoder, read as partition directories."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import (
    CorruptRecordError,
    DataLossError,
    OptionError,
    PathError,
    StorageError,
    UnsupportedFormatError,
)
from kafka_segment_source.options import parse_options
from kafka_segment_source.storage.store import FileVersion, LocalStorage, OpenFile, _LocalFile
from kafka_segment_source.storage.tiered.chunks import KEPT
from tests.cli.runner import run
from tests.support import tiered_encoder as encoder
from tests.support.rows import COLUMNS, OFFSET, TIMESTAMP, TOPIC, Row, in_scan_order, read_answer, scanned
from tests.support.tiers import AIVEN_STORES, KEY_FILE, KEYS, TIERED, read_rows, unpack_local

TIERED_KEYS = {name: str(path) for name, path in KEYS.items()}
PEM = KEY_FILE.read_bytes()
LOCAL_TIER = TIERED / "local-tier"
MOVED_TIER = TIERED / "moved-tier"
ANY = ".*"


@pytest.fixture(autouse=True)
def _without_kept_chunks() -> None:
    """No test reads what another one has decoded."""
    KEPT.clear()


def rows_of(name: str, isolation: str = "read_uncommitted") -> list[Row]:
    """What a consumer would see of all topics of a store and of the log beside it."""
    topics = ["ledger", "orders"] if name == "aiven-zstd" else ["ledger"]
    return [row for topic in topics for row in read_rows(name, topic, isolation)]


def below(rows: list[Row], end: dict[str, int]) -> list[Row]:
    """The rows below the end of the tier of each topic."""
    return [row for row in rows if row[OFFSET] < end[row[TOPIC]]]


def keys_for(name: str) -> dict[str, Any]:
    return {"tieredKeys": TIERED_KEYS} if name == "aiven-encrypted" else {}


# ---- real stores ----

ENDS = {"orders": 27167, "ledger": 11010}


@pytest.mark.parametrize("name", AIVEN_STORES)
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_store_of_aivens_plugin(name: str, isolation: str) -> None:
    """Its rows are those of the broker's log up to its end."""
    found = scanned(AIVEN_STORES[name], isolationLevel=isolation, **keys_for(name))
    ends = ENDS if isolation == "read_uncommitted" else ENDS | {"ledger": 10010}  # a transaction is open at the end
    assert found == below(rows_of(name, isolation), ends)


@pytest.mark.parametrize("name", AIVEN_STORES)
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_store_and_the_newest_local_segments(name: str, isolation: str, tmp_path: Path) -> None:
    """The log is whole if the local directory has only what the tier lacks, in any order of the paths."""
    local = unpack_local(name, tmp_path)
    for topic, end in ENDS.items():
        for path in (local / f"{topic}-0").glob("*"):
            if path.stem.isdigit() and int(path.stem) < end:
                path.unlink()
    paths = [AIVEN_STORES[name], local]
    rows = rows_of(name, isolation)
    assert scanned(paths, isolationLevel=isolation, **keys_for(name)) == rows
    assert scanned(paths[::-1], isolationLevel=isolation, **keys_for(name)) == rows
    plan = kafkaseg.plan(paths, **keys_for(name))
    assert not [warning for warning in plan.warnings if "is found in 2 directories" not in warning]


@pytest.mark.parametrize("below_root", ["", "pre", "pre/*", "pre/*/0", "pre/fix-orders-*", "pre/*orders*/*"])
def test_a_tier_is_found_from_any_path(below_root: str) -> None:
    """The root of the store, its prefix, and the directories of a topic and of a partition, by names and by globs."""
    plan = kafkaseg.plan(AIVEN_STORES["aiven-zstd"] / below_root, subscribe="orders")
    assert [split.start_offset for split in plan.splits] == [0, 9037, 18110]


def test_a_real_broker_with_local_tiered_storage() -> None:
    """A consumer's rows: transactions, leader epochs, a newest part on the disk alone, and a topic made again."""
    for isolation in ("read_uncommitted", "read_committed"):
        answer = read_answer(LOCAL_TIER / f"expected.{isolation}.parquet")
        paths = [LOCAL_TIER / "tier", LOCAL_TIER / "data"]
        assert scanned(paths, isolationLevel=isolation) == answer


@pytest.mark.parametrize("brokers", [["broker-2"], ["broker-3"], ["broker-2", "broker-3"], []])
def test_overlapping_uploads_of_leaders_of_which_one_was_fenced(brokers: list[str]) -> None:
    """Each offset is that of the history which the leader epochs tell, with the local log and without."""
    answer = read_answer(MOVED_TIER / "expected.each_offset.parquet")
    found = scanned([MOVED_TIER / "tier", *(MOVED_TIER / name for name in brokers)])
    assert found == (answer if brokers else [row for row in answer if row[OFFSET] < 484])


@pytest.mark.parametrize("seed", range(8))
def test_bounds_over_tier_and_disk(seed: int) -> None:
    """Random bounds by offset and by time give the rows inside them."""
    chance = random.Random(seed)
    answer = read_answer(LOCAL_TIER / "expected.read_uncommitted.parquet")
    rows = [row for row in answer if row[TOPIC] == "plain"]
    paths = [LOCAL_TIER / "tier", LOCAL_TIER / "data"]
    first, last = sorted(chance.sample(range(len(rows)), 2))
    offsets = rows[first][OFFSET], rows[last][OFFSET]
    found = scanned(
        paths,
        subscribe="plain",
        startingOffsets={"plain": {"0": offsets[0]}},
        endingOffsets={"plain": {"0": offsets[1]}},
    )
    assert found == rows[first:last]
    times = sorted((rows[first][TIMESTAMP], rows[last][TIMESTAMP]))
    found = scanned(paths, subscribe="plain", since=times[0], until=times[1])
    assert found == [row for row in rows if times[0] <= row[TIMESTAMP] < times[1]]


# ---- what the encoder makes ----

NAMES = encoder.Names("kept", 0, bytes(range(100, 116)))


@pytest.fixture(scope="module")
def segments() -> list[encoder.LocalSegment]:
    """The segments of `kept-0`, which a real broker wrote: several leader epochs."""
    return encoder.read_segments(LOCAL_TIER / "data" / "kept-0", active=True)


@pytest.fixture(scope="module")
def kept_rows() -> list[Row]:
    return [row for row in read_answer(LOCAL_TIER / "expected.read_uncommitted.parquet") if row[TOPIC] == "kept"]


CONFIGS = [
    encoder.AivenConfig(),
    encoder.AivenConfig(prefix="a/b/c-", chunk_size=999),
    encoder.AivenConfig(index="variable"),
    encoder.AivenConfig(compression=True, chunk_size=700),
    encoder.AivenConfig(key=("key1", PEM)),
    encoder.AivenConfig(compression=True, key=("key1", PEM), chunk_size=100_000),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_every_configuration(
    config: encoder.AivenConfig, segments: list[encoder.LocalSegment], kept_rows: list[Row], tmp_path: Path
) -> None:
    """Chunks of any size, compressed or encrypted or both, with either kind of chunk index, below any prefix."""
    store = encoder.write_objects(encoder.encode_aiven(segments, NAMES, config), tmp_path)
    assert scanned(store, tieredKeys=TIERED_KEYS) == kept_rows
    ordered = scanned(store, tieredKeys=TIERED_KEYS, startingOffsets={"kept": {"0": 200}}, maxRecordsPerPartition=7)
    assert ordered == kept_rows[200:]


def test_pinterests_layout(segments: list[encoder.LocalSegment], kept_rows: list[Row], tmp_path: Path) -> None:
    """It is Kafka's own below a prefix, of several parts or none; its two other files are no data."""
    for entropy in (0, 3):
        objects = encoder.encode_pinterest(segments, encoder.Names("kept"), entropy=entropy)
        store = encoder.write_objects(objects, tmp_path / str(entropy))
        for path in (store, store / "tier"):
            assert scanned(path) == kept_rows
    assert scanned(tmp_path / "0" / "tier" / "main") == kept_rows


def test_a_segment_that_was_uploaded_twice(
    segments: list[encoder.LocalSegment], kept_rows: list[Row], tmp_path: Path
) -> None:
    """Every offset comes once, and `plan` says which directory is read for which."""
    objects = encoder.encode_aiven(segments, NAMES) | encoder.encode_aiven(
        segments[1:3], NAMES, encoder.AivenConfig(seed=1)
    )
    store = encoder.write_objects(objects, tmp_path)
    assert scanned(store) == kept_rows
    assert any("found in 2 directories" in each for each in kafkaseg.plan(store).warnings)


@pytest.mark.parametrize("suffix", ["rsm-manifest", "log"])
def test_an_unfinished_upload_is_no_data(
    suffix: str, segments: list[encoder.LocalSegment], kept_rows: list[Row], tmp_path: Path
) -> None:
    """A segment of which an object is missing is not read, and `ls` says so."""
    store = encoder.write_objects(encoder.encode_aiven(segments, NAMES), tmp_path)
    [last] = store.rglob(f"{segments[-1].base:020d}-*.{suffix}")
    last.unlink()
    assert scanned(store) == [row for row in kept_rows if row[OFFSET] < segments[-1].base]
    [said] = kafkaseg.list_partitions(store).warnings
    assert f"the objects of segment {segments[-1].base:020d}-" in said and "no data" in said
    report = kafkaseg.verify(store)
    assert [finding.what for each in report.partitions for finding in each.notes] == [said]


@pytest.mark.parametrize("suffix", ["log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint"])
def test_an_unfinished_upload_to_local_tiered_storage(
    suffix: str, segments: list[encoder.LocalSegment], kept_rows: list[Row], tmp_path: Path
) -> None:
    """It is the same where no manifest marks what is whole."""
    store = encoder.write_objects(encoder.encode_local_tier(segments, NAMES), tmp_path)
    assert scanned(store) == kept_rows
    [last] = store.rglob(f"{segments[-1].base:020d}-*.{suffix}")
    last.unlink()
    assert scanned(store) == [row for row in kept_rows if row[OFFSET] < segments[-1].base]


@pytest.mark.parametrize("number", [0, 2, -1])
def test_an_upload_without_its_index_files(
    number: int, segments: list[encoder.LocalSegment], kept_rows: list[Row], tmp_path: Path
) -> None:
    """The manifest, which is written last, says that the `.log` is whole. So its records are read, and `verify` says
    what is missing."""
    store = encoder.write_objects(encoder.encode_aiven(segments, NAMES), tmp_path)
    [indexes] = store.rglob(f"{segments[number].base:020d}-*.indexes")
    indexes.unlink()
    assert scanned(store) == kept_rows
    problems = kafkaseg.verify(store).problems
    assert (str(indexes), "is missing, although") in {(each.path, each.what[:20]) for each in problems}


@pytest.mark.parametrize("number", [0, 2, -1])
@pytest.mark.parametrize("layout", ["manifest", "log", "log of LocalTieredStorage"])
def test_an_object_without_bytes(
    layout: str, number: int, segments: list[encoder.LocalSegment], kept_rows: list[Row], tmp_path: Path
) -> None:
    """It is damage, as any other cut is: neither a shorter log nor an upload that is under way."""
    is_local = layout.endswith("Storage")
    encode = encoder.encode_local_tier if is_local else encoder.encode_aiven
    store = encoder.write_objects(encode(segments, NAMES), tmp_path)
    suffix = "rsm-manifest" if layout == "manifest" else "log"
    [emptied] = store.rglob(f"{segments[number].base:020d}-*.{suffix}")
    emptied.write_bytes(b"")
    with pytest.raises(CorruptRecordError) as caught:
        scanned(store)
    assert caught.value.path == str(emptied)
    start = segments[number].base
    end = 2**63 if number == -1 else segments[number + 1].base if number >= 0 else 0
    others = [row for row in kept_rows if not start <= row[OFFSET] < end]
    assert scanned(store, mode="DROPMALFORMED", failOnDataLoss=False) == others
    assert str(emptied) in {problem.path for problem in kafkaseg.verify(store).problems}


def test_a_missing_segment_is_data_loss(
    segments: list[encoder.LocalSegment], kept_rows: list[Row], tmp_path: Path
) -> None:
    """A segment in the middle that is gone is an error, and a warning under failOnDataLoss=false."""
    store = encoder.write_objects(encoder.encode_aiven(segments, NAMES), tmp_path)
    for path in store.rglob(f"{segments[2].base:020d}-*"):
        path.unlink()
    with pytest.raises(
        DataLossError, match=f"offsets {segments[2].base} to {segments[3].base - 1} of partition kept-0"
    ):
        scanned(store)
    others = [row for row in kept_rows if not segments[2].base <= row[OFFSET] < segments[3].base]
    assert scanned(store, failOnDataLoss=False) == others


def test_a_topic_that_was_made_again(
    segments: list[encoder.LocalSegment], kept_rows: list[Row], tmp_path: Path
) -> None:
    """Two ids are two topics: an error names both, a path of one and a local directory pick one."""
    other = encoder.Names("kept", 0, bytes(16))
    store = encoder.write_objects(
        encoder.encode_aiven(segments, NAMES) | encoder.encode_aiven(segments[:1], other), tmp_path / "store"
    )
    with pytest.raises(OptionError) as caught:
        scanned(store)
    assert NAMES.id_text in str(caught.value) and other.id_text in str(caught.value)
    assert scanned(store / f"kept-{NAMES.id_text}") == kept_rows
    local = tmp_path / "local"
    shutil.copytree(LOCAL_TIER / "data" / "kept-0", local / "kept-0")
    (local / "kept-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {NAMES.id_text}")
    assert scanned([store, local]) == kept_rows
    assert any(other.id_text in each for each in kafkaseg.plan([store, local]).warnings)
    assert {each.directory.split("/")[-4] for each in kafkaseg.list_partitions(store).partitions} == {
        f"kept-{NAMES.id_text}",
        f"kept-{other.id_text}",
    }
    (local / "kept-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {other.id_text}")
    with pytest.raises(PathError, match="are different topics of one name"):
        scanned([store / f"kept-{NAMES.id_text}", local])


@pytest.mark.parametrize("partitions", [[0], [0, 1]])
def test_verify_and_ls_leave_a_deleted_topic_alone(
    segments: list[encoder.LocalSegment], partitions: list[int], tmp_path: Path
) -> None:
    """Where a local directory says which topic of the name is meant, verify and ls tell of what a read reads. Otherwise
    they say what the read says."""
    topic_id = bytes(range(16))
    store, local = tmp_path / "store", tmp_path / "local"
    for number in partitions:
        for own, uploaded in ((topic_id, segments[:-1]), (bytes(16), segments[1:2])):
            names = encoder.Names("kept", number, own)
            encoder.write_objects(encoder.encode_aiven(uploaded, names), store)
    shutil.copytree(LOCAL_TIER / "data" / "kept-0", local / "kept-0")
    kept_id = encoder.Names("kept", 0, topic_id).id_text
    (local / "kept-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {kept_id}")
    assert scanned([store, local]) and kafkaseg.verify([store, local]).problems == ()
    listing = kafkaseg.list_partitions([store, local])
    assert not [warning for warning in listing.warnings if "not possible" in warning]
    read_ids = {
        each.directory.split("/")[-4] for each in listing.partitions if each.read != () and "@" in each.directory
    }
    assert read_ids <= {f"kept-{kept_id}"} and all(each.read is not None for each in listing.partitions)
    [problem, *_] = kafkaseg.verify(store).problems
    assert "are different topics of one name" in problem.what
    path = next(store.rglob(f"kept-{kept_id}/0/{segments[2].base:020d}-*.log"))
    path.write_bytes(path.read_bytes()[:-1])
    assert any(each.path.endswith(path.name) for each in kafkaseg.verify([store, local]).notes)


def test_a_local_log_start_holds_for_the_tier(
    segments: list[encoder.LocalSegment], kept_rows: list[Row], tmp_path: Path
) -> None:
    """Records that were deleted by kafka-delete-records do not come back from the tier."""
    store = encoder.write_objects(encoder.encode_aiven(segments[:4], NAMES), tmp_path / "store")
    local = tmp_path / "local"
    shutil.copytree(LOCAL_TIER / "data" / "kept-0", local / "kept-0")
    (local / "kept-0" / "partition.metadata").unlink()
    (local / "log-start-offset-checkpoint").write_text("0\n1\nkept 0 150\n")
    (local / "replication-offset-checkpoint").write_text("0\n1\nkept 0 500\n")
    assert scanned([store, local]) == [row for row in kept_rows if row[OFFSET] >= 150]
    bounded = [row for row in kept_rows if 150 <= row[OFFSET] < 500]
    assert scanned([store, local], endAt="highWatermark") == bounded


# ---- damage ----

Change = Callable[[Path, Path, Path], None]
"""Hurts one segment: its log, its indexes, its manifest."""


def flip(log: Path, indexes: Path, manifest: Path) -> None:
    """One bit in the third chunk."""
    data = bytearray(log.read_bytes())
    data[2 * 1024 + 300] ^= 1
    log.write_bytes(data)


def cut(log: Path, indexes: Path, manifest: Path) -> None:
    """The object ends in its third chunk."""
    log.write_bytes(log.read_bytes()[: 2 * 1024 + 300])


def edit(**fields: Any) -> Change:
    """Other values in the manifest."""

    def change(log: Path, indexes: Path, manifest: Path) -> None:
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | fields))

    return change


def garble(log: Path, indexes: Path, manifest: Path) -> None:
    """A manifest that is no JSON."""
    manifest.write_text("{")


def hurt_store(segments: list[encoder.LocalSegment], change: Change, root: Path, number: int = 2) -> Path:
    """A store of encrypted chunks whose segment `number` is hurt."""
    config = encoder.AivenConfig(chunk_size=1024, key=("key1", PEM))
    store = encoder.write_objects(encoder.encode_aiven(segments, NAMES, config), root)
    base = f"{segments[number].base:020d}"
    change(*(next(store.rglob(f"{base}-*.{suffix}")) for suffix in ("log", "indexes", "rsm-manifest")))
    return store


DAMAGE = [
    (flip, "chunk 2 .*found bytes that fail their authentication"),
    (cut, "chunk 2 .*found 244 bytes before the end of the object, expected 1052 bytes"),
    (garble, r"manifest that is no JSON in .*\.rsm-manifest"),
    (edit(compression=True), "chunk 0 .*found bytes that do not decompress"),
    (edit(compression=None), "manifest with a wrong compression in .*found nothing, expected a bool"),
]


@pytest.mark.parametrize(("change", "said"), DAMAGE, ids=["flip", "cut", "garble", "compression", "nothing"])
def test_damage_is_an_error_with_the_objects_name(
    change: Change, said: str, segments: list[encoder.LocalSegment], kept_rows: list[Row], tmp_path: Path
) -> None:
    """It ends a query, is skipped under DROPMALFORMED, is read from a copy, and is found by `verify`."""
    store = hurt_store(segments, change, tmp_path / "store")
    base, after = segments[2].base, segments[3].base
    with pytest.raises(CorruptRecordError, match=said) as caught:
        scanned(store, tieredKeys=TIERED_KEYS)
    assert f"/{base:020d}-" in caught.value.path and "tier@" not in str(caught.value)
    others = [row for row in kept_rows if not base <= row[OFFSET] < after]
    found = scanned(store, tieredKeys=TIERED_KEYS, mode="DROPMALFORMED")
    assert [row for row in found if not base <= row[OFFSET] < after] == others
    assert len(others) <= len(found) < len(kept_rows)
    assert all(row in kept_rows for row in found)
    local = tmp_path / "local"
    shutil.copytree(LOCAL_TIER / "data" / "kept-0", local / "kept-0")
    (local / "kept-0" / "partition.metadata").unlink()
    assert scanned([store, local], tieredKeys=TIERED_KEYS) == kept_rows
    problems = [each for one in kafkaseg.verify(store, tieredKeys=TIERED_KEYS).partitions for each in one.problems]
    assert problems and all(f"/{base:020d}-" in each.path for each in problems)


@pytest.mark.parametrize("config", [encoder.AivenConfig(), encoder.AivenConfig(compression=True)])
def test_the_end_of_a_tier_is_never_torn(
    config: encoder.AivenConfig, segments: list[encoder.LocalSegment], kept_rows: list[Row], tmp_path: Path
) -> None:
    """Its last segment was rolled. So bytes that may end a broker's log are damage here, and missing ones are loss."""
    last = segments[-1]
    size = int.from_bytes(last.log[8:12], "big") + 12  # of the first batch
    logs = {
        "cut": (last.log[:size], DataLossError, "and its manifest states that it holds 509"),
        "torn": (last.log[: size + 30], CorruptRecordError, "batch cut short"),
        "zeros": (last.log[:size] + bytes(500), CorruptRecordError, "zeros where a batch should be"),
    }
    local = [*segments[:-1], replace(last, log=logs["torn"][0])]
    with pytest.raises(CorruptRecordError, match="batch cut short"):
        scanned(encoder.write_objects(encoder.encode_local_tier(local, NAMES), tmp_path / "local"))
    for name, (log, kind, said) in logs.items():
        made = encoder.encode_aiven([*segments[:-1], replace(last, log=log)], NAMES, config)
        store = encoder.write_objects(made, tmp_path / name)
        with pytest.raises(kind, match=said):
            scanned(store)
        found = scanned(store, mode="DROPMALFORMED", failOnDataLoss=False)
        assert kept_rows[: last.base] < found < kept_rows


@pytest.mark.parametrize(
    "change", [edit(version="2"), edit(segmentFormat="iceberg")], ids=["newer version", "another format"]
)
def test_what_a_newer_plugin_wrote_is_refused_in_every_mode(
    change: Change, segments: list[encoder.LocalSegment], tmp_path: Path
) -> None:
    """It is no damage, so DROPMALFORMED does not skip it."""
    store = hurt_store(segments, change, tmp_path)
    for mode in ("FAILFAST", "DROPMALFORMED"):
        with pytest.raises(UnsupportedFormatError, match=r"in .*\.rsm-manifest"):
            scanned(store, tieredKeys=TIERED_KEYS, mode=mode)


def test_an_object_that_is_gone(segments: list[encoder.LocalSegment], kept_rows: list[Row], tmp_path: Path) -> None:
    """Planned, then deleted: offsets that are lost (failOnDataLoss)."""
    store = hurt_store(segments, edit(), tmp_path)
    plans = [kafkaseg.plan(store, tieredKeys=TIERED_KEYS, failOnDataLoss=fails) for fails in (True, False)]
    KEPT.clear()
    for path in store.rglob(f"{segments[2].base:020d}-*"):
        path.unlink()
    with pytest.raises(DataLossError, match=rf"'[^']*/{segments[2].base:020d}-[^']*\.log'.* is gone now"):
        plans[0].to_reader().read_all()
    assert plans[1].to_reader().read_all().num_rows < len(kept_rows)


def test_an_object_that_was_replaced(
    segments: list[encoder.LocalSegment], kept_rows: list[Row], tmp_path: Path
) -> None:
    """Objects of a tier never change. Where one did after planning, the task finds its offsets again."""
    store = hurt_store(segments, edit(), tmp_path / "store")
    other = hurt_store(segments, edit(), tmp_path / "other")
    plan = kafkaseg.plan(store, tieredKeys=TIERED_KEYS)
    KEPT.clear()
    shutil.rmtree(store)
    config = encoder.AivenConfig(compression=True, chunk_size=300)
    encoder.write_objects(encoder.encode_aiven(segments, NAMES, config), store)
    assert in_scan_order(plan.to_reader(COLUMNS).read_all()) == kept_rows
    plan = kafkaseg.plan(other, tieredKeys=TIERED_KEYS)
    for path in other.rglob("*.log"):
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises((CorruptRecordError, DataLossError), match=r"-[^/]*\.log"):
        plan.to_reader().read_all()


def test_a_partition_without_a_whole_segment(segments: list[encoder.LocalSegment], tmp_path: Path) -> None:
    """It holds nothing; the topic's other partitions are read."""
    objects = encoder.encode_aiven(segments[:1], NAMES)
    begun = encoder.encode_aiven(segments[:1], encoder.Names("kept", 1, NAMES.topic_id))
    store = encoder.write_objects(
        objects | {key: data for key, data in begun.items() if not key.endswith("manifest")}, tmp_path
    )
    assert {row[1] for row in scanned(store)} == {0}
    with pytest.raises(PathError, match="no log segments are in"):
        scanned(store, assign={"kept": [1]})


def test_manifests_that_disagree(segments: list[encoder.LocalSegment], tmp_path: Path) -> None:
    """The topic's name in a manifest must be that of the key, and that of most manifests."""

    def rename(topic: str) -> Change:
        def change(log: Path, indexes: Path, manifest: Path) -> None:
            manifest.write_text(manifest.read_text().replace('"kept"', f'"{topic}"'))

        return change

    for topic, number, said in (("kepu", 2, "than its name says"), ("ept", 2, "than its neighbours")):
        store = hurt_store(segments, rename(topic), tmp_path / f"{topic}-{number}", number)
        with pytest.raises(CorruptRecordError, match=f"manifest of another topic {said}"):
            scanned(store, tieredKeys=TIERED_KEYS)
    store = hurt_store(segments, rename("ept"), tmp_path / "first", 0)
    with pytest.raises(PathError, match="do not agree which topic they are of: found 'kept-0' in most of them"):
        scanned(store, tieredKeys=TIERED_KEYS)


# ---- keys ----


def test_keys_that_are_missing_or_wrong(tmp_path: Path) -> None:
    """One sentence with the manifest's name and the key's id, and without a key or a path of one."""
    store = AIVEN_STORES["aiven-encrypted"]
    other = tmp_path / "other.pem"
    other.write_bytes(make_key())
    empty = tmp_path / "empty.pem"
    empty.write_text("not a key: SECRETSECRET")
    for keys, said in (
        ({}, r"'.*\.rsm-manifest' is encrypted with key 'key1', but option 'tieredKeys' is not given"),
        ({"k": str(KEY_FILE)}, r"is encrypted with key 'key1', but option 'tieredKeys' has 'k'"),
        ({"key1": str(other)}, r"'.*\.rsm-manifest' cannot be decrypted with key 'key1'"),
        ({"key1": str(tmp_path / "none.pem")}, "the file of key 'key1' .* cannot be read: No such file"),
        ({"key1": str(empty)}, "the file of key 'key1' .* has no private RSA key"),
    ):
        given = {"tieredKeys": keys} if keys else {}
        for call in (scanned, kafkaseg.verify):
            with pytest.raises(OptionError, match=said) as caught:
                call(store, **given)
            assert "SECRET" not in str(caught.value) and str(tmp_path) not in str(caught.value)


def make_key() -> bytes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415

    form = serialization.PrivateFormat.PKCS8
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def test_no_key_is_shown() -> None:
    """A `repr` of options and plans has key ids alone."""
    text = json.dumps(TIERED_KEYS)
    options, _ = parse_options({"path": str(AIVEN_STORES["aiven-encrypted"]), "tieredKeys": text})
    plan = kafkaseg.plan(AIVEN_STORES["aiven-encrypted"], tieredKeys=TIERED_KEYS)
    shown = f"{options!r} {plan!r} {plan.to_dict()} {plan.splits!r} {options.source.storage!r}"
    assert "key1" in shown and str(KEY_FILE) not in shown and "BEGIN" not in shown


# ---- other commands ----


FACTS = [
    ({"endOffset": 280}, "states endOffset 280, but its last batch ends at offset 290"),
    ({"maxTimestampMs": 1_773_133_800_000}, "states maxTimestampMs 2026-03-10T09:10:00.000Z, but a batch has"),
    ({"segmentLeaderEpochs": {"0": 188}}, "states leader epoch 0 for offset 188, but its batch has 2"),
]


@pytest.mark.parametrize(("facts", "said"), FACTS)
def test_verify_finds_a_manifest_that_does_not_fit(
    facts: dict[str, Any], said: str, segments: list[encoder.LocalSegment], tmp_path: Path
) -> None:
    """What a manifest states is compared with the batches."""

    def change(log: Path, indexes: Path, manifest: Path) -> None:
        content = json.loads(manifest.read_text())
        content["remoteLogSegmentMetadata"] |= facts
        manifest.write_text(json.dumps(content))

    store = hurt_store(segments, change, tmp_path)
    partitions = kafkaseg.verify(store, tieredKeys=TIERED_KEYS).partitions
    [problem] = [each for one in partitions for each in one.problems if each.path.endswith(".rsm-manifest")]
    assert said in problem.what


def test_verify_finds_objects_of_wrong_sizes(segments: list[encoder.LocalSegment], tmp_path: Path) -> None:
    """A `.log` that is too long is a note, and an `.indexes` that is too short a problem."""

    def change(log: Path, indexes: Path, manifest: Path) -> None:
        log.write_bytes(log.read_bytes() + b"more")
        indexes.write_bytes(indexes.read_bytes()[:-1])

    store = hurt_store(segments, change, tmp_path)
    [report] = kafkaseg.verify(store, tieredKeys=TIERED_KEYS).partitions
    assert [each.what for each in report.notes] == ["has 5,891 bytes, where its manifest states 5,887"]
    assert ["part 'leaderEpoch' ends at byte" in each.what for each in report.problems] == [True]


@pytest.mark.parametrize("name", AIVEN_STORES)
def test_verify_finds_nothing_in_a_sound_store(name: str) -> None:
    """Neither in a store of the plugin nor in one of LocalTieredStorage."""
    report = kafkaseg.verify(AIVEN_STORES[name], **keys_for(name))
    assert [each.findings for each in report.partitions] == [()] * len(report.partitions)


@pytest.mark.parametrize("name", AIVEN_STORES)
def test_every_object_that_is_opened_is_closed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By plans that read index files, by reads, and by verify."""
    opened: list[_LocalFile] = []
    make = LocalStorage.open

    def note(storage: LocalStorage, path: str, version: FileVersion | None = None) -> OpenFile:
        file = make(storage, path, version)
        assert isinstance(file, _LocalFile)
        opened.append(file)
        return file

    monkeypatch.setattr(LocalStorage, "open", note)
    keys = keys_for(name)
    kafkaseg.plan(AIVEN_STORES[name], since="2026-02-25T06:14:00Z", **keys)
    kafkaseg.scan(AIVEN_STORES[name], isolationLevel="read_committed", **keys).read_all()
    kafkaseg.verify(AIVEN_STORES[name], **keys)
    assert len(opened) > 20
    assert [file for file in opened if file._descriptor >= 0] == []


def test_ls_and_offsets_and_views_of_a_tier(tmp_path: Path) -> None:
    """They answer as they do for the broker's own files."""
    store, local = AIVEN_STORES["aiven-zstd"], unpack_local("aiven-zstd", tmp_path)
    of_tier = {each.name: each.summary for each in kafkaseg.list_partitions(store).partitions}
    assert (of_tier["orders-0"].end_offset, of_tier["ledger-0"].end_offset) == (27167, 11010)
    when = 1_772_000_100_000
    [at_tier] = kafkaseg.offsets_for_time(store, when, subscribe="orders").partitions
    [at_disk] = kafkaseg.offsets_for_time(local, when, subscribe="orders").partitions
    assert at_tier.offset == at_disk.offset is not None
    for view in ("batches", "offsetIndex", "timeIndex", "abortedTransactions", "segments", "transactions"):
        tier = kafkaseg.scan(store, view=view, subscribe="ledger").read_all()
        disk = kafkaseg.scan(local, view=view, subscribe="ledger").read_all()
        key = next(
            (each for each in ("baseOffset", "offset", "firstOffset", "lastOffset") if each in tier.schema.names), None
        )
        same = [
            each
            for each in tier.schema.names
            if each not in ("file_path", "changed", "isActive", "nextBaseOffset", "file_block_start")
        ]
        assert key is not None
        expected = [row for row in disk.select(same).to_pylist() if row[key] < 11010]
        if view != "transactions":  # one that is open at the end of the tier is not open on the disk
            assert tier.select(same).to_pylist() == expected, view


def test_the_path_that_a_plan_shows(tmp_path: Path) -> None:
    """It can be given: the directory, a single `.log`, and a glob."""
    plan = kafkaseg.plan(AIVEN_STORES["aiven-zstd"], subscribe="orders")
    file = Path(plan.splits[1].path)
    assert [split.path for split in kafkaseg.plan(file).splits] == [str(file)]
    assert kafkaseg.plan(file.parent).segments_kept == 3
    rows = read_rows("aiven-zstd", "orders")
    assert scanned(file) == [row for row in rows if 9037 <= row[OFFSET] < 18110]


def test_zone_maps_of_a_tier_and_a_disk(tmp_path: Path) -> None:
    """They prune, and lose no row."""
    paths = [LOCAL_TIER / "tier", LOCAL_TIER / "data"]
    kafkaseg.update_zone_maps_locally([str(path) for path in paths], to=tmp_path, subscribe=["plain", "kept"])
    answer = read_answer(LOCAL_TIER / "expected.read_uncommitted.parquet")
    for topic in ("plain", "kept"):
        rows = [row for row in answer if row[TOPIC] == topic]
        since, until = rows[100][TIMESTAMP], rows[140][TIMESTAMP]
        bounds = {"subscribe": topic, "since": since, "until": until}
        found = scanned(paths, zoneMaps=tmp_path, **bounds)
        assert found == [row for row in rows if since <= row[TIMESTAMP] < until]
        sizes = [kafkaseg.plan(paths, **bounds, **maps).bytes_to_read for maps in ({"zoneMaps": tmp_path}, {})]
        assert sizes[0] < sizes[1]


def test_the_command_line_takes_keys() -> None:
    """As a flag, like any option."""
    answered = run("ls", str(AIVEN_STORES["aiven-encrypted"]), "--tiered-keys", json.dumps(TIERED_KEYS))
    assert answered.exit_code == 0 and "ledger-0" in answered.stdout
    refused = run("ls", str(AIVEN_STORES["aiven-encrypted"]))
    assert refused.exit_code != 0 and "is encrypted with key 'key1'" in refused.stderr


def test_an_unreadable_object_is_a_storage_error(segments: list[encoder.LocalSegment], tmp_path: Path) -> None:
    """Its message names the object."""
    store = encoder.write_objects(encoder.encode_aiven(segments, NAMES), tmp_path)
    [log] = store.rglob(f"{segments[1].base:020d}-*.log")
    plan = kafkaseg.plan(store)
    log.unlink()
    log.mkdir()
    with pytest.raises((StorageError, PathError, DataLossError)) as caught:
        plan.to_reader().read_all()
    assert str(log) in str(caught.value)
