"""Headers of batches → the `.index` and `.timeindex` of a segment, as Kafka's own writer makes them.

Kafka: LogSegment.append of 4.1 and later, which looks at each batch by itself, and LogSegment.recover of every version
since 2.0. An offset entry is made before a batch that begins more than `index.interval.bytes` after the last indexed
one. It has the batch's last offset. With it comes a time entry: the largest timestamp up to and with this batch, and
the last offset of the first batch that has it. When a segment is rolled or closed, it gets a last time entry.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.index_entries import OFFSET_ENTRY, TIME_ENTRY

INTERVAL = 4096  # index.interval.bytes


class IndexEntries:
    """Collects the entries of one segment's indexes.

    base_offset: of the segment. The offsets of entries are relative to it, in 4 bytes.
    """

    def __init__(self, base_offset: int) -> None:
        self._base = base_offset
        self._indexed_at = 0  # the position of the last indexed batch, or 0
        self._largest = kafka_format.NO_TIMESTAMP, base_offset  # a timestamp in ms, and an offset
        self._offsets: list[tuple[int, int]] = []
        self._times: list[tuple[int, int]] = []

    def add(self, headers: HeaderTable, position: int) -> None:
        """Adds batches that follow those before. position: where the first one begins in the new `.log`."""
        sizes, lasts, times = headers[[batch_headers.SIZE, batch_headers.LAST_OFFSET, batch_headers.MAX_TIMESTAMP]]
        starts = np.cumsum(sizes) - sizes + position
        # the column whose batch has the largest timestamp so far, or -1 for a batch before these
        reached = np.maximum.accumulate(np.maximum(times, self._largest[0]))
        grows = np.diff(reached, prepend=self._largest[0]) > 0
        holders = np.maximum.accumulate(np.where(grows, np.arange(len(times)), -1))
        columns = (starts.tolist(), lasts.tolist(), reached.tolist(), holders.tolist())  # lists are searched faster
        positions, ends, largest, held_by = columns
        at = 0
        while (at := bisect_right(positions, self._indexed_at + INTERVAL, at)) < len(positions):
            self._indexed_at = positions[at]
            self._offsets.append((ends[at] - self._base, positions[at]))
            self._add_time(largest[at], self._largest[1] if held_by[at] < 0 else ends[held_by[at]])
        if held_by[-1] >= 0:
            self._largest = largest[-1], ends[held_by[-1]]

    def close(self) -> tuple[bytes, bytes]:
        """Adds the last time entry. Returns the bytes of the `.index` and of the `.timeindex`."""
        self._add_time(*self._largest)
        return (
            np.array(self._offsets, OFFSET_ENTRY).tobytes(),
            np.array(self._times, TIME_ENTRY).tobytes(),
        )

    def _add_time(self, timestamp: int, offset: int) -> None:
        """Adds a time entry if it is later than the one before (TimeIndex.maybeAppend)."""
        if timestamp > (self._times[-1][0] if self._times else kafka_format.NO_TIMESTAMP):
            self._times.append((timestamp, offset - self._base))
