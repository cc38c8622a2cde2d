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
from kafka_segment_source.decoding.batches import BatchReader, Chunk, most_headers
from kafka_segment_source.decoding.header_table import end_of
from kafka_segment_source.decoding.offset_order import find_disorder, needs_witness
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.kernels import batch_headers, batch_proof
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.offset_proof import limit_of
from kafka_segment_source.storage.files import InputFile

SMALL_BATCH = 4096  # bytes: batches of this size on average are read whole, since a header costs one call
FIRST_LOOK = 64  # headers that are read before the size of batches is judged
_NO_BYTES = np.empty(0, np.uint8)


def read_headers_first(reader: BatchReader, file: InputFile, split: SegmentSplit) -> Iterator[Chunk]:
    """Yields the chunks of the range, in order. They have no bytes as long as headers alone are read.

    reader: of this split. It takes note of what is read here, and goes on where headers alone do not do.
    """
    position, descriptor = split.start, file.descriptor()
    many = most_headers(split)
    table = np.empty((batch_headers.FIELDS, min(FIRST_LOOK, many)), np.int64)
    while position < split.end and descriptor is not None:
        headers = _walk(descriptor, split, position, table, reader.last_offset)
        count = headers.shape[1]
        if not count:
            break
        wanted, more = reader.count_wanted(headers)
        if wanted:
            yield Chunk(_NO_BYTES, headers[:, :wanted], position)
        if not more:
            reader.end_before(headers, wanted)
            return
        reader.note_before(headers)
        size = end_of(headers) - position
        position += size
        if table.shape[1] == FIRST_LOOK == count and size < SMALL_BATCH * count:
            break
        if table.shape[1] < many:
            table = np.empty((batch_headers.FIELDS, many), np.int64)
    yield from reader.read_from(position)


def _walk(descriptor: int, split: SegmentSplit, position: int, table: HeaderTable, before: int) -> HeaderTable:
    """Reads headers from `position` on. It returns those that can be believed without their bytes.

    A batch behind a gap needs the one after it as a witness. So the last one of a walk is left for the next walk, or
    for the usual reader. table: is filled in. before: the last offset that was believed.
    """
    room_of_one = np.empty(kafka_format.BATCH_OVERHEAD, np.uint8)
    report = np.zeros(batch_proof.REPORT, np.int64)
    count: int = batch_headers.read_headers(descriptor, room_of_one, position, split.end, table, report)
    headers = table[:, :count]
    if not headers.shape[1]:
        return headers
    limit = limit_of(split.base_offset, split.next_base_offset)
    wrong = find_disorder(headers, before, limit, limit)
    if wrong is not None:
        return headers[:, : wrong.column]
    return headers[:, :-1] if needs_witness(headers, before) else headers
