"""The manifests of Aiven's tiered storage: JSON → `Manifest`.

A manifest says which offsets a segment has, how its `.log` was cut into chunks and changed, and where the parts of its
`.indexes` object lie. It is written after the other objects, so it marks a segment that is whole.

Source: Aiven's tiered-storage-for-apache-kafka, SegmentManifestV1, FixedSizeChunkIndex, VariableSizeChunkIndex,
ChunkSizesBinaryCodec. Read at 8fb15816; checked against stores that version 1.0.0 wrote.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import zstandard

from kafka_segment_source import kafka_format
from kafka_segment_source.storage.tiered.encryption import ENCRYPTION_BYTES, Encryption

MOST_MANIFEST = 4 * 1024 * 1024  # bytes; a segment of 1 GiB in chunks of 4 MiB has 2 KiB
LARGEST_CHUNK = 256 * 1024 * 1024  # bytes; a chunk is in memory as a whole, and Aiven recommends 4 MiB
_MOST_CHUNKS = 1_000_000
_MOST_INDEX = 64 * 1024 * 1024  # bytes of one part of the `.indexes` object
_MOST_EPOCHS = 100_000
_EPOCH_DIGITS = 10
_VERSION = "1"
_KAFKA_FORMAT = "kafka"
_NUMBER_BYTES = 4

PARTS = ("offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction")


class ManifestError(ValueError):
    """What is wrong with a manifest.

    found, expected: two values.
    is_newer: whether a newer plugin wrote it.
    """

    def __init__(self, what: str, found: object, expected: object, is_newer: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.found = found
        self.expected = expected
        self.is_newer = is_newer


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """Where the chunks of a `.log` lie.

    chunk_size: bytes of each chunk of the original file, but of its last one.
    file_size: of the original file.
    starts: the position of each chunk in the object, and the position after the last one.
    """

    chunk_size: int
    file_size: int
    starts: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @property
    def stored_size(self) -> int:
        """Bytes of the object."""
        return self.starts[-1]

    def original_size(self, chunk: int) -> int:
        """Returns the bytes of a chunk in the original file."""
        return min(self.chunk_size, self.file_size - chunk * self.chunk_size)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One segment of a tier.

    base_offset, last_offset: both inclusive.
    latest: the largest timestamp (ms) that its broker knew.
    epochs: pairs of leader epoch and start offset, in order.
    parts: position and stored size of each part of the `.indexes` object.
    """

    topic: str
    partition: int
    topic_id: str
    segment_id: str
    base_offset: int
    last_offset: int
    latest: int
    epochs: tuple[tuple[int, int], ...]
    chunks: ChunkIndex
    parts: Mapping[str, tuple[int, int]]
    is_compressed: bool
    encryption: Encryption | None

    @property
    def is_plain(self) -> bool:
        """Whether the object has the bytes of the original `.log`."""
        return not self.is_compressed and self.encryption is None

    def part_size(self, part: str) -> int | None:
        """Returns the bytes of a part of the `.indexes` object, decrypted. None if there is no such part."""
        if part not in self.parts:
            return None
        return self.parts[part][1] - (0 if self.encryption is None else ENCRYPTION_BYTES)


def parse_manifest(data: bytes) -> Manifest:
    """Returns a manifest. Raises ManifestError for anything else, and for a newer version."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ManifestError("manifest that is no JSON", str(error)[:100], "a JSON object") from None
    root = _Fields(content)
    version = root.take("version", str)
    if version != _VERSION:
        is_newer = version.isascii() and version.isdigit() and version != "0"
        raise ManifestError("manifest of an unknown version", repr(version[:40]), f"version {_VERSION!r}", is_newer)
    form = root.values.get("segmentFormat")
    if form is not None and (not isinstance(form, str) or form.lower() != _KAFKA_FORMAT):
        raise ManifestError(
            "segment in another format than Kafka's", repr(str(form)[:40]), "segmentFormat 'kafka'", True
        )
    is_compressed = root.take("compression", bool)
    encryption = _parse_encryption(root)
    metadata = root.sub("remoteLogSegmentMetadata")
    named = metadata.sub("remoteLogSegmentId")
    topic_id = named.sub("topicIdPartition")
    place = topic_id.sub("topicPartition")
    base = metadata.number("startOffset", 0, kafka_format.MAX_OFFSET)
    return Manifest(
        topic=place.take("topic", str),
        partition=place.number("partition", 0, 2**31 - 1),
        topic_id=topic_id.take("topicId", str),
        segment_id=named.take("id", str),
        base_offset=base,
        last_offset=metadata.number("endOffset", base, kafka_format.MAX_OFFSET - 1),
        latest=metadata.number("maxTimestampMs", -1, 2**63 - 1),
        epochs=_parse_epochs(metadata),
        chunks=_parse_chunks(root.sub("chunkIndex"), encryption is not None, is_compressed),
        parts=_parse_parts(root.sub("segmentIndexes"), encryption is not None),
        is_compressed=is_compressed,
        encryption=encryption,
    )


class _Fields:
    """The fields of a JSON object, each taken with its type.

    path: of the object in the manifest.
    """

    def __init__(self, values: object, path: str = "") -> None:
        if not isinstance(values, dict):
            raise ManifestError(f"manifest with a wrong {path or 'root'}", type(values).__name__, "a JSON object")
        self.values: dict[str, Any] = values
        self._path = path

    def sub(self, name: str) -> _Fields:
        return _Fields(self.values.get(name), self._name(name))

    def take(self, name: str, kind: type) -> Any:
        value = self.values.get(name)
        if type(value) is not kind:
            raise ManifestError(f"manifest with a wrong {self._name(name)}", _show(value), f"a {kind.__name__}")
        return value

    def number(self, name: str, least: int, most: int) -> int:
        value = self.values.get(name)
        if type(value) is not int or not least <= value <= most:
            raise ManifestError(f"manifest with a wrong {self._name(name)}", _show(value), f"{least} to {most}")
        return value

    def _name(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name


def _show(value: object) -> str:
    return "nothing" if value is None else repr(value)[:60]


def _parse_encryption(root: _Fields) -> Encryption | None:
    if root.values.get("encryption") is None:
        return None
    fields = root.sub("encryption")
    key_id, colon, text = fields.take("dataKey", str).partition(":")
    if not colon or not key_id:
        raise ManifestError("manifest with a wrong encryption.dataKey", "no key id", "a key id, a colon and base64")
    return Encryption(key_id, _decode(text, "encryption.dataKey"), _decode(fields.take("aad", str), "encryption.aad"))


def _decode(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ManifestError(f"manifest with a wrong {name}", "no base64", "base64") from None


def _parse_epochs(metadata: _Fields) -> tuple[tuple[int, int], ...]:
    fields = metadata.sub("segmentLeaderEpochs")
    if len(fields.values) > _MOST_EPOCHS:
        raise ManifestError("manifest with too many leader epochs", len(fields.values), f"at most {_MOST_EPOCHS}")
    epochs = []
    for epoch in fields.values:
        if not (epoch.isascii() and epoch.isdigit() and len(epoch) <= _EPOCH_DIGITS and int(epoch) < 2**31):
            raise ManifestError("manifest with a wrong leader epoch", repr(epoch[:40]), "a number")
        epochs.append((int(epoch), fields.number(epoch, 0, kafka_format.MAX_OFFSET)))
    return tuple(sorted(epochs))


def _parse_parts(fields: _Fields, is_encrypted: bool) -> dict[str, tuple[int, int]]:
    parts = {}
    for part in PARTS:
        if fields.values.get(part) is None:
            continue
        sub = fields.sub(part)
        least = ENCRYPTION_BYTES if is_encrypted else 0
        parts[part] = sub.number("position", 0, 2**40), sub.number("size", least, _MOST_INDEX)
    return parts


def _parse_chunks(fields: _Fields, is_encrypted: bool, is_compressed: bool) -> ChunkIndex:
    kind = fields.take("type", str)
    file_size = fields.number("originalFileSize", 0, kafka_format.LARGEST_LOG)
    chunk_size = fields.number("originalChunkSize", 1, 2**40)
    count = -(-file_size // chunk_size)
    if min(chunk_size, file_size) > LARGEST_CHUNK:
        raise ManifestError(
            "segment in chunks that are too large", f"{chunk_size:,} bytes", f"at most {LARGEST_CHUNK:,}"
        )
    if count > _MOST_CHUNKS:
        raise ManifestError("segment of too many chunks", f"{count:,}", f"at most {_MOST_CHUNKS:,}")
    if kind == "fixed":
        sizes = _fixed_sizes(fields, count)
    elif kind == "variable":
        sizes = _variable_sizes(fields.take("transformedChunks", str))
    else:
        raise ManifestError("manifest with a wrong chunkIndex.type", repr(kind[:40]), "'fixed' or 'variable'")
    if len(sizes) != count:
        raise ManifestError("chunk index that does not fit its segment", f"{len(sizes):,} chunks", f"{count:,} chunks")
    least = ENCRYPTION_BYTES if is_encrypted else 1
    if any(not least <= size <= LARGEST_CHUNK * 2 for size in sizes):
        raise ManifestError("chunk index with an impossible size", min(sizes), f"at least {least} bytes")
    index = ChunkIndex(chunk_size, file_size, tuple(accumulate(sizes, initial=0)))
    if not is_compressed:
        more = ENCRYPTION_BYTES if is_encrypted else 0
        wrong = next((at for at, size in enumerate(sizes) if size != index.original_size(at) + more), None)
        if wrong is not None:
            expected = f"{index.original_size(wrong) + more} bytes"
            raise ManifestError("chunk index that does not fit its segment", f"{sizes[wrong]} bytes", expected)
    return index


def _fixed_sizes(fields: _Fields, count: int) -> list[int]:
    size = fields.number("transformedChunkSize", 1, 2**40)
    final = fields.number("finalTransformedChunkSize", 0, 2**40)
    return [*[size] * (count - 1), final] if count else []


def _variable_sizes(text: str) -> list[int]:
    """Decodes the sizes of chunks: base64 of zstd of a binary list.

    The list: int32 count. For one chunk: int32 size. For more: int32 base, int8 width, for each but the last chunk its
    size minus the base in `width` bytes, and int32 size of the last chunk.
    """
    data = _inflate(_decode(text, "chunkIndex.transformedChunks"))
    numbers = [int.from_bytes(data[at : at + _NUMBER_BYTES], "big", signed=True) for at in (0, 4)]
    count, base = numbers
    if len(data) < _NUMBER_BYTES or not 0 <= count <= _MOST_CHUNKS:
        raise _make_list_fault(f"a count of {count}")
    if count <= 1:
        expected = _NUMBER_BYTES * (1 + count)
        if len(data) != expected:
            raise _make_list_fault(f"{len(data)} bytes for {count} chunks")
        return [base] * count
    head = 2 * _NUMBER_BYTES + 1
    width = data[head - 1] if len(data) >= head else 0
    if not 1 <= width <= _NUMBER_BYTES or len(data) != head + (count - 1) * width + _NUMBER_BYTES:
        raise _make_list_fault(f"{len(data)} bytes for {count} chunks of width {width}")
    body = data[head:-_NUMBER_BYTES]
    sizes = [base + int.from_bytes(body[at : at + width], "big") for at in range(0, len(body), width)]
    return [*sizes, int.from_bytes(data[-_NUMBER_BYTES:], "big", signed=True)]


def _make_list_fault(found: str) -> ManifestError:
    return ManifestError("chunk index that cannot be read", found, "a list of chunk sizes")


def _inflate(data: bytes) -> bytes:
    most = _NUMBER_BYTES * (_MOST_CHUNKS + 4)
    try:
        with zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(data) as reader:
            inflated = bytes(reader.read(most + 1))
    except (zstandard.ZstdError, MemoryError) as error:
        raise _make_list_fault(str(error)[:100]) from None
    if len(inflated) > most:
        raise _make_list_fault(f"more than {most:,} bytes")
    return inflated
