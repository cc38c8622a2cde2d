"""Where a new stream begins in a partition, by the starting… options."""

from __future__ import annotations

from collections.abc import Callable

from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.option_values import EARLIEST, LATEST, OffsetLimit
from kafka_segment_source.streams.log_ends import LogSpan
from kafka_segment_source.streams.positions import name_partition
from kafka_segment_source.streams.said import SaidOnce


def find_beginning(
    span: LogSpan, limit: OffsetLimit, find_by_time: Callable[[PartitionLog], int], said: SaidOnce
) -> int:
    """Returns the first offset that a new stream reads: one of the offsets of the files, or the end of the files.

    limit: what the options say.
    find_by_time: returns the offset of a limit that is a time. Raises OptionError if no record reaches it.
    Raises DataLossError for an offset that the files do not hold.
    """
    if limit.by_time:
        return min(max(find_by_time(span.log), span.start), span.files_end)
    number = limit.at(span.log.topic_partition)
    if number in (EARLIEST, LATEST):
        return span.start if number == EARLIEST else span.end
    if not span.start <= number <= span.files_end:
        said.report_loss(
            f"option {limit.option!r} asks for offset {number} of partition {name_partition(span.log.topic_partition)},"
            f" but the files hold the offsets {span.start} to {span.files_end - 1}"
        )
    return min(max(number, span.start), span.files_end)
