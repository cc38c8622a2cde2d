"""Finds the sound batches of one segment of a copy, and the damage between them.

It reads the wanted offsets from the first byte to the last. So it is used only where copies differ, or where one of
them is damaged. It reports nothing, as only the caller knows what another copy holds. Raises StorageError, and
FileChangedError if the file is not the one that was listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafka_segment_source.bounds import OffsetRange, ScanBounds
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.damage import Damage, NotedDamage
from kafka_segment_source.decoding.header_table import is_v2, is_wrapper
from kafka_segment_source.decoding.split import anchored, place_of, split_of
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.errors import CorruptRecordError, DataError, DataLossError, FileChangedError
from kafka_segment_source.kafka_format import MAGIC_V2
from kafka_segment_source.kernels import batch_headers, record_batches
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.indexes import find_last_offset
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import PartitionLog, Segment
from kafka_segment_source.partition.choice import DAMAGED, THIN, UNKNOWN, VOID, WHOLE
from kafka_segment_source.trust import Policy, Trust

_PROBED = [
    *(
        batch_headers.POSITION,
        batch_headers.SIZE,
        batch_headers.MAGIC,
        batch_headers.CRC,
        batch_headers.ATTRIBUTES,
        batch_headers.BASE_OFFSET,
        batch_headers.LAST_OFFSET,
    ),
    *(batch_headers.MAX_TIMESTAMP, batch_headers.COUNT, batch_headers.LEADER_EPOCH, batch_headers.BASE_TIMESTAMP),
]
"""The rows of a header table that a BatchHeader has, in the order of its fields."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Offsets that a segment holds equally well.

    error: the damage, if the holding is DAMAGED.
    """

    offsets: OffsetRange
    holding: int
    error: DataError | None = None


class LeftOut(NamedTuple):
    """Bytes between two sound batches of a segment, or after the last one, that were left out as damage.

    start, end: positions, exclusive of `end`.
    gap: the offsets that are missing there. After the last batch these are the ones up to the next segment, and none in
        the last segment.
    """

    fault: DataError
    start: int
    end: int
    gap: OffsetRange


@dataclass(frozen=True)
class Survey:
    """The sound batches of a segment that reach into the wanted offsets, int64[FIELDS, n], in order.

    faults: for each batch the damage right before it, and one more for the damage after the last batch. None for no
        damage.
    end_holding: how well the offsets after the last batch are held, if there is no damage. None if that is not known.
    firsts: int64[n], the first offset of each batch as far as it is known. The header of a wrapper of magic 0 or 1 has
        only its last offset.
    left_out: all damage that states one of the wanted offsets, wherever it lies.
    """

    log: PartitionLog
    segment: Segment
    offsets: OffsetRange
    batches: HeaderTable
    faults: tuple[DataError | None, ...]
    end_holding: int | None
    firsts: npt.NDArray[np.int64]
    left_out: tuple[DataError, ...] = ()

    @property
    def last(self) -> BatchHeader | None:
        """The last sound batch, or None."""
        return self.header(self.batches.shape[1] - 1) if self.batches.shape[1] else None

    @property
    def has_thinned_batches(self) -> bool:
        """Whether offsets are missing in a sound batch of magic 2: compaction alone does that."""
        base, last, count = self.batches[[batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET, batch_headers.COUNT]]
        return bool((is_v2(self.batches) & (count < last - base + 1)).any())

    def shows_compaction(self, end: int) -> bool:
        """Whether offsets are missing in a sound batch of magic 2, or before one that begins below `end` and that no
        damage precedes."""
        base, last = self.batches[[batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET]]
        before = np.concatenate(([self.segment.base_offset - 1], last[:-1]))
        is_behind_damage = np.array([fault is not None for fault in self.faults[:-1]], np.bool_)
        is_behind_gap = (base > before + 1) & (base < end) & ~is_behind_damage
        return self.has_thinned_batches or bool((is_v2(self.batches) & is_behind_gap).any())

    def left_out_places(self) -> list[LeftOut]:
        """Returns where damage was left out, in order."""
        return self._left_out_places

    @cached_property
    def _left_out_places(self) -> list[LeftOut]:
        reached = max(self.offsets.start, self.segment.base_offset)
        end = -1 if self.segment.is_last else self.segment.span.end
        batches = zip(self.batches[batch_headers.POSITION].tolist(), self.firsts.tolist(), strict=True)
        afters = (self.batches[batch_headers.LAST_OFFSET] + 1).tolist()
        places = []
        for fault, (position, first), after in zip(
            self.faults, [*batches, (self.segment.size, end)], [*afters, -1], strict=True
        ):
            if fault is not None:
                places.append(LeftOut(fault, fault.position, position, OffsetRange(reached, max(first, reached))))
            reached = after
        return places

    def find_displaced(self) -> DataError | None:
        """Returns the first damage before a batch that no missing offset explains. Its records belong after the last
        batch, unless they are there twice: one of the batches around it states a wrong offset."""
        places = self.left_out_places()
        return next(
            (place.fault for place in places if place.gap.is_empty and place.fault is not self.faults[-1]), None
        )

    def _find_unexplained(self) -> DataError | None:
        """Returns the first damage where no offset is missing, but for that at the end of a log. What lies before the
        first batch of a part of a file may be damage of offsets that are not wanted."""
        skipped = [self.faults[-1]] if self.segment.is_last else []
        skipped += self.faults[:1] if self.offsets.start > self.segment.base_offset else []
        places = (place for place in self.left_out_places() if not any(place.fault is fault for fault in skipped))
        return next((place.fault for place in places if place.gap.is_empty), None)

    def find_left_out(self, offsets: OffsetRange) -> DataError | None:
        """Returns the first damage that states one of these offsets, wherever it lies."""
        return next((fault for fault in self.left_out if offsets.start <= (fault.offset or 0) < offsets.end), None)

    def first_from(self, offset: int) -> int:
        """Returns the number of the first sound batch that ends at or after an offset, or the number of batches if none
        does."""
        return int(np.searchsorted(self.batches[batch_headers.LAST_OFFSET], offset))

    def has(self, batch: BatchHeader) -> bool:
        """Whether a sound batch has the offset and the CRC of another one."""
        at = self.first_from(batch.last_offset)
        fields = [batch_headers.BASE_OFFSET, batch_headers.CRC]
        return bool(self.batches[fields, at : at + 1].T.tolist() == [[batch.base_offset, batch.crc]])

    def between(self, offsets: OffsetRange) -> HeaderTable:
        """Returns the sound batches that reach into a range of offsets."""
        after = int(np.searchsorted(self.firsts, offsets.end))
        first = self.first_from(offsets.start)
        return self.batches[:, first : max(after, first + 1)]

    def header(self, at: int) -> BatchHeader:
        """Returns the header of batch number `at` in the type that planning uses."""
        return BatchHeader(*self.batches[_PROBED, at].tolist())

    def is_followed(self, at: int) -> bool:
        """Whether a batch of magic 2 follows batch number `at`, and begins where that one ends."""
        if at + 1 >= self.batches.shape[1] or self.faults[at + 1] is not None:
            return False
        following = self.header(at + 1)
        return following.magic == MAGIC_V2 and following.base_offset == self.header(at).last_offset + 1

    def extents(self) -> Iterator[Extent]:
        """Yields the extents inside the wanted offsets, in order. It leaves out offsets about which nothing is
        known.

        A gap is no proof that compaction has removed what was there, if a batch of these offsets lies elsewhere in the
        file and was left out. Nor is it in a log that is not marked as compacted, if the file has damage where no
        offset is missing: a batch that was written over another one leaves both.
        """
        unexplained = None if self.log.compacted else self._find_unexplained()
        start = max(self.offsets.start, self.segment.base_offset)
        batches = self.batches
        afters = batches[batch_headers.LAST_OFFSET] + 1
        before = np.concatenate(([start], afters))[:-1]
        has_count = is_v2(batches)
        bases = self.firsts
        is_thin = has_count & (batches[batch_headers.COUNT] < afters - bases)
        begins = (bases > before) | (np.diff(is_thin, prepend=~is_thin[:1]))
        firsts = np.flatnonzero(begins).tolist()
        for at, until in zip(firsts, [*firsts[1:], len(bases)], strict=False):
            if bases[at] > before[at]:
                gap = OffsetRange(int(before[at]), min(int(bases[at]), self.offsets.end))
                fault = self.faults[at] or self.find_left_out(gap) or (unexplained if has_count[at] else None)
                yield Extent(gap, VOID if fault is None else DAMAGED, fault)
            held = OffsetRange(max(int(bases[at]), start), int(afters[until - 1]))
            yield Extent(held.intersect(OffsetRange(end=self.offsets.end)), THIN if is_thin[at] else WHOLE)
        rest = OffsetRange(int(afters[-1]) if len(afters) else start, self.offsets.end).intersect(self.segment.span)
        if (fault := self.faults[-1] or self.find_displaced()) is not None:
            yield Extent(rest, DAMAGED, fault)
        elif self.end_holding is not None:
            yield Extent(rest, self.end_holding)


def survey(
    log: PartitionLog,
    segment: Segment,
    offsets: OffsetRange,
    policy: Policy,
    *,
    decodes: bool = False,
    microseconds: bool = False,
    start_offset: int | None = None,
) -> Survey:
    """Returns a survey of `offsets` in a segment of `log`.

    decodes: whether only batches that can be decoded are sound.
    microseconds: whether their timestamps must also fit microseconds.
    start_offset: reading begins near this offset instead of the first wanted one.
    """
    collector = _Collector(segment, offsets)
    emptied = None if segment.size or segment.is_last else _find_emptied(segment)
    if emptied is not None:
        collector.note(emptied)
        return collector.survey(log, None)
    with SegmentView(segment, policy.trust) as view:
        from_offset = offsets.start if start_offset is None else start_offset
        start = view.start_position(from_offset) if from_offset > segment.base_offset else 0
        split = anchored(split_of(log, segment, ScanBounds(offsets), start), view.probe)
    # a batch in doubt counts as damaged here, as another copy may have it at its place
    split = split._replace(gap_is_loss=not log.compacted, copies=(log.directory,))
    damage, firsts = NotedDamage(drop=True), dict[int, int]()
    with SplitFile(split, policy.trust, damage) as source:
        decoder = source.decoder(policy.reads_control, microseconds)
        for chunk in source.chunks():
            collector.skip(damage)
            unreadable: dict[int, DataError] = {}
            if decodes:
                firsts |= decoder.find_first_offsets(chunk)
                unreadable = {error.position: error for error in damage.skipped}
            collector.take(chunk, unreadable)
            damage.skipped.clear()
        end_holding = _rate_rest(source)  # it may find more damage
        collector.skip(damage)
        made = collector.survey(log, end_holding)
    return _note_first_offsets(made, firsts) if decodes else made


def _find_emptied(segment: Segment) -> DataError | None:
    """Returns the damage of a `.log` of 0 bytes beside an index file with entries. None if no index has any.

    The cleaner also leaves segments without a byte, but an index of such a segment has no entry.
    """
    for path, size in ((segment.index_path, segment.index_size), (segment.time_index_path, segment.time_index_size)):
        last = find_last_offset(path, segment.storage, size, segment.base_offset) if size else None
        if last is not None:
            expected = f"batches up to offset {last} at least, by {path}"
            return CorruptRecordError(
                "an emptied segment", path=segment.path, position=0, found="0 bytes", expected=expected
            )
    return None


def _note_first_offsets(surveyed: Survey, firsts: dict[int, int]) -> Survey:
    """Returns the survey with the first offset of each wrapper of magic 0 or 1. firsts: by position."""
    batches = surveyed.batches
    hides_first = is_wrapper(batches)
    before = np.concatenate(([surveyed.segment.base_offset], batches[batch_headers.LAST_OFFSET] + 1))[:-1]
    known = batches[batch_headers.BASE_OFFSET].copy()
    for at in np.flatnonzero(hides_first).tolist():
        known[at] = max(firsts.get(int(batches[batch_headers.POSITION, at]), before[at]), before[at])
    return replace(surveyed, firsts=known)


Rows = dict[int, tuple[int, bytes | None, bytes | None]]


def rows_of(log: PartitionLog, segment: Segment, header: BatchHeader, trust: Trust) -> Rows:
    """Returns the records of one batch with its control records: timestamp, key and value by offset.

    Its CRC is checked in every read, as its records are compared with those of another copy. Raises DataError for a
    batch that cannot be decoded.
    """
    bounds = ScanBounds(OffsetRange(0, header.last_offset + 1))
    split = split_of(log, segment, bounds, header.position, header.end)
    split = split._replace(anchor=place_of(header) if header.position else None)
    damage = Damage(drop=False)
    rows: Rows = {}
    with SplitFile(split, trust._replace(check_crcs=True), damage) as source:
        decoder = source.decoder(include_control=True)
        for chunk in source.chunks():
            for records in decoder.decode(chunk):
                ints, data = records.ints[:, : records.count], memoryview(records.source)  # type: ignore[arg-type]
                keys = _slice_bytes(data, ints[record_batches.KEY_AT], ints[record_batches.KEY_LENGTH])
                values = _slice_bytes(data, ints[record_batches.VALUE_AT], ints[record_batches.VALUE_LENGTH])
                longs = records.longs[:, : records.count]
                columns = zip(
                    longs[record_batches.OFFSET].tolist(),
                    longs[record_batches.TIMESTAMP].tolist(),
                    keys,
                    values,
                    strict=True,
                )
                rows |= {offset: (timestamp, key, value) for offset, timestamp, key, value in columns}
    return rows


def _slice_bytes(data: memoryview, places: npt.NDArray[np.int32], lengths: npt.NDArray[np.int32]) -> list[bytes | None]:
    pairs = zip(places.tolist(), lengths.tolist(), strict=True)
    return [None if length < 0 else bytes(data[at : at + length]) for at, length in pairs]


def _rate_rest(source: SplitFile) -> int | None:
    """Returns how a file that was read to its end holds the offsets up to the next segment. None if that is not
    known."""
    try:
        source.finish()
    except FileChangedError:
        raise
    except DataLossError:
        source.check_lost_end()  # compaction of another copy may explain the gap, but not this
        return None
    if source.is_done:
        return VOID
    if source.split.is_of_last:
        return None
    return UNKNOWN if source.is_end_undecided else VOID


class _Collector:
    """Collects a survey, chunk by chunk."""

    def __init__(self, segment: Segment, offsets: OffsetRange) -> None:
        self._segment = segment
        self._offsets = offsets
        self._tables: list[HeaderTable] = []
        self._faults: list[DataError | None] = []
        self._fault: DataError | None = None  # the damage right before the next batch
        self._left_out: list[DataError] = []

    def skip(self, damage: Damage) -> None:
        """Notes the damage that was skipped since the last batch."""
        if damage.skipped:
            self.note(damage.skipped[0])
        self._left_out += [fault for fault in damage.skipped if self._is_wanted(fault)]

    def _is_wanted(self, fault: DataError) -> bool:
        return fault.offset is not None and self._offsets.start <= fault.offset < self._offsets.end

    def note(self, fault: DataError) -> None:
        """Notes damage before the next batch."""
        self._fault = self._fault or fault

    def take(self, chunk: Chunk, unreadable: dict[int, DataError]) -> None:
        """Adds the batches of a chunk."""
        headers = chunk.headers
        keep = headers[batch_headers.LAST_OFFSET] >= self._offsets.start
        if not keep[0]:
            self._fault = None  # the damage lies before the wanted offsets
        if not unreadable:
            if keep.any():
                self._add_batches(headers[:, keep])
            return
        for at in np.flatnonzero(keep).tolist():
            error = unreadable.get(int(headers[batch_headers.POSITION, at]))
            if error is None:
                self._add_batches(headers[:, at : at + 1])
            else:
                self.note(error)

    def _add_batches(self, headers: HeaderTable) -> None:
        self._tables.append(headers.copy())
        self._faults += [self._fault, *[None] * (headers.shape[1] - 1)]
        self._fault = None

    def survey(self, log: PartitionLog, end_holding: int | None) -> Survey:
        """Returns the survey of all batches that were added."""
        batches = np.concatenate([np.empty((batch_headers.FIELDS, 0), np.int64), *self._tables], axis=1)
        faults = (*self._faults, self._fault)
        firsts, left_out = batches[batch_headers.BASE_OFFSET], tuple(self._left_out)
        return Survey(log, self._segment, self._offsets, batches, faults, end_holding, firsts, left_out)
