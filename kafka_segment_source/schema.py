"""The columns, once: name, Spark type, Arrow type. Names, order and types are those of Spark's `kafka` source.

Arrow types are exactly what Spark makes of the Spark types with zone UTC (`pyspark.sql.pandas.types`): Spark
checks only the first batch of a partition, and a later one that differs corrupts its memory. pyspark is not
imported: Spark types are written as DDL, which is also what `simpleString()` prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa

from kafka_segment_source.errors import SchemaError

TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")
HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE = pa.list_(pa.field("element", HEADER_TYPE))
METADATA_TYPE = pa.struct(
    [
        pa.field("baseOffset", pa.int64()),
        pa.field("position", pa.int64()),
        pa.field("magic", pa.int32()),
        pa.field("compresscodec", pa.string()),
        pa.field("partitionLeaderEpoch", pa.int32()),
        pa.field("producerId", pa.int64()),
        pa.field("producerEpoch", pa.int32()),
        pa.field("sequence", pa.int32()),
        pa.field("isTransactional", pa.bool_()),
        pa.field("file_path", pa.string()),
        pa.field("file_name", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, its type in Spark's words and in Arrow's, and the option that adds it, if one does."""

    name: str
    spark_type: str
    arrow_type: pa.DataType
    added_by: str | None = None


COLUMNS = (
    Column("key", "binary", pa.binary()),
    Column("value", "binary", pa.binary()),
    Column("topic", "string", pa.string()),
    Column("partition", "int", pa.int32()),
    Column("offset", "bigint", pa.int64()),
    Column("timestamp", "timestamp", TIMESTAMP_TYPE),
    Column("timestampType", "int", pa.int32()),
    Column("headers", "array<struct<key:string,value:binary>>", HEADERS_TYPE, "includeHeaders"),
    Column(
        "metadata",
        "struct<baseOffset:bigint,position:bigint,magic:int,compresscodec:string,partitionLeaderEpoch:int,"
        "producerId:bigint,producerEpoch:int,sequence:int,isTransactional:boolean,file_path:string,file_name:string>",
        METADATA_TYPE,
        "includeMetadata",
    ),
)
_BY_NAME = {column.name: column for column in COLUMNS}


def default_columns(include_headers: bool, include_metadata: bool) -> tuple[str, ...]:
    """Names of the columns that a query without a schema of its own gets, in order."""
    added = {"includeHeaders": include_headers, "includeMetadata": include_metadata}
    return tuple(column.name for column in COLUMNS if column.added_by is None or added[column.added_by])


def spark_ddl(names: Iterable[str]) -> str:
    """The columns as Spark DDL, all nullable; Spark parses it."""
    return ", ".join(f"`{name}` {_BY_NAME[name].spark_type}" for name in names)


def check_columns(fields: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Names of a user's schema, given as (name, type as Spark's simpleString prints it), once they can be served.

    Any subset in any order is served. Raises SchemaError for a name that is unknown or given twice, or another type.
    """
    names = check_column_names([name for name, _ in fields])
    for name, spark_type in fields:
        if spark_type != _BY_NAME[name].spark_type:
            raise SchemaError(
                f"the schema gives column {name!r} the type {spark_type}, but it is {_BY_NAME[name].spark_type}"
            )
    return names


def check_column_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names, once each is a column and none is there twice; SchemaError otherwise."""
    for name in names:
        if name not in _BY_NAME:
            near = get_close_matches(name.lower(), _BY_NAME, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SchemaError(f"there is no column {name!r}{hint} (there are {', '.join(_BY_NAME)})")
        if list(names).count(name) > 1:
            raise SchemaError(f"column {name!r} is named more than once")
    return tuple(names)


def arrow_schema(names: Iterable[str]) -> pa.Schema:
    """The Arrow schema of these columns: all nullable, timestamps in µs with zone UTC."""
    return pa.schema([pa.field(name, _BY_NAME[name].arrow_type) for name in names])
