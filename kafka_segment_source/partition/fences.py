"""From where on a copy is not used, and the sentences about copies that contradict each other.

`histories.py` finds the fences, and says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_segment_source.logdir.leader_epochs import UNKNOWN, epoch_at
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.partition.copy_view import CopyView


@dataclass(frozen=True, slots=True)
class Fence:
    """The copy `loser` is not used from the offset `end` on. The copy `winner` holds the history that counts.

    first: the offset from which on both are proven to differ.
    epochs: the leader epochs there, of the loser and of the winner.
    named: the latest leader epochs that both name.
    is_proven: whether a batch proves that both agree below `end`.
    """

    loser: int
    winner: int
    end: int
    first: int
    epochs: tuple[int, int]
    named: tuple[int, int]
    is_proven: bool


def explain_fence(copies: Sequence[CopyView], fence: Fence) -> str:
    """Returns one sentence about which copy loses which offsets, and why."""
    loser, winner = copies[fence.loser], copies[fence.winner]
    end = f" to {loser.end - 1}" if loser.end > fence.end else " on"
    undecided = f" (up to {fence.first - 1} nothing shows whether they differ)" if fence.end < fence.first else ""
    below = "" if fence.is_proven or loser.start >= fence.end else ", and no batch shows that they agree below them"
    return (
        f"{_state_difference(loser, winner, fence.first)}, of the leader epochs {fence.epochs[0]} and {fence.epochs[1]}:"
        f" the offsets {fence.end}{end} of {_quote(loser)} are not read{undecided}, as the latest leader epoch that it"
        f" names is {fence.named[0]}, and the other copy names {fence.named[1]}{below}"
    )


def explain_undecided_epoch(
    copies: Sequence[CopyView], at: int, fences: Sequence[Fence], others: Sequence[Fence]
) -> str:
    """Returns one sentence about copies that only the epoch of a last batch decides between, where it is in doubt.

    fences: with one epoch of the last batch of copy number `at`. others: with another one. They are not the same.
    """
    copy = copies[at]
    last = copy.last_batch
    differing = [fence for fence in (*fences, *others) if fence not in fences or fence not in others]
    fence = min(differing, key=lambda fence: fence.first)
    one, other = copies[fence.loser], copies[fence.winner]
    rival = f"the leader-epoch-checkpoint there ends with {copy.epochs[-1][0]}" if copy.epochs else ""
    stated = UNKNOWN if last is None else last.leader_epoch
    what = f"the last batch of {_quote(copy)} is of leader epoch {stated}"
    if last is None:
        what = f"{_quote(copy)} has no whole batch"
    if copy.last_epoch.is_disputed:
        rival = f"another copy has it with {copy.last_epoch.least}"
    elif (behind := copy.find_epoch_behind()) > max(stated, *(epoch for epoch, _ in copy.epochs), UNKNOWN):
        rival = f"damaged bytes there state {behind}"
    return (
        f"{_state_difference(one, other, fence.first)}, and nothing says which one counts: {what}, and {rival}: one of the"
        " two is older than the other, or the epoch is damaged; give one of the paths"
    )


def explain_conflict(one: CopyView, other: CopyView, offset: int) -> str:
    """Returns one sentence about different batches of two copies at an offset, which no epoch decides between."""
    return (
        f"{_quote(one)} and {_quote(other)} hold different batches at offset {offset} of partition {_name(one)}, and"
        " their leader epochs do not say which one counts: they are of two clusters, of two topics of one name, or one"
        " has files of a replaced leader below later ones, or is damaged where no CRC shows it, or its"
        " leader-epoch-checkpoint is older than its files; give one of the paths"
    )


def explain_contest(one: CopyView, other: CopyView, counting: CopyView, offset: int) -> str:
    """Returns one sentence about different batches of two copies at an offset, where the copy that counts has none."""
    return (
        f"{_quote(one)} and {_quote(other)} hold different batches at offset {offset} of partition {_name(one)}, and"
        f" nothing says which one counts: {_quote(counting)} names the latest leader epoch, and has no batch there; give"
        " the paths without one of the two"
    )


def explain_doubt(copy: CopyView, other: CopyView, offset: int, epochs: tuple[int, int]) -> str:
    """Returns one sentence about batches of a copy that may be no longer part of the log, by a line of another copy.

    offset: where the epoch of the line begins. epochs: of the copy's last batch, and of the line.
    """
    return (
        f"{_state_epoch(other, offset, epochs[1])}, and no batch there shows it: {_quote(copy)} has batches of leader"
        f" epoch {epochs[0]} up to offset {copy.end - 1}. They are read, but if no later leader kept them they are no"
        " longer part of the log; give the first path alone to leave them out"
    )


def explain_unnoted_end(copy: CopyView, other: CopyView, line: tuple[int, tuple[int, int]]) -> str:
    """Returns one sentence about a copy that ends with a leader epoch which the checkpoint of another copy lacks.

    line: the offset of the next line there; the epoch of the copy's last batch, and that of the line.
    """
    offset, (epoch, later) = line
    return (
        f"{_state_epoch(other, offset, later)}, and has no line of leader epoch {epoch}: {_quote(copy)} has batches of that"
        f" epoch up to offset {copy.end - 1}. They are read, but unless compaction removed them from the other copy, they"
        " are of a replaced leader and no longer part of the log; give the path of the other copy alone to leave them out"
    )


def explain_contradiction(copy: CopyView, other: CopyView, offset: int, epochs: tuple[int, int]) -> str:
    """Returns one sentence about batches of a copy that may be stale, by a line of another copy that has something else
    there. offset, epochs: as for `explain_doubt`."""
    return (
        f"{_state_epoch(other, offset, epochs[1])}, and that copy has something else there, or has lost it: it is"
        f" damaged, or has batches of a replaced leader. {_quote(copy)} has batches of leader epoch {epochs[0]} up to offset {copy.end - 1}, which"
        " may be stale; give the path of a sound copy alone, or failOnDataLoss=false to read them"
    )


def explain_old_end(copy: CopyView) -> str:
    """Returns one sentence about a copy whose checkpoint states a later epoch for its last batch than that one does."""
    stated, last = _state_own_epoch(copy)
    return (
        f"{stated}, and its last batch, at offset {last.base_offset}, is of leader epoch {last.leader_epoch}: it may be of"
        " a replaced leader"
    )


def explain_old_batches(copy: CopyView) -> str:
    """Returns one sentence about a copy whose last batches are of another epoch than its checkpoint states there."""
    stated, last = _state_own_epoch(copy)
    return (
        f"{stated}, and its last batches, up to offset {copy.end - 1}, are of leader epoch {last.leader_epoch}: their file"
        " is from before a truncation, or another copy's; give the path of a sound copy alone, or failOnDataLoss=false to"
        " read them"
    )


def _state_difference(one: CopyView, other: CopyView, offset: int) -> str:
    return (
        f"{_quote(one)} and {_quote(other)} hold different histories of partition {_name(one)} from offset {offset} on"
    )


def _state_own_epoch(copy: CopyView) -> tuple[str, BatchHeader]:
    """Returns what the checkpoint of a copy says of its last batch, and that batch."""
    last = copy.last_batch
    assert last is not None
    epoch = epoch_at(copy.epochs, last.base_offset)
    return _state_epoch(copy, dict(copy.epochs)[epoch], epoch), last


def _state_epoch(copy: CopyView, offset: int, epoch: int) -> str:
    return (
        f"the leader-epoch-checkpoint of {_quote(copy)} says that leader epoch {epoch} of partition {_name(copy)} began"
        f" at offset {offset}"
    )


def _name(copy: CopyView) -> str:
    return f"{copy.log.topic}-{copy.log.partition}"


def _quote(copy: CopyView) -> str:
    return repr(copy.log.directory)
