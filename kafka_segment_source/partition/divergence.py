"""Finds where two copies contradict each other, by their batches and by their checkpoints.

Comes in: two copies, each up to an offset. Goes out: the lowest `Divergence`, or none. `histories.py` has the rule and
its proof.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.epoch_checkpoint import Epochs
from kafka_segment_source.errors import PathError
from kafka_segment_source.logdir.leader_epochs import epoch_at
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.partition.batch_pairs import (
    Comparison,
    agree_at_their_end,
    compare_batches,
    falls_behind_common_batch,
    follow_each_other,
    walk_backward,
)
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.fences import explain_conflict
from kafka_segment_source.partition.last_epochs import find_believed_last, find_believed_lines
from kafka_segment_source.partition.left_out_batches import find_left_out_batches
from kafka_segment_source.storage.tiered.names import is_shown


@dataclass(frozen=True, slots=True)
class Divergence:
    """Up to `agreed` two copies are not known to differ, and from `first` on they do.

    epochs: of each copy, there.
    is_proven: whether a batch proves that they agree up to `agreed`.
    """

    agreed: int
    first: int
    epochs: tuple[int, int]
    is_proven: bool


Line = tuple[int, tuple[int, int]]  # the offset of a line; the last epoch of the copy that it contradicts, its epoch


def find_divergence(one: CopyView, one_end: int, other: CopyView, other_end: int) -> Divergence | None:
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
    agreed = max(_find_start(one), _find_start(other)) if proven.agreed is None else proven.agreed
    divergences = []
    if proven.differs is not None:
        batch, twin = proven.differs
        first = max(min(batch.base_offset, twin.base_offset), proven.agreed or 0)
        divergences.append(Divergence(min(agreed, first), first, (batch.leader_epoch, twin.leader_epoch), is_proven))
    stated = _find_contradicting_lines(one, one_end, other, other_end)
    for offset, epochs in stated:
        if offset >= (proven.agreed or 0):  # what agrees above it shows that the line is wrong
            divergences.append(Divergence(min(agreed, offset), offset, epochs, is_proven))
    for offset, epochs in _find_unnoted_batches(one, one_end, other, other_end, proven.agreed or 0):
        divergences.append(Divergence(min(agreed, offset), offset, epochs, is_proven))
    for offset, epochs in _find_left_out_contradictions(one, one_end, other, other_end, proven.agreed or 0):
        divergences.append(Divergence(min(agreed, offset), offset, epochs, is_proven))
    return min(divergences, key=lambda divergence: divergence.first, default=None)


def _find_start(copy: CopyView) -> int:
    """Returns the first offset that a copy has. Without compaction a file begins where its name says, so the first
    batch shows a wrong name."""
    first = next((segment for segment in copy.log.segments if segment.size), None)
    if first is None or copy.has_compacted_topic:
        return copy.start
    return max(copy.start, copy.first_offset_of(first))


def _find_contradicting_lines(one: CopyView, one_end: int, other: CopyView, other_end: int) -> Iterator[Line]:
    """Yields the lines of either copy's checkpoint that the last batch of the other copy contradicts, as far as they
    decide. The epochs are those of the first copy and of the second one."""
    for stating, its_end, bare, bare_end in ((one, one_end, other, other_end), (other, other_end, one, one_end)):
        line = find_contradicting_line(stating, its_end, bare, bare_end)
        if line is not None and (is_shown(bare.log.directory) or is_borne_out(stating, its_end, line)):
            offset, epochs = line
            yield offset, epochs if bare is one else epochs[::-1]


def find_contradicting_line(stating: CopyView, its_end: int, bare: CopyView, bare_end: int) -> Line | None:
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


def _find_left_out_contradictions(
    one: CopyView, one_end: int, other: CopyView, other_end: int, start: int
) -> Iterator[Line]:
    """Yields from where on a batch that was left out of one copy as damage contradicts a batch of the other one, at
    `start` or above. The batch behind it bears it out, so that one must be used too."""
    for stating, its_end, bare, bare_end in ((one, one_end, other, other_end), (other, other_end, one, one_end)):
        for header in find_left_out_batches(stating):
            if header.last_offset + 1 >= its_end or not start <= header.base_offset < bare_end:
                continue
            batch = next(bare.batches_in(OffsetRange(header.base_offset, header.last_offset + 1)), None)
            if batch is None or batch.crc == header.crc:
                continue  # of the same batch with another epoch, the epoch is what is damaged
            if 0 <= batch.leader_epoch != header.leader_epoch:
                epochs = batch.leader_epoch, header.leader_epoch
                yield header.base_offset, epochs if bare is one else epochs[::-1]


def _find_unnoted_batches(one: CopyView, one_end: int, other: CopyView, other_end: int, start: int) -> Iterator[Line]:
    """Yields from where on the last batches of either copy are of an epoch that the other copy's checkpoint does not
    have between two lines. The epochs are those of the first copy and of the second one."""
    if one.has_compacted_topic:
        return
    for stating, its_end, bare, bare_end in ((one, one_end, other, other_end), (other, other_end, one, one_end)):
        line = _find_unnoted_batch(stating, its_end, bare, bare_end, start)
        if line is not None:
            offset, epochs = line
            yield offset, epochs if bare is one else epochs[::-1]


def _find_unnoted_batch(stating: CopyView, its_end: int, bare: CopyView, bare_end: int, start: int) -> Line | None:
    """Returns the first one of these batches of a copy that begins at `start` or above."""
    lines, last = find_believed_lines(stating), bare.last_batch
    if last is None or (bare_end >= bare.end and _find_line_around(lines, last) is None):
        return None  # most copies: they are not read for this
    found = None
    for batch in walk_backward(bare, bare_end):
        line = _find_line_around(lines, batch)
        if line is None or batch.base_offset < start or any(epoch >= line[1][1] for epoch, _ in bare.epochs[-1:]):
            break
        if found is None and not is_borne_out(stating, its_end, line):
            break
        beside = stating.batch_at(batch.base_offset)
        if beside is not None and beside.base_offset > batch.base_offset:
            return None  # compaction alone leaves a gap between two whole batches of one file
        found = batch.base_offset, (batch.leader_epoch, epoch_at(lines, batch.base_offset))
    return found


def is_unnoted(copy: CopyView) -> bool:
    """Whether a copy's own checkpoint has no line of the leader epoch of its last batch, but earlier and later ones."""
    return find_line_beyond(copy, copy) is not None


def find_line_beyond(stating: CopyView, bare: CopyView) -> Line | None:
    """Returns the line of one copy's checkpoint after the last batch of another copy, if the checkpoint has no line of
    that batch's leader epoch, but earlier ones and that later one."""
    last = bare.last_batch
    return None if last is None else _find_line_around(find_believed_lines(stating), last)


def _find_line_around(lines: Epochs, batch: BatchHeader) -> Line | None:
    """Returns the line after the offset of a batch, if the epoch of the batch lies between those of the line before and
    of that one."""
    line = next(((start, (batch.leader_epoch, epoch)) for epoch, start in lines if start > batch.base_offset), None)
    if line is None or not 0 <= epoch_at(lines, batch.base_offset) < batch.leader_epoch < line[1][1]:
        return None
    return line


def is_borne_out(copy: CopyView, end: int, line: Line) -> bool:
    """Whether the first batch of a copy at or above the offset of a line is of its epoch or of a later one. It may be
    damaged or torn, at the end."""
    offset, (_, epoch) = line
    header = next(walk_backward(copy, end, offset), None)
    if offset == end == copy.tail.end:
        header = copy.header_behind()
    return header is not None and header.base_offset >= offset and header.leader_epoch >= epoch
