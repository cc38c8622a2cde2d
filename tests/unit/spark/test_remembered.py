"""The workaround for Spark 4.1 to 4.3: a plan covers every filter that was pushed before it. No JVM."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    In,
)

from kafka_segment_source.bounds import OffsetRange, RowFilter
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.errors import OptionError, UsageError
from kafka_segment_source.options import parse_options
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.spark import advice, remembered
from kafka_segment_source.spark.pushdown import row_filter
from tests.support.batches import data
from tests.support.logs import simple_log, simple_segment
from tests.support.pushed import (
    ALWAYS,
    EVERYTHING,
    LARGE,
    SMALL,
    Row,
    at,
    bounds,
    plan_of,
    possible,
    rows,
)
from tests.support.readers import ALL, reader_of


def test_a_plan_for_several_scans_reads_what_any_needs(log_directory: Path) -> None:
    """Windows apart stay apart; a segment wanted twice is read once, from the first row of either to the last."""
    orders, payments = RowFilter(topics=frozenset(["orders"])), RowFilter(topics=frozenset(["payments"]))
    early, late = RowFilter(offsets=OffsetRange(0, 2)), RowFilter(offsets=OffsetRange(8, 10))

    parsed, _ = parse_options({"path": str(log_directory)})
    apart = remembered.plan_for_any(parsed, Warnings(), (late.intersect(payments), early.intersect(orders)))
    assert [(split.topic, split.base_offset) for split in apart.splits] == [("orders", 0), ("payments", 8)]
    halves = (RowFilter(offsets=OffsetRange(2, 3)), RowFilter(offsets=OffsetRange(3, 4)))
    assert [OffsetRange(2, 4)] * 2 == [
        split.bounds.offsets for split in remembered.plan_for_any(parsed, Warnings(), halves).splits
    ]


@given(one=bounds, other=bounds)
def test_a_plan_for_two_holds_every_row_of_both(one: RowFilter, other: RowFilter, tmp_path_factory: Any) -> None:
    """Row for row: what either leaves possible lies in a split's bounds."""
    path = _shared_log(tmp_path_factory)
    parsed, _ = parse_options({"path": str(path)})
    splits = remembered.plan_for_any(parsed, Warnings(), (one, other)).splits
    for offset in range(6):
        row = {"topic": "ab", "partition": 1, "offset": offset, "timestamp": at(1000 * (offset - 2)), "key": b"a"}
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


def test_readers_pass_sparks_check_with_the_conf_off(log_directory: Path, memory: str) -> None:
    """Spark fails every query of a reader whose pushFilters shows another function than the base class's."""
    for reader in (reader_of(log_directory), reader_of(log_directory, **{remembered.MEMORY_OPTION: memory})):
        assert reader.pushFilters.__func__ is DataSourceReader.pushFilters
        assert {split.base_offset for partition in reader.partitions() for split in partition.splits} == ALL


def test_load_pushes_nothing_and_says_what_would(log_directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Spark 4.1 to 4.3: every row is planned; one sentence, once, for a filter that could have pruned."""
    advice.advise_about_filter.cache_clear()
    reader = reader_of(log_directory)

    assert plan_of(reader, ALWAYS) == ALL
    assert caplog.records == []
    assert [plan_of(reader, SMALL), plan_of(reader, LARGE)] == [ALL] * 2
    assert len(caplog.records) == 1
    assert "kafka_segment_source.read(" in caplog.text and "since" in caplog.text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, True),
        ({"subscribe": "orders"}, True),
        ({"since": "1970-01-01"}, False),
        ({"until": "2100-01-01"}, False),
        ({"startingTimestamp": "0"}, False),
        ({"endingTimestamp": "0"}, False),
        ({"subscribe": "orders", "startingOffsets": '{"orders": {"0": 0}}'}, False),
    ],
)
def test_a_large_read_without_bounds_says_how_much_it_reads(
    given: dict[str, str],
    says: bool,
    log_directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A small one says nothing, and bounds are enough of an answer."""
    reader = reader_of(log_directory, **given)
    reader.partitions()
    assert caplog.records == []
    monkeypatch.setattr(advice, "LARGE_READ", 1)
    reader.partitions()
    assert [("also if a .filter() keeps few rows" in record.message) for record in caplog.records] == [True] * says


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A new file of pushed filters, in a directory of this test."""
    monkeypatch.setattr(remembered.tempfile, "tempdir", str(tmp_path))
    for said_once in (remembered._warn_of_whole_read, remembered._advise_new_read):
        said_once.cache_clear()
    yield remembered._make_memory()
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


def test_the_keys_of_every_filter_are_read(log_directory: Path, memory: str) -> None:
    """A scan may take the plan of a later filter: the rows of both keys are in it, and those of no other key."""

    def read(*pushed: Filter) -> list[bytes | None]:
        reader = reader_of(log_directory, **{remembered.MEMORY_OPTION: memory, "subscribe": "orders"})
        list(reader.pushFilters(list(pushed)))
        reader._columns = ("key",)
        return [row for each in reader.partitions() for batch in reader.read(each) for row in batch["key"].to_pylist()]

    assert read(EqualTo(("key",), b"k1"), ALWAYS) == [b"k1"]
    assert read(In(("key",), (b"k8", None)), ALWAYS) == [b"k1", b"k8"]
    assert read(EqualTo(("key",), b"k1"), ALWAYS) == [b"k1", b"k8"]
    assert {b"k0", b"k1", b"k8"} <= set(read(SMALL, ALWAYS))
    assert len(read(ALWAYS)) == 10


def test_another_read_remembers_by_itself(log_directory: Path, memory: str) -> None:
    """Each call of read() starts again."""
    assert remembering(log_directory, memory, ALWAYS) == ALL
    assert {8} == remembering(log_directory, remembered._make_memory(), LARGE)


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
    newer = Path(remembered._make_memory())
    assert [newer] == list(directory.iterdir())

    directory.chmod(0o777)
    assert directory != Path(remembered._make_memory()).parent


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
        assert remembered.load(Reader(), "records", RECORDS, None) == "whole"  # type: ignore[arg-type,comparison-overlap]
        assert remembered.load(Reader(), "records", RECORDS, ("value",)) == "whole"  # type: ignore[arg-type,comparison-overlap]

    assert "prunes nothing here" in caplog.text


@given(one=bounds, other=bounds, row=rows)
def test_a_filter_covers_another_only_where_that_is_true(one: RowFilter, other: RowFilter, row: Row) -> None:
    """Every row of the covered one is a row of the other."""
    if remembered._covers(one, other) and possible(other, row):
        assert possible(one, row)
    assert remembered._covers(one, one) and remembered._covers(EVERYTHING, one)
