"""Consecutive batches of a log with the markers among them, and what is not known between them.

Walks yield them (`walk.py`). The takers are reads with read_committed, the last stable offset, and view=transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.decoding.header_table import is_control
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.errors import DataError, DataLossError
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.transactions.markers import Marker

NO_HEADERS = np.empty((batch_headers.FIELDS, 0), np.int64)


class Stretch(NamedTuple):
    """Consecutive batches, and the markers among them.

    headers: the batches up to the next stretch.
    gaps: offsets before which damage was skipped. No batch below a gap can rely on a marker at or after it.
    errors: that damage.
    loss: the offsets that are missing after it, None if none are.
    void: the first offset from which on batches are gone, or None. Only set where the reading has changed its copy, and
        where other copies were searched for damage. Then also without headers: batches are gone at the end.
    """

    headers: HeaderTable = NO_HEADERS
    markers: tuple[Marker, ...] = ()
    gaps: tuple[int, ...] = ()
    errors: tuple[DataError, ...] = ()
    loss: DataLossError | None = None
    void: int | None = None


def first_void(stretch: Stretch, reached: int) -> int | None:
    """Returns the first offset of a stretch after `reached` where batches or a marker are gone, or None."""
    return next((void.start for void in find_voids(stretch, reached)), None)


def find_voids(stretch: Stretch, reached: int) -> Iterator[OffsetRange]:
    """Yields the offsets of a stretch after `reached` where batches or a marker are gone."""
    headers = stretch.headers
    starts = np.concatenate(([reached], headers[batch_headers.LAST_OFFSET, :-1] + 1))[: headers.shape[1]]
    is_emptied = is_control(headers) & (headers[batch_headers.COUNT] == 0)
    ends = np.where(is_emptied, headers[batch_headers.LAST_OFFSET] + 1, headers[batch_headers.BASE_OFFSET])
    gone = ends > starts
    yield from (OffsetRange(int(starts[at]), int(ends[at])) for at in np.flatnonzero(gone))


def cut_stretch(stretch: Stretch, offset: int) -> tuple[Stretch, Stretch]:
    """Cuts a stretch in two. The second part has what begins at `offset` or after it, and the damage and the loss."""
    is_before = stretch.headers[batch_headers.BASE_OFFSET] < offset
    first = Stretch(
        stretch.headers[:, is_before],
        tuple(marker for marker in stretch.markers if marker.offset < offset),
        tuple(gap for gap in stretch.gaps if gap < offset),
    )
    second = stretch._replace(
        headers=stretch.headers[:, ~is_before],
        markers=tuple(marker for marker in stretch.markers if marker.offset >= offset),
        gaps=tuple(gap for gap in stretch.gaps if gap >= offset),
    )
    return first, second


def has_hidden_end(split: SegmentSplit, reached: int) -> bool:
    """Whether a split that was mended from other copies goes on behind the last batch that any copy holds, at
    `reached`. What damage hides there may have been a marker."""
    end = min(split.span.end, split.bounds.offsets.end)
    return reached < end < kafka_format.MAX_OFFSET
