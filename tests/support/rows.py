"""Rows as plain tuples, so that every way to get them can be compared: saved answers, the naive decoder, `scan`, Spark.

A row is (topic, partition, offset, timestamp in ms, timestampType, key, value, headers); headers are a list of
(key, value), or None where a record has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import kafka_segment_source as kafkaseg
from tests.support import naive

Row = tuple[str, int, int, int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]

COLUMNS = ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"]
TOPIC, PARTITION, OFFSET, TIMESTAMP, _, KEY = range(6)

TESTS = Path(__file__).parents[1]
FIXTURES = TESTS / "fixtures"
ORDERS = TESTS.parent / "examples" / "data" / "orders"

LOG_DIRECTORIES = {
    path.name: path / "data" for path in [*(FIXTURES / name for name in ("codecs", "live", "records", "times")), ORDERS]
}
LOG_DIRECTORIES["transactions"] = FIXTURES / "transactions" / "data"
LOG_DIRECTORIES["compacted"] = FIXTURES / "compacted" / "data"
"""Log directories of real brokers whose every partition is of magic 2, by the name of their fixture."""

MESSAGE_SETS = {name: FIXTURES / name / "data" for name in ("message-sets", "message-sets-0.10")}


@cache
def expected(directory: Path) -> list[Row]:
    """What a real consumer saw of a fixture's log directory, sorted by topic, partition and offset."""
    return _rows(pq.read_table(directory.parent / "expected.read_uncommitted.parquet"))


def read_answer(path: Path) -> list[Row]:
    """A saved answer of a real consumer, sorted by topic, partition and offset."""
    return _rows(pq.read_table(path))


def scanned(path: Any, **options: Any) -> list[Row]:
    """What `scan` answers, in its own order."""
    return in_scan_order(kafkaseg.scan(path, columns=COLUMNS, **options).read_all())


def offsets(path: Any, **options: Any) -> list[int]:
    """The offsets that `scan` gives, in its own order."""
    return [row[OFFSET] for row in scanned(path, **options)]


def in_scan_order(table: pa.Table) -> list[Row]:
    """The rows of a table that has the columns COLUMNS among others, timestamps in µs."""
    table = table.select(COLUMNS)
    millis = table["timestamp"].cast(pa.int64()).to_numpy() // 1000
    return _tuples(table.set_column(TIMESTAMP, "timestamp", pa.array(millis)))


def decoded(records: Iterable[naive.Record], topic: str = "orders", partition: int = 0) -> list[Row]:
    """Records of the naive decoder or of a generated log, control records left out."""
    return [
        (
            topic,
            partition,
            r.offset,
            r.timestamp,
            r.timestamp_type,
            r.key,
            r.value,
            [(key.decode("utf-8", "replace"), value) for key, value in r.headers] or None,
        )
        for r in records
        if not r.is_control
    ]


def keep(rows: Iterable[Row], wanted: Callable[[Row], bool]) -> list[Row]:
    """The rows that are wanted, in their order."""
    return [row for row in rows if wanted(row)]


def _rows(table: pa.Table) -> list[Row]:
    return sorted(_tuples(table), key=lambda row: row[:3])


def _tuples(table: pa.Table) -> list[Row]:
    columns = [table[name].to_pylist() for name in COLUMNS]
    columns[-1] = [None if each is None else [(h["key"], h["value"]) for h in each] for each in columns[-1]]
    return list(zip(*columns, strict=True))
