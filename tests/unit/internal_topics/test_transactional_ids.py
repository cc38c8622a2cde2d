"""view=transactionalIds: versions by hand-made bytes, and what kafka-transactions and kafka-dump-log said."""

from __future__ import annotations

import datetime
import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from tests.support.group_answers import transactional_ids_said, transactional_ids_seen
from tests.support.internal_logs import InternalLog, transaction_key, transaction_value
from tests.support.rows import FIXTURES

GROUPS = FIXTURES / "groups"
DATA = GROUPS / "data"
ANSWERS: dict[str, Any] = json.loads((GROUPS / "answers.json").read_text())


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = kafkaseg.scan(path, view="transactionalIds", **options).read_all().to_pylist()
    return rows


def millis(moment: datetime.datetime | None) -> int:
    return -1 if moment is None else round(moment.timestamp() * 1000)


@pytest.fixture
def log(tmp_path: Path) -> InternalLog:
    return InternalLog(tmp_path / "__transaction_state-0")


@pytest.mark.parametrize("version", [0, 1])
def test_every_version(log: InternalLog, version: int) -> None:
    """Both versions, with the producer ids that only the newer one can have."""
    fields = {0: struct.pack(">q", 5), 1: struct.pack(">q", 78), 2: b"\0\2", 3: struct.pack(">h", 1), 9: b"newer"}
    log.add(transaction_key("id"), transaction_value(1, version, {"t": [0, 3], "u": []}, fields))
    [row] = read(log.directory)
    is_new = version == 1
    assert row == {
        "transactionalId": "id",
        "producerId": 77,
        "producerEpoch": 3,
        "previousProducerId": 5 if is_new else None,
        "nextProducerId": 78 if is_new else None,
        "nextProducerEpoch": 1 if is_new else None,
        "timeoutMs": 60_000,
        "state": "Ongoing",
        "topicPartitions": [{"topic": "t", "partitions": [0, 3]}, {"topic": "u", "partitions": []}],
        "lastUpdateTimestamp": datetime.datetime.fromtimestamp(3, datetime.UTC),
        "startTimestamp": datetime.datetime.fromtimestamp(2, datetime.UTC),
    }


@pytest.mark.parametrize("version", [0, 1])
def test_nothing_there(log: InternalLog, version: int) -> None:
    """Null partitions are none, and -1 is no start, no previous id."""
    fields = {0: struct.pack(">q", -1)}
    log.add(transaction_key("id"), transaction_value(0, version, None, fields, started=-1))
    [row] = read(log.directory)
    assert row["topicPartitions"] == [] and row["startTimestamp"] is None and row["previousProducerId"] is None


def test_states(log: InternalLog) -> None:
    """Kafka's names, and a number that is newer."""
    for state in range(9):
        log.add(transaction_key(f"id-{state}"), transaction_value(state))
    assert [row["state"] for row in read(log.directory)] == [
        *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"),
        *("PrepareEpochFence", "UNKNOWN(8)"),
    ]


def test_the_latest_counts(log: InternalLog) -> None:
    """A tombstone removes an id. `until` goes back, and history has everything, in log order."""
    log.add(transaction_key("a"), transaction_value(0))
    log.add(transaction_key("b"), transaction_value(0))
    log.add(transaction_key("b"), transaction_value(1))
    log.add(transaction_key("a"), None)

    def states(**options: Any) -> list[tuple[str, str | None]]:
        return [(row["transactionalId"], row["state"]) for row in read(log.directory, **options)]

    assert states() == [("b", "Ongoing")]
    assert states(until=20) == [("a", "Empty"), ("b", "Empty")]
    assert states(history=True) == [("a", "Empty"), ("b", "Empty"), ("b", "Ongoing"), ("a", None)]
    assert [row["isTombstone"] for row in read(log.directory, history=True)] == [False, False, False, True]
    assert [row["logOffset"] for row in read(log.directory, history=True)] == [0, 1, 2, 3]


def test_what_cannot_be_decoded_is_said(log: InternalLog, caplog: pytest.LogCaptureFixture) -> None:
    """A newer version, and bytes that are no state, give a row without one."""
    log.add(transaction_key("newer"), struct.pack(">h", 2) + b"x" * 40)
    log.add(transaction_key("short"), transaction_value(1)[:-9])
    log.add(transaction_key("odd"), transaction_value(1, fields={0: b"abc"}))
    log.add(transaction_key("?", number=1), transaction_value(1))
    log.add(b"\0", transaction_value(1))
    assert [(row["transactionalId"], row["state"]) for row in read(log.directory)] == [
        ("newer", None),
        ("odd", None),
        ("short", None),
    ]
    said = "\n".join(caplog.messages)
    assert "of type 1, which is unknown: it is passed over" in said
    assert "of type TransactionLog in version 2, which is unknown: its state is null" in said
    assert "(a number of 2 bytes at byte 0 of 1): it is passed over" in said
    assert "(the tagged field 0 has 3 bytes instead of 8): its state is null (and 1 more like it)" in said


@given(st.lists(st.tuples(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=60)), max_size=6))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, records: list[tuple[bytes | None, bytes | None]]) -> None:
    """Whatever a record holds, the view returns."""
    log = InternalLog(tmp_path_factory.mktemp("any") / "__transaction_state-0")
    for key, value in records:
        log.add(key, value)
        log.add(transaction_key("id"), value)
    if records:
        assert len(read(log.directory)) >= (records[-1][1] is not None)
        assert len(read(log.directory, history=True)) >= len(records)


def test_states_are_those_of_the_tool() -> None:
    """kafka-transactions list and describe: committed and aborted ones, and those that were left open."""
    rows = transactional_ids_seen(DATA, ANSWERS)
    assert rows == transactional_ids_said(ANSWERS) and len(rows) >= 5
    assert {row[2] for row in rows.values()} >= {"Ongoing", "CompleteAbort"}


def test_history_is_that_of_the_inspector() -> None:
    """Every record that kafka-dump-log printed, field by field."""
    rows = {(row["logPartition"], row["logOffset"]): row for row in read(DATA, history=True)}
    for partition in range(2):
        for line in (GROUPS / f"dump.__transaction_state-{partition}.txt").read_text().splitlines():
            found = re.search(r"offset: (\d+) .* key: (\{.*?\}\}) payload: (\{.*\})$", line)
            if found is None:
                continue
            row = rows.pop((partition, int(found[1])))
            value = json.loads(found[3])["data"]
            assert row["transactionalId"] == json.loads(found[2])["data"]["transactionalId"]
            assert (row["producerId"], row["producerEpoch"], row["timeoutMs"]) == (
                value["producerId"],
                value["producerEpoch"],
                value["transactionTimeoutMs"],
            )
            assert millis(row["lastUpdateTimestamp"]) == value["transactionLastUpdateTimestampMs"]
            assert millis(row["startTimestamp"]) == value["transactionStartTimestampMs"]
            assert row["topicPartitions"] == [
                {"topic": each["topic"], "partitions": each["partitionIds"]}
                for each in value["transactionPartitions"] or []
            ]
    assert rows == {}
