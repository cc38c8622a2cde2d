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
from kafka_segment_source.kernels import batch_headers, batch_rules
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.checksums import crc_holds
from kafka_segment_source.storage.files import Bytes

_LENGTH = struct.Struct(">i")


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
    """Makes groups of one file's batches. All groups use the same buffer for plain bytes, `plain`."""

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
        view = memoryview(chunk.data)  # type: ignore[arg-type]  # arrays are buffers
        starts = headers[batch_headers.POSITION] - chunk.position
        rows = (
            starts,
            starts + headers[batch_headers.SIZE],
            headers[batch_headers.MAGIC],
            headers[batch_headers.ATTRIBUTES] & kafka_format.CODEC_MASK,
        )
        batches = zip(*(row.tolist() for row in rows), strict=True)
        columns: list[int] = []
        places = [0]
        self._plain.clear()
        for column, (start, end, magic, codec) in enumerate(batches):
            if codec not in kafka_format.CODECS[magic]:
                is_proven = crc_holds(view[start:end], magic, int(headers[batch_headers.CRC, column]))
                self._damage.report(self._faults.bad_codec(headers[:, column], is_proven))
                continue
            try:
                self._unpack_batch(view[start:end], magic, codec)
            except DecompressionError as error:
                self._damage.report(self._faults.bad_block(headers[:, column], error.found, error.expected))
                continue
            columns.append(column)
            places.append(self._plain.size)
            if self._plain.size >= GROUP_BYTES:
                yield self._make_group(headers[:, columns], places)
                columns, places = [], [0]
                self._plain.clear()
        if columns:
            yield self._make_group(headers[:, columns], places)

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
