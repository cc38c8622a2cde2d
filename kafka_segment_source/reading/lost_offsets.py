"""Finds the offsets of a partition that none of its copies holds whole, for `verify`.

It reads every copy from its first byte to its last, as mending does where a read finds damage.
"""

from __future__ import annotations

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.partition.logs import available_copies
from kafka_segment_source.reading.losses import LossReport, Lost
from kafka_segment_source.reading.mending import survey_copies
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
    return [held for _, held in surveyed.held_by(report) if isinstance(held, Lost)]
