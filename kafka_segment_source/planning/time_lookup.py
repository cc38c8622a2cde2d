"""A timestamp and a partition's log → the first offset at or after it, as a broker's offsetsForTimes answers.

It searches in offset order, for any order of timestamps, and includes control records
(`UnifiedLog.fetchOffsetByTimestamp`). A broker's answer may depend on its memory or on file times. This module reads
the files instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from kafka_segment_source.bounds import ScanBounds, TimeRange
from kafka_segment_source.decoding.damage import damage_in
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.kernels.record_batches import BATCH, OFFSET, TIMESTAMP
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.planning.offset_search import FoundBatch, SearchStep, search
from kafka_segment_source.source import Source
from kafka_segment_source.trust import Policy


def first_offset_at(
    log: PartitionLog, timestamp: int, source: Source, policy: Policy, steps: list[SearchStep] | None = None
) -> int | None:
    """Finds the lowest offset with a timestamp ≥ `timestamp` (ms), or None. It usually decodes one batch.

    With several copies, rows that are damaged in one copy are looked for in the others. steps: as in `search`.
    """
    bounds = ScanBounds(times=TimeRange(timestamp))
    batch = search(log, bounds, source, policy, partial(_find_records, policy), steps)
    return None if batch is None else batch.offset


def _find_records(
    policy: Policy, split: SegmentSplit, note_passed: Callable[[int | None], None]
) -> Iterator[FoundBatch]:
    """Yields the first record of each part of a split's rows."""
    damage = damage_in(split, policy)
    with SplitFile(split, policy.trust, damage, reads_all=False) as source:
        decoder = source.decoder(include_control=True)
        for chunk in source.chunks():
            for records in decoder.decode(chunk):
                batch = FoundBatch.of(split.path, records.headers, int(records.ints[BATCH, 0]))
                yield replace(batch, offset=int(records.longs[OFFSET, 0]), timestamp=int(records.longs[TIMESTAMP, 0]))
            note_passed(source.next_offset)
