"""One batch in two copies at two offsets: no CRC covers the offset of a batch, so the other copy shows which is wrong.

Comes in: batches of one copy whose offsets contradict those around them, or that nothing proves. Goes out: whether
another copy has the same batch, by CRC and size, or what compaction has left of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segments import Segment
from kafka_segment_source.partition.copy_view import CopyView

_MOST_COMPARED = 10_000  # batches of another copy that may be the same


def leave_misplaced_end(copy: CopyView, others: Sequence[CopyView]) -> str | None:
    """Leaves out the copy's last batch if another copy proves that its offset is wrong. Returns a warning if so.

    The batch leaves a gap after the one before it, and no batch follows it to prove its offset. Another copy has the
    same batch inside the gap.
    """
    tail, last = copy.tail, copy.tail.last
    if last is None or tail.expected is None or last.base_offset <= tail.expected:
        return None
    at_its_place = [other for other in others if other.has_at_its_place(last)]
    segment = copy.log.segments[-1]
    for other in others:
        gap = OffsetRange(tail.expected, last.base_offset)
        header = None if other in at_its_place else _find_twin(copy, segment, last, other, gap)
        if header is None:
            continue
        is_cut = tail.damage is None or copy.policy.drop_malformed
        log = copy.log
        if is_cut:  # FAILFAST reads on, to the damage behind the batch
            log = replace(log, offsets=log.offsets.intersect(OffsetRange(end=tail.expected)))
        copy.leave_last_batch(log)
        return (
            f"{segment.path!r} has a wrong offset at byte {last.position}: found {last.base_offset}, and"
            f" {other.log.directory!r} has the same batch at {header.base_offset}; it is read from there"
            + (
                f"; what lies behind it is not read here (mode=DROPMALFORMED): {tail.damage}"
                if is_cut and tail.damage is not None
                else ""
            )
        )
    copy.has_proven_end = bool(at_its_place)  # a copy of this copy proves nothing against a third one
    return None


def is_elsewhere(copy: CopyView, segment: Segment, batch: BatchHeader, others: Sequence[CopyView]) -> bool:
    """Whether some of other copies has a batch of a segment of this copy: at its place, or at another one from the
    base offset of that segment on."""
    wanted = OffsetRange(segment.base_offset)
    return any(other.has_at_its_place(batch) for other in others) or any(
        _find_twin(copy, segment, batch, other, wanted) is not None for other in others
    )


def _find_twin(
    copy: CopyView, segment: Segment, batch: BatchHeader, other: CopyView, offsets: OffsetRange
) -> BatchHeader | None:
    """Returns the batch of another copy that is the same as `batch`, at one of these offsets."""
    headers = islice(other.headers_in(offsets), _MOST_COMPARED)
    return next((header for header in headers if _is_twin(copy, segment, batch, other, header)), None)


def _is_twin(copy: CopyView, segment: Segment, batch: BatchHeader, other: CopyView, header: BatchHeader) -> bool:
    """Whether two copies have the same batch at two offsets, or one of them has what compaction left of it.

    Compaction leaves each record its timestamp, key, value, and place in the batch.
    """
    if (header.crc, header.size) == (batch.crc, batch.size):
        return True
    spans = header.last_offset - header.base_offset, batch.last_offset - batch.base_offset
    if spans[0] != spans[1] or header.leader_epoch != batch.leader_epoch:
        return False
    rows, others = copy.rows_in(batch, segment), other.rows(header)
    if not rows or not others:
        return False
    risen = batch.base_offset - header.base_offset
    fallen = {offset - risen: row for offset, row in rows.items()}
    return fallen.items() <= others.items() or others.items() <= fallen.items()
