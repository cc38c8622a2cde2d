"""Pushed filters: Spark's filters become bounds, bounds become a plan, and on Spark 4.1 to 4.3 a plan covers all before it.

No JVM: readers are called as Spark's planning process calls them.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import pickle
import stat
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as spark_api
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import LongType, StructType

from kafka_segment_source.bounds import OffsetRange, RowFilter, TimeRange
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.errors import OptionError, UsageError
from kafka_segment_source.options import parse_options
from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.spark import catalog_table, remembered
from kafka_segment_source.spark.datasource import KafkaSegmentDataSource
from kafka_segment_source.spark.pushdown import row_filter
from kafka_segment_source.spark.reader import KafkaSegmentReader
from tests.support.batches import data
from tests.support.logs import simple_log, simple_segment

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EVERYTHING = RowFilter()

Row = dict[str, Any]  # topic, partition, offset, timestamp (an aware datetime, of whole milliseconds)


def at(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def holds(each: Filter, row: Row) -> bool:
    """What Spark makes of a filter: SQL's three values, of which only true keeps a row."""
    return _truth(each, row) is True


def _truth(each: Any, row: Row) -> bool | None:
    if isinstance(each, Not):
        child = _truth(each.child, row)
        return None if child is None else not child
    own = row[each.attribute[0]]
    if isinstance(each, (IsNull, IsNotNull)):
        return isinstance(each, IsNotNull)
    value = each.value
    if isinstance(each, EqualNullSafe):
        return bool(own == value)
    if isinstance(each, In):
        return True if own in value else None if None in value else False
    if value is None:
        return None
    compared: dict[type, Callable[[], bool]] = {
        EqualTo: lambda: own == value,
        GreaterThan: lambda: own > value,
        GreaterThanOrEqual: lambda: own >= value,
        LessThan: lambda: own < value,
        LessThanOrEqual: lambda: own <= value,
        StringStartsWith: lambda: own.startswith(value),
        StringEndsWith: lambda: own.endswith(value),
        StringContains: lambda: value in own,
    }
    return compared[type(each)]()


def possible(bounds: RowFilter, row: Row) -> bool:
    """Whether a row lies inside."""
    millis = (row["timestamp"] - EPOCH) // timedelta(milliseconds=1)
    return (
        bounds.matches_partition(row["topic"], row["partition"])
        and bounds.offsets.start <= row["offset"] < bounds.offsets.end
        and bounds.times.since <= millis < bounds.times.until
    )


topics = st.sampled_from(["", "a", "ab", "abc", "b"])
small = st.integers(-3, 6)
moments = st.integers(-3000, 3000).map(at)
rows = st.fixed_dictionaries(
    {
        "topic": topics,
        "partition": st.integers(0, 4),
        "offset": st.integers(0, 4),
        "timestamp": st.integers(-3, 3).map(lambda millis: at(1000 * millis)),
    }
)
COMPARISONS = [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]


def _filters_on(column: str, values: st.SearchStrategy[Any], kinds: list[Any]) -> st.SearchStrategy[Filter]:
    maybe_null = st.one_of(st.none(), values)
    plain = st.one_of(
        st.builds(lambda kind, value: kind((column,), value), st.sampled_from(kinds), maybe_null),
        st.builds(lambda several: In((column,), tuple(several)), st.lists(maybe_null, min_size=1, max_size=3)),
        st.sampled_from([IsNull((column,)), IsNotNull((column,))]),
    )
    return st.one_of(plain, plain.map(Not))


strings: list[Any] = [EqualTo, EqualNullSafe, StringStartsWith, StringEndsWith, StringContains]
filters = st.one_of(
    _filters_on("topic", topics, strings),
    _filters_on("partition", small, COMPARISONS),
    _filters_on("offset", small, COMPARISONS),
    _filters_on("timestamp", moments, COMPARISONS),
)
bounds = st.lists(filters, max_size=3).map(row_filter)


# ---- Spark's filters → RowFilter ----


@given(given_filters=st.lists(filters, max_size=4), row=rows)
def test_no_row_that_the_filters_keep_is_left_out(given_filters: list[Filter], row: Row) -> None:
    """Whatever Spark would keep is possible."""
    if all(holds(each, row) for each in given_filters):
        assert possible(row_filter(given_filters), row)


@given(
    each=st.one_of(
        st.builds(lambda kind, value: kind(("offset",), value), st.sampled_from(COMPARISONS), small),
        st.builds(lambda kind, value: kind(("partition",), value), st.sampled_from(COMPARISONS), small),
        st.builds(lambda kind, value: kind(("timestamp",), value), st.sampled_from(COMPARISONS), moments),
        st.builds(lambda value: In(("partition",), tuple(value)), st.lists(small, max_size=3)),
        st.builds(lambda value: In(("topic",), tuple(value)), st.lists(topics, max_size=3)),
        st.builds(lambda value: StringStartsWith(("topic",), value), topics),
    ),
    row=rows,
)
def test_comparisons_bound_exactly(each: Filter, row: Row) -> None:
    """Comparisons, IN of topic and partition, and prefixes leave nothing possible that they do not keep."""
    assert possible(row_filter([each]), row) == holds(each, row)


@pytest.mark.parametrize(
    ("kind", "micros", "since", "until"),
    [
        (GreaterThan, 1500, 2, None),
        (GreaterThan, 2000, 3, None),
        (GreaterThanOrEqual, 2000, 2, None),
        (GreaterThanOrEqual, 2001, 3, None),
        (LessThan, 2000, None, 2),
        (LessThan, 2001, None, 3),
        (LessThanOrEqual, 2000, None, 3),
        (LessThanOrEqual, 1999, None, 2),
        (EqualTo, 2000, 2, 3),
        (GreaterThan, -1000, 0, None),
        (LessThanOrEqual, -1000, None, 0),
        (EqualTo, -1000, -1, 0),
    ],
)
def test_microseconds_are_rounded_in_the_right_direction(
    kind: Any, micros: int, since: int | None, until: int | None
) -> None:
    """A column of whole milliseconds against a literal with microseconds, below 1970 too."""
    everything = TimeRange()
    expected = TimeRange(everything.since if since is None else since, everything.until if until is None else until)

    assert expected == row_filter([kind(("timestamp",), at(micros))]).times


def test_a_literal_of_another_zone_is_the_same_moment() -> None:
    """Aware datetimes compare by moment."""
    berlin = datetime(1970, 1, 1, 1, tzinfo=UTC).astimezone()

    assert TimeRange(since=3_600_000) == row_filter([GreaterThanOrEqual(("timestamp",), berlin)]).times


@pytest.mark.parametrize(
    "each",
    [
        EqualTo(("offset",), True),
        EqualTo(("offset",), 1.5),
        EqualTo(("offset",), "1"),
        LessThan(("partition",), b"1"),
        GreaterThan(("timestamp",), datetime(2026, 1, 1)),
        GreaterThan(("timestamp",), 5),
        EqualTo(("topic",), 5),
        GreaterThan(("topic",), "a"),
        EqualTo(("key",), b"k"),
        GreaterThan(("metadata", "offset"), 5),
        GreaterThan(("headers", "offset"), 5),
        EqualTo(("offset",), None),
        In(("offset",), (1, "2")),
        IsNull(("offset",)),
        Not(EqualTo(("offset",), 5)),
        Not(In(("partition",), (1, 2))),
        Not(Not(EqualTo(("offset",), 5))),
        StringContains(("topic",), "a"),
    ],
    ids=repr,
)
def test_what_is_odd_bounds_nothing(each: Filter) -> None:
    """Other columns, other types, nulls and negated equalities are left to Spark."""
    assert row_filter([each]) == EVERYTHING


def test_offsets_at_the_end_of_the_range_do_not_wrap() -> None:
    """The largest BIGINT is an integer like any other."""
    assert row_filter([GreaterThan(("offset",), 2**63 - 1)]).is_empty
    assert OffsetRange() == row_filter([LessThanOrEqual(("offset",), 2**63 - 1)]).offsets


# ---- RowFilter ----


@given(one=bounds, other=bounds, row=rows)
def test_intersections_and_hulls_hold_what_they_must(one: RowFilter, other: RowFilter, row: Row) -> None:
    """Both: exactly the rows of both. Either: every row of either. Covering is believed only where it is true."""
    assert possible(one.intersect(other), row) == (possible(one, row) and possible(other, row))
    if possible(one, row) or possible(other, row):
        assert possible(one.hull(other), row)
    if one.covers(other) and possible(other, row):
        assert possible(one, row)
    if one.is_empty:
        assert not possible(one, row)
    assert one.covers(one) and EVERYTHING.covers(one)


# ---- RowFilter → plan ----


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    """orders-0 and payments-1: ten rows each, offsets 0 to 9 at 1000 ms a row, two in a segment."""
    for topic, partition in (("orders", 0), ("payments", 1)):
        segments = [
            simple_segment(
                [data(first, 1000 * first, 1000 * first + 1000)], index=[], timeindex=[(1000 * first + 1000, first + 1)]
            )
            for first in range(0, 10, 2)
        ]
        simple_log(*segments, topic=topic, partition=partition).write(tmp_path / "log")
    return tmp_path / "log"


def planned(path: Path, *pushed: RowFilter, **options: str) -> list[tuple[str, int]]:
    """Topic and base offset of each split."""
    parsed, _ = parse_options({"path": str(path), **options})
    return [(split.topic, split.base_offset) for split in make_plan(parsed, pushed=pushed or (EVERYTHING,)).splits]


def test_a_plan_leaves_out_what_cannot_match(log_directory: Path) -> None:
    """Topic and partition drop a log, offsets its segments, and each says why."""
    parsed, _ = parse_options({"path": str(log_directory)})
    plan = make_plan(parsed, pushed=(RowFilter(topics=frozenset(["orders"]), offsets=OffsetRange(3, 5)),))

    assert [(split.topic, split.base_offset) for split in plan.splits] == [("orders", 2), ("orders", 4)]
    assert all(split.bounds.offsets == OffsetRange(max(3, split.base_offset), 5) for split in plan.splits)
    reasons = {dropped.reason for dropped in plan.dropped if "payments" in dropped.path}
    assert {"the filter on topic and partition leaves it out"} == reasons
    assert plan.segments_total == 10 and plan.bytes_total > plan.bytes_to_read


def test_a_plan_for_several_scans_reads_what_any_needs(log_directory: Path) -> None:
    """Windows apart stay apart; a segment wanted twice is read once, from the first row of either to the last."""
    orders, payments = RowFilter(topics=frozenset(["orders"])), RowFilter(topics=frozenset(["payments"]))
    early, late = RowFilter(offsets=OffsetRange(0, 2)), RowFilter(offsets=OffsetRange(8, 10))

    assert planned(log_directory, late.intersect(payments), early.intersect(orders)) == [("orders", 0), ("payments", 8)]
    parsed, _ = parse_options({"path": str(log_directory)})
    halves = (RowFilter(offsets=OffsetRange(2, 3)), RowFilter(offsets=OffsetRange(3, 4)))
    assert [OffsetRange(2, 4)] * 2 == [split.bounds.offsets for split in make_plan(parsed, pushed=halves).splits]


def test_pushed_bounds_narrow_those_of_options_and_never_contradict_them(log_directory: Path) -> None:
    """An empty intersection drops; the checks of options are for options."""
    later = RowFilter(offsets=OffsetRange(8, 10))

    assert planned(log_directory, later, endingOffsets='{"orders":{"0":4},"payments":{"1":4}}') == []
    assert planned(log_directory, RowFilter(times=TimeRange(since=5)), until="3") == []
    assert planned(
        log_directory, RowFilter(times=TimeRange(since=4000)), subscribe="orders", endingOffsets='{"orders":{"0":7}}'
    ) == [("orders", 4), ("orders", 6)]


@given(one=bounds, other=bounds)
def test_a_plan_for_two_holds_every_row_of_both(one: RowFilter, other: RowFilter, tmp_path_factory: Any) -> None:
    """Row for row: what either leaves possible lies in a split's bounds."""
    path = _shared_log(tmp_path_factory)
    parsed, _ = parse_options({"path": str(path)})
    splits = make_plan(parsed, pushed=(one, other)).splits
    for offset in range(6):
        row = {"topic": "ab", "partition": 1, "offset": offset, "timestamp": at(1000 * (offset - 2))}
        if possible(one, row) or possible(other, row):
            having = [s for s in splits if s.base_offset <= offset < (s.next_base_offset or 99)]
            assert len(having) == 1
            assert having[0].bounds.offsets.start <= offset < having[0].bounds.offsets.end
            assert having[0].bounds.times.since <= offset - 2 < having[0].bounds.times.until


_LOGS: dict[str, Path] = {}


def _shared_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ab-1: offsets 0 to 5 at -2 to 3 ms, one in a segment; written once."""
    if "ab" not in _LOGS:
        segments = [simple_segment([data(offset, offset - 2)], index=[], timeindex=[]) for offset in range(6)]
        _LOGS["ab"] = simple_log(*segments, topic="ab", partition=1).write(tmp_path_factory.mktemp("shared"))
    return _LOGS["ab"]


# ---- readers, as Spark's planning process uses them ----


def reader_of(path: Path, **options: str) -> Any:
    source = KafkaSegmentDataSource({"path": str(path), **options})
    return source.reader(StructType().add("offset", LongType()))


def plan_of(reader: Any, *pushed: Filter) -> set[int]:
    """Pushes, then plans; base offsets of orders. Every filter must come back, the same objects."""
    assert all(got is given for got, given in zip(reader.pushFilters(list(pushed)), pushed, strict=True))
    splits = [split for partition in reader.partitions() for split in partition.splits]
    return {split.base_offset for split in splits if split.topic == "orders"}


ALL = {0, 2, 4, 6, 8}
SMALL = LessThan(("offset",), 2)
LARGE = GreaterThanOrEqual(("offset",), 8)
ALWAYS = IsNotNull(("offset",))


@pytest.fixture
def repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for a Spark whose scans keep their own plan: its readers have pushLimit."""
    monkeypatch.setattr(spark_api.DataSourceReader, "pushLimit", lambda self, limit: False, raising=False)


def test_readers_pass_sparks_check_with_the_conf_off(log_directory: Path, memory: str) -> None:
    """Spark fails every query of a reader whose pushFilters shows another function than the base class's."""
    for reader in (reader_of(log_directory), reader_of(log_directory, **{remembered.MEMORY_OPTION: memory})):
        assert reader.pushFilters.__func__ is DataSourceReader.pushFilters
        assert {split.base_offset for partition in reader.partitions() for split in partition.splits} == ALL


@pytest.mark.usefixtures("repaired")
def test_a_repaired_spark_pushes(log_directory: Path) -> None:
    """load() prunes by itself there, and every push stands for itself, also when Spark replays it."""
    reader = reader_of(log_directory)

    assert type(reader) is KafkaSegmentReader
    assert {0} == plan_of(reader, SMALL)
    assert {8} == plan_of(reader, LARGE)
    assert set() == plan_of(reader, LARGE, SMALL)
    assert plan_of(reader_of(log_directory), ALWAYS) == ALL


def test_load_pushes_nothing_and_says_what_would(log_directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Spark 4.1 to 4.3: every row is planned; one sentence, once, for a filter that could have pruned."""
    remembered._advise.cache_clear()
    reader = reader_of(log_directory)

    assert plan_of(reader, ALWAYS) == ALL
    assert caplog.records == []
    assert [plan_of(reader, SMALL), plan_of(reader, LARGE)] == [ALL] * 2
    assert len(caplog.records) == 1
    assert "kafka_segment_source.read(" in caplog.text and "since" in caplog.text


# ---- what read() remembers ----


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A new file of pushed filters, in a directory of this test."""
    monkeypatch.setattr(remembered.tempfile, "tempdir", str(tmp_path))
    for advice in (remembered._advise_whole, remembered._advise_anew):
        advice.cache_clear()
    yield remembered._new_memory()
    if remembered._Turn._last is not None:
        remembered._Turn._last.end()


def remembering(path: Path, memory: str, *pushed: Filter) -> set[int]:
    """One push and its plan, with the reader dropped after, as Spark's worker does."""
    return plan_of(reader_of(path, **{remembered.MEMORY_OPTION: memory}), *pushed)


def test_each_plan_covers_every_filter_before_it(log_directory: Path, memory: str) -> None:
    """Whichever plan a scan takes, if it was stored after its own filter came, it holds its rows."""
    assert {0} == remembering(log_directory, memory, SMALL, ALWAYS)
    assert {0, 8} == remembering(log_directory, memory, LARGE, ALWAYS)
    assert {0, 8} == remembering(log_directory, memory, SMALL, ALWAYS)
    assert {0, 8} == remembering(log_directory, memory, LARGE, SMALL, ALWAYS)
    assert remembering(log_directory, memory, ALWAYS) == ALL
    assert remembering(log_directory, memory, SMALL, ALWAYS) == ALL


def test_another_read_remembers_by_itself(log_directory: Path, memory: str) -> None:
    """Each call of read() begins anew."""
    assert remembering(log_directory, memory, ALWAYS) == ALL
    assert {8} == remembering(log_directory, remembered._new_memory(), LARGE)


def test_many_filters_become_the_range_that_holds_them(log_directory: Path, memory: str) -> None:
    """The file stays small."""
    for offset in (0, 1, 4, 5):
        for partition in range(4):
            base_offsets = remembering(
                log_directory, memory, EqualTo(("offset",), offset), EqualTo(("partition",), partition)
            )
            assert partition != 0 or offset // 2 * 2 in base_offsets
    lines = Path(memory).read_text().splitlines()

    assert len(lines) <= 1 + remembered._MOST_FILTERS
    assert {0, 2, 4} == remembering(log_directory, memory, EqualTo(("offset",), 0))


@given(row_filter_=bounds)
def test_a_filter_survives_the_file(row_filter_: RowFilter) -> None:
    """What is written is what is read."""
    assert row_filter_ == remembered._from_json(remembered._to_json(row_filter_))


def damage_header(path: Path) -> None:
    path.write_text("something else\n")


def damage_line(path: Path) -> None:
    path.write_text(path.read_text() + "[1, 2]\n")


def cut(path: Path) -> None:
    path.write_text(path.read_text()[:-2])


def clear(path: Path) -> None:
    path.write_text("")


@pytest.mark.parametrize("harm", [damage_header, damage_line, cut, clear, Path.unlink])
def test_a_file_that_is_lost_or_damaged_stands_for_every_row(
    harm: Callable[[Path], None], log_directory: Path, memory: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What was pushed is not known any more, so that nothing may be left out, ever; it is said once."""
    assert {0} == remembering(log_directory, memory, SMALL)
    harm(Path(memory))

    assert [remembering(log_directory, memory, LARGE), remembering(log_directory, memory, SMALL)] == [ALL] * 2
    assert not Path(memory).exists()
    assert "is read whole" in caplog.text


def test_a_full_disk_stands_for_every_row(log_directory: Path, memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that cannot be recorded ends pruning for all later plans."""
    assert {0} == remembering(log_directory, memory, SMALL)
    monkeypatch.setattr(remembered.os, "pwrite", lambda *_: 3)
    assert remembering(log_directory, memory, LARGE) == ALL
    monkeypatch.undo()

    assert remembering(log_directory, memory, SMALL) == ALL


def test_a_plan_that_cannot_even_be_forgotten_fails(
    log_directory: Path, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error, before a plan that later ones do not know of."""
    Path(memory).write_text("damaged")
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(OSError("read-only")))

    with pytest.raises(OSError, match="read-only"):
        remembering(log_directory, memory, SMALL)


def test_another_users_file_is_not_touched(log_directory: Path, tmp_path: Path, memory: str) -> None:
    """A file that cannot be opened prunes nothing; one that is not of this kind is refused; links are not followed."""
    foreign = tmp_path / "precious"
    foreign.write_text("precious")
    with pytest.raises(OptionError, match="read\\(\\) alone"):
        remembering(log_directory, str(foreign), SMALL)
    link = Path(memory).parent / "link"
    link.symlink_to(foreign)

    assert remembering(log_directory, str(link), SMALL) == ALL
    assert foreign.read_text() == "precious"


def test_plans_of_one_relation_follow_one_another(log_directory: Path, memory: str) -> None:
    """The next one gets its turn only when the reader before it is gone, and its answer has had time to be stored."""
    first = reader_of(log_directory, **{remembered.MEMORY_OPTION: memory})
    assert {0} == plan_of(first, SMALL)
    second: list[set[int]] = []

    def plan_second() -> None:
        turn = remembered._Turn.__new__(remembered._Turn)  # as in another process: it does not end this one's turn
        turn._path, turn._file = memory, None
        second.append({1} if turn.remember(row_filter([LARGE])) else set())
        ended.append(time.monotonic())
        turn.end()

    ended: list[float] = []
    thread = threading.Thread(target=plan_second)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive() and second == []
    released = time.monotonic()
    del first
    thread.join(10)

    assert [{1}] == second
    assert ended[0] - released >= 0.9 * remembered.SETTLE_SECONDS


def test_a_turn_ends_with_its_reader(log_directory: Path, memory: str) -> None:
    """Without the garbage collector: Spark's worker lives on, and must not keep the lock."""
    gc.disable()
    try:
        for each in (SMALL, LARGE, ALWAYS):
            remembering(log_directory, memory, each)
            assert remembered._Turn._last is not None and remembered._Turn._last._file is None
    finally:
        gc.enable()


def test_a_process_that_kept_a_reader_does_not_wait_for_itself(log_directory: Path, memory: str) -> None:
    """A new plan in the same process proves that the one before is over."""
    kept = reader_of(log_directory, **{remembered.MEMORY_OPTION: memory})

    assert {0} == plan_of(kept, SMALL)
    assert {0, 8} == remembering(log_directory, memory, LARGE)


def test_an_old_filter_in_the_way_is_mentioned_once(
    log_directory: Path, memory: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Scans of one query follow at once; a new question to an old DataFrame comes later."""
    remembering(log_directory, memory, SMALL)
    remembering(log_directory, memory, LARGE)
    assert caplog.text == ""
    os.utime(memory, (time.time() - 60, time.time() - 60))
    remembering(log_directory, memory, EqualTo(("offset",), 5))

    assert "call read() again" in caplog.text


def test_readers_cross_to_executors_without_the_lock(log_directory: Path, memory: str) -> None:
    """A reader that has pushed is pickled while its turn lasts."""
    reader = reader_of(log_directory, **{remembered.MEMORY_OPTION: memory})
    plan_of(reader, SMALL)
    copy = pickle.loads(pickle.dumps(reader))

    assert next(copy.read(reader.partitions()[0])).schema.names == ["offset"]


def test_the_directory_is_private_and_tidied(tmp_path: Path, memory: str) -> None:
    """0700, one for a user; files untouched for a week go; somebody else's directory is not used."""
    directory = Path(memory).parent
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700 and stat.S_IMODE(Path(memory).stat().st_mode) == 0o600
    assert directory == tmp_path / f"kafkaseg-pushed-{os.getuid()}"
    os.utime(memory, (time.time() - 8 * 24 * 3600,) * 2)
    newer = Path(remembered._new_memory())
    assert [newer] == list(directory.iterdir())

    directory.chmod(0o777)
    assert directory != Path(remembered._new_memory()).parent


class Task:
    """A task's local properties."""

    def __init__(self, **properties: str) -> None:
        self.getLocalProperty = {name.replace("__", "."): text for name, text in properties.items()}.get


@pytest.mark.parametrize(
    ("task", "refused"),
    [
        (Task(spark__sql__execution__id="1", spark__sql__python__filterPushdown__enabled="true"), False),
        (Task(spark__sql__execution__id="1", spark__sql__python__filterPushdown__enabled="false"), True),
        (Task(spark__sql__execution__id="1"), True),
        (Task(), False),
        (None, False),
    ],
)
def test_a_plan_made_by_a_push_is_not_read_with_the_conf_off(
    task: Task | None, refused: bool, log_directory: Path, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a query pushed nothing itself and may want rows that the plan left out: an error, before wrong rows."""
    reader = reader_of(log_directory, **{remembered.MEMORY_OPTION: memory})
    plan_of(reader, SMALL)
    monkeypatch.setattr(remembered.TaskContext, "get", lambda: task)
    if refused:
        with pytest.raises(UsageError, match=r"filterPushdown\.enabled was turned off"):
            reader.read(reader.partitions()[0])
    else:
        assert sum(batch.num_rows for batch in reader.read(reader.partitions()[0])) == 2
    assert reader_of(log_directory).read(reader.partitions()[0])


# ---- tables of the catalog ----


def test_what_the_catalog_adds_to_options_is_taken_off() -> None:
    """owner, provider and the like, properties of the table, and the doubles; unknown options stay, to be refused."""
    given_options = {
        "owner": "me",
        "provider": "kafkaseg",
        "location": "file:/x",
        "external": "true",
        "path": "file:/x",
        "since": "-2h",
        "option.since": "-2h",
        "sinse": "5",
        "option.sinse": "5",
        "transient_lastddltime": "7",
    }

    assert catalog_table.created_with(given_options) == {"path": "file:/x", "since": "-2h", "sinse": "5"}
    assert catalog_table.created_with({"path": "/x", "owner": "me"}) is None


@pytest.mark.parametrize("name", ["owner", "provider", "location", "option.since", "external"])
def test_nothing_unknown_is_accepted_elsewhere(name: str, log_directory: Path) -> None:
    """load() has no catalog that could have added it."""
    with pytest.raises(OptionError, match="unknown"):
        KafkaSegmentDataSource({"path": str(log_directory), name: "x"}).schema()


def test_a_tables_schema_is_that_of_load_and_carries_its_options(log_directory: Path) -> None:
    """Made without a JVM; the catalog keeps the metadata of its first column."""
    source = KafkaSegmentDataSource(
        {
            "owner": "me",
            "provider": "kafkaseg",
            "location": str(log_directory),
            "includeheaders": "true",
            "option.includeheaders": "true",
        }
    )
    schema = source.schema()

    assert isinstance(schema, StructType)
    types = {column.name: column.spark_type for column in RECORDS.columns}
    names = RECORDS.default_names(parse_options({"path": "/x", "includeHeaders": "true"})[0])
    assert [(name, types[name], True) for name in names] == [
        (field.name, field.dataType.simpleString(), field.nullable) for field in schema.fields
    ]
    query = KafkaSegmentDataSource({})
    assert {
        split.base_offset
        for partition in query.reader(StructType.fromJson(json.loads(schema.json()))).partitions()
        for split in partition.splits  # type: ignore[attr-defined]
    } == ALL


def test_a_querys_own_options_come_first(log_directory: Path) -> None:
    """SELECT … FROM t WITH (…): a path of its own replaces all, others are added to the table's."""
    schema = catalog_table.schema(("offset",), {"path": "/old", "since": "5", "until": "9"})

    assert catalog_table.options_of_query({"since": "6"}, schema) == {"path": "/old", "since": "6", "until": "9"}
    assert catalog_table.options_of_query({"path": "/new"}, schema) == {"path": "/new"}


def test_a_table_declared_with_columns_is_told_what_works() -> None:
    """Spark keeps none of its options."""
    with pytest.raises(OptionError, match="CREATE TEMPORARY VIEW") as caught:
        KafkaSegmentDataSource({}).reader(StructType().add("offset", LongType()))

    assert "WITH (path = '…')" in str(caught.value)


def test_no_file_can_be_made(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A system without locks or without a temporary directory: everything is read, and it is said."""

    class Reader:
        def load(self) -> str:
            return "whole"

        def schema(self, ddl: str) -> Reader:
            assert ddl == "`value` binary"
            return self

    monkeypatch.setattr(remembered, "fcntl", None)
    with caplog.at_level(logging.WARNING):
        assert remembered.load(Reader(), None) == "whole"  # type: ignore[arg-type,comparison-overlap]
        assert remembered.load(Reader(), ("value",)) == "whole"  # type: ignore[arg-type,comparison-overlap]

    assert "prunes nothing here" in caplog.text
