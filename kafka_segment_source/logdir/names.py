"""Recognizes names of files and directories. Kafka: LocalLog.parseTopicPartitionName, LogFileUtils."""

from __future__ import annotations

import re

from kafka_segment_source import kafka_format
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.storage.paths import name_of

_PARTITION_DIRECTORY = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,255})-(?P<partition>\d+)")
DEAD_DIRECTORY = re.compile(r"\S+-\S+\.\S+(" + "|".join(kafka_format.DEAD_DIRECTORY_SUFFIXES) + ")")
INDEX_SUFFIXES = frozenset(
    (kafka_format.INDEX_SUFFIX, kafka_format.TIME_INDEX_SUFFIX, kafka_format.TRANSACTION_INDEX_SUFFIX)
)
_HINT_SUFFIXES = INDEX_SUFFIXES | {kafka_format.SNAPSHOT_SUFFIX}


def named_partition(directory: str) -> TopicPartition | None:
    """Returns the topic and partition that a directory's name states, or None for any other name."""
    match = _PARTITION_DIRECTORY.fullmatch(name_of(directory))
    return (match["topic"], int(match["partition"])) if match and int(match["partition"]) < 2**31 else None


def is_partition(name: str) -> bool:
    """Whether the name is that of a live partition directory. Dead and unfinished ones have a suffix after their last
    dot."""
    return DEAD_DIRECTORY.fullmatch(name) is None and named_partition(name) is not None


def base_offset_of(name: str) -> int | None:
    """Returns the base offset that the name of a `.log` file states, or None for any other name.

    The digits may be of any locale.
    """
    if not name.endswith(kafka_format.LOG_SUFFIX):
        return None
    digits = name.removesuffix(kafka_format.LOG_SUFFIX)
    if len(digits) == kafka_format.BASE_OFFSET_DIGITS and digits.isdecimal():
        return int(digits) if int(digits) <= kafka_format.MAX_OFFSET else None
    return None


def is_of_segment(name: str) -> bool:
    """Whether only partition directories hold a file of that name: a segment, or a file that belonged to one."""
    if base_offset_of(name.removesuffix(kafka_format.SWAP_SUFFIX)) is not None:
        return True
    return is_hint(name) and name != kafka_format.PARTITION_METADATA


def is_hint(name: str) -> bool:
    """Whether the file is one that a read may use, but does not need."""
    digits, suffix = name[: kafka_format.BASE_OFFSET_DIGITS], name[kafka_format.BASE_OFFSET_DIGITS :]
    return (suffix in _HINT_SUFFIXES and digits.isdecimal()) or name == kafka_format.PARTITION_METADATA
