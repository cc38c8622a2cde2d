"""Finds evidence of missing records: files that mention offsets which no `.log` holds.

Comes in: partitions as listed, and the checkpoints beside them. Goes out: `Evidence`. It is hard if records are missing
for certain. Otherwise it has words that state when it is harmless. Each log also gets its `Reach`. A caller that knows
the end of the files compares the two (`beyond_end`). Only checkpoints are opened, unless something looks wrong.

Hard evidence is an index file with entries, without its `.log` (`orphans.py`).

The following may be harmless, and so is never an error:

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
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import FileChangedError, StorageError
from kafka_segment_source.logdir.checkpoints import Checkpoints
from kafka_segment_source.logdir.leader_epochs import UNKNOWN, read_epochs
from kafka_segment_source.logdir.listing import list_beside
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import Evidence, ListedLog, PartitionLog, Reach, Segment
from kafka_segment_source.logdir.topic_choice import is_selected
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.partition.orphans import IN_A_COPY, find_orphan_evidence, list_starts
from kafka_segment_source.reporting import Warnings, few, name_some
from kafka_segment_source.source import Source
from kafka_segment_source.storage import retrying
from kafka_segment_source.storage.files import UNUSABLE, file_version, list_directory
from kafka_segment_source.storage.paths import join_path, parent_of
from kafka_segment_source.storage.store import Storage
from kafka_segment_source.trust import Trust

_MOST_NAMED = 5  # most partitions that one sentence names
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


def beyond_end(log: PartitionLog, end: int, indexed: int | None = None) -> Evidence | None:
    """Returns evidence of offsets between the end of the files and the offset that the log once reached.

    None if there are none, or if a broker is writing to the log.

    indexed: the last offset of the entries of the last `.index` that lead behind its `.log`, if there is one.
    """
    noted = _find_last_epoch(log.directory, log.storage, log.segments, end) if not log.copies and log.is_whole else None
    entry = None if indexed is None else _reach_of_entry(log.segments[-1], indexed)
    reaches = [reach for reach in (log.reach, noted, entry) if reach is not None]
    reach = max(reaches, key=lambda reach: reach.offset, default=None)
    if reach is None or reach.offset <= end:
        return None
    retrying.wait_for_second_look(reach.seen)
    if _has_gone_on(log):
        return None
    if reach.is_snapshot and list_beside(reach.directory, log.storage).snapshot < reach.offset:
        return None  # its offsets were truncated after a change of leader
    return Evidence(OffsetRange(end, reach.offset), reach.what, IN_A_COPY)


def _find_last_epoch(directory: str, storage: Storage, segments: Sequence[Segment], end: int) -> Reach | None:
    """Returns where the last leader epoch began, by the checkpoint in a directory, if that is behind `end`.

    None if it has none, or if the storage does not give it: no row depends on it. None too if the last batch is of this
    epoch or a later one: then the checkpoint is older than the files, and its line was removed since.
    """
    try:
        epochs, _ = read_epochs(directory, storage)
    except StorageError:
        return None
    if not epochs or epochs[-1][1] <= end:
        return None
    epoch, start = epochs[-1]
    last = next((segment for segment in reversed(segments) if segment.size), None)
    if last is not None and _find_epoch_at_end(last) >= epoch:
        return None
    path = join_path(directory, kafka_format.LEADER_EPOCH_CHECKPOINT)
    return Reach(start, f"leader epoch {epoch} began at {start} by {path!r}", directory, time.monotonic())


def _find_epoch_at_end(segment: Segment) -> int:
    """Returns the leader epoch of the last batch of a segment. UNKNOWN if none is proven."""
    with SegmentView(segment, Trust()) as view, suppress(FileChangedError, *UNUSABLE):
        start = view.start_position(kafka_format.MAX_OFFSET)
        return max((header.leader_epoch for header in view.probe.walk(start) if header is not None), default=UNKNOWN)
    return UNKNOWN


def _reach_of_entry(segment: Segment, indexed: int) -> Reach:
    """Returns up to where the last entry of a `.index` says that the log reached. indexed: the offset of that entry.

    Nothing need be waited for: a broker appends to the `.log` before it adds an entry to the `.index`.
    """
    what = f"the log has reached {indexed + 1} by the entries of {segment.index_path!r}"
    return Reach(indexed + 1, what, parent_of(segment.path), seen=0.0)


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
    retrying.wait_for_second_look(seen)
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
        for reach in _find_reaches(copy, checkpoints, seen, has_others=bool(log.copies))
        if reach.offset <= ends.get(copy.directory, reach.offset)
    ]
    reach = max(reaches, key=lambda reach: reach.offset, default=None)
    evidence = [
        *_check_log_starts(log, copies, checkpoints, again, seen),
        *find_orphan_evidence(log, copies, checkpoints, seen),
    ]
    return replace(log, evidence=tuple(evidence), reach=reach) if evidence or reach is not None else log


def _find_reaches(copy: ListedLog, checkpoints: Checkpoints, seen: float, *, has_others: bool) -> Iterable[Reach]:
    """Yields offsets up to which the log of one directory once reached.

    has_others: whether there are other copies. Then its last leader epoch and the end of its index are looked at here.
    Those of a single copy are, once a plan knows where its files end (`beyond_end`).
    """
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
    base_offset = max(copy.beside.last_base, 0)
    noted = _find_last_epoch(copy.directory, copy.storage, copy.segments, base_offset) if has_others else None
    if noted is not None:
        yield noted
    for segment in copy.segments[-1:] if has_others else ():
        with SegmentView(segment, Trust()) as view:
            indexed = view.find_last_indexed()
        if indexed is not None:
            yield _reach_of_entry(segment, indexed)


def _check_log_starts(
    log: PartitionLog, copies: list[ListedLog], checkpoints: Checkpoints, again: Checkpoints, seen: float
) -> Iterable[Evidence]:
    """Yields evidence of a log start below the first segment.

    The checkpoint must have the same log start in a second look. The directory must have no segments that were just
    deleted.
    """
    if not log.segments:
        return
    first = list_starts(log)[0]
    for copy in copies:
        start = checkpoints.entry(copy, kafka_format.LOG_START_CHECKPOINT)
        if start is None or start >= first or copy.beside.has_deleted:
            continue
        retrying.wait_for_second_look(seen)
        if (
            again.entry(copy, kafka_format.LOG_START_CHECKPOINT) == start
            and not list_beside(copy.directory, copy.storage).has_deleted
        ):
            path = join_path(parent_of(copy.directory), kafka_format.LOG_START_CHECKPOINT)
            yield Evidence(OffsetRange(start, first), f"the log start is {start} by {path!r}", _STALE_START)
