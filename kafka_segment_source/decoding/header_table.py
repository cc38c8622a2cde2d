"""What a header table says about each of its batches, as bool[n] or int64[n] (`batch_kinds.py` has the rules)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kafka_segment_source import batch_kinds, kafka_format
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable

Mask = npt.NDArray[np.bool_]


def is_v2(headers: HeaderTable) -> Mask:
    """Which batches have magic 2. All others are entries of message sets."""
    return np.asarray(headers[batch_headers.MAGIC] == kafka_format.MAGIC_V2)


def has_bit(headers: HeaderTable, mask: int) -> Mask:
    """Which batches have an attribute that only magic 2 has."""
    return np.asarray(batch_kinds.has_bit(headers[batch_headers.MAGIC], headers[batch_headers.ATTRIBUTES], mask))


def is_control(headers: HeaderTable) -> Mask:
    """Which batches are control batches."""
    return has_bit(headers, kafka_format.CONTROL_MASK)


def is_wrapper(headers: HeaderTable) -> Mask:
    """Which entries of magic 0 or 1 hold a compressed message set."""
    return np.asarray(batch_kinds.is_wrapper(headers[batch_headers.MAGIC], headers[batch_headers.ATTRIBUTES]))


def has_append_time(headers: HeaderTable) -> Mask:
    """Which batches have the timestamps of the broker."""
    return np.asarray(batch_kinds.has_append_time(headers[batch_headers.MAGIC], headers[batch_headers.ATTRIBUTES]))


def has_producer(headers: HeaderTable) -> Mask:
    """Which batches are of a producer with an id (idempotent or transactional)."""
    return np.asarray(is_v2(headers) & (headers[batch_headers.PRODUCER_ID] > kafka_format.NO_PRODUCER))


def is_transactional_data(headers: HeaderTable) -> Mask:
    """Which batches hold records of a transaction."""
    kind = headers[batch_headers.ATTRIBUTES] & (kafka_format.TRANSACTIONAL_MASK | kafka_format.CONTROL_MASK)
    return np.asarray(has_producer(headers) & (kind == kafka_format.TRANSACTIONAL_MASK))


def record_counts(headers: HeaderTable) -> npt.NDArray[np.int64]:
    """How many records each batch has. An entry of magic 0 or 1 counts as one, as its header has no count."""
    return np.where(is_v2(headers), headers[batch_headers.COUNT], 1)


def end_of(headers: HeaderTable) -> int:
    """The position after the last of these batches."""
    return int(headers[batch_headers.POSITION, -1] + headers[batch_headers.SIZE, -1])
