"""checksums: the CRC that each magic states, over the bytes it covers."""

from __future__ import annotations

import struct

import pytest

from kafka_segment_source.logdir.checksums import crc_holds
from tests.support import writer
from tests.support.writer import Rec

V2 = writer.record_batch([Rec(0, 1, b"a", b"b"), Rec(1, 2, None, b"c")], base_offset=9)
V1 = writer.message(9, b"a", b"b", magic=1, timestamp=5)
V0 = writer.message(9, b"a", b"b", magic=0)
STORED = [(V2, 2, 17), (V1, 1, 12), (V0, 0, 12)]


def holds(batch: bytes, magic: int, crc_at: int) -> bool:
    (stored,) = struct.unpack_from(">I", batch, crc_at)
    return crc_holds(batch, magic, stored)


@pytest.mark.parametrize(("batch", "magic", "crc_at"), STORED)
def test_what_a_writer_stored_holds(batch: bytes, magic: int, crc_at: int) -> None:
    """An untouched batch of each magic has its CRC."""
    assert holds(batch, magic, crc_at)
    assert holds(memoryview(batch), magic, crc_at)  # type: ignore[arg-type]


@pytest.mark.parametrize(("batch", "magic", "crc_at"), STORED)
def test_every_byte_covered_counts(batch: bytes, magic: int, crc_at: int) -> None:
    """A flipped bit breaks the CRC exactly if its byte is covered: in v2 from attributes on, before that
    from magic on."""
    covered = range(21 if magic == 2 else 16, len(batch))
    for at in range(len(batch)):
        flipped = batch[:at] + bytes([batch[at] ^ 1]) + batch[at + 1 :]
        if at not in range(crc_at, crc_at + 4):
            assert holds(flipped, magic, crc_at) == (at not in covered)
