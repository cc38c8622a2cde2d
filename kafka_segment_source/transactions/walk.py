"""Reads the batches of a log and the transaction markers among them.

`walk_file` reads the batches of one file. `walk_split` reads those of one split, from other copies too. `walk_after`
reads the batches that follow a chunk, as far as the log goes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange, ScanBounds
from kafka_segment_source.decoding.batches import CHUNK_BYTES, Chunk
from kafka_segment_source.decoding.damage import Damage, Suspicion, UnloggedDamage
from kafka_segment_source.decoding.header_table import is_control
from kafka_segment_source.decoding.split import BatchPlace, SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.errors import DataError, DataLossError, FileChangedError, KafkaSegmentError
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.checksums import crc_holds
from kafka_segment_source.reading.following import Follower, describe_gone, find_again
from kafka_segment_source.reading.losses import Lost
from kafka_segment_source.reading.mending import Piece, mend
from kafka_segment_source.source import Source
from kafka_segment_source.storage.files import UNUSABLE, file_version
from kafka_segment_source.storage.paths import join_path, parent_of
from kafka_segment_source.storage.retrying import Attempts
from kafka_segment_source.transactions.markers import MarkerReader, Markers
from kafka_segment_source.transactions.stretches import NO_HEADERS, Stretch, first_void, has_hidden_end
from kafka_segment_source.transactions.voids import Voids, list_copies_of
from kafka_segment_source.trust import Policy, Trust

_AHEAD_BYTES = 256 * 1024  # bytes per read on the way to a marker, which is usually near


def walk_split(
    split: SegmentSplit,
    source: Source,
    policy: Policy,
    *,
    after: int = 0,
    before: HeaderTable = NO_HEADERS,
    chunk_bytes: int = CHUNK_BYTES,
) -> Generator[Stretch, None, None]:
    """Yields the batches of one split inside its offsets.

    Raises CorruptRecordError for damage under FAILFAST, and FileChangedError if the file is not the one that was
    planned. If there are several copies, damage and gaps are first searched in the others.

    after: the offset after the batch before them.
    before: the batches just before the split in its file, if they are known.
    """
    if split.copies:
        yield from _walk_copies(split, source, policy, after, before, chunk_bytes)
        return
    damage = UnloggedDamage(policy.drop_malformed)
    try:
        yield from walk_file(split, policy.trust, damage, after, before=before, chunk_bytes=chunk_bytes)
    except FileChangedError:
        raise
    except DataLossError as error:
        yield Stretch(loss=error)


def walk_file(
    split: SegmentSplit,
    trust: Trust,
    damage: Damage,
    after: int,
    *,
    before: HeaderTable = NO_HEADERS,
    chunk_bytes: int = CHUNK_BYTES,
    headers_only: bool = False,
    follower: Follower | None = None,
) -> Generator[Stretch, None, SegmentSplit | None]:
    """Yields the batches of one file inside the offsets of a split.

    Raises CorruptRecordError for damage that `damage` does not allow, FileChangedError if the file is not the one that
    was planned, and DataLossError if offsets are missing after it.

    after, before: as in `walk_split`.
    headers_only: only markers are proven by their CRC, and the bytes of other batches may not be read.
    follower: is told how far the walk has come.

    It returns None, or the rest of the split from where on each batch has to be proven: a marker there does not have
    the CRC that its header states. The usual reader knows whether this is damage or the end of the log.
    """
    seen, last, end = 0, split.anchor, after
    of_headers = trust._replace(check_crcs=False) if headers_only else trust
    reads_all = chunk_bytes >= CHUNK_BYTES
    with SplitFile(
        split, of_headers, damage, chunk_bytes=chunk_bytes, reads_all=reads_all, headers_only=headers_only
    ) as source:
        if before.shape[1]:
            source.note_before(before)
        reader = MarkerReader(split, trust, damage)
        for chunk in source.chunks():
            skipped = tuple(damage.skipped[seen:])
            inside = chunk.headers[batch_headers.LAST_OFFSET] >= split.bounds.offsets.start
            headers = chunk.headers if inside.all() else chunk.headers[:, inside]
            wanted = Chunk(chunk.data, headers, chunk.position)
            markers = (
                _read_proven(reader, wanted, source, trust.max_batch_bytes) if headers_only else reader.read(wanted)
            )
            if markers is None:
                bounds = ScanBounds(OffsetRange(end, split.bounds.offsets.end))
                at = int(chunk.headers[batch_headers.POSITION, 0])
                return split._replace(start=at, bounds=bounds, anchor=last if at else None)
            seen = len(damage.skipped)
            gaps = (end, *markers.gaps) if skipped else markers.gaps
            last, end = place_of_last(chunk.headers), int(chunk.headers[batch_headers.LAST_OFFSET, -1]) + 1
            yield Stretch(headers, markers.markers, gaps, skipped + markers.errors)
            if follower is not None:
                follower.note_passed(source.next_offset)
        skipped = tuple(damage.skipped[seen:])
        if skipped:
            yield Stretch(gaps=(end,), errors=skipped)
        source.finish()
        late = tuple(damage.skipped[seen + len(skipped) :])
        if late:
            yield Stretch(gaps=(end,), errors=late)
        if follower is not None:
            follower.note_end(source)
    return None


def _read_proven(reader: MarkerReader, chunk: Chunk, source: SplitFile, max_batch_bytes: int) -> Markers | None:
    """Reads the markers of a chunk that may have no bytes. None if one does not have its CRC, or is not whole."""
    markers = Markers()
    has_bytes = len(chunk.data) > 0
    for column in np.flatnonzero(is_control(chunk.headers)).tolist():
        position, size, crc = chunk.headers[
            [batch_headers.POSITION, batch_headers.SIZE, batch_headers.CRC], column
        ].tolist()
        at = position - chunk.position
        if size > max_batch_bytes:
            return None
        read = chunk.data[at : at + size] if has_bytes else bytearray(source.read_at(position, size))
        data = np.frombuffer(read, np.uint8)
        if len(data) < size or not crc_holds(memoryview(data), kafka_format.MAGIC_V2, crc):  # type: ignore[arg-type]  # arrays are buffers
            return None
        if not has_bytes:
            one = reader.read(Chunk(data, chunk.headers[:, [column]], position))
            markers = Markers(markers.markers + one.markers, markers.errors + one.errors)
    return reader.read(chunk) if has_bytes else markers


def place_of_last(headers: HeaderTable) -> BatchPlace:
    """Returns the place of the last of some batches."""
    return BatchPlace(*headers[[batch_headers.POSITION, batch_headers.BASE_OFFSET, batch_headers.CRC], -1].tolist())


def _walk_copies(
    split: SegmentSplit, source: Source, policy: Policy, after: int, before: HeaderTable, chunk_bytes: int
) -> Generator[Stretch, None, None]:
    """Walks a split whose partition has other copies. They are searched where one has damage."""
    pending: list[Piece] = [split]
    reached, mended_at = max(after, split.start_offset), -1
    while pending:
        piece = pending.pop(0)
        if isinstance(piece, Lost):
            reached = max(reached, piece.offsets.end)
            yield _describe_loss(piece, policy.drop_malformed)
            continue
        is_away = piece.path != split.path
        may_lack = mended_at >= 0  # whether batches may be gone before the next one
        try:
            for stretch in walk_file(piece, policy.trust, Suspicion(), reached, before=before, chunk_bytes=chunk_bytes):
                void = first_void(stretch, reached) if is_away or may_lack else None
                yield stretch._replace(void=void) if is_away or void == reached else stretch
                if stretch.headers.shape[1]:
                    may_lack = False
                    reached = int(stretch.headers[batch_headers.LAST_OFFSET, -1]) + 1
        except FileChangedError:
            raise
        except (DataError, DataLossError, *UNUSABLE) as error:
            if mended_at == reached:
                raise
            mended_at, before = reached, NO_HEADERS
            pending = mend(split, OffsetRange(reached, split.span.end), source, policy, error, piece)
    if mended_at >= 0 and has_hidden_end(split, reached):
        yield Stretch(void=reached)


def _describe_loss(lost: Lost, drop_malformed: bool) -> Stretch:
    """Returns what the loss of offsets means for transactions. Raises the error of damage under FAILFAST."""
    if isinstance(lost.error, DataLossError):
        return Stretch(loss=lost.error)
    if isinstance(lost.error, DataError) and lost.error.is_skippable and drop_malformed:
        return Stretch(gaps=(lost.offsets.start,), errors=(lost.error,))
    raise lost.error


def walk_after(split: SegmentSplit, chunk: Chunk, source: Source, policy: Policy) -> Generator[Stretch, None, None]:
    """Yields the batches that follow a chunk of a split in the log.

    First comes the rest of its file as it was planned. Then come the segments with the next offsets, up to the end of
    the log at that time. It ends after a stretch that is followed by a loss.

    Raises CorruptRecordError for damage under FAILFAST, and FileChangedError if the log changes too fast to be read.
    """
    reached = int(chunk.headers[batch_headers.LAST_OFFSET, -1]) + 1
    own = _find_own_copy(split, source, policy)
    if own is not None:
        with suppress(DataError, DataLossError, *UNUSABLE):
            for stretch in _walk_on(own, chunk.headers, source, policy):
                if stretch.gaps or stretch.errors or stretch.loss is not None:
                    break
                yield stretch
                if stretch.headers.shape[1]:
                    reached = int(stretch.headers[batch_headers.LAST_OFFSET, -1]) + 1
    for stretch in _walk_on(split, chunk.headers, source, policy):
        is_known = stretch.headers.shape[1] > 0 and int(stretch.headers[batch_headers.LAST_OFFSET, -1]) < reached
        if not is_known:
            yield stretch._replace(gaps=tuple(gap for gap in stretch.gaps if gap >= reached))


def _find_own_copy(split: SegmentSplit, source: Source, policy: Policy) -> SegmentSplit | None:
    """Returns the split as a part of its own copy alone, if other copies are read after it. None if none are.

    The topic is compacted. The copy is read as far as its history counts. A cleaner removes a marker only after the
    records of its transaction. So a copy that has the records has their marker, whatever other cleaners have removed.
    """
    if not split.copies or split.served_to == kafka_format.MAX_OFFSET:
        return None
    try:
        copies = list_copies_of(split, source, policy)
    except KafkaSegmentError:
        return None
    if not any(copy.log.compacted for copy in copies):
        return None
    directory = parent_of(split.path)
    end = next((copy.log.offsets.end for copy in copies if copy.log.directory == directory and copy.log.is_whole), 0)
    return split._replace(copies=(), asks_in_gaps=False, served_to=end) if end > split.served_to else None


def _walk_on(
    split: SegmentSplit, before: HeaderTable, source: Source, policy: Policy
) -> Generator[Stretch, None, None]:
    """Yields the batches that follow some batches of a split, as `walk_after` does. before: these batches."""
    last = place_of_last(before)
    reached = int(before[batch_headers.LAST_OFFSET, -1]) + 1
    position = int(before[batch_headers.POSITION, -1] + before[batch_headers.SIZE, -1])
    bounds = ScanBounds(OffsetRange(reached, split.served_to))
    rest = split._replace(start=position, end=split.segment_size, bounds=bounds, stop_timestamp=None, anchor=last)
    named = _find_by_name(split, split.next_base_offset, reached)  # where these segments end is not known
    pending: Iterator[SegmentSplit] = iter([rest, *named])
    voids = Voids(split, source, policy)
    end = kafka_format.MAX_OFFSET if split.copies else split.served_to  # a listing of one copy shows no other history
    part = split  # the part that was read last
    attempts = Attempts()
    named_at = listed_at = -1  # the offsets at which a file was last searched by its name, and in a listing
    before = before.copy()
    while True:
        is_in_doubt = False  # whether a batch of a segment found by its name may lie behind the segment's end
        try:
            for part in pending:
                stretches = walk_split(part, source, policy, after=reached, before=before, chunk_bytes=_AHEAD_BYTES)
                before = NO_HEADERS
                voids.note_part(part)
                for stretch in stretches:
                    is_in_doubt = part in named and first_void(stretch, reached) is not None
                    if is_in_doubt:
                        break
                    void = voids.find_first(stretch, reached)
                    yield stretch if void is None else stretch._replace(gaps=(*stretch.gaps, void))
                    if stretch.loss is not None:
                        return
                    if stretch.headers.shape[1]:
                        reached = int(stretch.headers[batch_headers.LAST_OFFSET, -1]) + 1
                        attempts.note_progress()
                if is_in_doubt:
                    break
            if listed_at == reached:
                return
            if named_at != reached and not is_in_doubt:
                named_at = reached
                named = _find_by_name(part, reached, reached)
                pending = iter(named)
                continue
            listed_at, named = reached, []
            wanted = split._replace(bounds=ScanBounds(OffsetRange(end=end)), stop_timestamp=None)
            again = find_again(wanted, OffsetRange(reached, end), source, policy)
        except FileChangedError as error:
            attempts.note_failure(error)
            pending, named_at, listed_at = iter(()), reached, -1
            continue
        gone = min(again.lost, key=lambda lost: lost.offsets.start, default=None)
        if gone is not None and (gone.offsets.start <= reached or not split.copies):
            yield Stretch(loss=DataLossError(f"{describe_gone(split, gone.offsets)}: {gone.why}"))
            return
        pending = _select_parts_below(again.splits, kafka_format.MAX_OFFSET if gone is None else gone.offsets.start)


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
    name = kafka_format.segment_file(base_offset)
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
