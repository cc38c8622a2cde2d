"""Rows whose key or value does not fit to its schema: the table beside the others, and which rows go there."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.schema import RECORD_COLUMNS
from kafka_segment_source.streams.positions import Positions
from kafka_segment_source.values.misfits import REJECTED

_KEPT = ("topic", "partition", "offset", "timestamp")  # columns of the read

REJECTED_COLUMNS = pa.schema(
    [*(pa.field(column.name, column.arrow_type) for column in RECORD_COLUMNS if column.name in _KEPT), *REJECTED]
)
"""The columns of a table of rejected rows."""


class RejectedRows:
    """Divides rows.

    column: the corrupt column of a read whose typed columns reject.
    known: the offsets that the table has already.
    """

    def __init__(self, column: str, known: Positions) -> None:
        self._column = column
        self._known = known

    def advance(self, positions: Positions) -> Positions:
        """Returns the offsets that the table has with a commit. They never go back behind those that it has already."""
        return {**self._known, **{key: max(offset, self._known.get(key, 0)) for key, offset in positions.items()}}

    def divide(self, rows: pa.RecordBatch, key: TopicPartition) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Returns the rows that fit, and those that do not and are new. rows: of one partition."""
        why = rows[self._column]
        fitting = rows.filter(why.is_null()).drop_columns([self._column])
        new = pc.and_(why.is_valid(), pc.greater_equal(rows["offset"], self._known.get(key, 0)))
        others = rows.filter(new)
        parts = [*(others[name] for name in _KEPT), *others[self._column].flatten()]
        arrays = dict(zip((*_KEPT, *(field.name for field in REJECTED)), parts, strict=True))
        return fitting, pa.RecordBatch.from_arrays(
            [arrays[name] for name in REJECTED_COLUMNS.names], schema=REJECTED_COLUMNS
        )
