"""How far a stream came: an offset for each partition, as Spark's checkpoint keeps it.

The form is that of Spark's kafka source (`JsonUtils.partitionOffsets`): {"topic": {"0": 123}}. Spark compares two of
them as texts. So they are always made in one order, by topic and partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_segment_source.errors import OptionError
from kafka_segment_source.kafka_format import MAX_OFFSET
from kafka_segment_source.option_values import TopicPartition

Positions = Mapping[TopicPartition, int]
"""The next offset to read, by topic and partition."""

JsonOffsets = dict[str, dict[str, Any]]

SCHEMAS = "kafkaseg:schemas"
"""What stands beside the topics, where keys or values are typed: {"value": "id:7"}. No topic has a colon."""

_MOST_SHOWN = 200  # characters of a foreign offset in a message


def name_partition(topic_partition: TopicPartition) -> str:
    """Returns the name of a partition as Kafka's directories have it: orders-0."""
    return f"{topic_partition[0]}-{topic_partition[1]}"


def to_json(positions: Positions, schemas: Mapping[str, str] | None = None) -> JsonOffsets:
    """Converts positions into the value that Spark writes as JSON, always in the same order.

    schemas: what keys and values are read as, by column, as an option names it.
    """
    offsets_of: JsonOffsets = {}
    for topic, partition in sorted(positions):
        offsets_of.setdefault(topic, {})[str(partition)] = positions[topic, partition]
    if schemas:
        offsets_of[SCHEMAS] = dict(sorted(schemas.items()))
    return offsets_of


def schemas_of(value: object) -> dict[str, str]:
    """Returns the schemas in the value of Spark's JSON. A checkpoint of an older version of this package has none."""
    schemas = value.get(SCHEMAS, {}) if isinstance(value, dict) else {}
    if not isinstance(schemas, dict) or not all(isinstance(text, str) for text in schemas.values()):
        raise _foreign(value)
    return schemas


def from_json(value: object) -> dict[TopicPartition, int]:
    """Converts the value of Spark's JSON into positions. Raises OptionError if it is that of another source."""
    positions: dict[TopicPartition, int] = {}
    if not isinstance(value, dict):
        raise _foreign(value)
    for topic, partitions in value.items():
        if topic == SCHEMAS:
            continue
        if not isinstance(topic, str) or not isinstance(partitions, dict):
            raise _foreign(value)
        for partition, offset in partitions.items():
            if not (isinstance(partition, str) and partition.isascii() and partition.isdigit()):
                raise _foreign(value)
            if type(offset) is not int or not 0 <= offset <= MAX_OFFSET:
                raise _foreign(value)
            positions[topic, int(partition)] = offset
    return positions


def _foreign(value: object) -> OptionError:
    shown = repr(value)
    shown = shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}…"
    return OptionError(
        f"option 'checkpointLocation' leads to a checkpoint of another source: found the offset {shown}, expected the"
        ' form {"topic": {"0": 123}}; give the query a checkpoint of its own',
    )
