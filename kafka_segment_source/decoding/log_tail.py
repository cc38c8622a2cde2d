"""Decides whether a log ends where no whole batch begins.

The last segment may end in a torn batch, because a broker writes there or has died. It may also end in zeros, which are
preallocated space. Both end the log without an error, if no other bytes follow. In the middle of a log, or before
another whole batch, both are damage, since Kafka trims a segment when it rolls. So they are at the end of a remote
tier, which has rolled segments alone.
"""

from __future__ import annotations

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.batch_search import FIRST_WINDOW, LARGEST_WINDOW, BatchSearch
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.storage.files import Bytes, InputFile
from kafka_segment_source.storage.retrying import pause

_LOOKS = 8  # reads of a log end that a broker writes to; pauses of 30 ms in all follow where a batch is only begun
_UNWRITTEN = 8  # zeros at the end of a batch that is only begun; fewer zeros may belong to its last record


class LogTail:
    """The end of one split's segment, which a broker may be writing to."""

    def __init__(self, file: InputFile, split: SegmentSplit, search: BatchSearch) -> None:
        self._file = file
        self._split = split
        self._search = search
        self._written_at = -1
        self._zero_end: bool | None = None

    def look_at(self, position: int, seen: Bytes) -> tuple[bool, int | None]:
        """Whether a log's last segment legally ends at `position`, where no whole batch was; and where to go on.

        The log may end there in two cases. Either zeros follow, which are preallocated space. Or a broker is writing
        there: the bytes are no longer those that were `seen`. If a whole batch is now there, reading goes on at it; a
        position gets this answer once only. Where zeros reach into a batch, a broker may be about to write its end, so
        this waits a little. After that it is damage.
        """
        if self._split.was_rolled:
            return False, None
        for look in range(_LOOKS):  # a broker may write between two of these reads
            if self._file.read_at(position, len(seen)) != seen.tobytes():
                is_whole = self._written_at != position and self._search.has_batch_at(position)
                self._written_at = position
                return True, position if is_whole else None
            if self._zero_end is False:
                break
            if self._ends_in_zeros():
                if self._is_zero_to_end(position):
                    return True, None
                if self._is_only_begun(position):
                    pause(look)
        return False, None

    def _is_only_begun(self, position: int) -> bool:
        """Whether preallocated zeros reach into the end of the batch at `position`, and nothing but zeros follows."""
        header = self._file.read_at(position, kafka_format.LOG_OVERHEAD)
        length = int.from_bytes(header[kafka_format.LENGTH_AT :], "big", signed=True)
        after = position + (
            length + kafka_format.LOG_OVERHEAD if length >= kafka_format.MIN_LENGTH_V0 else kafka_format.MAGIC_END
        )
        return after < self._split.segment_size and self._is_zero_to_end(after - _UNWRITTEN)

    def _ends_in_zeros(self) -> bool:
        """Whether the file ended in zeros at the first call."""
        if self._zero_end is None:
            at = max(self._split.segment_size - _UNWRITTEN, 0)
            self._zero_end = not any(self._file.read_at(at, _UNWRITTEN))
        return self._zero_end

    def _is_zero_to_end(self, position: int) -> bool:
        window = FIRST_WINDOW
        while position < self._split.segment_size:
            block = self._file.read_at(position, min(window, self._split.segment_size - position))
            if not block or block != bytes(len(block)):  # five times as fast as to count the zeros
                return not block
            position += len(block)
            window = min(2 * window, LARGEST_WINDOW)
        return True
