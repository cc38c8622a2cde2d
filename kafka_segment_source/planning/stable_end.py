"""The last stable offset: where a read_committed consumer's log ends. It is found on the driver.

It is the first offset of the oldest open transaction, which has no marker. Without one, it is the end of the log. Every
row from there on is withheld, even one outside a transaction. `open_transactions.py` finds these transactions.
"""

from __future__ import annotations

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.source import Source
from kafka_segment_source.trust import Policy


class StableEnds:
    """Last stable offsets (isolationLevel=read_committed). A plan finds each of them once."""

    def __init__(self, source: Source, policy: Policy, *, read_committed: bool) -> None:
        self._source = source
        self._policy = policy
        self._read_committed = read_committed
        self._found: dict[tuple[TopicPartition, int], tuple[int, list[str]]] = {}

    def intersect(self, log: PartitionLog, offsets: OffsetRange, warnings: Warnings) -> OffsetRange:
        """The part of `offsets` that the isolation level leaves. Withheld rows go into `warnings`.

        Raises CorruptRecordError for damage on the way to the end of the log, under FAILFAST.
        """
        if not self._read_committed or offsets.is_empty or not log.segments:
            return offsets
        # it reads batches: only then are the kernels loaded
        from kafka_segment_source.planning.open_transactions import find_stable_end

        key = log.topic_partition, offsets.end
        if key not in self._found:
            noted = Warnings()
            self._found[key] = (
                find_stable_end(log, offsets.end, self._source, self._policy, noted),
                noted,
            )
        end, found = self._found[key]
        warnings += found
        return offsets.intersect(OffsetRange(end=end))
