"""Chunks of batches → RecordColumns: which batches are wanted, decompression, the kernel, its codes made errors.

Batches are skipped undecoded where their header proves that no row of theirs is wanted; rows are cut exactly in
the kernel. Rows of one RecordColumns come in offset order, and so do RecordColumns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafka_segment_source import format as fmt
from kafka_segment_source.bounds import ScanBounds
from kafka_segment_source.compression import DecompressionError, decompress
from kafka_segment_source.errors import CorruptRecordError, DataError, UnsupportedFormatError
from kafka_segment_source.files import Bytes
from kafka_segment_source.kernels import headers as h
from kafka_segment_source.kernels import record_batches as k
from kafka_segment_source.reading import Chunk, Damage, HeaderTable
from kafka_segment_source.splits import SegmentSplit

MAX_ROWS = 65_536  # of one RecordColumns, and so of one Arrow batch
MAX_BYTES = 16 * 1024 * 1024  # of record bytes after which one RecordColumns ends
_NOTHING = np.array([1, 0, 1, 0], np.int64)  # bounds that no record is inside of

_FAULTS = {
    k.BAD_VARINT: (
        "record with an unreadable varint",
        "a varint inside the record, of at most 32 (timestamps 64) bits",
    ),
    k.BAD_RECORD_LENGTH: ("record of impossible length", "a length inside the batch"),
    k.BAD_FIELD_LENGTH: ("key, value or header of impossible length", "-1 (null) or a length inside the record"),
    k.RECORD_NOT_USED_UP: ("record with bytes left over", "0 bytes left over"),
    k.BATCH_NOT_USED_UP: ("batch with bytes left over after its last record", "0 bytes left over"),
    k.BAD_HEADERS_COUNT: ("record with an impossible number of headers", "0 or as many as fit the record"),
    k.BAD_OFFSET_DELTA: ("record out of order", "offset deltas that grow from 0 to lastOffsetDelta"),
}


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """`count` records: where each one's parts lie in `source`, and the headers of the batches they are from.

    longs: int64[LONGS, ≥ count], ints: int32[INTS, ≥ count] (kernels.record_batches); headers: int64[FIELDS, n].
    All arrays are used again for the next RecordColumns.
    """

    count: int
    source: Bytes
    headers: HeaderTable
    longs: npt.NDArray[np.int64]
    ints: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _Group:
    """Batches whose plain records lie in one buffer: payloads int64[2, n], start and end of each."""

    source: Bytes
    headers: HeaderTable
    payloads: npt.NDArray[np.int64]


class Decoder:
    """Decodes the chunks of one split; keeps the scratch arrays between them."""

    def __init__(self, split: SegmentSplit, *, max_batch_bytes: int, include_control: bool, damage: Damage) -> None:
        self._path = split.path
        self._bounds = split.bounds
        self._max_batch_bytes = max_batch_bytes
        self._include_control = include_control
        self._damage = damage
        self._arena: Bytes = np.empty(0, np.uint8)
        self._longs = np.empty((k.LONGS, MAX_ROWS), np.int64)
        self._ints = np.empty((k.INTS, MAX_ROWS), np.int32)
        self._limits = np.array([MAX_ROWS, MAX_BYTES], np.int64)
        self._inclusive = _inclusive(split.bounds)

    def decode(self, chunk: Chunk) -> Iterator[RecordColumns]:
        """The wanted records of a chunk. Raises, or reports and skips, what Damage says of a damaged batch."""
        self._refuse_message_sets(chunk.headers)
        wanted = chunk.headers[:, _wanted(chunk.headers, self._bounds, self._include_control)]
        for group in self._groups(chunk, wanted):
            yield from self._records(self._undamaged(group) if self._damage.drop else group)

    def _refuse_message_sets(self, headers: HeaderTable) -> None:
        old = headers[h.MAGIC] < fmt.MAGIC_V2
        if old.any():
            at = int(np.argmax(old))
            raise UnsupportedFormatError(
                "message set (written by Kafka 0.8 to 0.10, or in their format)",
                path=self._path,
                position=int(headers[h.POSITION, at]),
                offset=int(headers[h.BASE_OFFSET, at]),
                found=f"magic {int(headers[h.MAGIC, at])}, which is not read yet",
                expected="magic 2",
            )

    # ---- plain bytes ----

    def _groups(self, chunk: Chunk, headers: HeaderTable) -> Iterator[_Group]:
        """Batches grouped by where their plain records lie: in the chunk itself, or decompressed in the arena."""
        starts = headers[h.POSITION] - chunk.position
        if not (headers[h.ATTRIBUTES] & fmt.CODEC_MASK).any():
            if headers.shape[1]:
                yield _Group(chunk.data, headers, np.stack((starts + fmt.BATCH_OVERHEAD, starts + headers[h.SIZE])))
            return
        parts: list[bytes | memoryview] = []
        columns: list[int] = []
        size = 0
        for column in range(headers.shape[1]):
            plain = self._plain(chunk, headers, column)
            if plain is None:
                continue
            parts.append(plain)
            columns.append(column)
            size += len(plain)
            if size >= MAX_BYTES:
                yield self._in_arena(headers[:, columns], parts, size)
                parts, columns, size = [], [], 0
        if parts:
            yield self._in_arena(headers[:, columns], parts, size)

    def _plain(self, chunk: Chunk, headers: HeaderTable, column: int) -> bytes | memoryview | None:
        """The plain records of one batch; None if they cannot be had and damage is skipped."""
        position = int(headers[h.POSITION, column])
        start = position - chunk.position
        data = memoryview(chunk.data)  # type: ignore[arg-type]  # numpy arrays are buffers
        stored = data[start + fmt.BATCH_OVERHEAD : start + int(headers[h.SIZE, column])]
        codec = int(headers[h.ATTRIBUTES, column]) & fmt.CODEC_MASK
        if codec == fmt.CODEC_NONE:
            return stored
        try:
            return decompress(codec, stored, self._max_batch_bytes)
        except DecompressionError as error:
            self._damage(self._error("batch that cannot be decompressed", headers, column, error.found, error.expected))
            return None

    def _in_arena(self, headers: HeaderTable, parts: list[bytes | memoryview], size: int) -> _Group:
        if len(self._arena) < size:
            self._arena = np.empty(size, np.uint8)
        ends = np.cumsum([len(part) for part in parts])
        starts = ends - [len(part) for part in parts]
        for start, end, part in zip(starts.tolist(), ends.tolist(), parts, strict=True):
            self._arena[start:end] = np.frombuffer(part, np.uint8)
        return _Group(self._arena, np.ascontiguousarray(headers), np.stack((starts, ends)))

    # ---- records ----

    def _records(self, group: _Group) -> Iterator[RecordColumns]:
        cursor = np.zeros(4, np.int64)
        while True:
            count, status, report = self._call(group, self._inclusive, cursor)
            if status not in (k.DONE, k.FULL):
                raise self._fault(group.headers, int(cursor[k.AT_BATCH]), report)
            if count:
                yield RecordColumns(count, group.source, group.headers, self._longs, self._ints)
            if status == k.DONE:
                return

    def _undamaged(self, group: _Group) -> _Group:
        """The group without its damaged batches, each reported: none of their rows may go out, so all are walked first."""
        cursor = np.zeros(4, np.int64)
        while True:
            _, status, report = self._call(group, _NOTHING, cursor)
            if status == k.DONE:
                return group
            if status != k.FULL:
                at = int(cursor[k.AT_BATCH])
                self._damage(self._fault(group.headers, at, report))
                headers, payloads = np.delete(group.headers, at, axis=1), np.delete(group.payloads, at, axis=1)
                group = _Group(group.source, headers, payloads)
                cursor[k.AT_RECORD] = 0

    def _call(
        self, group: _Group, bounds: npt.NDArray[np.int64], cursor: npt.NDArray[np.int64]
    ) -> tuple[int, int, npt.NDArray[np.int64]]:
        report = np.zeros(3, np.int64)
        count = k.decode_records(
            group.source,
            np.ascontiguousarray(group.headers),
            np.ascontiguousarray(group.payloads),
            bounds,
            self._limits,
            cursor,
            self._longs,
            self._ints,
            report,
        )
        return int(count), int(report[k.STATUS]), report

    def _fault(self, headers: HeaderTable, column: int, report: npt.NDArray[np.int64]) -> DataError:
        what, expected = _FAULTS[int(report[k.STATUS])]
        return self._error(what, headers, column, int(report[k.FOUND]), expected)

    def _error(self, what: str, headers: HeaderTable, column: int, found: object, expected: object) -> DataError:
        return CorruptRecordError(
            what,
            path=self._path,
            position=int(headers[h.POSITION, column]),
            offset=int(headers[h.BASE_OFFSET, column]),
            found=found,
            expected=expected,
        )


def _inclusive(bounds: ScanBounds) -> npt.NDArray[np.int64]:
    """Half-open Python bounds as the kernel's inclusive 64-bit ones."""
    offsets, times = bounds.offsets, bounds.times
    return np.array([offsets.start, offsets.end - 1, times.since, times.until - 1], np.int64)


def _wanted(headers: HeaderTable, bounds: ScanBounds, include_control: bool) -> npt.NDArray[np.bool_]:
    """Which batches may hold a wanted row, by their headers. maxTimestamp is an upper bound; a lower one there is not,
    except under LogAppendTime, where it is every row's timestamp."""
    attributes, latest = headers[h.ATTRIBUTES], headers[h.MAX_TIMESTAMP]
    offsets, times = bounds.offsets, bounds.times
    wanted = headers[h.COUNT] > 0
    if not include_control:
        wanted &= attributes & fmt.CONTROL_MASK == 0
    wanted &= (headers[h.LAST_OFFSET] >= offsets.start) & (headers[h.BASE_OFFSET] < offsets.end)
    wanted &= latest >= times.since
    if times.has_until:
        wanted &= (attributes & fmt.TIMESTAMP_TYPE_MASK == 0) | (latest < times.until)
    return np.asarray(wanted)
