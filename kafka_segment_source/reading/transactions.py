"""Finds the transactions that are open at the end of a log (driver), and the batches that were aborted (executor).

The next ABORT or COMMIT marker of producer p decides about a transactional batch of p. The producer id alone counts,
because a marker's epoch may be one above that of its data (`transaction.version=2`). Markers lie in the log, under the
CRC of their batches. So they are always there and can be trusted. Empty control batches, which compaction leaves, and
other types of control record have no meaning here. A marker without data ends nothing.

`committed_chunks` takes a split's chunks. It returns them without the batches that a read_committed consumer does not
get. It learns markers from the chunks themselves. If a producer's marker is not in the chunk, a second reader goes
ahead. It reads later segments too, up to the marker and no further. A chunk without a transactional batch costs
nothing.

Brokers answer from `.txnindex` files, but this module does not use them. They have no checksum. A lost file cannot be
distinguished from one that never existed. They would save the short look ahead only if an abort follows the range in
its segment.

A row is returned only if its COMMIT was read. So batches without a known marker are withheld, in two cases:

- Damage lies between a batch and the next marker of its producer (mode=DROPMALFORMED). It may have hit the marker, and
  the next one may belong to a later transaction. The batch is withheld. A warning names producer, offset and file.
- The log has no further marker of the producer, although the transaction ended before the last stable offset. So a
  segment is missing: DataLossError. Under failOnDataLoss=false the batch is withheld with such a warning.
"""

from __future__ import annotations

import os
from bisect import insort
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kafka_segment_source import format as fmt
from kafka_segment_source.bounds import OffsetRange, ScanBounds
from kafka_segment_source.decoding.batches import CHUNK_BYTES, Chunk, HeaderTable
from kafka_segment_source.decoding.damage import Damage, UnloggedDamage
from kafka_segment_source.decoding.faults import Faults
from kafka_segment_source.decoding.records import Decoder, RecordColumns
from kafka_segment_source.decoding.split import BatchPlace, SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.errors import DataError, DataLossError, FileChangedError
from kafka_segment_source.kernels import headers as h
from kafka_segment_source.kernels import record_batches as k
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reading.following import MOST_CHANGES_IN_A_ROW, find_again
from kafka_segment_source.reading.mending import Lost, Piece, Suspicion, mend
from kafka_segment_source.reporting import logger
from kafka_segment_source.storage.files import UNUSABLE, file_version

_AHEAD_BYTES = 256 * 1024  # bytes per read on the way to a marker, which is usually near

# Fates of a transactional batch
OPEN = 0  # no marker was read yet
COMMITTED = 1
ABORTED = 2
UNKNOWN = 3  # its marker may have been lost

_NO_HEADERS = np.empty((h.FIELDS, 0), np.int64)

Fates = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of a producer's transaction, at an offset."""

    producer_id: int
    offset: int
    aborts: bool


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive batches, and the markers among them.

    headers: the batches up to the next stretch.
    gaps: offsets before which damage was skipped. No batch below a gap can rely on a marker at or after it.
    errors: that damage.
    ends_in_loss: whether a segment is missing after it.
    void: the first offset from which on batches are gone, or None. Only set in a copy that the reading changed to.
    """

    headers: HeaderTable
    markers: tuple[Marker, ...]
    gaps: tuple[int, ...] = ()
    errors: tuple[DataError, ...] = ()
    ends_in_loss: bool = False
    void: int | None = None


def transactional_data(headers: HeaderTable) -> Mask:
    """Returns which batches hold data of a transaction."""
    transactional = headers[h.ATTRIBUTES] & (fmt.TRANSACTIONAL_MASK | fmt.CONTROL_MASK) == fmt.TRANSACTIONAL_MASK
    return np.asarray(transactional & _has_producer(headers))


def walk(
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
    with SplitFile(split, options.trust, damage, chunk_bytes=chunk_bytes) as source:
        if before.shape[1]:
            source.note_before(before)
        reader = _MarkerReader(split, options, damage if split.copies else None)
        seen = 0
        for chunk in source.chunks():
            inside = chunk.headers[:, chunk.headers[h.LAST_OFFSET] >= split.bounds.offsets.start]
            found = reader.read(Chunk(chunk.data, inside, chunk.position))
            skipped = tuple(damage.skipped[seen:])
            gaps = (end, *found.gaps) if skipped else found.gaps
            seen = len(damage.skipped)
            end = int(chunk.headers[h.LAST_OFFSET, -1]) + 1
            yield replace(found, gaps=gaps, errors=skipped + found.errors)
        skipped = tuple(damage.skipped[seen:])
        if skipped:
            yield Stretch(_NO_HEADERS, (), (end,), skipped)
        try:
            source.finish()
        except FileChangedError:
            raise
        except DataLossError:
            if split.copies:
                raise
            yield Stretch(_NO_HEADERS, (), ends_in_loss=True)


def _walk_copies(
    split: SegmentSplit, options: ReadOptions, after: int, before: HeaderTable, chunk_bytes: int
) -> Generator[Stretch, None, None]:
    """Does the same as `walk`, and searches other copies where one has damage."""
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
                    reached = int(stretch.headers[h.LAST_OFFSET, -1]) + 1
        except FileChangedError:
            raise
        except (DataError, DataLossError, *UNUSABLE) as error:
            if mended_at == reached:
                raise
            mended_at, before = reached, _NO_HEADERS
            end = fmt.MAX_OFFSET if split.end_offset is None else split.end_offset
            pending = mend(split, OffsetRange(reached, end), options, error)


def _describe_loss(lost: Lost, options: ReadOptions) -> Stretch:
    """Returns what the loss of offsets means for transactions. Raises the error of damage under FAILFAST."""
    if isinstance(lost.error, DataLossError):
        return Stretch(_NO_HEADERS, (), ends_in_loss=True)
    if isinstance(lost.error, DataError) and lost.error.is_skippable and options.drop_malformed:
        return Stretch(_NO_HEADERS, (), (lost.offsets.start,), (lost.error,))
    raise lost.error


def first_void(stretch: Stretch, reached: int) -> int | None:
    """Returns the first offset of a stretch after `reached` where batches or a marker are gone, or None."""
    headers = stretch.headers
    if not headers.shape[1]:
        return None
    before = np.concatenate(([reached], headers[h.LAST_OFFSET, :-1] + 1))
    gone = headers[h.BASE_OFFSET] > before
    gone |= (headers[h.ATTRIBUTES] & fmt.CONTROL_MASK != 0) & (headers[h.COUNT] == 0)
    return int(before[np.argmax(gone)]) if gone.any() else None


def committed_chunks(chunks: Iterator[Chunk], source: SplitFile, options: ReadOptions) -> Iterator[Chunk]:
    """Yields the chunks of `source` without batches whose transaction was aborted or is not known to be committed.

    Control batches stay. The plan's bounds end at the last stable offset, so rows after it are no concern here. Raises
    DataLossError if a transaction has no marker at all. Reading ahead may raise its errors too.
    """
    transactions = _SplitTransactions(source, options)
    try:
        for chunk in chunks:
            yield transactions.committed(chunk)
    finally:
        transactions.close()


class _SplitTransactions:
    """Decides about one split's chunks in order. It knows the markers of the current chunk and of the batches read
    ahead."""

    def __init__(self, source: SplitFile, options: ReadOptions) -> None:
        self._source = source
        self._split = source.split
        self._options = options
        self._own = _MarkerReader(source.split, options)
        self._known = _KnownMarkers()
        self._known_to = 0  # every marker below this offset, from the chunk at hand on, is known
        self._ahead: Generator[Stretch, None, None] | None = None
        self._reported: set[int] = set()

    def committed(self, chunk: Chunk) -> Chunk:
        """Returns the chunk without the batches that must be withheld."""
        data = transactional_data(chunk.headers)
        if not data.any():
            return chunk
        self._learn_markers(chunk)
        batches = chunk.headers[:, data]
        fates = self._known.fates(batches)
        undecided = fates == OPEN
        looks_ahead = bool(undecided.any())
        while undecided.any() and self._look_ahead(chunk):
            fates[undecided] = self._known.fates(batches[:, undecided])
            undecided = fates == OPEN
        if looks_ahead:
            # A cleaner removes a marker only after the records of its transaction. If these batches are still in the
            # log now, the markers that were read ahead are theirs.
            self._source.confirm()
        for fate in (OPEN, UNKNOWN):
            self._report_withheld(batches[:, fates == fate], fate)
        keep = ~data
        keep[data] = fates == COMMITTED
        return Chunk(chunk.data, chunk.headers[:, keep], chunk.position)

    def close(self) -> None:
        """Closes the file that is read ahead."""
        if self._ahead is not None:
            self._ahead.close()
        self._ahead = None

    def _learn_markers(self, chunk: Chunk) -> None:
        first, last = int(chunk.headers[h.BASE_OFFSET, 0]), int(chunk.headers[h.LAST_OFFSET, -1])
        if self._known_to <= first:
            self._known = _KnownMarkers()
        if self._known_to <= last:
            self._known.add(self._own.read(chunk), self._known_to)
            self._known_to = last + 1
            self.close()

    def _look_ahead(self, chunk: Chunk) -> bool:
        """Learns the markers of the next stretch ahead of the chunk. Returns False at the end of the log."""
        if self._ahead is None:
            self._ahead = _read_after(self._split, chunk, self._options)
        stretch = next(self._ahead, None)
        if stretch is None or stretch.ends_in_loss:
            return False
        self._known.add(stretch, self._known_to)
        if stretch.headers.shape[1]:
            self._known_to = max(self._known_to, int(stretch.headers[h.LAST_OFFSET, -1]) + 1)
        return True

    def _report_withheld(self, batches: HeaderTable, fate: int) -> None:
        """Handles batches that are withheld because their marker was not found: raises, or warns once for each
        producer."""
        for producer_id in np.unique(batches[h.PRODUCER_ID]).tolist():
            first = int(batches[h.BASE_OFFSET, batches[h.PRODUCER_ID] == producer_id].min())
            whose = f"the transaction of producer {producer_id} around offset {first} in {self._split.path}"
            if fate == OPEN and self._options.fail_on_data_loss:
                raise DataLossError(
                    f"{whose} has no marker in the files: its end, and with it a segment, is missing; failOnDataLoss=false"
                    " withholds what cannot be shown to be committed"
                )
            if producer_id not in self._reported:
                self._reported.add(producer_id)
                why = "no marker in the files" if fate == OPEN else "no marker before the next damage"
                logger.warning("withheld (isolationLevel=read_committed): %s has %s", whose, why)


def _read_after(split: SegmentSplit, chunk: Chunk, options: ReadOptions) -> Generator[Stretch, None, None]:
    """Yields the batches that follow a chunk of a split in the log.

    First comes the rest of its file as it was planned. Then come the segments with the next offsets, up to the end of
    the log at that time. It ends after a stretch that ends in loss.

    Raises CorruptRecordError for damage under FAILFAST, and FileChangedError if the log changes too fast to be read.
    """
    last = BatchPlace(*chunk.headers[[h.POSITION, h.BASE_OFFSET, h.CRC], -1].tolist())
    reached = int(chunk.headers[h.LAST_OFFSET, -1]) + 1
    position = int(chunk.headers[h.POSITION, -1] + chunk.headers[h.SIZE, -1])
    bounds = ScanBounds(OffsetRange(reached, split.served_to))
    rest = replace(split, start=position, end=split.segment_size, bounds=bounds, stop_timestamp=None, anchor=last)
    pending: Iterator[SegmentSplit] = iter([rest, *_find_by_name(split, split.next_base_offset, reached)])
    directory = os.path.dirname(split.path)
    part = split  # the part that was read last
    tries = 0
    named_at = listed_at = -1  # the offsets at which a file was last searched by its name, and in a listing
    before = chunk.headers.copy()
    while True:
        try:
            for part in pending:
                is_seam = bool(split.copies) and os.path.dirname(part.path) != directory
                stretches = walk(part, options, after=reached, before=before, chunk_bytes=_AHEAD_BYTES)
                before = _NO_HEADERS
                for stretch in stretches:
                    void = first_void(stretch, reached) if is_seam else stretch.void
                    yield stretch if void is None else replace(stretch, gaps=(*stretch.gaps, void))
                    if stretch.ends_in_loss:
                        return
                    if stretch.headers.shape[1]:
                        reached, tries = int(stretch.headers[h.LAST_OFFSET, -1]) + 1, 0
            if listed_at == reached:
                return
            if named_at != reached:
                named_at = reached
                pending = iter(_find_by_name(part, reached, reached))
                continue
            listed_at = reached
            wanted = replace(split, bounds=ScanBounds(), stop_timestamp=None)
            found = find_again(wanted, OffsetRange(reached), options)
        except FileChangedError:
            tries += 1
            if tries > MOST_CHANGES_IN_A_ROW:
                raise
            pending, named_at, listed_at = iter(()), reached, -1
            continue
        loss = min((offsets.start for _, offsets in found.lost), default=None)
        if loss is not None and (loss <= reached or not split.copies):
            yield Stretch(_NO_HEADERS, (), ends_in_loss=True)
            return
        pending = _select_parts_below(found.splits, fmt.MAX_OFFSET if loss is None else loss)


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
    name = f"{base_offset:0{fmt.BASE_OFFSET_DIGITS}d}{fmt.LOG_SUFFIX}"
    directory = os.path.dirname(split.path)
    path = os.path.join(directory, name)
    is_given = not split.copies or directory in split.copies or path in split.copies
    version = file_version(path) if is_given and path != split.path else None
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
        )
    ]


class _KnownMarkers:
    """Markers by producer, in offset order. Of equal markers in a row only the last is kept."""

    def __init__(self) -> None:
        self._runs: dict[int, tuple[list[int], list[int]]] = {}  # producer id → offsets, fates
        self._gaps: list[int] = []

    def add(self, stretch: Stretch, least: int) -> None:
        """Adds the markers of a stretch at offsets ≥ `least`. Those below are known already."""
        for gap in stretch.gaps:
            insort(self._gaps, gap)
        for marker in stretch.markers:
            if marker.offset >= least:
                self._add_marker(marker)

    def _add_marker(self, marker: Marker) -> None:
        offsets, fates = self._runs.setdefault(marker.producer_id, ([], []))
        fate = ABORTED if marker.aborts else COMMITTED
        gap_between = bool(self._gaps) and bool(offsets) and self._gaps[-1] > offsets[-1]
        if offsets and fates[-1] == fate and not gap_between:
            offsets[-1] = marker.offset
        else:
            offsets.append(marker.offset)
            fates.append(fate)

    def fates(self, batches: HeaderTable) -> Fates:
        """Returns the fate of each transactional batch by its next marker."""
        producers, offsets = batches[h.PRODUCER_ID], batches[h.BASE_OFFSET]
        found = np.zeros(len(producers), np.int8)
        next_marker = np.full(len(producers), fmt.MAX_OFFSET)
        order = np.argsort(producers, kind="stable")
        starts = np.flatnonzero(np.diff(producers[order], prepend=fmt.NO_PRODUCER))
        for own in np.split(order, starts[1:]):
            run_offsets, run_fates = self._runs.get(int(producers[own[0]]), ((), ())) if len(own) else ((), ())
            slots = np.searchsorted(np.array(run_offsets, np.int64), offsets[own], side="right")
            decided = slots < len(run_offsets)
            found[own[decided]] = np.array(run_fates, np.int8)[slots[decided]]
            next_marker[own[decided]] = np.array(run_offsets, np.int64)[slots[decided]]
        next_gap = np.append(np.array(self._gaps, np.int64), fmt.MAX_OFFSET)[
            np.searchsorted(np.array(self._gaps, np.int64), offsets, side="right")
        ]
        found[(next_gap < fmt.MAX_OFFSET) & (next_gap <= next_marker)] = UNKNOWN
        return found


class _MarkerReader:
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
            everything = replace(self._split, bounds=ScanBounds())
            self._made = Decoder(everything, self._options.trust, self._damage, include_control=True)
        return self._made

    def read(self, chunk: Chunk) -> Stretch:
        """Returns the chunk as a stretch. Under FAILFAST it raises CorruptRecordError for an unreadable control
        record."""
        control = (chunk.headers[h.ATTRIBUTES] & fmt.CONTROL_MASK != 0) & _has_producer(chunk.headers)
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
        lengths = records.ints[k.KEY_LENGTH, :n]
        self._check_keys(records, lengths)
        readable = lengths >= fmt.CONTROL_KEY_BYTES
        at = records.ints[k.KEY_AT, :n][readable]
        types = records.source[at + 2].astype(np.int64) << 8 | records.source[at + 3]
        producers = records.headers[h.PRODUCER_ID, records.ints[k.BATCH, :n][readable]]
        offsets = records.longs[k.OFFSET, :n][readable]
        for kind, producer_id, offset in zip(types.tolist(), producers.tolist(), offsets.tolist(), strict=True):
            if kind in (fmt.CONTROL_ABORT, fmt.CONTROL_COMMIT):
                yield Marker(producer_id, offset, kind == fmt.CONTROL_ABORT)

    def _check_keys(self, records: RecordColumns, lengths: npt.NDArray[np.int32]) -> None:
        for at in np.flatnonzero(lengths < fmt.CONTROL_KEY_BYTES).tolist():
            header = records.headers[:, records.ints[k.BATCH, at]]
            self._damage.report(Faults(self._split.path).short_control_key(header, int(lengths[at])))


def _has_producer(headers: HeaderTable) -> Mask:
    return np.asarray((headers[h.MAGIC] == fmt.MAGIC_V2) & (headers[h.PRODUCER_ID] > fmt.NO_PRODUCER))
