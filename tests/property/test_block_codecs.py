"""The kernel of lz4 and snappy against the libraries: it takes what clients write, and nothing that they refuse."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Sequence
from itertools import pairwise

import lz4.block
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.compression import DecompressionError
from kafka_segment_source.kernels import block_codecs
from tests.support import writer
from tests.support.cases import count_cases
from tests.support.plain import plain_bytes
from tests.support.writer import Codec

CODECS: list[Codec] = ["lz4", "snappy-raw", "snappy-xerial"]
GUARD = 0xA5
ROOM = 300_000
CASES = count_cases(few=400, many=20_000)
PLAIN = b"".join(b"%d some text, " % number for number in range(300))

TEXTS = st.binary(max_size=40)
PLAINS = (
    st.binary(max_size=3000)
    | st.lists(TEXTS, max_size=8)
    .flatmap(lambda some: st.lists(st.sampled_from(some or [b""]), max_size=200))
    .map(b"".join)
    | st.tuples(st.binary(min_size=1, max_size=20), st.integers(1, 5000)).map(lambda two: two[0] * two[1])
)


def unpack(
    codec: int, stored: Sequence[bytes], *, room: int = ROOM, limit: int = 2**20, enough: int = 2**30
) -> list[bytes]:
    """What the kernel takes of some batches in a row. It must not write behind the room that it is given."""
    data = np.frombuffer(bytearray(b"".join(stored) or b"\0"), np.uint8)
    ends = np.cumsum([len(each) for each in stored]).astype(np.int64)
    starts = np.concatenate(([0], ends[:-1])).astype(np.int64)
    whole = np.full(room + 4096, GUARD, np.uint8)
    places = np.zeros(len(stored), np.int64)
    codecs = np.full(len(stored), codec, np.int64)
    count = block_codecs.unpack_batches(data, starts, ends, codecs, 0, whole[:room], 0, enough, limit, places)
    assert (whole[room:] == GUARD).all()
    borders = [0, *places[:count].tolist()]
    return [whole[start:end].tobytes() for start, end in pairwise(borders)]


def by_library(codec: int, stored: bytes, limit: int = 2**20) -> bytes | None:
    """None for an error."""
    try:
        return plain_bytes(codec, stored, limit)
    except DecompressionError:
        return None


@given(data=PLAINS)
@example(data=os.urandom(70_000))
@example(data=bytes(200_000))
@example(data=os.urandom(40_000) * 3)
@pytest.mark.parametrize("codec", CODECS)
def test_what_clients_write_is_taken(codec: Codec, data: bytes) -> None:
    """Several batches in one call, each with its own bytes. An empty batch may be left to the library."""
    stored = writer.compress(codec, data)
    found = unpack(writer.CODEC_IDS[codec], [stored] * 2, room=2 * len(data) + 70_000)
    assert found == [data] * 2 or (not data and found == [])


@given(
    data=PLAINS,
    changes=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=3),
    cut=st.none() | st.integers(0, 2**16),
)
@pytest.mark.parametrize("codec", CODECS)
def test_what_the_library_refuses_is_not_taken(
    codec: Codec, data: bytes, changes: list[tuple[int, int]], cut: int | None
) -> None:
    """Changed bytes, and streams that are cut: what the kernel takes is what the library makes of them."""
    stored = bytearray(writer.compress(codec, data))
    for at, byte in changes:
        stored[at % len(stored)] = byte
    stored = stored[: None if cut is None else cut % (len(stored) + 1)]
    number = writer.CODEC_IDS[codec]
    for found in unpack(number, [bytes(stored)]):
        assert found == by_library(number, bytes(stored))


def lz4_sequence(literals: bytes, offset: int, count: int) -> bytes:
    """A sequence of a block of lz4. count: of the match, from 4 on; 0 for the last literals."""

    def more(length: int) -> bytes:
        return b"" if length < 15 else b"\xff" * ((length - 15) // 255) + bytes([(length - 15) % 255])

    match = max(count - 4, 0)
    token = bytes([min(len(literals), 15) << 4 | min(match, 15)])
    head = token + more(len(literals)) + literals
    return head + struct.pack("<H", offset) + more(match) if count else head


def lz4_frame(*blocks: bytes) -> bytes:
    return block_codecs.LZ4_HEADER + b"".join(struct.pack("<I", len(block)) + block for block in blocks) + bytes(4)


def any_lz4_block(chance: random.Random) -> bytes:
    """A block that may be legal: matches at every distance, and outputs that come near the 64 KiB."""
    parts, size = [], 0
    wrong = chance.randrange(200)  # the number of a sequence whose match is too far away, or nowhere
    for number in range(chance.randint(0, 40)):
        literals = chance.randbytes(chance.choice([0, 1, 3, 14, 15, 16, 17, 40, chance.randint(0, 300)]))
        size += len(literals)
        offset = min(chance.choice([1, 2, 7, 8, 9, 15, 16, 17, 31, 32, size, chance.randint(1, 65_535)]), max(size, 1))
        if number == wrong:
            offset = chance.choice([0, size + 1, size + 500])
        count = chance.choice([4, 5, 15, 17, 18, 19, 20, 32, 33, 47, 48, 49, chance.randint(4, 700)])
        parts.append(lz4_sequence(literals, min(offset, 65_535), count))
        size += count
    last = chance.randbytes(chance.choice([0, 1, 4, 5, 6, 7, 8, 12, 20]))
    count = block_codecs.LZ4_BLOCK - size - len(last) + chance.randint(-20, 20)
    if chance.random() < 0.4 and count > 4:
        parts.append(lz4_sequence(b"y", 1, count - 1) if chance.random() < 0.5 else lz4_sequence(bytes(count), 9, 4))
    return b"".join(parts) + lz4_sequence(last, 0, 0)


def test_any_block_of_lz4() -> None:
    """The kernel takes no block that the library refuses, and nearly all others. No match reaches into the batch
    before."""
    before = writer.compress("lz4", PLAIN)
    taken = legal = 0
    for seed in range(CASES):
        chance = random.Random(seed)
        stored = lz4_frame(*(any_lz4_block(chance) for _ in range(chance.choice([1, 1, 2]))))
        first, *others = unpack(kafka_format.CODEC_LZ4, [before, stored])
        expected = by_library(kafka_format.CODEC_LZ4, stored)
        assert first == PLAIN
        assert others in ([], [expected]), f"seed {seed}"
        legal += expected is not None
        taken += bool(others)
    assert 0.7 * legal < taken < legal


@pytest.mark.parametrize("size", [65_536, 65_537])
def test_literals_alone_in_a_block_of_lz4(size: int) -> None:
    """They end where the 64 KiB do."""
    stored = lz4_frame(lz4_sequence(bytes(size), 0, 0))
    assert unpack(kafka_format.CODEC_LZ4, [stored]) == ([bytes(size)] if size == block_codecs.LZ4_BLOCK else [])


def unsigned_varint(number: int) -> bytes:
    head = bytes([number & 0x7F | (0x80 if number > 0x7F else 0)])
    return head + unsigned_varint(number >> 7) if number > 0x7F else head


def snappy_element(kind: int, number: int, literals: bytes) -> bytes:
    """A literal (kind 0) or a copy of a raw block of snappy. number: of a copy, offset and length in one."""
    offset, count = divmod(number, 64)
    if kind == 0:
        length = len(literals) - 1
        return (bytes([length << 2]) if length < 60 else bytes([60 << 2, length])) + literals if literals else b""
    if kind == 1:
        return bytes([1 | (count % 8) << 2 | (offset >> 8 & 7) << 5, offset & 255])
    return bytes([kind | count << 2]) + (offset & 0xFFFF).to_bytes(2 if kind == 2 else 4, "little")


def any_snappy_block(chance: random.Random) -> bytes:
    """A raw block that may be legal: copies at every distance, of every kind."""
    parts, size = [snappy_element(0, 0, b"begin with some bytes")], 21
    wrong = chance.randrange(200)  # the number of a copy that is too far away, or nowhere
    for number in range(chance.randint(0, 40)):
        kind = chance.randint(0, 3)
        literals = chance.randbytes(chance.choice([1, 15, 16, 17, 59, 60, 61, 200]))
        offset = min(chance.choice([1, 2, 7, 8, 15, 16, 17, size, chance.randint(1, size)]), size)
        if number == wrong:
            offset = chance.choice([0, size + 1, size + 500])
        count = chance.randrange(8 if kind == 1 else 64)
        parts.append(snappy_element(kind, min(offset, 2047 if kind == 1 else 65_535) * 64 + count, literals))
        size += len(literals) if kind == 0 else count + 4 if kind == 1 else count + 1
    return unsigned_varint(size + chance.choice([0] * 8 + [1, -1, 2**28])) + b"".join(parts)


def test_any_block_of_snappy() -> None:
    """The kernel takes no block that the library refuses, and all others. No copy reaches into the batch before."""
    before = writer.compress("snappy-raw", PLAIN)
    taken = legal = 0
    for seed in range(CASES):
        stored = any_snappy_block(random.Random(seed))
        first, *others = unpack(kafka_format.CODEC_SNAPPY, [before, stored])
        expected = by_library(kafka_format.CODEC_SNAPPY, stored)
        assert first == PLAIN
        assert others in ([], [expected]), f"seed {seed}"
        legal += expected is not None
        taken += bool(others)
    assert 0 < taken == legal < CASES


def test_a_block_of_xerial_that_is_cut() -> None:
    """It is not read beyond the batch, where the next one may go on with its bytes."""
    stored = writer.compress("snappy-xerial", PLAIN)
    for left in (1, 2, 100):
        assert unpack(kafka_format.CODEC_SNAPPY, [stored, stored[:-left], stored[-left:]]) == [PLAIN]


@pytest.mark.parametrize("codec", CODECS)
def test_limit_room_and_enough(codec: Codec) -> None:
    """It stops before a batch that is larger than the limit or the room, and once there is enough."""
    data = b"some text, some more text; " * 4000
    stored, number = writer.compress(codec, data), writer.CODEC_IDS[codec]

    assert unpack(number, [stored], limit=len(data)) == [data]
    assert unpack(number, [stored], limit=len(data) - 1) == []
    for room in (0, 1, 1000, 65_000, 66_000, len(data) - 1, len(data), len(data) + 95):
        assert unpack(number, [stored], room=room) in ([], [data])
    assert unpack(number, [stored] * 4, room=2**20, enough=len(data) + 1) == [data] * 2
    assert unpack(number, [stored, b"damaged", stored]) == [data]
    assert unpack(kafka_format.CODEC_ZSTD, [stored]) == []


def test_a_block_of_lz4_that_is_too_large() -> None:
    """A block has 64 KiB at most."""
    for size, taken in ((65_536, True), (65_537, False)):
        stored = lz4_frame(lz4.block.compress(bytes(size), store_size=False))
        assert unpack(kafka_format.CODEC_LZ4, [stored]) == ([bytes(size)] if taken else [])
