"""Damage or a gap met while a partition of several copies is read: what of the offsets another copy holds whole.

Only reading finds damage inside a segment. Where it is found, and there is more than one copy, every copy's segments of
the offsets that are left are read through once (`survey.py`). Goes out: the pieces that follow, in order, each from a
copy that holds it, and the offsets that none does: those are damage (`mode`), or loss (`failOnDataLoss`), and the error
names the copies that were tried. With one copy nothing of this is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from kafka_segment_source import format as fmt
from kafka_segment_source.bounds import OffsetRange, ScanBounds
from kafka_segment_source.decoding.batches import Damage
from kafka_segment_source.decoding.split import BatchPlace, SegmentSplit, split_of
from kafka_segment_source.errors import DataError, DataLossError, KafkaSegmentError, PathError
from kafka_segment_source.kernels import headers as h
from kafka_segment_source.logdir.catalog import PartitionLog
from kafka_segment_source.options import ReadOptions, TopicSelection
from kafka_segment_source.partition.chain import is_explained
from kafka_segment_source.partition.choice import DAMAGED, VOID, choose
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.logs import available_copies
from kafka_segment_source.partition.survey import Extent, Survey, survey


class Suspicion(Damage):
    """Damage in one of several copies: reading stops before the batch, and the others are asked. `drop` makes the
    decoder look at all batches of a group before a row of it goes out."""

    def __init__(self) -> None:
        super().__init__(drop=True)

    def __call__(self, error: DataError) -> NoReturn:
        self.allow(error)

    def allow(self, error: DataError) -> NoReturn:
        self.confirm()
        raise error

    def skip(self, error: DataError, end: int) -> NoReturn:
        raise error


def damage_in(split: SegmentSplit, options: ReadOptions) -> Damage:
    """What to do with a damaged batch of a split."""
    return Suspicion() if split.copies else Damage(options.drop_malformed)


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets that no copy holds whole: `error` is a DataError where a copy has damage there, else a DataLossError; a
    PathError where a copy cannot be read."""

    offsets: OffsetRange
    error: KafkaSegmentError


Piece = SegmentSplit | Lost


def mend(
    split: SegmentSplit,
    wanted: OffsetRange,
    options: ReadOptions,
    error: KafkaSegmentError,
    *,
    microseconds: bool = False,
) -> list[Piece]:
    """What follows in a split from the first wanted offset on, where `error` was met: splits, and what none of them
    holds.

    Raises FileChangedError where a file changes while this looks at it, and PathError where the copies cannot be
    listed.
    """
    copies = available_copies(
        replace(options, paths=split.copies, topics=TopicSelection(), end_at_high_watermark=False)
    )
    found: list[tuple[Survey, Extent]] = []
    failures: dict[str, PathError] = {}
    for copy in copies:
        for each in _surveys(copy.log, wanted, options, microseconds, failures):
            found += [(each, extent) for extent in each.extents() if _is_counted(copy, extent, copies)]
    picked = choose([extent.offsets for _, extent in found], [extent.holding for _, extent in found])
    tried = ", ".join(dict.fromkeys(repr(copy.log.directory) for copy in copies))
    may_have_gaps = any(copy.log.compacted for copy in copies)
    pieces: list[Piece] = []
    position = wanted.start
    for offsets, each, extent in _runs(picked, found):
        if offsets.start > position and (failures or not may_have_gaps):
            pieces.append(_missing(split, OffsetRange(position, offsets.start), tried, error, failures))
        position = offsets.end
        if extent.holding == DAMAGED:
            pieces.append(_damaged(offsets, extent, tried, error, failures))
        elif extent.holding > VOID:
            pieces.append(_piece(split, each, offsets))
    if position < wanted.end < fmt.MAX_OFFSET and (failures or not may_have_gaps):
        pieces.append(_missing(split, OffsetRange(position, wanted.end), tried, error, failures))
    return pieces


def _surveys(
    log: PartitionLog, wanted: OffsetRange, options: ReadOptions, microseconds: bool, failures: dict[str, PathError]
) -> Iterator[Survey]:
    """What each of a copy's segments holds of the wanted offsets; `failures` gets those that cannot be read."""
    for segment in log.segments:
        offsets = wanted.intersect(segment.offsets).intersect(log.offsets)
        if segment.size and not segment.span.intersect(offsets).is_empty:
            try:
                yield survey(log, segment, offsets, options, decodes=True, microseconds=microseconds)
            except PathError as failure:
                failures[segment.path] = failure


def _is_counted(copy: CopyView, extent: Extent, copies: Sequence[CopyView]) -> bool:
    """Whether an extent says something: damage at the end of a log does not where other copies explain it."""
    if extent.offsets.is_empty or extent.holding != DAMAGED or extent.offsets.start < copy.tail.end:
        return not extent.offsets.is_empty
    return copy.tail.damage is not None and not is_explained(copy, [other for other in copies if other is not copy])


def _runs(
    picked: Sequence[tuple[int, OffsetRange]], found: list[tuple[Survey, Extent]]
) -> Iterator[tuple[OffsetRange, Survey, Extent]]:
    """What was picked, neighbours that are read from one file made one."""
    last: tuple[OffsetRange, Survey, Extent] | None = None
    for at, offsets in picked:
        each, extent = found[at]
        if last is not None:
            before, file, held = last
            if min(extent.holding, held.holding) > VOID and file is each and before.end == offsets.start:
                last = OffsetRange(before.start, offsets.end), file, held
                continue
            yield last
        last = offsets, each, extent
    if last is not None:
        yield last


def _piece(split: SegmentSplit, each: Survey, offsets: OffsetRange) -> SegmentSplit:
    """The split of what one file holds of the offsets, between the positions that its survey found."""
    batches = each.between(offsets)
    place = BatchPlace(*batches[[h.POSITION, h.BASE_OFFSET, h.CRC], 0].tolist())
    bounds = ScanBounds(offsets.intersect(split.bounds.offsets), split.bounds.times)
    end = int(batches[h.POSITION, -1] + batches[h.SIZE, -1])
    piece = split_of(each.log, each.segment, bounds, place.position, end)
    return replace(
        piece,
        anchor=place if place.position else None,
        stop_timestamp=split.stop_timestamp,
        copies=split.copies,
        served_to=offsets.end,
    )


def _damaged(
    offsets: OffsetRange, extent: Extent, tried: str, met: KafkaSegmentError, failures: dict[str, PathError]
) -> Lost:
    if failures:
        return Lost(offsets, next(iter(failures.values())))
    error = extent.error
    assert error is not None
    if isinstance(met, type(error)) and isinstance(met, DataError) and met.path == error.path:
        error = met if met.position == error.position else error
    end = "on" if offsets.end == fmt.MAX_OFFSET else f"to {offsets.end - 1}"
    what = f"{error.what} (no copy holds the offsets {offsets.start} {end} whole, of {tried})"
    return Lost(
        offsets,
        type(error)(
            what,
            path=error.path,
            position=error.position,
            offset=error.offset,
            found=error.found,
            expected=error.expected,
        ),
    )


def _missing(
    split: SegmentSplit, offsets: OffsetRange, tried: str, met: KafkaSegmentError, failures: dict[str, PathError]
) -> Lost:
    if failures:
        return Lost(offsets, next(iter(failures.values())))
    where = f"offsets {offsets.start} to {offsets.end - 1} of partition {split.topic}-{split.partition}"
    because = f"; {met}" if isinstance(met, DataLossError) else ""
    return Lost(offsets, DataLossError(f"{where} are missing: no copy holds them, of {tried}{because}"))
