"""Runs the programs of a column's writers over rows, and makes Arrow arrays of what the kernel leaves.

The memory of one run is bounded by `most_bytes`: the rows after it wait for the next run, and a row that takes more
alone does not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_segment_source.kernels import avro
from kafka_segment_source.storage.files import Bytes
from kafka_segment_source.values.avro_columns import ValueColumn
from kafka_segment_source.values.avro_json import to_json_array
from kafka_segment_source.values.avro_program import Programs

LARGEST_ARENA = 2**31 - 2**16  # Arrow's offsets have 32 bits
_ALIGNED = 64
_LEAST_BYTES = 256  # of the texts of a column
_USUAL_BYTES = 16  # of a text

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
NONE_CHOSEN: Ints = np.empty(0, np.int32)


class Rows(NamedTuple):
    """Values in memory: their places and sizes in `source`, where a negative size is a null.

    chosen: as the kernel takes it.
    """

    source: Bytes
    places: Ints
    sizes: Ints
    chosen: Ints = NONE_CHOSEN


@dataclass(frozen=True)
class Naming:
    """How rows name their writers: the form, and the keys in order, with the program of each."""

    form: int
    keys: Longs
    starts: Longs


class AvroDecoder:
    """Decodes rows of one column. It remembers how much room they took. One thread uses it."""

    def __init__(self, programs: Programs, naming: Naming, most_bytes: int) -> None:
        self._programs = programs
        self._naming = naming
        self._most = min(most_bytes, LARGEST_ARENA)
        self._columns = list(programs.columns.walk())
        self._alone = {column.number for column in programs.columns.beside()}  # columns with an element a row
        self._frames = np.zeros((avro.DEPTH, 2), np.int64)
        self._saved = np.zeros((2, len(self._columns)), np.int64)
        self._a_row = np.ones((2, len(self._columns)))  # elements and bytes
        self._a_row[1] = _USUAL_BYTES

    def decode(self, rows: Rows, first: int, last: int, status: npt.NDArray[np.uint8]) -> tuple[pa.Array, int]:
        """Decodes rows from `first` on, and at most to `last`. Fills their status, as the kernel says it.

        Returns their values, and the first row that is not decoded.
        """
        fixed = sum(column.kind if column.kind <= avro.SIXTEEN else 4 for column in self._columns) + 1
        last = min(last, first + max(self._most // (2 * fixed), 1))
        arena = _Arena(self._columns, self._estimate(last - first), self._saved.shape[1])
        refused, at = -1, first
        report = np.zeros(3, np.int64)
        while True:
            at = self._run(rows, at, last, refused, arena, status, report)
            if at == last:
                break
            if arena.grow(report, self._most):
                continue
            if at > first:
                break
            refused = at
        self._a_row = np.maximum(arena.counts / max(at - first, 1), self._a_row * 0.9)
        return arena.build(self._programs, at - first), at

    def _estimate(self, rows: int) -> Longs:
        room = np.ceil(self._a_row * rows * 1.25).astype(np.int64) + 8
        room[1] += _LEAST_BYTES
        for number in self._alone:
            room[0, number] = rows
        return np.minimum(room, self._most // (8 * len(self._columns)) + rows)

    def _run(
        self,
        rows: Rows,
        first: int,
        last: int,
        refused: int,
        arena: _Arena,
        status: npt.NDArray[np.uint8],
        report: Longs,
    ) -> int:
        programs, naming = self._programs, self._naming
        done: int = avro.decode_rows(
            rows.source,
            rows.places,
            rows.sizes,
            first,
            last,
            refused,
            naming.form,
            naming.keys,
            naming.starts,
            rows.chosen,
            programs.steps,
            programs.lists,
            programs.texts,
            arena.table,
            arena.counts,
            self._saved,
            self._frames,
            *arena.views,
            status,
            report,
        )
        return done


class _Arena:
    """The memory of the columns of one run.

    room: int64[2, n]: the elements and the bytes of each column.
    """

    def __init__(self, columns: list[ValueColumn], room: Longs, count: int) -> None:
        self._columns = columns
        self.counts = np.zeros((2, count), np.int64)
        self.table = np.zeros((avro.COLUMN_FIELDS, count), np.int64)
        for number, column in enumerate(columns):
            self.table[avro.KIND, number] = column.kind
            self.table[avro.CHILD, number] = column.children[0].number if column.kind == avro.LIST else -1
        self._allocate(room)

    def _allocate(self, room: Longs) -> None:
        table, at = self.table, 0
        self._room = room
        for number, column in enumerate(self._columns):
            elements, texts = int(room[0, number]), int(room[1, number])
            table[avro.CAPACITY, number] = elements
            table[avro.VALID_AT, number] = at if column.nullable else -1
            at += _align(elements) if column.nullable else 0
            table[avro.DATA_AT, number] = at
            at += _align(_element_bytes(column, elements))
            table[avro.BYTES_AT, number] = at
            table[avro.BYTES_CAPACITY, number] = texts if column.kind == avro.TEXT else 0
            at += _align(texts) if column.kind == avro.TEXT else 0
        memory = np.empty(at + _ALIGNED, np.uint8)
        skip = -memory.ctypes.data % _ALIGNED
        self._memory = memory[skip : skip + at]
        for number, column in enumerate(self._columns):
            if column.nullable:
                begin = table[avro.VALID_AT, number]
                self._memory[begin : begin + room[0, number]] = 1
            if column.kind in (avro.LIST, avro.TEXT):
                begin = table[avro.DATA_AT, number]
                self._memory[begin : begin + 4] = 0

    @property
    def views(self) -> tuple[Any, Any, Any, Any, Any]:
        memory = self._memory
        ints, longs = memory.view(np.int32), memory.view(np.int64)
        return memory, ints, longs, memory.view(np.float32), memory.view(np.float64)

    def grow(self, report: Longs, most: int) -> bool:
        """Makes room for the column that a report names. Returns whether `most` bytes are enough for that."""
        number, elements, texts = report.tolist()
        room = self._room.copy()
        if elements > room[0, number] or texts <= room[1, number]:
            room[0, number] = max(2 * room[0, number], elements)
        if texts > room[1, number]:
            room[1, number] = max(2 * room[1, number], texts)
        if self._size(room) > most:
            return False
        old, table = self._memory, self.table.copy()
        self._allocate(room)
        for at, column in enumerate(self._columns):
            elements, texts = self.counts[0, at], self.counts[1, at]
            if column.nullable:
                self._copy(old, table, avro.VALID_AT, at, elements)
            self._copy(old, table, avro.DATA_AT, at, _element_bytes(column, int(elements)))
            self._copy(old, table, avro.BYTES_AT, at, texts)
        return True

    def _copy(self, old: npt.NDArray[np.uint8], table: Longs, field: int, column: int, size: int) -> None:
        of, to = table[field, column], self.table[field, column]
        self._memory[to : to + size] = old[of : of + size]

    def _size(self, room: Longs) -> int:
        return sum(
            _align(_element_bytes(column, int(room[0, number])))
            + (_align(int(room[0, number])) if column.nullable else 0)
            + (_align(int(room[1, number])) if column.kind == avro.TEXT else 0)
            for number, column in enumerate(self._columns)
        )

    # ---- Arrow ----

    def build(self, programs: Programs, rows: int) -> pa.Array:
        """Makes the array of all rows. It keeps the memory."""
        self._programs = programs
        array = self._build(programs.columns)
        assert len(array) == rows
        return array

    def _build(self, column: ValueColumn) -> pa.Array:
        number = column.number
        count = int(self.counts[0, number])
        bitmap, nulls = self._build_validity(column, count)
        if column.kind == avro.EMPTY:
            if pa.types.is_null(column.arrow):
                return pa.nulls(count)
            children = [self._build(child) for child in column.children]
            return pa.Array.from_buffers(column.arrow, count, [bitmap], nulls, children=children)
        data = self._take(avro.DATA_AT, number, _element_bytes(column, count))
        if column.kind == avro.LIST:
            children = [self._build(child) for child in column.children]
            if pa.types.is_map(column.arrow):
                entries = pa.struct([column.arrow.key_field, column.arrow.item_field])
                children = [pa.Array.from_buffers(entries, len(children[0]), [None], 0, children=children)]
            return pa.Array.from_buffers(column.arrow, count, [bitmap, data], nulls, children=children)
        if column.kind == avro.BYTE:
            flags = np.packbits(np.frombuffer(data, np.uint8), bitorder="little")
            return pa.Array.from_buffers(column.arrow, count, [bitmap, pa.py_buffer(flags)], nulls)
        if column.kind == avro.TEXT:
            texts = self._take(avro.BYTES_AT, number, int(self.counts[1, number]))
            kind = pa.binary() if column.is_json else column.arrow
            array = pa.Array.from_buffers(kind, count, [bitmap, data, texts], nulls)
            return to_json_array(array, self._programs.raw) if column.is_json else array
        return pa.Array.from_buffers(column.arrow, count, [bitmap, data], nulls)

    def _build_validity(self, column: ValueColumn, count: int) -> tuple[pa.Buffer | None, int]:
        if not column.nullable or not count:
            return None, 0
        begin = int(self.table[avro.VALID_AT, column.number])
        valid = self._memory[begin : begin + count]
        nulls = count - int(np.count_nonzero(valid))
        return (pa.py_buffer(np.packbits(valid, bitorder="little")), nulls) if nulls else (None, 0)

    def _take(self, field: int, column: int, size: int) -> pa.Buffer:
        begin = int(self.table[field, column])
        return pa.py_buffer(self._memory[begin : begin + size])


def _element_bytes(column: ValueColumn, count: int) -> int:
    """The bytes of the elements of a column: those of a list or a text begin with a zero."""
    return 4 * (count + 1) if column.kind in (avro.LIST, avro.TEXT) else column.kind * count


def _align(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


Decode = Callable[[Rows, int, int, npt.NDArray[np.uint8]], tuple[pa.Array, int]]
"""What makes values of rows, as `AvroDecoder.decode` does."""
