"""The example without Spark: DuckDB, Polars and pyarrow give the answer that a plain loop over the rows gives.

The example loads DuckDB and Polars, after pytest has collected all tests. What is loaded before is kept to the end
(`conftest.py`), and DuckDB complains of that.
"""

from __future__ import annotations

import importlib.util
import json
import threading
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.planning import plan as plan_module
from tests.support.rows import COLUMNS, LOG_DIRECTORIES, OFFSET, PARTITION, TIMESTAMP, TOPIC, expected
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
ORDERS = LOG_DIRECTORIES["orders"]
VALUE = COLUMNS.index("value")


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("without_spark", ROOT / "examples" / "without_spark.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wanted() -> list[tuple[str, int, float]]:
    """Minute, orders and their amount, of what a real consumer saw."""
    minutes: dict[str, list[float]] = defaultdict(list)
    for row in expected(ORDERS):
        minute = datetime.fromtimestamp(row[TIMESTAMP] / 1000, UTC).strftime("%H:%M")
        if row[TOPIC] == "orders" and "09:30" <= minute < "09:35":
            minutes[minute].append(json.loads(row[VALUE])["amount"])
    return [(minute, len(minutes[minute]), round(sum(minutes[minute]), 2)) for minute in sorted(minutes)]


def test_every_library_gives_the_same_answer(example: ModuleType, wanted: list[tuple[str, int, float]]) -> None:
    """Five minutes, and in each the orders that were placed."""
    assert len(wanted) == 5
    assert example.ask_duckdb(ORDERS) == wanted
    assert example.ask_polars(ORDERS) == wanted
    assert example.ask_pyarrow(ORDERS) == [(minute, orders) for minute, orders, _ in wanted]


def test_other_libraries_take_all_rows_of_several_threads(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader whose batches threads make is read in order by DuckDB's own threads, and by Polars."""
    monkeypatch.setattr(plan_module, "_BYTES_A_THREAD", 1)
    rows = [(row[TOPIC], row[PARTITION], row[OFFSET], row[VALUE]) for row in expected(ORDERS)]
    columns = ["topic", "partition", "offset", "value"]
    assert example.duckdb.from_arrow(kafkaseg.scan(ORDERS, columns, threads=3)).fetchall() == rows
    frame = example.pl.from_arrow(kafkaseg.scan(ORDERS, columns, threads=3))
    assert frame.rows() == rows


def test_a_query_that_needs_few_rows_ends_the_threads(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB stops at LIMIT, and lets the reader go."""
    monkeypatch.setattr(plan_module, "_BYTES_A_THREAD", 1)
    reader = kafkaseg.scan(ORDERS, ["offset"], threads=3)
    assert example.duckdb.from_arrow(reader).limit(3).fetchall() == [(0,), (1,), (2,)]
    del reader
    wait_until(lambda: not any(each.name.startswith("kafkaseg-scan") for each in threading.enumerate()))
