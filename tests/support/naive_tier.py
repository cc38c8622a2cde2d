"""A reference decoder of tiered storage: whole objects in, the broker's own files out, clear before fast.

In: the objects of a store, by key. Out: a `TieredSegment` for each whole segment, with its files as a broker has them
on its disk. Raises `KeyError`, `ValueError` or `cryptography.exceptions.InvalidTag` for a store that is not whole.

Formats: Aiven's tiered-storage-for-apache-kafka 1.0.0, LocalTieredStorage of Kafka 4.1, Pinterest's tiered-storage. The
offset of the key prefix, the index of chunks and the order of parts are those of Aiven's sources: ObjectKeyFactory,
ChunkIndex, SegmentIndexesV1. This file shares no code with the package, nor with `tiered_encoder.py`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import zstandard
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.support import naive

Objects = Mapping[str, bytes]
"""What a store holds: key → bytes."""

_AIVEN_KEY = re.compile(r"(.*)-([\w-]{22})/(\d+)/(\d{20})-([\w-]{22})\.rsm-manifest", re.ASCII)
_LOCAL_KEY = re.compile(r"(?:.*/)?([^/]+)-(\d+)-([\w-]{22})/(\d{20})-([\w-]{22})\.log", re.ASCII)
_PINTEREST_KEY = re.compile(r"(?:.*/)?([^/]+)-(\d+)/(\d{20})\.log", re.ASCII)


@dataclass(frozen=True)
class TieredSegment:
    """One segment of a tier. files: the broker's own, by the name that each has on its disk.

    end: the last offset, inclusive. The snapshot of a tiered segment is the state at its end, so it is called `<end +
    1>.snapshot`. max_timestamp: as the manifest says (ms), or None. epochs: leader epoch → its first offset in the
    segment, as the manifest says.
    """

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    start: int
    end: int
    files: dict[str, bytes]
    max_timestamp: int | None = None
    epochs: dict[int, int] | None = None


# --- Aiven ------------------------------------------------------------------------------------------------------------


def decode_aiven(objects: Objects, keys: Mapping[str, bytes] | None = None) -> list[TieredSegment]:
    """Every segment that has a manifest, by partition and first offset. keys: key id → private key (PEM)."""
    found = []
    for key in objects:
        if match := _AIVEN_KEY.fullmatch(key):
            path = key.removesuffix(".rsm-manifest")
            segment = _decode_segment(objects, path, json.loads(objects[key]), keys or {})
            if (segment.topic_id, str(segment.partition), segment.segment_id) != match.group(2, 3, 5):
                raise ValueError(f"{key}: the key does not fit the manifest")
            found.append(segment)
    return sorted(found, key=_order)


def _decode_segment(objects: Objects, path: str, manifest: dict[str, Any], keys: Mapping[str, bytes]) -> TieredSegment:
    metadata = manifest["remoteLogSegmentMetadata"]
    ids = metadata["remoteLogSegmentId"]
    start, end = metadata["startOffset"], metadata["endOffset"]
    unlock = _Unlock(manifest.get("encryption"), keys)
    names = {
        "offset": f"{start:020d}.index",
        "timestamp": f"{start:020d}.timeindex",
        "producerSnapshot": f"{end + 1:020d}.snapshot",
        "leaderEpoch": "leader-epoch-checkpoint",
        "transaction": f"{start:020d}.txnindex",
    }
    parts = {name: part for name, part in manifest["segmentIndexes"].items() if part}
    indexes = objects[f"{path}.indexes"]
    cut = {name: indexes[part["position"] : part["position"] + part["size"]] for name, part in parts.items()}
    if sum(map(len, cut.values())) != len(indexes):
        raise ValueError(f"{path}.indexes: {len(indexes)} bytes, and its parts are others")
    log = _decode_log(objects[f"{path}.log"], manifest, unlock)
    files = {f"{start:020d}.log": log} | {names[name]: unlock(data) for name, data in cut.items()}
    return TieredSegment(
        topic=ids["topicIdPartition"]["topicPartition"]["topic"],
        topic_id=ids["topicIdPartition"]["topicId"],
        partition=ids["topicIdPartition"]["topicPartition"]["partition"],
        segment_id=ids["id"],
        start=start,
        end=end,
        files=files,
        max_timestamp=metadata["maxTimestampMs"],
        epochs={int(epoch): offset for epoch, offset in metadata["segmentLeaderEpochs"].items()},
    )


def _decode_log(data: bytes, manifest: dict[str, Any], unlock: _Unlock) -> bytes:
    index = manifest["chunkIndex"]
    log = b""
    for size in stored_sizes(index):
        chunk, data = unlock(data[:size]), data[size:]
        if manifest["compression"]:
            chunk = zstandard.ZstdDecompressor().decompress(chunk, max_output_size=index["originalChunkSize"])
        log += chunk
    if data or len(log) != index["originalFileSize"]:
        raise ValueError(f"{len(log)} bytes of a log of {index['originalFileSize']}, and {len(data)} bytes behind it")
    return log


def stored_sizes(index: Mapping[str, Any]) -> list[int]:
    """How many bytes each chunk has in the store, from the chunk index of a manifest."""
    count = -(-index["originalFileSize"] // index["originalChunkSize"])
    if index["type"] == "fixed":
        return [index["transformedChunkSize"]] * (count - 1) + [index["finalTransformedChunkSize"]]
    packed = zstandard.ZstdDecompressor().decompress(base64.b64decode(index["transformedChunks"]))
    numbers, rest = int.from_bytes(packed[:4]), packed[4:]
    if numbers < 2:
        return [int.from_bytes(rest)] * numbers
    base, width = int.from_bytes(rest[:4]), rest[4]
    more = [int.from_bytes(rest[at : at + width]) for at in range(5, 5 + (numbers - 1) * width, width)]
    return [base + each for each in more] + [int.from_bytes(rest[-4:])]


class _Unlock:
    """Bytes of the store → bytes before they were encrypted: 12 bytes of IV, AES-256-GCM, 16 bytes of tag."""

    def __init__(self, encryption: Mapping[str, str] | None, keys: Mapping[str, bytes]) -> None:
        self._cipher = None
        if encryption is not None:
            key_id, _, wrapped = encryption["dataKey"].partition(":")
            self._cipher = AESGCM(unwrap(base64.b64decode(wrapped), keys[key_id]))
            self._aad = base64.b64decode(encryption["aad"])

    def __call__(self, data: bytes) -> bytes:
        return data if self._cipher is None else self._cipher.decrypt(data[:12], data[12:], self._aad)


def unwrap(wrapped: bytes, pem: bytes) -> bytes:
    """RSA/NONE/OAEP with SHA3-512 and MGF1 of SHA3-512 (RFC 8017, 7.1.2), which `cryptography` refuses."""
    numbers = load_pem_private_key(pem, None).private_numbers()  # type: ignore[union-attr]  # RSA
    modulus, size = numbers.public_numbers.n, len(wrapped)  # type: ignore[union-attr]
    block = pow(int.from_bytes(wrapped), numbers.d, modulus).to_bytes(size)  # type: ignore[union-attr]
    seed = _xor(block[1:65], _mask(block[65:], 64))
    data = _xor(block[65:], _mask(seed, size - 65))
    if block[0] or data[:64] != hashlib.sha3_512(b"").digest():
        raise ValueError("the data key was wrapped for another key")
    return data[64:].lstrip(b"\0")[1:]


def _mask(seed: bytes, size: int) -> bytes:
    blocks = range(-(-size // 64))
    return b"".join(hashlib.sha3_512(seed + number.to_bytes(4)).digest() for number in blocks)[:size]


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


# --- Kafka's own and Pinterest's --------------------------------------------------------------------------------------


def decode_local_tier(objects: Objects) -> list[TieredSegment]:
    """Every segment of a LocalTieredStorage of which all objects are there, by partition and first offset."""
    found = []
    for key in objects:
        if match := _LOCAL_KEY.fullmatch(key):
            topic, partition, topic_id, start, segment_id = match.groups()
            stem = key.removesuffix(".log")
            needed = {"log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint"}
            parts = {kind for kind in {*needed, "txnindex"} if f"{stem}.{kind}" in objects}
            if not needed <= parts:
                continue
            end = naive.decode_batches(objects[key])[-1].last_offset
            names = {kind: f"{start}.{kind}" for kind in parts}
            names |= {"snapshot": f"{end + 1:020d}.snapshot", "leader_epoch_checkpoint": "leader-epoch-checkpoint"}
            files = {names[kind]: objects[f"{stem}.{kind}"] for kind in parts}
            found.append(TieredSegment(topic, topic_id, int(partition), segment_id, int(start), end, files))
    return sorted(found, key=_order)


def decode_pinterest(objects: Objects) -> list[TieredSegment]:
    """Every segment of a store of Pinterest's: no snapshots, no leader epochs, no ids."""
    found = []
    for key in objects:
        if match := _PINTEREST_KEY.fullmatch(key):
            topic, partition, start = match.groups()
            end = naive.decode_batches(objects[key])[-1].last_offset
            stem = key.removesuffix(".log")
            files = {f"{start}.{kind}": objects[f"{stem}.{kind}"] for kind in ("log", "index", "timeindex")}
            found.append(TieredSegment(topic, "", int(partition), "", int(start), end, files))
    return sorted(found, key=_order)


def records_of(segment: TieredSegment) -> list[naive.Record]:
    """The records of a segment in file order, control records included."""
    return naive.decode_log(segment.files[f"{segment.start:020d}.log"])


def follow_lineage(records: Iterable[naive.Record], epochs: Mapping[int, int]) -> list[naive.Record]:
    """The history of a partition out of the records of all its segments, uploaded by whichever leader.

    epochs: the leader's `leader-epoch-checkpoint`, epoch → first offset. An offset is of the last epoch that begins at
    or before it, and a record of another epoch at that offset is of another history. That is how a broker picks a
    remote segment: `UnifiedLog.leaderEpochCache.epochForOffset`, then RemoteLogMetadataCache by that epoch.
    """
    starts = sorted((start, epoch) for epoch, start in epochs.items())
    found = {}
    for record in records:
        owner = max((epoch for start, epoch in starts if start <= record.offset), default=None)
        if record.leader_epoch == owner:
            found[record.offset] = record
    return [found[offset] for offset in sorted(found)]


def read_epochs(checkpoint: bytes) -> dict[int, int]:
    """`leader-epoch-checkpoint`: epoch → first offset."""
    return {int(epoch): int(start) for epoch, start in map(str.split, checkpoint.decode().splitlines()[2:])}


def _order(segment: TieredSegment) -> tuple[str, str, int, int, str]:
    return segment.topic, segment.topic_id, segment.partition, segment.start, segment.segment_id
