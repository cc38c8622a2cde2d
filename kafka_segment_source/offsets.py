"""Where each partition's scan starts and ends, by offset: the starting… and ending… options against what is there.

Spark's rules for a batch query (`KafkaOffsetReader`, `KafkaBatch`): a map names exactly the partitions selected; a
timestamp stands for the first offset at or after it; an ending timestamp that no record reaches means the end; a
starting one is an error unless startingOffsetsByTimestampStrategy is latest; offsets given by number must be there
(failOnDataLoss).
"""

from __future__ import annotations

from kafka_segment_source import format as fmt
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.catalog import PartitionLog
from kafka_segment_source.errors import DataLossError, OptionError
from kafka_segment_source.options import EARLIEST, LATEST, OffsetLimit, ReadOptions
from kafka_segment_source.segment_view import SegmentView
from kafka_segment_source.times import format_millis


def check_map(limit: OffsetLimit, logs: list[PartitionLog]) -> None:
    """Raises OptionError if a map does not name exactly the partitions selected."""
    if limit.everywhere is not None:
        return
    there = {log.topic_partition for log in logs}
    named = set(limit.by_partition)
    for wrong, how in ((there - named, "it leaves out {}, which is selected"), (named - there, "{} is not selected")):
        if wrong:
            shown = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(wrong)[:10])
            raise OptionError(f"option {limit.option!r} must name exactly the partitions selected: {how.format(shown)}")


def offset_range(log: PartitionLog, options: ReadOptions, warnings: list[str]) -> OffsetRange:
    """The offsets of one partition that the options leave.

    Raises OptionError for a start after the end or a timestamp that nothing reaches, DataLossError for offsets
    given by number that are not there; with failOnDataLoss=false the latter becomes a warning.
    """
    start = _start(log, options)
    end = _end(log, options)
    where = f"partition {log.topic}-{log.partition}"
    if start > end:
        raise OptionError(
            f"option {options.starting.option!r} ({start}) is after option {options.ending.option!r} ({end}) for {where}"
        )
    lost = _lost(log, options, start, end)
    if lost is not None and options.fail_on_data_loss:
        raise DataLossError(f"{lost} of {where}; give offsets that are there, or failOnDataLoss=false to read what is")
    if lost is not None:
        warnings.append(f"{lost} of {where}: reading what is there (failOnDataLoss=false)")
    return OffsetRange(start, end)


def _start(log: PartitionLog, options: ReadOptions) -> int:
    number = options.starting.at(log.topic_partition)
    if not options.starting.by_time:
        return 0 if number == EARLIEST else number
    offset = _offset_at(log, number, options)
    if offset is not None:
        return offset
    if options.start_at_latest_if_no_match:
        return log_end_offset(log, options)
    raise OptionError(
        f"option {options.starting.option!r}: no offset of partition {log.topic}-{log.partition} has a timestamp at or"
        f" after {format_millis(number)} (startingOffsetsByTimestampStrategy=latest reads nothing of it instead)"
    )


def _end(log: PartitionLog, options: ReadOptions) -> int:
    number = options.ending.at(log.topic_partition)
    if not options.ending.by_time:
        return fmt.MAX_OFFSET if number == LATEST else number
    offset = _offset_at(log, number, options)
    return fmt.MAX_OFFSET if offset is None else offset


def _offset_at(log: PartitionLog, timestamp: int, options: ReadOptions) -> int | None:
    from kafka_segment_source.lookup import first_offset_at  # decodes: only then are the kernels loaded

    return first_offset_at(log, timestamp, options)


def log_end_offset(log: PartitionLog, options: ReadOptions) -> int:
    """The offset after the last one in the files."""
    last = log.segments[-1]
    with SegmentView(last, check_crcs=options.check_crcs, trust_indexes=options.trust_indexes) as view:
        return view.end_offset()


def _lost(log: PartitionLog, options: ReadOptions, start: int, end: int) -> str | None:
    """What the files do not hold of offsets that were given by number, in words."""
    earliest = log.segments[0].base_offset
    starts_by_number = not options.starting.by_time and options.starting.at(log.topic_partition) >= 0
    ends_by_number = not options.ending.by_time and options.ending.at(log.topic_partition) >= 0
    if starts_by_number and start < earliest:
        return f"option {options.starting.option!r} asks for offset {start}, but the files begin at {earliest}"
    if ends_by_number and end < earliest:
        return f"option {options.ending.option!r} asks for offsets below {end}, but the files begin at {earliest}"
    if not starts_by_number and not ends_by_number:
        return None
    furthest = end if ends_by_number else start
    if furthest <= log.segments[-1].base_offset:
        return None
    latest = log_end_offset(log, options)
    if furthest > latest:
        option = options.ending.option if ends_by_number else options.starting.option
        return f"option {option!r} asks for offsets up to {furthest}, but the files end at {latest}"
    return None
