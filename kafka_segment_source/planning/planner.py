"""Options → a ReadPlan: which byte range of which segment is read, which segments are not, and why.

Runs on the driver, without Spark and, as a rule, without the kernels: names, index files, a few batch headers. The
splits it makes are small frozen values that cross to the executors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kafka_segment_source.bounds import OffsetRange, RowFilter, ScanBounds
from kafka_segment_source.decoding.split import SegmentSplit, anchored, hulls, pack, split_of
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.logdir.catalog import Evidence, PartitionLog, Segment
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.partition.logs import examined_logs
from kafka_segment_source.partition.missing import beyond_end
from kafka_segment_source.planning.batch_rules import check_limits, check_partitions
from kafka_segment_source.planning.cuts import cut_by_bytes, cut_by_records
from kafka_segment_source.planning.offsets import StableEnds, check_missing, offset_range
from kafka_segment_source.planning.plan import DroppedSegment, ReadPlan
from kafka_segment_source.pruning.disorder import find_witness, stop_timestamp
from kafka_segment_source.pruning.ranges import ByteRange, Dropped, narrow
from kafka_segment_source.reporting import few
from kafka_segment_source.storage.files import try_again
from kafka_segment_source.times import format_millis
from kafka_segment_source.zones.pruning import Pruned, ZoneMaps, prune, update_command
from kafka_segment_source.zones.table import ZoneMap

PACK_MORE_THAN = 256  # tasks; fewer do not need to share


def make_plan(
    options: ReadOptions, warnings: list[str] | None = None, pushed: Sequence[RowFilter] = (RowFilter(),)
) -> ReadPlan:
    """The plan of a batch read; `warnings` of parsing are carried into it.

    pushed: what the filters above the read leave possible, one for each scan that it serves: a row that none of them
    lets through may be left out. Raises PathError, OptionError and DataLossError for what is not there or cannot be
    meant.
    """
    check_limits(options)
    try:
        return try_again(lambda: _plan_once(options, warnings, pushed))
    except FileChangedError:
        return _plan_once(options, warnings, pushed, cuts_all=False)


def _plan_once(
    options: ReadOptions, warnings: list[str] | None, pushed: Sequence[RowFilter], cuts_all: bool = True
) -> ReadPlan:
    """One try. cuts_all: a segment that was replaced before it could be cut is a FileChangedError; False: it stays whole."""
    warnings = list(warnings or ())
    logs = examined_logs(options, warnings)
    check_partitions(options, logs)
    stable = StableEnds(options)
    maps = ZoneMaps(options)
    planner, *others = [_Planner(options, each, stable, maps, list(warnings)) for each in pushed]
    for log in logs:  # the outer loop, so that one partition's zone map is in memory at a time
        for each in (planner, *others):
            each.add(log)
    for other in others:
        planner.merge(other)
    sizes = {segment.path: segment.size for log in logs for segment in log.segments}
    sizes |= {each.segment.path: each.segment.size for log in logs for each in log.unused}
    return planner.finish(sum(sizes.values()), cuts_all)


class _Planner:
    """Collects what to read of one log after the other."""

    def __init__(
        self, options: ReadOptions, pushed: RowFilter, stable: StableEnds, maps: ZoneMaps, warnings: list[str]
    ) -> None:
        self._options = options
        self._pushed = pushed
        self._stable = stable
        self._maps = maps
        self._warnings = warnings
        self._times = options.times.intersect(pushed.times)
        self._stop = stop_timestamp(self._times, options.timestamp_disorder, options.include_control)
        self._cuts_all = True
        self._kept: list[tuple[Segment, SegmentSplit]] = []
        self._dropped: list[DroppedSegment] = []
        self._without_maps: list[tuple[Segment, SegmentSplit]] = []  # what would be kept without zone maps
        self._faults: list[str] = []  # of index files
        self._missing: dict[str, list[str]] = {}  # sentences by when they are harmless
        self._late_bytes = 0  # to read, but after the first timestamp that reached until, and in no zone

    def add(self, log: PartitionLog) -> None:
        """Plans one partition's segments, in offset order."""
        self._dropped += [DroppedSegment(each.segment.path, each.segment.size, each.reason) for each in log.unused]
        if not self._pushed.matches_partition(log.topic, log.partition):
            self._drop_all(log.segments, "the filter on topic and partition leaves it out")
            return
        offsets = offset_range(log, self._options, self._warnings).intersect(self._pushed.offsets)
        self._note_missing(log, log.evidence, offsets)
        bounds = ScanBounds(self._stable.intersect(log, offsets, self._warnings), self._times)
        has_times = self._times.has_since or self._times.has_until
        zone_map = self._maps.of(log) if has_times else None
        late = False
        if not log.segments:
            self._note_end(log, log.offsets.start, offsets)
        for at, segment in enumerate(log.segments):
            within = ScanBounds(bounds.offsets.intersect(segment.offsets), bounds.times)
            with self._view(segment) as view:
                found = _below_log_start(log, segment) or narrow(view, within, self._options.timestamp_disorder)
                if isinstance(found, Dropped):
                    if segment.is_last and segment.size == 0:
                        self._note_end(log, segment.base_offset, offsets)
                    self._dropped.append(DroppedSegment(segment.path, segment.size, found.reason))
                    continue
                witness = self._witness(view)
                if witness is not None:
                    found = _until_witness(found, witness)
                pruned = self._prune(log, view, found, zone_map)
                if self._times.has_until and self._stop is None:  # else nothing lies after until + D
                    late = self._count_late(view, pruned, late)
                self._keep(log, at, view, within, found, pruned)
                if segment.is_last and witness is None:
                    self._note_end(log, self._without_maps[-1][1].log_end, offsets)
            if witness is not None:
                reason = f"all from {format_millis(self._times.until)} on (timestampDisorder)"
                self._drop_all(log.segments[at + 1 :], reason)
                return

    def _note_end(self, log: PartitionLog, end: int | None, wanted: OffsetRange) -> None:
        """Warns where the log once reached further than the end of its files; None: that is not known."""
        evidence = None if end is None else beyond_end(log, end)
        self._note_missing(log, () if evidence is None else (evidence,), wanted)

    def _note_missing(self, log: PartitionLog, evidence: tuple[Evidence, ...], wanted: OffsetRange) -> None:
        """Raises DataLossError for hard evidence about offsets that are wanted, under failOnDataLoss; warns else."""
        for each, said in check_missing(log, evidence, wanted, self._options):
            self._missing.setdefault(each.harmless or said, []).append(said)

    def _witness(self, view: SegmentView) -> BatchHeader | None:
        """The batch after which nothing is wanted, by the declared disorder."""
        witness = None if self._stop is None else find_witness(view, self._stop)
        if witness is not None and witness.last_offset >= view.segment.offsets.end:
            return None  # offsets before it are read from another directory
        return witness

    def _prune(self, log: PartitionLog, view: SegmentView, found: ByteRange, zone_map: ZoneMap | None) -> Pruned:
        """What of a byte range is left by the partition's zone map, if there is one."""
        if zone_map is None:
            return Pruned((found,))
        pruned = prune(view, found, self._times, zone_map.of_segment(view.segment.base_offset))
        if pruned.is_stale:
            self._maps.note_stale(log, view.segment.path)
        return pruned

    def _keep(
        self,
        log: PartitionLog,
        at: int,
        view: SegmentView,
        within: ScanBounds,
        found: ByteRange,
        pruned: Pruned,
    ) -> None:
        """Adds segment `at` to the plan: a split for each piece that is left of the range found."""
        segment = log.segments[at]
        split = split_of(
            log,
            segment,
            _inside(within, found),
            found.start,
            found.end,
            stop_timestamp=self._stop,
            gap_is_loss=not log.compacted and log.is_followed(at),
            log_end=_log_end(log, view),
        )
        whole = anchored(split, view.probe) if split.start > 0 else split
        self._without_maps.append((segment, whole))
        if pruned.pieces == (found,):
            self._kept.append((segment, whole))
            return
        for piece in pruned.pieces:
            part = replace(whole, start=piece.start, end=piece.end, bounds=_inside(whole.bounds, piece))
            self._kept.append((segment, anchored(part, view.probe)))
        if not pruned.pieces:
            reason = "no row inside the time bounds (zone map)"
            self._dropped.append(DroppedSegment(segment.path, segment.size, reason))

    def merge(self, other: _Planner) -> None:
        """Reads what either reads, each byte and each offset once."""
        self._kept = _merged(self._kept + other._kept)
        self._without_maps = _merged(self._without_maps + other._without_maps)
        kept = {segment.path for segment, _ in self._kept}
        self._dropped = [dropped for dropped in self._dropped if dropped.path not in kept]
        self._warnings = list(dict.fromkeys(self._warnings + other._warnings))
        self._faults += other._faults
        for harmless, said in other._missing.items():
            self._missing.setdefault(harmless, []).extend(said)
        self._late_bytes = max(self._late_bytes, other._late_bytes)

    def finish(self, bytes_total: int, cuts_all: bool) -> ReadPlan:
        """Cuts and packs what was planned."""
        self._cuts_all = cuts_all
        options = self._options
        saved = sum(split.size for _, split in self._without_maps) - sum(split.size for _, split in self._kept)
        if options.max_records_per_partition is not None:
            self._cut(lambda view, split: cut_by_records(view, split, options.max_records_per_partition or 1))
        if options.min_partitions is not None and len(self._kept) < options.min_partitions:
            to_read = sum(split.size for _, split in self._kept) or 1
            pieces = options.min_partitions / to_read
            self._cut(lambda view, split: cut_by_bytes(view, split, max(1, round(pieces * split.size))))
        for said in self._missing.values():
            self._warnings += few(dict.fromkeys(said))
        self._warnings += few(dict.fromkeys(self._faults))
        self._warnings += self._maps.warnings()
        if self._late_bytes:
            self._warnings.append(_late_warning(self._late_bytes, options))
        splits = tuple(split for _, split in self._kept)
        asked = options.min_partitions is not None or options.max_records_per_partition is not None
        tasks = pack(splits, PACK_MORE_THAN, 0 if asked else options.pack_bytes)
        kept = {split.path for split in splits}  # a chain of copies may name a segment more than once
        dropped = {each.path: each for each in reversed(self._dropped) if each.path not in kept}
        return ReadPlan(
            options, splits, tuple(tasks), tuple(reversed(dropped.values())), bytes_total, tuple(self._warnings), saved
        )

    def _view(self, segment: Segment) -> SegmentView:
        options = self._options
        return SegmentView(
            segment, check_crcs=options.check_crcs, trust_indexes=options.trust_indexes, faults=self._faults
        )

    def _drop_all(self, segments: tuple[Segment, ...], reason: str) -> None:
        self._dropped += [DroppedSegment(segment.path, segment.size, reason) for segment in segments]

    def _count_late(self, view: SegmentView, pruned: Pruned, late: bool) -> bool:
        """Counts the bytes after the first time index entry ≥ until: what `until` alone cannot leave out.

        late: whether that entry was in an earlier segment; answers the same for the next. Bytes in zones are not counted.
        """
        position = 0
        if not late:
            slot = view.times.before(self._times.until) + 1
            if slot == len(view.times):
                return False
            entry = view.offsets.floor(int(view.times.offsets[slot]))
            position = int(view.offsets.positions[entry]) if entry >= 0 else 0
        position = max(position, pruned.covered)
        self._late_bytes += sum(max(piece.end - max(piece.start, position), 0) for piece in pruned.pieces)
        return True

    def _cut(self, cut: Callable[[SegmentView, SegmentSplit], list[SegmentSplit]]) -> None:
        pieces = []
        replaced = 0
        for segment, split in self._kept:
            try:
                with self._view(segment) as view:
                    cuts = cut(view, split)
                    pieces += [
                        (segment, piece if piece.start == split.start else anchored(piece, view.probe))
                        for piece in cuts
                    ]
            except FileChangedError:
                if self._cuts_all:
                    raise
                pieces.append((segment, split))  # its task finds its offsets again
                replaced += 1
        self._kept = pieces
        if replaced:
            self._warnings.append(f"{replaced:,} segments were replaced while they were planned, and are not cut")


def _until_witness(found: ByteRange, witness: BatchHeader) -> ByteRange:
    """The range up to the end of the witness, of which no wanted row comes after."""
    end = max(found.start, min(found.end, witness.end))
    return replace(found, end=end, end_offset=min(found.end_offset, witness.last_offset + 1))


def _inside(bounds: ScanBounds, piece: ByteRange) -> ScanBounds:
    """The bounds less the offsets that no wanted row of a byte range has."""
    return ScanBounds(bounds.offsets.intersect(OffsetRange(piece.first_offset, piece.end_offset)), bounds.times)


def _merged(kept: list[tuple[Segment, SegmentSplit]]) -> list[tuple[Segment, SegmentSplit]]:
    """What any of these splits reads, in order, by splits that share nothing."""
    found: dict[tuple[str, OffsetRange], list[tuple[Segment, SegmentSplit]]] = {}
    for segment, split in kept:
        found.setdefault((segment.path, segment.offsets), []).append((segment, split))
    merged = [(several[0][0], split) for several in found.values() for split in hulls([each for _, each in several])]
    return sorted(merged, key=lambda each: (each[1].topic, each[1].partition, each[1].start_offset))


def _log_end(log: PartitionLog, view: SegmentView) -> int | None:
    """The offset after the last whole batch, of the last segment of a directory; None where it is not known."""
    if not view.segment.is_last:
        return None
    if log.copies:
        return None if log.is_end_damaged else log.end
    return view.log_end()


def _below_log_start(log: PartitionLog, segment: Segment) -> Dropped | None:
    """Why a segment that ends before the log start is not read; None for any other."""
    following, start = segment.next_base_offset, log.offsets.start
    if following is None or following > start:
        return None
    return Dropped(f"ends before offset {following}, the log starts at {start} (log-start-offset-checkpoint)")


def _late_warning(late_bytes: int, options: ReadOptions) -> str:
    bound = "option 'until'" if options.times.has_until else "a filter 'timestamp < …'"
    cost = f"{bound} cannot end the read early: {late_bytes:,} of the bytes to read come after the first timestamp that reaches it"
    remedies = []
    if not options.include_control:
        then = " and then zoneMaps=DIR" if options.zone_maps is None else ""
        remedies.append(f"`{update_command(options)}`{then} leaves out those that hold no row of that time")
    if options.timestamp_disorder is None:
        remedies.append(
            "where no record is older than the newest before it by more than 10 s, say, timestampDisorder=10s leaves them out"
        )
    elif options.include_control:
        remedies.append("timestampDisorder says nothing about control records, so includeControl=false leaves them out")
    else:
        remedies.append(
            "records without a timestamp count as -1 ms, so timestampDisorder needs a 'since' of 0 or later to leave them out"
        )
    return f"{cost}; {'; or, '.join(remedies)}"
