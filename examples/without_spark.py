"""Questions to a log directory without Spark: by SQL in DuckDB, in Polars, and with pyarrow alone.

    python examples/without_spark.py [PATH]

`scan` is a `pyarrow.RecordBatchReader`: a stream of Arrow batches, which are decoded as another library asks for
them. No batch is copied, and no more than some batches are in memory. A reader is read once; `scan` makes another one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import kafka_segment_source

ORDERS = Path(__file__).resolve().parent / "data" / "orders" / "data"
# Bounds are options of the scan: bytes outside them are not read
OPTIONS: dict[str, Any] = {
    "subscribe": "orders",
    "since": "2026-03-10T09:30",
    "until": "2026-03-10T09:35",
    "timestampDisorder": "10s",
}


def scan(path: str | Path, *columns: str) -> pa.RecordBatchReader:
    """The records of OPTIONS. Name the columns: what is not named is not built."""
    return kafka_segment_source.scan(path, columns, **OPTIONS)


def ask_duckdb(path: str | Path) -> list[tuple[str, int, float]]:
    """Orders and their amount by minute."""
    sql = """
        SELECT strftime(timestamp, '%H:%M') AS minute, count(*), round(sum((decode(value) ->> 'amount')::DOUBLE), 2)
        FROM orders GROUP BY minute ORDER BY minute
    """
    return duckdb.from_arrow(scan(path, "timestamp", "value")).query("orders", sql).fetchall()


def ask_polars(path: str | Path) -> list[tuple[str, int, float]]:
    """The same. Polars takes all batches into memory at first, or one after another from the reader."""
    orders = pl.from_arrow(scan(path, "timestamp", "value"))
    assert isinstance(orders, pl.DataFrame)
    amount = pl.col("value").cast(pl.String).str.json_path_match("$.amount").cast(pl.Float64)
    minute = pl.col("timestamp").dt.strftime("%H:%M").alias("minute")
    return orders.group_by(minute).agg(pl.len(), amount.sum().round(2).alias("EUR")).sort("minute").rows()


def ask_pyarrow(path: str | Path) -> list[tuple[str, int]]:
    """Orders by minute, batch by batch, so that any amount of data fits into memory."""
    counts: dict[str, int] = {}
    for batch in scan(path, "timestamp"):
        for found in pc.value_counts(pc.floor_temporal(batch["timestamp"], unit="minute")):
            minute = found["values"].as_py().strftime("%H:%M")
            counts[minute] = counts.get(minute, 0) + found["counts"].as_py()
    return sorted(counts.items())


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) > 1 else ORDERS
    for ask in (ask_duckdb, ask_polars, ask_pyarrow):
        print(ask.__name__, *ask(where), sep="\n  ")
