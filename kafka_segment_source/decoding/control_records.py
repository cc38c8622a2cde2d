"""What a control record says: its type, by its key, and the coordinator epoch of a transaction marker, by its value.

Keys and values may be longer than expected, and of a later version (Kafka: ControlRecordType.parse).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.records import RecordColumns
from kafka_segment_source.kernels import record_batches

NO_TYPE = 2**15  # beyond the 16 bits of a type
"""Stands for the type of a record whose key is too short for one."""


def read_types(records: RecordColumns, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Returns the types of some control records, int32[n]. rows: their numbers, int64[n]."""
    has_type = records.ints[record_batches.KEY_LENGTH, rows] >= kafka_format.CONTROL_KEY_BYTES
    at = np.where(has_type, records.ints[record_batches.KEY_AT, rows] + kafka_format.CONTROL_TYPE_AT, 0)
    types = (records.source[at].astype(np.uint16) << 8 | records.source[at + 1]).astype(np.int16)
    return np.where(has_type, types, np.int32(NO_TYPE))


def read_coordinator_epoch(value: bytes | None) -> int | None:
    """Reads the coordinator epoch from the value of a COMMIT or ABORT (`clients.EndTransactionMarker`).

    It is None if the value is null or too short.
    """
    if value is None or len(value) < kafka_format.END_MARKER_BYTES:
        return None
    return int.from_bytes(value[kafka_format.COORDINATOR_EPOCH_AT : kafka_format.END_MARKER_BYTES], "big", signed=True)
