"""Finds evidence of missing records: files that mention offsets which no `.log` holds.

Comes in: partitions as listed, and the checkpoints beside them. Goes out: `Evidence`. It is hard if records are missing
for certain. Otherwise it has words that state when it is harmless. Each log also gets its `Reach`. A caller that knows
the end of the files compares the two (`beyond_end`). Only checkpoints are opened, unless something looks wrong.

Hard evidence is an index file with entries, without its `.log`, in one of three places. These are after the end of the
log, between two segments of a log that is not compacted, and where no segment is left.

A broker renames the `.log` to `.deleted` first and the index files right after it. When it starts, it removes what a
crash left between these two steps (LocalLog.deleteSegmentFiles, LogLoader.loadSegmentFiles). So if two listings some
time apart show the same file, no deletion is under way.

The following may be harmless, and so is never an error:

- Such an index file below the first segment. Retention removed the `.log` while the directory was copied.
- Such an index file between segments of a compacted log. Its records may be in the segment before, or compaction may
  have removed them.
- An index file without entries after the end of the log. Its segment may have been empty.
- A high watermark, a recovery point, a `.snapshot` or the start of a leader epoch beyond the end of the files. The log
  is a copy from a running broker, or of a machine that lost its power. Kafka writes a `.snapshot` when it rolls and
  when it stops, at the end of the log at that time. A broker notes a leader epoch at the end of the log. Of several
  copies, `histories.py` compares what they note.
- A log start below the first segment. While its broker runs, a checkpoint is at most a minute old. Or the missing
  records are in tiered storage (LogManager.checkpointLogStartOffsetsInDir).
- A partition in the high watermarks of a log directory that has no directory there. The copy does not include it.
  Brokers omit only directories that they delete, or move to another disk. For a minute these have a directory of
  another name.

A log that a broker is writing to gives no evidence about its end. Its last segment has grown, or another one follows.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import FileChangedError, StorageError
from kafka_segment_source.logdir.checkpoints import Checkpoints
from kafka_segment_source.logdir.indexes import find_last_offset
from kafka_segment_source.logdir.leader_epochs import read_epochs
from kafka_segment_source.logdir.listing import list_beside
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import Evidence, ListedLog, Orphan, PartitionLog, Reach
from kafka_segment_source.logdir.topic_choice import is_selected
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.reporting import Warnings, few, name_some
from kafka_segment_source.source import Source
from kafka_segment_source.storage import retrying
from kafka_segment_source.storage.files import file_version, list_directory
from kafka_segment_source.storage.paths import join_path, parent_of
from kafka_segment_source.storage.store import Storage
from kafka_segment_source.trust import Trust

PAUSE = 0.075  # s between two listings; a broker renames the files of one segment within a few ms
_MOST_NAMED = 5  # most partitions that one sentence names
_IN_A_COPY = "in a copy that was taken while the broker ran, or of a machine that lost its power"
_BY_RETENTION = "where retention has deleted them"
_BY_COMPACTION = "where compaction has moved or removed them"
_IN_OTHERS = "where the other copy, which is read instead, holds them"
_IF_EMPTY = "where that segment was empty"
_STALE_START = "where retention deleted them within the last minute of the broker, or they are in tiered storage"


def notice(
    logs: Sequence[PartitionLog], copies: Sequence[ListedLog], checkpoints: Checkpoints, seen: float
) -> list[PartitionLog]:
    """Returns `logs`, one per partition, with their evidence and their reach.

    It waits once for a short time if index files have no `.log`. Raises FileChangedError if segments appear in a
    directory that was listed without any.

    copies: the same logs as listed, one per directory.
    seen: when they were listed (time.monotonic).
    """
    by_partition: dict[TopicPartition, list[ListedLog]] = {}
    for copy in copies:
        if copy.is_whole:
            by_partition.setdefault(copy.topic_partition, []).append(copy)
    again = Checkpoints(Warnings(), checkpoints.storage)  # reads the files again for a second look
    return [_add_evidence(log, by_partition.get(log.topic_partition, []), checkpoints, again, seen) for log in logs]


def beyond_end(log: PartitionLog, end: int) -> Evidence | None:
    """Returns evidence of offsets between the end of the files and the offset that the log once reached.

    None if there are none, or if a broker is writing to the log.
    """
    noted = _find_last_epoch(log) if not log.copies and log.is_whole else None
    reaches = [reach for reach in (log.reach, noted) if reach is not None]
    reach = max(reaches, key=lambda reach: reach.offset, default=None)
    if reach is None or reach.offset <= end:
        return None
    _wait_after(reach.seen)
    if _has_gone_on(log):
        return None
    if reach.is_snapshot and list_beside(reach.directory, log.storage).snapshot < reach.offset:
        return None  # its offsets were truncated after a change of leader
    return Evidence(OffsetRange(end, reach.offset), reach.what, _IN_A_COPY)


def _find_last_epoch(log: PartitionLog) -> Reach | None:
    """Returns where the last leader epoch began, by the checkpoint beside a log. None if it has none, or if the storage
    does not give it: no row depends on it."""
    try:
        epochs, _ = read_epochs(log.directory, log.storage)
    except StorageError:
        return None
    if not epochs:
        return None
    epoch, start = epochs[-1]
    path = join_path(log.directory, kafka_format.LEADER_EPOCH_CHECKPOINT)
    return Reach(start, f"leader epoch {epoch} began at {start} by {path!r}", log.directory, time.monotonic())


def _has_gone_on(log: PartitionLog) -> bool:
    """Whether the end of the log has changed since it was listed."""
    if not log.segments:
        return list_beside(log.directory, log.storage).last_base >= 0
    last = log.segments[-1]
    version = file_version(last.path, log.storage)
    if version is None or version.size != last.size:
        return True
    return list_beside(parent_of(last.path), log.storage).last_base > last.base_offset


def all_evidence(log: PartitionLog, end: int | None) -> tuple[Evidence, ...]:
    """Returns all evidence about one log, for all its offsets. end: the end of its files, or None if it is not
    known."""
    beyond = None if end is None or end >= log.offsets.end else beyond_end(log, end)
    return log.evidence if beyond is None else (*log.evidence, beyond)


def sum_up(said: Iterable[tuple[Evidence, str]]) -> list[str]:
    """Returns one sentence for each piece of hard evidence, and one for all pieces that are harmless for one reason.

    said: the evidence about any number of partitions, each piece with its sentence.
    """
    by_reason: dict[str, list[str]] = {}
    for evidence, sentence in said:
        by_reason.setdefault(evidence.harmless or sentence, []).append(sentence)
    return [sentence for alike in by_reason.values() for sentence in few(alike, most=1)]


def report_lost_partitions(
    copies: Sequence[ListedLog], checkpoints: Checkpoints, source: Source, seen: float, warnings: Warnings
) -> None:
    """Warns once of each log directory in the paths that has high watermarks of partitions without a directory.

    Internal topics are left out, as backups often omit them.
    """
    if source.topic is not None or source.partition is not None:
        return
    there = {copy.topic_partition for copy in copies}
    for parent in dict.fromkeys(copy.log_directory for copy in copies if copy.log_directory is not None):
        candidates = [
            (topic, partition)
            for (topic, partition), offset in checkpoints.entries(
                parent, kafka_format.HIGH_WATERMARK_CHECKPOINT
            ).items()
            if (topic, partition) not in there
            and not topic.startswith(kafka_format.INTERNAL_TOPIC_PREFIX)
            and offset > checkpoints.entries(parent, kafka_format.LOG_START_CHECKPOINT).get((topic, partition), 0)
            and is_selected((topic, partition), source.topics)
        ]
        lost = _find_lost(parent, candidates, seen, checkpoints.storage) if candidates else []
        if lost:
            warnings.add(_explain_lost(parent, lost), "partitions without a directory")


def _explain_lost(parent: str, lost: list[str]) -> str:
    path = join_path(parent, kafka_format.HIGH_WATERMARK_CHECKPOINT)
    return (
        f"{path!r} lists {len(lost):,} {'partition' if len(lost) == 1 else 'partitions'} without a directory:"
        f" {name_some(lost, _MOST_NAMED)}; harmless where they were left out on purpose"
    )


def _find_lost(parent: str, candidates: list[TopicPartition], seen: float, storage: Storage) -> list[str]:
    """Returns the candidates that a second look confirms.

    They still have no directory of any kind, and the checkpoint still lists them.
    """
    _wait_after(seen)
    names = {entry.name for entry in list_directory(parent, storage)}
    dead = {name.rpartition(".")[0] for name in names if name.endswith(kafka_format.DEAD_DIRECTORY_SUFFIXES)}
    listed = Checkpoints(Warnings(), storage).entries(parent, kafka_format.HIGH_WATERMARK_CHECKPOINT)
    return [
        f"{topic}-{partition}"
        for topic, partition in sorted(candidates)
        if (topic, partition) in listed and not {f"{topic}-{partition}"} & (names | dead)
    ]


# ---- one partition ----


def _add_evidence(
    log: PartitionLog, copies: list[ListedLog], checkpoints: Checkpoints, again: Checkpoints, seen: float
) -> PartitionLog:
    ends = dict(log.fenced)  # a later leader decides what follows
    reaches = [
        reach
        for copy in copies
        for reach in _find_reaches(copy, checkpoints, seen)
        if reach.offset <= ends.get(copy.directory, reach.offset)
    ]
    reach = max(reaches, key=lambda reach: reach.offset, default=None)
    evidence = [*_check_log_starts(log, copies, checkpoints, again, seen)]
    orphans = [
        orphan
        for copy in copies
        for orphan in _list_again(copy, seen)
        if orphan.base_offset < ends.get(copy.directory, kafka_format.MAX_OFFSET)
        and not (orphan.has_empty_log and any(orphan.base_offset in hole.offsets for hole in log.holes))
    ]
    if orphans:
        start = max(checkpoints.log_start(copy) for copy in copies)
        compacted = log.compacted or any(checkpoints.is_cleaned(copy) for copy in copies)
        evidence += _check_orphans(log, orphans, start, compacted)
        last_bases = {copy.directory: copy.beside.last_base for copy in copies}
        if log.copies:
            evidence += _check_seams(log, orphans, start, compacted, last_bases)
            evidence += _name_emptied(log, orphans, start)
    return replace(log, evidence=tuple(evidence), reach=reach) if evidence or reach is not None else log


def _find_reaches(copy: ListedLog, checkpoints: Checkpoints, seen: float) -> Iterable[Reach]:
    """Yields offsets up to which the log of one directory once reached."""
    parent = parent_of(copy.directory)
    for name, what in (
        (kafka_format.HIGH_WATERMARK_CHECKPOINT, "high watermark"),
        (kafka_format.RECOVERY_POINT_CHECKPOINT, "recovery point"),
    ):
        offset = checkpoints.entry(copy, name)
        if offset is not None:
            yield Reach(offset, f"the {what} is {offset} by {join_path(parent, name)!r}", copy.directory, seen)
    offset = copy.beside.snapshot
    if offset > copy.beside.last_base:
        path = join_path(copy.directory, kafka_format.segment_file(offset, kafka_format.SNAPSHOT_SUFFIX))
        yield Reach(offset, f"the log has reached {offset} by {path!r}", copy.directory, seen, is_snapshot=True)


def _check_log_starts(
    log: PartitionLog, copies: list[ListedLog], checkpoints: Checkpoints, again: Checkpoints, seen: float
) -> Iterable[Evidence]:
    """Yields evidence of a log start below the first segment.

    The checkpoint must have the same log start in a second look. The directory must have no segments that were just
    deleted.
    """
    if not log.segments:
        return
    first = _list_starts(log)[0]
    for copy in copies:
        start = checkpoints.entry(copy, kafka_format.LOG_START_CHECKPOINT)
        if start is None or start >= first or copy.beside.has_deleted:
            continue
        _wait_after(seen)
        if (
            again.entry(copy, kafka_format.LOG_START_CHECKPOINT) == start
            and not list_beside(copy.directory, copy.storage).has_deleted
        ):
            path = join_path(parent_of(copy.directory), kafka_format.LOG_START_CHECKPOINT)
            yield Evidence(OffsetRange(start, first), f"the log start is {start} by {path!r}", _STALE_START)


def _list_again(copy: ListedLog, seen: float) -> list[Orphan]:
    """Lists a directory again, and returns the index files without a `.log` that this listing shows too.

    Of those beside an empty `.log`, only the ones with an entry count: a new segment has none yet.
    """
    listed = [
        orphan for orphan in copy.beside.orphans if not orphan.has_empty_log or read_last_offset(orphan) is not None
    ]
    if not listed:
        return []
    _wait_after(seen)
    now = list_beside(copy.directory, copy.storage)
    if not copy.segments and now.last_base >= 0:
        raise FileChangedError(f"path {copy.directory!r} has changed while it was listed; plan the read again")
    paths = {orphan.path for orphan in now.orphans}
    return [orphan for orphan in listed if orphan.path in paths]


def _check_orphans(log: PartitionLog, orphans: list[Orphan], start: int, compacted: bool) -> Iterable[Evidence]:
    """Yields what index files without a `.log` prove. Those between the same two segments give one piece of evidence.

    start: the log start. Offsets below it were deleted on purpose.
    """
    starts = _list_starts(log)
    in_order = sorted(orphans, key=lambda orphan: orphan.base_offset)
    for slot, group in groupby(in_order, key=lambda orphan: bisect_right(starts, orphan.base_offset)):
        is_after = slot == len(starts)
        reached = _find_end_offset(log, slot - 1) if slot else 0
        # orphans below `reached` are from before a truncation or merge
        together = [orphan for orphan in group if orphan.base_offset >= reached]
        if not together:
            continue
        latest = next(
            (offset for orphan in reversed(together) if (offset := read_last_offset(orphan)) is not None), None
        )
        first = max(together[0].base_offset, start)
        end = kafka_format.MAX_OFFSET if is_after else starts[slot]
        if latest is None:
            if is_after and first == together[0].base_offset:
                yield Evidence(OffsetRange(first, first + 1), _explain_orphans(together), _IF_EMPTY)
            continue
        offsets = OffsetRange(first, min(latest + 1, end))
        if offsets.is_empty:
            continue
        harmless = None if is_after else _BY_RETENTION if slot == 0 else _BY_COMPACTION if compacted else None
        if any(orphan.has_empty_log for orphan in together):  # neither retention nor compaction leaves them
            harmless = _IN_A_COPY if is_after else None
        yield Evidence(offsets, _explain_orphans(together), harmless, is_between=harmless == _BY_COMPACTION)


def _check_seams(
    log: PartitionLog, orphans: list[Orphan], start: int, compacted: bool, last_bases: dict[str, int]
) -> Iterable[Evidence]:
    """Yields what index files without a `.log` prove about the offsets between the parts of two copies.

    One copy ends below the last offset that such a file of another copy mentions.

    start: the log start.
    last_bases: the base offset of the last `.log` in each directory. Only that one is empty in a copy of a running
        broker.
    """
    starts = _list_starts(log)
    latest_of: dict[tuple[str, int], tuple[int, Orphan]] = {}  # by directory and base offset
    for orphan in orphans:
        latest, key = read_last_offset(orphan), (parent_of(orphan.path), orphan.base_offset)
        if latest is not None and latest > latest_of.get(key, (-1, orphan))[0]:
            latest_of[key] = latest, orphan
    for (directory, base_offset), (latest, orphan) in latest_of.items():
        slot = bisect_right(starts, latest)
        before = log.segments[slot - 1] if slot else None
        if before is None or (parent_of(before.path) == directory and before.base_offset >= base_offset):
            continue  # what lies in one copy alone is what its own segments show
        reached = max(starts[slot - 1], _find_end_offset(log, slot - 1))
        offsets = OffsetRange(max(reached, start), min([latest + 1, *starts[slot : slot + 1]]))
        if base_offset < reached and not offsets.is_empty:  # others are those of `_check_orphans`
            if orphan.has_empty_log:
                harmless = _IN_A_COPY if base_offset == last_bases[directory] else None
            else:
                harmless = _BY_COMPACTION if compacted and slot < len(starts) else None
            yield Evidence(offsets, _explain_orphans([orphan]), harmless)


def _name_emptied(log: PartitionLog, orphans: list[Orphan], start: int) -> Iterable[Evidence]:
    """Yields the files of 0 bytes whose offsets another copy serves. It may have less of them: compaction, or a history
    that lost, may have removed some. start: the log start."""
    starts = _list_starts(log)
    named: set[tuple[str, int]] = set()
    for orphan in orphans:
        slot, latest = bisect_right(starts, orphan.base_offset), read_last_offset(orphan)
        key = parent_of(orphan.path), orphan.base_offset
        if not orphan.has_empty_log or latest is None or slot == 0 or key in named:
            continue
        named.add(key)
        end = min(latest + 1, _find_end_offset(log, len(starts) - 1))
        offsets = OffsetRange(max(orphan.base_offset, start), end)
        if not offsets.is_empty:
            yield Evidence(offsets, _explain_orphans([orphan]), _IN_OTHERS, is_elsewhere=True)


def _explain_orphans(orphans: list[Orphan]) -> str:
    segments = len({orphan.base_offset for orphan in orphans})
    if all(orphan.has_empty_log for orphan in orphans):
        more = f" and the index files of {segments - 1:,} more segments have" if segments > 1 else " has"
        return f"{orphans[0].path!r}{more} entries, but the .log beside has no bytes"
    if segments == 1:
        return f"{orphans[0].path!r} is there without the .log of its segment"
    return f"{orphans[0].path!r} and the index files of {segments - 1:,} more segments are there without their .log"


def read_last_offset(orphan: Orphan) -> int | None:
    """Returns the last offset that an index file without its `.log` has an entry for. None if it has none."""
    return find_last_offset(orphan.path, orphan.storage, orphan.size, orphan.base_offset)


def _list_starts(log: PartitionLog) -> list[int]:
    """Returns the offset from which on each segment is read.

    That is its base offset, or a higher one if another directory is read before.
    """
    return [max(segment.base_offset, segment.offsets.start) for segment in log.segments]


def _find_end_offset(log: PartitionLog, at: int) -> int:
    """Returns the offset up to which segment number `at` is read, by its bytes.

    Damage at its end may hide that offset. Another copy may hold the damaged offsets, but only reading shows that.
    """
    segment = log.segments[at]
    if log.end is not None and at + 1 == len(log.segments):
        return log.end
    with SegmentView(segment, Trust()) as view:
        end = segment.base_offset
        for header in view.headers_from(kafka_format.MAX_OFFSET):
            if header is None and log.copies:
                end = segment.span.end
        return min(max(end, view.end_offset()), segment.offsets.end)


def _wait_after(seen: float) -> None:
    """Waits until PAUSE has passed since the listing at `seen`."""
    left = seen + PAUSE - time.monotonic()
    if left > 0:
        retrying.wait(left)
