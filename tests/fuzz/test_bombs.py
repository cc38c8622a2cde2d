"""Batches that ask for gigabytes: refused, or read, in no more memory than maxBatchBytes allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import bombs
from tests.support.apart import run_apart

LIMIT = 32 * bombs.MIB
BOUND = 4 * LIMIT + 64 * bombs.MIB
"""Peak memory of a scan, beyond what an ordinary one takes: four times maxBatchBytes and 64 MiB."""

SECONDS = 120  # a dozen is usual; this machine may be busy
READ_WHOLE = ("records up to the limit", "headers up to the limit")


@pytest.mark.parametrize("name", bombs.BOMBS)
def test_a_bomb_costs_no_more_than_max_batch_bytes_allows(name: str, tmp_path: Path) -> None:
    """FAILFAST names it, DROPMALFORMED goes on behind it, what is within the limit is read; all in bounded memory."""
    folder = bombs.write([bombs.GOOD, bombs.BOMBS[name](), bombs.LAST], tmp_path)
    found = run_apart(bombs.cost, folder, LIMIT, seconds=SECONDS)
    if name in READ_WHOLE:
        assert found["failfast"] == found["dropmalformed"] == [0, 5, 10]
    else:
        assert ": found " in found["failfast"] and found["dropmalformed"] == [0, 10]
    assert found["grewMiB"] * bombs.MIB <= BOUND
