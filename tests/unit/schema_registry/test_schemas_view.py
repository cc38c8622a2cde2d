"""view=schemas: records that registries wrote, and the variants of Karapace and Redpanda."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import OptionError, PathError
from tests.support.schema_logs import SchemaLog, captured


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = kafkaseg.scan(path, view="schemas", **options).read_all().to_pylist()
    return rows


def brief(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["subject"], row["version"], row["id"], row["deleted"]) for row in rows]


@pytest.fixture
def log(tmp_path: Path) -> SchemaLog:
    return SchemaLog(tmp_path)


def test_deletions_and_imports_of_a_real_registry(log: SchemaLog) -> None:
    """What was deleted, softly or for good, is there and marked, as old records need it."""
    for key, value in captured("administration"):
        log.add(key, value)
    assert brief(read(log.directory)) == [("d", 1, 3, True), ("i", 5, 42, False), ("t", 1, 1, True), ("t", 2, 2, False)]


def test_schemas_of_every_type_with_references(log: SchemaLog) -> None:
    for key, value in captured("references"):
        log.add(key, value)
    rows = {row["id"]: row for row in read(log.directory)}
    assert [rows[number]["schemaType"] for number in sorted(rows)] == ["AVRO"] * 2 + ["PROTOBUF"] * 2 + ["JSON"] * 2
    assert rows[4]["references"] == [{"name": "money.proto", "subject": "pb_money", "version": 1}]
    assert rows[1]["references"] == []
    assert rows[3]["schema"].startswith('syntax = "proto3";\npackage m;')
    assert rows[5]["guid"] == str(uuid.UUID(hashlib.md5(b'{"type":"integer","maximum":10}').hexdigest()))
    assert (rows[1]["offset"], rows[1]["context"]) == (2, ".")


def test_a_history_has_every_record(log: SchemaLog) -> None:
    for key, value in captured("administration"):
        log.add(key, value)
    rows = read(log.directory, history=True)
    assert [(row["offset"], row["keytype"], row["isTombstone"], row["version"]) for row in rows] == [
        (3, "SCHEMA", False, 1),
        (4, "SCHEMA", False, 2),
        (5, "SCHEMA", False, 1),
        (6, "SCHEMA", True, 1),
        (7, "SCHEMA", False, 1),
        (8, "DELETE_SUBJECT", False, 1),
        (9, "SCHEMA", True, 1),
        (14, "SCHEMA", False, 5),
    ]
    assert [row["deleted"] for row in rows] == [False, False, True, None, False, None, None, False]


def test_a_deleted_subject_comes_back_with_its_next_version(log: SchemaLog) -> None:
    log.register("s", 1, "{}", 1)
    log.register("s", 2, "{}", 2)
    log.add(b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}', b'{"subject":"s","version":2}')
    log.register("s", 2, "{}", 3)
    assert brief(read(log.directory)) == [("s", 1, 1, True), ("s", 2, 2, True), ("s", 3, 2, False)]


def test_a_deletion_names_the_last_version_that_it_deletes(log: SchemaLog) -> None:
    log.register("s", 1, "{}", 1)
    log.register("s", 2, "{}", 2)
    log.add(b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}', b'{"subject":"s","version":1}')
    assert brief(read(log.directory)) == [("s", 1, 1, True), ("s", 2, 2, False)]


def test_contexts(log: SchemaLog) -> None:
    """Ids repeat across contexts."""
    log.register(":.east:orders-value", 1, '"int"')
    log.register("orders-value", 1, '"string"')
    log.register(":.:plain", 2, '"long"')
    found = [(row["context"], row["subject"], row["id"]) for row in read(log.directory)]
    assert found == [(".", "orders-value", 1), (".", "plain", 2), (".east", "orders-value", 1)]


def test_karapace_writes_keys_in_another_order_and_null_as_text(log: SchemaLog) -> None:
    """Two keys of other bytes are the same key; the text `null` and no text remove it."""
    value = json.dumps({"subject": "s", "version": 1, "id": 1, "schema": "{}", "deleted": False}).encode()
    for number, removal in enumerate((b"null", b"")):
        log.add(b'{"subject":"s%d","version":1,"magic":1,"keytype":"SCHEMA"}' % number, value)
        log.add(b'{"keytype":"SCHEMA","subject":"s%d","version":1,"magic":1}' % number, removal)
    assert brief(read(log.directory)) == [("s0", 1, 1, True), ("s1", 1, 1, True)]


def redpanda(log: SchemaLog, sequence: int, number: int) -> None:
    key = {"keytype": "SCHEMA", "subject": "s", "version": 1, "magic": 1, "seq": sequence, "node": 0}
    value = {"subject": "s", "version": 1, "id": number, "schema": "{}", "deleted": False}
    log.add(json.dumps(key).encode(), json.dumps(value).encode())


def test_redpanda_counts_a_record_only_at_the_offset_it_was_written_for(log: SchemaLog) -> None:
    redpanda(log, 0, 7)
    redpanda(log, 0, 8)  # lost the race
    assert brief(read(log.directory)) == [("s", 1, 7, False)]


def test_in_a_copy_with_other_offsets_the_later_record_counts(log: SchemaLog) -> None:
    log.add(b'{"keytype":"NOOP","magic":0}', None)
    redpanda(log, 40, 7)
    redpanda(log, 41, 8)
    assert brief(read(log.directory)) == [("s", 1, 8, False)]


def test_guids(log: SchemaLog) -> None:
    """A stored one counts; with metadata or rules, it cannot be computed."""
    stored = uuid.UUID(int=5)
    reference = {"name": "M", "subject": "m", "version": 3}
    log.register("a", 1, "{}", md5=base64.b64encode(stored.bytes).decode(), metadata={"properties": {}})
    log.register("b", 2, "{}", metadata={"properties": {"owner": "x"}})
    log.register("c", 3, "{}", references=[reference])
    computed = uuid.UUID(hashlib.md5(b"{}" + b"Mm" + b"\0\0\0\3").hexdigest())
    assert [row["guid"] for row in read(log.directory)] == [str(stored), None, str(computed)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b"{}"),
        (b"[1]", b"{}"),
        (b"\xff", b"{}"),
        (b"[" * 100_000, b"{}"),
        (b'{"keytype":"NEW"}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s"}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":1}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":1}', b'{"id":4294967296,"schema":""}'),
        (b'{"keytype":"SCHEMA","subject":"s","version":1}', b'{"id":1,"schema":""' + b" " * 10),
        (b'{"keytype":"SCHEMA","subject":"s","version":1}', b'{"id":1,"schema":"","references":[1]}'),
        (b'{"keytype":"SCHEMA","subject":"s","version":1}', b'{"id":1,"schema":"","schemaType":3}'),
        (b'{"keytype":"SCHEMA","subject":"s","version":1}', b'{"id":1,"schema":"","md5":"?"}'),
        (b'{"keytype":"SCHEMA","subject":"s","version":' + b"9" * 10_000 + b"}", b"{}"),
        (b'{"keytype":"DELETE_SUBJECT","subject":"s"}', b'{"subject":"s"}'),
    ],
)
def test_records_that_nobody_writes_are_passed_over_and_said(
    key: bytes, value: bytes, log: SchemaLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.add(key, value)
    log.register("ok", 1, "{}")
    with caplog.at_level(logging.WARNING):
        assert brief(read(log.directory)) == [("ok", 1, 1, False)]
    [said] = caplog.messages
    assert said.startswith("offset 0 of _schemas-0 is a record")


def test_text_that_utf8_cannot_hold_is_replaced(log: SchemaLog) -> None:
    log.register("\ud800", 1, "\ud800")
    assert [(row["subject"], row["schema"]) for row in read(log.directory)] == [("?", "?")]


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(1, 3), st.booleans()), min_size=1, max_size=12))
def test_the_newest_record_of_a_key_counts(tmp_path_factory: pytest.TempPathFactory, steps: Any) -> None:
    """Against a dict of what was written last."""
    log = SchemaLog(tmp_path_factory.mktemp("log"))
    expected: dict[int, tuple[int, bool]] = {}
    for version, number, removes in steps:
        if removes:
            log.remove("s", version)
            if version in expected:
                expected[version] = expected[version][0], True
        else:
            log.register("s", number, "{}", version)
            expected[version] = number, False
    assert brief(read(log.directory)) == [("s", v, *expected[v]) for v in sorted(expected)]


def test_options_and_paths(log: SchemaLog, tmp_path: Path) -> None:
    log.register("s", 1, "{}")
    assert [row["id"] for row in read(tmp_path)] == [1]
    with pytest.raises(OptionError, match="option 'subscribe' is not for view=schemas"):
        read(tmp_path, subscribe="x")
    with pytest.raises(PathError, match="topic _schemas"):
        read(Path("examples/data/orders/data"))
