"""Kinds of tables: their columns, and the builders of the columns. `RECORDS` is the only kind: a row for each record.

Planning needs only the columns and their types. The builders need the kernels. So the builders are loaded when a task
needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

import pyarrow as pa

from kafka_segment_source.errors import SchemaError
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.schema import RECORD_COLUMNS, Column

if TYPE_CHECKING:
    from kafka_segment_source.decoding.arrow import Builder


@dataclass(frozen=True)
class Table:
    """A kind of table. load_builders: loads the functions that build Arrow arrays, by the column's name."""

    columns: tuple[Column, ...]
    load_builders: Callable[[], Mapping[str, Builder]]

    @property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def default_names(self, options: ReadOptions) -> tuple[str, ...]:
        """Names of the columns of a read that names no columns, in order."""
        return tuple(column.name for column in self.columns if column.is_added is None or column.is_added(options))

    def spark_ddl(self, names: Iterable[str]) -> str:
        """The columns as DDL that Spark parses. All are nullable."""
        known = self._by_name
        return ", ".join(f"`{name}` {known[name].spark_type}" for name in names)

    def arrow_schema(self, names: Iterable[str]) -> pa.Schema:
        """The Arrow schema of these columns: all nullable, timestamps in µs with zone UTC."""
        known = self._by_name
        return pa.schema([pa.field(name, known[name].arrow_type) for name in names])

    def check_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Returns the names. Raises SchemaError for an unknown name or a name that is given twice."""
        known = self._by_name
        for name in names:
            if name not in known:
                near = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise SchemaError(f"there is no column {name!r}{hint} (there are {', '.join(known)})")
            if list(names).count(name) > 1:
                raise SchemaError(f"column {name!r} is named more than once")
        return tuple(names)

    def check_columns(self, fields: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Checks a user's schema and returns its names. fields: name, and type as Spark's simpleString prints it.

        Any subset of the columns, in any order, is accepted. Raises SchemaError for a name that is unknown or given
        twice, and for another type.
        """
        names = self.check_names([name for name, _ in fields])
        known = self._by_name
        for name, spark_type in fields:
            if spark_type != known[name].spark_type:
                raise SchemaError(
                    f"the schema gives column {name!r} the type {spark_type}, but it is {known[name].spark_type}"
                )
        return names


def _load_record_builders() -> Mapping[str, Builder]:
    from kafka_segment_source.decoding.arrow import RECORD_BUILDERS

    return RECORD_BUILDERS


RECORDS = Table(RECORD_COLUMNS, _load_record_builders)
