"""dataset and scan_polars: whatever the predicate, the columns and the limit, rows are those of a full read that the
engine filters itself.

A predicate is drawn once, and written for each engine: pyarrow, DuckDB, Polars. The full read lies in the engine's own
memory, so that nothing of a dataset is in the expected answer.
"""

from __future__ import annotations

import operator
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from tests.support import writer
from tests.support.writer import Rec

MANY = settings(max_examples=settings().max_examples * 2)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST = 1_700_000_000_000
TOPICS = ("orders", "orders-eu", "visits")
KEYS = (None, b"", b"a", b"b\xff", b"k1", b"k2")
COLUMNS = ["topic", "partition", "offset", "timestamp", "key", "value"]


def write_logs(folder: Path) -> None:
    """Three topics of two partitions: timestamps in disorder, null keys and values, a record without a timestamp."""
    random = Random(11)
    for topic in TOPICS:
        for partition in (0, 1):
            directory = folder / f"{topic}-{partition}"
            directory.mkdir()
            offset = random.randrange(3)
            for _ in range(4):
                base, batches = offset, b""
                for _ in range(random.randint(1, 4)):
                    count = random.randint(1, 4)
                    times = [FIRST + 1000 * (offset + at) + random.randrange(-3000, 3000) for at in range(count)]
                    recs = [
                        Rec(
                            at, random.choice([*times, -1]), random.choice(KEYS), random.choice([None, b"v%d" % offset])
                        )
                        for at in range(count)
                    ]
                    batches += writer.record_batch(recs, base_offset=offset)
                    offset += count
                (directory / writer.segment_name(base)).write_bytes(batches)


@dataclass(frozen=True)
class Predicate:
    """The same predicate in three languages."""

    arrow: pc.Expression
    polars: pl.Expr
    sql: str


@pytest.fixture(scope="module")
def path() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        write_logs(Path(folder))
        yield folder


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "<>": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


def quote(value: Any) -> str:
    """A value as DuckDB writes it."""
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
    if isinstance(value, datetime):
        return f"'{value.isoformat()}'::TIMESTAMPTZ"
    return f"'{value}'" if isinstance(value, str) else str(value)


def polars_value(value: Any) -> pl.Expr:
    """A value as Polars takes it: it compares times of one zone alone."""
    return pl.lit(value.astimezone(UTC) if isinstance(value, datetime) else value)


def moments() -> st.SearchStrategy[datetime]:
    zones = st.sampled_from([UTC, ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")])
    micros = st.integers(-5_000_000, 60_000_000) | st.just(-FIRST * 1000 - 1000)
    return st.builds(
        lambda micro, zone: (EPOCH + timedelta(milliseconds=FIRST, microseconds=micro)).astimezone(zone), micros, zones
    )


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "topic": st.sampled_from([*TOPICS, "order", "z", ""]),
    "partition": st.integers(-1, 3),
    "offset": st.integers(-2, 60) | st.sampled_from([2**62, 2**63 - 1]),
    "timestamp": moments(),
    "key": st.sampled_from([key for key in KEYS if key is not None]),
}


@st.composite
def comparisons(draw: st.DrawFn) -> Predicate:
    name = draw(st.sampled_from(sorted(VALUES)))
    sign = draw(st.sampled_from(["=", "<>"] if name == "key" else sorted(_OPERATORS)))
    value, compare = draw(VALUES[name]), _OPERATORS[sign]
    return Predicate(
        compare(pc.field(name), value), compare(pl.col(name), polars_value(value)), f'"{name}" {sign} {quote(value)}'
    )


@st.composite
def memberships(draw: st.DrawFn) -> Predicate:
    name = draw(st.sampled_from(["topic", "partition", "offset", "key"]))
    values = draw(st.lists(VALUES[name], min_size=1, max_size=4))
    kind = {"partition": pa.int32(), "offset": pa.int64(), "topic": pa.string(), "key": pa.binary()}[name]
    return Predicate(
        pc.field(name).isin(pa.array(values, kind)),
        reduce(operator.or_, [pl.col(name) == polars_value(value) for value in values]),
        f'"{name}" IN ({", ".join(map(quote, values))})',
    )


@st.composite
def ranges(draw: st.DrawFn) -> Predicate:
    name = draw(st.sampled_from(["partition", "offset", "timestamp"]))
    low, high = draw(VALUES[name]), draw(VALUES[name])
    return Predicate(
        (pc.field(name) >= low) & (pc.field(name) <= high),
        pl.col(name).is_between(polars_value(low), polars_value(high)),
        f'"{name}" BETWEEN {quote(low)} AND {quote(high)}',
    )


@st.composite
def opaque(draw: st.DrawFn) -> Predicate:
    """What no plan can use: functions, nulls, casts, arithmetic."""
    number = draw(st.integers(0, 5))
    return draw(
        st.sampled_from(
            [
                Predicate(pc.field("key").is_null(), pl.col("key").is_null(), '"key" IS NULL'),
                Predicate(pc.field("value").is_valid(), pl.col("value").is_not_null(), '"value" IS NOT NULL'),
                Predicate(
                    pc.starts_with(pc.field("topic"), "orders"),
                    pl.col("topic").str.starts_with("orders"),
                    "starts_with(topic, 'orders')",
                ),
                Predicate(
                    pc.add(pc.field("offset"), number) > 20, pl.col("offset") + number > 20, f'"offset" + {number} > 20'
                ),
                Predicate(
                    pc.field("partition").cast(pa.int64()) == pc.field("offset"),
                    pl.col("partition").cast(pl.Int64) == pl.col("offset"),
                    'partition::BIGINT = "offset"',
                ),
                Predicate(
                    pc.field("offset").cast(pa.float64()) >= number + 0.5,
                    pl.col("offset").cast(pl.Float64) >= number + 0.5,
                    f'"offset"::DOUBLE >= {number}.5',
                ),
            ]
        )
    )


def joined(children: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    return (
        st.builds(
            lambda a, b: Predicate(a.arrow & b.arrow, a.polars & b.polars, f"({a.sql} AND {b.sql})"), children, children
        )
        | st.builds(
            lambda a, b: Predicate(a.arrow | b.arrow, a.polars | b.polars, f"({a.sql} OR {b.sql})"), children, children
        )
        | st.builds(lambda a: Predicate(~a.arrow, ~a.polars, f"(NOT {a.sql})"), children)
    )


predicates = st.recursive(comparisons() | memberships() | ranges() | opaque(), joined, max_leaves=5)
columns = st.lists(st.sampled_from(COLUMNS), unique=True, min_size=1, max_size=6)


def rows(table: Any) -> list[tuple[Any, ...]]:
    found = pa.table(table)
    return list(zip(*(found[name].to_pylist() for name in found.schema.names), strict=True))


@MANY
@given(predicate=predicates, names=columns)
def test_pyarrow(path: str, predicate: Predicate, names: list[str]) -> None:
    """Rows, their order, and their number."""
    full = kafkaseg.scan(path).read_all()
    made = kafkaseg.dataset(path)
    wanted = full.filter(predicate.arrow).select(names)
    plan = made.plan(predicate.arrow)
    event(f"left out: {min(len(plan.dropped) // 6, 3)}")
    assert rows(made.to_table(names, predicate.arrow)) == rows(wanted)
    assert made.count_rows(predicate.arrow) == wanted.num_rows
    assert rows(made.filter(predicate.arrow).head(3, names)) == rows(wanted[:3])


@MANY
@given(predicate=predicates, names=columns, limit=st.none() | st.integers(0, 9))
def test_polars(path: str, predicate: Predicate, names: list[str], limit: int | None) -> None:
    """The same, with the predicate before or after a limit."""
    full = pl.from_arrow(kafkaseg.scan(path).read_all())
    assert isinstance(full, pl.DataFrame)

    def ask(frame: pl.LazyFrame) -> pl.DataFrame:
        asked = frame.filter(predicate.polars).select(names)
        return (asked if limit is None else asked.head(limit)).collect()

    assert ask(kafkaseg.scan_polars(path)).rows() == ask(full.lazy()).rows()


@MANY
@given(predicate=predicates, names=columns)
def test_duckdb(path: str, predicate: Predicate, names: list[str]) -> None:
    """The same by SQL. The order of rows is not promised there."""
    logs = kafkaseg.dataset(path)
    import duckdb  # noqa: PLC0415  # not before pytest has collected all tests (conftest.py)

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        full = kafkaseg.scan(path).read_all()
        connection.register("arrow_rows", full)
        connection.execute("CREATE TABLE full_read AS SELECT * FROM arrow_rows")
        connection.register("logs", logs)
        asked = f"SELECT {', '.join(f'{chr(34)}{name}{chr(34)}' for name in names)} FROM {{}} WHERE {predicate.sql}"
        found, wanted = (connection.sql(asked.format(name)).to_arrow_table() for name in ("logs", "full_read"))
        assert sorted(rows(found), key=repr) == sorted(rows(wanted), key=repr)
