"""Reads splits as record batches. This one page has all steps of a task. Spark's tasks and `ReadPlan.to_reader` use
it; `scanning_threads.py` takes the same steps in several threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from kafka_segment_source.data_loss import report_lost_rows
from kafka_segment_source.decoding.batches import Chunk, TakeBuffer
from kafka_segment_source.decoding.damage import damage_in
from kafka_segment_source.decoding.scratch import lend_scratch
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile, open_split
from kafka_segment_source.decoding.tables import Reading, reads_headers_only
from kafka_segment_source.errors import DataLossError
from kafka_segment_source.option_values import NEWEST
from kafka_segment_source.reading.following import Follower
from kafka_segment_source.storage.files import InputFile

_MOST_BEGUN = 24 * 1024 * 1024  # bytes of the next splits that are fetched while one is read
_MOST_FILES = 64  # of these splits


def read_splits(
    splits: Iterable[SegmentSplit],
    reading: Reading,
    schema: pa.Schema,
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of splits, one split after another. It opens a split only when a row of it is needed.

    advance: is called with the size of each split that is done.
    """
    if reading.content.view == NEWEST:
        from kafka_segment_source.latest.newest_records import read_newest  # noqa: PLC0415  # most reads do without

        read = partial(read_newest, splits, schema=schema, advance=advance, read_splits=read_one_by_one)
    else:
        read = partial(read_one_by_one, splits, schema=schema, advance=advance)
    yield from note_misfits(read, reading)


def note_misfits(read: Callable[..., Iterator[pa.RecordBatch]], reading: Reading) -> Iterator[pa.RecordBatch]:
    """Reads by `read`, which takes `reading`. Typed values that did not fit are said once, at the end."""
    typed = reading.content.typed
    return read(reading=reading) if typed is None else typed.read(read, reading)


def read_one_by_one(
    splits: Iterable[SegmentSplit], reading: Reading, schema: pa.Schema, advance: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    """Yields what is in the splits, one after another: all that `read_splits` does but for view=latest."""
    ahead = SplitsAhead(splits)
    try:
        while (present := ahead.take()) is not None:
            for batch in read_split(present.split, reading, schema, present.file):
                yield batch
                ahead.begin_after(present)
            advance(present.split.size)
    finally:
        ahead.close()


class BegunSplit(NamedTuple):
    """A split, and its file if its bytes are being fetched already."""

    split: SegmentSplit
    file: InputFile | None


class SplitsAhead:
    """The splits of a task. Where a read takes a round trip, the bytes of the next ones are under way.

    These have at most `_MOST_BEGUN` bytes. A larger split is begun when all of the one before it is under way.
    """

    def __init__(self, splits: Iterable[SegmentSplit]) -> None:
        self._todo = iter(splits)
        self._begun: deque[BegunSplit] = deque()
        self._size = 0  # bytes of the begun ones
        self._look_at_next()

    def take(self) -> BegunSplit | None:
        """Returns the next split, or None if there is none."""
        while self._following is not None and (not self._begun or self._fits(self._following)):
            self._begin(self._following)
        if not self._begun:
            return None
        self._size -= self._begun[0].split.size
        return self._begun.popleft()

    def begin_after(self, present: BegunSplit) -> None:
        """Begins the next split if no range of the present one is left to ask for."""
        if self._following is None or self._begun or present.file is None:
            return
        if present.file.is_all_under_way():
            self._begin(self._following)

    def close(self) -> None:
        """Ends what was begun."""
        for begun in self._begun:
            if begun.file is not None:
                begun.file.close()

    def _begin(self, split: SegmentSplit) -> None:
        self._begun.append(BegunSplit(split, open_split(split) if self._is_far else None))
        self._size += split.size
        self._look_at_next()

    def _look_at_next(self) -> None:
        self._following = next(self._todo, None)
        following = self._following
        self._is_far = following is not None and following.storage.read_cost(following.path).takes_round_trips

    def _fits(self, split: SegmentSplit) -> bool:
        return self._is_far and len(self._begun) < _MOST_FILES and self._size + split.size <= _MOST_BEGUN


def read_split(
    split: SegmentSplit,
    reading: Reading,
    schema: pa.Schema,
    file: InputFile | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one split as batches of exactly `schema`, in offset order. No batch is empty.

    file: from `open_split`, if it is open already. It is closed in the end.

    Raises DataError for damage, and DataLossError for records that no longer exist. failOnDataLoss=false logs the
    latter.
    """
    return follow_split(split, reading, schema, lambda follower: _read_part(split, reading, schema, follower, file))


def follow_split(
    split: SegmentSplit,
    reading: Reading,
    schema: pa.Schema,
    read_first: Callable[[Follower], Iterator[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a split by `read_first`, and then of the splits that hold the rest of its offsets, if any."""
    follower = Follower(split, reading.source, reading.policy, microseconds="timestamp" in schema.names)
    try:
        yield from follower.run(
            lambda part: read_first(follower) if part is split else _read_part(part, reading, schema, follower, None)
        )
    except DataLossError as error:
        report_lost_rows(error, reading.policy)


def _read_part(
    split: SegmentSplit,
    reading: Reading,
    schema: pa.Schema,
    follower: Follower,
    file: InputFile | None,
) -> Iterator[pa.RecordBatch]:
    make_rows = reading.table.load_maker()
    with lend_scratch() as scratch, open_part(split, reading, file, scratch.take_buffer) as source:
        maker = make_rows(source, reading.content, schema, scratch)
        for chunk in wanted_chunks(source, reading):
            for batch, last in maker.rows(chunk):
                yield batch
                follower.note_returned(last)
            follower.note_passed(source.next_offset)
        source.finish()
        follower.note_end(source)


def open_part(split: SegmentSplit, reading: Reading, file: InputFile | None, buffers: TakeBuffer) -> SplitFile:
    trust = reading.policy.trust
    damage = damage_in(split, reading.policy)
    headers_only = reads_headers_only(reading.content, trust)
    return SplitFile(split, trust, damage, file=file, headers_only=headers_only, buffers=buffers)


def wanted_chunks(source: SplitFile, reading: Reading) -> Iterator[Chunk]:
    if not reading.content.read_committed:
        return source.chunks()
    from kafka_segment_source.transactions.committed import committed_chunks  # noqa: PLC0415  # most reads do without

    return committed_chunks(source.chunks(), source, reading.source, reading.policy)
