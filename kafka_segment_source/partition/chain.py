"""The same partition in several copies (replicas, backups, disks of one broker): one chain of segments, every offset
once.

Comes in: one partition's logs, one a directory. Goes out: one log, whose segments each have the offsets that they are
read for; segments that add nothing are `unused`. Names and sizes are believed where copies agree on them. Where they do
not, the ends of the segments in question are looked at; records are read only behind a damaged end, and where copies
contradict one another (`copy_view.py`, `histories.py`).

The choice, from the lowest offset on: the copy that holds the offset best (`choice.py`), and of these the one that
reaches furthest, up to its end or to where a better one begins. What a copy that was not compacted holds is so not
lost to one that was. The last one is read to wherever its log ends. Where no copy goes on, offsets are missing: a
hole. Damage inside a segment cannot be known before it is read: then the other copies are asked (`mending.py`).

Raises PathError where copies are of different topics of one name, or contradict one another and no epoch decides.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from kafka_segment_source.bounds import ALL_OFFSETS, OffsetRange
from kafka_segment_source.errors import PathError
from kafka_segment_source.format import MAX_OFFSET
from kafka_segment_source.logdir.checkpoints import read_topic_id
from kafka_segment_source.logdir.segments import Hole, PartitionLog, Segment, Unused
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.partition.choice import DAMAGED, THIN, VOID, WHOLE, choose
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.histories import explained, fenced_end, find_fences

_Key = tuple[int, int | None, int]


def merge_replicas(
    logs: list[PartitionLog], options: ReadOptions, warnings: list[str], near: OffsetRange = ALL_OFFSETS
) -> list[PartitionLog]:
    """`logs`, sorted by partition, with one log a partition; a warning says which directory is read for what.

    near: the offsets that the chain is needed for. It holds them, and a segment more on either side where copies have
    one.
    """
    merged = []
    for _, group in groupby(logs, key=lambda log: log.topic_partition):
        copies = list(group)
        merged.append(copies[0] if len(copies) == 1 else _merge(copies, options, warnings, near))
    return merged


def settle(copies: list[PartitionLog], options: ReadOptions, warnings: list[str]) -> list[CopyView]:
    """The copies of one partition, each up to where its history counts; a warning says which of them loses what.

    Raises PathError for copies of different topics, and for contradictions that no epoch decides.
    """
    _refuse_different_topics(copies)
    found = [CopyView(log, options) for log in copies]
    fences = find_fences(found)
    for at, copy in enumerate(found):
        own = [fence for fence in fences if fence.loser == at]
        if own:
            end = fenced_end(own)
            warnings.append(explained(copy, found[own[0].winner], end, own[0].epochs))
            copy.log = replace(copy.log, offsets=copy.log.offsets.intersect(OffsetRange(end=end)))
    return found


@dataclass(frozen=True, slots=True)
class _Span:
    """Offsets that one copy holds alike."""

    copy: int
    offsets: OffsetRange
    holding: int


def _merge(logs: list[PartitionLog], options: ReadOptions, warnings: list[str], near: OffsetRange) -> PartitionLog:
    copies = settle(logs, options, warnings)
    logs = [copy.log for copy in copies]
    spans = [span for at in range(len(copies)) for span in _spans(at, copies, near)]
    picked = choose([span.offsets for span in spans], [span.holding for span in spans])
    chosen = _joined([(spans[at].copy, offsets) for at, offsets in picked])
    compacted = any(log.compacted for log in logs)
    paths = tuple(dict.fromkeys(path for log in logs for path in _paths(log)))
    unused = [each for log in logs for each in log.unused]
    if not chosen:
        unused += [Unused(each, _reason(each, copy, _Chain([]))) for copy in copies[1:] for each in copy.log.segments]
        return replace(logs[0], unused=tuple(unused), compacted=compacted, copies=paths)
    holes = [_hole(logs[a], one.end, logs[b], other.start) for (a, one), (b, other) in pairwise(chosen)]
    parts = _without_gaps([(copies[at], offsets) for at, offsets in chosen])
    segments = [_narrowed(segment, part) for copy, part in parts for segment in copy.segments_in(part)]
    read = {segment.path for segment in segments}
    read_for = [(copy.log, part) for copy, part in parts]
    chain = _Chain(read_for)
    for copy in copies:
        unused += [Unused(each, _reason(each, copy, chain)) for each in copy.log.segments if each.path not in read]
    warnings.append(_explained(logs, read_for))
    warnings += [_cut_short(copy) for copy in copies if not copy.tail.is_clean and copy.log is not read_for[-1][0]]
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
        is_end_damaged=spans[picked[-1][0]].holding == DAMAGED,
    )


def _paths(log: PartitionLog) -> list[str]:
    """What to list to find the copy again: its directory, or the files that the path names."""
    return [log.directory] if log.is_whole else [segment.path for segment in log.segments]


# ---- how well a copy holds its offsets ----


def _spans(at: int, copies: list[CopyView], near: OffsetRange) -> list[_Span]:
    """What copy number `at` holds around some offsets, in order."""
    copy = copies[at]
    others = [other for other in copies if other is not copy and other.log.segments]
    listed = [_Listed(other) for other in others]
    spans: list[_Span] = []
    for segment in copy.segments_around(near):
        for offsets, holding in _held(copy, segment, listed):
            inside = offsets.intersect(copy.log.offsets)
            if inside.is_empty:
                continue
            if spans and (spans[-1].offsets.end, spans[-1].holding) == (inside.start, holding):
                inside = OffsetRange(spans.pop().offsets.start, inside.end)
            spans.append(_Span(at, inside, holding))
    return spans


def _held(copy: CopyView, segment: Segment, others: list[_Listed]) -> Iterator[tuple[OffsetRange, int]]:
    """The offsets of a segment, and how they are held: by names where the other copies agree, else by its end."""
    if not segment.size:
        return
    differing = [other for other in others if other.differs(segment)]
    if segment.is_last:
        tail = copy.tail
        yield OffsetRange(segment.base_offset, tail.end), _density(copy, segment, tail.end, differing)
        if tail.damage is not None and not is_explained(copy, [other.copy for other in others]):
            yield OffsetRange(tail.end), DAMAGED
        return
    following = segment.span.end
    if not differing:
        yield segment.span, THIN if copy.log.compacted else WHOLE
        return
    end = copy.end_of(segment)
    end = following if end is None else min(max(end, segment.base_offset), following)
    yield OffsetRange(segment.base_offset, end), _density(copy, segment, end, differing)
    yield OffsetRange(end, following), VOID


class _Listed:
    """Another copy's segments, for the question whether it says the same of some offsets."""

    def __init__(self, copy: CopyView) -> None:
        self.copy = copy
        self._keys = {_key(segment) for segment in copy.log.segments}

    def differs(self, segment: Segment) -> bool:
        """Whether this copy has something else than just such a segment where that one is."""
        return _key(segment) not in self._keys and not self.common(segment, segment.span.end).is_empty

    def common(self, segment: Segment, end: int) -> OffsetRange:
        """The offsets up to `end` that both hold, by their starts and ends."""
        bases = self.copy.log.segments
        return OffsetRange(segment.base_offset, end).intersect(OffsetRange(bases[0].base_offset, self.copy.end))

    def shared(self, segment: Segment, end: int) -> Iterator[OffsetRange]:
        """The same, a range for each segment of this copy, without the gaps after them."""
        common = self.common(segment, end)
        for each in self.copy.segments_in(common):
            if not each.size:
                continue
            reached = None if each.is_last else self.copy.end_of(each)
            held = common.intersect(each.span)
            yield held if reached is None else held.intersect(OffsetRange(end=reached))


def _key(segment: Segment) -> _Key:
    return segment.base_offset, segment.next_base_offset, segment.size


def _density(copy: CopyView, segment: Segment, end: int, differing: list[_Listed]) -> int:
    """WHOLE, or THIN where compaction has taken something: brokers copy batches byte for byte, so fewer bytes say
    so."""
    if copy.log.compacted:
        return THIN
    for other in differing:
        for common in other.shared(segment, end):
            if copy.bytes_between(common)[1] < other.copy.bytes_between(common)[0]:
                return THIN
    return WHOLE


def is_explained(copy: CopyView, others: Sequence[CopyView]) -> bool:
    """Whether other copies hold all that the damage at the end of one can have been: as many bytes from its last whole
    batch on, or so many that what is left of it may end a log."""
    damaged = copy.log.segments[-1].size - copy.tail.position
    reached, size = copy.tail.end, 0
    while size < damaged:
        there = [other for other in others if other.log.segments and other.start <= reached < other.end]
        if not there:
            break
        furthest = max(there, key=lambda other: other.end)
        size += furthest.bytes_between(OffsetRange(reached, furthest.end))[1]
        reached = furthest.end
    return size >= damaged or (size > 0 and copy.may_end_at(copy.tail.position + size))


def _joined(chosen: Sequence[tuple[int, OffsetRange]]) -> list[tuple[int, OffsetRange]]:
    """Ranges of one copy that follow one another made one."""
    joined: list[tuple[int, OffsetRange]] = []
    for copy, offsets in chosen:
        start = offsets.start
        if joined and (joined[-1][0], joined[-1][1].end) == (copy, start):
            start = joined.pop()[1].start
        joined.append((copy, OffsetRange(start, offsets.end)))
    return joined


# ---- the chain ----


def _refuse_different_topics(copies: list[PartitionLog]) -> None:
    """Replicas share their topic's id. A topic that was deleted and made again has another: its offsets are others."""
    ids = [(topic_id, log) for log in copies if (topic_id := read_topic_id(log.directory)) is not None]
    for (one, log), (other, another) in pairwise(ids):
        if one != other:
            raise PathError(
                f"{log.directory!r} and {another.directory!r} are different topics of one name: their topic ids are"
                f" {one} and {other}; give one of the directories"
            )


def _without_gaps(chosen: list[tuple[CopyView, OffsetRange]]) -> list[tuple[CopyView, OffsetRange]]:
    """Each range up to the next one's start, the last without an end: what follows an end that could be proven, a
    damaged batch perhaps, is not left out in silence."""
    ends = [*(offsets.start for _, offsets in chosen[1:]), MAX_OFFSET]
    return [
        (copy, OffsetRange(offsets.start, end).intersect(copy.log.offsets))
        for (copy, offsets), end in zip(chosen, ends, strict=True)
    ]


def _narrowed(segment: Segment, offsets: OffsetRange) -> Segment:
    return replace(segment, offsets=segment.offsets.intersect(offsets))


class _Chain:
    """Which directory is read for which offsets."""

    def __init__(self, read_for: list[tuple[PartitionLog, OffsetRange]]) -> None:
        self._read_for = read_for
        self._starts = [offsets.start for _, offsets in read_for]

    def directories(self, wanted: OffsetRange) -> list[str]:
        """The directories that some of the offsets are read from."""
        first = max(bisect_right(self._starts, wanted.start) - 1, 0)
        parts = self._read_for[first : bisect_left(self._starts, wanted.end)]
        return [log.directory for log, offsets in parts if not wanted.intersect(offsets).is_empty]


def _reason(segment: Segment, copy: CopyView, chain: _Chain) -> str:
    """Why a segment is not read."""
    log = copy.log
    own = segment.span.intersect(OffsetRange(end=copy.tail.end)).intersect(log.offsets)
    others = chain.directories(own)
    if segment.size == 0:
        return "empty file"
    if others and not own.is_empty:
        return f"the same offsets are read from {' and '.join(map(repr, dict.fromkeys(others)))}"
    return (
        f"none of its offsets is from {log.offsets.start} to {log.offsets.end - 1}, which its checkpoints and its"
        " leaders' history allow"
    )


def _hole(before: PartitionLog, end: int, after: PartitionLog, start: int) -> Hole:
    why = f"{before.directory!r} ends before, {after.directory!r} begins after"
    return Hole(OffsetRange(end, start), why)


def _explained(copies: list[PartitionLog], read_for: list[tuple[PartitionLog, OffsetRange]]) -> str:
    """Which directory is read for which offsets, in one sentence."""
    log = copies[0]
    found = f"partition {log.topic}-{log.partition} is found in {len(copies)} directories"
    if len({log.directory for log, _ in read_for}) == 1:
        return f"{found}: all its offsets are read from {read_for[0][0].directory!r}"
    parts = [f"{offsets.start} to {offsets.end - 1} from {log.directory!r}" for log, offsets in read_for[:-1]]
    last, offsets = read_for[-1]
    return f"{found}: offsets {', '.join(parts)}, those from {offsets.start} on from {last.directory!r}"


def _cut_short(copy: CopyView) -> str:
    return (
        f"{copy.log.segments[-1].path!r} ends in bytes after offset {copy.tail.end - 1} that are no whole batch, torn or"
        " damaged; other directories are read for the offsets that follow"
    )
