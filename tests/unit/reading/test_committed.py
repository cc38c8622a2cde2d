"""read_committed: aborted rows, last stable offsets and snapshots, over real brokers' logs and small awkward ones."""

from __future__ import annotations

import errno
import logging
import random
import re
import shutil
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.errors import CorruptRecordError, DataLossError
from kafka_segment_source.logdir.producer_snapshots import newest_state
from kafka_segment_source.reading import following
from kafka_segment_source.storage import store
from kafka_segment_source.storage.store import LOCAL
from kafka_segment_source.transactions import walk
from tests.support import writer
from tests.support.ledgers import CROSSING, data, flipped, marker, of_checked, snapshot, write
from tests.support.rows import COLUMNS, FIXTURES, OFFSET, PARTITION, TIMESTAMP, TOPIC, Row, expected, keep, scanned
from tests.support.writer import Rec

LEDGER = FIXTURES / "transactions" / "data"
FATE = "fate"


@cache
def committed(fixture: Path) -> list[Row]:
    """What a real read_committed consumer saw of a fixture, sorted by topic, partition and offset."""
    table = pq.read_table(fixture / "expected.read_committed.parquet")
    columns = [table[name].to_pylist() for name in COLUMNS]
    columns[-1] = [None if each is None else [(h["key"], h["value"]) for h in each] for each in columns[-1]]
    return sorted(zip(*columns, strict=True), key=lambda row: row[:3])


def read(path: Any, **options: Any) -> list[Row]:
    return sorted(scanned(path, isolationLevel="read_committed", **options), key=lambda row: row[:3])


def offsets(path: Any, **options: Any) -> list[int]:
    options = {"isolationLevel": "read_committed", **options}
    return kafkaseg.scan(path, columns=["offset"], **options).read_all()["offset"].to_pylist()


def warnings_of(path: Any, **options: Any) -> tuple[str, ...]:
    return kafkaseg.plan(path, isolationLevel="read_committed", **options).warnings


def withheld(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said of transactions whose markers were not found."""
    return [message for message in caplog.messages if message.startswith("withheld")]


# --- real brokers ----------------------------------------------------------------------------------------------------

FIXTURE_DATA = {
    path.parent.name: path.parent / ("broker-2" if path.parent.name == "follower" else "data")
    for path in sorted(FIXTURES.glob("*/expected.read_committed.parquet"))
}


@pytest.mark.parametrize("name", FIXTURE_DATA)
def test_whole_logs_of_real_brokers(name: str) -> None:
    """Every fixture, whole, is what a real read_committed consumer saw."""
    assert read(FIXTURE_DATA[name]) == committed(FIXTURES / name)


def test_partitions_selected_by_name() -> None:
    """What selects topics and partitions does not get in the way of looking for markers."""
    for selection in ({"subscribe": "ledger,ledger-v2"}, {"assign": {"ledger": [0, 1], "ledger-v2": [0]}}):
        assert read(LEDGER, maxRecordsPerPartition=20, **selection) == committed(LEDGER.parent)


def test_fate_says_the_same() -> None:
    """Of `ledger`, whose records say what became of them: what is missing below the last stable offset was aborted."""
    given = {row[:3] for row in read(LEDGER, subscribe="ledger")}
    stable = {0: 531, 1: 2**62}
    fates = {"given": set(), "withheld": set()}
    for row in keep(expected(LEDGER), lambda row: row[TOPIC] == "ledger" and row[OFFSET] < stable[row[PARTITION]]):
        fates["given" if row[:3] in given else "withheld"].add(dict(row[-1] or [])[FATE])
    assert fates == {"given": {b"plain", b"committed"}, "withheld": {b"aborted"}}


def spoil_nothing(path: Path) -> None:
    """Leaves the file alone."""


def cut_last_byte(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def noise(path: Path) -> None:
    path.write_bytes(random.Random(path.name).randbytes(path.stat().st_size))


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[random.Random(path.name).randrange(len(data))] ^= 4
    path.write_bytes(data)


SPOILERS = {each.__name__: each for each in (spoil_nothing, Path.unlink, cut_last_byte, cut_in_half, empty, noise)}
SPOILERS["flip_a_bit"] = flip_a_bit


@pytest.fixture(scope="module", params=SPOILERS)
def ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The transactions fixture with every .txnindex and .snapshot spoiled in one way."""
    directory = tmp_path_factory.mktemp("spoiled") / "data"
    shutil.copytree(LEDGER, directory)
    for path in [*directory.glob("*/*.txnindex"), *directory.glob("*/*.snapshot")]:
        if path.stat().st_size:
            SPOILERS[request.param](path)
    return directory


def test_whatever_is_beside_the_log(ledger: Path) -> None:
    """With .txnindex and .snapshot there, gone, cut or garbled, the rows are the same."""
    assert read(ledger) == committed(LEDGER.parent)
    assert read(ledger, trustIndexes=False) == committed(LEDGER.parent)


def test_random_bounds(ledger: Path) -> None:
    """Offset and time bounds through transactions, in one task a segment or in many, give the consumer's
    rows in them."""
    chance = random.Random(ledger.parent.name)
    rows = expected(LEDGER)
    for _ in range(12):
        topic, partition = chance.choice([("ledger", 0), ("ledger", 0), ("ledger", 1), ("ledger-v2", 0)])
        own = [row for row in rows if row[:2] == (topic, partition)]
        start, end = sorted((chance.choice(own)[OFFSET], chance.choice(own)[OFFSET] + 1))
        since, until = sorted((chance.choice(own)[TIMESTAMP], chance.choice(own)[TIMESTAMP] + 1))
        options: dict[str, Any] = {"assign": {topic: [partition]}}
        if chance.random() < 0.7:
            options["startingOffsets"] = {topic: {partition: start}}
            options["endingOffsets"] = {topic: {partition: end}}
        else:
            start, end = 0, 2**62
        if chance.random() < 0.5:
            options |= {"since": since, "until": until}
        else:
            since, until = 0, 2**62
        if chance.random() < 0.5:
            options["maxRecordsPerPartition"] = chance.randint(1, 40)
        elif chance.random() < 0.5:
            options["minPartitions"] = chance.randint(2, 30)
        wanted = [row for row in committed(LEDGER.parent) if row[:2] == (topic, partition)]
        wanted = [row for row in wanted if start <= row[OFFSET] < end and since <= row[TIMESTAMP] < until]
        assert read(ledger, **options) == wanted, options


def test_control_records_with_includeControl() -> None:
    """includeControl shows the markers of committed and of aborted transactions, up to the last stable offset."""
    columns = ["partition", "offset", "key", "metadata"]
    options = {"subscribe": "ledger", "includeControl": True, "includeMetadata": True}
    table = kafkaseg.scan(LEDGER, columns=columns, isolationLevel="read_committed", **options).read_all()
    everything = kafkaseg.scan(LEDGER, columns=columns, **options).read_all().to_pylist()
    data = {(row[PARTITION], row[OFFSET]) for row in expected(LEDGER) if row[TOPIC] == "ledger"}
    markers = [row for row in everything if (row["partition"], row["offset"]) not in data]
    shown = [row for row in table.to_pylist() if (row["partition"], row["offset"]) not in data]
    assert shown == [row for row in markers if row["partition"] == 1 or row["offset"] < 531]
    assert {row["key"] for row in shown} == {writer.marker_key("abort"), writer.marker_key("commit")}


def test_read_uncommitted_says_nothing_of_transactions() -> None:
    """Without read_committed no row is withheld, and the plan does not warn."""
    assert scanned(LEDGER, subscribe="ledger,ledger-v2") == expected(LEDGER)
    assert kafkaseg.plan(LEDGER).warnings == ()


# --- small logs ------------------------------------------------------------------------------------------------------


def test_markers_in_later_segments(tmp_path: Path) -> None:
    """A range is read without its later segments, and still knows what became of it."""
    folder = write(tmp_path, CROSSING)
    assert offsets(folder) == [1, 2, 4]
    assert offsets(folder, endingOffsets={"ledger": {"0": 3}}) == [1, 2]
    assert offsets(folder, endingOffsets={"ledger": {"0": 1}}) == []
    assert offsets(folder, startingOffsets={"ledger": {"0": 4}}, endingOffsets={"ledger": {"0": 5}}) == [4]


def test_a_marker_that_a_cleaner_takes_out_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An aborted row and its marker go while its file is read: the next marker there is another one."""
    folder = write(
        tmp_path,
        {0: [data(0, 7), data(1)], 2: [marker("abort", 2, 7), data(3, 7)], 4: [marker("commit", 4, 7)]},
    )
    read_on = walk.walk_after
    cleaned = {0: [data(1)], 2: [data(3, 7)]}

    def clean_and_read_on(*arguments: Any) -> Any:
        for base, batches in cleaned.items():
            new = tmp_path / "new"
            new.write_bytes(b"".join(batches))
            new.replace(folder / writer.segment_name(base))
        cleaned.clear()
        return read_on(*arguments)

    monkeypatch.setattr("kafka_segment_source.transactions.committed.walk_after", clean_and_read_on)
    assert [row[OFFSET] for row in read(folder)] == [1, 3]
    assert not cleaned


def test_one_file_of_a_log(tmp_path: Path) -> None:
    """A path that names one .log file: its neighbours tell about its transactions; alone, it says they are open."""
    folder = write(tmp_path, CROSSING)
    assert offsets(folder / writer.segment_name(0)) == [1, 2]
    assert offsets(folder / writer.segment_name(3)) == [4]
    alone = write(tmp_path / "alone", {0: CROSSING[0]})
    assert offsets(alone / writer.segment_name(0)) == []
    assert "producer 7 since offset 0" in warnings_of(alone)[0]


def test_several_directories_of_one_partition(tmp_path: Path) -> None:
    """Where one directory holds the data and another the markers, they make one log."""
    one = write(tmp_path / "a", {base: CROSSING[base] for base in (0, 3)})
    other = write(tmp_path / "b", {base: CROSSING[base] for base in (3, 5)})
    assert offsets([one, other]) == [1, 2, 4]
    assert offsets([one, other], endingOffsets={"ledger": {"0": 3}}) == [1, 2]


def test_log_start_inside_a_transaction(tmp_path: Path) -> None:
    """Where the first data of a transaction are deleted, the rest follows its marker; a marker without
    data ends nothing."""
    folder = write(tmp_path, {5: [marker("abort", 5, 9), data(6, 7), marker("abort", 7, 7), data(8, 9)]})
    assert offsets(folder) == []
    write(tmp_path, {9: [marker("commit", 9, 9)]})
    assert offsets(folder) == [8]


def test_other_control_records_say_nothing(tmp_path: Path) -> None:
    """Empty control batches and types that are not ABORT or COMMIT end no transaction; longer keys do."""
    fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 1, "transactional": True, "control": True}
    nothing = writer.record_batch([], base_offset=1, last_offset_delta=0, max_timestamp=1, **fields)
    others = [
        writer.record_batch([Rec(key=struct.pack(">hh", 0, kind), value=b"")], base_offset=offset, **fields)
        for offset, kind in ((2, 2), (3, 9), (4, 257))
    ]
    folder = write(tmp_path, {0: [data(0, 7), nothing, *others]})
    assert offsets(folder) == []
    longer = writer.record_batch([Rec(key=struct.pack(">hhi", 3, 1, 0), value=b"")], base_offset=5, **fields)
    write(tmp_path, {0: [data(0, 7), nothing, *others, longer]})
    assert offsets(folder) == [0]


def test_transactional_without_a_producer(tmp_path: Path) -> None:
    """A batch that names no producer is in no transaction, whatever its flag says: a consumer is given it."""
    folder = write(tmp_path, {0: [data(0, -1), data(1)]})
    assert offsets(folder) == [0, 1]


def test_a_split_without_transactions_looks_at_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks list directories and read ahead only for producers whose marker is not in sight."""
    folder = write(tmp_path, {0: [data(0), data(1, 7), marker("commit", 2, 7)], 3: [data(3)]})
    reader = kafkaseg.scan(folder, columns=["offset"], isolationLevel="read_committed")
    monkeypatch.setattr(following, "list_whole", lambda *_: pytest.fail("listed"))
    assert reader.read_all()["offset"].to_pylist() == [0, 1, 3]


# --- the last stable offset ------------------------------------------------------------------------------------------


def test_open_transactions_in_the_plan(tmp_path: Path) -> None:
    """Whose transactions are open, since which offset and when, what that withholds, and what to do about it."""
    batches = [data(0), data(1, 7, timestamp=86_400_000), data(2, 8), marker("commit", 3, 8), data(4, 9)]
    (warning,) = warnings_of(write(tmp_path, {0: batches}))
    size = sum(map(len, batches[1:]))
    assert f"ledger-0 ends at its last stable offset, 1 (isolationLevel=read_committed): {size} bytes from" in warning
    assert "producer 7 since offset 1 (1970-01-02T00:00:00.000Z), producer 9 since offset 4 (" in warning
    assert "--topic ledger --partition 0 --start-offset 1" in warning
    assert offsets(tmp_path) == [0]


@pytest.mark.parametrize("clock", ["CreateTime", "LogAppendTime", "a delete horizon"])
def test_an_open_transaction_has_one_beginning(tmp_path: Path, clock: str) -> None:
    """The plan states the time that view=transactions states: that of the first record, where the header has it."""
    fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 1, "transactional": True}
    fields |= {"timestamp_type": int(clock == "LogAppendTime"), "delete_horizon": clock == "a delete horizon"}
    recs = [Rec(0, 1_000_000, b"k", b"value"), Rec(1, 4_600_000, b"k", b"value")]
    folder = write(tmp_path, {0: [data(0), writer.record_batch(recs, base_offset=1, **fields)]})
    wanted = "00:16:40.000Z" if clock == "CreateTime" else "01:16:40.000Z"
    (warning,) = warnings_of(folder)
    assert f"producer 7 since offset 1 (1970-01-01T{wanted})" in warning
    [row] = kafkaseg.scan(folder, view="transactions").read_all().to_pylist()
    assert row["firstTimestamp"].isoformat(timespec="milliseconds") == f"1970-01-01T{wanted.removesuffix('Z')}+00:00"


def test_many_open_transactions(tmp_path: Path) -> None:
    """Five are named, the rest counted."""
    (warning,) = warnings_of(write(tmp_path, {0: [data(at, at) for at in range(12)]}))
    assert warning.count("producer ") == 5 and " and 7 more;" in warning


def test_bounds_before_the_open_transaction(tmp_path: Path) -> None:
    """A scan that ends before it is whole, and its plan does not warn."""
    folder = write(tmp_path, {0: [data(0), data(1), data(2, 7)]})
    assert warnings_of(folder, endingOffsets={"ledger": {"0": 2}}) == ()
    assert offsets(folder, endingOffsets={"ledger": {"0": 2}}) == [0, 1]
    assert len(warnings_of(folder, endingOffsets={"ledger": {"0": 3}})) == 1


def test_nothing_is_walked_that_cannot_matter(tmp_path: Path) -> None:
    """With a snapshot after the bounds, planning does not read on to the end of the log."""
    folder = write(tmp_path, {0: [data(0, 7), marker("commit", 1, 7)], 2: [flipped(data(2))]})
    (folder / writer.segment_name(2, ".snapshot")).write_bytes(snapshot({7: -1}))
    assert offsets(folder, endingOffsets={"ledger": {"0": 2}}) == [0]
    with pytest.raises(CorruptRecordError, match="do not have the CRC"):
        offsets(folder)


def test_state_of_a_snapshot(tmp_path: Path) -> None:
    """What was open at the newest snapshot counts, though its data lie before; its marker after it ends it."""
    segments = {0: [data(0), data(1, 7)], 2: [data(2)]}
    folder = write(tmp_path, segments)
    (folder / writer.segment_name(2, ".snapshot")).write_bytes(snapshot({7: 1, 8: -1}))
    assert offsets(folder) == [0]
    write(tmp_path, {2: [data(2), marker("commit", 3, 7)]})
    assert offsets(folder) == [0, 1, 2]


@pytest.fixture
def late_copy(tmp_path: Path) -> list[Path]:
    """Two copies. The second one was fetched from offset 2 on: its state lacks what began before."""
    whole = write(tmp_path / "whole", {0: [data(0, 7), data(1)], 2: [data(2, 7), data(3)]})
    later = {2: [data(2, 7), data(3)], 4: [data(4), data(5, 8)], 6: [data(6)]}
    late = write(tmp_path / "late", later)
    (late / writer.segment_name(6, ".snapshot")).write_bytes(snapshot({7: 2, 8: 5}))
    return [whole, late]


def test_a_copy_that_begins_later_does_not_know_what_was_open(late_copy: list[Path]) -> None:
    """Its snapshot states that a transaction began at its own first batch. The log begins earlier, and shows more."""
    assert offsets(late_copy) == offsets(late_copy[::-1]) == []
    assert any("producer 7 since offset 0" in warning for warning in warnings_of(late_copy))


def test_a_copy_that_begins_later_counts_where_nothing_from_before_is_open(late_copy: list[Path]) -> None:
    """Another copy's snapshot shows that. Then the newer one of the later copy spares reading the log.

    The newer one states offset 4, which no batch does. So it shows whether it was used.
    """
    whole, late = late_copy
    (late / writer.segment_name(6, ".snapshot")).write_bytes(snapshot({8: 4}))
    at_two = whole / writer.segment_name(2, ".snapshot")
    for known, stable in (({7: -1}, 4), ({}, 4), ({7: 0}, 0), ({7: -1, 9: 1}, 1)):
        at_two.write_bytes(snapshot(known))
        assert f"last stable offset, {stable} " in warnings_of(late_copy)[-1]
    at_two.unlink()
    (whole / writer.segment_name(1, ".snapshot")).write_bytes(snapshot({7: -1}))
    assert "last stable offset, 2 " in warnings_of(late_copy)[-1]


def test_a_disk_that_begins_after_the_tier(late_copy: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A tier has what the disk deleted. The disk's broker knew it, so its snapshot counts."""
    whole, late = late_copy
    (late / writer.segment_name(6, ".snapshot")).write_bytes(snapshot({8: 4}))
    monkeypatch.setattr("kafka_segment_source.partition.chain.is_shown", lambda path: path == str(whole))
    assert "last stable offset, 4 " in warnings_of(late_copy)[-1]


def test_transaction_from_before_the_log(tmp_path: Path) -> None:
    """Open since before the first offset that is there: nothing is stable, and the plan says so."""
    folder = write(tmp_path, {5: [data(5)], 6: [data(6)]})
    (folder / writer.segment_name(5, ".snapshot")).write_bytes(snapshot({7: 2}))
    assert offsets(folder) == []
    (warning,) = warnings_of(folder)
    assert "last stable offset, 2 " in warning and "producer 7 since offset 2 (before the files begin)" in warning


BAD_SNAPSHOTS: dict[str, Callable[[bytes], bytes]] = {
    "of another version": lambda _: snapshot({7: 1}, version=2),
    "empty": lambda _: b"",
    "of nine bytes": lambda good: good[:9],
    "cut": lambda good: good[:-1],
    "longer": lambda good: good + b"\x00",
    "with a wrong CRC": lambda good: good[:-1] + b"\x77",
    "with a count that is too large": lambda good: of_checked(struct.pack(">i", 2) + good[10:]),
    "with a count that is too small": lambda good: of_checked(struct.pack(">i", 0) + good[10:]),
    "with a negative count": lambda good: of_checked(struct.pack(">i", -1) + good[10:]),
}


@pytest.mark.parametrize("kind", BAD_SNAPSHOTS)
def test_bad_snapshots_are_passed_over(tmp_path: Path, kind: str) -> None:
    """One that cannot be believed leaves the choice to the next older one."""
    (tmp_path / writer.segment_name(3, ".snapshot")).write_bytes(BAD_SNAPSHOTS[kind](snapshot({7: 1})))
    assert newest_state(str(tmp_path), LOCAL, lambda offset: True) is None
    (tmp_path / writer.segment_name(2, ".snapshot")).write_bytes(snapshot({7: 1, 8: -1}))
    state = newest_state(str(tmp_path), LOCAL, lambda offset: True)
    assert state is not None and (state.offset, state.open_transactions) == (2, {7: 1})
    assert newest_state(str(tmp_path), LOCAL, lambda offset: offset < 2) is None
    assert newest_state(str(tmp_path / "nowhere"), LOCAL, lambda offset: True) is None


def test_a_snapshot_that_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fails, or access is denied: the state before it is used, and the file named."""
    for offset in (2, 3):
        (tmp_path / writer.segment_name(offset, ".snapshot")).write_bytes(snapshot({offset: 1}))
    read_at = store._LocalFile.read_at

    def fails(file: Any, position: int, count: int) -> bytes:
        if not reads:
            reads.append(position)
            raise OSError(errno.EIO, "no words")
        return read_at(file, position, count)

    reads: list[int] = []
    monkeypatch.setattr(store._LocalFile, "read_at", fails)
    faults: list[str] = []

    state = newest_state(str(tmp_path), LOCAL, lambda offset: True, faults)

    assert state is not None and state.offset == 2
    assert faults == [
        f"file {str(tmp_path / writer.segment_name(3, '.snapshot'))!r} cannot be read: Input/output error; the last stable"
        " offset is looked for without it (isolationLevel=read_committed)"
    ]


def test_the_newest_snapshot_counts(tmp_path: Path) -> None:
    """Of several that can be believed the newest spares most reading."""
    for offset in (9, 12, 3):
        (tmp_path / writer.segment_name(offset, ".snapshot")).write_bytes(snapshot({7: 1, offset: offset}))
    state = newest_state(str(tmp_path), LOCAL, lambda offset: offset < 12)
    assert state is not None and (state.offset, state.open_transactions) == (9, {7: 1, 9: 9})


@pytest.mark.parametrize("earlier", [{}, {7: 2}, {8: 1}])
def test_snapshots_that_contradict_each_other(earlier: dict[int, int], tmp_path: Path) -> None:
    """A transaction that is open since before the snapshot before is open there too: one has another's name."""
    for offset, is_open in ((12, {7: 1}), (9, earlier), (3, {7: 1})):
        (tmp_path / writer.segment_name(offset, ".snapshot")).write_bytes(snapshot(is_open))
    faults: list[str] = []

    state = newest_state(str(tmp_path), LOCAL, lambda offset: True, faults)

    assert state is not None and (state.offset, state.open_transactions) == (3, {7: 1})
    [fault] = faults
    assert "09.snapshot' and " in fault and "12.snapshot' contradict each other about open transactions" in fault
    (tmp_path / writer.segment_name(3, ".snapshot")).unlink()
    assert newest_state(str(tmp_path), LOCAL, lambda offset: True) is None


def test_other_files_are_no_snapshots(tmp_path: Path) -> None:
    """Names that are not 20 digits and .snapshot, and directories, are left alone."""
    for name in ("2.snapshot", "00000000000000000002.snapshot.deleted", "0000000000000000000x.snapshot"):
        (tmp_path / name).write_bytes(snapshot({7: 1}))
    (tmp_path / writer.segment_name(2, ".snapshot")).mkdir()
    assert newest_state(str(tmp_path), LOCAL, lambda offset: True) is None


def test_snapshot_beyond_the_log(tmp_path: Path) -> None:
    """A snapshot after the end of the log is of another log: the one before it is used, or the log itself."""
    folder = write(tmp_path, {0: [data(0), data(1, 7), marker("commit", 2, 7)]})
    (folder / writer.segment_name(4, ".snapshot")).write_bytes(snapshot({7: 1}))
    assert offsets(folder) == [0, 1]
    (folder / writer.segment_name(3, ".snapshot")).write_bytes(snapshot({7: 1}))
    assert offsets(folder) == [0]
    assert offsets(folder, trustIndexes=False) == [0, 1]


def test_no_usable_snapshot(tmp_path: Path) -> None:
    """Planning then reads the log from its start, and says what that costs; not so of the first segment of all."""
    folder = write(tmp_path, CROSSING)
    size = sum(len(batch) for batches in CROSSING.values() for batch in batches)
    (warning,) = warnings_of(folder)
    assert "ledger-0 has no usable .snapshot" in warning and f": {size} bytes were read" in warning
    assert warnings_of(folder, trustIndexes=False) == ()
    assert warnings_of(write(tmp_path / "one", {0: [data(0)]})) == ()


def test_high_watermark(tmp_path: Path) -> None:
    """With endAt=highWatermark a transaction whose marker is not below it is open."""
    folder = write(tmp_path, {0: [data(0), data(1, 7), data(2), marker("commit", 3, 7), data(4)]})
    (folder / writer.segment_name(5, ".snapshot")).write_bytes(snapshot({7: -1}))  # knows what came after it
    checkpoint = tmp_path / "replication-offset-checkpoint"
    for watermark, wanted in ((5, [0, 1, 2, 4]), (4, [0, 1, 2]), (3, [0]), (1, [0])):
        checkpoint.write_text(f"0\n1\nledger 0 {watermark}\n")
        assert offsets(folder, endAt="highWatermark") == wanted


# --- damage and loss -------------------------------------------------------------------------------------------------

TWICE = [data(0, 7), marker("commit", 1, 7), data(2, 7), marker("abort", 3, 7), data(4), data(5, 7)]
AFTER = [marker("commit", 6, 7)]
DAMAGED = {"the marker": (1, [4, 5]), "a batch between": (0, [4, 5]), "the other marker": (3, [0, 4, 5])}


@pytest.mark.parametrize("what", DAMAGED)
def test_damage_before_the_marker(tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture) -> None:
    """The next marker after damage may be another transaction's: what was open at the damage is withheld and named."""
    number, wanted = DAMAGED[what]
    batches = [flipped(batch) if at == number else batch for at, batch in enumerate(TWICE)]
    folder = write(tmp_path, {0: batches, 6: AFTER})
    (folder / writer.segment_name(6, ".snapshot")).write_bytes(snapshot({7: 5}))
    with caplog.at_level(logging.WARNING):
        assert offsets(folder, mode="DROPMALFORMED") == wanted
    named = withheld(caplog)
    assert len(named) == (number != 0)
    assert all("producer 7 around offset" in each and "no marker before the next damage" in each for each in named)
    assert sum("skipped up to byte" in message for message in caplog.messages) == 1
    with pytest.raises(CorruptRecordError, match="do not have the CRC"):
        offsets(folder)


def test_damage_in_a_later_segment(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """On the way to a marker FAILFAST fails, though the damage lies outside the bounds; DROPMALFORMED withholds."""
    folder = write(tmp_path, {0: [data(0), data(1, 7)], 2: [flipped(data(2)), marker("commit", 3, 7)], 4: [data(4)]})
    (folder / writer.segment_name(4, ".snapshot")).write_bytes(snapshot({}))
    bounds = {"endingOffsets": {"ledger": {"0": 2}}}
    with pytest.raises(CorruptRecordError) as caught:
        offsets(folder, **bounds)
    assert caught.value.path.endswith(writer.segment_name(2))
    with caplog.at_level(logging.WARNING):
        assert offsets(folder, mode="DROPMALFORMED", **bounds) == [0]
    assert len(withheld(caplog)) == 1


def test_control_record_that_cannot_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A key too short to hold a type, under a good CRC, is damage."""
    fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 1, "transactional": True, "control": True}
    bad = writer.record_batch([Rec(key=b"\x00\x00\x01", value=b"")], base_offset=1, **fields)
    folder = write(tmp_path, {0: [data(0, 7), bad, marker("commit", 2, 7), data(3)]})
    with pytest.raises(CorruptRecordError, match="key is too short") as caught:
        offsets(folder)
    assert (caught.value.offset, caught.value.found) == (1, "3 bytes")
    with caplog.at_level(logging.WARNING):
        assert offsets(folder, mode="DROPMALFORMED") == [3]
    assert len(withheld(caplog)) == 1


def test_damaged_marker_of_the_last_transaction(tmp_path: Path) -> None:
    """While looking for the last stable offset damage is reported, and what it may have ended stays open."""
    folder = write(tmp_path, {0: [data(0), data(1, 7), flipped(marker("commit", 2, 7)), data(3)]})
    assert offsets(folder, mode="DROPMALFORMED") == [0]
    skipped, still_open = warnings_of(folder, mode="DROPMALFORMED")
    assert "skipped in looking for the last stable offset" in skipped and "offset 2" in skipped
    assert "producer 7 since offset 1" in still_open
    with pytest.raises(CorruptRecordError):
        warnings_of(folder)


def test_what_was_known_before_the_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage that another producer's search runs into does not unsettle what came before it."""
    later = [marker("commit", 2, 7), flipped(data(3)), marker("commit", 4, 7), marker("commit", 5, 8)]
    folder = write(tmp_path, {0: [data(0, 8), data(1, 7)], 2: later, 6: [data(6)]})
    (folder / writer.segment_name(6, ".snapshot")).write_bytes(snapshot({}))
    monkeypatch.setitem(SplitFile.__init__.__kwdefaults__, "chunk_bytes", len(data(0, 8)))
    assert offsets(folder, mode="DROPMALFORMED") == [1, 6]


def test_damage_at_the_end_of_a_segment(tmp_path: Path) -> None:
    """A marker lost as the last batch of its segment is not taken for the one in the next."""
    folder = write(tmp_path, {0: [data(0, 7), flipped(marker("abort", 1, 7))], 2: [data(2, 7), marker("commit", 3, 7)]})
    (folder / writer.segment_name(2, ".snapshot")).write_bytes(snapshot({}))
    assert offsets(folder, mode="DROPMALFORMED") == [2]


def test_what_begins_after_the_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that hold no offset may stand between batches: a transaction that begins right after them is known."""
    batches = [data(0, 8), b"\x07" * 90, data(1, 7), marker("commit", 2, 8), marker("commit", 3, 7)]
    folder = write(tmp_path, {0: batches, 4: [data(4)]})
    (folder / writer.segment_name(4, ".snapshot")).write_bytes(snapshot({}))
    monkeypatch.setitem(SplitFile.__init__.__kwdefaults__, "chunk_bytes", len(data(0, 8)))
    assert offsets(folder, mode="DROPMALFORMED") == [1, 4]


def test_a_segment_with_the_marker_is_missing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What has no marker in the files is lost data: an error, or withheld and named under failOnDataLoss=false."""
    folder = write(tmp_path, {0: [data(0), data(1, 7)], 3: [data(3, 7)], 4: [data(4)]})
    (folder / writer.segment_name(4, ".snapshot")).write_bytes(snapshot({7: -1}))
    bounds = {"endingOffsets": {"ledger": {"0": 2}}}
    with pytest.raises(DataLossError, match=r"producer 7 around offset 1 in .* has no marker in the files"):
        offsets(folder, **bounds)
    with caplog.at_level(logging.WARNING):
        assert offsets(folder, failOnDataLoss=False, **bounds) == [0]
    assert len(withheld(caplog)) == 1


@pytest.mark.parametrize("before_hole", [{}, {1: [data(1)]}], ids=["at once", "later"])
def test_a_marker_after_a_hole_is_not_believed(tmp_path: Path, before_hole: dict[int, list[bytes]]) -> None:
    """Where a segment is missing between a batch and the next marker, that may be another transaction's."""
    folder = write(tmp_path, {0: [data(0, 7)], **before_hole, 4: [data(4, 7), marker("commit", 5, 7)]})
    bounds = {"endingOffsets": {"ledger": {"0": 1}}}
    assert offsets(folder, failOnDataLoss=False, **bounds) == []
    with pytest.raises(DataLossError, match="has no marker in the files"):
        offsets(folder, **bounds)


def test_messages_name_file_and_offset(tmp_path: Path) -> None:
    """The error about a missing marker says whose, where and what to do."""
    folder = write(tmp_path, {0: [data(0, 7)], 1: [data(1)]})
    (folder / writer.segment_name(1, ".snapshot")).write_bytes(snapshot({7: -1}))
    with pytest.raises(DataLossError) as caught:
        offsets(folder)
    assert re.search(r"producer 7 around offset 0 in .*/ledger-0/0{20}\.log has no marker", str(caught.value))
    assert "failOnDataLoss=false withholds" in str(caught.value)
