"""Batches of several copies that one history cannot have, where a read is mended: the wrong ones are not read.

`histories.py` finds them for a plan. It does not compare a batch that damage puts in doubt, nor batches below those
that are proven to agree, and a survey may give such a batch as sound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.decoding.header_table import record_counts
from kafka_segment_source.errors import CorruptRecordError, DataError
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.partition.batch_pairs import DIFFERENT, relate_places
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.survey import Survey

Wrong = Mapping[str, Sequence[tuple[OffsetRange, DataError]]]
"""By the path of a file, offsets that its batches may state wrongly, and why."""

_IDENTITY = [batch_headers.BASE_OFFSET, batch_headers.CRC, batch_headers.SIZE]
_COMPARED = [batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET, batch_headers.CRC, batch_headers.LEADER_EPOCH]


class _Batch(NamedTuple):
    """Batch number `at` of a survey."""

    surveyed: Survey
    at: int

    @property
    def header(self) -> BatchHeader:
        return self.surveyed.header(self.at)

    @property
    def place(self) -> tuple[str, int]:
        """Its file, and its position there."""
        return self.surveyed.segment.path, self.header.position

    @property
    def offsets(self) -> OffsetRange:
        return OffsetRange(self.header.base_offset, self.header.last_offset + 1)

    @property
    def gap(self) -> OffsetRange | None:
        """The offsets that are missing before it. None where the batch before it is not known."""
        header = self.header
        if self.at:
            return OffsetRange(self.surveyed.header(self.at - 1).last_offset + 1, header.base_offset)
        return None if header.position else OffsetRange(self.surveyed.segment.base_offset, header.base_offset)

    @property
    def follows(self) -> bool:
        """Whether it begins where the batch before it ends."""
        return self.gap is not None and self.gap.is_empty

    @property
    def spoilt(self) -> OffsetRange:
        """Its offsets, if they are wrong, with the gap before it. In a copy that is marked as compacted, the gap may be
        right."""
        if self.gap is None or self.surveyed.log.compacted:
            return self.offsets
        return OffsetRange(self.gap.start, self.offsets.end)

    def describe(self) -> str:
        offsets, epoch = self.offsets, self.header.leader_epoch
        return f"offsets {offsets.start} to {offsets.end - 1} of leader epoch {epoch}"


_Pair = tuple[_Batch, _Batch]


def find_wrong(read: Sequence[tuple[CopyView, Survey]]) -> Wrong:
    """Returns the offsets of batches that are wrong, or that contradict those of another copy.

    If two copies have one batch at two offsets, fewer copies have the wrong one, or it has more gaps beside it. Of two
    batches of one leader epoch that one history cannot have, that one is wrong which alone lies behind a gap, and in no
    other copy at its place. Else nothing says which one is: one of the copies is stale there, or states wrong offsets,
    and neither is read.

    read: surveys, each with its copy.
    """
    surveys = [surveyed for _, surveyed in read]
    wrong: defaultdict[str, list[tuple[OffsetRange, DataError]]] = defaultdict(list)
    moved: set[tuple[str, int]] = set()
    for one_copy, other_copy in combinations(read, 2):
        for pair in _find_twins(one_copy, other_copy, read):
            moved |= {batch.place for batch in pair}
            for batch, twin in _choose_worse(pair, [_weigh(batch, surveys) for batch in pair]):
                expected = f"{twin.header.base_offset}, as in {twin.surveyed.segment.path}"
                error = _make_error("batch with a wrong offset", batch, str(batch.header.base_offset), expected)
                wrong[batch.surveyed.segment.path].append((batch.spoilt, error))
    for one_copy, other_copy in combinations(read, 2):
        for pair in _find_contradictions(one_copy, other_copy):
            if not moved.isdisjoint(batch.place for batch in pair):
                continue
            are_borne_out = [_is_borne_out(batch, surveys) for batch in pair]
            if pair[0].header.leader_epoch != pair[1].header.leader_epoch:
                are_borne_out = [True, True]  # a stale batch follows the one before it too
            for batch, beside in _choose_worse(pair, are_borne_out):
                expected = f"{beside.describe()}, as in {beside.surveyed.segment.path}"
                what = "batch that contradicts a batch of another copy at its offsets"
                error = _make_error(what, batch, batch.describe(), expected)
                is_known = are_borne_out[0] != are_borne_out[1]
                offsets = batch.spoilt if is_known else batch.offsets.intersect(beside.offsets)
                wrong[batch.surveyed.segment.path].append((offsets, error))
    return wrong


def _choose_worse(pair: _Pair, weights: Sequence[tuple[int, int]] | Sequence[bool]) -> Iterator[_Pair]:
    """Yields the batch of a pair that has less weight, or each of them if both have the same, with the other one."""
    if not weights[0] > weights[1]:  # type: ignore[operator]  # both are of one type
        yield pair
    if not weights[1] > weights[0]:  # type: ignore[operator]
        yield pair[1], pair[0]


def _find_twins(
    one_copy: tuple[CopyView, Survey], other_copy: tuple[CopyView, Survey], read: Sequence[tuple[CopyView, Survey]]
) -> Iterator[_Pair]:
    """Yields pairs of one batch that two copies have at two offsets, and neither has at both: a batch once, with the
    first one that is the same. Batches that compaction left without records may be alike at any offsets."""
    (copy, one), (beside, other) = one_copy, other_copy
    if copy is beside or not one.batches.shape[1] or not other.batches.shape[1]:
        return
    base, crc, size = one.batches[_IDENTITY]
    their_base, their_crc, their_size = other.batches[_IDENTITY]
    by_crc = np.argsort(their_crc, kind="stable")
    first = np.searchsorted(their_crc[by_crc], crc)
    twins = by_crc[np.minimum(first, len(by_crc) - 1)]
    at_its_place = np.minimum(np.searchsorted(their_base, base), len(their_base) - 1)
    is_there = (their_base[at_its_place] == base) & (their_crc[at_its_place] == crc)
    own, theirs = ([surveyed for holder, surveyed in read if holder is side] for side in (copy, beside))
    is_same = (their_crc[twins] == crc) & (their_size[twins] == size) & (record_counts(one.batches) > 0)
    for at in np.flatnonzero(is_same & ~is_there).tolist():
        batch, twin = _Batch(one, at), _Batch(other, int(twins[at]))
        is_twice = any(file.has(twin.header) for file in own) or any(file.has(batch.header) for file in theirs)
        if not is_twice:
            yield batch, twin


def _weigh(batch: _Batch, surveys: Sequence[Survey]) -> tuple[int, int]:
    """Returns how many files have a batch at its place, and on how many sides of it no offset is missing."""
    holders = sum(surveyed.has(batch.header) for surveyed in surveys)
    is_last = batch.at + 1 == batch.surveyed.batches.shape[1]
    is_followed = not is_last and _Batch(batch.surveyed, batch.at + 1).follows
    return holders, batch.follows + is_followed


def _find_contradictions(one: tuple[CopyView, Survey], other: tuple[CopyView, Survey]) -> Iterator[_Pair]:
    """Yields pairs of batches that one history cannot have. Epochs alone show nothing, as no CRC covers them, and not
    beside a copy whose history lost."""
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
        batch, twin = _Batch(surveyed, place), _Batch(beside, int(at[place]))
        if relate_places(copy, batch.header, other_copy, twin.header) == DIFFERENT:
            yield batch, twin


def _is_borne_out(batch: _Batch, surveys: Sequence[Survey]) -> bool:
    """Whether a batch begins where the one before it ends, or another copy has it at its place."""
    return batch.follows or any(beside.has(batch.header) for beside in surveys if beside is not batch.surveyed)


def _make_error(what: str, batch: _Batch, found: str, expected: str) -> DataError:
    path, position = batch.place
    offset = batch.header.base_offset
    return CorruptRecordError(what, path=path, position=position, offset=offset, found=found, expected=expected)
