"""Compares the places of the batches of two compacted copies: what no read of them does.

Compaction leaves a batch of magic 2 its first and its last offset (Kafka: MemoryRecords.buildRetainedRecordsInto). So
where two batches of two copies of one history share an offset, they lie at the same offsets. Otherwise one of the two
states wrong ones. A read notices that in a copy that no compaction has thinned. Beside a gap of compaction, nothing in
the copy shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.inspection.findings import Finding
from kafka_segment_source.inspection.index_rules import Longs
from kafka_segment_source.inspection.verify import Verified
from kafka_segment_source.partition.copy_view import CopyView

_CONTRADICTS = (
    "one of the two states wrong offsets, which no CRC covers: a query of all these paths may return its records at"
    " these offsets; compare the two batches, and read the copy that is right alone"
)


def find_contradictions(copies: Sequence[Verified], views: Sequence[CopyView]) -> Iterator[Finding]:
    """Yields a problem for each two compacted copies with batches that cannot both be right: the first two of them.

    copies: the results for single copies. views: the copies as a read takes them, each with the offsets where its
    history is valid.
    """
    verified = {copy.directory: copy for copy in copies}
    compacted = [view for view in views if view.log.compacted and view.log.directory in verified]
    for one, other in combinations(compacted, 2):
        valid = one.log.offsets.intersect(other.log.offsets)
        places, others = (verified[view.log.directory].places for view in (one, other))
        overlapping = _find_overlap(_within(places, valid), _within(others, valid))
        if overlapping is not None:
            (first, last), (other_first, other_last) = overlapping
            what = (
                f"batch of the offsets {first} to {last}, and batch of the offsets {other_first} to {other_last} in"
                f" {other.log.directory!r}"
            )
            yield Finding(True, one.log.directory, what, _CONTRADICTS, None, first)


def _within(places: Longs, offsets: OffsetRange) -> Longs:
    return places[:, (places[0] >= offsets.start) & (places[1] < offsets.end)]


def _find_overlap(places: Longs, others: Longs) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Returns the offsets of the first batch that shares some with another one, and has others too, and the offsets of
    that one. None if there is no such batch. All are absolute and inclusive, as in `Verified.places`."""
    if not places.size or not others.size:
        return None
    following = np.searchsorted(others[1], places[0])  # the first one that does not end before
    at = np.minimum(following, others.shape[1] - 1)
    overlaps = (following < others.shape[1]) & (others[0, at] <= places[1])
    odd = np.flatnonzero(overlaps & (others[:, at] != places).any(axis=0))
    if not odd.size:
        return None
    (first, last), (other_first, other_last) = places[:, odd[0]].tolist(), others[:, at[odd[0]]].tolist()
    return (first, last), (other_first, other_last)
