"""Whole batches at a wrong place in one copy, or a file with a wrong name or without bytes: no row is lost in silence.

A batch moved in its file or into another one, two changed places, one is there twice, one that another copy has moved
and states another offset too, or a segment file has another name or the bytes of another one, or is empty. The other
copies are sound: they may begin later, end earlier, and be compacted. One of them, or the hurt one, may end as a leader
left it that was replaced, and the hurt one may be marked as compacted. So what must come out is simple: every row that
any copy had, in order, or an error. Where the sound copies have everything, an error is wrong too, but where a segment
was cut into pieces, or an index hid the batch from the plan. Where one is compacted, a row that no sound copy has may
be missing.
`python -m tests.property.test_misplaced_batches 0 20000` runs many cases.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from random import Random
from typing import Any

import pytest

from kafka_segment_source.errors import DataError, DataLossError, PathError
from kafka_segment_source.inspection.verification import verify_source
from tests.support.cases import count_cases
from tests.support.hurt_copies import (
    TOPIC,
    Batch,
    Case,
    Copy,
    File,
    Held,
    Row,
    compacted,
    epochs_text,
    go_on,
    rolled,
)
from tests.support.numbered import check_part, run_numbered
from tests.support.reads import options_in
from tests.support.simulated_copies import LENIENT, same, scanned, show
from tests.support.simulated_files import SimulatedFiles
from tests.support.waiting import without_pauses

CASES = count_cases(120, 800)
PARTS = 4
FAILED_ONCE = [
    1017471,  # a file of the stale copy has a name behind its end, and it alone has the rows
    1018543,  # a batch of the stale copy lies in a file of its stale end
    1007569,  # the first file of the leader's copy has a lower name
    3700016335,  # a file name hides batches that a stale copy has too, above where that one is used
    3700016237,  # a renamed file, whose batch fills the gap that the name makes
    3800006583,  # two batches of two leaders changed places, and each fills the gap of the other
    3800001747,  # the same
    3700018281,  # two files of two leaders changed their bytes
    11010372,  # a batch that the read has passed, and another copy has (with that rule loosened)
    3300004711,  # two files changed their bytes, and the first batch of one is as long as the gap of the other
    3300005340,  # the same
    3300016865,  # the same
    3300017624,  # the same
    3300011565,  # a marker lies before what the plan reads of its file, in a compacted topic: a limit
    2640006526,  # two batches changed places, beside a stale copy and one that begins behind them
    803351,  # a piece began at a last batch behind a gap, which stated a later offset
    1252,  # a copy holds nothing where its batch lies in another file (with that rule loosened)
    12008380,  # a batch with a wrong offset behind what the plan reads of its file, in a compacted topic: a limit
    52020429,  # a batch in a file of another, and the end of another copy is stale
    54018678,  # two batches changed places, and the end of another copy is stale
    56023402,  # a moved batch of another part of its file, in a copy that counts as compacted
    50016128,  # two files of a copy that counts as compacted have each other's batches
    83002983,  # two files have each other's batches, and the other copy has lost its history from 0 on
    100699,  # a batch over the one before it, in a segment that is cut
    101716,  # a first batch states a larger offset, at which the plan changed copies
    105071,  # a batch states a larger offset, at which a segment is cut
    117540,  # a batch behind a gap that the other copy has in the gap
    11012063,  # the place of a moved batch is in another part of its file, and another copy is read between both
    160008733,  # a batch with a wrong offset lies before the first one of the later leader
    160010129,  # a batch of the last file lies before the part that is read for its end
    160010181,  # what a batch in the last file lies over looks like a torn one
    150007849,  # a batch over the one before it, and a third copy that begins behind the stale end of another one
]


@dataclass(frozen=True)
class Misplaced:
    """The copies; the rows of the history that some copy had; and those that one of the sound copies has.

    is_spared: whether the sound copies have all batches, with all rows, and one thing was done to the hurt one.
    is_indexed: whether the files have indexes.
    window: a start below the first number, and an end above the second, let a read see the file that was hurt.
    has_stale_end: whether one of the copies ends in batches that are none of the history.
    """

    made: Case
    rows: dict[int, Row]
    sound: dict[int, Row]
    is_spared: bool
    window: tuple[int, int]
    is_indexed: bool
    has_stale_end: bool = False

    @property
    def _hurt(self) -> Copy:
        return self.made.copies[int(self.made.notes[0].split()[1].strip(":"))]

    @property
    def is_marked(self) -> bool:
        """Whether the hurt copy is marked as compacted: a gap in it is no loss then."""
        return any(copy.marked and not copy.is_compacted for copy in self.made.copies)

    @property
    def is_of_compacted_topic(self) -> bool:
        """Whether one of the copies is marked as compacted: then the topic is."""
        return any(copy.marked for copy in self.made.copies)

    @property
    def what(self) -> str:
        """What was done to the hurt copy, in a word."""
        return self.made.notes[0].split()[2]

    @property
    def is_in_last_file(self) -> bool:
        """Whether the last file of the hurt copy was hurt."""
        return int(self.made.notes[0].split()[-1]) == self._hurt.files[-1].base

    @property
    def may_be_hidden(self) -> bool:
        """Whether an index may lead a plan, and `verify`, past a batch that lies in the file of another."""
        return self.is_indexed and self.what == "carry"

    @property
    def is_hurt_stale(self) -> bool:
        """Whether the hurt copy is the one with the stale end."""
        return self._hurt.diverged is not None

    @property
    def contradicts_stale_end(self) -> bool:
        """Whether the hurt copy has the first batch of the later leader, or earlier ones and a checkpoint that says
        where its epoch began. Later batches leave room for the stale ones. If the hurt one has the stale end: whether
        another one has that batch.
        """
        diverged = {copy.diverged for copy in self.made.copies}
        others = [copy for copy in self.made.copies if copy is not self._hurt]
        if any(
            batch.base in diverged for copy in (others if self.is_hurt_stale else [self._hurt]) for batch in copy.held()
        ):
            return True
        is_noted = self._hurt.epochs is not None and not self.is_hurt_stale
        return is_noted and any(batch.epoch == 0 for batch in self._hurt.held())

    @property
    def is_raise_provable(self) -> bool:
        """Whether another copy, and no compaction, shows that a batch states a larger offset (docs/damage.md)."""
        base = int(self.made.notes[0].split()[3])
        is_held = base in self.sound and any(batch.base == base for batch in self.made.history)
        is_simple = not self.has_stale_end and not any(copy.is_compacted or copy.marked for copy in self.made.copies)
        return is_held and is_simple

    @property
    def carried(self) -> set[int]:
        """The offsets of a batch that lies in the file of another, or that states another offset: a lenient read may
        leave them out, and says so."""
        bases = {int(self.made.notes[0].split()[3])} if self.what in ("carry", "shift", "raise") else set()
        return {row[0] for batch in self.made.history for row in batch.rows if batch.base in bases}

    @property
    def gone(self) -> set[int]:
        """Offsets of rows that may be missing without an error: those that one of the compacted copies lacks, and those
        that an index leads past. So may those of a batch with a wrong offset behind what a plan may read of its file
        (docs/damage.md, "Two wrong offsets")."""
        if self.what == "over" and self.is_in_last_file:
            # what is left of the batch may look like a torn one
            return set(self.rows) - set(self.sound) | self.hidden
        compacted_copies = [copy for copy in self.made.copies if copy.is_compacted]  # the hurt one is marked at most
        kept = [{row[0] for batch in copy.held() for row in batch.rows} for copy in compacted_copies]
        if not kept:
            return self._passed_by_index
        unread = self.carried if self.what == "shift" and self._is_behind_seam() else set()
        return set(self.rows) - set(self.sound).intersection(*kept) | unread

    @property
    def _passed_by_index(self) -> set[int]:
        """Offsets of a batch that no other copy has, and that an entry of the index leads past (docs/damage.md, "Bytes
        that are not read"): it moved to a place before that entry."""
        base = int(self.made.notes[0].split()[-1])
        file = next((file for file in self._hurt.files if file.base == base), None)
        if self.what not in ("move", "swap") or file is None or not file.index:
            return set()
        entry = int.from_bytes(file.index[-4:])  # a position
        passed: set[int] = set()
        for at, held in enumerate(file.batches):
            position = sum(len(other.batch.data) for other in file.batches[:at])
            if position < entry and any(later.batch.base < held.batch.base for later in file.batches[at + 1 :]):
                passed |= {row[0] for row in held.batch.rows}
        return passed - self.sound.keys()

    @property
    def hidden(self) -> set[int]:
        """Offsets of rows that another batch lies over in a copy that is marked as compacted. The read has passed them
        where the rest of them shows it: it ends with an error, or says what is left out."""
        if self.what != "over" or not self.is_marked:
            return set()
        return set(self.rows) - {row[0] for batch in self._hurt.held() for row in batch.rows}

    def _is_behind_seam(self) -> bool:
        """Whether the batch that states another offset lies behind one at which a copy begins that is not compacted and
        has the rest of the file: the plan may end there."""
        *_, stated, _, name = self.made.notes[0].split()
        (file,) = (file for file in self._hurt.files if file.base == int(name))
        bases = [int.from_bytes(held.batch.data[:8]) for held in file.batches]
        moved = bases.index(int(stated))
        sound = (copy for copy in self.made.copies if copy is not self._hurt and not copy.is_compacted)
        others = ({batch.base for batch in copy.held()} for copy in sound)
        return any(
            min(held) in bases[:moved] and held.issuperset({*bases[bases.index(min(held)) :]} - {int(stated)})
            for held in others
            if held
        )


def make_case(number: int) -> Misplaced:
    """Case `number`: two or three copies of one history, of which one was hurt."""
    random = Random(number)
    is_hurt_stale = number % 29 in (4, 5, 6)
    is_hurt_late = number % 31 == 7 and not is_hurt_stale  # its first file has a lower name, beside a stale copy
    history = go_on(random, [], random.randint(3, 12), 0, "v")
    if random.random() < 0.3 or is_hurt_stale or is_hurt_late:
        history = history + go_on(random, history, random.randint(1, 6), 1, "v")
    indexed = random.random() < 0.5 and not is_hurt_stale and not is_hurt_late
    seed, follows = random.random(), random.random() < 0.6  # a follower rolls where its leader did, as a rule
    copies = []
    hurt = random.randrange(count := random.randint(2, 3))
    for at in range(count):
        is_late = is_hurt_late if at == hurt else random.random() < (0.8 if is_hurt_stale else 0.4)
        first = random.randrange(len(history)) if is_late else 0
        last = random.randint(first + 1, len(history)) if at != hurt and random.random() < 0.5 else len(history)
        copy = Copy(rolled(Random(seed if follows else random.random()), history[first:last], indexed))
        if at != hurt and random.random() < 0.2 and len(copy.files) > 1:
            compacted(random, copy.files, history)
            copy.is_compacted, copy.marked = True, random.random() < 0.5
        if random.random() < 0.3:
            copy.epochs = epochs_text(copy)
        copies.append(copy)
    others = [copy for at, copy in enumerate(copies) if at != hurt]
    ends_stale = number % 19 == 6 or number % 23 in (8, 9, 10) or is_hurt_late
    may_end_stale = ends_stale and not indexed  # an index may lead past the batch that contradicts the stale end
    stale = copies[hurt] if is_hurt_stale else random.choice(others) if may_end_stale else None
    has_stale_end = stale is not None and leave_stale(random, stale, history)
    sound = {row[0]: row for copy in others for batch in copy.held() for row in batch.rows}
    held = {row for copy in copies for batch in copy.held() for row in batch.rows}
    rows = {row[0]: row for batch in history for row in batch.rows if row in held}
    names = {file.base for file in copies[hurt].files}
    way = rename_first if is_hurt_late else exchange if number % 17 == 3 else OTHER_WAYS.get(number % 23)
    done = way(random, copies[hurt]) if way is not None else ""
    done = done or misplace(random, copies[hurt], history, set(sound))
    what, *_, place = done.split()
    explained = ("rename", "empty", "shift", "raise")  # by compaction
    copies[hurt].marked = number % 13 == 6 and what not in explained
    window = (2**31, -1)
    if what == "carry":
        window = (int(place) + 1, 2**31)
    elif what == "shift" and has_stale_end:  # a copy that has it may count only before it
        window = (-1, 2**31)
    elif what in ("shift", "over", "raise"):  # the end may lie before what shows it
        window = (2**31, 2**31)
    elif renamed := {file.base for file in copies[hurt].files} - names:
        window = (min(renamed), -1)
    bases = {batch.base for copy in others for batch in copy.held()}
    is_spared = (
        len(sound) == len(rows) and len(bases) == len(history) and what not in ("shift", "raise") and not has_stale_end
    )
    last = copies[hurt].files[-1]
    is_twice = what == "double" and last.batches[-1] in last.batches[:-1]
    if done.startswith(f"refill {last.base} ") or (int(place) == last.base and (what == "over" or is_twice)):
        is_spared = False  # what lies there now may lie over batches that no other copy has
    made = Case(number, history, copies, random, [f"copy {hurt}: {done}"])
    return Misplaced(made, rows, sound, is_spared, window, indexed, has_stale_end)


def leave_stale(random: Random, copy: Copy, history: list[Batch]) -> bool:
    """Ends a copy with what the leader of the first epoch went on to write, if another leader followed it. Answers
    whether it did so."""
    old = [batch for batch in history if batch.epoch == 0]
    if len(old) == len(history) or copy.is_compacted:
        return False
    stale = go_on(random, old, random.randint(1, 3), 0, "stale")
    copy.files = rolled(random, old[random.randrange(len(old)) :] + stale, indexed=False)
    copy.diverged, copy.epochs = old[-1].after, None
    return True


def misplace(random: Random, copy: Copy, history: list[Batch], sound: set[int]) -> str:
    """Hurts a copy in one way. Answers what was done. sound: offsets that another copy has."""
    several = [file for file in copy.files if len(file.batches) > 1]
    what = random.choice(
        ["move", "move", "swap", "swap", "double", "rename", "rename", "empty", "carry", "carry", "shift"]
    )
    is_stale = copy.diverged is not None
    if is_stale and random.random() < 0.6:  # it alone may have what lies below
        what = random.choice(["rename", "carry"])
    if what == "shift" and several:
        file = random.choice(several)
        order = list(file.batches)
        moved = order.pop(random.randrange(len(order)))
        if {row[0] for row in moved.batch.rows} <= sound:
            data = bytearray(moved.batch.data)
            data[random.choice([3, 4, 5, 6])] ^= 1 << random.randrange(8)  # its base offset is none of the history now
            other = replace(moved, batch=replace(moved.batch, data=bytes(data)))
            order.insert(random.randrange(len(order)), other)  # nothing proves the offset of a last batch
            _rewrite(file, order)
            return f"shift {moved.batch.base} to {int.from_bytes(data[:8])} in {file.base}"
    if what in ("move", "swap") and several:
        file = random.choice(several)
        one, other = random.sample(range(len(file.batches)), 2)
        order = list(file.batches)
        if what == "move":
            order.insert(other, order.pop(one))
        else:
            order[one], order[other] = order[other], order[one]
        _rewrite(file, order)
        return f"{what} {one}, {other} of {file.base}"
    full = [file for file in copy.files if file.batches]
    if what == "carry" and len(full) > 1:
        file, target = random.sample(full, 2)
        left, order = list(file.batches), list(target.batches)
        carried = left.pop(random.randrange(len(left)))
        order.insert(random.randint(0, len(order)), carried)
        _rewrite(file, left)
        _rewrite(target, order)
        return f"carry {carried.batch.base} into {target.base}"
    if what == "rename" and len(copy.files) > 1:
        at = random.randrange(0 if is_stale else 1, len(copy.files))
        file, end = copy.files[at], history[-1].after
        free = sorted(set(range(end)) - {each.base for each in copy.files})
        if free:
            old, file.base = file.base, random.choice(free)
            file.index = file.timeindex = None
            copy.files.sort(key=lambda each: each.base)
            return f"rename {old} to {file.base}"
    if what == "empty" and len(copy.files) > 1:
        file = random.choice(copy.files[:-1])
        file.batches, file.log, file.index, file.timeindex = [], b"", None, None
        return f"empty {file.base}"
    file = random.choice(copy.files)
    order = list(file.batches)
    one = random.randrange(len(order))
    place = random.randint(0, len(order))
    order.insert(place, order[one])
    _rewrite(file, order)
    return f"double {one} at {place} of {file.base}"


def rename_first(random: Random, copy: Copy) -> str:
    """Gives the first file of a copy a lower name. Answers what was done; nothing if there is none."""
    file = copy.files[0]
    if file.base == 0:
        return ""
    old, file.base = file.base, random.randrange(file.base)
    file.index = file.timeindex = None
    return f"rename {old} to {file.base}"


def exchange(random: Random, copy: Copy) -> str:
    """Gives each of two files the bytes of the other one. Answers what was done; nothing if there are no two."""
    full = [file for file in copy.files if file.batches]
    if len(full) < 2:
        return ""
    one, other = random.sample(full, 2)
    one.index, other.index = other.index, one.index
    one.timeindex, other.timeindex = other.timeindex, one.timeindex
    first, second = one.batches, other.batches
    _rewrite(one, second)
    _rewrite(other, first)
    return f"exchange {one.base} and {other.base}"


def write_over(random: Random, copy: Copy) -> str:
    """Writes the bytes of one batch over those of another one. Answers what was done; nothing if there are no two."""
    full = [(file, at) for file in copy.files for at in range(len(file.batches))]
    if len(full) < 2:
        return ""
    (source, one), (file, other) = random.sample(full, 2)
    if random.random() < 0.6 and other + 1 < len(file.batches):
        source, one = file, other + 1
    data = source.batches[one].batch.data
    ends = list(accumulate(len(held.batch.data) for held in file.batches))
    start, end = (
        ends[other] - len(file.batches[other].batch.data),
        ends[other] - len(file.batches[other].batch.data) + len(data),
    )
    file.log = file.log[:start] + data + file.log[end:]
    file.batches = [
        held
        for held, after in zip(file.batches, ends, strict=True)
        if after <= start or after - len(held.batch.data) >= end
    ]
    return f"over {one} of {source.base} on {other} of {file.base}"


def refill(random: Random, copy: Copy) -> str:
    """Gives one file the bytes of another one, which stays. Answers what was done; nothing if there are no two."""
    full = [file for file in copy.files if file.batches]
    if len(full) < 2:
        return ""
    one, other = random.sample(full, 2)
    if random.random() < 0.5:
        one.index, one.timeindex = other.index, other.timeindex
    _rewrite(one, other.batches)
    return f"refill {one.base} with {other.base}"


def raise_and_lose(random: Random, copy: Copy) -> str:
    """Raises the offset of the last batch of a file, and removes the next file, which another one follows. Answers what
    was done; nothing if there are no three files."""
    at = [at for at in range(len(copy.files) - 2) if copy.files[at].batches]
    if not at:
        return ""
    file = copy.files[one := random.choice(at)]
    *before, last = file.batches
    raised = last.batch.base + random.choice([1, 2, 4, 8, 16])
    data = raised.to_bytes(8, "big") + last.batch.data[8:]
    _rewrite(file, [*before, replace(last, batch=replace(last.batch, data=data))])
    del copy.files[one + 1]
    return f"raise {last.batch.base} to {raised} of {file.base}"


OTHER_WAYS = {
    3: exchange,
    5: write_over,
    6: refill,
    7: raise_and_lose,
    8: exchange,
    9: write_over,
    10: raise_and_lose,
}
"""By the number of a case modulo 23."""


def _rewrite(file: File, order: list[Held]) -> None:
    file.batches, file.log = order, b"".join(held.batch.data for held in order)


def check(number: int) -> str:
    """Tries one case; answers what came of it in a word."""
    case = make_case(number)
    if case.has_stale_end and (case.what == "empty" or not case.contradicts_stale_end):
        return "error"  # no batch may be left that contradicts the stale end (docs/damage.md)
    if case.what == "raise" and not case.is_raise_provable:
        return "error"
    files = SimulatedFiles()
    paths = case.made.write(files)
    random = Random(~number)
    with without_pauses():
        word = read(case, files, paths, {})
        _check_verify(case, files, paths, word)
        for options in choose_options(case, random):
            ends_early = options.keys() & {"endingOffsets", "maxRecordsPerPartition", "minPartitions"}
            if not (case.is_of_compacted_topic and ends_early):  # there, what lies behind is not missed
                read(case, files, paths, options)
    return word


def choose_options(case: Misplaced, random: Random) -> Iterator[dict[str, Any]]:
    """Yields some bounds, and some cuts. Names and an index may lead behind a batch at a wrong place (docs/damage.md,
    "Bytes that are not read"): so the index is not used for a start, and none lies behind a wrong name."""
    first, last = sorted(random.choices(sorted(case.rows), k=2)) if case.rows else (0, 0)
    if first < case.window[0]:
        yield {"startingOffsets": {TOPIC: {"0": first}}, "trustIndexes": False}
    if last > case.window[1]:
        yield {"endingOffsets": {TOPIC: {"0": last}}}
    yield random.choice([{"maxRecordsPerPartition": random.randint(1, 5)}, {"minPartitions": random.randint(2, 9)}])
    yield {"trustIndexes": False}


def read(case: Misplaced, files: SimulatedFiles, paths: list[str], options: dict[str, Any]) -> str:
    """Reads with options, strictly and leniently. Answers "whole" or "error"."""
    bounds = {option: given[TOPIC]["0"] for option, given in options.items() if option.endswith("Offsets")}
    inside = range(bounds.get("startingOffsets", 0), bounds.get("endingOffsets", 2**31))
    wanted = {offset: row for offset, row in case.rows.items() if offset in inside}
    is_cut = "maxRecordsPerPartition" in options or "minPartitions" in options
    may_lack = set(wanted) if is_cut else (set(wanted) - set(case.sound)) | case.carried
    if (
        not case.has_stale_end and case.what != "raise"
    ):  # what contradicts it may be damage, which a lenient read leaves out
        may_lack |= case.gone | case.hidden
        same(scanned(files, paths, **options | LENIENT), wanted, f"lenient {options}", may_lack)
    try:
        same(scanned(files, paths, **options), wanted, f"strict {options}", case.gone)
    except (DataError, DataLossError, PathError) as error:
        if case.what != "raise" and isinstance(error, PathError) and not case.has_stale_end:
            raise
        if not is_cut and case.is_spared and not case.may_be_hidden:
            raise AssertionError(f"{options}: an error, although the sound copies have all") from error
        return "error"
    return "whole"


def _check_verify(case: Misplaced, files: SimulatedFiles, paths: list[str], word: str) -> None:
    options = options_in(files, paths)
    found = verify_source(options.source, options.policy, deep=True).problems
    problems = [problem.what for problem in found if not problem.path.endswith("index")]
    may_differ = case.may_be_hidden or case.what in ("shift", "raise")
    may_differ |= case.is_of_compacted_topic and case.what == "move"  # a batch without rows, which the plan leads past
    may_differ |= case.is_hurt_stale  # the plan may leave out what was hurt
    assert not problems or word == "error" or case.gone or may_differ, f"a read is whole, and verify finds {problems}"
    may_look_torn = case.what == "over" and case.is_in_last_file  # what is left of the batch may look like a torn one
    assert problems or word == "whole" or may_look_torn, "a read ends with an error, and verify finds nothing"


@pytest.mark.parametrize("part", range(PARTS))
def test_misplaced_batches(part: int) -> None:
    words = check_part(check, part, PARTS, CASES)
    assert set(words) == {"whole", "error"}


@pytest.mark.parametrize("number", FAILED_ONCE)
def test_cases_that_failed_once(number: int) -> None:
    check(number)


def show_case(number: int) -> None:
    case = make_case(number)
    show(case.made)


if __name__ == "__main__":
    sys.exit(run_numbered(sys.argv[1:], check, show_case))
