"""Filters pushed by Spark, rows, and what a reader plans for them, without a JVM."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from kafka_segment_source.bounds import RowFilter
from kafka_segment_source.spark.pushdown import row_filter

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


EVERYTHING = RowFilter()


Row = dict[str, Any]  # topic, partition, offset, timestamp (an aware datetime, of whole milliseconds), key


def at(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def holds(each: Filter, row: Row) -> bool:
    """What Spark makes of a filter: SQL's three values, of which only true keeps a row."""
    return _truth(each, row) is True


def _truth(each: Any, row: Row) -> bool | None:
    if isinstance(each, Not):
        child = _truth(each.child, row)
        return None if child is None else not child
    own = row[each.attribute[0]]
    if isinstance(each, (IsNull, IsNotNull)):
        return isinstance(each, IsNotNull) == (own is not None)
    value = each.value
    if isinstance(each, EqualNullSafe):
        return bool(own == value)
    if own is None:
        return None
    if isinstance(each, In):
        return True if own in value else None if None in value else False
    if value is None:
        return None
    compared: dict[type, Callable[[], bool]] = {
        EqualTo: lambda: own == value,
        GreaterThan: lambda: own > value,
        GreaterThanOrEqual: lambda: own >= value,
        LessThan: lambda: own < value,
        LessThanOrEqual: lambda: own <= value,
        StringStartsWith: lambda: own.startswith(value),
        StringEndsWith: lambda: own.endswith(value),
        StringContains: lambda: value in own,
    }
    return compared[type(each)]()


def possible(bounds: RowFilter, row: Row) -> bool:
    """Whether a row lies inside."""
    millis = (row["timestamp"] - EPOCH) // timedelta(milliseconds=1)
    return (
        bounds.matches_partition(row["topic"], row["partition"])
        and bounds.offsets.start <= row["offset"] < bounds.offsets.end
        and bounds.times.since <= millis < bounds.times.until
        and (bounds.keys is None or row["key"] in bounds.keys)
    )


topics = st.sampled_from(["", "a", "ab", "abc", "b"])


small = st.integers(-3, 6)


keys = st.sampled_from([b"", b"a", b"\xff", b"ab"])


moments = st.integers(-3000, 3000).map(at)


rows = st.fixed_dictionaries(
    {
        "topic": topics,
        "partition": st.integers(0, 4),
        "offset": st.integers(0, 4),
        "timestamp": st.integers(-3, 3).map(lambda millis: at(1000 * millis)),
        "key": st.none() | keys,
    }
)


COMPARISONS = [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]


def filters_on(column: str, values: st.SearchStrategy[Any], kinds: list[Any]) -> st.SearchStrategy[Filter]:
    maybe_null = st.one_of(st.none(), values)
    plain = st.one_of(
        st.builds(lambda kind, value: kind((column,), value), st.sampled_from(kinds), maybe_null),
        st.builds(lambda several: In((column,), tuple(several)), st.lists(maybe_null, min_size=1, max_size=3)),
        st.sampled_from([IsNull((column,)), IsNotNull((column,))]),
    )
    return st.one_of(plain, plain.map(Not))


strings: list[Any] = [EqualTo, EqualNullSafe, StringStartsWith, StringEndsWith, StringContains]


filters = st.one_of(
    filters_on("topic", topics, strings),
    filters_on("partition", small, COMPARISONS),
    filters_on("offset", small, COMPARISONS),
    filters_on("timestamp", moments, COMPARISONS),
    filters_on("key", keys, COMPARISONS),
)


bounds = st.lists(filters, max_size=3).map(row_filter)


def plan_of(reader: Any, *pushed: Filter) -> set[int]:
    """Pushes, then plans; base offsets of orders. Every filter must come back, the same objects."""
    assert all(got is given for got, given in zip(reader.pushFilters(list(pushed)), pushed, strict=True))
    splits = [split for partition in reader.partitions() for split in partition.splits]
    return {split.base_offset for split in splits if split.topic == "orders"}


SMALL = LessThan(("offset",), 2)


LARGE = GreaterThanOrEqual(("offset",), 8)


ALWAYS = IsNotNull(("offset",))
