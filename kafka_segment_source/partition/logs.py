"""What of the logs that were listed is there to be read, before any bounds that the query itself has.

Comes in: options. Goes out: one `PartitionLog` a partition, with the segments that are its log and the offsets that
each is read for. Opens checkpoints; and the last segment of each directory only where `.swap` files or several
directories of one partition ask for it. In this order: what an interrupted compaction left, the log start and the high
watermark of each directory, directories of one partition made one, files without a byte between others.

Raises what `list_logs` and `merge_replicas` raise; OptionError where endAt=highWatermark cannot be had.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace

from kafka_segment_source.bounds import ALL_OFFSETS, OffsetRange
from kafka_segment_source.format import MAX_OFFSET
from kafka_segment_source.logdir.catalog import list_logs
from kafka_segment_source.logdir.checkpoints import Checkpoints
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import Hole, ListedLog, PartitionLog, Segment, Unused
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.partition.chain import merge_replicas, settle
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.missing import lost_partitions, notice
from kafka_segment_source.reporting import few
from kafka_segment_source.trust import Trust


def available_logs(options: ReadOptions, warnings: list[str], near: OffsetRange = ALL_OFFSETS) -> list[PartitionLog]:
    """The partition logs that the options select, each with what is there to be read of it; of several copies only what
    is `near` some offsets (`merge_replicas`)."""
    return merge_replicas(_copies(options, warnings, Checkpoints(warnings)), options, warnings, near)


def examined_logs(options: ReadOptions, warnings: list[str]) -> list[PartitionLog]:
    """The same, each with the evidence of what should be there and is not (`missing.py`).

    Warns of partitions without a directory. Raises FileChangedError where a directory changes while it is listed.
    """
    seen = time.monotonic()
    checkpoints = Checkpoints(warnings)
    copies = _copies(options, warnings, checkpoints)
    logs = notice(merge_replicas(copies, options, warnings), copies, checkpoints, seen)
    warnings += lost_partitions(copies, checkpoints, options, seen)
    return logs


def available_copies(options: ReadOptions) -> list[CopyView]:
    """The copies of the one partition that the options select, each up to where its history counts, not
    put together."""
    return settle(_copies(options, [], Checkpoints([])), options, [])


def _copies(options: ReadOptions, warnings: list[str], checkpoints: Checkpoints) -> list[PartitionLog]:
    """One log a directory, without what is not read of it."""
    listed = list_logs(options)
    warnings += few([fault for log in listed for fault in log.beside.faults])
    logs = [swap_in(log, warnings) for log in listed]
    return [_note_empty_files(_within_checkpoints(log, checkpoints, options)) for log in logs]


def swap_in(log: ListedLog, warnings: list[str]) -> PartitionLog:
    """The log after the step that a broker takes when it starts: `.swap` files replace what they were made from.

    They replace every segment whose base lies from the lowest base of a `.swap` up to the end of the furthest; their
    index files are not used. Kafka: LogLoader.
    """
    if not log.swaps:
        return PartitionLog.of(log)
    start = min(swap.base_offset for swap in log.swaps)
    end = max(_end_offset(swap) for swap in log.swaps)
    names = ", ".join(os.path.basename(swap.path) for swap in log.swaps)
    by_base = {segment.base_offset: segment for segment in log.segments if not start <= segment.base_offset < end}
    by_base.update({swap.base_offset: swap for swap in log.swaps})
    segments = _chained([by_base[base] for base in sorted(by_base)])
    read = {segment.path for segment in segments}
    unused = [Unused(each, f"replaced by {names}") for each in log.segments if each.path not in read]
    warnings.append(
        f"a compaction of {log.directory!r} was interrupted, or is under way: {names} {'is' if len(log.swaps) == 1 else 'are'}"
        f" read for the offsets {start} to {max(start, end - 1)}, as a broker would on its next start"
    )
    swapped = replace(log, segments=segments, swaps=(), compacted=True)
    return replace(PartitionLog.of(swapped), unused=tuple(unused))


def _end_offset(swap: Segment) -> int:
    with SegmentView(swap, Trust(trust_indexes=False)) as view:
        return view.end_offset()


def _chained(segments: list[Segment]) -> tuple[Segment, ...]:
    """Segments in offset order, each knowing where the next one begins."""
    followers = [*(segment.base_offset for segment in segments[1:]), None]
    return tuple(
        replace(segment, next_base_offset=following) for segment, following in zip(segments, followers, strict=True)
    )


def _within_checkpoints(log: PartitionLog, checkpoints: Checkpoints, options: ReadOptions) -> PartitionLog:
    end = checkpoints.high_watermark(log) if options.end_at_high_watermark else MAX_OFFSET
    compacted = log.compacted or checkpoints.is_cleaned(log)
    return replace(log, offsets=OffsetRange(checkpoints.log_start(log), end), compacted=compacted)


def _note_empty_files(log: PartitionLog) -> PartitionLog:
    """A file without a byte before another is a segment whose records are gone; compaction leaves such files too."""
    if log.compacted:
        return log
    holes = [
        Hole(OffsetRange(segment.base_offset, segment.next_base_offset), f"{segment.path!r} is empty")
        for segment in log.segments
        if segment.size == 0 and segment.next_base_offset is not None
    ]
    return replace(log, holes=(*log.holes, *holes)) if holes else log
