"""What an attack on tiers found: manifests and objects that nobody would write, and how little they may cost."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from kafka_segment_source.storage.store import FileVersion
from kafka_segment_source.storage.tiered.chunks import FILLER, KEPT, ChunkedFile
from kafka_segment_source.storage.tiered.manifest import ChunkIndex, ManifestError, parse_manifest
from tests.support import tiered_encoder as encoder

MIB = 1024 * 1024


class _Object:
    """An open object of these bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.requests = 0

    def read_into(self, position: int, target: memoryview) -> int:
        self.requests += 1
        found = self.data[position : position + len(target)]
        target[: len(found)] = found
        return len(found)


def open_chunks(data: bytes, chunk_size: int, file_size: int, stored: int, path: str = "a.log") -> Any:
    """A compressed `.log` of `file_size` bytes. stored: the bytes of each chunk in the object, which is `data`."""
    count = -(-file_size // chunk_size)
    index = ChunkIndex(chunk_size, file_size, tuple(range(0, stored * (count + 1), stored)))
    version = FileVersion(file_size, "the same", 0)
    return ChunkedFile(
        _Object(data),  # type: ignore[arg-type]  # as much of an open file as is needed
        path,
        version,
        index,
        stored_size=len(data),
        is_compressed=True,
        cipher=None,
        aad=b"",
    )


@pytest.mark.parametrize("epoch", ["9" * 5000, "99999999999", "-1", "1.0", "", "٣"])
def test_a_leader_epoch_that_is_none(epoch: str) -> None:
    """A fault of the manifest. Python refuses to make a number of thousands of digits."""
    store = encoder.encode_aiven([encoder.LocalSegment(0, 0, b"x" * 100)], encoder.Names("a"))
    hostile = encoder.edit_manifests(store, remoteLogSegmentMetadata__segmentLeaderEpochs={epoch: 0})
    [manifest] = [data for key, data in hostile.items() if key.endswith(".rsm-manifest")]
    with pytest.raises(ManifestError, match="wrong leader epoch"):
        parse_manifest(manifest)


def test_damaged_chunks_keep_none_of_their_bytes() -> None:
    """Only why they are damaged is kept, and not the request that brought them."""
    chunk = 64 * 1024
    file = open_chunks(b"\x00" * (4 * MIB), chunk, 4 * MIB, chunk)
    tracemalloc.start()
    try:
        assert file.read_at(0, 4 * MIB) == FILLER * (4 * MIB)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < MIB
    assert "do not decompress" in str(file.find_fault(5 * chunk).found)


def test_chunks_past_the_end_of_the_object_cost_nothing() -> None:
    """A million of them, stated over an object of ten bytes: no request, and nothing to keep for each."""
    file = open_chunks(b"ten bytes.", 2000, 2_000_000_000, 2000)
    tracemalloc.start()
    try:
        for position in range(0, 2_000_000_000, 20_000_000):
            assert file.read_at(position, 4000) == FILLER * 4000
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert file._file.requests == 0
    assert kept < peak < MIB
    fault = file.find_fault(1_000_000)
    assert fault.found == "0 bytes before the end of the object"
    assert file.find_fault(0).found == "10 bytes before the end of the object"


def test_a_large_damaged_chunk_is_never_made_as_a_whole() -> None:
    """A search for the next batch reads it a little at a time."""
    file = open_chunks(b"\x00" * 50, 200 * MIB, 200 * MIB, 50)
    assert file.read_at(0, 10) == FILLER * 10
    tracemalloc.start()
    try:
        for position in range(0, 200 * MIB, 20 * MIB):
            assert file.read_at(position, 4000) == FILLER * 4000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MIB


def test_chunks_in_memory_are_of_one_object() -> None:
    """Two files may have the same inode and time, one after the other or on two mounts."""
    KEPT.clear()
    frames = [encoder.zstandard.ZstdCompressor().compress(bytes([number]) * 100) for number in (1, 2)]
    for path, frame in zip(("one/a.log", "two/a.log"), frames, strict=True):
        file = open_chunks(frame, 100, 100, len(frame), path)
        assert file.read_at(0, 1) == (b"\x01" if path.startswith("one") else b"\x02")
    KEPT.clear()
