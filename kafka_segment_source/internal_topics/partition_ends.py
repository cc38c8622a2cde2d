"""Finds what the views of groups need of other partitions under the same paths: ends of logs, names of topic ids."""

from __future__ import annotations

from collections.abc import Set

from kafka_segment_source.errors import DataError, StorageError
from kafka_segment_source.logdir.checkpoints import read_topic_id
from kafka_segment_source.option_values import TopicPartition, TopicSelection
from kafka_segment_source.partition.logs import examined_logs, shown_logs
from kafka_segment_source.planning.offset_bounds import find_log_end
from kafka_segment_source.reporting import Warnings, few
from kafka_segment_source.source import Source
from kafka_segment_source.storage.store import NO_VERSION
from kafka_segment_source.trust import Policy


def find_ends(
    wanted: Set[TopicPartition], source: Source, policy: Policy, warnings: Warnings
) -> dict[TopicPartition, int]:
    """Finds the offset after the last record of each of these partitions that is under the paths.

    That of a partition with damage at its end is left out, with a warning.
    """
    if not wanted:
        return {}
    source = source._replace(topics=TopicSelection(assign=frozenset(wanted)))
    policy = policy._replace(fail_on_data_loss=False)
    ends = {}
    faults = []
    for log in examined_logs(source, policy, warnings, needs_all=False):
        try:
            ends[log.topic_partition] = find_log_end(log, policy.trust).sure_offset(policy)
        except (DataError, StorageError) as error:
            faults.append(f"the log end offset of {log.topic}-{log.partition} is not known, so lag is null: {error}")
    warnings += few(faults)
    return ends


def find_topics(wanted: Set[str], source: Source) -> dict[str, str]:
    """Finds the names of these topic ids, by the `partition.metadata` of the directories under the paths.

    Raises StorageError if such a file cannot be read.
    """
    names: dict[str, str] = {}
    known: set[str] = set()
    for log in shown_logs(source) if wanted else []:
        if log.topic not in known and log.beside.metadata != NO_VERSION:
            known.add(log.topic)
            topic_id = read_topic_id(log.directory, log.storage)
            if topic_id is not None and topic_id in wanted:
                names[topic_id] = log.topic
    return names
