"""Typed columns of records: `key` and `value` under their schemas, and the corrupt column.

The driver makes `TypedColumns` once a read, and sends them to the tasks: programs and types, without any schema's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from kafka_segment_source.decoding.tables import MakeRows, Reading, SplitTable
from kafka_segment_source.schema import RECORD_COLUMNS, Column
from kafka_segment_source.values.misfits import REJECTED, Misfits

if TYPE_CHECKING:
    from kafka_segment_source.values.avro_columns import Wanted
    from kafka_segment_source.values.typed_rows import ColumnDecoder


class Meaning(Protocol):
    """What the bytes of a column mean. It crosses to tasks.

    arrow: the type of the column. spark: the same as Spark writes it, with names in backticks.
    """

    @property
    def arrow(self) -> pa.DataType: ...

    @property
    def spark(self) -> str: ...

    def make_decoder(self, most_bytes: int) -> ColumnDecoder:
        """Makes what decodes rows. most_bytes: the most memory that the columns of one batch may take."""


@dataclass(frozen=True)
class TypedColumns:
    """meanings: by the name of the column, `key` or `value`.
    corrupt_column: None under FAILFAST.

    readers: for each column the text of its schema option that always names the same schema.
    wanted: the fields that are wanted, by column.
    rejects: whether the corrupt column says why, and has the bytes of key and value (REJECTED).
    """

    meanings: Mapping[str, Meaning]
    corrupt_column: str | None
    readers: Mapping[str, str] = field(default_factory=dict)
    wanted: Mapping[str, Wanted] = field(default_factory=dict)
    rejects: bool = False
    misfits: Misfits | None = field(default=None, compare=False)

    @property
    def table(self) -> SplitTable:
        """The columns of records, typed."""
        columns = [
            column._replace(spark_type=self.meanings[column.name].spark, arrow_type=self.meanings[column.name].arrow)
            if column.name in self.meanings
            else column
            for column in RECORD_COLUMNS
        ]
        if self.corrupt_column is not None:
            kind = (
                ("struct<key: binary, value: binary, reason: string>", REJECTED)
                if self.rejects
                else ("binary", pa.binary())
            )
            columns.append(Column(self.corrupt_column, *kind))
        return TypedTable(tuple(columns), _load_maker)

    def read(self, read: Callable[..., Iterator[pa.RecordBatch]], reading: Reading) -> Iterator[pa.RecordBatch]:
        """Reads by `read`, which takes what the task must know, and says at the end what did not fit."""
        misfits = Misfits("rejected" if self.rejects else "null")
        try:
            content = reading.content._replace(typed=replace(self, misfits=misfits))
            yield from read(reading=reading._replace(content=content))
        finally:
            misfits.report()


class TypedTable(SplitTable):
    """The table of typed records. Spark prints types without the backticks that its parser wants."""

    def check_columns(self, fields: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        plain = tuple(
            column._replace(spark_type=column.spark_type.replace("``", "\0").replace("`", "").replace("\0", "`"))
            for column in self.columns
        )
        return SplitTable(plain, self.load_maker).check_columns(fields)


def _load_maker() -> MakeRows:
    from kafka_segment_source.values.typed_rows import TypedRows  # noqa: PLC0415  # planning does without

    return TypedRows
