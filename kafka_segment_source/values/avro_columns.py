"""A reader's schema → the columns that its values fill, with the types that Spark's `from_avro` gives them.

A nullable union of one type is that type. Other unions are structs of `member0`, `member1` …, of which one is there
(`org.apache.spark.sql.avro.SchemaConverters`). Beyond that: enums and UUIDs are strings; a decimal of more than 38
digits is its bytes; the place where a type comes again inside itself is a text of JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from kafka_segment_source.kernels import avro
from kafka_segment_source.values.avro_schema import AvroError, Type

MOST_COLUMNS = 4096
_MOST_DEPTH = 64
_MOST_DIGITS = 38  # of a decimal in Spark, and in Arrow's 128 bits

_PRIMITIVES: Mapping[str, tuple[int, pa.DataType, str]] = {
    "null": (avro.EMPTY, pa.null(), "void"),
    "boolean": (avro.BYTE, pa.bool_(), "boolean"),
    "int": (avro.FOUR, pa.int32(), "int"),
    "long": (avro.EIGHT, pa.int64(), "bigint"),
    "float": (avro.FOUR, pa.float32(), "float"),
    "double": (avro.EIGHT, pa.float64(), "double"),
    "bytes": (avro.TEXT, pa.binary(), "binary"),
    "string": (avro.TEXT, pa.string(), "string"),
    "enum": (avro.TEXT, pa.string(), "string"),
    "fixed": (avro.TEXT, pa.binary(), "binary"),
}
_LOGICAL: Mapping[str, tuple[int, pa.DataType, str]] = {
    "date": (avro.FOUR, pa.date32(), "date"),
    "uuid": (avro.TEXT, pa.string(), "string"),
    "timestamp-millis": (avro.EIGHT, pa.timestamp("us", tz="UTC"), "timestamp"),
    "timestamp-micros": (avro.EIGHT, pa.timestamp("us", tz="UTC"), "timestamp"),
    "local-timestamp-millis": (avro.EIGHT, pa.timestamp("us"), "timestamp_ntz"),
    "local-timestamp-micros": (avro.EIGHT, pa.timestamp("us"), "timestamp_ntz"),
}
_MERGED = ({"int": "long", "long": "long"}, {"float": "double", "double": "double"})  # unions that Spark merges


class NoFieldError(AvroError):
    """A wanted field that the schema does not have."""


@dataclass(eq=False)
class ValueColumn:
    """A column, with those inside it.

    kind: of its elements, in the kernel.
    type: of the reader, without null.
    spark: the type as Spark writes it, with names in backticks.
    nullable: whether elements may be missing.
    names, children: the fields of a struct, the item of a list, or the key and the value of a map.
    is_json: whether it is a text of JSON, as its type comes inside itself.
    number: its place in the kernel's table.
    """

    kind: int
    type: Type
    arrow: pa.DataType
    spark: str
    nullable: bool
    names: tuple[str, ...] = ()
    children: tuple[ValueColumn, ...] = ()
    is_json: bool = False
    number: int = field(default=-1)

    def child(self, name: str) -> ValueColumn | None:
        """The column of a field. None where it is not wanted."""
        return self.children[self.names.index(name)] if name in self.names else None

    def walk(self) -> Iterator[ValueColumn]:
        """Yields the column and all columns inside it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def beside(self) -> Iterator[ValueColumn]:
        """Yields the columns that have an element for each element of this one: it and, of a struct, its fields'."""
        yield self
        if self.kind == avro.EMPTY:
            for child in self.children:
                yield from child.beside()


Wanted = Mapping[str, "Wanted"]
"""The wanted fields of a record, each with those inside it. An empty mapping: all."""


def make_columns(reader: Type, wanted: Wanted | None = None) -> ValueColumn:
    """Makes the columns of a reader's schema, and numbers them.

    Raises AvroError for a schema of too many columns, or too deep, and NoFieldError for a wanted field that it does not
    have.
    """
    root = _Maker().make(reader, wanted or {}, nullable=True)
    for number, column in enumerate(root.walk()):
        column.number = number
    return root


def is_simple_union(union: Type) -> Type | None:
    """Returns the type of a union that is no struct: of null and one type, or of numbers that Spark merges."""
    others = [branch for branch in union.branches if branch.kind != "null"]
    if not others:
        return Type("null")
    if len(others) == 1:
        return others[0]
    for merged in _MERGED:
        if len(others) == len(merged) and all(other.kind in merged and not other.logical for other in others):
            return Type(merged[others[0].kind])
    return None


class _Maker:
    def __init__(self) -> None:
        self._count = 0
        self._inside: list[Type] = []

    def make(self, of: Type, wanted: Wanted, nullable: bool = False) -> ValueColumn:
        self._count += 1
        if self._count > MOST_COLUMNS:
            raise AvroError(f"its values have more than {MOST_COLUMNS:,} columns")
        if len(self._inside) > _MOST_DEPTH:
            raise AvroError(f"its values have more than {_MOST_DEPTH} types inside one another")
        if of in self._inside:
            return ValueColumn(avro.TEXT, of, pa.string(), "string", nullable, is_json=True)
        self._inside.append(of)
        try:
            return self._make(of, wanted, nullable)
        finally:
            self._inside.pop()

    def _make(self, of: Type, wanted: Wanted, nullable: bool) -> ValueColumn:
        if of.kind == "union":
            return self._make_union(of, wanted, nullable)
        if wanted and of.kind != "record":
            raise NoFieldError(f"{next(iter(wanted))!r} is not in it: it is of the type {of.label}")
        if of.kind == "record":
            return self._make_record(of, wanted, nullable)
        if of.kind == "array":
            item = self.make(of.item, {})
            listed = pa.list_(pa.field("element", item.arrow))
            return ValueColumn(avro.LIST, of, listed, f"array<{item.spark}>", nullable, ("element",), (item,))
        if of.kind == "map":
            key, value = self.make(Type("string"), {}), self.make(of.item, {})
            mapped = pa.map_(pa.string(), pa.field("value", value.arrow))
            return ValueColumn(
                avro.LIST, of, mapped, f"map<string,{value.spark}>", nullable, ("key", "value"), (key, value)
            )
        kind, arrow, spark = _find_type(of)
        return ValueColumn(kind, of, arrow, spark, nullable)

    def _make_record(self, of: Type, wanted: Wanted, nullable: bool) -> ValueColumn:
        fields = {field.name: field.type for field in of.fields}
        for name in wanted:
            if name not in fields:
                raise NoFieldError(f"{of.label} has no field {name!r} (it has {', '.join(list(fields)[:20])})")
        chosen = {name: fields[name] for name in wanted or fields}
        return self._make_struct(of, {n: self.make(t, wanted.get(n, {})) for n, t in chosen.items()}, nullable)

    def _make_union(self, of: Type, wanted: Wanted, nullable: bool) -> ValueColumn:
        nullable = nullable or any(branch.kind == "null" for branch in of.branches)
        simple = is_simple_union(of)
        if simple is not None:
            return self.make(simple, wanted, nullable)
        members = [branch for branch in of.branches if branch.kind != "null"]
        names = [f"member{at}" for at in range(len(members))]
        for name in wanted:
            if name not in names:
                raise NoFieldError(f"a union has no field {name!r} (it has {', '.join(names[:20])})")
        made = {
            name: self.make(member, wanted.get(name, {}), nullable=True)
            for name, member in zip(names, members, strict=True)
            if not wanted or name in wanted
        }
        return self._make_struct(of, made, nullable)

    def _make_struct(self, of: Type, fields: Mapping[str, ValueColumn], nullable: bool) -> ValueColumn:
        arrow = pa.struct([pa.field(name, column.arrow) for name, column in fields.items()])
        inside = ",".join(f"{_quote(name)}:{column.spark}" for name, column in fields.items())
        return ValueColumn(avro.EMPTY, of, arrow, f"struct<{inside}>", nullable, tuple(fields), tuple(fields.values()))


def _find_type(of: Type) -> tuple[int, pa.DataType, str]:
    if of.logical == "decimal" and of.precision <= _MOST_DIGITS:
        decimal = pa.decimal128(of.precision, of.scale)
        return avro.SIXTEEN, decimal, f"decimal({of.precision},{of.scale})"
    return _LOGICAL.get(of.logical) or _PRIMITIVES[of.kind]


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
