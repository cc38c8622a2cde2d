"""What should be there and is not: files that tell of offsets which no `.log` holds.

Comes in: partitions as listed, and the checkpoints beside them. Goes out: `Evidence`, hard where records are missing
for certain, else with the words for when it is harmless; and for each log its `Reach`, to be held against the end of
the files by whoever knows that (`beyond_end`). Nothing is opened but checkpoints, unless something looks wrong.

Hard: an index file with entries, without its `.log`, after the end of the log, between two segments of a log that is
not compacted, or where no segment is left. A broker removes the `.log` first and the index files at once after it, by
renaming them to `.deleted`; when it starts, it removes what a crash has left between the two
(LocalLog.deleteSegmentFiles, LogLoader.loadSegmentFiles). So the same file in two listings some time apart is no
deletion under way.

Perhaps harmless, so never an error:

- the same below the first segment: retention took the `.log` while the directory was copied;
- the same between segments of a compacted log: its records may be in the segment before, or be gone by rule;
- an index file without entries after the end of the log: its segment may have been empty;
- a high watermark, a recovery point or a `.snapshot` beyond the end of the files: a copy of a running broker's log, or
  a machine that lost its power. Kafka writes a `.snapshot` when it rolls and when it stops, at the end of the log then;
- a log start below the first segment: a checkpoint is a minute old at most when its broker runs, or the rest is in
  tiered storage (LogManager.checkpointLogStartOffsetsInDir);
- a partition in the high watermarks of a log directory without a directory there: copied without it. Brokers leave none
  out but those they delete, or move to another disk, and these have a directory of another name for a minute.

What a broker is writing to is left out: its last segment has grown, or another one follows by now.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from kafka_segment_source import format as fmt
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.logdir.catalog import is_selected
from kafka_segment_source.logdir.checkpoints import Checkpoints
from kafka_segment_source.logdir.indexes import read_offset_index, read_time_index, written_aborts
from kafka_segment_source.logdir.listing import list_beside
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import Evidence, ListedLog, Orphan, PartitionLog, Reach
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.storage import files
from kafka_segment_source.storage.files import file_version, list_directory
from kafka_segment_source.trust import Trust

PAUSE = 0.075  # s between two listings; a broker renames the files of one segment within a few ms
_MOST_NAMED = 5  # partitions in one sentence
_LARGEST_LOG = 2**31 - 1
_IN_A_COPY = "in a copy that was taken while the broker ran, or of a machine that lost its power"
_BY_RETENTION = "where retention has deleted them"
_BY_COMPACTION = "where compaction has moved or removed them"
_IF_EMPTY = "where that segment was empty"
_STALE_START = "where retention deleted them within the last minute of the broker, or they are in tiered storage"


def notice(
    logs: Sequence[PartitionLog], copies: Sequence[ListedLog], checkpoints: Checkpoints, seen: float
) -> list[PartitionLog]:
    """`logs`, one a partition, with their evidence and their reach.

    copies: the same as listed, one a directory; seen: when (time.monotonic). Waits once, shortly, where index files
    have no `.log`. Raises FileChangedError where segments appear in a directory that was listed without any.
    """
    by_partition: dict[TopicPartition, list[ListedLog]] = {}
    for copy in copies:
        if copy.is_whole:
            by_partition.setdefault(copy.topic_partition, []).append(copy)
    again = Checkpoints([])  # read anew, where a second look is wanted
    return [_noticed(log, by_partition.get(log.topic_partition, []), checkpoints, again, seen) for log in logs]


def beyond_end(log: PartitionLog, end: int) -> Evidence | None:
    """What lies between the end of the files and the offset that the log once reached; None where nothing does, or
    where the log is being written to."""
    reach = log.reach
    if reach is None or reach.offset <= end:
        return None
    _wait(reach.seen)
    if _has_gone_on(log):
        return None
    if reach.is_snapshot and list_beside(reach.directory).snapshot < reach.offset:
        return None  # it was of an end that a leader change has cut off
    return Evidence(OffsetRange(end, reach.offset), reach.what, _IN_A_COPY)


def _has_gone_on(log: PartitionLog) -> bool:
    """Whether the end of the log is another one than was listed."""
    if not log.segments:
        return list_beside(log.directory).last_base >= 0
    last = log.segments[-1]
    version = file_version(last.path)
    if version is None or version.size != last.size:
        return True
    return list_beside(os.path.dirname(last.path)).last_base > last.base_offset


def all_evidence(log: PartitionLog, end: int | None) -> tuple[Evidence, ...]:
    """All evidence about one log, whatever is wanted of it. end: of its files; None where that is not known."""
    beyond = None if end is None or end >= log.offsets.end else beyond_end(log, end)
    return log.evidence if beyond is None else (*log.evidence, beyond)


def lost_partitions(
    copies: Sequence[ListedLog], checkpoints: Checkpoints, options: ReadOptions, seen: float
) -> list[str]:
    """A sentence for each log directory that the paths name, about partitions of which it has a high watermark, but no
    directory. Internal topics are left out: backups often do without them."""
    if options.topic is not None or options.partition is not None:
        return []
    there = {copy.topic_partition for copy in copies}
    said = []
    for parent in dict.fromkeys(copy.log_directory for copy in copies if copy.log_directory is not None):
        candidates = [
            (topic, partition)
            for (topic, partition), offset in checkpoints.entries(parent, fmt.HIGH_WATERMARK_CHECKPOINT).items()
            if (topic, partition) not in there
            and not topic.startswith(fmt.INTERNAL_TOPIC_PREFIX)
            and offset > checkpoints.entries(parent, fmt.LOG_START_CHECKPOINT).get((topic, partition), 0)
            and is_selected((topic, partition), options.topics)
        ]
        lost = _without_directory(parent, candidates, seen) if candidates else []
        if lost:
            said.append(_lost_text(parent, lost))
    return said


def _lost_text(parent: str, lost: list[str]) -> str:
    more = f" and {len(lost) - _MOST_NAMED:,} more" if len(lost) > _MOST_NAMED else ""
    path = os.path.join(parent, fmt.HIGH_WATERMARK_CHECKPOINT)
    return (
        f"{path!r} lists {len(lost):,} {'partition' if len(lost) == 1 else 'partitions'} without a directory:"
        f" {', '.join(lost[:_MOST_NAMED])}{more}; harmless where they were left out on purpose"
    )


def _without_directory(parent: str, candidates: list[TopicPartition], seen: float) -> list[str]:
    """Those that still have no directory of any kind when they are looked for again, and still are in the
    checkpoint."""
    _wait(seen)
    names = {entry.name for entry in list_directory(parent)}
    dead = {name.rpartition(".")[0] for name in names if name.endswith(fmt.DEAD_DIRECTORY_SUFFIXES)}
    listed = Checkpoints([]).entries(parent, fmt.HIGH_WATERMARK_CHECKPOINT)
    return [
        f"{topic}-{partition}"
        for topic, partition in sorted(candidates)
        if (topic, partition) in listed and not {f"{topic}-{partition}"} & (names | dead)
    ]


# ---- one partition ----


def _noticed(
    log: PartitionLog, copies: list[ListedLog], checkpoints: Checkpoints, again: Checkpoints, seen: float
) -> PartitionLog:
    reaches = [reach for copy in copies for reach in _reaches(copy, checkpoints, seen)]
    reach = max(reaches, key=lambda each: each.offset, default=None)
    evidence = [*_log_starts(log, copies, checkpoints, again, seen)]
    orphans = [orphan for copy in copies if copy.beside.orphans for orphan in _still_there(copy, seen)]
    if orphans:
        start = max(checkpoints.log_start(copy) for copy in copies)
        compacted = log.compacted or any(checkpoints.is_cleaned(copy) for copy in copies)
        evidence += _orphaned(log, orphans, start, compacted)
    return replace(log, evidence=tuple(evidence), reach=reach) if evidence or reach is not None else log


def _reaches(copy: ListedLog, checkpoints: Checkpoints, seen: float) -> Iterable[Reach]:
    """Where the log of one directory once ended, or further on."""
    parent = os.path.dirname(copy.directory)
    for name, what in (
        (fmt.HIGH_WATERMARK_CHECKPOINT, "high watermark"),
        (fmt.RECOVERY_POINT_CHECKPOINT, "recovery point"),
    ):
        offset = checkpoints.entry(copy, name)
        if offset is not None:
            yield Reach(offset, f"the {what} is {offset} by {os.path.join(parent, name)!r}", copy.directory, seen)
    offset = copy.beside.snapshot
    if offset > copy.beside.last_base:
        path = os.path.join(copy.directory, f"{offset:0{fmt.BASE_OFFSET_DIGITS}d}{fmt.SNAPSHOT_SUFFIX}")
        yield Reach(offset, f"the log has reached {offset} by {path!r}", copy.directory, seen, is_snapshot=True)


def _log_starts(
    log: PartitionLog, copies: list[ListedLog], checkpoints: Checkpoints, again: Checkpoints, seen: float
) -> Iterable[Evidence]:
    """A log start below the first segment, now as before, without segments that were just deleted."""
    if not log.segments:
        return
    first = _starts(log)[0]
    for copy in copies:
        start = checkpoints.entry(copy, fmt.LOG_START_CHECKPOINT)
        if start is None or start >= first or copy.beside.has_deleted:
            continue
        _wait(seen)
        if again.entry(copy, fmt.LOG_START_CHECKPOINT) == start and not list_beside(copy.directory).has_deleted:
            path = os.path.join(os.path.dirname(copy.directory), fmt.LOG_START_CHECKPOINT)
            yield Evidence(OffsetRange(start, first), f"the log start is {start} by {path!r}", _STALE_START)


def _still_there(copy: ListedLog, seen: float) -> list[Orphan]:
    """The index files without a `.log` that a second listing shows too."""
    _wait(seen)
    now = list_beside(copy.directory)
    if not copy.segments and now.last_base >= 0:
        raise FileChangedError(f"path {copy.directory!r} has changed while it was listed; plan the read anew")
    paths = {orphan.path for orphan in now.orphans}
    return [orphan for orphan in copy.beside.orphans if orphan.path in paths]


def _orphaned(log: PartitionLog, orphans: list[Orphan], start: int, compacted: bool) -> Iterable[Evidence]:
    """What index files without a `.log` prove, one piece of evidence for those between two segments.

    start: the log start; offsets below it are gone by rule.
    """
    starts = _starts(log)
    in_order = sorted(orphans, key=lambda orphan: orphan.base_offset)
    for slot, group in groupby(in_order, key=lambda orphan: bisect_right(starts, orphan.base_offset)):
        is_after = slot == len(starts)
        reached = _end_offset(log, slot - 1) if slot else 0
        together = [orphan for orphan in group if orphan.base_offset >= reached]  # others: before a truncation or merge
        if not together:
            continue
        told = next((offset for orphan in reversed(together) if (offset := _last_offset(orphan)) is not None), None)
        first = max(together[0].base_offset, start)
        end = fmt.MAX_OFFSET if is_after else starts[slot]
        if told is None:
            if is_after and first == together[0].base_offset:
                yield Evidence(OffsetRange(first, first + 1), _orphans_text(together), _IF_EMPTY)
            continue
        offsets = OffsetRange(first, min(told + 1, end))
        if offsets.is_empty:
            continue
        harmless = None if is_after else _BY_RETENTION if slot == 0 else _BY_COMPACTION if compacted else None
        yield Evidence(offsets, _orphans_text(together), harmless)


def _orphans_text(orphans: list[Orphan]) -> str:
    segments = len({orphan.base_offset for orphan in orphans})
    if segments == 1:
        return f"{orphans[0].path!r} is there without the .log of its segment"
    return f"{orphans[0].path!r} and the index files of {segments - 1:,} more segments are there without their .log"


def _last_offset(orphan: Orphan) -> int | None:
    """The last offset that an index file says was in its segment; None if it says none."""
    path, base = orphan.path, orphan.base_offset
    if path.endswith(fmt.TIME_INDEX_SUFFIX):
        offsets = read_time_index(path, orphan.size, base, None).offsets
    elif path.endswith(fmt.INDEX_SUFFIX):
        offsets = read_offset_index(path, orphan.size, base, _LARGEST_LOG).offsets
    else:
        offsets = written_aborts(path, orphan.size).last_offsets
    return next((int(offset) for offset in offsets[-1:] if base <= offset < fmt.MAX_OFFSET), None)


def _starts(log: PartitionLog) -> list[int]:
    """The offset from which on each segment is read: its base, or more where another directory is read before."""
    return [max(segment.base_offset, segment.offsets.start) for segment in log.segments]


def _end_offset(log: PartitionLog, at: int) -> int:
    """The offset up to which segment number `at` is read, by its bytes.

    Damage at its end may hide that. Of several copies another one may hold what is damaged: only reading tells.
    """
    segment = log.segments[at]
    if log.end is not None and at + 1 == len(log.segments):
        return log.end
    with SegmentView(segment, Trust()) as view:
        end = segment.base_offset
        for header in view.headers_from(fmt.MAX_OFFSET):
            if header is None and log.copies:
                end = segment.span.end
        return min(max(end, view.end_offset()), segment.offsets.end)


def _wait(seen: float) -> None:
    """Waits until a listing of that time is old enough to be held against another one."""
    left = seen + PAUSE - time.monotonic()
    if left > 0:
        files.wait(left)
