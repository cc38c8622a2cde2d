"""Makes one chain of segments from several copies of a partition (replicas, backups, disks of one broker).

The chain has every offset once. Comes in: one partition's logs, one per directory. Goes out: one log. Each of its
segments has the offsets that it is read for. Segments that add nothing are `unused`.

Where copies agree on names and sizes, these are trusted. Where they differ, the ends of the differing segments are
read. Records are read only behind a damaged end, and where copies contradict each other (`copy_view.py`,
`histories.py`).

The choice goes from the lowest offset on. It takes the copy that holds the offset best (`choice.py`). Of equal copies
it takes the one that reaches furthest. That copy is read up to its end, or up to where a better copy begins. So records
of a copy that was not compacted are not lost to a compacted copy. The last copy is read to the end of its log. Where no
copy continues, offsets are missing, which is a hole. Damage inside a segment is not known before the segment is read.
Then the other copies are searched (`mending.py`).

Raises PathError if the copies are of different topics of one name. Raises PathError too if copies contradict each other
and no epoch decides.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from kafka_segment_source.bounds import ALL_OFFSETS, OffsetRange
from kafka_segment_source.errors import PathError, StorageError
from kafka_segment_source.kafka_format import MAX_OFFSET
from kafka_segment_source.logdir.checkpoints import read_topic_id
from kafka_segment_source.logdir.segments import DropKind, DroppedSegment, Hole, ListedLog, PartitionLog, Segment
from kafka_segment_source.partition.choice import DAMAGED, SECOND, THIN, UNKNOWN, VOID, WHOLE, choose
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.foreign_segments import refuse_foreign_segments
from kafka_segment_source.partition.histories import explain_fence, find_doubts, find_fences
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.storage.ahead import map_ahead, requests_at_once
from kafka_segment_source.storage.tiered.names import is_shown
from kafka_segment_source.trust import Policy

_Key = tuple[int, int | None, int]
_Rated = tuple[OffsetRange, int]  # offsets, and how well a copy holds them


def merge_replicas(
    logs: list[PartitionLog], policy: Policy, warnings: Warnings, near: OffsetRange = ALL_OFFSETS
) -> list[PartitionLog]:
    """Returns `logs`, sorted by partition, with one log per partition. A warning states which directory serves which
    offsets.

    near: the offsets that the chain is needed for. The chain holds them, and one more segment on either side if a copy
        has one.
    """
    groups = [list(group) for _, group in groupby(logs, key=lambda log: log.topic_partition)]

    def merge(copies: list[PartitionLog]) -> tuple[PartitionLog, list[str]]:
        said = Warnings()
        return copies[0] if len(copies) == 1 else _merge_copies(copies, policy, said, near), said

    several = (log for copies in groups if len(copies) > 1 for log in copies)
    at_once = requests_at_once((log.storage, log.directory) for log in several)
    merged = []
    for log, said in map_ahead(merge, groups, at_once):
        merged.append(log)
        warnings += said
    return merged


def settle(copies: list[PartitionLog], policy: Policy, warnings: Warnings) -> list[CopyView]:
    """Returns the copies of one partition, each cut to the offsets where its history is valid.

    A warning states which copy loses which offsets. Raises PathError for copies of different topics, and for
    contradictions that no epoch decides.
    """
    _refuse_different_topics(copies)
    views = [CopyView(log, policy) for log in copies]
    at_once = requests_at_once((log.storage, log.directory) for log in copies)
    if at_once > 1:
        list(map_ahead(_read_both, views, at_once))
    views_left = _leave_unreadable(views, policy, warnings)
    for copy in views_left:
        said = copy.leave_misplaced_end([other for other in views_left if other is not copy])
        warnings.add_all([] if said is None else [said], "misplaced end")
    fences = find_fences(views_left)
    warnings.add_all(
        (copy.epochs_fault for copy in views_left if copy.epochs_fault is not None), "unusable leader epochs"
    )
    for fence in fences:
        warnings.add(explain_fence(views_left, fence), "a copy loses its end")
        loser = views_left[fence.loser]
        loser.has_lost = True
        loser.log = replace(loser.log, offsets=loser.log.offsets.intersect(OffsetRange(end=fence.end)))
    warnings.add_all(find_doubts(views_left), "doubtful copies")
    return views_left


def _read_both(copy: CopyView) -> None:
    """Reads what each copy is asked for: its epochs and its end. An error comes again when they are asked for."""
    with suppress(StorageError):
        _ = copy.epochs, copy.tail


def _leave_unreadable(copies: list[CopyView], policy: Policy, warnings: Warnings) -> list[CopyView]:
    """Returns the copies without last segments that cannot be read, where another copy has the same one.

    The same: as many bytes or more, from the same offset on. Without such a copy, the StorageError is raised. Of other
    segments the reading task finds out, and looks into the other copies (`mending.py`).
    """
    readable = []
    for copy in copies:
        try:
            _ = copy.tail  # reading it is the test
            readable.append(copy)
        except StorageError as error:
            last = copy.log.segments[-1]
            same = next((segment for other in copies if other is not copy for segment in _find_same(other, last)), None)
            if same is None:
                raise
            warnings.add(f"{error}: {same.path!r} is read instead", "another copy is read")
            unused = (
                *copy.log.unused,
                DroppedSegment(last, DropKind.IN_ANOTHER_COPY, f"cannot be read; {same.path} has the same records"),
            )
            readable.append(CopyView(replace(copy.log, segments=copy.log.segments[:-1], unused=unused), policy))
    return readable


def _find_same(copy: CopyView, segment: Segment) -> list[Segment]:
    """Returns the segment of a copy that holds at least what `segment` does, by its name and size, if it can be
    read."""
    same = [
        other for other in copy.log.segments if other.base_offset == segment.base_offset and other.size >= segment.size
    ]
    with suppress(StorageError):
        return same if copy.tail.end > segment.base_offset else []
    return []


@dataclass(frozen=True, slots=True)
class _Span:
    """Offsets that one copy holds equally well."""

    copy: int
    offsets: OffsetRange
    holding: int


def _merge_copies(logs: list[PartitionLog], policy: Policy, warnings: Warnings, near: OffsetRange) -> PartitionLog:
    copies = settle(logs, policy, warnings)
    fenced = tuple(
        (copy.log.directory, copy.log.offsets.end)
        for copy, log in zip(copies, logs, strict=True)
        if copy.log.offsets.end < log.offsets.end
    )
    refuse_foreign_segments(copies, near)
    logs = [copy.log for copy in copies]
    listed = [_ListedCopy(copy) for copy in copies]
    spans = [span for at in range(len(copies)) for span in _find_spans(at, listed, near)]
    picked = choose([span.offsets for span in spans], [span.holding for span in spans])
    chosen = _join_ranges([(spans[at].copy, offsets) for at, offsets in picked])
    compacted = any(log.compacted for log in logs)
    paths = tuple(dict.fromkeys(path for log in logs for path in list_paths(log)))
    unused = [segment for log in logs for segment in log.unused]
    if not chosen:
        nothing = OffsetRange(0, 0)
        unused += [
            _drop_unused(segment, copy, nothing, _Chain([])) for copy in copies[1:] for segment in copy.log.segments
        ]
        return replace(logs[0], unused=tuple(unused), compacted=compacted, copies=paths, fenced=fenced)
    holes = [_make_hole(logs[a], one.end, logs[b], other.start) for (a, one), (b, other) in pairwise(chosen)]
    parts = _close_gaps([(copies[at], offsets) for at, offsets in chosen])
    segments = [_narrow_segment(segment, part) for copy, part in parts for segment in copy.segments_in(part)]
    read = {segment.path for segment in segments}
    read_for = [(copy.log, part) for copy, part in parts]
    chain = _Chain(read_for)
    for copy in copies:
        within = OffsetRange(end=copy.tail.end).intersect(copy.log.offsets)
        unused += [
            _drop_unused(segment, copy, within, chain) for segment in copy.log.segments if segment.path not in read
        ]
    warnings.add(_explain_choice(logs, read_for), "several copies")
    cut = [copy for copy in copies if not copy.tail.is_clean and copy.log is not read_for[-1][0]]
    warnings.add_all((_explain_cut(copy, parts) for copy in cut), "a copy ends in damage")
    return replace(
        read_for[0][0],
        segments=tuple(segments),
        offsets=OffsetRange(read_for[0][0].offsets.start, read_for[-1][0].offsets.end),
        compacted=compacted,
        is_whole=all(log.is_whole for log in logs),
        unused=tuple(unused),
        holes=tuple(hole for hole in holes if not (compacted or hole.offsets.is_empty)),
        copies=paths,
        end=max(copy.end for copy in copies),
        fenced=fenced,
        late=_find_late([copies[at] for at in sorted({span.copy for span in spans})]),
        is_end_damaged=spans[picked[-1][0]].holding == DAMAGED,
    )


def _find_late(copies: list[CopyView]) -> tuple[tuple[str, int], ...]:
    """Returns the directories of the copies that begin after another one, each with its first offset.

    Tiers do not count. A broker deletes segments that a tier has, and keeps its producers. A broker that begins after a
    tier takes its producers from there (Kafka: TierStateMachine.buildProducerSnapshotFile).
    """
    starts = [(copy.log.directory, copy.start) for copy in copies if not is_shown(copy.log.directory)]
    first = min((start for _, start in starts), default=0)
    return tuple((directory, start) for directory, start in starts if start > first)


def list_paths(log: ListedLog) -> list[str]:
    """Returns the paths to list to find the copy again: its directory, or the files that the path names."""
    return [log.directory] if log.is_whole else [segment.path for segment in log.segments]


# ---- how well a copy holds its offsets ----


def _find_spans(at: int, copies: list[_ListedCopy], near: OffsetRange) -> list[_Span]:
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
    spans = (
        _Span(at, OffsetRange(start, end).intersect(within), holding)
        for start, end, holding in zip(starts, ends, holdings, strict=True)
    )
    return [span for span in spans if not span.offsets.is_empty]


def _rate_segment(copy: CopyView, segment: Segment, others: list[_ListedCopy]) -> Sequence[_Rated]:
    """Returns the offsets of a segment, and how well the copy holds them.

    Where the other copies agree, names decide. Otherwise the end of the segment is read.
    """
    if not segment.size:
        return ()
    differing = [other for other in others if other.differs(segment)]
    if segment.is_last:
        tail = copy.tail
        before_end = _leave_gap(copy, segment, _rate_density(copy, segment, tail.end, differing))
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
    held = (OffsetRange(segment.base_offset, end), _rate_density(copy, segment, end, differing))
    return held, (OffsetRange(end, following), VOID)


def _rate_between_damage(copy: CopyView, segment: Segment, differing: list[_ListedCopy]) -> Iterator[_Rated]:
    """Yields the offsets of a segment whose end damage hides, and how well they are held: what lies between damage
    counts by itself."""
    rest = _rate_density(copy, segment, segment.span.end, differing)
    reached = segment.base_offset
    for run in copy.sound_runs(segment):
        yield OffsetRange(reached, run.start), rest
        yield run, _rate_density(copy, segment, run.end, differing, sound_from=run.start)
        reached = run.end
    yield OffsetRange(reached, segment.span.end), rest


def _leave_gap(copy: CopyView, segment: Segment, holding: int) -> Sequence[_Rated]:
    """Returns the offsets of a last segment, and how well they are held: `holding`, or UNKNOWN in an unproven gap."""
    tail, gap = copy.tail, copy.unproven_gap
    if gap is None:
        return ((OffsetRange(segment.base_offset, tail.end), holding),)
    return (
        (OffsetRange(segment.base_offset, gap.start), holding),
        (gap, UNKNOWN),
        (OffsetRange(gap.end, tail.end), holding),
    )


class _ListedCopy:
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
        """Yields the common offsets, one range for each segment of this copy, without the gaps after the segments."""
        common = self.common(segment, end)
        for own in self.copy.segments_in(common):
            if not own.size:
                continue
            reached = None if own.is_last else self.copy.end_of(own)
            held = common.intersect(own.span)
            if reached is not None:
                held = held.intersect(OffsetRange(end=reached))
            if not held.is_empty:
                yield held


def _make_key(segment: Segment) -> _Key:
    return segment.base_offset, segment.next_base_offset, segment.size


def _rate_density(
    copy: CopyView, segment: Segment, end: int, differing: list[_ListedCopy], sound_from: int | None = None
) -> int:
    """Returns WHOLE, or THIN where compaction has removed records.

    Brokers copy batches byte for byte. So a copy with fewer bytes was compacted. If damage in the other copy hides how
    many bytes it had, the batches of this one decide. sound_from: the offsets from this one on up to `end` lie between
    damage, and none of its bytes count.
    """
    if copy.log.compacted:
        return THIN
    for other in differing:
        for shared in other.shared(segment, end):
            common = shared if sound_from is None else shared.intersect(OffsetRange(sound_from))
            if common.is_empty:
                continue
            certain, most = copy.bytes_between(common)
            most = most if sound_from is None else certain
            least, largest = other.copy.bytes_between(common)
            if most < least or (most < largest and copy.survey(segment).shows_compaction):
                return THIN
    return WHOLE


def is_explained(copy: CopyView, others: Sequence[CopyView]) -> bool:
    """Whether other copies hold everything that the damage at the end of this copy can have been.

    That is so if they have at least as many bytes after its last whole batch. It is also so if the damage that remains
    after their bytes may end a log. Bytes of later offsets hold nothing of it. So one of them must have a batch where
    the damage begins, or show that compaction removed what was there. No segment of a tier ends in a torn batch. If its
    manifest cannot be used, nobody knows how many bytes it had. Then another upload of the same segment explains it, or
    a disk, as that ends after the tier.
    """
    last = copy.log.segments[-1]
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
        more = [(other.end, other.bytes_between(OffsetRange(reached, other.end))[1]) for other in there]
        reached, added = max(more)
        size += added
    size = max(size, _count_certain_bytes(others, copy.tail.end))
    may_be_torn = size > 0 and not is_shown(copy.log.directory)
    return size >= damaged or (may_be_torn and copy.may_end_behind(size, reached))


def _count_certain_bytes(copies: Sequence[CopyView], start: int) -> int:
    """Returns the bytes that copies hold together from an offset on, where each may lack some segments."""
    held = [copy for copy in copies if copy.log.segments]
    edges = {start, *(copy.end for copy in held)}
    edges |= {segment.base_offset for copy in held for segment in copy.segments_in(OffsetRange(start))}
    parts = [OffsetRange(*pair) for pair in pairwise(sorted(edge for edge in edges if edge >= start))]
    return sum(max(copy.bytes_between(part)[0] for copy in held) for part in parts)


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
    return surveyed.first_from(offset) == surveyed.batches.shape[1] and not surveyed.shows_compaction


def _is_same_upload(segment: Segment, broken: Segment) -> bool:
    """Whether a sound segment was uploaded from the same one as another of the same tier, by offset and stored size."""
    return (
        segment.base_offset == broken.base_offset
        and segment.stored_size == broken.stored_size
        and not segment.is_of_unknown_size
    )


def _join_ranges(chosen: Sequence[tuple[int, OffsetRange]]) -> list[tuple[int, OffsetRange]]:
    """Joins neighbouring ranges of one copy."""
    joined: list[tuple[int, OffsetRange]] = []
    for copy, offsets in chosen:
        start = offsets.start
        if joined and (joined[-1][0], joined[-1][1].end) == (copy, start):
            start = joined.pop()[1].start
        joined.append((copy, OffsetRange(start, offsets.end)))
    return joined


# ---- the chain ----


def _refuse_different_topics(copies: list[PartitionLog]) -> None:
    """Raises PathError if the copies have different topic ids.

    Replicas share their topic's id. A topic that was deleted and created again has another id and other offsets.
    """
    ids = [(topic_id, log) for log in copies if (topic_id := read_topic_id(log.directory, log.storage)) is not None]
    for (one, log), (other, another) in pairwise(ids):
        if one != other:
            raise PathError(
                f"{log.directory!r} and {another.directory!r} are different topics of one name: their topic ids are"
                f" {one} and {other}; give one of the directories"
            )


def _close_gaps(chosen: list[tuple[CopyView, OffsetRange]]) -> list[tuple[CopyView, OffsetRange]]:
    """Extends each range to the start of the next one, and the last one without an end.

    Bytes after a proven end, perhaps a damaged batch, are so not skipped without a report.
    """
    ends = [*(offsets.start for _, offsets in chosen[1:]), MAX_OFFSET]
    return [
        (copy, OffsetRange(offsets.start, end).intersect(copy.log.offsets))
        for (copy, offsets), end in zip(chosen, ends, strict=True)
    ]


def _narrow_segment(segment: Segment, offsets: OffsetRange) -> Segment:
    return segment._replace(offsets=segment.offsets.intersect(offsets))


class _Chain:
    """Knows which directory is read for which offsets."""

    def __init__(self, read_for: list[tuple[PartitionLog, OffsetRange]]) -> None:
        self._read_for = read_for
        self._starts = [offsets.start for _, offsets in read_for]

    def directories(self, wanted: OffsetRange) -> list[str]:
        """Returns the directories that some of the offsets are read from."""
        first = max(bisect_right(self._starts, wanted.start) - 1, 0)
        parts = self._read_for[first : bisect_left(self._starts, wanted.end)]
        return [log.directory for log, offsets in parts if not wanted.intersect(offsets).is_empty]


def _drop_unused(segment: Segment, copy: CopyView, within: OffsetRange, chain: _Chain) -> DroppedSegment:
    """Returns why a segment is not read. within: the offsets that the copy holds."""
    if segment.size == 0:
        return DroppedSegment(segment, DropKind.EMPTY, DropKind.EMPTY.value)
    own = segment.span.intersect(within)
    others = () if own.is_empty else chain.directories(own)
    if others:
        reason = f"the same offsets are read from {' and '.join(map(repr, dict.fromkeys(others)))}"
        return DroppedSegment(segment, DropKind.IN_ANOTHER_COPY, reason)
    log = copy.log
    reason = (
        f"none of its offsets is from {log.offsets.start} to {log.offsets.end - 1}, which its checkpoints and its"
        " leaders' history allow"
    )
    return DroppedSegment(segment, DropKind.NOT_ALLOWED, reason)


def _make_hole(before: PartitionLog, end: int, after: PartitionLog, start: int) -> Hole:
    why = f"{before.directory!r} ends before, {after.directory!r} begins after"
    return Hole(OffsetRange(end, start), why)


def _explain_choice(copies: list[PartitionLog], read_for: list[tuple[PartitionLog, OffsetRange]]) -> str:
    """Returns one sentence about which directory is read for which offsets."""
    log = copies[0]
    said = f"partition {log.topic}-{log.partition} is found in {len(copies)} directories"
    if len({log.directory for log, _ in read_for}) == 1:
        return f"{said}: all its offsets are read from {read_for[0][0].directory!r}"
    parts = [f"{offsets.start} to {offsets.end - 1} from {log.directory!r}" for log, offsets in read_for[:-1]]
    last, offsets = read_for[-1]
    return f"{said}: offsets {', '.join(parts)}, those from {offsets.start} on from {last.directory!r}"


def _explain_cut(copy: CopyView, parts: Sequence[tuple[CopyView, OffsetRange]]) -> str:
    """Returns one sentence about a copy that ends in damage. parts: which copy is read for which offsets."""
    behind = OffsetRange(copy.tail.end)
    lost = {reader.log.directory for reader, part in parts if reader.has_lost and not part.intersect(behind).is_empty}
    thinned = f", and compaction may have removed records of them from {' and '.join(map(repr, sorted(lost)))}"
    where = f"after offset {copy.tail.end - 1}" if copy.tail.end > copy.start else f"from byte {copy.tail.position} on"
    return (
        f"{copy.log.segments[-1].path!r} ends in bytes {where} that are no whole batch, torn or damaged; other directories"
        f" are read for the offsets that follow{thinned if lost else ''}"
    )
