"""Makes one chain of segments from several copies of a partition (replicas, backups, disks of one broker).

The chain has every offset once. Comes in: one partition's logs, one per directory. Goes out: one log. Each of its
segments has the offsets that it is read for. Segments that add nothing are `unused`.

Records are read only behind a damaged end, and where copies contradict each other (`copy_view.py`, `histories.py`).

The choice goes from the lowest offset on. It takes the copy that holds the offset best (`holding.py`, `choice.py`). Of
equal copies it takes the one that reaches furthest. That copy is read up to its end, or up to where a better copy
begins. So records of a copy that was not compacted are not lost to a compacted copy. The last copy is read to the end
of its log. Where no copy continues, offsets are missing, which is a hole. Damage inside a segment is not known before
the segment is read. Then the other copies are searched (`mending.py`).

Raises PathError if the copies are of different topics of one name. Raises PathError too if copies contradict each other
and no epoch decides.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby, pairwise

from kafka_segment_source.bounds import ALL_OFFSETS, OffsetRange
from kafka_segment_source.errors import FileChangedError, PathError, StorageError
from kafka_segment_source.kafka_format import MAX_OFFSET, segment_file
from kafka_segment_source.logdir.checkpoints import read_topic_id
from kafka_segment_source.logdir.segments import DropKind, DroppedSegment, Hole, ListedLog, PartitionLog, Segment
from kafka_segment_source.partition.chain_warnings import warn_of_chain
from kafka_segment_source.partition.choice import DAMAGED, choose
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.doubts import find_doubts
from kafka_segment_source.partition.fences import explain_fence
from kafka_segment_source.partition.foreign_segments import refuse_foreign_segments
from kafka_segment_source.partition.histories import find_fences
from kafka_segment_source.partition.holding import ListedCopy, find_held_spans
from kafka_segment_source.partition.twins import (
    find_hidden_batches,
    find_replaced,
    leave_misplaced_end,
)
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.storage.ahead import map_ahead, requests_at_once
from kafka_segment_source.storage.retrying import Attempts
from kafka_segment_source.storage.tiered.names import is_shown
from kafka_segment_source.trust import Policy

_MERGES = 5  # most tries for one partition whose files change, in one try of a plan or a listing


ListAgain = Callable[[list[PartitionLog], Warnings], list[PartitionLog]]
"""Lists the copies of one partition as they are now, with the warnings about them. Raises FileChangedError if that is
not possible."""


def merge_replicas(
    logs: list[PartitionLog],
    policy: Policy,
    warnings: Warnings,
    list_again: ListAgain,
    near: OffsetRange = ALL_OFFSETS,
) -> list[tuple[PartitionLog, list[PartitionLog]]]:
    """Returns one log per partition, each with the copies that it is made of. A warning states which directory serves
    which offsets.

    Where a broker changes the files of one partition meanwhile, that one is listed again, and not all.

    logs: sorted by partition.
    near: the offsets that the chain is needed for. The chain holds them, and one more segment on either side if a copy
        has one.
    """
    groups = [list(group) for _, group in groupby(logs, key=lambda log: log.topic_partition)]

    def merge(copies: list[PartitionLog]) -> tuple[tuple[PartitionLog, list[PartitionLog]], list[str]]:
        attempts = Attempts(_MERGES - 1)
        while True:
            said = Warnings()
            try:
                if attempts.failed:
                    copies = list_again(copies, said)
                log = copies[0] if len(copies) == 1 else _merge_copies(copies, policy, said, near)
                return (log, copies), said
            except FileChangedError as error:
                attempts.note_failure(error)

    several = (log for copies in groups if len(copies) > 1 for log in copies)
    at_once = requests_at_once((log.storage, log.directory) for log in several)
    merged = []
    for partition, said in map_ahead(merge, groups, at_once):
        merged.append(partition)
        warnings.add_new(said)
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
        said = leave_misplaced_end(copy, [other for other in views_left if other is not copy])
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


def _merge_copies(logs: list[PartitionLog], policy: Policy, warnings: Warnings, near: OffsetRange) -> PartitionLog:
    copies = settle(logs, policy, warnings)
    fenced = tuple(
        (copy.log.directory, copy.log.offsets.end)
        for copy, log in zip(copies, logs, strict=True)
        if copy.log.offsets.end < log.offsets.end
    )
    refuse_foreign_segments(copies, near)
    logs = [copy.log for copy in copies]
    listed = [ListedCopy(copy) for copy in copies]
    spans = [span for at in range(len(copies)) for span in find_held_spans(at, listed, near)]
    picked = choose([span.offsets for span in spans], [span.holding for span in spans])
    chosen = _join_ranges([(spans[at].copy, offsets) for at, offsets in picked])
    compacted = any(log.compacted for log in logs)
    paths = tuple(dict.fromkeys(path for log in logs for path in list_paths(log)))
    unused = [segment for log in logs for segment in log.unused]
    if not chosen:
        nothing = OffsetRange(0, 0)
        blank = min(logs, key=lambda log: (len(log.segments), log.directory))  # whatever the order of the paths is
        unused += [
            _drop_unused(segment, copy, nothing, _Chain([]))
            for copy in copies
            if copy.log is not blank
            for segment in copy.log.segments
        ]
        return replace(blank, unused=tuple(unused), compacted=compacted, copies=paths, fenced=fenced)
    holes = [] if compacted else [*_cut_holes_before(chosen[0][1].start, logs)]
    for (a, before), (b, after) in pairwise(chosen):
        is_torn = before.end == copies[a].tail.end and not copies[a].tail.is_clean  # compaction leaves no such bytes
        if is_torn or not compacted:
            holes += _find_hole(copies[a], before.end, copies[b], after.start)
    holes += _find_misplaced(copies, near)
    holes += _find_torn_starts(copies, chosen[0][1].start)
    last = spans[picked[-1][0]]
    holes += [] if compacted else _find_hole_behind(copies, copies[last.copy])
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
    warn_of_chain(copies, near, parts, warnings)
    return replace(
        read_for[0][0],
        segments=tuple(segments),
        offsets=OffsetRange(read_for[0][0].offsets.start, read_for[-1][0].offsets.end),
        compacted=compacted,
        is_whole=all(log.is_whole for log in logs),
        unused=tuple(unused),
        holes=tuple(holes),
        copies=paths,
        end=max(copy.end for copy in copies),
        fenced=fenced,
        unmarked=tuple(log.directory for log in logs if not log.compacted),
        late=_find_late([copies[at] for at in sorted({span.copy for span in spans})]),
        end_damage=copies[last.copy].tail.damage if last.holding == DAMAGED else None,
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


def _find_hole(before: CopyView, end: int, after: CopyView, start: int) -> Iterator[Hole]:
    """Yields the offsets between two parts of the chain, if there are any."""
    offsets = OffsetRange(end, start)
    if offsets.is_empty:
        return
    why = f"{before.log.directory!r} has none of them"
    if before is not after:
        ends = "ends before" if before.tail.is_clean else "ends there in bytes that are no whole batch"
        why = f"{before.log.directory!r} {ends}, {after.log.directory!r} begins after"
    yield Hole(offsets, why)


def _cut_holes_before(end: int, copies: list[PartitionLog]) -> Iterator[Hole]:
    """Yields the holes of single copies below the first offset that is read, from the log start on, each offset once.

    No other copy fills them, as none begins below `end`. A log start is that of all copies (KIP-107).
    """
    start = max(log.offsets.start for log in copies)
    for hole in sorted((hole for log in copies for hole in log.holes), key=lambda hole: hole.offsets.start):
        offsets = hole.offsets.intersect(OffsetRange(start, end))
        if not offsets.is_empty:
            yield hole._replace(offsets=offsets)
            start = offsets.end


def _find_torn_starts(copies: Sequence[CopyView], start: int) -> Iterator[Hole]:
    """Yields the offsets of copies that begin below the first offset that is read, and that have bytes, but no whole
    batch."""
    for copy in copies:
        if copy.start < start and copy.tail.end <= copy.start and not copy.tail.is_clean:
            why = f"{copy.log.segments[-1].path!r} has bytes there, and no whole batch"
            yield Hole(OffsetRange(copy.start, start), why)


def _find_hole_behind(copies: Sequence[CopyView], last: CopyView) -> Iterator[Hole]:
    """Yields the offsets between the end of all copies with a whole batch, of which `last` is one, and a copy without
    any that begins behind them. The log went on to the name of its file, as retention leaves it of an idle topic."""
    blank = [copy for copy in copies if copy.tail.end <= copy.start]
    if blank:
        furthest = max(blank, key=lambda copy: copy.start)
        reached = max((copy.end for copy in copies if copy not in blank), default=furthest.start)
        yield from _find_hole(last, reached, furthest, furthest.start)


def _find_misplaced(copies: Sequence[CopyView], near: OffsetRange) -> Iterator[Hole]:
    """Yields the offsets of batches that lie at a wrong place, and that no copy has at their place. Compaction explains
    none of them."""
    for segment, hidden in find_hidden_batches(copies, near):
        yield from (Hole(offsets, _explain_hidden(segment, offsets)) for offsets in hidden)
    for segment, replaced in find_replaced(copies, near):
        why = f"{segment.path!r} has them in or beside damage, of a later leader epoch than the batches of another copy"
        yield from (Hole(offsets, why) for offsets in replaced)


def _explain_hidden(segment: Segment, offsets: OffsetRange) -> str:
    if offsets.end > segment.span.end:
        name = segment_file(segment.span.end)
        return f"{segment.path!r} has them, although the next file, {name}, begins there by its name"
    later = ", and is named after a later offset" if offsets.start < segment.span.start else ""
    return f"{segment.path!r} has them at a wrong place{later}"
