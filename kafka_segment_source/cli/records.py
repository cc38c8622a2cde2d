"""Record batches → lines: tab-separated text for people, JSON for programs. Columns are converted one at a time."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any

import pyarrow as pa

from kafka_segment_source import kafka_format
from kafka_segment_source.cli.plain_values import to_plain
from kafka_segment_source.decoding.control_records import read_coordinator_epoch
from kafka_segment_source.times import format_millis

_TYPED = ("key", "value")  # columns that a schema may type
_MICROS = 1000  # in a millisecond
CONTROL_TYPE = "controlType"  # a column; text lines show it in place of the key
_PLACE = "topic-partition"  # a field of text lines; it is not a column
_END_MARKERS = (
    kafka_format.CONTROL_TYPES[kafka_format.CONTROL_ABORT],
    kafka_format.CONTROL_TYPES[kafka_format.CONTROL_COMMIT],
)
_json = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps would make an encoder for every line


class Encoding(StrEnum):
    """How bytes become text."""

    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"


_ENCODERS: dict[Encoding, Callable[[bytes], str]] = {
    Encoding.TEXT: lambda data: data.decode("utf-8", "replace"),
    Encoding.HEX: bytes.hex,
    Encoding.BASE64: lambda data: base64.b64encode(data).decode("ascii"),
}

# Every record is one line, and none of its bytes may reach the terminal as a command
_UNPRINTABLE = re.compile("[\\\\\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LAST_OF_LATIN_1 = 0xFF
_NAMED = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


def text_fields(columns: Sequence[str]) -> tuple[str, ...]:
    """The fields of a text line by default. Topic and partition are one field."""
    return (
        _PLACE,
        "offset",
        "timestamp",
        "key",
        "value",
        *(each for each in ("headers", "metadata") if each in columns),
    )


def text_lines(batch: pa.RecordBatch, encoding: Encoding, fields: Sequence[str]) -> Iterator[str]:
    """Makes one text line for each record.

    If the batch has the column controlType, a control record shows its type as the key, and its parsed value.
    """
    columns = _make_columns(batch, encoding)
    for row, control in enumerate(columns.get(CONTROL_TYPE, ())):
        if control is not None:
            _show_control(columns, row, control, batch)
    if _PLACE in fields:
        places = zip(columns["topic"], columns["partition"], strict=True)
        columns[_PLACE] = [f"{topic}-{partition}" for topic, partition in places]
    for values in zip(*(map(_format_field, columns[field]) for field in fields), strict=True):
        yield "\t".join(values) + "\n"


def json_lines(batch: pa.RecordBatch, encoding: Encoding, fields: Sequence[str]) -> Iterator[str]:
    """Makes one JSON object for each record: columns by name, timestamps as ISO-8601 in UTC."""
    columns = _make_columns(batch, encoding)
    wanted = {field: columns[field] for field in fields}
    for values in zip(*wanted.values(), strict=True):
        yield _json(dict(zip(wanted, values, strict=True))) + "\n"


def _show_control(columns: dict[str, list[Any]], row: int, control: str, batch: pa.RecordBatch) -> None:
    if "key" in columns:
        columns["key"][row] = f"controlType: {control}"
    if "value" in columns and control in _END_MARKERS and pa.types.is_binary(batch["value"].type):
        columns["value"][row] = f"coordinatorEpoch: {read_coordinator_epoch(batch['value'][row].as_py())}"


def _make_columns(batch: pa.RecordBatch, encoding: Encoding) -> dict[str, list[Any]]:
    """Converts columns into lists for JSON: bytes are encoded, and timestamps become text."""
    encode = _ENCODERS[encoding]
    return {
        name: _format_times(column)
        if name == "timestamp"
        else to_plain(column, encode)
        if name in _TYPED and not pa.types.is_binary(column.type)
        else [_encode_value(value, encode) for value in column.to_pylist()]
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }


def _format_times(column: pa.Array) -> list[str]:
    """Formats timestamps by way of integers, since Python's datetime has a smaller range than Kafka's 64 bits."""
    return [format_millis(micros // _MICROS) for micros in column.cast(pa.int64()).to_pylist()]


def _encode_value(value: Any, encode: Callable[[bytes], str]) -> Any:
    """Encodes the bytes in a value as text, also inside lists and dicts."""
    if isinstance(value, bytes):
        return encode(value)
    if isinstance(value, list):
        return [_encode_value(each, encode) for each in value]
    if isinstance(value, dict):
        return {name: _encode_value(each, encode) for name, each in value.items()}
    return value


def _format_field(value: Any) -> str:
    """Formats one field of a text line."""
    if isinstance(value, int):
        return str(value)
    if value is None:
        return "null"
    return escape(value if isinstance(value, str) else _json(value))


def escape(text: str) -> str:
    """Returns a text in one line, without what a terminal could take for a command."""
    return text if _UNPRINTABLE.search(text) is None else _UNPRINTABLE.sub(_escape_character, text)


def _escape_character(found: re.Match[str]) -> str:
    code = ord(found[0])
    return _NAMED.get(found[0]) or (f"\\x{code:02x}" if code <= _LAST_OF_LATIN_1 else f"\\u{code:04x}")
