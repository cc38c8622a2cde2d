"""One split → several of the same segment, for minPartitions (by bytes) and maxRecordsPerPartition (by offsets).

Cuts are made where a proven batch begins: the pieces share no batch, and each keeps to its own offsets, so no row
is lost or doubled at a seam. Only a batch with more records than a piece may have is cut inside, by offset; both
pieces read it then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kafka_segment_source import format as fmt
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.probe import BatchHeader
from kafka_segment_source.segment_view import SegmentView
from kafka_segment_source.splits import SegmentSplit


@dataclass(frozen=True, slots=True)
class _Cut:
    """Where one piece ends and the next begins: its first offset; positions differ only inside a batch."""

    offset: int
    end_before: int
    start_after: int


def cut_by_bytes(view: SegmentView, split: SegmentSplit, pieces: int) -> list[SegmentSplit]:
    """At most `pieces` splits of about the same number of bytes."""
    cuts: list[_Cut] = []
    position = split.start
    for piece in range(1, pieces):
        target = split.start + split.size * piece // pieces
        header = _first_batch_from(view, max(target, position + 1), position)
        if header is None or header.position >= split.end:
            break
        cut = _Cut(header.base_offset, header.position, header.position)
        if header.magic != fmt.MAGIC_V2 and header.is_compressed:  # tells its last offset only: cut after it
            cut = _Cut(header.last_offset + 1, header.end, header.end)
        if cut.offset > (cuts[-1].offset if cuts else split.start_offset) and cut.end_before < split.end:
            cuts.append(cut)
        position = header.position
    return _pieces(split, cuts)


def cut_by_records(view: SegmentView, split: SegmentSplit, most: int) -> list[SegmentSplit]:
    """Splits that span at most `most` offsets each, and so hold at most so many records."""
    return _pieces(split, list(_record_cuts(view, split, most)))


def _record_cuts(view: SegmentView, split: SegmentSplit, most: int) -> Iterator[_Cut]:
    end = split.end_offset
    offset = split.start_offset
    while end is None or end - offset > most:
        header = next(view.headers_from(offset + most), None)
        if header is None or header.position >= split.end:
            return
        hides_first = header.magic != fmt.MAGIC_V2 and header.is_compressed
        inside = hides_first or header.base_offset <= offset
        if inside:
            offset += most
        else:
            offset = header.base_offset
        yield _Cut(offset, header.end if inside else header.position, header.position)


def _first_batch_from(view: SegmentView, target: int, known: int) -> BatchHeader | None:
    """The first proven batch at a position ≥ target; `known` is one where a batch begins."""
    positions = view.offsets.positions
    for slot in range(int(np.searchsorted(positions, target)), len(positions)):
        header = view.probe.proven(int(positions[slot]))
        if header is not None:
            return header
    before = int(np.searchsorted(positions, target)) - 1
    start = max(known, int(positions[before])) if before >= 0 else known
    for header in view.probe.walk(start):
        if header is None or header.position >= target:
            return header
    return None


def _pieces(split: SegmentSplit, cuts: list[_Cut]) -> list[SegmentSplit]:
    pieces = []
    rest = split
    for cut in cuts:
        left, right = rest.bounds.offsets.intersect(OffsetRange(0, cut.offset)), OffsetRange(cut.offset)
        pieces.append(replace(rest, end=cut.end_before, bounds=replace(rest.bounds, offsets=left)))
        within = rest.bounds.offsets.intersect(right)
        rest = replace(rest, start=cut.start_after, bounds=replace(rest.bounds, offsets=within))
    return [*pieces, rest]
