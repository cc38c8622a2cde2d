"""What the magic and the attributes of a batch header say about the batch: for one batch, or for arrays of batches.

`magic`, `attributes` and `count` are integers, or int64 arrays with one value for each batch. An answer is a bool, or
an array of them. `decoding/header_table.py` asks the same of a header table. The kernels have these rules in their
own loops.

Kafka: DefaultRecordBatch, AbstractLegacyRecordBatch (`org.apache.kafka.common.record`).
"""

from __future__ import annotations

from typing import Any

from kafka_segment_source import kafka_format


def has_bit(magic: Any, attributes: Any, mask: int) -> Any:
    """Whether an attribute is set that only magic 2 has."""
    return (magic == kafka_format.MAGIC_V2) & (attributes & mask != 0)


def is_control(magic: Any, attributes: Any) -> Any:
    """Whether the batch is a control batch: its records are for consumers and brokers, not for users."""
    return has_bit(magic, attributes, kafka_format.CONTROL_MASK)


def is_compressed(attributes: Any) -> Any:
    """Whether the records are compressed."""
    return attributes & kafka_format.CODEC_MASK != kafka_format.CODEC_NONE


def is_wrapper(magic: Any, attributes: Any) -> Any:
    """Whether an entry of magic 0 or 1 holds a compressed message set. It states only its last offset, and no count."""
    return (magic < kafka_format.MAGIC_V2) & is_compressed(attributes)


def has_append_time(magic: Any, attributes: Any) -> Any:
    """Whether the broker set the timestamps (LogAppendTime): all records have the largest one."""
    return (magic > kafka_format.MAGIC_V0) & (attributes & kafka_format.TIMESTAMP_TYPE_MASK != 0)


def states_first_timestamp(magic: Any, attributes: Any) -> Any:
    """Whether the header states the timestamp of the first record.

    Under LogAppendTime it states only the largest. With a delete horizon, that stands in its place (KIP-534).
    """
    has_horizon = has_bit(magic, attributes, kafka_format.DELETE_HORIZON_MASK)
    return (has_horizon | has_append_time(magic, attributes)) == 0


def has_data(magic: Any, attributes: Any, count: Any) -> Any:
    """Whether the header proves that the batch holds records for users."""
    return (magic == kafka_format.MAGIC_V2) & (attributes & kafka_format.CONTROL_MASK == 0) & (count > 0)
