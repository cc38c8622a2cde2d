"""What the rows of several views have in common: the columns of a history, and moments."""

from __future__ import annotations

import pyarrow as pa

from kafka_segment_source.schema import TIMESTAMP_TYPE, Column

Row = dict[str, object]
"""A value for each column's name. A moment is an int of epoch µs."""

_MOST_MILLIS = (2**63 - 1) // 1000  # Arrow and Spark keep microseconds
_NO_MOMENT = -1

HISTORY_COLUMNS = (
    Column("isTombstone", "boolean", pa.bool_(), lambda content: content.history),
    Column("logPartition", "int", pa.int32(), lambda content: content.history),
    Column("logOffset", "bigint", pa.int64(), lambda content: content.history),
    Column("timestamp", "timestamp", TIMESTAMP_TYPE, lambda content: content.history),
)
"""Of a row with history=true: whether the record removes the state, and where it is: the partition of the internal
topic, its offset there, and its timestamp."""


def to_micros(millis: int | None) -> int | None:
    """Converts epoch ms to µs. None for no moment (-1), and for one that µs cannot hold."""
    if millis is None or millis == _NO_MOMENT or abs(millis) > _MOST_MILLIS:
        return None
    return millis * 1000
