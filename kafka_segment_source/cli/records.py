"""Record batches → lines: tab-separated text for people, JSON for programs. Columns are converted one at a time.

No byte is lost. Where keys and values are printed as text, bytes that are not UTF-8 are `\\xff` in a text line, and
JSON has the object `{"base64": "…"}` in place of a string.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

import pyarrow as pa

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.control_records import read_coordinator_epoch
from kafka_segment_source.times import format_millis
from kafka_segment_source.values.plain_values import to_plain

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


class Encoder:
    """Turns the bytes of keys, values and headers into what is printed.

    has_binary: whether bytes have come that are not UTF-8, although they are printed as text.
    """

    def __init__(self, encoding: Encoding) -> None:
        self.has_binary = False
        self._encoding = encoding

    def for_line(self, data: bytes) -> str:
        """Returns a field of a text line, before `escape`. A byte that is not UTF-8 becomes a lone surrogate."""
        found = self.for_json(data)
        return found if isinstance(found, str) else data.decode("utf-8", "surrogateescape")

    def for_json(self, data: bytes) -> str | dict[str, str]:
        """Returns a string, or an object in base64 for bytes that are not UTF-8."""
        if self._encoding is Encoding.HEX:
            return data.hex()
        if self._encoding is Encoding.BASE64:
            return _to_base64(data)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            self.has_binary = True
            return {Encoding.BASE64.value: _to_base64(data)}


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


# Every record is one line, and none of its bytes may reach the terminal as a command. The surrogates are bytes that are
# not UTF-8 (PEP 383).
_UNPRINTABLE = re.compile("[\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\udc80-\udcff]")
_LAST_OF_ASCII = 0x7F
_FIRST_SURROGATE = 0xDC00  # of the byte 0
_LAST_SURROGATE = 0xDCFF  # of the byte 255
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


def text_lines(batch: pa.RecordBatch, encoder: Encoder, fields: Sequence[str]) -> Iterator[str]:
    """Makes one text line for each record.

    If the batch has the column controlType, a control record shows its type as the key, and its parsed value.
    """
    columns = _make_columns(batch, encoder, is_json=False)
    for row, control in enumerate(columns.get(CONTROL_TYPE, ())):
        if control is not None:
            _show_control(columns, row, control, batch)
    if _PLACE in fields:
        places = zip(columns["topic"], columns["partition"], strict=True)
        columns[_PLACE] = [f"{topic}-{partition}" for topic, partition in places]
    for values in zip(*(map(_format_field, columns[field]) for field in fields), strict=True):
        yield "\t".join(values) + "\n"


def json_lines(batch: pa.RecordBatch, encoder: Encoder, fields: Sequence[str]) -> Iterator[str]:
    """Makes one JSON object for each record: columns by name, timestamps as ISO-8601 in UTC."""
    columns = _make_columns(batch, encoder, is_json=True)
    wanted = {field: columns[field] for field in fields}
    for values in zip(*wanted.values(), strict=True):
        yield _json(dict(zip(wanted, values, strict=True))) + "\n"


def _show_control(columns: dict[str, list[Any]], row: int, control: str, batch: pa.RecordBatch) -> None:
    if "key" in columns:
        columns["key"][row] = f"controlType: {control}"
    if "value" in columns and control in _END_MARKERS and pa.types.is_binary(batch["value"].type):
        columns["value"][row] = f"coordinatorEpoch: {read_coordinator_epoch(batch['value'][row].as_py())}"


def _make_columns(batch: pa.RecordBatch, encoder: Encoder, is_json: bool) -> dict[str, list[Any]]:
    """Converts columns into lists for JSON: bytes are encoded, and timestamps become text."""
    encode = encoder.for_json if is_json else encoder.for_line
    return {
        name: _format_times(column)
        if name == "timestamp"
        else to_plain(column, encoder.for_json)
        if name in _TYPED and not pa.types.is_binary(column.type)
        else [
            encode(value) if isinstance(value, bytes) else _encode_parts(value, encoder) for value in column.to_pylist()
        ]
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }


def _format_times(column: pa.Array) -> list[str]:
    """Formats timestamps by way of integers, since Python's datetime has a smaller range than Kafka's 64 bits."""
    return [format_millis(micros // _MICROS) for micros in column.cast(pa.int64()).to_pylist()]


def _encode_parts(value: Any, encoder: Encoder) -> Any:
    """Encodes the bytes inside a list or a dict for JSON."""
    if isinstance(value, bytes):
        return encoder.for_json(value)
    if isinstance(value, list):
        return [_encode_parts(each, encoder) for each in value]
    if isinstance(value, dict):
        return {name: _encode_parts(each, encoder) for name, each in value.items()}
    return value


def _format_field(value: Any) -> str:
    """Formats one field of a text line."""
    if isinstance(value, int):
        return str(value)
    if value is None:
        return "null"
    return escape(value if isinstance(value, str) else _json(value))


def escape(text: str) -> str:
    """Returns a text in one line, without what a terminal could take for a command.

    `\\xff` is a byte: one of ASCII, or a lone surrogate that stands for it. Other characters are `\\u2028`.
    """
    return text if _UNPRINTABLE.search(text) is None else _UNPRINTABLE.sub(_escape_character, text)


def _escape_character(found: re.Match[str]) -> str:
    code = ord(found[0])
    if _FIRST_SURROGATE <= code <= _LAST_SURROGATE:
        code -= _FIRST_SURROGATE
        return f"\\x{code:02x}"
    return _NAMED.get(found[0]) or (f"\\x{code:02x}" if code <= _LAST_OF_ASCII else f"\\u{code:04x}")
