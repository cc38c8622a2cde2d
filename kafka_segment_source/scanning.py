"""Reads splits as record batches. This one page has all steps of a task. Spark's tasks and `ReadPlan.to_reader` use
it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from kafka_segment_source.data_loss import report_lost_rows
from kafka_segment_source.decoding.arrow import to_record_batch
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile, open_split
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.errors import DataLossError
from kafka_segment_source.kernels.record_batches import OFFSET
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reading.committed import committed_chunks
from kafka_segment_source.reading.following import Follower
from kafka_segment_source.reading.mending import damage_in
from kafka_segment_source.storage.files import InputFile

_MOST_BEGUN = 24 * 1024 * 1024  # bytes of the next splits that are fetched while one is read
_MOST_FILES = 64  # of these splits


def read_splits(
    splits: Iterable[SegmentSplit],
    options: ReadOptions,
    schema: pa.Schema,
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of splits, one split after another. It opens a split only when a row of it is needed.

    advance: is called with the size of each split that is done.
    """
    begun: deque[_Begun] = deque()
    try:
        for begun_split in _begin_ahead(splits, begun):
            yield from read_split(begun_split.split, options, schema, begun_split.file)
            advance(begun_split.split.size)
    finally:
        for each in begun:
            if each.file is not None:
                each.file.close()


class _Begun(NamedTuple):
    """A split, and its file if its bytes are being fetched already."""

    split: SegmentSplit
    file: InputFile | None


def _begin_ahead(splits: Iterable[SegmentSplit], begun: deque[_Begun]) -> Iterator[_Begun]:
    """Yields the splits. Where a read takes a round trip, the bytes of the next ones in `begun` are under way.

    These have at most `_MOST_BEGUN` bytes, or there is one of them.
    """
    todo = iter(splits)
    following = next(todo, None)
    size = 0
    while begun or following is not None:
        while following is not None and (not begun or _fits(following, size, len(begun))):
            is_remote = following.storage.read_cost(following.path).at_once > 1
            begun.append(_Begun(following, open_split(following) if is_remote else None))
            size += following.size
            following = next(todo, None)
        size -= begun[0].split.size
        yield begun.popleft()


def _fits(split: SegmentSplit, size: int, count: int) -> bool:
    """Whether a split is begun beside `count` others of `size` bytes."""
    is_remote = split.storage.read_cost(split.path).at_once > 1
    return is_remote and count < _MOST_FILES and size + split.size <= _MOST_BEGUN


def read_split(
    split: SegmentSplit, options: ReadOptions, schema: pa.Schema, file: InputFile | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one split as batches of exactly `schema`, in offset order. No batch is empty.

    file: from `open_split`, if it is open already. It is closed in the end.

    Raises DataError for damage, and DataLossError for records that no longer exist. failOnDataLoss=false logs the
    latter.
    """
    follower = Follower(split, options, microseconds="timestamp" in schema.names)
    try:
        yield from follower.run(
            lambda part: _read_part(part, options, schema, follower, file if part is split else None)
        )
    except DataLossError as error:
        report_lost_rows(error, options)


def _read_part(
    split: SegmentSplit, options: ReadOptions, schema: pa.Schema, follower: Follower, file: InputFile | None
) -> Iterator[pa.RecordBatch]:
    damage = damage_in(split, options)
    builders = RECORDS.load_builders()
    with SplitFile(split, options.trust, damage, file=file) as source:
        decoder = source.decoder(options.include_control, microseconds="timestamp" in schema.names)
        chunks = source.chunks()
        if options.read_committed:
            chunks = committed_chunks(chunks, source, options)
        for chunk in chunks:
            for records in decoder.decode(chunk):
                last = int(records.longs[OFFSET, records.count - 1])
                yield to_record_batch(records, split, schema, builders)
                follower.note_returned(last)
            follower.note_passed(source)
        source.finish()
        follower.note_end(source)
