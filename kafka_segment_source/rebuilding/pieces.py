"""One split → the batches that a rebuilt log takes of it, with their bytes.

It takes the steps of a read (`scanning.py`), but the last: batches are not decoded. So every batch has the CRC that it
states, damage is searched in the other copies, and what the options do not allow ends it in the error of a read.

A batch is wanted if it may hold a wanted row (docs/rebuild.md):

- By offsets: one of its offsets lies in the bounds.
- By time: the time from its first record's timestamp to its largest one has a part in the bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import ScanBounds
from kafka_segment_source.data_loss import report_lost_rows
from kafka_segment_source.decoding.batch_rows import time_span
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.damage import damage_in
from kafka_segment_source.decoding.scratch import lend_scratch
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.errors import DataLossError, KafkaSegmentError
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reading.following import Follower
from kafka_segment_source.transactions.markers import Marker, MarkerReader


@dataclass(frozen=True, slots=True)
class Batches:
    """Wanted batches of one chunk. The bytes are valid until the next ones are asked for.

    headers: int64[FIELDS, n], n ≥ 1. Positions are those of the source's file.
    markers: the transaction markers among them.
    """

    split: SegmentSplit
    chunk: Chunk
    headers: HeaderTable
    markers: tuple[Marker, ...]

    def bytes_of(self, first: int, end: int) -> Iterator[memoryview]:
        """Yields the bytes of the batches with first ≤ number < end, in as few parts as possible."""
        starts, sizes = self.headers[[batch_headers.POSITION, batch_headers.SIZE], first:end]
        ends = starts + sizes
        breaks = np.flatnonzero(starts[1:] != ends[:-1])
        view = memoryview(self.chunk.data)  # type: ignore[arg-type]  # arrays are buffers
        for begin, last in zip([0, *(breaks + 1).tolist()], [*breaks.tolist(), len(starts) - 1], strict=True):
            yield view[int(starts[begin]) - self.chunk.position : int(ends[last]) - self.chunk.position]


@dataclass(slots=True)
class Notes:
    """What the reading of one partition has left out.

    errors: why, in order. torn: the last file that was read to its end, and where its last whole batch ends, if bytes
    follow it that are no preallocated zeros.
    """

    errors: list[KafkaSegmentError] = field(default_factory=list)
    torn: tuple[str, int, int] | None = None  # path, position, bytes


def read_batches(split: SegmentSplit, options: ReadOptions, notes: Notes) -> Iterator[Batches]:
    """Yields the wanted batches of a split, in offset order. Raises what a read of the split raises."""
    follower = Follower(split, options)
    try:
        yield from follower.run(lambda part: _read_part(part, options, follower, notes))
    except DataLossError as error:
        report_lost_rows(error, options)
        notes.errors.append(error)
    finally:
        notes.errors += follower.passed


def _read_part(split: SegmentSplit, options: ReadOptions, follower: Follower, notes: Notes) -> Iterator[Batches]:
    damage = damage_in(split, options)
    notes.torn = None
    with lend_scratch() as scratch, SplitFile(split, options.trust, damage, buffers=scratch.take_buffer) as source:
        markers = MarkerReader(split, options, damage)
        end = split.start
        for chunk in source.chunks():
            end = int(chunk.headers[[batch_headers.POSITION, batch_headers.SIZE], -1].sum())
            wanted = _select(chunk.headers, split.bounds)
            if wanted.any():
                headers = chunk.headers if wanted.all() else chunk.headers[:, wanted]
                found = markers.read(Chunk(chunk.data, headers, chunk.position)).markers
                yield Batches(split, chunk, headers, found)
                follower.note_returned(int(headers[batch_headers.LAST_OFFSET, -1]))
            if source.next_offset is not None:
                follower.note_passed(source.next_offset)
        source.finish()
        follower.note_end(source)
        if split.is_of_last and not source.is_done and any(source.read_at(end, kafka_format.MAGIC_END)):
            notes.torn = split.path, end, split.segment_size - end
    notes.errors += damage.skipped


def _select(headers: HeaderTable, bounds: ScanBounds) -> npt.NDArray[np.bool_]:
    """Marks the batches that may hold a wanted row. headers: of a chunk, which ends where the wanted offsets do."""
    times = bounds.times
    wanted = headers[batch_headers.LAST_OFFSET] >= bounds.offsets.start
    begins_after = headers[batch_headers.BASE_OFFSET] >= bounds.offsets.end
    # a wrapper of magic 0 or 1 states its last offset alone
    wanted &= ~(begins_after & (headers[batch_headers.MAGIC] == kafka_format.MAGIC_V2))
    if times.has_since or times.has_until:
        first, largest = time_span(headers)
        wanted &= largest >= times.since
        if times.has_until:
            wanted &= first < times.until
    return np.asarray(wanted)
