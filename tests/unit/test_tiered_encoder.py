"""The oracle of tiered storage: the naive decoder restores what brokers stored, the encoder stores it as they do."""

from __future__ import annotations

import itertools
import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from hypothesis import Phase, given, seed, settings

from tests.support import naive
from tests.support import naive_tier as decoder
from tests.support import tiered_encoder as encoder
from tests.support.naive_tier import TieredSegment
from tests.support.tier_histories import TierHistory, add_orphans, tier_histories
from tests.support.tiers import AIVEN_STORES, KEY_FILE, KEYS, read_local, read_rows, unpack_local

PEMS = {name: path.read_bytes() for name, path in KEYS.items()}
TOPICS = [("aiven-zstd", "orders"), ("aiven-zstd", "ledger"), ("aiven-encrypted", "ledger")]


def decode_store(name: str, topic: str) -> list[TieredSegment]:
    """The segments of one topic of a store that a broker wrote."""
    return [
        each for each in decoder.decode_aiven(encoder.read_objects(AIVEN_STORES[name]), PEMS) if each.topic == topic
    ]


def manifests(objects: dict[str, bytes]) -> list[dict[str, Any]]:
    """All manifests, in the order of their keys."""
    return [json.loads(objects[key]) for key in sorted(objects) if key.endswith(".rsm-manifest")]


@pytest.mark.parametrize(("name", "topic"), TOPICS)
def test_a_store_holds_the_files_of_the_broker(name: str, topic: str) -> None:
    """Every file of every segment is the broker's own, byte for byte; the snapshot is that of the next segment."""
    segments = decode_store(name, topic)
    local = read_local(name)
    restored = {file: data for each in segments for file, data in each.files.items()}
    assert len(segments) == 3
    assert restored == {file: local[f"{topic}-0/{file}"] for file in restored}
    bases = sorted(int(path[-24:-4]) for path in local if path.startswith(f"{topic}-0/") and path.endswith(".log"))
    assert [(each.start, each.end) for each in segments] == [
        (base, after - 1) for base, after in itertools.pairwise(bases)
    ]


def test_a_store_with_aborted_transactions_holds_their_index() -> None:
    """The one segment with an abort has a `.txnindex`; the others have none."""
    for name in AIVEN_STORES:
        kept = [[file for file in each.files if file.endswith(".txnindex")] for each in decode_store(name, "ledger")]
        assert kept == [[], ["00000000000000001000.txnindex"], []]


@pytest.mark.parametrize(("name", "topic"), TOPICS)
def test_the_encoder_writes_what_the_plugin_wrote(name: str, topic: str, tmp_path: Path) -> None:
    """From the broker's files: the same segments, and manifests that differ in what is random alone."""
    store = {key: data for key, data in encoder.read_objects(AIVEN_STORES[name]).items() if f"-{topic}-" in key}
    stored = decode_store(name, topic)
    names = encoder.Names(topic, 0, encoder.from_text(stored[0].topic_id))
    compressed = name == "aiven-zstd"
    config = encoder.AivenConfig(
        prefix="pre/fix-",
        chunk_size=131072,
        compression=compressed,
        key=None if compressed else ("key1", KEY_FILE.read_bytes()),
    )
    segments = encoder.read_segments(unpack_local(name, tmp_path) / f"{topic}-0")
    objects = encoder.encode_aiven(segments, names, config)
    assert [plain(each) for each in decoder.decode_aiven(objects, PEMS)] == [plain(each) for each in stored]
    assert [shape(each) for each in manifests(objects)] == [shape(each) for each in manifests(store)]
    assert {key[:-38] for key in objects if key.endswith(".log")} == {
        key[:-38] for key in store if key.endswith(".log")
    }


def plain(segment: TieredSegment) -> TieredSegment:
    """A segment without its random id."""
    return TieredSegment(**{**vars(segment), "segment_id": ""})


def shape(manifest: dict[str, Any]) -> str:
    """A manifest as text, in its order, without what is random, the clock, and what depends on the release of zstd."""
    ids = manifest["remoteLogSegmentMetadata"]["remoteLogSegmentId"]
    ids["id"] = f"{len(ids['id'])} characters"
    manifest["remoteLogSegmentMetadata"]["eventTimestampMs"] = 0
    if "encryption" in manifest:
        manifest["encryption"] = {name: len(text) for name, text in manifest["encryption"].items()}
    manifest["chunkIndex"] |= {"transformedChunks": ""} if manifest["compression"] else {}
    return json.dumps(manifest)


@pytest.mark.parametrize("chunk_size", [1000, 4096, 10_000_000])
@pytest.mark.parametrize("index", ["fixed", "variable"])
@pytest.mark.parametrize("compression", [False, True])
@pytest.mark.parametrize("encrypted", [False, True])
def test_every_configuration_gives_the_files_back(
    chunk_size: int, index: Any, compression: bool, encrypted: bool, tmp_path: Path
) -> None:
    """Chunks of any size, either index, compressed, encrypted: the broker's files come back."""
    segments = encoder.read_segments(unpack_local("aiven-zstd", tmp_path) / "ledger-0")[::2]
    key = ("key1", KEY_FILE.read_bytes()) if encrypted else None
    config = encoder.AivenConfig("", chunk_size, compression, key, index)
    if compression and index == "fixed" and chunk_size < 1_000_000:
        with pytest.raises(ValueError, match="different sizes"):
            encoder.encode_aiven(segments, encoder.Names("a-b", 7), config)
        return
    objects = encoder.encode_aiven(segments, encoder.Names("a-b", 7), config)
    found = decoder.decode_aiven(objects, PEMS)
    local = read_local("aiven-zstd")
    assert [(each.topic, each.partition, each.start) for each in found] == [("a-b", 7, 0), ("a-b", 7, 10010)]
    for each in found:
        assert each.files == {file: local[f"ledger-0/{file}"] for file in each.files}


@pytest.mark.parametrize(
    "sizes", [[], [7], [5, 9], [300, 300, 300], [1, 256, 257, 3], [70_000, 5, 2**31 - 1], [2**24, 0, 1, 2]]
)
def test_chunk_sizes_come_back(sizes: list[int]) -> None:
    """Any number of chunks, any width."""
    index = {
        "type": "variable",
        "originalChunkSize": 10,
        "originalFileSize": 10 * len(sizes),
        "transformedChunks": encoder.encode_chunk_sizes(sizes),
    }
    assert decoder.stored_sizes(index) == sizes


def test_a_wrong_key_and_changed_bytes_are_refused() -> None:
    """The naive decoder is no proof of anything if it takes what it is given."""
    objects = encoder.read_objects(AIVEN_STORES["aiven-encrypted"])
    [key, *_] = [key for key in objects if key.endswith(".log")]
    changed = bytearray(objects[key])
    changed[1000] ^= 1
    with pytest.raises(InvalidTag):
        decoder.decode_aiven(objects | {key: bytes(changed)}, PEMS)
    with pytest.raises(KeyError):
        decoder.decode_aiven(objects, {"key2": PEMS["key1"]})
    wrapped = encoder.wrap(bytes(32), PEMS["key1"], random.Random(0))
    assert decoder.unwrap(wrapped, PEMS["key1"]) == bytes(32)
    with pytest.raises(ValueError, match="another key"):
        decoder.unwrap(wrapped[:-1] + bytes([wrapped[-1] ^ 1]), PEMS["key1"])


def test_the_other_layouts_give_the_files_back(tmp_path: Path) -> None:
    """LocalTieredStorage keeps every file; Pinterest's keeps the log and two indexes. Half a segment is none."""
    segments = encoder.read_segments(unpack_local("aiven-zstd", tmp_path) / "ledger-0")
    local = read_local("aiven-zstd")
    names = encoder.Names("ledger", 0)
    objects = encoder.encode_local_tier(segments, names)
    pinterest = encoder.encode_pinterest(segments, names, entropy=3)
    for found in (decoder.decode_local_tier(objects), decoder.decode_pinterest(pinterest)):
        assert [(each.start, each.end) for each in found] == [(0, 999), (1000, 10009), (10010, 11009)]
        for each in found:
            assert each.files == {file: local[f"ledger-0/{file}"] for file in each.files}
    [first, *_] = [key for key in objects if key.endswith(".snapshot")]
    del objects[first]
    assert [each.start for each in decoder.decode_local_tier(objects)] == [1000, 10010]


def test_rows_of_a_store_end_at_the_high_watermark() -> None:
    """What a consumer would see: every offset up to the end that the broker wrote down, less markers and aborts."""
    marks = read_local("aiven-zstd")["replication-offset-checkpoint"].decode().splitlines()
    assert "ledger 0 12012" in marks
    offsets = [row[2] for row in read_rows("aiven-zstd", "ledger")]
    committed = {row[2] for row in read_rows("aiven-zstd", "ledger", "read_committed")}
    aborted = [offset for offset in offsets if offset not in committed]
    assert offsets[-1] == 12010
    index = read_local("aiven-zstd")["ledger-0/00000000000000001000.txnindex"]
    transactions = [entry[2:4] for entry in struct.iter_unpack(">hqqqq", index)]
    assert len(transactions) == 2
    assert aborted == [offset for first, marker in transactions for offset in range(first, marker)]


# --- generated tiers --------------------------------------------------------------------------------------------------


@given(history=tier_histories)
def test_a_generated_tier_and_its_local_log_are_the_log_of_the_last_leader(history: TierHistory) -> None:
    """By the naive way: all records, those of another history left out."""
    stored = [record for each in (*history.uploads, *history.local) for record in naive.decode_log(each.log)]
    found = decoder.follow_lineage(stored, history.local_epochs)
    assert [(each.offset, each.leader_epoch) for each in found] == [
        (each.offset, each.leader_epoch) for each in history.records
    ]


def test_generated_tiers_have_the_shapes_that_matter() -> None:
    """Overlaps and records of no history occur, as does neither; segments of one base offset; aborts of some epochs."""
    wanted = {"overlaps", "records of no history", "neither", "one base offset", "aborts"}
    seen: set[str] = set()

    @settings(max_examples=50, derandomize=False, database=None, phases=[Phase.generate])
    @given(history=tier_histories)
    def look(history: TierHistory) -> None:
        uploads = history.uploads
        shapes = {
            "overlaps": history.has_overlap and not history.has_lost,
            "records of no history": history.has_lost,
            "neither": not history.has_overlap and len(uploads) > 2,
            "one base offset": len({each.base for each in uploads}) < len(uploads),
            "aborts": any(each.txnindex for each in uploads) and len(history.local_epochs) > 1,
        }
        seen.update(name for name, is_there in shapes.items() if is_there)

    for number in range(20):  # what is drawn depends on the modules that are loaded
        if seen < wanted:
            seed(number)(look)()
    assert seen == wanted


def test_half_of_a_segment_is_no_data(tmp_path: Path) -> None:
    """Objects without a manifest change nothing."""
    segments = encoder.read_segments(unpack_local("aiven-zstd", tmp_path) / "ledger-0")
    names = encoder.Names("ledger")
    store = encoder.encode_aiven(segments, names)
    half = add_orphans(store, encoder.encode_aiven(segments, names, encoder.AivenConfig(seed=1)), [".log", ".indexes"])
    assert len(half) == len(store) + 6
    assert decoder.decode_aiven(half) == decoder.decode_aiven(store)
