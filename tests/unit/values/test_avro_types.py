"""Each type of Avro, resolution and hostile input, by facts of the specification."""

from __future__ import annotations

import json
import struct
import time
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from kafka_segment_source.kernels import avro
from kafka_segment_source.values.avro_columns import MOST_COLUMNS, make_columns
from kafka_segment_source.values.avro_fingerprint import canonical_form, fingerprint
from kafka_segment_source.values.avro_meaning import Writer, make_avro_meaning
from kafka_segment_source.values.avro_schema import AvroError, parse_schema
from tests.support.avro_cases import Branch, encode, long, make_case
from tests.support.avro_reads import decode, decode_one, make_meaning
from tests.support.schema_logs import framed


def record(*fields: Any, name: str = "R", **more: Any) -> Any:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> Any:
    return {"name": name, "type": kind, **more}


# ---- types of columns ----


@pytest.mark.parametrize(
    ("schema", "spark"),
    [
        ("int", "int"),
        (["null", "int"], "int"),
        (["int", "long"], "bigint"),
        (["null", "float", "double"], "double"),
        (["null", "string", "long"], "struct<`member0`:string,`member1`:bigint>"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3}, "decimal(38,3)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "binary"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, "binary"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "bigint"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "timestamp_ntz"),
        ({"type": "long", "logicalType": "unheard-of"}, "bigint"),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, "binary"),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, "string"),
        ({"type": "map", "values": ["null", "int"]}, "map<string,int>"),
        (record(), "struct<>"),
        (record(field("a`b", "null")), "struct<`a``b`:void>"),
        ({"type": {"type": "array", "items": {"type": "string"}}}, "array<string>"),
        ({"type": "error", "name": "E", "fields": [{"name": "x", "type": "int"}]}, "struct<`x`:int>"),
    ],
)
def test_types_are_those_of_spark(schema: Any, spark: str) -> None:
    assert make_columns(parse_schema(json.dumps(schema))).spark == spark


def test_a_type_inside_itself_is_json() -> None:
    tree = record(field("value", "int"), field("children", {"type": "array", "items": "Tree"}), name="Tree")
    value = {"value": 1, "children": [{"value": 2, "children": [{"value": 3, "children": []}]}]}
    row, status = decode_one(tree, encode_tree(value))
    assert status == avro.FITS
    assert row == {"value": 1, "children": ['{"value":2,"children":[{"value":3,"children":[]}]}']}


def encode_tree(value: Any) -> bytes:
    items = value["children"]
    listed = long(len(items)) + b"".join(map(encode_tree, items)) if items else b""
    return long(value["value"]) + listed + b"\0"


def test_json_of_every_type() -> None:
    parts = record(
        field("u", ["null", "bytes"]),
        field("m", {"type": "map", "values": "double"}),
        field("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        field("f", {"type": "fixed", "name": "F", "size": 2}),
        field("t", "boolean"),
        field("x", "float"),
        field("next", ["null", "P"]),
        name="P",
    )
    plain = {"u": Branch(1, b"hi"), "m": {"k": 0.5}, "e": 1, "f": b"ab", "t": True, "x": 1.5}
    fields = {each["name"]: each["type"] for each in parts["fields"]}
    inner = b"".join(encode(fields[name], value) for name, value in plain.items())
    row, status = decode_one(parts, inner + b"\2" + inner + b"\0")
    assert status == avro.FITS
    assert json.loads(row["next"]) == {
        "u": "aGk=",
        "m": {"k": 0.5},
        "e": "B",
        "f": "YWI=",
        "t": True,
        "x": 1.5,
        "next": None,
    }


def test_namespaces_and_references() -> None:
    money = record(field("cents", "long"), name="Money", namespace="a.b")
    order = record(field("price", "a.b.Money"), field("same", "Money"), name="Order", namespace="a.b")
    parsed = parse_schema(json.dumps(order), [json.dumps(money)])
    assert make_columns(parsed).spark == "struct<`price`:struct<`cents`:bigint>,`same`:struct<`cents`:bigint>>"


# ---- resolution ----


def test_defaults_of_every_kind() -> None:
    reader = record(
        field("s", "string", default="naïve"),
        field("b", "bytes", default="\xff\x00"),
        field("n", ["null", "long"], default=None),
        field("o", ["long", "null"], default=7),
        field("x", "double", default=1),
        field("d", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, default="\x01\x00"),
        field("l", {"type": "array", "items": "int"}, default=[1, 2]),
        field("m", {"type": "map", "values": "string"}, default={"k": "v"}),
        field("r", record(field("i", "int", default=5), field("j", "boolean"), name="In"), default={"j": True}),
        field("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}, default="B"),
        field("u", ["string", "long"], default="x"),
    )
    row, status = decode_one(record(), b"", reader)
    assert status == avro.FITS
    assert row == {
        "s": "naïve",
        "b": b"\xff\x00",
        "n": None,
        "o": 7,
        "x": 1.0,
        "d": Decimal("2.56"),
        "l": [1, 2],
        "m": [("k", "v")],
        "r": {"i": 5, "j": True},
        "e": "B",
        "u": {"member0": "x", "member1": None},
    }


def test_an_enum_symbol_that_the_reader_does_not_have() -> None:
    writer = {"type": "enum", "name": "E", "symbols": ["A", "NEW"]}
    strict, kind = dict(writer, symbols=["A"]), dict(writer, symbols=["A"], default="A")
    assert decode_one(writer, long(1), strict) == (None, avro.UNKNOWN_SYMBOL)
    assert decode_one(writer, long(1), kind) == ("A", avro.FITS)


def test_a_branch_of_the_same_type_comes_before_promotion() -> None:
    """As in Java: an int is no double where the reader has an int too."""
    row, _ = decode_one("int", long(5), ["double", "int"])
    assert row == {"member0": None, "member1": 5}


def test_fixed_values_of_another_size_are_of_another_type() -> None:
    two, three = ({"type": "fixed", "name": "F", "size": size} for size in (2, 3))
    assert decode_one(two, b"ab", three) == (None, avro.UNRESOLVED)
    assert decode_one(two, b"ab", ["null", dict(two, aliases=["G"])]) == (b"ab", avro.FITS)


def test_milliseconds_of_the_writer_are_converted() -> None:
    """And a number of plain long has the reader's unit."""
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    for writer, reader, expected in ((millis, micros, 5000), (micros, millis, 5), ("long", millis, 5000)):
        row, _ = decode_one(writer, long(5), reader)
        assert row.timestamp() == expected / 1e6


def test_names_decide_and_ids_are_never_ignored() -> None:
    """Two schemas of the same shape: another name does not fit, and fields go by their names."""
    one = record(field("first", "string"), field("last", "string"))
    swapped = record(field("last", "string"), field("first", "string"))
    other = record(field("first", "string"), field("last", "string"), name="Other")
    payload = encode(one, {"first": "Ada", "last": "Lovelace"})
    found = decode(make_meaning([one, swapped, other], one), [framed(at, payload) for at in range(4)])
    assert found.rows[:2] == [{"first": "Ada", "last": "Lovelace"}, {"first": "Lovelace", "last": "Ada"}]
    assert found.status[2:] == [avro.UNRESOLVED, avro.UNKNOWN_SCHEMA]


def test_only_wanted_fields_are_columns_and_the_others_are_checked() -> None:
    inner = record(field("x", "int"), field("y", "string"), name="In")
    schema = record(field("a", "string"), field("in", ["null", inner]), field("b", "long"))
    payload = encode(schema, {"a": "text", "in": Branch(1, {"x": 1, "y": "z"}), "b": 5})
    parsed = parse_schema(json.dumps(schema))
    meaning = make_avro_meaning(
        [Writer(0, parsed)], parsed, avro.PREFIXED, "the test", wanted={"in": {"x": {}}, "b": {}}
    )
    assert meaning.spark == "struct<`in`:struct<`x`:int>,`b`:bigint>"
    found = decode(meaning, [framed(0, payload), framed(0, payload.replace(b"text", b"\xff\xff\xff\xff"))])
    assert found.rows == [{"in": {"x": 1}, "b": 5}, None]
    with pytest.raises(AvroError, match="record R has no field 'c'"):
        make_columns(parsed, {"c": {}})


def test_top_level_bytes_have_no_length() -> None:
    """As Confluent's serializer writes them; a bare value has one."""
    assert decode_one("bytes", b"\xff\xfe") == (b"\xff\xfe", avro.FITS)
    found = decode(make_meaning(["bytes"], "bytes", avro.BARE), [b"\x04ab", b"\x04a"])
    assert found.rows == [b"ab", None]


# ---- values that do not fit ----


@pytest.mark.parametrize(
    ("schema", "payload", "status"),
    [
        ("int", b"", avro.CUT),
        ("int", b"\x80" * 11, avro.BAD_NUMBER),
        ("int", long(2**31), avro.BAD_NUMBER),
        ("long", b"\xff" * 9 + b"\x02", avro.BAD_NUMBER),
        ("long", b"\xff" * 9 + b"\x01\x00", avro.LEFT_OVER),
        ("string", long(5) + b"abc", avro.BAD_LENGTH),
        ("string", long(-1), avro.BAD_LENGTH),
        ("string", long(2**62), avro.BAD_LENGTH),
        ("string", long(2) + b"\xc3(", avro.BAD_UTF8),
        ("string", long(3) + b"\xed\xa0\x80", avro.BAD_UTF8),
        ("string", long(2) + b"\xc0\x80", avro.BAD_UTF8),
        ("string", long(4) + b"\xf4\x90\x80\x80", avro.BAD_UTF8),
        ("boolean", b"\x02", avro.BAD_BOOLEAN),
        ("double", b"\0" * 7, avro.CUT),
        (["null", "int"], long(2), avro.BAD_BRANCH),
        (["null", "int"], long(-1), avro.BAD_BRANCH),
        (["string", "int", "null"], long(3), avro.BAD_BRANCH),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, long(1), avro.BAD_SYMBOL),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, long(-1), avro.BAD_SYMBOL),
        ({"type": "fixed", "name": "F", "size": 3}, b"ab", avro.CUT),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, long(1) + b"\x64", avro.TOO_PRECISE),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38}, long(17) + b"\x01" * 17, avro.TOO_PRECISE),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38}, long(16) + b"\x7f" * 16, avro.TOO_PRECISE),
        ({"type": "bytes", "logicalType": "decimal", "precision": 25}, long(16) + b"\x80" * 16, avro.TOO_PRECISE),
        ({"type": "long", "logicalType": "timestamp-millis"}, long(2**62), avro.BEYOND_TIME),
        ({"type": "array", "items": "int"}, long(3) + b"\0\0", avro.BAD_LENGTH),
        ({"type": "array", "items": "null"}, long(2**40) + b"\0", avro.TOO_MANY_ITEMS),
        ({"type": "array", "items": record(name="Nothing")}, long(-(2**40)) + long(0) + b"\0", avro.TOO_MANY_ITEMS),
        ({"type": "array", "items": "long"}, long(2**40) + b"\0", avro.BAD_LENGTH),
        ({"type": "array", "items": "int"}, b"\xff" * 9 + b"\x01" + b"\0", avro.BAD_LENGTH),
        ({"type": "map", "values": "null"}, long(2**40) + b"\0", avro.BAD_LENGTH),
        ({"type": "array", "items": "int"}, long(-1) + long(50) + b"\0\0", avro.BAD_LENGTH),
    ],
)
def test_what_does_not_fit(schema: Any, payload: bytes, status: int) -> None:
    """Each in a field between others, and as an item that nobody wants."""
    wrapped = record(field("before", "int"), field("it", schema))
    assert decode_one(wrapped, long(1) + payload) == (None, status)
    reader = record(field("before", "int"))
    _, skipped = decode_one(wrapped, long(1) + payload, reader)
    kind = schema.get("logicalType") if isinstance(schema, dict) else None
    assert skipped == status or kind in ("decimal", "timestamp-millis")


@pytest.mark.parametrize("head", [b"", b"\0", b"\0\0\0\0", b"\1\0\0\0\0ab", b"{}"])
def test_values_without_a_prefix(head: bytes) -> None:
    found = decode(make_meaning(["int"], "int"), [head, framed(0, long(4))])
    assert (found.rows, found.status) == ([None, 4], [avro.NO_PREFIX, avro.FITS])


def test_a_null_is_no_misfit() -> None:
    found = decode(make_meaning(["int"], "int"), [None, framed(0, long(4)), None])
    assert (found.rows, found.status) == ([None, 4, None], [avro.IS_NULL, avro.FITS, avro.IS_NULL])


def test_a_deep_value_ends_somewhere() -> None:
    """A list in a list, by a type that refers to itself."""
    tree = record(field("next", ["null", "T"]), name="T")
    row, status = decode_one(tree, b"\2" * 50 + b"\0")
    assert status == avro.FITS and row["next"].count("next") == 50
    assert decode_one(tree, b"\2" * 500 + b"\0") == (None, avro.TOO_DEEP)


def test_items_without_bytes_are_counted_over_all_lists_of_a_row() -> None:
    nothing = {"type": "array", "items": "null"}
    most = avro.MOST_EMPTY_ITEMS
    assert decode_one(nothing, long(most) + b"\0") == ([None] * most, avro.FITS)
    assert decode_one(nothing, long(most + 1) + b"\0") == (None, avro.TOO_MANY_ITEMS)
    two = record(field("a", nothing), field("b", nothing))
    assert decode_one(two, (long(most // 2 + 1) + b"\0") * 2) == (None, avro.TOO_MANY_ITEMS)


def test_symbols_that_are_longer_than_their_bytes() -> None:
    """An enum makes much of little: a batch ends early, and one row alone may be too large."""
    schema = {"type": "array", "items": {"type": "enum", "name": "E", "symbols": ["S" * 1000]}}
    values = [framed(0, long(1000) + bytes(1000) + b"\0")] * 50
    found = decode(make_meaning([schema], schema), values, most=4_000_000)
    assert found.batches > 5 and found.status == [avro.FITS] * 50
    small = decode(make_meaning([schema], schema), values[:2], most=500_000)
    assert small.status == [avro.TOO_LARGE] * 2


# ---- schemas that cannot be used ----


def nested(depth: int) -> str:
    return '{"type":"array","items":' * depth + '"int"' + "}" * depth


def doubling(levels: int, last: str = '"int"') -> str:
    """A short schema of 2 ** levels fields."""
    text = f'{{"type":"record","name":"L0","fields":[{{"name":"a","type":{last}}}]}}'
    for level in range(1, levels):
        fields = f'{{"name":"a","type":{text}}},{{"name":"b","type":"L{level - 1}"}}'
        text = f'{{"type":"record","name":"L{level}","fields":[{fields}]}}'
    return text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is not JSON"),
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("null", "null is no type"),
        ("5", "5 is no type"),
        ('{"a":1}', "has no type"),
        ("[]", "a union without branches"),
        ('["int","int"]', "a union with two of int"),
        ('["int",["null"]]', "a union with a union"),
        ('"Unknown"', "which is not defined before"),
        ('{"type":"array"}', "has no items"),
        ('{"type":"record","name":"R"}', "has no fields"),
        ('{"type":"record","name":"","fields":[]}', "is no name"),
        ('{"type":"record","name":"' + "x" * 2000 + '","fields":[]}', "is no name"),
        ('{"type":"record","name":"\\ud800","fields":[]}', "is no name"),
        ('{"type":"record","name":"R","fields":[5]}', "has the fields"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}', "twice"),
        ('["null",{"type":"fixed","name":"F","size":-1}]', "has the size"),
        ('{"type":"enum","name":"E","symbols":["A","A"]}', "a symbol twice"),
        ('{"type":"enum","name":"E","symbols":["A"],"default":"B"}', "none of its symbols"),
        (nested(100), "more than 64 types inside one another"),
    ],
)
def test_schemas_that_are_none(text: str, said: str) -> None:
    with pytest.raises(AvroError, match=said):
        parse_schema(text)


def test_a_short_schema_of_many_columns() -> None:
    """It ends soon, whether its values have bytes or not."""
    begin = time.monotonic()
    for last in ('"int"', '"null"'):
        parsed = parse_schema(doubling(30, last))
        with pytest.raises(AvroError, match=f"more than {MOST_COLUMNS:,} columns"):
            make_columns(parsed)
        reader = parse_schema('{"type":"record","name":"L29","fields":[]}')
        meaning = make_avro_meaning([Writer(0, parsed)], reader, avro.PREFIXED, "the test")
        assert "steps" in meaning.whys[0]
    assert time.monotonic() - begin < 20


# ---- fingerprints ----


def test_fingerprints_are_those_of_fastavro() -> None:
    for seed in range(200):
        schema = make_case(seed).reader
        parsed = parse_schema(json.dumps(schema))
        text = fastavro.schema.to_parsing_canonical_form(schema)
        assert canonical_form(parsed) == text
        expected = fastavro.schema.fingerprint(text, "CRC-64-AVRO")
        assert struct.pack("<q", fingerprint(parsed)).hex() == expected


def test_text_that_is_not_utf8_does_not_fit_as_bytes_either() -> None:
    """What passes over a field checks its text, so a read of fewer columns has the same rows."""
    assert decode_one("string", b"\x02\xff", ["null", "bytes"]) == (None, avro.BAD_UTF8)
    assert decode_one("string", b"\x02a", ["null", "bytes"]) == (b"a", avro.FITS)
