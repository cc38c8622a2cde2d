"""Tiers for tests: a partition's files as a broker has them → the objects that a plugin of KIP-405 would store.

In: segments, from a partition directory (`read_segments`) or made by hand, and the configuration of the plugin. Out:
a dict of key → bytes, for a directory (`write_objects`) or a bucket. The formats are those of Aiven's
tiered-storage-for-apache-kafka 1.0.0, of Kafka's own LocalTieredStorage and of Pinterest's tiered-storage;
tests/unit/test_tiered_encoder.py checks the first two against stores that real brokers wrote. What is random in a
plugin (ids, IVs, data keys) comes from a seed here, so that a test repeats.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import zstandard
from crc32c import crc32c
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.support import naive

Objects = dict[str, bytes]

SNAPSHOT_OF_NOTHING = struct.pack(">hIi", 1, crc32c(bytes(4)), 0)
"""A producer snapshot without producers, as brokers write it: version, CRC of what follows, count."""

IV_AND_TAG = 12 + 16
"""The bytes that encryption adds."""


@dataclass(frozen=True)
class LocalSegment:
    """A segment as it is on the disk of a broker.

    end: the last offset, inclusive. snapshot: the producer state at the end. epochs: leader epoch → its first offset,
    of the whole log up to the end, as in the checkpoint that is uploaded with the segment. max_timestamp: ms.
    """

    base: int
    end: int
    log: bytes = field(repr=False)
    index: bytes = field(default=b"", repr=False)
    timeindex: bytes = field(default=b"", repr=False)
    txnindex: bytes | None = field(default=None, repr=False)
    snapshot: bytes = field(default=SNAPSHOT_OF_NOTHING, repr=False)
    epochs: Mapping[int, int] = field(default_factory=lambda: {0: 0})
    max_timestamp: int = -1

    @property
    def own_epochs(self) -> dict[int, int]:
        """The epochs of this segment alone, the first from its base offset on (LeaderEpochCheckpoint's range)."""
        earlier = [epoch for epoch, start in self.epochs.items() if start <= self.base]
        own = {max(earlier): self.base} if earlier else {}
        return own | {epoch: start for epoch, start in self.epochs.items() if self.base < start <= self.end}

    @property
    def checkpoint(self) -> bytes:
        """The text of `leader-epoch-checkpoint`."""
        lines = [f"{epoch} {start}\n" for epoch, start in sorted(self.epochs.items())]
        return f"0\n{len(lines)}\n{''.join(lines)}".encode()


@dataclass(frozen=True)
class Names:
    """Whose segments these are. topic_id: 16 bytes."""

    topic: str
    partition: int = 0
    topic_id: bytes = bytes(range(16))

    @property
    def id_text(self) -> str:
        return as_text(self.topic_id)


@dataclass(frozen=True)
class AivenConfig:
    """What Aiven's plugin is configured to do.

    prefix: `key.prefix`, glued on as it is. key: (id, PEM) of the private key whose public half wraps the data keys, or
    None. index: the kind of chunk index; the plugin makes a variable one if it compresses, and a fixed one if not.
    """

    prefix: str = ""
    chunk_size: int = 1024
    compression: bool = False
    key: tuple[str, bytes] | None = field(default=None, repr=False)
    index: Literal["fixed", "variable"] | None = None
    broker_id: int = 1
    seed: int = 0


def as_text(identity: bytes) -> str:
    """16 bytes as Kafka writes an id: base64 for URLs, without padding, 22 characters."""
    return base64.urlsafe_b64encode(identity).decode().rstrip("=")


def from_text(text: str) -> bytes:
    """The opposite of `as_text`."""
    return base64.urlsafe_b64decode(text + "==")


def read_segments(directory: Path, active: bool = False) -> list[LocalSegment]:
    """The segments of a partition directory, without the active (last) one, which no plugin is given.

    The producer state at the end of a segment is the `.snapshot` of the next base offset. A directory without
    snapshots or epochs gives the state of nobody and epoch 0 from offset 0.
    """
    logs = sorted(directory.glob("*.log"))
    bases = [int(path.stem) for path in logs]
    epochs = _read_epochs(directory / "leader-epoch-checkpoint")
    found = []
    for number, path in enumerate(logs):
        is_last = number == len(logs) - 1
        if is_last and not active:
            break
        log = path.read_bytes()
        last_offset, max_timestamp = _walk(log)
        end = last_offset if is_last else bases[number + 1] - 1
        snapshot = directory / f"{end + 1:020d}.snapshot"
        txnindex = path.with_suffix(".txnindex")
        found.append(
            LocalSegment(
                base=bases[number],
                end=end,
                log=log,
                index=_read(path.with_suffix(".index")),
                timeindex=_read(path.with_suffix(".timeindex")),
                txnindex=txnindex.read_bytes() if txnindex.exists() and txnindex.stat().st_size else None,
                snapshot=snapshot.read_bytes() if snapshot.exists() else SNAPSHOT_OF_NOTHING,
                epochs={epoch: start for epoch, start in epochs.items() if start <= end},
                max_timestamp=max_timestamp,
            )
        )
    return found


def write_objects(objects: Mapping[str, bytes], root: Path) -> Path:
    """Write every object as a file below `root`, which is returned."""
    for key, data in objects.items():
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def read_objects(root: Path) -> Objects:
    """The opposite: every file below `root`, by its path from there."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


# --- Aiven ------------------------------------------------------------------------------------------------------------


def encode_aiven(segments: Sequence[LocalSegment], names: Names, config: AivenConfig | None = None) -> Objects:
    """Three objects a segment, in the order of an upload: `.log`, `.indexes`, `.rsm-manifest`."""
    config = config or AivenConfig()
    chance = random.Random(f"{config.seed} {names}")
    objects: Objects = {}
    for segment in segments:
        objects |= encode_aiven_segment(segment, names, config, chance)
    return objects


def encode_aiven_segment(segment: LocalSegment, names: Names, config: AivenConfig, chance: random.Random) -> Objects:
    """The objects of one segment."""
    segment_id = as_text(chance.randbytes(16))
    lock = _Lock(config, chance)
    chunks = [lock(_pack(chunk, config)) for chunk in _cut(segment.log, config.chunk_size)]
    parts, indexes = _merge_indexes(segment, lock)
    manifest = {
        "version": "1",
        "chunkIndex": _make_chunk_index(segment.log, list(map(len, chunks)), config),
        "segmentIndexes": parts,
        "compression": config.compression,
        **lock.as_json(),
        "remoteLogSegmentMetadata": {
            "remoteLogSegmentId": {
                "topicIdPartition": {
                    "topicId": names.id_text,
                    "topicPartition": {"topic": names.topic, "partition": names.partition},
                },
                "id": segment_id,
            },
            "startOffset": segment.base,
            "endOffset": segment.end,
            "maxTimestampMs": segment.max_timestamp,
            "brokerId": config.broker_id,
            "eventTimestampMs": max(segment.max_timestamp, 0) + 1000,
            "segmentLeaderEpochs": {str(epoch): start for epoch, start in segment.own_epochs.items()},
            "txnIdxEmpty": segment.txnindex is None,
        },
    }
    path = f"{config.prefix}{names.topic}-{names.id_text}/{names.partition}/{segment.base:020d}-{segment_id}"
    text = json.dumps(manifest, separators=(",", ":")).encode()
    return {f"{path}.log": b"".join(chunks), f"{path}.indexes": indexes, f"{path}.rsm-manifest": text}


def encode_chunk_sizes(sizes: Sequence[int]) -> str:
    """`transformedChunks` of a variable chunk index (ChunkSizesBinaryCodec), as base64 of one zstd frame."""
    packed = struct.pack(">i", len(sizes))
    if len(sizes) == 1:
        packed += struct.pack(">i", sizes[0])
    elif sizes:
        base = min(sizes[:-1])
        width = max(1, -(-(max(sizes[:-1]) - base).bit_length() // 8))
        packed += struct.pack(">iB", base, width)
        packed += b"".join((size - base).to_bytes(width) for size in sizes[:-1]) + struct.pack(">i", sizes[-1])
    return base64.b64encode(zstandard.ZstdCompressor().compress(packed)).decode()


def edit_manifests(objects: Mapping[str, bytes], **changes: Any) -> Objects:
    """The store with other values in every manifest: a name with `__` leads into nested objects."""
    edited = dict(objects)
    for key, data in objects.items():
        if key.endswith(".rsm-manifest"):
            manifest = json.loads(data)
            for name, value in changes.items():
                *way, last = name.split("__")
                target = manifest
                for step in way:
                    target = target[step]
                target[last] = value
            edited[key] = json.dumps(manifest).encode()
    return edited


def _cut(log: bytes, size: int) -> list[bytes]:
    return [log[at : at + size] for at in range(0, len(log), size)]


def _pack(chunk: bytes, config: AivenConfig) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=True).compress(chunk) if config.compression else chunk


def _make_chunk_index(log: bytes, sizes: list[int], config: AivenConfig) -> dict[str, Any]:
    kind = config.index or ("variable" if config.compression else "fixed")
    common = {"type": kind, "originalChunkSize": config.chunk_size, "originalFileSize": len(log)}
    if kind == "variable":
        return common | {"transformedChunks": encode_chunk_sizes(sizes)}
    if len(set(sizes[:-1])) > 1:
        raise ValueError("chunks of different sizes have no fixed chunk index")
    whole = config.chunk_size + (IV_AND_TAG if config.key else 0)  # also where the last chunk is the only one
    return common | {
        "transformedChunkSize": sizes[0] if config.compression else whole,
        "finalTransformedChunkSize": sizes[-1],
    }


def _merge_indexes(segment: LocalSegment, lock: _Lock) -> tuple[dict[str, Any], bytes]:
    """What `segmentIndexes` says, and the object: never compressed, encrypted one by one."""
    parts: dict[str, Any] = {}
    merged = b""
    for name, data in (
        ("offset", segment.index),
        ("timestamp", segment.timeindex),
        ("producerSnapshot", segment.snapshot),
        ("leaderEpoch", segment.checkpoint),
        ("transaction", segment.txnindex),
    ):
        if data is None:
            parts[name] = None
            continue
        locked = lock(data)
        parts[name] = {"position": len(merged), "size": len(locked)}
        merged += locked
    return parts, merged


class _Lock:
    """Encrypts with a data key of its own for each segment; without a key it changes nothing."""

    def __init__(self, config: AivenConfig, chance: random.Random) -> None:
        self._config, self._chance = config, chance
        self._data_key, self._aad = chance.randbytes(32), chance.randbytes(32)

    def __call__(self, data: bytes) -> bytes:
        if self._config.key is None:
            return data
        iv = self._chance.randbytes(12)
        return iv + AESGCM(self._data_key).encrypt(iv, data, self._aad)

    def as_json(self) -> dict[str, Any]:
        if self._config.key is None:
            return {}
        key_id, pem = self._config.key
        wrapped = base64.b64encode(wrap(self._data_key, pem, self._chance)).decode()
        return {"encryption": {"dataKey": f"{key_id}:{wrapped}", "aad": base64.b64encode(self._aad).decode()}}


def wrap(data_key: bytes, pem: bytes, chance: random.Random) -> bytes:
    """RSA/NONE/OAEP with SHA3-512 and MGF1 of SHA3-512 (RFC 8017, 7.1.1), by the public half of the key."""
    public = load_pem_private_key(pem, None).public_key().public_numbers()  # type: ignore[union-attr]  # RSA
    size = (public.n.bit_length() + 7) // 8  # type: ignore[union-attr]
    digest = hashlib.sha3_512(b"").digest()
    block = digest + bytes(size - len(data_key) - 130) + b"\1" + data_key
    seed = chance.randbytes(64)
    masked = _xor(block, _generate_mask(seed, len(block)))
    masked_seed = _xor(seed, _generate_mask(masked, 64))
    number = int.from_bytes(b"\0" + masked_seed + masked)
    return pow(number, public.e, public.n).to_bytes(size)  # type: ignore[union-attr]


def _generate_mask(seed: bytes, size: int) -> bytes:
    mask, number = b"", 0
    while len(mask) < size:
        mask += hashlib.sha3_512(seed + struct.pack(">I", number)).digest()
        number += 1
    return mask[:size]


def _xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one) ^ int.from_bytes(other)).to_bytes(len(one))


# --- Kafka's own and Pinterest's --------------------------------------------------------------------------------------


def encode_local_tier(
    segments: Sequence[LocalSegment], names: Names, prefix: str = "kafka-tiered-storage/", seed: int = 0
) -> Objects:
    """What Kafka's LocalTieredStorage stores: the broker's files, each under the id of its segment."""
    chance = random.Random(f"{seed} {names}")
    objects: Objects = {}
    for segment in segments:
        folder = f"{prefix}{names.topic}-{names.partition}-{names.id_text}"
        stem = f"{folder}/{segment.base:020d}-{as_text(chance.randbytes(16))}"
        objects |= {
            f"{stem}.log": segment.log,
            f"{stem}.index": segment.index,
            f"{stem}.timeindex": segment.timeindex,
            f"{stem}.snapshot": segment.snapshot,
            f"{stem}.leader_epoch_checkpoint": segment.checkpoint,
        }
        if segment.txnindex is not None:
            objects[f"{stem}.txnindex"] = segment.txnindex
    return objects


def encode_pinterest(segments: Sequence[LocalSegment], names: Names, entropy: int = 0) -> Objects:
    """What Pinterest's uploader stores. entropy: how many bits of a hash are in the prefix."""
    bits = format(hashlib.md5(f"main-{names.topic}-{names.partition}".encode()).digest()[0], "08b")[:entropy]
    parts = ["tier", *([bits] if bits else []), "main", f"{names.topic}-{names.partition}"]
    folder = "/".join(parts)
    objects: Objects = {}
    for segment in segments:
        stem = f"{folder}/{segment.base:020d}"
        objects |= {f"{stem}.log": segment.log, f"{stem}.index": segment.index, f"{stem}.timeindex": segment.timeindex}
    if segments:
        objects[f"{folder}/offset.wm"] = str(segments[-1].base).encode()
        times = {f"{segment.base:020d}": segment.max_timestamp for segment in segments}
        objects[f"{folder}/_metadata"] = json.dumps({"timeindex": times}).encode()
    return objects


# --- helpers ----------------------------------------------------------------------------------------------------------


def _walk(log: bytes) -> tuple[int, int]:
    """The last offset and the largest timestamp of a log, from its batch headers (docs/kafka-log-format.md, 2)."""
    last, largest, position = -1, -1, 0
    while position < len(log):
        base, length, _, magic = struct.unpack_from(">qiib", log, position)
        if magic < 2:
            batches = naive.decode_batches(log)
            return batches[-1].last_offset, max(batch.max_timestamp for batch in batches)
        delta, _, newest = struct.unpack_from(">iqq", log, position + 23)
        last, largest, position = base + delta, max(largest, newest), position + 12 + length
    return last, largest


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _read_epochs(path: Path) -> dict[int, int]:
    if not path.exists():
        return {0: 0}
    _, _, *lines = path.read_text().splitlines()
    return {int(epoch): int(start) for epoch, start in map(str.split, lines)}
