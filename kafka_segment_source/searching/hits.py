"""The table of a search: its columns, and what a search looks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kafka_segment_source.schema import Column

if TYPE_CHECKING:
    from kafka_segment_source.searching.pattern import Pattern

KEY, VALUE, HEADER, FIELD = "key", "value", "header", "field"

HIT_COLUMNS = (
    Column("place", "string", pa.string()),
    Column("name", "string", pa.string()),
    Column("start", "bigint", pa.int64()),
    Column("length", "bigint", pa.int64()),
    Column("text", "binary", pa.binary()),
)
"""place: of the first match in a record: key, value, header or field, in this order. name: of the header, or the path
of the field. start, length: of the match in the bytes of that place. text: these bytes. All are null where the search
is inverted, but `text` is the value then."""


@dataclass(frozen=True)
class Field:
    """A field of typed keys or values.

    column: key or value.
    path: the names that lead to the field, none for the whole.
    is_json: whether the column is text of JSON, in which the path is followed.
    """

    column: str
    path: tuple[str, ...] = ()
    is_json: bool = False

    @property
    def name(self) -> str:
        return ".".join((self.column, *self.path))


@dataclass(frozen=True)
class Wanted:
    """What a search looks for, and where.

    headers: the names of headers whose values are searched; None: all headers. An empty tuple: none.
    field: if it is given, nothing else is searched.
    inverted: whether records without a match are wanted.
    """

    pattern: Pattern
    key: bool = True
    value: bool = True
    headers: tuple[str, ...] | None = None
    field: Field | None = None
    inverted: bool = False
