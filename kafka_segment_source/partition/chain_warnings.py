"""What a user is told about a chain of several copies: which copy is read for what, and what that may cost.

Comes in: the copies, and which of them is read for which offsets. Goes out: warnings. They change nothing of the read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.kafka_format import MAGIC_V2
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segments import Segment
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.holding import find_lacking
from kafka_segment_source.partition.strays import explain_old_format
from kafka_segment_source.partition.twins import find_whole_strays
from kafka_segment_source.reporting import Warnings

if TYPE_CHECKING:
    from kafka_segment_source.partition.survey import LeftOut

ReadParts = Sequence[tuple[CopyView, OffsetRange]]
"""Which copy is read for which offsets, in order."""


def warn_of_chain(copies: Sequence[CopyView], near: OffsetRange, parts: ReadParts, warnings: Warnings) -> None:
    """Adds the warnings about a chain. near: the offsets that it is needed for."""
    warnings.add(_explain_choice(copies, parts), "several copies")
    thinned = [_explain_thinned(segment, batch) for segment, batch in _find_thinned(copies, near, parts)]
    thinned += [_explain_replaced(place, offsets) for place, offsets in _find_replaced_damage(copies, near, parts)]
    warnings.add_all(thinned, "thinned")
    warnings.add_all(_warn_of_old_formats(copies, near), "damage in an old format")
    cut = [copy for copy in copies if _is_cut(copy, parts)]
    warnings.add_all((_explain_cut(copy, parts) for copy in cut), "a copy ends in damage")


def _explain_choice(copies: Sequence[CopyView], parts: ReadParts) -> str:
    """Returns one sentence about which directory is read for which offsets."""
    log, read_for = copies[0].log, [(copy.log.directory, offsets) for copy, offsets in parts]
    said = f"partition {log.topic}-{log.partition} is found in {len(copies)} directories"
    if len({directory for directory, _ in read_for}) == 1:
        return f"{said}: all its offsets are read from {read_for[0][0]!r}"
    named = [f"{offsets.start} to {offsets.end - 1} from {directory!r}" for directory, offsets in read_for[:-1]]
    last, offsets = read_for[-1]
    return f"{said}: offsets {', '.join(named)}, those from {offsets.start} on from {last!r}"


def _find_thinned(
    copies: Sequence[CopyView], near: OffsetRange, parts: ReadParts
) -> Iterator[tuple[Segment, BatchHeader]]:
    """Yields batches at a wrong place whose offsets are read instead from a copy that is compacted, or that lacks
    records there."""
    for segment, batch in find_whole_strays(copies, near):
        stated = OffsetRange(batch.base_offset, batch.last_offset + 1)
        replaced = [(reader, stated.intersect(part)) for reader, part in parts if segment not in reader.log.segments]
        if any(_may_lack(reader, offsets) for reader, offsets in replaced):
            yield segment, batch


def _may_lack(copy: CopyView, offsets: OffsetRange) -> bool:
    """Whether a copy may lack a record of some offsets, up to its end."""
    there = offsets.intersect(OffsetRange(end=copy.end))
    return not there.is_empty and any(find_lacking(copy, there))


def _explain_thinned(segment: Segment, batch: BatchHeader) -> str:
    return (
        f"{segment.path!r} has a batch at a wrong place, at byte {batch.position}: its offsets {batch.base_offset} to"
        f" {batch.last_offset} are read from a copy that was compacted: records that compaction removed are not returned"
    )


def _find_replaced_damage(
    copies: Sequence[CopyView], near: OffsetRange, parts: ReadParts
) -> Iterator[tuple[LeftOut, OffsetRange]]:
    """Yields damage of copies that are not compacted, before their last segment, with its offsets that are read instead
    from a copy that is compacted, or that lacks records there. Only segments that were read for their end are looked
    at."""
    for copy in copies:
        segments = () if copy.log.compacted or copy.has_lost else copy.segments_around(near)
        for place in (place for segment in segments if not segment.is_last for place in copy.left_out_places(segment)):
            replaced = [(reader, place.gap.intersect(part)) for reader, part in parts if reader is not copy]
            for reader, offsets in replaced:
                if _may_lack(reader, offsets):
                    yield place, offsets


def _explain_replaced(place: LeftOut, offsets: OffsetRange) -> str:
    return (
        f"offsets {offsets.start} to {offsets.end - 1} are read from a copy that was compacted, as another copy is damaged"
        f" there: records that compaction removed are not returned; the damage: {place.fault}"
    )


def _warn_of_old_formats(copies: Sequence[CopyView], near: OffsetRange) -> Iterator[str]:
    """Yields one sentence for each segment that is known to be damaged, and has magic 0 or 1 at its start or behind
    the damage."""
    for copy in copies:
        for segment in copy.segments_around(near):
            place = next(iter(copy.left_out_places(segment)), None)
            if place is not None and _is_beside_old_format(copy, segment, place):
                yield explain_old_format(segment, place)


def _is_beside_old_format(copy: CopyView, segment: Segment, place: LeftOut) -> bool:
    with copy.open_view(segment) as view:
        beside = view.probe.proven(0), view.probe.proven(place.end)
    return any(batch is not None and batch.magic < MAGIC_V2 for batch in beside)


def _is_cut(copy: CopyView, parts: ReadParts) -> bool:
    """Whether a copy ends in damage, and another one is read behind."""
    behind = OffsetRange(copy.tail.end)
    return not copy.tail.is_clean and any(
        reader is not copy and not part.intersect(behind).is_empty for reader, part in parts
    )


def _explain_cut(copy: CopyView, parts: ReadParts) -> str:
    """Returns one sentence about a copy that ends in damage."""
    behind = OffsetRange(copy.tail.end)
    behind_end = [reader for reader, part in parts if not part.intersect(behind).is_empty]
    lost = {
        reader.log.directory
        for reader in behind_end
        if reader.has_lost or (reader.log.compacted and not copy.log.compacted)
    }
    thinned = f", and compaction may have removed records of them from {' and '.join(map(repr, sorted(lost)))}"
    where = f"after offset {copy.tail.end - 1}" if copy.tail.end > copy.start else f"from byte {copy.tail.position} on"
    return (
        f"{copy.log.segments[-1].path!r} ends in bytes {where} that are no whole batch, torn or damaged; other directories"
        f" are read for the offsets that follow{thinned if lost else ''}"
    )
