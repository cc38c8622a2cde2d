"""A scheduled job: adds what Kafka's logs have gained since the last run to Parquet files or a table, each record once.

    python examples/etl_job.py /var/kafka-logs --to /data/events --checkpoint /data/checkpoints/events

Spark's checkpoint remembers how far the job came. A run that dies leaves nothing to repair: the next one goes on from
the checkpoint, and Spark's sinks leave out what they have already. docs/etl.md shows schedules and table formats.

Exit codes: 0 the records are in place; 1 it failed, run it again; 2 the request is wrong, another run does not help.
Standard output has one line. The last line of standard error says what went wrong.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import etl_causes  # beside this file
import etl_target
import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from kafka_segment_source.errors import UsageError, cause_of

FAILED, WRONG_USE = 1, 2
CONF = Path(__file__).resolve().parent.parent / "conf"
# Where a table format runs: Spark's version, and the package for it
PACKAGES = {
    "delta": {v: f"io.delta:delta-spark_{v}_2.13:4.4.0" for v in ("4.1", "4.2")},
    "iceberg": {"4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"},
}
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def find_settings(sink: str) -> dict[str, str]:
    """Returns Spark's settings for a format. Raises UsageError if this Spark cannot write it."""
    if sink == "parquet":
        return {}
    version = ".".join(pyspark.__version__.split(".")[:2])
    if version not in PACKAGES[sink]:
        raise UsageError(
            f"--format {sink} needs Spark {' or '.join(PACKAGES[sink])}, and this is {pyspark.__version__}: take"
            " --format parquet, or write the table without Spark (docs/export.md)"
        )
    return {"spark.jars.packages": PACKAGES[sink][version]} | (DELTA if sink == "delta" else {})


def start_spark(settings: Mapping[str, str]) -> SparkSession:
    """Starts a session, as spark-submit, the environment or conf/spark-defaults.conf describe it.

    Raises OSError for a JVM that does not start, such as one whose jars cannot be fetched.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark looks for data sources with this interpreter
    os.environ.setdefault("SPARK_CONF_DIR", str(CONF))
    builder = SparkSession.builder.appName("kafkaseg etl")
    # the type of timestamps that has statistics, and that every reader knows
    builder = builder.config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    for name, value in settings.items():
        builder = builder.config(name, value)
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started the JVM
        return builder.getOrCreate()
    with etl_causes.hear_jvm() as find_reason:
        try:
            return builder.getOrCreate()
        except PySparkRuntimeError as error:
            failure = error
    raise OSError(f"Spark did not start: {find_reason() or failure}")


def take_new(
    spark: SparkSession,
    path: str,
    target: str,
    checkpoint: str,
    options: Mapping[str, str],
    sink: str = "parquet",
    from_target: bool = False,
) -> str:
    """Adds the records that the checkpoint does not count yet to the target, and returns when they are in place.

    target: a directory, or the name of a table for Iceberg. options: those of the source, for a stream. from_target:
    whether a new checkpoint begins after the records of the target.
    Returns the offsets up to which the target has the records (exclusive), as JSON. Raises etl_target.MisfitError for a
    checkpoint and a target that do not belong together.
    """
    if from_target:
        start = etl_target.find_start(spark, path, target, checkpoint, options, sink)
        options = {**options, "startingOffsets": start}
    else:
        etl_target.check_fit(spark, path, target, checkpoint, options, sink)
    records = spark.readStream.format("kafkaseg").options(**options).load(path)
    writer = records.writeStream.format(sink).option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query = writer.toTable(target) if sink == "iceberg" else writer.start(target)
    query.awaitTermination()
    etl_target.note_checkpoint(spark, target, checkpoint, sink, str(query.id))
    (source,) = json.loads(query.lastProgress.json)["sources"]
    return json.dumps(source["endOffset"])


@click.command()
@click.argument("path")
@click.option("--to", "target", required=True, metavar="TARGET", help="A directory; for Iceberg a table's name.")
@click.option("--checkpoint", required=True, metavar="DIRECTORY", help="Belongs to this path and target alone.")
@click.option("--format", "sink", type=click.Choice(["parquet", *PACKAGES]), default="parquet", show_default=True)
@click.option("--subscribe", metavar="TOPICS", help="Topics, separated by commas. [default: all]")
@click.option("--isolation-level", "isolationLevel", default="read_committed", show_default=True)
@click.option("--starting-offsets", "startingOffsets", default="earliest", show_default=True, help="For the first run.")
@click.option("--from-target", is_flag=True, help="New checkpoint: go on after the records of the table.")
@click.option("--max-offsets", "maxOffsetsPerTrigger", help="The most offsets of a micro-batch (Spark 4.2 or later).")
@click.option("--option", "more", multiple=True, metavar="NAME=VALUE", help="Any other option of the source.")
@click.option("--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark, such as a catalog.")
def main(
    path: str,
    target: str,
    checkpoint: str,
    sink: str,
    from_target: bool,
    more: list[str],
    conf: list[str],
    **named: str,
) -> None:
    """Adds what the logs at PATH have gained since the last run to TARGET, each record once."""
    options = {name: value for name, value in named.items() if value is not None} | split_pairs("--option", more)
    settings = split_pairs("--conf", conf)
    try:
        spark = start_spark(find_settings(sink) | settings)
        end = take_new(spark, path, target, checkpoint, options, sink, from_target)
        spark.stop()
    except (UsageError, PySparkException, Py4JError, OSError) as error:
        click.echo(f"etl_job: {etl_causes.explain(error)}", err=True)
        sys.exit(WRONG_USE if isinstance(cause_of(error), UsageError) else FAILED)
    click.echo(f"etl_job: {target} has the records up to {end}")


def split_pairs(flag: str, texts: Sequence[str]) -> dict[str, str]:
    """Returns the names and values of a repeated flag."""
    for text in texts:
        if "=" not in text:
            raise click.UsageError(f"{flag} is {text!r}; expected NAME=VALUE")
    return dict(text.split("=", 1) for text in texts)


if __name__ == "__main__":
    main()
