"""Finds copies that contradict each other, and which of them a broker would have truncated from which offset on.

Take two logs of one partition with a batch of the same leader epoch at the same offset. They are equal up to that
offset (KIP-101). So the last batch with offsets that both copies have usually decides. If it is the same in both,
nothing below differs. If not, both copies are read backward from there to where they agree.

From the first difference on, the history with the higher leader epoch is valid. A follower truncates its log to the
leader's in the same way (Kafka: AbstractFetcherThread, LeaderEpochFileCache.endOffsetFor; KIP-279). If both copies have
a `leader-epoch-checkpoint`, the two files may show the difference, and then no batch is read.

Compaction removes records and batches, and writes batches again. Then the epochs and the remaining records decide.
Records may differ under one epoch, or in formats without epochs. Such copies are of two clusters, or of two topics of
one name: PathError.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from kafka_segment_source.epoch_checkpoint import Epochs
from kafka_segment_source.errors import PathError
from kafka_segment_source.logdir.leader_epochs import UNKNOWN, epoch_at
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.partition.copy_view import CopyView

if TYPE_CHECKING:
    from kafka_segment_source.partition.survey import Rows

# What two batches with a common offset show about their copies
SAME = "same"
DIFFERENT = "different"  # they have different leader epochs
CONFLICT = "conflict"  # the epoch is the same or unknown, so only one of the copies can be of this partition
SILENT = "silent"  # they show nothing


@dataclass(frozen=True, slots=True)
class Fence:
    """The copy `loser` holds batches of a replaced leader. The copy `winner` holds the other history.

    Up to `agreed` both are equal, and from `first` on they differ. Between these offsets one of them is damaged or has
    no batches.
    """

    loser: int
    winner: int
    agreed: int
    first: int
    epochs: tuple[int, int]


_Divergence = tuple[int, int, tuple[int, int]]  # as in Fence: agreed, first, the epoch of each copy


def find_fences(copies: Sequence[CopyView]) -> list[Fence]:
    """Returns which copies lose which offsets. Raises PathError if copies contradict each other and no epoch
    decides."""
    fences = []
    for one, other in combinations(range(len(copies)), 2):
        found = _find_divergence(copies[one], copies[other])
        if found is not None:
            agreed, first, epochs = found
            loser, winner = (one, other) if epochs[0] < epochs[1] else (other, one)
            fences.append(Fence(loser, winner, agreed, first, (min(epochs), max(epochs))))
    return fences


def find_fenced_end(fences: Sequence[Fence]) -> int:
    """Returns the offset from which on a copy that loses by these fences is not used.

    It is not above any difference. Up to there it is as far as agreement is proven.
    """
    return min(*(fence.first for fence in fences), max(fence.agreed for fence in fences))


def _find_divergence(one: CopyView, other: CopyView) -> _Divergence | None:
    """Returns where two copies differ, and the leader epoch of each there. None if they do not contradict each
    other."""
    written = _compare_checkpoints(one, other)
    if written is not None:
        return written
    if max(one.start, other.start) >= min(one.end, other.end):
        return None
    low, high = (one, other) if one.end <= other.end else (other, one)
    batch = low.batch_at(low.end - 1)
    found = None
    if batch is not None and batch.base_offset < low.end:
        found = high.batch_at(min(batch.last_offset, low.end - 1))
        if found is not None and _is_settled(_relate_batches(low, batch, high, found), batch, found):
            return None
        if found is not None and _is_void(batch, found) and found.leader_epoch >= batch.leader_epoch:
            return None
    steps_back = found is not None and batch is not None and _is_void(batch, found) and found.leader_epoch >= 0
    stepping = (batch, found) if low is one else (found, batch)
    return _compare_batches(one, other, stepping if steps_back else None)  # type: ignore[arg-type]  # neither is None then


def _compare_checkpoints(one: CopyView, other: CopyView) -> _Divergence | None:
    """Does the same as `_find_divergence` by the epochs that both brokers recorded. None if these show no
    difference.

    A leader records its epoch before its first record (Kafka: UnifiedLog.assignEpochStartOffset). So the copy that
    loses may hold offsets that the other one has not reached. Then it also needs an earlier last epoch: a leader that
    wrote nothing may have been followed by one that kept these offsets.
    """
    if not one.epochs or not other.epochs:
        return _compare_one_checkpoint(one, other)
    for offset in sorted({start for _, start in (*one.epochs, *other.epochs)}):
        epochs = epoch_at(one.epochs, offset), epoch_at(other.epochs, offset)
        if UNKNOWN not in epochs and epochs[0] != epochs[1]:
            loser, winner = (one, other) if epochs[0] < epochs[1] else (other, one)
            if offset < winner.end or (offset < loser.end and winner.epochs[-1][0] > loser.epochs[-1][0]):
                return offset, offset, epochs
            return None
    return None


def _compare_one_checkpoint(one: CopyView, other: CopyView) -> _Divergence | None:
    """Does the same as `_find_divergence` by the epochs that one broker recorded.

    It looks for an epoch that is later than the other copy's last one and begins before the end of that copy. The
    copies need not have a common offset.
    """
    recorded, bare = (one, other) if one.epochs else (other, one)
    last = bare.tail.last
    if not recorded.epochs or last is None or last.leader_epoch < 0:
        return None
    offset = _find_first_above(recorded.epochs, last.leader_epoch)
    if offset is None or offset >= bare.end:
        return None
    epochs = last.leader_epoch, epoch_at(recorded.epochs, offset)
    return offset, offset, epochs if bare is one else epochs[::-1]


def _compare_batches(
    one: CopyView, other: CopyView, steps_back: tuple[BatchHeader, BatchHeader] | None
) -> _Divergence | None:
    """Does the same as `_find_divergence` by reading both copies backward from their last common offset to where they
    agree.

    steps_back: a batch of each copy. Their epochs differ, although they have no common offset. Epochs grow along one
        history.
    """
    start, end = max(one.start, other.start), min(one.end, other.end)
    differs = steps_back
    agreed = start
    for batch, found in _pair_batches(one, other, start, end):
        relation = _relate_batches(one, batch, other, found)
        if relation == SAME:
            agreed = min(batch.last_offset, found.last_offset) + 1
            break
        if relation == CONFLICT:
            raise PathError(_explain_conflict(one, other, max(batch.base_offset, found.base_offset)))
        if relation == DIFFERENT:
            differs = batch, found
    if differs is None:
        return None
    epochs = differs[0].leader_epoch, differs[1].leader_epoch
    loser, winner = (one, other) if epochs[0] < epochs[1] else (other, one)
    first = max(min(differs[0].base_offset, differs[1].base_offset), agreed)
    since = _find_first_above(winner.epochs, min(epochs))
    if since is not None and min(loser.start, start) <= since <= first:
        agreed = since  # the winner's checkpoint records where its history begins
        first = since
    return agreed, first, epochs


def _pair_batches(one: CopyView, other: CopyView, start: int, end: int) -> Iterator[tuple[BatchHeader, BatchHeader]]:
    """Yields sound batches of both copies with a common offset, from the last to the first."""
    for batch in _walk_backward(one, start, end):
        for found in _walk_backward(other, max(batch.base_offset, start), min(batch.last_offset + 1, end)):
            yield batch, found


def _find_first_above(epochs: Epochs, epoch: int) -> int | None:
    """Returns where the first leader epoch after `epoch` begins, or None if none is recorded."""
    return next((start for each, start in epochs if each > epoch), None)


def _walk_backward(copy: CopyView, start: int, end: int) -> Iterator[BatchHeader]:
    """Yields the sound batches of a copy between two offsets, from the last to the first.

    Each segment is read only when its batches are needed.
    """
    for segment in reversed(copy.log.segments):
        if segment.base_offset < end and segment.span.end > start and segment.size:
            survey = copy.survey(segment)
            for at in reversed(range(survey.first_from(start), survey.first_from(end) + 1)):
                header = survey.header(at) if at < survey.batches.shape[1] else None
                if header is not None and header.base_offset < end:
                    yield header


def _relate_batches(one: CopyView, batch: BatchHeader, other: CopyView, found: BatchHeader) -> str:
    """Returns what two batches with a common offset show."""
    if _is_void(batch, found):
        return DIFFERENT if found.leader_epoch < batch.leader_epoch else SILENT
    alike = (batch.base_offset, batch.last_offset, batch.crc) == (found.base_offset, found.last_offset, found.crc)
    if alike:  # no checksum covers the epoch, so a different epoch alone is no evidence
        return SAME if batch.leader_epoch == found.leader_epoch else SILENT
    epochs = batch.leader_epoch, found.leader_epoch
    if min(epochs) >= 0 and epochs[0] != epochs[1]:
        return DIFFERENT
    found_rows = _compare_rows(one.rows(batch), other.rows(found))
    return SAME if found_rows == SILENT and min(epochs) >= 0 else found_rows


def _compare_rows(rows: Rows | None, others: Rows | None) -> str:
    """Returns what the records of two batches show, where the bytes of the batches differ."""
    if rows is None or others is None:
        return SILENT
    common = rows.keys() & others.keys()
    if any(rows[offset] != others[offset] for offset in common):
        return CONFLICT
    return SAME if common else SILENT


def _is_settled(relation: str, batch: BatchHeader, found: BatchHeader) -> bool:
    """Whether nothing below can differ. Different epochs alone do not settle it, as a producer may send a batch again
    to a new leader."""
    return relation == SAME or (relation == SILENT and min(batch.leader_epoch, found.leader_epoch) < 0)


def _is_void(batch: BatchHeader, found: BatchHeader) -> bool:
    """Whether the other copy has no batch where this one has one, only a later batch."""
    return found.base_offset > batch.last_offset


def _quote_directory(log: PartitionLog) -> str:
    return repr(log.directory)


def explain_fence(loser: CopyView, winner: CopyView, offset: int, epochs: tuple[int, int]) -> str:
    """Returns one sentence about which copy loses which offsets."""
    end = f" to {loser.end - 1}" if loser.end > offset else " on"
    return (
        f"{_quote_directory(loser.log)} and {_quote_directory(winner.log)} hold different histories of partition {loser.log.topic}-"
        f"{loser.log.partition} from offset {offset} on, of the leader epochs {epochs[0]} and {epochs[1]}: the offsets"
        f" {offset}{end} of {_quote_directory(loser.log)} are not read, a broker would truncate them"
    )


def _explain_conflict(one: CopyView, other: CopyView, offset: int) -> str:
    return (
        f"{_quote_directory(one.log)} and {_quote_directory(other.log)} hold different batches at offset {offset} of partition {one.log.topic}-"
        f"{one.log.partition}, and their leader epochs do not say which one counts: they are of two clusters, or of two"
        " topics of one name; give one of the paths"
    )
