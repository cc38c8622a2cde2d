"""Record batches → lines: tab-separated text for people, JSON for programs. Arrow converts a column at a time.

No byte is lost. Where keys and values are printed as text, bytes that are not UTF-8 are `\\xff` in a text line, and
JSON has the object `{"base64": "…"}` in place of a string.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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

    is_text: whether bytes are printed as text. has_binary: whether bytes have come that are not UTF-8 all the same.
    """

    def __init__(self, encoding: Encoding) -> None:
        self.has_binary = False
        self.is_text = encoding is Encoding.TEXT
        self._encoding = encoding

    def for_line(self, data: bytes) -> str:
        """Returns a field of a text line, before `escape`. A byte that is not UTF-8 becomes a lone surrogate."""
        text = self.for_json(data)
        return text if isinstance(text, str) else data.decode("utf-8", "surrogateescape")

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
_REST_IN_LINE = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x{9f}\x{2028}\x{2029}]"
_IN_JSON = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_FIRST_PRINTABLE = 0x20
_MAY_BEGIN_OTHERS = b"\x7f\xc2\xe2"  # DEL, and the first bytes of U+0080 to U+009F and of U+2028
_REST_IN_JSON = r"[\x00-\x08\x0b\x0c\x0e-\x1f]"
_FIRST_DATE, _LAST_DATE = -62_135_596_800_000_000, 253_402_300_799_999_999  # µs: the years 1 to 9999


def text_fields(columns: Sequence[str]) -> tuple[str, ...]:
    """The fields of a text line by default. Topic and partition are one field."""
    return (
        _PLACE,
        "offset",
        "timestamp",
        "key",
        "value",
        *(name for name in ("headers", "metadata") if name in columns),
    )


def text_lines(batch: pa.RecordBatch, encoder: Encoder, fields: Sequence[str]) -> pa.Array:
    """Makes one text line for each record, as large_string[n]; each ends in a line feed.

    If the batch has the column controlType, a control record shows its type as the key, and its parsed value.
    """
    columns = {name: _make_field(name, batch[name], encoder) for name in batch.schema.names}
    if CONTROL_TYPE in columns:
        _show_controls(columns, batch)
    if _PLACE in fields:
        columns[_PLACE] = _join(columns["topic"], "-", columns["partition"])
    parts = [part for field in fields for part in ("\t", columns[field])]
    return _join(*parts[1:], "\n")


def json_lines(batch: pa.RecordBatch, encoder: Encoder, fields: Sequence[str]) -> pa.Array:
    """Makes one JSON object for each record, as large_string[n]; each ends in a line feed.

    Columns are there by name, and timestamps as ISO-8601 in UTC.
    """
    parts: list[pa.Array | str] = []
    for name in dict.fromkeys(fields):
        parts += [f"{', ' if parts else '{'}{_json(name)}: ", _make_json(name, batch[name], encoder)]
    return _join(*parts, "}\n")


def write_lines(lines: pa.Array) -> None:
    """Writes lines to standard output, in one piece: without a buffer (PYTHONUNBUFFERED) a write is a system call."""
    sys.stdout.flush()
    output = sys.stdout.buffer
    rest = memoryview(_bytes_of(lines))  # type: ignore[arg-type]  # arrays are buffers
    while rest:  # a stream without a buffer may take a part
        rest = rest[output.write(rest) :]
    output.flush()


def _join(*parts: pa.Array | str) -> pa.Array:
    """Joins columns of text and texts that are the same in each row, row by row. A null makes a null."""
    texts = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in (*parts, "")]
    return pc.binary_join_element_wise(*texts)


def _show_controls(columns: dict[str, pa.Array], batch: pa.RecordBatch) -> None:
    for row, control in enumerate(batch[CONTROL_TYPE].to_pylist()):
        if control is None:
            continue
        shown = {"key": f"controlType: {control}"}
        if "value" in columns and control in _END_MARKERS and pa.types.is_binary(batch["value"].type):
            shown["value"] = f"coordinatorEpoch: {read_coordinator_epoch(batch['value'][row].as_py())}"
        for name, text in shown.items():
            if name in columns:
                at = np.zeros(batch.num_rows, np.bool_)
                at[row] = True
                columns[name] = pc.replace_with_mask(columns[name], pa.array(at), pa.array([text], pa.large_string()))


# ---- one column ----


def _make_field(name: str, column: pa.Array, encoder: Encoder) -> pa.Array:
    """Returns the fields of text lines of a column."""
    if name == "timestamp":
        return _fill_null(_format_times(column))
    text = _read_text(column, encoder)
    if text is not None:
        return _fill_null(_replace(text, _NAMED, _REST_IN_LINE, escape))
    if pa.types.is_integer(column.type):
        return _fill_null(column.cast(pa.large_string()))
    values = _to_plain_values(name, column, encoder, encoder.for_line)
    return pa.array([_format_field(value) for value in values], pa.large_string())


def _make_json(name: str, column: pa.Array, encoder: Encoder) -> pa.Array:
    """Returns the values of a column as JSON."""
    if name == "timestamp":
        return _quote(_format_times(column))
    text = _read_text(column, encoder)
    if text is not None:
        return _quote(_replace(text, _IN_JSON, _REST_IN_JSON, lambda part: _json(part)[1:-1]))
    if pa.types.is_integer(column.type):
        return _fill_null(column.cast(pa.large_string()))
    values = _to_plain_values(name, column, encoder, encoder.for_json)
    return pa.array([_json(value) for value in values], pa.large_string())


def _read_text(column: pa.Array, encoder: Encoder) -> pa.Array | None:
    """Returns a column of text or of bytes as large_string[n]. None if it has bytes that are no text."""
    if pa.types.is_string(column.type):
        return column.cast(pa.large_string())
    if not pa.types.is_binary(column.type) or not encoder.is_text:
        return None
    try:
        return column.cast(pa.large_string())  # UTF-8 is checked
    except pa.ArrowInvalid:
        return None


def _replace(text: pa.Array, by_name: Mapping[str, str], rest: str, escape_one: Callable[[str], str]) -> pa.Array:
    """Escapes the characters that may not be in a line: those with a name all at once, the rest value by value.

    by_name: in the order of replacement, the backslash first. rest: matches the other ones.
    """
    data = _bytes_of(text)
    is_plain = data.size == 0 or (data.min() >= _FIRST_PRINTABLE and not _is_any(data, _MAY_BEGIN_OTHERS))
    has_rest = None if is_plain else pc.match_substring_regex(text, rest).fill_null(False)
    escaped = text
    for character, name in by_name.items():
        if _is_any(data, character.encode()):
            escaped = pc.replace_substring(escaped, character, name)
    if has_rest is None or not pc.any(has_rest).as_py():
        return escaped
    others = [escape_one(string) for string in text.filter(has_rest).to_pylist()]
    return pc.replace_with_mask(escaped, has_rest, pa.array(others, pa.large_string()))


def _bytes_of(text: pa.Array) -> npt.NDArray[np.uint8]:
    """Returns the bytes of all values of large_string[n], without a copy."""
    _, offsets, data = text.buffers()
    if not len(text) or data is None:
        return np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
    return np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]


def _is_any(data: npt.NDArray[np.uint8], those: bytes) -> bool:
    return any(bool((data == byte).any()) for byte in those)


def _fill_null(text: pa.Array) -> pa.Array:
    return text.fill_null("null") if text.null_count else text


def _quote(text: pa.Array) -> pa.Array:
    """Returns texts between quotes. A null is null."""
    return _fill_null(_join('"', text, '"'))


def _format_times(column: pa.Array) -> pa.Array:
    """Formats timestamps as ISO-8601 in UTC with milliseconds, or as the number of ms where a calendar has no date."""
    micros = column.cast(pa.int64())
    bounds = pc.min_max(micros)
    first, last = bounds["min"].as_py(), bounds["max"].as_py()
    if first is None or (first >= _FIRST_DATE and last <= _LAST_DATE):
        millis = micros.cast(pa.timestamp("us")).cast(pa.timestamp("ms"), safe=False)
        text = pc.utf8_replace_slice(millis.cast(pa.large_string()), 10, 11, "T")
        return _join(text, "Z")
    texts = [None if moment is None else format_millis(moment // _MICROS) for moment in micros.to_pylist()]
    return pa.array(texts, pa.large_string())


def _to_plain_values(name: str, column: pa.Array, encoder: Encoder, encode: Callable[[bytes], Any]) -> list[Any]:
    """Converts a column into values for JSON, one after another."""
    if name in _TYPED and not pa.types.is_binary(column.type):
        return to_plain(column, encoder.for_json)
    return [
        encode(value) if isinstance(value, bytes) else _encode_parts(value, encoder) for value in column.to_pylist()
    ]


def _encode_parts(value: Any, encoder: Encoder) -> Any:
    """Encodes the bytes inside a list or a dict for JSON."""
    if isinstance(value, bytes):
        return encoder.for_json(value)
    if isinstance(value, list):
        return [_encode_parts(item, encoder) for item in value]
    if isinstance(value, dict):
        return {name: _encode_parts(part, encoder) for name, part in value.items()}
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


def _escape_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    if _FIRST_SURROGATE <= code <= _LAST_SURROGATE:
        code -= _FIRST_SURROGATE
        return f"\\x{code:02x}"
    return _NAMED.get(match[0]) or (f"\\x{code:02x}" if code <= _LAST_OF_ASCII else f"\\u{code:04x}")
