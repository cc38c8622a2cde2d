"""Decompression as a function of bytes, for tests: the package's own adds to a buffer."""

from __future__ import annotations

from kafka_segment_source.decoding.compression import Plain, decompress


def plain_bytes(codec: int, stored: bytes | memoryview, limit: int = 2**20) -> bytes:
    """The plain bytes of `stored`, by codec id. What was in the buffer before must stay: it stands in front of them."""
    out = Plain()
    out.begin(6)
    out.append(b"before")
    try:
        decompress(codec, memoryview(stored), out, limit)
    finally:
        assert bytes(out.data[:6]) == b"before"
    return bytes(out.data[6 : out.size])
