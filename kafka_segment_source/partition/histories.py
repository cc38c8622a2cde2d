"""Copies that contradict one another: which of them a broker would have truncated, and from which offset on.

Two logs of one partition with a batch of the same leader epoch at the same offset are alike up to there (KIP-101). So
the last batch that two copies share in offsets decides, as a rule: where it is the same, nothing below differs. Where
it is not, the copies are read backward from there to where they agree. From the first difference on the history with
the higher leader epoch counts, as a follower truncates its log to the leader's (Kafka: AbstractFetcherThread,
LeaderEpochFileCache.endOffsetFor; KIP-279). `leader-epoch-checkpoint`s say it without reading where both copies have
one.

Compaction takes records and batches, and writes batches anew: then the epochs count, and the records that are left.
Different records under one epoch, or in formats without epochs, are of two clusters, or of two topics of one name:
PathError.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from kafka_segment_source.errors import PathError
from kafka_segment_source.logdir.leader_epochs import UNKNOWN, Epochs, epoch_at
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.partition.copy_view import CopyView

if TYPE_CHECKING:
    from kafka_segment_source.partition.survey import Rows

# What two batches that share an offset say of their copies
SAME = "same"
DIFFERENT = "different"  # of different leader epochs
CONFLICT = "conflict"  # of the same epoch, or without epochs: only one of the copies can be of this partition
SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Fence:
    """The copy `loser` holds what a leader wrote that was replaced; `winner` holds the other history.

    Up to `agreed` both are alike, from `first` on they differ; what lies between is damaged or gone in one of them.
    """

    loser: int
    winner: int
    agreed: int
    first: int
    epochs: tuple[int, int]


_Divergence = tuple[int, int, tuple[int, int]]  # as in Fence: agreed, first, the epoch of each copy


def find_fences(copies: Sequence[CopyView]) -> list[Fence]:
    """Which copies lose which offsets; PathError where copies contradict one another and no epoch decides."""
    fences = []
    for one, other in combinations(range(len(copies)), 2):
        found = _divergence(copies[one], copies[other])
        if found is not None:
            agreed, first, epochs = found
            loser, winner = (one, other) if epochs[0] < epochs[1] else (other, one)
            fences.append(Fence(loser, winner, agreed, first, (min(epochs), max(epochs))))
    return fences


def fenced_end(fences: Sequence[Fence]) -> int:
    """The offset from which on nothing counts of a copy that loses by these fences: not above any difference, and where
    agreement is proven furthest."""
    return min(*(fence.first for fence in fences), max(fence.agreed for fence in fences))


def _divergence(one: CopyView, other: CopyView) -> _Divergence | None:
    """Where two copies differ, and the leader epoch of each there; None if they do not contradict."""
    written = _by_checkpoints(one, other)
    if written is not None:
        return written
    if max(one.start, other.start) >= min(one.end, other.end):
        return None
    low, high = (one, other) if one.end <= other.end else (other, one)
    batch = low.batch_at(low.end - 1)
    found = None
    if batch is not None and batch.base_offset < low.end:
        found = high.batch_at(min(batch.last_offset, low.end - 1))
        if found is not None and _settles(_relation(low, batch, high, found), batch, found):
            return None
        if found is not None and _is_void(batch, found) and found.leader_epoch >= batch.leader_epoch:
            return None
    steps_back = found is not None and batch is not None and _is_void(batch, found) and found.leader_epoch >= 0
    told = (batch, found) if low is one else (found, batch)
    return _by_batches(one, other, told if steps_back else None)  # type: ignore[arg-type]  # neither is None then


def _by_checkpoints(one: CopyView, other: CopyView) -> _Divergence | None:
    """As `_divergence`, by what both brokers wrote down; None where that shows no difference."""
    if not one.epochs or not other.epochs:
        return _by_checkpoint(one, other)
    end = min(one.end, other.end)
    starts = sorted({start for _, start in (*one.epochs, *other.epochs) if start < end})
    for offset in starts:
        epochs = epoch_at(one.epochs, offset), epoch_at(other.epochs, offset)
        if UNKNOWN not in epochs and epochs[0] != epochs[1]:
            return offset, offset, epochs
    return None


def _by_checkpoint(one: CopyView, other: CopyView) -> _Divergence | None:
    """As `_divergence`, by what one broker wrote down: a later epoch that begins before the other copy, of an earlier
    one, ends. The copies need not share an offset."""
    told, bare = (one, other) if one.epochs else (other, one)
    last = bare.tail.last
    if not told.epochs or last is None or last.leader_epoch < 0:
        return None
    offset = _first_above(told.epochs, last.leader_epoch)
    if offset is None or offset >= bare.end:
        return None
    epochs = last.leader_epoch, epoch_at(told.epochs, offset)
    return offset, offset, epochs if bare is one else epochs[::-1]


def _by_batches(
    one: CopyView, other: CopyView, steps_back: tuple[BatchHeader, BatchHeader] | None
) -> _Divergence | None:
    """As `_divergence`, by reading both backward from their last common offset to where they agree.

    steps_back: a batch of each whose epochs differ, although they share no offset: epochs grow along one history.
    """
    start, end = max(one.start, other.start), min(one.end, other.end)
    differs = steps_back
    agreed = start
    for batch, found in _pairs(one, other, start, end):
        relation = _relation(one, batch, other, found)
        if relation == SAME:
            agreed = min(batch.last_offset, found.last_offset) + 1
            break
        if relation == CONFLICT:
            raise PathError(_conflict(one, other, max(batch.base_offset, found.base_offset)))
        if relation == DIFFERENT:
            differs = batch, found
    if differs is None:
        return None
    epochs = differs[0].leader_epoch, differs[1].leader_epoch
    loser, winner = (one, other) if epochs[0] < epochs[1] else (other, one)
    first = max(min(differs[0].base_offset, differs[1].base_offset), agreed)
    since = _first_above(winner.epochs, min(epochs))
    if since is not None and min(loser.start, start) <= since <= first:
        agreed = since  # the winner's broker wrote down where its history begins
        first = since
    return agreed, first, epochs


def _pairs(one: CopyView, other: CopyView, start: int, end: int) -> Iterator[tuple[BatchHeader, BatchHeader]]:
    """Sound batches of both copies that share an offset, from the last to the first."""
    for batch in _backward(one, start, end):
        for found in _backward(other, max(batch.base_offset, start), min(batch.last_offset + 1, end)):
            yield batch, found


def _first_above(epochs: Epochs, epoch: int) -> int | None:
    """Where the first leader epoch after `epoch` begins; None if none is on record."""
    return next((start for each, start in epochs if each > epoch), None)


def _backward(copy: CopyView, start: int, end: int) -> Iterator[BatchHeader]:
    """The sound batches of a copy between two offsets, from the last to the first; each segment is read
    when it is due."""
    for segment in reversed(copy.log.segments):
        if segment.base_offset < end and segment.span.end > start and segment.size:
            survey = copy.survey(segment)
            for at in reversed(range(survey.first_from(start), survey.first_from(end) + 1)):
                header = survey.header(at) if at < survey.batches.shape[1] else None
                if header is not None and header.base_offset < end:
                    yield header


def _relation(one: CopyView, batch: BatchHeader, other: CopyView, found: BatchHeader) -> str:
    """What two batches that share an offset say."""
    if _is_void(batch, found):
        return DIFFERENT if found.leader_epoch < batch.leader_epoch else SILENT
    alike = (batch.base_offset, batch.last_offset, batch.crc) == (found.base_offset, found.last_offset, found.crc)
    if alike:  # no checksum covers the epoch, so that one alone is no evidence
        return SAME if batch.leader_epoch == found.leader_epoch else SILENT
    epochs = batch.leader_epoch, found.leader_epoch
    if min(epochs) >= 0 and epochs[0] != epochs[1]:
        return DIFFERENT
    found_rows = _compared(one.rows(batch), other.rows(found))
    return SAME if found_rows == SILENT and min(epochs) >= 0 else found_rows


def _compared(rows: Rows | None, others: Rows | None) -> str:
    """What the records of two batches say that were not written alike."""
    if rows is None or others is None:
        return SILENT
    common = rows.keys() & others.keys()
    if any(rows[offset] != others[offset] for offset in common):
        return CONFLICT
    return SAME if common else SILENT


def _settles(relation: str, batch: BatchHeader, found: BatchHeader) -> bool:
    """Whether nothing below can differ: not where only the epochs do, as a producer may send a batch
    again to a new leader."""
    return relation == SAME or (relation == SILENT and min(batch.leader_epoch, found.leader_epoch) < 0)


def _is_void(batch: BatchHeader, found: BatchHeader) -> bool:
    """Whether the other copy has no batch where this one is, only a later one."""
    return found.base_offset > batch.last_offset


def _name(log: PartitionLog) -> str:
    return repr(log.directory)


def explained(loser: CopyView, winner: CopyView, offset: int, epochs: tuple[int, int]) -> str:
    """One sentence about which copy loses what from an offset on."""
    end = f" to {loser.end - 1}" if loser.end > offset else " on"
    return (
        f"{_name(loser.log)} and {_name(winner.log)} hold different histories of partition {loser.log.topic}-"
        f"{loser.log.partition} from offset {offset} on, of the leader epochs {epochs[0]} and {epochs[1]}: the offsets"
        f" {offset}{end} of {_name(loser.log)} are not read, a broker would truncate them"
    )


def _conflict(one: CopyView, other: CopyView, offset: int) -> str:
    return (
        f"{_name(one.log)} and {_name(other.log)} hold different batches at offset {offset} of partition {one.log.topic}-"
        f"{one.log.partition}, and their leader epochs do not say which one counts: they are of two clusters, or of two"
        " topics of one name; give one of the paths"
    )
