"""kafkaseg in one minute: what a question would read, some rows, and a count per minute.

Runs on the segments in examples/data/orders, which a real Kafka 4.1 broker wrote; needs no broker.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SEGMENTS = HERE / "data" / "orders" / "data"
SINCE, UNTIL = "2026-03-10T09:30:00Z", "2026-03-10T09:35:00Z"
DISORDER = "5s"  # these producers were never more than 2 s out of order: it lets the read end soon after UNTIL

os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark starts its workers with this interpreter, activated or not
os.environ.setdefault("SPARK_CONF_DIR", str(HERE.parent / "conf"))

from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402, N812  # as everyone calls it

import kafka_segment_source  # noqa: E402


def say(text: str) -> None:
    """A heading between the outputs."""
    print(f"\n── {text}", flush=True)


def main() -> None:
    """Prints the plan of a time window, some of its rows, and its count per minute."""
    path = os.path.relpath(SEGMENTS)
    say(f"What would the orders of {SINCE[11:16]} to {UNTIL[11:16]} cost?  kafka_segment_source.plan(…)")
    print(kafka_segment_source.plan(path, subscribe="orders", since=SINCE, until=UNTIL, timestampDisorder=DISORDER))

    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        sys.exit("What follows takes Spark, which needs Java 17 or later: install a JDK 17 or set JAVA_HOME.")
    spark = SparkSession.builder.master("local[2]").appName("kafkaseg demo").getOrCreate()
    orders = (
        spark.read.format("kafkaseg")
        .option("subscribe", "orders")
        .option("since", SINCE)
        .option("until", UNTIL)
        .option("timestampDisorder", DISORDER)
        .load(path)
    )
    say('The rows: spark.read.format("kafkaseg").option("since", …).load(path)')
    readable = orders.orderBy("timestamp", "partition").select(
        F.col("partition").alias("part"),
        "offset",
        F.date_format("timestamp", "HH:mm:ss.SSS").alias("time"),
        F.col("key").cast("string"),
        F.col("value").cast("string"),
    )
    readable.show(5, truncate=36)

    say("Orders per minute")
    minute = F.date_format(F.date_trunc("minute", "timestamp"), "HH:mm").alias("minute")
    amount = F.get_json_object(F.col("value").cast("string"), "$.amount").cast("double")
    orders.groupBy(minute).agg(F.count("*").alias("orders"), F.round(F.sum(amount), 2).alias("EUR")).orderBy(
        "minute"
    ).show()
    spark.stop()


if __name__ == "__main__":
    main()
