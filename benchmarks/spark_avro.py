"""Avro values in Spark: the typed scan, the raw scan with `from_avro` behind it, and what Spark itself takes of each.

Opt-in, as it needs the jar of spark-avro: `python -m benchmarks.spark_avro [RECORDS [TURNS]]`. The ceilings are sources
that have nothing to do: they yield Arrow batches that lie ready, typed or raw. So they are the least time that Spark
takes of such rows. All runs take turns in one session of one core, and write into Spark's `noop`. Other work on the
machine only adds time, so the shortest run of each says most. The ratio of runs in one turn is the median over all.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.datasource import DataSource, DataSourceReader

import kafka_segment_source
from benchmarks.typed_values import _FLAT, _flat
from kafka_segment_source.spark.datasource import KafkaSegmentDataSource
from tests.support import writer
from tests.support.avro_cases import encode
from tests.support.jars import Distribution
from tests.support.schema_logs import SchemaLog, framed
from tests.support.writer import Rec

_COORDINATE = "org.apache.spark:spark-avro_2.13:4.1.1"
_BATCH = 500  # records
_RUNS = 5


class ReadySource(DataSource):
    """Yields the batches of a file of Arrow's IPC format, from memory once it was read."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> str:
        return str(self.options["ddl"])

    def reader(self, schema: Any) -> DataSourceReader:
        return _ReadyReader(self.options["path"])


class _ReadyReader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self._path = path

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        yield from _load(self._path)


@cache
def _load(path: str) -> list[pa.RecordBatch]:
    with pyarrow.ipc.open_file(pa.memory_map(path)) as file:
        return [file.get_batch(at) for at in range(file.num_record_batches)]


def write_log(directory: Path, count: int) -> None:
    """Writes records of a flat schema, of 76 bytes, as one log, with its `_schemas`."""
    SchemaLog(directory).register("orders-value", 1, _FLAT)
    rng = random.Random(1)
    rows = [framed(1, encode(_FLAT, _flat(rng))) for _ in range(10_000)]
    log = directory / "orders-0" / writer.segment_name(0)
    log.parent.mkdir()
    with log.open("wb") as file:
        for base in range(0, count, _BATCH):
            records = [Rec(at, at, b"k", rows[(base + at) % len(rows)]) for at in range(_BATCH)]
            file.write(writer.record_batch(records, base_offset=base))


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else _RUNS
    jars = ",".join(
        map(str, sorted(Distribution("spark-avro_2.13-4.1.1", "4.1.1", (_COORDINATE,)).directory().glob("*.jar")))
    )
    with tempfile.TemporaryDirectory() as held:
        path = Path(held)
        write_log(path, count)
        options = {"subscribe": "orders", "valueFormat": "avro"}
        spark = (
            SparkSession.builder.master("local[1]")
            .config("spark.jars", jars)
            .config("spark.ui.enabled", "false")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        for source in (KafkaSegmentDataSource, ReadySource):
            spark.dataSource.register(source)
        typed = spark.read.format("kafkaseg").options(**options).schema(kafka_ddl(spark, path)).load(held)
        raw = spark.read.format("kafkaseg").option("subscribe", "orders").schema("value binary").load(held)
        selections: dict[str, dict[str, Any]] = {"typed": options, "raw": {"subscribe": "orders"}}
        for name, given in selections.items():
            reader = kafka_segment_source.scan(path, columns=["value"], **given)
            with pyarrow.ipc.new_file(str(path / f"{name}.arrow"), reader.schema) as file:
                for batch in reader:
                    file.write_batch(batch)

        def ready(name: str, ddl: str) -> DataFrame:
            return spark.read.format("ready").option("ddl", ddl).load(str(path / f"{name}.arrow"))

        def decode(frame: DataFrame) -> DataFrame:
            return frame.select(from_avro(frame.value.substr(6, 1_000_000), json.dumps(_FLAT)).alias("value"))

        frames = {
            "typed scan": typed,
            "raw scan": raw,
            "raw scan and from_avro": decode(raw),
            "ready typed batches": ready("typed", kafka_ddl(spark, path)),
            "ready raw batches": ready("raw", "value binary"),
            "ready raw batches and from_avro": decode(ready("raw", "value binary")),
        }
        found = measure({name: _sink(frame) for name, frame in frames.items()}, runs)
        print(f"{count:,} records, {runs} turns: shortest and median")
        for name, seconds in found.items():
            print(
                f"{name:34} {min(seconds):6.2f} s {statistics.median(seconds):6.2f} s {count / min(seconds) / 1e6:5.2f} M rows/s"
            )
        for name in ("typed scan", "ready typed batches"):
            print_ratio(name, found[name], "raw scan and from_avro", found["raw scan and from_avro"])
        spark.stop()


def kafka_ddl(spark: SparkSession, path: Path) -> str:
    """The column `value` as DDL."""
    frame = spark.read.format("kafkaseg").options(subscribe="orders", valueFormat="avro").load(str(path))
    return f"value {frame.schema['value'].dataType.simpleString()}"


def _sink(frame: DataFrame) -> Callable[[], None]:
    return lambda: frame.write.format("noop").mode("overwrite").save()


def print_ratio(name: str, seconds: list[float], other: str, of_other: list[float]) -> None:
    """Prints how many times the speed of another run one has: by the shortest of each, and over all turns."""
    turns = sorted(theirs / ours for ours, theirs in zip(seconds, of_other, strict=True))
    print(
        f"{name} against {other}: {min(of_other) / min(seconds):.2f} times its speed"
        f" (turns: median {statistics.median(turns):.2f}, {turns[0]:.2f} to {turns[-1]:.2f})"
    )


def measure(runs: dict[str, Callable[[], None]], turns: int) -> dict[str, list[float]]:
    """Seconds of each run in each turn. A turn before them warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(turns + 1):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            if turn:
                seconds[name].append(time.perf_counter() - begin)
    return seconds


if __name__ == "__main__":
    from benchmarks import spark_avro  # noqa: PLW0406  # workers import the source from there

    spark_avro.main()
