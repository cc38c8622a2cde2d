"""The same partition in several directories (replicas, overlapping copies, disks of one broker): every offset once.

Comes in: one partition's logs, one a directory. Goes out: one log, whose segments each have the offsets that they are
read for; segments that add nothing are `unused`. Nothing of this reads records, only each directory's last batches.

The choice, from the lowest offset on: of the directories that have the offset, the one that reaches furthest is read up
to its end, then the same from there. So a directory is read for one range of offsets, and ranges do not overlap. The
last of them is read to wherever its log ends, torn tail and all. Where no directory goes on, offsets are missing: a hole.

Raises PathError where the topic ids say that two directories are different topics of one name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.catalog import Hole, PartitionLog, Segment, Unused
from kafka_segment_source.checkpoints import read_topic_id
from kafka_segment_source.errors import PathError
from kafka_segment_source.files import InputFile
from kafka_segment_source.format import MAGIC_END, MAX_OFFSET
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.segment_view import SegmentView


def merge_replicas(logs: list[PartitionLog], options: ReadOptions, warnings: list[str]) -> list[PartitionLog]:
    """`logs`, sorted by partition, with one log a partition; a warning says which directory is read for what."""
    merged = []
    for _, group in groupby(logs, key=lambda log: log.topic_partition):
        copies = list(group)
        merged.append(copies[0] if len(copies) == 1 else _merge(copies, options, warnings))
    return merged


def choose(spans: Sequence[OffsetRange]) -> list[tuple[int, OffsetRange]]:
    """Which span is read for which offsets, in their order: (index into spans, range), ranges disjoint.

    Together they cover what the spans cover, from the lowest offset each time by the span that reaches furthest, the
    first of equals.
    """
    chosen: list[tuple[int, OffsetRange]] = []
    position = min((span.start for span in spans), default=0)
    while True:
        ahead = [at for at, span in enumerate(spans) if span.end > max(position, span.start)]
        if not ahead:
            return chosen
        position = max(position, min(spans[at].start for at in ahead))
        best = max((at for at in ahead if spans[at].start <= position), key=lambda at: (spans[at].end, -at))
        chosen.append((best, OffsetRange(position, spans[best].end)))
        position = spans[best].end


@dataclass(frozen=True, slots=True)
class _Run:
    """Segments of one directory that follow one another, and the offsets that they hold.

    is_whole: nothing but preallocated zeros follows the last batch that can be proven.
    """

    log: PartitionLog
    segments: tuple[Segment, ...]
    span: OffsetRange
    is_whole: bool


def _merge(copies: list[PartitionLog], options: ReadOptions, warnings: list[str]) -> PartitionLog:
    _refuse_different_topics(copies)
    runs = [run for log in copies for run in _runs(log, options)]
    chosen = choose([run.span for run in runs])
    compacted = any(log.compacted for log in copies)
    if not chosen:
        others = [
            Unused(each, _reason(each, run, [])) for run in runs if run.log is not copies[0] for each in run.segments
        ]
        return replace(copies[0], unused=(*copies[0].unused, *others), compacted=compacted)
    read_for = _without_gaps([(runs[at], offsets) for at, offsets in chosen])
    segments = [_narrowed(segment, part) for run, part in read_for for segment in run.segments if _holds(segment, part)]
    read = {segment.path for segment in segments}
    unused = [each for log in copies for each in log.unused]
    for run in runs:
        unused += [Unused(each, _reason(each, run, read_for)) for each in run.segments if each.path not in read]
    warnings.append(_explained(copies, read_for))
    warnings += [_cut_short(run) for run in runs if not run.is_whole and run is not read_for[-1][0]]
    holes = [_hole(runs[a], one.end, runs[b], other.start) for (a, one), (b, other) in pairwise(chosen)]
    return replace(
        read_for[0][0].log,
        segments=tuple(segments),
        offsets=OffsetRange(read_for[0][0].log.offsets.start, read_for[-1][0].log.offsets.end),
        compacted=compacted,
        is_whole=all(log.is_whole for log in copies),
        unused=tuple(unused),
        holes=tuple(hole for hole in holes if not (compacted or hole.offsets.is_empty)),
    )


def _refuse_different_topics(copies: list[PartitionLog]) -> None:
    """Replicas share their topic's id. A topic that was deleted and made again has another: its offsets are others."""
    ids = [(topic_id, log) for log in copies if (topic_id := read_topic_id(log.directory)) is not None]
    for (one, log), (other, another) in pairwise(ids):
        if one != other:
            raise PathError(
                f"{log.directory!r} and {another.directory!r} are different topics of one name: their topic ids are"
                f" {one} and {other}; give one of the directories"
            )


def _runs(log: PartitionLog, options: ReadOptions) -> list[_Run]:
    """The log's segments, apart where a file is empty, or where the path names single files and leaves out others."""
    runs: list[list[Segment]] = []
    for segment in log.segments:
        last = runs[-1][-1] if runs else segment
        follows = last.next_base_offset == segment.base_offset and last.size > 0
        if follows and (segment.size > 0 or segment.is_last):
            runs[-1].append(segment)
        else:
            runs.append([segment])
    return [_run(log, tuple(segments), options) for segments in runs]


def _run(log: PartitionLog, segments: tuple[Segment, ...], options: ReadOptions) -> _Run:
    first, last = segments[0], segments[-1]
    end = last.next_base_offset if last.size else last.base_offset
    is_whole = True
    if end is None:
        end, is_whole = _end(last, options)
    if any(segment.size for segment in segments):
        end = max(end, first.base_offset + 1)  # where nothing can be believed, reading has to say so
    return _Run(log, segments, OffsetRange(first.base_offset, end).intersect(log.offsets), is_whole)


def _end(last: Segment, options: ReadOptions) -> tuple[int, bool]:
    """The offset after the last batch that can be proven, and whether nothing but preallocated zeros follows it."""
    end, position = last.base_offset, 0
    with SegmentView(last, check_crcs=options.check_crcs, trust_indexes=options.trust_indexes) as view:
        for header in view.probe.walk(view.start_position(MAX_OFFSET)):
            if header is None:
                with InputFile(last.path) as file:
                    return end, not any(file.read_at(position, MAGIC_END))
            end, position = header.last_offset + 1, header.end
    return end, True


def _without_gaps(chosen: list[tuple[_Run, OffsetRange]]) -> list[tuple[_Run, OffsetRange]]:
    """Each range up to the next one's start, the last without an end: what follows an end that could be proven, a
    damaged batch perhaps, is not left out in silence."""
    ends = [*(offsets.start for _, offsets in chosen[1:]), chosen[-1][0].log.offsets.end]
    return [
        (run, OffsetRange(offsets.start, end).intersect(run.log.offsets))
        for (run, offsets), end in zip(chosen, ends, strict=True)
    ]


def _narrowed(segment: Segment, offsets: OffsetRange) -> Segment:
    return replace(segment, offsets=segment.offsets.intersect(offsets))


def _holds(segment: Segment, offsets: OffsetRange) -> bool:
    """Whether the segment may have some of these offsets, by names alone."""
    after = segment.next_base_offset
    return segment.base_offset < offsets.end and (after is None or after > offsets.start)


def _reason(segment: Segment, run: _Run, read_for: list[tuple[_Run, OffsetRange]]) -> str:
    """Why a segment is not read."""
    end = run.span.end if segment.next_base_offset is None else segment.next_base_offset
    own = OffsetRange(segment.base_offset, end).intersect(run.log.offsets)
    others = [other.log.directory for other, offsets in read_for if not own.intersect(offsets).is_empty]
    if segment.size == 0:
        return "empty file"
    if others and not own.is_empty:
        return f"the same offsets are read from {' and '.join(map(repr, dict.fromkeys(others)))}"
    return (
        f"none of its offsets is from {run.log.offsets.start} to {run.log.offsets.end - 1}, which its checkpoints allow"
    )


def _hole(before: _Run, end: int, after: _Run, start: int) -> Hole:
    why = f"{before.log.directory!r} ends before, {after.log.directory!r} begins after"
    return Hole(OffsetRange(end, start), why)


def _explained(copies: list[PartitionLog], read_for: list[tuple[_Run, OffsetRange]]) -> str:
    """Which directory is read for which offsets, in one sentence."""
    log = copies[0]
    found = f"partition {log.topic}-{log.partition} is found in {len(copies)} directories"
    if len({run.log.directory for run, _ in read_for}) == 1:
        return f"{found}: all its offsets are read from {read_for[0][0].log.directory!r}"
    parts = [f"{offsets.start} to {offsets.end - 1} from {run.log.directory!r}" for run, offsets in read_for[:-1]]
    last, offsets = read_for[-1]
    return f"{found}: offsets {', '.join(parts)}, those from {offsets.start} on from {last.log.directory!r}"


def _cut_short(run: _Run) -> str:
    return (
        f"{run.segments[-1].path!r} ends in bytes after offset {run.span.end - 1} that are no whole batch, torn or damaged;"
        " other directories are read for the offsets that follow"
    )
