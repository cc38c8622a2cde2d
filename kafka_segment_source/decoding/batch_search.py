"""Finds whole batches where the walk over headers found none: after damage, and at a place that is in doubt.

Input: an open file and a planned split. Output: positions of batches that a header and its CRC prove. The search has a
budget, so that crafted bytes cannot make it quadratic.
"""

from __future__ import annotations

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.logdir.checksums import crc_holds
from kafka_segment_source.logdir.offset_proof import limit_of
from kafka_segment_source.storage.files import InputFile

# The search for the next whole batch after damage computes a CRC for every place that looks like a batch. Budget for
# one range: 8 × segment size + 64 MiB of CRC work. Then the rest is skipped. Without it, crafted bytes make the search
# quadratic.
_SEARCH_EFFORT = 8
_LEAST_EFFORT = 64 * 1024 * 1024
FIRST_WINDOW = 4096  # bytes of the first search: the next batch is mostly near
LARGEST_WINDOW = 2 * 1024 * 1024
_LOOK = 1024  # the least cost of a look at one place, in bytes of CRC work

# A batch with a magic above 2 may be of a newer format. It counts as one if it has a right CRC at the place where magic
# 2 has it. This proves where the batch ends, and that its bytes are as written, except for the magic byte. The CRC does
# not cover that byte. So a batch of magic 2 with one flipped bit in the magic byte looks like a newer format.
# Therefore the magics that one flipped bit can make are damage, except for 3. That is the number of the next format.
# To skip good records would be worse than to refuse a damaged batch. A newer format that has its CRC elsewhere looks
# like damage.
_NEXT_MAGIC = kafka_format.MAGIC_V2 + 1
_FLIPPED_MAGICS = frozenset(
    {kafka_format.MAGIC_V2 ^ 1 << bit for bit in range(8)} - {kafka_format.MAGIC_V0, _NEXT_MAGIC}
)


class BatchSearch:
    """Looks for whole batches of one split's segment.

    last_offset: the last offset of the batches that were believed. Only a batch above it continues the log. effort:
    the bytes of CRC work that the search may still cost. Below zero, the search gives up.
    """

    def __init__(self, file: InputFile, split: SegmentSplit, max_batch_bytes: int) -> None:
        self._file = file
        self._split = split
        self._max_batch_bytes = max_batch_bytes
        self.last_offset = split.base_offset - 1
        self.effort = _SEARCH_EFFORT * split.segment_size + _LEAST_EFFORT

    def read_base_offset(self, position: int) -> int:
        """Reads the base offset that the bytes at `position` state, without proof; -1 where the file has ended."""
        data = self._file.read_at(position, kafka_format.LENGTH_AT)
        return int.from_bytes(data, "big", signed=True) if len(data) == kafka_format.LENGTH_AT else -1

    def _read_last_offset(self, position: int) -> int:
        """Reads the last offset that the bytes at `position` state, without proof. Of magic 0 and 1 it is the base
        offset."""
        header = self._file.read_at(position, kafka_format.BATCH_OVERHEAD)
        base = int.from_bytes(header[: kafka_format.LENGTH_AT], "big", signed=True)
        delta = header[kafka_format.LAST_OFFSET_DELTA_AT : kafka_format.LAST_OFFSET_DELTA_AT + 4]
        is_old = header[kafka_format.MAGIC_AT] < kafka_format.MAGIC_V2
        return base if is_old else base + int.from_bytes(delta, "big", signed=True)

    def read_claimed_size(self, position: int) -> int:
        """Reads how many bytes the batch at `position` has, by its length field."""
        length = self._file.read_at(
            position + kafka_format.LENGTH_AT, kafka_format.LOG_OVERHEAD - kafka_format.LENGTH_AT
        )
        return int.from_bytes(length, "big") + kafka_format.LOG_OVERHEAD

    def find_following(self, position: int, before: int) -> int | None:
        """Finds the position of the first proven batch from `position` on that lies above the offset `before`.

        It returns None if there is none. Damage between does not matter.
        """
        if position >= self._split.segment_size or self.effort < 0:
            return None
        believed, self.last_offset = self.last_offset, before
        try:
            return position if self.has_batch_at(position) else self.find_next_batch(position + 1)
        finally:
            self.last_offset = believed

    def find_swallowed(self, position: int, end: int) -> int | None:
        """Finds whole batches that a damaged batch at `position` covers by a wrong length, up to `end`.

        It returns the position of the first, or None. They lie side by side, and one begins at `end` too. A batch in a
        value does not reach that far: a record ends with the number of its headers. Where no offset is missing before
        `end`, there is nothing to find.
        """
        if self.read_base_offset(end) <= self._read_last_offset(position) + 1:
            return None
        found = following = self.find_next_batch(position + 1, end)
        while following is not None and following < end:
            following = following + self.read_claimed_size(following) if self.has_batch_at(following) else None
        return found if following == end else None

    def find_next_batch(self, position: int, end: int | None = None) -> int | None:
        """Finds the first position ≥ `position` of a whole batch that continues this log, by header and CRC. It looks
        for a header before `end`, by default in the whole file."""
        size = self._split.segment_size if end is None else end
        end_offset = self._find_offset_limit()
        if self.last_offset + 1 >= end_offset:
            return None  # no batch can lie above
        window = FIRST_WINDOW
        while size - position >= kafka_format.LOG_OVERHEAD + kafka_format.MIN_LENGTH_V0:
            buffer = np.empty(min(window, size - position), np.uint8)
            self._file.read_into(position, buffer)
            at = batch_headers.find_batch(buffer, 0, len(buffer), self.last_offset + 1, end_offset)
            while at >= 0:
                if self.has_batch_at(position + at):
                    return int(position + at)
                if self.effort < 0:
                    return None
                at = batch_headers.find_batch(buffer, at + 1, len(buffer), self.last_offset + 1, end_offset)
            if len(buffer) == size - position:
                return None
            position += len(buffer) - kafka_format.BATCH_OVERHEAD + 1
            window = min(2 * window, LARGEST_WINDOW)
        return None

    def _find_offset_limit(self) -> int:
        """The exclusive bound of the segment's offsets. For the last segment: of the offsets that an index can hold."""
        return limit_of(self._split.base_offset, self._split.next_base_offset)

    def has_batch_at(self, position: int) -> bool:
        """Whether a whole batch with a right CRC begins at `position` and continues this log.

        A batch of a newer magic counts too (see `_FLIPPED_MAGICS`). Each call reduces the budget of the search.
        """
        self.effort -= _LOOK
        header = self._file.read_at(position, kafka_format.BATCH_OVERHEAD)
        if len(header) < kafka_format.MAGIC_END:
            return False
        magic = header[kafka_format.MAGIC_AT]
        base = int.from_bytes(header[: kafka_format.LENGTH_AT], "big", signed=True)
        length = int.from_bytes(header[kafka_format.LENGTH_AT : kafka_format.LOG_OVERHEAD], "big", signed=True)
        fits = _smallest_length(magic) <= length <= self._split.segment_size - position - kafka_format.LOG_OVERHEAD
        if not fits or length > self._max_batch_bytes or base <= self.last_offset:
            return False
        self.effort -= length
        crc_at = kafka_format.CRC_AT if magic >= kafka_format.MAGIC_V2 else kafka_format.LEGACY_CRC_AT
        stored = int.from_bytes(header[crc_at : crc_at + 4], "big")
        return crc_holds(self._file.read_at(position, length + kafka_format.LOG_OVERHEAD), magic, stored)


def _smallest_length(magic: int) -> int:
    """The least length that a batch of this magic can state. It is larger than any length for an impossible magic."""
    if magic > kafka_format.LARGEST_MAGIC or magic in _FLIPPED_MAGICS:
        return 2**31
    if magic < kafka_format.MAGIC_V2:
        return kafka_format.MIN_LENGTH_V1 if magic == kafka_format.MAGIC_V1 else kafka_format.MIN_LENGTH_V0
    return kafka_format.MIN_BATCH_LENGTH
