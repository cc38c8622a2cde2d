"""Pushed filters: Spark's filters become bounds, and bounds become a plan. No JVM."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as spark_api
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from kafka_segment_source.bounds import OffsetRange, RowFilter, TimeRange
from kafka_segment_source.options import parse_options
from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.spark.pushdown import row_filter
from kafka_segment_source.spark.reader import KafkaSegmentReader
from tests.support.pushed import (
    ALWAYS,
    COMPARISONS,
    EVERYTHING,
    LARGE,
    SMALL,
    Row,
    at,
    bounds,
    filters,
    holds,
    keys,
    moments,
    plan_of,
    possible,
    rows,
    small,
    topics,
)
from tests.support.readers import ALL, reader_of


@given(given_filters=st.lists(filters, max_size=4), row=rows)
def test_no_row_that_the_filters_keep_is_left_out(given_filters: list[Filter], row: Row) -> None:
    """Whatever Spark would keep is possible."""
    if all(holds(each, row) for each in given_filters):
        assert possible(row_filter(given_filters), row)


@given(
    each=st.one_of(
        st.builds(lambda kind, value: kind(("offset",), value), st.sampled_from(COMPARISONS), small),
        st.builds(lambda kind, value: kind(("partition",), value), st.sampled_from(COMPARISONS), small),
        st.builds(lambda kind, value: kind(("timestamp",), value), st.sampled_from(COMPARISONS), moments),
        st.builds(lambda value: In(("partition",), tuple(value)), st.lists(small, max_size=3)),
        st.builds(lambda value: In(("topic",), tuple(value)), st.lists(topics, max_size=3)),
        st.builds(lambda value: StringStartsWith(("topic",), value), topics),
        st.builds(lambda value: EqualTo(("key",), value), keys),
        st.builds(lambda value: In(("key",), tuple(value)), st.lists(keys, max_size=3)),
    ),
    row=rows,
)
def test_comparisons_bound_exactly(each: Filter, row: Row) -> None:
    """Comparisons, IN of topic and partition, and prefixes leave nothing possible that they do not keep."""
    assert possible(row_filter([each]), row) == holds(each, row)


def row(column: str, value: Any) -> Row:
    """A row with this value in one column."""
    return {"topic": "a", "partition": 0, "offset": 0, "timestamp": at(0), "key": None} | {column: value}


@pytest.mark.parametrize("column", ["partition", "offset", "timestamp"])
@pytest.mark.parametrize("kind", COMPARISONS)
def test_every_comparison_with_the_values_around_it(kind: Any, column: str) -> None:
    """Rows just below, at and just above a literal, as it is and under NOT; random values seldom meet."""
    values = [at(1000 * n) for n in range(5)] if column == "timestamp" else list(range(5))
    for literal in values:
        each = kind((column,), literal)
        for found in (row(column, value) for value in values):
            assert possible(row_filter([each]), found) == holds(each, found)
            assert possible(row_filter([Not(each)]), found) or not holds(Not(each), found)


@pytest.mark.parametrize("column", ["partition", "offset", "timestamp", "topic", "key"])
def test_in_keeps_each_of_its_values(column: str) -> None:
    """The first as well as the last, with a null among them."""
    values = {"topic": ["a", "b", "c"], "timestamp": [at(0), at(2000), at(5000)], "key": [b"", b"a", b"\xff"]}.get(
        column, [0, 2, 5]
    )
    for value in values:
        assert possible(row_filter([In((column,), (*values, None))]), row(column, value))


@pytest.mark.parametrize(
    ("kind", "micros", "since", "until"),
    [
        (GreaterThan, 1500, 2, None),
        (GreaterThan, 2000, 3, None),
        (GreaterThanOrEqual, 2000, 2, None),
        (GreaterThanOrEqual, 2001, 3, None),
        (LessThan, 2000, None, 2),
        (LessThan, 2001, None, 3),
        (LessThanOrEqual, 2000, None, 3),
        (LessThanOrEqual, 1999, None, 2),
        (EqualTo, 2000, 2, 3),
        (GreaterThan, -1000, 0, None),
        (LessThanOrEqual, -1000, None, 0),
        (EqualTo, -1000, -1, 0),
    ],
)
def test_microseconds_are_rounded_in_the_right_direction(
    kind: Any, micros: int, since: int | None, until: int | None
) -> None:
    """A column of whole milliseconds against a literal with microseconds, below 1970 too."""
    everything = TimeRange()
    expected = TimeRange(everything.since if since is None else since, everything.until if until is None else until)

    assert expected == row_filter([kind(("timestamp",), at(micros))]).times


def test_a_literal_of_another_zone_is_the_same_moment() -> None:
    """Aware datetimes compare by moment."""
    berlin = datetime(1970, 1, 1, 1, tzinfo=UTC).astimezone()

    assert TimeRange(since=3_600_000) == row_filter([GreaterThanOrEqual(("timestamp",), berlin)]).times


@pytest.mark.parametrize(
    "each",
    [
        EqualTo(("offset",), True),
        EqualTo(("offset",), 1.5),
        EqualTo(("offset",), "1"),
        LessThan(("partition",), b"1"),
        GreaterThan(("timestamp",), datetime(2026, 1, 1)),
        GreaterThan(("timestamp",), 5),
        EqualTo(("topic",), 5),
        GreaterThan(("topic",), "a"),
        EqualTo(("key",), "k"),
        EqualTo(("key",), None),
        EqualNullSafe(("key",), None),
        In(("key",), (b"k", "k")),
        Not(EqualTo(("key",), b"k")),
        EqualTo(("value",), b"k"),
        GreaterThan(("metadata", "offset"), 5),
        GreaterThan(("headers", "offset"), 5),
        EqualTo(("offset",), None),
        In(("offset",), (1, "2")),
        IsNull(("offset",)),
        Not(EqualTo(("offset",), 5)),
        Not(In(("partition",), (1, 2))),
        Not(Not(EqualTo(("offset",), 5))),
        StringContains(("topic",), "a"),
    ],
    ids=repr,
)
def test_what_is_odd_bounds_nothing(each: Filter) -> None:
    """Other columns, other types, nulls and negated equalities are left to Spark."""
    assert row_filter([each]) == EVERYTHING


def test_typed_keys_bound_stored_keys_where_these_are_their_text() -> None:
    """A text has one form in UTF-8. An Avro key of the same text has many: each schema id is another one."""
    each = EqualTo(("key",), "ä")
    assert row_filter([each], key_format="string").keys == frozenset(["ä".encode()])
    assert row_filter([EqualTo(("key",), b"a")], key_format="string") == EVERYTHING
    for key_format in ("avro", "json", "auto"):
        assert row_filter([each], key_format=key_format) == EVERYTHING
    assert row_filter([EqualTo(("key",), b"a")], view="batches") == EVERYTHING


def test_offsets_at_the_end_of_the_range_do_not_wrap() -> None:
    """The largest BIGINT is an integer like any other."""
    assert row_filter([GreaterThan(("offset",), 2**63 - 1)]).is_empty
    assert OffsetRange() == row_filter([LessThanOrEqual(("offset",), 2**63 - 1)]).offsets


@given(one=bounds, other=bounds, row=rows)
def test_intersections_and_hulls_hold_what_they_must(one: RowFilter, other: RowFilter, row: Row) -> None:
    """Both: exactly the rows of both. Either: every row of either."""
    assert possible(one.intersect(other), row) == (possible(one, row) and possible(other, row))
    if possible(one, row) or possible(other, row):
        assert possible(one.hull(other), row)
    if one.is_empty:
        assert not possible(one, row)


def planned(path: Path, pushed: RowFilter, **options: str) -> list[tuple[str, int]]:
    """Topic and base offset of each split."""
    parsed, _ = parse_options({"path": str(path), **options})
    return [(split.topic, split.base_offset) for split in make_plan(parsed, pushed=pushed).splits]


def test_a_plan_leaves_out_what_cannot_match(log_directory: Path) -> None:
    """Topic and partition drop a log, offsets its segments, and each says why."""
    parsed, _ = parse_options({"path": str(log_directory)})
    plan = make_plan(parsed, pushed=RowFilter(topics=frozenset(["orders"]), offsets=OffsetRange(3, 5)))

    assert [(split.topic, split.base_offset) for split in plan.splits] == [("orders", 2), ("orders", 4)]
    assert all(split.bounds.offsets == OffsetRange(max(3, split.base_offset), 5) for split in plan.splits)
    reasons = {dropped.reason for dropped in plan.dropped if "payments" in dropped.path}
    assert {"the filter on topic and partition leaves it out"} == reasons
    assert plan.segments_total == 10 and plan.bytes_total > plan.bytes_to_read


def test_pushed_bounds_narrow_those_of_options_and_never_contradict_them(log_directory: Path) -> None:
    """An empty intersection drops; the checks of options are for options."""
    later = RowFilter(offsets=OffsetRange(8, 10))

    assert planned(log_directory, later, endingOffsets='{"orders":{"0":4},"payments":{"1":4}}') == []
    assert planned(log_directory, RowFilter(times=TimeRange(since=5)), until="3") == []
    assert planned(
        log_directory, RowFilter(times=TimeRange(since=4000)), subscribe="orders", endingOffsets='{"orders":{"0":7}}'
    ) == [("orders", 4), ("orders", 6)]


@pytest.fixture
def repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for a Spark whose scans keep their own plan: its readers have pushLimit."""
    monkeypatch.setattr(spark_api.DataSourceReader, "pushLimit", lambda self, limit: False, raising=False)


@pytest.mark.usefixtures("repaired")
def test_a_repaired_spark_pushes(log_directory: Path) -> None:
    """load() prunes by itself there, and every push stands for itself, also when Spark replays it."""
    reader = reader_of(log_directory)

    assert type(reader) is KafkaSegmentReader
    assert {0} == plan_of(reader, SMALL)
    assert {8} == plan_of(reader, LARGE)
    assert set() == plan_of(reader, LARGE, SMALL)
    assert plan_of(reader_of(log_directory), ALWAYS) == ALL
