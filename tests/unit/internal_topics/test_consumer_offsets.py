"""view=consumerOffsets: every version of an offset commit, what counts, and what a real broker's admin client saw."""

from __future__ import annotations

import datetime
import json
import logging
import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError, OptionError, PathError
from kafka_segment_source.internal_topics.group_records import RECORD_TYPES
from tests.support.group_answers import GROUP_ANSWERS, offsets_said, types_said
from tests.support.internal_logs import InternalLog, classic_group, group_key, offset_key, offset_value
from tests.support.rows import FIXTURES

GROUPS = FIXTURES / "groups"
DATA = GROUPS / "data"
ANSWERS: dict[str, Any] = json.loads((GROUPS / "answers.json").read_text())

Rows = list[dict[str, Any]]


def read(path: Path, **options: Any) -> Rows:
    rows: Rows = kafkaseg.scan(path, view="consumerOffsets", **options).read_all().to_pylist()
    return rows


def moment(millis: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(millis / 1000, datetime.UTC)


@pytest.fixture
def log(tmp_path: Path) -> InternalLog:
    return InternalLog(tmp_path / "__consumer_offsets-0")


def offsets(log: InternalLog, **options: Any) -> dict[tuple[str, str, int], int | None]:
    """Offsets by group, topic and partition."""
    rows = read(log.directory.parent, **options)
    return {(row["group"], row["topic"], row["partition"]): row["offset"] for row in rows}


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("number", [0, 1])
def test_every_version_of_an_offset_commit(log: InternalLog, version: int, number: int) -> None:
    """Keys of type 0 and 1, values of version 0 to 4: each with the fields that it has, the others are null."""
    value = offset_value(42, version, leader_epoch=7, metadata="größe", commit=1234, expire=9999)
    log.add(offset_key("g", "t", 3, number), value)
    [row] = read(log.directory)
    assert row == {
        "group": "g",
        "topic": "t",
        "partition": 3,
        "offset": 42,
        "leaderEpoch": 7 if version >= 3 else None,
        "metadata": "größe",
        "commitTimestamp": moment(1234),
        "expireTimestamp": moment(9999) if version == 1 else None,
        "logEndOffset": None,
        "lag": None,
        "groupType": "classic",
    }


def test_minus_one_is_null(log: InternalLog) -> None:
    """A commit without a leader epoch, or without an expiry, has -1 there; an unknowable moment is null too."""
    log.add(offset_key("a", "t"), offset_value(1, 1, expire=-1))
    log.add(offset_key("b", "t"), offset_value(1, 3, leader_epoch=-1, commit=2**62))
    first, second = read(log.directory)
    assert first["expireTimestamp"] is None and second["leaderEpoch"] is None and second["commitTimestamp"] is None


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_classic_group(log: InternalLog, version: int, caplog: pytest.LogCaptureFixture) -> None:
    """A classic group's record is no row and no warning."""
    log.add(group_key("g", 2), classic_group(version))
    assert read(log.directory) == [] and caplog.messages == []


@pytest.mark.parametrize(("number", "kind"), [(2, "classic"), (3, "consumer"), (11, "share"), (17, "streams")])
def test_types_of_groups(log: InternalLog, number: int, kind: str) -> None:
    """The newest record of a group says its type; a tombstone takes back its own type only."""
    value = classic_group(4) if number == 2 else b"\0\0"
    log.add(offset_key("g", "t"), offset_value(1))
    log.add(group_key("g", 2), classic_group(3))
    log.add(group_key("g", number), value)
    log.add(group_key("g", 5), b"\0\0")
    if number != 2:
        log.add(group_key("g", 2), None)
    assert [row["groupType"] for row in read(log.directory)] == [kind]
    log.add(group_key("g", number), None)
    assert [row["groupType"] for row in read(log.directory)] == ["classic"]


def test_every_known_type_is_passed_over(log: InternalLog, caplog: pytest.LogCaptureFixture) -> None:
    """Records of groups of all kinds are no rows, and nothing is said of those that Kafka writes."""
    for number in RECORD_TYPES:
        if number > 2:
            log.add(group_key("g", number), b"\0\0")
            log.add(group_key("g", number), None)
    assert read(log.directory) == [] and caplog.messages == []


def test_newer_versions_are_named(log: InternalLog, caplog: pytest.LogCaptureFixture) -> None:
    """A newer type is passed over; a newer commit has a row with nulls, not an older offset. Each kind is said once."""
    log.add(offset_key("g", "t"), offset_value(5))
    log.add(struct.pack(">h", 99) + b"whatever", b"x")
    log.add(struct.pack(">h", 99) + b"other", b"x")
    log.add(offset_key("g", "t"), struct.pack(">hq", 5, 77))
    log.add(group_key("g", 2), struct.pack(">h", 5))
    log.add(group_key("g", 3), struct.pack(">h", 1))
    assert offsets(log) == {("g", "t", 0): None}
    assert caplog.messages == [
        "offset 1 of __consumer_offsets-0 is a record of type 99, which is unknown: it is passed over (and 1 more like it)",
        "offset 4 of __consumer_offsets-0 is a record of type GroupMetadata in version 5, which is unknown: it is passed over",
        "offset 5 of __consumer_offsets-0 is a record of type ConsumerGroupMetadata in version 1, which is unknown: it is"
        " passed over",
        "offset 3 of __consumer_offsets-0 is a record of type OffsetCommit in version 5, which is unknown: its offset is null",
    ]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (None, b"x", "(a null key): it is passed over"),
        (b"\0", b"x", "(a number of 2 bytes at byte 0 of 1): it is passed over"),
        (offset_key("g", "t")[:-1], offset_value(1), "(a number of 4 bytes at byte 8 of 11): it is passed over"),
        (offset_key("g", "t"), offset_value(1, 4)[:-20], "its offset is null"),
        (offset_key("g", "t"), b"", "(a number of 2 bytes at byte 0 of 0): its offset is null"),
        (group_key("g", 2), classic_group(4)[:-3], "it is passed over"),
    ],
)
def test_what_cannot_be_decoded_is_said(
    log: InternalLog, key: bytes | None, value: bytes, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Never an error, and never silence."""
    log.add(key, value)
    rows = read(log.directory)
    assert [row["offset"] for row in rows] == ([None] if "null" in said and key is not None else [])
    [warning] = caplog.messages
    assert warning.startswith("offset 0 of __consumer_offsets-0 is a record that cannot be decoded") and said in warning


@given(st.lists(st.tuples(st.none() | st.binary(max_size=30), st.none() | st.binary(max_size=60)), max_size=6))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, records: list[tuple[bytes | None, bytes | None]]) -> None:
    """Whatever a record holds, the views return."""
    log = InternalLog(tmp_path_factory.mktemp("any") / "__consumer_offsets-0")
    for key, value in records:
        log.add(key, value)
        log.add(offset_key("g", "t"), value)
        log.add(group_key("g", 2), value)
    if records:
        rows = read(log.directory)
        assert len(rows) >= (records[-1][1] is not None)
        assert len(read(log.directory, history=True)) >= len(records)


# --- what counts ------------------------------------------------------------------------------------------------------


def test_the_latest_commit_counts(log: InternalLog) -> None:
    """By group, topic and partition; a tombstone removes its own key, until the next commit."""
    log.add(offset_key("g", "t", 0), offset_value(1))
    log.add(offset_key("g", "t", 1), offset_value(2))
    log.add(offset_key("h", "t", 0), offset_value(3))
    log.add(offset_key("g", "t", 0), offset_value(4))
    log.add(offset_key("h", "t", 0), None)
    assert offsets(log) == {("g", "t", 0): 4, ("g", "t", 1): 2}
    log.add(offset_key("h", "t", 0), offset_value(5))
    assert offsets(log) == {("g", "t", 0): 4, ("g", "t", 1): 2, ("h", "t", 0): 5}


def test_transactions(log: InternalLog, caplog: pytest.LogCaptureFixture) -> None:
    """Only a COMMIT makes a transaction's commits count; what others write behind an open one counts at once."""
    for number, group in enumerate(("committed", "aborted", "open")):
        log.add(offset_key(group, "t"), offset_value(1))
        log.add(offset_key(group, "t"), offset_value(2), producer=number)
    log.end("commit", 0)
    log.end("abort", 1)
    log.add(offset_key("behind", "t"), offset_value(9))
    assert offsets(log) == {
        ("aborted", "t", 0): 1,
        ("behind", "t", 0): 9,
        ("committed", "t", 0): 2,
        ("open", "t", 0): 1,
    }
    assert caplog.messages == [
        "1 offset commits belong to transactions that are open at the end, so they do not count (producer ids 2; the first"
        " one is at offset 5 of __consumer_offsets-0)"
    ]
    log.end("commit", 2)
    assert offsets(log)[("open", "t", 0)] == 2


def test_a_later_commit_wins_over_a_transaction_that_ends_after_it(log: InternalLog) -> None:
    """The offset in the log decides, not the marker; so does that of a tombstone."""
    log.add(offset_key("g", "t"), offset_value(1), producer=5)
    log.add(offset_key("h", "t"), offset_value(1), producer=5)
    log.add(offset_key("g", "t"), offset_value(2))
    log.add(offset_key("h", "t"), None)
    log.end("commit", 5)
    assert offsets(log) == {("g", "t", 0): 2}


def test_until(log: InternalLog) -> None:
    """Only records before the moment count, markers too; logEndOffset and lag are null then."""
    log.add(offset_key("g", "t"), offset_value(1))
    log.add(offset_key("g", "t"), offset_value(2), producer=5)
    log.end("commit", 5)
    log.add(offset_key("g", "t"), None)
    found = [offsets(log, until=until).get(("g", "t", 0)) for until in (0, 1, 20, 21, 30, 31)]
    assert found == [None, 1, 1, 2, 2, None]
    assert {row["lag"] for row in read(DATA, until=ANSWERS["taken"])} == {None}


def test_history(log: InternalLog) -> None:
    """Every commit that counts and every tombstone; a transaction's commits come where they begin to count."""
    log.add(offset_key("g", "t"), offset_value(1, metadata="a"))
    log.add(offset_key("g", "t"), offset_value(2), producer=5)
    log.add(offset_key("g", "t"), offset_value(3), producer=6)
    log.add(offset_key("g", "t"), None)
    log.end("commit", 5)
    log.end("abort", 6)
    rows = read(log.directory, history=True)
    assert [(row["logOffset"], row["offset"], row["isTombstone"]) for row in rows] == [
        (0, 1, False),
        (3, None, True),
        (1, 2, False),
    ]
    assert rows[1] == {
        "group": "g",
        "topic": "t",
        "partition": 0,
        "offset": None,
        "leaderEpoch": None,
        "metadata": None,
        "commitTimestamp": None,
        "expireTimestamp": None,
        "isTombstone": True,
        "logPartition": 0,
        "logOffset": 3,
        "timestamp": moment(30),
    }


# --- files ------------------------------------------------------------------------------------------------------------


def test_damage_is_treated_as_in_a_read(log: InternalLog) -> None:
    """A damaged batch is an error, or is skipped under DROPMALFORMED."""
    log.add(offset_key("g", "t"), offset_value(1))
    log.add(offset_key("g", "t"), offset_value(2))
    log.add(offset_key("h", "t"), offset_value(3))
    path = log.directory / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[len(log.batches[0]) + 70] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptRecordError):
        read(log.directory)
    assert offsets(log, mode="DROPMALFORMED") == {("g", "t", 0): 1, ("h", "t", 0): 3}


def test_lag_is_null_without_the_topic(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where the directory of a topic's partition is not there, or has a damaged end, and nobody else is concerned."""
    shutil.copytree(DATA, tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "orders-0")
    [path] = (tmp_path / "data" / "orders-1").glob("*.log")
    data = path.read_bytes()
    path.write_bytes(data[:-40] + b"x" * 40 + b"y" * 100)
    assert {row["topic"] for row in read(DATA) if row["lag"] is None} == set()
    rows = read(tmp_path / "data")
    without = {(row["topic"], row["partition"]) for row in rows if row["lag"] is None}
    assert ("orders", 0) in without and ("payments", 0) not in without
    assert all((row["lag"] is None) == (row["logEndOffset"] is None) for row in rows)


def test_a_path_without_the_topic() -> None:
    """The error names the topic, and no option that nobody gave."""
    for view in ("consumerOffsets", "transactionalIds", "topics"):
        with pytest.raises(PathError, match=r"topic __\w+, which this reads, is not in '.*orders-0'"):
            kafkaseg.scan(DATA / "orders-0", view=view)


def test_other_options_are_refused() -> None:
    """The view reads its own topic and no other; it has no offsets of its own."""
    for option in ({"subscribe": "orders"}, {"since": 0}, {"includeControl": True}):
        with pytest.raises(OptionError, match="is not for view=consumerOffsets"):
            read(DATA, **option)
    with pytest.raises(OptionError, match="is not for view=topics"):
        kafkaseg.scan(DATA, view="topics", history=True)


# --- a real broker ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["committed offsets", "lags", "types of groups"])
def test_rows_are_what_the_admin_client_and_the_tool_said(what: str) -> None:
    """Groups that are classic, of KIP-848, without members, transactional, thinned."""
    see, said = GROUP_ANSWERS[what]
    assert see(DATA, ANSWERS) == said(ANSWERS)


def test_the_answers_have_what_the_view_shows() -> None:
    """Both protocols, enough offsets, and the ends of the partitions as the admin client lists them."""
    assert len(offsets_said(ANSWERS)) >= 18 and set(types_said(ANSWERS).values()) == {"CLASSIC", "CONSUMER"}
    ends = {(each["topic"], each["partition"]): each["offset"] for each in ANSWERS["ends"]}
    assert all(row["logEndOffset"] == ends[row["topic"], row["partition"]] for row in read(DATA))


def dumped(partition: int) -> Iterator[tuple[int, dict[str, Any], dict[str, Any] | None]]:
    """Offset, key and value of each offset commit that kafka-dump-log printed."""
    for line in (GROUPS / f"dump.__consumer_offsets-{partition}.txt").read_text().splitlines():
        found = re.search(r"offset: (\d+) .* key: (\{.*?\}\}) payload: (.*)$", line)
        if found is not None and json.loads(found[2])["type"] in ("0", "1"):
            value = None if not found[3].startswith("{") else json.loads(found[3])["data"]
            yield int(found[1]), json.loads(found[2])["data"], value


def test_history_is_that_of_the_inspector() -> None:
    """kafka-dump-log's offset commits, but for those of transactions that were aborted or are open."""
    rows = read(DATA, history=True)
    left_out = []
    for partition in range(2):
        found = {row["logOffset"]: row for row in rows if row["logPartition"] == partition}
        for offset, key, value in dumped(partition):
            row = found.pop(offset, None)
            if row is None:
                left_out.append(None if value is None else value["metadata"].rstrip("\0"))
                continue
            assert (row["group"], row["topic"], row["partition"]) == (key["group"], key["topic"], key["partition"])
            assert row["isTombstone"] == (value is None)
            if value is not None:
                assert row["offset"] == value["offset"] and row["metadata"] == value["metadata"]
                assert row["leaderEpoch"] == (None if value["leaderEpoch"] == -1 else value["leaderEpoch"])
                assert row["commitTimestamp"] == moment(value["commitTimestamp"])
        assert found == {}
    assert sorted(map(str, left_out)) == ["aborted", "aborted", "open", "open", "open"]
    assert sum(row["isTombstone"] for row in rows) >= 5


def test_nothing_is_odd_about_a_real_broker(caplog: pytest.LogCaptureFixture) -> None:
    """Records of share groups and of KIP-848 are known; the open transactions are all that is said."""
    caplog.set_level(logging.INFO)
    read(DATA)
    [said] = caplog.messages
    assert said.startswith("3 offset commits belong to transactions that are open at the end")
    dump = "".join(path.read_text() for path in GROUPS.glob("dump.__consumer_offsets-*"))
    assert {'"type":"11"', '"type":"3"', '"type":"2"'} <= set(re.findall(r'"type":"\d+"', dump))


def test_a_fixture_with_groups_of_another_day() -> None:
    """One commit of the fixture of transactions, by a consumer that assigned its partitions."""
    rows = read(FIXTURES / "transactions" / "data")
    assert [(row["group"], row["topic"], row["partition"], row["offset"]) for row in rows] == [
        ("audit", "ledger", 1, 5)
    ]
    [end] = kafkaseg.offsets_for_time(FIXTURES / "transactions" / "data" / "ledger-1", "latest").partitions
    assert rows[0]["lag"] == end.log_end_offset - 5
