"""Lets Spark find the format itself. Spark imports every top-level `pyspark_*` package and reads `DefaultSource`."""

from kafka_segment_source.spark.datasource import KafkaSegmentDataSource as DefaultSource

__all__ = ["DefaultSource"]
