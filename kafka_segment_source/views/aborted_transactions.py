"""view=abortedTransactions: one row an entry of a `.txnindex`, in the words of kafka-dump-log."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kafka_segment_source.schema import Column
from kafka_segment_source.views.index_files import Entries, plan_segments, read_aborts
from kafka_segment_source.views.view import View

_ENTRIES = Entries(
    read_aborts,
    (
        (Column("version", "int", pa.int32()), lambda index: pa.array(index.versions.astype(np.int32))),
        (Column("producerId", "bigint", pa.int64()), lambda index: pa.array(index.producer_ids)),
        (Column("firstOffset", "bigint", pa.int64()), lambda index: pa.array(index.first_offsets)),
        (Column("lastOffset", "bigint", pa.int64()), lambda index: pa.array(index.last_offsets)),
        (Column("lastStableOffset", "bigint", pa.int64()), lambda index: pa.array(index.last_stable_offsets)),
    ),
)

VIEW = View(_ENTRIES.table, plan_segments, _ENTRIES.rows)
