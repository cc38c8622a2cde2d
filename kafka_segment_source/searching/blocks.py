"""Looks for a pattern in the bytes of many records at once, before a column is made of them.

A match outside of a record's parts, or across two records, is found here too. So this says which records may match,
and `rows.py` decides about each of them. A text is looked for before the records are found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_segment_source.decoding.payloads import Group
from kafka_segment_source.decoding.records import RecordColumns
from kafka_segment_source.kernels import arrow_buffers, record_batches
from kafka_segment_source.kernels.text_search import find_text
from kafka_segment_source.searching.pattern import Pattern
from kafka_segment_source.storage.files import Bytes

_PIECE = 16 * 1024  # bytes that a regular expression is tried on at once: so much is looked at again around a match
_SAMPLE = 4096  # bytes that show which bytes are rare
_MOST_FOUND = 4096  # places of a text in one block; with more of them, the rest of the block may match

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Places:
    """Where a text is in the bytes of a group of batches.

    found: positions in the group's source, int64[n], in order.
    known_to: the text may be at any position from here on.
    """

    found: Rows
    known_to: int

    def may_be_between(self, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether the text may begin in starts[i]:ends[i], for each i. Both are positions, int64[n]."""
        first, after = np.searchsorted(self.found, starts), np.searchsorted(self.found, ends)
        return (first < after) | (ends > self.known_to)

    def may_match(self, records: RecordColumns) -> Rows:
        """Returns the rows of the records that may have the text, in order."""
        starts = records.ints[record_batches.KEY_AT, : records.count]
        rows = np.searchsorted(starts, self.found[np.searchsorted(self.found, starts[0]) :], "right") - 1
        after = int(np.searchsorted(starts, self.known_to))
        return np.unique(np.append(rows, np.arange(after, records.count)))


def find_places(group: Group, text: Bytes) -> Places:
    """Finds a text in all bytes of a group. text: uint8[n], n ≥ 1."""
    first, end = int(group.payloads[0, 0]), int(group.payloads[1, -1])
    rarity = np.argsort(np.bincount(group.source[first : first + _SAMPLE], minlength=256)[text], kind="stable")
    places = np.empty(_MOST_FOUND, np.int64)
    one, other = int(rarity[0]), int(rarity[min(1, len(text) - 1)])
    count = find_text(group.source, first, end, text, one, other, places)
    return Places(places[:count], end if count < _MOST_FOUND else int(places[-1]) + 1)


def leave_out_batches(group: Group, places: Places) -> Group | None:
    """Returns the group without the batches that do not have the text anywhere in their bytes. None: all of them."""
    has_text = places.may_be_between(group.payloads[0], group.payloads[1])
    if has_text.all():
        return group
    return group.only(has_text) if has_text.any() else None


def may_match(records: RecordColumns, pattern: Pattern) -> Rows:
    """Returns the rows of the records that may match, in order. pattern: `is_local`.

    The parts of a record follow its key, up to the next record's key: the kernels find records in the order of their
    bytes.
    """
    starts = records.ints[record_batches.KEY_AT, : records.count]
    end = _find_end(records)
    step = max(records.count * _PIECE // max(end - int(starts[0]), 1), 1)
    bounds = np.append(starts[::step], np.int32(end))
    pieces = pa.Array.from_buffers(
        pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(records.source)]
    )
    matches = np.flatnonzero(pattern.find(pieces))
    rows = (matches[:, None] * step + np.arange(step)).ravel()
    return rows[rows < records.count]


def _find_end(records: RecordColumns) -> int:
    """Returns where the parts of the last record end in `source`."""
    last = records.count - 1
    end = int(records.ints[record_batches.VALUE_AT, last]) + max(
        int(records.ints[record_batches.VALUE_LENGTH, last]), 0
    )
    count = int(records.ints[record_batches.HEADERS_COUNT, last])
    if count == 0:
        return end
    parts, sizes = np.empty((4, count), np.int32), np.empty(2, np.int64)
    at, counts = (records.ints[row, last:] for row in (record_batches.HEADERS_AT, record_batches.HEADERS_COUNT))
    arrow_buffers.locate_headers(records.source, at, counts, 1, parts, sizes)
    return int(parts[2, -1]) + max(int(parts[3, -1]), 0)


def take_records(records: RecordColumns, rows: Rows) -> RecordColumns:
    """Returns some of the records. They have the same source."""
    ints = np.ascontiguousarray(records.ints[:, rows])
    sizes = np.maximum(ints[[record_batches.KEY_LENGTH, record_batches.VALUE_LENGTH]], 0).sum(axis=1, dtype=np.int64)
    longs = np.ascontiguousarray(records.longs[:, rows])
    return RecordColumns(len(rows), records.source, records.headers, longs, ints, int(sizes[0]), int(sizes[1]))
