"""`schemas`: `_schemas` → a row for each schema version that the log still has. With history=true, for each record.

Comes in: the options of a read. Goes out: rows by context, subject and version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa

from kafka_segment_source.internal_topics.columns import Row
from kafka_segment_source.internal_topics.log_records import LogRecord, TopicRead, read_records, say_open, take_effect
from kafka_segment_source.internal_topics.oddities import Oddities
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.schema import TIMESTAMP_TYPE, Column
from kafka_segment_source.schema_registry.registry_messages import (
    Key,
    Schema,
    decode_deletion,
    decode_schema,
    is_tombstone,
)
from kafka_segment_source.schema_registry.replay import decode_records, replay

TOPIC = "_schemas"

_REFERENCE = pa.struct(
    [pa.field("name", pa.string()), pa.field("subject", pa.string()), pa.field("version", pa.int32())]
)

COLUMNS = (
    Column("subject", "string", pa.string()),
    Column("version", "int", pa.int32()),
    Column("id", "int", pa.int32()),
    Column("guid", "string", pa.string()),
    Column("schemaType", "string", pa.string()),
    Column("schema", "string", pa.string()),
    Column(
        "references", "array<struct<name:string,subject:string,version:int>>", pa.list_(pa.field("element", _REFERENCE))
    ),
    Column("deleted", "boolean", pa.bool_()),
    Column("context", "string", pa.string()),
    Column("offset", "bigint", pa.int64()),
    Column("timestamp", "timestamp", TIMESTAMP_TYPE),
    Column("keytype", "string", pa.string(), lambda content: content.history),
    Column("isTombstone", "boolean", pa.bool_(), lambda content: content.history),
)
"""subject: without its context. guid: null where neither the record says it nor the schema alone. deleted: whether a
registry hides the version, or has removed it. offset, timestamp: of the record. version: in a history, of a
DELETE_SUBJECT record the last version that it deletes.
"""


def read_rows(plan: ReadPlan, read: TopicRead, warnings: Warnings) -> Iterator[Row]:
    """Yields the rows of the view as dicts.

    warnings: gets a sentence for each kind of record that was not decoded. It is complete after the last row.

    Raises what a read of the topic raises: DataError, DataLossError and StorageError.
    """
    open_ones: list[LogRecord] = []
    oddities = Oddities()
    records = take_effect(read_records(plan, read.until), open_ones)
    if read.history:
        yield from _make_history(records, oddities)
    else:
        registered = replay(records, oddities).by_place.values()
        for entry in sorted(registered, key=lambda entry: entry.schema.place):
            yield _make_row(entry.schema, entry.record) | {"deleted": entry.is_deleted}
    warnings += say_open(open_ones, "schemas")
    warnings += oddities.sentences()


def _make_history(records: Iterable[LogRecord], oddities: Oddities) -> Iterator[Row]:
    for key, record in decode_records(records, oddities):
        context, subject = key.subject or ("", "")
        row: Row = _place(record) | {"context": context, "subject": subject, "keytype": key.keytype}
        row["version"] = None if key.place is None else key.place.version
        row["isTombstone"] = is_tombstone(record)
        if not is_tombstone(record):
            decoded = oddities.catch(partial(_decode_value, key, record), record.place, "what it says is null")
            row |= decoded or {}
        yield row


def _decode_value(key: Key, record: LogRecord) -> Row:
    if key.place is None:
        return {"version": decode_deletion(record)}
    return _make_row(decode_schema(record, key.place), record)


def _make_row(schema: Schema, record: LogRecord) -> Row:
    return _place(record) | {
        "subject": schema.place.subject,
        "version": schema.place.version,
        "id": schema.id,
        "guid": schema.guid,
        "schemaType": schema.kind,
        "schema": schema.text,
        "references": [reference._asdict() for reference in schema.references],
        "deleted": schema.is_deleted,
        "context": schema.place.context,
    }


def _place(record: LogRecord) -> Row:
    return {"offset": record.offset, "timestamp": record.timestamp}
