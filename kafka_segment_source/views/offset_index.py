"""view=offsetIndex: one row an entry of a `.index`, as it is stored, without padding."""

from __future__ import annotations

import pyarrow as pa

from kafka_segment_source.schema import Column
from kafka_segment_source.views.index_files import Entries, plan_segments, read_offsets
from kafka_segment_source.views.view import View

_ENTRIES = Entries(
    read_offsets,
    (
        (Column("offset", "bigint", pa.int64()), lambda index: pa.array(index.offsets)),
        (Column("position", "bigint", pa.int64()), lambda index: pa.array(index.positions)),
    ),
)

VIEW = View(_ENTRIES.table, plan_segments, _ENTRIES.rows)
