"""Wanted batches of a chunk → groups. The plain records of a group lie in one buffer.

The buffer is the chunk itself, or another one with the decompressed records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.compression import DecompressionError, Plain, decompress, with_right_lz4_checksum
from kafka_segment_source.decoding.damage import Damage
from kafka_segment_source.decoding.faults import Faults
from kafka_segment_source.decoding.scratch import GROUP_BYTES
from kafka_segment_source.kernels import batch_headers, batch_rules, block_codecs
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.checksums import crc_holds
from kafka_segment_source.storage.files import Bytes

HeaderColumn = npt.NDArray[np.int64]

_LENGTH = struct.Struct(">i")
_OF_KERNEL = (kafka_format.CODEC_SNAPPY, kafka_format.CODEC_LZ4)


@dataclass(frozen=True, slots=True)
class Group:
    """Batches whose plain records lie in `source`. All are message sets (magic 0 and 1), or all are of magic 2.

    headers: int64[FIELDS, n], this group's own copy.
    payloads: int64[2, n], start and end of each batch's plain records. The next group uses `source` again.
    """

    source: Bytes
    headers: HeaderTable
    payloads: npt.NDArray[np.int64]

    @property
    def is_message_set(self) -> bool:
        """Whether the batches are of magic 0 or 1. Otherwise all are of magic 2."""
        return bool(self.headers[batch_headers.MAGIC, 0] < kafka_format.MAGIC_V2)

    def without(self, column: int) -> Group:
        """The group without the batch in one column."""
        return self.only(np.arange(self.headers.shape[1]) != column)

    def only(self, chosen: npt.NDArray[np.bool_]) -> Group:
        """The group with some of its batches. chosen: bool[n]."""
        return Group(
            self.source,
            np.ascontiguousarray(self.headers[:, chosen]),
            np.ascontiguousarray(self.payloads[:, chosen]),
        )


class Unpacker:
    """Makes groups of one file's batches. All groups use the same buffer for plain bytes, `plain`.

    A kernel unpacks lz4 and snappy, many batches in one call. Where it stops, the codec's library takes the next batch.
    """

    def __init__(self, path: str, max_batch_bytes: int, damage: Damage, plain: Plain) -> None:
        self._faults = Faults(path)
        self._max_batch_bytes = max_batch_bytes
        self._damage = damage
        self._plain = plain

    def groups(self, chunk: Chunk, headers: HeaderTable) -> Iterator[Group]:
        """Yields groups of `headers` (batches of `chunk`), in order. No group is empty.

        The given Damage raises or reports the error of a damaged batch.
        """
        start = 0
        while start < headers.shape[1]:  # an upgraded log may mix magics in one segment
            end: int = batch_rules.find_end_of_run(headers, start)
            run = headers[:, start:end]
            if np.bitwise_or.reduce(run[batch_headers.ATTRIBUTES]) & kafka_format.CODEC_MASK:
                yield from self._unpack_batches(chunk, run)
            else:
                yield _make_plain_group(chunk, run)
            start = end

    def _unpack_batches(self, chunk: Chunk, headers: HeaderTable) -> Iterator[Group]:
        magics, codecs = headers[batch_headers.MAGIC], headers[batch_headers.ATTRIBUTES] & kafka_format.CODEC_MASK
        starts = headers[batch_headers.POSITION] - chunk.position
        batches = _Batches(chunk.data, starts, starts + headers[batch_headers.SIZE], magics, codecs)
        columns: list[int] = []
        places = [0]
        self._plain.clear()
        column = 0
        while column < headers.shape[1]:
            ends = batches.unpack_from(column, self._plain, self._max_batch_bytes)
            if ends:
                columns += range(column, column + len(ends))
                places += ends
                column += len(ends)
            else:
                if self._unpack_one(batches, headers, column):
                    columns.append(column)
                    places.append(self._plain.size)
                column += 1
            if self._plain.size >= GROUP_BYTES:
                yield self._make_group(headers[:, columns], places)
                columns, places = [], [0]
                self._plain.clear()
        if columns:
            yield self._make_group(headers[:, columns], places)

    def _unpack_one(self, batches: _Batches, headers: HeaderTable, column: int) -> bool:
        """Adds the plain records of a batch by its codec's library. Returns False if it is damaged, and reports it."""
        batch, magic, codec = batches.take(column)
        if codec not in kafka_format.CODECS[magic]:
            is_proven = crc_holds(batch, magic, int(headers[batch_headers.CRC, column]))
            self._damage.report(self._faults.bad_codec(headers[:, column], is_proven))
            return False
        try:
            self._unpack_batch(batch, magic, codec)
        except DecompressionError as error:
            self._damage.report(self._faults.bad_block(headers[:, column], error.found, error.expected))
            return False
        return True

    def _unpack_batch(self, batch: memoryview, magic: int, codec: int) -> None:
        """Adds the plain records of one batch.

        For magic 2 these are the bytes after the header. For a wrapper it is the value, and for a plain message the
        whole entry.
        """
        if magic == kafka_format.MAGIC_V2:
            stored = batch[kafka_format.BATCH_OVERHEAD :]
        else:
            stored = _find_wrapped_value(batch, magic) if codec else batch
        if codec == kafka_format.CODEC_NONE:
            self._plain.begin(len(stored))
            self._plain.append(stored)
            return
        if codec == kafka_format.CODEC_LZ4 and magic == kafka_format.MAGIC_V0:
            stored = memoryview(with_right_lz4_checksum(stored))
        decompress(codec, stored, self._plain, self._max_batch_bytes)

    def _make_group(self, headers: HeaderTable, places: list[int]) -> Group:
        ends = np.array(places, np.int64)
        return Group(self._plain.data, np.ascontiguousarray(headers), np.stack((ends[:-1], ends[1:])))


class _Batches:
    """Batches in the bytes of a chunk. starts, ends: positions of each in `data`. magics, codecs: of each."""

    def __init__(
        self, data: Bytes, starts: HeaderColumn, ends: HeaderColumn, magics: HeaderColumn, codecs: HeaderColumn
    ) -> None:
        self._data = data
        self._view = memoryview(data)  # type: ignore[arg-type]  # arrays are buffers
        self._rows = [row.tolist() for row in (starts, ends, magics, codecs)]
        is_of_kernel = (magics == kafka_format.MAGIC_V2) & np.isin(codecs, _OF_KERNEL)
        self._is_of_kernel: list[bool] = is_of_kernel.tolist()
        if is_of_kernel.any():
            records = (
                starts + kafka_format.BATCH_OVERHEAD,
                np.ascontiguousarray(ends),
                np.where(is_of_kernel, codecs, 0),
            )
            self._records = records
            self._places = np.empty(len(starts), np.int64)

    def take(self, column: int) -> tuple[memoryview, int, int]:
        """Returns the bytes, the magic and the codec of a batch."""
        start, end, magic, codec = (row[column] for row in self._rows)
        return self._view[start:end], magic, codec

    def unpack_from(self, column: int, plain: Plain, limit: int) -> list[int]:
        """Adds the plain records of batches from `column` on to `plain`, at most `limit` bytes of each, up to a group.

        Returns the size of `plain` after each of them. There is none if the first one is for a library.
        """
        if not self._is_of_kernel[column]:
            return []
        count = block_codecs.unpack_batches(
            self._data, *self._records, column, plain.data, plain.size, GROUP_BYTES, limit, self._places
        )
        ends: list[int] = self._places[:count].tolist()
        if ends:
            plain.size = ends[-1]
        return ends


def _make_plain_group(chunk: Chunk, headers: HeaderTable) -> Group:
    """Makes the group of batches whose records are plain in the chunk: after the header, or a whole entry."""
    payloads = np.empty((2, headers.shape[1]), np.int64)
    np.subtract(headers[batch_headers.POSITION], chunk.position, out=payloads[0])
    np.add(payloads[0], headers[batch_headers.SIZE], out=payloads[1])
    if headers[batch_headers.MAGIC, 0] == kafka_format.MAGIC_V2:
        payloads[0] += kafka_format.BATCH_OVERHEAD
    return Group(chunk.data, np.array(headers, order="C"), payloads)


def _find_wrapped_value(entry: memoryview, magic: int) -> memoryview:
    """Finds the value of a wrapper message. It follows the key, which is usually null, and its own length."""
    at = kafka_format.LEGACY_TIMESTAMP_AT + (8 if magic == kafka_format.MAGIC_V1 else 0)
    _, key_end = _find_sized_part(entry, at, "key")
    start, end = _find_sized_part(entry, key_end, "value")
    if end != len(entry):
        raise DecompressionError(
            f"a wrapper with {len(entry) - end} bytes left over after its value", "0 bytes left over"
        )
    return entry[start:end]


def _find_sized_part(entry: memoryview, at: int, part: str) -> tuple[int, int]:
    """Finds start and end of the part whose i32 length is at `at`. A negative length means null, with no bytes."""
    left = len(entry) - at - _LENGTH.size
    length = _LENGTH.unpack_from(entry, at)[0] if left >= 0 else 0
    if left < 0 or length > left:
        raise DecompressionError(f"a wrapper whose {part} has {length} bytes", f"at most the {max(left, 0)} bytes left")
    return at + _LENGTH.size, at + _LENGTH.size + max(length, 0)
