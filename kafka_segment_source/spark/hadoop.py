"""Options of S3 from a session's Hadoop configuration: `spark.hadoop.fs.s3a.*`, and what code has set there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_segment_source.storage.settings import is_setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "fs.s3a."


def hadoop_options(spark: SparkSession) -> dict[str, str]:
    """Returns the texts of `fs.s3a.*` that have a meaning here, by their names in small letters.

    It returns none through Spark Connect, where a session has no JVM.
    """
    context: Any = getattr(spark, "_sc", None)
    if context is None:
        return {}
    settings: dict[str, str] = {}
    for entry in context._jsc.hadoopConfiguration().getPropsWithPrefix(_PREFIX).items():
        name = f"{_PREFIX}{entry[0]}".lower()
        if is_setting(name) and entry[1]:
            settings[name] = entry[1]
    return settings
