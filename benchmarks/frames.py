"""A window of 0.5 % of a log, asked by a predicate in DuckDB, in Polars and in pyarrow, against their full scans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import duckdb
import polars as pl
import pyarrow.compute as pc

import kafka_segment_source
from benchmarks.full_scan import RECORDS
from benchmarks.logs import (
    DISORDER,
    FIRST_OFFSET,
    FIRST_TIMESTAMP,
    LAST_OFFSET,
    LAST_TIMESTAMP,
    SIZE,
    Log,
    LogShape,
    log,
)
from benchmarks.measure import alternate
from benchmarks.results import Goal, Row, Settings, row

TITLE = "predicates of DuckDB, Polars and pyarrow, 0.5 % of a log"

WINDOW = 0.005
WHERE = 0.55  # of the log: not at the border of two segments
TIME = Goal(most=0.06)  # of the engine's own full scan
_SIZE = 1600 * 2**20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Ask = Callable[[int | datetime | None, int | datetime | None], int]
"""The first value and the last one, both inclusive; None: the whole log. It returns how many rows it saw."""


def rows(settings: Settings) -> Iterator[Row]:
    """Each engine: a window by offsets, and one by times with a declared disorder."""
    size = _SIZE // (32 if settings.quick else 1)
    events = log(LogShape(RECORDS[119], segments=max(1, size // (256 * 2**20))).of_bytes(size))
    ends = events.batches[:, SIZE].cumsum()
    middle = events.stored_bytes * WHERE
    half = events.stored_bytes * WINDOW / 2
    first, last = (events.batches[int(ends.searchsorted(middle + side))] for side in (-half, half))
    windows = {
        "offset": (int(first[FIRST_OFFSET]) + 1, int(last[LAST_OFFSET])),
        "timestamp": tuple(
            _EPOCH + timedelta(milliseconds=int(ms)) for ms in (first[FIRST_TIMESTAMP], last[LAST_TIMESTAMP])
        ),
    }
    for column, (start, end) in windows.items():
        for engine, make in (("DuckDB", _ask_duckdb), ("Polars", _ask_polars), ("pyarrow", _ask_pyarrow)):
            ask = make(events, column)
            pairs = alternate(
                lambda ask=ask, start=start, end=end: ask(start, end), lambda ask=ask: ask(None, None), settings.runs
            )
            note = f"{min(part for part, _ in pairs):.2f} of {min(whole for _, whole in pairs):.2f} s"
            yield row(f"{engine}, by {column}", [part / whole for part, whole in pairs], "of a full scan", TIME, note)


def _ask_duckdb(events: Log, column: str) -> Ask:
    logs = kafka_segment_source.dataset(str(events.path), timestampDisorder=f"{DISORDER}ms")

    def ask(start: int | datetime | None, end: int | datetime | None) -> int:
        with duckdb.connect() as connection:
            connection.register("logs", logs)
            where = "" if start is None else f'WHERE "{column}" BETWEEN $1 AND $2'
            values = [] if start is None else [start, end]
            counted = connection.execute(f"SELECT count(*), sum(octet_length(value)) FROM logs {where}", values)
            found = counted.fetchone()
            assert found is not None
            return int(found[0])

    return ask


def _ask_polars(events: Log, column: str) -> Ask:
    frame = kafka_segment_source.scan_polars(str(events.path), timestampDisorder=f"{DISORDER}ms")

    def ask(start: int | datetime | None, end: int | datetime | None) -> int:
        asked = frame if start is None else frame.filter(pl.col(column).is_between(start, end))
        return int(asked.select(pl.len(), pl.col("value").bin.size().sum()).collect(engine="streaming").item(0, 0))

    return ask


def _ask_pyarrow(events: Log, column: str) -> Ask:
    made = kafka_segment_source.dataset(str(events.path), timestampDisorder=f"{DISORDER}ms")

    def ask(start: int | datetime | None, end: int | datetime | None) -> int:
        narrow = None if start is None else (pc.field(column) >= start) & (pc.field(column) <= end)
        return sum(batch.num_rows for batch in made.to_batches(["value"], narrow))

    return ask
