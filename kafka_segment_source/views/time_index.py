"""view=timeIndex: one row an entry of a `.timeindex`, as it is stored, without padding."""

from __future__ import annotations

import pyarrow as pa

from kafka_segment_source.schema import TIMESTAMP_TYPE, Column, timestamp_array
from kafka_segment_source.views.index_files import Entries, plan_segments, read_times
from kafka_segment_source.views.view import View

_ENTRIES = Entries(
    read_times,
    (
        (Column("timestamp", "timestamp", TIMESTAMP_TYPE), lambda index: timestamp_array(index.timestamps)),
        (Column("offset", "bigint", pa.int64()), lambda index: pa.array(index.offsets)),
    ),
)

VIEW = View(_ENTRIES.table, plan_segments, _ENTRIES.rows)
