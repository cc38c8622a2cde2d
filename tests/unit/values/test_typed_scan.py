"""`scan` with valueFormat and keyFormat: logs of values and of `_schemas`, the choice of schemas, and what is said."""

from __future__ import annotations

import json
import logging
import pickle
import struct
import uuid
from pathlib import Path
from typing import Any

import fastavro
import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import MisfitError, OptionError, PathError, SchemaError
from kafka_segment_source.options import parse_options
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.schema_registry.registry_messages import make_guid
from kafka_segment_source.schema_registry.typing import type_columns
from kafka_segment_source.values.avro_fingerprint import fingerprint
from kafka_segment_source.values.avro_schema import parse_schema
from tests.support import writer
from tests.support.avro_cases import Branch, encode
from tests.support.schema_logs import SchemaLog, captured, framed, write_records, write_values
from tests.support.writer import Rec

OLD = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "customer", "type": "string"}],
}
NEW = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "customer", "type": "string"},
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
ADA = encode(OLD, {"id": 5, "customer": "Ada"})
BOB = encode(NEW, {"id": 6, "customer": "Bob", "note": Branch(1, "new")})


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory: `_schemas` with two versions, and orders of both, with a tombstone between."""
    log = SchemaLog(tmp_path)
    log.register("orders-value", 1, OLD)
    log.register("orders-value", 2, NEW, 2)
    return write_values(tmp_path, [framed(1, ADA), None, framed(2, BOB)])


def values(path: Path, **options: Any) -> list[Any]:
    options = {"subscribe": "orders", "valueFormat": "avro"} | options
    found: list[Any] = kafkaseg.scan(path, columns=["value"], **options).read_all()["value"].to_pylist()
    return found


@pytest.mark.parametrize("threads", [1, 2])
def test_every_writer_is_read_as_the_newest_schema(logs: Path, threads: int) -> None:
    table = kafkaseg.scan(logs, subscribe="orders", valueFormat="avro", threads=threads).read_all()
    assert table["value"].to_pylist() == [
        {"customer": "Ada", "id": 5, "note": None},
        None,
        {"customer": "Bob", "id": 6, "note": "new"},
    ]
    assert table.schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert table["key"].to_pylist() == [b"k0", b"k1", b"k2"]
    plan = kafkaseg.plan(logs, subscribe="orders", valueFormat="avro")
    assert plan.to_reader().read_all().equals(table)


@pytest.mark.parametrize("schema", ["1", "id:1", "subject:orders-value", "latest"])
def test_the_schema_that_values_are_read_as(logs: Path, schema: str) -> None:
    names = {*values(logs, valueSchema=schema)[0]}
    assert names == ({"id", "customer"} if schema in ("1", "id:1") else {"id", "customer", "note"})


def test_a_file_as_the_schema(logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "reader.avsc"
    file.write_text(json.dumps(dict(OLD, fields=OLD["fields"][:1])))
    assert values(logs, valueSchema=str(file)) == [{"id": 5}, None, {"id": 6}]


def test_keys_and_strings(tmp_path: Path) -> None:
    SchemaLog(tmp_path).register("orders-key", 3, "int")
    records = [Rec(0, 0, framed(3, b"\x08"), "größe".encode()), Rec(1, 1, None, None)]
    write_records(tmp_path / "orders-0", records)
    table = kafkaseg.scan(tmp_path, subscribe="orders", keyFormat="avro", valueFormat="string").read_all()
    assert table.select(["key", "value"]).to_pylist() == [{"key": 4, "value": "größe"}, {"key": None, "value": None}]


def test_text_that_is_not_utf8_does_not_fit(tmp_path: Path) -> None:
    write_values(tmp_path, [b"fine", b"\xff", None])
    with pytest.raises(
        MisfitError, match=r"a value of orders-0 that does not fit .* offset 1: found text that is not UTF-8"
    ):
        values(tmp_path, valueFormat="string")
    assert values(tmp_path, valueFormat="string", valueMode="PERMISSIVE") == ["fine", None, None]


def test_where_the_schemas_are(logs: Path, tmp_path: Path) -> None:
    """Beside the data by default, or a log directory, the topic's own directory, an export, or files named by ids."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (logs / "_schemas-0").rename(elsewhere / "_schemas-0")
    with pytest.raises(OptionError, match="option 'valueFormat' needs schemas, and topic _schemas is not in"):
        values(logs)
    export = tmp_path / "schemas.txt"
    rows = kafkaseg.scan(elsewhere / "_schemas-0").read_all().to_pylist()
    export.write_bytes(b"\n".join(row["key"] + b"\t" + row["value"] for row in rows))
    renamed = tmp_path / "renamed" / "registry-0"
    renamed.parent.mkdir()
    (elsewhere / "_schemas-0").rename(renamed)
    files = tmp_path / "files"
    files.mkdir()
    (files / "1.avsc").write_text(json.dumps(OLD))
    (files / "2.avsc").write_text(json.dumps(NEW))
    for place in (renamed, renamed.parent, export, files):
        schema = "id:2" if place is files else "latest"
        assert len(values(logs, schemas=str(place), valueSchema=schema)) == 3
    with pytest.raises(PathError, match=r"option 'schemas' is '.*nowhere': there is nothing"):
        values(logs, schemas=str(tmp_path / "nowhere"))


def test_bare_values_and_single_objects(tmp_path: Path) -> None:
    """A schema alone: values without a prefix. Files with schemas: single objects, by their fingerprints."""
    file = tmp_path / "orders.avsc"
    file.write_text(json.dumps(OLD))
    write_values(tmp_path, [ADA])
    assert values(tmp_path, valueSchema=str(file)) == [{"id": 5, "customer": "Ada"}]
    fingerprints = [struct.pack("<q", fingerprint(parse_schema(json.dumps(each)))) for each in (OLD, NEW)]
    (tmp_path / "new.avsc").write_text(json.dumps(NEW))
    write_values(tmp_path, [b"\xc3\x01" + fingerprints[0] + ADA, b"\xc3\x01" + fingerprints[1] + BOB])
    found = values(tmp_path, schemas=str(tmp_path), valueSchema=str(file))
    assert found == [{"id": 5, "customer": "Ada"}, {"id": 6, "customer": "Bob"}]
    write_values(tmp_path, [b"\xc3\x01" + bytes(8)])
    with pytest.raises(
        MisfitError, match="found fingerprint 0000000000000000, expected one of the 2 schemas in 2 files"
    ):
        values(tmp_path, schemas=str(tmp_path), valueSchema=str(file))


def test_headers_name_schemas(logs: Path) -> None:
    """By GUID or by id, the last header counts, and before the bytes of the value."""
    guid = b"\1" + uuid.UUID(make_guid(json.dumps(NEW))).bytes
    name = "__value_schema_id"
    records = [
        Rec(0, 0, b"k", BOB, ((name.encode(), guid),)),
        Rec(1, 1, b"k", ADA, ((name.encode(), guid), (name.encode(), b"\0\0\0\0\1"))),
        Rec(2, 2, b"k", framed(1, ADA), ((b"other", b"x"),)),
        Rec(3, 3, b"k", framed(1, ADA)),
        Rec(4, 4, b"k", None, ((name.encode(), guid),)),
    ]
    write_records(logs / "orders-0", records)
    assert [value and value["id"] for value in values(logs)] == [6, 5, 5, 5, None]
    write_records(logs / "orders-0", [Rec(0, 0, b"k", BOB, ((name.encode(), b"\1" + bytes(16)),))])
    with pytest.raises(
        MisfitError,
        match="GUID 00000000-0000-0000-0000-000000000000 in the header '__value_schema_id', expected one of the 2 schemas in",
    ):
        values(logs)


def test_contexts(tmp_path: Path) -> None:
    """The same id means another schema in another context."""
    log = SchemaLog(tmp_path)
    log.register("orders-value", 1, '"int"')
    log.register(":.east:orders-value", 1, '"string"')
    write_values(tmp_path, [framed(1, b"\x02a")])
    assert values(tmp_path, schemaContext=".east") == ["a"]
    assert values(tmp_path, valueSchema="subject::.east:orders-value") == ["a"]
    with pytest.raises(MisfitError, match="bytes left over"):
        values(tmp_path)


def test_references(tmp_path: Path) -> None:
    """The schemas of a real registry: an order has a price of another subject's type."""
    log = SchemaLog(tmp_path)
    for key, value in captured("references"):
        log.add(key, value)
    write_values(tmp_path, [framed(2, b"\x08")])
    assert values(tmp_path, valueSchema="subject:av_order") == [{"price": {"cents": 4}}]
    log.remove("av_money")
    assert values(tmp_path, valueSchema="subject:av_order") == [{"price": {"cents": 4}}]


def test_references_in_a_circle_or_missing(tmp_path: Path) -> None:
    log = SchemaLog(tmp_path)
    log.register("a", 1, '"A"', references=[{"name": "A", "subject": "b", "version": 1}])
    log.register("b", 2, '"A"', references=[{"name": "A", "subject": "a", "version": 1}])
    log.register("c", 3, '"A"', references=[{"name": "A", "subject": "gone", "version": 7}])
    write_values(tmp_path, [b""])
    with pytest.raises(OptionError, match="in a circle"):
        values(tmp_path, valueSchema="subject:a")
    with pytest.raises(
        OptionError, match=r"it uses gone version 7, which _schemas, read to offset 2 of .* does not have"
    ):
        values(tmp_path, valueSchema="subject:c")


def test_deleted_schemas_still_decode(logs: Path) -> None:
    log = SchemaLog(logs)
    log.register("orders-value", 1, OLD)
    log.register("orders-value", 2, NEW, 2)
    log.register("orders-value", 1, OLD, deleted=True)
    log.remove("orders-value")
    assert [value and value["id"] for value in values(logs)] == [5, None, 6]


# ---- what is said ----


def test_an_id_that_is_not_there(logs: Path) -> None:
    """It says up to where `_schemas` was read, as a copy may be older than the data."""
    write_values(logs, [framed(1, ADA), framed(9, ADA)])
    said = (
        r"a value of orders-0 that does not fit in .*orders-0/0+\.log at byte 0, offset 1: found schema id 9, expected one"
        r" of the 2 schemas in _schemas, read to offset 1 of 1970-01-01T00:00:00.010Z \(valueMode=PERMISSIVE makes it null\)"
    )
    with pytest.raises(MisfitError, match=said) as caught:
        values(logs)
    assert caught.value.offset == 1
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), MisfitError)


def test_a_value_that_is_encrypted_as_a_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = SchemaLog(tmp_path)
    log.register("orders-value", 1, OLD)
    rules = {"encodingRules": [{"name": "e", "type": "ENCRYPT_PAYLOAD"}]}
    log.register("orders-value", 2, NEW, 2, ruleSet=rules)
    write_values(tmp_path, [framed(2, b"ciphertext")])
    with pytest.raises(MisfitError, match=r"schema id 2: its values are encrypted as a whole \(ENCRYPT_PAYLOAD\)"):
        values(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert values(tmp_path, valueMode="PERMISSIVE") == [None]
    assert "offset 0 of orders-0: schema id 2: its values are encrypted as a whole (ENCRYPT_PAYLOAD))" in caplog.text


def test_a_schema_that_cannot_be_read_as_the_chosen_one(logs: Path) -> None:
    log = SchemaLog(logs)
    log.register("orders-value", 1, OLD)
    log.register("other-value", 2, {"type": "record", "name": "Other", "fields": []})
    log.register("proto-value", 3, "message M {}", schemaType="PROTOBUF")
    for number, why in ((2, "it is a schema of another name"), (3, "it is a schema of PROTOBUF")):
        write_values(logs, [framed(number, b"")])
        with pytest.raises(
            MisfitError, match=f"schema id {number}: {why}, expected a schema that can be read as record"
        ):
            values(logs)
    with pytest.raises(
        OptionError, match="proto-value version 1 is a schema of PROTOBUF, and option 'valueFormat' is avro"
    ):
        values(logs, valueSchema="id:3")


@pytest.mark.parametrize("schema", ["7", "id:7", "subject:none"])
def test_a_schema_that_is_not_there(logs: Path, schema: str) -> None:
    with pytest.raises(OptionError, match="orders-value"):
        values(logs, valueSchema=schema)


def test_topics_of_several_schemas(logs: Path) -> None:
    """An error that lists the subjects, and says what to write."""
    log = SchemaLog(logs)
    log.register("orders-value", 1, OLD)
    log.register("payments-value", 2, '"int"')
    write_values(logs, [framed(2, b"\x02")], topic="payments")
    write_values(logs, [framed(1, ADA)])
    said = r"\(orders-value, payments-value\): name one topic by option 'subscribe', or one schema by"
    with pytest.raises(OptionError, match=said):
        values(logs, subscribe="orders,payments")
    with pytest.raises(
        OptionError, match=r"has no subject _schemas-value in context '\.', but orders-value, payments-value"
    ):
        kafkaseg.scan(logs, valueFormat="avro")


def test_permissive(logs: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A null and the bytes beside it; a tombstone is neither; each reason is said once, with its number."""
    bad = framed(9, ADA)
    write_values(logs, [framed(1, ADA), bad, None, bad, framed(1, ADA + b"x"), b""])
    with caplog.at_level(logging.WARNING):
        table = kafkaseg.scan(logs, subscribe="orders", valueFormat="avro", valueMode="permissive").read_all()
    assert [value and value["id"] for value in table["value"].to_pylist()] == [5, None, None, None, None, None]
    assert table["_corrupt_record"].to_pylist() == [None, bad, None, bad, framed(1, ADA + b"x"), b""]
    assert set(caplog.messages) == {
        "2 values do not fit, and are null: a schema that is not known (the first at offset 1 of orders-0: schema id 9)",
        "1 value does not fit, and is null: bytes left over (the first at offset 4 of orders-0: under schema id 1)",
        "1 value does not fit, and is null: bytes that do not begin as its schema's number does (the first at offset 5 of"
        " orders-0: 0 bytes that begin with nothing)",
    }
    named = kafkaseg.scan(
        logs, subscribe="orders", valueFormat="avro", valueMode="PERMISSIVE", columnNameOfCorruptRecord="bad"
    )
    assert named.schema.names[-1] == "bad"
    only = kafkaseg.scan(
        logs, columns=["_corrupt_record"], subscribe="orders", valueFormat="avro", valueMode="PERMISSIVE"
    )
    assert only.read_all()["_corrupt_record"].null_count == 2
    with pytest.raises(OptionError, match="option 'columnNameOfCorruptRecord' is 'offset', which is a column of every"):
        values(logs, valueMode="PERMISSIVE", columnNameOfCorruptRecord="offset")
    with pytest.raises(SchemaError, match="_corrupt_record"):
        kafkaseg.scan(logs, columns=["_corrupt_record"], subscribe="orders", valueFormat="avro")


def test_control_records_are_null(logs: Path) -> None:
    """The bytes of a marker are no value of a producer."""
    batches = [
        writer.record_batch(
            [Rec(0, 0, b"k", framed(1, ADA))], base_offset=0, producer_id=1, producer_epoch=0, transactional=True
        ),
        writer.control_batch("commit", offset=1, timestamp=1, producer_id=1),
    ]
    (logs / "orders-0" / writer.segment_name(0)).write_bytes(b"".join(batches))
    table = kafkaseg.scan(logs, subscribe="orders", valueFormat="avro", includeControl=True).read_all()
    assert [value and value["id"] for value in table["value"].to_pylist()] == [5, None]
    assert table["controlType"].to_pylist() == [None, "COMMIT"]


def test_values_that_nobody_wants_are_not_decoded(logs: Path) -> None:
    write_values(logs, [b"bad"])
    assert kafkaseg.scan(logs, columns=["offset"], subscribe="orders", valueFormat="avro").read_all().num_rows == 1


def test_a_task_gets_programs_and_no_schemas(tmp_path: Path) -> None:
    """A registry of many schemas costs a task little."""
    log = SchemaLog(tmp_path)
    log.register("orders-value", 1, OLD)
    for number in range(2, 300):
        text = json.dumps({"type": "record", "name": f"N{number}", "fields": [], "doc": "x" * 2000})
        log.register(f"s{number}", number, text)
    write_values(tmp_path, [framed(1, ADA)])
    parsed, _ = parse_options({"path": str(tmp_path), "subscribe": "orders", "valueFormat": "avro"})
    data = pickle.dumps(type_columns(parsed, Warnings()))
    assert len(data) < 64 * 1024
    assert b"xxxxx" not in data


def test_files_of_the_official_format(tmp_path: Path) -> None:
    """What fastavro writes as a record, framed by hand, over several batches and partitions."""
    SchemaLog(tmp_path).register("orders-value", 1, OLD)
    for partition in range(3):
        records = [
            Rec(at, at, None, framed(1, encode(OLD, {"id": at, "customer": f"c{partition}"}))) for at in range(200)
        ]
        write_records(tmp_path / f"orders-{partition}", records)
    assert fastavro.parse_schema(OLD)
    found = values(tmp_path)
    assert len(found) == 600 and found[-1] == {"id": 199, "customer": "c2"}


def test_fields_that_are_named_alone(logs: Path) -> None:
    """As in Parquet, `value.id` is the column `value` with this field; the others are not made."""
    options: dict[str, Any] = {"subscribe": "orders", "valueFormat": "avro"}
    table = kafkaseg.scan(logs, columns=["offset", "value.note", "value.id"], **options).read_all()
    assert table.to_pylist() == [
        {"offset": 0, "value": {"note": None, "id": 5}},
        {"offset": 1, "value": None},
        {"offset": 2, "value": {"note": "new", "id": 6}},
    ]
    with pytest.raises(SchemaError, match=r"column 'value' is named more than once"):
        kafkaseg.scan(logs, columns=["value", "value.id"], **options)
    for wrong in ("value.nothing", "value.id.deeper"):
        with pytest.raises(SchemaError, match="there is no such column inside 'value'"):
            kafkaseg.scan(logs, columns=[wrong], **options)
    with pytest.raises(SchemaError, match=r"there is no column 'key\.id'"):
        kafkaseg.scan(logs, columns=["key.id"], **options)


def test_latest_is_the_newest_version_that_is_not_deleted(logs: Path) -> None:
    log = SchemaLog(logs)
    log.register("orders-value", 1, OLD)
    log.register("orders-value", 2, NEW, 2, deleted=True)
    assert {*values(logs)[0]} == {"id", "customer"}


def test_two_schemas_of_one_id(logs: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The first one counts, as in a registry, and the other one is named."""
    log = SchemaLog(logs)
    log.register("orders-value", 1, OLD)
    log.register("other-value", 1, {"type": "record", "name": "Order", "fields": []})
    write_values(logs, [framed(1, ADA)])
    with caplog.at_level(logging.WARNING):
        assert values(logs) == [{"id": 5, "customer": "Ada"}]
    [said] = caplog.messages
    assert "has two schemas of id 1: that of orders-value version 1 counts, and that of other-value version 1" in said


def test_an_id_of_another_context_is_not_known(tmp_path: Path) -> None:
    log = SchemaLog(tmp_path)
    log.register("orders-value", 1, '"int"')
    log.register(":.east:orders-value", 2, '"int"')
    write_values(tmp_path, [framed(2, b"\x02")])
    with pytest.raises(MisfitError, match="found schema id 2, expected the only schema in _schemas"):
        values(tmp_path)
    assert values(tmp_path, schemaContext=".east") == [1]
