"""Copies of one history, hurt independently: what at least one copy of the history that counts holds whole comes out,
once, in order; an error comes only where no copy has the offsets.

A case is a number: `python -m tests.property.test_hurt_copies 4711` runs one and says what it does, `… 0 20000` many.
The suite tries the same cases every time, and `make test-cases` more of them. `KAFKASEG_LONG=1` tries 20,000.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple

import pytest

from kafka_segment_source.errors import CorruptRecordError, DataError, DataLossError, PathError
from kafka_segment_source.inspection.verification import verify_source
from kafka_segment_source.zones.making import map_segment
from kafka_segment_source.zones.update_plan import plan_updates
from kafka_segment_source.zones.updates import ZoneMapSummary, finish_update
from tests.support.cases import count_cases
from tests.support.hurt_copies import (
    TOPIC,
    Batch,
    Case,
    Copy,
    Row,
    case,
    fate_of,
    has_equal_twins,
    has_one_offset_wrong_twice,
    has_undecided_end,
    is_contested,
    open_producers,
    put,
)
from tests.support.numbered import check_part, run_numbered
from tests.support.reads import options_in, view_in
from tests.support.simulated_copies import LENIENT, same, scanned, show, streamed
from tests.support.simulated_files import SimulatedFiles
from tests.support.waiting import without_pauses

CASES = 20_000 if os.environ.get("KAFKASEG_LONG") else count_cases(400, 1_000)
PARTS = 10
FAILED_ONCE = [
    2660003664,  # a file with the bytes of an earlier one, of which a batch states a later leader epoch
    2760000219,  # a damaged message of magic 0 at an end, whose CRC looked like a later epoch
    2760001082,  # the same
    2600013965,  # a contest beside a follower that shares what lies behind, and is damaged before
    2100000768,  # a wrong epoch in one of two stale copies that have the same last batch
    2100001960,  # a log that begins behind what two others differ in, and the batch behind is damaged in one of them
    686,  # a last batch with a wrong offset, in a directory that is read under two names
    16682,  # rows before the first damage of a segment with damage at its end, and a compacted copy beside it
    5001233,  # a cut at the first batch of a file, whose offset is wrong, before a damaged one
    11002723,  # a whole batch right behind damage that states its place, and a later batch that steps back
    11012996,  # a lost segment of an old format in one copy, and its damage in another one
    12019934,  # a lost segment behind one that `since` leaves out, whose last batch states offsets beyond its segment
    13015232,  # the same, where a compacted copy has a part of what is lost
    130000078,  # the only batch of a last file states offsets before its name
    81000321,  # a thinned copy, and a first batch with a wrong offset before the whole one of another copy
    150005170,  # the wrong offset of a last batch makes a gap, and damage of another copy lies beside it
    170003117,  # a bound of time leaves out a damaged file that the plan took for offsets that its damage hides
    210000858,  # a batch between two damaged ones, beside larger batches of the cleaner in a copy that nothing marks
    800008993,  # a first file that names offsets which only another copy has, beside a thinned copy
    730005610,  # a batch that lies at a wrong place, with as many offsets as one that compaction has thinned
    210000639,  # damage in an earlier part of a last file, beside a copy that is damaged elsewhere
    880013867,  # a zone map of before the damage, and offsets between the ends of two copies that none has
    985009603,  # a marker behind lost files, after a batch with a wrong offset to which an index entry leads
]
MAPS = "/maps"


class Expected:
    """What must come out of a case, from its history and what was done to its copies."""

    def __init__(self, made: Case) -> None:
        self.made = made
        copies = [copy for copy in made.copies if copy.link_to is None]
        self.is_compacted = any(copy.is_compacted for copy in copies)
        held: dict[int, Batch] = {}
        for copy in copies:
            for batch in copy.held():
                before = held.get(batch.base)
                held[batch.base] = batch if before is None or len(before.rows) < len(batch.rows) else before
        self.held = [held[base] for base in sorted(held)]
        self.rows = {row[0]: row for batch in self.held for row in batch.rows}
        self.removed = self._find_removed(copies) | self._find_thinned_further(copies)
        self.doubtful = self._find_doubtful(copies)
        counting = [copy for copy in copies if copy.files]
        self.start = min((file.base for copy in counting for file in copy.files if file.batches), default=0)
        self.end = max((batch.after for batch in self.held), default=self.start)
        hurt = {each.batch.base for copy in copies for file in copy.files for each in file.batches if not each.whole}
        fences = {each.base for each in made.history}
        unheld = [batch for batch in made.history if batch.base not in held]
        # a copy without a batch begins after the others: the log went on to the name of its file
        retained = [copy.files[-1].base for copy in copies if copy.misfiled == "retained"]
        self.after = max([self.end, *retained]) if self.held else self.end
        self.unheld = [b for b in unheld if self.start <= b.base < self.after or (b.base in hurt and b.base in fences)]
        orphans = [file for copy in copies for file in copy.orphans if file.index or file.timeindex]
        # an index file alone shows that the log went on, and so does the name of a torn segment:
        # what is open at its end may have ended there
        self.is_cut = any(each.batch.after > self.end for file in orphans for each in file.batches)
        self.is_cut |= any(file.base > self.end for copy in counting for file in copy.files)
        told = {each.batch.base for copy in copies for file in copy.orphans for each in file.batches}
        is_misnamed = any(copy.misfiled in ("doubled", "replaced") for copy in copies)
        is_emptied = any(copy.misfiled == "emptied" for copy in copies)  # its index may tell what it held
        # a copy that has bytes, and no whole batch, has begun
        blank = [copy for copy in copies if copy.files and not copy.held()]
        self.has_blank = bool(blank)
        is_torn = any(file.log for copy in blank for file in copy.files)
        is_hurt = bool(self.unheld) or self.is_cut or is_misnamed or is_emptied or is_torn
        # a first file from which compaction took all batches looks like one that lost them
        is_cleaned = any(copy.is_compacted and not copy.files[0].batches for copy in counting)
        self.may_begin_before = bool(orphans) or is_misnamed or is_emptied or is_torn or is_cleaned
        self.is_cut |= is_misnamed  # nobody knows what the file should hold
        self.may_be_said = is_hurt or self.is_compacted or any(batch.base in told for batch in unheld)
        # a segment that is missing beside old formats is not noticed (gaps.py); damage is
        self.is_old = any(batch.magic < 2 for batch in made.history)
        torn = {copy.files[-1].batches[-1] for copy in copies if copy.files and copy.files[-1].batches}
        lengths = {held.batch.base for held in torn if held.has_wrong_length}  # it may be the write that a crash cut
        # of two damaged entries of an old format at the end of a copy, another copy explains both if it has the first
        ends = [copy.files[-1].batches[-2:] for copy in copies if copy.files]
        hurt_pairs = [pair for pair in ends if len(pair) == 2 and not (pair[0].whole or pair[1].whole)]
        behind = {pair[1].batch.base for pair in hurt_pairs if pair[0].batch.base in held}
        # a read of some offsets does not meet the damage of a copy without a whole batch, where another one has a gap
        behind |= {each.batch.base for copy in blank for file in copy.files for each in file.batches}
        self.unnoticed = {
            b.base
            for b in self.unheld
            if b.base >= self.after
            or b.base in lengths
            or (self.is_old and (b.base not in hurt or (b.base in behind and b.magic < 2)))
        }

    @staticmethod
    def _find_removed(copies: list[Copy]) -> set[int]:
        """Offsets of rows that compaction removed, and that only copies whose history lost still have.

        Such a copy may be compacted too, in favour of records that do not count. So batches of any other copy go before
        its own (`partition/choice.py`, SECOND), and both answers are a compacted log.
        """
        compacted = [
            [copy.files[0].base, *(batch.after for batch in copy.held())]
            for copy in copies
            if copy.is_compacted and copy.files
        ]
        counting = [batch for copy in copies if copy.diverged is None for batch in copy.held()]
        held = {row[0] for batch in counting for row in batch.rows}
        return {offset for ends in compacted for offset in range(min(ends), max(ends))} - held

    @staticmethod
    def _find_thinned_further(copies: list[Copy]) -> set[int]:
        """Offsets of rows that one compacted copy has, and another one lacks, if anything is damaged, or if a whole
        copy begins or ends inside a file of a compacted one.

        Where damage sends a read to the copies, either of the two may be read: both are what compaction may leave. Each
        file is compared as a whole (docs/damage.md).
        """
        ends = {
            offset
            for copy in copies
            if not copy.is_compacted and copy.files
            for offset in (copy.files[0].base, max((batch.after for batch in copy.held()), default=0))
        }
        spans = [
            (file.batches[0].batch.base, file.batches[-1].batch.after)
            for copy in copies
            if copy.is_compacted
            for file in copy.files
            if file.batches
        ]
        is_cut = any(first < end < after for first, after in spans for end in ends)
        if not is_cut and all(copy.files == copy.unhurt for copy in copies):
            return set()
        thinned = [batch for copy in copies if copy.is_thinned_further for batch in copy.held()]
        left = {row[0] for batch in thinned for row in batch.rows}
        return {offset for batch in thinned for offset in range(batch.base, batch.after)} - left

    @staticmethod
    def _find_doubtful(copies: list[Copy]) -> set[int]:
        """Offsets of rows that only batches between a gap and damage have: nothing proves their offsets.

        A read says that no copy holds them whole (docs/damage.md, "Doubt"). Between damage and damage, what compaction
        has left of a batch in another copy may be read for it.
        """
        certain: set[int] = set()
        doubtful: set[int] = set()
        thinned = {batch.base for copy in copies if copy.is_compacted for batch in copy.held()}
        for file in (file for copy in copies for file in copy.files):
            end = file.base
            for at, held in enumerate(file.batches):
                is_before_damage = any(not following.whole for following in file.batches[at + 1 : at + 2])
                is_behind_damage = any(not before.whole for before in file.batches[max(at - 1, 0) : at])
                is_behind_gap = held.batch.base > end or (is_behind_damage and held.batch.base in thinned)
                is_doubtful = is_behind_gap and is_before_damage
                if held.whole:
                    (doubtful if is_doubtful else certain).update(row[0] for row in held.batch.rows)
                end = held.batch.after
        return doubtful - certain

    def committed(self) -> dict[int, Row]:
        """What read_committed gives if nothing is lost."""
        is_open = open_producers(self.held)
        stable = min([self.end, *is_open.values()])
        fine = [b for b in self.held if b.kind == "data" or (b.kind == "txn" and fate_of(self.held, b) == "commit")]
        return {row[0]: row for batch in fine for row in batch.rows if row[0] < stable}

    def never(self) -> set[int]:
        """Offsets that read_committed may not give, whatever is lost.

        In a compacted topic a lost marker looks like a removed one, and the producer's next one ends its transaction.
        So it does where a file is gone behind one that begins with an old format.
        """
        not_committed = [b for b in self.made.history if b.kind == "txn" and fate_of(self.made.history, b) != "commit"]
        if (self.is_compacted or self.is_old) and self.unheld:
            not_committed = [b for b in not_committed if fate_of(self.held, b) != "commit"]
        return {row[0] for batch in not_committed for row in batch.rows}


def check(number: int) -> str:
    """Tries one case; answers what it was in a word."""
    files = SimulatedFiles()
    with without_pauses():
        try:
            return _check(number, files)
        except PathError:
            made = case(number)
            if any(
                hides(made) for hides in (has_undecided_end, has_one_offset_wrong_twice, has_equal_twins, is_contested)
            ):
                return "undecided"
            raise


def _check(number: int, files: SimulatedFiles) -> str:
    made = case(number)
    random = Random(-number - 1)
    if number % 3 == 2 and number % 2:  # a zone map from before the damage
        put(files, made.before())
        make_map(files, [f"/copy{at}" for at, copy in enumerate(made.copies) if copy.link_to is None])
    paths = made.write(files)
    expected = Expected(made)
    same(scanned(files, paths, **LENIENT), expected.rows, "all", expected.removed | expected.doubtful)
    if number % 4 == 0:
        same(streamed(files, paths, **LENIENT), expected.rows, "streamed", expected.removed | expected.doubtful)
    if number % 6 == 3:  # odd numbers have batches with wrong offsets between others
        cut = scanned(files, paths, minPartitions=20, **LENIENT)
        same(cut, expected.rows, "cut", expected.removed | expected.doubtful)
    if number % 3 == 0:
        word = _check_strict(files, paths, expected)
        if (number % 5 == 0 or expected.has_blank) and not (word == "whole" and expected.is_compacted):
            _check_verify(files, paths, expected, is_whole=word == "whole")
        return word
    if number % 3 == 1:
        _check_committed(files, paths, expected)
        _check_transactions(files, paths, expected)
        return "committed"
    _check_bounds(files, paths, expected, random, is_mapped=bool(number % 2))
    return "bounds"


def _check_strict(files: SimulatedFiles, paths: list[str], expected: Expected) -> str:
    try:
        same(scanned(files, paths), expected.rows, "strict", expected.removed)
    except (DataError, DataLossError) as error:
        _check_error(error, expected)
        if not _ends_with_error(files, paths) and not _is_of_later_offsets(error, expected):
            raise AssertionError("a stream ends without an error, and a scan does not") from error
        return "error"
    same(streamed(files, paths), expected.rows, "streamed strictly", expected.removed)
    if not expected.is_compacted and not expected.unnoticed.issuperset(batch.base for batch in expected.unheld):
        raise AssertionError(f"no error, although {[batch.base for batch in expected.unheld]} are held by no copy")
    return "whole"


def _ends_with_error(files: SimulatedFiles, paths: list[str]) -> bool:
    try:
        streamed(files, paths)
    except (DataError, DataLossError):
        return True
    return False


def _is_of_later_offsets(error: DataError | DataLossError, expected: Expected) -> bool:
    """Whether an error is of a batch that states offsets behind the end of the log, before a whole batch of its file.

    A stream reads up to that end, and asks for none of these offsets: it ends as a scan up to there, with a warning
    (docs/damage.md).
    """
    if not isinstance(error, CorruptRecordError) or (error.offset or -1) < expected.end or error.position is None:
        return False
    file = expected.made.files_by_path()[error.path]
    starts = accumulate((len(held.batch.data) for held in file.batches), initial=0)
    return any(held.whole and start > error.position for held, start in zip(file.batches, starts, strict=False))


def _check_verify(files: SimulatedFiles, paths: list[str], expected: Expected, is_whole: bool) -> None:
    """Asserts that `verify` finds a loss just where a strict read ends with an error; its rules about indexes apart.

    Damage of a copy may be what compaction removed from another one. `verify` is then the stricter of the two.
    """
    options = options_in(files, paths)
    report = verify_source(options.source, options.policy, deep=True)
    problems = [each for each in report.problems if not each.path.endswith("index") and "leader epoch" not in each.what]
    assert is_whole == (not problems), f"verify finds {problems}, although a read {'succeeds' if is_whole else 'fails'}"
    if not expected.may_begin_before:  # a file without a byte says nothing of what was there
        early = [each for each in report.together if each.offset is not None and each.offset < expected.start]
        assert not early, f"verify finds {early}, although the files begin at {expected.start}"


def _check_error(error: Exception, expected: Expected) -> None:
    """An error is right only where no copy has some offset; what compaction left out of one may be missed, and what
    only index files tell of."""
    assert expected.may_be_said, f"an error, although all is held: {error!r}"


def _check_committed(files: SimulatedFiles, paths: list[str], expected: Expected) -> None:
    found = scanned(files, paths, isolationLevel="read_committed", **LENIENT)
    if not expected.unheld and not expected.is_compacted and not expected.is_cut:
        same(found, expected.committed(), "committed")
        if not expected.may_be_said:
            assert scanned(files, paths, isolationLevel="read_committed") == found
        return
    same(found, {row[0]: expected.rows[row[0]] for row in found if row[0] in expected.rows}, "committed")
    wrong = {row[0] for row in found} & expected.never()
    assert not wrong, f"rows that were not committed: {wrong}"
    if not expected.unheld:
        plain = {row[0] for batch in expected.held if batch.kind == "data" for row in batch.rows}
        stable = min([expected.end, *open_producers(expected.made.history[: _number(expected)]).values()])
        lost = {offset for offset in plain if offset < stable} - {row[0] for row in found} - expected.removed
        assert not lost, f"committed rows of no transaction are lost: {lost}"


def _check_transactions(files: SimulatedFiles, paths: list[str], expected: Expected) -> None:
    """Asserts that view=transactions tells no ending that was not, and everything where nothing is lost."""
    rows = view_in(files, paths, "transactions", checkCrcs=True, **LENIENT)
    found = [(each["producerId"], each["firstOffset"], each["lastOffset"], each["state"]) for each in rows]
    if not expected.unheld and not expected.is_compacted and not expected.is_cut:
        assert sorted(found, key=str) == sorted(transactions_of(expected.held), key=str)
        return
    markers = {(each.producer, each.base): each for each in expected.made.history if each.kind in ("commit", "abort")}
    if (expected.is_compacted or expected.is_old) and expected.unheld:
        return  # a lost marker looks like a removed one, and the producer's next marker ends its transaction
    for producer, first, last, state in found:
        between = [base for whose, base in markers if whose == producer and first <= base < (last or expected.end)]
        if state != "unknown":
            assert not between, f"a transaction of {producer} from {first} to {last} goes past its marker at {between}"
        if state in ("committed", "aborted"):
            assert markers[producer, last].kind == {"committed": "commit", "aborted": "abort"}[state]


def transactions_of(batches: list[Batch]) -> list[tuple[int, int, int | None, str]]:
    """The transactions of some batches: producer, first offset, offset of the marker, state."""
    is_open: dict[int, int] = {}
    found: list[tuple[int, int, int | None, str]] = []
    for batch in batches:
        if batch.kind == "txn":
            is_open.setdefault(batch.producer, batch.base)
        elif batch.kind in ("commit", "abort") and batch.producer in is_open:
            state = {"commit": "committed", "abort": "aborted"}[batch.kind]
            found.append((batch.producer, is_open.pop(batch.producer), batch.base, state))
    return found + [(producer, first, None, "open") for producer, first in is_open.items()]


def _number(expected: Expected) -> int:
    return sum(batch.base < expected.end for batch in expected.made.history)


def make_map(files: SimulatedFiles, paths: list[str]) -> None:
    """Makes a zone map of what is there, with a zone for each batch."""
    summary = ZoneMapSummary()
    options = options_in(files, paths)
    for update in plan_updates(options.source, options.policy, MAPS):
        finish_update(update, [map_segment(split, 2**28, cell=1) for split in update.splits], summary)


def _check_bounds(files: SimulatedFiles, paths: list[str], expected: Expected, random: Random, is_mapped: bool) -> None:
    first = random.randint(expected.start, max(expected.start, expected.end - 1))
    after = random.randint(first, expected.end)
    options: dict[str, Any] = random.choice([{}, {"minPartitions": 5}, {"maxRecordsPerPartition": 3}])
    options |= random.choice([{}, {}, {"trustIndexes": False}, {"mode": "DROPMALFORMED"}])
    how = 2 if is_mapped else random.randrange(3)
    if how == 0:
        window = Window(range(first, after))
        options |= {"startingOffsets": {TOPIC: {"0": first}}, "endingOffsets": {TOPIC: {"0": after}}}
    else:
        moments = [row[1] for row in expected.rows.values()] or [0]
        since, until = sorted((random.choice(moments), random.choice(moments) + random.choice([0, 1, 30])))
        window = Window(times=range(since, until))
        options |= {"since": since, "until": until}
        if how == 2:
            options["zoneMaps"] = MAPS
            if not is_mapped:
                make_map(files, paths)
    _check_window(files, paths, expected, options, window)
    lost = [row for batch in expected.unheld for row in batch.rows if row[0] not in expected.unnoticed]
    if lost:  # a time range may begin where nothing is left
        since = random.choice(lost)[1]
        _check_window(files, paths, expected, {"since": since}, Window(times=range(since, 2**62)))


class Window(NamedTuple):
    """The offsets and the timestamps that a read asks for."""

    offsets: range = range(2**62)
    times: range = range(-1, 2**62)  # -1: of magic 0

    def choose(self, rows: Iterable[Row]) -> dict[int, Row]:
        return {row[0]: row for row in rows if row[0] in self.offsets and row[1] in self.times}


def _check_window(
    files: SimulatedFiles, paths: list[str], expected: Expected, options: dict[str, Any], window: Window
) -> None:
    """Asserts that a read gives the rows of a window; an error if it is strict, and no copy holds some of them."""
    wanted = window.choose(expected.rows.values())
    unheld = window.choose(row for batch in expected.unheld if batch.kind in ("data", "txn") for row in batch.rows)
    unnoticed = {row[0] for batch in expected.unheld if batch.base in expected.unnoticed for row in batch.rows}
    may_lack = expected.removed | expected.doubtful
    same(scanned(files, paths, **options | LENIENT), wanted, f"bounds {options}", may_lack)
    if "mode" in options:
        return
    try:
        same(scanned(files, paths, **options), wanted, f"strict bounds {options}", expected.removed)
    except (DataError, DataLossError) as error:
        _check_error(error, expected)
        return
    if unheld and not expected.is_compacted and not unnoticed.issuperset(unheld):
        raise AssertionError(f"strict bounds {options}: no error, although no copy holds {list(unheld)}")


@pytest.mark.parametrize("part", range(PARTS))
def test_hurt_copies(part: int) -> None:
    """Whatever is done to copies one by one: the rows that at least one of them holds, and errors where none does."""
    check_part(check, part, PARTS, CASES)


@pytest.mark.parametrize("number", FAILED_ONCE)
def test_cases_that_failed_once(number: int) -> None:
    check(number)


if __name__ == "__main__":
    sys.exit(run_numbered(sys.argv[1:], check, lambda number: show(case(number))))
