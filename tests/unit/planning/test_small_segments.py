"""read_small_segment: of every segment it says what the reader of all cases says, or nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.logdir.catalog import list_logs
from kafka_segment_source.options import ReadOptions, parse_options
from kafka_segment_source.planning import open_transactions
from kafka_segment_source.transactions import small_segments
from kafka_segment_source.transactions.producers import DATA, MARKER
from tests.support.batches import BatchSpec, control, data, empty
from tests.support.logs import simple_log, simple_segment
from tests.support.rows import FIXTURES


def transactional(offset: int, **changes: Any) -> BatchSpec:
    return replace(data(offset, 1000), producer_id=7, transactional=True, **changes)


def options_of(path: Path, **options: str) -> ReadOptions:
    return parse_options({"path": str(path), **options})[0]


def events_of(path: Path, **options: str) -> list[small_segments.SegmentEvents | None]:
    """What is said of each segment."""
    parsed = options_of(path, **options)
    return [
        small_segments.read_small_segment(segment, parsed.policy.trust)
        for log in list_logs(parsed.source)
        for segment in log.segments
    ]


def test_what_is_said(tmp_path: Path) -> None:
    """Where data of transactions is, and where their markers are; nothing of other batches, or of a control batch that
    compaction has emptied."""
    first = simple_segment([data(0, 1), transactional(1), transactional(2), control(3, 1, "abort", 7), data(4, 1)])
    path = simple_log(first, simple_segment([empty(5, 6, 1), control(7, 1, "commit", 7), transactional(9)])).write(
        tmp_path
    )

    [one, other] = events_of(path)

    assert one is not None and other is not None
    assert one.events == [(1, DATA, 7), (2, DATA, 7), (3, MARKER, 7)] and (one.end, one.size) == (5, len(first.log))
    assert other.events == [(7, MARKER, 7), (9, DATA, 7)] and other.end == 10


ODD = {
    "nothing": lambda log: b"",
    "cut short": lambda log: log[:-1],
    "zeros follow": lambda log: log + bytes(100),
    "a CRC does not hold": lambda log: log[:-1] + b"\xff",
    "out of order": lambda log: log + log,
    "not of this segment": lambda log: (10**9).to_bytes(8, "big") + log[8:],
    "an older magic": lambda log: log[:16] + b"\x01" + log[17:],
}


@pytest.mark.parametrize("kind", ODD)
def test_what_is_left_to_others(tmp_path: Path, kind: str) -> None:
    """Anything out of the ordinary."""
    path = simple_log(
        simple_segment([transactional(0), transactional(1)]), simple_segment([data(100, 1)], base=100)
    ).write(tmp_path)
    log = sorted(path.glob("*.log"))[0]
    log.write_bytes(ODD[kind](log.read_bytes()))

    assert events_of(path)[0] is None


def test_a_file_that_has_changed_is_left_to_others(tmp_path: Path) -> None:
    """Since it was listed."""
    path = simple_log(simple_segment([transactional(0)])).write(tmp_path)
    parsed = options_of(path)
    [log] = list_logs(parsed.source)
    with (path / log.segments[0].path).open("ab") as file:
        file.write(b"x")

    assert small_segments.read_small_segment(log.segments[0], parsed.policy.trust) is None


def test_damage_counts_where_crcs_are_not_checked(tmp_path: Path) -> None:
    """As for the reader: checkCrcs=false believes headers."""
    path = simple_log(simple_segment([transactional(0)])).write(tmp_path)
    log = next(path.glob("*.log"))
    log.write_bytes(log.read_bytes()[:-1] + b"\xff")

    assert events_of(path) == [None]
    assert events_of(path, checkCrcs="false") == [small_segments.SegmentEvents([(0, DATA, 7)], 1, log.stat().st_size)]


@pytest.mark.parametrize("fixture", ["transactions", "compacted", "records", "message-sets"])
def test_real_logs_end_where_they_did(fixture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of real brokers' logs are the same with it and without, without their snapshots too."""
    path = FIXTURES / fixture / "data"
    options = {"isolationLevel": "read_committed", "trustIndexes": False}
    quick = kafkaseg.plan(path, **options)

    monkeypatch.setattr(open_transactions, "read_small_segment", lambda segment, options: None)

    assert kafkaseg.plan(path, **options).splits == quick.splits
