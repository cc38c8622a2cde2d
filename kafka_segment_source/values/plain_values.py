"""Typed values → what JSON has. Bytes become text as the user asked for, decimals and moments become exact text.

Moments and dates go by way of integers, since Python's have a smaller range. Those of other years than ISO-8601 has
are numbers, of µs or of days. Numbers that JSON lacks (NaN and the
infinities) are text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from kafka_segment_source.times import format_millis

_DAY = 24 * 60 * 60 * 1000  # ms


def to_plain(array: pa.Array, encode: Callable[[bytes], Any]) -> list[Any]:
    """Converts an array, with everything inside its values. encode: makes text or JSON of bytes."""
    kind = array.type
    if pa.types.is_struct(kind):
        columns = {field.name: to_plain(part, encode) for field, part in zip(kind, array.flatten(), strict=True)}
        rows = zip(*columns.values(), strict=True) if columns else iter([()] * len(array))
        return [
            dict(zip(columns, row, strict=True)) if there else None
            for row, there in zip(rows, _there(array), strict=True)
        ]
    if pa.types.is_map(kind):
        keys, items = _cut(array, array.keys, encode), _cut(array, array.items, encode)
        return [
            None if key is None or item is None else dict(zip(key, item, strict=True))
            for key, item in zip(keys, items, strict=True)
        ]
    if pa.types.is_list(kind):
        return list(_cut(array, array.values, encode))
    if pa.types.is_timestamp(kind):
        end = "" if kind.tz is None else "Z"
        return [
            micros if micros is None else _format_micros(micros, end) for micros in array.cast(pa.int64()).to_pylist()
        ]
    if pa.types.is_date(kind):
        days = array.cast(pa.int32()).to_pylist()
        return [day if day is None else _format_day(day) for day in days]
    return [_to_plain_value(value, encode) for value in array.to_pylist()]


def _there(array: pa.Array) -> list[bool]:
    return array.is_valid().to_pylist()  # type: ignore[no-any-return]


def _cut(array: pa.Array, parts: pa.Array, encode: Callable[[bytes], Any]) -> Iterator[list[Any] | None]:
    """Yields the parts of each list, or None where there is no list. parts: those of all lists of the memory."""
    ends = array.offsets.to_pylist()
    first = ends[0] if ends else 0
    plain = to_plain(parts.slice(first, ends[-1] - first), encode) if ends else []
    for begin, end, there in zip(ends, ends[1:], _there(array), strict=False):
        yield plain[begin - first : end - first] if there else None


def _format_micros(micros: int, end: str) -> str:
    text = format_millis(micros // 1000).removesuffix("Z")
    if "T" not in text:  # beyond the years that it writes
        return str(micros)
    return f"{text}{micros % 1000:03}{end}" if micros % 1000 else text + end


def _format_day(day: int) -> str:
    text, found, _ = format_millis(day * _DAY).partition("T")
    return text if found else str(day)


def _to_plain_value(value: Any, encode: Callable[[bytes], Any]) -> Any:
    if isinstance(value, bytes):
        return encode(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
