"""Reads splits as record batches. This one page has all steps of a task. Spark's tasks and `ReadPlan.to_reader` use
it.

With several threads (`in_order.py`), one thread at a time walks over the splits: it opens files, reads, and proves
batches. The decoding of a chunk depends on no other chunk, so the threads decode several at a time. The caller's thread
puts the rows in order, and follows a split whose file was replaced. So rows and errors come as with one thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from kafka_segment_source.data_loss import report_lost_rows
from kafka_segment_source.decoding.batches import Chunk, TakeBuffer
from kafka_segment_source.decoding.damage import damage_in
from kafka_segment_source.decoding.scratch import Scratch, lend_scratch
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile, open_split
from kafka_segment_source.decoding.tables import RowMaker, reads_headers_only, split_table
from kafka_segment_source.errors import DataLossError
from kafka_segment_source.in_order import InOrder
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reading.following import Follower
from kafka_segment_source.storage.files import Bytes, InputFile

_MOST_BEGUN = 24 * 1024 * 1024  # bytes of the next splits that are fetched while one is read
_MOST_FILES = 64  # of these splits
_MOST_WAITING = 8 * 1024 * 1024  # bytes of rows for each thread that may wait for their turn

_Rows = tuple[pa.RecordBatch, int]  # and their last offset


def read_splits(
    splits: Iterable[SegmentSplit],
    options: ReadOptions,
    schema: pa.Schema,
    advance: Callable[[int], None] = lambda _: None,
    threads: int = 1,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of splits, one split after another. It opens a split only when a row of it is needed.

    advance: is called with the size of each split that is done. threads: decode at the same time. With more than one,
    the next splits are opened early.
    """
    if options.typed is not None:
        yield from options.typed.read(
            partial(_read_splits, splits, schema=schema, advance=advance, threads=threads), options
        )
    else:
        yield from _read_splits(splits, options, schema, advance, threads)


def _read_splits(
    splits: Iterable[SegmentSplit],
    options: ReadOptions,
    schema: pa.Schema,
    advance: Callable[[int], None],
    threads: int,
) -> Iterator[pa.RecordBatch]:
    if threads > 1:
        yield from _read_in_threads(tuple(splits), options, schema, advance, threads)
        return
    ahead = _Ahead(splits)
    try:
        while (present := ahead.take()) is not None:
            for batch in read_split(present.split, options, schema, present.file):
                yield batch
                ahead.begin_after(present)
            advance(present.split.size)
    finally:
        ahead.close()


class _Begun(NamedTuple):
    """A split, and its file if its bytes are being fetched already."""

    split: SegmentSplit
    file: InputFile | None


class _Ahead:
    """The splits of a task. Where a read takes a round trip, the bytes of the next ones are under way.

    These have at most `_MOST_BEGUN` bytes. A larger split is begun when all of the one before it is under way.
    """

    def __init__(self, splits: Iterable[SegmentSplit]) -> None:
        self._todo = iter(splits)
        self._begun: deque[_Begun] = deque()
        self._size = 0  # bytes of the begun ones
        self._look_at_next()

    def take(self) -> _Begun | None:
        """Returns the next split, or None if there is none."""
        while self._following is not None and (not self._begun or self._fits(self._following)):
            self._begin(self._following)
        if not self._begun:
            return None
        self._size -= self._begun[0].split.size
        return self._begun.popleft()

    def begin_after(self, present: _Begun) -> None:
        """Begins the next split if no range of the present one is left to ask for."""
        if self._following is None or self._begun or present.file is None:
            return
        if present.file.is_all_under_way():
            self._begin(self._following)

    def close(self) -> None:
        """Ends what was begun."""
        for each in self._begun:
            if each.file is not None:
                each.file.close()

    def _begin(self, split: SegmentSplit) -> None:
        self._begun.append(_Begun(split, open_split(split) if self._is_far else None))
        self._size += split.size
        self._look_at_next()

    def _look_at_next(self) -> None:
        self._following = next(self._todo, None)
        self._is_far = self._following is not None and _takes_round_trips(self._following)

    def _fits(self, split: SegmentSplit) -> bool:
        return self._is_far and len(self._begun) < _MOST_FILES and self._size + split.size <= _MOST_BEGUN


def _takes_round_trips(split: SegmentSplit) -> bool:
    return split.storage.read_cost(split.path).at_once > 1


def read_split(
    split: SegmentSplit, options: ReadOptions, schema: pa.Schema, file: InputFile | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one split as batches of exactly `schema`, in offset order. No batch is empty.

    file: from `open_split`, if it is open already. It is closed in the end.

    Raises DataError for damage, and DataLossError for records that no longer exist. failOnDataLoss=false logs the
    latter.
    """
    return _follow(split, options, schema, lambda follower: _read_part(split, options, schema, follower, file))


def _follow(
    split: SegmentSplit,
    options: ReadOptions,
    schema: pa.Schema,
    read_first: Callable[[Follower], Iterator[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a split by `read_first`, and then of the splits that hold the rest of its offsets, if any."""
    follower = Follower(split, options, microseconds="timestamp" in schema.names)
    try:
        yield from follower.run(
            lambda part: read_first(follower) if part is split else _read_part(part, options, schema, follower, None)
        )
    except DataLossError as error:
        report_lost_rows(error, options)


def _read_part(
    split: SegmentSplit, options: ReadOptions, schema: pa.Schema, follower: Follower, file: InputFile | None
) -> Iterator[pa.RecordBatch]:
    make_rows = split_table(options).load_maker()
    with lend_scratch() as scratch, _open_part(split, options, file, scratch.take_buffer) as source:
        maker = make_rows(source, options, schema, scratch)
        for chunk in _wanted_chunks(source, options):
            for batch, last in maker.rows(chunk):
                yield batch
                follower.note_returned(last)
            follower.note_passed(source.next_offset)
        source.finish()
        follower.note_end(source)


def _open_part(split: SegmentSplit, options: ReadOptions, file: InputFile | None, buffers: TakeBuffer) -> SplitFile:
    damage = damage_in(split, options)
    headers_only = reads_headers_only(options)
    return SplitFile(split, options.trust, damage, file=file, headers_only=headers_only, buffers=buffers)


def _wanted_chunks(source: SplitFile, options: ReadOptions) -> Iterator[Chunk]:
    if not options.read_committed:
        return source.chunks()
    from kafka_segment_source.reading.committed import committed_chunks  # noqa: PLC0415  # most reads do without

    return committed_chunks(source.chunks(), source, options)


# ---- several threads ----


def _read_in_threads(
    splits: Sequence[SegmentSplit],
    options: ReadOptions,
    schema: pa.Schema,
    advance: Callable[[int], None],
    threads: int,
) -> Iterator[pa.RecordBatch]:
    pieces = _walk(splits, options, schema)
    work: InOrder[_Piece, _Rows] = InOrder(pieces, threads, threads * _MOST_WAITING)
    with work:
        for number, split in enumerate(splits):
            yield from _follow(split, options, schema, partial(_collect, work, number))
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


def _walk(splits: Sequence[SegmentSplit], options: ReadOptions, schema: pa.Schema) -> Iterator[_Piece]:
    """Yields a piece for each chunk of each split, and one for the end of each split. One thread at a time is in it."""
    ahead = _Ahead(splits)
    number = 0
    spare: list[Scratch] = []
    try:
        while (present := ahead.take()) is not None:
            error = None
            try:
                for piece in _Part(number, present, options, schema, spare).pieces():
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
        self, number: int, present: _Begun, options: ReadOptions, schema: pa.Schema, spare: list[Scratch]
    ) -> None:
        self.number = number
        self.is_given_up = False  # its remaining rows are not wanted
        self._options = options
        self._schema = schema
        self._users = 1  # the walk, and each chunk in work
        self._lock = threading.Lock()
        self._free: list[_Desk] = []
        self._spare = spare
        self._source = _open_part(present.split, options, present.file, self._take_buffer)
        self._desk: _Desk | None = None  # for the next chunk

    def pieces(self) -> Iterator[_Piece]:
        """Yields its chunks. Raises the errors of the walk."""
        chunks = _wanted_chunks(self._source, self._options)
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
        make_rows = split_table(self._options).load_maker()
        return _Desk(make_rows(self._source, self._options, self._schema, scratch), scratch)

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
    """A chunk in work. number: of its split. next_offset: the offset after it, or None if that is not known."""

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
