"""manifest.py, names.py, encryption.py: what is refused, and that no value costs memory or shows a key."""

from __future__ import annotations

import base64
import itertools
import json
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import zstandard

from kafka_segment_source.errors import OptionError
from kafka_segment_source.storage.store import FileVersion, LocalStorage
from kafka_segment_source.storage.tiered.chunks import FILLER, ChunkedFile
from kafka_segment_source.storage.tiered.encryption import TierKeys, parse_keys
from kafka_segment_source.storage.tiered.manifest import ChunkIndex, ManifestError, parse_manifest
from kafka_segment_source.storage.tiered.names import TierHome, parse_home, parse_object, split_shown
from tests.support import tiered_encoder as encoder
from tests.support.tiers import KEY_FILE

ID = "ErIM7Yr2QtmpDczrRhoFJg"
MIB = 1024 * 1024


def make_manifest(**config: Any) -> dict[str, Any]:
    segment = encoder.LocalSegment(10, 19, bytes(5000), epochs={0: 0, 3: 15}, max_timestamp=77)
    objects = encoder.encode_aiven([segment], encoder.Names("a-b.c_d", 7), encoder.AivenConfig(**config))
    [text] = [data for key, data in objects.items() if key.endswith(".rsm-manifest")]
    found: dict[str, Any] = json.loads(text)
    return found


def parse(content: Any) -> Any:
    return parse_manifest(json.dumps(content).encode())


def pack(data: bytes) -> str:
    return base64.b64encode(zstandard.ZstdCompressor().compress(data)).decode()


def test_a_manifest() -> None:
    """Its facts, and where the chunks lie."""
    found = parse(make_manifest(chunk_size=2000, key=("k", KEY_FILE.read_bytes())))
    assert (found.topic, found.partition, found.base_offset, found.last_offset) == ("a-b.c_d", 7, 10, 19)
    assert (found.latest, found.epochs) == (77, ((0, 10), (3, 15)))
    assert found.chunks.starts == (0, 2028, 4056, 5084)
    assert [found.chunks.original_size(at) for at in range(3)] == [2000, 2000, 1000]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        (struct.pack(">i", 0), []),
        (struct.pack(">ii", 1, 70000), [70000]),
        (struct.pack(">iibBBi", 3, 100, 1, 0, 255, 9), [100, 355, 9]),
        (struct.pack(">iibHHi", 3, 100, 2, 1, 65535, 9), [101, 65635, 9]),
    ],
)
def test_a_list_of_chunk_sizes(sizes: bytes, expected: list[int]) -> None:
    """Nothing, one size in full, or differences of one width and the last size in full."""
    content = make_manifest(compression=True)
    content["chunkIndex"] |= {"originalFileSize": 10 * len(expected), "originalChunkSize": 10}
    content["chunkIndex"]["transformedChunks"] = pack(sizes)
    starts = parse(content).chunks.starts
    assert [after - start for start, after in itertools.pairwise(starts)] == expected


HUGE = 2**31 - 1
HOSTILE = [
    ("chunkIndex", {"originalChunkSize": 1, "originalFileSize": HUGE}, "too many chunks"),
    ("chunkIndex", {"originalChunkSize": 2**40, "originalFileSize": HUGE}, "chunks that are too large"),
    ("chunkIndex", {"originalFileSize": HUGE + 1}, "wrong chunkIndex.originalFileSize"),
    ("chunkIndex", {"originalFileSize": -1}, "wrong chunkIndex.originalFileSize"),
    ("chunkIndex", {"originalFileSize": 1e3}, "wrong chunkIndex.originalFileSize"),
    ("chunkIndex", {"originalChunkSize": 0}, "wrong chunkIndex.originalChunkSize"),
    ("chunkIndex", {"originalChunkSize": True}, "wrong chunkIndex.originalChunkSize"),
    ("chunkIndex", {"type": "other"}, "wrong chunkIndex.type"),
    ("chunkIndex", {"transformedChunks": "%%"}, "wrong chunkIndex.transformedChunks"),
    ("chunkIndex", {"transformedChunks": base64.b64encode(b"no zstd").decode()}, "cannot be read"),
    ("chunkIndex", {"transformedChunks": pack(struct.pack(">i", HUGE))}, "cannot be read"),
    ("chunkIndex", {"transformedChunks": pack(struct.pack(">i", -1))}, "cannot be read"),
    ("chunkIndex", {"transformedChunks": pack(b"")}, "cannot be read"),
    ("chunkIndex", {"transformedChunks": pack(struct.pack(">ii", 1, 9)), "originalFileSize": 3000}, "does not fit"),
    ("chunkIndex", {"transformedChunks": pack(bytes(1000 * MIB))}, "cannot be read"),
    ("chunkIndex", None, "wrong chunkIndex"),
    ("segmentIndexes", {"offset": {"position": -1, "size": 8}}, "wrong segmentIndexes.offset.position"),
    ("segmentIndexes", {"offset": {"position": 0, "size": 2**40}}, "wrong segmentIndexes.offset.size"),
    ("remoteLogSegmentMetadata", {"endOffset": 9}, "wrong remoteLogSegmentMetadata.endOffset"),
    ("remoteLogSegmentMetadata", {"startOffset": 2**63}, "wrong remoteLogSegmentMetadata.startOffset"),
    ("remoteLogSegmentMetadata", {"segmentLeaderEpochs": {"-1": 3}}, "wrong leader epoch"),
    ("remoteLogSegmentMetadata", {"segmentLeaderEpochs": {"٣": 3}}, "wrong leader epoch"),
    ("encryption", {"dataKey": "no colon", "aad": ""}, "wrong encryption.dataKey"),
    ("encryption", {"dataKey": "k:%%", "aad": ""}, "wrong encryption.dataKey"),
]


@pytest.mark.parametrize(("name", "values", "said"), HOSTILE)
def test_hostile_values(name: str, values: Any, said: str) -> None:
    """Each is refused with one sentence, in little memory."""
    content = make_manifest(compression=True, key=("k", KEY_FILE.read_bytes()))
    content[name] = None if values is None else content[name] | values
    data = json.dumps(content).encode()
    tracemalloc.start()
    try:
        with pytest.raises(ManifestError, match=said) as caught:
            parse_manifest(data)
        assert tracemalloc.get_traced_memory()[1] < 64 * MIB
    finally:
        tracemalloc.stop()
    assert not caught.value.is_newer and len(str(caught.value.found)) < 200


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"version":1}', b'{"version":"x"}']
)
def test_what_is_no_manifest(data: bytes) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_manifest(data)
    assert not caught.value.is_newer


def test_what_is_newer() -> None:
    for change in ({"version": "2"}, {"segmentFormat": "iceberg"}):
        with pytest.raises(ManifestError) as caught:
            parse(make_manifest() | change)
        assert caught.value.is_newer
    assert parse(make_manifest() | {"segmentFormat": "KAFKA"}) == parse(make_manifest())


@pytest.mark.parametrize("states_size", [True, False])
def test_a_chunk_that_is_a_bomb(states_size: bool, tmp_path: Path) -> None:
    """It takes no more memory than the chunk that the manifest states."""
    compressor = zstandard.ZstdCompressor(write_content_size=states_size)
    data = compressor.compress(bytes(500 * MIB))
    path = tmp_path / "x.log"
    path.write_bytes(data)
    index = ChunkIndex(1000, 1000, (0, len(data)))
    file = ChunkedFile(
        LocalStorage().open(str(path)),
        "s3://b/x.log",
        FileVersion(1000, "x", 0),
        index,
        stored_size=len(data),
        is_compressed=True,
        cipher=None,
        aad=b"",
    )
    tracemalloc.start()
    try:
        assert file.read_at(0, 1000) == FILLER * 1000
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()
    fault = file.find_fault(0)
    file.close()
    assert fault is not None and "s3://b/x.log" in str(fault) and "expected 1000 bytes" in str(fault)


def test_names() -> None:
    """Ids may hold hyphens, and so may topics; what is only similar is none."""
    assert parse_home(f"/x/pre-a-b-{ID}/12") == TierHome(None, 12, ID, "pre-a-b")
    assert parse_home(f"s3://b/a-b-3-{ID}") == TierHome("a-b", 3, ID, "a-b")
    for path in (f"/x/a-{ID}", f"/x/a-{ID}/x", "/x/orders-0", f"/x/a-{ID[:-1]}z/0", "/x/0", f"/x/{ID}/0"):
        assert parse_home(path) is None
    found = parse_object(f"{7:020d}-{ID}.rsm-manifest")
    assert found is not None and (found.base_offset, found.segment_id, found.suffix) == (7, ID, "rsm-manifest")
    for name in (f"{7:020d}.log", f"{7:019d}-{ID}.log", f"{7:020d}-{ID}", f"{7:020d}-{ID}.log.tmp"):
        assert parse_object(name) is None
    assert split_shown("/x/tier@/a") is None or split_shown("/x/tier@/a").copy is None  # type: ignore[union-attr]
    assert split_shown("/x/tier@2/a-0/00.log") == ("/x", 2, "a-0", "00.log")
    for path in ("/x/tiers/a", "/x/tier@x/a", "/tier", "/x/tier@1/a/b/c"):
        assert split_shown(path) is None


def test_no_text_of_a_key_is_in_an_error() -> None:
    """Not even where the option's value is one by mistake."""
    pem = KEY_FILE.read_text()
    for text in (pem, json.dumps({"k": pem}), json.dumps({pem: "k"}), json.dumps([pem]), json.dumps({"k": [pem]})):
        with pytest.raises(OptionError) as caught:
            parse_keys(text)
        assert pem.splitlines()[1] not in str(caught.value)
    assert repr(TierKeys((("k", "/etc/secret.pem"),))) == "TierKeys(k)"
