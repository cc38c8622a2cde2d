"""Finds offsets in other copies of a partition, where one copy has damage or a gap.

Damage inside a segment is found only by reading. If there is more than one copy, the remaining offsets are then read
once in the segments of every copy (`survey.py`).

Goes out: the pieces that follow, in order, each from a copy that holds it. Goes out too: the offsets that no copy
holds. They are damage (`mode`) or loss (`failOnDataLoss`), and the error names the copies that were tried. With one
copy this module is not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange, ScanBounds
from kafka_segment_source.decoding.gaps import GapInCopyError
from kafka_segment_source.decoding.split import BatchPlace, SegmentSplit, split_of
from kafka_segment_source.errors import (
    CorruptRecordError,
    DataError,
    DataLossError,
    FileChangedError,
    KafkaSegmentError,
    PathError,
)
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.partition.choice import DAMAGED, THIN, UNKNOWN, VOID, WHOLE, choose
from kafka_segment_source.partition.conflicts import Wrong, find_wrong
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.holding import is_explained
from kafka_segment_source.partition.logs import available_copies, available_logs, existing_copies
from kafka_segment_source.partition.strays import explain_old_format
from kafka_segment_source.partition.survey import Extent, Survey, survey
from kafka_segment_source.reading.damaged_batches import (
    find_damaged_batch,
    has_batch,
    is_damaged_batch,
    narrow_damage,
)
from kafka_segment_source.reading.losses import LossReport, Lost
from kafka_segment_source.reading.moved_batches import find_lost_batches
from kafka_segment_source.reporting import Warnings, log_warnings
from kafka_segment_source.source import Source
from kafka_segment_source.storage.files import UNUSABLE
from kafka_segment_source.trust import Policy

Piece = SegmentSplit | Lost

Failed = Mapping[str, tuple[OffsetRange, DataError]]
NONE_FAILED: Failed = {}


def mend(
    split: SegmentSplit,
    wanted: OffsetRange,
    source: Source,
    policy: Policy,
    error: KafkaSegmentError,
    part: SegmentSplit | None = None,
    *,
    failed: Failed = NONE_FAILED,
    microseconds: bool = False,
) -> list[Piece]:
    """Returns the rest of a split from the first wanted offset on, where `error` was found.

    part: the piece of it where that was; by default the split itself.
    failed: by the path of a file, the offsets that could not be read where it looked sound, and why.

    The pieces are splits, and offsets that no copy holds. Raises FileChangedError if a file or a directory changes
    meanwhile, StorageError if the copies cannot be listed, and PathError for copies that contradict each other.
    """
    directories = existing_copies(split.copies, source.storage) or split.copies
    try:
        again = source.at(directories).to_end_of_files()
        copies = available_copies(again, policy)
    except PathError as gone:
        if len(existing_copies(directories, source.storage)) < len(directories):
            raise FileChangedError(f"{gone}; plan the read again") from gone
        raise  # the copies contradict each other
    if wanted.end == kafka_format.MAX_OFFSET:
        wanted = OffsetRange(wanted.start, _find_end_by_names(split, copies))
    gap = error if isinstance(error, GapInCopyError) else None
    around = wanted if gap is None else _with_batches_beside(wanted, gap.gap)
    decodes = gap is None or gap.is_of_message_set  # only so is the first offset of a wrapper known
    surveyed = survey_copies(copies, around, policy, failed, decodes=decodes, microseconds=microseconds)
    surveyed.preferred = "" if gap is None else gap.path  # the others have what it lacks
    report = LossReport(f"{split.topic}-{split.partition}", copies, surveyed.failures, error)
    pieces: list[Piece] = []
    log_warnings([*surveyed.describe_thinned(report), *surveyed.warn_of_old_formats()])
    pieces += surveyed.find_wrong_outside(split.path, split.uncut or split.bounds.offsets)
    for offsets, held in surveyed.held_by(report):
        if isinstance(held, Lost):
            is_wanted = not offsets.intersect(wanted).is_empty
            pieces += [held] if is_wanted and not (gap is not None and surveyed.is_known_gap(held)) else []
        elif not (inside := offsets.intersect(wanted)).is_empty:
            pieces.append(_make_piece(split, held, inside))
    if not isinstance(error, CorruptRecordError):
        return sorted(pieces, key=_start_of)
    known = [piece.offsets if isinstance(piece, Lost) else piece.bounds.offsets for piece in pieces]
    elsewhere = find_lost_batches(
        part or split, wanted.start, known, copies, error, lambda: available_logs(again, policy, Warnings())[0]
    )
    return sorted([*(Lost(offsets, error) for offsets in dict.fromkeys(elsewhere)), *pieces], key=_start_of)


def _with_batches_beside(wanted: OffsetRange, gap: OffsetRange) -> OffsetRange:
    """Returns the wanted offsets, and all of a gap with an offset on either side: the batch behind it may be wrong.
    Where a segment was cut, another piece has that batch, and does not see the gap."""
    return OffsetRange(min(wanted.start, max(gap.start - 1, 0)), max(wanted.end, gap.end + 1))


def _start_of(piece: Piece) -> int:
    return piece.offsets.start if isinstance(piece, Lost) else piece.bounds.offsets.start


def _find_end_by_names(split: SegmentSplit, copies: Sequence[CopyView]) -> int:
    """Returns where the split's segment ends, if another segment follows it now.

    Without this, everything that follows in the log would be read.
    """
    spans = (segment.span for copy in copies for segment in copy.log.segments if segment.path == split.path)
    return max((span.end for span in spans), default=kafka_format.MAX_OFFSET)


class Surveyed:
    """What several copies hold of the wanted offsets.

    failures: the errors of unreadable files, by path. wrong: of `find_wrong`. preferred: the path of a file that is
    read wherever it has sound batches.
    """

    def __init__(self, wanted: OffsetRange, may_have_gaps: bool) -> None:
        self.end = wanted.end  # offsets below it were there once
        self.failures: dict[str, KafkaSegmentError] = {}
        self.wrong: Wrong = {}
        self.preferred = ""
        self.read: list[tuple[CopyView, Survey]] = []
        self.found: list[tuple[Survey, Extent]] = []
        self._wanted = wanted
        self._may_have_gaps = may_have_gaps

    def held_by(self, report: LossReport) -> Iterator[tuple[OffsetRange, Survey | Lost]]:
        """Yields ranges of offsets, in order, each with the file that holds it, or with its loss."""
        extents, wanted, picked = self.found, self._wanted, self._choose()
        may_have_gaps = self._may_have_gaps and not self.failures
        position = wanted.start
        for offsets, surveyed_file, extent in _join_runs(picked, extents):
            if offsets.start > position and not may_have_gaps:
                gap = OffsetRange(position, offsets.start)
                yield gap, report.missing(gap)
            position = offsets.end
            if extent.holding == DAMAGED:
                yield offsets, report.damaged(offsets, extent)
            elif extent.holding > VOID:
                yield offsets, surveyed_file
        if position < self.end < kafka_format.MAX_OFFSET and not may_have_gaps:
            gap = OffsetRange(position, self.end)
            yield gap, report.missing(gap)

    def find_wrong_outside(self, path: str, read: OffsetRange) -> list[Lost]:
        """Returns the losses of a file's wrong batches of which a read of it has passed some offsets already."""
        return [
            Lost(offsets, why)
            for offsets, why in self.wrong.get(path, ())
            if (inside := offsets.intersect(read)) != inside.intersect(self._wanted)
        ]

    def is_known_gap(self, lost: Lost) -> bool:
        """Whether no copy has some offsets before the last batch of the preferred file: compaction took them. But it
        did not where another copy has others of a gap before the last batch of a log."""
        own = [
            (copy, file) for copy, file in self.read if file.segment.path == self.preferred and file.batches.shape[1]
        ]
        is_inside = any(lost.offsets.end <= file.batches[batch_headers.BASE_OFFSET, -1] for _, file in own)
        gaps = [copy.unproven_gap for copy, file in own if file.segment.is_last]
        around = next((gap for gap in gaps if gap is not None and lost.offsets == lost.offsets.intersect(gap)), None)
        is_filled = around is not None and any(
            extent.holding >= THIN and not extent.offsets.intersect(around).is_empty for _, extent in self.found
        )
        return is_inside and isinstance(lost.error, DataLossError) and not is_filled

    def warn_of_old_formats(self) -> Iterator[str]:
        """Yields one sentence for each damaged file with sound batches of magic 0 or 1."""
        for file in (
            file for _, file in self.read if (file.batches[batch_headers.MAGIC] < kafka_format.MAGIC_V2).any()
        ):
            yield from (explain_old_format(file.segment, place) for place in file.left_out_places()[:1])

    def describe_thinned(self, report: LossReport) -> list[str]:
        """Returns a sentence about damage in one copy, where another copy is read instead from which compaction has
        removed records. Of two compacted copies, one that has some batches may have all that the other one had. Nothing
        if there is no such damage."""
        damaged = [(file.log.compacted, extent) for file, extent in self.found if extent.holding == DAMAGED]
        thinned = [
            (extent.error, offsets)
            for at, picked in self._choose()
            for is_compacted, extent in damaged
            if self.found[at][1].holding in ((VOID,) if is_compacted else (VOID, THIN))
            if not (offsets := extent.offsets.intersect(picked)).is_empty
        ]
        return [report.describe_thinned(thinned)] if thinned else []

    def _choose(self) -> list[tuple[int, OffsetRange]]:
        return choose([extent.offsets for _, extent in self.found], [self._rate(*found) for found in self.found])

    def _rate(self, file: Survey, extent: Extent) -> int:
        """Returns how well a file holds an extent, as `choose` wants it.

        Where nothing shows that the topic is compacted, an offset that is not there does not explain that another copy
        has a damaged batch there.
        """
        if file.segment.path == self.preferred and extent.holding >= THIN:
            return WHOLE + 1
        is_unexplained = extent.holding == VOID and not (self._may_have_gaps or file.has_thinned_batches)
        if not is_unexplained:
            return extent.holding
        beside = (found for found in self.found if not found[1].offsets.intersect(extent.offsets).is_empty)
        return UNKNOWN if any(is_damaged_batch(*found) for found in beside) else extent.holding


def survey_copies(
    copies: Sequence[CopyView],
    wanted: OffsetRange,
    policy: Policy,
    failed: Failed = NONE_FAILED,
    *,
    decodes: bool = True,
    microseconds: bool = False,
) -> Surveyed:
    """Reads the wanted offsets once in the segments of every copy. failed: as in `mend`."""
    surveyed = Surveyed(wanted, any(copy.log.compacted for copy in copies))
    read = surveyed.read
    for copy in copies:
        log = copy.log
        for segment in log.segments:
            offsets = wanted.intersect(segment.offsets).intersect(log.offsets)
            if segment.span.intersect(offsets).is_empty:
                continue
            try:
                surveyed_file = survey(log, segment, offsets, policy, decodes=decodes, microseconds=microseconds)
            except UNUSABLE as failure:
                surveyed.failures[segment.path] = failure
                continue
            read.append((copy, surveyed_file))
    surveyed.wrong = find_wrong(read)
    known: list[BatchHeader] = []  # damaged batches of the history that counts that another copy has
    for copy, surveyed_file in sorted(read, key=lambda one: one[0].has_lost):
        others = [file for _, file in read if file is not surveyed_file]
        extents = surveyed_file.extents()
        if surveyed_file.segment.path in failed:
            extents = _note_failure(extents, *failed[surveyed_file.segment.path])
        for offsets, error in surveyed.wrong.get(surveyed_file.segment.path, ()):
            extents = _note_failure(extents, offsets, error)
        for extent in extents:
            batch = find_damaged_batch(surveyed_file, extent, others)
            parts = [extent] if batch is None else narrow_damage(extent, batch)
            counted = [_leave_out_gone(copy, part, copies) for part in parts]
            if copy.has_lost:
                same = [one for one in known if extent.holding == THIN and has_batch(surveyed_file, one)]
                ranges = (OffsetRange(one.base_offset, one.last_offset + 1) for one in same)
                counted += [replace(extent, offsets=extent.offsets.intersect(offsets)) for offsets in ranges]
            elif batch is not None:
                known.append(batch)
            surveyed.found += [(surveyed_file, part) for part in counted if not _is_behind_end(copy, part)]
        surveyed.found += [(surveyed_file, extent) for extent in _rate_end(copy, surveyed_file, copies)]
    holders = {file.segment.path: copy for copy, file in read}
    surveyed.found = [
        (file, _doubt_gap(holders[file.segment.path], file, extent, surveyed.found)) for file, extent in surveyed.found
    ]
    return surveyed


def _doubt_gap(copy: CopyView, file: Survey, extent: Extent, found: Sequence[tuple[Survey, Extent]]) -> Extent:
    """Returns an extent of a file without batches as damage, if another file is damaged there, and a batch of these
    offsets was left out anywhere in this one."""
    if extent.holding != VOID or not any(
        other.holding == DAMAGED and not other.offsets.intersect(extent.offsets).is_empty for _, other in found
    ):
        return extent
    fault = copy.survey(file.segment).find_left_out(extent.offsets)
    return extent if fault is None else replace(extent, holding=DAMAGED, error=fault)


def _note_failure(extents: Iterator[Extent], failed: OffsetRange, error: DataError) -> Iterator[Extent]:
    """Yields the extents of a file, in which some offsets count as damaged."""
    for extent in extents:
        inside = extent.offsets.intersect(failed)
        if inside.is_empty:
            yield extent
            continue
        yield replace(extent, offsets=extent.offsets.intersect(OffsetRange(end=failed.start)))
        yield Extent(inside, DAMAGED, error)
        yield replace(extent, offsets=extent.offsets.intersect(OffsetRange(failed.end)))


def _leave_out_gone(copy: CopyView, extent: Extent, copies: Sequence[CopyView]) -> Extent:
    """Returns an extent of a copy as far as it counts.

    What compaction removed from a copy whose history lost may still be a part of the log. So the copy shows it only for
    offsets below those of the other copies. A last batch with wrong offsets shows nothing at all, nor does the gap
    before it. Nor does a gap before any last batch, as nothing proves the offset of that batch.
    """
    gap = copy.unproven_gap
    if extent.holding == VOID and gap is not None and extent.offsets == extent.offsets.intersect(gap):
        return replace(extent, offsets=OffsetRange(gap.start, gap.start))
    if copy.has_misplaced_end and extent.holding != DAMAGED:
        extent = replace(extent, offsets=extent.offsets.intersect(OffsetRange(end=copy.tail.end)))
    if not copy.has_lost or extent.holding not in {VOID, THIN}:
        return extent
    starts = [other.start for other in copies if not other.has_lost and other.log.segments]
    return replace(
        extent, offsets=extent.offsets.intersect(OffsetRange(end=min(starts, default=kafka_format.MAX_OFFSET)))
    )


def _is_behind_end(copy: CopyView, extent: Extent) -> bool:
    """Whether an extent has no offsets, or is damage behind the end of a copy (`_rate_end`)."""
    is_behind = extent.holding == DAMAGED and extent.offsets.start >= copy.tail.end
    return extent.offsets.is_empty or is_behind


def _rate_end(copy: CopyView, surveyed_file: Survey, copies: Sequence[CopyView]) -> list[Extent]:
    """Returns the offsets behind the end of a copy as damage, if that is in doubt, and no other copy explains it."""
    damage, offsets = copy.tail.damage, OffsetRange(copy.tail.end).intersect(surveyed_file.offsets)
    if damage is None or offsets.is_empty or surveyed_file.segment.path != copy.log.segments[-1].path:
        return []
    is_lost = not is_explained(copy, [other for other in copies if other is not copy])
    return [Extent(offsets, DAMAGED, damage)] if is_lost else []


def _join_runs(
    picked: Sequence[tuple[int, OffsetRange]], extents: list[tuple[Survey, Extent]]
) -> Iterator[tuple[OffsetRange, Survey, Extent]]:
    """Yields the chosen extents, with neighbours of one file joined."""
    last: tuple[OffsetRange, Survey, Extent] | None = None
    for at, offsets in picked:
        surveyed_file, extent = extents[at]
        if last is not None:
            before, file, held = last
            if min(extent.holding, held.holding) > VOID and file is surveyed_file and before.end == offsets.start:
                last = OffsetRange(before.start, offsets.end), file, held
                continue
            yield last
        last = offsets, surveyed_file, extent
    if last is not None:
        yield last


def _make_piece(split: SegmentSplit, surveyed_file: Survey, offsets: OffsetRange) -> SegmentSplit:
    """Returns the split of the offsets that one file holds, between the positions that its survey found."""
    batches = surveyed_file.between(offsets)
    place = BatchPlace(*batches[[batch_headers.POSITION, batch_headers.BASE_OFFSET, batch_headers.CRC], 0].tolist())
    bounds = ScanBounds(offsets.intersect(split.bounds.offsets), split.bounds.times)
    end = int(batches[batch_headers.POSITION, -1] + batches[batch_headers.SIZE, -1])
    piece = split_of(surveyed_file.log, surveyed_file.segment, bounds, place.position, end)
    return piece._replace(
        anchor=place if place.position else None,
        stop_timestamp=split.stop_timestamp,
        copies=split.copies,
        served_to=offsets.end,
        lost_places=split.lost_places,
    )
