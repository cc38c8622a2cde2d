"""Whether a segment file is missing after one that was read to its end: its offsets stop short of the next segment's.

Kafka leaves out offsets only where it compacts. So the gap is a loss, unless something shows that this partition was
compacted: a broker's checkpoint (planning knows), or gaps among the batches of the segment. Message sets (magic 0 and
1) tell too little, and of a segment that was not read to its end nothing is said. A batch that was skipped as damaged
leaves a gap too, or the end unread.
"""

from __future__ import annotations

import numpy as np

from kafka_segment_source import format as fmt
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.decoding.batches import HeaderTable
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.kernels import headers as h
from kafka_segment_source.logdir.probe import HeaderProbe
from kafka_segment_source.storage.files import InputFile


class GapWatch:
    """Sees the headers of one split's batches in their order; then says which wanted offsets are missing after them.

    position: after the last batch that was seen, in bytes. next_offset: after it too; None before the first, if the
    split starts late in its segment.
    """

    def __init__(self, split: SegmentSplit) -> None:
        self._split = split
        self._has_gaps = False
        self.position = split.start
        self.next_offset = split.base_offset if split.start == 0 else None

    def see(self, headers: HeaderTable) -> None:
        """Takes the next batches: int64[FIELDS, n], n ≥ 1."""
        bases, lasts, counts = headers[h.BASE_OFFSET], headers[h.LAST_OFFSET], headers[h.COUNT]
        first = int(bases[0]) if self.next_offset is None else self.next_offset
        expected = np.concatenate(([first], lasts[:-1] + 1))
        gaps = (bases > expected) | (counts < lasts - bases + 1) | (headers[h.MAGIC] < fmt.MAGIC_V2)
        self._has_gaps = self._has_gaps or bool(gaps.any())
        self.next_offset = int(lasts[-1]) + 1
        self.position = int(headers[h.POSITION, -1] + headers[h.SIZE, -1])

    def missing(self, file: InputFile) -> OffsetRange | None:
        """The wanted offsets between the last batch and the next segment, if a missing file alone explains the gap."""
        split = self._split
        if not split.gap_is_loss or self._has_gaps or self.position != split.segment_size:
            return None
        if self.next_offset is None or split.next_base_offset is None:
            return None
        gap = OffsetRange(self.next_offset, split.next_base_offset).intersect(split.bounds.offsets)
        return None if gap.is_empty or (split.start > 0 and self._has_gaps_before(file)) else gap

    def _has_gaps_before(self, file: InputFile) -> bool:
        """Whether batches before the split show compaction, or nothing that can be believed. Walks them all: rare."""
        expected = self._split.base_offset
        for header in HeaderProbe(file, self._split.segment_size, check_crcs=False).walk(0):
            if header is None or header.magic < fmt.MAGIC_V2 or header.base_offset > expected:
                return True
            if header.count < header.last_offset - header.base_offset + 1:
                return True
            if header.position >= self._split.start:
                return False
            expected = header.last_offset + 1
        return False
