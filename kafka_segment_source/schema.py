"""Tables and their columns: name, Spark type, Arrow type. Those of records are as in Spark's `kafka` source.

The Arrow types are exactly those that Spark makes of the Spark types with zone UTC (`pyspark.sql.pandas.types`). Spark
checks only the first batch of a partition. A later batch of another type corrupts its memory. pyspark is not imported.
Spark types are written as DDL, which `simpleString()` also prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import SchemaError
from kafka_segment_source.request import Content

TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")
MAX_MILLIS = (2**63 - 1) // 1000  # Arrow and Spark keep microseconds
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


class Column(NamedTuple):
    """One column: its name, its Spark type and its Arrow type.

    is_added: whether a read adds the column to the default columns. None for a column that is always one of them.
    """

    name: str
    spark_type: str
    arrow_type: pa.DataType
    is_added: Callable[[Content], bool] | None = None


@dataclass(frozen=True)
class Table:
    """A kind of table: its columns, in order."""

    columns: tuple[Column, ...]

    @property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def default_names(self, content: Content) -> tuple[str, ...]:
        """Names of the columns of a read that names no columns, in order."""
        return tuple(column.name for column in self.columns if column.is_added is None or column.is_added(content))

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


def make_batch_without_columns(count: int) -> pa.RecordBatch:
    """Makes a batch that has nothing but a number of rows."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))


def timestamp_array(millis: npt.NDArray[np.int64], known: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Makes timestamps of epoch ms. One is null where it is not `known`, where Kafka has none (-1), and where
    microseconds cannot hold it."""
    unknown = (millis == kafka_format.NO_TIMESTAMP) | (millis > MAX_MILLIS) | (millis < -MAX_MILLIS)
    if known is not None:
        unknown |= ~known
    return pa.array(np.where(unknown, 0, millis) * 1000, mask=unknown).view(TIMESTAMP_TYPE)


RECORD_COLUMNS = (
    Column("key", "binary", pa.binary()),
    Column("value", "binary", pa.binary()),
    Column("topic", "string", pa.string()),
    Column("partition", "int", pa.int32()),
    Column("offset", "bigint", pa.int64()),
    Column("timestamp", "timestamp", TIMESTAMP_TYPE),
    Column("timestampType", "int", pa.int32()),
    Column("headers", "array<struct<key:string,value:binary>>", HEADERS_TYPE, lambda content: content.include_headers),
    Column(
        "metadata",
        "struct<baseOffset:bigint,position:bigint,magic:int,compresscodec:string,partitionLeaderEpoch:int,"
        "producerId:bigint,producerEpoch:int,sequence:int,isTransactional:boolean,file_path:string,file_name:string>",
        METADATA_TYPE,
        lambda content: content.include_metadata,
    ),
    Column("controlType", "string", pa.string(), lambda content: content.include_control),
)

BATCH_COLUMNS = (
    Column("topic", "string", pa.string()),
    Column("partition", "int", pa.int32()),
    Column("baseOffset", "bigint", pa.int64()),
    Column("lastOffset", "bigint", pa.int64()),
    Column("count", "int", pa.int32()),
    Column("position", "bigint", pa.int64()),
    Column("size", "int", pa.int32()),
    Column("magic", "int", pa.int32()),
    Column("compresscodec", "string", pa.string()),
    Column("timestampType", "int", pa.int32()),
    Column("baseTimestamp", "timestamp", TIMESTAMP_TYPE),
    Column("maxTimestamp", "timestamp", TIMESTAMP_TYPE),
    Column("partitionLeaderEpoch", "int", pa.int32()),
    Column("producerId", "bigint", pa.int64()),
    Column("producerEpoch", "int", pa.int32()),
    Column("baseSequence", "int", pa.int32()),
    Column("isTransactional", "boolean", pa.bool_()),
    Column("isControl", "boolean", pa.bool_()),
    Column("deleteHorizon", "timestamp", TIMESTAMP_TYPE),
    Column("crc", "bigint", pa.int64()),
    Column("file_path", "string", pa.string()),
)
"""The columns of batches, in the words of kafka-dump-log. A wrapper of magic 0 or 1 states only its last offset."""
