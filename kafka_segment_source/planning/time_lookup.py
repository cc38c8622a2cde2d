"""A timestamp and a partition's log → the first offset at or after it, as a broker's offsetsForTimes answers.

It searches in offset order, for any order of timestamps, and includes control records
(`UnifiedLog.fetchOffsetByTimestamp`). A broker's answer may depend on its memory or on file times. This module reads
the files instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_segment_source.bounds import ScanBounds, TimeRange
from kafka_segment_source.decoding.split import SegmentSplit, anchored, split_of
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.kernels.record_batches import OFFSET
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import DroppedSegment, PartitionLog
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.pruning.ranges import narrow
from kafka_segment_source.reading.following import Follower
from kafka_segment_source.reading.mending import damage_in


def first_offset_at(log: PartitionLog, timestamp: int, options: ReadOptions) -> int | None:
    """Finds the lowest offset with a timestamp ≥ `timestamp` (ms), or None. It usually decodes one batch."""
    for segment in log.segments:
        bounds = ScanBounds(log.offsets.intersect(segment.offsets), TimeRange(timestamp))
        with SegmentView(segment, options.trust) as view:
            found = narrow(view, bounds)
            if isinstance(found, DroppedSegment):
                continue
            split = anchored(split_of(log, segment, bounds, found.start, found.end), view.probe)
        offset = _find_first_offset(split, options)
        if offset is not None:
            return offset
    return None


def _find_first_offset(split: SegmentSplit, options: ReadOptions) -> int | None:
    """Finds the first offset of a split's rows; None if there is none.

    With several copies, rows that are damaged in one copy are looked for in the others.
    """
    if not split.copies:
        return next(_find_first_in_file(split, options), None)
    return next(Follower(split, options).run(lambda part: _find_first_in_file(part, options)), None)


def _find_first_in_file(split: SegmentSplit, options: ReadOptions) -> Iterator[int]:
    damage = damage_in(split, options)
    with SplitFile(split, options.trust, damage, reads_all=False) as source:
        decoder = source.decoder(include_control=True)
        for chunk in source.chunks():
            for records in decoder.decode(chunk):
                yield int(records.longs[OFFSET, 0])
