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
  But its first line may say no more than where the log begins now.

What this cannot notice: a stale tail in a gap of the copy that counts, with no later batch or line against it. What it
cannot decide: where the difference begins among offsets that the copies with the right history do not have. These rows
stay, with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.data_loss import allow_loss
from kafka_segment_source.epoch_checkpoint import Epochs
from kafka_segment_source.errors import PathError
from kafka_segment_source.kafka_format import MAX_OFFSET
from kafka_segment_source.logdir.leader_epochs import UNKNOWN, epoch_at
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.partition.batch_pairs import (
    Comparison,
    agree_at_their_end,
    compare_batches,
    falls_behind_common_batch,
    find_least_epoch,
    follow_each_other,
    walk_backward,
)
from kafka_segment_source.partition.contests import refuse_contests
from kafka_segment_source.partition.copy_tail import LastEpoch
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.fences import (
    Fence,
    explain_conflict,
    explain_contradiction,
    explain_doubt,
    explain_old_end,
    explain_undecided_epoch,
)
from kafka_segment_source.partition.last_epochs import (
    find_believed_last,
    find_believed_lines,
    find_common_lines,
    has_later_twin,
    may_lack_epoch,
    note_last_epoch,
)
from kafka_segment_source.partition.left_out_batches import find_left_out_batches
from kafka_segment_source.partition.missing import read_last_offset
from kafka_segment_source.partition.twins import has_damaged_twin
from kafka_segment_source.storage.tiered.names import is_shown


@dataclass(frozen=True, slots=True)
class _Divergence:
    """Up to `agreed` two copies are not known to differ, and from `first` on they do.

    epochs: of each copy, there.
    is_proven: whether a batch proves that they agree up to `agreed`.
    """

    agreed: int
    first: int
    epochs: tuple[int, int]
    is_proven: bool


_Line = tuple[int, tuple[int, int]]  # the offset of a line; the last epoch of the copy that it contradicts, its epoch


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
    elif _has_old_end(copy):
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
    pairs = [_find_divergence(one, one.end, other, other.end) for one, other in combinations(copies, 2)]
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
        parting = _find_divergence(copies[loser], ends[loser], copies[winner], ends[winner])
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


def _find_stated_start(winner: CopyView, divergence: _Divergence) -> int:
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


def _find_shared_end(loser: CopyView, winner: CopyView, divergence: _Divergence) -> int:
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


def find_doubts(copies: Sequence[CopyView]) -> list[str]:
    """Returns one sentence for each copy whose last batches a later leader may lack, where nothing proves it. What a
    checkpoint says of offsets from where on its copy has lost does not count, nor what a later leader contradicts.

    A leader that wrote nothing ends where its epoch began, with no bytes behind. Raises PathError if the copy with the
    checkpoint has something else there, or has lost its end, unless failOnDataLoss=false.
    """
    doubts = [explain_old_end(copy) for copy in copies if _has_old_end(copy)]
    for copy in copies:
        said = []
        for other in copies:
            line = None if other is copy else _find_contradicting_line(other, other.end, copy, copy.end)
            if line is None or line[0] >= min(copy.end, other.log.offsets.end) or _is_borne_out(other, other.end, line):
                continue
            if any(
                _has_later_leader(third, other) and _has_end_of(third, copy) for third in copies if third is not copy
            ):
                continue
            if other.end > line[0] or not other.tail.is_clean or _has_lost_end(other, line[0]):
                allow_loss(PathError(explain_contradiction(copy, other, *line)), copy.policy)
            said.append(explain_doubt(copy, other, *line))
        doubts += said[:1]
    return doubts


def _has_later_leader(copy: CopyView, other: CopyView) -> bool:
    """Whether a copy names a later leader epoch than another one does."""
    return find_latest_epoch(copy) > find_latest_epoch(other)


def _has_end_of(copy: CopyView, other: CopyView) -> bool:
    """Whether a copy has the last batch of another one, or a later one of the same leader epoch."""
    last = find_believed_last(other)
    batch = None if last is None else copy.batch_at(last.base_offset)
    return last is not None and batch is not None and 0 <= batch.leader_epoch == last.leader_epoch


def _has_lost_end(copy: CopyView, offset: int) -> bool:
    """Whether a copy had something at or above an offset: an index file without its `.log` has an entry there, or its
    checkpoint says that its last epoch began after the end of its files."""
    latest = map(read_last_offset, copy.log.beside.orphans)
    end = max([copy.end, *(segment.base_offset for segment in copy.log.segments[-1:])])
    return copy.epochs[-1][1] > end or any(last is not None and last >= offset for last in latest)


def _has_old_end(copy: CopyView) -> bool:
    """Whether the last batch of a copy is of an earlier leader epoch than its checkpoint states there."""
    last = find_believed_last(copy)
    return last is not None and 0 <= last.leader_epoch < epoch_at(copy.epochs, last.base_offset)


def _find_divergence(one: CopyView, one_end: int, other: CopyView, other_end: int) -> _Divergence | None:
    """Returns where two copies differ, or None if nothing proves that they do. The ends are exclusive."""
    if follow_each_other(one, other):
        proven = Comparison()
    elif (one_end, other_end) == (one.end, other.end) and agree_at_their_end(one, other):
        proven = Comparison(min(one_end, other_end))
    else:
        proven = compare_batches(one, one_end, other, other_end)
    if proven.conflict is not None:
        raise PathError(explain_conflict(one, other, proven.conflict))
    is_proven = proven.agreed is not None
    agreed = max(one.start, other.start) if proven.agreed is None else proven.agreed
    divergences = []
    if proven.differs is not None:
        batch, twin = proven.differs
        first = max(min(batch.base_offset, twin.base_offset), proven.agreed or 0)
        divergences.append(_Divergence(min(agreed, first), first, (batch.leader_epoch, twin.leader_epoch), is_proven))
    stated = _find_contradicting_lines(one, one_end, other, other_end)
    for offset, epochs in stated:
        if offset >= (proven.agreed or 0):  # what agrees above it shows that the line is wrong
            divergences.append(_Divergence(min(agreed, offset), offset, epochs, is_proven))
    for offset, epochs in _find_unnoted_batches(one, one_end, other, other_end, proven.agreed or 0):
        divergences.append(_Divergence(min(agreed, offset), offset, epochs, is_proven))
    for offset, epochs in _find_left_out_contradictions(one, other, proven.agreed or 0, min(one_end, other_end)):
        divergences.append(_Divergence(min(agreed, offset), offset, epochs, is_proven))
    return min(divergences, key=lambda divergence: divergence.first, default=None)


def _find_contradicting_lines(one: CopyView, one_end: int, other: CopyView, other_end: int) -> Iterator[_Line]:
    """Yields the lines of either copy's checkpoint that the last batch of the other copy contradicts, as far as they
    decide. The epochs are those of the first copy and of the second one."""
    for stating, its_end, bare, bare_end in ((one, one_end, other, other_end), (other, other_end, one, one_end)):
        line = _find_contradicting_line(stating, its_end, bare, bare_end)
        if line is not None and (is_shown(bare.log.directory) or _is_borne_out(stating, its_end, line)):
            offset, epochs = line
            yield offset, epochs if bare is one else epochs[::-1]


def _find_contradicting_line(stating: CopyView, its_end: int, bare: CopyView, bare_end: int) -> _Line | None:
    """Returns the first line of one copy's checkpoint that the last batch of another copy contradicts."""
    last = find_believed_last(bare) if bare_end >= bare.end else next(walk_backward(bare, bare_end), None)
    if not stating.epochs or last is None or last.leader_epoch < 0:
        return None
    lines = find_believed_lines(stating)
    line = next(((epoch, start) for epoch, start in lines if epoch > last.leader_epoch), None)
    if line is None or line[1] > last.base_offset or (its_end < stating.end and line[1] >= its_end):
        return None
    if any(epoch > lines[-1][0] for epoch, _ in bare.epochs[-1:]):
        return None  # the other copy has had a later leader
    if falls_behind_common_batch(bare, last, stating):
        return None
    return line[1], (last.leader_epoch, line[0])


def _find_left_out_contradictions(one: CopyView, other: CopyView, start: int, end: int) -> Iterator[_Line]:
    """Yields from where on a batch that was left out of one copy as damage contradicts a batch of the other one.

    start, end: the offsets where both are compared.
    """
    for stating, bare in ((one, other), (other, one)):
        for header in find_left_out_batches(stating):
            batch = bare.batch_at(header.base_offset) if start <= header.base_offset < end else None
            if batch is None or batch.base_offset > header.last_offset or batch.crc == header.crc:
                continue  # of the same batch with another epoch, the epoch is what is damaged
            if 0 <= batch.leader_epoch != header.leader_epoch:
                epochs = batch.leader_epoch, header.leader_epoch
                yield header.base_offset, epochs if bare is one else epochs[::-1]


def _find_unnoted_batches(one: CopyView, one_end: int, other: CopyView, other_end: int, start: int) -> Iterator[_Line]:
    """Yields from where on the last batches of either copy are of an epoch that the other copy's checkpoint does not
    have between two lines. The epochs are those of the first copy and of the second one."""
    if one.has_compacted_topic:
        return
    for stating, its_end, bare, bare_end in ((one, one_end, other, other_end), (other, other_end, one, one_end)):
        line = _find_unnoted_batch(stating, its_end, bare, bare_end, start)
        if line is not None:
            offset, epochs = line
            yield offset, epochs if bare is one else epochs[::-1]


def _find_unnoted_batch(stating: CopyView, its_end: int, bare: CopyView, bare_end: int, start: int) -> _Line | None:
    """Returns the first one of these batches of a copy that begins at `start` or above."""
    lines, last = find_believed_lines(stating), bare.last_batch
    if last is None or (bare_end >= bare.end and _find_line_around(lines, last) is None):
        return None  # most copies: they are not read for this
    found = None
    for batch in walk_backward(bare, bare_end):
        line = _find_line_around(lines, batch)
        if line is None or batch.base_offset < start or any(epoch >= line[1][1] for epoch, _ in bare.epochs[-1:]):
            break
        if found is None and not _is_borne_out(stating, its_end, line):
            break
        beside = stating.batch_at(batch.base_offset)
        if beside is not None and beside.base_offset > batch.base_offset:
            return None  # compaction alone leaves a gap between two whole batches of one file
        found = batch.base_offset, (batch.leader_epoch, epoch_at(lines, batch.base_offset))
    return found


def _find_line_around(lines: Epochs, batch: BatchHeader) -> _Line | None:
    """Returns the line after the offset of a batch, if the epoch of the batch lies between those of the line before and
    of that one."""
    line = next(((start, (batch.leader_epoch, epoch)) for epoch, start in lines if start > batch.base_offset), None)
    if line is None or not 0 <= epoch_at(lines, batch.base_offset) < batch.leader_epoch < line[1][1]:
        return None
    return line


def _is_borne_out(copy: CopyView, end: int, line: _Line) -> bool:
    """Whether the first batch of a copy at or above the offset of a line is of its epoch or of a later one. It may be
    damaged or torn, at the end."""
    offset, (_, epoch) = line
    header = next(walk_backward(copy, end, offset), None)
    if offset == end == copy.tail.end:
        header = copy.header_behind()
    return header is not None and header.base_offset >= offset and header.leader_epoch >= epoch


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
