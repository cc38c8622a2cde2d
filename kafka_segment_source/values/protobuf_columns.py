"""A message's descriptor → the columns that its values fill, and the Arrow arrays of parsed messages.

The types are those of Spark's `from_protobuf` (`org.apache.spark.sql.protobuf.utils.SchemaConverters`), with four
differences: unsigned numbers get a type that holds them all; a field without presence has its default, not null; the
place where a message comes again inside itself is a text of JSON; so are `Struct`, `Value` and `ListValue`.

Arrays are made column by column: a Python loop for each field, not for each value.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_segment_source.values.avro_columns import MOST_COLUMNS, NoFieldError, Wanted
from kafka_segment_source.values.protobuf_errors import ProtobufError

_MOST_DEPTH = 64
_CELL = 16  # bytes that a cell takes in Arrow and in Python, about
_TEXTS = ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue")
_METHODS = ("HasField", "ListFields", "WhichOneof", "IsInitialized")  # a field would hide them
_MICROS = 1_000_000
_NANOS = 1_000_000_000
_LARGEST = 2**63

(_DOUBLE, _FLOAT, _INT64, _UINT64, _INT32, _FIXED64, _FIXED32, _BOOL, _STRING, _GROUP, _MESSAGE) = range(1, 12)
(_BYTES, _UINT32, _ENUM, _SFIXED32, _SFIXED64, _SINT32, _SINT64) = range(12, 19)

_UNSIGNED = pa.decimal128(20, 0)
_SCALARS: Mapping[int, tuple[pa.DataType, str]] = {
    _DOUBLE: (pa.float64(), "double"),
    _FLOAT: (pa.float32(), "float"),
    _BOOL: (pa.bool_(), "boolean"),
    _STRING: (pa.string(), "string"),
    _BYTES: (pa.binary(), "binary"),
    **dict.fromkeys((_INT32, _SINT32, _SFIXED32), (pa.int32(), "int")),
    **dict.fromkeys((_INT64, _SINT64, _SFIXED64), (pa.int64(), "bigint")),
    **dict.fromkeys((_UINT32, _FIXED32), (pa.int64(), "bigint")),
    **dict.fromkeys((_UINT64, _FIXED64), (_UNSIGNED, "decimal(20,0)")),
}


class TooLargeError(ValueError):
    """Rows that take more memory than one batch may."""


class BeyondTimeError(ValueError):
    """A timestamp or a duration that microseconds cannot hold, or that is none."""


class BadTextError(ValueError):
    """Text of proto2 that is not UTF-8."""


class Budget:
    """The memory that arrays may still take. left: in bytes."""

    def __init__(self, most: int) -> None:
        self.left = most

    def take(self, cells: int) -> None:
        self.left -= cells * _CELL
        if self.left < 0:
            raise TooLargeError


@dataclass(eq=False)
class ProtobufColumn:
    """A column of one Arrow type.

    spark: the same as Spark writes it, with names in backticks.

    build: makes the array of Python's values, where None is a null. It raises TooLargeError, BeyondTimeError,
    BadTextError, or what Arrow raises.
    """

    arrow: pa.DataType
    spark: str
    build: Callable[[list[Any], Budget], pa.Array]


def make_columns(message: Any, wanted: Wanted | None = None) -> ProtobufColumn:
    """Makes the columns of a message's descriptor. Raises ProtobufError for too many, or too deep ones, and
    NoFieldError for a wanted field that it does not have."""
    for inside in walk_messages(message):
        for name in _METHODS:
            if name in inside.fields_by_name:
                raise ProtobufError(f"{inside.full_name} has a field {name}, which Google's library cannot give")
    return _Maker().make_message(message, wanted or {})


def walk_messages(message: Any) -> list[Any]:
    """Lists the descriptors of a message and of all that it holds, each once."""
    messages: dict[str, Any] = {}
    waiting = [message]
    while waiting:
        at = waiting.pop()
        if at.full_name not in messages:
            messages[at.full_name] = at
            waiting += [field.message_type for field in at.fields if field.message_type is not None]
    return list(messages.values())


class _Maker:
    def __init__(self) -> None:
        self._count = 0
        self._inside: list[str] = []

    def make_message(self, of: Any, wanted: Wanted) -> ProtobufColumn:
        name = of.full_name
        if name in _TEXTS or name in self._inside:
            self._refuse_wanted(name, wanted)
            return ProtobufColumn(pa.string(), "string", _build_texts)
        if name == "google.protobuf.Timestamp" and _has_times(of):
            self._refuse_wanted(name, wanted)
            return ProtobufColumn(pa.timestamp("us", tz="UTC"), "timestamp", _build_timestamps)
        if name == "google.protobuf.Duration" and _has_times(of):
            self._refuse_wanted(name, wanted)
            return ProtobufColumn(pa.duration("us"), "interval day to second", _build_durations)
        if len(self._inside) > _MOST_DEPTH:
            raise ProtobufError(f"its values have more than {_MOST_DEPTH} types inside one another")
        self._inside.append(name)
        try:
            return self._make_struct(of, wanted)
        finally:
            self._inside.pop()

    @staticmethod
    def _refuse_wanted(name: str, wanted: Wanted) -> None:
        if wanted:
            raise NoFieldError(f"{next(iter(wanted))!r} is not in it: {name} has no columns inside")

    def _make_struct(self, of: Any, wanted: Wanted) -> ProtobufColumn:
        fields = {field.name: field for field in of.fields}
        for name in wanted:
            if name not in fields:
                raise NoFieldError(f"{of.full_name} has no field {name!r} (it has {', '.join(list(fields)[:20])})")
        made = []
        for name in wanted or fields:
            self._count += 1
            if self._count > MOST_COLUMNS:
                raise ProtobufError(f"its values have more than {MOST_COLUMNS:,} columns")
            made.append((name, _make_getter(fields[name]), self._make_field(fields[name], wanted.get(name, {}))))
        arrow = pa.struct([pa.field(name, column.arrow) for name, _, column in made])
        spark = ",".join(f"`{name}`:{column.spark}" for name, _, column in made)
        return ProtobufColumn(arrow, f"struct<{spark}>", _StructBuilder(arrow, made))

    def _make_field(self, field: Any, wanted: Wanted) -> ProtobufColumn:
        if not field.is_repeated:
            return self._make_single(field, wanted)
        if wanted:
            raise NoFieldError(f"{next(iter(wanted))!r} is not in it: {field.name} is repeated")
        if field.type == _MESSAGE and field.message_type.GetOptions().map_entry:
            key, value = (self._make_single(field.message_type.fields_by_name[name], {}) for name in ("key", "value"))
            mapped = pa.map_(key.arrow, pa.field("value", value.arrow))
            return ProtobufColumn(mapped, f"map<{key.spark},{value.spark}>", _MapBuilder(mapped, key, value))
        item = self._make_single(field, {})
        listed = pa.list_(pa.field("element", item.arrow))
        return ProtobufColumn(listed, f"array<{item.spark}>", _ListBuilder(listed, item))

    def _make_single(self, field: Any, wanted: Wanted) -> ProtobufColumn:
        if field.type in (_MESSAGE, _GROUP):
            return self.make_message(field.message_type, wanted)
        if wanted:
            raise NoFieldError(f"{next(iter(wanted))!r} is not in it: {field.name} has no fields")
        if field.type == _ENUM:
            return ProtobufColumn(pa.string(), "string", _EnumBuilder(field.enum_type))
        arrow, spark = _SCALARS[field.type]
        if field.type == _STRING:
            return ProtobufColumn(arrow, spark, _build_strings)
        if field.type in (_UINT64, _FIXED64):
            return ProtobufColumn(arrow, spark, _build_unsigned)
        return ProtobufColumn(arrow, spark, lambda values, _: pa.array(values, arrow))


def _has_times(of: Any) -> bool:
    return [(field.name, field.type) for field in of.fields] == [("seconds", _INT64), ("nanos", _INT32)]


def _make_getter(field: Any) -> Callable[[Any], Any]:
    """Returns what takes the value of a field from a message: None where it is not there."""
    get: Callable[[Any], Any] = attrgetter(field.name)
    if field.is_repeated or not field.has_presence or (field.has_default_value and field.type != _MESSAGE):
        return get
    name = field.name
    return lambda message: get(message) if message.HasField(name) else None


# ---- arrays ----


@dataclass
class _StructBuilder:
    arrow: pa.DataType
    fields: Sequence[tuple[str, Callable[[Any], Any], ProtobufColumn]]

    def __call__(self, values: list[Any], budget: Budget) -> pa.Array:
        budget.take(len(values) * (len(self.fields) + 1))
        if not self.fields:
            return pa.array([None if value is None else {} for value in values], self.arrow)
        missing = [value is None for value in values]
        has_missing = any(missing)
        arrays = []
        for _, get, column in self.fields:
            taken = (
                [None if value is None else get(value) for value in values] if has_missing else list(map(get, values))
            )
            arrays.append(column.build(taken, budget))
        mask = pa.array(missing) if has_missing else None
        return pa.StructArray.from_arrays(arrays, fields=list(self.arrow), mask=mask)


@dataclass
class _ListBuilder:
    arrow: pa.DataType
    item: ProtobufColumn

    def __call__(self, values: list[Any], budget: Budget) -> pa.Array:
        offsets = _make_offsets(values, budget)
        items = list(chain.from_iterable(value for value in values if value is not None))
        return pa.ListArray.from_arrays(offsets, self.item.build(items, budget), type=self.arrow)


@dataclass
class _MapBuilder:
    """Entries come by their keys, since messages have no order of them."""

    arrow: pa.DataType
    key: ProtobufColumn
    value: ProtobufColumn

    def __call__(self, values: list[Any], budget: Budget) -> pa.Array:
        offsets = _make_offsets(values, budget)
        keys, items = [], []
        for value in values:
            if value:
                ordered = sorted(value)
                keys += ordered
                items += [value[key] for key in ordered]
        built = self.key.build(keys, budget), self.value.build(items, budget)
        return pa.MapArray.from_arrays(offsets, *built, type=self.arrow)


def _make_offsets(values: list[Any], budget: Budget) -> pa.Array:
    """The places of lists among their items. A list that is not there is one without items: its message is null."""
    sizes = np.fromiter((0 if value is None else len(value) for value in values), np.int64, len(values))
    total = int(sizes.sum())
    budget.take(total + len(values))
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return pa.array(offsets)


class _EnumBuilder:
    """The names of an enum's numbers. Of several names the first; of a number without a name its digits."""

    def __init__(self, enum: Any) -> None:
        self._names: dict[int | None, str | None] = {None: None}
        for value in enum.values:
            self._names.setdefault(value.number, value.name)

    def __call__(self, values: list[Any], _: Budget) -> pa.Array:
        names = self._names
        try:
            return pa.array([names[value] for value in values], pa.string())
        except KeyError:
            return pa.array([names.get(value, str(value)) for value in values], pa.string())


def _build_strings(values: list[Any], _: Budget) -> pa.Array:
    if any(type(value) is bytes for value in values):  # how Google's library gives text of proto2 that is not UTF-8
        raise BadTextError
    return pa.array(values, pa.string())


def _build_unsigned(values: list[Any], _: Budget) -> pa.Array:
    return pa.array(values, pa.uint64()).cast(_UNSIGNED)


def _build_timestamps(values: list[Any], _: Budget) -> pa.Array:
    return pa.array([None if value is None else _to_micros(value, 0) for value in values], pa.timestamp("us", tz="UTC"))


def _build_durations(values: list[Any], _: Budget) -> pa.Array:
    return pa.array([None if value is None else _to_micros(value, 1 - _NANOS) for value in values], pa.duration("us"))


def _to_micros(value: Any, least: int) -> int:
    """Microseconds of a Timestamp or a Duration, as Java's TimeUnit rounds. least: of its nanoseconds."""
    nanos: int = value.nanos
    micros: int = value.seconds * _MICROS + (nanos // 1000 if nanos >= 0 else -(-nanos // 1000))
    if not (least <= nanos < _NANOS and -_LARGEST <= micros < _LARGEST):
        raise BeyondTimeError
    return micros


# ---- texts of JSON ----


def _build_texts(values: list[Any], budget: Budget) -> pa.Array:
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    texts = [None if value is None else encode(_to_json(value)) for value in values]
    budget.take(sum(len(text) for text in texts if text is not None) // _CELL)
    return pa.array(texts, pa.string())


def _to_json(message: Any) -> Any:
    """A message as JSON: its fields by name, those that are there."""
    name = type(message).DESCRIPTOR.full_name
    if name == "google.protobuf.Struct":
        return {key: _to_json(message.fields[key]) for key in sorted(message.fields)}
    if name == "google.protobuf.ListValue":
        return [_to_json(value) for value in message.values]
    if name == "google.protobuf.Value":
        kind = message.WhichOneof("kind")
        if kind in (None, "null_value"):
            return None
        member = getattr(message, kind)
        return _to_json(member) if kind in ("struct_value", "list_value") else _to_plain(member)
    if name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        return _time_to_json(message, name)
    return {field.name: _field_to_json(field, value) for field, value in message.ListFields() if not field.is_extension}


def _field_to_json(field: Any, value: Any) -> Any:
    if not field.is_repeated:
        return _item_to_json(field, value)
    if field.type == _MESSAGE and field.message_type.GetOptions().map_entry:
        inside = field.message_type.fields_by_name["value"]
        return {
            key if isinstance(key, str) else json.dumps(key): _item_to_json(inside, value[key]) for key in sorted(value)
        }
    return [_item_to_json(field, item) for item in value]


def _item_to_json(field: Any, value: Any) -> Any:
    if field.type in (_MESSAGE, _GROUP):
        return _to_json(value)
    if field.type == _ENUM:
        named = field.enum_type.values_by_number.get(value)
        return str(value) if named is None else named.name
    if field.type == _STRING and isinstance(value, bytes):
        raise BadTextError
    return _to_plain(value)


def _to_plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return value


def _time_to_json(message: Any, name: str) -> str:
    """As Protobuf's JSON, where it can be: `2026-03-10T09:00:00.5Z`, `1.5s`. Else the numbers as they are."""
    seconds, nanos = message.seconds, message.nanos
    fraction = f".{abs(nanos):09}".rstrip("0") if nanos else ""
    if name.endswith("Duration"):
        return f"{'-' if seconds < 0 or nanos < 0 else ''}{abs(seconds)}{fraction}s"
    try:
        return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}{fraction}Z"
    except OverflowError as error:
        raise BeyondTimeError from error
