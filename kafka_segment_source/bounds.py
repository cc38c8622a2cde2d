"""Half-open ranges of offsets and timestamps that a scan can ask for. This module needs neither Spark nor files.

All values are Python integers, so that arithmetic near 2**63 cannot overflow.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from kafka_segment_source.kafka_format import MAX_OFFSET

T = TypeVar("T")

MIN_TIMESTAMP = -(2**63)
TIMESTAMP_LIMIT = 2**63  # exclusive: every 64-bit timestamp lies below


class OffsetRange(NamedTuple):
    """Offsets with start ≤ offset < end. They are absolute."""

    start: int = 0
    end: int = MAX_OFFSET

    @property
    def is_empty(self) -> bool:
        return self.start >= self.end

    def intersect(self, other: OffsetRange) -> OffsetRange:
        if self.start >= other.start and self.end <= other.end:
            return self  # a plan does this for each segment
        if other.start >= self.start and other.end <= self.end:
            return other
        return OffsetRange(max(self.start, other.start), min(self.end, other.end))

    def hull(self, other: OffsetRange) -> OffsetRange:
        return OffsetRange(min(self.start, other.start), max(self.end, other.end))


ALL_OFFSETS = OffsetRange()


class TimeRange(NamedTuple):
    """Timestamps with since ≤ timestamp < until, in milliseconds since 1970, UTC. A missing timestamp counts as -1."""

    since: int = MIN_TIMESTAMP
    until: int = TIMESTAMP_LIMIT

    @property
    def is_empty(self) -> bool:
        return self.since >= self.until

    @property
    def has_since(self) -> bool:
        return self.since > MIN_TIMESTAMP

    @property
    def has_until(self) -> bool:
        return self.until < TIMESTAMP_LIMIT

    def intersect(self, other: TimeRange) -> TimeRange:
        return TimeRange(max(self.since, other.since), min(self.until, other.until))

    def hull(self, other: TimeRange) -> TimeRange:
        return TimeRange(min(self.since, other.since), max(self.until, other.until))


class ScanBounds(NamedTuple):
    """The wanted rows of one segment: those inside both ranges."""

    offsets: OffsetRange = OffsetRange()
    times: TimeRange = TimeRange()


class RowFilter(NamedTuple):
    """The rows that filters above a read may keep. Rows outside cannot match. Rows inside may or may not match.

    topics, partitions: the only ones that match, or None for all.
    topic_prefixes: a topic must begin with all of these.
    partition_range: half-open.
    keys: the only stored keys that match, or None for all. A null key is none of them.
    """

    topics: frozenset[str] | None = None
    topic_prefixes: frozenset[str] = frozenset()
    partitions: frozenset[int] | None = None
    partition_range: OffsetRange = OffsetRange()
    offsets: OffsetRange = OffsetRange()
    times: TimeRange = TimeRange()
    keys: frozenset[bytes] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it is certain that no row can match."""
        ranges = self.partition_range.is_empty or self.offsets.is_empty or self.times.is_empty
        return ranges or any(wanted == frozenset() for wanted in (self.topics, self.partitions, self.keys))

    def matches_partition(self, topic: str, partition: int) -> bool:
        """Whether rows of this partition may match."""
        named = (self.topics is None or topic in self.topics) and all(map(topic.startswith, self.topic_prefixes))
        numbered = self.partitions is None or partition in self.partitions
        return named and numbered and self.partition_range.start <= partition < self.partition_range.end

    def intersect(self, other: RowFilter) -> RowFilter:
        """Returns the filter of rows that may match both."""
        return RowFilter(
            topics=intersect_sets(self.topics, other.topics),
            topic_prefixes=self.topic_prefixes | other.topic_prefixes,
            partitions=intersect_sets(self.partitions, other.partitions),
            partition_range=self.partition_range.intersect(other.partition_range),
            offsets=self.offsets.intersect(other.offsets),
            times=self.times.intersect(other.times),
            keys=intersect_sets(self.keys, other.keys),
        )

    def hull(self, other: RowFilter) -> RowFilter:
        """Returns the filter of rows that may match either one, and of the rows between."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        return RowFilter(
            topics=unite_sets(self.topics, other.topics),
            topic_prefixes=self.topic_prefixes & other.topic_prefixes,
            partitions=unite_sets(self.partitions, other.partitions),
            partition_range=self.partition_range.hull(other.partition_range),
            offsets=self.offsets.hull(other.offsets),
            times=self.times.hull(other.times),
            keys=unite_sets(self.keys, other.keys),
        )


EVERY_ROW = RowFilter()
"""The filter that keeps every row."""


def intersect_sets(one: frozenset[T] | None, other: frozenset[T] | None) -> frozenset[T] | None:
    """Returns the values in both sets. None stands for all values."""
    return other if one is None else one if other is None else one & other


def unite_sets(one: frozenset[T] | None, other: frozenset[T] | None) -> frozenset[T] | None:
    """Returns the values in either set. None stands for all values."""
    return None if one is None or other is None else one | other
