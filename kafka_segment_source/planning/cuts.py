"""One split → several splits of the same segment: by bytes for minPartitions, by offsets for maxRecordsPerPartition.

A cut is made where a proven batch begins. The pieces share no batch, and each piece returns only its own offsets. So no
row is lost or returned twice. A batch is cut inside, by offset, only if it may have more records than a piece may have.
Then both pieces read it. The size of the batch limits how many records it can hold, and so how many cuts it gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heapreplace
from typing import NamedTuple

import numpy as np

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.logdir.offset_proof import bears_out, limit_of, may_have_fallen, may_have_risen
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segment_view import SegmentView

# The number of cuts inside a batch depends on its offsets, but these may be wrong or wide. No checksum covers the
# offset of a magic 0 or 1 wrapper. Compaction may leave one record of a wide batch, or a wrapper far behind the batch
# before it. So the bytes of the batch limit the number of cuts. gzip makes at most 1,032 bytes of one byte, and a
# record takes 7.
_MOST_RECORDS_A_BYTE = 150


class _Cut(NamedTuple):
    """Where one piece ends and the next one begins.

    offset: the first offset of the next piece.
    end_before, start_after: byte positions, where the first piece ends and the next one starts. They differ only for a
    cut inside a batch.
    """

    offset: int
    end_before: int
    start_after: int


def count_pieces(sizes: Sequence[int], wanted: int) -> list[int]:
    """Counts the pieces of each split so that there are `wanted` pieces in all. The largest piece is cut first.

    Nearly all pieces come from one division, so the time depends on the number of splits alone. With pieces of
    total / (wanted - splits) bytes there are at most `wanted`, rounded up for each split. So no split gets too many.
    """
    total, spare = sum(sizes), wanted - len(sizes)
    counts = [max(1, size * spare // total) if spare > 0 and total else 1 for size in sizes]
    by_piece = [(-size / count, at) for at, (size, count) in enumerate(zip(sizes, counts, strict=True))]
    heapify(by_piece)  # the negative size of the split's pieces, so the largest comes first
    for _ in range(wanted - sum(counts) if sizes else 0):
        at = by_piece[0][1]
        counts[at] += 1
        heapreplace(by_piece, (-sizes[at] / counts[at], at))
    return counts


def cut_by_bytes(view: SegmentView, split: SegmentSplit, pieces: int) -> list[SegmentSplit]:
    """Cuts a split into at most `pieces` splits with about the same number of bytes."""
    cuts: list[_Cut] = []
    position = split.start
    for piece in range(1, pieces):
        target = split.start + split.size * piece // pieces
        header = _find_first_batch(view, split, max(target, position + 1), position)
        if header is None or header.position >= split.end:
            break
        cut = _Cut(header.base_offset, header.position, header.position)
        if header.is_wrapper:  # it states only its last offset: cut after it
            cut = _Cut(header.last_offset + 1, header.end, header.end)
        if cut.offset > (cuts[-1].offset if cuts else split.start_offset) and cut.end_before < split.end:
            cuts.append(cut)
        position = header.position
    return _cut_split(split, cuts)


def cut_by_records(view: SegmentView, split: SegmentSplit, most: int) -> list[SegmentSplit]:
    """Cuts a split into splits that hold at most `most` records each. Each spans at most `most` offsets, or has one
    batch with no more records."""
    return _cut_split(split, list(_find_record_cuts(view, split, most)))


def _find_record_cuts(view: SegmentView, split: SegmentSplit, most: int) -> Iterator[_Cut]:
    walk = _ForwardWalk(view, split)
    offset, end = split.span.start, split.span.end
    position, step = -1, most  # inside the batch at this position
    while end - offset > most:
        header = walk.find(offset + most)
        if header is None or header.position >= split.end:
            return
        hides_first = header.is_wrapper
        inside = hides_first or header.base_offset <= offset
        if inside and 0 <= header.count <= most:  # all of its records fit a piece, however wide it is
            header = walk.find(header.last_offset + 1)
            if header is None or header.position >= split.end:
                return
            inside = hides_first = header.is_wrapper
        if inside and header.position != position:
            position, step = header.position, _compute_step(header, offset, most)
        offset = min(offset + step, header.last_offset) if inside else header.base_offset
        yield _Cut(offset, header.end if inside else header.position, header.position)


def _compute_step(header: BatchHeader, offset: int, most: int) -> int:
    """The number of offsets between two cuts inside a batch, from `offset` on.

    It is `most`, or more if the batch spans more offsets than its bytes can hold records.
    """
    spans = header.last_offset + 1 - offset
    return max(most, -(-spans // (header.size * _MOST_RECORDS_A_BYTE)))


class _ForwardWalk:
    """Finds batches by ascending offsets, in one walk over a segment. So it does not prove a batch again and again.

    split: what is cut. Every wanted offset lies after its start.
    """

    def __init__(self, view: SegmentView, split: SegmentSplit) -> None:
        self._view = view
        self._split = split
        self._header: BatchHeader | None = None  # the last header that was found
        self._go_to(split.start)

    def find(self, offset: int) -> BatchHeader | None:
        """Finds the proven batch that holds `offset`, or the first batch after it. None: the walk cannot get there.

        The index helps to jump forward, over bytes that need not be read and over batches that cannot be proven.
        """
        if self._header is not None and self._header.last_offset >= offset:
            return self._header
        offsets = self._view.offsets
        slot = offsets.floor(offset)
        if slot >= 0 and int(offsets.positions[slot]) > self._position:
            self._jump_to(offset)
        place = self._walk_to(offset)
        if place is None and self._jump_to(offset):
            place = self._walk_to(offset)
        self._header = place
        return place

    def _jump_to(self, offset: int) -> bool:
        """Jumps to the index position for `offset`, if it lies further on. Returns whether it does."""
        position = self._view.start_position(offset)
        if position <= self._position:
            return False
        self._go_to(position)
        return True

    def _go_to(self, position: int) -> None:
        self._position = position  # of the next batch of the walk
        self._before: BatchHeader | None = None  # the batch before it
        self._headers = self._view.probe.walk(position)

    def _walk_to(self, offset: int) -> BatchHeader | None:
        for header in self._headers:
            if header is None:
                return None
            before, self._before = self._before, header
            self._position = header.end
            if header.last_offset >= offset and _is_borne_out(self._view, self._split, header, before):
                return header
        return None


def _find_first_batch(view: SegmentView, split: SegmentSplit, target: int, known: int) -> BatchHeader | None:
    """Finds the first proven batch at a position ≥ target whose neighbours bear it out.

    known: a position where a batch begins.
    """
    positions = view.offsets.positions
    for slot in range(int(np.searchsorted(positions, target)), len(positions)):
        header = view.probe.proven(int(positions[slot]))
        if header is None:
            continue
        following = view.probe.at(header.end)
        entry = int(view.offsets.offsets[slot])
        if not _fits(view, header) or may_have_fallen(header, following) or may_have_risen(header, following, entry):
            break  # a walk sees it beside the batch before it
        return header
    before = int(np.searchsorted(positions, target)) - 1
    start = max(known, int(positions[before])) if before >= 0 else known
    last: BatchHeader | None = None
    for header in view.probe.walk(start):
        if header is None:
            return None
        if header.position >= target and _is_borne_out(view, split, header, last):
            return header
        last = header
    return None


def _fits(view: SegmentView, header: BatchHeader) -> bool:
    """Whether a batch ends before the next segment begins."""
    return header.last_offset < limit_of(view.segment.base_offset, view.segment.next_base_offset)


def _is_borne_out(view: SegmentView, split: SegmentSplit, header: BatchHeader, before: BatchHeader | None) -> bool:
    """Whether the batches around a batch agree with its offsets.

    Where other copies are asked for what is in a gap, a gap before a last batch may be no work of compaction.
    """
    is_last = view.probe.may_be_last(header) and not split.asks_in_gaps
    reached = None if before is None else before.last_offset
    if header.position == 0:
        reached = view.segment.base_offset - 1
    return _fits(view, header) and bears_out(header, reached, view.probe.at(header.end), is_last)


def _cut_split(split: SegmentSplit, cuts: list[_Cut]) -> list[SegmentSplit]:
    """Cuts a split. A cut outside its offsets is none: a wrong offset there would leave the bytes to no piece."""
    pieces = []
    rest = split._replace(uncut=split.bounds.offsets) if cuts and split.copies else split
    for cut in cuts:
        if not rest.span.start < cut.offset < rest.span.end:
            continue
        left, right = rest.bounds.offsets.intersect(OffsetRange(0, cut.offset)), OffsetRange(cut.offset)
        pieces.append(rest._replace(end=cut.end_before, bounds=rest.bounds._replace(offsets=left)))
        within = rest.bounds.offsets.intersect(right)
        rest = rest._replace(start=cut.start_after, bounds=rest.bounds._replace(offsets=within))
    return [*pieces, rest]


def pack(splits: tuple[SegmentSplit, ...], more_than: int, pack_bytes: int) -> list[tuple[SegmentSplit, ...]]:
    """Groups splits into tasks. A group has at most `pack_bytes` bytes, unless it is a single split.

    Neighbouring pieces of one segment share a group. A split costs about as much as reading 256 KiB, and a task costs
    far more. If there are more than `more_than` splits, neighbours of one topic-partition share a group too.
    """
    groups: list[list[SegmentSplit]] = []
    size = 0
    for split in splits:
        before = groups[-1][-1] if groups else None
        together = before is not None and (
            before.path == split.path
            or (len(splits) > more_than and (before.topic, before.partition) == (split.topic, split.partition))
        )
        if together and size + split.size <= pack_bytes:
            groups[-1].append(split)
            size += split.size
        else:
            groups.append([split])
            size = split.size
    return [tuple(group) for group in groups]
