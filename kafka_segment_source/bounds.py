"""What a scan is asked for: half-open ranges of offsets and timestamps that intersect. No Spark, no files.

Python integers throughout, so that arithmetic near 2**63 cannot wrap.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_segment_source.format import MAX_OFFSET

MIN_TIMESTAMP = -(2**63)
TIMESTAMP_LIMIT = 2**63  # exclusive: every 64-bit timestamp lies below


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets with start ≤ offset < end; absolute."""

    start: int = 0
    end: int = MAX_OFFSET

    @property
    def is_empty(self) -> bool:
        return self.start >= self.end

    def intersect(self, other: OffsetRange) -> OffsetRange:
        return OffsetRange(max(self.start, other.start), min(self.end, other.end))


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Timestamps with since ≤ timestamp < until; milliseconds since 1970, UTC. A missing timestamp counts as -1."""

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


@dataclass(frozen=True, slots=True)
class ScanBounds:
    """The rows of one segment that are wanted: those inside both ranges."""

    offsets: OffsetRange = OffsetRange()
    times: TimeRange = TimeRange()


@dataclass(frozen=True, slots=True)
class RowFilter:
    """What filters above a read leave possible. Rows outside cannot match; rows inside still may not.

    topics: the only ones, None for any; topic_prefixes: all of which a topic must begin with; partitions: half-open.
    """

    topics: frozenset[str] | None = None
    topic_prefixes: frozenset[str] = frozenset()
    partitions: OffsetRange = OffsetRange()
    offsets: OffsetRange = OffsetRange()
    times: TimeRange = TimeRange()

    def matches_partition(self, topic: str, partition: int) -> bool:
        """Whether rows of this partition may match."""
        named = self.topics is None or topic in self.topics
        prefixed = all(topic.startswith(prefix) for prefix in self.topic_prefixes)
        return named and prefixed and self.partitions.start <= partition < self.partitions.end
