"""The Spark of `streams.py`, in a process of its own: `stream_notebook.py [JAR …]`.

It imports nothing of this repository: it is what a user's job would be. Each line of its input is JSON: a format, the
options of the source, the folders of the rows and of the checkpoint, the seconds that it may take. It runs a stream
with availableNow into Parquet, or a batch read where the line names no checkpoint. It answers with one line of JSON:
the counts of rows of the micro-batches, or the error.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession


def start_session(jars: list[str]) -> SparkSession:
    """Starts a small local session. UTC and microseconds, so that Parquet holds the timestamps as Spark has them."""
    settings = {
        "spark.jars": ",".join(jars),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }
    builder = SparkSession.builder.master("local[2]").appName("streams")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def answer(spark: SparkSession, asked: dict[str, Any]) -> dict[str, Any]:
    """Runs one query to its end. An error is an answer too."""
    kind, options, rows, checkpoint = (asked.get(name) for name in ("format", "options", "rows", "checkpoint"))
    try:
        if checkpoint is None:
            spark.read.format(kind).options(**options).load().write.parquet(rows)
            return {"batches": []}
        stream = spark.readStream.format(kind).options(**options).load().writeStream.format("parquet")
        query = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(rows)
        if not query.awaitTermination(asked["seconds"]):
            query.stop()
            return {"error": f"it did not end within {asked['seconds']} s"}
        return {"batches": [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]}
    except Exception as error:
        return {"error": str(error)}


def main() -> None:
    """Answers line after line."""
    spark = start_session(sys.argv[1:])
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        print(json.dumps(answer(spark, json.loads(line))), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
