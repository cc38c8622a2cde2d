"""Questions to a log directory without Spark: by SQL in DuckDB, in Polars, and with pyarrow alone.

    python examples/without_spark.py [PATH]

The log is lazy. The columns and the conditions of each question reach the plan of the read: bytes outside the five
minutes are not read. Only batches that a question needs are decoded, and no more than some of them are in memory.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.compute as pc

import kafka_segment_source

ORDERS = Path(__file__).resolve().parent / "data" / "orders" / "data"
# No record is older than the newest before it by more than 10 s: so an upper bound of time ends a read early
OPTIONS: dict[str, Any] = {"subscribe": "orders", "timestampDisorder": "10s"}
TYPED: dict[str, Any] = OPTIONS | {
    "valueFormat": "json",
    "valueSchema": "amount double",
}  # or avro, by the log's schemas
SINCE = datetime(2026, 3, 10, 9, 30, tzinfo=UTC)
UNTIL = datetime(2026, 3, 10, 9, 35, tzinfo=UTC)


def ask_duckdb(path: str | Path) -> list[tuple[str, int, float]]:
    """Orders and their amount by minute."""
    sql = """
        SELECT strftime(timestamp AT TIME ZONE 'UTC', '%H:%M') AS minute, count(*),
               round(sum(value.amount), 2)
        FROM orders WHERE timestamp >= $1 AND timestamp < $2 GROUP BY minute ORDER BY minute
    """
    with duckdb.connect() as connection:
        connection.register("orders", kafka_segment_source.dataset(path, **TYPED))
        return connection.execute(sql, [SINCE, UNTIL]).fetchall()


def ask_polars(path: str | Path) -> list[tuple[str, int, float]]:
    """The same."""
    orders = kafka_segment_source.scan_polars(path, **TYPED)
    amount = pl.col("value").struct.field("amount")
    minute = pl.col("timestamp").dt.strftime("%H:%M").alias("minute")
    window = orders.filter(pl.col("timestamp").is_between(SINCE, UNTIL, closed="left"))
    return window.group_by(minute).agg(pl.len(), amount.sum().round(2).alias("EUR")).sort("minute").collect().rows()


def ask_pyarrow(path: str | Path) -> list[tuple[str, int]]:
    """Orders by minute, batch by batch, so that any amount of data fits into memory."""
    orders = kafka_segment_source.dataset(path, **OPTIONS)
    window = (pc.field("timestamp") >= SINCE) & (pc.field("timestamp") < UNTIL)
    counts: dict[str, int] = {}
    for batch in orders.to_batches(["timestamp"], window):
        for found in pc.value_counts(pc.floor_temporal(batch["timestamp"], unit="minute")):
            minute = found["values"].as_py().strftime("%H:%M")
            counts[minute] = counts.get(minute, 0) + found["counts"].as_py()
    return sorted(counts.items())


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) > 1 else ORDERS
    for ask in (ask_duckdb, ask_polars, ask_pyarrow):
        print(ask.__name__, *ask(where), sep="\n  ")
