"""The order of offsets inside a segment: finds the first batch whose offsets contradict its neighbours.

No checksum covers a batch's offset. If one batch jumps ahead and the next one steps back behind it, the first one is
wrong. If it were believed, every batch up to its offset would be lost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.kernels import batch_headers, batch_rules
from kafka_segment_source.kernels.batch_headers import HeaderTable


class Disorder(NamedTuple):
    """A batch with wrong offsets: its column, and the first and last offset that its place allows (both inclusive)."""

    column: int
    first: int
    last: int


def needs_witness(headers: HeaderTable, before: int) -> bool:
    """Whether the last of these batches does not begin where the one before it ends.

    Then the batch after it is needed, to say which of the two is wrong, if any.

    headers: int64[FIELDS, n], n ≥ 1. before: the last offset before the first batch.
    """
    last = int(headers[batch_headers.LAST_OFFSET, -2]) if headers.shape[1] > 1 else before
    return bool(headers[batch_headers.BASE_OFFSET, -1] != last + 1)


def overlap(headers: HeaderTable) -> bool:
    """Whether the second of these batches begins inside the first, or before it. headers: int64[FIELDS, n], n ≥ 2."""
    return bool(headers[batch_headers.BASE_OFFSET, 1] <= headers[batch_headers.LAST_OFFSET, 0])


def is_misplaced(headers: HeaderTable, at: int, before: int, following: int | None) -> bool:
    """Whether the batches around batch `at` leave exactly its length, but at another place than it states.

    They may be damaged themselves: two numbers that fit its length are no accident.

    headers: batches that follow each other in the file. before: the last offset that the batch before it states.
    following: the first offset that the batch after it states; None if that is not known.
    """
    if following is None or headers[batch_headers.MAGIC, at] != kafka_format.MAGIC_V2:
        return False
    base, last = headers[[batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET], at].tolist()
    return bool(base != before + 1 and following - before == last - base + 2)


def shows_gaps(headers: HeaderTable) -> bool:
    """Whether compaction shows among batches: offsets are missing before one of them, or in one.

    headers: int64[FIELDS, n], n ≥ 0, with the row AFTER.
    """
    base, last = headers[batch_headers.BASE_OFFSET], headers[batch_headers.LAST_OFFSET]
    count = headers[batch_headers.COUNT]
    is_thin = (count >= 0) & (count < last - base + 1)
    return bool((base > headers[batch_headers.AFTER] + 1).any() or is_thin.any())


def find_disorder(
    headers: HeaderTable, before: int, limit: int, following: int, is_behind_damage: bool = False
) -> Disorder | None:
    """Finds the first batch of a table whose offsets are wrong, and fills in the row AFTER.

    headers: int64[FIELDS, n], batches that follow each other in the file. before: the last offset before them. limit:
    every offset of the segment is below it. following: the base offset of the batch after them; `limit` if that is not
    known. is_behind_damage: whether the gap before the first of them may be that of damage, or of bytes not read.
    """
    allowed = np.empty(2, np.int64)
    at: int = batch_rules.find_disorder(headers, before, limit, following, is_behind_damage, allowed)
    return None if at == headers.shape[1] else Disorder(at, *allowed.tolist())
