"""Small batches that ask for gigabytes, and what reading them costs.

`cost` is for a process of its own, which has not compressed anything: `run_apart(cost, directory, max_batch_bytes)`.
"""

from __future__ import annotations

import gzip
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
import lz4.frame
import zstandard

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import DataError
from tests.support import writer
from tests.support.apart import peak
from tests.support.writer import Rec

MIB = 1024 * 1024
GOOD = writer.record_batch([Rec(0, 1000, b"key", b"value", ((b"h", b"x"),))], base_offset=0)
LAST = writer.record_batch([Rec(0, 1000, b"key", b"value")], base_offset=10)


def _stored(codec: str, body: bytes, count: int = 1) -> bytes:
    """A batch at offset 5 that stores any bytes under a codec's name."""
    return writer.record_batch_of(body, base_offset=5, attributes=writer.CODEC_IDS[codec], count=count)


def _wrapped(magic: int, codec: writer.Codec, value: bytes) -> bytes:
    return writer.message(5, None, value, magic=magic, timestamp=5, codec=codec)


def _zeros_gzip() -> bytes:
    return gzip.compress(bytes(64 * MIB), 9, mtime=0) * 64


def _zeros_zstd() -> bytes:
    frame = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return (frame.compress(bytes(64 * MIB)) + frame.flush()) * 64


def _zeros_lz4(mib: int = 600) -> bytes:
    frame: bytes = lz4.frame.compress(bytes(mib * MIB), block_size=lz4.frame.BLOCKSIZE_MAX4MB, store_size=False)
    return frame


def _zeros_snappy() -> bytes:
    raw = bytes(cramjam.snappy.compress_raw(bytes(8 * MIB)))
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + (struct.pack(">i", len(raw)) + raw) * 128


def _lz4_that_claims() -> bytes:
    frame = lz4.frame.compress(bytes(1000), store_size=True)
    claim = frame[:6] + struct.pack("<Q", 2**62)
    return claim + bytes([writer.xxh32_short(claim[4:14]) >> 8 & 0xFF]) + frame[15:]


def _zstd_with_the_widest_window() -> bytes:
    widest = zstandard.ZstdCompressionParameters(window_log=27, compression_level=1, write_content_size=0)
    frame = zstandard.ZstdCompressor(compression_params=widest).compressobj()
    return frame.compress(bytes(128 * MIB)) + frame.flush()


def _headers(count: int) -> bytes:
    """A record of nothing but empty headers."""
    body = b"\x00\x00\x00\x01\x01" + writer.varint(count) + bytes(2 * count)
    return writer.varint(len(body)) + body


BOMBS: dict[str, Callable[[], bytes]] = {
    "gzip of 4 GiB": lambda: _stored("gzip", _zeros_gzip()),
    "zstd of 4 GiB": lambda: _stored("zstd", _zeros_zstd()),
    "zstd with a window of 128 MiB": lambda: _stored("zstd", _zstd_with_the_widest_window()),
    "lz4 of 600 MiB": lambda: _stored("lz4", _zeros_lz4()),
    "snappy of 1 GiB": lambda: _stored("snappy-xerial", _zeros_snappy()),
    "a wrapper of magic 0, gzip of 4 GiB": lambda: _wrapped(0, "gzip", _zeros_gzip()),
    "a wrapper of magic 1, lz4 of 600 MiB": lambda: _wrapped(1, "lz4", _zeros_lz4()),
    "snappy that claims 4 GiB": lambda: _stored("snappy-raw", b"\xff\xff\xff\xff\x0f" + b"abc"),
    "a snappy block that claims all that is left": lambda: _stored(
        "snappy-xerial", writer.xerial(b"") + struct.pack(">i", 8) + b"\x80\x80\x80\x10" + b"abcd"
    ),
    "lz4 that claims 4 EiB": lambda: _stored("lz4", _lz4_that_claims()),
    "many empty gzip members": lambda: _stored("gzip", gzip.compress(b"", mtime=0) * 300_000),
    "two billion records": lambda: _stored("none", b"\x0e\x00\x00\x00\x01\x01\x00\x00", 2**31 - 1),
    "two billion headers": lambda: _stored("none", b"\x18\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f\x00\x00"),
    "14 million headers in 28 MB": lambda: _stored("zstd", writer.compress("zstd", _headers(14_000_000))),
    "headers up to the limit": lambda: _stored("zstd", writer.compress("zstd", _headers(1_000_000) + b"")),
    "a length of 2 GiB": lambda: struct.pack(">qiibI", 5, 2**31 - 1, 0, 2, 0) + bytes(100),
    "records up to the limit": lambda: writer.record_batch(
        [Rec(0, 5, None, bytes(30 * MIB))], base_offset=5, codec="zstd"
    ),
}


def cost(folder: Path, max_batch_bytes: int) -> dict[str, Any]:
    """What a scan of a log with a bomb gives under both modes, and by how much the process grew beyond a usual scan."""
    with tempfile.TemporaryDirectory() as directory:
        _scan(write([GOOD, LAST], Path(directory)), {})
    before = peak()
    failing = _scan(folder, {"mode": "FAILFAST", "maxBatchBytes": max_batch_bytes})
    dropping = _scan(folder, {"mode": "DROPMALFORMED", "maxBatchBytes": max_batch_bytes})
    return {"failfast": failing, "dropmalformed": dropping, "grewMiB": (peak() - before) // MIB}


def write(batches: list[bytes], directory: Path) -> Path:
    """A partition directory of one segment."""
    folder = directory / "orders-0"
    folder.mkdir()
    (folder / writer.segment_name(0)).write_bytes(b"".join(batches))
    return folder


def _scan(folder: Path, options: dict[str, Any]) -> list[int] | str:
    offsets: list[int] = []
    try:
        for batch in kafkaseg.scan(folder, includeHeaders=True, includeMetadata=True, **options):
            offsets += batch["offset"].to_pylist()
    except DataError as error:
        return f"{error.what}: found {error.found}, expected {error.expected}"
    return offsets
