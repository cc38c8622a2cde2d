"""Reads splits as record batches in several threads, with the steps of `scanning.py`.

One thread at a time walks over the splits (`in_order.py`): it opens files, reads, and proves batches. The decoding of a
chunk depends on no other chunk, so the threads decode several at a time. The caller's thread puts the rows in order,
and follows a split whose file was replaced. So rows and errors come as with one thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.scratch import Scratch
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.tables import Reading, RowMaker
from kafka_segment_source.in_order import InOrder
from kafka_segment_source.option_values import NEWEST
from kafka_segment_source.reading.following import Follower
from kafka_segment_source.scanning import (
    BegunSplit,
    SplitsAhead,
    follow_split,
    note_misfits,
    open_part,
    read_one_by_one,
    wanted_chunks,
)
from kafka_segment_source.storage.files import Bytes

_BYTES_A_THREAD = 4 * 1024 * 1024  # of a partition
_MOST_WAITING = 8 * 1024 * 1024  # bytes of rows for each thread that may wait for their turn

_Rows = tuple[pa.RecordBatch, int]  # and their last offset


def read_splits_in_threads(
    splits: Sequence[SegmentSplit],
    reading: Reading,
    schema: pa.Schema,
    advance: Callable[[int], None],
    threads: int,
) -> Iterator[pa.RecordBatch]:
    """Yields what `scanning.read_splits` yields. `threads` of them decode at the same time, and open the next splits
    early."""
    if reading.content.view == NEWEST:
        from kafka_segment_source.latest.newest_records import read_newest  # noqa: PLC0415  # most reads do without

        read_some = partial(_read_partition, threads=threads)
        read = partial(read_newest, splits, schema=schema, advance=advance, read_splits=read_some)
    else:
        read = partial(_read_in_order, splits, schema=schema, advance=advance, threads=threads)
    yield from note_misfits(read, reading)


def _read_partition(
    splits: Sequence[SegmentSplit],
    reading: Reading,
    schema: pa.Schema,
    advance: Callable[[int], None],
    threads: int,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of some splits of one partition. Threads are started for each partition anew, so little data
    takes one. Fewer bytes wait than in other reads, as a map of the keys takes memory too."""
    useful = min(threads, sum(split.size for split in splits) // _BYTES_A_THREAD)
    if useful <= 1:
        yield from read_one_by_one(splits, reading, schema, advance)
    else:
        yield from _read_in_order(splits, reading, schema, advance, useful, _MOST_WAITING // 2)


def _read_in_order(
    splits: Sequence[SegmentSplit],
    reading: Reading,
    schema: pa.Schema,
    advance: Callable[[int], None],
    threads: int,
    most_waiting: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of splits. most_waiting: bytes for each thread; None: the usual ones."""
    most = threads * (_MOST_WAITING if most_waiting is None else most_waiting)
    pieces = _walk(splits, reading, schema)
    work: InOrder[_Piece, _Rows] = InOrder(pieces, threads, most)
    with work:
        for number, split in enumerate(splits):
            yield from follow_split(split, reading, schema, partial(_collect, work, number))
            advance(split.size)


def _collect(work: InOrder[_Piece, _Rows], number: int, follower: Follower) -> Iterator[pa.RecordBatch]:
    """Yields the rows that threads have made of split `number`. Raises the error that ended it, in its place."""
    while (piece := work.next_piece()) is not None:
        if piece.number < number:
            continue  # that split was given up, and other files gave the rest of its rows
        try:
            for batch, last in work.results():
                yield batch
                follower.note_returned(last)
        except BaseException:
            piece.give_up()
            raise
        if piece.is_end:
            return
        follower.note_passed(piece.next_offset)


def _walk(splits: Sequence[SegmentSplit], reading: Reading, schema: pa.Schema) -> Iterator[_Piece]:
    """Yields a piece for each chunk of each split, and one for the end of each split. One thread at a time is in it."""
    ahead = SplitsAhead(splits)
    number = 0
    spare: list[Scratch] = []
    try:
        while (present := ahead.take()) is not None:
            error = None
            try:
                for piece in _Part(number, present, reading, schema, spare).pieces():
                    yield piece
                    ahead.begin_after(present)
            except Exception as raised:
                error = raised
            yield _End(number, error)
            number += 1
    finally:
        ahead.close()


class _Part:
    """The open file of a split, which is closed when the walk has left it and no chunk of it is in work.

    spare: arrays that no part uses.
    """

    def __init__(
        self, number: int, present: BegunSplit, reading: Reading, schema: pa.Schema, spare: list[Scratch]
    ) -> None:
        self.number = number
        self.is_given_up = False  # its remaining rows are not wanted
        self._reading = reading
        self._schema = schema
        self._users = 1  # the walk, and each chunk in work
        self._lock = threading.Lock()
        self._free: list[_Desk] = []
        self._spare = spare
        self._source = open_part(present.split, reading, present.file, self._take_buffer)
        self._desk: _Desk | None = None  # for the next chunk

    def pieces(self) -> Iterator[_Piece]:
        """Yields its chunks. Raises the errors of the walk."""
        chunks = wanted_chunks(self._source, self._reading)
        try:
            while not self.is_given_up:
                self._desk = self._free.pop() if self._free else self._make_desk()
                chunk = next(chunks, None)
                if chunk is None:
                    self._free.append(self._desk)
                    self._source.finish()
                    return
                with self._lock:
                    self._users += 1
                yield _Piece(self, self._desk, chunk, self._source.next_offset)
        finally:
            self._leave()

    def put_back(self, desk: _Desk) -> None:
        """Takes a desk back. Its chunk is no longer in work."""
        self._free.append(desk)
        self._leave()

    def _take_buffer(self, size: int) -> Bytes:
        assert self._desk is not None
        return self._desk.take_buffer(size)

    def _make_desk(self) -> _Desk:
        scratch = self._spare.pop() if self._spare else Scratch()
        make_rows = self._reading.table.load_maker()
        return _Desk(make_rows(self._source, self._reading.content, self._schema, scratch), scratch)

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._source.close()
                for desk in self._free:
                    desk.scratch.forget_large()
                    self._spare.append(desk.scratch)


class _Desk:
    """What one chunk in work needs for itself: a row maker with its arrays, and the bytes of the chunk."""

    def __init__(self, maker: RowMaker, scratch: Scratch) -> None:
        self.maker = maker
        self.scratch = scratch
        self._buffer: Bytes | None = None

    def take_buffer(self, size: int) -> Bytes:
        """Returns a buffer for the next chunk. The one before is no longer in work."""
        self._buffer = self.scratch.take_buffer(size)
        return self._buffer

    def keep(self, chunk: Chunk) -> Chunk:
        """Returns the chunk as it stays while the walk goes on. Rarely two chunks have the same bytes."""
        data = chunk.data if chunk.data is self._buffer else chunk.data.copy()
        return Chunk(data, chunk.headers.copy(), chunk.position)


class _Piece:
    """A chunk in work. number: of its split.

    next_offset: the offset after it, or None if that is not known.
    """

    is_end = False

    def __init__(self, part: _Part, desk: _Desk, chunk: Chunk, next_offset: int | None) -> None:
        self.number = part.number
        self.next_offset = next_offset
        self.size = len(chunk.data)
        self._part = part
        self._desk = desk
        self._chunk = desk.keep(chunk)

    def results(self) -> Iterator[tuple[_Rows, int]]:
        """Yields its rows, each Arrow batch with its last offset."""
        if not self._part.is_given_up:
            for batch, last in self._desk.maker.rows(self._chunk):
                yield (batch, last), batch.nbytes

    def release(self) -> None:
        """Its rows are made, or not wanted."""
        self._part.put_back(self._desk)

    def give_up(self) -> None:
        """The rest of its split is not wanted."""
        self._part.is_given_up = True


class _End(_Piece):
    """The end of a split's walk. It raises the error that ended the walk."""

    is_end = True

    def __init__(self, number: int, error: Exception | None) -> None:
        self.number = number
        self.next_offset = None
        self.size = 0
        self._error = error

    def results(self) -> Iterator[tuple[_Rows, int]]:
        if self._error is not None:
            raise self._error
        return iter(())

    def release(self) -> None:
        """It keeps nothing."""

    def give_up(self) -> None:
        """Nothing follows it."""
