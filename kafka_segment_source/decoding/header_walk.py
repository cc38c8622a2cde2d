"""Reads the batch headers of a split alone, where batches are large and their bytes are not wanted.

Input and output are those of `batches.py`, but a chunk has no bytes of its batches. The walk needs a local file. It
reads a few headers first. If the batches turn out to be small, or at the first place where no believable batch is, the
usual reader takes over at that place. So damage, and the ends of the log and of the range, are handled as in any read.
Headers are believed without a CRC here: a walk is for reads with checkCrcs=false.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.batches import BatchReader, Chunk, end_of
from kafka_segment_source.decoding.offset_order import find_disorder, needs_witness
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable

SMALL_BATCH = 4096  # bytes: batches of this size on average are read whole, since a header costs one call
_FIRST_LOOK = 64  # headers that are read before the size of batches is judged
_NO_BYTES = np.empty(0, np.uint8)


class HeaderReader(BatchReader):
    """Reads one split's headers. Its chunks have no bytes as long as it walks."""

    def chunks(self) -> Iterator[Chunk]:
        """Yields the chunks of the range, in order. It ends where the range, its offsets or the log end."""
        position = self._split.start
        room = _FIRST_LOOK
        while position < self._limit:
            headers = self._walk(position, room)
            count = headers.shape[1]
            if not count:
                break
            wanted, more = self._count_wanted(headers)
            if wanted:
                yield Chunk(_NO_BYTES, headers[:, :wanted], position)
            if not more:
                self.is_done = True
                return
            self._note_believed(headers)
            size = end_of(headers) - position
            position += size
            if room == _FIRST_LOOK == count and size < SMALL_BATCH * count:
                break
            room = self._table.shape[1]
        yield from self._read_from(position)

    def _walk(self, position: int, room: int) -> HeaderTable:
        """Reads at most `room` headers from `position` on. It returns those that can be believed without their bytes.

        A batch behind a gap needs the one after it as a witness. So the last one of a walk is left for the next walk,
        or for the usual reader.
        """
        descriptor = self._file.descriptor()
        if descriptor is None:
            return self._table[:, :0]
        table = self._table if room >= self._table.shape[1] else np.empty((batch_headers.FIELDS, room), np.int64)
        room_of_one = np.empty(kafka_format.BATCH_OVERHEAD, np.uint8)
        count: int = batch_headers.read_headers(descriptor, room_of_one, position, self._limit, table, self._report)
        headers = table[:, :count]
        if not headers.shape[1]:
            return headers
        wrong = find_disorder(headers, self._search.last_offset, self._offset_limit, self._offset_limit)
        if wrong is not None:
            return headers[:, : wrong.column]
        return headers[:, :-1] if needs_witness(headers, self._search.last_offset) else headers
