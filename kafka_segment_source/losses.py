"""What a task finds missing while it reads one split: bytes that its file had when it was planned, a file after it.

Comes in: the open file, the split, the headers of each chunk. Goes out: the split as the file allows it to be read, and
at the end a DataLossError that says what is not there. Whether that ends the query is for the caller (failOnDataLoss).

A file that shrank was compacted or truncated: planned positions mean nothing, so what is left is read from its first
byte. Only the last segment may shrink without loss: a broker that rolls it cuts off preallocated zeros.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from kafka_segment_source import format as fmt
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import DataLossError, FileChangedError
from kafka_segment_source.files import InputFile, exists
from kafka_segment_source.gaps import GapWatch
from kafka_segment_source.reading import Chunk, HeaderTable
from kafka_segment_source.splits import SegmentSplit


class LossWatch:
    """Sees the headers of one split's batches in their order; `split` is what to read."""

    def __init__(self, file: InputFile, planned: SegmentSplit) -> None:
        self._file = file
        self._planned = planned
        self._size = min(file.size, planned.segment_size)
        self.split = planned if self._size == planned.segment_size else _what_is_left(planned, self._size)
        self._gaps = GapWatch(self.split)

    def seeing(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """The chunks as they come, each of them seen."""
        for chunk in chunks:
            self.see(chunk.headers)
            yield chunk

    def see(self, headers: HeaderTable) -> None:
        """Takes the next batches: int64[FIELDS, n], n ≥ 1."""
        self._gaps.see(headers)

    def finish(self) -> None:
        """Raises DataLossError for what turned out to be missing."""
        planned = self._planned
        if self._size < planned.segment_size and not self._was_trimmed():
            raise FileChangedError(
                f"file {planned.path!r} has shrunk since it was listed: found {self._size} bytes, expected"
                f" {planned.segment_size}, so it was compacted or truncated; plan the read anew"
            )
        gap = self._gaps.missing(self._file)
        if gap is not None:
            raise DataLossError(
                f"offsets {gap.start} to {gap.end - 1} of partition {planned.topic}-{planned.partition} are missing:"
                f" {planned.path!r} ends before {self._gaps.next_offset}, the next segment begins at"
                f" {planned.next_base_offset}, so a segment file between them is not there, or compaction left it out and the"
                f" broker's {fmt.CLEANER_CHECKPOINT} is not here to say so; failOnDataLoss=false reads what is there"
            )

    def _was_trimmed(self) -> bool:
        """Whether the file still holds all that it had, as the segment that goes on from its last batch shows."""
        is_last = self._planned.next_base_offset is None
        if not is_last or self._gaps.next_offset is None or not 0 < self._gaps.position == self._size:
            return False
        name = f"{self._gaps.next_offset:0{fmt.BASE_OFFSET_DIGITS}d}{fmt.LOG_SUFFIX}"
        path = os.path.join(os.path.dirname(self._planned.path), name)
        return exists(path)


def _what_is_left(split: SegmentSplit, size: int) -> SegmentSplit:
    """The split over a file of `size` bytes, which may end anywhere, and be another than the one that was planned."""
    own = OffsetRange(split.base_offset, fmt.MAX_OFFSET if split.next_base_offset is None else split.next_base_offset)
    bounds = replace(split.bounds, offsets=split.bounds.offsets.intersect(own))
    return replace(split, start=0, end=size, segment_size=size, next_base_offset=None, bounds=bounds)
