"""The columns of records: name, Spark type, Arrow type. Names, order and types are those of Spark's `kafka` source.

The Arrow types are exactly those that Spark makes of the Spark types with zone UTC (`pyspark.sql.pandas.types`). Spark
checks only the first batch of a partition. A later batch of another type corrupts its memory. pyspark is not imported.
Spark types are written as DDL, which `simpleString()` also prints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from kafka_segment_source.options import ReadOptions

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
    """One column: its name, its Spark type and its Arrow type.

    is_added: whether some options add the column to the default columns. None for a column that is always one of them.
    """

    name: str
    spark_type: str
    arrow_type: pa.DataType
    is_added: Callable[[ReadOptions], bool] | None = None


RECORD_COLUMNS = (
    Column("key", "binary", pa.binary()),
    Column("value", "binary", pa.binary()),
    Column("topic", "string", pa.string()),
    Column("partition", "int", pa.int32()),
    Column("offset", "bigint", pa.int64()),
    Column("timestamp", "timestamp", TIMESTAMP_TYPE),
    Column("timestampType", "int", pa.int32()),
    Column("headers", "array<struct<key:string,value:binary>>", HEADERS_TYPE, lambda options: options.include_headers),
    Column(
        "metadata",
        "struct<baseOffset:bigint,position:bigint,magic:int,compresscodec:string,partitionLeaderEpoch:int,"
        "producerId:bigint,producerEpoch:int,sequence:int,isTransactional:boolean,file_path:string,file_name:string>",
        METADATA_TYPE,
        lambda options: options.include_metadata,
    ),
)
