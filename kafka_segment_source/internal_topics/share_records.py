"""Decodes the records of `__share_group_state`: a key and a value → the state of a share partition.

A key begins with its type: 0 for a snapshot, 1 for an update of the snapshot before it. A value begins with its own
version. A null value is a tombstone: it removes the state. Source: `ShareSnapshotKey.json`, `ShareSnapshotValue.json`,
`ShareUpdateKey.json`, `ShareUpdateValue.json` and `ShareCoordinatorShard.merge` (Kafka 4.1 to 4.4).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from kafka_segment_source.internal_topics.messages import MessageError, MessageReader, NewerVersionError, read_version

SNAPSHOT, UPDATE = 0, 1  # types of keys
_NAMES = {SNAPSHOT: "ShareSnapshot", UPDATE: "ShareUpdate"}
_NEWEST_VALUE = 0
_DELIVERY_COMPLETE_COUNT = 0  # a tag, from Kafka 4.2 on
_COUNT_BYTES = 4
_NONE = -1


class SharePartition(NamedTuple):
    """What a state is of: a group, and a partition of the topic with this id."""

    group: str
    topic_id: str
    partition: int


class ShareState(NamedTuple):
    """The state of a share partition. Moments are epoch ms. None: not stated.

    start_offset: every record before it was delivered or given up.
    delivery_complete_count: records from there on that need no delivery any more (KIP-1226).
    batches: ranges of offsets whose delivery has begun: first and last offset, state (0 available, 2 acknowledged, 4
    archived), count of deliveries. Those of a snapshot are whole, and those of an update are changes.
    """

    snapshot_epoch: int
    state_epoch: int | None
    leader_epoch: int | None
    start_offset: int | None
    delivery_complete_count: int | None
    create_timestamp: int | None
    write_timestamp: int | None
    batches: tuple[tuple[int, int, int, int], ...]

    def updated(self, update: ShareState) -> ShareState:
        """The state after an update, without its batches, which only a share coordinator combines."""
        return self._replace(
            leader_epoch=self.leader_epoch if update.leader_epoch is None else update.leader_epoch,
            start_offset=self.start_offset if update.start_offset is None else update.start_offset,
            delivery_complete_count=update.delivery_complete_count,
            batches=(),
        )


def decode_key(key: bytes | None) -> tuple[int, SharePartition]:
    """Decodes a key into its type and what it is of.

    Raises MessageError for one that cannot be decoded, and NewerVersionError for an unknown type.
    """
    if key is None:
        raise MessageError("a null key")
    reader = MessageReader(key)
    number = reader.read_int16()
    if number not in _NAMES:
        raise NewerVersionError(f"of type {number}, which is unknown")
    return number, SharePartition(reader.read_string(), reader.read_uuid(), reader.read_int32())


def decode_value(number: int, value: bytes) -> ShareState:
    """Decodes the value of a snapshot or an update, of version 0. number: the type of its key.

    Raises MessageError for one that cannot be decoded, and NewerVersionError for a newer version.
    """
    reader = MessageReader(value)
    read_version(reader, _NAMES[number], _NEWEST_VALUE)
    reader.is_flexible = True
    is_snapshot = number == SNAPSHOT
    snapshot_epoch = reader.read_int32()
    state_epoch = reader.read_int32() if is_snapshot else _NONE
    leader_epoch, start_offset = reader.read_int32(), reader.read_int64()
    create, write = (reader.read_int64(), reader.read_int64()) if is_snapshot else (_NONE, _NONE)
    batches = reader.read_array(partial(_read_batch, reader)) or []
    count = reader.read_tags().get(_DELIVERY_COMPLETE_COUNT)
    if count is not None and len(count) != _COUNT_BYTES:
        raise MessageError(f"a tagged field of {len(count)} bytes, where {_COUNT_BYTES} are needed")
    return ShareState(
        snapshot_epoch=snapshot_epoch,
        state_epoch=_or_none(state_epoch),
        leader_epoch=_or_none(leader_epoch),
        start_offset=_or_none(start_offset),
        delivery_complete_count=None if count is None else _or_none(int.from_bytes(count, "big", signed=True)),
        create_timestamp=_or_none(create),
        write_timestamp=_or_none(write),
        batches=tuple(batches),
    )


def _read_batch(reader: MessageReader) -> tuple[int, int, int, int]:
    batch = reader.read_int64(), reader.read_int64(), reader.read_int8(), reader.read_int16()
    reader.read_tags()
    return batch


def _or_none(number: int) -> int | None:
    return None if number == _NONE else number
