"""The question of demo.py, asked of a bucket: on the S3 server of the tests, which this starts and fills.

For a real store, docs/object-stores.md says which options are needed, if any.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SEGMENTS = HERE / "data" / "orders" / "data"
WINDOW = {
    "subscribe": "orders",
    "since": "2026-03-10T09:30:00Z",
    "until": "2026-03-10T09:35:00Z",
    "timestampDisorder": "5s",  # these producers were never more than 2 s out of order
}

os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark starts its workers with this interpreter, activated or not
os.environ.setdefault("SPARK_CONF_DIR", str(HERE.parent / "conf"))
sys.path.insert(0, str(HERE.parent))

from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402, N812  # as everyone calls it

import kafka_segment_source  # noqa: E402
from tests.support.buckets import make_bucket, serving_s3  # noqa: E402


def say(text: str) -> None:
    """A heading between the outputs."""
    print(f"\n── {text}", flush=True)


def main() -> None:
    """Copies the segments into a bucket; prints the plan of a time window and its count per minute."""
    with serving_s3() as server:
        bucket = make_bucket(server)
        url = bucket.put_tree(SEGMENTS, "backups/kafka")
        say(f"{len(bucket.list_keys())} files are in {url}, at {server}")
        plan = kafka_segment_source.plan(url, storage_options=bucket.options, **WINDOW)
        say("What would the orders of 09:30 to 09:35 cost?  kafka_segment_source.plan(…, storage_options={…})")
        print(plan)

        spark = SparkSession.builder.master("local[2]").appName("kafkaseg demo").getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        # as a Spark user says it; object_store's names (aws_endpoint_url, …) do as well
        options = {
            "fs.s3a.endpoint": server,
            "fs.s3a.access.key": bucket.options["aws_access_key_id"],
            "fs.s3a.secret.key": bucket.options["aws_secret_access_key"],
        }
        orders = spark.read.format("kafkaseg").options(**options, **WINDOW).load(url.replace("s3://", "s3a://"))
        say('Orders per minute: spark.read.format("kafkaseg").option("fs.s3a.endpoint", …).load("s3a://…")')
        minute = F.date_format(F.date_trunc("minute", "timestamp"), "HH:mm").alias("minute")
        amount = F.get_json_object(F.col("value").cast("string"), "$.amount").cast("double")
        counted = orders.groupBy(minute).agg(F.count("*").alias("orders"), F.round(F.sum(amount), 2).alias("EUR"))
        counted.orderBy("minute").show()
        spark.stop()


if __name__ == "__main__":
    main()
