"""`until` under a declared disorder, bounds by timestamp, and cut segments: against the whole log filtered naively."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.errors import OptionError
from kafka_segment_source.scanning import read_split
from tests.support.batches import control, data
from tests.support.logs import GeneratedLog, Segment, disorder, expected_rows, simple_log, simple_segment
from tests.support.rows import COLUMNS, Row, decoded, in_scan_order, scanned
from tests.support.strategies import SINCE, UNTIL, Bounds, logs_and_bounds, partition_logs

EXAMPLES = settings(max_examples=max(settings().max_examples, 300))


def in_directory(log: GeneratedLog) -> tuple[tempfile.TemporaryDirectory[str], Path]:
    """The log written to a directory of its own; keep the first of the pair while you use the second."""
    keeper = tempfile.TemporaryDirectory()
    return keeper, log.write(Path(keeper.name))


def asked(bounds: Bounds) -> dict[str, Any]:
    """Bounds as options; `until` never lies before `since`, which is an error of its own."""
    options: dict[str, Any] = {}
    if bounds.since is not None:
        options["since"] = bounds.since
    if bounds.until is not None:
        options["until"] = bounds.until if bounds.since is None else max(bounds.until, bounds.since)
    return options


def wanted(log: GeneratedLog, options: dict[str, Any]) -> list[Row]:
    return decoded(expected_rows(log, None, options.get("since"), options.get("until")))


@EXAMPLES
@given(logs_and_bounds(partition_logs(index_damage=True)), st.integers(0, 3))
def test_declared_disorder_loses_no_row(case: tuple[GeneratedLog, Bounds], slack: int) -> None:
    """With a declaration that is true of the log, until may end the read early, and the rows are the same."""
    log, bounds = case
    options = asked(bounds) | {"timestampDisorder": disorder(log.records) + slack}
    keeper, directory = in_directory(log)
    with keeper:
        assert scanned(directory, **options) == wanted(log, options)


@EXAMPLES
@given(logs_and_bounds(partition_logs(index_damage=True)), st.booleans())
def test_bytes_outside_the_plan_are_never_needed(case: tuple[GeneratedLog, Bounds], declared: bool) -> None:
    """Every byte of every .log outside the planned ranges may be garbage: the rows are the same."""
    log, bounds = case
    options = asked(bounds)
    if declared:
        options["timestampDisorder"] = disorder(log.records)
    keeper, directory = in_directory(log)
    with keeper:
        plan = kafkaseg.plan(directory, **options)
        splits = plan.splits
        for path in directory.glob("*.log"):
            poisoned = bytearray(b"\xa5" * path.stat().st_size)
            whole = path.read_bytes()
            for split in splits:
                if split.path == str(path):
                    poisoned[split.start : split.end] = whole[split.start : split.end]
            path.write_bytes(poisoned)
        schema = RECORDS.arrow_schema(COLUMNS)
        batches = [batch for split in splits for batch in read_split(split, plan.reading, schema)]
        rows = in_scan_order(pa.Table.from_batches(batches, schema))
        assert rows == wanted(log, options)


@EXAMPLES
@given(logs_and_bounds(partition_logs(index_damage=True), times=(SINCE, SINCE | UNTIL)))
def test_timestamps_cut_at_the_first_offset_that_reaches_them(case: tuple[GeneratedLog, Bounds]) -> None:
    """startingTimestamp and endingTimestamp cut at the first offset, control records counted, at or after them."""
    log, bounds = case
    since = max(0, bounds.since or 0)
    until = since if bounds.until is None else max(bounds.until, since)
    start, end = (next((r.offset for r in log.records if r.timestamp >= t), None) for t in (since, until))
    options = {"startingTimestamp": since, "endingTimestamp": until}
    keeper, directory = in_directory(log)
    with keeper:
        if start is None:
            with pytest.raises(OptionError, match="startingTimestamp"):
                kafkaseg.plan(directory, **options)
            options["startingOffsetsByTimestampStrategy"] = "latest"
            assert scanned(directory, **options) == []
        else:
            expected = decoded(r for r in log.records if r.offset >= start and (end is None or r.offset < end))
            assert scanned(directory, **options) == expected


@EXAMPLES
@given(
    logs_and_bounds(partition_logs(index_damage=True)),
    st.sampled_from(["minPartitions", "maxRecordsPerPartition"]),
    st.integers(1, 12),
)
def test_cut_segments_neither_lose_nor_double_rows(case: tuple[GeneratedLog, Bounds], option: str, number: int) -> None:
    """However a segment is cut, the pieces in their order give each row once; none has more records than allowed."""
    log, bounds = case
    options = asked(bounds) | {option: number}
    keeper, directory = in_directory(log)
    with keeper:
        assert scanned(directory, **options) == wanted(log, options)
        if option == "maxRecordsPerPartition":
            schema = RECORDS.arrow_schema(["offset"])
            plan = kafkaseg.plan(directory, **options)
            for split in plan.splits:
                assert sum(batch.num_rows for batch in read_split(split, plan.reading, schema)) <= number


@EXAMPLES
@given(partition_logs(magics=(0, 1, 2), max_batches=20, index_damage=True), st.integers(1, 12), st.booleans())
def test_where_a_segment_is_cut(log: GeneratedLog, most: int, trust_indexes: bool) -> None:
    """Each cut is at the first batch that reaches `most` offsets further, or inside it if it has more records, or
    at the next one; no index, however wrong, moves it."""
    keeper, directory = in_directory(log)
    with keeper:
        plan = kafkaseg.plan(directory, maxRecordsPerPartition=most, trustIndexes=trust_indexes)
        found = [(split.start_offset, split.end_offset, split.start, split.end) for split in plan.splits]
    ends = [*(segment.base_offset for segment in log.segments[1:]), None]
    pieces = [piece for segment, end in zip(log.segments, ends, strict=True) for piece in cut(segment, end, most)]
    assert found == pieces


def cut(segment: Segment, end: int | None, most: int) -> list[tuple[int, int | None, int, int]]:
    """The pieces of a whole segment: offsets and positions where each begins and ends. Of none that is empty."""
    offset, position = segment.base_offset, 0
    pieces: list[tuple[int, int | None, int, int]] = []
    while end is None or end - offset > most:
        batch = next((each for each in segment.batches if each.last_offset >= offset + most), None)
        if batch is None:
            break
        tells_last_only = batch.magic < 2 and batch.compressed
        inside = tells_last_only or batch.shallow_offset <= offset
        if inside and batch.magic == 2 and len(batch.records) <= most:  # a piece has all of it
            batch = next((each for each in segment.batches if each.last_offset > batch.last_offset), None)
            if batch is None:
                break
            inside = batch.magic < 2 and batch.compressed
        following = offset + most if inside else batch.shallow_offset
        pieces.append((offset, following, position, batch.end if inside else batch.position))
        offset, position = following, batch.position
    return [*pieces, (offset, end, position, len(segment.log))] if segment.log else []


def test_a_control_batch_is_no_witness() -> None:
    """A marker later than until + D says nothing about data: with it as witness, row 1 would be lost."""
    log = simple_log(simple_segment([control(0, 21), data(1, 14)], timeindex=[(21, 0)]))
    keeper, directory = in_directory(log)
    with keeper:
        options = {"since": 0, "until": 15, "timestampDisorder": 0}
        assert [row[2] for row in scanned(directory, **options)] == [1]
