"""Two tables of a log directory: every order, as the log gains it, and the newest order of each customer."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it

spark = SparkSession.active()
ORDER = "orderId BIGINT, item STRING, amount DOUBLE, currency STRING, status STRING"
OPTIONS = {"subscribe": "orders", "keyFormat": "string", "valueFormat": "json", "valueSchema": ORDER}


@dp.table(comment="Every order, once. Each run adds what the log has gained since the last one.")
def orders() -> DataFrame:
    log = spark.readStream.format("kafkaseg").options(startingOffsets="earliest", **OPTIONS)
    return log.load(spark.conf.get("kafkaseg.logs")).select(
        F.col("key").alias("customer"), "value.*", "timestamp", "partition", F.col("offset").alias("position")
    )


@dp.materialized_view(
    comment="The newest order of each customer, as compaction would leave it. Each run makes it anew."
)
def newest_orders() -> DataFrame:
    log = spark.read.format("kafkaseg").options(view="latest", **OPTIONS)
    return log.load(spark.conf.get("kafkaseg.logs")).select(F.col("key").alias("customer"), "value.*", "timestamp")
