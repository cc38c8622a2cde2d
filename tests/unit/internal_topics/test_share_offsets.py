"""view=shareOffsets: what kafka-share-groups and kafka-dump-log of Kafka 4.3 said, and records made by hand."""

from __future__ import annotations

import datetime
import json
import logging
import re
import shutil
import struct
import uuid
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from tests.support.group_answers import (
    share_offsets_said,
    share_offsets_seen,
    streams_offsets_said,
    streams_offsets_seen,
)
from tests.support.internal_logs import InternalLog, array, tags, text
from tests.support.rows import FIXTURES

GROUPS = FIXTURES / "new-groups"
DATA = GROUPS / "data"
ANSWERS: dict[str, Any] = json.loads((GROUPS / "answers.json").read_text())
TOPIC_ID = uuid.UUID(int=7)
SHOWN_ID = "AAAAAAAAAAAAAAAAAAAABw"


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = kafkaseg.scan(path, view="shareOffsets", **options).read_all().to_pylist()
    return rows


def key(number: int, group: str = "g", partition: int = 0) -> bytes:
    return struct.pack(">h", number) + text(group) + TOPIC_ID.bytes + struct.pack(">i", partition)


def batches(*some: tuple[int, int, int, int]) -> bytes:
    return array([struct.pack(">qqbh", *each) + b"\0" for each in some], flexible=True)


def snapshot(start: int, count: int | None = None, leader: int = 1, epoch: int = 0) -> bytes:
    last = tags({} if count is None else {0: struct.pack(">i", count)})
    return struct.pack(">hiiiqqq", 0, epoch, 5, leader, start, 1000, 2000) + batches((3, 4, 2, 1)) + last


def update(start: int, count: int | None = None, leader: int = 1) -> bytes:
    last = tags({} if count is None else {0: struct.pack(">i", count)})
    return struct.pack(">hiiq", 0, 0, leader, start) + batches((5, 5, 0, 2)) + last


@pytest.fixture
def log(tmp_path: Path) -> InternalLog:
    return InternalLog(tmp_path / "logs" / "__share_group_state-0")


def test_what_the_tool_said() -> None:
    """Start offsets and lags of every share group; a dash is null."""
    seen = share_offsets_seen(DATA, ANSWERS)
    assert seen == share_offsets_said(ANSWERS) and len(seen) > 5
    assert {group for group, _, _ in seen} == {each["GROUP"] for each in ANSWERS["groups"] if each["TYPE"] == "Share"}


def test_every_record_as_kafka_dumps_it() -> None:
    """A history has each record, with its fields."""
    dumped = []
    for line in (GROUPS / "dump.__share_group_state-0.txt").read_text().splitlines():
        found = re.search(r"offset: (\d+) .* key: (\{.*\}) payload: (.*)$", line)
        if found is not None:
            own, value = json.loads(found[2])["data"], None if found[3] == "<DELETE>" else json.loads(found[3])["data"]
            start = None if value is None else value["startOffset"]
            listed = None if value is None else value["stateBatches"]
            dumped.append((int(found[1]), own["groupId"], own["topicId"], own["partition"], start, listed))
    rows = [
        (
            row["logOffset"],
            *(row[name] for name in ("group", "topicId", "partition")),
            -1 if row["startOffset"] is None and not row["isTombstone"] else row["startOffset"],
            row["stateBatches"],
        )
        for row in read(DATA, history=True)
    ]
    assert rows == dumped and len(rows) > 10
    assert {row["kind"] for row in read(DATA, history=True)} == {"snapshot", "update"}


def test_an_update_changes_what_it_states(log: InternalLog) -> None:
    """-1 states nothing; the count is always that of the newest record."""
    log.add(key(0), snapshot(3, 2))
    log.add(key(1), update(-1, 4, leader=-1))
    [row] = read(log.directory)
    assert row == {
        "group": "g",
        "topic": None,
        "topicId": SHOWN_ID,
        "partition": 0,
        "startOffset": 3,
        "deliveryCompleteCount": 4,
        "stateEpoch": 5,
        "leaderEpoch": 1,
        "snapshotEpoch": 0,
        "createTimestamp": datetime.datetime.fromtimestamp(1, datetime.UTC),
        "writeTimestamp": datetime.datetime.fromtimestamp(2, datetime.UTC),
        "logEndOffset": None,
        "lag": None,
    }
    log.add(key(1), update(9, None, leader=3))
    [row] = read(log.directory)
    assert (row["startOffset"], row["deliveryCompleteCount"], row["leaderEpoch"]) == (9, None, 3)
    log.add(key(0), snapshot(20, 0, epoch=1))
    assert read(log.directory)[0]["startOffset"] == 20


def test_a_tombstone_removes_a_state(log: InternalLog) -> None:
    """And a later snapshot is another state."""
    log.add(key(0), snapshot(3))
    log.add(key(0, "other"), snapshot(4))
    log.add(key(0), None)
    assert [row["group"] for row in read(log.directory)] == ["other"]
    log.add(key(0), snapshot(5))
    assert [(row["group"], row["startOffset"]) for row in read(log.directory)] == [("g", 5), ("other", 4)]


def test_names_and_ends_come_from_the_directories(log: InternalLog) -> None:
    """By the id in `partition.metadata`; without `until`."""
    log.add(key(0), snapshot(3, 2))
    shutil.copytree(DATA / "orders-0", log.directory.parent / "orders-0")
    (log.directory.parent / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {SHOWN_ID}\n")
    [row] = read(log.directory.parent)
    assert (row["topic"], row["logEndOffset"], row["lag"]) == ("orders", 25, 20)
    [row] = read(log.directory.parent, until="2100-01-01")
    assert (row["topic"], row["logEndOffset"], row["lag"]) == ("orders", None, None)


def test_what_is_not_known_is_said(log: InternalLog, caplog: pytest.LogCaptureFixture) -> None:
    """Newer types and versions, an update without its snapshot, bytes that are no record: never an error."""
    log.add(key(2), snapshot(1))
    log.add(key(0, "newer"), struct.pack(">h", 1))
    log.add(key(0, "short"), snapshot(1)[:9])
    log.add(key(1, "alone"), update(8, 1))
    log.add(None, b"")
    with caplog.at_level(logging.WARNING):
        rows = {row["group"]: row["startOffset"] for row in read(log.directory)}
    assert rows == {"newer": None, "short": None, "alone": 8}
    for words in ("of type 2", "ShareSnapshot in version 1", "cannot be decoded", "without a snapshot", "a null key"):
        assert words in caplog.text


def test_streams_groups_are_consumer_offsets() -> None:
    """Kafka Streams commits as any group does; its other records name its type."""
    rows = kafkaseg.scan(DATA, view="consumerOffsets").read_all().to_pylist()
    assert {row["groupType"] for row in rows} == {"streams"}
    assert streams_offsets_seen(DATA, ANSWERS) == streams_offsets_said(ANSWERS)
    assert {row["topic"]: row["lag"] for row in rows if row["lag"] is not None} == {"streams-plaintext-input": 0}
