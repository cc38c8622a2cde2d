"""A `.log` of a tier whose object has chunks: compressed, encrypted, or cut short.

A read takes the chunks that hold its bytes, neighbours in one request. The last decoded chunks of a process stay in
memory.

A chunk that is damaged does not end a read. Its bytes are then FILLER, which is never a part of a batch. So the damage
is found like any other damage of a `.log`, and skipped or mended in the same way. `find_fault` says what it is.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from typing import Any, NamedTuple

import zstandard

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import CorruptRecordError, DataError
from kafka_segment_source.storage.store import FileVersion, OpenFile
from kafka_segment_source.storage.tiered.encryption import WrongTextError, decrypt
from kafka_segment_source.storage.tiered.manifest import LARGEST_CHUNK, ChunkIndex

FILLER = b"\xff"
"""What stands for bytes that cannot be read. A batch of such bytes would have a negative length, and they are no
padding."""

_MOST_KEPT = 32 * 1024 * 1024  # bytes of decoded chunks in a process
_MOST_AT_ONCE = 8 * 1024 * 1024  # bytes of neighbouring chunks in one request
_LOCKS = 16
_LONGEST_FRAME_HEADER = 18  # bytes (RFC 8878, 3.1.1.1)


class _Kept:
    """The last decoded chunks of this process, by the object's path, the file's version and the chunk's number.

    The path matters: an inode and a time can be those of another file, of another mount or where that one was deleted.
    """

    def __init__(self) -> None:
        self._chunks: OrderedDict[tuple[str, FileVersion, int], bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, path: str, version: FileVersion, chunk: int) -> bytes | None:
        with self._lock:
            data = self._chunks.get((path, version, chunk))
            if data is not None:
                self._chunks.move_to_end((path, version, chunk))
            return data

    def put(self, path: str, version: FileVersion, chunk: int, data: bytes) -> None:
        if len(data) > _MOST_KEPT:
            return
        with self._lock:
            if (path, version, chunk) not in self._chunks:
                self._chunks[path, version, chunk] = data
                self._size += len(data)
            while self._size > _MOST_KEPT:
                _, dropped = self._chunks.popitem(last=False)
                self._size -= len(dropped)

    def clear(self) -> None:
        with self._lock:
            self._chunks.clear()
            self._size = 0


KEPT = _Kept()


class _Contexts(threading.local):
    """The context of zstd. Each thread needs its own. It takes frames of the largest chunk."""

    def __init__(self) -> None:
        self.zstd = zstandard.ZstdDecompressor(max_window_size=LARGEST_CHUNK)


_CONTEXTS = _Contexts()


class _ChunkFault(NamedTuple):
    """Why a chunk cannot be decoded.

    found, expected: two values, as in a DataError.
    """

    found: str
    expected: str


class _ChunkError(Exception):
    """A chunk cannot be decoded."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(found)
        self.fault = _ChunkFault(found, expected)  # an error that is kept would keep the bytes of its request


class ChunkedFile:
    """A `.log` whose object has chunks.

    path: of the object, for messages.
    stored_size: bytes that the object has.
    cipher, aad: None for chunks that are not encrypted.
    """

    def __init__(
        self,
        file: OpenFile,
        path: str,
        version: FileVersion,
        index: ChunkIndex,
        *,
        stored_size: int,
        is_compressed: bool,
        cipher: Any | None,
        aad: bytes,
    ) -> None:
        self._file = file
        self._path = path
        self._version = version
        self._index = index
        self._stored_size = stored_size
        self._is_compressed = is_compressed
        self._cipher = cipher
        self._aad = aad
        self._faults: dict[int, _ChunkFault] = {}  # by the chunk's number, of those that the object has
        self._first_missing = bisect_right(index.starts, stored_size, 1) - 1  # the object ends before or in it
        self._locks = [threading.Lock() for _ in range(_LOCKS)]
        self._recent: tuple[int, bytes] | None = None  # the last chunk of this file, which may be too large to keep

    def version(self) -> FileVersion:
        return self._version

    def read_at(self, position: int, count: int) -> bytes:
        count = max(min(count, self._index.file_size - position), 0)
        if not count:
            return b""
        data = bytearray(count)
        # several threads look at one file while it is planned, often at the same chunk
        with self._locks[position // self._index.chunk_size % len(self._locks)]:
            self.read_into(position, memoryview(data))
        return bytes(data)

    def read_into(self, position: int, target: memoryview) -> int:
        count = max(min(len(target), self._index.file_size - position), 0)
        if not count:
            return 0
        size = self._index.chunk_size
        first, last = position // size, (position + count - 1) // size
        at = first
        while at <= last:
            if self._fault_of(at) is not None:
                self._copy(at, None, position, target, count)
                at += 1
                continue
            data = self._find(at)
            if data is not None:
                self._copy(at, data, position, target, count)
                at += 1
                continue
            until = self._find_run(at, last)
            stored = self._read_stored(at, until)
            start = self._index.starts[at]
            for chunk in range(at, until + 1):
                here = self._index.starts[chunk] - start
                data = self._decode(chunk, stored[here : self._index.starts[chunk + 1] - start])
                self._copy(chunk, data, position, target, count)
            at = until + 1
        return count

    def read_ahead(self, start: int, end: int) -> None:
        end = min(end, self._index.file_size)
        if start >= end:
            return
        size = self._index.chunk_size
        first, last = start // size, (end - 1) // size
        while first <= last and self._is_known(first):  # planning has read it
            first += 1
        if first <= last:
            stored = min(self._index.starts[last + 1], self._stored_size)
            self._file.read_ahead(self._index.starts[first], stored)

    def is_all_under_way(self) -> bool:
        return self._file.is_all_under_way()

    def descriptor(self) -> int | None:
        return None

    def close(self) -> None:
        self._file.close()

    def find_fault(self, position: int) -> DataError | None:
        """Returns the damage of the first chunk, at or after a byte position, that belongs to the batch there. None if
        the chunks that were read there are sound.

        The error's position is that in the restored `.log`. Its words say where the chunk lies in the object.
        """
        size = self._index.chunk_size
        first = position // size
        end = position + kafka_format.LOG_OVERHEAD
        if first >= self._index.count:
            return None
        if self._fault_of(first) is None:
            head = self.read_at(position, kafka_format.LOG_OVERHEAD)
            end += max(int.from_bytes(head[kafka_format.LENGTH_AT :], "big", signed=True), 0)
        wrong = min((at for at in self._faults if first <= at and at * size < end), default=self._index.count)
        wrong = min(wrong, max(first, self._first_missing))
        fault = self._fault_of(wrong) if wrong < self._index.count and wrong * size < end else None
        if fault is None:
            return None
        starts = self._index.starts
        return CorruptRecordError(
            f"damaged chunk {wrong} of a tiered segment (bytes {starts[wrong]} to {starts[wrong + 1] - 1} of the object)",
            path=self._path,
            position=position,
            found=fault.found,
            expected=fault.expected,
        )

    def _fault_of(self, chunk: int) -> _ChunkFault | None:
        if chunk < self._first_missing:
            return self._faults.get(chunk)
        start, end = self._index.starts[chunk], self._index.starts[chunk + 1]
        there = max(self._stored_size - start, 0)
        return _ChunkFault(f"{there} bytes before the end of the object", f"{end - start} bytes")

    def _is_known(self, chunk: int) -> bool:
        return self._fault_of(chunk) is not None or self._find(chunk) is not None

    def _find(self, chunk: int) -> bytes | None:
        if self._recent is not None and self._recent[0] == chunk:
            return self._recent[1]
        return KEPT.get(self._path, self._version, chunk)

    def _find_run(self, first: int, last: int) -> int:
        """Returns the last chunk of one request that begins at chunk `first`."""
        at, starts = first, self._index.starts
        while at < last and starts[at + 2] - starts[first] <= _MOST_AT_ONCE and not self._is_known(at + 1):
            at += 1
        return at

    def _read_stored(self, first: int, last: int) -> memoryview:
        """Returns the bytes of some neighbouring chunks in the object, as far as it has them."""
        start, end = self._index.starts[first], min(self._index.starts[last + 1], self._stored_size)
        stored = bytearray(max(end - start, 0))
        done = self._file.read_into(start, memoryview(stored)) if stored else 0
        return memoryview(stored)[:done]

    def _copy(self, chunk: int, data: bytes | None, position: int, target: memoryview, count: int) -> None:
        """Puts the bytes of a chunk where they belong. None: FILLER, for a chunk that is damaged."""
        start = chunk * self._index.chunk_size
        begin, end = max(position, start), min(position + count, start + self._index.original_size(chunk))
        part = FILLER * (end - begin) if data is None else memoryview(data)[begin - start : end - start]
        target[begin - position : end - position] = part

    def _decode(self, chunk: int, stored: memoryview) -> bytes | None:
        """Returns the original bytes of a chunk. None for one that is damaged."""
        size = self._index.original_size(chunk)
        try:
            data = self._decode_sound(chunk, stored, size)
        except _ChunkError as error:
            self._faults[chunk] = error.fault
            return None
        self._recent = chunk, data
        KEPT.put(self._path, self._version, chunk, data)
        return data

    def _decode_sound(self, chunk: int, stored: memoryview, size: int) -> bytes:
        expected = self._index.starts[chunk + 1] - self._index.starts[chunk]
        if len(stored) != expected:
            raise _ChunkError(f"{len(stored)} bytes before the end of the object", f"{expected} bytes")
        data: bytes | memoryview = stored
        if self._cipher is not None:
            try:
                data = decrypt(self._cipher, data, self._aad)
            except WrongTextError:
                raise _ChunkError("bytes that fail their authentication", "the bytes that were encrypted") from None
        if self._is_compressed:
            data = _decompress(data, size)
        if len(data) != size:
            raise _ChunkError(f"{len(data)} bytes of the segment", f"{size} bytes")
        return bytes(data)


def _decompress(data: bytes | memoryview, size: int) -> bytes:
    """Returns the text of one zstd frame. It never takes more memory than `size` bytes need."""
    try:
        stated = zstandard.frame_content_size(bytes(data[:_LONGEST_FRAME_HEADER]))
        if stated not in (-1, size):
            raise _ChunkError(f"a frame of {stated} bytes", f"{size} bytes")
        if stated == size:
            return _CONTEXTS.zstd.decompress(data)
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:  # a frame that states no size
            plain = reader.read(size + 1)
    except (zstandard.ZstdError, MemoryError) as error:
        raise _ChunkError(f"bytes that do not decompress ({str(error)[:80]})", "a zstd frame") from None
    return bytes(plain)
