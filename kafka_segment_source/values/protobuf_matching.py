"""Whether values of one message of Protobuf can be read as another version of it.

Google's parser passes over a field whose bytes cannot have the type that its number has for the reader: the field would
be empty, in silence. So such a pair of schemas is refused. What else is compatible is in
https://protobuf.dev/programming-guides/proto3/#updating.
"""

from __future__ import annotations

from typing import Any

from kafka_segment_source.values.protobuf_errors import ProtobufError

_GROUPS = (
    (3, 4, 5, 8, 13, 14),  # int64, uint64, int32, bool, uint32, enum
    (17, 18),  # sint32, sint64
    (7, 15),  # fixed32, sfixed32
    (6, 16),  # fixed64, sfixed64
    (9, 12),  # string, bytes
    (11, 12),  # message, bytes
)
_NAMES = ["double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message", "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64"]  # fmt: skip
_PACKED = (9, 10, 11, 12)  # types whose lists have each item behind its own number


def check_match(writer: Any, reader: Any) -> None:
    """Raises ProtobufError for descriptors of messages that do not match."""
    waiting, seen = [(writer, reader)], set[tuple[str, str]]()
    while waiting:
        written, read = waiting.pop()
        if (written.full_name, read.full_name) in seen:
            continue
        seen.add((written.full_name, read.full_name))
        for number, field in read.fields_by_number.items():
            other = written.fields_by_number.get(number)
            if other is None:
                continue
            if other.type != field.type and not any({other.type, field.type} <= {*group} for group in _GROUPS):
                raise _refuse(read, field, _NAMES[other.type - 1], _NAMES[field.type - 1])
            if other.is_repeated and not field.is_repeated and other.type not in _PACKED:
                raise _refuse(read, field, "repeated", "not")
            if field.message_type is not None and other.message_type is not None:
                waiting.append((other.message_type, field.message_type))


def _refuse(message: Any, field: Any, written: str, read: str) -> ProtobufError:
    return ProtobufError(
        f"field {field.number} of {message.full_name} is {written} there, and {read} in the schema that it is read as"
        f" ({field.name})"
    )
