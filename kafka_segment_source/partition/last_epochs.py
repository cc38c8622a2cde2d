"""What is believed of the leader epoch of a copy's last batch. No CRC covers it, and no batch after it bears it out.

Comes in: the copies of one partition. Goes out: what other copies show about it, as attributes of `CopyView`, and the
last batch with the epoch that counts. `histories.py` has the rule and its proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kafka_segment_source.epoch_checkpoint import Epochs
from kafka_segment_source.kafka_format import MAX_OFFSET
from kafka_segment_source.logdir.leader_epochs import UNKNOWN, epoch_at
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.partition.batch_pairs import (
    CONFLICT,
    SAME,
    find_following,
    find_least_epoch,
    relate_batches,
    walk_backward,
)
from kafka_segment_source.partition.copy_tail import LastEpoch
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.twins import has_damaged_twin

# What another copy shows about the epoch of a last batch, which the checkpoint beside it lacks
_STATED = "stated"  # it is the one that the batch states
_LATER = "later"  # it is later than all lines of the checkpoint
_NOTHING = "nothing"


def note_last_epoch(copy: CopyView, copies: Sequence[CopyView]) -> None:
    """Notes what other copies show about the leader epoch of a copy's last batch.

    Followers fetch batches byte for byte. So if another copy has the batch with another epoch, one of the two is
    damaged.
    """
    last = copy.last_batch
    if last is None:
        return
    found = [(other, other.batch_at(last.base_offset)) for other in copies if other.log.segments]
    holders = [(other, batch) for other, batch in found if batch is not None and _identify(batch) == _identify(last)]
    if len({batch.leader_epoch for _, batch in holders}) > 1:
        possible = _find_possible(copy, last, holders)
        copy.last_epoch = LastEpoch(possible != {last.leader_epoch}, possible)
    if copy.epochs and last.leader_epoch > copy.epochs[-1][0]:
        others = (pair for pair in found if pair[0] is not copy)
        shown = [_show_epoch(copy, last, *pair) for pair in others]
        is_later = _LATER in shown and not copy.last_epoch.is_disputed
        copy.last_epoch = replace(copy.last_epoch, is_stated=_STATED in shown, is_later=is_later)


def _find_possible(
    copy: CopyView, last: BatchHeader, holders: Sequence[tuple[CopyView, BatchHeader]]
) -> frozenset[int]:
    """Returns which of the epochs that copies state for a last batch may be right.

    It is no earlier than that of the batch before, and no later than that of a batch that follows in another copy. If a
    checkpoint beside it has one of them there, it is this one: a flipped bit hardly makes just that epoch.
    """
    stated = {batch.leader_epoch for _, batch in holders}
    before = find_before_last(copy)
    following = [find_following(holder, batch) for holder, batch in holders]
    most = min((batch.leader_epoch for batch in following if batch is not None), default=max(stated))
    possible = {epoch for epoch in stated if (before is None or epoch >= before.leader_epoch) and epoch <= most}
    noted = {epoch_at(holder.epochs, last.base_offset) for holder, _ in holders}
    return frozenset(possible & noted or possible)


def _show_epoch(copy: CopyView, last: BatchHeader, other: CopyView, batch: BatchHeader | None) -> str:
    """Returns what another copy shows about the epoch of a copy's last batch, which its own checkpoint lacks: _STATED,
    _LATER or _NOTHING.

    It is the stated one if the other copy has the batch too, whole or damaged, and its checkpoint has the epoch for
    that offset, and no later one for the batch before than it has. A line alone does not show it: a wrong epoch may be
    that of the line by chance. So it is if the other copy has no checkpoint, and the same bytes. It is a later one than
    the checkpoint has if the last epoch there gave the offset to another batch.
    """
    if not other.epochs and batch is not None and batch == last._replace(position=batch.position):
        return _STATED
    is_noted = epoch_at(other.epochs, last.base_offset) == last.leader_epoch
    has_batch = batch is not None and relate_batches(copy, last, other, batch) == SAME
    if is_noted and (has_batch or has_damaged_twin(other, last)):
        before = find_before_last(copy)
        if before is None or epoch_at(other.epochs, before.base_offset) <= before.leader_epoch:
            return _STATED
    noted = last._replace(leader_epoch=copy.epochs[-1][0])
    is_later = batch is not None and relate_batches(copy, noted, other, batch) == CONFLICT
    return _LATER if is_later else _NOTHING


def _identify(batch: BatchHeader) -> tuple[int, int, int]:
    return batch.base_offset, batch.size, batch.crc


def may_lack_epoch(copy: CopyView) -> bool:
    """Whether a copy's checkpoint lacks the leader epoch of its last batch: it is older, or that epoch is damaged."""
    last = copy.last_batch
    if last is None or not copy.epochs or last.leader_epoch <= copy.epochs[-1][0] or copy.last_epoch.is_disputed:
        return False
    return next(walk_backward(copy), None) != last


def has_later_twin(copy: CopyView) -> bool:
    """Whether a copy states the later one of the epochs that copies state for its last batch, and counts with the
    earlier one."""
    last = copy.last_batch
    if last is None or not copy.last_epoch.is_disputed or not 0 <= copy.last_epoch.least < last.leader_epoch:
        return False
    return last.leader_epoch in copy.last_epoch.possible and next(walk_backward(copy), None) != last


def find_believed_last(copy: CopyView) -> BatchHeader | None:
    """Finds the last batch of a copy whose epoch may be believed, with that epoch."""
    last = copy.last_batch
    if last is None or not copy.epochs or last.leader_epoch == copy.epochs[-1][0] or copy.last_epoch.is_stated:
        return last
    return next(walk_backward(copy), None)


def find_believed_lines(copy: CopyView) -> Epochs:
    """Returns the lines of a copy's checkpoint. It returns none if they give its last batch a later epoch than it
    has. If a gap lies before that batch, nothing proves its offset, and the batch before the gap answers."""
    gap = copy.unproven_gap
    last = find_believed_last(copy) if gap is None else next(walk_backward(copy, gap.end), None)
    if last is not None and 0 <= last.leader_epoch < epoch_at(copy.epochs, last.base_offset):
        return ()
    return copy.epochs


def find_common_lines(one: CopyView, other: CopyView) -> frozenset[tuple[int, int]]:
    """Returns the lines that the checkpoints of both copies have: leader epochs, and the offsets where they begin."""
    return frozenset(find_believed_lines(one)) & frozenset(find_believed_lines(other))


def find_before_last(copy: CopyView) -> BatchHeader | None:
    """Finds the batch before the last one of a copy. None if its neighbours bear none out."""
    last = copy.last_batch
    return None if last is None else next(walk_backward(copy, last.base_offset), None)


def has_old_end(copy: CopyView) -> bool:
    """Whether the last batch of a copy is of an earlier leader epoch than its checkpoint states there."""
    last = find_believed_last(copy)
    return last is not None and 0 <= last.leader_epoch < epoch_at(copy.epochs, last.base_offset)


def find_latest_epoch(copy: CopyView, end: int = MAX_OFFSET) -> int:
    """Returns the latest leader epoch that a copy names below an offset, or UNKNOWN.

    Of two last batches whose epochs contradict each other, one is right. So is one of two epochs that copies state for
    a last batch. So it names the earlier one at least.
    """
    least = find_least_epoch(copy, end)
    if end > copy.end:
        least = max(least, copy.last_epoch.least, copy.last_epoch.behind)
    last = next(walk_backward(copy, end), None)
    lines = [epoch for epoch, start in find_believed_lines(copy) if start < end]
    return max(least, UNKNOWN if last is None else last.leader_epoch, lines[-1] if lines else UNKNOWN)
