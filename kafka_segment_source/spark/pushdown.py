"""Spark's filters → RowFilter: the topics, partitions, offsets and timestamps that pass a conjunction of filters.

Spark keeps every filter and applies it again. So a bound may be too wide, but never too narrow. Other columns, literals
of another type and a negated equality set no bound. Keys set one where the same key is always the same bytes. For
view=batches the bounds select batches by their last offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from kafka_segment_source.bounds import OffsetRange, RowFilter, TimeRange
from kafka_segment_source.option_values import BATCHES, BINARY, NEWEST, RECORDS, STRING

Columns = dict[tuple[str, ...], Callable[[Filter, Any], RowFilter]]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NEGATED: dict[type[Filter], type[Filter]] = {
    GreaterThan: LessThanOrEqual,
    GreaterThanOrEqual: LessThan,
    LessThan: GreaterThanOrEqual,
    LessThanOrEqual: GreaterThan,
}


def row_filter(filters: Iterable[Filter], view: str = RECORDS, key_format: str = BINARY) -> RowFilter:
    """The rows of a view that all of `filters` together leave possible. key_format: of the column key."""
    possible = RowFilter()
    columns = _COLUMNS[view]
    if view in (RECORDS, NEWEST) and key_format in _KEY_TYPES:
        columns = {**columns, ("key",): partial(_bound_key, _KEY_TYPES[key_format])}
    for condition in filters:
        possible = possible.intersect(_bound_by_filter(condition, columns))
    return possible


def _bound_by_filter(condition: Filter, columns: Columns) -> RowFilter:
    if isinstance(condition, Not):  # the columns bounded here are never null, so NOT (a < b) is a >= b
        negated = _NEGATED.get(type(condition.child))
        child: Any = condition.child
        return RowFilter() if negated is None else _bound_by_filter(negated(child.attribute, child.value), columns)  # type: ignore[call-arg]
    attribute, value = getattr(condition, "attribute", None), getattr(condition, "value", None)
    bound = columns.get(attribute) if attribute is not None else None
    if bound is None:
        return RowFilter()
    if isinstance(condition, In):
        return _bound_by_values(bound, value)
    return bound(condition, value)


def _bound_by_values(bound: Callable[[Filter, Any], RowFilter], values: Any) -> RowFilter:
    """Bounds rows by `column IN (…)`. A null among the values matches no row."""
    possible = RowFilter(topics=frozenset())
    for value in values:
        if value is not None:
            possible = possible.hull(bound(EqualTo((), value), value))
    return possible


def _bound_topic(condition: Filter, value: Any) -> RowFilter:
    if type(value) is not str:
        return RowFilter()
    if isinstance(condition, (EqualTo, EqualNullSafe)):
        return RowFilter(topics=frozenset([value]))
    if isinstance(condition, StringStartsWith):
        return RowFilter(topic_prefixes=frozenset([value]))
    return RowFilter()


def _bound_partition(condition: Filter, value: Any) -> RowFilter:
    if type(value) is not int:
        return RowFilter()
    if isinstance(condition, (EqualTo, EqualNullSafe)):
        return RowFilter(partitions=frozenset([value]))
    return RowFilter(partition_range=_make_range(condition, value))


def _bound_offset(condition: Filter, value: Any) -> RowFilter:
    return RowFilter(offsets=_make_range(condition, value)) if type(value) is int else RowFilter()


def _make_range(condition: Filter, value: int) -> OffsetRange:
    everything = OffsetRange()
    start = {GreaterThan: value + 1, GreaterThanOrEqual: value, EqualTo: value, EqualNullSafe: value}.get(
        type(condition)
    )
    end = {LessThan: value, LessThanOrEqual: value + 1, EqualTo: value + 1, EqualNullSafe: value + 1}.get(
        type(condition)
    )
    return everything.intersect(
        OffsetRange(everything.start if start is None else start, everything.end if end is None else end)
    )


def _bound_timestamp(condition: Filter, value: Any) -> RowFilter:
    """Bounds timestamps in ms.

    A row's microseconds are its milliseconds times 1000, and a literal has microseconds. So both roundings are exact.
    """
    if not isinstance(value, datetime) or value.tzinfo is None:
        return RowFilter()
    micros = (value - _EPOCH) // _MICROSECOND
    at_or_after, after = -(-micros // 1000), micros // 1000 + 1  # the first ms ≥ the value, and the first ms > it
    everything = TimeRange()
    since = {GreaterThan: after, GreaterThanOrEqual: at_or_after, EqualTo: at_or_after, EqualNullSafe: at_or_after}
    until = {LessThan: at_or_after, LessThanOrEqual: after, EqualTo: after, EqualNullSafe: after}
    return RowFilter(
        times=TimeRange(since.get(type(condition), everything.since), until.get(type(condition), everything.until))
    )


def _bound_key(kind: Any, condition: Filter, value: Any) -> RowFilter:
    """Bounds stored keys. kind: the type of literals that are compared with them."""
    if not isinstance(value, kind) or not isinstance(condition, (EqualTo, EqualNullSafe)):
        return RowFilter()
    return RowFilter(keys=frozenset([value.encode() if isinstance(value, str) else bytes(value)]))


def _bound_base_offset(condition: Filter, value: Any) -> RowFilter:
    """A batch's last offset is not below its base offset. So only a lower bound of the latter bounds the former."""
    offsets = _bound_offset(condition, value).offsets
    return RowFilter(offsets=OffsetRange(offsets.start))


_KEY_TYPES: dict[str, Any] = {BINARY: (bytes, bytearray), STRING: str}
_OF_PARTITIONS: Columns = {("topic",): _bound_topic, ("partition",): _bound_partition}
_COLUMNS: dict[str, Columns] = {
    RECORDS: {**_OF_PARTITIONS, ("offset",): _bound_offset, ("timestamp",): _bound_timestamp},
    BATCHES: {**_OF_PARTITIONS, ("baseOffset",): _bound_base_offset, ("lastOffset",): _bound_offset},
    NEWEST: _OF_PARTITIONS,  # a bound on offsets or times would change which record is the newest
}
