"""For tests of views of internal topics: keys and values in Kafka's message formats, and logs that hold them.

Written from Kafka's message definitions alone, without the code that is tested.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import writer
from tests.support.writer import Marker, Rec

NO_TAGS = b"\0"


def unsigned_varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def text(value: str | None, flexible: bool = False) -> bytes:
    """A string, with a length of two bytes, or compact."""
    data = b"" if value is None else value.encode()
    if flexible:
        return unsigned_varint(0 if value is None else len(data) + 1) + data
    return struct.pack(">h", -1 if value is None else len(data)) + data


def array(elements: list[bytes], flexible: bool = False) -> bytes:
    count = unsigned_varint(len(elements) + 1) if flexible else struct.pack(">i", len(elements))
    return count + b"".join(elements)


def tags(fields: dict[int, bytes]) -> bytes:
    listed = [unsigned_varint(tag) + unsigned_varint(len(data)) + data for tag, data in sorted(fields.items())]
    return unsigned_varint(len(listed)) + b"".join(listed)


def offset_key(group: str, topic: str, partition: int = 0, number: int = 1) -> bytes:
    return struct.pack(">h", number) + text(group) + text(topic) + struct.pack(">i", partition)


def offset_value(
    offset: int, version: int = 3, leader_epoch: int = -1, metadata: str = "", commit: int = 1000, expire: int = -1
) -> bytes:
    flexible = version >= 4
    epoch = struct.pack(">i", leader_epoch) if version >= 3 else b""
    last = struct.pack(">q", expire) if version == 1 else b""
    body = struct.pack(">hq", version, offset) + epoch + text(metadata, flexible) + struct.pack(">q", commit) + last
    return body + (tags({0: uuid.UUID(int=7).bytes}) if flexible else b"")


def group_key(group: str, number: int) -> bytes:
    """A key of another type; the rest of the keys of some types is left out."""
    return struct.pack(">h", number) + text(group)


def classic_group(version: int) -> bytes:
    """The value of a classic group of two members."""
    flexible = version >= 4

    def member(number: int) -> bytes:
        sized = unsigned_varint(4) if flexible else struct.pack(">i", 3)
        return b"".join(
            [
                text(f"member-{number}", flexible),
                text(None, flexible) if version >= 3 else b"",
                text("client", flexible) + text("/host", flexible),
                struct.pack(">i", 300_000) if version >= 1 else b"",
                struct.pack(">i", 10_000) + sized + b"abc" + sized + b"def",
                NO_TAGS if flexible else b"",
            ]
        )

    return b"".join(
        [
            struct.pack(">h", version) + text("consumer", flexible) + struct.pack(">i", 5),
            text("range", flexible) + text(None, flexible),
            struct.pack(">q", 1000) if version >= 2 else b"",
            array([member(number) for number in range(2)], flexible),
            NO_TAGS if flexible else b"",
        ]
    )


def transaction_key(name: str, number: int = 0) -> bytes:
    return struct.pack(">h", number) + text(name)


def transaction_value(
    state: int,
    version: int = 1,
    partitions: dict[str, list[int]] | None = None,
    fields: dict[int, bytes] | None = None,
    started: int = 2000,
) -> bytes:
    """The value of a transactional id: producer 77 of epoch 3. partitions: None for null."""
    flexible = version >= 1
    if partitions is None:
        listed = b"\0" if flexible else struct.pack(">i", -1)
    else:
        end = NO_TAGS if flexible else b""
        numbers = {topic: array([struct.pack(">i", each) for each in of], flexible) for topic, of in partitions.items()}
        listed = array([text(topic, flexible) + numbers[topic] + end for topic in partitions], flexible)
    body = struct.pack(">hqhib", version, 77, 3, 60_000, state) + listed + struct.pack(">qq", 3000, started)
    return body + (tags(fields or {}) if flexible else b"")


def metadata_value(number: int, version: int, body: bytes, frame: int = 1) -> bytes:
    return unsigned_varint(frame) + unsigned_varint(number) + unsigned_varint(version) + body


@dataclass
class InternalLog:
    """A log of one segment, written batch by batch. Each record is a batch of its own, `step` ms after the last."""

    directory: Path
    step: int = 10
    offset: int = 0
    batches: list[bytes] = field(default_factory=list)

    def add(self, key: bytes | None, value: bytes | None, producer: int = -1) -> int:
        """Adds a record, in a transaction if it has a producer. Returns its offset."""
        rec = Rec(0, self.offset * self.step, key, value)
        kind = {} if producer < 0 else {"producer_id": producer, "producer_epoch": 0, "transactional": True}
        self.batches.append(writer.record_batch([rec], base_offset=self.offset, **kind))  # type: ignore[arg-type]
        return self._write()

    def end(self, marker: Marker, producer: int) -> int:
        """Adds a transaction marker."""
        timestamp = self.offset * self.step
        self.batches.append(writer.control_batch(marker, offset=self.offset, timestamp=timestamp, producer_id=producer))
        return self._write()

    def _write(self) -> int:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / writer.segment_name(0)).write_bytes(b"".join(self.batches))
        self.offset += 1
        return self.offset - 1
