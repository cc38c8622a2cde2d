"""bounds: half-open ranges that intersect as sets of integers do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_segment_source.bounds import MIN_TIMESTAMP, TIMESTAMP_LIMIT, OffsetRange, ScanBounds, TimeRange
from kafka_segment_source.kafka_format import MAX_OFFSET

small = st.integers(-5, 15)


@given(a=small, b=small, c=small, d=small)
def test_offset_ranges_intersect_as_sets(a: int, b: int, c: int, d: int) -> None:
    """An offset is in the intersection exactly if it is in both ranges; emptiness is having no member."""
    both = OffsetRange(a, b).intersect(OffsetRange(c, d))

    assert set(range(both.start, both.end)) == set(range(a, b)) & set(range(c, d))
    assert both.is_empty == (not set(range(both.start, both.end)))


@given(a=small, b=small, c=small, d=small)
def test_time_ranges_intersect_as_sets(a: int, b: int, c: int, d: int) -> None:
    """A timestamp is in the intersection exactly if it is in both ranges; emptiness is having no member."""
    both = TimeRange(a, b).intersect(TimeRange(c, d))

    assert set(range(both.since, both.until)) == set(range(a, b)) & set(range(c, d))
    assert both.is_empty == (not set(range(both.since, both.until)))


def test_default_bounds_leave_everything() -> None:
    """Without bounds every offset and every 64-bit timestamp is inside, and neither side counts as given."""
    everything = ScanBounds()

    assert (everything.offsets.start, everything.offsets.end) == (0, MAX_OFFSET)
    assert (everything.times.since, everything.times.until) == (MIN_TIMESTAMP, TIMESTAMP_LIMIT) == (-(2**63), 2**63)
    assert not (everything.times.has_since or everything.times.has_until or everything.times.is_empty)
    assert not everything.offsets.is_empty


def test_a_bound_given_counts_as_given() -> None:
    """has_since and has_until say which side was narrowed, up to the last millisecond."""
    assert TimeRange(since=MIN_TIMESTAMP + 1).has_since and not TimeRange(since=5).has_until
    assert TimeRange(until=TIMESTAMP_LIMIT - 1).has_until and not TimeRange(until=5).has_since
