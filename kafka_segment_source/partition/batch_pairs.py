"""Compares the batches of two copies, from the last to the first, and says what each pair shows.

Comes in: two copies, each up to an offset. Goes out: whether their logs contradict each other, from where on, and up to
where they are proven to be equal. `histories.py` has the rule and its proof.

Only batches whose offsets their neighbours bear out are compared: `Survey` leaves out the others. A batch right behind
one that was left out, and that begins at or below it, may be the wrong one of the two: it is not compared. Of a batch
whose leader epoch its neighbours contradict, or both its own checkpoint and another copy, only the place and the
records are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import TYPE_CHECKING, NamedTuple

from kafka_segment_source.errors import DataError
from kafka_segment_source.kafka_format import MAGIC_V2, MAX_OFFSET
from kafka_segment_source.logdir.leader_epochs import UNKNOWN, epoch_at
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segments import Segment
from kafka_segment_source.partition.copy_view import CopyView

if TYPE_CHECKING:
    from kafka_segment_source.partition.survey import Rows

# What two batches show about their copies
SAME = "same"  # up to the end of both batches the logs are of one history
DIFFERENT = "different"  # one history cannot have both
CONFLICT = "conflict"  # the same, and the epochs are equal or unknown
SILENT = "silent"  # they show nothing


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the batches of two copies show. All offsets are absolute.

    agreed: the offset up to which both are of one history. None if no pair of batches proves any.
    differs: the lowest pair of batches above it that one history cannot have: of the first copy, of the second one.
    conflict: the offset of two different batches whose epochs are equal or unknown. None if there are none.
    """

    agreed: int | None = None
    differs: tuple[BatchHeader, BatchHeader] | None = None
    conflict: int | None = None


def agree_at_their_end(one: CopyView, other: CopyView) -> bool:
    """Whether the last common batch is the same in both, so that nothing below it can differ.

    It is found by the index. So it answers True alone with proof: whatever else it meets may be damage. Formats without
    epochs show no more than this. Two batches with other bytes are the same one only by an epoch that is not in doubt.
    """
    if one.last_epoch.is_noted or other.last_epoch.is_noted:
        return False  # below, batches count with the epochs that they state
    low, high = (one, other) if one.end <= other.end else (other, one)
    batch = low.batch_at(low.end - 1)
    if batch is None or batch.base_offset >= low.end:
        return False
    twin = high.batch_at(min(batch.last_offset, low.end - 1))
    if twin is None:
        return False
    if batch.crc != twin.crc and not (_is_noted(low, batch) and _is_noted(high, twin)):
        return False
    following = find_following(high, twin)
    if following is not None and 0 <= following.leader_epoch < twin.leader_epoch:
        return False  # what lies behind is of another history
    shown = relate_batches(low, batch, high, twin)
    return shown == SAME or (shown == SILENT and UNKNOWN in (batch.leader_epoch, twin.leader_epoch))


def _is_noted(copy: CopyView, batch: BatchHeader) -> bool:
    """Whether no line of a copy's checkpoint says that the leader epoch of a batch is too late."""
    return not copy.epochs or batch.leader_epoch <= copy.epochs[-1][0]


def follow_each_other(one: CopyView, other: CopyView) -> bool:
    """Whether one copy ends where the other begins or before, and no epoch falls between these two batches.

    Where damage hides one of them, the answer is False, which shows nothing.
    """
    low, high = (one, other) if one.start <= other.start else (other, one)
    if low.end > high.start:
        return False
    last, first = low.batch_at(low.end - 1), high.batch_at(high.start)
    return last is not None and first is not None and last.leader_epoch <= first.leader_epoch


def compare_batches(one: CopyView, one_end: int, other: CopyView, other_end: int) -> Comparison:
    """Compares two copies backward, each from its end (exclusive) on, up to where they are proven to agree."""
    differs = None
    for witness, counterpart in _pair_batches(one, one_end, other, other_end):
        batch, twin = witness.header, counterpart.header
        if witness.is_doubtful or counterpart.is_doubtful:
            shown = relate_places(one, batch, other, twin)
        else:
            shown = relate_batches(one, batch, other, twin)
        if shown == SAME:
            return Comparison(min(batch.last_offset, twin.last_offset) + 1, differs)
        if shown == CONFLICT:
            return Comparison(None, differs, max(batch.base_offset, twin.base_offset))
        if shown == DIFFERENT:
            differs = batch, twin
    return Comparison(None, differs)


def relate_places(one: CopyView, batch: BatchHeader, other: CopyView, twin: BatchHeader) -> str:
    """Returns what two batches of two copies show if the epoch of one of them is in doubt: DIFFERENT or SILENT.

    One history has no two batches at one offset, whatever their epochs are. Compaction leaves a batch of magic 2 its
    first and its last offset.
    """
    if max(batch.base_offset, twin.base_offset) > min(batch.last_offset, twin.last_offset):
        return SILENT
    if (batch.base_offset, batch.last_offset) != (twin.base_offset, twin.last_offset):
        return DIFFERENT if batch.magic == twin.magic == MAGIC_V2 else SILENT
    is_same = batch.crc == twin.crc or _compare_rows(one.rows(batch), other.rows(twin)) != CONFLICT
    return SILENT if is_same else DIFFERENT


def relate_batches(one: CopyView, batch: BatchHeader, other: CopyView, twin: BatchHeader) -> str:
    """Returns what two batches of two copies show."""
    lower, upper = (batch, twin) if batch.base_offset <= twin.base_offset else (twin, batch)
    epochs = batch.leader_epoch, twin.leader_epoch
    if upper.base_offset > lower.last_offset:  # epochs grow along one history
        return DIFFERENT if 0 <= upper.leader_epoch < lower.leader_epoch else SILENT
    has_equal_ends = (batch.base_offset, batch.last_offset) == (twin.base_offset, twin.last_offset)
    if has_equal_ends and batch.crc == twin.crc:  # no CRC covers the epoch, so a different epoch alone is no evidence
        return SAME if epochs[0] == epochs[1] else SILENT
    if min(epochs) >= 0 and epochs[0] != epochs[1]:
        return DIFFERENT
    shown = _compare_rows(one.rows(batch), other.rows(twin))
    # compaction leaves a batch of magic 2 its first and its last offset
    is_rewritten = has_equal_ends and batch.magic == twin.magic == MAGIC_V2
    return SAME if shown == SILENT and is_rewritten and min(epochs) >= 0 else shown


def have_other_records(one: CopyView, batch: BatchHeader, other: CopyView, twin: BatchHeader) -> bool:
    """Whether two batches of two copies with a common offset have different records at one offset. Their epochs do not
    matter: no CRC covers an epoch, and a file of another partition may have any."""
    return batch.crc != twin.crc and _compare_rows(one.rows(batch), other.rows(twin)) == CONFLICT


def _compare_rows(rows: Rows | None, others: Rows | None) -> str:
    """Returns what the records of two batches show, where the bytes of the batches differ."""
    if rows is None or others is None:
        return SILENT
    common = rows.keys() & others.keys()
    if any(rows[offset] != others[offset] for offset in common):
        return CONFLICT
    return SAME if common else SILENT


def _pair_batches(one: CopyView, one_end: int, other: CopyView, other_end: int) -> Iterator[tuple[_Witness, _Witness]]:
    """Yields pairs of batches, from the last to the first. Each batch comes with those of the other copy that share an
    offset with it, or else with the next one after it."""
    end = min(one_end, other_end)
    batches, twins = (_walk_witnesses(copy, its_end, end) for copy, its_end in ((one, one_end), (other, other_end)))
    batch, twin = next(batches, None), next(twins, None)
    batch_after = twin_after = None
    while batch is not None and twin is not None:
        batch, twin = _doubt_epoch(one, batch, twin), _doubt_epoch(other, twin, batch)
        yield batch, twin
        if twin_after is not None and twin.header.last_offset < batch.header.base_offset:
            yield batch, twin_after
        elif batch_after is not None and batch.header.last_offset < twin.header.base_offset:
            yield batch_after, twin
        bases = batch.header.base_offset, twin.header.base_offset
        before = next(batches, None) if bases[0] >= bases[1] else batch
        twin_before = next(twins, None) if bases[1] >= bases[0] else twin
        if before is None and twin_before is not None:
            yield from ((batch, twin) for twin in _take_later([twin_before], twins, batch))
        elif twin_before is None and before is not None:
            yield from ((batch, twin) for batch in _take_later([before], batches, twin))
        batch_after = batch if before is not batch else batch_after
        twin_after = twin if twin_before is not twin else twin_after
        batch, twin = before, twin_before


def _doubt_epoch(copy: CopyView, witness: _Witness, twin: _Witness) -> _Witness:
    """Marks a batch as doubtful that another copy has with another leader epoch, the one of this copy's checkpoint."""
    batch, other = witness.header, twin.header
    is_same = (batch.base_offset, batch.size, batch.crc) == (other.base_offset, other.size, other.crc)
    stated = epoch_at(copy.epochs, batch.base_offset)
    is_wrong = is_same and batch.leader_epoch != other.leader_epoch == stated
    return witness._replace(is_doubtful=witness.is_doubtful or is_wrong)


def _take_later(first: Sequence[_Witness], rest: Iterator[_Witness], than: _Witness) -> Iterator[_Witness]:
    """Takes batches from the last to the first, as long as their leader epoch is later than that of another one."""
    certain = (batch for batch in chain(first, rest) if not batch.is_doubtful)
    return takewhile(lambda batch: batch.header.leader_epoch > than.header.leader_epoch, certain)


def walk_backward(copy: CopyView, end: int = MAX_OFFSET, about: int = MAX_OFFSET) -> Iterator[BatchHeader]:
    """Yields the batches of a copy that begin below `end`, from the last to the first, as far as their neighbours bear
    them out.

    It begins with the first batch that begins at `about` or above, if there is one. Each segment is read only when its
    batches are needed.
    """
    return (witness.header for witness in _walk_witnesses(copy, end, about) if not witness.is_doubtful)


def falls_behind_common_batch(copy: CopyView, batch: BatchHeader, other: CopyView) -> bool:
    """Whether a batch of a copy has an earlier epoch than the one right before it, which the other copy has too. Then
    its epoch is the wrong one of the two."""
    before = copy.batch_at(batch.base_offset - 1)
    if before is None or before.leader_epoch <= batch.leader_epoch:
        return False
    twin = other.batch_at(before.base_offset)
    return twin is not None and relate_batches(copy, before, other, twin) == SAME


def find_least_epoch(copy: CopyView, end: int = MAX_OFFSET) -> int:
    """Returns the earliest leader epoch of the last batches of a copy below `end` that contradict each other: at least
    one of them is right. UNKNOWN if none do."""
    doubtful = takewhile(lambda witness: witness.is_doubtful, _walk_witnesses(copy, end, MAX_OFFSET))
    epochs = [witness.header.leader_epoch for witness in doubtful]
    return min(epochs) if len(epochs) > 1 else UNKNOWN


def _walk_witnesses(copy: CopyView, end: int, about: int) -> Iterator[_Witness]:
    """Yields batches as `walk_backward` does, and says which of them are doubtful.

    The batch right behind `end` does not come, but it bears out the ones before it, or contradicts them.
    """
    witnesses = _mark_doubtful(copy, _walk_segments(copy, min(about, end)))
    return (witness for witness in witnesses if witness.header.base_offset < end)


def _walk_segments(copy: CopyView, about: int) -> Iterator[BatchHeader]:
    end = copy.tail.end  # a last batch with a wrong offset is left out
    segments = [segment for segment in copy.log.segments if segment.size and segment.base_offset < end]
    reached = max(sum(segment.base_offset <= about for segment in segments), 1)
    while reached < len(segments) and not _reaches(copy, segments[reached - 1], about):
        reached += 1
    for segment in reversed(segments[:reached]):
        survey = copy.survey(segment)
        count = survey.batches.shape[1]
        first = survey.first_from(about)
        if first < count and survey.header(first).base_offset < about:
            first += 1
        for at in reversed(range(min(first + 1, count))):
            header, fault = survey.header(at), survey.faults[at]
            if header.base_offset < end and not (fault is not None and _is_contradicted(copy, segment, at, fault)):
                yield header


def _is_contradicted(copy: CopyView, segment: Segment, at: int, fault: DataError) -> bool:
    """Whether damage right before batch number `at` of a segment states an offset at or above it, and nothing shows
    which of the two is wrong. A batch that begins where it ends shows it: two numbers that fit are no accident."""
    survey = copy.survey(segment)
    header = survey.header(at)
    if fault.offset is None or fault.offset < header.base_offset or survey.is_followed(at):
        return False
    expected = survey.header(at - 1).last_offset + 1 if at else segment.base_offset
    return not copy.is_misplaced_before(segment, fault, expected, header)


def _reaches(copy: CopyView, segment: Segment, offset: int) -> bool:
    """Whether a batch of the segment begins at an offset or above."""
    last = copy.survey(segment).last
    return last is not None and last.base_offset >= offset


class _Witness(NamedTuple):
    """A batch of a copy.

    is_doubtful: whether its neighbours contradict its leader epoch, or the checkpoint of its copy, or the same batch of
        another copy.
    """

    header: BatchHeader
    is_doubtful: bool


def _mark_doubtful(copy: CopyView, batches: Iterator[BatchHeader]) -> Iterator[_Witness]:
    """Marks batches of a copy whose leader epoch their neighbours contradict, or the copy's checkpoint. They come from
    the last to the first.

    Epochs never fall along a log, and no CRC covers them. Where one falls, it is in order again without the batch
    before the fall, or without the one after it. A batch without which it is may be wrong, and both may be. The one
    that has the epoch of the checkpoint is right. A broker notes an epoch before it appends the first batch of it
    (Kafka: UnifiedLog.append). So the last batch may be wrong if it alone has a later epoch than all lines. So it may
    be if another copy has the same batch with another epoch. It comes with the least epoch that is possible then: the
    one of the last line, or the next one if that one gave the offset to another batch, or the one of the batch before
    if that is later, or the earliest one that copies state for it. If the batch before is later than it, and than all
    lines too, both are doubtful.

    If the first batch that comes is doubtful, the one that follows it in the log stands in for it, before it.
    """
    noted = copy.epochs[-1][0] + int(copy.last_epoch.is_later) if copy.epochs else UNKNOWN
    batch = next(batches, None)
    after = following = None if batch is None else find_following(copy, batch)
    while batch is not None:
        before = next(batches, None)
        if copy.last_epoch.is_noted and _is_last(copy, batch):
            batch = batch._replace(leader_epoch=epoch_at(copy.epochs, batch.base_offset))
        first, epoch, last = (UNKNOWN if header is None else header.leader_epoch for header in (before, batch, after))
        falls = (epoch > last != UNKNOWN) or (first > epoch != UNKNOWN)
        is_unnoted = after is None and noted != UNKNOWN and max(first, noted) < epoch and _is_last(copy, batch)
        is_unnoted = is_unnoted and not copy.last_epoch.is_stated
        is_odd = (falls and (last == UNKNOWN or first <= last)) or (
            copy.last_epoch.is_disputed and _is_last(copy, batch)
        )
        is_doubtful = is_unnoted or (is_odd and epoch != epoch_at(copy.epochs, batch.base_offset))
        # else it or the one before is wrong, and no line says which
        is_led = noted != UNKNOWN and first <= max(epoch, noted)
        if is_doubtful and is_led and batch.base_offset >= copy.epochs[-1][1] and _is_last(copy, batch):
            batch, is_doubtful = batch._replace(leader_epoch=max(first, noted, copy.last_epoch.least)), False
        if is_doubtful and following is not None and after is following:
            yield _Witness(following, is_doubtful=False)
        yield _Witness(batch, is_doubtful)
        after, batch = batch, before


def find_following(copy: CopyView, batch: BatchHeader) -> BatchHeader | None:
    """Returns the batch of a copy after another one. None if nothing proves one."""
    header = copy.batch_at(batch.last_offset + 1)
    return header if header is not None and batch.base_offset < header.base_offset < copy.tail.end else None


def _is_last(copy: CopyView, batch: BatchHeader) -> bool:
    """Whether a batch is the last one of its copy."""
    last = copy.last_batch
    return last is not None and last.base_offset == batch.base_offset
