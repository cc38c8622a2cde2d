"""One stream: where it begins, what it waits for, and what it reports as lost."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from kafka_segment_source.errors import CorruptRecordError, DataLossError, OptionError, PathError
from kafka_segment_source.kafka_format import INDEX_SUFFIX, segment_file
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.options import parse_options
from kafka_segment_source.storage import retrying
from kafka_segment_source.storage.files import lasting_version
from kafka_segment_source.storage.store import LocalStorage
from kafka_segment_source.streams.listings import GONE_SECONDS
from kafka_segment_source.streams.log_ends import LogEnds
from kafka_segment_source.streams.stream import LogStream
from tests.support import writer
from tests.support.growing_log import Engine, write_high_watermarks
from tests.support.small_logs import bad, marker, pl, put, txn
from tests.unit.streams.parts import T0, T1, Clock


def stream_of(path: Path | str, clock: Clock, now: float = 1e12, **given: Any) -> LogStream:
    options, _ = parse_options({"path": str(path), **given}, is_stream=True)
    return LogStream(options, clock=clock, now=lambda: now)


def next_end(stream: LogStream, clock: Clock, start: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The end of the next piece, a minute later."""
    clock.now += 60
    return stream.find_next(start, limited=True)


# ---- where it begins ----


def test_where_a_stream_begins(tmp_path: Path, clock: Clock) -> None:
    """At the end by default, at the start, at an offset, or at a time, as in Spark's kafka source."""
    put(tmp_path, 5, pl(5, 10), pl(15, 10))
    assert stream_of(tmp_path, clock).find_initial() == {T0: 25}
    assert stream_of(tmp_path, clock, startingOffsets="earliest").find_initial() == {T0: 5}
    for number, expected in ((7, 7), (-1, 25), (-2, 5), (25, 25)):
        given = f'{{"t":{{"0":{number}}}}}'
        assert stream_of(tmp_path, clock, startingOffsets=given).find_initial() == {T0: expected}
    assert stream_of(tmp_path, clock, startingTimestamp="+1017").find_initial() == {T0: 17}
    with pytest.raises(OptionError, match="option 'startingTimestamp': no offset of partition t-0 has a timestamp"):
        stream_of(tmp_path, clock, startingTimestamp="+9999").find_initial()
    latest = {"startingOffsetsByTimestamp": '{"t":{"0":1773133200000}}', "startingOffsetsByTimestampStrategy": "latest"}
    assert stream_of(tmp_path, clock, **latest).find_initial() == {T0: 25}


def test_a_start_beyond_an_open_transaction(tmp_path: Path, clock: Clock) -> None:
    """A stream that begins at a time waits for that offset, and reads nothing before it."""
    put(tmp_path, 0, pl(0, 5), txn(5, 5, producer=7), pl(10, 5))
    stream = stream_of(tmp_path, clock, isolationLevel="read_committed", startingTimestamp="+1012")
    assert stream.find_initial() == {T0: 12}
    assert next_end(stream, clock, {T0: 12}) == {T0: 12}


def test_a_checkpoint_of_another_selection(tmp_path: Path, clock: Clock) -> None:
    """It is a loss without a wait, as the options do not select what was read."""
    put(tmp_path, 0, pl(0, 5))
    start = {T0: 5, ("u", 0): 3}
    stream = stream_of(tmp_path, clock, subscribe="t")
    with pytest.raises(
        DataLossError, match=r"select other partitions than before: not u-0 \(read up to offset 3\); give"
    ):
        stream.find_next(start, limited=True)
    assert clock.now == 0
    stream = stream_of(tmp_path, clock, subscribe="t", failOnDataLoss="false")
    assert next_end(stream, clock, start) == start
    (tmp_path / "t-0").rename(tmp_path / "__t-0")  # a path may name an internal topic itself
    assert next_end(stream_of(tmp_path / "__t-0", clock), clock, {("__t", 0): 3}) == {("__t", 0): 5}


def test_a_start_that_is_not_there(tmp_path: Path, clock: Clock) -> None:
    """An offset that no file holds, a map that leaves a partition out, a topic that is not there."""
    put(tmp_path, 5, pl(5, 10))
    for number in (4, 16):
        given = {"startingOffsets": f'{{"t":{{"0":{number}}}}}'}
        with pytest.raises(DataLossError, match=f"asks for offset {number} of partition t-0, but the files hold the"):
            stream_of(tmp_path, clock, **given).find_initial()
        found = stream_of(tmp_path, clock, failOnDataLoss="false", **given).find_initial()
        assert found == {T0: min(max(number, 5), 15)}
    with pytest.raises(
        OptionError, match="'startingOffsets' must name exactly the partitions selected: it leaves out t-0"
    ):
        stream_of(tmp_path, clock, startingOffsets='{"u":{"0":1}}').find_initial()
    with pytest.raises(OptionError, match="option 'subscribe' names topic 'u', but the path holds 't'"):
        stream_of(tmp_path, clock, subscribe="u").find_initial()
    with pytest.raises(PathError, match="does not exist"):
        stream_of(tmp_path / "nothing", clock).find_initial()


# ---- how far it goes ----


def test_a_truncation_after_a_change_of_leader(tmp_path: Path) -> None:
    """With the high watermark, no record is seen that another one replaces. With endAt=end, one is."""
    for end_at, seen in (("default", b"y12"), ("end", b"x12")):
        root = tmp_path / end_at
        put(root, 0, pl(0, 10, leader=1), pl(10, 5, leader=1, word="x"))
        write_high_watermarks(root, {T0: 10})
        engine = Engine(
            {"path": str(root), "startingOffsets": "earliest"} | ({} if end_at == "default" else {"endAt": "end"})
        )
        engine.start()
        engine.trigger()
        put(root, 0, pl(0, 10, leader=1), pl(10, 8, leader=2, word="y"))  # the new leader's records from 10 on
        write_high_watermarks(root, {T0: 18})
        for _ in range(2):
            engine.clock += 60
            engine.trigger()
        rows = engine.rows()[T0]
        assert [offset for offset, _ in rows] == list(range(18))
        assert dict(rows)[12] == seen


def test_a_high_watermark_that_goes_back(tmp_path: Path, clock: Clock) -> None:
    """A broker that was killed may write a lower one. The stream waits, and what was begun is still read."""
    put(tmp_path, 0, pl(0, 10))
    write_high_watermarks(tmp_path, {T0: 10})
    stream = stream_of(tmp_path, clock)
    assert next_end(stream, clock, {T0: 0}) == {T0: 10}
    write_high_watermarks(tmp_path, {T0: 4})
    assert next_end(stream, clock, {T0: 10}) == {T0: 10}
    plan = stream_of(tmp_path, clock).plan({T0: 0}, {T0: 10})
    assert plan is not None and plan.to_reader(["offset"]).read_all().num_rows == 10


def test_a_partition_that_the_checkpoint_does_not_list_yet(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of it is read before a high watermark is known. A warning says so."""
    put(tmp_path, 0, pl(0, 10))
    write_high_watermarks(tmp_path, {("other", 0): 10})
    with caplog.at_level(logging.WARNING):
        assert next_end(stream_of(tmp_path, clock), clock, {T0: 0}) == {T0: 0}
    assert "does not list" in caplog.text and "endAt=end" in caplog.text
    (tmp_path / "replication-offset-checkpoint").write_text("0\n9\nt 0 10\n")
    with pytest.raises(OptionError, match=r"option 'endAt'.* is damaged: found 1 entries, expected 9"):
        next_end(stream_of(tmp_path, clock), clock, {T0: 0})


def test_the_last_stable_offset(tmp_path: Path, clock: Clock) -> None:
    """A stream waits for a marker. What it remembers of producers does not outlive the log."""
    put(tmp_path, 0, pl(0, 5), txn(5, 5, producer=7), pl(10, 5))
    stream = stream_of(tmp_path, clock, isolationLevel="read_committed")
    assert next_end(stream, clock, {T0: 0}) == {T0: 5}
    put(tmp_path, 0, pl(0, 5), txn(5, 5, producer=7), pl(10, 5), marker("commit", 15, 7), txn(16, 2, producer=8))
    assert next_end(stream, clock, {T0: 5}) == {T0: 16}
    put(tmp_path, 0, pl(0, 5), txn(5, 11, producer=7, word="z"), pl(16, 5))  # another log, cut at 5 and written again
    assert next_end(stream, clock, {T0: 5}) == {T0: 5}


def test_a_hanging_transaction_is_named(tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """After a minute, once."""
    put(tmp_path, 0, pl(0, 5), txn(5, 5, producer=7))
    stream = stream_of(tmp_path, clock, isolationLevel="read_committed")
    with caplog.at_level(logging.WARNING):
        next_end(stream, clock, {T0: 0})
        assert "producer 7" not in caplog.text
        for size in (1, 2, 3):
            put(tmp_path, 0, pl(0, 5), txn(5, 5, producer=7), pl(10, size))
            clock.now += 30
            next_end(stream, clock, {T0: 5})
    assert caplog.text.count("transactions are open of producer 7 since offset 5") == 1


def test_damage_at_the_end(tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """A batch with a wrong CRC at the end is an error behind what comes before it, or is left out. It never holds a
    stream up in silence."""
    put(tmp_path, 0, pl(0, 5), bad(pl(5, 5)), pl(10, 5))
    strict = stream_of(tmp_path, clock)
    with caplog.at_level(logging.WARNING):
        assert next_end(strict, clock, {T0: 0}) == {T0: 5}
    assert "partition t-0 is read up to damage: batch whose bytes do not have the CRC" in caplog.text
    with pytest.raises(CorruptRecordError, match="CRC"):
        next_end(strict, clock, {T0: 5})
    with pytest.raises(CorruptRecordError, match="CRC"):  # Spark 4.1 does not say where it is, and may not ask again
        strict.find_next(None, limited=False)
    stream = stream_of(tmp_path, clock, mode="DROPMALFORMED")
    assert next_end(stream, clock, {T0: 0}) == {T0: 15}
    plan = stream.plan({T0: 0}, {T0: 15})
    assert plan is not None
    assert plan.to_reader(["offset"]).read_all()["offset"].to_pylist() == [*range(5), *range(10, 15)]


@pytest.mark.parametrize("end_of_other", [b"", bad(pl(5, 5))], ids=["shorter", "damaged too"])
def test_damage_behind_the_end_of_all_copies(end_of_other: bytes, tmp_path: Path, clock: Clock) -> None:
    """Where no copy has the batch whole, its damage is an error, or a warning, as in a batch read."""
    put(tmp_path / "a", 0, pl(0, 5), bad(pl(5, 5)))
    put(tmp_path / "b", 0, pl(0, 5), end_of_other)
    paths = json.dumps([str(tmp_path / copy) for copy in ("a", "b")])
    strict = stream_of(paths, clock, endAt="end")
    assert next_end(strict, clock, {T0: 0}) == {T0: 5}
    with pytest.raises(CorruptRecordError, match="no copy holds the offsets 5 on whole"):
        next_end(strict, clock, {T0: 5})
    lenient = stream_of(paths, clock, endAt="end", mode="DROPMALFORMED")
    assert next_end(lenient, clock, {T0: 0}) == {T0: 5}
    put(tmp_path / "b", 0, pl(0, 5), pl(5, 5))
    assert next_end(strict, clock, {T0: 5}) == {T0: 10}


@pytest.mark.parametrize("rolled", [True, False])
@pytest.mark.parametrize("hurt", [bytes(100), pl(5, 5)[:9] + b"\x10" + pl(5, 5)[10:]])
def test_zeros_or_a_length_before_whole_batches(hurt: bytes, rolled: bool, tmp_path: Path, clock: Clock) -> None:
    """They look like the end of a log, and are damage."""
    if rolled:
        put(tmp_path, 0, pl(0, 5))
        put(tmp_path, 5, hurt, pl(10, 5))
    else:
        put(tmp_path, 0, pl(0, 5), hurt, pl(10, 5))
    strict = stream_of(tmp_path, clock)
    assert next_end(strict, clock, {T0: 0}) == {T0: 5}
    with pytest.raises(CorruptRecordError):
        next_end(strict, clock, {T0: 5})
    assert next_end(stream_of(tmp_path, clock, mode="DROPMALFORMED"), clock, {T0: 0}) == {T0: 15}


def test_preallocated_space_is_read_once(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker writes into it from its start on, so that the rest stays zeros."""
    read, reads = LogEnds._read_rest, []

    def count_reads(ends: LogEnds, log: PartitionLog, end: int) -> Any:
        reads.append(end)
        return read(ends, log, end)

    monkeypatch.setattr(LogEnds, "_read_rest", count_reads)
    path = put(tmp_path, 0, pl(0, 5), bytes(5000))
    stream = stream_of(tmp_path, clock)
    assert next_end(stream, clock, {T0: 0}) == {T0: 5}
    _, known = stream._ends._ends[T0]
    assert known.version == lasting_version(known.version)  # a write right after it may leave the same ctime
    with path.open("r+b") as file:
        file.seek(len(pl(0, 5)))
        file.write(pl(5, 5))
    assert next_end(stream, clock, {T0: 5}) == {T0: 10}
    assert reads == [5]
    whole = path.read_bytes()
    path.write_bytes(whole[: len(pl(0, 5) + pl(5, 5))] + bytes(200) + pl(12, 3))  # now it has another size
    with pytest.raises(CorruptRecordError):
        next_end(stream, clock, {T0: 10})


# ---- what may still come ----


def test_a_last_file_that_is_gone(tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """Its index file shows that there was one. A copy may bring that first: so it is waited for while files are new."""
    made = put(tmp_path, 0, pl(0, 5)).stat().st_ctime
    index = writer.offset_index([(9, 100)], base=5)
    (tmp_path / "t-0" / segment_file(5, INDEX_SUFFIX)).write_bytes(index)
    with caplog.at_level(logging.WARNING):
        stream = stream_of(tmp_path, clock, now=made + 1)
        assert stream.find_next({T0: 0}, limited=True) == {T0: 5}
        assert "the offsets 5 to 9 of partition t-0 are waited for" in caplog.text
        with pytest.raises(DataLossError, match="no file holds the offsets 5 to 9 of partition t-0"):
            next_end(stream, clock, {T0: 5})
        caplog.clear()
        lenient = stream_of(tmp_path, clock, failOnDataLoss="false")
        assert next_end(lenient, clock, {T0: 0}) == {T0: 5}
    assert "no file holds the offsets 5 to 9 of partition t-0: reading what is there" in caplog.text
    put(tmp_path, 5, pl(5, 5))
    assert next_end(stream, clock, {T0: 5}) == {T0: 10}


@pytest.mark.parametrize("is_last", [True, False])
def test_missing_offsets_behind_an_open_transaction(is_last: bool, tmp_path: Path, clock: Clock) -> None:
    """The transaction may have ended in them. The stream does not wait for its end."""
    put(tmp_path, 0, pl(0, 5), txn(5, 5, producer=7))
    if is_last:
        index = writer.offset_index([(19, 100)], base=15)
        (tmp_path / "t-0" / segment_file(15, INDEX_SUFFIX)).write_bytes(index)
    else:
        put(tmp_path, 15, pl(15, 5))
    stream = stream_of(tmp_path, clock, isolationLevel="read_committed")
    missing = "15 to 19" if is_last else "10 to 14"
    with pytest.raises(DataLossError, match=f"no file holds the offsets {missing} of partition t-0"):
        next_end(stream, clock, {T0: 5})
    lenient = stream_of(tmp_path, clock, isolationLevel="read_committed", failOnDataLoss="false")
    assert next_end(lenient, clock, {T0: 5}) == {T0: 10 if is_last else 20}


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_a_last_file_that_is_gone_beside_a_single_file(level: str, tmp_path: Path, clock: Clock) -> None:
    """The single file ends before its name says. No batch tells a stream of committed rows more."""
    put(tmp_path / "a", 0, pl(0, 1))
    index = writer.offset_index([(21, 100)], base=12)
    (tmp_path / "a/t-0" / segment_file(12, INDEX_SUFFIX)).write_bytes(index)
    single = put(tmp_path / "b", 0, pl(0, 1))
    put(tmp_path / "b", 12, pl(12, 10))
    stream = stream_of(json.dumps([str(tmp_path / "a"), str(single)]), clock, endAt="end", isolationLevel=level)
    with pytest.raises(DataLossError, match="no file holds the offsets 12 to 21 of partition t-0"):
        next_end(stream, clock, {T0: 1})


def test_a_damaged_marker_that_is_mended(tmp_path: Path, clock: Clock) -> None:
    """What a stream remembers of producers does not outlive the damage that it skipped."""
    hurt = bytearray(marker("abort", 10, 7))
    hurt[-1] ^= 4
    before = pl(0, 5) + txn(5, 5, producer=7) + bytes(hurt)
    put(tmp_path, 0, before, pl(11, 4), txn(15, 2, producer=8))
    index = writer.offset_index([(14, len(before)), (16, len(before + pl(11, 4)))], base=0)
    (tmp_path / "t-0" / segment_file(0, INDEX_SUFFIX)).write_bytes(index)
    lenient = {"isolationLevel": "read_committed", "mode": "DROPMALFORMED", "failOnDataLoss": "false"}
    stream = stream_of(tmp_path, clock, **lenient)
    assert next_end(stream, clock, {T0: 0}) == {T0: 5}
    put(tmp_path, 0, pl(0, 5), txn(5, 5, producer=7), marker("abort", 10, 7), pl(11, 4), txn(15, 2, producer=8))
    assert next_end(stream, clock, {T0: 5}) == {T0: 15}


def test_a_file_that_comes_late(tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """A copy brings a later file first. The stream waits before the gap while the files beside it are new."""
    put(tmp_path, 0, pl(0, 10))
    made = put(tmp_path, 20, pl(20, 10)).stat().st_ctime
    with caplog.at_level(logging.WARNING):
        stream = stream_of(tmp_path, clock, now=made + 1)
        assert stream.find_next({T0: 0}, limited=True) == {T0: 10}
    assert "the offsets 10 to 19 of partition t-0 are waited for" in caplog.text
    put(tmp_path, 10, pl(10, 10))
    assert next_end(stream, clock, {T0: 10}) == {T0: 30}


def test_a_first_file_that_comes_late(tmp_path: Path, clock: Clock) -> None:
    """A copy deletes what is old before it brings what is new, or brings a new partition from its end on."""
    made = put(tmp_path, 20, pl(20, 10)).stat().st_ctime
    for start in ({T0: 10}, {}):
        stream = stream_of(tmp_path, clock, now=made + 1)
        assert stream.find_next(start, limited=True) == {T0: start.get(T0, 0)}
        assert next_end(stream, clock, start) == {T0: 30}
        with pytest.raises(DataLossError, match="its files begin at 20"):
            stream.plan(start, {T0: 30})


def test_a_live_log_is_not_waited_for_without_end(tmp_path: Path, clock: Clock) -> None:
    """A file that grows is always new. After a minute, what is missing beside it is a loss."""
    put(tmp_path, 0, pl(0, 10))
    made = put(tmp_path, 20, pl(20, 10)).stat().st_ctime
    stream = stream_of(tmp_path, clock, now=made)
    assert stream.find_next({T0: 0}, limited=True) == {T0: 10}
    with pytest.raises(DataLossError, match="no file holds the offsets 10 to 19"):
        next_end(stream, clock, {T0: 10})


def test_a_fixed_end_waits_for_a_late_file(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under availableNow a run would end before a gap again and again. So it waits for a minute itself."""
    put(tmp_path, 0, pl(0, 10))
    made = put(tmp_path, 20, pl(20, 10)).stat().st_ctime
    shutil.copytree(tmp_path / "t-0", tmp_path / "t-1")
    for strictness in ("true", "false"):
        before = clock.now
        stream = stream_of(tmp_path, clock, now=made, failOnDataLoss=strictness)
        stream.set_target()
        if strictness == "true":
            with pytest.raises(DataLossError, match="no file holds the offsets 10 to 19"):
                stream.find_next({T0: 0, T1: 0}, limited=True)
        else:
            assert stream.find_next({T0: 0, T1: 0}, limited=True) == {T0: 30, T1: 30}
        assert 60 <= clock.now - before < 63  # for both partitions together
    shutil.rmtree(tmp_path / "t-1")

    def bring(seconds: float) -> None:
        clock.now += seconds
        put(tmp_path, 10, pl(10, 10))

    monkeypatch.setattr(retrying, "wait", bring)
    stream = stream_of(tmp_path, clock, now=made)
    stream.set_target()
    assert stream.find_next({T0: 0}, limited=True) == {T0: 30}


def test_a_gap_that_stays_is_a_loss(tmp_path: Path, clock: Clock) -> None:
    """With old files beside it, nothing will fill it."""
    put(tmp_path, 0, pl(0, 10))
    put(tmp_path, 20, pl(20, 10))
    with pytest.raises(DataLossError, match="no file holds the offsets 10 to 19 of partition t-0"):
        next_end(stream_of(tmp_path, clock), clock, {T0: 0})
    stream = stream_of(tmp_path, clock, failOnDataLoss="false")
    assert next_end(stream, clock, {T0: 0}) == {T0: 30}
    assert next_end(stream_of(tmp_path, clock), clock, {T0: 25}) == {T0: 30}  # it lies before what was read
    put(tmp_path, 0, pl(0, 10, keep=[1, 3]))  # offsets that compaction removed
    assert next_end(stream_of(tmp_path, clock), clock, {T0: 0}) == {T0: 30}


def test_an_empty_file_between_others(tmp_path: Path, clock: Clock) -> None:
    """Its records are gone, or not copied yet."""
    put(tmp_path, 0, pl(0, 10))
    empty = put(tmp_path, 10)
    put(tmp_path, 20, pl(20, 10))
    made = empty.stat().st_ctime
    assert stream_of(tmp_path, clock, now=made + 1).find_next({T0: 0}, limited=True) == {T0: 10}
    with pytest.raises(DataLossError, match="is empty: no file holds the offsets 10 to 19"):
        next_end(stream_of(tmp_path, clock), clock, {T0: 0})


# ---- what is lost ----


def test_retention_before_it_was_read(tmp_path: Path, clock: Clock) -> None:
    """The error names the offsets. Under failOnDataLoss=false the stream goes on at the first that is there."""
    put(tmp_path, 10, pl(10, 10))
    for stream in (stream_of(tmp_path, clock), stream_of(tmp_path, clock, failOnDataLoss="false")):
        end = next_end(stream, clock, {T0: 4})
        assert end == {T0: 20}
    with pytest.raises(
        DataLossError, match="t-0 was read up to offset 4, but its files begin at 10: the offsets 4 to 9"
    ):
        stream_of(tmp_path, clock).plan({T0: 4}, {T0: 20})
    plan = stream.plan({T0: 4}, {T0: 20})
    assert plan is not None and plan.to_reader(["offset"]).read_all()["offset"].to_pylist() == list(range(10, 20))


def test_a_new_partition(tmp_path: Path, clock: Clock) -> None:
    """It is read from its start."""
    put(tmp_path, 0, pl(0, 10))
    shutil.copytree(tmp_path / "t-0", tmp_path / "t-1")
    stream = stream_of(tmp_path, clock)
    assert next_end(stream, clock, {T0: 10}) == {T0: 10, T1: 10}
    assert stream.plan({T0: 10}, {T0: 10, T1: 10}) is not None


def test_files_that_end_too_early(tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """A log that was cut below what was read. The position never goes back."""
    put(tmp_path, 0, pl(0, 10))
    with pytest.raises(DataLossError, match="t-0 was read up to offset 12, but its files end at 10"):
        next_end(stream_of(tmp_path, clock), clock, {T0: 12})
    stream = stream_of(tmp_path, clock, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert next_end(stream, clock, {T0: 12}) == {T0: 12}
    assert caplog.text.count("it is read on from 12") == 1
    put(tmp_path, 0, pl(0, 10), pl(10, 5))
    assert next_end(stream, clock, {T0: 12}) == {T0: 15}


def test_a_directory_that_is_away(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a moment: nothing happens. For long: a loss, or a warning, after which the others are read on."""
    put(tmp_path, 0, pl(0, 10))
    shutil.copytree(tmp_path / "t-0", tmp_path / "t-1")
    stream = stream_of(tmp_path, clock)
    start = {T0: 5, T1: 5}
    assert next_end(stream, clock, start) == {T0: 10, T1: 10}
    (tmp_path / "t-1").rename(tmp_path / "away")

    def come_back(seconds: float) -> None:
        clock.now += seconds
        if (tmp_path / "away").exists():
            (tmp_path / "away").rename(tmp_path / "t-1")

    monkeypatch.setattr(retrying, "wait", come_back)
    assert next_end(stream, clock, start) == {T0: 10, T1: 10}
    shutil.rmtree(tmp_path / "t-1")
    before = clock.now + 60
    with pytest.raises(
        DataLossError, match=r"no directory holds what this stream has read of t-1 \(read up to offset 5\)"
    ):
        next_end(stream, clock, start)
    assert clock.now - before >= GONE_SECONDS
    tolerant = stream_of(tmp_path, clock, failOnDataLoss="false", subscribe="t")
    assert next_end(tolerant, clock, start) == {T0: 10, T1: 5}
    before = clock.now + 60
    assert next_end(tolerant, clock, start) == {T0: 10, T1: 5}
    assert clock.now == before  # it is not waited for again


def test_a_path_that_is_away(tmp_path: Path, clock: Clock) -> None:
    """A mount that is gone for long is an error that names the path."""
    root = tmp_path / "logs"
    put(root, 0, pl(0, 10))
    stream = stream_of(root, clock)
    assert next_end(stream, clock, {T0: 0}) == {T0: 10}
    root.rename(tmp_path / "away")
    before = clock.now + 60
    with pytest.raises(PathError, match=f"path '{root}' does not exist"):
        next_end(stream, clock, {T0: 10})
    assert clock.now - before >= GONE_SECONDS


def test_a_topic_that_was_made_again(tmp_path: Path, clock: Clock) -> None:
    """Its id says so. Under failOnDataLoss=false the new one is read from its start, once."""

    def make(word: str, topic_id: str, count: int) -> None:
        shutil.rmtree(tmp_path / "t-0", ignore_errors=True)
        put(tmp_path, 0, pl(0, count, word=word))
        (tmp_path / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id * 22}")

    make("a", "a", 10)
    strict, tolerant = stream_of(tmp_path, clock), stream_of(tmp_path, clock, failOnDataLoss="false")
    for stream in (strict, tolerant):
        assert next_end(stream, clock, {T0: 0}) == {T0: 10}
    make("b", "b", 20)
    with pytest.raises(
        DataLossError, match="topic 't' was deleted and made again: partition t-0 was read up to offset"
    ):
        next_end(strict, clock, {T0: 10})
    assert next_end(tolerant, clock, {T0: 10}) == {T0: 0}
    assert tolerant.plan({T0: 10}, {T0: 0}) is None
    assert next_end(tolerant, clock, {T0: 0}) == {T0: 20}


# ---- what it costs ----


def test_an_idle_stream_opens_no_log(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing answers for a second. After that only times are looked at, while nothing changes."""
    path = put(tmp_path, 0, pl(0, 10))
    write_high_watermarks(tmp_path, {T0: 10})
    for each in (path, tmp_path, tmp_path / "t-0"):
        os.utime(each)  # it changes ctime, which nothing can set
    monkeypatch.setattr("kafka_segment_source.storage.files._RACY_NANOS", 0)
    stream = stream_of(tmp_path, clock, isolationLevel="read_committed")
    for _ in range(3):
        next_end(stream, clock, {T0: 10})
    opened: list[str] = []
    listed: list[str] = []
    opens, lists = LocalStorage.open, LocalStorage.list

    def note_open(storage: LocalStorage, path: str, *more: Any) -> Any:
        opened.append(path)
        return opens(storage, path, *more)

    def note_list(storage: LocalStorage, directory: str) -> Any:
        listed.append(directory)
        return lists(storage, directory)

    monkeypatch.setattr(LocalStorage, "open", note_open)
    monkeypatch.setattr(LocalStorage, "list", note_list)
    assert next_end(stream, clock, {T0: 10}) == {T0: 10}
    assert opened == listed == []
    write_high_watermarks(tmp_path, {T0: 10})  # a broker does this every 5 s
    assert next_end(stream, clock, {T0: 10}) == {T0: 10}
    assert set(listed) == {str(tmp_path)} and not any(path.endswith(".log") for path in opened)
    with path.open("ab") as file:
        file.write(pl(10, 5))
    time.sleep(0.02)  # a tick of the file system's clock
    write_high_watermarks(tmp_path, {T0: 15})
    assert next_end(stream, clock, {T0: 10}) == {T0: 15}
    listed.clear()
    assert stream.find_next({T0: 15}, limited=True) == {T0: 15}
    assert listed == []  # within the second


def test_checkpoints_that_are_written_again(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same bytes, the partitions are not listed. With other bytes, or another name beside them, they are."""
    monkeypatch.setattr("kafka_segment_source.storage.files._RACY_NANOS", 0)
    write_high_watermarks(tmp_path, {T0: 5})
    put(tmp_path, 0, pl(0, 5), pl(5, 5))
    stream = stream_of(tmp_path, clock)
    assert next_end(stream, clock, {T0: 0}) == {T0: 5}
    for end in (5, 5, 10, 10):
        time.sleep(0.02)  # a tick of the file system's clock
        write_high_watermarks(tmp_path, {T0: end})
        assert next_end(stream, clock, {T0: 0}) == {T0: end}
    shutil.copytree(tmp_path / "t-0", tmp_path / "t-1")
    assert next_end(stream, clock, {T0: 10}) == {T0: 10, T1: 0}
    (tmp_path / "replication-offset-checkpoint").unlink()
    assert next_end(stream, clock, {T0: 10}) == {T0: 10, T1: 10}


def test_growth_alone_is_seen(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker's append changes nothing but the file itself."""
    monkeypatch.setattr("kafka_segment_source.storage.files._RACY_NANOS", 0)
    path = put(tmp_path, 0, pl(0, 10))
    stream = stream_of(tmp_path, clock)
    for _ in range(3):
        next_end(stream, clock, {T0: 10})
    with path.open("ab") as file:
        file.write(pl(10, 5))
    assert next_end(stream, clock, {T0: 10}) == {T0: 15}


def test_a_fixed_end(tmp_path: Path, clock: Clock) -> None:
    """Under availableNow, what comes after the begin of the run is left for the next one, new partitions too."""
    put(tmp_path, 0, pl(0, 10))
    stream = stream_of(tmp_path, clock)
    stream.set_target()
    put(tmp_path, 0, pl(0, 10), pl(10, 5))
    shutil.copytree(tmp_path / "t-0", tmp_path / "t-1")
    assert next_end(stream, clock, {T0: 0}) == {T0: 10}
    assert stream.find_latest() == {T0: 15, T1: 15}


def test_a_marker_beyond_the_high_watermark(tmp_path: Path, clock: Clock) -> None:
    """It ends its transaction once the high watermark has passed it."""
    put(tmp_path, 0, txn(0, 5, producer=7), marker("commit", 5, 7), pl(6, 2))
    for high_watermark in (6, 8):
        write_high_watermarks(tmp_path, {T0: 5})
        stream = stream_of(tmp_path, clock, isolationLevel="read_committed")
        assert next_end(stream, clock, {T0: 0}) == {T0: 0}
        write_high_watermarks(tmp_path, {T0: high_watermark})
        assert next_end(stream, clock, {T0: 0}) == {T0: high_watermark}


def test_a_high_watermark_beside_the_path(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path names a partition. Its high watermark lies in the directory above, and is seen when it moves."""
    monkeypatch.setattr("kafka_segment_source.storage.files._RACY_NANOS", 0)
    put(tmp_path, 0, pl(0, 10))
    write_high_watermarks(tmp_path, {T0: 4})
    stream = stream_of(tmp_path / "t-0", clock)
    for _ in range(3):
        assert next_end(stream, clock, {T0: 0}) == {T0: 4}
    time.sleep(0.02)  # a tick of the file system's clock
    write_high_watermarks(tmp_path, {T0: 8})
    assert next_end(stream, clock, {T0: 4}) == {T0: 8}


def test_growth_is_read_once(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a log that grew, the search for its end reads only what is new, without any index."""
    batches = [pl(base, 10, word="v" * 400) for base in range(0, 3000, 10)]
    put(tmp_path, 0, *batches[:-1])
    stream = stream_of(tmp_path, clock)
    next_end(stream, clock, {T0: 0})
    put_more = (tmp_path / "t-0" / writer.segment_name(0)).open("ab")
    with put_more:
        put_more.write(batches[-1])
    read: list[int] = []
    reads = os.pread

    def note(descriptor: int, count: int, position: int) -> bytes:
        data = reads(descriptor, count, position)
        read.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", note)
    assert next_end(stream, clock, {T0: 2990}) == {T0: 3000}
    assert sum(read) < 3 * len(batches[-1]) + 8192
