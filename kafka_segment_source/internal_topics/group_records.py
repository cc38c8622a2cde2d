"""Decodes the records of `__consumer_offsets`: a key and a value → what a group coordinator would make of them.

A key begins with the number of its type. Types 0 and 1 are offset commits. A value begins with its own version. A null
value is a tombstone: it removes what the key names. Source: Kafka's message definitions (`OffsetCommitKey.json`,
`OffsetCommitValue.json`, `GroupMetadataValue.json` and the others of `group-coordinator`, releases 0.9 to 4.4).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from kafka_segment_source.internal_topics.messages import MessageError, MessageReader, NewerVersionError, read_version

OFFSET_COMMIT_TYPES = (0, 1)  # 0: written by Kafka 0.8, with a value of version 0 or 1
RECORD_TYPES = {
    0: "OffsetCommit",
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    9: "ShareGroupPartitionMetadata",  # before 4.0 was released; no release writes it
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    16: "ConsumerGroupRegularExpression",
    17: "StreamsGroupMetadata",
    18: "StreamsGroupPartitionMetadata",  # before 4.1 was released; no release writes it
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
    24: "StreamsGroupTargetAssignmentResolvedTopicIds",  # no release up to 4.4 writes it
}
"""The names of the types, as in Kafka's CoordinatorRecordType, which writes them in capitals with underscores."""

CLASSIC = 2
GROUP_TYPES = {CLASSIC: "classic", 3: "consumer", 11: "share", 17: "streams"}
"""The record that each kind of group has, as long as the group is there."""

_NEWEST_OFFSET_COMMIT = 4
_NEWEST_GROUP_METADATA = 4
_NEWEST_OTHER_VALUE = 0
_FLEXIBLE_FROM = 4  # of offset commits and classic groups
_LEADER_EPOCH_FROM, _EXPIRE_TIMESTAMP_IN = 3, 1  # versions of offset commits
_STATE_TIMESTAMP_FROM, _INSTANCE_ID_FROM, _REBALANCE_TIMEOUT_FROM = 2, 3, 1  # versions of classic groups
_MOST_KEYS = 65_536  # remembered ones: a group commits the same partitions again and again
_NO_NUMBER = -1  # of leader epochs and timestamps that a commit does not have


class OffsetCommitKey(NamedTuple):
    """What an offset commit is of."""

    group: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """A record of another type.

    type: the number of the type; what follows the group in the key is left out.
    """

    type: int
    group: str


class OffsetCommit(NamedTuple):
    """A committed offset. Times are epoch ms.

    leader_epoch, expire_timestamp: None where the commit has none.

    expire_timestamp: in version 1 alone, which brokers before 2.1 wrote.
    """

    offset: int
    leader_epoch: int | None
    metadata: str
    commit_timestamp: int
    expire_timestamp: int | None


@lru_cache(maxsize=_MOST_KEYS)
def decode_key(key: bytes | None) -> OffsetCommitKey | GroupKey:
    """Decodes a key. Raises MessageError for one that cannot be decoded, and NewerVersionError for an unknown type."""
    if key is None:
        raise MessageError("a null key")
    reader = MessageReader(key)
    number = reader.read_int16()
    if number not in RECORD_TYPES:
        raise NewerVersionError(f"of type {number}, which is unknown")
    group = reader.read_string()
    if number not in OFFSET_COMMIT_TYPES:
        return GroupKey(number, group)
    return OffsetCommitKey(group, reader.read_string(), reader.read_int32())


def decode_offset_commit(value: bytes) -> OffsetCommit:
    """Decodes the value of an offset commit, of versions 0 to 4.

    Raises MessageError for one that cannot be decoded, and NewerVersionError for a newer version.
    """
    reader = MessageReader(value)
    version = read_version(reader, "OffsetCommit", _NEWEST_OFFSET_COMMIT)
    reader.is_flexible = version >= _FLEXIBLE_FROM
    offset = reader.read_int64()
    leader_epoch = reader.read_int32() if version >= _LEADER_EPOCH_FROM else _NO_NUMBER
    metadata = reader.read_string()
    commit_timestamp = reader.read_int64()
    expire_timestamp = reader.read_int64() if version == _EXPIRE_TIMESTAMP_IN else _NO_NUMBER
    reader.read_tags()
    return OffsetCommit(
        offset,
        None if leader_epoch == _NO_NUMBER else leader_epoch,
        metadata,
        commit_timestamp,
        None if expire_timestamp == _NO_NUMBER else expire_timestamp,
    )


def check_group_value(number: int, value: bytes) -> None:
    """Checks that the value of a record that is no offset commit is of a known version, and a classic group's whole.

    number: of the type. Raises MessageError and NewerVersionError, as `decode_offset_commit` does.
    """
    reader = MessageReader(value)
    if number != CLASSIC:
        read_version(reader, RECORD_TYPES[number], _NEWEST_OTHER_VALUE)
        return
    version = read_version(reader, RECORD_TYPES[number], _NEWEST_GROUP_METADATA)
    reader.is_flexible = version >= _FLEXIBLE_FROM
    reader.read_string()  # type of the protocol
    reader.read_int32()  # generation
    reader.read_nullable_string()  # protocol
    reader.read_nullable_string()  # leader
    if version >= _STATE_TIMESTAMP_FROM:
        reader.read_int64()  # since when it is in its state
    reader.read_array(lambda: _read_member(reader, version))
    reader.read_tags()


def _read_member(reader: MessageReader, version: int) -> str:
    """Reads a member of a classic group. Returns its id."""
    member = reader.read_string()
    if version >= _INSTANCE_ID_FROM:
        reader.read_nullable_string()  # group instance id
    reader.read_string()  # client id
    reader.read_string()  # client host
    if version >= _REBALANCE_TIMEOUT_FROM:
        reader.read_int32()  # rebalance timeout
    reader.read_int32()  # session timeout
    reader.read_bytes()  # subscription
    reader.read_bytes()  # assignment
    reader.read_tags()
    return member
