"""The logs of a plan and one filter → a `Selection`: what is read of each segment. The planner makes a plan from it.

Where a read takes a round trip, partitions are planned in threads, and so are the segments of each. A segment's part
(`_examine`) depends on no other segment. What depends on the order is done in order.

For each segment, this module applies all rules: the bounds by offset and time, the proofs of the index files
(`pruning/`), the zone maps (`zones/pruning.py`), and the evidence about missing offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka_segment_source.bounds import OffsetRange, RowFilter, ScanBounds
from kafka_segment_source.decoding.split import SegmentSplit, anchored, split_of
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import DropKind, DroppedSegment, Evidence, PartitionLog, Segment
from kafka_segment_source.partition.missing import beyond_end
from kafka_segment_source.planning.offset_bounds import check_missing, offset_range
from kafka_segment_source.planning.stable_end import StableEnds
from kafka_segment_source.pruning.disorder import find_witness, stop_timestamp
from kafka_segment_source.pruning.ranges import ByteRange, Pruned, narrow
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.request import Content, ReadBounds
from kafka_segment_source.source import Source
from kafka_segment_source.storage.ahead import map_ahead, requests_at_once
from kafka_segment_source.times import format_millis
from kafka_segment_source.trust import Policy
from kafka_segment_source.zones.maps import ZoneMaps

if TYPE_CHECKING:
    from kafka_segment_source.zones.key_lookup import KeyFilters
    from kafka_segment_source.zones.zone_table import ZoneMap

SplitOf = tuple[Segment, SegmentSplit]


@dataclass(slots=True)
class Sources:
    """The input of a plan: what is asked, the logs, listed once, and the facts that one plan finds once about them."""

    source: Source
    policy: Policy
    content: Content
    bounds: ReadBounds
    logs: list[PartitionLog]
    stable: StableEnds
    maps: ZoneMaps

    @property
    def bytes_total(self) -> int:
        """Bytes of all `.log` files, whether they are read or not."""
        sizes = {segment.path: segment.size for log in self.logs for segment in log.segments}
        sizes |= {dropped.path: dropped.size for log in self.logs for dropped in log.unused}
        return sum(sizes.values())


@dataclass(slots=True)
class Selection:
    """What is read and what is not, before splits are cut and packed.

    kept: a split for each piece to read, by partition and offset.
    without_maps: the splits without zone maps.
    faults: of index files.
    missing: evidence about missing offsets, each with its sentence.
    late_bytes: bytes to read that come after the first timestamp that reached `until`, and that no zone covers.
    keys: the only stored keys of wanted rows, or None for all.
    bytes_left_by_keys: bytes that only key filters leave out.
    """

    kept: list[SplitOf] = field(default_factory=list)
    without_maps: list[SplitOf] = field(default_factory=list)
    dropped: list[DroppedSegment] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    missing: list[tuple[Evidence, str]] = field(default_factory=list)
    late_bytes: int = 0
    keys: frozenset[bytes] | None = None
    bytes_left_by_keys: int = 0

    def append(self, other: Selection) -> None:
        """Adds the selection of further logs."""
        self.kept += other.kept
        self.without_maps += other.without_maps
        self.dropped += other.dropped
        self.faults += other.faults
        self.missing += other.missing
        self.late_bytes += other.late_bytes
        self.bytes_left_by_keys += other.bytes_left_by_keys
        self.keys = other.keys  # it is the same for all logs of one filter


def select(sources: Sources, filters: Sequence[RowFilter], warnings: Warnings) -> list[Selection]:
    """Returns what is read of all logs, for each of some filters. `warnings` gets a sentence for each problem."""
    at_once = requests_at_once((log.storage, log.directory) for log in sources.logs)
    groups = [sources.logs] if at_once == 1 else [[log] for log in sources.logs]

    def select_of(logs: list[PartitionLog]) -> tuple[list[Selection], list[str]]:
        noted = Warnings()
        selectors = [Selector(sources, predicate, noted) for predicate in filters]
        for log in logs:  # the outer loop, so that one partition's zone map is in memory at a time
            for selector in selectors:
                selector.add(log)
        return [selector.selection for selector in selectors], noted

    selections = [Selection() for _ in filters]
    for of_group, noted in map_ahead(select_of, groups, at_once):
        warnings += noted
        for selection, part in zip(selections, of_group, strict=True):
            selection.append(part)
    return selections


@dataclass(slots=True)
class _Examined:
    """What is known of one segment.

    dropped: why it is not read.
    log_end: if it is the last one and dropped, the offset after its last whole batch, as far as known.
    indexed: if it is the last one, the last offset of the `.index` entries that lead behind its batches.
    without_map, kept: its splits, without and with the zone map.
    late_from: the position from which on bytes are late (`late_bytes`), None if there is none.
    covered: the position up to which zones are known.
    by_keys: bytes that key filters leave out.
    """

    faults: list[str]
    dropped: DroppedSegment | None = None
    log_end: int | None = None
    indexed: int | None = None
    without_map: SegmentSplit | None = None
    kept: tuple[SegmentSplit, ...] = ()
    witness: BatchHeader | None = None
    late_from: int | None = None
    covered: int = 0
    by_keys: int = 0


class Selector:
    """Selects what to read of one log after the other, for one filter.

    pushed: the rows that the filters above the read leave possible. All other rows may be left out.
    warnings: gets a sentence for each problem.
    """

    def __init__(self, sources: Sources, pushed: RowFilter, warnings: Warnings) -> None:
        self._keys = sources.content.with_keys(pushed.keys).raw_keys
        self.selection = Selection(keys=self._keys)
        self._warnings = warnings
        self._sources = sources
        self._pushed = pushed
        self._stable = sources.stable
        self._maps = sources.maps
        self._times = sources.bounds.times.intersect(pushed.times)
        self._disorder = sources.policy.disorder
        self._stop = stop_timestamp(self._times, self._disorder)
        self._late = False  # whether late bytes were found in the log at hand
        self._wanted = OffsetRange(0, 0)  # the offsets of the log at hand that are wanted, committed or not
        self._end_at = 0  # the segment in which a witness ends the log at hand, as far as known

    def add(self, log: PartitionLog) -> None:
        """Plans one partition's segments, in offset order."""
        self.selection.dropped += log.unused
        if not self._pushed.matches_partition(log.topic, log.partition):
            self._drop_all(log.segments, DropKind.OTHER_PARTITION)
            return
        if self._keys == frozenset():
            self._drop_all(log.segments, DropKind.NO_KEY)
            return
        source, policy, bounds = self._sources.source, self._sources.policy, self._sources.bounds
        offsets = offset_range(log, bounds, source, policy, self._warnings).intersect(self._pushed.offsets)
        self._note_missing(log, log.evidence, offsets)
        if bounds.starting.by_time:  # what is missing before the offset that was found may have had the time
            soft = tuple(evidence for evidence in log.evidence if not evidence.is_hard)
            self._note_missing(log, soft, OffsetRange(log.offsets.start, offsets.start))
        self._wanted = offsets
        within = ScanBounds(self._stable.intersect(log, offsets, self._warnings), self._times)
        has_times = self._times.has_since or self._times.has_until
        zone_map = self._maps.of(log) if has_times or self._keys is not None else None
        filters = None if zone_map is None or self._keys is None else self._maps.filters_of(log, self._keys)
        if not log.segments:
            self._note_end(log, log.offsets.start, offsets)
        self._late, self._end_at = False, len(log.segments)
        at_once = log.storage.read_cost(log.directory).at_once
        examined = map_ahead(
            lambda at: self._examine(log, at, within, zone_map, filters), range(len(log.segments)), at_once
        )
        for segment, examined_segment in zip(log.segments, examined, strict=True):
            self.selection.faults += examined_segment.faults
            if examined_segment.dropped is not None:
                if segment.is_last:
                    self._note_end(log, examined_segment.log_end, offsets, examined_segment.indexed)
                self.selection.dropped.append(examined_segment.dropped)
                continue
            if examined_segment.late_from is not None:
                self._count_late(examined_segment, examined_segment.late_from)
            assert examined_segment.without_map is not None
            self.selection.without_maps.append((segment, examined_segment.without_map))
            for split in examined_segment.kept:
                self.selection.kept.append((segment, split))
            if not examined_segment.kept:
                self.selection.dropped.append(self._drop_pruned(segment, examined_segment))
            self.selection.bytes_left_by_keys += examined_segment.by_keys
            if examined_segment.witness is not None:
                reason = f"all from {format_millis(self._times.until)} on (timestampDisorder)"
                self._drop_all(log.segments[self._end_at + 1 :], DropKind.AFTER_TIMES, reason)
                return
            if segment.is_last:
                self._note_end(log, examined_segment.without_map.log_end, offsets, examined_segment.indexed)

    def _drop_pruned(self, segment: Segment, examined: _Examined) -> DroppedSegment:
        if not examined.by_keys:
            return DroppedSegment(segment, DropKind.ZONE_MAP, DropKind.ZONE_MAP.value)
        has_times = self._times.has_since or self._times.has_until
        reason = f"no row with the key{' and the time' if has_times else ''} (key filter)"
        return DroppedSegment(segment, DropKind.KEY_FILTER, reason)

    def _examine(
        self, log: PartitionLog, at: int, bounds: ScanBounds, zone_map: ZoneMap | None, filters: KeyFilters | None
    ) -> _Examined:
        """Finds what is read of segment `at`. Several threads may do this for other segments at the same time."""
        segment = log.segments[at]
        within = ScanBounds(bounds.offsets.intersect(segment.offsets), bounds.times)
        result = _Examined([])
        if at > self._end_at:
            return result  # it is dropped by the witness
        with SegmentView(segment, self._sources.policy.trust, result.faults) as view:
            byte_range = _check_log_start(log, segment) or narrow(
                view, within, self._disorder, log.gap_is_loss(at), bool(log.copies)
            )
            if isinstance(byte_range, DroppedSegment):
                result.dropped = byte_range
                if not segment.size:
                    result.log_end = segment.base_offset
                elif self._wanted.end > segment.base_offset:  # what is missing behind may have the wanted times
                    result.log_end, result.indexed = _find_log_end(log, view), _find_last_indexed(log, view)
                return result
            result.witness = self._find_witness(view)
            if at > self._end_at:
                return result  # another thread has found a witness before it
            if result.witness is not None:
                self._end_at = min(self._end_at, at)
                byte_range = _cut_at_witness(byte_range, result.witness)
            pruned = self._prune_range(log, at, view, byte_range, zone_map, filters)
            result.by_keys = pruned.by_keys
            if self._times.has_until and self._stop is None:  # else nothing lies after until + D
                result.covered = pruned.covered
                result.late_from = 0 if self._late else self._find_late(view)
            self._split(log, at, view, within, byte_range, pruned, result)
            result.indexed = _find_last_indexed(log, view)
        return result

    def _note_end(self, log: PartitionLog, end: int | None, wanted: OffsetRange, indexed: int | None = None) -> None:
        """Warns if the log once had offsets after `end`, where its files end. None: the end is not known. indexed: the
        last offset of the entries that lead behind it."""
        evidence = None if end is None or end >= wanted.end else beyond_end(log, end, indexed)
        self._note_missing(log, () if evidence is None else (evidence,), wanted)

    def _note_missing(self, log: PartitionLog, evidence: tuple[Evidence, ...], wanted: OffsetRange) -> None:
        """Raises DataLossError for hard evidence about wanted offsets, under failOnDataLoss. Otherwise it warns."""
        for piece, said in check_missing(log, evidence, wanted, self._sources.policy):
            self.selection.missing.append((piece, said))

    def _find_witness(self, view: SegmentView) -> BatchHeader | None:
        """Finds the batch after which no row is wanted, by the option timestampDisorder."""
        witness = None if self._stop is None else find_witness(view, self._stop)
        if witness is not None and witness.last_offset >= view.segment.offsets.end:
            return None  # another directory serves some offsets before its end
        return witness

    def _prune_range(
        self,
        log: PartitionLog,
        at: int,
        view: SegmentView,
        byte_range: ByteRange,
        zone_map: ZoneMap | None,
        filters: KeyFilters | None,
    ) -> Pruned:
        """The part of a byte range that the partition's zone map and key filters leave. Without them, it is the whole
        range."""
        if zone_map is None:
            return Pruned((byte_range,))
        from kafka_segment_source.zones.pruning import prune  # noqa: PLC0415  # most reads have no zone maps

        base_offset = view.segment.base_offset
        zones = zone_map.of_segment(base_offset)
        holding = None if filters is None else filters.find_holding(base_offset, zones)
        pruned = prune(view, byte_range, self._times, zones, holding, log.shows_loss_at_end(at))
        if pruned.is_stale:
            self._maps.note_stale(log, view.segment.path)
        return pruned

    def _split(
        self,
        log: PartitionLog,
        at: int,
        view: SegmentView,
        within: ScanBounds,
        byte_range: ByteRange,
        pruned: Pruned,
        result: _Examined,
    ) -> None:
        """Adds the splits of segment `at` to `result`: one for each remaining piece of the byte range `found`."""
        split = split_of(
            log,
            log.segments[at],
            _narrow_bounds(within, byte_range),
            byte_range.start,
            byte_range.end,
            stop_timestamp=self._stop,
            gap_is_loss=log.gap_is_loss(at),
            log_end=_find_log_end(log, view),
        )
        whole = anchored(split, view.probe) if split.start > 0 else split
        result.without_map = whole
        if pruned.pieces == (byte_range,):
            result.kept = (whole,)
            return
        for piece in pruned.pieces:
            part = whole._replace(start=piece.start, end=piece.end, bounds=_narrow_bounds(whole.bounds, piece))
            result.kept += (anchored(part, view.probe),)

    def _drop_all(self, segments: Iterable[Segment], kind: DropKind, reason: str | None = None) -> None:
        reason = kind.value if reason is None else reason
        self.selection.dropped += [DroppedSegment(segment, kind, reason) for segment in segments]

    def _find_late(self, view: SegmentView) -> int | None:
        """Returns the position of the first time index entry ≥ until, or None. The option `until` alone cannot leave
        out what follows."""
        slot = view.times.before(self._times.until) + 1
        if slot == len(view.times):
            return None
        entry = view.offsets.floor(int(view.times.offsets[slot]))
        return int(view.offsets.positions[entry]) if entry >= 0 else 0

    def _count_late(self, examined: _Examined, late_from: int) -> None:
        """Counts the late bytes of a segment. After one that has some, all bytes are late. Bytes in zones are not
        counted."""
        position = max(0 if self._late else late_from, examined.covered)
        self.selection.late_bytes += sum(max(split.end - max(split.start, position), 0) for split in examined.kept)
        self._late = True


def _cut_at_witness(byte_range: ByteRange, witness: BatchHeader) -> ByteRange:
    """Cuts the range at the end of the witness. No wanted row comes after it."""
    end = max(byte_range.start, min(byte_range.end, witness.end))
    return byte_range._replace(end=end, end_offset=min(byte_range.end_offset, witness.last_offset + 1))


def _narrow_bounds(bounds: ScanBounds, piece: ByteRange) -> ScanBounds:
    """Narrows the bounds to the offsets that wanted rows of a byte range can have."""
    return ScanBounds(bounds.offsets.intersect(OffsetRange(piece.first_offset, piece.end_offset)), bounds.times)


def _find_log_end(log: PartitionLog, view: SegmentView) -> int | None:
    """Finds the offset after the last whole batch of a log. None for all but the last segment, or if not known."""
    if not view.segment.is_last:
        return None
    if log.copies:
        return log.end if log.end_damage is None else None
    return view.log_end()


def _find_last_indexed(log: PartitionLog, view: SegmentView) -> int | None:
    """Finds the last offset of the `.index` entries that lead behind the batches of a log. None for all but the last
    segment. Of several copies, the evidence of each was found before (`missing.py`)."""
    return view.find_last_indexed() if view.segment.is_last and not log.copies else None


def _check_log_start(log: PartitionLog, segment: Segment) -> DroppedSegment | None:
    """Returns the reason why a segment that ends before the log start is not read; None for any other segment."""
    following, start = segment.next_base_offset, log.offsets.start
    if following is None or following > start:
        return None
    return DroppedSegment(
        segment,
        DropKind.BEFORE_LOG_START,
        f"ends before offset {following}, the log starts at {start} (log-start-offset-checkpoint)",
    )
