"""Finds the offsets of a partition that none of its copies holds whole, for `verify`.

It reads every copy from its first byte to its last, as mending does where a read finds damage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_segment_source.bounds import ALL_OFFSETS, OffsetRange
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.logs import available_copies
from kafka_segment_source.partition.strays import find_strays
from kafka_segment_source.partition.survey import Survey
from kafka_segment_source.partition.twins import find_hidden_batches, find_lost_strays, join_batches
from kafka_segment_source.reading.mending import LossReport, Lost, survey_copies
from kafka_segment_source.source import Source
from kafka_segment_source.trust import Policy


def find_lost(source: Source, policy: Policy, *, decodes: bool) -> list[Lost]:
    """Returns the offsets of one partition that none of its copies holds whole, in order.

    It reads every copy from its first byte to its last. Raises FileChangedError if a file changes meanwhile,
    StorageError if the copies cannot be listed, and PathError for copies that contradict each other.

    source: selects the partition.
    decodes: whether a batch counts as whole only if it can be decoded.
    """
    copies = available_copies(source, policy)
    if not copies:
        return []
    log = copies[0].log
    there = [copy for copy in copies if copy.end > copy.start or copy.tail.damage is not None]  # not torn bytes alone
    start = min((copy.start for copy in there), default=0)
    surveyed = survey_copies(copies, OffsetRange(start), policy, decodes=decodes)
    last_bases = [min(copy.log.segments[-1].base_offset, copy.log.offsets.end) for copy in copies if copy.log.segments]
    surveyed.end = max(last_bases, default=start)
    report = LossReport(f"{log.topic}-{log.partition}", copies, surveyed.failures)
    lost = [held for _, held in surveyed.held_by(report) if isinstance(held, Lost)]
    for offsets in _find_left_out(copies, surveyed.read, policy):
        if all(offsets.intersect(one.offsets).is_empty for one in lost):
            lost.append(report.missing(offsets))
    return lost


def _find_left_out(
    copies: Sequence[CopyView], files: Sequence[tuple[CopyView, Survey]], policy: Policy
) -> Iterator[OffsetRange]:
    """Yields the offsets of whole batches that were left out of their segments, and that no other copy has."""
    for copy in copies:
        for segment in copy.log.segments[:-1]:
            copy.end_of(segment)  # it is read if its end is damaged
    for _, hidden in find_hidden_batches(copies, ALL_OFFSETS):
        yield from hidden
    for copy, file in files:
        strays, _ = find_strays(file, policy)
        others = [other for other in copies if other is not copy]
        lost = find_lost_strays(copy, file.segment, strays, others)
        yield from join_batches(sorted(lost, key=lambda batch: batch.base_offset))
