"""view=topics: records by hand, snapshots that are whole or not, and what a real broker's admin client described."""

from __future__ import annotations

import base64
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError, DataLossError
from kafka_segment_source.internal_topics.metadata_records import RECORD_TYPES
from tests.support import writer
from tests.support.group_answers import topics_said, topics_seen
from tests.support.internal_logs import NO_TAGS, InternalLog, array, metadata_value, tags, text, unsigned_varint
from tests.support.rows import FIXTURES

GROUPS = FIXTURES / "groups"
DATA = GROUPS / "data"
METADATA = DATA / "__cluster_metadata-0"
ANSWERS: dict[str, Any] = json.loads((GROUPS / "answers.json").read_text())
ID = bytes(range(16))
ID_TEXT = base64.urlsafe_b64encode(ID).decode().rstrip("=")
TOPIC, PARTITION, CONFIG, CHANGE, REMOVE, BEGIN, END, ABORT = 2, 3, 4, 5, 9, 23, 24, 25


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = kafkaseg.scan(path, view="topics", **options).read_all().to_pylist()
    return rows


def brokers(*ids: int) -> bytes:
    return array([struct.pack(">i", each) for each in ids], flexible=True)


def topic(name: str, topic_id: bytes = ID) -> bytes:
    return metadata_value(TOPIC, 0, text(name, True) + topic_id + NO_TAGS)


def partition(number: int, version: int = 0, topic_id: bytes = ID, leader: int = 1) -> bytes:
    """On brokers 1, 2 and 3, of which 1 and 2 are in sync, in leader epoch 4."""
    listed = brokers(1, 2, 3) + brokers(1, 2) + brokers() + brokers()
    body = struct.pack(">i", number) + topic_id + listed + struct.pack(">iii", leader, 4, 9)
    body += array([ID, ID, ID], True) if version >= 1 else b""
    return metadata_value(PARTITION, version, body + tags({1: brokers(3)} if version >= 2 else {0: b"\1"}))


def change(number: int, fields: dict[int, bytes], version: int = 0, topic_id: bytes = ID) -> bytes:
    return metadata_value(CHANGE, version, struct.pack(">i", number) + topic_id + tags(fields))


def config(name: str, key: str, value: str | None, resource: int = 2) -> bytes:
    body = struct.pack(">b", resource) + text(name, True) + text(key, True) + text(value, True)
    return metadata_value(CONFIG, 0, body + NO_TAGS)


def remove(topic_id: bytes = ID) -> bytes:
    return metadata_value(REMOVE, 0, topic_id + NO_TAGS)


@pytest.fixture
def log(tmp_path: Path) -> InternalLog:
    return InternalLog(tmp_path / "__cluster_metadata-0")


def add(log: InternalLog, *values: bytes | None) -> None:
    for value in values:
        log.add(None, value)


@pytest.mark.parametrize("version", range(3))
def test_every_version_of_a_partition(log: InternalLog, version: int) -> None:
    """Versions 0 to 2 of the record, which add directories and eligible leaders."""
    add(log, topic("t"), partition(0, version), config("t", "a", "1"), config("t", "b", ""))
    assert read(log.directory) == [
        {
            "topic": "t",
            "topicId": ID_TEXT,
            "partition": 0,
            "replicas": [1, 2, 3],
            "isr": [1, 2],
            "leader": 1,
            "leaderEpoch": 4,
            "configs": [("a", "1"), ("b", "")],
        }
    ]


@pytest.mark.parametrize("version", range(3))
def test_every_version_of_a_change(log: InternalLog, version: int) -> None:
    """What a change does not name stays; a new leader, and the loss of one, begins an epoch."""

    def state() -> list[object]:
        [row] = read(log.directory)
        return [row["replicas"], row["isr"], row["leader"], row["leaderEpoch"]]

    add(log, topic("t"), partition(0), change(0, {0: brokers(1), 8: array([ID], True), 99: b"newer"}, version))
    assert state() == [[1, 2, 3], [1], 1, 4]
    add(log, change(0, {1: struct.pack(">i", -1)}, version))
    assert state() == [[1, 2, 3], [1], None, 5]
    add(log, change(0, {1: struct.pack(">i", 2), 2: brokers(2, 1)}, version))
    assert state() == [[2, 1], [1], 2, 6]
    add(log, change(0, {1: struct.pack(">i", -2)}, version))
    assert state() == [[2, 1], [1], 2, 6]


def test_topics_that_are_removed(log: InternalLog) -> None:
    """Their partitions and configurations go; a topic of the same name begins with none."""
    other = bytes(16)
    add(log, topic("t"), partition(0), config("t", "a", "1"), topic("u", other), partition(0, topic_id=other), remove())
    assert [(row["topic"], row["configs"]) for row in read(log.directory)] == [("u", [])]
    add(log, topic("t"), partition(1))
    assert [(row["topic"], row["partition"], row["configs"]) for row in read(log.directory)] == [
        ("t", 1, []),
        ("u", 0, []),
    ]


def test_configurations(log: InternalLog) -> None:
    """Set, changed and deleted; those of brokers are others."""
    add(log, topic("t"), partition(0), config("t", "a", "1"), config("t", "b", "2"), config("t", "a", "3"))
    add(log, config("t", "b", None), config("t", "never", None), config("t", "broker", "x", resource=4))
    assert read(log.directory)[0]["configs"] == [("a", "3")]


def test_transactions_of_the_controller(log: InternalLog, caplog: pytest.LogCaptureFixture) -> None:
    """Their records count from the end on; aborted ones, and those of an open one, never."""
    begin, end, abort = (metadata_value(number, 0, NO_TAGS) for number in (BEGIN, END, ABORT))
    ids = [bytes([number]) * 16 for number in range(3)]
    for name, topic_id, last in zip("abc", ids, (end, abort, None), strict=True):
        add(log, begin, topic(name, topic_id), partition(0, topic_id=topic_id))
        if last is not None:
            add(log, last)
    assert [row["topic"] for row in read(log.directory)] == ["a"]
    assert caplog.messages == [
        "2 records of __cluster_metadata belong to a transaction of the controller that is open at the end, so they do not"
        " count (the first one is at offset 9 of __cluster_metadata-0)"
    ]


def test_other_records_are_passed_over(log: InternalLog, caplog: pytest.LogCaptureFixture) -> None:
    """Records of brokers, features, access and quotas say nothing of topics, in whatever version; nothing is said."""
    counting = {TOPIC, PARTITION, CONFIG, CHANGE, REMOVE, BEGIN, END, ABORT}
    add(log, *(metadata_value(number, 9, b"anything") for number in RECORD_TYPES if number not in counting))
    assert read(log.directory) == [] and caplog.messages == []


def test_newer_versions_are_named(log: InternalLog, caplog: pytest.LogCaptureFixture) -> None:
    """A type, a version and a frame that are newer, and bytes that are nothing: each kind is said once."""
    add(log, topic("t"), partition(0))
    add(log, metadata_value(99, 0, b""), metadata_value(99, 0, b""), metadata_value(PARTITION, 3, b"x"))
    add(log, metadata_value(TOPIC, 0, b"", frame=2), topic("u")[:-1], topic("u") + b"x", None, change(7, {}))
    assert len(read(log.directory)) == 1
    lost = "what it changes is not in the rows"
    assert caplog.messages == [
        f"offset 2 of __cluster_metadata-0 is a record of type 99, which is unknown: {lost} (and 1 more like it)",
        f"offset 4 of __cluster_metadata-0 is a record of type Partition in version 3, which is unknown: {lost}",
        f"offset 5 of __cluster_metadata-0 is a record in a frame of version 2, which is unknown: {lost}",
        "offset 6 of __cluster_metadata-0 is a record that cannot be decoded (a varint of 1 bytes at byte 21 of 21):"
        f" {lost} (and 3 more like it)",
    ]


@given(st.lists(st.none() | st.binary(max_size=60), max_size=8), st.sampled_from(sorted(RECORD_TYPES)))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, values: list[bytes | None], number: int) -> None:
    """Whatever a record holds, the view returns the topic that is there, unless it was removed."""
    log = InternalLog(tmp_path_factory.mktemp("any") / "__cluster_metadata-0")
    add(log, topic("t"), partition(0), *values)
    add(log, *(metadata_value(number, 0, value) for value in values if value is not None and number != REMOVE))
    assert all(row["replicas"] is not None for row in read(log.directory))


# --- snapshots --------------------------------------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The metadata log with its oldest snapshot alone, behind which much of the log follows."""
    shutil.copytree(METADATA, tmp_path / METADATA.name)
    for path in sorted((tmp_path / METADATA.name).glob("*.checkpoint"))[1:]:
        path.unlink()
    return tmp_path / METADATA.name


def cut_log(directory: Path, start: int) -> None:
    """Leaves the log from the batch with offset `start` on, as a broker does behind a snapshot."""
    [path] = directory.glob("*.log")
    data, at = path.read_bytes(), 0
    while at < len(data) and int.from_bytes(data[at : at + 8], "big") < start:
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    assert int.from_bytes(data[at : at + 8], "big") == start
    for old in [path, *directory.glob("*index")]:
        old.unlink()
    (directory / writer.segment_name(start)).write_bytes(data[at:])


def snapshot_of(directory: Path) -> tuple[Path, int]:
    [path] = directory.glob("*.checkpoint")
    return path, int(path.name[:20])


def test_snapshot_and_log_say_the_same(copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Several snapshots, one with the log after it, and the whole log: the same rows."""
    assert len(list(METADATA.glob("*.checkpoint"))) >= 2
    expected = read(METADATA)
    path, end = snapshot_of(copy)
    kept = path.read_bytes()
    path.unlink()
    assert read(copy) == expected != []
    path.write_bytes(kept)
    assert read(copy) == expected
    cut_log(copy, end)
    assert read(copy) == expected
    path.unlink()
    with pytest.raises(DataLossError):
        read(copy)
    assert caplog.messages == []


def cut_log_before(directory: Path, end: int) -> None:
    """Leaves the log up to the batch with offset `end`."""
    [path] = directory.glob("*.log")
    data, at = path.read_bytes(), 0
    while at < len(data) and int.from_bytes(data[at : at + 8], "big") < end:
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    path.write_bytes(data[:at])
    for index in directory.glob("*index"):
        index.unlink()


def write_index(directory: Path, offset: int) -> None:
    """Writes the offset index of a segment from offset 0 on, whose last entry is of `offset`. Its `.log` is gone."""
    (directory / f"{0:020d}.index").write_bytes(struct.pack(">ii", offset, 100))


LEFT: dict[str, Callable[[Path, int], object]] = {
    "a log that ends there": cut_log_before,
    "a log that ends before": lambda directory, end: cut_log_before(directory, end - 10),
    "an empty log": lambda directory, _: (directory / writer.segment_name(0)).write_bytes(b""),
    "an index of what it holds": lambda directory, end: write_index(directory, end - 1),
    "a snapshot of producers": lambda directory, end: (directory / f"{end:020d}.snapshot").touch(),
}


@pytest.mark.parametrize("left", LEFT)
def test_a_snapshot_without_a_log_after_it(copy: Path, left: str, caplog: pytest.LogCaptureFixture) -> None:
    """The snapshot is the answer, as the log adds nothing: the same as by the log before it."""
    path, end = snapshot_of(copy)
    kept = path.read_bytes()
    path.unlink()
    (copy / f"{96:020d}.snapshot").unlink()
    cut_log_before(copy, end)
    expected = read(copy)
    path.write_bytes(kept)
    if not left.startswith("a log"):
        for old in [*copy.glob("*.log"), *copy.glob("*index")]:
            old.unlink()
    LEFT[left](copy, end)

    assert read(copy) == read(copy.parent) == expected != []
    assert caplog.messages == []


def test_lost_records_after_the_snapshot(copy: Path) -> None:
    """An index without its `.log` that mentions offsets after the snapshot: they are lost, as in any read."""
    _, end = snapshot_of(copy)
    cut_log(copy, end)
    for old in copy.glob("*.log"):
        old.unlink()
    write_index(copy, end + 1)

    with pytest.raises(DataLossError, match=r"0\.index' is there without the .log of its segment"):
        read(copy)
    assert read(copy, failOnDataLoss=False) != []


def test_a_log_that_begins_behind_the_snapshot(copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The error says what is missing, and names no option that the view does not have."""
    path, end = snapshot_of(copy)
    cut_log(copy, end)
    [log] = copy.glob("*.log")
    first = end + 1000
    log.unlink()
    (copy / writer.segment_name(first)).touch()

    with pytest.raises(DataLossError) as caught:
        read(copy)
    said = f"the log of __cluster_metadata begins at offset {first}, and its newest whole snapshot, {str(path)!r}, ends at offset {end}"
    assert str(caught.value).startswith(f"{said}; ") and "startingOffsets" not in str(caught.value)
    assert read(copy, failOnDataLoss=False) != []
    assert caplog.messages == [f"{said}: reading what is there (failOnDataLoss=false)"]
    path.unlink()
    with pytest.raises(DataLossError, match=f"begins at offset {first}, and no whole snapshot is there"):
        read(copy)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "no footer": lambda data: data[: data.rindex(b"\0\0\0\4") - 100],
    "torn": lambda data: data[:-1],
    "a wrong byte": lambda data: data[:500] + bytes([data[500] ^ 1]) + data[501:],
    "no header": lambda data: data[12 + int.from_bytes(data[8:12], "big") :],
}


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED"])
def test_a_snapshot_that_is_not_whole(copy: Path, kind: str, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is named, and the log before it is read instead; without that log it is an error."""
    path, end = snapshot_of(copy)
    path.write_bytes(DAMAGE[kind](path.read_bytes()))
    assert read(copy, mode=mode) == read(METADATA)
    [said] = caplog.messages
    assert said.startswith(
        f"the snapshot {str(path)!r} is not whole, so an older state is read, and the log after it: "
    )
    cut_log(copy, end)
    with pytest.raises(DataLossError):
        read(copy, mode=mode)


def test_the_newest_snapshot_before_until(copy: Path) -> None:
    """A snapshot that knows later records than `until` is not used."""
    _, end = snapshot_of(copy)
    first = next(line for line in dump().splitlines() if line.startswith("| offset: 9 "))
    until = int(first.split("CreateTime: ")[1].split()[0]) + 1
    assert read(copy, until=until) == read(METADATA, until=until) == []  # before the first topic
    cut_log(copy, end)
    with pytest.raises(DataLossError):
        read(copy, until=until)
    assert read(copy, until=ANSWERS["taken"]) == read(METADATA, until=ANSWERS["taken"])


def test_damage_in_the_log(copy: Path) -> None:
    """Damage behind the snapshot is an error, as in a read."""
    _, end = snapshot_of(copy)
    [log] = copy.glob("*.log")
    data = bytearray(log.read_bytes())
    at = data.index(end.to_bytes(8, "big"))
    log.write_bytes(bytes([*data[: at + 70], data[at + 70] ^ 1, *data[at + 71 :]]))
    with pytest.raises(CorruptRecordError):
        read(copy)


# --- a real broker ----------------------------------------------------------------------------------------------------


def dump() -> str:
    return (GROUPS / "dump.__cluster_metadata-0.txt").read_text()


def test_topics_are_those_of_the_admin_client() -> None:
    """describe_topics and describe_configs, right before the stop, which takes the leaders away."""
    topics = topics_seen(DATA, ANSWERS)
    assert topics == topics_said(ANSWERS)
    assert {"orders", "again", "grown"} <= topics.keys() and "gone" not in topics
    assert {row["leader"] for row in read(DATA, until=ANSWERS["taken"])} == {1}
    assert {row["leader"] for row in read(DATA)} == {None}  # the stop was written down too


def test_nothing_is_odd_about_a_real_broker(caplog: pytest.LogCaptureFixture) -> None:
    """Every type of record of Kafka 4.1 that the log holds is known."""
    read(DATA)
    assert caplog.messages == []
    assert "REMOVE_TOPIC_RECORD" in dump() and "CLEAR_ELR_RECORD" in dump()


def test_varints_of_the_frame() -> None:
    """The frame is of unsigned varints: a type above 127 takes two bytes."""
    assert metadata_value(200, 0, b"") == b"\1" + unsigned_varint(200) + b"\0"
