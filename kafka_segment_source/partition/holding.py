"""How well each copy of a partition holds its offsets, in the words of `choice.py`.

Comes in: the copies. Goes out: spans of offsets, each with how well its copy holds it. Where copies agree on names and
sizes, these are trusted. Where they differ, the ends of the differing segments are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.kafka_format import MAGIC_V2
from kafka_segment_source.logdir.offset_proof import limit_of
from kafka_segment_source.logdir.segments import Segment
from kafka_segment_source.partition.choice import DAMAGED, HIDDEN, SECOND, THIN, THINNER, UNKNOWN, VOID, WHOLE
from kafka_segment_source.partition.copy_bytes import bytes_between
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.twins import find_lost_strays, find_moved, find_twins
from kafka_segment_source.storage.tiered.names import is_shown

_Key = tuple[int, int | None, int]
_Rated = tuple[OffsetRange, int]  # offsets, and how well a copy holds them


@dataclass(frozen=True, slots=True)
class HeldSpan:
    """Offsets that one copy holds equally well."""

    copy: int
    offsets: OffsetRange
    holding: int


def find_held_spans(at: int, copies: list[ListedCopy], near: OffsetRange) -> list[HeldSpan]:
    """Returns the spans of copy number `at` around `near`, in order."""
    own = copies[at]
    others = [other for other in copies if other is not own and other.copy.log.segments]
    alike = {base_offset for base_offset, _, _ in own.keys.intersection(*(other.keys for other in others))}
    sound = THIN if own.copy.log.compacted else WHOLE
    starts: list[int] = []  # of runs of neighbours that are held alike
    ends: list[int] = []
    holdings: list[int] = []
    for segment in own.copy.segments_around(near):
        if segment.base_offset in alike and segment.size and not segment.is_last:
            rated: Sequence[_Rated] = ((segment.span, sound),)
        else:
            rated = _rate_segment(own.copy, segment, others)
        for offsets, sound_holding in rated:
            if offsets.is_empty:
                continue
            holding = min(sound_holding, SECOND) if own.copy.has_lost else sound_holding
            if ends and (ends[-1], holdings[-1]) == (offsets.start, holding):
                ends[-1] = offsets.end
            else:
                starts.append(offsets.start)
                ends.append(offsets.end)
                holdings.append(holding)
    within = own.copy.log.offsets
    spans = [
        HeldSpan(at, OffsetRange(start, end).intersect(within), holding)
        for start, end, holding in zip(starts, ends, holdings, strict=True)
    ]
    for moved in find_moved(own.copy, near, [other.copy for other in others]):
        spans = [part for span in spans for part in _cut_out(span, moved)]
    return [span for span in spans if not span.offsets.is_empty]


def _cut_out(span: HeldSpan, offsets: OffsetRange) -> list[HeldSpan]:
    """Returns what is left of a span on both sides of some offsets."""
    sides = OffsetRange(end=offsets.start), OffsetRange(offsets.end)
    left = [span.offsets.intersect(side) for side in sides]
    return [replace(span, offsets=part) for part in left if not part.is_empty]


def _rate_segment(copy: CopyView, segment: Segment, others: list[ListedCopy]) -> Sequence[_Rated]:
    """Returns the offsets of a segment, and how well the copy holds them.

    Where the other copies agree, names decide. Otherwise the first batch and the end of the segment are read: its name
    may be lower than its first batch.
    """
    if not segment.size:
        return ()
    differing = [other for other in others if other.differs(segment)]
    if segment.is_last:
        tail = copy.tail
        if differing:
            copy.first_offset_of(segment)  # reads the file where its first batch is at a wrong place
        before_end = _rate_before_end(copy, segment, differing)
        if tail.damage is not None and not is_explained(copy, [other.copy for other in others]):
            return *before_end, (OffsetRange(tail.end), DAMAGED)
        return before_end
    following = segment.span.end
    if not differing:
        return ((segment.span, THIN if copy.log.compacted else WHOLE),)
    end = copy.end_of(segment)
    if end is None:  # damage hides it, and a missing segment may follow
        return tuple(_rate_between_damage(copy, segment, differing))
    end = min(max(end, segment.base_offset), following)
    first = min(_find_first_offset(copy, segment), end)
    held = (OffsetRange(first, end), _rate_density(copy, segment, end, differing, start=first))
    after = UNKNOWN if end < following and _begins_in_old_format(copy, segment) else VOID
    return (OffsetRange(segment.base_offset, first), VOID), held, (OffsetRange(end, following), after)


def _begins_in_old_format(copy: CopyView, segment: Segment) -> bool:
    """Whether the first batch of a segment is of magic 0 or 1. Behind these, nothing tells a missing file from
    compaction (`decoding/gaps.py`)."""
    first = copy.first_batch_of(segment)
    return first is not None and first.magic < MAGIC_V2


def _find_first_offset(copy: CopyView, segment: Segment) -> int:
    """Returns the offset of the first batch. If the name is lower, the segment before is looked at: it may have batches
    that only the name cuts off (`twins.find_hidden_batches`)."""
    first, surveyed = copy.first_offset_of(segment), copy.survey_of(segment)
    if surveyed is not None and surveyed.faults[0] is not None:
        return segment.base_offset  # the first batch is at a wrong place, or damage lies before it
    before = copy.segment_before(segment)
    if before is not None and first > segment.base_offset:
        copy.end_of(before)
    return first


def _rate_between_damage(copy: CopyView, segment: Segment, differing: list[ListedCopy]) -> Iterator[_Rated]:
    """Yields the offsets of a segment whose end damage hides, and how well they are held: what lies between damage
    counts by itself."""
    rest = min(_rate_density(copy, segment, segment.span.end, differing), HIDDEN)
    reached = segment.base_offset
    for run in copy.sound_runs(segment):
        yield OffsetRange(reached, run.start), rest
        yield run, _rate_density(copy, segment, run.end, differing, start=run.start)
        reached = run.end
    yield OffsetRange(reached, segment.span.end), rest


def _rate_before_end(copy: CopyView, segment: Segment, differing: list[ListedCopy]) -> Sequence[_Rated]:
    """Returns the offsets of a last segment, and how well they are held: UNKNOWN in an unproven gap.

    Only where another copy lacks an equal segment it matters where the first batch begins.
    """
    end, gap = copy.tail.end, copy.unproven_gap or OffsetRange(copy.tail.end, copy.tail.end)
    first = min(_find_first_offset(copy, segment), gap.start) if differing else segment.base_offset
    holding = _rate_density(copy, segment, end, differing, start=gap.end if first == gap.start else first)
    return (
        (OffsetRange(segment.base_offset, first), VOID),
        (OffsetRange(first, gap.start), holding),
        (gap, UNKNOWN),
        (OffsetRange(gap.end, end), holding),
    )


class ListedCopy:
    """The segments of a copy by names and sizes, to compare the segments of another one with."""

    def __init__(self, copy: CopyView) -> None:
        self.copy = copy
        self.keys = frozenset(_make_key(segment) for segment in copy.log.segments)

    def differs(self, segment: Segment) -> bool:
        """Whether this copy lacks an equal segment, but holds some offsets of that segment."""
        return _make_key(segment) not in self.keys and not self.common(segment, segment.span.end).is_empty

    def common(self, segment: Segment, end: int) -> OffsetRange:
        """Returns the offsets up to `end` that both hold, by their starts and ends."""
        bases = self.copy.log.segments
        return OffsetRange(segment.base_offset, end).intersect(OffsetRange(bases[0].base_offset, self.copy.end))

    def shared(self, segment: Segment, end: int) -> Iterator[OffsetRange]:
        """Yields the common offsets, one range for each segment of this copy, without the gaps after the segments. Of a
        segment whose end damage hides, it yields what lies between damage. A range may be empty."""
        common = self.common(segment, end)
        for own in self.copy.segments_in(common):
            if not own.size:
                continue
            held = common.intersect(own.span)
            if own.is_last:
                yield held
            elif (its_end := self.copy.end_of(own)) is not None:
                yield held.intersect(OffsetRange(end=its_end))
            else:
                yield from (held.intersect(run) for run in self.copy.sound_runs(own))


def _make_key(segment: Segment) -> _Key:
    return segment.base_offset, segment.next_base_offset, segment.size


def _rate_density(copy: CopyView, segment: Segment, end: int, differing: list[ListedCopy], start: int = 0) -> int:
    """Returns WHOLE, or THIN where compaction has removed records, or THINNER where it has removed more than elsewhere.

    Brokers copy batches byte for byte. So where copies have different bytes, or damage hides how many they had, their
    batches are looked at: a copy that has a record for every offset was not compacted. Bytes decide only between copies
    that both lack some: the cleaner may write batches larger, with a delete horizon (KIP-534). Those of magic 0 and 1
    do not state how many records there were. start: only offsets from this one on up to `end` are compared.
    """
    if copy.log.compacted:
        return THIN
    holding = WHOLE
    for other in differing:
        for shared in other.shared(segment, end):
            common = shared.intersect(OffsetRange(start))
            if common.is_empty:
                continue
            certain, most = bytes_between(copy, common)
            least, largest = bytes_between(other.copy, common)
            if certain == most == least == largest:
                continue
            is_lacking = _lacks_records(copy, common, knows_old=most >= least)
            if is_lacking and not _lacks_records(other.copy, common):
                holding = min(holding, THIN)
            elif is_lacking and most < largest:
                holding = min(holding, THIN if other.copy.log.compacted else THINNER)
    return holding


def find_lacking(copy: CopyView, offsets: OffsetRange, *, knows_old: bool = False) -> Iterator[OffsetRange]:
    """Yields parts of these offsets where a copy may lack a record. It reads the headers one by one.

    knows_old: whether batches of magic 0 and 1 lack nothing. Their headers do not tell.
    """
    reached = offsets.start
    for header in copy.batches_in(offsets):
        is_old = header.magic < MAGIC_V2
        if header.base_offset > reached and not (is_old and knows_old):
            yield OffsetRange(reached, header.base_offset)
        is_thinned = not knows_old if is_old else header.count <= header.last_offset - header.base_offset
        if is_thinned:
            yield OffsetRange(header.base_offset, header.last_offset + 1)
        reached = header.last_offset + 1
    if reached < offsets.end:
        yield OffsetRange(reached, offsets.end)


def _lacks_records(copy: CopyView, offsets: OffsetRange, *, knows_old: bool = False) -> bool:
    """Whether a copy may lack a record of these offsets that no known damage explains. A whole batch of as many offsets
    that lies at a wrong place explains a gap, but no batch that has lost some. knows_old: of `find_lacking`."""
    for lacking in find_lacking(copy, offsets, knows_old=knows_old):
        around = copy.segments_around(lacking)
        gaps = (place.gap for segment in around for place in copy.left_out_places(segment))
        strays = (stray.batch for segment in around for stray in copy.all_strays_of(segment))
        is_damage = any(gap.start <= lacking.start and lacking.end <= gap.end for gap in gaps)
        size = lacking.end - lacking.start
        is_moved = any(batch.last_offset - batch.base_offset + 1 == size for batch in strays)
        if not is_damage and (not is_moved or copy.has_batches_in(lacking)):
            return True
    return False


def is_explained(copy: CopyView, others: Sequence[CopyView]) -> bool:
    """Whether other copies hold everything that the damage at the end of this copy can have been.

    That is so if they have at least as many bytes after its last whole batch. Batches that the copy has twice count as
    such damage, as they may lie over others. If a last file has no others, nothing says how long it was. If its bytes
    are those of an earlier file, nothing in it is torn, and bytes alone decide. It is also so if the damage that
    remains after their bytes may end a log. Bytes of later offsets hold nothing of it. So one of them must have a batch
    where the damage begins, or show that compaction removed what was there. No segment of a tier ends in a torn batch.
    If its manifest cannot be used, nobody knows how many bytes it had. Then another upload of the same segment explains
    it, or a disk, as that ends after the tier.
    """
    if any(find_lost_strays(copy, copy.log.segments[-1], copy.tail.strays, others)):
        return False
    is_over = _has_other_batches_behind(copy, others)
    last = copy.log.segments[-1]
    is_foreign = copy.tail.last is None and bool(copy.tail.strays) and not copy.has_misplaced_end
    if is_foreign and is_over:
        return False
    is_earlier_file = is_foreign and _has_earlier_bytes(copy, others)
    if not copy.tail.is_torn and not is_over and not is_earlier_file:
        return True
    if last.is_of_unknown_size:
        if any(_is_same_upload(segment, last) for other in others for segment in other.log.segments):
            return True
        others = [other for other in others if not is_shown(other.log.directory)]
    damaged = copy.log.segments[-1].size - copy.tail.position
    reached, size = copy.tail.end, 0
    if all(_lacks(other, reached) for other in others):
        return False
    while size < damaged:
        there = [other for other in others if other.log.segments and other.start <= reached < other.end]
        if not there:
            break
        # of copies that reach equally far, one may lack segments: the one with the most bytes answers
        more = [(other.end, bytes_between(other, OffsetRange(reached, other.end))[1]) for other in there]
        reached, added = max(more)
        size += added
    size = max(size, _count_certain_bytes(others, copy.tail.end))
    may_be_torn = size > 0 and not is_earlier_file and not is_shown(copy.log.directory)
    return size >= damaged or (may_be_torn and _may_end_behind(copy, size, reached))


def _may_end_behind(copy: CopyView, size: int, offset: int) -> bool:
    """Whether the damage at the end of a copy's last file may end a log behind its first `size` bytes.

    Other copies hold so many bytes after the copy's last whole batch, up to `offset`. Where the damage is a chain
    of whole batches by their lengths, and no batch ends there, compaction has changed the number of bytes. Then
    none of these batches may state `offset` or a later one that a segment can hold. Nor may the copy have one of
    them at its place too: that one lies over another batch.
    """
    segment = copy.log.segments[-1]
    limit = limit_of(segment.base_offset, segment.next_base_offset)
    position, end = copy.tail.position + size, copy.tail.position
    with copy.open_view(segment) as view:
        ends, highest = {end}, -1
        while (header := view.probe.at(end)) is not None:
            if copy.has_at_its_place(header):
                return False
            end = header.end
            ends.add(end)
            if header.base_offset < limit:
                highest = max(highest, header.base_offset)
        if position in ends or len(ends) == 1 or not view.probe.is_legal_tail(end):
            return view.probe.is_legal_tail(position)
    return highest < offset


def _has_earlier_bytes(copy: CopyView, others: Sequence[CopyView]) -> bool:
    """Whether all batches of the last file are of offsets before its name, and no other file has some from there on:
    its name may be right, and its bytes are those of another file. But not if other copies have its first batch there:
    then its offsets are wrong."""
    last = copy.log.segments[-1]
    before = copy.segment_before(last)
    if before is not None:
        copy.end_of(before)  # reads the file where it has batches behind its end
    own = (stray.batch for segment in copy.log.segments for stray in copy.all_strays_of(segment))
    is_before = all(batch.last_offset < last.base_offset for batch in own)
    return is_before and not any(find_twins(copy, last, copy.tail.strays[0].batch, others))


def _has_other_batches_behind(copy: CopyView, others: Sequence[CopyView]) -> bool:
    """Whether batches that another file of the copy has, or another copy below the start of this one, lie behind its
    last batch: they may lie over others."""
    behind = [stray.batch for stray in copy.tail.strays if stray.batch.position >= copy.tail.position]
    foreign = [batch for batch in behind if batch.last_offset < copy.log.segments[0].base_offset]
    is_foreign = any(other.has_at_its_place(batch) for batch in foreign for other in others)
    return is_foreign or any(map(copy.has_at_its_place, behind))


def _count_certain_bytes(copies: Sequence[CopyView], start: int) -> int:
    """Returns the bytes that copies hold together from an offset on, where each may lack some segments."""
    held = [copy for copy in copies if copy.log.segments]
    edges = {start, *(copy.end for copy in held)}
    edges |= {segment.base_offset for copy in held for segment in copy.segments_in(OffsetRange(start))}
    parts = [OffsetRange(*pair) for pair in pairwise(sorted(edge for edge in edges if edge >= start))]
    return sum(max(bytes_between(copy, part)[0] for copy in held) for part in parts)


def _lacks(copy: CopyView, offset: int) -> bool:
    """Whether a copy has no batch at an offset, and nothing of its segment shows that compaction removed one."""
    gap = copy.unproven_gap
    if gap is not None and gap.start <= offset < gap.end:
        return True
    segment = copy.segment_of(offset)
    if segment is None or not segment.size or not copy.start <= offset < copy.end:
        return True
    if copy.log.compacted or copy.batch_at(offset) is not None:
        return False
    surveyed = copy.survey(segment)  # damage before the offset may hide a batch from the search
    return surveyed.first_from(offset) == surveyed.batches.shape[1] and not surveyed.shows_compaction(copy.tail.end)


def _is_same_upload(segment: Segment, broken: Segment) -> bool:
    """Whether a sound segment was uploaded from the same one as another of the same tier, by offset and stored size."""
    return (
        segment.base_offset == broken.base_offset
        and segment.stored_size == broken.stored_size
        and not segment.is_of_unknown_size
    )
