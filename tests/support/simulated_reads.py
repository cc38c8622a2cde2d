"""One seeded run: a broker at work, a read beside it, and a judge.

In: a seed. A partition with some history is made, of a kind and with settings that follow from the seed; zone maps are
made and brought up to date, sometimes; then it is planned and read, with options that follow from the seed, while the
broker takes steps between any two file operations of the reader, and many between planning and reading. Out: a
`Result`.

What the judge demands:

- Every row that the log held all the time from before planning to after reading, and that the bounds let through, is
  there once. Under read_committed: if its transaction was committed, and it lay below the last stable offset when
  planning began (where an end of the log was cut off meanwhile, below the lowest of that time).
- Every offset that was there when planning ended is given, or its loss is said, where no row but by retention,
  truncation or a replica that was made again can be gone (no compaction, no transactions, no bounds of time).
- No row that the log did not hold at some time between; none outside the bounds; no offset twice; offsets ascend in a
  split.
- Under read_committed no row of a transaction that was aborted or has no outcome.
- An error is a DataLossError, and only where retention, truncation or a replica that was made again took something away
  meanwhile; a PathError too where its directory was gone. Never a CorruptRecordError, nothing skipped as damaged, no
  damage in what a zone map's update says. With failOnDataLoss=false there is no DataLossError, and a warning of loss
  only in the same case.
"""

from __future__ import annotations

import json
import logging
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding import split_file
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.errors import DataLossError, PathError
from kafka_segment_source.inspection.contents import list_source
from kafka_segment_source.inspection.offset_of_time import find_offsets
from kafka_segment_source.inspection.offset_places import find_places
from kafka_segment_source.inspection.verify import verify_log
from kafka_segment_source.logdir import probe
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.partition.logs import shown_logs
from kafka_segment_source.reporting import Warnings, logger
from kafka_segment_source.scanning import read_split
from kafka_segment_source.storage import retrying
from kafka_segment_source.transactions import walk
from kafka_segment_source.zones import making as zone_making
from kafka_segment_source.zones.update_plan import plan_updates
from kafka_segment_source.zones.updates import run_updates
from tests.support.reads import options_in, plan_in, view_in
from tests.support.simulated_broker import (
    FIRST_TIMESTAMP,
    LATE,
    RETENTION,
    TOPIC,
    Row,
    Settings,
    SimulatedBroker,
    Transaction,
)
from tests.support.simulated_files import SimulatedFiles
from tests.support.simulated_objects import SimulatedObjects

KINDS = ("plain", "compacted", "transactional", "compacted transactional")
AIMS = ("maps", "keys", "cuts", "stalls", "young")  # what a run can be made to exercise: see `_Run`
_MAPS = "/sim/maps"
_COLUMNS = ("offset", "key", "value", "timestamp")
_SMALL_READS = 200  # bytes read at a time, so that a file of a few batches takes several reads
_PACES = ((0, 0), (60, 3), (60, 100), (25, 2), (10, 1), (10, 8), (4, 1), (2, 1), (1, 1))
_RESTS = 2_000  # file operations after which the broker rests: in the end a reader is faster
_NO_END = 1_000_000  # after which the reader is believed never to end
_WITHHELD = "withheld (isolationLevel=read_committed)"
_LOSS = ("failOnDataLoss=false", _WITHHELD)
_DAMAGE = "mode=DROPMALFORMED"

Found = tuple[int, bytes, bytes, int]  # offset, key, value, timestamp


class NoEndError(Exception):
    """The reader goes on for ever."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a run. word: its outcome in a word or two; problem: what the judge found wrong, None if nothing."""

    seed: int
    kind: str
    word: str
    problem: str | None
    options: dict[str, Any]
    rows: int
    steps: int
    operations: int


def run(
    seed: int,
    kind: str | None = None,
    trace: Callable[[str], None] | None = None,
    aim: str | None = None,
    is_bucket: bool = False,
) -> Result:
    """Makes the run of a number; kind: one of KINDS, in place of the one that the number says; aim: one of AIMS.

    is_bucket: the broker's files are objects (`simulated_objects.py`).
    """
    random = Random(seed)
    drawn = random.choice(KINDS)
    each = _Run(seed, kind or drawn, random, trace, aim, is_bucket)
    with simulated(each.sleep, small=random.random() < 0.5):
        return each.judged()


def tried(seed: int, kind: str | None = None, aim: str | None = None, is_bucket: bool = False) -> Result:
    """As `run`; an error of the simulation itself is a problem too."""
    try:
        return run(seed, kind, aim=aim, is_bucket=is_bucket)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
        return Result(seed, kind or "?", "simulation failed", said, {}, 0, 0, 0)


@contextmanager
def simulated(sleep: Callable[[float], None], small: bool = False) -> Iterator[None]:
    """Within it the package waits by `sleep`; small: it reads a few bytes at a time."""
    with ExitStack() as stack:
        _set(stack, retrying, "wait", sleep)
        _set(stack, zone_making.map_segment, "__defaults__", (*zone_making.map_segment.__defaults__[:-1], _SMALL_READS))  # type: ignore[index]
        if small:
            _set(stack, walk, "_AHEAD_BYTES", _SMALL_READS)
            _set(stack, probe, "_BLOCK", 100)
            for function in (split_file.SplitFile.__init__, walk.walk_split, walk.walk_file):
                defaults = {**(function.__kwdefaults__ or {}), "chunk_bytes": _SMALL_READS}
                _set(stack, function, "__kwdefaults__", defaults)
        yield


def _set(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    before = getattr(owner, name)
    setattr(owner, name, value)
    stack.callback(setattr, owner, name, before)


@dataclass(slots=True)
class _Window:
    """What is true of the log while somebody reads. held: rows there all the time; possible: there at some time;
    planned: those there all the time until the plan was made."""

    broker: SimulatedBroker
    held: dict[Row, None]
    possible: dict[Row, None]
    stable_end: int
    lost: int
    is_lossy: bool
    is_gone: bool
    planned: dict[Row, None] = field(default_factory=dict)

    @classmethod
    def open(cls, broker: SimulatedBroker) -> _Window:
        window = cls(
            broker,
            broker.held(),
            broker.possible(),
            broker.stable_end(),
            broker.lost,
            broker.is_losing,
            is_gone=not all(replica.is_there for replica in broker.replicas),
        )
        broker.watch = window.see
        return window

    def see(self, appeared: list[Row], vanished: bool) -> None:
        """Takes note of one step."""
        broker = self.broker
        self.possible.update(dict.fromkeys(appeared))
        if vanished:
            now = broker.held()
            self.held = {row: None for row in self.held if row in now}
        if broker.is_losing:
            self.stable_end = min(self.stable_end, broker.stable_end())
        self.is_gone = self.is_gone or not all(replica.is_there for replica in broker.replicas)

    def close(self) -> None:
        self.broker.watch = lambda appeared, vanished: None
        self.is_lossy = self.is_lossy or self.broker.lost > self.lost


class _Said(logging.Handler):
    """Keeps what the package logs."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


class _Run:
    """A broker, how fast it works, and a read.

    aim: None, or what is made likely. "maps": zone maps, made and used around narrow bounds of time; "keys": key
    filters, made and used for one key; "cuts": splits that begin inside files, of few batches of one size; all three
    with few keys, and much time between planning and use, so that compaction moves much. "stalls": a reader that is
    stopped for long in the middle of its work, beside a cleaner that takes markers out soon. "young": a log that is
    cleaned for the first time while it is read.
    """

    def __init__(
        self,
        seed: int,
        kind: str,
        random: Random,
        trace: Callable[[str], None] | None,
        aim: str | None = None,
        is_bucket: bool = False,
    ) -> None:
        self.seed = seed
        self.kind = kind
        self.random = random
        self._aim = aim
        self._is_late = aim in ("maps", "keys", "cuts")
        self._trace_to = trace
        self.operations = 0
        alike = random.random() < 0.7 or aim == "cuts"
        directories = 1 if aim == "cuts" else random.choice((1, 1, 1, 2))
        # a copy that is behind by more than delete.retention.ms has lost markers, as any consumer would have
        is_short = directories == 1 and (random.random() < 0.3 or aim == "stalls")
        settings = Settings(
            compacted="compacted" in kind,
            transactional="transactional" in kind,
            directories=directories,
            segment_bytes=240 if aim in ("cuts", "young") else random.choice((240, 400, 400, 800, 1600)),
            interval=random.choice((0, 0, 100, 300)),
            preallocated=random.choice((0, 0, 0, 1000)),
            alike=alike,
            losses=random.random() < 0.5,
            keys=random.choice((4, 8) if aim else (20, 20, 20, 6)),
            marker_retention=0 if is_short else RETENTION,
        )
        self.broker = SimulatedBroker(settings, random, SimulatedObjects() if is_bucket else SimulatedFiles())
        self.broker.allow_cleaning = aim != "young"
        for _ in range(random.choice((8, 20, 20, 40, 60))):
            self.broker.act()
            if random.random() < 0.03:
                self.broker.pass_time()
        self.broker.allow_cleaning = True
        if random.random() < 0.4:
            self.broker.allow_losses = False
        self.trace(f"{kind}, {settings}, losses {'allowed' if self.broker.allow_losses else 'over'}")
        self._trace_files()
        if trace is not None:
            self.broker.trace = lambda said: trace(f"    broker: {said}")
        # file operations of the reader between two outbreaks of the broker, on average; and steps in one, at most
        paces = ((60, 300), (20, 100)) if aim == "stalls" else _PACES
        self._pace, self._most = random.choice(paces)
        self._countdown = self._draw()

    def trace(self, said: str) -> None:
        if self._trace_to is not None:
            self._trace_to(said)

    # ---- the broker's steps ----

    def _before(self, operation: str, path: str) -> None:
        self.operations += 1
        if self._trace_to is not None:
            self._trace_to(f"{operation} {path}")
        if self.operations > _NO_END:
            raise NoEndError(f"{self.operations} file operations")
        self._countdown -= 1
        if self._countdown == 0 and self.operations < _RESTS:
            self._countdown = self._draw()
            self._steps(self.random.randint(1, max(self._most, 1)))

    def sleep(self, seconds: float) -> None:
        """The reader waits: the broker goes on, finishes what it writes, and comes to rest for a while
        sooner or later."""
        self.trace(f"sleep {seconds:.3f}")
        for _ in range(100):
            if not any(replica.is_writing for replica in self.broker.replicas):
                break
            self.broker.step()
        self._steps(self.random.randint(0, 20))
        self._countdown = self.random.choice((1, 30, 300))

    def _draw(self) -> int:
        return self.random.randint(1, 2 * self._pace - 1) if self._pace else -1

    def _steps(self, count: int) -> None:
        for _ in range(count):
            self.broker.step()

    def _gap(self) -> None:
        """Time passes between planning and reading: nothing, seconds or hours."""
        count = self.random.choice((30, 100) if self._is_late else (0, 0, 3, 10, 30, 100))
        self.trace(f"gap of {count} steps")
        self._steps(count)
        if count == 100:
            self.broker.pass_time()

    # ---- the read ----

    def judged(self) -> Result:
        """The whole run."""
        random = self.random
        paths = self._paths()
        said = _Said()
        logger.addHandler(said)
        level, logger.propagate = logger.level, False
        logger.setLevel(logging.WARNING)
        self.broker.files.before = self._before
        try:
            maps = {"zoneMaps": _MAPS} if random.random() < 0.3 or self._aim in ("maps", "keys") else {}
            problem = self._map(paths, said) if maps else None
            if problem is not None:
                return self._result("zone maps", problem, maps, 0)
            options = maps | self._options()
            self.trace(f"options {options}")
            return self._read(paths, options, said)
        finally:
            logger.removeHandler(said)
            logger.setLevel(level)
            logger.propagate = True

    def _paths(self) -> list[str]:
        replicas = self.broker.replicas
        if self.random.random() < 0.5:
            return [replica.path for replica in replicas]
        return [replica.log_directory for replica in replicas]

    def _options(self) -> dict[str, Any]:
        random = self.random
        rows = sorted(self.broker.held(), key=lambda row: row.offset)
        options: dict[str, Any] = {}
        if (self.broker.settings.transactional and random.random() < 0.7) or random.random() < 0.1:
            options["isolationLevel"] = "read_committed"
        if rows and self._aim == "maps":
            options["since"] = random.choice(rows).timestamp
            options["until"] = options["since"] + 1
        elif rows and self._aim == "keys":
            options["key"] = [_key_text(random.choice(rows)), "absent"]
        elif rows and random.random() < 0.5:
            self._draw_bounds(options, rows)
        draw = random.random() * (0.45 if self._aim == "cuts" else 1)
        if draw < 0.25:
            options["minPartitions"] = random.choice((2, 3, 5, 12))
        elif draw < 0.45:
            options["maxRecordsPerPartition"] = random.choice((1, 2, 5))
        for name, value, share in (
            ("checkCrcs", False, 0.15),
            ("trustIndexes", False, 0.2),
            ("failOnDataLoss", False, 0.4),
            ("mode", "DROPMALFORMED", 0.3),
        ):
            if random.random() < share and (name != "checkCrcs" or not self.broker.settings.preallocated):
                options[name] = value  # in preallocated space, only its CRC tells a whole batch from one that was begun
        return options

    def _draw_bounds(self, options: dict[str, Any], rows: list[Row]) -> None:
        random = self.random
        if random.random() < 0.6:
            first, last = sorted((random.choice(rows).offset, random.choice(rows).offset))
            if random.random() < 0.7:
                options["startingOffsets"] = {TOPIC: {"0": first}}
            if random.random() < 0.7:
                options["endingOffsets"] = {TOPIC: {"0": last + 1}}
        if random.random() < 0.6:
            since, until = sorted((random.choice(rows).timestamp, random.choice(rows).timestamp))
            if random.random() < 0.7:
                options["since"] = since
            if random.random() < 0.6:
                options["until"] = until + 1
            if "since" in options and random.random() < 0.3:
                options["timestampDisorder"] = f"{LATE}ms"

    def _map(self, paths: list[str], said: _Said) -> str | None:
        """Makes zone maps, and brings them up to date after a while; answers what is wrong with that."""
        for _ in range(self.random.randint(1, 3)):
            window = _Window.open(self.broker)
            try:
                parsed = options_in(self.broker.files, paths)
                updates = plan_updates(parsed.source, parsed.policy, _MAPS, keys=self._aim == "keys")
                self._gap()
                summary = run_updates(updates, parsed.policy.trust.max_batch_bytes)
            except (DataLossError, PathError) as error:
                window.close()
                if not (window.is_gone if isinstance(error, PathError) else window.is_lossy):
                    return f"mapping ended with {_named(error)}"
            except Exception as error:
                return f"mapping ended with {_named(error)}"
            else:
                window.close()
                if summary.damage:
                    return f"mapping found damage: {summary.damage[0]}"
            self._gap()
        said.messages.clear()
        return None

    def _read(self, paths: list[str], options: dict[str, Any], said: _Said) -> Result:
        window = _Window.open(self.broker)
        splits: list[list[Found]] = []
        caught: Exception | None = None
        try:
            if self.random.random() < 0.15:
                splits.append([])
                for batch in plan_in(self.broker.files, paths, **options).to_reader(_COLUMNS):
                    splits[-1] += _rows(batch)
            else:
                self._plan_and_read(paths, options, said, splits, window)
        except Exception as error:  # whatever it is: the judge says which are allowed
            caught = error
        window.close()
        self.trace(f"read {[[row[0] for row in split] for split in splits]}")
        if caught is not None:
            self.trace(_named(caught))
        for message in said.messages:
            self.trace(f"said: {message}")
        word, problem = _judge(window, options, splits, caught, said.messages)
        return self._result(word, problem, options, sum(map(len, splits)))

    def _plan_and_read(
        self, paths: list[str], options: dict[str, Any], said: _Said, splits: list[list[Found]], window: _Window
    ) -> None:
        plan = plan_in(self.broker.files, paths, **options)
        said.messages += plan.warnings
        self.trace(
            f"planned {[(split.path[-24:], split.start, split.end, split.start_offset, split.end_offset) for split in plan.splits]}"
        )
        window.planned = dict(window.held)
        self._gap()
        schema = RECORDS.arrow_schema(_COLUMNS)
        planned = list(plan.splits)
        if self.random.random() < 0.3:
            self.random.shuffle(planned)
        for split in planned:
            self.trace(f"reads {os.path.basename(split.path)} from {split.start} to {split.end}")
            splits.append([])
            for batch in read_split(split, plan.reading, schema):
                splits[-1] += _rows(batch)
                if self.random.random() < 0.1:
                    self._steps(self.random.randint(1, 10))

    def _result(self, word: str, problem: str | None, options: dict[str, Any], rows: int) -> Result:
        kind = self.kind if len(self.broker.replicas) == 1 else f"{self.kind}, {len(self.broker.replicas)} copies"
        return Result(self.seed, kind, word, problem, options, rows, self.broker.steps, self.operations)

    def _trace_files(self) -> None:
        for replica in self.broker.replicas:
            for segment in replica.segments:
                self.trace(f"{segment.path('.log')}: {segment.size} bytes, offsets to {segment.end}")


def _rows(batch: pa.RecordBatch) -> list[Found]:
    times = batch.column(3).cast(pa.int64()).to_pylist()
    columns = [batch.column(at).to_pylist() for at in range(3)]
    return [(offset, key, value, at // 1000) for offset, key, value, at in zip(*columns, times, strict=True)]


# ---- the judge ----


def _judge(
    window: _Window, options: dict[str, Any], splits: list[list[Found]], error: Exception | None, said: list[str]
) -> tuple[str, str | None]:
    """The outcome in a word, and what is wrong with it, if anything is."""
    word, problem = _judge_error(window, options, error, said)
    problem = problem or _judge_rows(window, options, splits)
    if problem is None and error is None:
        problem = _missing(window, options, splits, said)
    if problem is None and word == "rows":
        problem = _lost_in_silence(window, options, splits)
    return word, problem


def _judge_error(
    window: _Window, options: dict[str, Any], error: Exception | None, said: list[str]
) -> tuple[str, str | None]:
    may_lose = window.is_lossy
    if any(_DAMAGE in message for message in said):
        return "damage said", next(message for message in said if _DAMAGE in message)
    lost = [message for message in said if any(loss in message for loss in _LOSS)]
    if _may_withhold(window):
        lost = [message for message in lost if _WITHHELD not in message]
    if isinstance(error, DataLossError) and options.get("failOnDataLoss", True):
        return "loss", None if may_lose else f"nothing was lost: {_named(error)}"
    if isinstance(error, PathError) and window.is_gone:
        return "no directory", None
    if error is not None:
        return "error", _named(error)
    if lost:
        return "loss said", None if may_lose else f"nothing was lost: {lost[0]}"
    return "rows", None


def _judge_rows(window: _Window, options: dict[str, Any], splits: list[list[Found]]) -> str | None:
    rows = {(row.offset, row.key, row.value, row.timestamp): row for row in window.possible}
    read_committed = options.get("isolationLevel") == "read_committed"
    seen: set[int] = set()
    for split in splits:
        before = -1
        for found in split:
            offset = found[0]
            if offset in seen:
                return f"offset {offset} twice"
            if offset < before:
                return f"offset {offset} after {before}"
            seen.add(offset)
            before = offset
            row = rows.get(found)
            if row is None:
                return f"never held meanwhile: {found}"
            if not _is_wanted(row, options):
                return f"outside the bounds: {found}"
            outcome = "commit" if row.transaction is None else row.transaction.outcome
            if read_committed and outcome != "commit":
                return f"not committed ({outcome}): {found}"
    return None


def _may_withhold(window: _Window) -> bool:
    """Whether reading goes from one copy to another that is compacted: there the fate of what is open is not known."""
    return window.broker.settings.compacted and len(window.broker.replicas) > 1


def _missing(window: _Window, options: dict[str, Any], splits: list[list[Found]], said: list[str]) -> str | None:
    there = {found[0] for split in splits for found in split}
    read_committed = options.get("isolationLevel") == "read_committed"
    withheld = _may_withhold(window) and any(_WITHHELD in message for message in said)
    missing = sorted(
        row.offset
        for row in window.held
        if row.offset not in there
        and _is_wanted(row, options)
        and not (read_committed and (row.offset >= window.stable_end or _is_not_committed(row)))
        and not (withheld and row.transaction is not None)
    )
    return f"{len(missing)} rows missing: {missing[:20]}" if missing else None


def _lost_in_silence(window: _Window, options: dict[str, Any], splits: list[list[Found]]) -> str | None:
    """Offsets that were there when planning ended, and came without a word neither as they were nor with other rows."""
    settings = window.broker.settings
    if settings.compacted or settings.transactional or {"since", "until", "key"} & options.keys():
        return None
    there = {found[0] for split in splits for found in split}
    lost = sorted(row.offset for row in window.planned if row.offset not in there and _is_wanted(row, options))
    return f"{len(lost)} offsets lost without a word: {lost[:20]}" if lost else None


def _is_not_committed(row: Row) -> bool:
    return row.transaction is not None and row.transaction.outcome != "commit"


def _is_wanted(row: Row, options: dict[str, Any]) -> bool:
    """Whether the bounds let a row through."""
    start = options.get("startingOffsets", {TOPIC: {"0": 0}})[TOPIC]["0"]
    end = options.get("endingOffsets", {TOPIC: {"0": kafka_format.MAX_OFFSET}})[TOPIC]["0"]
    times = options.get("since", 0) <= row.timestamp < options.get("until", 2 * FIRST_TIMESTAMP)
    has_key = "key" not in options or _key_text(row) in options["key"]
    return bool(start <= row.offset < end and times and has_key)


def _key_text(row: Row) -> str:
    """The key of a row as the option `key` takes it."""
    return f"0x{row.key.hex()}"


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def show(result: Result) -> str:
    """A line about a run that failed."""
    options = json.dumps(result.options)
    return f"seed {result.seed} ({result.kind}, {result.word}): {result.problem} | {options}"


# ---- verify ----


def verify_beside(seed: int, kind: str) -> list[str]:
    """What `verify` calls a problem beside a broker that takes nothing away."""
    random = Random(seed)
    each = _Run(seed, kind, random, lambda _: None)
    each.broker.allow_losses = False
    said: list[str] = []
    with simulated(each.sleep):
        each.broker.files.before = each._before
        options = options_in(each.broker.files, [replica.path for replica in each.broker.replicas])

        def list_again(log: PartitionLog) -> PartitionLog | None:
            now = shown_logs(options.source)
            return next((other for other in now if other.directory == log.directory), None)

        if each.broker.is_losing:
            return []
        for log in shown_logs(options.source):
            said += [f"{found.what} in {found.path}" for found in verify_log(log, list_again=list_again).problems]
    return said


# ---- ls and offsets ----


def inspect_beside(seed: int, kind: str, losses: bool) -> str | None:
    """What is wrong with `list_partitions`, `offsets_for_time` or `locate_offset` beside a broker. None if nothing.

    losses: whether the broker takes segments away too, by retention and truncation. Each answer must have been right at
    some moment meanwhile.
    """
    random = Random(seed)
    each = _Run(seed, kind, random, lambda _: None)
    broker = each.broker
    broker.allow_losses = losses
    if broker.is_losing or len(broker.replicas) > 1:
        return None
    window = _Window.open(broker)
    what = random.choice(["ls", "time", "offset"])
    row = random.choice(list(window.held)) if window.held else None
    with simulated(each.sleep):
        broker.files.before = each._before
        options = options_in(broker.files, [broker.leader.path])
        answer: Any = None
        try:
            if what == "ls":
                answer = list_source(options.source, options.policy, Warnings())
            elif row is not None and what == "time":
                answer = find_offsets(
                    options.source, options.policy, options.content.read_committed, Warnings(), row.timestamp
                )
            elif row is not None:
                answer = find_places(options.source, options.policy, Warnings(), row.offset)
        except Exception as error:
            return None if window.broker.is_losing and isinstance(error, PathError) else f"{what}: {_named(error)}"
        finally:
            window.close()
    if answer is None or not answer.partitions:
        return None if answer is None or losses else f"{what}: no partition"
    [found] = answer.partitions
    there = set(window.held)
    if what == "ls":
        if "transactional" in kind:
            return None  # rows that are not committed are records too
        return None if found.summary.records >= len(there) else f"ls: {found.summary.records} of {len(there)}"
    assert row is not None
    if what == "offset":
        is_there = found.batch is not None and found.batch.base_offset <= row.offset <= found.batch.last_offset
        return None if is_there or row not in there else f"offset {row.offset}: {found}"
    if row in there and (found.offset is None or found.offset > row.offset):
        return f"time {row.timestamp}: {found.offset}, and offset {row.offset} has it"
    return None


# ---- view=transactions ----


def transactions_beside(
    seed: int, kind: str, trace: Callable[[str], None] | None = None, aim: str | None = None
) -> str | None:
    """What is wrong with view=transactions beside a broker that takes nothing away but by compaction. None if nothing.

    Every transaction whose rows are there all the time has one row. Its state is what it was at some time meanwhile.
    None is unknown, and nothing is complained of. Only where a part of one replica follows a part of another, the end
    of a transaction may be unknown: the marker may have been compacted away in the one that was not read.
    """
    random = Random(seed)
    each = _Run(seed, kind, random, trace, aim)
    broker = each.broker
    broker.allow_losses = False
    if broker.is_losing:
        return None
    before = _markers(broker)
    window = _Window.open(broker)
    said = _Said()
    logger.addHandler(said)
    with simulated(each.sleep, small=random.random() < 0.5):
        broker.files.before = each._before
        try:
            rows = view_in(
                broker.files,
                [replica.path for replica in broker.replicas],
                "transactions",
                checkCrcs=random.random() < 0.7,
            )
        except Exception as error:
            return f"it ended with {_named(error)}"
        finally:
            logger.removeHandler(said)
            window.close()
    forbidden = ["contradicts"] if len(broker.replicas) > 1 else ["contradicts", "is not known"]
    complaints = [message for message in said.messages if any(each in message for each in forbidden)]
    return complaints[0] if complaints else _judge_transactions(window, before, _markers(broker) | before, rows)


def _markers(broker: SimulatedBroker) -> dict[int, Transaction]:
    """The transactions whose markers are in the files, by the offsets of these."""
    segments = [each for replica in broker.replicas for each in (*replica.segments, *replica.leaving)]
    found = [batch for segment in segments for batch in segment.batches if batch.marker is not None]
    return {batch.base: batch.transaction for batch in found if batch.transaction is not None}


def _judge_transactions(
    window: _Window, before: dict[int, Transaction], after: dict[int, Transaction], rows: list[dict[str, Any]]
) -> str | None:
    held = sorted(window.possible, key=lambda row: row.offset)
    shown: list[Transaction] = []
    for row in rows:
        is_open = row["state"] == "open"
        own = (
            each.transaction
            for each in held
            if each.offset >= row["firstOffset"]
            and each.transaction is not None
            and each.transaction.producer == row["producerId"]
        )
        transaction = next(own, None) if is_open else after.get(row["lastOffset"])
        if transaction is None:
            continue  # its records are all gone, or its marker came and went meanwhile
        shown.append(transaction)
        state = {"commit": "committed", "abort": "aborted", None: None}[transaction.outcome]
        if row["state"] != state and not is_open:
            return f"{row['state']} is {state}: {row}"
        if is_open and transaction in before.values():
            return f"open, and its marker was there: {row}"
    if len(shown) != len(set(shown)):
        return f"twice: {[(row['producerId'], row['firstOffset'], row['lastOffset'], row['state']) for row in rows]}"
    wanted = {row.transaction for row in window.held if row.transaction is not None}
    missing = [each for each in wanted if each not in shown]
    return f"{len(missing)} transactions missing of {len(wanted)}" if missing else None
