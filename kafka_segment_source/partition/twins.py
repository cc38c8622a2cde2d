"""One batch in two copies at two offsets: no CRC covers the offset of a batch, so the other copy shows which is wrong.

Comes in: batches of one copy whose offsets contradict those around them, or that nothing proves. Goes out: whether
another copy has the same batch, by CRC and size, or what compaction has left of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.kafka_format import LOG_OVERHEAD, MAGIC_V2
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segments import Segment
from kafka_segment_source.partition.batch_pairs import walk_backward
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.strays import Stray
from kafka_segment_source.storage.files import InputFile

if TYPE_CHECKING:
    from kafka_segment_source.partition.survey import Rows

_HEADER = Struct(">qiibI")  # of a batch of magic 2: base offset, length, leader epoch, magic, CRC
_MOST_COMPARED = 10_000  # batches of another copy that may be the same


def leave_misplaced_end(copy: CopyView, others: Sequence[CopyView]) -> str | None:
    """Leaves out the copy's last batch if another copy proves that its offset is wrong. Returns a warning if so.

    The batch leaves a gap after the one before it, and no batch follows it to prove its offset. Another copy has the
    same batch inside the gap. Or the batch was believed against one before it that another copy has at its place.
    """
    tail, last = copy.tail, copy.tail.last
    if last is None or tail.expected is None:
        return None
    first = min(copy.rows(last) or (last.base_offset,)) if last.is_wrapper else last.base_offset
    if first <= tail.expected and not tail.strays:
        return None
    at_its_place = [other for other in others if other.has_at_its_place(last)]
    segment = copy.log.segments[-1]
    for other in others:
        gap = OffsetRange(tail.expected, first)
        header = None if other in at_its_place else _find_twin(copy, segment, last, other, gap)
        before = None if at_its_place or header is not None else _find_contradiction(copy, last, other)
        if header is None and before is None:
            continue
        is_cut = copy.policy.drop_malformed or (tail.damage is None and tail.before is None)
        log = copy.log
        if is_cut:  # FAILFAST reads on, to the damage around the batch
            log = replace(log, offsets=log.offsets.intersect(OffsetRange(end=tail.expected)))
        copy.leave_last_batch(log, is_held=header is not None)
        return (
            f"{segment.path!r} has a wrong offset at byte {last.position}: found {last.base_offset}, and"
            f" {other.log.directory!r} has the {_name_proof(header, before)}; it is read from there"
            + (
                f"; what lies behind it is not read here (mode=DROPMALFORMED): {tail.damage}"
                if is_cut and tail.damage is not None
                else ""
            )
        )
    copy.has_proven_end = bool(at_its_place)  # a copy of this copy proves nothing against a third one
    return None


def _find_contradiction(copy: CopyView, last: BatchHeader, other: CopyView) -> BatchHeader | None:
    """Returns a batch before the last one that was left out as the two contradict each other, and that another copy has
    at its place, or what compaction left of it."""
    segment = copy.log.segments[-1]
    may_follow = last.is_wrapper or last.base_offset <= (copy.tail.expected or 0)
    if may_follow and not _has_another(other, copy, segment, last):
        return None  # it may follow the batch before the one that was left out
    overlapping = (
        stray.batch
        for stray in copy.tail.strays
        if stray.batch.position < last.position and last.base_offset <= stray.batch.last_offset
    )
    return next((batch for batch in overlapping if is_in_place(copy, segment, batch, other)), None)


def _has_another(other: CopyView, copy: CopyView, segment: Segment, batch: BatchHeader) -> bool:
    """Whether another copy has something else at the last offset of a batch. A wrapper of magic 0 or 1 states only its
    last offset, so its records are read."""
    there = other.batch_at(batch.last_offset)
    if there is None or is_in_place(copy, segment, batch, other):
        return False
    first = min(other.rows(there) or (), default=None) if there.is_wrapper else there.base_offset
    return first is not None and first <= batch.last_offset


def _name_proof(twin: BatchHeader | None, before: BatchHeader | None) -> str:
    if twin is not None:
        return f"same batch at {twin.base_offset}"
    assert before is not None
    return f"batch before it at {before.base_offset}"


def has_damaged_twin(copy: CopyView, batch: BatchHeader) -> bool:
    """Whether a copy has damage that begins with the header of another copy's batch, but for one bit: then it is that
    batch.

    The header of magic 2 states base offset, length, leader epoch and CRC. Where just the offsets of the batch are
    missing, the base offset may be what is damaged.
    """
    segment = copy.segment_of(batch.base_offset)
    if segment is None or not segment.size or batch.magic != MAGIC_V2:
        return False
    places = [(place.start, place.gap) for place in copy.survey(segment).left_out_places()]
    if segment.is_last:  # a batch that the end of the file cuts was not left out
        places.append((copy.tail.position, OffsetRange(0, 0)))
    missing = OffsetRange(batch.base_offset, batch.last_offset + 1)
    length = batch.size - LOG_OVERHEAD
    header = _HEADER.pack(batch.base_offset, length, batch.leader_epoch, batch.magic, batch.crc)
    with InputFile(segment.path, segment.storage, segment.version) as file:
        found = [(bytes(file.read_at(start, len(header))), gap) for start, gap in places]
    return any(_is_same(read, header) or (gap == missing and read[8:] == header[8:]) for read, gap in found)


def _is_same(read: bytes, header: bytes) -> bool:
    """Whether two headers are the same, but for one bit."""
    return len(read) == len(header) and (int.from_bytes(read) ^ int.from_bytes(header)).bit_count() <= 1


def find_lost_strays(
    copy: CopyView, segment: Segment, strays: Sequence[Stray], others: Sequence[CopyView]
) -> Iterator[BatchHeader]:
    """Yields the batches that were left out of a segment of this copy, and that are lost.

    One is not lost if the same batch is at the offsets that it states, in any copy, or if the history of this copy has
    lost there. Before the last segment, any batch there makes up for it, but for one of an earlier leader epoch: it may
    come from another partition's file. Behind the end of a log no offset is proven, so there it does not. Nor is one
    lost if another copy has the same batch elsewhere, or if a gap at its place has room for it and no other copy has
    anything there, or if it has no records. Behind the first lost one, batches are not looked for elsewhere any more.
    No read of the segment meets a batch that the next file's name hides, so only a copy that is read there holds that
    one.
    """
    is_first = True
    counting = [other for other in others if not other.has_lost]
    for batch, gap in strays:
        is_gap = not gap.is_empty and not any(other.has_batches_in(gap) for other in others)
        is_explained = batch.count == 0 or is_gap
        stated = OffsetRange(batch.base_offset, batch.last_offset + 1)
        is_earlier = batch.last_offset < segment.base_offset
        is_other_file = copy.segment_of(batch.base_offset) != segment
        own = [header for header in copy.batches_in(stated) if is_other_file or header.position != batch.position]
        is_behind = batch.base_offset >= segment.span.end  # no read of the segment meets it
        holders = [other for other in others if not is_behind or batch.last_offset < other.log.offsets.end]
        is_stale = copy.has_lost and batch.base_offset >= copy.log.offsets.end
        is_held = is_stale or any(is_in_place(copy, segment, batch, other) for other in holders)
        is_held = is_held or any(_replaces(other, copy, batch) for other in counting)
        # two cleanings leave other records of one batch
        is_held = is_held or any(_is_rewritten_in(other, gap, copy, segment, batch) for other in counting)
        if segment.is_last:
            is_held = is_held or any((header.crc, header.size) == (batch.crc, batch.size) for header in own)
            is_held = is_held or (is_earlier and any(has_ends(other, batch) for other in counting))
        else:
            is_held = (
                is_held
                or bool(own)
                or any(other.has_batches_in(stated) and not has_earlier_epoch(other, batch) for other in counting)
            )
        if not (is_explained or is_held or (is_first and is_elsewhere(copy, segment, batch, holders))):
            is_first = False
            yield batch


def _replaces(other: CopyView, copy: CopyView, batch: BatchHeader) -> bool:
    """Whether another copy has a batch of a later leader at the offsets of a batch of this copy, whose last batch is of
    no later leader than that batch."""
    last = copy.last_batch
    there = other.batches_in(OffsetRange(batch.base_offset, batch.last_offset + 1))
    is_last_leader = last is not None and last.leader_epoch <= batch.leader_epoch
    return is_last_leader and any(0 <= batch.leader_epoch < header.leader_epoch for header in there)


def _is_rewritten_in(other: CopyView, gap: OffsetRange, copy: CopyView, segment: Segment, batch: BatchHeader) -> bool:
    """Whether a batch belongs into a gap that has room for it: another copy has a batch there of as many offsets, with
    no other record at any of them, and this copy does not state that one elsewhere in the segment."""
    elsewhere = {stray.batch.base_offset for stray in copy.all_strays_of(segment)}
    headers = () if gap.is_empty or batch.magic != MAGIC_V2 else other.headers_in(gap)
    return any(
        header.base_offset not in elsewhere and _may_be_rewritten(copy, segment, batch, other, header)
        for header in headers
    )


def has_ends(copy: CopyView, batch: BatchHeader) -> bool:
    """Whether a copy has a batch of the same leader epoch with the first and the last offset of another one, which
    compaction leaves to a batch of magic 2."""
    there = copy.batch_at(batch.base_offset)
    fields = batch.base_offset, batch.last_offset, batch.leader_epoch, MAGIC_V2
    return there is not None and (there.base_offset, there.last_offset, there.leader_epoch, there.magic) == fields


def find_hidden_batches(copies: Sequence[CopyView], near: OffsetRange) -> Iterator[tuple[Segment, list[OffsetRange]]]:
    """Yields segments with whole batches at offsets that their names do not leave to them, if these lie nowhere else:
    the next file has a lower name than its first batch, or this one a later name. Each has the offsets of these
    batches, joined. Only segments whose end is known to be damaged are looked at.

    near: the offsets around which segments are looked at.
    """
    for copy in copies:
        others = [other for other in copies if other is not copy]
        for segment in copy.segments_around(near):
            strays = copy.all_strays_of(segment) if copy.log.compacted else copy.strays_of(segment)
            strays = [stray for stray in strays if _is_hidden(copy, segment, stray)]
            hidden = join_batches(find_lost_strays(copy, segment, strays, others))
            if hidden:
                yield segment, hidden


def _is_hidden(copy: CopyView, segment: Segment, stray: Stray) -> bool:
    """Whether a batch that a segment has at a wrong place may belong where it says. In a last segment, that is before
    the end of the copy, where it has no others: nothing else ends that segment."""
    stated = OffsetRange(stray.batch.base_offset, stray.batch.last_offset + 1)
    return not segment.is_last or (stated.end <= copy.tail.end and not copy.has_batches_in(stated))


def find_replaced(copies: Sequence[CopyView], near: OffsetRange) -> Iterator[tuple[Segment, list[OffsetRange]]]:
    """Yields segments with batches whose place is in doubt, and whose offsets another copy has in batches of an
    earlier leader epoch: these may be the stale tail of that copy. They are not if a batch of a later leader follows
    them. No other copy has the batches. Each segment has their offsets, joined. Segments are looked at as
    `find_hidden_batches` does.
    """
    for copy in copies:
        others = [other for other in copies if other is not copy]
        for segment in () if copy.has_lost else copy.segments_around(near):
            replaced = [
                batch
                for batch in sorted(_find_doubtful(copy, segment), key=lambda batch: batch.base_offset)
                if _are_replaced_by(batch, [other for other in others if not other.has_lost])
                and not is_elsewhere(copy, segment, batch, others)
            ]
            if replaced:
                yield segment, join_batches(replaced)


def _are_replaced_by(batch: BatchHeader, others: Sequence[CopyView]) -> bool:
    """Whether other copies have batches of an earlier leader epoch at the offsets of a batch, and none of them goes on
    with a later leader, who kept these."""
    holders = [other for other in others if has_earlier_epoch(other, batch)]
    last = [next(walk_backward(other), None) for other in holders]
    return bool(holders) and not any(header is not None and header.leader_epoch > batch.leader_epoch for header in last)


def _find_doubtful(copy: CopyView, segment: Segment) -> list[BatchHeader]:
    """Returns the batches of a segment whose place may be wrong: its strays, and what follows damage. So may that of a
    damaged or torn batch at the end. It returns none of an earlier segment that was not read for its end."""
    strays = [stray.batch for stray in copy.all_strays_of(segment)]
    if segment.is_last:
        last = copy.tail.last if copy.tail.before is not None else None
        return [*strays, *(batch for batch in (last, copy.header_behind()) if batch is not None)]
    surveyed = copy.survey_of(segment)
    if surveyed is None:
        return strays
    return strays + [surveyed.header(at) for at, fault in enumerate(surveyed.faults[:-1]) if fault is not None]


def has_earlier_epoch(copy: CopyView, batch: BatchHeader) -> bool:
    """Whether a copy has a batch of an earlier leader epoch at the offsets of another one."""
    there = copy.batches_in(OffsetRange(batch.base_offset, batch.last_offset + 1))
    return any(0 <= header.leader_epoch < batch.leader_epoch for header in there)


def find_moved(copy: CopyView, near: OffsetRange, others: Sequence[CopyView]) -> list[OffsetRange]:
    """Returns the offsets of whole batches that lie in another segment of this copy than they belong to, and that
    another copy has at their place, or what compaction left of them: this copy holds nothing there, and its gap is no
    work of compaction."""
    return join_batches(
        batch
        for segment in copy.segments_around(near)
        for batch, _ in copy.strays_of(segment)
        if not is_in_place(copy, segment, batch, copy) and any(_gives(other, copy, segment, batch) for other in others)
    )


def find_whole_strays(copies: Sequence[CopyView], near: OffsetRange) -> Iterator[tuple[Segment, BatchHeader]]:
    """Yields whole batches at a wrong place in copies that are not compacted, where no copy has the same one at its
    place."""
    for copy in copies:
        for segment in () if copy.log.compacted else copy.segments_around(near):
            for batch, _ in copy.all_strays_of(segment):
                if not any(other.has_at_its_place(batch) for other in copies):
                    yield segment, batch


def _gives(other: CopyView, copy: CopyView, segment: Segment, batch: BatchHeader) -> bool:
    """Whether another copy has a batch of a segment of this copy at its place, and its history has not lost below."""
    return batch.last_offset < other.log.offsets.end and is_in_place(copy, segment, batch, other)


def join_batches(batches: Iterable[BatchHeader]) -> list[OffsetRange]:
    """Returns the offsets of batches, with neighbours joined."""
    joined: list[OffsetRange] = []
    for batch in batches:
        start = batch.base_offset
        if joined and joined[-1].end == start:
            start = joined.pop().start
        joined.append(OffsetRange(start, batch.last_offset + 1))
    return joined


def is_in_place(copy: CopyView, segment: Segment, batch: BatchHeader, other: CopyView) -> bool:
    """Whether another copy has a batch of a segment of this copy at its place, or what compaction left of it there."""
    there = other.batch_at(batch.base_offset) if other.log.segments else None
    is_same = there is not None and there.base_offset == batch.base_offset
    return there is not None and is_same and _is_twin(copy, segment, batch, other, there)


def is_elsewhere(copy: CopyView, segment: Segment, batch: BatchHeader, others: Sequence[CopyView]) -> bool:
    """Whether some of other copies has a batch of a segment of this copy, at its place or at any other one."""
    is_there = any(other.has_at_its_place(batch) for other in others)
    below = OffsetRange(end=segment.base_offset)
    return is_there or any(
        any(find_twins(copy, segment, batch, others, offsets)) for offsets in (OffsetRange(segment.base_offset), below)
    )


def find_twins(
    copy: CopyView,
    segment: Segment,
    batch: BatchHeader,
    others: Sequence[CopyView],
    offsets: OffsetRange | None = None,
) -> Iterator[BatchHeader]:
    """Yields the same batch as each of other copies has it, at any of these offsets. By default it is from the base
    offset of the segment on."""
    wanted = OffsetRange(segment.base_offset) if offsets is None else offsets
    twins = (_find_twin(copy, segment, batch, other, wanted) for other in others)
    return (twin for twin in twins if twin is not None)


def _find_twin(
    copy: CopyView, segment: Segment, batch: BatchHeader, other: CopyView, offsets: OffsetRange
) -> BatchHeader | None:
    """Returns the batch of another copy that is the same as `batch`, at one of these offsets."""
    headers = islice(other.headers_in(offsets), _MOST_COMPARED)
    return next((header for header in headers if _is_twin(copy, segment, batch, other, header)), None)


def _is_twin(copy: CopyView, segment: Segment, batch: BatchHeader, other: CopyView, header: BatchHeader) -> bool:
    """Whether two copies have the same batch at two offsets, or one of them has what compaction left of it.

    Compaction leaves each record its timestamp, key, value, and place in the batch.
    """
    if (header.crc, header.size) == (batch.crc, batch.size):
        return True
    fallen, others = _compare_places(copy, segment, batch, other, header)
    return bool(fallen and others) and (fallen.items() <= others.items() or others.items() <= fallen.items())


def _may_be_rewritten(
    copy: CopyView, segment: Segment, batch: BatchHeader, other: CopyView, header: BatchHeader
) -> bool:
    """Whether two batches of two copies, at two offsets, may be what two cleanings left of one batch."""
    fallen, others = _compare_places(copy, segment, batch, other, header)
    return bool(fallen and others) and all(others.get(offset, row) == row for offset, row in fallen.items())


def _compare_places(
    copy: CopyView, segment: Segment, batch: BatchHeader, other: CopyView, header: BatchHeader
) -> tuple[Rows, Rows]:
    """Returns the records of a batch, at the offsets of a batch of another copy, and the records of that one. Nothing
    if the two have not as many offsets. No CRC covers their leader epochs."""
    spans = header.last_offset - header.base_offset, batch.last_offset - batch.base_offset
    if spans[0] != spans[1]:
        return {}, {}
    # decoding a batch proves its offset by the names of its segment, and that is what is in doubt
    unnamed = segment._replace(base_offset=0 if batch.is_wrapper else batch.base_offset, next_base_offset=None)
    rows, risen = copy.rows_in(batch, unnamed) or {}, batch.base_offset - header.base_offset
    return {offset - risen: row for offset, row in rows.items()}, other.rows(header) or {}
