"""Reads single batch headers for planning. A position comes in, and the header there goes out, or None.

Planning reads a few headers per segment in a new process. So this module uses plain `struct` and does not load the
kernels. A header counts as evidence only if the CRC of its batch matches (`proven`), or if the user has turned CRCs
off.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

from kafka_segment_source import batch_kinds, kafka_format
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.logdir.checksums import crc_holds
from kafka_segment_source.logdir.offset_proof import follows, has_jumped
from kafka_segment_source.storage.files import InputFile

_BLOCK = 4096  # bytes per read: they often include the next header
_LARGEST_PROOF = 64 * 1024 * 1024  # a batch larger than this is not read for a proof
_MOST_KEPT = 64  # proven headers
_LEGACY = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")


class BatchHeader(NamedTuple):
    """The fields of a batch that planning needs: position and size in bytes, absolute offsets, timestamps in ms.

    base_timestamp: as stated. `first_timestamp` says what it means.

    Magic 0 and 1: both offsets are the entry's own offset, which for a wrapper is its last one. The count and the
    leader_epoch are -1.
    """

    position: int
    size: int
    magic: int
    crc: int
    attributes: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    count: int  # type: ignore[assignment]  # a field hides a method of tuples
    leader_epoch: int
    base_timestamp: int

    @property
    def end(self) -> int:
        """The position after the batch."""
        return self.position + self.size

    @property
    def first_timestamp(self) -> int:
        """The timestamp of the first record, ms. It is the largest one if the header states only that."""
        if batch_kinds.states_first_timestamp(self.magic, self.attributes):
            return min(self.base_timestamp, self.max_timestamp)
        return self.max_timestamp

    @property
    def is_control(self) -> bool:
        return bool(batch_kinds.is_control(self.magic, self.attributes))

    @property
    def is_compressed(self) -> bool:
        return bool(batch_kinds.is_compressed(self.attributes))

    @property
    def is_wrapper(self) -> bool:
        """Whether it is a compressed message set of magic 0 or 1. It states only its last offset."""
        return bool(batch_kinds.is_wrapper(self.magic, self.attributes))

    @property
    def has_data(self) -> bool:
        """Whether the header proves that the batch holds records for users."""
        return bool(batch_kinds.has_data(self.magic, self.attributes, self.count))


class HeaderProbe:
    """Reads headers of one `.log` of `size` bytes.

    base_offset: of the segment, if the offsets of its first batch are to be judged by it.
    """

    def __init__(self, file: InputFile, size: int, check_crcs: bool, base_offset: int | None = None) -> None:
        self._base_offset = base_offset
        self._file = file
        self._size = size
        self._check_crcs = check_crcs
        self._block = b""
        self._block_at = 0
        self._proven: dict[int, BatchHeader] = {}  # the last few, by position: a search and several walks meet there

    def at(self, position: int) -> BatchHeader | None:
        """Returns the header of the whole batch at `position`, or None if no batch can start there."""
        if position in self._proven:
            return self._proven[position]
        if position < 0 or position >= self._size:
            return None
        return _parse_header(self._read_bytes(position, kafka_format.BATCH_OVERHEAD), position, self._size)

    def torn(self, position: int) -> BatchHeader | None:
        """Returns the header at `position`, also of a batch that the end of the file cuts. None as in `at`.

        If it cuts the header, fields behind the magic are 0. None if the magic is cut off.
        """
        data = self._read_bytes(position, kafka_format.BATCH_OVERHEAD)
        if len(data) < kafka_format.MAGIC_END:
            return None
        return _parse_header(data.ljust(kafka_format.BATCH_OVERHEAD, b"\0"), position, sys.maxsize)

    def repaired(self, position: int, offsets: OffsetRange) -> BatchHeader | None:
        """Returns the header at a position if it is that of a batch of magic 2 at the first of the offsets that are
        missing there, but for one bit of its base offset or its magic: with these two set right. Another one of these
        offsets may be right, where compaction has removed a batch before. Other fields may be impossible. If the end of
        the file cuts the header, fields behind the magic are 0."""
        data = self._read_bytes(position, kafka_format.BATCH_OVERHEAD)
        if len(data) < kafka_format.MAGIC_END or not any(data[: kafka_format.MAGIC_END]):
            return None
        header = _unpack_v2(data.ljust(kafka_format.BATCH_OVERHEAD, b"\0"), position)
        first = offsets.start
        wrong_bits = (int.from_bytes(data[:8]) ^ first).bit_count() + (header.magic ^ kafka_format.MAGIC_V2).bit_count()
        if wrong_bits > 1 or first < header.base_offset < offsets.end:
            return None
        last = first + header.last_offset - header.base_offset
        return header._replace(base_offset=first, last_offset=last, magic=kafka_format.MAGIC_V2)

    def proven(self, position: int) -> BatchHeader | None:
        """Returns the header at a position if the CRC of its batch holds; unless CRCs are off, as `at` does."""
        header = self.at(position)
        if header is None or not self._check_crcs or position in self._proven:
            return header
        if header.size > _LARGEST_PROOF:
            return None
        # the next header comes with it, as a look at the order of offsets may need it
        batch = self._read_bytes(position, header.size + kafka_format.BATCH_OVERHEAD)[: header.size]
        if not crc_holds(batch, header.magic, header.crc):
            return None
        if len(self._proven) == _MOST_KEPT:
            self._proven.clear()
        self._proven[position] = header
        return header

    def walk(self, position: int, *, in_order: bool = True) -> Iterator[BatchHeader | None]:
        """Yields proven headers from `position` to the end of the file. After the first failed proof it yields None and
        ends. A batch whose offsets contradict its neighbours is not proven (`offset_proof.py`).

        in_order: False believes the offsets.
        """
        before = None if position or self._base_offset is None else self._base_offset - 1
        while position < self._size:
            header = self.proven(position)
            if in_order and header is not None and before is not None and not self._keeps_order(header, before):
                header = None
            yield header
            if header is None:
                return
            position, before = header.end, header.last_offset

    def _keeps_order(self, header: BatchHeader, before: int) -> bool:
        if header.base_offset == before + 1:
            return True
        if not follows(header, before):
            return False
        following = self.at(header.end)
        third = None if following is None or following.base_offset > header.last_offset else self.at(following.end)
        return not has_jumped(header, following, before, third)

    def is_legal_tail(self, position: int) -> bool:
        """Whether the bytes from `position` to the end may end a log.

        A batch that is cut short may, and so may preallocated zeros. Of the zeros only the first are checked.
        """
        data = self._read_bytes(position, kafka_format.MAGIC_END)
        if len(data) < kafka_format.MAGIC_END or not any(data):
            return True
        length = int.from_bytes(data[kafka_format.LENGTH_AT : kafka_format.LOG_OVERHEAD], "big", signed=True)
        return position + kafka_format.LOG_OVERHEAD + length > self._size

    def is_unwritten(self, position: int) -> bool:
        """Whether zeros are where a batch might begin: preallocated space, as far as these bytes tell."""
        return not any(self._read_bytes(position, kafka_format.MAGIC_END))

    def may_be_last(self, header: BatchHeader) -> bool:
        """Whether the bytes after a batch may end a log. A torn batch there states a later offset."""
        if header.end >= self._size:
            return True
        data = self._read_bytes(header.end, kafka_format.MAGIC_END)
        states_nothing = len(data) < kafka_format.MAGIC_END or not any(data)
        stated = int.from_bytes(data[: kafka_format.LENGTH_AT], "big", signed=True)
        return self.is_legal_tail(header.end) and (states_nothing or stated > header.last_offset)

    def _read_bytes(self, position: int, count: int) -> bytes:
        start = position - self._block_at
        if start < 0 or start + count > len(self._block):
            self._block_at = position
            self._block = self._file.read_at(position, min(max(count, _BLOCK), self._size - position))
            start = 0
        return self._block[start : start + count]


def shows_compaction(probe: HeaderProbe, base_offset: int) -> bool:
    """Whether offsets are missing between the batches of a segment, or inside them. Only compaction does that.

    True also if that cannot be told: a batch is not proven, or is of magic 0 or 1.
    """
    expected = base_offset
    for header in probe.walk(0):
        if header is None or header.magic < kafka_format.MAGIC_V2 or has_gap(header, expected):
            return True
        expected = header.last_offset + 1
    return False


def has_gap(header: BatchHeader, expected: int) -> bool:
    """Whether offsets are missing in a batch of magic 2, or before it."""
    return header.base_offset > expected or header.count < header.last_offset - header.base_offset + 1


def _parse_header(data: bytes, position: int, size: int) -> BatchHeader | None:
    if len(data) < kafka_format.MAGIC_END:
        return None
    magic = data[kafka_format.MAGIC_AT]
    if magic == kafka_format.MAGIC_V2:
        header = _parse_v2(data, position)
    elif magic in (kafka_format.MAGIC_V0, kafka_format.MAGIC_V1):
        header = _parse_legacy(data, position, magic)
    else:
        header = None
    if header is None or header.base_offset < 0 or header.last_offset >= kafka_format.MAX_OFFSET:
        return None
    return header if header.end <= size else None


def _parse_v2(data: bytes, position: int) -> BatchHeader | None:
    if len(data) < kafka_format.BATCH_OVERHEAD:
        return None
    header = _unpack_v2(data, position)
    is_possible = header.size >= kafka_format.MIN_BATCH_LENGTH + kafka_format.LOG_OVERHEAD
    return header if is_possible and header.last_offset >= header.base_offset and header.count >= 0 else None


def _unpack_v2(data: bytes, position: int) -> BatchHeader:
    base, length, epoch, magic, crc, attributes, delta, first, latest, _, _, _, count = (
        kafka_format.BATCH_HEADER.unpack(data)
    )
    size = length + kafka_format.LOG_OVERHEAD
    return BatchHeader(position, size, magic, crc, attributes, base, base + delta, latest, count, epoch, first)


def _parse_legacy(data: bytes, position: int, magic: int) -> BatchHeader | None:
    smallest = kafka_format.MIN_LENGTH_V1 if magic == kafka_format.MAGIC_V1 else kafka_format.MIN_LENGTH_V0
    if len(data) < smallest + kafka_format.LOG_OVERHEAD:
        return None
    offset, length, crc, magic, attributes = _LEGACY.unpack_from(data)
    if length < smallest:
        return None
    timestamp = (
        _TIMESTAMP.unpack_from(data, kafka_format.LEGACY_TIMESTAMP_AT)[0]
        if magic == kafka_format.MAGIC_V1
        else kafka_format.NO_TIMESTAMP
    )
    return BatchHeader(
        position,
        length + kafka_format.LOG_OVERHEAD,
        magic,
        crc,
        attributes,
        offset,
        offset,
        timestamp,
        -1,
        -1,
        timestamp,
    )
