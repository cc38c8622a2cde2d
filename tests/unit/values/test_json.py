"""valueFormat=json: declared types, values of every shape, and valueFormat=auto."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import MisfitError, OptionError, SchemaError
from kafka_segment_source.kernels import avro
from kafka_segment_source.values.json_meaning import JsonMeaning
from kafka_segment_source.values.json_types import JsonTypeError, looks_like_ddl, parse_ddl, parse_json_schema
from kafka_segment_source.values.misfits import NOT_JSON, OTHER_TYPE
from tests.support.avro_cases import encode
from tests.support.avro_reads import as_rows
from tests.support.schema_logs import SchemaLog, framed, write_values

DDL = "id bigint, name string, rate double, ok boolean, tags array<string>, inner struct<x int>"


def decode(ddl: str, values: list[bytes | None]) -> tuple[list[Any], list[int]]:
    meaning = JsonMeaning(parse_ddl(ddl))
    rows, status = as_rows(values), np.zeros(len(values), np.uint8)
    array, end = meaning.make_decoder(2**20).decode(rows, 0, len(values), status)
    assert end == len(values)
    array.validate(full=True)
    assert array.type == meaning.arrow
    return array.to_pylist(), status.tolist()


def values(path: Path, **options: Any) -> list[Any]:
    options = {"subscribe": "orders", "valueFormat": "json"} | options
    found: list[Any] = kafkaseg.scan(path, columns=["value"], **options).read_all()["value"].to_pylist()
    return found


# ---- values ----

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "name", "x", "inner"]), inner),
    max_leaves=6,
)
objects = st.fixed_dictionaries(
    {},
    optional={
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        "rate": st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-1000, 1000),
        "ok": st.none() | st.booleans(),
        "tags": st.none() | st.lists(st.none() | st.sampled_from(["a", "b"]), max_size=3),
        "inner": st.none() | st.fixed_dictionaries({}, optional={"x": st.integers(-(2**31), 2**31 - 1)}),
        "extra": anything,
    },
)


def naive(value: Any) -> Any:
    """What a value that fits is read as."""
    if value is None:
        return None
    row = {name: value.get(name) for name in ("id", "name", "rate", "ok", "tags", "inner")}
    if row["rate"] is not None:
        row["rate"] = float(row["rate"])
    if row["inner"] is not None:
        row["inner"] = {"x": row["inner"].get("x")}
    return row


@given(st.lists(st.none() | objects, min_size=1, max_size=6), st.booleans(), st.sampled_from([None, 1]))
def test_objects(rows: list[Any], is_framed: bool, indent: int | None) -> None:
    """Bare or behind a prefix, on one line or several; what is not declared does not count."""
    texts = [None if row is None else json.dumps(row, indent=indent).encode() for row in rows]
    given_values = [text if text is None or not is_framed else framed(5, text) for text in texts]
    found, status = decode(DDL, given_values)
    assert found == [naive(row) for row in rows]
    assert status == [avro.IS_NULL if row is None else avro.FITS for row in rows]


@given(
    st.lists(st.binary(max_size=12) | anything.map(lambda value: json.dumps(value).encode()), min_size=1, max_size=6)
)
@example([b'{"id":', b'{"id":1}}', b"{}{}"])
@example([b"", b"{}{}"])
@example([b'{},"n":0}\n{"v":{}', b'{"id":1}'])
@example([b"  ", b'{"id":1} '])
def test_one_value_never_shifts_another(several: list[bytes]) -> None:
    """Together, the values are what each is alone: cut ones, two in one, and text that looks like the wrapping."""
    alone = [decode(DDL, [value]) for value in several]
    together, status = decode(DDL, several)
    assert (together, status) == ([row for [row], _ in alone], [each for _, [each] in alone])


@pytest.mark.parametrize(
    ("value", "status"),
    [
        (b"", NOT_JSON),
        (b"{", NOT_JSON),
        (b"{} {}", NOT_JSON),
        (b"\xff", NOT_JSON),
        (b'{"name":"\xff"}', avro.BAD_UTF8),
        (b"[1]", OTHER_TYPE),
        (b"5", OTHER_TYPE),
        (b'{"id":1.5}', OTHER_TYPE),
        (b'{"id":9223372036854775808}', OTHER_TYPE),
        (b'{"id":true}', OTHER_TYPE),
        (b'{"rate":true}', OTHER_TYPE),
        (b'{"name":5}', OTHER_TYPE),
        (b'{"inner":{"x":2147483648}}', OTHER_TYPE),
        (b'{"tags":["a",5]}', OTHER_TYPE),
        (b'{"rate":NaN}', NOT_JSON),
        (b'{"other":-Infinity}', NOT_JSON),
        (b'{"rate":1e400}', OTHER_TYPE),
        (b'{"rate":-' + b"9" * 5000 + b"}", OTHER_TYPE),
        (b'{"name":"a\\ud800b"}', avro.BAD_UTF8),
        (b'{"name":' + b"[" * 100_000, avro.TOO_DEEP),
    ],
)
def test_values_that_do_not_fit(value: bytes, status: int) -> None:
    found, statuses = decode(DDL, [b'{"id":1}', value, b"null"])
    assert [row and row["id"] for row in found] == [1, None, None]
    assert statuses[0] == statuses[2] == avro.FITS
    assert statuses[1] in (status, avro.BAD_UTF8)


@pytest.mark.parametrize("of", ["columns of a row", "items of a list"])
def test_a_few_bytes_take_little_memory(of: str) -> None:
    """Each two bytes are an object of 400 columns. Batches end before they are too large."""
    wide = {"type": "object", "properties": {f"c{at}": {"type": "integer"} for at in range(400)}}
    if of == "columns of a row":
        declared, given_values = wide, [b"{}"] * 3000
    else:
        declared = {"type": "object", "properties": {"a": {"type": "array", "items": wide}}}
        given_values = [b'{"a":[{},{},{}]}', b'{"a":[' + b"{}," * 5_000 + b"{}]}"] * 2
    most = 2**22
    rows, status = as_rows(given_values), np.zeros(len(given_values), np.uint8)
    decoder = JsonMeaning(parse_json_schema(json.dumps(declared))).make_decoder(most)
    at = nulls = 0
    while at < len(given_values):
        array, at = decoder.decode(rows, at, len(given_values), status)
        assert array.nbytes < most
        nulls += array.null_count
    assert nulls == np.count_nonzero(status == avro.TOO_LARGE) == (0 if of == "columns of a row" else 2)


def test_numbers_and_text_of_what_is_not_declared_do_not_count() -> None:
    given_values = [b'{"id":1,"other":%s}' % each for each in (b"1e400", b"9" * 5000, b'"NaN"', b'"\\ud800"')]
    found, status = decode("id bigint, name string", given_values)
    assert (found, status) == ([{"id": 1, "name": None}] * 4, [avro.FITS] * 4)


def test_parts_of_any_json_are_null_where_they_are_not_there() -> None:
    """`oneOf` is how Confluent's serializer declares each optional field."""
    parts = {"a": {"oneOf": [{"type": "null"}, {"type": "string"}]}, "b": {"$ref": "#/x"}, "c": {"type": "object"}}
    of = parse_json_schema(json.dumps({"type": "object", "properties": parts}))
    given_values: list[bytes | None] = [
        b"{}",
        b'{"a":null,"b":[null],"c":{"d":1e400}}',
        b'{"a":"null","b":0.5,"c":{"d":null}}',
    ]
    rows, status = as_rows(given_values), np.zeros(3, np.uint8)
    array, _ = JsonMeaning(of).make_decoder(2**20).decode(rows, 0, 3, status)
    assert array.to_pylist() == [
        {"a": None, "b": None, "c": None},
        None,
        {"a": '"null"', "b": "0.5", "c": '{"d": null}'},
    ]
    assert status.tolist() == [avro.FITS, OTHER_TYPE, avro.FITS]


# ---- types ----


def test_what_a_json_schema_declares() -> None:
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "rate": {"type": ["number", "null"]},
            "name": {"type": "string"},
            "ok": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "inner": {"type": "object", "properties": {"x": {"type": "integer"}}},
            "any": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            "other": {"$ref": "Amount"},
            "open": {"type": "object"},
            "both": {"type": ["string", "integer"]},
            "list": {"type": "array"},
        },
    }
    parsed = parse_json_schema(json.dumps(schema))
    assert parsed.spark == (
        "struct<`id`:bigint,`rate`:double,`name`:string,`ok`:boolean,`tags`:array<string>,`inner`:struct<`x`:bigint>,"
        "`any`:string,`other`:string,`open`:string,`both`:string,`list`:string>"
    )
    assert parse_json_schema('{"type":"object"}').spark == "string"
    with pytest.raises(JsonTypeError, match="it is not JSON"):
        parse_json_schema("[" * 100_000)
    with pytest.raises(JsonTypeError, match="has 8,388,617 characters, more than 8,388,608"):
        parse_json_schema('{"type":"' + "x" * 2**23)
    with pytest.raises(JsonTypeError, match="no JSON Schema but 5"):
        parse_json_schema("5")


@pytest.mark.parametrize(
    "text", ["id", "id bigint,", "id date", "id array<int", "id int int", "id int, id int", "a ;", "`a b int"]
)
def test_ddl_that_is_none(text: str) -> None:
    with pytest.raises(JsonTypeError):
        parse_ddl(text)


def test_a_list_of_many_columns_is_refused() -> None:
    parse_ddl(", ".join(f"c{at} int" for at in range(4096)))
    with pytest.raises(JsonTypeError, match="more than 4,096 columns"):
        parse_ddl("a struct<" + ", ".join(f"c{at}: int" for at in range(4096)) + ">")


@pytest.mark.parametrize("text", ["a int NOT NULL", "struct<a:int>", "a: int", "nothing.json"])
def test_what_is_neither_a_file_nor_columns(text: str, tmp_path: Path) -> None:
    write_values(tmp_path, [b"{}"])
    with pytest.raises(OptionError, match="it is no file that is there, and no list of columns such as id bigint"):
        values(tmp_path, valueSchema=text)


def test_names_in_backticks_may_have_blanks() -> None:
    assert parse_ddl("`a b` int, `c ``d` array<string> ").names == ("a b", "c `d")


def test_ddl_and_paths_are_told_apart() -> None:
    assert all(map(looks_like_ddl, ["id int", "`a b` string, c array<int>", "x struct<y:int>"]))
    assert not any(
        map(looks_like_ddl, ["latest", "3", "id:7", "subject:a", "/a/b.avsc", "my file.json", "my schema.avsc"])
    )


# ---- logs ----


def test_json_without_a_schema_is_text(tmp_path: Path) -> None:
    write_values(tmp_path, [b'{"a": 1}', framed(3, b"[1]"), None])
    assert values(tmp_path) == ['{"a": 1}', "[1]", None]


def test_json_with_a_schema(tmp_path: Path) -> None:
    """Of the registry, of a file or as DDL; parts that are not declared are their text."""
    write_values(tmp_path, [framed(3, b'{"a": 1, "b": {"c": [1, "\xc3\xa4"]}}')])
    assert values(tmp_path, valueSchema="a int") == [{"a": 1}]
    file = tmp_path / "orders.json"
    file.write_text('{"type":"object","properties":{"a":{"type":"integer"},"b":{}}}')
    assert values(tmp_path, valueSchema=str(file)) == [{"a": 1, "b": '{"c": [1, "ä"]}'}]
    SchemaLog(tmp_path).register("orders-value", 3, file.read_text(), schemaType="JSON")
    assert values(tmp_path) == values(tmp_path, valueFormat="auto") == values(tmp_path, valueSchema=str(file))
    table = kafkaseg.scan(tmp_path, columns=["value.a"], subscribe="orders", valueFormat="json").read_all()
    assert table["value"].to_pylist() == [{"a": 1}]
    with pytest.raises(SchemaError, match="there is no such column inside 'value'"):
        kafkaseg.scan(tmp_path, columns=["value.z"], subscribe="orders", valueFormat="json")
    write_values(tmp_path, [b'{"a": "x"}'])
    with pytest.raises(MisfitError, match="offset 0: found JSON of another type, expected JSON of type struct"):
        values(tmp_path)
    assert values(tmp_path, valueMode="PERMISSIVE") == [None]


def test_a_value_that_is_encrypted_as_a_whole(tmp_path: Path) -> None:
    declared = {"type": "object", "properties": {"id": {"type": "integer"}}}
    rules = {"encodingRules": [{"name": "e", "type": "ENCRYPT_PAYLOAD"}]}
    SchemaLog(tmp_path).register("orders-value", 4, declared, schemaType="JSON", ruleSet=rules)
    write_values(tmp_path, [framed(4, b"ciphertext")])
    with pytest.raises(MisfitError, match=r"schema id 4: its values are encrypted as a whole \(ENCRYPT_PAYLOAD\)"):
        values(tmp_path)


def test_auto(tmp_path: Path) -> None:
    """What the registry says of the subject."""
    log = SchemaLog(tmp_path)
    log.register("orders-value", 1, "int")
    log.register("proto-value", 2, "message M {}", schemaType="PROTOBUF")
    write_values(tmp_path, [framed(1, encode("int", 5))])
    assert values(tmp_path, valueFormat="auto") == [5]
    with pytest.raises(MisfitError, match="under schema id 1"):  # which is no schema of Protobuf
        values(tmp_path, valueFormat="auto", valueSchema="subject:proto-value")
    with pytest.raises(
        OptionError, match="orders-value version 1 is a schema of AVRO, and option 'valueFormat' is json"
    ):
        values(tmp_path)
