"""The counter-examples that break tempting rules for ending a scan early: each is a log, a question and its rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import TimeRange
from kafka_segment_source.planning import planner
from kafka_segment_source.pruning.disorder import stop_timestamp
from tests.support.batches import control, data, empty
from tests.support.far_files import distance
from tests.support.logs import GeneratedLog, simple_log, simple_segment
from tests.support.rows import OFFSET, scanned

pytestmark = pytest.mark.usefixtures(distance.__name__)


@dataclass(frozen=True)
class Case:
    """A log, options, and the offsets that must come out; `why` is the rule that would lose one."""

    why: str
    log: GeneratedLog
    rows: list[int]
    options: dict[str, Any] = field(default_factory=dict)


def until(end: int, disorder: int | None) -> dict[str, Any]:
    return {"since": 0, "until": end} | ({} if disorder is None else {"timestampDisorder": disorder})


CASES = [
    Case(
        "stop at a time entry with T ≥ until",
        simple_log(simple_segment([data(7, 9, 0), data(9, 6)], timeindex=[(9, 8)])),
        [8, 9],
        until(7, 10),
    ),
    Case(
        "believe a time entry ≥ until + D without its header: it is a marker's",
        simple_log(simple_segment([control(0, 21), data(1, 14)], timeindex=[(21, 0)])),
        [1],
        until(15, 0),
    ),
    Case(
        "believe a header without its count: an empty batch keeps the maximum of records that are gone",
        simple_log(simple_segment([empty(0, 3, 21), data(4, 14)], timeindex=[(21, 3)])),
        [4],
        until(15, 0),
    ),
    Case(
        "leave out the witness itself",
        simple_log(simple_segment([control(0, 30), data(1, 33, 34)], timeindex=[(34, 2)])),
        [1],
        until(34, 0),
    ),
    Case(
        "stop where the offset index puts the witness's offset",
        simple_log(simple_segment([data(0, 0, 0, 0), data(3, 0, 2)], index=[(4, 1)], timeindex=[(2, 4)])),
        [0, 1, 2, 3],
        until(1, 1),
    ),
    Case(
        "take a control batch as proof that what precedes is old",
        simple_log(simple_segment([data(0, 9), control(1, 0), data(2, 9)], index=[(1, 1), (2, 2)])),
        [0, 2],
        {"since": 9, "timestampDisorder": 0},
    ),
    Case(
        "drop a segment whose first time entry is ≥ until + D: it is a maximum, not a minimum",
        simple_log(simple_segment([data(0, 5), data(1, 20)], timeindex=[(20, 1)])),
        [0],
        until(10, 5),
    ),
    Case(
        "one millisecond short of until + D is no witness",
        simple_log(simple_segment([data(0, 19), data(1, 9)], timeindex=[(19, 0)])),
        [1],
        until(10, 10),
    ),
    Case(
        "end early without a declaration, LogAppendTime: leaders' clocks differ",
        simple_log(simple_segment([data(0, 1, append_time=110), data(1, 1, append_time=101)])),
        [1],
        until(105, None),
    ),
    Case(
        "take LogAppendTime for the whole segment: a topic can switch inside one",
        simple_log(simple_segment([data(0, 1, append_time=110), data(1, 50, 200)])),
        [1],
        until(105, None),
    ),
    Case(
        "count a record without a timestamp as later: it shows as -1 ms, and until keeps it",
        simple_log(simple_segment([data(0, 100), data(1, -1)], timeindex=[(100, 0)])),
        [1],
        {"until": 50, "timestampDisorder": 0},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.why)
def test_no_row_is_lost_to_a_tempting_rule(case: Case, tmp_path: Path) -> None:
    """The rows are those of the whole log filtered, where the named rule would lose one."""
    directory = case.log.write(tmp_path)
    assert [row[2] for row in scanned(directory, **case.options)] == case.rows


def test_a_flipped_bit_is_no_witness(tmp_path: Path) -> None:
    """A maxTimestamp that one bit made late drops no segment: the planner checks the CRC, even under
    checkCrcs=false."""
    log = simple_log(
        simple_segment([data(0, 8)], timeindex=[(1_000_000, 0)], index=()), simple_segment([data(1, 9)], index=())
    )
    directory = log.write(tmp_path)
    first = directory / "00000000000000000000.log"
    damaged = bytearray(first.read_bytes())
    damaged[kafka_format.MAX_TIMESTAMP_AT + 4] ^= 0x40
    first.write_bytes(damaged)
    plan = kafkaseg.plan(directory, checkCrcs=False, **until(10, 0))
    assert plan.dropped == ()


def test_the_witness_ends_the_scan(tmp_path: Path) -> None:
    """After a data batch at until + D nothing more is planned, neither in its segment nor after."""
    segments = [
        simple_segment([data(0, 1), data(1, 20), data(2, 21)], index=[(1, 1), (2, 2)], timeindex=[(1, 0), (20, 1)]),
        simple_segment([data(3, 22)], index=(), timeindex=[(22, 3)]),
    ]
    plan = kafkaseg.plan(simple_log(*segments).write(tmp_path), **until(10, 10))
    assert [split.end for split in plan.splits] == [segments[0].batches[2].position]
    assert [dropped.reason for dropped in plan.dropped] == ["all from 1970-01-01T00:00:00.010Z on (timestampDisorder)"]


@pytest.mark.parametrize(
    ("times", "disorder", "expected"),
    [
        (TimeRange(0, 10), 5, 15),
        (TimeRange(0, 10), None, None),
        (TimeRange(-1, 10), 5, None),
        (TimeRange(0), 5, None),
        (TimeRange(0, 2**63 - 1), 1, None),
    ],
)
def test_stop_timestamp(times: TimeRange, disorder: int | None, expected: int | None) -> None:
    """until + D, unless nothing may end a scan early, or no 64-bit timestamp could reach it."""
    assert stop_timestamp(times, disorder) == expected


def test_control_records_are_outside_the_declaration(tmp_path: Path) -> None:
    """A marker carries its own clock: with includeControl=true a declared disorder says nothing about where `since`
    starts."""
    specs = [data(0, 100), control(1, 1000), data(2, 110), data(3, 950)]
    path = simple_log(simple_segment(specs, index=[(2, 2), (3, 3)])).write(tmp_path)
    assert [row[OFFSET] for row in scanned(path, since=900, timestampDisorder=10)] == [3]
    for disorder in ({}, {"timestampDisorder": 10}):
        assert [row[OFFSET] for row in scanned(path, since=900, includeControl=True, **disorder)] == [1, 3]


def test_late_bytes_are_named_with_their_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a declaration the plan says how many bytes `until` costs, and which option would save them."""
    monkeypatch.setattr(planner, "WORTH_SAYING", 1)
    segments = [
        simple_segment([data(0, 1), data(1, 20), data(2, 21)], index=[(1, 1), (2, 2)], timeindex=[(1, 0), (20, 1)]),
        simple_segment([data(3, 22)], index=(), timeindex=[(22, 3)]),
    ]
    plan = kafkaseg.plan(simple_log(*segments).write(tmp_path), since=0, until=10)
    late = len(segments[0].log) - segments[0].batches[1].position + len(segments[1].log)
    assert len(plan.warnings) == 1
    assert f"{late:,} of the bytes" in plan.warnings[0]
    assert "timestampDisorder" in plan.warnings[0]
