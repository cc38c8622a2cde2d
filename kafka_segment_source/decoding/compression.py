"""Decompression: a codec id and compressed bytes → plain bytes in a buffer, never more than a limit.

Bytes that cannot be decompressed raise `DecompressionError`. The table at the end has one function for each codec. A
function loads its library when a batch needs it, and writes directly into the buffer if the library can. The libraries
were measured: they were the fastest on PyPI for batches of 64 KiB. Kafka decides which stream forms are legal
(`org.apache.kafka.common.compress`):

- gzip and zstd may be several frames in a row;
- lz4 is one frame;
- snappy is raw or in xerial framing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.kernels.block_codecs import LZ4_BLOCK, LZ4_HEADER, LZ4_STORED
from kafka_segment_source.storage.files import Bytes

_GZIP_WINDOW = 31  # zlib's wbits for "gzip header expected"
_GZIP_MAGIC = b"\x1f\x8b"
_NEXT_MEMBER = 512  # bytes that a gzip member after the first one gets at first
_ROOM_PER_BYTE = 16  # plain bytes of room for each compressed byte; memory that is not used is never touched
_LEAST_ROOM = 64 * 1024
_XERIAL = memoryview(kafka_format.XERIAL_MAGIC)


# The libraries, each loaded with the first batch that needs it. An import statement for each batch takes longer.


@cache
def _load_isal() -> Any:
    from isal import isal_zlib

    return isal_zlib


@cache
def _load_cramjam() -> Any:
    import cramjam

    return cramjam


@cache
def _load_lz4() -> Any:
    import lz4.frame

    return lz4.frame


@cache
def _load_zstandard() -> Any:
    import zstandard

    return zstandard


@cache
def _load_xxhash() -> Any:
    import xxhash

    return xxhash


class _Contexts(threading.local):
    """The contexts of lz4 and zstd. Each thread needs its own, and uses it for all batches."""

    def __init__(self) -> None:
        self.lz4: object | None = None
        self.zstd: Any = None


_CONTEXTS = _Contexts()


class DecompressionError(ValueError):
    """The bytes are not valid for their codec. `found` and `expected` describe the difference."""

    def __init__(self, found: object, expected: object) -> None:
        self.found = found
        self.expected = expected
        super().__init__(f"found {found}, expected {expected}")


def _make_size_error(limit: int) -> DecompressionError:
    return DecompressionError(f"more than {limit} bytes", f"at most {limit} bytes after decompression (maxBatchBytes)")


def _guess_room(view: memoryview) -> int:
    return max(_LEAST_ROOM, _ROOM_PER_BYTE * len(view))


class Plain:
    """A buffer of plain bytes, data[:size]. It grows as needed. After `clear` it is used again.

    data: uint8[n]; another array after the buffer has grown. limit: how many bytes the last `begin` allowed.
    """

    def __init__(self, room: int = 0) -> None:
        self.data: Bytes = np.empty(room, np.uint8)
        self.size = 0
        self._view = memoryview(self.data)  # type: ignore[arg-type]  # arrays are buffers
        self.limit = self._end = 0

    def clear(self) -> None:
        """Empties the buffer."""
        self.size = 0

    def begin(self, limit: int) -> None:
        """Allows at most `limit` more bytes from now on."""
        self.limit, self._end = limit, self.size + limit

    @property
    def left(self) -> int:
        """How many more bytes are allowed."""
        return self._end - self.size

    def room(self, count: int) -> memoryview:
        """Returns the memory for the next `count` bytes. Then `note_written` must state how many bytes were written."""
        end = self.size + count
        if end > len(self.data):
            data = np.empty(max(end, 2 * self.size), np.uint8)
            data[: self.size] = self.data[: self.size]
            self.data, self._view = data, memoryview(data)  # type: ignore[arg-type]
        return self._view[self.size : end]

    def note_written(self, count: int) -> None:
        """Adds the first `count` bytes of the memory from `room`. Raises DecompressionError past the limit."""
        if count > self.left:
            raise _make_size_error(self.limit)
        self.size += count

    def append(self, plain: bytes | memoryview) -> None:
        """Adds these bytes. Raises DecompressionError past the limit."""
        if len(plain) > self.left:
            raise _make_size_error(self.limit)
        self.room(len(plain))[:] = plain
        self.size += len(plain)


def _decompress_gzip(view: memoryview, out: Plain) -> None:
    isal_zlib = _load_isal()
    at = 0
    window = len(view)
    while at == 0 or view[at : at + 2] == _GZIP_MAGIC:  # Java reads consecutive members as one stream
        member = isal_zlib.decompressobj(_GZIP_WINDOW)
        while not member.eof:
            if at == len(view):
                raise DecompressionError("the gzip stream cut short", "its end")
            given = view[at : at + window]
            out.append(member.decompress(given, out.left + 1))
            at += len(given)
            window *= 2
        at -= len(member.unused_data)  # a copy of the unread bytes, so a window is small: a million members may follow
        window = _NEXT_MEMBER


def _decompress_snappy_block(block: memoryview, out: Plain) -> None:
    """Decompresses one raw block, which begins with its own plain length."""
    cramjam = _load_cramjam()
    size = cramjam.snappy.decompress_raw_len(block)
    if size > out.left:
        raise _make_size_error(out.limit)
    out.note_written(cramjam.snappy.decompress_raw_into(block, out.room(size)))


def _decompress_snappy(view: memoryview, out: Plain) -> None:
    if view[: len(_XERIAL)] != _XERIAL:
        _decompress_snappy_block(view, out)
        return
    at = kafka_format.XERIAL_HEADER
    while at < len(view):
        size = int.from_bytes(view[at : at + 4], "big", signed=True)
        if size < 0 and view[at : at + len(_XERIAL)] == _XERIAL:
            at += (
                kafka_format.XERIAL_HEADER
            )  # a further stream repeats the header, whose first byte makes `size` negative
            continue
        at += 4
        if size < 0 or size > len(view) - at:
            raise DecompressionError(
                f"a snappy block of {size} bytes", f"at most the {max(len(view) - at, 0)} bytes left"
            )
        _decompress_snappy_block(view[at : at + size], out)
        at += size


def _decompress_lz4(view: memoryview, out: Plain) -> None:
    if view[: len(LZ4_HEADER)] == LZ4_HEADER:
        _decompress_lz4_blocks(view[len(LZ4_HEADER) :], out)
    else:
        _decompress_lz4_frame(view, out)


def _decompress_lz4_blocks(view: memoryview, out: Plain) -> None:
    """Decompresses the rest of a Java client's frame, after its header: independent blocks and an end mark.

    Each block is written directly into the buffer.
    """
    cramjam = _load_cramjam()
    at = 0
    while True:
        word = int.from_bytes(view[at : at + 4], "little")
        size = word & ~LZ4_STORED
        at += 4
        if size > len(view) - at or at > len(view):
            raise DecompressionError("the lz4 frame cut short", "its end mark")
        if word == 0:
            return
        block = view[at : at + size]
        if word & LZ4_STORED:
            out.append(block)
        else:
            room = out.room(LZ4_BLOCK)
            out.note_written(cramjam.lz4.decompress_block_into(block, room, output_len=LZ4_BLOCK))
        at += size


def _decompress_lz4_frame(view: memoryview, out: Plain) -> None:
    """Decompresses a frame of any other form. It may have linked blocks, checksums and a content size."""
    frame = _load_lz4()
    context, _CONTEXTS.lz4 = _CONTEXTS.lz4, None
    if context is None:
        context = frame.create_decompression_context()
    frame.reset_decompression_context(context)
    ended = False
    while not ended:
        plain, used, ended = frame.decompress_chunk(context, view, max_length=min(out.left + 1, _guess_room(view)))
        out.append(plain)
        if not ended and not plain and not used:
            raise DecompressionError("the lz4 frame cut short", "its end mark")
        view = view[used:]
    # Kafka reads one frame and ignores the bytes after it. Only a context that has read a whole frame is used again. A
    # reset after a broken frame keeps that frame's content size, and the context would then refuse every later frame.
    _CONTEXTS.lz4 = context


def _decompress_zstd(view: memoryview, out: Plain) -> None:
    # Kafka's frames have no content size, and several may follow one another. So they are read as a stream, with spare
    # room. zstandard's one-shot call is 12 % faster, but it silently ignores all frames after the first one, with or
    # without allow_extra_data.
    if _CONTEXTS.zstd is None:
        _CONTEXTS.zstd = _load_zstandard().ZstdDecompressor()
    with _CONTEXTS.zstd.stream_reader(view, read_across_frames=True) as reader:
        ended = False
        while not ended:
            room = out.room(min(out.left + 1, _guess_room(view)))
            count = reader.readinto(room)
            out.note_written(count)
            ended = count < len(room)


_LZ4_FLAGS_AT = 4  # after the frame's magic: FLG, BD, [content size], [dictionary id], header checksum
_LZ4_HAS_SIZE, _LZ4_HAS_DICTIONARY = 0x08, 0x01


def with_right_lz4_checksum(view: memoryview) -> bytes:
    """Returns the lz4 frame with the header checksum of the lz4 specification.

    Old Java clients included the frame's magic in the checksum. Kafka ignores the checksum for magic 0 (KAFKA-3160).
    """
    frame = bytearray(view)
    if len(frame) > _LZ4_FLAGS_AT:
        flags = frame[_LZ4_FLAGS_AT]
        end = _LZ4_FLAGS_AT + 2 + (8 if flags & _LZ4_HAS_SIZE else 0) + (4 if flags & _LZ4_HAS_DICTIONARY else 0)
        if end < len(frame):
            frame[end] = (_load_xxhash().xxh32_intdigest(bytes(frame[_LZ4_FLAGS_AT:end])) >> 8) & 0xFF
    return bytes(frame)


_DECOMPRESSORS: dict[int, Callable[[memoryview, Plain], None]] = {
    kafka_format.CODEC_GZIP: _decompress_gzip,
    kafka_format.CODEC_SNAPPY: _decompress_snappy,
    kafka_format.CODEC_LZ4: _decompress_lz4,
    kafka_format.CODEC_ZSTD: _decompress_zstd,
}


def _is_of_library(error: Exception) -> bool:
    """Whether a library raises this error for invalid bytes. The errors have no common base class."""
    kinds = (
        _load_isal().error,
        _load_cramjam().DecompressionError,
        _load_zstandard().ZstdError,
    )
    return isinstance(error, (*kinds, RuntimeError, EOFError, ValueError))


def decompress(codec: int, view: memoryview, out: Plain, limit: int) -> None:
    """Adds the plain bytes of `view`, at most `limit` of them, to `out`.

    codec: one of `kafka_format.CODECS` other than none. Raises DecompressionError for damaged or cut bytes, and for
    output past the limit, which is never built. After an error, `out` is as it was before.
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
    except Exception as error:
        if not _is_of_library(error):
            raise
        out.size = before
        raise DecompressionError(
            f"bytes that {kafka_format.CODEC_NAMES[codec]} refuses ({error})", "its own format"
        ) from error
