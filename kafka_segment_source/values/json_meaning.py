"""JSON as the meaning of a column: a struct of declared fields, or any JSON as its text.

Values are bare, or behind Confluent's prefix, which no JSON can begin with. Arrow parses many values at once. It says
neither which value is wrong nor, of some, that they are: an empty value disappears, and two objects make two rows. So
each value is wrapped with its number. Where Arrow refuses, or a number is not in its place, the values are read one by
one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from kafka_segment_source.decoding.arrow import build_varying
from kafka_segment_source.kernels import avro
from kafka_segment_source.values.avro_arrays import NONE_CHOSEN, Ints, Rows
from kafka_segment_source.values.json_types import JsonType
from kafka_segment_source.values.misfits import ENCRYPTED, NOT_JSON, OTHER_TYPE, REASONS
from kafka_segment_source.values.string_meaning import to_text

_PREFIX = 5  # bytes of Confluent's prefix
_BLOCK = 16 * 1024 * 1024  # bytes that are parsed at once
_INTS = {"int": 2**31, "bigint": 2**63}

Status = npt.NDArray[np.uint8]


class _OtherTypeError(ValueError):
    """A value of another type than declared."""


class _TooLargeError(ValueError):
    """A value that takes more memory than one batch may."""


@dataclass(frozen=True)
class JsonMeaning:
    """JSON of one type. encrypted: ids of the schemas whose values are encrypted as a whole."""

    type: JsonType
    encrypted: frozenset[int] = frozenset()

    @property
    def arrow(self) -> pa.DataType:
        return self.type.arrow

    @property
    def spark(self) -> str:
        return self.type.spark

    def make_decoder(self, most_bytes: int) -> JsonDecoder:
        return JsonDecoder(self.type, most_bytes, self.encrypted)


class JsonDecoder:
    """Decodes the rows of one column (a `ColumnDecoder`)."""

    header_name = ""

    def __init__(self, of: JsonType, most_bytes: int, encrypted: frozenset[int]) -> None:
        self._type = of
        self._encrypted = encrypted
        self._most = most_bytes
        self._width, self._per_byte = of.width, of.per_byte

    def choose(self, headers: pa.Array) -> Ints:
        return NONE_CHOSEN

    def decode(self, rows: Rows, first: int, last: int, status: Status) -> tuple[pa.Array, int]:
        sizes = rows.sizes[first:last]
        takes = np.cumsum(self._width + np.maximum(sizes, 0).astype(np.int64) * self._per_byte)
        ends = np.cumsum(np.maximum(sizes, 0), dtype=np.int64)
        count = min(int(np.searchsorted(ends, _BLOCK, "right")), int(np.searchsorted(takes, self._most, "right")))
        last = first + max(count, 1)
        sizes, places = rows.sizes[first:last].copy(), rows.places[first:last].copy()
        heads = rows.source[np.where(sizes > 0, places, 0)]
        is_framed = (sizes >= _PREFIX) & (heads == 0)
        places[is_framed] += _PREFIX
        sizes[is_framed] -= _PREFIX
        status[first:last] = np.where(sizes < 0, avro.IS_NULL, avro.FITS)
        total = int(np.maximum(sizes, 0).sum(dtype=np.int64))
        values = build_varying(rows.source, places, sizes, last - first, total, pa.binary())
        if self._type.is_text:
            return to_text(values, status[first:last]), last
        found = None if self._type.has_text or not count else _parse_together(values, self._type)
        return (self._parse_singly(values, status[first:last]) if found is None else found), last

    def _parse_singly(self, values: pa.Array, status: Status) -> pa.Array:
        """Parses one value after another, and fills the status of those that do not fit."""
        found: list[Any] = []
        for row, value in enumerate(values.to_pylist()):
            fitting = None
            if value is not None:
                try:
                    fitting = _Converter(self._most).convert_row(json.loads(value.decode("utf-8")), self._type)
                except _OtherTypeError:
                    status[row] = OTHER_TYPE
                except _TooLargeError:
                    status[row] = avro.TOO_LARGE
                except UnicodeDecodeError:
                    status[row] = avro.BAD_UTF8
                except RecursionError:
                    status[row] = avro.TOO_DEEP
                except ValueError:
                    status[row] = NOT_JSON
            found.append(fitting)
        return pa.array(found, self._type.arrow)

    def explain(self, rows: Rows, row: int, reason: int) -> tuple[str, str]:
        begin, size = int(rows.places[row]), int(rows.sizes[row])
        head = rows.source[begin : begin + min(size, _PREFIX)].tobytes()
        number = int.from_bytes(head[1:], "big", signed=True)
        if len(head) == _PREFIX and head[0] == 0 and number in self._encrypted:
            return f"schema id {number}: {ENCRYPTED}", "JSON"
        return REASONS[reason], f"JSON of type {self._type.spark}"


def _parse_together(values: pa.Array, of: JsonType) -> pa.Array | None:
    """Parses all values at once. None if one of them may not fit."""
    try:
        texts = values.cast(pa.string())  # UTF-8 is checked
        numbers = pa.array(np.arange(len(values))).cast(pa.string())
        lines = pc.binary_join_element_wise('{"v":', texts.fill_null("null"), ',"n":', numbers, "}\n", "")
        data = lines.buffers()[2]
        parsed = arrow_json.read_json(
            pa.BufferReader(data),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=max(data.size, 1)),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=pa.schema([("v", of.arrow), ("n", pa.int64())]),
                unexpected_field_behavior="ignore",
                newlines_in_values=True,
            ),
        )
    except pa.ArrowInvalid:
        return None
    if not np.array_equal(parsed["n"].to_numpy(), np.arange(len(values))):
        return None
    found = parsed["v"].combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found


class _Converter:
    """Converts a value of JSON into one of a type, in bounded memory."""

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes

    def convert_row(self, value: Any, of: JsonType) -> Any:
        """Raises _OtherTypeError for a value of another type, and _TooLargeError."""
        self._take(of.width)
        return self._convert(value, of)

    def _convert(self, value: Any, of: JsonType) -> Any:
        if of.is_text:
            text = _to_unicode(json.dumps(value, ensure_ascii=False))
            self._take(len(text))
            return text
        if value is None:
            return None
        if of.names or of.parts:
            return self._convert_parts(value, of)
        return self._convert_simple(value, of)

    def _convert_simple(self, value: Any, of: JsonType) -> Any:
        if of.spark == "string" and isinstance(value, str):
            self._take(len(value))
            return _to_unicode(value)
        if of.spark == "double" and type(value) in (int, float):
            return _to_double(value)
        if of.spark == "boolean" and isinstance(value, bool):
            return value
        most = _INTS.get(of.spark, 0)
        if type(value) is not int or not -most <= value < most:
            raise _OtherTypeError
        return value

    def _convert_parts(self, value: Any, of: JsonType) -> Any:
        if of.names and isinstance(value, dict):
            return {name: self._convert(value.get(name), part) for name, part in zip(of.names, of.parts, strict=True)}
        if not of.names and isinstance(value, list):
            self._take(len(value) * of.parts[0].width)
            return [self._convert(each, of.parts[0]) for each in value]
        raise _OtherTypeError

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _TooLargeError


def _to_unicode(text: str) -> str:
    """Replaces halves of surrogate pairs, which JSON can escape and UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _to_double(value: float) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise _OtherTypeError from error
