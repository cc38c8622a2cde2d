"""The rules between a segment's batches and its index entries, for every Kafka version that may have written them.

Input: the headers of the segment's undamaged batches, and every entry of its index files. Output: `Finding`s. Kafka
versions differ. For example, an entry of a `.index` holds the first offset of an append or its last one, which may be
many batches later. So a rule here is one that all versions keep:

offset index, entries (O_k, P_k):
- P_k is where a batch begins. O_k and P_k grow. Zeros may follow.
- Every batch before P_k ends below O_k. Every batch from P_{k+1} on begins above O_k.
- The magic 2 batch at P_k begins at or below O_k. O_k lies in the segment.

time index, entries (T_k, O_k):
- T_k grows, and O_k never shrinks. Zeros may follow.
- No record up to O_k is later than T_k.
- Some batch up to O_k reaches T_k. This may be an empty batch. An empty batch may also be later than T_k.
- Kafka up to 0.10 wrote wrong maxima. A segment that begins with magic 0 or 1 gives notes only. It gives none where no
  batch reaches T_k.

transaction index, one entry for each abort:
- The version is 0. The offsets of markers grow and lie in the segment. No transaction begins after its marker.
- At a marker's offset is a control batch of that producer, unless compaction has removed the batch.

kafka-dump-log checks entries against the rules of one version only. It reports those of other versions as "Mismatches".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding import header_table
from kafka_segment_source.inspection.findings import Finding
from kafka_segment_source.inspection.index_order import (
    sound_aborts,
    sound_offsets,
    sound_times,
    written_aborts_of,
    written_offsets_of,
    written_times_of,
)
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.index_entries import most_entries
from kafka_segment_source.logdir.indexes import AbortEntries, OffsetEntries, TimeEntries
from kafka_segment_source.logdir.segments import Segment
from kafka_segment_source.storage.files import file_version
from kafka_segment_source.times import format_millis

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

SHOWN = 3  # wrong entries that are named one by one; the others are only counted
_STRAY = "a broker that looks up an offset here starts at the wrong place or fails; this reader proves entries first. A broker rebuilds the index files of a segment whose .index is missing when it starts"
_LATE = "a lookup by time may pass over records that match; this reader believes a time index only after checking its ends. A broker rebuilds it when it starts only if the segment's .index is missing too"
_OLD = "Kafka up to 0.10 wrote such entries; this reader uses no time index of that age"
_ABORT = "a broker tells its read_committed consumers which records to leave out by these entries; this reader goes by the markers in the log"
_UNUSED = "entries from here on are not used: reads walk more batch headers instead, and stay right"
_UNREADABLE = "reads do without it, and walk more batch headers instead"
_NOT_ITS = "no broker writes more than one entry a batch: the file is another one's, or garbage; reads do without it"
_AHEAD = "the log was cut after the index was written (a crash, or a copy of a live log): the entries are not used, and a broker drops them when it starts"


@dataclass(frozen=True, slots=True)
class Batches:
    """The fields of a segment's undamaged batches that the rules need, in file order.

    base_offsets: for magic 0 and 1 the entry's own offset, which is the last one of a wrapper.
    max_timestamps: in ms.
    """

    positions: Longs
    base_offsets: Longs
    last_offsets: Longs
    max_timestamps: Longs
    is_v2: Mask
    is_empty: Mask
    is_wrapper: Mask
    is_control: Mask
    producer_ids: Longs
    leader_epochs: Longs

    def __len__(self) -> int:
        return len(self.positions)


def batches_of(tables: Sequence[HeaderTable]) -> Batches:
    """The batches of consecutive header tables."""
    parts = [_read_batches(table) for table in tables] or [_read_batches(np.empty((batch_headers.FIELDS, 0), np.int64))]
    columns = ([getattr(part, field.name) for part in parts] for field in fields(Batches))
    return Batches(*(np.concatenate(column) for column in columns))


def _read_batches(table: HeaderTable) -> Batches:
    return Batches(
        positions=table[batch_headers.POSITION].copy(),
        base_offsets=table[batch_headers.BASE_OFFSET].copy(),
        last_offsets=table[batch_headers.LAST_OFFSET].copy(),
        max_timestamps=table[batch_headers.MAX_TIMESTAMP].copy(),
        is_v2=header_table.is_v2(table),
        is_empty=table[batch_headers.COUNT] == 0,
        is_wrapper=header_table.is_wrapper(table),
        is_control=header_table.is_control(table),
        producer_ids=table[batch_headers.PRODUCER_ID].copy(),
        leader_epochs=table[batch_headers.LEADER_EPOCH].copy(),
    )


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts to check the index files against.

    batches: the undamaged batches.
    end: the byte position where they end.
    damaged: byte ranges of damage, whose batches are unknown.
    """

    segment: Segment
    batches: Batches
    end: int
    damaged: tuple[tuple[int, int], ...]

    @property
    def last_offset(self) -> int:
        return int(self.batches.last_offsets[-1]) if len(self.batches) else self.segment.base_offset - 1


def check_offset_index(facts: Facts) -> Iterator[Finding]:
    """Finds problems and notes in the `.index` of a segment."""
    segment = facts.segment
    path = segment.index_path
    index = written_offsets_of(segment)
    sound = sound_offsets(index, segment.base_offset)
    yield from _check_usable(path, index.fault, len(index), segment.size)
    if sound < len(index):
        yield _make_order_finding(path, sound, kafka_format.OFFSET_INDEX_ENTRY, len(index))
    yield from _find_odd_bytes(path, segment.index_size, kafka_format.OFFSET_INDEX_ENTRY)
    offsets, positions = index.offsets[:sound], index.positions[:sound]
    known = ~_is_inside(positions, facts.damaged)
    yield from _find_ahead(facts, path, known & (positions >= facts.end), kafka_format.OFFSET_INDEX_ENTRY)
    yield from _find_wrong_offsets(facts, path, offsets, positions, known & (positions < facts.end))


def check_time_index(facts: Facts) -> Iterator[Finding]:
    """Finds problems and notes in the `.timeindex` of a segment."""
    segment = facts.segment
    path = segment.time_index_path
    index = written_times_of(segment)
    sound = sound_times(index, segment.base_offset)
    yield from _check_usable(path, index.fault, len(index), segment.size)
    if sound < len(index):
        yield _make_order_finding(path, sound, kafka_format.TIME_INDEX_ENTRY, len(index))
    yield from _find_odd_bytes(path, segment.time_index_size, kafka_format.TIME_INDEX_ENTRY)
    beyond = index.offsets[:sound] > facts.last_offset
    if not facts.damaged:
        yield from _find_ahead(facts, path, beyond, kafka_format.TIME_INDEX_ENTRY)
    yield from _find_wrong_times(facts, path, index.timestamps[:sound][~beyond], index.offsets[:sound][~beyond])


def check_transaction_index(facts: Facts) -> Iterator[Finding]:
    """Finds problems and notes in the `.txnindex` of a segment. Most segments have no such file."""
    segment = facts.segment
    path = segment.transaction_index_path
    aborts = written_aborts_of(segment)
    yield from _check_usable(path, aborts.fault, len(aborts), segment.size)
    yield from _find_odd_bytes(path, segment.transaction_index_size, kafka_format.TRANSACTION_INDEX_ENTRY)
    if not len(aborts):
        return
    wrong, beyond, _ = _judge_aborts(facts, aborts)
    if not facts.damaged:
        yield from _find_ahead(facts, path, beyond, kafka_format.TRANSACTION_INDEX_ENTRY)
    slots = np.flatnonzero(wrong).tolist()
    for slot in slots[:SHOWN]:
        producer, first, last = (
            int(column[slot]) for column in (aborts.producer_ids, aborts.first_offsets, aborts.last_offsets)
        )
        what = f"entry {slot} (producer {producer}, offsets {first} to {last}) names no abort in this segment{_count_rest(slots, slot)}"
        yield Finding(True, path, what, _ABORT, slot * kafka_format.TRANSACTION_INDEX_ENTRY, last)


# ---- entry by entry, for the views ----


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What the log says of each entry.

    is_borne_out: it bears the entry out.
    is_wrong: `verify` calls it a problem.

    An entry is neither where the log cannot tell: at damage, past the end of a log that may be written, where
    compaction removed the batch, and where `verify` has only a note.
    """

    is_borne_out: Mask
    is_wrong: Mask


def judge_offset_index(facts: Facts, index: OffsetEntries) -> Verdicts:
    """Compares each entry of `written_offsets_of` with the log."""
    slots = np.arange(len(index))
    is_sound = slots < sound_offsets(index, facts.segment.base_offset)
    known = is_sound & ~_is_inside(index.positions, facts.damaged)
    ahead = known & (index.positions >= facts.end)
    sound = int(is_sound.sum())
    breaks = _judge_offsets(facts, index.offsets[:sound], index.positions[:sound], (known & ~ahead)[:sound])
    broken = np.zeros(len(index), np.bool_)
    broken[:sound] = breaks[0] | breaks[1] | breaks[2]
    return Verdicts(known & ~ahead & ~broken, ~is_sound | broken | (ahead & (not facts.segment.is_last)))


def judge_time_index(facts: Facts, index: TimeEntries) -> Verdicts:
    """Compares each entry of `written_times_of` with the log."""
    is_sound = np.arange(len(index)) < sound_times(index, facts.segment.base_offset)
    beyond = is_sound & (index.offsets > facts.last_offset)
    compared = is_sound & ~beyond
    too_low, too_high = np.zeros((2, len(index)), np.bool_)
    too_low[compared], too_high[compared] = _judge_times(facts, index.timestamps[compared], index.offsets[compared])
    is_whole = not facts.damaged
    wrong = (too_low | (too_high & is_whole)) & _has_new_rules(facts)
    wrong |= ~is_sound | (beyond & (is_whole and not facts.segment.is_last))
    lost = index.offsets >= _find_first_lost(facts)  # a lost batch up to there may be later
    return Verdicts(compared & ~too_low & ~too_high & ~lost, wrong)


def judge_transaction_index(facts: Facts, index: AbortEntries) -> Verdicts:
    """Compares each entry of `written_aborts_of` with the log."""
    if not len(index):
        return Verdicts(np.zeros(0, np.bool_), np.zeros(0, np.bool_))
    wrong, beyond, marked = _judge_aborts(facts, index)
    return Verdicts(marked, wrong | (beyond & (not facts.damaged and not facts.segment.is_last)))


def _find_first_lost(facts: Facts) -> int:
    """Returns an offset below which no batch is damaged."""
    if not facts.damaged:
        return kafka_format.MAX_OFFSET
    whole = np.searchsorted(facts.batches.positions, min(start for start, _ in facts.damaged))
    return int(facts.batches.last_offsets[whole - 1]) + 1 if whole else facts.segment.base_offset


# ---- the rules ----


def _judge_offsets(facts: Facts, offsets: Longs, positions: Longs, known: Mask) -> tuple[Mask, Mask, Mask]:
    """Which of the entries that are `known` to lead to good batches break a rule: the first, or else the next one.

    The rules: a batch begins there; no record of its offset is before; it is below the batches after its append.
    """
    batches = facts.batches
    if not len(offsets) or not len(batches):
        none = np.zeros(len(offsets), np.bool_)
        return none, none, none
    at = np.minimum(np.searchsorted(batches.positions, positions), len(batches) - 1)
    stray = known & (batches.positions[at] != positions)
    begins = known & ~stray
    last_before = np.where(at > 0, batches.last_offsets[at - 1], facts.segment.base_offset - 1)
    low = begins & ((offsets <= last_before) | (batches.is_v2[at] & (offsets < batches.base_offsets[at])))
    limits = np.full(len(offsets), kafka_format.MAX_OFFSET if facts.damaged else facts.last_offset + 1)
    limits[:-1] = np.where(begins[1:], batches.base_offsets[at[1:]], limits[:-1])
    return stray, low, begins & ~low & (offsets >= limits)


def _find_wrong_offsets(facts: Facts, path: str, offsets: Longs, positions: Longs, known: Mask) -> Iterator[Finding]:
    """Reports each entry for its first broken rule."""
    stray, low, high = _judge_offsets(facts, offsets, positions, known)
    for wrong, what in (
        (stray, "leads to byte {:,}, where no batch begins"),
        (low, "leads to byte {:,}, past records of its offset"),
        (high, "is not below the batches after its append at byte {:,}"),
    ):
        slots = np.flatnonzero(wrong).tolist()
        for slot in slots[:SHOWN]:
            offset = int(offsets[slot])
            said = f"entry {slot} (offset {offset}) {what.format(int(positions[slot]))}{_count_rest(slots, slot)}"
            yield Finding(True, path, said, _STRAY, slot * kafka_format.OFFSET_INDEX_ENTRY, offset)


def _judge_times(facts: Facts, timestamps: Longs, offsets: Longs) -> tuple[Mask, Mask]:
    """Which entries are too low, as a batch up to there is later; and which too high, as none is so late."""
    batches = facts.batches
    if not len(offsets) or not len(batches):
        none = np.zeros(len(offsets), np.bool_)
        return none, none
    latest = batches.max_timestamps
    covered = np.maximum.accumulate(np.where(batches.is_empty | batches.is_wrapper, kafka_format.NO_TIMESTAMP, latest))
    begun = np.searchsorted(batches.base_offsets, offsets, side="right") - 1  # the last batch that begins at or below
    too_low = (begun >= 0) & (covered[begun] > timestamps)
    holder = np.minimum(np.searchsorted(batches.last_offsets, offsets), len(batches) - 1)  # the batch of the offset
    return too_low, np.maximum.accumulate(latest)[holder] < timestamps


def _has_new_rules(facts: Facts) -> bool:
    """Whether Kafka 0.11 or later wrote the time index, so that its entries must be right."""
    return len(facts.batches) > 0 and bool(facts.batches.is_v2[0])


def _find_wrong_times(facts: Facts, path: str, timestamps: Longs, offsets: Longs) -> Iterator[Finding]:
    too_low, too_high = _judge_times(facts, timestamps, offsets)
    is_rule = _has_new_rules(facts)
    too_high = too_high & (is_rule and not facts.damaged)
    for wrong, what in ((too_low, "but a batch up to there is later"), (too_high, "but none up to there is so late")):
        slots = np.flatnonzero(wrong).tolist()
        for slot in slots[:SHOWN]:
            offset = int(offsets[slot])
            at = f"entry {slot} says that {format_millis(int(timestamps[slot]))} is reached up to offset {offset}"
            said = f"{at}, {what}{_count_rest(slots, slot)}"
            yield Finding(is_rule, path, said, _LATE if is_rule else _OLD, slot * kafka_format.TIME_INDEX_ENTRY, offset)


def _judge_aborts(facts: Facts, index: AbortEntries) -> tuple[Mask, Mask, Mask]:
    """Which entries are wrong, which lie past the last batch, and which have their marker in the log."""
    wrong = ~sound_aborts(index, facts.segment)
    beyond = ~wrong & (index.last_offsets > facts.last_offset)
    batches, ends = facts.batches, index.last_offsets
    if not len(batches):
        return wrong, beyond, np.zeros(len(index), np.bool_)
    holder = np.minimum(np.searchsorted(batches.last_offsets, ends), len(batches) - 1)
    held = (batches.base_offsets[holder] <= ends) & (batches.last_offsets[holder] >= ends)
    marker = batches.is_control[holder] & (batches.producer_ids[holder] == index.producer_ids)
    return wrong | (held & ~marker), beyond, ~wrong & held & marker


def _count_rest(slots: list[int], slot: int) -> str:
    """Counts the wrong entries that are not named. It is text only for the last entry that is named."""
    left = len(slots) - SHOWN
    return f" (and {left:,} more entries like it)" if left > 0 and slot == slots[SHOWN - 1] else ""


def _has_grown(segment: Segment) -> bool:
    now = file_version(segment.path, segment.storage)
    return now is not None and now.size > segment.size


# ---- the file itself ----


def _make_order_finding(path: str, slot: int, entry_bytes: int, written: int) -> Finding:
    what = f"entry {slot} of {written:,} breaks the order of the index: entries grow, and only zeros may follow them"
    return Finding(True, path, what, _UNUSED, slot * entry_bytes)


def _check_usable(path: str, fault: str | None, written: int, log_size: int) -> Iterator[Finding]:
    """Yields a note for an unreadable index file, and a problem for one with more entries than its log has room for."""
    if fault is not None:
        yield Finding(False, path, fault, _UNREADABLE)
    if written > most_entries(log_size):
        what = f"holds more than {most_entries(log_size):,} entries beside a .log of {log_size:,} bytes"
        yield Finding(True, path, what, _NOT_ITS)


def _find_odd_bytes(path: str, size: int | None, entry_bytes: int) -> Iterator[Finding]:
    odd = (size or 0) % entry_bytes
    if odd:
        what = f"the last {odd} bytes are no whole entry of {entry_bytes} bytes"
        meaning = "an entry was being written when the file was copied or the machine died; nobody reads those bytes"
        yield Finding(False, path, what, meaning, (size or 0) - odd)


def _find_ahead(facts: Facts, path: str, beyond: Mask, entry_bytes: int) -> Iterator[Finding]:
    """Finds entries past the last whole batch. They are legal in the last segment, and a problem in any other.

    Nothing is found where a broker has appended to the `.log` since it was listed: the entries are of what it appended.
    """
    if beyond.any() and not (facts.segment.is_last and _has_grown(facts.segment)):
        slot = int(np.argmax(beyond))
        what = f"the entries from slot {slot} on ({int(beyond.sum()):,}) lead past the last whole batch of the log"
        legal = facts.segment.is_last
        yield Finding(not legal, path, what, _AHEAD if legal else _STRAY, slot * entry_bytes)


def _is_inside(positions: Longs, ranges: tuple[tuple[int, int], ...]) -> Mask:
    inside = np.zeros(len(positions), np.bool_)
    for start, end in ranges:
        inside |= (positions >= start) & (positions < end)
    return inside
