"""Values of Protobuf in a log: how they name their message, imports, files, and what does not fit."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.protobuf")

from google.protobuf import descriptor_pb2

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import MisfitError, OptionError, SchemaError
from kafka_segment_source.values.protobuf_files import load_file
from kafka_segment_source.values.protobuf_rows import read_indexes
from tests.support.schema_logs import TYPED_LOGS, SchemaLog, captured, framed, write_records, write_values
from tests.support.writer import Rec

MONEY = 'syntax = "proto3";\npackage shop;\n\nmessage Money {\n  string currency = 1;\n  int64 units = 2;\n}\n'
ORDER = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "money.proto";
message Order {
  int64 id = 1;
  Money price = 2;
  google.protobuf.Timestamp at = 3;
  message Line { string sku = 1; }
  repeated Line lines = 4;
  Order parent = 5;
  optional string note = 6;
}
message Other { string text = 1; message Deep { int32 x = 1; } }
"""
FIRST, OTHER, DEEP = b"\0", b"\2\2", b"\4\2\0"
ROW = b"\x08\x07\x12\x07\x0a\x03EUR\x10\x05\x1a\x02\x08\x01\x22\x03\x0a\x01a"


def encode_file(**fields: Any) -> str:
    """A descriptor in base64, as registries take it."""
    return base64.b64encode(descriptor_pb2.FileDescriptorProto(name="a.proto", **fields).SerializeToString()).decode()


EDITION = encode_file(syntax="editions", edition="EDITION_2023", message_type=[{"name": "A"}])
MESSAGE_SET = encode_file(message_type=[{"name": "A", "options": {"message_set_wire_format": True}}])


def register(directory: Path, number: int = 7, text: str = ORDER, **fields: Any) -> SchemaLog:
    log = SchemaLog(directory)
    log.register("money", 3, MONEY, schemaType="PROTOBUF")
    listed = [{"name": "money.proto", "subject": "money", "version": 1}]
    log.register("orders-value", number, text, schemaType="PROTOBUF", **({"references": listed} | fields))
    return log


def read(path: Path, **options: Any) -> list[Any]:
    options = {"subscribe": "orders", "valueFormat": "protobuf"} | options
    found: list[Any] = kafkaseg.scan(path, **options).read_all()["value"].to_pylist()
    return found


def refuse(path: Path, **options: Any) -> str:
    with pytest.raises((MisfitError, OptionError, SchemaError)) as caught:
        read(path, **options)
    return str(caught.value)


@pytest.mark.parametrize("form", ["protobuf", "auto"])
def test_an_order(form: str, tmp_path: Path) -> None:
    register(tmp_path)
    write_values(tmp_path, [framed(7, FIRST + ROW), None, framed(7, b"\2\0" + b"\x2a\x02\x08\x09\x32\x00")])
    [first, tombstone, second] = read(tmp_path, valueFormat=form)
    assert (first["id"], first["price"], first["lines"]) == (7, {"currency": "EUR", "units": 5}, [{"sku": "a"}])
    assert first["at"].timestamp() == 1
    assert (first["parent"], first["note"]) == (None, None)
    assert tombstone is None
    assert (second["id"], second["price"], second["parent"], second["note"]) == (0, None, '{"id":9}', "")


def test_message_indexes(tmp_path: Path) -> None:
    register(tmp_path)
    values = [framed(7, OTHER + b"\x0a\x01x"), framed(7, DEEP + b"\x08\x05")]
    write_values(tmp_path, values)
    assert read(tmp_path, valueSchema="latest#shop.Other", valueMode="PERMISSIVE") == [{"text": "x"}, None]
    assert read(tmp_path, valueSchema="id:7#shop.Other.Deep", valueMode="PERMISSIVE") == [None, {"x": 5}]
    said = refuse(tmp_path)
    assert "offset 0" in said
    assert "schema id 7: it is message shop.Other, which option 'valueSchema' can name, as latest#shop.Other" in said
    assert "it has no message shop.Nope, but shop.Order" in refuse(tmp_path, valueSchema="latest#shop.Nope")


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\0", ((0,), 1)),
        (b"\2\0", ((0,), 2)),
        (b"\2\2", ((1,), 2)),
        (b"\4\2\x80\1", ((1, 64), 4)),
        (b"", None),
        (b"\1", None),  # -1
        (b"\2\1", None),
        (b"\4\2", None),
        (b"\x80\x80\x80\x80\x80\x80", None),
        (b"\xfe\xff\xff\xff\x0f", None),
    ],
)
def test_reading_indexes(data: bytes, found: Any) -> None:
    assert read_indexes(data) == found


def test_indexes_that_two_clients_count_otherwise_do_not_fit(tmp_path: Path) -> None:
    """The registry does not count the entry of the map, and the client of Python does."""
    text = 'syntax = "proto3"; message A { map<string, int32> m = 1; message B { int32 x = 1; } message C { int32 x = 1; } }'
    register(tmp_path, text=text, references=[])
    write_values(tmp_path, [framed(7, b"\4\0\0\x08\1"), framed(7, b"\4\0\2\x08\1"), framed(7, b"\4\0\4\x08\1")])
    assert read(tmp_path, valueSchema="latest#A.C", valueMode="PERMISSIVE") == [None, None, None]
    assert "as clients of Python do" in refuse(tmp_path, valueSchema="latest#A.C")


def test_what_does_not_fit(tmp_path: Path) -> None:
    register(tmp_path)
    bad = [
        (b"", "0 bytes that begin with nothing"),
        (b"\1abcdef", "7 bytes that begin with 0161626364"),
        (framed(9, FIRST), "schema id 9"),
        (framed(7, b""), "message indexes that are none"),
        (framed(7, b"\2"), "message indexes that are none"),
        (framed(7, FIRST + ROW + b"\xff"), "not a message of Protobuf"),
        (framed(7, FIRST + ROW[:-1]), "not a message of Protobuf"),
        (framed(7, FIRST + b"\x32\x01\xff"), "not UTF-8"),
        (framed(7, FIRST + b"\x1a\x02\x10\x80"), "not a message of Protobuf"),
        (framed(7, FIRST + b"\x1a\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "a timestamp that microseconds"),
        (framed(3, FIRST), "schema id 3: it has no message of that name"),
    ]
    for at, (value, reason) in enumerate(bad):
        said = refuse(
            write_values(tmp_path, [framed(7, FIRST + ROW), value], f"bad{at}"),
            subscribe=f"bad{at}",
            valueSchema="id:7",
        )
        assert reason in said, (value, said)
        assert f"bad{at}-0" in said
        assert "offset 1" in said
    write_values(tmp_path, [framed(7, FIRST + ROW), *(value for value, _ in bad), framed(7, FIRST + ROW)])
    table = kafkaseg.scan(tmp_path, subscribe="orders", valueFormat="protobuf", valueMode="PERMISSIVE").read_all()
    rows = table["value"].to_pylist()
    assert [row is None for row in rows] == [False, *[True] * len(bad), False]
    assert table["_corrupt_record"].to_pylist() == [None, *(value for value, _ in bad), None]


def test_headers_name_schemas(tmp_path: Path) -> None:
    """Byte 1 and a GUID, or byte 0 and an id, with the indexes behind it. The value is bare."""
    guid = uuid.uuid4()
    register(tmp_path, md5=base64.b64encode(guid.bytes).decode())
    name = b"__value_schema_id"
    headers = [
        b"\1" + guid.bytes + FIRST,
        framed(7, FIRST),
        b"\1" + guid.bytes + OTHER,
        b"\1" + bytes(16) + FIRST,
        framed(7, FIRST + b"\0"),
        None,
    ]
    write_records(
        tmp_path / "orders-0", [Rec(at, at, None, ROW, ((name, header),)) for at, header in enumerate(headers)]
    )
    rows = read(tmp_path, valueMode="PERMISSIVE")
    assert [row and row["id"] for row in rows] == [7, 7, None, None, None, None]


def test_older_writers_are_read_by_field_number(tmp_path: Path) -> None:
    log = register(
        tmp_path,
        7,
        'syntax = "proto3"; package p; message V { int32 a = 1; string gone = 2; int64 t = 3; }',
        references=[],
    )
    new = 'syntax = "proto3"; package p; message V { int64 renamed = 1; optional uint64 more = 9; }'
    log.register("orders-value", 8, new, 2, schemaType="PROTOBUF")
    log.register(
        "orders-value",
        9,
        'syntax = "proto3"; package p; message V { string renamed = 1; }',
        3,
        schemaType="PROTOBUF",
        deleted=True,
    )
    write_values(
        tmp_path, [framed(7, FIRST + b"\x08\x05\x12\x01x\x18\x01"), framed(8, FIRST + b"\x48" + b"\xff" * 9 + b"\x01")]
    )
    assert read(tmp_path) == [{"renamed": 5, "more": None}, {"renamed": 0, "more": Decimal(2**64 - 1)}]
    write_values(tmp_path, [framed(9, FIRST + b"\x0a\x01a")], "other")
    said = refuse(tmp_path, subscribe="other", valueSchema="id:8")
    assert "schema id 9: field 1 of p.V is string there, and int64 in the schema that it is read as (renamed)" in said


def test_an_id_that_is_not_known_is_no_other_schema(tmp_path: Path) -> None:
    """Even where there is only one."""
    text = 'syntax = "proto3"; message A { int32 a = 1; }'
    SchemaLog(tmp_path).register("orders-value", 7, text, schemaType="PROTOBUF")
    write_values(tmp_path, [framed(7, FIRST + b"\x08\x05"), framed(8, FIRST + b"\x08\x05")])
    assert read(tmp_path, valueMode="PERMISSIVE") == [{"a": 5}, None]
    said = refuse(tmp_path)
    assert "found schema id 8, expected the only schema in _schemas, read to offset 0" in said


def test_a_required_field_that_is_not_there(tmp_path: Path) -> None:
    register(tmp_path, text="message A { required int32 a = 1; optional A inside = 2; }", references=[])
    values = [framed(7, FIRST + b"\x08\x05"), framed(7, FIRST), framed(7, FIRST + b"\x08\x05\x12\x00")]
    write_values(tmp_path, values)
    rows = read(tmp_path, valueMode="PERMISSIVE")
    assert [row and row["a"] for row in rows] == [5, None, None]
    assert "a message without a field that is required" in refuse(tmp_path)


@pytest.mark.parametrize(
    "kind", ["map<string, string> m", "map<string, A> m", "optional string m", "repeated string m"]
)
def test_text_of_proto2_that_is_not_utf8(kind: str, tmp_path: Path) -> None:
    """Its parser does not check it. One such value costs no other."""
    register(tmp_path, text=f"message A {{ {kind} = 2; }}", references=[])
    hurt = b"\x12\x03\x0a\x01\xff" if kind.startswith("map") else b"\x12\x01\xff"
    write_values(tmp_path, [framed(7, FIRST), framed(7, FIRST + hurt)])
    assert [each is None for each in read(tmp_path, valueMode="PERMISSIVE")] == [False, True]
    assert "text that is not UTF-8" in refuse(tmp_path)


def test_bare_values_under_a_file(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "order.proto").write_text(ORDER)
    (tmp_path / "schemas" / "money.proto").write_text(MONEY)
    logs = write_values(tmp_path / "logs", [ROW, None, b""])
    order = str(tmp_path / "schemas" / "order.proto")
    assert (
        "it has the messages shop.Order, shop.Other: name one by option 'valueSchema', as order.proto#shop.Order"
        in refuse(logs, valueSchema=order)
    )
    for options in ({}, {"schemas": str(tmp_path / "schemas")}):
        rows = read(logs, valueSchema=order + "#shop.Order", **options)
        assert [row and row["id"] for row in rows] == [7, None, 0]
    (tmp_path / "schemas" / "money.proto").unlink()
    said = refuse(logs, valueSchema=order + "#shop.Order")
    assert "it imports money.proto, which is not among its references or beside it" in said


def test_files_named_by_ids(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "7.proto").write_text(ORDER)
    (tmp_path / "schemas" / "money.proto").write_text(MONEY)
    logs = write_values(tmp_path / "logs", [framed(7, FIRST + ROW)])
    assert read(logs, schemas=str(tmp_path / "schemas"), valueSchema="id:7")[0]["id"] == 7


def test_wanted_fields(tmp_path: Path) -> None:
    register(tmp_path)
    write_values(tmp_path, [framed(7, FIRST + ROW)])
    options = {"subscribe": "orders", "valueFormat": "protobuf"}
    table = kafkaseg.scan(tmp_path, columns=["offset", "value.price.units", "value.id"], **options).read_all()
    assert table.to_pylist() == [{"offset": 0, "value": {"price": {"units": 5}, "id": 7}}]
    with pytest.raises(SchemaError, match=r"shop\.Money has no field 'cents'"):
        kafkaseg.scan(tmp_path, columns=["value.price.cents"], **options)
    with pytest.raises(SchemaError, match="lines is repeated"):
        kafkaseg.scan(tmp_path, columns=["value.lines.sku"], **options)


@pytest.mark.parametrize(
    ("message", "begin", "item", "end"),
    [
        ("repeated Wide wide = 1;", b"", b"\x0a\0", b""),
        ("optional group G = 2 { repeated Wide wide = 1; }", b"\x13", b"\x0a\0", b"\x14"),
        ("optional group G = 2 { repeated group W = 1 { optional Wide wide = 3; } }", b"\x13", b"\x0b\x1a\0\x0c", b"\x14"),
        ("repeated group Wider = 1 { FIELDS }", b"", b"\x0b\x0c", b""),
    ],
)  # fmt: skip
def test_a_few_bytes_that_would_take_much_memory_do_not_fit(
    message: str, begin: bytes, item: bytes, end: bytes, tmp_path: Path
) -> None:
    """Each two to four bytes are a message or a group of 2,000 fields."""
    fields = " ".join(f"optional int64 f{at} = {at};" for at in range(1, 2001))
    inside = message.replace("FIELDS", fields)
    text = f'syntax = "proto2"; message A {{ {inside} message Wide {{ {fields} }} }}'
    register(tmp_path, text=text, references=[])
    write_values(tmp_path, [framed(7, FIRST + begin + item * count + end) for count in (300_000, 1)])
    code = (
        "import resource, sys, kafka_segment_source as k\n"
        "resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))\n"
        "r = k.scan(sys.argv[1], subscribe='orders', valueFormat='protobuf', valueMode='PERMISSIVE').read_all()\n"
        "assert [v is None for v in r['value'].to_pylist()] == [True, False]\n"
        "peak = int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])\n"  # ru_maxrss is also the parent's
        "assert peak < 700_000, peak\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it has no message"),
        ('edition = "2023"; message A {}', "it is written in an edition"),
        (EDITION, "it is written in an edition"),
        (MESSAGE_SET, "A has message_set_wire_format"),
        ("message A { option message_set_wire_format = true; }", "A has message_set_wire_format"),
        ('syntax = "proto3"; message A { optional group B = 1 { } }', "a group, which proto3 does not have"),
        ('syntax = "proto4";', "its syntax is proto4"),
        ('syntax = "proto3"; message A { B b = 1; }', "couldn't resolve name 'B'"),
        ('syntax = "proto3"; message A { int32 a = 1; int32 b = 1; }', "uplicate"),
        ('syntax = "proto3"; message A { int32 a = 1 ', "found the end after"),
        ('syntax = "proto3"; message A { int32 HasField = 1; }', "a field HasField"),
        ('syntax = "proto3"; import "a.proto"; message A { }', "it imports a.proto, which"),
        ('syntax = "proto3"; ' + "message A {" * 100 + "}" * 100, "more than 32 messages inside one another"),
        ('syntax = "proto3"; message A { int32 a = ' + "9" * 5000 + "; }", "is no number"),
        ("message A { \ud800 }", "found"),
    ],
)
def test_schemas_that_cannot_be_used(text: str, said: str, tmp_path: Path) -> None:
    register(tmp_path, text=text, references=[])
    write_values(tmp_path, [framed(7, FIRST)])
    found = refuse(tmp_path)
    assert said in found
    assert len(found) < 1000


def test_imports_in_a_circle(tmp_path: Path) -> None:
    log = SchemaLog(tmp_path)
    for number, (name, other) in enumerate((("a", "b"), ("b", "a"))):
        text = f'syntax = "proto3"; import "{other}.proto"; message {name.upper()} {{ }}'
        listed = [{"name": f"{other}.proto", "subject": other, "version": 1}]
        log.register(name, number, text, schemaType="PROTOBUF", references=listed)
    write_values(tmp_path, [framed(0, FIRST)])
    assert "in a circle" in refuse(tmp_path, valueSchema="subject:a")


def test_schemas_of_a_real_registry() -> None:
    """Those that Confluent's registry wrote, with references, as it prints them."""
    values = [json.loads(value) for _, value in captured("references") if value]
    texts = {each["subject"]: each for each in values if each.get("schemaType") == "PROTOBUF"}
    assert texts
    for each in texts.values():
        imports = {one["name"]: texts[one["subject"]]["schema"] for one in each.get("references", [])}
        assert load_file(each["schema"], imports.get).first


def test_without_google(tmp_path: Path) -> None:
    """One sentence says what to install."""
    code = (
        "import sys; sys.modules['google'] = sys.modules['google.protobuf'] = None\n"
        "import kafka_segment_source as k\n"
        "from kafka_segment_source.errors import UnsupportedError\n"
        "print(k.scan(sys.argv[1], subscribe='orders', valueFormat='avro').read_all().num_rows)\n"
        "try: k.scan(sys.argv[2], subscribe='orders', valueFormat='protobuf').read_all()\n"
        "except UnsupportedError as error: print(error)\n"
    )
    register(tmp_path)
    write_values(tmp_path, [framed(7, FIRST + ROW)])
    run = subprocess.run(
        [sys.executable, "-c", code, str(TYPED_LOGS), str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (
        run.stdout.splitlines()[-1]
        == "format protobuf needs the package protobuf: pip install 'kafka-segment-source[protobuf]'"
    )
