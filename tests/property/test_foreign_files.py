"""A file of one copy is that of another partition, under a name that both partitions have: no read believes it.

The other copies are sound, and have the file of that name with another size. A read ends with an error, or gives just
the rows of the history: a foreign batch that reaches past the next segment's name is damage, and another copy is read.
Nothing changes meanwhile, and no error may say so. `python -m tests.property.test_foreign_files 0 20000` runs many
cases.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from random import Random
from typing import Any

from kafka_segment_source.errors import DataError, DataLossError, FileChangedError, PathError
from tests.support.cases import count_cases
from tests.support.hurt_copies import TOPIC, Batch, Case, Copy, File, Row, epochs_text, file_of, go_on, rolled
from tests.support.numbered import check_part, run_numbered
from tests.support.simulated_copies import LENIENT, same, scanned
from tests.support.simulated_files import SimulatedFiles
from tests.support.waiting import without_pauses

CASES = count_cases(300, 3_000)
BOUNDS = (("startingOffsets", 0), ("endingOffsets", 2**31))


@dataclass(frozen=True)
class ForeignCase:
    """The copies, and the rows of their history."""

    made: Case
    rows: dict[int, Row]


def make_case(number: int) -> ForeignCase:
    """Case `number`: two or three copies of one history, and a foreign file in one of them."""
    random = Random(number)
    history = go_on(random, [], random.randint(3, 12), 0, "v")
    if random.random() < 0.5:
        history = history + go_on(random, history, random.randint(1, 6), random.randint(1, 2), "v")
    indexed = random.random() < 0.7
    seed = random.random()
    rolls = random.randrange(2)  # a follower rolls where its leader did, as a rule
    copies = []
    for at in range(random.randint(2, 3)):
        copies.append(Copy(rolled(Random(seed + at * rolls), history, indexed)))
        if random.random() < 0.5:
            copies[at].epochs = epochs_text(copies[at])
    chosen = random.randrange(len(copies))
    others = {file.base: len(file.log) for at, copy in enumerate(copies) if at != chosen for file in copy.files}
    named = [at for at, file in enumerate(copies[chosen].files) if file.base in others]  # the first one always is
    place = random.choice(named)
    file = copies[chosen].files[place]
    copies[chosen].files[place] = make_foreign(random, file, history, indexed, others[file.base])
    rows = {row[0]: row for batch in history for row in batch.rows}
    return ForeignCase(Case(number, history, copies, random), rows)


def make_foreign(random: Random, file: File, history: list[Batch], indexed: bool, unequal: int) -> File:
    """A segment of another partition from the offset of a file on, with another size, of any leader epoch."""
    at = next(at for at, batch in enumerate(history) if batch.base == file.base)
    # in the last file, a later epoch would look like that of a later leader
    is_last = history[-1].base == file.batches[-1].batch.base
    while True:
        epochs = [history[at].epoch] if is_last else [history[at].epoch, random.randrange(5)]
        batches = go_on(random, history[:at], random.randint(1, 5), random.choice(epochs), "foreign")
        last = file.batches[-1].batch.after
        if random.random() < 0.7:  # it fits
            batches = [batch for batch in batches if batch.after <= last] or batches[:1]
        made = file_of(random, file.base, batches, indexed)
        is_same = batches[0].rows == history[at].rows  # two markers, maybe of the same time
        if len(made.log) not in (unequal, len(file.log)) and not is_same:
            return made


def check(number: int) -> str:
    """Tries one case; answers what came of it in a word."""
    foreign = make_case(number)
    files = SimulatedFiles()
    paths = foreign.made.write(files)
    random = Random(~number)
    with without_pauses():
        whole = read(foreign, files, paths, {})
        return f"{whole}, {read(foreign, files, paths, choose_options(foreign, random))}"


def choose_options(foreign: ForeignCase, random: Random) -> dict[str, Any]:
    """Bounds by offsets, of a read that may be lenient or committed."""
    options: dict[str, Any] = random.choice([{}, LENIENT, {"isolationLevel": "read_committed"}])
    end = max(batch.after for batch in foreign.made.history)
    first = random.randrange(end)
    after = random.randint(first + 1, end)
    return options | {"startingOffsets": {TOPIC: {"0": first}}, "endingOffsets": {TOPIC: {"0": after}}}


def read(foreign: ForeignCase, files: SimulatedFiles, paths: list[str], options: dict[str, Any]) -> str:
    """Reads some offsets. Answers the name of the error that came, or that just the rows of the history came."""
    first, after = (int(options[name][TOPIC]["0"]) if name in options else edge for name, edge in BOUNDS)
    wanted = {offset: row for offset, row in foreign.rows.items() if first <= offset < after}
    try:
        found = scanned(files, paths, **options)
    except (PathError, DataError, DataLossError) as error:
        if isinstance(error, FileChangedError):
            raise
        return type(error).__name__
    if "isolationLevel" in options:
        wanted = {row[0]: row for row in found if wanted.get(row[0]) == row}
    same(found, wanted, f"{options}")
    return "rows"


def test_foreign_files() -> None:
    """Whatever the bounds: an error, or the rows of the history."""
    words = check_part(check, 0, 1, CASES)
    assert words["rows, rows"] and words["PathError, PathError"], words


if __name__ == "__main__":
    sys.exit(run_numbered(sys.argv[1:], check))
