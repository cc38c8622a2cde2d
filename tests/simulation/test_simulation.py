"""Reads beside a simulated broker: what `tests/support/simulated_reads.py` demands of each holds of these."""

from __future__ import annotations

import pytest

from tests.support.cases import count_cases
from tests.support.simulated_reads import KINDS, inspect_beside, run, show, transactions_beside, verify_beside

RUNS = count_cases(400, 2000)
_PARTS = 20
BUCKET_RUNS = count_cases(100, 200)
_BUCKET_PARTS = 4
SEEDS = count_cases(20, 60)  # of each kind, beside inspection


@pytest.mark.parametrize("part", range(_PARTS))
def test_reads_beside_a_broker(part: int) -> None:
    """No row wrong, twice or missing, no error without a loss. `python -m tests.simulation --seed N` replays one."""
    share = RUNS // _PARTS
    failed = [result for seed in range(part * share, (part + 1) * share) if (result := run(seed)).problem is not None]
    assert not failed, "\n" + "\n".join(map(show, failed))


@pytest.mark.parametrize("part", range(_BUCKET_PARTS))
def test_reads_of_a_bucket_beside_a_broker(part: int) -> None:
    """The same, where each write makes another version of an object."""
    share = BUCKET_RUNS // _BUCKET_PARTS
    seeds = range(part * share, (part + 1) * share)
    failed = [result for seed in seeds if (result := run(seed, is_bucket=True)).problem is not None]
    assert not failed, "\n" + "\n".join(map(show, failed))


@pytest.mark.parametrize("kind", KINDS)
def test_reads_of_a_key_beside_a_broker(kind: str) -> None:
    """The same for one key, by key filters that were made some time before, of a log that grows, loses and is
    compacted."""
    seeds = range(count_cases(25, 300))
    failed = [result for seed in seeds if (result := run(seed, kind, aim="keys")).problem is not None]
    assert not failed, "\n" + "\n".join(map(show, failed))


def test_a_seed_is_a_run() -> None:
    """The same seed is the same run, step by step."""
    traces: list[list[str]] = [[], []]
    for trace in traces:
        run(7, trace=trace.append)
    assert traces[0] == traces[1] and len(traces[0]) > 50


@pytest.mark.parametrize("kind", KINDS)
def test_verify_beside_a_broker(kind: str) -> None:
    """A broker that only appends, rolls and compacts meanwhile gives `verify` nothing to complain of."""
    for seed in range(SEEDS):
        assert verify_beside(seed, kind) == [], seed


@pytest.mark.parametrize("aim", [None, "stalls", "young"])
@pytest.mark.parametrize("kind", ["transactional", "compacted transactional"])
def test_transactions_beside_a_broker(kind: str, aim: str | None) -> None:
    """view=transactions finds its place again after a compaction: no state is unknown, no transaction missing or
    twice."""
    problems = {seed: transactions_beside(seed, kind, aim=aim) for seed in range(SEEDS)}
    assert {seed: problem for seed, problem in problems.items() if problem is not None} == {}


@pytest.mark.parametrize("losses", [False, True], ids=["compaction alone", "losses too"])
@pytest.mark.parametrize("kind", KINDS)
def test_inspection_beside_a_broker(kind: str, losses: bool) -> None:
    """`ls` and `offsets` find their place again, whatever a broker replaces or removes: no error, no wrong answer."""
    problems = {seed: inspect_beside(seed, kind, losses) for seed in range(SEEDS)}
    assert {seed: problem for seed, problem in problems.items() if problem is not None} == {}
