"""Decodes the records of `__cluster_metadata` that say what topics are like, and applies them to a `Cluster`.

A value is a frame version, the number of the record's type and its version, all unsigned varints, then the message,
always flexible. Source: the message definitions in `metadata` of Kafka 3.3 to 4.1, AbstractApiMessageSerde,
`PartitionRegistration.merge` and `TopicsDelta`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from kafka_segment_source.internal_topics.messages import MessageError, MessageReader, NewerVersionError

T = TypeVar("T")

RECORD_TYPES = {
    0: "RegisterBroker",
    1: "UnregisterBroker",
    2: "Topic",
    3: "Partition",
    4: "Config",
    5: "PartitionChange",
    7: "FenceBroker",
    8: "UnfenceBroker",
    9: "RemoveTopic",
    10: "DelegationToken",
    11: "UserScramCredential",
    12: "FeatureLevel",
    14: "ClientQuota",
    15: "ProducerIds",
    17: "BrokerRegistrationChange",
    18: "AccessControlEntry",
    19: "RemoveAccessControlEntry",
    20: "NoOp",
    21: "ZkMigrationState",
    22: "RemoveUserScramCredential",
    23: "BeginTransaction",
    24: "EndTransaction",
    25: "AbortTransaction",
    26: "RemoveDelegationToken",
    27: "RegisterController",
    28: "ClearElr",
}
"""The names of the types (`MetadataRecordType`)."""

TOPIC, PARTITION, CONFIG, PARTITION_CHANGE, REMOVE_TOPIC = 2, 3, 4, 5, 9
BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION = 23, 24, 25
_NEWEST = {TOPIC: 0, PARTITION: 2, CONFIG: 0, PARTITION_CHANGE: 2, REMOVE_TOPIC: 0}
_NEWEST |= {BEGIN_TRANSACTION: 0, END_TRANSACTION: 0, ABORT_TRANSACTION: 0}

_FRAME_VERSIONS = (0, 1)
_RESOURCE_IS_TOPIC = 2
_ISR, _LEADER, _REPLICAS = 0, 1, 2  # tags of PartitionChange
_LEADER_STAYS = -2


@dataclass
class PartitionState:
    """A partition.

    leader: -1 for none.
    """

    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int


@dataclass
class Cluster:
    """The topics of a cluster, as far as records were applied.

    names: of topics, by id.
    partitions: by topic id, then by number.
    configs: by topic name.
    """

    names: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, dict[int, PartitionState]] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)


Change = Callable[[Cluster], None]
"""Applies one record."""


def decode_record(value: bytes | None) -> tuple[int, Change]:
    """Decodes a value. Returns the number of its type, and what it changes.

    A type that says nothing of topics changes nothing, whatever its version. Raises MessageError for what cannot be
    decoded, and NewerVersionError for an unknown type, and for an unknown version of a type that counts.
    """
    if value is None:
        raise MessageError("a null value")
    reader = MessageReader(value, is_flexible=True)
    frame = reader.read_unsigned_varint()
    if frame not in _FRAME_VERSIONS:
        raise NewerVersionError(f"in a frame of version {frame}, which is unknown")
    number, version = reader.read_unsigned_varint(), reader.read_unsigned_varint()
    if number not in RECORD_TYPES:
        raise NewerVersionError(f"of type {number}, which is unknown")
    if number not in _NEWEST:
        return number, _change_nothing
    if version > _NEWEST[number]:
        raise NewerVersionError(f"of type {RECORD_TYPES[number]} in version {version}, which is unknown")
    change = _DECODERS[number](reader, version)
    if reader.left:
        raise MessageError(f"{reader.left:,} bytes behind the end of the record")
    return number, change


def _change_nothing(_: Cluster) -> None:
    pass


def _decode_transaction(reader: MessageReader, _: int) -> Change:
    reader.read_tags()
    return _change_nothing


def _decode_topic(reader: MessageReader, _: int) -> Change:
    name, topic_id = reader.read_string(), reader.read_uuid()
    reader.read_tags()

    def change(cluster: Cluster) -> None:
        cluster.names[topic_id] = name

    return change


def _decode_partition(reader: MessageReader, version: int) -> Change:
    number, topic_id = reader.read_int32(), reader.read_uuid()
    replicas, isr = _read_brokers(reader) or [], _read_brokers(reader) or []
    _read_brokers(reader)  # removing
    _read_brokers(reader)  # adding
    leader, leader_epoch = reader.read_int32(), reader.read_int32()
    reader.read_int32()  # partition epoch
    if version >= 1:
        reader.read_array(reader.read_uuid)  # directories
    reader.read_tags()

    def change(cluster: Cluster) -> None:
        cluster.partitions.setdefault(topic_id, {})[number] = PartitionState(replicas, isr, leader, leader_epoch)

    return change


def _decode_partition_change(reader: MessageReader, _: int) -> Change:
    number, topic_id = reader.read_int32(), reader.read_uuid()
    tags = reader.read_tags()
    isr, replicas = _read_tag(tags, _ISR, _read_brokers), _read_tag(tags, _REPLICAS, _read_brokers)
    leader = _read_tag(tags, _LEADER, MessageReader.read_int32)

    def change(cluster: Cluster) -> None:
        partition = cluster.partitions.get(topic_id, {}).get(number)
        if partition is None:
            raise MessageError(f"a change of partition {number} of topic {topic_id}, which is not there")
        if isr is not None:
            partition.isr = isr
        if replicas is not None:
            partition.replicas = replicas
        if leader is not None and leader != _LEADER_STAYS:
            partition.leader = leader
            partition.leader_epoch += 1

    return change


def _decode_config(reader: MessageReader, _: int) -> Change:
    resource = reader.read_int8()
    topic, name, value = reader.read_string(), reader.read_string(), reader.read_nullable_string()
    reader.read_tags()

    def change(cluster: Cluster) -> None:
        if resource != _RESOURCE_IS_TOPIC:
            return
        configs = cluster.configs.setdefault(topic, {})
        if value is None:
            configs.pop(name, None)
        else:
            configs[name] = value

    return change


def _decode_remove_topic(reader: MessageReader, _: int) -> Change:
    topic_id = reader.read_uuid()
    reader.read_tags()

    def change(cluster: Cluster) -> None:
        cluster.partitions.pop(topic_id, None)
        name = cluster.names.pop(topic_id, None)
        if name is not None:
            cluster.configs.pop(name, None)

    return change


def _read_brokers(reader: MessageReader) -> list[int] | None:
    return reader.read_array(reader.read_int32)


def _read_tag(tags: dict[int, bytes], tag: int, read: Callable[[MessageReader], T]) -> T | None:
    """Reads the value of a tagged field; None if it is not there."""
    return read(MessageReader(tags[tag], is_flexible=True)) if tag in tags else None


_DECODERS: dict[int, Callable[[MessageReader, int], Change]] = {
    TOPIC: _decode_topic,
    PARTITION: _decode_partition,
    CONFIG: _decode_config,
    PARTITION_CHANGE: _decode_partition_change,
    REMOVE_TOPIC: _decode_remove_topic,
    BEGIN_TRANSACTION: _decode_transaction,
    END_TRANSACTION: _decode_transaction,
    ABORT_TRANSACTION: _decode_transaction,
}
