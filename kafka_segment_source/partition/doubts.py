"""Says which copies may have batches that a later leader does not have, where nothing proves it.

Comes in: the copies of one partition, between which `histories.py` found no more contradictions. Goes out: sentences
for the warnings of a plan, or a PathError.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_segment_source.data_loss import allow_loss
from kafka_segment_source.errors import PathError
from kafka_segment_source.logdir.leader_epochs import epoch_at
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.divergence import (
    find_contradicting_line,
    find_line_beyond,
    is_borne_out,
    is_unnoted,
)
from kafka_segment_source.partition.fences import (
    explain_contradiction,
    explain_doubt,
    explain_old_batches,
    explain_old_end,
    explain_unnoted_end,
)
from kafka_segment_source.partition.last_epochs import (
    find_before_last,
    find_believed_last,
    find_latest_epoch,
    has_old_end,
)
from kafka_segment_source.partition.orphans import read_last_offset


def find_doubts(copies: Sequence[CopyView]) -> list[str]:
    """Returns one sentence for each copy whose last batches a later leader may lack, where nothing proves it. What a
    checkpoint says of offsets from where on its copy has lost does not count, nor what a later leader contradicts.

    A leader that wrote nothing ends where its epoch began, with no bytes behind. Raises PathError if the copy with the
    checkpoint has something else there, or has lost its end, unless failOnDataLoss=false. So it does if the last two
    batches of a copy contradict its own checkpoint, or the last one, and another copy has what the checkpoint says.
    """
    doubts = [explain_old_end(copy) for copy in copies if has_old_end(copy)]
    for copy in copies:
        is_old = has_old_end(copy) and _has_old_batch_before(copy)
        if is_old or (is_unnoted(copy) and _is_replaced(copy, copies)):
            allow_loss(PathError(explain_old_batches(copy)), copy.policy)
    for copy in copies:
        said = []
        for other in copies:
            line = None if other is copy else find_contradicting_line(other, other.end, copy, copy.end)
            if line is None or line[0] >= min(copy.end, other.log.offsets.end) or is_borne_out(other, other.end, line):
                continue
            if any(
                _has_later_leader(third, other) and _has_end_of(third, copy) for third in copies if third is not copy
            ):
                continue
            if other.end > line[0] or not other.tail.is_clean or _has_lost_end(other, line[0]):
                allow_loss(PathError(explain_contradiction(copy, other, *line)), copy.policy)
            said.append(explain_doubt(copy, other, *line))
        doubts += said[:1]
    unnoted = (_find_unnoted_end(copy, copies) for copy in copies)
    return doubts + [sentence for sentence in unnoted if sentence is not None]


def _find_unnoted_end(copy: CopyView, copies: Sequence[CopyView]) -> str | None:
    """Returns a sentence about a copy whose last batch is of a leader epoch that another copy's checkpoint lacks there.
    None if it is not used, or if a copy that names as late a leader has it.

    Compaction may have removed the batches of that epoch before the other copy fetched any. If not, they are stale.
    """
    last = copy.last_batch
    is_used = last is not None and last.base_offset < copy.end
    for other in copies if is_used else ():
        line = None if other is copy else find_line_beyond(other, copy)
        if line is None:
            continue
        is_kept = any(_has_end_of(third, copy) and not _has_later_leader(other, third) for third in copies)
        if not is_kept:
            return explain_unnoted_end(copy, other, line)
    return None


def _has_old_batch_before(copy: CopyView) -> bool:
    """Whether the batch before the last one too is of an earlier leader epoch than the copy's checkpoint states there,
    and is used. No single flipped bit explains both: the file is from before a truncation, or another one's."""
    batch = find_before_last(copy)
    if batch is None or batch.base_offset >= copy.end:
        return False
    return 0 <= batch.leader_epoch < epoch_at(copy.epochs, batch.base_offset)


def _is_replaced(copy: CopyView, copies: Sequence[CopyView]) -> bool:
    """Whether another copy has, where a copy has its last batch, other bytes, of the leader epoch that the checkpoint
    of the copy states there. False if the last batch is not used."""
    last = copy.last_batch
    if last is None or last.base_offset >= copy.end:
        return False
    beside = (other.batch_at(last.base_offset) for other in copies if other is not copy and other.log.segments)
    return any(
        batch is not None
        and batch.base_offset <= last.last_offset
        and batch.crc != last.crc
        and batch.leader_epoch == epoch_at(copy.epochs, batch.base_offset)
        for batch in beside
    )


def _has_later_leader(copy: CopyView, other: CopyView) -> bool:
    """Whether a copy names a later leader epoch than another one does."""
    return find_latest_epoch(copy) > find_latest_epoch(other)


def _has_end_of(copy: CopyView, other: CopyView) -> bool:
    """Whether a copy has the last batch of another one, or a later one of the same leader epoch."""
    last = find_believed_last(other)
    batch = None if last is None else copy.batch_at(last.base_offset)
    return last is not None and batch is not None and 0 <= batch.leader_epoch == last.leader_epoch


def _has_lost_end(copy: CopyView, offset: int) -> bool:
    """Whether a copy had something at or above an offset: an index file without its `.log` has an entry there, or that
    of its last file behind its batches. Or its checkpoint says that its last epoch began after the end of its files."""
    latest = [*map(read_last_offset, copy.log.beside.orphans)]
    for segment in copy.log.segments[-1:]:
        with copy.open_view(segment) as view:
            latest.append(view.find_last_indexed())
    end = max([copy.end, *(segment.base_offset for segment in copy.log.segments[-1:])])
    return copy.epochs[-1][1] > end or any(last is not None and last >= offset for last in latest)
