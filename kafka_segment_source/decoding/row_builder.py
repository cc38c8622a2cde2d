"""Groups of batches → Arrow batches of the columns that most reads want: one call of a kernel for each Arrow batch.

The kernel finds records and copies their parts in turns, while the bytes are in the processor's caches. `arrow.py`
makes all columns, from the places of records that were found before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_segment_source.decoding.arrow import repeat_value
from kafka_segment_source.decoding.memory_blocks import take_block
from kafka_segment_source.decoding.payloads import Group
from kafka_segment_source.decoding.records import Decoder
from kafka_segment_source.decoding.scratch import MAX_ROWS, Scratch
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.kernels import batch_headers, record_batches, record_rows
from kafka_segment_source.storage.files import Bytes

_COLUMNS = frozenset({"key", "value", "topic", "partition", "offset", "timestamp", "timestampType"})
_NO_BYTES = np.empty(0, np.uint8)
_KEY_ENDS, _VALUE_ENDS = "ends of keys", "ends of values"
_COLUMN_OF = {_KEY_ENDS: "key", _VALUE_ENDS: "value"}  # these have one element more than there are rows
# The arrays of numbers that the kernel fills, in its order: those of 8 bytes come first, so each one is aligned. An
# empty one is not wanted.
_NUMBERS: dict[str, npt.NDArray[Any]] = {
    "offset": np.empty(0, np.int64),
    "timestamp": np.empty(0, np.int64),
    "timestampType": np.empty(0, np.int32),
    _KEY_ENDS: np.empty(0, np.int32),
    _VALUE_ENDS: np.empty(0, np.int32),
}


class RowBuilder:
    """Makes the rows of groups of magic 2. Its columns are some of those that it can make, and one of them at least."""

    @staticmethod
    def can_make(schema: pa.Schema) -> bool:
        """Whether it can make all columns of a schema."""
        return bool(schema.names) and _COLUMNS.issuperset(schema.names)

    def __init__(self, split: SegmentSplit, decoder: Decoder, schema: pa.Schema, scratch: Scratch) -> None:
        self._split = split
        self._decoder = decoder
        self._schema = schema
        self._names = frozenset(schema.names)
        self._scratch = scratch
        self._made = np.zeros(record_rows.MADE, np.int64)

    def rows(self, group: Group) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yields the wanted rows of a group, and the last offset of each Arrow batch. None is empty."""
        cursor = np.zeros(record_batches.CURSOR, np.int64)
        most_rows = min(MAX_ROWS, int(group.headers[batch_headers.COUNT].sum()))
        while True:
            first = int(cursor[record_batches.AT_BATCH])
            most_bytes = int((group.payloads[1, first:] - group.payloads[0, first:]).sum())
            built = self._build(group, cursor, most_rows, most_bytes)
            if built is not None:
                yield built, int(self._made[record_rows.LAST_OFFSET])
            if self._decoder.is_done:
                return

    def _build(
        self, group: Group, cursor: npt.NDArray[np.int64], most_rows: int, most_bytes: int
    ) -> pa.RecordBatch | None:
        room = _Room(self._names, most_rows)
        keys = self._scratch.take_keys(most_bytes) if "key" in self._names else _NO_BYTES
        block = take_block(most_bytes if "value" in self._names else 0)
        bits = np.zeros((2, (most_rows + 7) // 8), np.uint8)
        numbers = [room.arrays.get(name, none) for name, none in _NUMBERS.items()]
        *fixed, key_ends, value_ends = numbers
        buffers = (*fixed, key_ends, bits[0], keys, value_ends, bits[1], block.data, self._made)
        count = self._decoder.build_rows(group, cursor, buffers)
        if not count:
            return None
        key_bytes, value_bytes, key_nulls, value_nulls = self._made[: record_rows.LAST_OFFSET].tolist()
        made = room.make_buffers(count)
        arrays = []
        for name, kind in zip(self._schema.names, self._schema.types, strict=True):
            if name == "key":
                data = pa.py_buffer(keys[:key_bytes].copy())
                arrays.append(_make_parts(made[_KEY_ENDS], bits[0], data, count, key_nulls))
            elif name == "value":
                [data] = block.make_buffers([(0, value_bytes)])
                arrays.append(_make_parts(made[_VALUE_ENDS], bits[1], data, count, value_nulls))
            elif name == "topic":
                arrays.append(repeat_value(self._split.topic, kind).slice(0, count))
            elif name == "partition":
                arrays.append(repeat_value(self._split.partition, kind).slice(0, count))
            else:
                arrays.append(pa.Array.from_buffers(kind, count, [None, made[name]]))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class _Room:
    """Room for the numbers of up to `most_rows` rows, in one block. arrays: by name, those of the wanted columns."""

    def __init__(self, names: frozenset[str], most_rows: int) -> None:
        wanted = [name for name in _NUMBERS if _COLUMN_OF.get(name, name) in names]
        sizes = [_NUMBERS[name].itemsize * (most_rows + (name in _COLUMN_OF)) for name in wanted]
        self._block = take_block(sum(sizes))
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self._starts: dict[str, int] = {}
        at = 0
        for name, size in zip(wanted, sizes, strict=True):
            self.arrays[name] = self._block.data[at : at + size].view(_NUMBERS[name].dtype)
            self._starts[name] = at
            at += size

    def make_buffers(self, count: int) -> dict[str, pa.Buffer]:
        """Returns the buffers of the first `count` rows, by name."""
        parts = [(at, self.arrays[name].itemsize * (count + (name in _COLUMN_OF))) for name, at in self._starts.items()]
        return dict(zip(self._starts, self._block.make_buffers(parts), strict=True))


def _make_parts(ends: pa.Buffer, validity: Bytes, data: pa.Buffer, count: int, nulls: int) -> pa.Array:
    bitmap = pa.py_buffer(validity[: (count + 7) // 8].copy()) if nulls else None
    return pa.Array.from_buffers(pa.binary(), count, [bitmap, ends, data], nulls)
