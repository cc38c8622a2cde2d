"""Whole batches at a wrong place in a segment: a survey left them out, as their offsets contradict those around them.

A gap at that place may explain them: they fill it, and one bit of an offset is wrong. Raises StorageError, and
FileChangedError if the file changes meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import Segment
from kafka_segment_source.trust import Policy

if TYPE_CHECKING:
    from kafka_segment_source.partition.survey import LeftOut, Survey


class Stray(NamedTuple):
    """A whole batch that a survey left out, and the offsets that are missing at its place, if they have room for it and
    for the batches that were left out beside it."""

    batch: BatchHeader
    gap: OffsetRange


class StrayBatches(NamedTuple):
    """The whole batches that a survey of a segment left out.

    strays: those that the segment has nowhere else.
    is_torn: whether there are other bytes that no gap explains, or doubled batches behind the last one: they may lie
        over others.
    """

    strays: tuple[Stray, ...]
    is_torn: bool


def find_stray_batches(surveyed: Survey, policy: Policy) -> StrayBatches:
    """Returns the whole batches that a survey of a segment left out."""
    strays: list[Stray] = []
    is_torn = False
    with SegmentView(surveyed.segment, policy.trust) as view:
        for place in surveyed.left_out_places():
            whole, end = read_whole_batches(view, place.start, place.end)
            moved = [batch for batch in whole if not surveyed.has(batch)]
            is_over = place.fault is surveyed.faults[-1] and len(moved) < len(whole)
            is_torn = is_torn or is_over or (end < place.end and place.gap.is_empty)
            following = view.probe.at(place.end)
            hides_first = following is not None and following.is_wrapper  # so nothing says where the gap ends
            strays += _explain_by_gap(moved, OffsetRange(0, 0) if hides_first else place.gap)
    return StrayBatches(tuple(strays), is_torn)


def explain_old_format(segment: Segment, place: LeftOut) -> str:
    """The warning about damage among batches of magic 0 or 1 in one of several copies: they may be read wrongly."""
    return (
        f"{segment.path!r} has damage among batches of magic 0 or 1 at byte {place.start}: they do not state where they"
        " begin, so rows beside it may be lost, or have offsets of others, when several copies are read; read each"
        " directory alone"
    )


def read_whole_batches(view: SegmentView, start: int, end: int) -> tuple[list[BatchHeader], int]:
    """Returns the whole batches from one position up to another, whatever offsets they state, and the position after
    the last one that follows without other bytes before it."""
    whole: list[BatchHeader] = []
    while start < end and (header := view.probe.proven(start)) is not None:
        whole.append(header)
        start = header.end
    return whole, start


def _explain_by_gap(batches: list[BatchHeader], gap: OffsetRange) -> list[Stray]:
    """Returns batches that were left out at one place, each with the gap there if it has room for all of them. Nothing
    says how many offsets a wrapper needs."""
    needed = sum(batch.last_offset - batch.base_offset + 1 for batch in batches)
    has_room = needed <= gap.end - gap.start and not any(batch.is_wrapper for batch in batches)
    room = gap if has_room else OffsetRange(0, 0)
    return [Stray(batch, room) for batch in batches]
