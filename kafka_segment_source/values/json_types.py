"""What JSON is read as: the properties that a JSON Schema declares, or columns as DDL writes them.

A part that a JSON Schema does not declare as one simple type is a text of JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kafka_segment_source.values.avro_columns import NoFieldError, Wanted
from kafka_segment_source.values.avro_schema import MOST_TEXT, shorten

_MOST_DEPTH = 32
_MOST_COLUMNS = 4096
_CELL = 16  # bytes that a value takes in Arrow and in Python, about
_TEXT_BYTE = 8  # bytes of text for one of JSON, where numbers are written at full length
_SIMPLE: Mapping[str, tuple[pa.DataType, str]] = {
    "boolean": (pa.bool_(), "boolean"),
    "int": (pa.int32(), "int"),
    "bigint": (pa.int64(), "bigint"),
    "double": (pa.float64(), "double"),
    "string": (pa.string(), "string"),
}
_DDL_NAMES = {"integer": "int", "long": "bigint"}
_OF_JSON_SCHEMA = {"boolean": "boolean", "integer": "bigint", "number": "double", "string": "string"}
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|\w+|[<>,:])")


class JsonTypeError(ValueError):
    """A schema of JSON that cannot be used."""


@dataclass(frozen=True)
class JsonType:
    """A type.

    spark: as Spark writes it, with names in backticks.
    names, parts: of a struct;
    parts: the item of an array.
    is_text: whether any JSON is kept as its text.
    """

    arrow: pa.DataType
    spark: str
    names: tuple[str, ...] = ()
    parts: tuple[JsonType, ...] = ()
    is_text: bool = False

    @property
    def width(self) -> int:
        """The bytes of memory that a value takes, without the items of arrays and without text."""
        return _CELL + (sum(part.width for part in self.parts) if self.names else 0)

    @property
    def per_byte(self) -> int:
        """The most memory that one byte of JSON takes. An item of an array has at least two bytes."""
        inside = max((part.per_byte for part in self.parts), default=_TEXT_BYTE)
        return inside if self.names or not self.parts else max(inside, self.parts[0].width // 2)

    @property
    def has_text(self) -> bool:
        """Whether any part of it is a text of JSON."""
        return self.is_text or any(part.has_text for part in self.parts)


TEXT = JsonType(pa.string(), "string", is_text=True)


def _make_struct(fields: Sequence[tuple[str, JsonType]]) -> JsonType:
    names = [name for name, _ in fields]
    if len(set(names)) != len(names):
        raise JsonTypeError("it has a name twice")
    arrow = pa.struct([pa.field(name, part.arrow) for name, part in fields])
    spark = ",".join("`" + name.replace("`", "``") + "`:" + part.spark for name, part in fields)
    return JsonType(arrow, f"struct<{spark}>", tuple(names), tuple(part for _, part in fields))


def _make_array(item: JsonType) -> JsonType:
    return JsonType(pa.list_(pa.field("element", item.arrow)), f"array<{item.spark}>", parts=(item,))


def choose_fields(of: JsonType, wanted: Wanted) -> JsonType:
    """Returns the type with the wanted fields alone. Raises NoFieldError for one that it does not have."""
    if not wanted:
        return of
    parts = dict(zip(of.names, of.parts, strict=False))
    for name in wanted:
        if name not in parts:
            raise NoFieldError(f"JSON of type {shorten(of.spark)} has no field {name!r}")
    return _make_struct([(name, choose_fields(parts[name], inside)) for name, inside in wanted.items()])


# ---- JSON Schema ----


def parse_json_schema(text: str) -> JsonType:
    """Makes the type of the values that a JSON Schema describes. Raises JsonTypeError if it is no JSON Schema."""
    if len(text) > MOST_TEXT:
        raise JsonTypeError(f"it has {len(text):,} characters, more than {MOST_TEXT:,}")
    try:
        declared = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JsonTypeError(f"it is not JSON: {shorten(error)}") from error
    if not isinstance(declared, dict):
        raise JsonTypeError(f"it is no JSON Schema but {shorten(declared)}")
    return _SchemaReader().read(declared, 0)


class _SchemaReader:
    def __init__(self) -> None:
        self._count = 0

    def read(self, declared: Any, depth: int) -> JsonType:
        self._count += 1
        if self._count > _MOST_COLUMNS:
            raise JsonTypeError(f"its values have more than {_MOST_COLUMNS:,} columns")
        if not isinstance(declared, dict) or depth > _MOST_DEPTH:
            return TEXT
        kind = declared.get("type")
        if isinstance(kind, list):
            others = [name for name in kind if name != "null"]
            kind = others[0] if len(others) == 1 else None
        if not isinstance(kind, str):
            return TEXT
        if kind in _OF_JSON_SCHEMA:
            return JsonType(*_SIMPLE[_OF_JSON_SCHEMA[kind]])
        properties = declared.get("properties")
        if kind == "object" and isinstance(properties, dict) and properties and all(map(_is_unicode, properties)):
            return _make_struct([(name, self.read(part, depth + 1)) for name, part in properties.items()])
        if kind == "array" and isinstance(declared.get("items"), dict):
            return _make_array(self.read(declared["items"], depth + 1))
        return TEXT


def _is_unicode(text: str) -> bool:
    return bool(text) and not any("\ud800" <= character <= "\udfff" for character in text)


# ---- DDL ----


def looks_like_ddl(text: str) -> bool:
    """Whether a text is a list of names and types, such as `id bigint, tags array<string>`, and not a path."""
    return re.match(r"\s*(`[^`]+`|\w+)\s+(\w+)\s*([,<(]|$)", text) is not None and not text.endswith((".json", ".avsc"))


def parse_ddl(text: str) -> JsonType:
    """Makes the struct of columns in Spark's DDL. Raises JsonTypeError for a type that JSON is not read as."""
    reader = _DdlReader(text)
    fields = reader.read_fields("", 0)
    reader.end()
    return _make_struct(fields)


class _DdlReader:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        if _TOKEN.sub("", text).strip():
            raise JsonTypeError(f"{shorten(text)} is no list of names and types")
        self._at = 0
        self._count = 0

    def end(self) -> None:
        if self._at != len(self._tokens):
            raise JsonTypeError(f"found {self._peek()!r} after the last type")

    def read_fields(self, between: str, depth: int) -> list[tuple[str, JsonType]]:
        """Reads names and types. between: what stands between them, beside blanks."""
        fields = []
        while True:
            name = self._next()
            name = name[1:-1].replace("``", "`") if name.startswith("`") else name
            if between and self._peek() == between:
                self._next()
            fields.append((name, self._read_type(depth)))
            self._count += 1
            if self._count > _MOST_COLUMNS:
                raise JsonTypeError(f"it has more than {_MOST_COLUMNS:,} columns")
            if self._peek() != ",":
                return fields
            self._next()

    def _read_type(self, depth: int) -> JsonType:
        if depth > _MOST_DEPTH:
            raise JsonTypeError(f"it has more than {_MOST_DEPTH} types inside one another")
        word = self._next().lower()
        word = _DDL_NAMES.get(word, word)
        if word in _SIMPLE:
            return JsonType(*_SIMPLE[word])
        if word not in ("array", "struct"):
            raise JsonTypeError(f"type {shorten(word)} is not one of {', '.join(_SIMPLE)}, array and struct")
        self._expect("<")
        made = (
            _make_array(self._read_type(depth + 1))
            if word == "array"
            else _make_struct(self.read_fields(":", depth + 1))
        )
        self._expect(">")
        return made

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1] if self._at <= len(self._tokens) else ""

    def _expect(self, token: str) -> None:
        found = self._next()
        if found != token:
            raise JsonTypeError(f"found {found!r}, expected {token!r}")
