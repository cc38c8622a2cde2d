"""Kafka's bytes, written as brokers, clients and cleaners of each version write them, or slightly wrong on demand.

In: `Rec`s and header fields. Out: bytes of batches, message sets and index files. Checks nothing: a caller may ask for
fields that contradict each other, which is how damaged data is made. Field tables: docs/kafka-log-format.md, 1 to 5.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import cramjam
import crc32c
import lz4.frame
import zstandard

Codec = Literal["none", "gzip", "snappy-raw", "snappy-xerial", "lz4", "zstd"]
Marker = Literal["abort", "commit"]

CODEC_IDS: dict[str, int] = {"none": 0, "gzip": 1, "snappy-raw": 2, "snappy-xerial": 2, "lz4": 3, "zstd": 4}
MARKER_TYPES = {"abort": 0, "commit": 1}


@dataclass(frozen=True)
class Rec:
    """One record to write; its offset is the base offset it is written with plus `offset_delta`."""

    offset_delta: int = 0
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


# --- v2 batches, section 1 -------------------------------------------------------------------------------------------


def varint(number: int, bits: Literal[32, 64] = 32) -> bytes:
    """Zig-zag varint of a signed `bits`-wide number (section 1.2); wider numbers wrap as in Java."""
    zigzag = ((number << 1) ^ (number >> 63)) & (2**bits - 1)
    out = bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def sized_bytes(data: bytes | None) -> bytes:
    """A varint length and the bytes; null is -1 (section 1.2)."""
    return varint(-1) if data is None else varint(len(data)) + data


def record_body(rec: Rec, base_timestamp: int) -> bytes:
    """One v2 record without its length (section 1.2)."""
    out = b"\x00" + varint(wrap64(rec.timestamp - base_timestamp), 64) + varint(rec.offset_delta)
    out += sized_bytes(rec.key) + sized_bytes(rec.value) + varint(len(rec.headers))
    return out + b"".join(sized_bytes(key) + sized_bytes(value) for key, value in rec.headers)


def record(rec: Rec, base_timestamp: int) -> bytes:
    """One v2 record with its length (section 1.2)."""
    body = record_body(rec, base_timestamp)
    return varint(len(body)) + body


def wrap64(number: int) -> int:
    """What Java's long arithmetic makes of `number`."""
    return (number + 2**63) % 2**64 - 2**63


def record_batch(
    records: Sequence[Rec],
    *,
    base_offset: int = 0,
    codec: Codec = "none",
    timestamp_type: int = 0,
    leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    last_offset_delta: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    delete_horizon: bool = False,
) -> bytes:
    """One v2 batch (section 1.1). Left out: last delta of the records, first timestamp, largest timestamp (none: -1).

    A compacted batch is written by records with gaps and an explicit `last_offset_delta`; an empty one by no records,
    codec "none" and an explicit `last_offset_delta` and `max_timestamp` (section 1.3).
    """
    if base_timestamp is None:
        base_timestamp = records[0].timestamp if records else -1
    body = b"".join(record(rec, base_timestamp) for rec in records)
    return record_batch_of(
        compress(codec, body),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=(CODEC_IDS[codec] | timestamp_type << 3 | transactional << 4 | control << 5 | delete_horizon << 6),
        last_offset_delta=(
            max((rec.offset_delta for rec in records), default=0) if last_offset_delta is None else last_offset_delta
        ),
        base_timestamp=base_timestamp,
        max_timestamp=(max((rec.timestamp for rec in records), default=-1) if max_timestamp is None else max_timestamp),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=len(records),
    )


def record_batch_of(
    body: bytes,
    *,
    base_offset: int = 0,
    leader_epoch: int = 0,
    attributes: int = 0,
    last_offset_delta: int = 0,
    base_timestamp: int = -1,
    max_timestamp: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    count: int = 0,
) -> bytes:
    """A v2 header with right length and CRC around any stored (compressed) `body`: the tool for damaged data."""
    checked = struct.pack(">hiqq", attributes, last_offset_delta, base_timestamp, max_timestamp)
    checked += struct.pack(">qhii", producer_id, producer_epoch, base_sequence, count) + body
    return struct.pack(">qiibI", base_offset, 9 + len(checked), leader_epoch, 2, crc32c.crc32c(checked)) + checked


def control_batch(
    marker: Marker,
    *,
    offset: int,
    timestamp: int,
    producer_id: int,
    producer_epoch: int = 0,
    coordinator_epoch: int = 0,
    leader_epoch: int = 0,
) -> bytes:
    """A transaction marker, a v2 batch of one record (section 1.4)."""
    rec = Rec(timestamp=timestamp, key=marker_key(marker), value=struct.pack(">hi", 0, coordinator_epoch))
    return record_batch(
        [rec],
        base_offset=offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def marker_key(marker: Marker) -> bytes:
    """Key of a transaction marker: version 0 and type (section 1.4)."""
    return struct.pack(">hh", 0, MARKER_TYPES[marker])


def with_right_crc(batch: bytes) -> bytes:
    """A v2 batch whose bytes were changed, made believable again."""
    return batch[:17] + struct.pack(">I", crc32c.crc32c(batch[21:])) + batch[21:]


# --- v0 and v1 message sets, section 2 -------------------------------------------------------------------------------


def message(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int,
    timestamp: int = -1,
    timestamp_type: int = 0,
    codec: Codec = "none",
) -> bytes:
    """One entry of a v0 or v1 message set; `codec` is only noted, `value` is stored as it is (section 2)."""
    checked = struct.pack(">bb", magic, CODEC_IDS[codec] | timestamp_type << 3)
    if magic == 1:
        checked += struct.pack(">q", timestamp)
    for data in (key, value):
        checked += struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    return struct.pack(">qiI", offset, 4 + len(checked), zlib.crc32(checked)) + checked


def message_set_v0(
    records: Sequence[Rec],
    *,
    base_offset: int = 0,
    codec: Codec = "none",
    inner_magic: int = 0,
    old_lz4_checksum: bool = True,
) -> bytes:
    """A v0 message set: plain entries, or one wrapper around absolute offsets (section 2).

    `old_lz4_checksum` writes the wrong lz4 header checksum of KAFKA-3160, as Java clients did; `inner_magic` 1 writes
    the mixed wrappers of KAFKA-4298.
    """
    entries = [
        message(base_offset + rec.offset_delta, rec.key, rec.value, magic=inner_magic, timestamp=rec.timestamp)
        for rec in records
    ]
    if codec == "none":
        return b"".join(entries)
    value = compress(codec, b"".join(entries))
    if codec == "lz4" and old_lz4_checksum:
        value = with_old_lz4_checksum(value)
    return message(base_offset + records[-1].offset_delta, None, value, magic=0, codec=codec)


def message_set_v1(
    records: Sequence[Rec],
    *,
    base_offset: int = 0,
    codec: Codec = "none",
    timestamp_type: int = 0,
    inner_offsets: Literal["relative", "absolute"] = "relative",
    inner_magic: int = 1,
    wrapper_offset: int | None = None,
    wrapper_timestamp: int | None = None,
) -> bytes:
    """A v1 message set: plain entries, or one wrapper (section 2).

    With `timestamp_type` 1 (LogAppendTime) a wrapper keeps its producer's inner timestamps and `wrapper_timestamp` is
    the one that counts; plain entries all get it. Left out, it is the largest of the records.
    """
    if wrapper_timestamp is None:
        wrapper_timestamp = max(rec.timestamp for rec in records)
    if codec == "none":
        return b"".join(
            message(
                base_offset + rec.offset_delta,
                rec.key,
                rec.value,
                magic=1,
                timestamp=wrapper_timestamp if timestamp_type == 1 else rec.timestamp,
                timestamp_type=timestamp_type,
            )
            for rec in records
        )
    inner_base = base_offset if inner_offsets == "absolute" else 0
    entries = [
        message(inner_base + rec.offset_delta, rec.key, rec.value, magic=inner_magic, timestamp=rec.timestamp)
        for rec in records
    ]
    return message(
        base_offset + records[-1].offset_delta if wrapper_offset is None else wrapper_offset,
        None,
        compress(codec, b"".join(entries)),
        magic=1,
        timestamp=wrapper_timestamp,
        timestamp_type=timestamp_type,
        codec=codec,
    )


# --- codecs, section 3 -----------------------------------------------------------------------------------------------


def compress(codec: Codec, data: bytes) -> bytes:
    """`data` as a client's codec stores it (section 3)."""
    if codec == "gzip":
        return gzip.compress(data, mtime=0)
    if codec == "snappy-raw":
        return bytes(cramjam.snappy.compress_raw(data))
    if codec == "snappy-xerial":
        return xerial(data)
    if codec == "lz4":
        # Java's writer: independent blocks of 64 KiB, no content size, no checksum of blocks or content.
        frame: bytes = lz4.frame.compress(
            data, block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX64KB, store_size=False
        )
        return frame
    if codec == "zstd":
        stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
        return stream.compress(data) + stream.flush()
    return data


def xerial(data: bytes, block: int = 32 * 1024) -> bytes:
    """Java's snappy framing: a header, then blocks each with its length (section 3)."""
    out = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for at in range(0, len(data), block):
        raw = bytes(cramjam.snappy.compress_raw(data[at : at + block]))
        out += struct.pack(">i", len(raw)) + raw
    return out


def with_old_lz4_checksum(frame: bytes) -> bytes:
    """An lz4 frame of `compress` with the header checksum taken over the frame magic too (KAFKA-3160, section 3)."""
    return frame[:6] + bytes([xxh32_short(frame[:6]) >> 8 & 0xFF]) + frame[7:]


def xxh32_short(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes, enough for a frame header."""
    prime = (0, 2654435761, 2246822519, 3266489917, 668265263, 374761393)
    mask = 2**32 - 1

    def rotate(number: int, bits: int) -> int:
        return (number << bits | number >> 32 - bits) & mask

    h = prime[5] + len(data)
    words = len(data) // 4
    for (word,) in struct.iter_unpack("<I", data[: 4 * words]):
        h = rotate((h + word * prime[3]) & mask, 17) * prime[4] & mask
    for byte in data[4 * words :]:
        h = rotate((h + byte * prime[5]) & mask, 11) * prime[1] & mask
    h = (h ^ h >> 15) * prime[2] & mask
    h = (h ^ h >> 13) * prime[3] & mask
    return h ^ h >> 16


# --- index files and names, sections 4 and 5 -------------------------------------------------------------------------


def offset_index(entries: Iterable[tuple[int, int]], base: int, padded_to: int | None = None) -> bytes:
    """`.index` bytes (section 4.2) of (absolute offset, position) entries, zero-padded to `padded_to` bytes."""
    return _padded(b"".join(struct.pack(">ii", offset - base, position) for offset, position in entries), padded_to)


def time_index(entries: Iterable[tuple[int, int]], base: int, padded_to: int | None = None) -> bytes:
    """`.timeindex` bytes (section 4.4) of (timestamp, absolute offset) entries, zero-padded to `padded_to` bytes."""
    return _padded(b"".join(struct.pack(">qi", timestamp, offset - base) for timestamp, offset in entries), padded_to)


def transaction_index(entries: Iterable[tuple[int, int, int, int]]) -> bytes:
    """`.txnindex` bytes (section 5.1) of (producer id, first offset, last offset, last stable offset) entries."""
    return b"".join(struct.pack(">hqqqq", 0, *entry) for entry in entries)


def segment_name(base: int, suffix: str = ".log") -> str:
    """File name of a segment's file (section 4.1)."""
    return f"{base:020d}{suffix}"


def partition_name(topic: str, partition: int) -> str:
    """Name of a partition's directory (section 7.1)."""
    return f"{topic}-{partition}"


class SegmentFiles(Protocol):
    """What is in a segment's files (None: no such file)."""

    @property
    def base_offset(self) -> int: ...
    @property
    def log(self) -> bytes: ...
    @property
    def index(self) -> bytes | None: ...
    @property
    def timeindex(self) -> bytes | None: ...


def write_partition(directory: Path, topic: str, partition: int, segments: Iterable[SegmentFiles]) -> Path:
    """Writes the segments as a partition's directory below `directory`. Returns the partition's directory."""
    folder = directory / partition_name(topic, partition)
    folder.mkdir(parents=True)
    for segment in segments:
        files = {".log": segment.log, ".index": segment.index, ".timeindex": segment.timeindex}
        for suffix, data in files.items():
            if data is not None:
                (folder / segment_name(segment.base_offset, suffix)).write_bytes(data)
    return folder


def _padded(data: bytes, size: int | None) -> bytes:
    return data if size is None else data.ljust(size, b"\x00")
