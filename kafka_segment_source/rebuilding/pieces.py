"""One split → the batches that a rebuilt log takes of it, with their bytes.

It takes the steps of a read (`scanning.py`), but the last: batches are not decoded. So every batch has the CRC that it
states, damage is searched in the other copies, and what the options do not allow ends it in the error of a read.

A batch is wanted if it may hold a wanted row (docs/rebuild.md):

- By offsets: one of its offsets lies in the bounds.
- By time: the time from its first record's timestamp to its largest one has a part in the bounds. The markers of other
  times come too if they are asked for: a transaction without its own would end with the next one of its producer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange, TimeRange
from kafka_segment_source.data_loss import report_lost_rows
from kafka_segment_source.decoding.batch_rows import time_span
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.damage import damage_in
from kafka_segment_source.decoding.header_table import Mask, is_control
from kafka_segment_source.decoding.scratch import lend_scratch
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.errors import DataLossError, KafkaSegmentError
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.reading.following import Follower
from kafka_segment_source.source import Source
from kafka_segment_source.transactions.markers import Marker, MarkerReader
from kafka_segment_source.trust import Policy


@dataclass(frozen=True, slots=True)
class Batches:
    """Wanted batches of one chunk. The bytes are valid until the next ones are asked for.

    headers: int64[FIELDS, n], n ≥ 1. Positions are those of the source's file.
    markers: the transaction markers among them.
    is_extra: bool[n], the markers that are not of the wanted time.
    """

    split: SegmentSplit
    chunk: Chunk
    headers: HeaderTable
    markers: tuple[Marker, ...]
    is_extra: npt.NDArray[np.bool_]

    def select(self, kept: npt.NDArray[np.bool_]) -> Batches:
        """Returns some of the batches. kept: bool[n]."""
        headers = self.headers[:, kept]
        offsets = set(headers[batch_headers.BASE_OFFSET].tolist())
        markers = tuple(marker for marker in self.markers if marker.offset in offsets)
        return Batches(self.split, self.chunk, headers, markers, self.is_extra[kept])

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

    errors: why, in order.
    torn: the last file that was read to its end, and where its last whole batch ends, if bytes follow it that are no
    preallocated zeros.
    """

    errors: list[KafkaSegmentError] = field(default_factory=list)
    torn: tuple[str, int, int] | None = None  # path, position, bytes


def read_batches(
    split: SegmentSplit, source: Source, policy: Policy, notes: Notes, times: TimeRange, adds_markers: bool = False
) -> Iterator[Batches]:
    """Yields the wanted batches of a split, in offset order. Raises what a read of the split raises.

    times: the wanted time. adds_markers: whether the transaction markers of other times come too.
    """
    follower = Follower(split, source, policy)
    try:
        yield from follower.run(lambda part: _read_part(part, policy, follower, notes, times, adds_markers))
    except DataLossError as error:
        report_lost_rows(error, policy)
        notes.errors.append(error)
    finally:
        notes.errors += follower.passed


def _read_part(
    split: SegmentSplit,
    policy: Policy,
    follower: Follower,
    notes: Notes,
    times: TimeRange,
    adds_markers: bool,
) -> Iterator[Batches]:
    damage = damage_in(split, policy)
    notes.torn = None
    with lend_scratch() as scratch, SplitFile(split, policy.trust, damage, buffers=scratch.take_buffer) as source:
        markers = MarkerReader(split, policy.trust, damage)
        end = split.start
        for chunk in source.chunks():
            end = int(chunk.headers[[batch_headers.POSITION, batch_headers.SIZE], -1].sum())
            within, timely = _select(chunk.headers, split.bounds.offsets, times)
            is_extra = within & ~timely & is_control(chunk.headers) if adds_markers else np.zeros_like(within)
            wanted = (within & timely) | is_extra
            if wanted.any():
                headers = chunk.headers if wanted.all() else chunk.headers[:, wanted]
                markers_found = markers.read(Chunk(chunk.data, headers, chunk.position)).markers
                yield Batches(split, chunk, headers, markers_found, is_extra[wanted])
                follower.note_returned(int(headers[batch_headers.LAST_OFFSET, -1]))
            if source.next_offset is not None:
                follower.note_passed(source.next_offset)
        source.finish()
        follower.note_end(source)
        if split.is_of_last and not source.is_done and any(source.read_at(end, kafka_format.MAGIC_END)):
            notes.torn = split.path, end, split.segment_size - end
    notes.errors += damage.skipped


def _select(headers: HeaderTable, offsets: OffsetRange, times: TimeRange) -> tuple[Mask, Mask]:
    """Marks the batches that may hold a wanted offset, and those that may hold a row of the wanted time.

    headers: of a chunk, which ends where the wanted offsets do.
    """
    within = headers[batch_headers.LAST_OFFSET] >= offsets.start
    begins_after = headers[batch_headers.BASE_OFFSET] >= offsets.end
    # a wrapper of magic 0 or 1 states its last offset alone
    within &= ~(begins_after & (headers[batch_headers.MAGIC] == kafka_format.MAGIC_V2))
    timely = np.ones_like(within)
    if times.has_since or times.has_until:
        first, largest = time_span(headers)
        timely &= largest >= times.since
        if times.has_until:
            timely &= first < times.until
    return within, timely
