"""Codec id and compressed bytes in, plain bytes into a buffer, never more than a limit; `DecompressionError` for
anything else.

One function a codec, in the table at the end; where its library can, it writes into place. Libraries were chosen by
measurement (fastest on PyPI for 64 KiB batches). Which stream forms are legal is Kafka's rule
(`org.apache.kafka.common.compress`): gzip and zstd may be several frames in a row, lz4 is one frame, snappy is raw or
in xerial framing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import cramjam
import lz4.frame
import numpy as np
import xxhash
import zstandard
from isal import isal_zlib

from kafka_segment_source import format as fmt
from kafka_segment_source.storage.files import Bytes

_GZIP_WINDOW = 31  # zlib's wbits for "gzip header expected"
_GZIP_MAGIC = b"\x1f\x8b"
_NEXT_MEMBER = 512  # bytes given to a gzip member after the first, to begin with
_ROOM_PER_BYTE = 16  # plain bytes made room for at once, per compressed byte: what is not used is not touched
_LEAST_ROOM = 64 * 1024
_XERIAL = memoryview(fmt.XERIAL_MAGIC)
# All that Kafka's Java clients write: blocks of 64 KiB that stand alone, no checksum but the header's
# (Lz4BlockOutputStream)
_LZ4_OF_JAVA = bytes.fromhex("04224d18604082")
_LZ4_BLOCK = 64 * 1024
_LZ4_STORED = 1 << 31  # in a block's size: it is not compressed


class _Contexts(threading.local):
    """What lz4 and zstd need anew for each thread, and can use again for each batch."""

    def __init__(self) -> None:
        self.lz4: object | None = None
        self.zstd = zstandard.ZstdDecompressor()


_CONTEXTS = _Contexts()


class DecompressionError(ValueError):
    """The bytes are not what their codec says; `found` and `expected` say how."""

    def __init__(self, found: object, expected: object) -> None:
        self.found = found
        self.expected = expected
        super().__init__(f"found {found}, expected {expected}")


def _make_size_error(limit: int) -> DecompressionError:
    return DecompressionError(f"more than {limit} bytes", f"at most {limit} bytes after decompression (maxBatchBytes)")


def _guess_room(view: memoryview) -> int:
    return max(_LEAST_ROOM, _ROOM_PER_BYTE * len(view))


class Plain:
    """Plain bytes one after another, data[:size]: a buffer that grows, and is used again after `clear`.

    data: uint8[n], another array once it has grown; limit: how many bytes the last `begin` allowed.
    """

    def __init__(self, room: int = 0) -> None:
        self.data: Bytes = np.empty(room, np.uint8)
        self.size = 0
        self._view = memoryview(self.data)  # type: ignore[arg-type]  # arrays are buffers
        self.limit = self._end = 0

    def clear(self) -> None:
        """Forgets what is in it."""
        self.size = 0

    def begin(self, limit: int) -> None:
        """From now on at most `limit` bytes more."""
        self.limit, self._end = limit, self.size + limit

    @property
    def left(self) -> int:
        """How many more there may be."""
        return self._end - self.size

    def room(self, count: int) -> memoryview:
        """Where the next `count` bytes may be written, before `took` says how many were."""
        end = self.size + count
        if end > len(self.data):
            data = np.empty(max(end, 2 * self.size), np.uint8)
            data[: self.size] = self.data[: self.size]
            self.data, self._view = data, memoryview(data)  # type: ignore[arg-type]
        return self._view[self.size : end]

    def took(self, count: int) -> None:
        """Adds the first `count` bytes of the room that was given. DecompressionError past the limit."""
        if count > self.left:
            raise _make_size_error(self.limit)
        self.size += count

    def append(self, plain: bytes | memoryview) -> None:
        """Adds these bytes. DecompressionError past the limit."""
        if len(plain) > self.left:
            raise _make_size_error(self.limit)
        self.room(len(plain))[:] = plain
        self.size += len(plain)


def _decompress_gzip(view: memoryview, out: Plain) -> None:
    at = 0
    window = len(view)
    while at == 0 or view[at : at + 2] == _GZIP_MAGIC:  # Java reads members in a row as one stream, up to anything else
        member = isal_zlib.decompressobj(_GZIP_WINDOW)
        while not member.eof:
            if at == len(view):
                raise DecompressionError("the gzip stream cut short", "its end")
            given = view[at : at + window]
            out.append(member.decompress(given, out.left + 1))
            at += len(given)
            window *= 2
        at -= len(member.unused_data)  # a copy of what was given too much: little, for a million members may follow
        window = _NEXT_MEMBER


def _decompress_snappy_block(block: memoryview, out: Plain) -> None:
    """One raw block, which opens with its own plain length."""
    size = cramjam.snappy.decompress_raw_len(block)
    if size > out.left:
        raise _make_size_error(out.limit)
    out.took(cramjam.snappy.decompress_raw_into(block, out.room(size)))


def _decompress_snappy(view: memoryview, out: Plain) -> None:
    if view[: len(_XERIAL)] != _XERIAL:
        _decompress_snappy_block(view, out)
        return
    at = fmt.XERIAL_HEADER
    while at < len(view):
        size = int.from_bytes(view[at : at + 4], "big", signed=True)
        if size < 0 and view[at : at + len(_XERIAL)] == _XERIAL:
            at += fmt.XERIAL_HEADER  # streams one after another repeat the header, whose first byte makes it negative
            continue
        at += 4
        if size < 0 or size > len(view) - at:
            raise DecompressionError(
                f"a snappy block of {size} bytes", f"at most the {max(len(view) - at, 0)} bytes left"
            )
        _decompress_snappy_block(view[at : at + size], out)
        at += size


def _decompress_lz4(view: memoryview, out: Plain) -> None:
    if view[: len(_LZ4_OF_JAVA)] == _LZ4_OF_JAVA:
        _decompress_lz4_blocks(view[len(_LZ4_OF_JAVA) :], out)
    else:
        _decompress_lz4_frame(view, out)


def _decompress_lz4_blocks(view: memoryview, out: Plain) -> None:
    """What follows the header of a Java client's frame: blocks that stand alone, each written into place,
    and an end mark."""
    at = 0
    while True:
        word = int.from_bytes(view[at : at + 4], "little")
        size = word & ~_LZ4_STORED
        at += 4
        if size > len(view) - at or at > len(view):
            raise DecompressionError("the lz4 frame cut short", "its end mark")
        if word == 0:
            return
        block = view[at : at + size]
        if word & _LZ4_STORED:
            out.append(block)
        else:
            room = out.room(_LZ4_BLOCK)
            out.took(cramjam.lz4.decompress_block_into(block, room, output_len=_LZ4_BLOCK))
        at += size


def _decompress_lz4_frame(view: memoryview, out: Plain) -> None:
    """A frame of any other form: blocks that refer to earlier ones, checksums, a content size."""
    context, _CONTEXTS.lz4 = _CONTEXTS.lz4, None
    if context is None:
        context = lz4.frame.create_decompression_context()
    lz4.frame.reset_decompression_context(context)
    ended = False
    while not ended:
        plain, used, ended = lz4.frame.decompress_chunk(context, view, max_length=min(out.left + 1, _guess_room(view)))
        out.append(plain)
        if not ended and not plain and not used:
            raise DecompressionError("the lz4 frame cut short", "its end mark")
        view = view[used:]
    # Kafka reads one frame and leaves what follows. Only a context that has seen a frame's end is used again: a reset
    # leaves it expecting the content size of a frame that it gave up, and every later frame would be refused.
    _CONTEXTS.lz4 = context


def _decompress_zstd(view: memoryview, out: Plain) -> None:
    # Kafka's frames carry no content size, and may follow one another: a stream, read with room to spare. zstandard's
    # one-shot call is 12 % faster, and leaves out what follows the first frame in silence, allow_extra_data or not.
    with _CONTEXTS.zstd.stream_reader(view, read_across_frames=True) as reader:
        ended = False
        while not ended:
            room = out.room(min(out.left + 1, _guess_room(view)))
            count = reader.readinto(room)
            out.took(count)
            ended = count < len(room)


_LZ4_FLAGS_AT = 4  # after the frame's magic: FLG, BD, [content size], [dictionary id], header checksum
_LZ4_HAS_SIZE, _LZ4_HAS_DICTIONARY = 0x08, 0x01


def with_right_lz4_checksum(view: memoryview) -> bytes:
    """The lz4 frame with the header checksum that the lz4 specification asks for.

    Old Java clients took it over the frame's magic as well, and Kafka ignores it for magic 0 (KAFKA-3160).
    """
    frame = bytearray(view)
    if len(frame) > _LZ4_FLAGS_AT:
        flags = frame[_LZ4_FLAGS_AT]
        end = _LZ4_FLAGS_AT + 2 + (8 if flags & _LZ4_HAS_SIZE else 0) + (4 if flags & _LZ4_HAS_DICTIONARY else 0)
        if end < len(frame):
            frame[end] = (xxhash.xxh32_intdigest(bytes(frame[_LZ4_FLAGS_AT:end])) >> 8) & 0xFF
    return bytes(frame)


_DECOMPRESSORS: dict[int, Callable[[memoryview, Plain], None]] = {
    fmt.CODEC_GZIP: _decompress_gzip,
    fmt.CODEC_SNAPPY: _decompress_snappy,
    fmt.CODEC_LZ4: _decompress_lz4,
    fmt.CODEC_ZSTD: _decompress_zstd,
}

# What the libraries raise for bytes that are not theirs; none of them has a common base
_LIBRARY_ERRORS: tuple[type[Exception], ...] = (  # type: ignore[assignment]  # isal's stub calls its error a value
    isal_zlib.error,
    cramjam.DecompressionError,
    zstandard.ZstdError,
    RuntimeError,
    EOFError,
    ValueError,
)


def decompress(codec: int, view: memoryview, out: Plain, limit: int) -> None:
    """Adds the plain bytes of `view`, at most `limit` of them, to `out`.

    codec: one of `format.CODECS` other than none. Raises DecompressionError for damaged or cut bytes, and for output
    past the limit (which is never built); then `out` has what it had.
    """
    function = _DECOMPRESSORS[codec]
    before = out.size
    out.begin(limit)
    try:
        function(view, out)
    except DecompressionError:
        out.size = before
        raise
    except MemoryError as error:
        out.size = before
        raise _make_size_error(limit) from error
    except _LIBRARY_ERRORS as error:
        out.size = before
        raise DecompressionError(f"bytes that {fmt.CODEC_NAMES[codec]} refuses ({error})", "its own format") from error
