"""Finds copies that contradict each other, and which of them is not used from which offset on.

Comes in: the copies of one partition. Goes out: fences. Where copies contradict each other and nothing says which of
them counts: PathError.

What is proven, and by what (KIP-101, KIP-279; Kafka: LeaderEpochFileCache.endOffsetFor,
AbstractFetcherThread.getOffsetTruncationState):

- **Equal histories.** A leader gives each offset of its epoch to one batch. A follower takes batches of an epoch only
  after its log is a prefix of that leader's log. So two logs with a batch of one epoch at one offset are of one history
  up to there. Compaction keeps the first and the last offset of a batch and its epoch, so this holds for a batch that
  was written again with fewer records, or with none. If the last common batch is so, nothing below it can differ.
- **Different histories.** One history cannot have batches of two epochs at one offset, nor a batch before one of a
  lower epoch, as epochs grow along it. A batch that is in one copy alone shows nothing: compaction removes batches. A
  batch that was left out as damage counts too, where its header shows its leader and its place (`left_out_batches.py`).
- **What a `leader-epoch-checkpoint` proves.** A leader notes its epoch at the end of its log, before its first record.
  A follower notes an epoch at the first batch that it fetches, and compaction may have removed those before. So
  replicas differ, and a line `E S` proves only this: from S on, the history of this copy has no epoch below E. That
  decides where a batch of this copy bears it out, and the other copy ends with a batch of a lower epoch at S or above.
  A line beyond the last batch does not. A leader that wrote nothing may be followed by one that kept what it lacked.
  Then all rows stay, with a warning. But a leader that wrote nothing ends there. If its copy has more, it is damaged or
  has batches of a replaced leader, and nothing says which rows count. Only a tier is cut there: a broker reads a tier
  along its own checkpoint (RemoteLogManager), and tiered topics are never compacted.
  Without compaction, each broker notes each epoch of its history. So a batch of an epoch between two lines of another
  copy, where that copy has none, is of another history. The later line decides where a batch bears it out.
- **Which history counts.** A copy that names a leader epoch, by a batch or by its checkpoint, was a prefix of that
  leader's log. Later it can only have been cut to follow a later leader. So the copy that names the latest epoch
  counts. It need not have the higher epoch at the first difference: after two unclean elections it may have the lower.
  Of two others that copy may have followed either. Where it has lost what they differ in, nothing decides: PathError
  (`contests.py`).
- **Common epochs.** A log takes batches of an epoch only after it is a prefix of that leader's log, and only then notes
  the epoch. So two copies that note one epoch agree below it. As no CRC covers the checkpoint, both must note it at one
  offset. A damaged batch whose header is that of a sound batch of the other copy is the same one.
- **Wrong epochs.** No CRC covers a leader epoch. A batch whose epoch its neighbours contradict decides nothing by it.
  Nor does a last batch whose epoch is later than all lines of its copy's checkpoint, unless another copy shows that the
  checkpoint is older than the batch. Where it alone decides which history counts, nothing does: PathError. So it is
  with the epoch that a damaged or torn batch behind the last whole one states.
- **From where on.** Up to the last batch that is proven to agree, the other copy is used. Between that and the first
  difference, one of them is damaged, or compaction left no batch. There the copy that counts answers alone. Where no
  copy is marked as compacted, its checkpoint says where its history begins, as for a follower that truncates its log.
  But its first line may say no more than where the log begins now. Where no batch agrees, the other copy is used up to
  the first batch of the copy that counts, as its first file may have a wrong name. If a copy is marked as compacted,
  the name of that file counts: compaction may have removed the batch there.

What this cannot notice: a stale tail in a gap of the copy that counts, with no later batch or line against it. What it
cannot decide: where the difference begins among offsets that the copies with the right history do not have. These rows
stay, with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import PathError
from kafka_segment_source.logdir.leader_epochs import UNKNOWN
from kafka_segment_source.partition.batch_pairs import walk_backward
from kafka_segment_source.partition.contests import refuse_contests
from kafka_segment_source.partition.copy_tail import LastEpoch
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.divergence import Divergence, find_divergence
from kafka_segment_source.partition.fences import Fence, explain_conflict, explain_undecided_epoch
from kafka_segment_source.partition.last_epochs import (
    find_common_lines,
    find_latest_epoch,
    has_later_twin,
    has_old_end,
    may_lack_epoch,
    note_last_epoch,
)
from kafka_segment_source.partition.twins import has_damaged_twin


def find_fences(copies: Sequence[CopyView]) -> list[Fence]:
    """Returns which copies lose which offsets, at most one fence for each.

    Raises PathError if copies contradict each other and no epoch decides. So it does if the epoch of a last batch
    decides that its checkpoint may lack, or contradicts.
    """
    for copy in copies:
        copy.has_compacted_topic = any(other.log.compacted for other in copies)
        note_last_epoch(copy, copies)
    fences = _find_fences(copies)
    for at, copy in enumerate(copies):
        for last_epoch in _list_possible_epochs(copy):
            others = _find_fences_with(copies, copy, last_epoch)
            if _list_ends(fences) != _list_ends(others):
                raise PathError(explain_undecided_epoch(copies, at, fences, others))
    return fences


def _list_possible_epochs(copy: CopyView) -> Iterator[LastEpoch]:
    """Yields what else the epochs of a copy's last batches may be than is believed of them."""
    if may_lack_epoch(copy):
        yield replace(copy.last_epoch, is_stated=True)
    elif has_old_end(copy):
        yield replace(copy.last_epoch, is_noted=True)
    elif has_later_twin(copy):
        yield replace(copy.last_epoch, is_disputed=False, is_stated=True)
    if (behind := copy.find_epoch_behind()) != UNKNOWN:
        yield replace(copy.last_epoch, behind=behind)


def _find_fences_with(copies: Sequence[CopyView], copy: CopyView, last_epoch: LastEpoch) -> list[Fence]:
    """Returns the fences where something else is believed of the epoch of a copy's last batch. Returns none if one
    leader would have written two different batches: one of their epochs is damaged, and it may be the other one."""
    believed, copy.last_epoch = copy.last_epoch, last_epoch
    try:
        return _find_fences(copies)
    except PathError:
        return []
    finally:
        copy.last_epoch = believed


def _list_ends(fences: Sequence[Fence]) -> list[tuple[int, int]]:
    return [(fence.loser, fence.end) for fence in fences]


def _find_fences(copies: Sequence[CopyView]) -> list[Fence]:
    pairs = [find_divergence(one, one.end, other, other.end) for one, other in combinations(copies, 2)]
    if not any(pairs):  # all are compared first: whether two conflict does not depend on their order
        return []
    ends = [copy.end for copy in copies]
    named = [find_latest_epoch(copy) for copy in copies]
    fences: dict[int, Fence] = {}
    settled: list[int] = []
    open_copies = set(range(len(copies)))
    while open_copies:
        loser = min(open_copies, key=lambda at: (-named[at], at))
        fence = _find_fence(copies, loser, settled, ends, named)
        if fence is None or (loser in fences and fence.end >= ends[loser]):
            open_copies.remove(loser)
            settled.append(loser)
            continue
        fences[loser] = fence
        ends[loser] = min(ends[loser], fence.end)
        named[loser] = find_latest_epoch(copies[loser], fence.end)  # what names a later one is not used
    refuse_contests(copies, [*fences.values()], ends, named)
    return [fences[loser] for loser in sorted(fences)]


def _find_fence(
    copies: Sequence[CopyView], loser: int, settled: Sequence[int], ends: Sequence[int], named: Sequence[int]
) -> Fence | None:
    """Returns from where on a copy is not used, by the copies that count more. None if it contradicts none of them.

    settled: the numbers of these copies. ends, named: of each copy, the offset up to which it is used, and the latest
    leader epoch that it names below.
    """
    losses = []
    for winner in settled:
        parting = find_divergence(copies[loser], ends[loser], copies[winner], ends[winner])
        if parting is not None and named[loser] == named[winner]:
            raise PathError(explain_conflict(copies[loser], copies[winner], parting.first))
        if parting is not None:
            losses.append((winner, parting))
    if not losses:
        return None
    winner, parting = min(losses, key=lambda loss: loss[1].first)
    proven = [divergence.agreed for _, divergence in losses if divergence.is_proven]
    # where no batch proves it, the copy that begins first answers alone from there on
    agreed = [max(proven) if proven else min(divergence.agreed for _, divergence in losses)]
    if not copies[loser].has_compacted_topic:
        agreed += [_find_stated_start(copies[other], divergence) for other, divergence in losses]
    shared = max(_find_shared_end(copies[loser], copies[other], divergence) for other, divergence in losses)
    end = min(parting.first, max(*agreed, shared))
    epochs = named[loser], named[winner]
    return Fence(loser, winner, end, parting.first, parting.epochs, epochs, shared > 0 or bool(proven))


def _find_stated_start(winner: CopyView, divergence: Divergence) -> int:
    """Returns the offset at which the winner's checkpoint lets the epochs after the loser's begin. 0 if there is none,
    or if the winner is damaged before it.

    Without compaction, each broker notes the offset of an epoch's first record. But retention moves the first line to
    the log start (Kafka: LeaderEpochFileCache.truncateFromStart).
    """
    later = [line for line in winner.epochs if line[0] > divergence.epochs[0]]
    start = later[0][1] if later and later[0] != winner.epochs[0] else 0
    before = OffsetRange(divergence.agreed, start)
    surveyed = [] if before.is_empty else map(winner.survey, winner.segments_in(before))
    gaps = (place.gap for survey in surveyed for place in survey.left_out_places())
    return 0 if any(not gap.intersect(before).is_empty for gap in gaps) else start


def _find_shared_end(loser: CopyView, winner: CopyView, divergence: Divergence) -> int:
    """Returns the offset up to which both are of one history, where damage or a lost segment hides their common
    batches. 0 if nothing more proves it."""
    starts = (start for _, start in find_common_lines(loser, winner))
    shared = min(max(starts, default=0), divergence.first)
    for batch in walk_backward(loser, divergence.first):
        if batch.last_offset < max(shared, divergence.agreed):
            break
        if batch.last_offset < divergence.first and has_damaged_twin(winner, batch):
            return batch.last_offset + 1
    return shared
