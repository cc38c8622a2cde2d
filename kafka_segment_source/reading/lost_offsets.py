"""Finds the offsets of a partition that a read of all its copies cannot give, for `verify`.

It reads every copy from its first byte to its last, as mending does where a read finds damage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_segment_source.bounds import ALL_OFFSETS, OffsetRange
from kafka_segment_source.errors import CorruptRecordError
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.logs import available_copies, available_logs
from kafka_segment_source.partition.strays import find_strays
from kafka_segment_source.partition.survey import Survey
from kafka_segment_source.partition.twins import find_hidden_batches, find_lost_strays, is_in_place, join_batches
from kafka_segment_source.reading.mending import LossReport, Lost, survey_copies
from kafka_segment_source.reading.moved_batches import is_read_from
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.source import Source
from kafka_segment_source.trust import Policy


def find_lost(source: Source, policy: Policy, *, decodes: bool) -> list[Lost]:
    """Returns the offsets of one partition that none of its copies holds whole, or that a read looks for in a copy
    that has their batch at a wrong place.

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
        if _is_apart(offsets, lost):
            lost.append(report.missing(offsets))
    lost += [one for one in _find_misread(copies, surveyed.read, source, policy) if _is_apart(one.offsets, lost)]
    return lost


def _is_apart(offsets: OffsetRange, lost: Sequence[Lost]) -> bool:
    return all(offsets.intersect(one.offsets).is_empty for one in lost)


def _find_misread(
    copies: Sequence[CopyView], files: Sequence[tuple[CopyView, Survey]], source: Source, policy: Policy
) -> Iterator[Lost]:
    """Yields the offsets of whole batches that lie in the file of others, and that a read takes from that copy all the
    same: a plan does not read the file, so it takes the gap at their place for what compaction has left."""
    log: PartitionLog | None = None
    for copy, file in files:
        others = [other for other in copies if other is not copy]
        for batch, _ in find_strays(file, policy)[0]:
            is_own = file.segment.span.start <= batch.base_offset < file.segment.span.end
            if is_own or not any(is_in_place(copy, file.segment, batch, other) for other in others):
                continue  # a read of the file finds it and mends, or the batch is lost
            log = log or available_logs(source, policy, Warnings())[0]
            if is_read_from(copy, batch.base_offset, log):
                offsets = OffsetRange(batch.base_offset, batch.last_offset + 1)
                yield Lost(
                    offsets,
                    CorruptRecordError(
                        "batch out of order: a query of all these paths takes its offsets from this copy, and ends here",
                        path=file.segment.path,
                        position=batch.position,
                        offset=batch.base_offset,
                        found=f"{batch.base_offset} to {batch.last_offset}",
                        expected=f"offsets from {file.segment.span.start} to {file.segment.span.end - 1}",
                    ),
                )


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
