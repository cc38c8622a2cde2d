"""Refuses two copies that contradict each other where the copy that counts more than both has nothing.

Comes in: the copies of one partition, and the fences between them. `histories.py` has the rule and its proof.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import PathError
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.partition.batch_pairs import DIFFERENT, compare_batches, relate_places, walk_backward
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.fences import Fence, explain_contest
from kafka_segment_source.partition.last_epochs import find_common_lines
from kafka_segment_source.partition.twins import has_damaged_twin


def refuse_contests(
    copies: Sequence[CopyView], fences: Sequence[Fence], ends: Sequence[int], named: Sequence[int]
) -> None:
    """Raises PathError if a copy that is read has another batch than one that is not read there, and a third copy that
    counts more has lost its own, so that it may have been either.

    ends, named: of each copy, the offset up to which it is used, and the latest leader epoch that it names below.
    """
    for fence in fences:
        _refuse_undecided(copies, fence, ends)
        loser, offset = copies[fence.loser], fence.first
        rivals = _find_rivals(copies, loser, offset, ends)
        for above, counting in enumerate(copies):
            if offset >= ends[above] or _find_batch(counting, offset) is not None:
                continue
            # the copy that lost may be the right one: it shares what lies behind with one that counts more
            if named[above] > named[fence.winner] and _agree_there(counting, loser, offset, loser.end):
                raise PathError(explain_contest(loser, copies[fence.winner], counting, offset))
            if not rivals or any(named[at] >= named[above] for at in rivals):
                continue
            differs = compare_batches(counting, ends[above], loser, loser.end).differs
            if differs is not None and min(batch.base_offset for batch in differs) <= offset:
                continue  # the copy that counts has not followed the one that is not read
            if not any(_agree_there(counting, copies[at], offset, ends[at]) for at in rivals):
                raise PathError(explain_contest(loser, copies[rivals[0]], counting, offset))


def _refuse_undecided(copies: Sequence[CopyView], fence: Fence, ends: Sequence[int]) -> None:
    """Raises PathError if a copy that is read has another batch than one that is not read, where nothing shows whether
    the latter differs from the copy that counts: that one may have followed either."""
    loser, counting = copies[fence.loser], copies[fence.winner]
    for batch in loser.headers_in(OffsetRange(fence.end, fence.first)):
        offset = batch.base_offset
        rivals = _find_rivals(copies, loser, offset, ends)
        if rivals and not any(_agree_there(counting, copies[at], offset, ends[at]) for at in rivals):
            raise PathError(explain_contest(loser, copies[rivals[0]], counting, offset))


def _find_rivals(copies: Sequence[CopyView], loser: CopyView, offset: int, ends: Sequence[int]) -> list[int]:
    """Returns the numbers of the copies that are used at an offset, and have another batch there than the loser has."""
    lost = _find_batch(loser, offset)
    if lost is None:
        return []
    used = ((at, _find_batch(copy, offset)) for at, copy in enumerate(copies) if ends[at] > offset)
    return [
        at for at, batch in used if batch is not None and relate_places(loser, lost, copies[at], batch) == DIFFERENT
    ]


def _agree_there(counting: CopyView, copy: CopyView, offset: int, end: int) -> bool:
    """Whether it is shown that two copies have the same history at an offset. There or behind it, both have the same
    batch, whole or damaged, or the same line, or behind it batches of one leader epoch.

    end: the offset up to which `copy` is used.
    """
    agreed = compare_batches(counting, counting.end, copy, end).agreed
    if (agreed or 0) > offset or any(start >= offset for _, start in find_common_lines(counting, copy)):
        return True
    held = _find_batch(copy, offset)
    if held is not None and has_damaged_twin(counting, held):
        return True
    behind, last = next(walk_backward(counting, about=offset), None), next(walk_backward(copy, end), None)
    if behind is not None and has_damaged_twin(copy, behind):
        return True
    if behind is None or last is None or min(behind.last_offset, last.last_offset) < offset:
        return False
    return 0 <= behind.leader_epoch == last.leader_epoch


def _find_batch(copy: CopyView, offset: int) -> BatchHeader | None:
    """Finds the batch of a copy that holds an offset, also behind damage."""
    batch = copy.batch_at(offset) or next(walk_backward(copy, offset + 1), None)
    return batch if batch is not None and batch.base_offset <= offset <= batch.last_offset else None
