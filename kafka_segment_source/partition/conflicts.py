"""Batches of several copies that one history cannot have, where a read is mended: the wrong ones are not read.

`histories.py` finds them for a plan. It does not compare a batch that damage puts in doubt, nor batches below those
that are proven to agree, and a survey may give such a batch as sound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import CorruptRecordError, DataError
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.partition.batch_pairs import DIFFERENT, relate_places
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.survey import Survey

Wrong = Mapping[str, Sequence[tuple[OffsetRange, DataError]]]
"""By the path of a file, offsets that its batches may state wrongly, and why."""

_IDENTITY = [batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET, batch_headers.CRC, batch_headers.SIZE]
_COMPARED = [batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET, batch_headers.CRC, batch_headers.LEADER_EPOCH]


def find_wrong(read: Sequence[tuple[CopyView, Survey]]) -> Wrong:
    """Returns the offsets of batches that are wrong, or that contradict those of another copy.

    If two copies have one batch at two offsets, fewer copies have the wrong one, or it has more gaps beside it. Of two
    batches that one history cannot have, that one is wrong which alone lies behind a gap, and in no other copy at its
    place. Else nothing says which one is: one of the copies is stale there, or states wrong offsets, and
    neither is read. The gap before a wrong batch is no work of compaction, unless its partition is marked as compacted.

    read: surveys, each with its copy.
    """
    wrong: defaultdict[str, list[tuple[OffsetRange, DataError]]] = defaultdict(list)
    moved: set[tuple[str, int]] = set()
    for (_, one), (_, other) in combinations(read, 2):
        for at, twin_at in _find_twins(one, other):
            sides = (one, at), (other, twin_at)
            weights = [_weigh(surveyed, place, read) for surveyed, place in sides]
            for (surveyed, place), (beside, beside_at), own, theirs in zip(
                sides, sides[::-1], weights, weights[::-1], strict=True
            ):
                header = surveyed.header(place)
                moved.add((surveyed.segment.path, header.position))
                if own > theirs:
                    continue
                expected = f"{beside.header(beside_at).base_offset}, as in {beside.segment.path}"
                error = _make_error("batch with a wrong offset", surveyed, header, str(header.base_offset), expected)
                wrong[surveyed.segment.path].append((_spoilt(surveyed, place), error))
    for one, other in combinations(read, 2):
        for at, twin_at in _find_contradictions(one, other):
            sides = (one[1], at), (other[1], twin_at)
            if any((surveyed.segment.path, surveyed.header(place).position) in moved for surveyed, place in sides):
                continue
            shared = _offsets_of(one[1], at).intersect(_offsets_of(other[1], twin_at))
            follows = [_is_borne_out(surveyed, place, read) for surveyed, place in sides]
            for (surveyed, place), (beside, beside_at), own, theirs in zip(
                sides, sides[::-1], follows, follows[::-1], strict=True
            ):
                if own and not theirs:
                    continue
                header = surveyed.header(place)
                expected = f"{_describe(beside.header(beside_at))}, as in {beside.segment.path}"
                what = "batch that contradicts a batch of another copy at its offsets"
                error = _make_error(what, surveyed, header, _describe(header), expected)
                offsets = shared if own == theirs else _spoilt(surveyed, place)
                wrong[surveyed.segment.path].append((offsets, error))
    return wrong


def _find_twins(one: Survey, other: Survey) -> Iterator[tuple[int, int]]:
    """Yields pairs of one batch that two copies have at two offsets, and neither has at both, by their numbers."""
    if one.segment.path == other.segment.path or not one.batches.shape[1] or not other.batches.shape[1]:
        return
    base, _, crc, size = one.batches[_IDENTITY]
    their_base, _, their_crc, their_size = other.batches[_IDENTITY]
    for at in np.flatnonzero(np.isin(crc, their_crc)).tolist():
        is_twin = (their_crc == crc[at]) & (their_size == size[at])
        if not is_twin.any() or base[at] in their_base[is_twin]:
            continue
        own = base[(crc == crc[at]) & (size == size[at])]
        yield from ((at, twin) for twin in np.flatnonzero(is_twin).tolist() if their_base[twin] not in own)


def _weigh(surveyed: Survey, at: int, read: Sequence[tuple[CopyView, Survey]]) -> tuple[int, int]:
    """Returns how many files have a batch at its place, and on how many sides of it no offset is missing."""
    header = surveyed.header(at)
    holders = sum(beside.has(header) for _, beside in read)
    is_known = at > 0 or header.position == 0
    sides = [is_known and _gap_before(surveyed, at).is_empty]
    sides += [at + 1 < surveyed.batches.shape[1] and _gap_before(surveyed, at + 1).is_empty]
    return holders, sum(sides)


def _find_contradictions(one: tuple[CopyView, Survey], other: tuple[CopyView, Survey]) -> Iterator[tuple[int, int]]:
    """Yields pairs of batches that one history cannot have, by their numbers. Epochs alone show nothing, as no CRC
    covers them, and not beside a copy whose history lost."""
    (copy, surveyed), (other_copy, beside) = one, other
    if not surveyed.batches.shape[1] or not beside.batches.shape[1]:
        return
    base, last, crc, epoch = surveyed.batches[_COMPARED]
    at = np.searchsorted(beside.batches[batch_headers.LAST_OFFSET], base)  # the batch that may share offsets
    has_other = at < beside.batches.shape[1]
    their_base, their_last, their_crc, their_epoch = beside.batches[_COMPARED][:, np.where(has_other, at, 0)]
    is_known = np.minimum(epoch, their_epoch) >= 0
    has_other_epoch = (epoch != their_epoch) & ~np.array(copy.has_lost or other_copy.has_lost)
    has_other_ends = (base != their_base) | (last != their_last)
    differs = has_other & (their_base <= last) & is_known & (has_other_ends | (has_other_epoch & (crc != their_crc)))
    for place in np.flatnonzero(differs).tolist():
        twin_at = int(at[place])
        if relate_places(copy, surveyed.header(place), other_copy, beside.header(twin_at)) == DIFFERENT:
            yield place, twin_at


def _offsets_of(surveyed: Survey, at: int) -> OffsetRange:
    header = surveyed.header(at)
    return OffsetRange(header.base_offset, header.last_offset + 1)


def _gap_before(surveyed: Survey, at: int) -> OffsetRange:
    """Returns the offsets that are missing before a batch. Before the first one of a survey, they are known only at the
    start of the file."""
    base, last, *_ = surveyed.batches[_IDENTITY]
    if at:
        return OffsetRange(int(last[at - 1]) + 1, int(base[at]))
    is_first = surveyed.header(0).position == 0
    return OffsetRange(surveyed.segment.base_offset if is_first else int(base[0]), int(base[0]))


def _is_borne_out(surveyed: Survey, at: int, read: Sequence[tuple[CopyView, Survey]]) -> bool:
    """Whether the batch before a batch is seen and no gap lies between both, or another copy has it at its place."""
    header = surveyed.header(at)
    follows = (at > 0 or header.position == 0) and _gap_before(surveyed, at).is_empty
    return follows or any(beside.has(header) for _, beside in read if beside is not surveyed)


def _spoilt(surveyed: Survey, at: int) -> OffsetRange:
    """Returns the offsets of a wrong batch, with the gap before it."""
    stated = _offsets_of(surveyed, at)
    return stated if surveyed.log.compacted else OffsetRange(_gap_before(surveyed, at).start, stated.end)


def _describe(header: BatchHeader) -> str:
    return f"offsets {header.base_offset} to {header.last_offset} of leader epoch {header.leader_epoch}"


def _make_error(what: str, surveyed: Survey, header: BatchHeader, found: str, expected: str) -> DataError:
    path, position = surveyed.segment.path, header.position
    return CorruptRecordError(
        what, path=path, position=position, offset=header.base_offset, found=found, expected=expected
    )
