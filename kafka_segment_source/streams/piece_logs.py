"""The files of a piece: each log with the offsets that the piece has of it. What is gone meanwhile is a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.streams.positions import Positions, name_partition
from kafka_segment_source.streams.said import SaidOnce


def choose_logs(
    wanted: Mapping[TopicPartition, OffsetRange],
    start: Positions,
    logs: Iterable[PartitionLog],
    find_files: Callable[[PartitionLog], tuple[int, int]],
    said: SaidOnce,
) -> list[PartitionLog]:
    """Returns the logs of a piece, each cut to its offsets. Those without any offset are left out.

    wanted: the offsets of the piece, none of them empty. start: the positions before it; a new partition has none.
    logs: what is there. find_files: finds the first offset of a log, and the offset after its last whole batch.
    Raises DataLossError for offsets that the files no longer hold.
    """
    there = {log.topic_partition: log for log in logs}
    chosen: list[PartitionLog] = []
    for key, offsets in sorted(wanted.items()):
        name = name_partition(key)
        if key not in there:
            said.report_loss(f"the directory of partition {name} is gone, and offsets up to {offsets.end} with it")
            continue
        first, end = find_files(there[key])
        if first > offsets.start:
            came = f"was read up to offset {offsets.start}" if key in start else "is new"
            said.report_loss(
                f"partition {name} {came}, but its files begin at {first}: the offsets {offsets.start} to {first - 1} are"
                " gone"
            )
        if end < offsets.end:
            said.report_loss(
                f"the files of partition {name} end at offset {end}, but a micro-batch up to {offsets.end} was begun"
            )
        # the high watermark does not count: after a crash, it may have gone back below what was begun
        chosen.append(replace(there[key], offsets=OffsetRange(max(first, offsets.start), min(offsets.end, end))))
    return [log for log in chosen if not log.offsets.is_empty]
