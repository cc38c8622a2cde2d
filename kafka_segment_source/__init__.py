"""Kafka's own log segment directories as a Spark table and as Arrow batches, without a broker.

    spark.read.format("kafkaseg").load("/var/kafka-logs/orders-0")
    kafka_segment_source.scan("/var/kafka-logs/orders-0", since="-2h")

Importing this imports nothing heavy: each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka_segment_source.queries import plan, scan
    from kafka_segment_source.spark.datasource import KafkaSegmentDataSource, read, register
    from kafka_segment_source.spark.zone_maps import update_zone_maps

__version__ = "0.1.0"
__all__ = ["KafkaSegmentDataSource", "__version__", "plan", "read", "register", "scan", "update_zone_maps"]

_HOMES = {
    "KafkaSegmentDataSource": "kafka_segment_source.spark.datasource",
    "read": "kafka_segment_source.spark.datasource",
    "register": "kafka_segment_source.spark.datasource",
    "update_zone_maps": "kafka_segment_source.spark.zone_maps",
    "plan": "kafka_segment_source.queries",
    "scan": "kafka_segment_source.queries",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
