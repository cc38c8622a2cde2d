"""Hurt manifests, chunk indexes, index objects and chunks of tiers, as `tiers.py` states it.

Manifests and leader epochs that fail together, as `tier_faults.py` states it.

`KAFKASEG_LONG=1` tries many more cases.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz import tier_faults, tiers
from tests.support.cases import count_cases

CASES = 3_000 if os.environ.get("KAFKASEG_LONG") else 30
FAILED_ONCE = [
    1500006512,  # a list that ends in a damaged manifest, without the lineage: rows of a sound upload were lost
    1500003442,  # no sound file is of the last leader
]


def test_hurt_tiers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Right rows or our error, whatever the bytes are."""
    caplog.set_level(logging.CRITICAL, "kafka_segment_source")
    outcomes = Counter(tiers.check(number, tmp_path) for number in range(CASES))
    assert {"all rows", "CorruptRecordError"} <= outcomes.keys()


def test_manifests_that_fail_together(tmp_path: Path) -> None:
    """Every row or an error, and the topic is never left out."""
    outcomes = Counter(tier_faults.check(number, tmp_path) for number in range(count_cases(60, 600)))
    assert {"cut: CorruptRecordError", "newer: UnsupportedFormatError", "cut epochs: all rows"} <= outcomes.keys()
    assert {"error for ever: StorageError", "error for a time: all rows"} <= outcomes.keys()


@pytest.mark.parametrize("number", FAILED_ONCE)
def test_cases_that_failed_once(number: int, tmp_path: Path) -> None:
    tier_faults.check(number, tmp_path)
