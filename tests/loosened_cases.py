"""Fixes that the generators find when they are loosened: `python -m tests.loosened_cases [words of a rule]`.

A generator makes the layout of a fix if a case of it fails without the fix. Each rule of `FOUND_BY` is loosened in a
copy of the repository, as `tests.loosened` does it. Then its generator tries fresh cases until one fails, of which the
sound code is asked too. Numbered cases of the tests do not count, nor unit tests.

Options: `--first N`, the first case; `--cases N`, how many at most. The program prints a table: the rule, the
generator, after how many cases it found the rule, and what that case says. The exit status is 1 if a rule was not
found.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.loosened import LOOSENED, ROOT, Loosened, copy_to

_TOGETHER = 2  # processes
_FAILED = re.compile(r"^(?:case (\d+): |FAILED )(.*)$", re.MULTILINE)

_MOST_SHOWN = 100  # characters of what a case says
_EXAMPLES = 400  # of hypothesis, from each of its seeds

#: Generator → its command, with a place for the first case and for their number.
GENERATORS = {
    "hurt copies": "tests.property.test_hurt_copies {first} {cases} --stop",
    "replicas": "tests.property.test_replica_sets {first} {cases} --stop",
    "misplaced batches": "tests.property.test_misplaced_batches {first} {cases} --stop",
    "foreign files": "tests.property.test_foreign_files {first} {cases} --stop",
    "tiers": "tests.fuzz.tier_faults --first {first} --cases {cases} --stop",
    "lost segments": "pytest -q -x -p no:cacheprovider tests/property/test_lost_segments.py --hypothesis-profile=seeded"
    " --hypothesis-seed={first}",
}

FOUND_BY: dict[str, tuple[str, ...]] = {
    "hurt copies": (
        "copies: what lies before damage counts by itself",
        "chain: but a copy that has a record for every offset is whole, whatever the cleaner of the other one wrote",
        "chain: of copies that both lack records, the one with fewer bytes holds the same offsets less well",
        "chain: a copy with more bytes than a whole one may lack records",
        "chain: what a file lacks before its first batch does not count against the others in it",
        "chain: nor does it in a last file",
        "chain: a copy without a batch that begins behind the others shows that the log went on",
        "chain: bytes of later offsets do not explain damage",
        "histories: a last batch whose epoch its own checkpoint does not know decides nothing",
        "copies: a batch whose epoch is in doubt still has its place",
        "ranges: a segment before a gap is not dropped by its time index",
        "zones: the last segment of one copy, before another one, is read at its end",
        "loss: a jump is no compaction",
        "offsets: torn bytes alone are no loss",
        "offsets: a read does not begin at a batch that may have fallen",
        "offsets: a split is not cut at a batch in doubt",
    ),
    "replicas": (
        "cut: compaction of another copy is no excuse",
        "cut: an index that leads behind the end of a segment shows what is lost",
        "copies: checkpoints that differ prove nothing",
        "copies: a line that batches bear out decides",
        "copies: the latest leader epoch wins",
        "copies: a copy counts up to its own end",
        "copies: a line beyond the last batch decides nothing",
        "copies: only a batch that is the same ends the comparison",
        "copies: epochs grow along one history",
        "copies: a batch whose epoch its neighbours contradict decides nothing",
        "copies: one whose history lost comes after the others",
        "copies: a last batch that alone states another epoch than the last line is of that one",
        "copies: a batch of the last line's epoch in another copy shows that the line is old",
        "copies: that batch shows no more than a later epoch",
        "copies: an earlier epoch than a checkpoint has does not decide alone",
        "copies: a line alone does not show that a checkpoint is old",
        "copies: the same bytes in a copy without a checkpoint show that the line is old",
        "copies: a checkpoint that has the epoch for that offset shows it too",
        "copies: but not if it contradicts the batch before",
        "copies: an epoch that a checkpoint may lack does not decide alone",
    ),
    "lost segments": (
        "transactions: what is open before missing offsets does not end the log",
        "loss: the gap before the last batch of a segment shows no compaction",
    ),
    "misplaced batches": (
        "twins: a copy whose history lost has what lies below",
        "twins: a copy whose history lost holds nothing that a name hides",
        "histories: without compaction a copy begins with its first batch",
        "contests: a batch that was left out has the offsets that it states",
        "contests: the file before has what a file's name leaves out",
        "contests: the file before bears out the epoch of a first batch",
        "doubt: a batch in a file that the plan does not read is a loss, in a compacted log too",
        "doubt: a batch in doubt of a later epoch contradicts the batches of another copy",
        "doubt: a last batch behind damage contradicts another copy too",
        "doubt: so does a batch behind damage in an earlier file",
        "doubt: a mended read has no batch whose offsets another copy gives to another leader",
        "doubt: a moved batch of another part of its file is lost",
        "doubt: a last batch lies at or above the name of its file",
        "gaps: other copies are asked for what is missing between two batches",
        "gaps: the gap before the batch behind the last wanted one is asked for too",
        "gaps: the batches on either side of a gap are looked at",
        "gaps: a wrong batch that was read before, or in another piece of a segment, is said",
        "gaps: a batch that another copy has at another offset is wrong",
        "gaps: two batches of one epoch with other ends contradict each other",
        "gaps: the gap before a wrong batch is no work of compaction",
        "gaps: verify reads copies with gaps as a query does",
        "over: a batch that is there twice may lie over one that no copy has",
        "over: so may one that another file of the copy has",
        "over: nothing says how long a last file without a batch of its own was",
        "over: a gap is no work of compaction where bytes are left of a batch",
    ),
    "tiers": (
        "tiers: a topic without a name is not left out",
        "tiers: no fixed number of manifests says what does not exist",
        "tiers: a selection includes a topic without a name that it could mean",
        "tiers: a pattern includes a topic without a name that it could mean",
        "tiers: manifests that the storage does not give are its error",
        "tiers: a disk with the same topic id says the name",
        "tiers: a directory without a name answers to any",
        "tiers: damaged leader epochs leave those of the segments",
        "tiers: a segment with a damaged manifest does not hide the lineage of its list",
        "tiers: a list of the lineage has the epochs that begin in its gaps",
        "epochs: a last line without its end was cut",
        "epochs: the count of a checkpoint is that of its lines",
        "tiers: bytes of another upload do not explain a segment of unknown size",
    ),
}


def find_case(rule: Loosened, generator: str, first: int, cases: int) -> tuple[int, str] | None:
    """The number of the first case that fails with a rule loosened, and what it says. None: all cases pass.

    A case that fails on the sound code as well is passed over.
    """
    with tempfile.TemporaryDirectory(prefix="kafkaseg-loosened-") as directory:
        copy = copy_to(Path(directory))
        rule.change.make(copy)
        at = first
        while at < first + cases:
            found = _run(generator, copy, at, first + cases - at)
            if found is None or _run(generator, ROOT, found[0], 1) is None:
                return found
            at = found[0] + 1
    return None


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.loosened_cases")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--first", type=int, default=20_000_000)
    parser.add_argument("--cases", type=int, default=5_000)
    given = parser.parse_args(arguments)
    chosen = [
        (rule, generator)
        for generator, names in FOUND_BY.items()
        for rule in LOOSENED
        if rule.rule in names and (not given.words or any(word in rule.rule for word in given.words))
    ]
    missed = 0
    with ThreadPoolExecutor(_TOGETHER) as pool:
        for (rule, generator), found in zip(
            chosen, pool.map(lambda pair: find_case(*pair, given.first, given.cases), chosen), strict=True
        ):
            missed += found is None
            what = "NOT FOUND" if found is None else f"{found[0] - given.first:,} | {found[1][:_MOST_SHOWN]}"
            print(f"| {rule.rule} | {generator} | {what} |", flush=True)
    print(f"{len(chosen)} rules loosened, {missed} of them not found within {given.cases:,} cases")
    return int(missed > 0)


def _run(generator: str, root: Path, first: int, cases: int) -> tuple[int, str] | None:
    """The first case that fails, and what it says."""
    if "{cases}" in GENERATORS[generator]:
        return _run_command(generator, root, first, cases)
    seeds = range(first, first + cases, _EXAMPLES)
    return next(filter(None, (_run_command(generator, root, seed, _EXAMPLES) for seed in seeds)), None)


def _run_command(generator: str, root: Path, first: int, cases: int) -> tuple[int, str] | None:
    command = GENERATORS[generator].format(first=first, cases=cases).split()
    environment = os.environ | {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", "KAFKASEG_CASES": "many"}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    found = _FAILED.search(done.stdout)
    if found is None and (done.returncode or not done.stdout):
        raise RuntimeError(f"{generator}: the cases did not run: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return None if found is None else (int(found[1] or first), found[2])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
