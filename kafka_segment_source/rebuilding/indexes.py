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
from kafka_segment_source.logdir.index_entries import OFFSET_ENTRY, TIME_ENTRY, Longs

INTERVAL = 4096  # index.interval.bytes


class IndexEntries:
    """Collects the entries of one segment's indexes.

    base_offset: of the segment. The offsets of entries are relative to it, in 4 bytes.
    """

    def __init__(self, base_offset: int) -> None:
        self._base = base_offset
        self._indexed_at = 0  # the position of the last indexed batch, or 0
        self._largest = kafka_format.NO_TIMESTAMP, base_offset  # a timestamp in ms, and an offset
        self._last_time = kafka_format.NO_TIMESTAMP  # of the time entries
        self._offsets: list[bytes] = []
        self._times: list[bytes] = []

    def add(self, headers: HeaderTable, position: int) -> None:
        """Adds batches that follow those before. position: where the first one begins in the new `.log`."""
        sizes, lasts, times = headers[[batch_headers.SIZE, batch_headers.LAST_OFFSET, batch_headers.MAX_TIMESTAMP]]
        starts = np.cumsum(sizes) - sizes + position
        # the column whose batch has the largest timestamp so far, or -1 for a batch before these
        reached = np.maximum.accumulate(np.maximum(times, self._largest[0]))
        grows = np.diff(reached, prepend=self._largest[0]) > 0
        holders = np.maximum.accumulate(np.where(grows, np.arange(len(times)), -1))
        positions = starts.tolist()  # a list is searched faster
        chosen: list[int] = []
        at = 0
        while (at := bisect_right(positions, self._indexed_at + INTERVAL, at)) < len(positions):
            self._indexed_at = positions[at]
            chosen.append(at)
        if chosen:
            self._offsets.append(_pack(OFFSET_ENTRY, lasts[chosen] - self._base, starts[chosen]))
            offsets = np.where(holders[chosen] < 0, self._largest[1], lasts[holders[chosen]])
            self._add_times(reached[chosen], offsets)
        if holders[-1] >= 0:
            self._largest = int(reached[-1]), int(lasts[holders[-1]])

    def close(self) -> tuple[bytes, bytes]:
        """Adds the last time entry. Returns the bytes of the `.index` and of the `.timeindex`."""
        self._add_times(np.array([self._largest[0]]), np.array([self._largest[1]]))
        return b"".join(self._offsets), b"".join(self._times)

    def _add_times(self, timestamps: Longs, offsets: Longs) -> None:
        """Adds the time entries that are later than the ones before them (TimeIndex.maybeAppend)."""
        later = np.diff(timestamps, prepend=self._last_time) > 0
        self._times.append(_pack(TIME_ENTRY, timestamps[later], offsets[later] - self._base))
        self._last_time = max(self._last_time, int(timestamps[-1]))


def _pack(entry: np.dtype[np.void], *columns: Longs) -> bytes:
    """Returns the bytes of entries, of their fields in order."""
    entries = np.empty(len(columns[0]), entry)
    for name, column in zip(entry.names or (), columns, strict=True):
        entries[name] = column
    return entries.tobytes()
