"""Breaks the package on purpose, one proof after the other, and has the simulation find it:
`python -m tests.simulation.mutations ["PART OF A NAME" ...] [--runs 10000] [--from 5000000]`.

In: the mutations below. Each is made in a temporary copy of the package and its tests, never here. Out: for each its
name, the first seed that failed with what was wrong, and how many runs that took; exit status 1 if one was not found.

Proofs overlap: where another one always covers a single one, the mutation takes out both, and its `why` says so.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.changes import Change, change_package

_ROOT = Path(__file__).parents[2]
_COPIED = ("kafka_segment_source", "tests")


@dataclass(frozen=True)
class Mutation:
    """A defect. kind, aim: what the runs are of, and exercise; why: it takes more than one change, or runs of their
    own."""

    name: str
    changes: tuple[Change, ...]
    kind: str | None = None
    aim: str | None = None
    why: str = ""


def _in_package(name: str, old: str, new: str) -> Change:
    return change_package(f"{name}.py", old, new)


_VERSION = _in_package(
    "decoding/split_file",
    "        planned, found = self.split.version, self._version\n        if self._is_listed_one:",
    "        planned, found = self.split.version, self._version\n        if True:",
)
_ANCHOR = _in_package(
    "decoding/split_file", "if anchor is not None and not anchor.is_in", "if False and not anchor.is_in"
)
_RANGE_END = _in_package(
    "decoding/batches",
    "if self._search.last_offset >= wanted_end - 1 or following >= wanted_end:",
    "if True:",
)
_CONFIRM = _in_package(
    "decoding/split_file",
    "        planned, now = self.split.version, file_version(self.split.path, self.split.storage)\n",
    "        return\n        planned, now = self.split.version, file_version(self.split.path, self.split.storage)\n",
)
_NO_FIRST_PLACE = _in_package(
    "zones/update_plan", "    if start == 0:\n        return None\n    zones", "    return None\n    zones"
)
_LEFT_OUT = Change(
    "tests/support/simulated_files.py",
    '                raise VanishedError(f"{path!r} vanished while its directory was listed")\n',
    "                continue\n",
)
_ONE_LISTING = _in_package("logdir/listing", "    while _may_be_of_compaction(files):\n", "    while False:\n")

MUTATIONS = (
    Mutation("no proof of identity at all", (_VERSION, _ANCHOR, _RANGE_END, _CONFIRM)),
    Mutation(
        "neither the version nor the anchor is checked",
        (_VERSION, _ANCHOR),
        kind="compacted",
        aim="cuts",
        why="each of the two finds what the other one finds; the version costs nothing, and a clock may be coarse",
    ),
    Mutation("the end of a range is not proven", (_RANGE_END, _VERSION), kind="compacted", aim="cuts"),
    Mutation("damage is believed at once", (_CONFIRM,)),
    Mutation(
        "markers are not looked for past the planned size",
        (
            _in_package(
                "transactions/walk",
                "            if listed_at == reached:\n                return",
                "            return\n            if listed_at == reached:\n                return",
            ),
        ),
    ),
    Mutation(
        "markers are believed without their data",
        (_in_package("transactions/committed", "        if looks_ahead:\n", "        if False:\n"),),
        kind="compacted transactional",
        aim="stalls",
    ),
    Mutation(
        "the stable end is past what was read",
        (
            _in_package(
                "planning/open_transactions",
                "return min(end, replay.reached) if replay.is_at_end else end",
                "return end",
            ),
        ),
    ),
    Mutation("zones are continued unproven", (_NO_FIRST_PLACE, _VERSION, _CONFIRM), kind="compacted", aim="maps"),
    Mutation("a name that vanishes is left out of a listing", (_LEFT_OUT, _ONE_LISTING), kind="compacted", aim="young"),
    Mutation(
        "compaction is seen by its checkpoint only",
        (
            _in_package(
                "logdir/listing",
                "    bases = [segment.base_offset for segment in segments]\n    for name in files:",
                "    return False\n    for name in files:",
            ),
        ),
        kind="compacted",
        aim="young",
    ),
    Mutation(
        "loss at the front is not said",
        (_in_package("reading/following", "    if wanted.start < first:", "    if False:"),),
        kind="plain",
    ),
    Mutation(
        "loss at the end is not said",
        (
            _in_package(
                "reading/following",
                "if is_end and self._end is not None and self._next < self._end:",
                "if False and self._end is not None:",
            ),
        ),
        kind="plain",
    ),
    Mutation(
        "the position is not kept after a change",
        (
            _in_package(
                "reading/following",
                "        if next_offset is not None and next_offset > self._next:",
                "        if False:",
            ),
        ),
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutations")
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--from", type=int, default=5_000_000, dest="first")
    arguments = parser.parse_args()
    wanted = [each for part in arguments.parts or [""] for each in MUTATIONS if part in each.name]
    missed = 0
    with tempfile.TemporaryDirectory(prefix="kafkaseg-mutations-") as directory:
        for name in _COPIED:
            shutil.copytree(_ROOT / name, Path(directory, name), ignore=shutil.ignore_patterns("__pycache__"))
        for mutation in wanted:
            found, said = _find(mutation, Path(directory), arguments.first, arguments.runs)
            missed += not found
            print(f"{mutation.name}: {said}", flush=True)
    return int(missed > 0)


def _find(mutation: Mutation, directory: Path, first: int, runs: int) -> tuple[bool, str]:
    """Whether the simulation finds it, and the seed, the runs and the problem in words."""
    before = {change.path: (directory / change.path).read_text() for change in mutation.changes}
    try:
        for change in mutation.changes:
            change.make(directory)
        command = [sys.executable, "-m", "tests.simulation", "--until-failed", f"--from={first}", f"--runs={runs}"]
        command += [f"--kind={mutation.kind}"] if mutation.kind else []
        command += [f"--aim={mutation.aim}"] if mutation.aim else []
        # what is compiled is known by the second of its change
        environment = {**os.environ, "PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    finally:
        for path, text in before.items():
            (directory / path).write_text(text)
    lines = done.stdout.splitlines()
    if done.returncode not in (0, 1) or not lines:
        raise RuntimeError(
            f"the simulation of {mutation.name!r} ended with status {done.returncode}: {done.stderr[-2000:]}"
        )
    failed = next((line for line in lines if line.startswith("seed ")), None)
    if failed is None:
        return False, f"NOT FOUND in {lines[-1].split(',  ')[0]}"
    return True, f"{failed.split(' | ')[0][:200]} [{lines[-1].split(' failed')[0]} failed]"


if __name__ == "__main__":
    sys.exit(main())
