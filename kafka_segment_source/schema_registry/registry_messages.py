"""What the records of `_schemas` say. Key and value are JSON in UTF-8.

Written by the Confluent Schema Registry (`storage.SchemaRegistrySerializer`, `SchemaKey`, `SchemaValue`), by Karapace
(`schema_reader.py`) and by Redpanda (`pandaproxy/schema_registry/storage.h`). They differ in the order of fields, and
some add fields. Unknown fields do not count.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka_segment_source.internal_topics.log_records import LogRecord
from kafka_segment_source.internal_topics.messages import MessageError

SCHEMA = "SCHEMA"
DELETE_SUBJECT = "DELETE_SUBJECT"
_OTHERS = ("CONFIG", "MODE", "NOOP", "CLEAR_SUBJECT", "CLEAR_SUBJECTS", "CONTEXT", "ASSOC")  # they change no schema

DEFAULT_CONTEXT = "."
AVRO = "AVRO"  # where a value names no schemaType
JSON_SCHEMA = "JSON"
PROTOBUF = "PROTOBUF"

_MOST_VERSIONS = 2**31


class Reference(NamedTuple):
    """A schema that another one uses.

    name: of the type (Avro), the import (Protobuf) or the `$ref` (JSON).
    """

    name: str
    subject: str
    version: int


class SubjectVersion(NamedTuple):
    """What a schema is registered as.

    subject: without its context.
    """

    context: str
    subject: str
    version: int


class Schema(NamedTuple):
    """One version of a subject.

    guid: a UUID as text; None where it cannot be known.
    rules: the JSON of its ruleSet, empty without one.
    """

    place: SubjectVersion
    id: int
    guid: str | None
    kind: str
    text: str
    references: tuple[Reference, ...]
    is_deleted: bool
    rules: str

    @property
    def encrypts_values(self) -> bool:
        """Whether a rule encrypts each value as a whole. Others encrypt single fields, which decode."""
        return "ENCRYPT_PAYLOAD" in self.rules


class Key(NamedTuple):
    """The key of a record.

    place: of a SCHEMA record.
    subject: of a DELETE_SUBJECT record, with its context.

    sequence: the offset that Redpanda wrote the record for. Only then the record counts.
    """

    keytype: str
    place: SubjectVersion | None
    subject: tuple[str, str] | None
    sequence: int | None


def decode_key(record: LogRecord) -> Key | None:
    """Decodes the key of a record. None for one that changes no schema. Raises MessageError for anything unknown."""
    fields = _parse(record.key or b"")
    keytype = fields.get("keytype")
    if keytype in _OTHERS:
        return None
    if keytype not in (SCHEMA, DELETE_SUBJECT):
        raise MessageError(f"its keytype is {_shorten(keytype)}")
    context, subject = split_subject(_take(fields, "subject", str))
    sequence = fields.get("seq")
    place = SubjectVersion(context, subject, _take_version(fields)) if keytype == SCHEMA else None
    return Key(str(keytype), place, (context, subject), sequence if type(sequence) is int else None)


def is_tombstone(record: LogRecord) -> bool:
    """Whether a record removes what its key names. Karapace writes the text `null`, too."""
    return record.value is None or record.value.strip() in (b"", b"null")


def decode_deletion(record: LogRecord) -> int:
    """Decodes the value of a DELETE_SUBJECT record: versions up to this one are deleted."""
    return _take_version(_parse(record.value or b""))


def decode_schema(record: LogRecord, place: SubjectVersion) -> Schema:
    """Decodes the value of a SCHEMA record. Raises MessageError if it is not one."""
    fields = _parse(record.value or b"")
    number, text, kind = _take(fields, "id", int), _take(fields, "schema", str), fields.get("schemaType") or AVRO
    if not isinstance(kind, str):
        raise MessageError(f"its schemaType is {_shorten(kind)}")
    listed = fields.get("references") or []
    if not isinstance(listed, list) or not all(isinstance(reference, dict) for reference in listed):
        raise MessageError(f"its references are {_shorten(listed)}")
    references = tuple(
        Reference(_take(reference, "name", str), _take(reference, "subject", str), _take_version(reference))
        for reference in listed
    )
    rules = fields.get("ruleSet")
    return Schema(
        place,
        number,
        _find_guid(fields, text, references),
        _to_unicode(kind.upper()),
        text,
        references,
        fields.get("deleted") is True,
        json.dumps(rules) if rules else "",
    )


def split_subject(text: str, context: str = DEFAULT_CONTEXT) -> tuple[str, str]:
    """Splits `:.context:subject` into context and subject. context: of a subject that names none
    (`client.rest.utils.QualifiedSubject`)."""
    if not text.startswith(":."):
        return context, text
    name, colon, subject = text[1:].partition(":")
    return (name, subject) if colon else (context, text)


def make_guid(text: str, references: tuple[Reference, ...] = ()) -> str:
    """Computes the GUID of a schema without metadata and rules: an MD5 as a UUID (`client.rest.entities.Schema`)."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False)
    for reference in references:
        digest.update(reference.name.encode())
        digest.update(reference.subject.encode())
        digest.update(struct.pack(">i", reference.version))
    return str(uuid.UUID(bytes=digest.digest()))


def _find_guid(fields: Mapping[str, Any], text: str, references: tuple[Reference, ...]) -> str | None:
    """Returns the GUID of a value: as its field md5 says, or else computed, which metadata and rules do not allow."""
    stored = fields.get("md5")
    if isinstance(stored, str):
        try:
            return str(uuid.UUID(bytes=base64.b64decode(stored, validate=True)))
        except ValueError as error:
            raise MessageError(f"its md5 is {_shorten(stored)}") from error
    return None if fields.get("metadata") or fields.get("ruleSet") else make_guid(text, references)


def _parse(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise MessageError(f"it is not JSON: {_shorten(str(error))}") from error
    if not isinstance(value, dict):
        raise MessageError(f"it is not a JSON object but {_shorten(value)}")
    return value


def _take(fields: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    value: Any = fields.get(name)
    if type(value) is not kind:
        raise MessageError(f"its {name} is {_shorten(value)}")
    if kind is int and not -_MOST_VERSIONS <= value < _MOST_VERSIONS:
        raise MessageError(f"its {name} is {_shorten(value)}, which has more than 32 bits")
    return value if kind is int else _to_unicode(value)


def _to_unicode(text: str) -> str:
    """Replaces what JSON can escape and UTF-8 cannot hold: halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _take_version(fields: Mapping[str, Any]) -> int:
    return int(_take(fields, "version", int))


def _shorten(value: object) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of many digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:59]}…"  # noqa: PLR2004  # a line
