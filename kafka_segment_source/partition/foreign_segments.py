"""Refuses copies of which one has a file of another partition, or of a leader that was replaced.

Copies are compared from their ends down to a batch that both have, as nothing below it can differ (`histories.py`).
That is so as long as each file is of this history. A file that was restored into the wrong directory is not. Nor is one
of a stale copy that got later files of another copy. So two kinds of batches are compared, as far as a name, or the
batch before them, bears out where they begin:

- the first batches of two segments of one name. In a store, where each costs a request, only segments of two sizes are
  compared;
- the batches where a `leader-epoch-checkpoint` says that an epoch began. A stale copy has others from there on, also
  one that reaches over that offset.

Their leader epochs decide nothing here: both copies are cut to the offsets where their histories are valid, and one
history has one record at an offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import PathError
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.partition.batch_pairs import have_other_records
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.fences import explain_conflict
from kafka_segment_source.partition.last_epochs import find_believed_lines
from kafka_segment_source.storage.paths import is_remote


def refuse_foreign_segments(copies: Sequence[CopyView], near: OffsetRange) -> None:
    """Raises PathError if two copies have batches, around some offsets, that contradict each other.

    copies: of one partition, each cut to the offsets where its history is valid. near: the offsets that are needed.
    """
    for one, other in combinations(copies, 2):
        common = one.log.offsets.intersect(other.log.offsets)
        for offset in sorted(_find_starts(one, other, near) | _find_epoch_starts(one, other, near)):
            if not common.start <= offset < common.end:
                continue
            batch, twin = _find_batch(one, offset), _find_batch(other, offset)
            if batch is None or twin is None or not (_holds(batch, offset) and _holds(twin, offset)):
                continue
            is_other = have_other_records(one, batch, other, twin)
            if is_other and _is_borne_out(one, batch) and _is_borne_out(other, twin):
                raise PathError(explain_conflict(one, other, offset))


def _find_starts(one: CopyView, other: CopyView, near: OffsetRange) -> set[int]:
    """Returns the names of the segments to compare."""
    sizes, others = (
        {segment.base_offset: segment.size for segment in copy.segments_around(near) if segment.size}
        for copy in (one, other)
    )
    is_in_store = is_remote(one.log.directory) or is_remote(other.log.directory)
    return {base for base in sizes.keys() & others.keys() if not is_in_store or sizes[base] != others[base]}


def _find_epoch_starts(one: CopyView, other: CopyView, near: OffsetRange) -> set[int]:
    """Returns where the checkpoint of either copy says that an epoch began, inside both."""
    shared = near.intersect(OffsetRange(max(one.start, other.start), min(one.end, other.end)))
    starts = {start for copy in (one, other) for _, start in find_believed_lines(copy)}
    return {start for start in starts if shared.start <= start < shared.end}


def _find_batch(copy: CopyView, offset: int) -> BatchHeader | None:
    """Returns the batch of a copy at an offset, or a later one. None if none can be proven."""
    segment = copy.segment_of(offset)
    if segment is not None and segment.size and segment.base_offset == offset:
        return copy.first_batch_of(segment)
    return copy.batch_at(offset)


def _holds(batch: BatchHeader, offset: int) -> bool:
    """Whether a batch has an offset. A wrapper of magic 0 or 1 states only its last one."""
    return batch.base_offset == offset or (not batch.is_wrapper and batch.base_offset <= offset <= batch.last_offset)


def _is_borne_out(copy: CopyView, batch: BatchHeader) -> bool:
    """Whether a batch has the name of its file, or follows the one before it. Behind a gap, its offset may be wrong."""
    segment, before = copy.segment_of(batch.base_offset), copy.batch_at(batch.base_offset - 1)
    is_named = segment is not None and segment.base_offset == batch.base_offset
    return is_named or (before is not None and before.last_offset == batch.base_offset - 1)
