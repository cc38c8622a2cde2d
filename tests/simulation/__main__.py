"""Runs of the simulation: `python -m tests.simulation --runs 100000 [--from 0] [--kind "compacted transactional"]
[--aim maps] [--bucket] [--processes 2]`.

Out: how many runs came to which outcome, by kind of topic, and a line for each seed that failed; exit status 1 if one
did. `--seed N` makes one run and prints the broker's steps between the reader's file operations. `--aim` makes likely
what few runs come to; `--bucket` makes objects of the files; `--until-failed` ends with the first run that fails.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from multiprocessing import get_context

from tests.support.simulated_reads import AIMS, KINDS, Result, run, show, tried

_SHOWN = 100  # failing seeds


def results(
    seeds: Iterable[int], kind: str | None, aim: str | None, is_bucket: bool, processes: int
) -> Iterator[Result]:
    """The runs of these seeds, in their order."""
    if processes == 1:
        yield from (tried(seed, kind, aim, is_bucket) for seed in seeds)
        return
    with get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(partial(tried, kind=kind, aim=aim, is_bucket=is_bucket), seeds, chunksize=50)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--aim", choices=AIMS)
    parser.add_argument("--bucket", action="store_true")
    parser.add_argument("--until-failed", action="store_true")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int)
    arguments = parser.parse_args()
    if arguments.seed is not None:
        result = run(arguments.seed, arguments.kind, print, arguments.aim, arguments.bucket)
        print(show(result) if result.problem else f"seed {result.seed}: {result.word}, {result.rows} rows")
        return int(result.problem is not None)
    began = time.monotonic()
    outcomes: Counter[tuple[str, str]] = Counter()
    runs = failed = rows = steps = operations = 0
    seeds = range(arguments.first, arguments.first + arguments.runs)
    for result in results(seeds, arguments.kind, arguments.aim, arguments.bucket, arguments.processes):
        runs += 1
        outcomes[result.kind, result.word if result.problem is None else "FAILED"] += 1
        rows, steps, operations = rows + result.rows, steps + result.steps, operations + result.operations
        if result.problem is not None:
            failed += 1
            if failed <= _SHOWN:
                print(show(result), flush=True)
            if arguments.until_failed:
                break
    for (kind, word), count in sorted(outcomes.items()):
        print(f"{kind:>24}  {word:<14}{count:>8}")
    took = time.monotonic() - began
    print(
        f"{runs:,} runs, {failed:,} failed; {rows:,} rows, {steps:,} steps of the broker,"
        f" {operations:,} file operations; {took:.0f} s, {1000 * took / runs:.1f} ms a run"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
