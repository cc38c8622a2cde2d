"""Replicas of one partition, compacted apart: no row that the last leader's history does not have, and no row lost that
every copy of it holds.

A case is a number: `python -m tests.property.test_replica_sets 4711` runs one and says what it does, `… 0 20000`
many. The suite tries the same cases every time, and `make test-cases` more of them. `KAFKASEG_LONG=1` tries 20,000.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from random import Random

import pytest

from kafka_segment_source.errors import DataError, DataLossError, PathError
from tests.support.cases import count_cases
from tests.support.compacted_replicas import TOPIC, Case, Row, case
from tests.support.numbered import check_part, run_numbered
from tests.support.reads import plan_in
from tests.support.simulated_copies import LENIENT, scanned
from tests.support.simulated_files import SimulatedFiles
from tests.support.waiting import without_pauses

CASES = 20_000 if os.environ.get("KAFKASEG_LONG") else count_cases(400, 1_000)
PARTS = 10
FAILED_ONCE = [
    3200006738,  # a file that was cut, and a copy whose history lost has an empty batch there
    2830006323,  # a damaged batch that names its leader, and damage in the other copy before its batch there
    2800004337,  # a last batch that was left out, and a wrong epoch that it seemed to bear out
    100010109,  # a stale batch in a gap of the log, below one that both copies have at its place
    120002142,  # stale batches in a gap of the log, below one that reaches into it
    70018983,  # the last batch steps back into the one before it, which compaction has thinned
    41000092,  # a wrong epoch in one copy, and compaction has rewritten the same batch in another
    180000771,  # damage in the copy that counts, and a replaced one that has nothing left there
    7638,  # a last batch with a wrong offset made the checkpoint beside it count for nothing
    16098,  # damage at the end of a copy, and a thinned copy of another history is read there
    93003635,  # two different batches without records are alike, but for their offsets
    406,  # a last batch that states offsets beyond all copies, and rows of another one in the gap before it
    4354,  # the same, and damage in the other copy
    11794,  # the same, and a checkpoint that the batch contradicts by its wrong offset
    14830,  # the same, and a torn end of the other copy
    5561,  # a wrong epoch at the end of what a fence leaves, whose neighbour lies behind the fence
    5015518,  # damage right before a last batch with a wrong offset: all of that copy counted for nothing
    10000580,  # a stale copy that begins with damage, above the end of the leader's
    10001871,  # a stale end in a gap of the leader's, before a batch with a wrong epoch
    10008706,  # an epoch that no line notes, before the last batch of a stale copy
    10012942,  # a batch behind damage that states its place, before a last one with a wrong offset
    12013152,  # a wrong epoch in the last batch of the leader's, and the checkpoint bears out the one before
    12018682,  # a wrong epoch below zero in the last batch of a stale copy
    1252,  # checkpoints that differ, which prove nothing (with that rule loosened)
    4077,  # a copy whose history lost comes after the others (with that rule loosened)
    14010021,  # a last batch that steps back into a gap, before one that another copy has at its place
    220000789,  # a stale batch where the copy that counts is damaged, below the line of its epoch
    190005036,  # a wrong offset and a wrong epoch in one last batch
    710000467,  # a later epoch in a stale last batch than its checkpoint has, where compaction left the others nothing
    760001527,  # an earlier one
    830005447,  # one that is just that of the leader, whose batch there compaction has emptied
    850006927,  # a later one, and the leader has no checkpoint
    830000429,  # an older checkpoint in one copy, and the batch of the epoch that it lacks is damaged in the other
    850011353,  # the same, in the copy with the older checkpoint
    830018549,  # an older checkpoint, damage before the last batch, and a stale copy with an epoch between
    910007942,  # a wrong last epoch that is the one of another copy's line, where compaction left that copy nothing
    890008502,  # the same, and it left other batches there
    940010087,  # the same in a stale copy, beside another older checkpoint
    940001240,  # an older checkpoint, a copy without one, and a stale end: the read had no rows and no error
    1200000647,  # older checkpoints in two copies, a wrong last epoch in one, and a batch that shows that they are older
    1200015647,  # the same
    1500011517,  # a wrong last epoch, and a wrong offset that is just that of the batch with it
    1500001402,  # damage in the first of two copies, and a last batch of the second one that moved beyond both
    1500015713,  # damage before the batch of another copy that shows that a checkpoint is old
    2000030228,  # a follower that a replaced leader stands against, and that shares what lies behind the hole of the last one
    1900034252,  # a stale copy and a follower contradict each other where the leader's file has no bytes
    2100003584,  # two epochs of one last batch, both later than the lines of an older checkpoint
    2100017699,  # an emptied last batch with a wrong epoch, which looks like that of a stale copy
    2650005625,  # a thinned copy of a history that lost stood in for a damaged batch that another one has whole
    2700000874,  # a last batch that moved beyond all, and the other copy has what its gap hides
    2700003346,  # the same
    2610006843,  # a follower of a compacted topic did not note an epoch, and a third copy is marked
    2770017385,  # a damaged batch behind a gap that compaction left at the begin of a file, one bit above its name
    2770011485,  # a file without bytes, whose offsets several files of a stale copy serve: a plan of some said nothing
    2740003820,  # a damaged batch right before the end of what a fence leaves of a stale copy
    2740004996,  # the same
    1430003669,  # an older checkpoint, and the file of the other copy that has the batch has no bytes
    980004293,  # an older checkpoint of a leader that took an earlier log
]


def check(number: int) -> str:
    """Tries one case; answers what it was in a word."""
    made = case(number)
    files = SimulatedFiles()
    with without_pauses():
        paths = made.write(files)
        may_be_stale = made.is_bent() or (made.undecided() and made.is_contested())
        if made.is_damaged() and may_be_stale and _says_that_rows_may_be_stale(files, paths):
            return "error"
        try:
            word = _judge(made, scanned(files, paths, **LENIENT), "lenient")
        except PathError:
            if made.has_undecided_end() or made.is_contested() or made.has_later_stale():
                return "undecided"
            raise
        try:
            found = scanned(files, paths)
            _judge(made, found, "strict")
            _check_silence(made, found, plan_in(files, paths).warnings, range(made.leader.end + 1))
            _check_part(made, files, paths, number)
        except (DataError, DataLossError, PathError) as error:
            _check_part(made, files, paths, number)
            if made.undecided() or made.is_damaged() or made.has_holes():
                return "error"
            if isinstance(error, DataLossError) and made.may_look_like_loss():
                return "no mark"
            if isinstance(error, PathError) and made.has_bent_epoch():
                return "error"  # beside a stale copy (docs/damage.md, "Where an error says more than is lost")
            raise AssertionError(f"an error, although no copy is hurt: {error!r}") from error
    return word


def _check_part(made: Case, files: SimulatedFiles, paths: list[str], number: int) -> None:
    """Reads a few offsets. They give no other row, and lose none, if there is no error."""
    random = Random(number)
    end = made.leader.end
    start = random.randrange(min(made.leader.start, end - 1), end)
    part = range(start, random.randint(start + 1, min(start + 4, end)))
    bounds = {"startingOffsets": {TOPIC: {"0": part.start}}, "endingOffsets": {TOPIC: {"0": part.stop}}}
    try:
        found = scanned(files, paths, **bounds)
    except (DataError, DataLossError, PathError):
        return  # the read of all says whether an error is needed
    _judge(made, found, f"offsets {part.start} to {part.stop - 1}", part)
    _check_silence(made, found, plan_in(files, paths, **bounds).warnings, part)


def _check_silence(made: Case, found: list[Row], said: Sequence[str], part: range) -> None:
    """Asserts that a read without an error has all rows that no copy may lack, or that a warning says so."""
    offsets = {row[0] for row in found}
    silent = sorted(offset for offset in made.noticed().keys() - offsets if offset in part)
    is_said = any("no bytes" in warning or "may have removed records" in warning for warning in said)
    assert made.undecided() or not silent or is_said, f"strict: lost in silence {silent} of {part}"


def _says_that_rows_may_be_stale(files: SimulatedFiles, paths: list[str]) -> bool:
    """Whether a read ends with an error about rows that may be stale. `failOnDataLoss=false` then reads them."""
    try:
        plan_in(files, paths)
    except (DataError, DataLossError, PathError) as error:
        return isinstance(error, PathError) and "failOnDataLoss=false to read them" in str(error)
    return False


def _judge(made: Case, found: list[Row], how: str, part: range | None = None) -> str:
    """Asserts that rows are right; a stale copy that no file contradicts is taken for a part of the log.

    part: the offsets that were read, if not all.
    """
    offsets = [row[0] for row in found]
    assert offsets == sorted(set(offsets)), f"{how}: rows twice or out of order: {offsets}"
    if made.undecided() and (made.has_later_stale() or made.has_silent_leader() or not made.is_contested()):
        return "undecided"
    truth, required = made.rows(), made.required()
    wrong = [row for row in found if truth.get(row[0]) != row and made.can_tell(row[0])]
    assert not wrong, f"{how}: not of the log: {wrong}"
    if made.undecided():
        return "undecided"  # rows may be left out, with a warning
    lost = sorted(offset for offset in set(required) - set(offsets) if part is None or offset in part)
    assert not lost, f"{how}: lost {lost}"
    return "stale" if any(made.is_stale(each) for each in made.replicas) else "whole"


@pytest.mark.parametrize("part", range(PARTS))
def test_compacted_replicas(part: int) -> None:
    """However each replica was compacted and whatever it noted: the rows of the last leader's history."""
    check_part(check, part, PARTS, CASES)


@pytest.mark.parametrize("number", FAILED_ONCE)
def test_cases_that_failed_once(number: int) -> None:
    check(number)


def test_the_generator_makes_what_it_should() -> None:
    """Replicas with different lines for one epoch, stale ones that are decided, and few that are not."""
    made = [case(number) for number in range(400)]
    differing = sum(
        any(one.lines[epoch] != other.lines[epoch] for epoch in one.lines.keys() & other.lines.keys())
        for each in made
        for one, other in zip(each.replicas, each.replicas[1:], strict=False)
        if not each.is_stale(one) and not each.is_stale(other)
    )
    stale = sum(any(each.is_stale(replica) for replica in each.replicas) for each in made)
    undecided = sum(bool(each.undecided()) for each in made)
    assert differing > 20 and stale > 30 and undecided < stale / 2


def show(made: Case) -> None:
    """Prints a case."""
    print(*made.log, sep="\n")
    for at, replica in enumerate(made.replicas):
        words = ["stale" if made.is_stale(replica) else "", "leader" if replica is made.leader else ""]
        print("copy", at, *words, made.shared_end(replica), replica.lines if replica.has_lines else "no lines")
        for base, batches in replica.files():
            held = [
                (
                    h.batch.base,
                    h.batch.last,
                    f"e{h.batch.epoch}" + ("" if h.epoch is None else f"->{h.epoch}"),
                    sorted(h.kept),
                    "" if h.whole else "X",
                )
                for h in batches
            ]
            print("   ", base, held)


if __name__ == "__main__":
    sys.exit(run_numbered(sys.argv[1:], check, lambda number: show(case(number))))
