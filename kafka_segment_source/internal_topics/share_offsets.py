"""`shareOffsets`: `__share_group_state` → where each share group stands in each partition, with its lag.

Comes in: the options of a read. Goes out: rows by group, topic and partition, the latest of each. With history=true,
every snapshot, every update and every tombstone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa

from kafka_segment_source.internal_topics.columns import HISTORY_COLUMNS, Row, to_micros
from kafka_segment_source.internal_topics.log_records import LogRecord, TopicRead, read_records
from kafka_segment_source.internal_topics.oddities import Oddities
from kafka_segment_source.internal_topics.partition_ends import find_ends, find_topics
from kafka_segment_source.internal_topics.share_records import (
    SNAPSHOT,
    SharePartition,
    ShareState,
    decode_key,
    decode_value,
)
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.schema import TIMESTAMP_TYPE, Column
from kafka_segment_source.source import Source

TOPIC = "__share_group_state"

_BATCHES_TYPE = pa.list_(
    pa.field(
        "element",
        pa.struct(
            [
                pa.field("firstOffset", pa.int64()),
                pa.field("lastOffset", pa.int64()),
                pa.field("deliveryState", pa.int32()),
                pa.field("deliveryCount", pa.int32()),
            ]
        ),
    )
)

COLUMNS = (
    Column("group", "string", pa.string()),
    Column("topic", "string", pa.string()),
    Column("topicId", "string", pa.string()),
    Column("partition", "int", pa.int32()),
    Column("startOffset", "bigint", pa.int64()),
    Column("deliveryCompleteCount", "int", pa.int32()),
    Column("stateEpoch", "int", pa.int32()),
    Column("leaderEpoch", "int", pa.int32()),
    Column("snapshotEpoch", "int", pa.int32()),
    Column("createTimestamp", "timestamp", TIMESTAMP_TYPE),
    Column("writeTimestamp", "timestamp", TIMESTAMP_TYPE),
    Column("logEndOffset", "bigint", pa.int64(), lambda content: not content.history),
    Column("lag", "bigint", pa.int64(), lambda content: not content.history),
    Column("kind", "string", pa.string(), lambda content: content.history),
    Column(
        "stateBatches",
        "array<struct<firstOffset:bigint,lastOffset:bigint,deliveryState:int,deliveryCount:int>>",
        _BATCHES_TYPE,
        lambda content: content.history,
    ),
    *HISTORY_COLUMNS,
)
"""topic: null where no directory under the paths has the id. startOffset: null before the group has read the partition.
deliveryCompleteCount: null where the record does not state it, as before Kafka 4.2.

logEndOffset, lag: null where the directory of the topic's partition is not under the paths, and with `until`. lag:
also null without startOffset or deliveryCompleteCount, as `kafka-share-groups` shows none then. kind: snapshot or
update. stateBatches: as the record has them.
"""


def read_rows(plan: ReadPlan, read: TopicRead, warnings: Warnings) -> Iterator[Row]:
    """Yields the rows of the view as dicts.

    warnings: gets a sentence for each kind of record that was not decoded. It is complete after the last row.

    Raises what a read of the internal topic raises: DataError, DataLossError and StorageError.
    """
    oddities = Oddities()
    records = read_records(plan, read.until)
    if read.history:
        yield from _read_history(records, read.source, oddities)
    else:
        yield from _read_latest(records, read, oddities, warnings)
    warnings += oddities.sentences()


def _read_history(records: Iterable[LogRecord], source: Source, oddities: Oddities) -> Iterator[Row]:
    known: dict[str, str] = {}
    seen: set[str] = set()
    for record in records:
        decoded_key = oddities.catch(partial(decode_key, record.key), record.place, "it is passed over")
        if decoded_key is None:
            continue
        number, key = decoded_key
        if key.topic_id not in seen:
            seen.add(key.topic_id)
            known |= find_topics({key.topic_id}, source)
        state = _decode_state(number, record, oddities)
        yield _make_row(key, state, known) | {
            "kind": "snapshot" if number == SNAPSHOT else "update",
            "stateBatches": None if state is None else [_name_batch(batch) for batch in state.batches],
            "isTombstone": record.value is None,
            "logPartition": record.partition,
            "logOffset": record.offset,
            "timestamp": record.timestamp,
        }


def _read_latest(
    records: Iterable[LogRecord], read: TopicRead, oddities: Oddities, warnings: Warnings
) -> Iterator[Row]:
    latest: dict[SharePartition, ShareState | None] = {}
    for record in records:
        decoded_key = oddities.catch(partial(decode_key, record.key), record.place, "it is passed over")
        if decoded_key is None:
            continue
        number, key = decoded_key
        if record.value is None:
            latest.pop(key, None)
            continue
        state, before = _decode_state(number, record, oddities), latest.get(key)
        if number != SNAPSHOT and state is not None:
            if before is None:  # its snapshot was not decoded, or is not in the log: a coordinator starts there too
                oddities.note("before", f"{record.place} is an update without a snapshot before it")
            else:
                state = before.updated(state)
        latest[key] = state
    topics = find_topics({key.topic_id for key in latest}, read.source)
    places = {key: (topics[key.topic_id], key.partition) for key in latest if key.topic_id in topics}
    ends = {} if read.until is not None else find_ends(set(places.values()), read.source, read.policy, warnings)
    for key in sorted(latest, key=lambda key: (key.group, topics.get(key.topic_id, ""), key.topic_id, key.partition)):
        state = latest[key]
        end = ends.get(places[key]) if key in places else None
        yield _make_row(key, state, topics) | {"logEndOffset": end, "lag": _find_lag(state, end)}


def _find_lag(state: ShareState | None, end: int | None) -> int | None:
    """The records that wait for a delivery, as `kafka-share-groups` counts them (KIP-1226)."""
    if state is None or end is None or state.start_offset is None or state.delivery_complete_count is None:
        return None
    return end - state.start_offset - state.delivery_complete_count


def _decode_state(number: int, record: LogRecord, oddities: Oddities) -> ShareState | None:
    """Decodes the value of a record. None for a tombstone; and, noted, if that cannot be done."""
    if record.value is None:
        return None
    return oddities.catch(partial(decode_value, number, record.value), record.place, "its state is null")


def _make_row(key: SharePartition, state: ShareState | None, topics: dict[str, str]) -> Row:
    row: Row = {
        "group": key.group,
        "topic": topics.get(key.topic_id),
        "topicId": key.topic_id,
        "partition": key.partition,
    }
    names = ("startOffset", "deliveryCompleteCount", "stateEpoch", "leaderEpoch", "snapshotEpoch")
    if state is None:
        return row | dict.fromkeys((*names, "createTimestamp", "writeTimestamp"))
    return row | {
        "startOffset": state.start_offset,
        "deliveryCompleteCount": state.delivery_complete_count,
        "stateEpoch": state.state_epoch,
        "leaderEpoch": state.leader_epoch,
        "snapshotEpoch": state.snapshot_epoch,
        "createTimestamp": to_micros(state.create_timestamp),
        "writeTimestamp": to_micros(state.write_timestamp),
    }


def _name_batch(batch: tuple[int, int, int, int]) -> dict[str, int]:
    return dict(zip(("firstOffset", "lastOffset", "deliveryState", "deliveryCount"), batch, strict=True))
