"""read_committed over logs that have lost segments: nothing is lost in silence, nothing uncommitted is given.

In: random transactions (`tests/support/transactions.py`) over several segments. Some segments are taken away, from one
directory or from each of two. The files that said the same are left behind or not. The judge knows the whole history:

- A given row was committed, or was in no transaction.
- Under failOnDataLoss=true, either all rows that a consumer of the whole history gets are given, or a DataLossError is
  raised. The error needs a reason: a wanted offset is missing, or the marker of a wanted row may be.
- Under failOnDataLoss=false, a consumer's row is given where its marker stands in the files, with no hole before it.
  Where other rows of a consumer are not given, something is said.
- Advice to abort a transaction names one that is open, and where it begins.

Where the last segments leave no index file behind, nobody can know of them. The history ends before them.
"""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError, DataLossError
from kafka_segment_source.kafka_format import CLEANER_CHECKPOINT
from kafka_segment_source.reporting import logger
from kafka_segment_source.storage import retrying
from tests.property.test_committed_rows import client, small_chunks
from tests.support import writer
from tests.support.layouts import encode_batches, write_copies
from tests.support.transactions import ALL, KINDS, PRODUCERS, Batch, Log, broker, build, spoils, write

MANY = settings(max_examples=settings().max_examples * 8)
_ADVICE = re.compile(r"--start-offset (\d+)")
_SAYS_LOSS = ("missing", "withheld", "no file holds", "files begin at", "files end at")


@dataclass(frozen=True)
class Holed:
    """A log, and what of it is in the files. gone: the numbers of its segments that no directory has."""

    log: Log
    gone: frozenset[int]
    leaves_indexes: bool

    @property
    def there(self) -> list[Batch]:
        numbers = range(self.log.gone, len(self.log.segments))
        return [batch for number in numbers if number not in self.gone for batch in self.log.segments[number]]

    @property
    def known(self) -> list[Batch]:
        """The history, as far as the files say that it went on."""
        end = self.log.end if self.leaves_indexes else self.there[-1].last + 1
        return [batch for batch in self.log.history if batch.base < end]

    @property
    def missing(self) -> set[int]:
        """The missing offsets behind the beginning of the files, those of the known history."""
        end = self.known[-1].last + 1
        return {
            offset
            for number in self.gone
            for batch in self.log.segments[number]
            for offset in range(batch.base, batch.last + 1)
            if self.there[0].base <= offset < end
        }

    def is_decided(self, batch: Batch) -> bool:
        """Whether the files say what became of a batch: its marker follows, and no missing offset comes before it."""
        if batch.kind not in ("data", "empty data"):
            return True
        expected = batch.base
        for following in self.there[self.there.index(batch) :]:
            if following.base != expected:
                return False
            if following.kind in ("commit", "abort") and following.producer == batch.producer:
                return True
            expected = following.last + 1
        return False

    def is_committed(self, batch: Batch) -> bool:
        """What became of a batch in truth."""
        if batch.kind != "data":
            return not batch.is_control
        return next((each.kind for each in self._markers_after(batch)), None) == "commit"

    def _markers_after(self, batch: Batch) -> Iterator[Batch]:
        return (
            each
            for each in self.log.history
            if each.base > batch.base and each.producer == batch.producer and each.kind in ("commit", "abort")
        )

    def beginnings(self) -> set[int]:
        """Where the open transactions begin. Of one that began before the files, its first batch there counts too."""
        opened, _ = broker(self.known)
        begun = {producer: first for producer, first in opened.items() if first < self.there[0].base}
        seen: dict[int, int] = {}
        for batch in self.there:
            if batch.kind in ("data", "empty data") and batch.producer in begun:
                seen.setdefault(batch.producer, batch.base)
        return {*opened.values(), *seen.values()}


class _Said(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def said() -> Iterator[list[str]]:
    """What the package logs within it."""
    handler = _Said()
    logger.addHandler(handler)
    try:
        with mock.patch.object(retrying, "SECOND_LOOK", 0):
            yield handler.messages
    finally:
        logger.removeHandler(handler)


def lose(log: Log, folder: Path, numbers: set[int], leaves_indexes: bool) -> None:
    """Takes segments away, and all that is beside them; or leaves an `.index` that names their last offset."""
    for number in numbers:
        base = log.bases[number]
        for suffix in (".log", ".txnindex", ".snapshot"):
            (folder / writer.segment_name(base, suffix)).unlink(missing_ok=True)
        if leaves_indexes:
            entries = writer.offset_index([(log.segments[number][-1].last, 100)], base)
            (folder / writer.segment_name(base, ".index")).write_bytes(entries)


# a cleaner leaves empty batches. They say that a log was compacted, where missing offsets are no loss
kinds = [kind for kind in KINDS if not kind.startswith("empty")]
batches = st.tuples(st.sampled_from(kinds), st.integers(1, PRODUCERS), st.integers(0, 255), st.integers(1000, 1050))
several = st.builds(
    build,
    st.lists(batches, min_size=6, max_size=12) | st.lists(batches, min_size=12, max_size=40),
    st.lists(st.integers(1, 5), min_size=1, max_size=2) | st.lists(st.integers(1, 39), min_size=2, max_size=6),
    st.just(0) | st.integers(0, 1),
)
"""Logs of several segments, mostly."""


Bound = tuple[int, int]
bounds = st.tuples(st.integers(0, 6), st.sampled_from([-3, -2, -1, 0, 1, 2, 3]) | st.integers(0, 40))
"""The number of a segment, and how far from its first offset."""


def read_between(log: Log, edges: tuple[Bound, Bound] | None, **how: Any) -> tuple[int, int, dict[str, Any]]:
    """The offsets between two bounds, in order, the second one exclusive; and the options of a read of them."""
    options: dict[str, Any] = {"isolationLevel": "read_committed", **how}
    if edges is None:
        return 0, ALL, options
    start, end = sorted(max(0, log.bases[at % len(log.bases)] + by) for at, by in edges)
    bounds_of_read = {"startingOffsets": {"ledger": {"0": start}}, "endingOffsets": {"ledger": {"0": end}}}
    return start, end, options | bounds_of_read


@MANY
@given(
    log=several,
    lost=st.lists(st.sets(st.integers(0, 4), min_size=1, max_size=3), min_size=1, max_size=2),
    leaves_indexes=st.booleans(),
    spoil=spoils,
    edges=st.none() | st.tuples(bounds, bounds),
    allowed=st.booleans(),
    chunk=st.sampled_from([150, 500, 8 * 1024 * 1024]),
    how=st.fixed_dictionaries({}, optional={"trustIndexes": st.booleans(), "minPartitions": st.integers(1, 9)}),
)
def test_nothing_is_lost_in_silence(
    log: Log,
    lost: list[set[int]],
    leaves_indexes: bool,
    spoil: list[int],
    edges: tuple[Bound, Bound] | None,
    allowed: bool,
    chunk: int,
    how: dict[str, Any],
) -> None:
    """Whichever segments are missing, in one copy or in both: what is given is right, what is not given is said."""
    numbers = range(log.gone, len(log.segments))
    assume(len(numbers) > 1)
    takes = [{numbers[at % len(numbers)] for at in take} for take in lost]
    takes = [take if len(take) < len(numbers) else take - {min(take)} for take in takes]
    holed = Holed(log, frozenset(set.intersection(*takes)), leaves_indexes)
    start, end, options = read_between(log, edges, failOnDataLoss=not allowed, **how)
    with tempfile.TemporaryDirectory() as name, small_chunks(chunk), said() as messages:
        paths = [Path(name, str(at)) for at in range(len(takes))]
        for path, take in zip(paths, takes, strict=True):
            path.mkdir()
            write(log, path, spoil, False)
            lose(log, path / "ledger-0", take, leaves_indexes)
        rows: list[int] = []
        loss: DataLossError | None = None
        try:
            rows = kafkaseg.scan(paths, ["offset"], **options).read_all()["offset"].to_pylist()
        except DataLossError as error:
            loss = error

    event(f"holes: {bool(holed.missing)}, {'an error' if loss else 'rows'}, copies: {len(takes)}")
    by_offset = {offset: batch for batch in holed.there for offset in range(batch.base, batch.last + 1)}
    assert rows == sorted(set(rows))
    assert all(max(start, log.start) <= offset < end and holed.is_committed(by_offset[offset]) for offset in rows)
    wanted = consumed(holed, start, end)
    if loss is not None:
        assert not allowed
        assert may_be_lost(holed, start, end), str(loss)
    elif not allowed:
        assert wanted <= set(rows)
    else:
        certain = {offset for offset in wanted & by_offset.keys() if holed.is_decided(by_offset[offset])}
        assert certain <= set(rows)
        assert wanted <= set(rows) or any(each in message for message in messages for each in _SAYS_LOSS)
    for message in messages:
        assert {int(at) for at in _ADVICE.findall(message)} <= holed.beginnings(), message


@MANY
@given(
    log=several,
    lost=st.sets(st.integers(0, 4), min_size=1, max_size=2),
    emptied=st.booleans(),
    copies=st.integers(1, 2),
    edges=st.none() | st.tuples(bounds, bounds),
    allowed=st.booleans(),
    chunk=st.sampled_from([150, 8 * 1024 * 1024]),
    how=st.fixed_dictionaries({}, optional={"trustIndexes": st.booleans(), "minPartitions": st.integers(1, 9)}),
)
def test_a_lost_segment_of_a_compacted_log(
    log: Log,
    lost: set[int],
    emptied: bool,
    copies: int,
    edges: tuple[Bound, Bound] | None,
    allowed: bool,
    chunk: int,
    how: dict[str, Any],
) -> None:
    """A gap of such a log is no loss. But where an index file says that the gap had a file, a marker may be lost."""
    numbers = range(log.gone, len(log.segments) - 1)
    assume(len(numbers) > 1)
    take = {numbers[1 + at % (len(numbers) - 1)] for at in lost}
    holed = Holed(log, frozenset(take), leaves_indexes=True)
    start, end, options = read_between(log, edges, failOnDataLoss=not allowed, **how)
    with tempfile.TemporaryDirectory() as name, small_chunks(chunk), said():
        paths = [Path(name, str(at)) for at in range(copies)]
        for path in paths:
            path.mkdir()
            write(log, path, [0], False)
            lose(log, path / "ledger-0", take, leaves_indexes=True)
            for number in take if emptied else ():
                (path / "ledger-0" / writer.segment_name(log.bases[number])).touch()
            (path / CLEANER_CHECKPOINT).write_text("0\n1\nledger 0 1\n")
        rows: list[int] = []
        loss: DataLossError | None = None
        try:
            rows = kafkaseg.scan(paths, ["offset"], **options).read_all()["offset"].to_pylist()
        except DataLossError as error:
            loss = error
        shown = kafkaseg.scan(paths, view="transactions", failOnDataLoss=False).read_all().to_pylist()
    event("an error" if loss else "rows")
    by_offset = {offset: batch for batch in holed.there for offset in range(batch.base, batch.last + 1)}
    assert all(max(start, log.start) <= offset < end and holed.is_committed(by_offset[offset]) for offset in rows)
    wanted = consumed(holed, start, end)
    if loss is not None:
        assert not allowed
        assert may_be_lost(holed, start, end), str(loss)
    else:
        assert {offset for offset in wanted & by_offset.keys() if holed.is_decided(by_offset[offset])} <= set(rows)
    for row in shown:
        if row["state"] in ("committed", "aborted") and row["firstOffset"] in by_offset:
            first = by_offset[row["firstOffset"]]
            assert first.kind != "data" or holed.is_committed(first) == (row["state"] == "committed")


@MANY
@given(
    log=several,
    number=st.integers(0, 4),
    kept=st.integers(0, 6),
    copies=st.integers(1, 2),
    edges=st.none() | st.tuples(bounds, bounds),
    allowed=st.booleans(),
    chunk=st.sampled_from([150, 8 * 1024 * 1024]),
    how=st.fixed_dictionaries({}, optional={"minPartitions": st.integers(1, 9)}),
)
def test_a_cut_segment_of_a_compacted_log(
    log: Log,
    number: int,
    kept: int,
    copies: int,
    edges: tuple[Bound, Bound] | None,
    allowed: bool,
    chunk: int,
    how: dict[str, Any],
) -> None:
    """A segment before the last one ends where one of its batches does, and its index files lead behind its end."""
    cuttable = [at for at in range(log.gone, len(log.segments) - 1) if len(log.segments[at]) > 1]
    assume(cuttable)
    at = cuttable[number % len(cuttable)]
    segment, base = log.segments[at], log.bases[at]
    count = 1 + kept % (len(segment) - 1)
    parts = [*log.segments[:at], segment[:count], segment[count:], *log.segments[at + 1 :]]
    holed = Holed(replace(log, segments=parts), frozenset([at + 1]), leaves_indexes=True)
    start, end, options = read_between(log, edges, **how, **({"mode": "DROPMALFORMED"} if allowed else {}))
    ends = list(accumulate(len(batch.data) for batch in segment))
    entries = [(batch.last, position) for batch, position in zip(segment[1:], ends[:-1], strict=True)]
    with tempfile.TemporaryDirectory() as name, small_chunks(chunk), said() as messages:
        paths = [Path(name, str(at)) for at in range(copies)]
        for path in paths:
            path.mkdir()
            write(log, path, [0], False)
            file = path / "ledger-0" / writer.segment_name(base)
            file.write_bytes(file.read_bytes()[: ends[count - 1]])
            file.with_suffix(".index").write_bytes(writer.offset_index(entries, base))
            file.with_suffix(".timeindex").write_bytes(writer.time_index([(2000, segment[-1].last)], base))
            (path / CLEANER_CHECKPOINT).write_text("0\n1\nledger 0 1\n")
        rows: list[int] = []
        error: CorruptRecordError | DataLossError | None = None
        try:
            rows = kafkaseg.scan(paths, ["offset"], **options).read_all()["offset"].to_pylist()
        except (CorruptRecordError, DataLossError) as raised:
            error = raised
    event("an error" if error else "rows")
    by_offset = {offset: batch for batch in holed.there for offset in range(batch.base, batch.last + 1)}
    assert all(max(start, log.start) <= offset < end and holed.is_committed(by_offset[offset]) for offset in rows)
    wanted = consumed(holed, start, end)
    if error is not None:
        assert not allowed or isinstance(error, DataLossError)
        assert may_be_lost(holed, start, end), str(error)
    elif not allowed:
        assert wanted <= set(rows)
    else:
        assert {offset for offset in wanted & by_offset.keys() if holed.is_decided(by_offset[offset])} <= set(rows)
        words = (*_SAYS_LOSS, "cut short")
        assert wanted <= set(rows) or any(each in message for message in messages for each in words), messages


def consumed(holed: Holed, start: int, end: int) -> set[int]:
    """The offsets that a consumer of the whole known history gets, from the beginning of the files on."""
    opened, aborted = broker(holed.known)
    stable = min([*opened.values(), holed.known[-1].last + 1])
    rows = client(holed.known, aborted, stable, max(start, holed.there[0].base), end, control=False)
    return {offset for offset, _ in rows}


def may_be_lost(holed: Holed, start: int, end: int) -> bool:
    """Whether a wanted offset is missing, or how a wanted row ended, or the files do not reach the bounds."""
    there = holed.there
    if any(start <= offset < end for offset in holed.missing):
        return True
    if (start, end) != (0, ALL) and (start < there[0].base or end > there[-1].last + 1):
        return True
    return any(not holed.is_decided(batch) for batch in there if batch.last >= start and batch.base < end)


sizes = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=5), min_size=3, max_size=6)
"""Numbers of records: of the batches of each segment."""


@MANY
@given(
    segments=sizes,
    lost=st.integers(1, 4),
    raised=st.integers(0, 60),
    indexed=st.booleans(),
    how=st.fixed_dictionaries({}, optional={"trustIndexes": st.booleans(), "minPartitions": st.integers(1, 9)}),
)
def test_a_segment_lost_behind_a_wrong_offset(
    segments: list[list[int]], lost: int, raised: int, indexed: bool, how: dict[str, Any]
) -> None:
    """The last batch before a lost segment states an offset that is too high, and is still below the next segment."""
    lost = min(lost, len(segments) - 2)
    texts: dict[int, list[str]] = {}
    after = 0
    for segment in segments:
        base, texts[after] = after, []
        for count in segment:
            texts[base].append(f"[{after}-{after + count - 1} e0]")
            after += count
    bases = [*texts]
    before, room = texts[bases[lost - 1]], sum(segments[lost]) - 1
    assume(raised <= room)
    first = bases[lost] - segments[lost - 1][-1]
    entries = [(first, len(encode_batches(" ".join(before[:-1]))))] if len(before) > 1 else []
    if raised:
        before[-1] = before[-1].replace("]", f" @{first + raised}]")
    with tempfile.TemporaryDirectory() as name, mock.patch.object(retrying, "SECOND_LOOK", 0):
        there = {base: " ".join(text) for base, text in texts.items() if base != bases[lost]}
        [path] = write_copies(Path(name), there)
        if indexed:
            index = Path(path, "t-0", writer.segment_name(bases[lost - 1], ".index"))
            index.write_bytes(writer.offset_index(entries, bases[lost - 1]))
            end = bases[lost] - 1
            index.with_suffix(".timeindex").write_bytes(writer.time_index([(1000 + 10 * end, end)], bases[lost - 1]))
        with pytest.raises((DataLossError, CorruptRecordError)):
            kafkaseg.scan(path, ["offset"], **how).read_all()
        assert not kafkaseg.verify(path).is_ok
