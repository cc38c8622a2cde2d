"""The records of `_schemas` → the schemas that the log still has, as a registry would know them.

As in `storage.KafkaStoreMessageHandler`, the newest record of a key counts. Unlike there, a deleted schema stays: old
records still need it. Deletion of a whole subject marks its versions. CLEAR_SUBJECT changes which ids a registry gives
out again, and no schema.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from kafka_segment_source.internal_topics.log_records import LogRecord
from kafka_segment_source.internal_topics.oddities import Oddities
from kafka_segment_source.schema_registry.registry_messages import (
    Key,
    Schema,
    SubjectVersion,
    decode_deletion,
    decode_key,
    decode_schema,
    is_tombstone,
)

_PASSED_OVER = "it is passed over"


@dataclass
class Registered:
    """A schema, the record that says it last, and whether it is deleted."""

    schema: Schema
    record: LogRecord
    is_deleted: bool


@dataclass
class Replay:
    """The schemas of one log.

    last: the newest record, None for a log without one.
    """

    by_place: dict[SubjectVersion, Registered] = field(default_factory=dict)
    replaced: list[Registered] = field(default_factory=list)  # schemas of keys that have another one now
    last: LogRecord | None = None

    def everything(self) -> list[Registered]:
        """Every schema that the log still has, those first that were registered first."""
        return sorted([*self.replaced, *self.by_place.values()], key=lambda entry: entry.record.offset)


def decode_records(records: Iterable[LogRecord], oddities: Oddities) -> list[tuple[Key, LogRecord]]:
    """Returns the records that change schemas, in log order, without those that lost a race in Redpanda.

    Redpanda writes the expected offset into each key, and a record at another offset does not count. In a copy whose
    offsets are others, none is where it says, and all count.
    """
    decoded = []
    for record in records:
        key = oddities.catch(partial(decode_key, record), record.place, _PASSED_OVER)
        if key is not None:
            decoded.append((key, record))
    if not any(key.sequence == record.offset for key, record in decoded):
        return decoded
    return [(key, record) for key, record in decoded if key.sequence in (None, record.offset)]


def replay(records: Iterable[LogRecord], oddities: Oddities) -> Replay:
    """Replays records in log order. oddities: gets those that nobody understands."""
    state = Replay()

    def note_last() -> Iterable[LogRecord]:
        for record in records:
            state.last = record
            yield record

    for key, record in decode_records(note_last(), oddities):
        if key.place is not None:
            _replay_schema(state, key.place, record, oddities)
        elif not is_tombstone(record):
            last = oddities.catch(partial(decode_deletion, record), record.place, _PASSED_OVER)
            if last is not None:
                _delete_subject(state, key, last)
    return state


def _replay_schema(state: Replay, place: SubjectVersion, record: LogRecord, oddities: Oddities) -> None:
    known = state.by_place.get(place)
    if is_tombstone(record):
        if known is not None:
            known.is_deleted = True
        return
    schema = oddities.catch(partial(decode_schema, record, place), record.place, _PASSED_OVER)
    if schema is None:
        return
    if known is not None and (known.schema.id, known.schema.text) != (schema.id, schema.text):
        state.replaced.append(known)
    state.by_place[place] = Registered(schema, record, schema.is_deleted)


def _delete_subject(state: Replay, key: Key, last: int) -> None:
    for place, registered in state.by_place.items():
        if (place.context, place.subject) == key.subject and place.version <= last:
            registered.is_deleted = True
