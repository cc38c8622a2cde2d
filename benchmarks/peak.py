"""A probe in a process of its own: a full scan in Spark, and the peak memory of each Python worker. Prints JSON."""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from benchmarks.sessions import start, touch
from kafka_segment_source import KafkaSegmentDataSource

_TOLD_TO = "KAFKASEG_BENCH_PEAKS"  # names a folder: a file for each task, with its worker's peak in MiB


class WatchedSource(KafkaSegmentDataSource):
    """The package's source, whose tasks tell the peak memory of the worker that they ran in."""

    @classmethod
    def name(cls) -> str:
        """As in `format("watched")`."""
        return "watched"

    def reader(self, schema: Any) -> DataSourceReader:
        """Spark's hook."""
        return _WatchedReader(super().reader(schema))


class _WatchedReader(DataSourceReader):
    def __init__(self, inner: DataSourceReader) -> None:
        self._inner = inner

    def partitions(self) -> Sequence[InputPartition]:
        return self._inner.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        before = peak()
        yield from self._inner.read(partition)
        with tempfile.NamedTemporaryFile("w", dir=os.environ[_TOLD_TO], delete=False) as file:
            file.write(f"{before} {peak()}")


def peak() -> float:
    """Peak resident memory of this process in MiB; not that of whatever it was forked from, where the system tells."""
    try:
        found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        found = None
    if found:
        return int(found.group(1)) / 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 1024)


def main() -> None:
    """`python -m benchmarks.peak PATH HEADERS`."""
    path, headers = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="kafkaseg-peaks-") as folder:
        os.environ[_TOLD_TO] = folder
        spark = start({"spark.python.worker.reuse": "false"})
        spark.dataSource.register(WatchedSource)
        rows = touch(spark.read.format("watched").option("includeHeaders", headers).load(path))[0]
        spark.stop()
        told = [file.read_text().split() for file in Path(folder).iterdir()]
    print(
        json.dumps(
            {"rows": rows, "before": max(float(each[0]) for each in told), "peak": max(float(each[1]) for each in told)}
        )
    )


if __name__ == "__main__":
    main()
