"""Where the next piece ends in each partition, under the limits of a micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.request import Pace
from kafka_segment_source.streams.batch_edges import cut_at_offset, cut_by_bytes
from kafka_segment_source.streams.limits import spread
from kafka_segment_source.trust import Trust


class PieceEnds:
    """Finds the ends of pieces, and remembers when the last piece was taken.

    clock: seconds of any origin.
    """

    def __init__(self, trust: Trust, clock: Callable[[], float]) -> None:
        self._trust = trust
        self._clock = clock
        self._last_piece: float | None = None

    def note_piece(self) -> None:
        """A piece was taken now."""
        self._last_piece = self._clock()

    def must_wait(self, waiting: Mapping[TopicPartition, OffsetRange], limits: Pace) -> bool:
        """Whether too few offsets are there for a piece (minOffsetsPerTrigger). The first piece does not wait."""
        if limits.least_offsets is None or self._last_piece is None:
            return False
        if self._clock() - self._last_piece >= limits.longest_wait / 1000:
            return False
        return sum(max(offsets.end - offsets.start, 0) for offsets in waiting.values()) < limits.least_offsets

    def cut(
        self,
        logs: Mapping[TopicPartition, PartitionLog],
        waiting: Mapping[TopicPartition, OffsetRange],
        limits: Pace,
    ) -> dict[TopicPartition, int]:
        """Returns where a piece ends: at the end of what waits, or before it where the limits leave only a part.

        waiting: the offsets that can be read now. logs: of the same partitions.
        """
        ends = {key: offsets.end for key, offsets in waiting.items()}
        waiting = {key: offsets for key, offsets in waiting.items() if not offsets.is_empty}
        if limits.most_offsets is not None:
            shares = spread(limits.most_offsets, {key: offsets.end - offsets.start for key, offsets in waiting.items()})
            for key, offsets in waiting.items():
                if shares[key] < offsets.end - offsets.start:
                    share = OffsetRange(offsets.start, offsets.start + shares[key])
                    ends[key] = cut_at_offset(logs[key], share, self._trust)
        if limits.most_bytes is not None:
            left = {key: OffsetRange(offsets.start, ends[key]) for key, offsets in waiting.items()}
            ends |= cut_by_bytes(logs, left, limits.most_bytes, self._trust)
        return ends
