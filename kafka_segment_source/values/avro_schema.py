"""The text of an Avro schema → `Type`. As in the specification of Avro 1.12, section "Schema Declaration".

A type that refers to itself is a circle of `Type`. A schema may be hostile: its text, its depth and its names are
bounded here, and what it may grow to in `avro_program.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_TEXT = 8 * 1024 * 1024  # characters of a schema, of any kind
_MOST_DEPTH = 64  # types inside types
_LONGEST_NAME = 1024

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED = ("record", "enum", "fixed")


class AvroError(ValueError):
    """A schema that cannot be used."""


@dataclass(eq=False)
class Field:
    """A field of a record.

    default: a value of JSON, if there is one.
    """

    name: str
    type: Type
    aliases: tuple[str, ...]
    has_default: bool
    default: Any = None


@dataclass(eq=False)
class Type:
    """A type.

    kind: one of PRIMITIVES, NAMED, array, map or union.
    name, aliases: with their namespaces.

    items: of an array, or the values of a map.
    logical: its logicalType, "" without one.
    """

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    logical: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    fields: list[Field] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    items: Type | None = None
    branches: list[Type] = field(default_factory=list)

    @property
    def label(self) -> str:
        """What a message calls it."""
        return f"{self.kind} {self.name}" if self.name else self.kind

    @property
    def item(self) -> Type:
        """The items of an array, or the values of a map."""
        assert self.items is not None
        return self.items


def parse_schema(text: str, references: Sequence[str] = ()) -> Type:
    """Parses a schema. references: texts whose names it uses, those first that the others need.

    Raises AvroError.
    """
    parser = _Parser()
    for reference in references:
        parser.parse_text(reference)
    return parser.parse_text(text)


class _Parser:
    """Knows the names that the schemas before have defined."""

    def __init__(self) -> None:
        self._names: dict[str, Type] = {}
        self._depth = 0

    def parse_text(self, text: str) -> Type:
        if len(text) > MOST_TEXT:
            raise AvroError(f"it has {len(text):,} characters, more than {MOST_TEXT:,}")
        try:
            declared = json.loads(text)
        except (ValueError, RecursionError) as error:
            if text.strip().strip('"') not in PRIMITIVES:
                raise AvroError(f"it is not JSON: {shorten(error)}") from error
            declared = text.strip()  # registries accept a bare name
        return self._parse(declared, "")

    def _parse(self, declared: Any, namespace: str) -> Type:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise AvroError(f"it has more than {_MOST_DEPTH} types inside one another")
        try:
            if isinstance(declared, str):
                return self._look_up(declared, namespace)
            if isinstance(declared, list):
                return self._parse_union(declared, namespace)
            if isinstance(declared, dict):
                return self._parse_object(declared, namespace)
            raise AvroError(f"{shorten(declared)} is no type")
        finally:
            self._depth -= 1

    def _look_up(self, name: str, namespace: str) -> Type:
        if name in PRIMITIVES:
            return Type(name)
        full = _join(namespace, name)
        known = self._names.get(full) or self._names.get(name)
        if known is None:
            raise AvroError(f"it names the type {shorten(full)}, which is not defined before")
        return known

    def _parse_union(self, declared: list[Any], namespace: str) -> Type:
        if not declared:
            raise AvroError("it has a union without branches")
        branches = [self._parse(branch, namespace) for branch in declared]
        seen: set[str] = set()
        for branch in branches:
            kind = branch.name or branch.kind
            if branch.kind == "union" or kind in seen:
                raise AvroError(
                    f"it has a union with {'a union' if branch.kind == 'union' else f'two of {kind}'} in it"
                )
            seen.add(kind)
        return Type("union", branches=branches)

    def _parse_object(self, declared: Mapping[str, Any], namespace: str) -> Type:
        kind = declared.get("type")
        if kind == "error":
            kind = "record"
        if isinstance(kind, str) and kind in NAMED:
            return self._parse_named(kind, declared, namespace)
        if kind == "array":
            return Type("array", items=self._parse(_take(declared, "items"), namespace))
        if kind == "map":
            return Type("map", items=self._parse(_take(declared, "values"), namespace))
        if kind is None:
            raise AvroError(f"{shorten(dict(declared))} has no type")
        inner = self._parse(kind, namespace)
        if inner.kind in PRIMITIVES and "logicalType" in declared:
            _read_logical(inner, declared)
        return inner

    def _parse_named(self, kind: str, declared: Mapping[str, Any], namespace: str) -> Type:
        own = declared.get("namespace")
        space = own if isinstance(own, str) else namespace
        name = _join(space, _take_name(declared))
        space = name.rpartition(".")[0]
        if name in self._names:
            raise AvroError(f"it defines {shorten(name)} twice")
        aliases = tuple(_join(space, alias) for alias in _take_texts(declared, "aliases"))
        named = Type(kind, name=name, aliases=aliases)
        self._names[name] = named
        if kind == "record":
            self._parse_fields(named, declared, space)
        elif kind == "enum":
            _read_symbols(named, declared)
        else:
            size = _take(declared, "size")
            if type(size) is not int or not 0 <= size < 2**31:
                raise AvroError(f"{named.label} has the size {shorten(size)}")
            named.size = size
            _read_logical(named, declared)
        return named

    def _parse_fields(self, record: Type, declared: Mapping[str, Any], namespace: str) -> None:
        listed = _take(declared, "fields")
        if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
            raise AvroError(f"{record.label} has the fields {shorten(listed)}")
        seen = set()
        for entry in listed:
            name = _take_name(entry)
            if name in seen:
                raise AvroError(f"{record.label} has the field {shorten(name)} twice")
            seen.add(name)
            kind = self._parse(_take(entry, "type"), namespace)
            aliases = tuple(_take_texts(entry, "aliases"))
            record.fields.append(Field(name, kind, aliases, "default" in entry, entry.get("default")))


def _read_symbols(named: Type, declared: Mapping[str, Any]) -> None:
    symbols = tuple(_take_texts(declared, "symbols"))
    if len(set(symbols)) != len(symbols):
        raise AvroError(f"{named.label} has a symbol twice")
    default = declared.get("default")
    if default is not None and default not in symbols:
        raise AvroError(f"{named.label} has the default {shorten(default)}, which is none of its symbols")
    named.symbols, named.default_symbol = symbols, default


def _read_logical(of: Type, declared: Mapping[str, Any]) -> None:
    """Reads a logicalType. One that is unknown or invalid does not count, as the specification says."""
    logical = declared.get("logicalType")
    if not isinstance(logical, str):
        return
    if logical == "decimal" and of.kind in ("bytes", "fixed"):
        precision, scale = declared.get("precision"), declared.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision < 1:
            return
        of.precision, of.scale = precision, scale
    elif (logical, of.kind) not in _LOGICAL or (logical == "uuid" and of.kind == "fixed" and of.size != 16):  # noqa: PLR2004
        return
    of.logical = logical


_LOGICAL = {
    ("date", "int"),
    ("time-millis", "int"),
    ("time-micros", "long"),
    ("uuid", "string"),
    ("uuid", "fixed"),
    ("duration", "fixed"),
    *((f"{local}timestamp-{unit}", "long") for local in ("", "local-") for unit in ("millis", "micros", "nanos")),
}


def _take(declared: Mapping[str, Any], name: str) -> Any:
    if name not in declared:
        raise AvroError(f"{shorten(dict(declared))} has no {name}")
    return declared[name]


def _take_name(declared: Mapping[str, Any]) -> str:
    name = _take(declared, "name")
    if not isinstance(name, str) or not name or len(name) > _LONGEST_NAME or not _is_unicode(name):
        raise AvroError(f"{shorten(name)} is no name")
    return name


def _take_texts(declared: Mapping[str, Any], name: str) -> Sequence[str]:
    listed = declared.get(name) or []
    if not isinstance(listed, list) or not all(isinstance(text, str) and _is_unicode(text) for text in listed):
        raise AvroError(f"{shorten(listed)} are no {name}")
    return listed


def _is_unicode(text: str) -> bool:
    """Whether UTF-8 can hold a text. JSON can escape halves of surrogate pairs."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _join(namespace: str, name: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def shorten(value: object) -> str:
    """A value in a message, in one line of bounded length."""
    try:
        text = value if isinstance(value, str) else str(value) if isinstance(value, Exception) else json.dumps(value)
    except (ValueError, RecursionError, TypeError):
        text = f"a {type(value).__name__}"
    text = " ".join(ascii(text)[1:-1].split())
    return text if len(text) <= 80 else f"{text[:79]}…"  # noqa: PLR2004  # a line
