"""export: whatever the logs gain, and wherever runs are killed, the table has each record once.

A case is a number: `python -m tests.property.test_export_kills 17` runs one, `… 0 300` many.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_segment_source.exporting.export import export
from tests.support.cases import count_cases
from tests.support.dying_export import run_export
from tests.support.growing_log import GrowingPartition

FORMATS = ("parquet", "delta", "iceberg")
CASES = count_cases(7, 20)  # of each format
KILLS = count_cases(2, 10)  # of each case
TABLE = "lake.kafka.events"
PRELOADED = [  # what a run would load anyway
    *("tests.support.dying_export", "deltalake.transaction", "pyiceberg.catalog.sql", "pyiceberg.io.pyarrow"),
    *("pyarrow.dataset", "kafka_segment_source.scanning", "kafka_segment_source.kernels.machine_code"),
    *("kafka_segment_source.decoding.record_rows", "kafka_segment_source.transactions.committed"),
    *("kafka_segment_source.planning.open_transactions", "kafka_segment_source.schema_registry.resolving"),
    "kafka_segment_source.values.typed_rows",
]
Row = tuple[int, int, bytes]  # partition, offset, value
TWO_DIGITS = {"type": "record", "name": "t", "fields": [{"name": name, "type": "long"} for name in "ab"]}
"""A schema that only the values 10 to 99 fit: a digit is a whole long."""


def grow(random: Random, partitions: list[GrowingPartition]) -> None:
    """Some batches more, some of them in transactions, some torn, some in a new segment."""
    for _ in range(random.randint(0, 6)):
        log = random.choice(partitions)
        log.mend()
        kind = random.choice(["plain", "plain", "plain", "torn", "open", "end", "roll"])
        if kind == "roll":
            log.roll()
        elif kind == "end" and log.open:
            log.end_transaction(random.choice(sorted(log.open)), random.random() < 0.6)
        else:
            producer = random.randrange(3) if kind == "open" else -1
            log.write(random.choice([1, 5, 200]), producer, tears=kind == "torn")


def visible(partitions: list[GrowingPartition]) -> list[Row]:
    """What a consumer with read_committed sees now."""
    ends = [log.stable_end(log.whole_end) for log in partitions]
    return [
        (number, offset, value)
        for number, log in enumerate(partitions)
        for offset, (value, _) in sorted(log.rows.items())
        if offset < ends[number] and offset not in log.aborted
    ]


def join_digits(value: Any) -> bytes:
    """The bytes of a value, which may be typed."""
    if not isinstance(value, dict):
        return bytes(value)
    return bytes(2 * number if number >= 0 else -2 * number - 1 for number in (value["a"], value["b"]))


def read_table(target: str, form: str, catalog: dict[str, str]) -> tuple[list[Row], list[int]]:
    """The rows of a table, as other programs read it, in order; and the sizes of its files."""
    columns = ["partition", "offset", "value"]
    if form == "iceberg":
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415  # loaded where it is used
        from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415  # with it

        try:
            table = load_catalog("lake", **catalog).load_table(target.partition(".")[2])
        except NoSuchTableError:
            return [], []
        found = table.scan(selected_fields=("partition", "offset", "value")).to_arrow().select(columns)
        sizes = [task.file.file_size_in_bytes for task in table.scan().plan_files()]
    else:
        if form == "delta":
            import deltalake  # noqa: PLC0415  # loaded where it is used

            there = deltalake.DeltaTable.is_deltatable(target)
            files = [Path(uri) for uri in deltalake.DeltaTable(target).file_uris()] if there else []
        else:
            files = [path for path in Path(target).rglob("*.parquet") if "_kafkaseg" not in path.parts]
        tables = [pq.ParquetFile(path).read(columns) for path in files]
        found = pa.concat_tables(tables) if tables else pa.table({name: [] for name in columns})
        sizes = [path.stat().st_size for path in files]
    rows = zip(*(found[name].to_pylist() for name in columns), strict=True)
    return sorted((partition, offset, join_digits(value)) for partition, offset, value in rows), sizes


def check(number: int, form: str, context: Any) -> str:
    """Tries one case. Returns how often a run was killed."""
    random = Random(number)
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder) / "logs"
        partitions = [GrowingPartition(logs / f"t-{each}") for each in range(random.randint(1, 3))]
        partitions[0].write(3)
        catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}
        target = TABLE if form == "iceberg" else f"{folder}/table"
        options: dict[str, Any] = {"target_bytes": random.choice([2_000, 20_000, 10**6])}
        options |= {"catalog": catalog} if form == "iceberg" else {}
        options |= {"threads": 2} if random.random() < 0.2 else {}
        beside = "lake.kafka.rejected" if form == "iceberg" else f"{folder}/rejected"
        rejects = random.random() < 0.3
        if rejects:
            Path(folder, "two.avsc").write_text(json.dumps(TWO_DIGITS))
            options |= {"valueFormat": "avro", "valueSchema": f"{folder}/two.avsc", "rejected": beside}

        def read() -> tuple[list[Row], list[int]]:
            found, sizes = read_table(target, form, catalog)
            rejected, _ = read_table(beside, form, catalog)
            assert not rejects or all(len(value) == 2 for _, _, value in found)
            assert all(len(value) != 2 for _, _, value in rejected)
            return sorted(found + rejected), sizes

        runs = killed = 0
        seen: list[Row] = []
        while killed < KILLS and runs < 3 * KILLS:
            grow(random, partitions)
            run = context.Process(
                target=run_export, args=(str(logs), target, form, options, random.choice([1, 2, 3, 5, 8, 13, 21]))
            )
            run.start()
            run.join(60)
            assert run.exitcode in (0, -9), f"a run ended with {run.exitcode}"
            killed += run.exitcode == -9
            runs += 1
            found, _ = read()
            assert found == sorted(set(found)), "a record twice"
            assert set(seen) <= set(found) <= set(visible(partitions)), "a record is gone, or none of the log's"
            seen = found
        export(str(logs), target, form, **options)
        found, sizes = read()
        assert found == visible(partitions), f"{len(found)} records, of {len(visible(partitions))}"
        assert max(sizes, default=0) <= 2 * options["target_bytes"] + 4_000  # a file has a footer
        small = sum(size < options["target_bytes"] / 2 for size in sizes)
        assert small <= runs + 1, f"{small} small files of {runs} runs"
        return f"{killed} kills"


@pytest.fixture(scope="module")
def context() -> Any:
    """Processes that begin with everything loaded."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(PRELOADED)
    return made


@pytest.mark.parametrize("form", FORMATS)
def test_each_record_is_in_the_table_once(form: str, context: Any) -> None:
    for number in range(CASES):
        try:
            check(number, form, context)
        except AssertionError as error:
            pytest.fail(f"case {number}, {form}: {error}")


def main(arguments: list[str]) -> int:
    """Runs one case of each format, or many."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(PRELOADED)
    first, count = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 1
    words: Counter[str] = Counter()
    began, failed = time.monotonic(), 0
    for number in range(first, first + count):
        for form in FORMATS:
            try:
                words[check(number, form, made)] += 1
            except Exception as error:
                failed += 1
                print(f"case {number}, {form}: {type(error).__name__} {str(error)[:300]}", flush=True)
                if count == 1:
                    raise
    print(f"{words.total()} cases, {failed} failed, {dict(words)}, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
