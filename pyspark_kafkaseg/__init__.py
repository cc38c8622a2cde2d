"""Lets Spark find the format by itself: it imports every top-level `pyspark_*` package and asks for `DefaultSource`."""

from kafka_segment_source.spark.datasource import KafkaSegmentDataSource as DefaultSource

__all__ = ["DefaultSource"]
