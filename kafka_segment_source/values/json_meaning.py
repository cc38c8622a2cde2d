"""JSON as the meaning of a column: a struct of declared fields, or any JSON as its text.

Values are bare, or behind Confluent's prefix, which no JSON can begin with. Arrow parses many values at once. It says
neither which value is wrong nor, of some, that they are: an empty value disappears, and two objects make two rows. So
each value is wrapped with its number. Where Arrow refuses, or a number is not in its place, the values are read one by
one.
"""

from __future__ import annotations

import json
import math
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
from kafka_segment_source.values.misfits import (
    ENCRYPTED,
    NOT_JSON,
    OTHER_TYPE,
    Explanation,
    explain_by_detail,
    explain_by_reason,
)
from kafka_segment_source.values.string_meaning import to_text

_PREFIX = 5  # bytes of Confluent's prefix
_BLOCK = 16 * 1024 * 1024  # bytes that are parsed at once
_NO_NUMBERS = ("NaN", "Inf")  # Arrow's parser takes them for numbers
_MOST_DIGITS = 400  # of a number that a double may hold
_INTS = {"int": 2**31, "bigint": 2**63}

Status = npt.NDArray[np.uint8]


class _OtherTypeError(ValueError):
    """A value of another type than declared."""


class _TooLargeError(ValueError):
    """A value that takes more memory than one batch may."""


@dataclass(frozen=True)
class JsonMeaning:
    """JSON of one type.

    encrypted: ids of the schemas whose values are encrypted as a whole.
    """

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
        parsed = None if self._type.has_text or not count else _parse_together(values, self._type)
        return (self._parse_singly(values, status[first:last]) if parsed is None else parsed), last

    def _parse_singly(self, values: pa.Array, status: Status) -> pa.Array:
        """Parses one value after another, and fills the status of those that do not fit."""
        parsed: list[Any] = []
        for row, value in enumerate(values.to_pylist()):
            fitting = None
            if value is not None:
                try:
                    fitting = _Converter(self._most).convert_row(_PARSE_JSON(value.decode("utf-8")), self._type)
                except _OtherTypeError:
                    status[row] = OTHER_TYPE
                except _TooLargeError:
                    status[row] = avro.TOO_LARGE
                except UnicodeError:
                    status[row] = avro.BAD_UTF8
                except RecursionError:
                    status[row] = avro.TOO_DEEP
                except ValueError:
                    status[row] = NOT_JSON
            parsed.append(fitting)
        return pa.array(parsed, self._type.arrow)

    def explain(self, rows: Rows, row: int, reason: int) -> Explanation:
        begin, size = int(rows.places[row]), int(rows.sizes[row])
        head = rows.source[begin : begin + min(size, _PREFIX)].tobytes()
        number = int.from_bytes(head[1:], "big", signed=True)
        if len(head) == _PREFIX and head[0] == 0 and number in self._encrypted:
            return explain_by_detail(f"schema id {number}: {ENCRYPTED}", "JSON")
        return explain_by_reason(reason, f"JSON of type {self._type.spark}")


def _parse_together(values: pa.Array, of: JsonType) -> pa.Array | None:
    """Parses all values at once. None if one of them may not fit."""
    try:
        texts = values.cast(pa.string())  # UTF-8 is checked
        if any(pc.any(pc.match_substring(texts, name)).as_py() for name in _NO_NUMBERS):
            return None
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
    if isinstance(found, pa.ChunkedArray):
        found = found.chunk(0)
    return found if _is_finite(found) else None


def _is_finite(array: pa.Array) -> bool:
    """Whether all doubles are finite. Arrow makes an infinity of a number that no double holds."""
    if pa.types.is_struct(array.type):
        return all(map(_is_finite, array.flatten()))
    if pa.types.is_list(array.type):
        return _is_finite(array.flatten())
    return not pa.types.is_floating(array.type) or pc.all(pc.is_finite(array)).as_py() is not False


class _Converter:
    """Converts a value of JSON into one of a type, in bounded memory."""

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes

    def convert_row(self, value: Any, of: JsonType) -> Any:
        """Raises _OtherTypeError for a value of another type, and _TooLargeError."""
        self._take(of.width)
        return self._convert(value, of)

    def _convert(self, value: Any, of: JsonType) -> Any:
        if value is None:
            return None
        if of.is_text:
            return self._convert_text(_to_text(value))
        if of.names or of.parts:
            return self._convert_parts(value, of)
        return self._convert_simple(value, of)

    def _convert_simple(self, value: Any, of: JsonType) -> Any:
        if of.spark == "string" and isinstance(value, str):
            return self._convert_text(value)
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
            return [self._convert(item, of.parts[0]) for item in value]
        raise _OtherTypeError

    def _convert_text(self, text: str) -> str:
        self._take(len(text))
        text.encode("utf-8")  # JSON can escape half of a surrogate pair
        return text

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _TooLargeError


def _refuse_constant(name: str) -> None:
    """NaN and the infinities are what Python's parser takes, and JSON does not have."""
    raise ValueError(name)


def _parse_integer(text: str) -> float:
    return int(text) if len(text) <= _MOST_DIGITS else math.inf  # which no type takes


_PARSE_JSON = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_parse_integer).decode
_ENCODE_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _to_double(value: float) -> float:
    try:
        number = float(value)
    except OverflowError as error:
        raise _OtherTypeError from error
    if math.isinf(number):
        raise _OtherTypeError
    return number


def _to_text(value: Any) -> str:
    try:
        return _ENCODE_JSON(value)
    except ValueError as error:  # a number that no double holds
        raise _OtherTypeError from error
