"""Reads the batches of a log and the transaction markers among them.

`walk_split` reads the batches of one split. `walk_after` reads the batches that follow a chunk, as far as the log
goes.

Markers lie in the log, under the CRC of their batches. So they are always there and can be trusted. Empty control
batches, which compaction leaves, and other types of control record have no meaning here. A marker without data ends
nothing.

Brokers answer from `.txnindex` files, but this module does not use them. They have no checksum. A lost file cannot be
distinguished from one that never existed. They would save the short look ahead only if an abort follows the range in
its segment.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange, ScanBounds
from kafka_segment_source.decoding.batches import CHUNK_BYTES, Chunk
from kafka_segment_source.decoding.damage import Damage, Suspicion, UnloggedDamage
from kafka_segment_source.decoding.faults import Faults
from kafka_segment_source.decoding.records import Decoder, RecordColumns
from kafka_segment_source.decoding.split import BatchPlace, SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.errors import DataError, DataLossError, FileChangedError
from kafka_segment_source.kernels import batch_headers, record_batches
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reading.following import MOST_CHANGES_IN_A_ROW, describe_gone, find_again
from kafka_segment_source.reading.mending import Lost, Piece, mend
from kafka_segment_source.storage.files import UNUSABLE, file_version
from kafka_segment_source.storage.paths import join_path, parent_of

_AHEAD_BYTES = 256 * 1024  # bytes per read on the way to a marker, which is usually near
_NO_HEADERS = np.empty((batch_headers.FIELDS, 0), np.int64)

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of a producer's transaction, at an offset.

    timestamp: ms. coordinator_epoch: None if the value is null or too short.
    """

    producer_id: int
    offset: int
    aborts: bool
    timestamp: int = kafka_format.NO_TIMESTAMP
    coordinator_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive batches, and the markers among them.

    headers: the batches up to the next stretch.
    gaps: offsets before which damage was skipped. No batch below a gap can rely on a marker at or after it.
    errors: that damage.
    loss: the offsets that are missing after it, None if none are.
    void: the first offset from which on batches are gone, or None. Only set in a copy that the reading changed to.
    """

    headers: HeaderTable
    markers: tuple[Marker, ...]
    gaps: tuple[int, ...] = ()
    errors: tuple[DataError, ...] = ()
    loss: DataLossError | None = None
    void: int | None = None


def coordinator_epoch(value: bytes | None) -> int | None:
    """Reads the coordinator epoch from the value of a COMMIT or ABORT (`clients.EndTransactionMarker`).

    It is None if the value is null or too short.
    """
    if value is None or len(value) < kafka_format.END_MARKER_BYTES:
        return None
    return int.from_bytes(value[kafka_format.COORDINATOR_EPOCH_AT : kafka_format.END_MARKER_BYTES], "big", signed=True)


def transactional_data(headers: HeaderTable) -> Mask:
    """Returns which batches hold data of a transaction."""
    transactional = (
        headers[batch_headers.ATTRIBUTES] & (kafka_format.TRANSACTIONAL_MASK | kafka_format.CONTROL_MASK)
        == kafka_format.TRANSACTIONAL_MASK
    )
    return np.asarray(transactional & _has_producer(headers))


def walk_split(
    split: SegmentSplit,
    options: ReadOptions,
    *,
    after: int = 0,
    before: HeaderTable = _NO_HEADERS,
    chunk_bytes: int = CHUNK_BYTES,
) -> Generator[Stretch, None, None]:
    """Yields the batches of one split inside its offsets.

    Raises CorruptRecordError for damage under FAILFAST, and FileChangedError if the file is not the one that was
    planned. If there are several copies, damage and gaps are first searched in the others.

    after: the offset after the batch before them.
    before: the batches just before the split in its file, if they are known.
    """
    if split.copies:
        yield from _walk_copies(split, options, after, before, chunk_bytes)
    else:
        yield from _walk_file(split, options, after, before, chunk_bytes, UnloggedDamage(options.drop_malformed))


def _walk_file(
    split: SegmentSplit, options: ReadOptions, after: int, before: HeaderTable, chunk_bytes: int, damage: Damage
) -> Generator[Stretch, None, None]:
    end = after
    reads_all = chunk_bytes >= CHUNK_BYTES
    with SplitFile(split, options.trust, damage, chunk_bytes=chunk_bytes, reads_all=reads_all) as source:
        if before.shape[1]:
            source.note_before(before)
        reader = MarkerReader(split, options, damage if split.copies else None)
        seen = 0
        for chunk in source.chunks():
            inside = chunk.headers[:, chunk.headers[batch_headers.LAST_OFFSET] >= split.bounds.offsets.start]
            found = reader.read(Chunk(chunk.data, inside, chunk.position))
            skipped = tuple(damage.skipped[seen:])
            gaps = (end, *found.gaps) if skipped else found.gaps
            seen = len(damage.skipped)
            end = int(chunk.headers[batch_headers.LAST_OFFSET, -1]) + 1
            yield replace(found, gaps=gaps, errors=skipped + found.errors)
        skipped = tuple(damage.skipped[seen:])
        if skipped:
            yield Stretch(_NO_HEADERS, (), (end,), skipped)
        try:
            source.finish()
        except FileChangedError:
            raise
        except DataLossError as error:
            if split.copies:
                raise
            yield Stretch(_NO_HEADERS, (), loss=error)


def _walk_copies(
    split: SegmentSplit, options: ReadOptions, after: int, before: HeaderTable, chunk_bytes: int
) -> Generator[Stretch, None, None]:
    """Does the same as `walk_split`, and searches other copies where one has damage."""
    pending: list[Piece] = [split]
    reached, mended_at = max(after, split.start_offset), -1
    while pending:
        piece = pending.pop(0)
        if isinstance(piece, Lost):
            reached = max(reached, piece.offsets.end)
            yield _describe_loss(piece, options)
            continue
        try:
            for stretch in _walk_file(piece, options, reached, before, chunk_bytes, Suspicion()):
                yield stretch if piece.path == split.path else replace(stretch, void=first_void(stretch, reached))
                if stretch.headers.shape[1]:
                    reached = int(stretch.headers[batch_headers.LAST_OFFSET, -1]) + 1
        except FileChangedError:
            raise
        except (DataError, DataLossError, *UNUSABLE) as error:
            if mended_at == reached:
                raise
            mended_at, before = reached, _NO_HEADERS
            end = kafka_format.MAX_OFFSET if split.end_offset is None else split.end_offset
            pending = mend(split, OffsetRange(reached, end), options, error)


def _describe_loss(lost: Lost, options: ReadOptions) -> Stretch:
    """Returns what the loss of offsets means for transactions. Raises the error of damage under FAILFAST."""
    if isinstance(lost.error, DataLossError):
        return Stretch(_NO_HEADERS, (), loss=lost.error)
    if isinstance(lost.error, DataError) and lost.error.is_skippable and options.drop_malformed:
        return Stretch(_NO_HEADERS, (), (lost.offsets.start,), (lost.error,))
    raise lost.error


def first_void(stretch: Stretch, reached: int) -> int | None:
    """Returns the first offset of a stretch after `reached` where batches or a marker are gone, or None."""
    headers = stretch.headers
    if not headers.shape[1]:
        return None
    before = np.concatenate(([reached], headers[batch_headers.LAST_OFFSET, :-1] + 1))
    gone = headers[batch_headers.BASE_OFFSET] > before
    gone |= (headers[batch_headers.ATTRIBUTES] & kafka_format.CONTROL_MASK != 0) & (headers[batch_headers.COUNT] == 0)
    return int(before[np.argmax(gone)]) if gone.any() else None


def walk_after(split: SegmentSplit, chunk: Chunk, options: ReadOptions) -> Generator[Stretch, None, None]:
    """Yields the batches that follow a chunk of a split in the log.

    First comes the rest of its file as it was planned. Then come the segments with the next offsets, up to the end of
    the log at that time. It ends after a stretch that is followed by a loss.

    Raises CorruptRecordError for damage under FAILFAST, and FileChangedError if the log changes too fast to be read.
    """
    last = BatchPlace(
        *chunk.headers[[batch_headers.POSITION, batch_headers.BASE_OFFSET, batch_headers.CRC], -1].tolist()
    )
    reached = int(chunk.headers[batch_headers.LAST_OFFSET, -1]) + 1
    position = int(chunk.headers[batch_headers.POSITION, -1] + chunk.headers[batch_headers.SIZE, -1])
    bounds = ScanBounds(OffsetRange(reached, split.served_to))
    rest = split._replace(start=position, end=split.segment_size, bounds=bounds, stop_timestamp=None, anchor=last)
    pending: Iterator[SegmentSplit] = iter([rest, *_find_by_name(split, split.next_base_offset, reached)])
    directory = parent_of(split.path)
    part = split  # the part that was read last
    tries = 0
    named_at = listed_at = -1  # the offsets at which a file was last searched by its name, and in a listing
    before = chunk.headers.copy()
    while True:
        try:
            for part in pending:
                is_seam = bool(split.copies) and parent_of(part.path) != directory
                stretches = walk_split(part, options, after=reached, before=before, chunk_bytes=_AHEAD_BYTES)
                before = _NO_HEADERS
                for stretch in stretches:
                    void = first_void(stretch, reached) if is_seam else stretch.void
                    yield stretch if void is None else replace(stretch, gaps=(*stretch.gaps, void))
                    if stretch.loss is not None:
                        return
                    if stretch.headers.shape[1]:
                        reached, tries = int(stretch.headers[batch_headers.LAST_OFFSET, -1]) + 1, 0
            if listed_at == reached:
                return
            if named_at != reached:
                named_at = reached
                pending = iter(_find_by_name(part, reached, reached))
                continue
            listed_at = reached
            wanted = split._replace(bounds=ScanBounds(), stop_timestamp=None)
            found = find_again(wanted, OffsetRange(reached), options)
        except FileChangedError:
            tries += 1
            if tries > MOST_CHANGES_IN_A_ROW:
                raise
            pending, named_at, listed_at = iter(()), reached, -1
            continue
        why, lost = min(found.lost, key=lambda each: each[1].start, default=("", OffsetRange(kafka_format.MAX_OFFSET)))
        if why and (lost.start <= reached or not split.copies):
            yield Stretch(_NO_HEADERS, (), loss=DataLossError(f"{describe_gone(split, lost)}: {why}"))
            return
        pending = _select_parts_below(found.splits, lost.start)


def _select_parts_below(parts: Iterator[SegmentSplit], end: int) -> Iterator[SegmentSplit]:
    """Returns the parts that begin below an offset."""
    return (part for part in parts if part.start_offset < end)


def _find_by_name(split: SegmentSplit, base_offset: int | None, offset: int) -> list[SegmentSplit]:
    """Returns the segment with that base offset after a split's segment, from an offset on. The list has at most one
    split.

    The name alone identifies the file. Most markers are in it. To list a large directory for each of its segments would
    take quadratic time.

    The list is empty if the file does not exist or the base offset is not known. With several copies it is also empty
    if another copy is read from there on, or if the given paths do not include the file.
    """
    if base_offset is None or base_offset >= split.served_to:
        return []
    name = f"{base_offset:0{kafka_format.BASE_OFFSET_DIGITS}d}{kafka_format.LOG_SUFFIX}"
    directory = parent_of(split.path)
    path = join_path(directory, name)
    is_given = not split.copies or directory in split.copies or path in split.copies
    version = file_version(path, split.storage) if is_given and path != split.path else None
    if version is None:
        return []
    bounds = ScanBounds(OffsetRange(offset, split.served_to))
    return [
        SegmentSplit(
            path=path,
            topic=split.topic,
            partition=split.partition,
            start=0,
            end=version.size,
            segment_size=version.size,
            base_offset=base_offset,
            next_base_offset=None,
            bounds=bounds,
            version=version,
            copies=split.copies,
            served_to=split.served_to,
            storage=split.storage,
        )
    ]


class MarkerReader:
    """Reads the markers in chunks of one segment."""

    def __init__(self, split: SegmentSplit, options: ReadOptions, damage: Damage | None = None) -> None:
        self._split = split
        self._options = options
        self._damage = UnloggedDamage(options.drop_malformed) if damage is None else damage
        self._made: Decoder | None = None

    @property
    def _decoder(self) -> Decoder:
        """The decoder, made for the first marker. Most segments have none."""
        if self._made is None:
            everything = self._split._replace(bounds=ScanBounds())
            self._made = Decoder(everything, self._options.trust, self._damage, include_control=True)
        return self._made

    def read(self, chunk: Chunk) -> Stretch:
        """Returns the chunk as a stretch. Under FAILFAST it raises CorruptRecordError for an unreadable control
        record."""
        control = (chunk.headers[batch_headers.ATTRIBUTES] & kafka_format.CONTROL_MASK != 0) & _has_producer(
            chunk.headers
        )
        if not control.any():
            return Stretch(chunk.headers, ())
        seen = len(self._damage.skipped)
        markers: list[Marker] = []
        for records in self._decoder.decode(Chunk(chunk.data, chunk.headers[:, control], chunk.position)):
            markers += self._parse_markers(records)
        errors = tuple(self._damage.skipped[seen:])
        gaps = tuple(error.offset for error in errors if error.offset is not None)
        return Stretch(chunk.headers, tuple(markers), gaps, errors)

    def _parse_markers(self, records: RecordColumns) -> Iterator[Marker]:
        """Yields the markers among control records (Kafka: ControlRecordType.parse).

        Their keys may be longer than expected, and of a later version.
        """
        n = records.count
        lengths = records.ints[record_batches.KEY_LENGTH, :n]
        self._check_keys(records, lengths)
        readable = lengths >= kafka_format.CONTROL_KEY_BYTES
        at = records.ints[record_batches.KEY_AT, :n][readable]
        types = records.source[at + 2].astype(np.int64) << 8 | records.source[at + 3]
        producers = records.headers[batch_headers.PRODUCER_ID, records.ints[record_batches.BATCH, :n][readable]]
        offsets, times = records.longs[[record_batches.OFFSET, record_batches.TIMESTAMP], :n][:, readable]
        values = records.ints[[record_batches.VALUE_AT, record_batches.VALUE_LENGTH], :n][:, readable].T
        columns = (types.tolist(), producers.tolist(), offsets.tolist(), times.tolist(), values.tolist())
        for kind, producer_id, offset, timestamp, (value_at, length) in zip(*columns, strict=True):
            if kind in (kafka_format.CONTROL_ABORT, kafka_format.CONTROL_COMMIT):
                value = None if length < 0 else bytes(records.source[value_at : value_at + length])
                aborts = kind == kafka_format.CONTROL_ABORT
                yield Marker(producer_id, offset, aborts, timestamp, coordinator_epoch(value))

    def _check_keys(self, records: RecordColumns, lengths: npt.NDArray[np.int32]) -> None:
        for at in np.flatnonzero(lengths < kafka_format.CONTROL_KEY_BYTES).tolist():
            header = records.headers[:, records.ints[record_batches.BATCH, at]]
            self._damage.report(Faults(self._split.path).short_control_key(header, int(lengths[at])))


def _has_producer(headers: HeaderTable) -> Mask:
    return np.asarray(
        (headers[batch_headers.MAGIC] == kafka_format.MAGIC_V2)
        & (headers[batch_headers.PRODUCER_ID] > kafka_format.NO_PRODUCER)
    )
