"""One side of the comparison, run in a process of its own: `notebook.py FORMAT FOLDER CASES [JAR …]`.

It imports nothing of this repository: it is what a user's notebook would be. CASES is JSON, the options by case; the
rows of a case go to FOLDER/<case> as Parquet, their schema to FOLDER/<case>/schema.json, or an error to
FOLDER/<case>/error.txt.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


def question(spark: SparkSession, fmt: str, **options: str) -> DataFrame:
    """What the notebook asks, without a word that depends on where the records come from."""
    return spark.read.format(fmt).options(**options).load()


def session(jars: list[str]) -> SparkSession:
    """A small local session; UTC and microseconds, so that Parquet holds the timestamps as Spark has them."""
    builder = SparkSession.builder.master("local[2]").appName("kafka_vs_kafkaseg")
    settings = {
        "spark.jars": ",".join(jars),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    """Ask for every case, and write the answers down."""
    fmt, folder, cases, *jars = sys.argv[1:]
    spark = session(jars)
    spark.sparkContext.setLogLevel("ERROR")
    for name, options in json.loads(cases).items():
        _answer(spark, fmt, options, Path(folder) / name)
    spark.stop()


def _answer(spark: SparkSession, fmt: str, options: dict[str, str], target: Path) -> None:
    """One case; an error is an answer too, so that it does not hide the cases after it."""
    try:
        answer = question(spark, fmt, **options)
        answer.write.parquet(str(target))
        (target / "schema.json").write_text(answer.schema.json())
    except Exception as error:
        target.mkdir(parents=True, exist_ok=True)
        (target / "error.txt").write_text(str(error))


if __name__ == "__main__":
    main()
