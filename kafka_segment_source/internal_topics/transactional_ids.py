"""`transactionalIds`: `__transaction_state` → the state of each transactional id.

Comes in: the options of a read. Goes out: rows by transactional id, the latest of each. With history=true, every
record.
Source: `TransactionLogKey.json`, `TransactionLogValue.json` and TransactionState, Kafka 0.11 to 4.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from kafka_segment_source.internal_topics.columns import HISTORY_COLUMNS, Row, to_micros
from kafka_segment_source.internal_topics.log_records import LogRecord, TopicRead, read_records
from kafka_segment_source.internal_topics.messages import MessageError, MessageReader, NewerVersionError, read_version
from kafka_segment_source.internal_topics.oddities import Oddities
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.schema import TIMESTAMP_TYPE, Column

TOPIC = "__transaction_state"

_PARTITIONS_TYPE = pa.list_(
    pa.field(
        "element",
        pa.struct([pa.field("topic", pa.string()), pa.field("partitions", pa.list_(pa.field("element", pa.int32())))]),
    )
)

COLUMNS = (
    Column("transactionalId", "string", pa.string()),
    Column("producerId", "bigint", pa.int64()),
    Column("producerEpoch", "int", pa.int32()),
    Column("previousProducerId", "bigint", pa.int64()),
    Column("nextProducerId", "bigint", pa.int64()),
    Column("nextProducerEpoch", "int", pa.int32()),
    Column("timeoutMs", "int", pa.int32()),
    Column("state", "string", pa.string()),
    Column("topicPartitions", "array<struct<topic:string,partitions:array<int>>>", _PARTITIONS_TYPE),
    Column("lastUpdateTimestamp", "timestamp", TIMESTAMP_TYPE),
    Column("startTimestamp", "timestamp", TIMESTAMP_TYPE),
    *HISTORY_COLUMNS,
)
"""previousProducerId, nextProducerId, nextProducerEpoch: null where the record has none. startTimestamp: null where no
transaction has begun. All but the id are null in a tombstone's row, and where the value cannot be decoded, with a
warning."""

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""Kafka's names of the states, by their number."""

_KEY_TYPE = 0
_NEWEST_VALUE = 1
_FLEXIBLE_FROM = 1
_PREVIOUS_PRODUCER_ID, _NEXT_PRODUCER_ID, _NEXT_PRODUCER_EPOCH = 0, 1, 3  # tags
_NONE = -1


def read_rows(plan: ReadPlan, read: TopicRead, warnings: Warnings) -> Iterator[Row]:
    """Yields the rows of the view as dicts.

    warnings: gets a sentence for each kind of record that was not decoded. It is complete after the last row.

    Raises what a read of the internal topic raises: DataError, DataLossError and StorageError.
    """
    oddities = Oddities()
    latest: dict[str, LogRecord] = {}
    for record in read_records(plan, read.until):
        name = oddities.catch(partial(_decode_key, record.key), record.place, "it is passed over")
        if name is not None and read.history:
            yield _make_row(name, record, oddities)
        elif name is not None:
            latest[name] = record
    for name in sorted(latest):
        if latest[name].value is not None:
            yield _make_row(name, latest[name], oddities)
    warnings += oddities.sentences()


def _make_row(name: str, record: LogRecord, oddities: Oddities) -> Row:
    """Makes the row of a record. The fields of a value that cannot be decoded are null, and noted."""
    row: Row = dict.fromkeys(column.name for column in COLUMNS)
    row |= {
        "transactionalId": name,
        "isTombstone": record.value is None,
        "logPartition": record.partition,
        "logOffset": record.offset,
        "timestamp": record.timestamp,
    }
    if record.value is None:
        return row
    state = oddities.catch(partial(_decode_value, record.value), record.place, "its state is null")
    return row | (state or {})


def _decode_key(key: bytes | None) -> str:
    if key is None:
        raise MessageError("a null key")
    reader = MessageReader(key)
    number = reader.read_int16()
    if number != _KEY_TYPE:
        raise NewerVersionError(f"of type {number}, which is unknown")
    return reader.read_string()


def _decode_value(value: bytes) -> Row:
    """Decodes a value, of version 0 or 1: columns by name."""
    reader = MessageReader(value)
    version = read_version(reader, "TransactionLog", _NEWEST_VALUE)
    reader.is_flexible = version >= _FLEXIBLE_FROM
    row: Row = {
        "producerId": reader.read_int64(),
        "producerEpoch": reader.read_int16(),
        "timeoutMs": reader.read_int32(),
        "state": _name_state(reader.read_int8()),
        "topicPartitions": reader.read_array(partial(_read_partitions, reader)) or [],
        "lastUpdateTimestamp": to_micros(reader.read_int64()),
        "startTimestamp": to_micros(reader.read_int64()),
    }
    tags = reader.read_tags()
    return row | {
        "previousProducerId": _read_tag(tags, _PREVIOUS_PRODUCER_ID, 8),
        "nextProducerId": _read_tag(tags, _NEXT_PRODUCER_ID, 8),
        "nextProducerEpoch": _read_tag(tags, _NEXT_PRODUCER_EPOCH, 2),
    }


def _name_state(number: int) -> str:
    return STATES[number] if 0 <= number < len(STATES) else f"UNKNOWN({number})"


def _read_partitions(reader: MessageReader) -> Row:
    topic = reader.read_string()
    partitions = reader.read_array(reader.read_int32)
    reader.read_tags()
    return {"topic": topic, "partitions": partitions}


def _read_tag(tags: dict[int, bytes], tag: int, size: int) -> int | None:
    """Reads a number out of a tagged field. None if it is not there, or -1."""
    data = tags.get(tag)
    if data is None:
        return None
    if len(data) != size:
        raise MessageError(f"the tagged field {tag} has {len(data)} bytes instead of {size}")
    number = int.from_bytes(data, "big", signed=True)
    return None if number == _NONE else number
