"""Spark as a user of this package starts it, the query that touches every row, and the ceiling source.

The *ceiling* is a data source that yields ready Arrow batches of the same rows and schema: what Spark's own way of
taking rows from Python allows. The batches lie in Arrow files in the page cache, mapped, one file for each Spark
partition.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import kafka_segment_source
from benchmarks.logs import Log, cache_directory, column_names
from benchmarks.measure import environment
from kafka_segment_source.decoding.tables import RECORDS

CEILING_ROWS = 50_000  # of one ready batch; more gains nothing (spark-python-datasource.md)
CEILING_BYTES = 16 * 1024 * 1024

#: What each column costs to read in the JVM, without making the query about something else.
_AGGREGATES = {
    "key": "sum(length(key))",
    "value": "sum(length(value))",
    "topic": "sum(length(topic))",
    "partition": "sum(`partition`)",
    "offset": "sum(`offset`)",
    "timestamp": "max(timestamp)",
    "timestampType": "sum(timestampType)",
    "headers": "sum(size(headers))",
}


@lru_cache(maxsize=1)
def spark() -> SparkSession:
    """The session of this process: two cores, conf/spark-defaults.conf, both sources registered."""
    return start({})


def start(conf: dict[str, str]) -> SparkSession:
    """A session with these settings beside those of conf/spark-defaults.conf."""
    import sys  # noqa: PLC0415

    os.environ.update(environment(sys.executable))
    builder = SparkSession.builder.master("local[2]").appName("kafkaseg benchmark")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    kafka_segment_source.register(session)
    session.dataSource.register(CeilingSource)
    return session


def stop() -> None:
    """Ends the session of this process, if there is one."""
    if spark.cache_info().currsize:
        spark().stop()
        spark.cache_clear()


def cpu_seconds() -> float | None:
    """CPU time that the session's JVM and its Python processes have used; None where the system does not tell.

    On a busy machine this says more than wall time: other programs make a query slower, but hardly dearer.
    """
    gateway = spark().sparkContext._gateway
    assert gateway is not None
    root = gateway.proc.pid
    try:
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        stats = {pid: stat for pid in pids if (stat := _stat(pid)) is not None}
    except OSError:
        return None
    tree, ticks = {root}, 0
    for pid in sorted(stats):  # a child's number is larger than its parent's, as long as numbers do not start again
        parent, spent = stats[pid]
        if pid in tree or parent in tree:
            tree.add(pid)
            ticks += spent
    return ticks / os.sysconf("SC_CLK_TCK") if root in stats else None


def _stat(pid: int) -> tuple[int, int] | None:
    """A process's parent, and its clock ticks with those of the children that have ended; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]), sum(map(int, fields[11:15]))


def touch(frame: DataFrame) -> tuple[object, ...]:
    """One row that needs every value of the frame."""
    answers = [F.expr(_AGGREGATES[name]) for name in frame.columns]
    return tuple(frame.agg(F.count("*"), *answers).collect()[0])


def columns_of(log: Log) -> tuple[str, ...]:
    """The columns that a reader of this log wants."""
    return column_names(log.shape.headers)


def segments(log: Log, columns: Sequence[str] | None = None) -> DataFrame:
    """The log through this package."""
    reader = spark().read.format("kafkaseg").option("includeHeaders", str(log.shape.headers).lower())
    if columns is not None:
        reader = reader.schema(RECORDS.spark_ddl(columns))
    return reader.load(str(log.path))


def ceiling(ready: Path, columns: Sequence[str]) -> DataFrame:
    """Ready batches (of `make_ready`) through the ceiling source."""
    return spark().read.format("ceiling").schema(RECORDS.spark_ddl(columns)).load(str(ready))


def make_ready(log: Log, columns: Sequence[str]) -> Path:
    """The log's rows as Arrow files, one a segment; the caller deletes them."""
    folder = cache_directory() / f"ready-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number, segment in enumerate(sorted(log.path.glob("*.log"))):
        rows = kafka_segment_source.scan(str(segment), list(columns), includeHeaders=log.shape.headers).read_all()
        rows = rows.combine_chunks()
        in_batch = max(1, min(CEILING_ROWS, CEILING_BYTES * rows.num_rows // max(rows.nbytes, 1)))
        with pa.OSFile(str(folder / f"{number}.arrow"), "wb") as file, pa.ipc.new_file(file, rows.schema) as out:
            for batch in rows.to_batches(max_chunksize=in_batch):
                out.write_batch(_own(batch))
    return folder


def _own(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch in buffers of its own, as a source would hand it over: not a slice of larger ones."""
    return pa.RecordBatch.from_arrays([pa.concat_arrays([column]) for column in batch.columns], schema=batch.schema)


class CeilingSource(DataSource):
    """`path`: a folder of Arrow files; the schema is the user's."""

    @classmethod
    def name(cls) -> str:
        """As in `format("ceiling")`."""
        return "ceiling"

    def reader(self, schema: object) -> DataSourceReader:
        """Spark's hook."""
        return _CeilingReader(self.options["path"])


class _CeilingReader(DataSourceReader):
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(str(path)) for path in sorted(Path(self._folder).glob("*.arrow"))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(partition.value) as file:
            batches = pa.ipc.open_file(file)
            for number in range(batches.num_record_batches):
                yield batches.get_batch(number)
