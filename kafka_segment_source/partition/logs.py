"""The way in: a source → its partitions, each with its log. Nothing else lists the directories of partitions,
but for `searching/key_files.py`, which wants deleted files too.

Which function, by what is wanted of a partition:

- `shown_logs`, `dead_directories`: what is on the disk, by names and sizes. For `ls`, `verify`, `report`, `every_copy`,
  for what a rebuild must not touch, and for the names of topic ids.
- `listed_logs`: the directories that a read takes, by names and sizes. For views of files, and which topics are there.
- `available_logs`: one log for each partition, with the offsets to read. For zone maps, and a split whose file was
  replaced.
- `examined_logs`: the same, with evidence of records that are missing. For plans, streams, exports, rebuilds, and ends
  of logs.
- `settled_logs`: the same, listed again if files change meanwhile. For answers without a plan: where a time is, and
  where an offset is.
- `available_copies`: the copies of one partition, not merged. For mending, and markers in other copies.

`available_logs` opens checkpoints. It opens the last segment of a directory only for `.swap` files, or if several
directories hold one partition. The steps, in this order:

- Apply the files that an interrupted compaction left.
- Apply the log start and the high watermark of each directory. A tier has neither. The log start of a local directory
  holds for it too. It has only records below the high watermark (Kafka: RemoteLogManager copies up to the last stable
  offset).
- Note the empty files between others as holes.
- Merge the directories of one partition into one log.

Raises the errors of `list_logs` and `merge_replicas`. Raises OptionError if endAt=highWatermark cannot be found.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kafka_segment_source.bounds import ALL_OFFSETS, OffsetRange
from kafka_segment_source.errors import FileChangedError, PathError
from kafka_segment_source.kafka_format import MAX_OFFSET
from kafka_segment_source.logdir.catalog import Purpose, list_dead_directories, list_logs
from kafka_segment_source.logdir.checkpoints import Checkpoints
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import (
    DropKind,
    DroppedSegment,
    Hole,
    ListedLog,
    PartitionLog,
    Segment,
    explain_unfinished,
)
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.partition.missing import notice, report_lost_partitions
from kafka_segment_source.reporting import Warnings, few
from kafka_segment_source.source import Source
from kafka_segment_source.storage.files import look_at
from kafka_segment_source.storage.paths import name_of
from kafka_segment_source.storage.retrying import Attempts, try_again
from kafka_segment_source.storage.store import Storage
from kafka_segment_source.storage.tiered.names import is_shown
from kafka_segment_source.trust import Policy, Trust

if TYPE_CHECKING:
    from kafka_segment_source.partition.copy_view import CopyView

T = TypeVar("T")


def shown_logs(source: Source) -> list[ListedLog]:
    """Returns every partition directory that the source selects, as it is on the disk (`Purpose.SHOW`)."""
    return try_again(lambda: list_logs(source, Purpose.SHOW))


def dead_directories(source: Source, warnings: Warnings) -> list[tuple[str, int]]:
    """Returns the path and the size in bytes of each directory that no query reads (`list_dead_directories`)."""

    def list_dead() -> tuple[list[tuple[str, int]], Warnings]:
        said = Warnings()
        return list_dead_directories(source, said), said

    dead, said = try_again(list_dead)
    warnings += said
    return dead


def listed_logs(source: Source, needs_all: bool = True) -> list[ListedLog]:
    """Returns the partition directories that a read of the source takes. It opens no file.

    needs_all: whether a topic or a partition that the source names, and that is not there, is an error.
    """
    return try_again(lambda: list_logs(source, _purpose_of(needs_all)))


def warn_of_listed(logs: Sequence[ListedLog], warnings: Warnings) -> None:
    """Warns of what names and sizes alone show: files that cannot be what they state, and segments that a tier has only
    in part."""
    warnings += few([fault for log in logs for fault in log.beside.faults + log.beside.damaged])
    warnings += few([explain_unfinished(log) for log in logs if log.beside.unfinished])


def available_logs(
    source: Source, policy: Policy, warnings: Warnings, near: OffsetRange = ALL_OFFSETS
) -> list[PartitionLog]:
    """Returns the partition logs that the source selects, each with the segments that can be read.

    Of several copies it returns only the segments `near` some offsets (`merge_replicas`).
    """
    copies = _list_copies(source, policy, warnings, Checkpoints(warnings, source.storage))
    return [log for log, _ in _merge(copies, source, policy, warnings, near)]


def examined_logs(source: Source, policy: Policy, warnings: Warnings, needs_all: bool = True) -> list[PartitionLog]:
    """Returns the logs of `available_logs`, each with the evidence of records that are missing (`missing.py`).

    Warns of partitions without a directory. Raises FileChangedError if a directory changes while it is listed.
    needs_all: as in `listed_logs`.
    """
    seen = time.monotonic()
    checkpoints = Checkpoints(warnings, source.storage)
    merged = _merge(_list_copies(source, policy, warnings, checkpoints, needs_all), source, policy, warnings)
    copies = [copy for _, copies_of_one in merged for copy in copies_of_one]
    logs = notice([log for log, _ in merged], copies, checkpoints, seen)
    report_lost_partitions(copies, checkpoints, source, seen, warnings)
    return logs


def existing_copies(directories: Sequence[str], storage: Storage) -> tuple[str, ...]:
    """Returns the directories that are there now. A broker gives up a whole directory where it fetches a log again."""
    return tuple(directory for directory in directories if look_at(directory, storage) is not None)


def available_copies(source: Source, policy: Policy, warnings: Warnings | None = None) -> list[CopyView]:
    """Returns the copies of the one partition that the source selects, not merged.

    Each copy is cut to the offsets where its history is valid. `warnings` gets a sentence about each cut.
    """
    from kafka_segment_source.partition.chain import settle  # noqa: PLC0415  # as in `_merge`

    copies = _list_copies(source, policy, Warnings(), Checkpoints(Warnings(), source.storage))
    return settle(copies, policy, Warnings() if warnings is None else warnings)


def settled_logs(source: Source, policy: Policy, warnings: Warnings) -> list[PartitionLog]:
    """Returns the logs of `examined_logs`. It lists them again if files change meanwhile."""

    def examine() -> tuple[list[PartitionLog], list[str]]:
        said = Warnings()
        return examined_logs(source, policy, said), said

    logs, said = try_again(examine)
    warnings += said
    return logs


def explain_removed(log: PartitionLog) -> str:
    """The sentence about a partition that is gone since it was listed."""
    return f"partition {log.topic}-{log.partition} was removed meanwhile, and is left out"


def follow_changes(log: PartitionLog, source: Source, policy: Policy, action: Callable[[PartitionLog], T]) -> T | None:
    """Returns the result of an action on a log. If files are replaced meanwhile, the log is listed again for it.

    None if the partition is gone by then. Raises FileChangedError if the files change too often.
    """
    attempts = Attempts()
    while True:
        try:
            return action(log)
        except FileChangedError as error:
            attempts.note_failure(error)
        paths = log.copies or tuple([log.directory] if log.is_whole else [segment.path for segment in log.segments])
        try:
            [log] = try_again(partial(examined_logs, source.at(paths), policy, Warnings()))
        except PathError:
            return None


def _purpose_of(needs_all: bool) -> Purpose:
    return Purpose.READ if needs_all else Purpose.READ_IF_THERE


def _merge(
    copies: list[PartitionLog], source: Source, policy: Policy, warnings: Warnings, near: OffsetRange = ALL_OFFSETS
) -> list[tuple[PartitionLog, list[PartitionLog]]]:
    """Returns one log per partition, each with the copies that it is made of (`merge_replicas`)."""
    if len({log.topic_partition for log in copies}) == len(copies):
        return [(log, [log]) for log in copies]
    from kafka_segment_source.partition.chain import list_paths, merge_replicas  # noqa: PLC0415  # most logs have one

    def list_again(copies: list[PartitionLog], said: Warnings) -> list[PartitionLog]:
        paths = dict.fromkeys(path for log in copies for path in list_paths(log))
        here = source.at(source.in_order(paths))
        try:
            return _list_copies(here, policy, said, Checkpoints(said, source.storage))
        except PathError as error:  # a directory is gone: the paths of the whole source show what is left
            raise FileChangedError(f"{error}; plan the read again") from error

    return merge_replicas(copies, policy, warnings, list_again, near)


def _list_copies(
    source: Source, policy: Policy, warnings: Warnings, checkpoints: Checkpoints, needs_all: bool = True
) -> list[PartitionLog]:
    """Returns one log per directory, without the segments that are not read."""
    listed = list_logs(source, _purpose_of(needs_all))
    warn_of_listed(listed, warnings)
    counts = Counter(log.topic_partition for log in listed)
    logs = [_swap_in(log, warnings, policy.drop_malformed or counts[log.topic_partition] > 1) for log in listed]
    starts: dict[TopicPartition, int] = {}  # by local directories, for the tiers beside them
    for log in logs:
        if not is_shown(log.directory):
            starts[log.topic_partition] = max(starts.get(log.topic_partition, 0), checkpoints.log_start(log))
    return [
        _note_empty_files(
            replace(log, offsets=OffsetRange(starts.get(log.topic_partition, 0)))
            if is_shown(log.directory)
            else _apply_checkpoints(log, checkpoints, source.end_at_high_watermark)
        )
        for log in logs
    ]


def _swap_in(log: ListedLog, warnings: Warnings, leaves_damaged: bool) -> PartitionLog:
    """Returns the log after the step that a broker takes at its start: `.swap` files replace the files they were made
    from.

    They replace every segment whose base offset is at or above the lowest base of a `.swap` and below the end of the
    furthest. Their index files are not used. Kafka: LogLoader.

    leaves_damaged: whether a damaged `.swap` is left out where a segment still holds its offsets, with a warning.
        Otherwise it is read for them, which raises its error.
    """
    damaged = {swap.path: swap for swap in log.swaps if _is_damaged_over_segment(swap, log)}
    if not leaves_damaged or not damaged:
        return _replace_by_swaps(log, frozenset(damaged), warnings)
    left = replace(log, swaps=tuple(swap for swap in log.swaps if swap.path not in damaged))
    read = _replace_by_swaps(left, frozenset(), warnings)
    begins = "begins with no whole batch: it is not read, as segments hold its offsets"
    warnings.add_all([f"{path!r} {begins}" for path in damaged], begins)
    unused = [DroppedSegment(swap, DropKind.NO_BATCH, "begins with no whole batch") for swap in damaged.values()]
    return replace(read, unused=(*read.unused, *unused))


def _is_damaged_over_segment(swap: Segment, log: ListedLog) -> bool:
    """Whether a `.swap` begins with damage, and its base offset is that of a segment or lies inside one."""
    if not swap.size or _find_end_offset(swap) > swap.base_offset:
        return False
    before = [segment for segment in log.segments if segment.base_offset <= swap.base_offset][-1:]
    return any(
        segment.base_offset == swap.base_offset or _find_end_offset(segment) > swap.base_offset for segment in before
    )


def _replace_by_swaps(log: ListedLog, damaged: frozenset[str], warnings: Warnings) -> PartitionLog:
    """Returns the log with its `.swap` files in place of what they replace. damaged: those that begin with damage."""
    if not log.swaps:
        return PartitionLog.of(log)
    start = min(swap.base_offset for swap in log.swaps)
    end = max(_find_end_offset(swap) for swap in log.swaps)
    names = ", ".join(name_of(swap.path) for swap in log.swaps)
    by_base = {segment.base_offset: segment for segment in log.segments if not start <= segment.base_offset < end}
    by_base.update({swap.base_offset: swap for swap in log.swaps})
    segments = _chain_segments([by_base[base] for base in sorted(by_base)], damaged)
    read = {segment.path for segment in segments}
    unused = [
        DroppedSegment(segment, DropKind.REPLACED, f"replaced by {names}")
        for segment in log.segments
        if segment.path not in read
    ]
    warnings.add(
        f"a compaction of {log.directory!r} was interrupted, or is under way: {names} {'is' if len(log.swaps) == 1 else 'are'}"
        f" read for the offsets {start} to {max(start, end - 1)}, as a broker would on its next start",
        "interrupted compaction",
    )
    swapped = replace(log, segments=segments, swaps=(), compacted=True)
    return replace(PartitionLog.of(swapped), unused=tuple(unused))


def _find_end_offset(swap: Segment) -> int:
    with SegmentView(swap, Trust(trust_indexes=False)) as view:
        return view.end_offset()


def _chain_segments(segments: list[Segment], damaged: frozenset[str]) -> tuple[Segment, ...]:
    """Returns the segments in offset order, each with the base offset of the next one.

    A segment before a damaged `.swap` keeps its own end. It is read up to that file only, so its batches after that
    are no damage.
    """
    chained = []
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        if following is not None and following.path in damaged:
            chained.append(segment._replace(offsets=segment.offsets.intersect(OffsetRange(end=following.base_offset))))
        else:
            base = None if following is None else following.base_offset
            chained.append(segment._replace(next_base_offset=base))
    return tuple(chained)


def _apply_checkpoints(log: PartitionLog, checkpoints: Checkpoints, end_at_high_watermark: bool | None) -> PartitionLog:
    end = MAX_OFFSET
    if end_at_high_watermark:
        end = checkpoints.high_watermark(log)
    elif end_at_high_watermark is None:
        end = checkpoints.high_watermark_if_known(log)
    compacted = log.compacted or checkpoints.is_cleaned(log)
    offsets = OffsetRange(checkpoints.log_start(log), end)
    if (offsets, compacted) == (log.offsets, log.compacted):
        return log  # a copy takes as long as planning a segment
    return replace(log, offsets=offsets, compacted=compacted)


def _note_empty_files(log: PartitionLog) -> PartitionLog:
    """Notes a hole for each empty file before another file, as its records are gone.

    Compaction leaves empty files too, so a compacted log gets no hole.
    """
    if log.compacted:
        return log
    holes = [
        Hole(OffsetRange(segment.base_offset, segment.next_base_offset), f"{segment.path!r} is empty")
        for segment in log.segments
        if segment.size == 0 and segment.next_base_offset is not None
    ]
    return replace(log, holes=(*log.holes, *holes)) if holes else log
