"""The rows of view=transactions: walks the batches of one partition in order.

It needs the headers of data batches and the whole control batches. So where batches are large and checkCrcs=false, only
headers are read (`decoding/header_walk.py`). A control batch is always proven by its CRC, since it decides the state.

`transaction_replay.py` follows the producers. The walk tells it where offsets are missing: after skipped damage (mode),
after a loss that failOnDataLoss allows, and wherever another copy leaves offsets out.

A file that was replaced during the walk may lack the marker of what was open before, as a cleaner removes transactions
together with their markers. So the log is listed again, and walked again from where the oldest open one begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import replace

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange, ScanBounds
from kafka_segment_source.data_loss import report_lost_rows
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.damage import Damage, Suspicion, UnloggedDamage
from kafka_segment_source.decoding.split import BatchPlace, SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.errors import DataLossError
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.logdir.checksums import crc_holds
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reading.following import MOST_CHANGES_IN_A_ROW, Follower, find_again
from kafka_segment_source.reading.marker_walk import Marker, MarkerReader, Stretch, first_void
from kafka_segment_source.reporting import logger
from kafka_segment_source.storage.paths import parent_of
from kafka_segment_source.storage.retrying import pause, try_again
from kafka_segment_source.views.abort_indexes import AbortIndexes
from kafka_segment_source.views.transaction_replay import Replay, Row, is_control
from kafka_segment_source.views.transaction_table import TransactionTask

_NO_HEADERS = np.empty((batch_headers.FIELDS, 0), np.int64)
_HOLE = Stretch(_NO_HEADERS, (), loss=DataLossError("offsets are missing"))  # where the follower has said so
_CHANGED = Stretch(_NO_HEADERS, ())  # before the batches of a file that replaced another one
_PLACE = [batch_headers.POSITION, batch_headers.BASE_OFFSET, batch_headers.CRC]


def find_transactions(task: TransactionTask, options: ReadOptions) -> Iterator[Row]:
    """Yields a row for each transaction of a partition: first those that ended, by their markers, then the open ones.

    Raises the errors of a read: for damage under FAILFAST, and for missing offsets under failOnDataLoss.
    """
    replay = Replay(task)
    indexes = AbortIndexes(task)
    pending = deque(task.splits)
    furthest, tries = 0, 0  # the last offset that was reached, and how often the walk went back since then
    while pending:
        split = pending.popleft()
        for stretch in _walk(split, options, replay):
            if replay.reached > furthest:
                furthest, tries = replay.reached, 0
            oldest = replay.find_oldest() if stretch is _CHANGED else None
            if oldest is None:
                yield from replay.add(stretch)
                continue
            tries += 1
            again = _list_again(split, OffsetRange(oldest, replay.reached), tries, options)
            if again is None:
                yield from replay.add(Stretch(_NO_HEADERS, (), (replay.reached,)))
                continue
            replay.go_back()
            pending = deque(again)
            break
        else:
            indexes.compare(split, replay)
    yield from replay.finish()


def _list_again(
    split: SegmentSplit, walked: OffsetRange, tries: int, options: ReadOptions
) -> list[SegmentSplit] | None:
    """Returns the splits of the log as it is now, from the start of `walked` on.

    None if some of the offsets that were walked are lost, or if the files change too often.
    """
    if tries > MOST_CHANGES_IN_A_ROW:
        return None
    pause(tries)

    def plan() -> tuple[list[SegmentSplit], bool]:
        found = find_again(split, OffsetRange(walked.start), options)
        return [*found.splits], any(not offsets.intersect(walked).is_empty for _, offsets in found.lost)

    splits, has_lost = try_again(plan)
    return None if has_lost else splits


def _walk(split: SegmentSplit, options: ReadOptions, replay: Replay) -> Iterator[Stretch]:
    """Yields the batches of one segment, wherever they are now. replay: knows how far the walk has come."""
    # other copies are searched by CRC, since only this shows which of them holds a marker whole
    follower = Follower(split, replace(options, check_crcs=True))

    def read(part: SegmentSplit) -> Iterator[Stretch]:
        directory = parent_of(part.path)
        is_other = bool(split.copies) and (part is not split or replay.directory not in ("", directory))
        replay.directory = directory
        if part is not split and not split.copies:
            yield _CHANGED
        for stretch in _read_part(part, options, follower):
            void = first_void(stretch, replay.reached) if is_other and replay.reached else None
            yield stretch if void is None else replace(stretch, gaps=(*stretch.gaps, void))

    losses = 0
    try:
        for stretch in follower.run(read):
            if follower.losses > losses:
                losses = follower.losses
                yield _HOLE
            yield stretch
    except DataLossError as error:
        report_lost_rows(error, options)
        follower.losses += 1
    if follower.losses > losses:
        yield _HOLE


def _read_part(part: SegmentSplit, options: ReadOptions, follower: Follower) -> Iterator[Stretch]:
    if options.check_crcs:
        yield from _read_batches(part, options, follower, proven=True)
        return
    rest = yield from _read_batches(part, options, follower, proven=False)
    if rest is not None:
        yield from _read_batches(rest, options, follower, proven=True)


def _read_batches(
    part: SegmentSplit, options: ReadOptions, follower: Follower, *, proven: bool
) -> Generator[Stretch, None, SegmentSplit | None]:
    """Yields the batches of one file. proven: whether every batch is proven by its CRC, and not only markers.

    It returns None, or the rest of the part from where on each batch has to be proven: a marker there does not have the
    CRC that its header states. The usual reader knows whether this is damage or the end of the log.
    """
    damage = Suspicion() if part.copies else UnloggedDamage(options.drop_malformed)
    seen, last, reached = 0, part.anchor, part.start_offset
    trust = options.trust._replace(check_crcs=proven)
    with SplitFile(part, trust, damage, headers_only=not proven) as source:
        reader = MarkerReader(part, options, damage)
        for chunk in source.chunks():
            seen, gaps = _report_skipped(damage, seen, (reached,))
            inside = chunk.headers[batch_headers.LAST_OFFSET] >= part.bounds.offsets.start
            headers = chunk.headers if inside.all() else chunk.headers[:, inside]
            found = _read_markers(reader, Chunk(chunk.data, headers, chunk.position), source, options, proven)
            if found is None:
                bounds = ScanBounds(OffsetRange(reached, part.bounds.offsets.end))
                at = int(chunk.headers[batch_headers.POSITION, 0])
                return part._replace(start=at, bounds=bounds, anchor=last if at else None)
            seen, _ = _report_skipped(damage, seen, ())
            last = BatchPlace(*chunk.headers[_PLACE, -1].tolist())
            reached = max(reached, int(chunk.headers[batch_headers.LAST_OFFSET, -1]) + 1)
            yield Stretch(headers, found.markers, gaps + found.gaps)
            follower.note_passed(source.next_offset)
        seen, gaps = _report_skipped(damage, seen, (reached,))
        if gaps:
            yield Stretch(_NO_HEADERS, (), gaps)
        source.finish()
        follower.note_end(source)
    return None


def _report_skipped(damage: Damage, seen: int, gaps: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Logs the damage that was skipped after the first `seen` errors. Returns the number of all, and `gaps` if it
    logged one."""
    for error in damage.skipped[seen:]:
        logger.warning("skipped (mode=DROPMALFORMED): %s", error)
    return len(damage.skipped), gaps if len(damage.skipped) > seen else ()


def _read_markers(
    reader: MarkerReader, chunk: Chunk, source: SplitFile, options: ReadOptions, proven: bool
) -> Stretch | None:
    """Reads the markers of a chunk. None if one does not have its CRC, or is not whole."""
    control = np.flatnonzero(is_control(chunk.headers))
    if not len(control) or (proven and len(chunk.data)):
        return reader.read(chunk)
    markers: list[Marker] = []
    gaps: list[int] = []
    has_bytes = len(chunk.data) > 0
    for column in control.tolist():
        position, size, crc = chunk.headers[
            [batch_headers.POSITION, batch_headers.SIZE, batch_headers.CRC], column
        ].tolist()
        at = position - chunk.position
        if size > options.max_batch_bytes:
            return None
        read = chunk.data[at : at + size] if has_bytes else bytearray(source.read_at(position, size))
        data = np.frombuffer(read, np.uint8)
        if len(data) < size or not crc_holds(memoryview(data), kafka_format.MAGIC_V2, crc):  # type: ignore[arg-type]  # arrays are buffers
            return None
        if not has_bytes:
            found = reader.read(Chunk(data, chunk.headers[:, [column]], position))
            markers += found.markers
            gaps += found.gaps
    return reader.read(chunk) if has_bytes else Stretch(chunk.headers, tuple(markers), tuple(gaps))
