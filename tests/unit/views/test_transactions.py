"""view=transactions over the logs of real brokers, whose producers say what they did, and over small awkward logs."""

from __future__ import annotations

import re
import shutil
import struct
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError, DataLossError, OptionError
from kafka_segment_source.views.transaction_replay import Replay
from tests.support import naive, writer
from tests.support.ledgers import CROSSING, data, flipped, marker, snapshot, write
from tests.support.rows import FIXTURES
from tests.support.writer import Rec

LEDGER = FIXTURES / "transactions" / "data"
STATES = {b"committed": "committed", b"aborted": "aborted", b"open": "open"}

Row = dict[str, Any]


def viewed(path: Any, **options: Any) -> list[Row]:
    rows: list[Row] = kafkaseg.scan(path, view="transactions", **options).read_all().to_pylist()
    return rows


def brief(rows: Sequence[Row]) -> list[tuple[int, int, int | None, str]]:
    """Producer, first offset, offset of the marker and state of each row, by first offset."""
    found = [(each["producerId"], each["firstOffset"], each["lastOffset"], each["state"]) for each in rows]
    return sorted(found, key=lambda each: each[1])


# --- real brokers ----------------------------------------------------------------------------------------------------


def records_of(partition: str) -> list[naive.Record]:
    """All records of a partition, by the naive decoder."""
    logs = sorted((LEDGER / partition).glob("*.log"))
    return [record for log in logs for record in naive.decode_log(log.read_bytes())]


@pytest.mark.parametrize("partition", ["ledger-0", "ledger-1"])
def test_the_states_are_what_the_producer_did(partition: str) -> None:
    """Each transactional record says its fate in a header. It lies in one row of its producer, of that state."""
    rows = viewed(LEDGER / partition)
    inside: Counter[int] = Counter()
    for record in records_of(partition):
        if record.is_control or not record.is_transactional:
            continue
        [at] = [
            at
            for at, row in enumerate(rows)
            if row["producerId"] == record.producer_id
            and row["firstOffset"] <= record.offset < (row["lastOffset"] or 2**62)
        ]
        assert rows[at]["state"] == STATES[dict(record.headers)[b"fate"] or b""]
        inside[at] += 1
    assert [row["records"] for row in rows] == [inside[at] for at in range(len(rows))]


def test_how_many_the_producers_made() -> None:
    """What tests/fixtures/scenarios.py did, transaction by transaction."""
    counts = Counter((row["topic"], row["partition"], row["state"]) for row in viewed(LEDGER))
    one_by_one, interleaved, across, last = 3, 2, 1, 1
    assert counts == {
        ("ledger", 0, "committed"): one_by_one + interleaved + across + last,
        ("ledger", 0, "aborted"): one_by_one + interleaved + (1 + 3) + last,
        ("ledger", 0, "open"): 1,
        ("ledger", 1, "committed"): one_by_one + last + 1,
        ("ledger", 1, "aborted"): one_by_one + last,
        ("ledger-v2", 0, "committed"): 6,
        ("ledger-v2", 0, "aborted"): 1,  # of the producer that was killed
    }


def test_a_new_epoch_for_each_transaction() -> None:
    """transaction.version=2: the marker's epoch is one above that of the data, which the row has."""
    rows = viewed(LEDGER / "ledger-v2-0")
    markers = {record.offset: record for record in records_of("ledger-v2-0") if record.is_control}
    assert [row["producerEpoch"] for row in rows] == [0, 1, 2, 4, 6, 7, 8]
    assert all(markers[row["lastOffset"]].producer_epoch > row["producerEpoch"] for row in rows)
    for row in rows:
        marker = markers[row["lastOffset"]]
        assert row["coordinatorEpoch"] == struct.unpack(">hi", marker.value or b"")[1]
        assert row["durationMs"] == marker.timestamp - round(row["firstTimestamp"].timestamp() * 1000)


def test_what_the_open_one_withholds() -> None:
    """All that a read_committed consumer is not given, of any producer."""
    [row] = [row for row in viewed(LEDGER) if row["state"] == "open"]
    after = [each for each in records_of("ledger-0") if each.offset >= row["firstOffset"]]
    everything = kafkaseg.scan(LEDGER / "ledger-0", view="batches").read_all().to_pylist()
    assert row["withheldRecords"] == sum(not each.is_control for each in after)
    assert row["withheldBytes"] == sum(each["size"] for each in everything if each["baseOffset"] >= row["firstOffset"])
    [warning] = kafkaseg.plan(LEDGER / "ledger-0", isolationLevel="read_committed").warnings
    assert f"stable offset, {row['firstOffset']} " in warning
    assert f"{row['withheldBytes']:,} bytes" in warning


def test_nothing_is_said_of_a_sound_log(caplog: pytest.LogCaptureFixture) -> None:
    """The .txnindex files of a real broker contradict nothing."""
    viewed(LEDGER)
    viewed(FIXTURES / "compacted" / "data")
    assert caplog.messages == []


# --- small logs ------------------------------------------------------------------------------------------------------


OF_CROSSING = [(7, 0, 3, "aborted"), (8, 2, 5, "committed"), (7, 4, 6, "committed")]


def test_every_column(tmp_path: Path) -> None:
    """By hand, for a transaction that ended and one that is open."""
    batches = [data(0, 7, 3), data(3, 8, 2), data(5, 7, 1, 1500), marker("commit", 6, 7), data(7, None, 4)]
    ended, is_open = viewed(write(tmp_path, {0: batches}), timeZone="UTC")
    for row in (ended, is_open):
        for name in ("firstTimestamp", "lastTimestamp"):
            row[name] = round(row[name].timestamp() * 1000)
    assert ended == {
        "topic": "ledger",
        "partition": 0,
        "producerId": 7,
        "producerEpoch": 1,
        "firstOffset": 0,
        "lastOffset": 6,
        "state": "committed",
        "batches": 2,
        "records": 4,
        "bytes": len(batches[0]) + len(batches[2]),
        "firstTimestamp": 1000,
        "lastTimestamp": 1500,
        "durationMs": 1000,
        "coordinatorEpoch": 9,
        "withheldRecords": None,
        "withheldBytes": None,
    }
    assert (
        is_open
        == ended
        | {
            "producerId": 8,
            "firstOffset": 3,
            "lastOffset": None,
            "state": "open",
            "batches": 1,
            "records": 2,
            "bytes": len(batches[1]),
            "lastTimestamp": 1001,
            "durationMs": 1000,  # up to the newest timestamp of the partition, the marker's
            "coordinatorEpoch": None,
            "withheldRecords": 7,
            "withheldBytes": sum(map(len, batches[1:])),
        }
    )


def test_markers_in_later_segments(tmp_path: Path) -> None:
    """And markers without data, which end nothing and are no row."""
    folder = write(tmp_path, {**CROSSING, 7: [marker("abort", 7, 7), marker("commit", 8, 99)]})
    assert brief(viewed(folder)) == OF_CROSSING


def test_one_file_of_a_log(tmp_path: Path) -> None:
    """A path of one file gives the transactions with a part in it, and finds their markers beside it."""
    folder = write(tmp_path, CROSSING)
    assert brief(viewed(folder / writer.segment_name(0))) == OF_CROSSING[:2]
    assert brief(viewed(folder / writer.segment_name(3))) == OF_CROSSING
    assert brief(viewed(folder / writer.segment_name(5))) == OF_CROSSING[1:]


def test_several_directories_of_one_partition(tmp_path: Path) -> None:
    """Where one directory holds the data and another the markers, they make one log."""
    one = write(tmp_path / "a", {base: CROSSING[base] for base in (0, 3)})
    other = write(tmp_path / "b", {base: CROSSING[base] for base in (3, 5)})
    assert brief(viewed([one, other])) == OF_CROSSING


def test_a_marker_that_another_copy_mends(tmp_path: Path) -> None:
    """Damage in one copy is no damage if the other holds the marker."""
    one = write(tmp_path / "a", {**CROSSING, 3: [flipped(CROSSING[3][0]), CROSSING[3][1]]})
    other = write(tmp_path / "b", CROSSING)
    assert brief(viewed([one, other])) == OF_CROSSING


@pytest.mark.parametrize("segment", [4, 6])
def test_what_began_in_another_copy(segment: int, tmp_path: Path) -> None:
    """A gap behind the seam of two compacted copies may have held the marker of what began before the seam. It has no
    part in what began behind it, and in what ended before the gap."""
    one = write(tmp_path / "a", {0: [data(0, 7), data(1, 9)]})
    behind = [data(6, None), marker("commit", 7, 8), marker("commit", 8, 9)]
    other = write(tmp_path / "b", {2: [data(2, 8), marker("commit", 3, 7)], segment: behind})
    for directory in (tmp_path / "a", tmp_path / "b"):
        (directory / "cleaner-offset-checkpoint").write_text("0\n1\nledger 0 9\n")
    found = brief(viewed([one, other]))
    assert found == [(7, 0, 3, "committed"), (9, 1, None, "unknown"), (8, 2, 7, "committed")]


def test_a_beginning_that_retention_deleted(tmp_path: Path) -> None:
    """What is left is there. With the snapshot of the first segment, the first offset is the true one, and a
    transaction without a record that is left is a row too."""
    later = {5: [data(5, 7), marker("commit", 6, 7), marker("abort", 7, 8), data(8)]}
    folder = write(tmp_path, later)
    assert brief(viewed(folder)) == [(7, 5, 6, "committed")]
    (folder / writer.segment_name(5, ".snapshot")).write_bytes(snapshot({7: 2, 8: 3, 9: 4}))
    assert brief(viewed(folder)) == [(7, 2, 6, "committed"), (8, 3, 7, "aborted"), (9, 4, None, "open")]
    rows = {row["producerId"]: row for row in viewed(folder)}
    assert [rows[each]["records"] for each in (7, 8, 9)] == [1, 0, 0]
    assert [rows[each]["durationMs"] for each in (7, 8, 9)] == [1000, None, None]
    assert rows[9]["withheldBytes"] == sum(map(len, later[5]))


def test_the_log_start(tmp_path: Path) -> None:
    """Records below it are not counted. One that ended below it is no row; one that is open there still is."""
    folder = write(tmp_path, {0: [data(0, 7), marker("commit", 1, 7), data(2, 8, 2), data(4, 9), data(5, 8), data(6)]})
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nledger 0 5\n")
    rows = viewed(folder)
    assert brief(rows) == [(8, 2, None, "open"), (9, 4, None, "open")]
    assert [(row["records"], row["withheldRecords"]) for row in rows] == [(1, 2), (0, 2)]


# --- damage and loss -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("crcs", [False, True])
def test_a_damaged_marker(tmp_path: Path, crcs: bool, large: bool, caplog: pytest.LogCaptureFixture) -> None:
    """FAILFAST names it. DROPMALFORMED knows no state of what was open, and goes by the markers after it."""
    size = 20_000 if large else 5
    good = [marker("commit", 3, 9), data(4, 7, 1, 1000, size), marker("commit", 5, 7), data(6, 8)]
    batches = [data(0, 7, 1, 1000, size), data(1, 9, 1, 1000, size), flipped(marker("abort", 2, 7)), *good]
    folder = write(tmp_path, {0: batches})
    with pytest.raises(CorruptRecordError) as caught:
        viewed(folder, checkCrcs=crcs)
    assert (caught.value.position, caught.value.offset) == (len(batches[0]) + len(batches[1]), 2)
    found = viewed(folder, checkCrcs=crcs, mode="DROPMALFORMED")
    assert brief(found) == [
        (7, 0, None, "unknown"),
        (9, 1, None, "unknown"),
        (7, 4, 5, "committed"),
        (8, 6, None, "open"),
    ]
    assert {row["withheldBytes"] for row in found[:2]} == {None}
    skipped, unknown = caplog.messages
    assert skipped.startswith("skipped (mode=DROPMALFORMED): ")
    assert "transaction of producer 7 from offset 0 on, producer 9 from offset 1 on ended" in unknown


def test_a_segment_with_the_marker_is_missing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An error, or the state unknown. The marker after the gap is another transaction's."""
    folder = write(tmp_path, {0: CROSSING[0], 5: [data(5, 7), marker("commit", 6, 7), marker("commit", 7, 8)]})
    with pytest.raises(DataLossError):
        viewed(folder)
    assert brief(viewed(folder, failOnDataLoss=False)) == [
        (7, 0, None, "unknown"),
        (8, 2, None, "unknown"),
        (7, 5, 6, "committed"),
    ]
    assert any("are missing" in said for said in caplog.messages)


def test_a_transaction_before_a_gap_is_not_open(tmp_path: Path) -> None:
    """The cleaner stays below an open transaction. So its marker was in the gap, or it is lost."""
    folder = write(tmp_path, {0: [data(0, 7), data(5, 8), data(6)]})
    assert brief(viewed(folder)) == [(7, 0, None, "unknown"), (8, 5, None, "open")]


def test_a_wrapper_shows_no_gap(tmp_path: Path) -> None:
    """It states only its last offset."""
    wrapper = writer.message_set_v1([Rec(at, 1000, b"k", b"v") for at in range(4)], base_offset=1, codec="gzip")
    folder = write(tmp_path, {0: [data(0, 7), wrapper]})
    assert brief(viewed(folder)) == [(7, 0, None, "open")]


def test_a_seam_where_the_copy_begins_with_nothing(tmp_path: Path) -> None:
    """The first part of the other copy has no batch, as its offsets end before. The gap after it is at the seam."""
    one = write(tmp_path / "a", {0: [data(0), data(1)], 5: [data(5)], 6: [data(6, 7)]})
    other = write(tmp_path / "b", {0: [data(0)], 2: [data(2, 7)]})
    (tmp_path / "b" / "cleaner-offset-checkpoint").write_text("0\n1\nledger 0 2\n")
    assert brief(viewed([one, other])) == [(7, 2, None, "unknown"), (7, 6, None, "open")]


def test_an_empty_file_in_the_middle(tmp_path: Path) -> None:
    """Its records are gone, and with them perhaps a marker."""
    folder = write(tmp_path, {**CROSSING, 3: []})
    with pytest.raises(DataLossError):
        viewed(folder)
    assert brief(viewed(folder, failOnDataLoss=False)) == [(7, 0, None, "unknown"), (8, 2, None, "unknown")]


def test_the_last_segment_is_missing(tmp_path: Path) -> None:
    """By an index file without its .log. What is open at the end of the files may have ended."""
    folder = write(tmp_path, {0: CROSSING[0]})
    index = writer.time_index([(2000, 4)], 3)
    (folder / writer.segment_name(3, ".timeindex")).write_bytes(index)
    with pytest.raises(DataLossError):
        viewed(folder)
    assert {row["state"] for row in viewed(folder, failOnDataLoss=False)} == {"unknown"}


def test_a_control_record_that_cannot_be_read(tmp_path: Path) -> None:
    """Its CRC is right, but its key is too short for a type: it may have been the marker."""
    fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 1, "transactional": True, "control": True}
    short = writer.record_batch([Rec(key=b"\0", value=b"")], base_offset=1, **fields)
    folder = write(tmp_path, {0: [data(0, 7), short, data(2, 7), marker("commit", 3, 7)]})
    with pytest.raises(CorruptRecordError):
        viewed(folder)
    assert brief(viewed(folder, mode="DROPMALFORMED")) == [(7, 0, None, "unknown"), (7, 2, 3, "committed")]


def test_a_marker_that_a_cleaner_takes_out_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An aborted record and its marker go while the log is walked: it is walked again, and that is no row."""
    segments = {0: [data(0, 7), data(1)], 2: [marker("abort", 2, 7), data(3, 7)], 4: [marker("commit", 4, 7)]}
    folder = write(tmp_path, segments)
    cleaned = {0: [data(1)], 2: [data(3, 7)]}
    add = Replay.add

    def add_and_clean(*arguments: Any) -> Any:
        yield from add(*arguments)
        for base, batches in cleaned.items():
            new = tmp_path / "new"
            new.write_bytes(b"".join(batches))
            new.replace(folder / writer.segment_name(base))
        cleaned.clear()

    monkeypatch.setattr(Replay, "add", add_and_clean)
    assert brief(viewed(folder)) == [(7, 3, 4, "committed")]
    assert not cleaned


def test_a_torn_end(tmp_path: Path) -> None:
    """A batch that was being written is no damage, and a marker that is not whole ends nothing."""
    folder = write(tmp_path, {0: [data(0, 7), marker("commit", 1, 7)[:-3]]})
    assert brief(viewed(folder)) == [(7, 0, None, "open")]


def test_headers_alone_where_batches_are_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With large batches, no byte of a data batch is read but its header."""
    batches = [data(at, 7, 1, 1000, 20_000) for at in range(100)]
    folder = write(tmp_path, {0: [*batches, marker("commit", 100, 7)]})
    monkeypatch.setattr(
        "kafka_segment_source.storage.files.InputFile.read_into", lambda *_: pytest.fail("read a whole range")
    )
    assert brief(viewed(folder)) == [(7, 0, 100, "committed")]


# --- .txnindex -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([(7, 0, 3, 3)], None),
        ([], "lacks the abort of producer 7 from offset 0 to 3"),
        ([(7, 1, 3, 3)], "lists an abort of producer 7 from offset 1 to 3, but the log has it from 0 on"),
        ([(8, 0, 3, 3)], "lists an abort of producer 8 at offset 3, where the log has none"),
        ([(7, 0, 3, 3), (7, 4, 4, 4)], "lists an abort of producer 7 at offset 4, where the log has none"),
        ([(7, 0, 3, 3), (7, 4, 9, 9)], None),  # beyond this segment: an index that ran ahead
    ],
)
def test_the_index_of_aborts_is_compared(
    tmp_path: Path, entries: list[tuple[int, int, int, int]], said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A contradiction is a warning that names the file, and the rows are those of the log."""
    folder = write(tmp_path, CROSSING)
    path = folder / writer.segment_name(3, ".txnindex")
    path.write_bytes(writer.transaction_index(entries))
    assert brief(viewed(folder)) == OF_CROSSING
    assert len(caplog.messages) == (said is not None)
    for message in caplog.messages:
        assert message.startswith(f"{str(path)!r} contradicts the log: it {said}")


def test_a_lost_index_is_no_contradiction(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file that is lost cannot be told from one that never was."""
    shutil.copytree(LEDGER / "ledger-0", tmp_path / "ledger-0")
    for path in (tmp_path / "ledger-0").glob("*.txnindex"):
        path.unlink()
    assert brief(viewed(tmp_path)) == brief(viewed(LEDGER / "ledger-0"))
    assert caplog.messages == []


def test_options_that_the_view_does_not_have() -> None:
    """Bounds would cut transactions in two."""
    with pytest.raises(OptionError, match=re.escape("'since' is not for view=transactions")):
        viewed(LEDGER, since=0)
