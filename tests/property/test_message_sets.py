"""Message sets of magic 0 and 1, and all magics mixed, as generated logs: against the naive truth, whole
and in part."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.logs import GeneratedLog, disorder, expected_rows
from tests.support.rows import decoded, scanned
from tests.support.strategies import Bounds, logs_and_bounds, partition_logs

MIXED = partition_logs(magics=(0, 1, 2), index_damage=True, wrong_wrappers=True)
EXAMPLES = settings(max_examples=settings().max_examples * 6)


@EXAMPLES
@given(logs_and_bounds(MIXED), st.booleans(), st.booleans())
def test_mixed_magics_give_the_rows_of_the_whole_log_filtered(
    case: tuple[GeneratedLog, Bounds], declared: bool, check_crcs: bool
) -> None:
    """For any bounds, over any mixture of magics, wrappers with wrong timestamps included, no row is lost
    or invented."""
    log, bounds = case
    options: dict[str, Any] = {"checkCrcs": check_crcs}
    if bounds.since is not None:
        options["since"] = bounds.since
    if bounds.until is not None:
        options["until"] = bounds.until if bounds.since is None else max(bounds.until, bounds.since)
    if declared:
        options["timestampDisorder"] = disorder(log.records)
    if bounds.offsets is not None:
        start, end = bounds.offsets
        options["startingOffsets"] = {"orders": {"0": start}}
        options["endingOffsets"] = {"orders": {"0": max(start, end)}}
        options["failOnDataLoss"] = False
    with tempfile.TemporaryDirectory() as keeper:
        directory = log.write(Path(keeper))
        expected = decoded(expected_rows(log, bounds.offsets, options.get("since"), options.get("until")))
        assert scanned(directory, **options) == expected


@EXAMPLES
@given(MIXED, st.integers(1, 5))
def test_small_limits_resume_where_they_stopped(log: GeneratedLog, rows: int) -> None:
    """Wrappers that do not fit one answer are gone on with: tiny limits give the same rows."""
    from kafka_segment_source.decoding import records as decode  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as keeper:
        directory = log.write(Path(keeper))
        before = decode.MAX_ROWS
        decode.MAX_ROWS = rows
        try:
            assert scanned(directory) == decoded(log.records)
        finally:
            decode.MAX_ROWS = before
