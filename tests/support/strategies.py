"""Hypothesis strategies: partitions as Kafka's many versions write them, with or without damage, and bounds to ask for.

In: knobs. Out: `GeneratedLog`s and `Bounds`. What is drawn is a small declarative plan, which a plain function turns
into a log; so failing examples shrink, and print in the notation of docs/pruning-rules.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hypothesis import strategies as st

from . import writer
from .batches import BatchSpec, write_batch
from .damage import Damage, LogFacts, damaged_index, damaged_time_index
from .index_writers import COMPACTED_WRITERS, EXACT_TIME_WRITERS, Append, IndexWriter, index_entries
from .logs import GeneratedLog, Segment, torn
from .writer import Codec

Magic = Literal[0, 1, 2]
Kind = Literal["data", "control", "empty"]


@dataclass(frozen=True)
class BatchPlan:
    """One batch to come; each byte of `ticks` is a row's place in time, each of `gaps` the offsets lost before it."""

    kind: Kind
    magic: Magic
    codec: Codec
    step: int
    ticks: bytes
    gaps: bytes
    append_time: bool
    horizon: bool
    joins: bool
    payload: int


@dataclass(frozen=True)
class SegmentPlan:
    """One segment to come; `writers` change before batch number `change`."""

    batches: tuple[BatchPlan, ...]
    writers: tuple[IndexWriter, IndexWriter]
    change: int
    compacted: bool
    final_entry: bool
    forget_at: int | None
    index_damage: Damage
    timeindex_damage: Damage
    salt: bytes


@dataclass(frozen=True)
class Knobs:
    """What a generated log may hold; see `partition_logs`."""

    magics: tuple[Magic, ...] = (2,)
    disorder: int | None = None
    far_future: bool = False
    wrong_wrappers: bool = False


class _Clock:
    """Where the simulated partition stands: next offset, wall clock, newest data timestamp, leader epoch."""

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self.offset = 0
        self.now = 100
        self.newest = -1
        self.epoch = -1
        self.seen_v2 = False

    def timestamp(self, tick: int) -> int:
        """A producer's timestamp: mostly about now, at times late, in the future, or missing."""
        if tick < 190:
            value = self.now + (tick + 8) % 16 - 8
        elif tick < 222:
            value = self.now - 10 - 3 * (tick - 190)
        elif tick < 238:
            value = self.now + 10 * (tick - 222)
        elif tick < 254:
            return -1
        else:
            value = 2**63 - 256 + tick if self.knobs.far_future else 10**15 + tick
        return self.kept(value)

    def kept(self, value: int) -> int:
        """`value` moved, if need be, so that the declared disorder holds of data rows."""
        if self.knobs.disorder is not None:
            value = max(value, self.newest - self.knobs.disorder)
        value = max(value, 0)
        self.newest = max(self.newest, value)
        return value

    def marker_timestamp(self, tick: int) -> int:
        """A broker's clock, perhaps far from that of the producers; nothing declared binds it."""
        if tick < 160:
            return self.now + tick % 16
        return max(0, self.now + (3 * (tick - 160) if tick < 224 else 160 - tick))


def build_log(
    segments: Sequence[SegmentPlan], interval: int, knobs: Knobs, cut: tuple[int, int] | None
) -> GeneratedLog:
    """The log that the plans describe; `cut` = (bytes lost, zeros added) at the end of the last segment."""
    clock = _Clock(knobs)
    # Two segments cannot have one base offset: only the last may be empty.
    kept = [plan for plan in segments[:-1] if plan.batches] + [segments[-1]]
    built = [_build_segment(plan, interval, clock) for plan in kept]
    if cut is not None:
        built[-1] = _cut(built[-1], *cut)
    return GeneratedLog(tuple(built))


def _cut(segment: Segment, lost: int, zeros: int) -> Segment:
    """The segment without its last `lost` bytes; zeros come after whole batches only: elsewhere they fail a CRC."""
    size = max(0, len(segment.log) - lost)
    if zeros:
        size = max((batch.end for batch in segment.batches if batch.end <= size), default=0)
    return torn(segment, size, zeros)


def _build_segment(plan: SegmentPlan, interval: int, clock: _Clock) -> Segment:
    base = clock.offset
    clock.epoch += 1
    appends: list[Append] = []
    position = 0
    for number, batch_plan in enumerate(plan.batches):
        index_writer = plan.writers[number >= plan.change]
        spec = replace(_spec(batch_plan, plan.compacted, clock), leader_epoch=clock.epoch)
        written = tuple(write_batch(spec, position))
        position = written[-1].end
        if batch_plan.joins and index_writer.takes_many and appends and appends[-1].writer is index_writer:
            appends[-1] = Append(index_writer, appends[-1].batches + written)
        else:
            appends.append(Append(index_writer, written))
    offset_entries, time_entries = index_entries(
        appends, interval, final_entry=plan.final_entry, forget_at=plan.forget_at
    )
    batches = tuple(batch for append in appends for batch in append.batches)
    facts = LogFacts(base, batches[-1].last_offset if batches else base - 1, position)
    return Segment(
        base_offset=base,
        log=b"".join(batch.data for batch in batches),
        index=damaged_index(plan.index_damage, offset_entries, facts, plan.salt),
        timeindex=damaged_time_index(plan.timeindex_damage, time_entries, facts, plan.salt),
        batches=batches,
        offset_entries=tuple(offset_entries),
        time_entries=tuple(time_entries),
        note=_note(plan),
    )


def _note(plan: SegmentPlan) -> str:
    notes = [writer.name for writer in dict.fromkeys(plan.writers)]
    notes += [] if plan.final_entry else ["no final time entry"]
    notes += [] if plan.forget_at is None else [f"maximum lost at append {plan.forget_at}"]
    damage = {"index": plan.index_damage, "timeindex": plan.timeindex_damage}
    return ", ".join(notes + [f"{name}: {what.value}" for name, what in damage.items() if what is not Damage.NONE])


def _spec(plan: BatchPlan, compacted: bool, clock: _Clock) -> BatchSpec:
    """The batch that the plan makes of the clock's next offsets."""
    clock.now = max(0, clock.now + plan.step)
    clock.seen_v2 |= plan.magic == 2
    kind: Kind = "data" if plan.kind == "empty" and not compacted else plan.kind
    clock.offset += plan.gaps[-1] >> 6 if compacted else 0  # batches that are wholly gone
    first = clock.offset
    moment = clock.marker_timestamp(plan.ticks[0])
    append_time = moment if plan.append_time else None
    if kind == "control":
        clock.offset += 1
        marker: writer.Marker = "abort" if plan.ticks[0] % 2 else "commit"
        row = (first, moment)
        return BatchSpec(
            first, first, (row,), append_time=append_time, control=marker, producer_id=7, transactional=True
        )
    if kind == "empty":
        clock.offset += len(plan.ticks)
        return BatchSpec(first, clock.offset - 1, append_time=append_time, max_timestamp=moment, producer_id=8)
    return _data_spec(plan, compacted, clock)


def _data_spec(plan: BatchPlan, compacted: bool, clock: _Clock) -> BatchSpec:
    knobs, first = clock.knobs, clock.offset
    append_time = clock.kept(clock.now) if plan.append_time and plan.magic else None
    rows = []
    for tick, gap in zip(plan.ticks, plan.gaps, strict=False):
        clock.offset += gap % 4 if compacted else 0
        rows.append((clock.offset, clock.timestamp(tick) if append_time is None else 100 + tick))
        clock.offset += 1
    clock.offset += plan.gaps[-1] % 4 if compacted else 0
    spec = BatchSpec(
        first,
        clock.offset - 1,
        tuple(rows),
        magic=plan.magic,
        codec=plan.codec,
        append_time=append_time,
        producer_id=9 if plan.horizon and plan.magic == 2 else -1,
        payload=plan.payload,
    )
    if plan.horizon and compacted and plan.magic == 2:
        return replace(spec, base_timestamp=clock.now + 86_400_000, delete_horizon=True)
    # Brokers that write v2 also correct the timestamps of v1 wrappers: wrong ones are older than any v2 batch.
    if knobs.wrong_wrappers and plan.magic == 1 and plan.codec != "none" and not clock.seen_v2 and append_time is None:
        return replace(spec, max_timestamp=max(0, clock.now - plan.gaps[0]))
    return spec


# --- the strategies --------------------------------------------------------------------------------------------------

INDEX_DAMAGES = (*Damage, Damage.WRONG_BATCH, Damage.WRONG_BATCH, Damage.WRONG_BATCH)  # the one that loses rows
TIME_DAMAGES = tuple(kind for kind in Damage if kind not in (Damage.NO_BOUNDARY, Damage.WRONG_BATCH))
CODECS: tuple[Codec, ...] = ("none", "none", "none", "gzip", "snappy-raw", "snappy-xerial", "lz4", "zstd")
KINDS: tuple[Kind, ...] = ("data", "data", "data", "control", "empty")
PAYLOADS = (0, 0, 30, 150)
_BATCH_BYTES = 19
STEPS = (*range(41), *range(-1, -16, -1))  # of the clock, in ms
INTERVALS = (0, 0, 100, 250)
ZEROS = (0, 1, 16, 17, 100)  # bytes after a cut
ANY_WRITERS = (*EXACT_TIME_WRITERS, *EXACT_TIME_WRITERS, *IndexWriter)  # time entries inside batches are rare else


def partition_logs(
    *,
    magics: Sequence[Magic] = (2,),
    max_segments: int = 3,
    max_batches: int = 10,
    disorder: int | None = None,
    far_future: bool = False,
    wrong_wrappers: bool = False,
    wrong_maximum: bool = False,
    crashes: bool = True,
    index_damage: bool = False,
    log_damage: bool = False,
) -> st.SearchStrategy[GeneratedLog]:
    """Partitions of up to `max_segments` segments with up to `max_batches` batches each.

    magics: formats that may be mixed. disorder: the declaration of docs/pruning-rules.md, section 3, holds with this D
    (None: no bound). far_future: rows up to 2^63-1 (else to 10^15). wrong_wrappers: v1 wrappers of 0.10.0 with
    timestamps that are not the largest (breaks G). wrong_maximum: running maxima that started wrong
    (docs/pruning-rules.md, section 2). crashes: segments without a final time entry. index_damage: see `damage.py`.
    log_damage: the last segment torn or zero-filled.
    """
    knobs = Knobs(tuple(magics), disorder, far_future, wrong_wrappers)
    segment = _segment_plans(knobs, max_batches, wrong_maximum, crashes, index_damage)
    segments = st.lists(segment, min_size=1, max_size=max_segments)

    def log(drawn: tuple[list[SegmentPlan], bytes]) -> GeneratedLog:
        plans, choices = drawn
        cut = (int.from_bytes(choices[:2]) % 301, ZEROS[choices[2] % len(ZEROS)]) if log_damage else None
        return build_log(plans, INTERVALS[choices[3] % len(INTERVALS)], knobs, cut)

    return st.tuples(segments, _bytes(4)).map(log)


def _bytes(count: int) -> st.SearchStrategy[bytes]:
    """Choices to come, all in one draw: hypothesis takes longer over a draw than the package over reading a batch."""
    return st.binary(min_size=count, max_size=count)


def _segment_plans(
    knobs: Knobs, max_batches: int, wrong_maximum: bool, crashes: bool, index_damage: bool
) -> st.SearchStrategy[SegmentPlan]:
    batch = _bytes(_BATCH_BYTES).map(lambda drawn: _batch_plan(knobs, drawn))
    # Left alone, hypothesis prefers short lists, which hardly have index entries.
    few, many = st.lists(batch, max_size=max_batches), st.lists(batch, min_size=max_batches // 2, max_size=max_batches)

    def plan(drawn: tuple[list[BatchPlan], bytes]) -> SegmentPlan:
        batches, choices = drawn
        writers = COMPACTED_WRITERS if choices[0] % 2 else ANY_WRITERS
        damages = [Damage.NONE, Damage.NONE]
        for at, kinds in enumerate((INDEX_DAMAGES, TIME_DAMAGES)):
            if index_damage and choices[6 + at] % 2:
                damages[at] = kinds[choices[6 + at] // 2 % len(kinds)]
        return SegmentPlan(
            tuple(batches),
            (writers[choices[1] % len(writers)], writers[choices[2] % len(writers)]),
            change=choices[3] % (max_batches + 1),
            compacted=bool(choices[0] % 2),
            final_entry=not crashes or choices[4] % 2 == 0,
            forget_at=1 + choices[5] // 2 % 4 if wrong_maximum and choices[5] % 2 else None,
            index_damage=damages[0],
            timeindex_damage=damages[1],
            salt=choices[8:],
        )

    return st.tuples(few | many | many, _bytes(16)).map(plan)


def _batch_plan(knobs: Knobs, drawn: bytes) -> BatchPlan:
    """The batch that the drawn bytes stand for; zeros make the plainest."""
    choices, gaps, ticks = drawn[:9], drawn[9:14], drawn[14:]
    magic = knobs.magics[choices[0] % len(knobs.magics)]
    codecs = CODECS if magic == 2 else CODECS[:-1]
    return BatchPlan(
        kind=KINDS[choices[1] % len(KINDS)] if magic == 2 else "data",
        magic=magic,
        codec=codecs[choices[2] % len(codecs)],
        step=STEPS[choices[7] % len(STEPS)],
        ticks=ticks[: 1 + choices[8] % len(ticks)],
        gaps=gaps,
        append_time=choices[3] % 4 == 3,
        horizon=choices[4] % 4 == 3,
        joins=choices[5] % 4 > 0,
        payload=PAYLOADS[choices[6] % len(PAYLOADS)],
    )


@dataclass(frozen=True)
class Bounds:
    """What to ask of a log: a <= offset < b, since <= timestamp < until; None: no bound."""

    offsets: tuple[int, int] | None = None
    since: int | None = None
    until: int | None = None


def options_of(asked: Bounds) -> dict[str, Any]:
    """Bounds as options. Offsets that the log does not hold are no error."""
    options: dict[str, Any] = {"failOnDataLoss": False}
    if asked.offsets is not None:
        options["startingOffsets"] = {"orders": {"0": asked.offsets[0]}}
        options["endingOffsets"] = {"orders": {"0": asked.offsets[1]}}
    if asked.since is not None:
        options["since"] = asked.since
    if asked.until is not None:
        options["until"] = asked.until
    return options


SINCE, UNTIL = 1, 2
ANY_TIMES = (0, SINCE, UNTIL, SINCE | UNTIL)
_BOUNDS = _bytes(14)


def bounds(log: GeneratedLog) -> st.SearchStrategy[Bounds]:
    """Bounds that fall on, just before or just after something in the log, one or several at a time."""
    return _BOUNDS.map(lambda choices: _bounds_of(log, choices, ANY_TIMES))


def logs_and_bounds(
    logs: st.SearchStrategy[GeneratedLog], times: Sequence[int] = ANY_TIMES
) -> st.SearchStrategy[tuple[GeneratedLog, Bounds]]:
    """A log and bounds that suit it. times: which bounds of time there may be; `SINCE | UNTIL` is both."""
    return st.tuples(logs, _BOUNDS).map(lambda drawn: (drawn[0], _bounds_of(*drawn, times)))


def _bounds_of(log: GeneratedLog, choices: bytes, times: Sequence[int]) -> Bounds:
    """The bounds that the drawn bytes stand for; zeros make the fewest."""
    offsets = since = until = None
    if choices[0] % 2:
        found = _offsets(log)
        first, last = sorted(_near(*found, 0, choices[at : at + 3]) for at in (2, 5))
        offsets = first, last
    which = times[choices[1] % len(times)]
    if which & SINCE:
        since = _near(*_timestamps(log), -(2**63), choices[8:11])
    if which & UNTIL:
        until = _near(*_timestamps(log), -(2**63), choices[11:14])
    return Bounds(offsets, since, until)


def _near(indexed: set[int], others: set[int], least: int, choices: bytes) -> int:
    """A number from either set or next to it, as often from the first, where rules break, as from the second."""
    numbers = indexed if indexed and choices[0] % 2 else others
    shifts = (-1, 0, 1) if choices[0] & 2 else (0,)
    near = sorted({min(max(number + shift, least), 2**63 - 1) for number in numbers for shift in shifts})
    return near[int.from_bytes(choices[1:]) % len(near)]


def _offsets(log: GeneratedLog) -> tuple[set[int], set[int]]:
    """Offsets in index entries; offsets of records, edges of batches and segments."""
    indexed = {offset for segment in log.segments for offset, _ in segment.offset_entries}
    indexed |= {offset for segment in log.segments for _, offset in segment.time_entries}
    others = {0, log.next_offset} | {segment.base_offset for segment in log.segments}
    for segment in log.segments:
        others |= {record.offset for record in segment.records}
        others |= {edge for batch in segment.batches for edge in (batch.base_offset, batch.last_offset)}
    return indexed, others


def _timestamps(log: GeneratedLog) -> tuple[set[int], set[int]]:
    """Timestamps in index entries; timestamps of records and headers."""
    indexed = {timestamp for segment in log.segments for timestamp, _ in segment.time_entries}
    others = {-1, 0} | {record.timestamp for record in log.records}
    others |= {batch.max_timestamp for segment in log.segments for batch in segment.batches}
    return indexed, others
