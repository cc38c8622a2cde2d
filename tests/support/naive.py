"""A reference decoder of Kafka's `.log` bytes: one record at a time, plain `struct` and slices, clear before fast.

In: the bytes of a whole `.log` file (or of any run of whole batches). Out: `Batch` values, or their `Record`s, in file
order. Raises `NaiveError`, and nothing else, for bytes that Kafka's own reader would refuse. A torn last batch and a
tail of zeros end the log without an error, as they do for Kafka.

Section numbers are those of docs/kafka-log-format.md. This file shares no code with the package, nor with `writer.py`.
"""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass

import cramjam
import crc32c
import lz4.frame
import zstandard

Header = tuple[bytes, bytes | None]

CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
NO_TIMESTAMP = -1
NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME = -1, 0, 1


class NaiveError(Exception):
    """Bytes that are not a Kafka log, for any reason but a torn or zero-filled tail."""


@dataclass(frozen=True)
class Record:
    """One record as a consumer gets it, and facts of the batch it came in (-1 or False where the format has none)."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    base_offset: int
    position: int
    magic: int
    codec: str
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    is_transactional: bool = False
    is_control: bool = False


@dataclass(frozen=True)
class Batch:
    """One v2 batch, or one entry of a v0/v1 message set; `base_offset` of an entry is its first inner offset."""

    position: int
    size: int
    magic: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    is_control: bool
    records: list[Record]


def decode_log(data: bytes) -> list[Record]:
    """All records of a `.log` in file order, control records included; raises NaiveError."""
    return [record for batch in decode_batches(data) for record in batch.records]


def committed(records: list[Record]) -> list[Record]:
    """What a consumer of `read_committed` gets of the records of a whole partition (section 5): no control records,
    nothing aborted, nothing from the first open transaction on."""
    open_ones: dict[int, list[int]] = {}
    aborted: set[int] = set()
    for record in records:
        if record.is_control:
            offsets = open_ones.pop(record.producer_id, [])
            aborted.update(offsets if record.key is not None and record.key[2:4] == b"\0\0" else [])
        elif record.is_transactional:
            open_ones.setdefault(record.producer_id, []).append(record.offset)
    end = min((offsets[0] for offsets in open_ones.values()), default=2**63)
    return [each for each in records if not each.is_control and each.offset < end and each.offset not in aborted]


def decode_batches(data: bytes) -> list[Batch]:
    """All whole batches of a `.log` in file order (sections 1, 2 and 4.6); raises NaiveError."""
    batches = []
    position = 0
    while (size := _entry_size(data, position)) is not None:
        batches.append(decode_batch(data[position : position + size], position))
        position += size
    return batches


def decode_batch(data: bytes, position: int = 0) -> Batch:
    """The batch or entry that fills `data` exactly; `position` is only reported; raises NaiveError."""
    try:
        magic = data[16]
        if magic == 2:
            return _decode_v2(data, position)
        if magic in (0, 1):
            return _decode_legacy(data, position)
    except (struct.error, IndexError) as error:
        raise NaiveError(f"batch at {position}: {error}") from error
    raise NaiveError(f"batch at {position}: magic {magic}")


def _entry_size(data: bytes, position: int) -> int | None:
    """Bytes of the entry at `position`, or None where the log ends: too little left, an entry cut off, only zeros."""
    left = len(data) - position
    if left < 17:
        return None
    (size,) = struct.unpack(">i", data[position + 8 : position + 12])
    if size < 14:
        if any(data[position:]):
            raise NaiveError(f"entry at {position}: size {size} is below 14")
        return None
    return 12 + size if 12 + size <= left else None


# --- v2 batches, section 1 -------------------------------------------------------------------------------------------


def _decode_v2(data: bytes, position: int) -> Batch:
    if len(data) < 61:
        raise NaiveError(f"batch at {position}: {len(data)} bytes are fewer than a header")
    base_offset, _, leader_epoch, _, crc = struct.unpack(">qiibI", data[:21])
    attributes, last_offset_delta, base_timestamp, max_timestamp = struct.unpack(">hiqq", data[21:43])
    producer_id, producer_epoch, base_sequence, count = struct.unpack(">qhii", data[43:61])
    if crc32c.crc32c(data[21:]) != crc:
        raise NaiveError(f"batch at {position}: crc {crc:#x}, computed {crc32c.crc32c(data[21:]):#x}")
    if count < 0:
        raise NaiveError(f"batch at {position}: {count} records")
    append_time = bool(attributes & 0x08)
    codec = _codec_name(attributes & 0x07)
    body = decompress(codec, data[61:]) if count else b""
    records = []
    at = 0
    for _ in range(count):
        timestamp_delta, offset_delta, key, value, headers, at = _read_record(body, at)
        records.append(
            Record(
                offset=base_offset + offset_delta,
                timestamp=max_timestamp if append_time else _wrap64(base_timestamp + timestamp_delta),
                timestamp_type=LOG_APPEND_TIME if append_time else CREATE_TIME,
                key=key,
                value=value,
                headers=headers,
                base_offset=base_offset,
                position=position,
                magic=2,
                codec=codec,
                leader_epoch=leader_epoch,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                sequence=-1 if base_sequence < 0 else (base_sequence + offset_delta) % 2**31,
                is_transactional=bool(attributes & 0x10),
                is_control=bool(attributes & 0x20),
            )
        )
    if at != len(body):
        raise NaiveError(f"batch at {position}: {len(body) - at} bytes left after {count} records")
    last_offset = base_offset + last_offset_delta
    return Batch(position, len(data), 2, base_offset, last_offset, max_timestamp, bool(attributes & 0x20), records)


def _read_record(body: bytes, at: int) -> tuple[int, int, bytes | None, bytes | None, list[Header], int]:
    """One v2 record (section 1.2): timestamp delta, offset delta, key, value, headers, and where the next begins."""
    length, at = _read_varint(body, at)
    end = at + length
    if length < 0 or end > len(body):
        raise NaiveError(f"record of {length} bytes at {at}, {len(body) - at} are left")
    record = body[:end]
    at += 1  # attributes, unused
    timestamp_delta, at = _read_varint(record, at, most=10)
    offset_delta, at = _read_varint(record, at)
    key, at = _read_bytes(record, at)
    value, at = _read_bytes(record, at)
    header_count, at = _read_varint(record, at)
    if header_count < 0 or header_count > end - at:
        raise NaiveError(f"{header_count} headers in {end - at} bytes")
    headers = []
    for _ in range(header_count):
        header_key, at = _read_bytes(record, at)
        header_value, at = _read_bytes(record, at)
        if header_key is None:
            raise NaiveError("null header key")
        headers.append((header_key, header_value))
    if at != end:
        raise NaiveError(f"record said to end at {end} ends at {at}")
    return timestamp_delta, offset_delta, key, value, headers, end


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    """A varint length, negative for null, and as many bytes."""
    length, at = _read_varint(data, at)
    if length < 0:
        return None, at
    if at + length > len(data):
        raise NaiveError(f"{length} bytes wanted at {at}, {len(data) - at} are left")
    return data[at : at + length], at + length


def _read_varint(data: bytes, at: int, most: int = 5) -> tuple[int, int]:
    """A zig-zag varint of at most `most` bytes (5: 32-bit, 10: 64-bit), and where it ends."""
    bits = 0
    for i in range(most):
        byte = data[at + i]
        bits |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            bits &= 2**32 - 1 if most == 5 else 2**64 - 1
            return (bits >> 1) ^ -(bits & 1), at + i + 1
    raise NaiveError(f"varint at {at} is longer than {most} bytes")


def _wrap64(number: int) -> int:
    """What Java's long arithmetic makes of `number`."""
    return (number + 2**63) % 2**64 - 2**63


# --- v0 and v1 message sets, section 2 -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Message:
    """One entry of a message set as stored: offset not yet made absolute, value perhaps a compressed set."""

    offset: int
    magic: int
    codec: str
    append_time: bool
    timestamp: int
    key: bytes | None
    value: bytes | None


def _decode_legacy(data: bytes, position: int) -> Batch:
    outer = _read_message(data)
    inner = [outer] if outer.codec == "none" else _unwrap(outer)
    append_time = outer.magic == 1 and outer.append_time
    records = []
    for message in inner:
        timestamp, timestamp_type = message.timestamp, LOG_APPEND_TIME if append_time else CREATE_TIME
        if message.magic == 0:
            timestamp, timestamp_type = NO_TIMESTAMP, NO_TIMESTAMP_TYPE
        elif append_time:
            timestamp = outer.timestamp
        elif outer.magic == 0:  # v1 inside v0 (KAFKA-4298): the wrapper gives the type, and it has none
            timestamp_type = NO_TIMESTAMP_TYPE
        records.append(
            Record(
                offset=message.offset,
                timestamp=timestamp,
                timestamp_type=timestamp_type,
                key=message.key,
                value=message.value,
                headers=[],
                base_offset=inner[0].offset,
                position=position,
                magic=outer.magic,
                codec=outer.codec,
            )
        )
    return Batch(position, len(data), outer.magic, inner[0].offset, outer.offset, outer.timestamp, False, records)


def _read_message(data: bytes) -> _Message:
    """The entry that fills `data` exactly, its CRC checked."""
    offset, size, crc, magic, attributes = struct.unpack(">qiIbb", data[:18])
    if 12 + size != len(data) or magic not in (0, 1):
        raise NaiveError(f"entry of {size} bytes and magic {magic} in {len(data)} bytes")
    if zlib.crc32(data[16:]) != crc:
        raise NaiveError(f"message {offset}: crc {crc:#x}, computed {zlib.crc32(data[16:]):#x}")
    at, timestamp = 18, NO_TIMESTAMP
    if magic == 1:
        (timestamp,) = struct.unpack(">q", data[18:26])
        at = 26
    key, at = _read_sized(data, at)
    value, at = _read_sized(data, at)
    if at != len(data):
        raise NaiveError(f"message {offset}: {len(data) - at} bytes after its value")
    return _Message(offset, magic, _codec_name(attributes & 0x07), bool(attributes & 0x08), timestamp, key, value)


def _read_sized(data: bytes, at: int) -> tuple[bytes | None, int]:
    """An i32 length, negative for null, and as many bytes."""
    (length,) = struct.unpack(">i", data[at : at + 4])
    at += 4
    if length < 0:
        return None, at
    if at + length > len(data):
        raise NaiveError(f"{length} bytes wanted at {at}, {len(data) - at} are left")
    return data[at : at + length], at + length


def _unwrap(outer: _Message) -> list[_Message]:
    """The messages inside a compressed wrapper, with absolute offsets."""
    if outer.value is None or outer.codec == "zstd":
        raise NaiveError(f"wrapper {outer.offset}: codec {outer.codec}, value {outer.value!r}")
    data = decompress(outer.codec, outer.value, any_lz4_checksum=outer.magic == 0)
    inner = []
    at = 0
    while len(data) - at >= 12:
        (size,) = struct.unpack(">i", data[at + 8 : at + 12])
        if size < 14:
            raise NaiveError(f"wrapper {outer.offset}: inner entry of {size} bytes")
        if at + 12 + size > len(data):
            break  # Kafka drops a truncated last inner entry silently
        inner.append(_read_message(data[at : at + 12 + size]))
        at += 12 + size
    if not inner or any(message.codec != "none" for message in inner):
        raise NaiveError(f"wrapper {outer.offset}: nothing inside, or a wrapper inside")
    shift = 0 if outer.magic == 0 or outer.offset == 0 else outer.offset - inner[-1].offset
    if shift < 0:
        raise NaiveError(f"wrapper {outer.offset} ends before its last inner offset {inner[-1].offset}")
    return [_Message(**{**vars(message), "offset": message.offset + shift}) for message in inner]


# --- codecs, section 3 -----------------------------------------------------------------------------------------------


def _codec_name(codec_id: int) -> str:
    if codec_id not in CODECS:
        raise NaiveError(f"codec {codec_id}")
    return CODECS[codec_id]


def decompress(codec: str, data: bytes, *, any_lz4_checksum: bool = False) -> bytes:
    """`data` decompressed as Kafka does (section 3); `any_lz4_checksum` is the rule of magic 0; raises NaiveError."""
    try:
        if codec == "none":
            return data
        if codec == "gzip":
            return _gzip(data)
        if codec == "snappy":
            return _snappy(data)
        if codec == "lz4":
            return _lz4(_with_right_lz4_checksum(data) if any_lz4_checksum else data)
        if codec == "zstd":
            return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    except NaiveError:
        raise
    except Exception as error:  # each library has its own tree of errors
        raise NaiveError(f"{codec}: {error}") from error
    raise NaiveError(f"codec {codec}")


def _gzip(data: bytes) -> bytes:
    """Members in a row; whatever follows them without being one is not looked at, as Java's GZIPInputStream has it."""
    out = io.BytesIO()
    while True:
        member = zlib.decompressobj(31)
        flags = bytes(flags & 0x1F for flags in data[3:4])  # Java does not look at the reserved ones
        out.write(member.decompress(data[:3] + flags + data[4:]))
        if not member.eof:
            raise NaiveError("gzip member has no end")
        data = member.unused_data
        if data[:2] != b"\x1f\x8b":
            return out.getvalue()


XERIAL_MAGIC = b"\x82SNAPPY\x00"


def _snappy(data: bytes) -> bytes:
    """Xerial framing if its magic is there, else one raw block."""
    if not data.startswith(XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    out = io.BytesIO()
    at = 0
    while at < len(data):
        if data[at : at + 8] == XERIAL_MAGIC:
            at += 16
            continue
        (length,) = struct.unpack(">i", data[at : at + 4])
        if length < 0 or at + 4 + length > len(data):
            raise NaiveError(f"snappy block of {length} bytes at {at}")
        out.write(bytes(cramjam.snappy.decompress_raw(data[at + 4 : at + 4 + length])))
        at += 4 + length
    return out.getvalue()


def _lz4(data: bytes) -> bytes:
    """The first frame only; what follows it is not looked at."""
    frame = lz4.frame.LZ4FrameDecompressor()
    out: bytes = frame.decompress(data)
    if not frame.eof:
        raise NaiveError("lz4 frame has no end")
    return out


def _with_right_lz4_checksum(data: bytes) -> bytes:
    """The frame with the one header checksum of 256 that the library accepts (KAFKA-3160)."""
    flags = data[4]
    at = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    for checksum in range(256):
        patched = data[:at] + bytes([checksum]) + data[at + 1 :]
        try:
            lz4.frame.get_frame_info(patched)
        except RuntimeError:
            continue
        return patched
    raise NaiveError("lz4 frame header that no checksum makes valid")
