"""Makes the key filters of a segment's zones, from the records that `making.py` decodes.

The hashes of one zone's keys are in memory at a time, each once, and the filters of one segment.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kafka_segment_source.decoding.records import RecordColumns
from kafka_segment_source.kernels import batch_headers, keys
from kafka_segment_source.zones.key_filters import WORDS, Blocks

# Of keys that are not there, a filter with BITS for each of its keys says "perhaps" of 0.6 %.
BITS = 12
MOST_BLOCKS = 2048  # 64 KiB a zone; with more keys than these have room for, a filter says "perhaps" more often
LEAST_BITS = 4  # with fewer bits a key, a filter says "perhaps" of one key in three, and is not kept
_MOST_HASHES = 2**20  # pending ones of a zone; they are then made distinct

Hashes = npt.NDArray[np.uint64]
HashedKeys = tuple[Hashes, npt.NDArray[np.int64]]
"""The hashes of keys, and the byte position of each key's batch."""


def hash_keys(records: RecordColumns) -> HashedKeys:
    """Hashes the keys of some records. Null keys are left out."""
    hashes, batches = np.empty(records.count, np.uint64), np.empty(records.count, np.int32)
    count: int = keys.hash_keys(records.source, records.ints, records.count, hashes, batches)
    return hashes[:count], records.headers[batch_headers.POSITION, batches[:count]]


class FilterMaker:
    """Makes the filters of zones. Keys must come in the order of the file.

    cell: bytes of the file in which the batches of one zone begin.
    """

    def __init__(self, cell: int) -> None:
        self._cell = cell
        self._filters: dict[int, Blocks | None] = {}
        self._present = -1  # the cell whose hashes are pending
        self._pending: list[Hashes] = []
        self._count = 0

    def add(self, hashed: Iterable[HashedKeys]) -> None:
        """Takes further keys."""
        for hashes, positions in hashed:
            cells = positions // self._cell
            starts = np.flatnonzero(np.diff(cells, prepend=-1)).tolist()
            for start, end in pairwise([*starts, len(cells)]):
                self._add_to_cell(int(cells[start]), hashes[start:end])

    def finish(self) -> None:
        """Makes the filter of the last zone."""
        if self._pending:
            self._filters[self._present] = make_filter(np.unique(np.concatenate(self._pending)))
        self._pending, self._count = [], 0

    def of_zone(self, start: int) -> Blocks | None:
        """Returns the filter of the zone that begins at a byte position. None: the zone has too many keys for one."""
        return self._filters.get(start // self._cell, np.zeros((0, WORDS), np.uint32))

    def _add_to_cell(self, cell: int, hashes: Hashes) -> None:
        if cell != self._present:
            self.finish()
            self._present = cell
        self._pending.append(hashes)
        self._count += len(hashes)
        if self._count > _MOST_HASHES:
            distinct = np.unique(np.concatenate(self._pending))
            most = MOST_BLOCKS * 32 * WORDS // LEAST_BITS
            self._pending = [distinct[: most + 1]]  # one more than a filter takes: there is none
            self._count = len(self._pending[0])


def make_filter(hashes: Hashes) -> Blocks | None:
    """Makes the filter of distinct hashes. None if they are too many."""
    count = len(hashes)
    blocks = min(_round_up(-(-count * BITS // (32 * WORDS))), MOST_BLOCKS)
    if blocks * 32 * WORDS < count * LEAST_BITS:
        return None
    made = np.zeros((blocks, WORDS), np.uint32)
    if count:
        keys.fill_filter(hashes, count, made)
    return made


def _round_up(blocks: int) -> int:
    """Returns a number of at most three binary digits before its zeros: zones with as many blocks share their rows."""
    step = 1 << max(blocks.bit_length() - 3, 0)
    return -(-blocks // step) * step
