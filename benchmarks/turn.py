"""`python -m benchmarks.turn COMMIT [group …]`: the work tree against a commit, by two processes that take turns.

Both do the same works on the same data with the same interpreter, and never at the same time. Each pair of runs gives
a ratio, the work tree's by the commit's, of time and of CPU time; a row is the median of these, with quartiles. On a
machine that is busy with other work, believe the CPU time: the time of a pair is then mostly luck. `turn HEAD` without
a change in the package shows how far apart two runs of the same code are.

The commit's package lies in a temporary folder, which is removed at the end. The works, and the programs that write
their logs, are always those of the work tree.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console

from benchmarks.__main__ import GROUPS
from benchmarks.logs import cache_directory
from benchmarks.measure import ROOT
from benchmarks.printing import table
from benchmarks.results import Row, Settings, row

PACKAGE = "kafka_segment_source"

#: Groups whose modules have `works(settings)`: a dictionary of names, and what makes each work ready to be called.
WITH_WORKS = ("scan", "threads", "planning", "scale", "views", "latest", "grep", "lines", "exports")


def main() -> int:
    """Prints a table for each group. The exit status is 1 if a work failed in one of the versions."""
    arguments = _arguments()
    settings = Settings(quick=arguments.quick)
    console = Console(width=None if sys.stdout.isatty() else 130, highlight=False)
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="kafkaseg-turn-") as folder:
        commit = unpack(arguments.commit, Path(folder))
        console.print(f"the work tree by {commit}; load of the machine {os.getloadavg()[0]:.1f}")
        with Worker(Path(folder), settings) as before, Worker(ROOT, settings) as after:
            for group in arguments.group or WITH_WORKS:
                found: list[Row] = []
                for work in names_of(group, settings, arguments.only):
                    try:
                        pairs = take_turns(before, after, group, work, arguments.pairs)
                    except WorkError as error:
                        console.print(f"{group}: {work}: {error}", markup=False)
                        failed.append(work)
                        continue
                    found += rows_of(work, pairs)
                if found:
                    console.print(table(f"{group}: the work tree by the commit", found))
    console.print(f"load of the machine {os.getloadavg()[0]:.1f}")
    return 1 if failed else 0


class WorkError(Exception):
    """A work that ended with an error in one of the versions."""


class Worker:
    """A process with one version of the package: the one that lies in `root`. A context manager."""

    def __init__(self, root: Path, settings: Settings) -> None:
        self._root = root
        paths = [str(root), str(ROOT), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.turn_worker", *(["--quick"] if settings.quick else [])],
            cwd=root,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                "NUMBA_CACHE_DIR": str(cache_directory() / "kernels"),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        package = Path(self._read()["package"])
        if root not in package.parents:
            self._process.kill()
            raise RuntimeError(f"the process imports {package}, not the package in {root}")

    def measure(self, group: str, work: str) -> dict[str, float]:
        """Does a work once. Returns its seconds: `time` and `CPU`. Raises WorkError."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"group": group, "work": work}) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        if "error" in answer:
            raise WorkError(f"{self._root}: {answer['error']}")
        return answer

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self._root} has ended with status {self._process.wait()}")
        return dict(json.loads(line))

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        if error is not None:
            self._process.kill()
        self._process.wait()


def unpack(commit: str, folder: Path) -> str:
    """Puts the package of a commit into a folder. Returns the commit's short name and its subject.

    Raises SystemExit if git does not know the commit.
    """
    named = subprocess.run(
        ["git", "log", "-1", "--format=%h %s", commit, "--"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    if named.returncode:
        raise SystemExit(f"git does not know the commit {commit!r}: {named.stderr.strip()}")
    archive = subprocess.run(["git", "archive", commit, PACKAGE], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return named.stdout.strip()


def names_of(group: str, settings: Settings, only: str) -> Iterator[str]:
    """The works of a group whose names have the text `only`."""
    works = importlib.import_module(f"benchmarks.{GROUPS[group]}").works(settings)
    return (name for name in works if only in name)


def take_turns(before: Worker, after: Worker, group: str, work: str, pairs: int) -> list[list[dict[str, float]]]:
    """Pairs of what the commit and the work tree took, after one run of each that does not count.

    Which of them goes first changes with each pair. Raises WorkError.
    """
    before.measure(group, work)
    after.measure(group, work)
    measured = []
    for number in range(pairs):
        if number % 2:
            second = after.measure(group, work)
            measured.append([before.measure(group, work), second])
        else:
            measured.append([before.measure(group, work), after.measure(group, work)])
    return measured


def rows_of(work: str, pairs: Sequence[Sequence[Mapping[str, float]]]) -> Iterator[Row]:
    """A row of CPU time and one of time: the median ratio of the pairs."""
    for what in ("CPU", "time"):
        ratios = [after[what] / max(before[what], 1e-9) for before, after in pairs]
        taken = [
            statistics.median(version[what] for version in versions) * 1e3 for versions in zip(*pairs, strict=True)
        ]
        note = f"{taken[0]:.4g} and {taken[1]:.4g} ms; {min(ratios):.2f} to {max(ratios):.2f}"
        yield row(f"{work}: {what}", ratios, "of the commit's", note=note)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.turn",
        description="Measure the work tree against a commit: two processes take turns on the same data.",
    )
    parser.add_argument("commit", help="of this repository, as git names it")
    parser.add_argument("group", nargs="*", help=f"of {', '.join(WITH_WORKS)} (default: all of them)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only works whose names have this text")
    parser.add_argument("--pairs", type=int, default=9, help="how many pairs of runs (default: 9)")
    parser.add_argument("--quick", action="store_true", help="smaller logs")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.group if name not in WITH_WORKS]
    if unknown:
        parser.error(f"group {unknown[0]!r} has no works (these have: {', '.join(WITH_WORKS)})")
    if arguments.pairs < 1:
        parser.error("--pairs takes 1 or more")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
