"""Record batches → lines: tab-separated text to read, JSON to process. A column at a time, as far as that goes."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

import pyarrow as pa

from kafka_segment_source.times import format_millis

_MICROS = 1000  # in a millisecond
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

# One record is one line, whatever it holds, and no byte of it reaches the terminal as a command
_UNPRINTABLE = re.compile("[\\\\\x00-\x1f\x7f-\x9f\u2028\u2029]")
_NAMED = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


def text_lines(batch: pa.RecordBatch, encoding: Encoding) -> Iterator[str]:
    """Topic-partition, offset, timestamp, key and value, then headers and metadata if they were asked for."""
    columns = _columns(batch, encoding)
    more = [[_json(each) for each in columns[name]] for name in ("headers", "metadata") if name in columns]
    shown = (columns["timestamp"], columns["key"], columns["value"], *more)
    places = zip(columns["topic"], columns["partition"], columns["offset"], strict=True)
    for (topic, partition, offset), *fields in zip(places, *shown, strict=True):
        yield "\t".join((f"{topic}-{partition}", str(offset), *map(_escaped, fields))) + "\n"


def json_lines(batch: pa.RecordBatch, encoding: Encoding) -> Iterator[str]:
    """One JSON object a record: the columns under their names, timestamps as ISO-8601 in UTC."""
    columns = _columns(batch, encoding)
    for values in zip(*columns.values(), strict=True):
        yield _json(dict(zip(columns, values, strict=True))) + "\n"


def _columns(batch: pa.RecordBatch, encoding: Encoding) -> dict[str, list[Any]]:
    """Columns as lists that JSON can hold: bytes encoded, timestamps as text."""
    encode = _ENCODERS[encoding]
    return {
        name: _times(column) if name == "timestamp" else [_plain(value, encode) for value in column.to_pylist()]
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }


def _times(column: pa.Array) -> list[str]:
    """By way of integers: Python's datetime does not reach as far as Kafka's 64 bits."""
    return [format_millis(micros // _MICROS) for micros in column.cast(pa.int64()).to_pylist()]


def _plain(value: Any, encode: Callable[[bytes], str]) -> Any:
    """A value with its bytes as text, all the way down."""
    if isinstance(value, bytes):
        return encode(value)
    if isinstance(value, list):
        return [_plain(each, encode) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each, encode) for name, each in value.items()}
    return value


def _escaped(text: str | None) -> str:
    if text is None:
        return "null"
    return text if _UNPRINTABLE.search(text) is None else _UNPRINTABLE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return _NAMED.get(found[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
