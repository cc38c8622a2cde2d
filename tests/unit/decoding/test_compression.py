"""compression: every legal stream form of every codec, a limit that is never passed, one error for everything else."""

from __future__ import annotations

import contextlib
import gzip
import os
import struct
import tracemalloc

import lz4.block
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kafka_segment_source.decoding.compression import DecompressionError
from tests.support import writer
from tests.support.plain import plain_bytes
from tests.support.writer import Codec

CODECS: list[Codec] = ["gzip", "snappy-raw", "snappy-xerial", "lz4", "zstd"]
PLAIN = b"".join(b"record %d, %d" % (n, n * n) for n in range(5000))


def plain(codec: str, stored: bytes, limit: int = 2**20) -> bytes:
    """The bytes of a stream by the codec's name in the tests' writer."""
    return plain_bytes(writer.CODEC_IDS[codec], stored, limit)


@given(data=st.binary(max_size=3000) | st.binary(max_size=30).map(lambda part: part * 5000))
@pytest.mark.parametrize("codec", CODECS)
def test_round_trip(codec: Codec, data: bytes) -> None:
    """Whatever a client's codec stored comes back, empty and repetitive data too."""
    assert plain(codec, writer.compress(codec, data)) == data


@pytest.mark.parametrize("codec", ["gzip", "zstd", "snappy-xerial"])
def test_streams_in_a_row(codec: Codec) -> None:
    """gzip members, zstd frames and xerial streams may follow one another."""
    stored = writer.compress(codec, PLAIN) + writer.compress(codec, b"more") + writer.compress(codec, PLAIN)
    assert plain(codec, stored) == PLAIN + b"more" + PLAIN


def test_zstd_with_a_content_size() -> None:
    """Frames that do say their content size are read as well."""
    assert plain("zstd", zstandard.ZstdCompressor().compress(PLAIN)) == PLAIN


def test_lz4_forms_of_other_writers() -> None:
    """lz4 frames with a content size, linked blocks and checksums of content and blocks are read."""
    frame = lz4.frame.compress(PLAIN, block_linked=True, content_checksum=True, block_checksum=True, store_size=True)
    assert plain("lz4", frame) == PLAIN


def test_lz4_as_java_clients_write_it() -> None:
    """Blocks that stand alone, compressed or stored as they are; cut anywhere, or with a block too large: an error."""
    stored = writer.compress("lz4", os.urandom(70_000) + PLAIN)
    assert stored.startswith(bytes.fromhex("04224d18604082"))
    assert plain("lz4", stored) == lz4.frame.decompress(stored)
    assert plain("lz4", stored + b"what follows is not looked at") == plain("lz4", stored)

    short = writer.compress("lz4", b"abc" * 20)
    for end in range(len(short)):
        with pytest.raises(DecompressionError):
            plain("lz4", short[:end])

    block = lz4.block.compress(bytes(65_537), store_size=False)
    with pytest.raises(DecompressionError):
        plain("lz4", short[:7] + struct.pack("<I", len(block)) + block + bytes(4))


def test_xerial_blocks_of_any_size() -> None:
    """Xerial streams are read block by block, however large the writer made them."""
    assert (
        plain("snappy-xerial", writer.xerial(PLAIN, 100))
        == plain("snappy-xerial", writer.xerial(PLAIN, 10**6))
        == PLAIN
    )


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_exact(codec: Codec) -> None:
    """As many bytes as the limit come through, one more is an error that names the limit and its option."""
    stored = writer.compress(codec, PLAIN)
    assert plain(codec, stored, len(PLAIN)) == PLAIN

    with pytest.raises(DecompressionError) as caught:
        plain(codec, stored, len(PLAIN) - 1)
    assert str(len(PLAIN) - 1) in str(caught.value.found) and "maxBatchBytes" in str(caught.value.expected)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_never_unpacked(codec: Codec) -> None:
    """A stream of 64 MB of zeros takes about its limit of memory, not its size, to be refused."""
    stored = writer.compress(codec, bytes(64_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionError, match="maxBatchBytes"):
            plain(codec, stored, 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("part", [0.01, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "zstd"])
def test_cut_streams(codec: Codec, part: float) -> None:
    """A stream cut short is an error of found and expected, never a shorter answer."""
    stored = writer.compress(codec, PLAIN)
    with pytest.raises(DecompressionError) as caught:
        plain(codec, stored[: int(len(stored) * part)])
    assert caught.value.found and caught.value.expected


@pytest.mark.parametrize("part", [0.01, 0.3, 0.9, 0.999])
def test_cut_zstd(part: float) -> None:
    """A zstd frame cut short gives the beginning of its bytes: that records are missing is for the decoder to see."""
    stored = writer.compress("zstd", PLAIN)
    assert PLAIN.startswith(plain("zstd", stored[: int(len(stored) * part)]))


@given(data=st.binary(max_size=100), codec=st.integers(1, 4))
def test_garbage(data: bytes, codec: int) -> None:
    """Any bytes under any codec end in plain bytes within the limit or in DecompressionError."""
    with contextlib.suppress(DecompressionError):
        assert len(plain_bytes(codec, data, 1000)) <= 1000


@given(codec=st.sampled_from(CODECS), at=st.integers(0, 10**6), bit=st.integers(0, 7), data=st.binary(max_size=300))
def test_mutated_streams(codec: Codec, at: int, bit: int, data: bytes) -> None:
    """A flipped bit anywhere in a stream ends in plain bytes within the limit or in DecompressionError."""
    stored = bytearray(writer.compress(codec, data + PLAIN[:500]))
    stored[at % len(stored)] ^= 1 << bit
    with contextlib.suppress(DecompressionError):
        assert len(plain(codec, bytes(stored), 5000)) <= 5000


def test_gzip_of_many_members_within_the_limit() -> None:
    """The limit counts all members together."""
    stored = gzip.compress(bytes(600)) * 2
    assert len(plain("gzip", stored, 1200)) == 1200
    with pytest.raises(DecompressionError):
        plain("gzip", stored, 1199)
