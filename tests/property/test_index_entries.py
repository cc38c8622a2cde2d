"""Index entries and searches of generated logs, against their batches: by every index writer of every Kafka version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import event, given
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from tests.property.test_pruning import written
from tests.support.logs import GeneratedLog, Segment
from tests.support.strategies import partition_logs

undamaged = partition_logs(index_damage=False, log_damage=False)
anything = partition_logs(index_damage=True, log_damage=True)


def entries_of(directory: str, view: str) -> list[dict[str, Any]]:
    """The rows of a view. Timestamps are in µs: Python has no date for some of them."""
    table = kafkaseg.scan(directory, view=view, checkCrcs=True).read_all()
    if "timestamp" in table.column_names:
        at = table.column_names.index("timestamp")
        table = table.set_column(at, "timestamp", table["timestamp"].cast(pa.int64()))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


@given(log=undamaged)
def test_no_offset_entry_of_any_writer_is_wrong(log: GeneratedLog) -> None:
    """What any Kafka version writes is borne out by the log, and is shown as it was written."""
    with written(log) as directory:
        rows = entries_of(directory, "offsetIndex")
    assert [(row["offset"], row["position"]) for row in rows] == [
        entry for segment in log.segments if segment.index is not None for entry in segment.offset_entries
    ]
    assert all(row["isProven"] is True for row in rows)


@given(log=anything)
def test_a_proven_offset_entry_is_true(log: GeneratedLog) -> None:
    """A batch begins there, all before it is below the entry's offset, and from the next entry on all is above."""
    with written(log) as directory:
        rows = entries_of(directory, "offsetIndex")
    event(f"wrong entries: {any(row['isProven'] is False for row in rows)}")
    for row in rows:
        if row["isProven"]:
            batches = segment_of(log, row).batches
            assert row["position"] in [batch.position for batch in batches]
            assert all(batch.last_offset < row["offset"] for batch in batches if batch.position < row["position"])


@given(log=anything)
def test_a_proven_time_entry_is_true_and_a_wrong_one_is_not(log: GeneratedLog) -> None:
    """No record up to the offset is later. A wrong entry breaks the order, or is later or earlier than it should be."""
    with written(log) as directory:
        rows = entries_of(directory, "timeIndex")
    event(f"wrong entries: {any(row['isProven'] is False for row in rows)}")
    before: dict[str, Any] = {}
    for row in rows:
        segment = segment_of(log, row)
        millis = row["timestamp"] // 1000 if row["timestamp"] is not None else None
        latest = max([r.timestamp for r in segment.records if r.offset <= row["offset"]], default=-1)
        if row["isProven"]:
            assert millis is None or latest <= millis
        elif row["isProven"] is False and not (
            before.get("file_path") == row["file_path"] and before["isProven"] is False
        ):
            reached = [batch.max_timestamp for batch in segment.batches if batch.base_offset <= row["offset"]]
            follows = before.get("file_path") == row["file_path"]
            in_order = row["offset"] >= (before["offset"] if follows else row["baseOffset"]) and (
                millis is not None and (not follows or millis > before["timestamp"] // 1000)
            )
            is_in_log = bool(segment.batches) and row["offset"] <= segment.batches[-1].last_offset
            assert not (in_order and is_in_log and latest <= (millis or -1) and millis in reached)
        before = row


def segment_of(log: GeneratedLog, row: dict[str, Any]) -> Segment:
    [segment] = [each for each in log.segments if each.base_offset == row["baseOffset"]]
    return segment


@given(log=anything, share=st.floats(-0.1, 1.1), trust=st.booleans(), fetch=st.integers(1, 3000))
def test_an_offset_is_found_in_its_batch(log: GeneratedLog, share: float, trust: bool, fetch: int) -> None:
    """The first whole batch that reaches it, whatever the index files say; none outside the log."""
    start = log.segments[0].base_offset
    offset = max(0, start + round(share * (log.next_offset - start)))
    with written(log) as directory:
        found = kafkaseg.locate_offset(directory, offset, fetch_bytes=fetch, trustIndexes=trust).partitions[0]
        reaching = [
            (Path(directory) / "orders-0" / f"{segment.base_offset:020}.log", batch)
            for segment in log.segments
            for batch in segment.batches
            if batch.last_offset >= offset
        ]
        if not (start <= offset < found.log_end_offset):
            assert found.batch is None and found.fetch is None
            return
        path, batch = reaching[0]
        assert found.batch is not None and found.fetch is not None
        assert (found.batch.path, found.batch.position) == (str(path), batch.position)
        assert (found.batch.last_offset, found.batch.end) == (batch.last_offset, batch.end)
        assert found.fetch.start == batch.position and found.fetch.end >= batch.end


@given(log=undamaged, share=st.floats(0, 1), fetch=st.integers(1, 3000))
def test_no_fetch_reaches_its_upper_bound(log: GeneratedLog, share: float, fetch: int) -> None:
    """Every batch that the fetch holds whole ends below the bound."""
    start = log.segments[0].base_offset
    offset = start + round(share * (log.next_offset - start))
    with written(log) as directory:
        found = kafkaseg.locate_offset(directory, offset, fetch_bytes=fetch).partitions[0]
    if found.fetch is None or found.batch is None:
        return
    [segment] = [each for each in log.segments if found.batch.path.endswith(f"{each.base_offset:020}.log")]
    inside = [b for b in segment.batches if found.fetch.start <= b.position and b.end <= found.fetch.end]
    assert all(batch.last_offset < found.fetch.upper_bound for batch in inside)


@given(log=anything, moment=st.integers(0, 400))
def test_an_explained_search_is_the_same(log: GeneratedLog, moment: int) -> None:
    """The steps end with the answer, and no step before it left a record of the time out."""
    with written(log) as directory:
        [plain] = kafkaseg.offsets_for_time(directory, f"1970-01-01T00:00:00.{moment:03}Z").partitions
        [told] = kafkaseg.offsets_for_time(directory, f"1970-01-01T00:00:00.{moment:03}Z", explain=True).partitions
    assert plain.offset == told.offset and plain.steps is None and told.steps is not None
    found = [step.found.offset for step in told.steps if step.found is not None]
    assert found == ([] if told.offset is None else [told.offset])
    for step in told.steps:
        if step.time_entry is not None:
            assert step.time_entry.timestamp < moment
        assert step.found is None or step.start <= step.found.position
