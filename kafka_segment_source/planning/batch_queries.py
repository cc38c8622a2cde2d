"""Rules that hold for batch reads only, as in Spark's kafka source (`KafkaSourceProvider`, `KafkaBatch`).

A batch read has an end. If it started at the end, or ended at the start, it would read no row. It reads the partitions
that exist when it is planned. A map of offsets must name exactly these.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from kafka_segment_source.errors import OptionError
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.option_values import EARLIEST, LATEST, OffsetLimit, TopicPartition
from kafka_segment_source.request import ReadBounds


def check_limits(bounds: ReadBounds) -> None:
    """Raises OptionError for a start at the end or an end at the start, for all partitions or for one."""
    _check_offsets("startingOffsets", bounds.starting_offsets, LATEST, "latest", "earliest (-2) or an offset")
    _check_offsets("endingOffsets", bounds.ending_offsets, EARLIEST, "earliest", "latest (-1) or an offset")


def _check_offsets(
    option: str, given: Mapping[TopicPartition, int] | int, wrong: int, word: str, expected: str
) -> None:
    if isinstance(given, int):
        if given == wrong:
            raise OptionError(
                f"option {option!r} is {word!r}: a batch query would read nothing; expected {expected}",
                options=(option,),
            )
        return
    for (topic, partition), offset in given.items():
        if offset == wrong:
            raise OptionError(
                f"option {option!r} has {wrong} ({word}) for partition {topic}-{partition}:"
                f" a batch query would read nothing of it; expected {expected}",
                options=(option,),
            )


def check_partitions(starting: OffsetLimit, ending: OffsetLimit, logs: list[PartitionLog]) -> None:
    """Raises OptionError if a map of offsets does not name exactly the selected partitions."""
    there = {log.topic_partition for log in logs}
    check_map(starting, there)
    check_map(ending, there)


def check_map(limit: OffsetLimit, there: Set[TopicPartition]) -> None:
    """Raises OptionError if a map does not name exactly the partitions that are `there`. A stream has this rule too."""
    if limit.everywhere is not None:
        return
    named = set(limit.by_partition)
    for wrong, how in ((there - named, "it leaves out {}, which is selected"), (named - there, "{} is not selected")):
        if wrong:
            shown = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(wrong)[:10])
            raise OptionError(
                f"option {limit.option!r} must name exactly the partitions selected: {how.format(shown)}",
                options=(limit.option,),
            )
