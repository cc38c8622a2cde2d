"""`kafkaseg cat` with typed values, and `kafkaseg schemas`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.runner import run
from tests.support.avro_cases import Branch, encode
from tests.support.schema_logs import SchemaLog, framed, write_values

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "raw", "type": "bytes"},
        {"name": "rate", "type": "double"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "sizes", "type": {"type": "map", "values": ["null", "int"]}},
        {"name": "either", "type": ["null", "string", "long"]},
        {"name": "inner", "type": ["null", {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}]},
    ],
}
ROW = {
    "id": 5,
    "price": b"\x01\x00",
    "at": 1_000_001,
    "local": 1500,
    "day": 1,
    "raw": b"hi",
    "rate": float("nan"),
    "tags": ["a", "b\t"],
    "sizes": {"k0": Branch(1, 7)},
    "either": Branch(2, 9),
    "inner": Branch(1, {"x": 1}),
}
PLAIN = {
    "id": 5,
    "price": "2.56",
    "at": "1970-01-01T00:00:01.000001Z",
    "local": "1970-01-01T00:00:01.500",
    "day": "1970-01-02",
    "raw": "aGk=",
    "rate": "nan",
    "tags": ["a", "b\t"],
    "sizes": {"k0": 7},
    "either": {"member0": None, "member1": 9},
    "inner": {"x": 1},
}
FAR = ROW | {"at": 2**62, "day": 2**31 - 1, "tags": [], "sizes": {}, "inner": Branch(0, None), "rate": 0.5}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    SchemaLog(tmp_path).register("orders-value", 1, SCHEMA)
    values = [framed(1, encode(SCHEMA, ROW)), None, framed(1, encode(SCHEMA, FAR))]
    return write_values(tmp_path, values)


def test_values_are_json(logs: Path) -> None:
    """Every type, a tombstone, and moments beyond Python's."""
    result = run("cat", logs, "--subscribe", "orders", "--values", "avro", "--json", "--as", "base64")
    assert result.exit_code == 0, result.stderr
    first, second, third = (json.loads(line) for line in result.stdout.splitlines())
    assert first["value"] == PLAIN
    assert second["value"] is None
    assert third["value"]["inner"] is None and third["value"]["sizes"] == {} and third["value"]["tags"] == []
    assert (third["value"]["at"], third["value"]["day"]) == (str(2**62), str(2**31 - 1))


def test_values_are_one_line_of_text(logs: Path) -> None:
    result = run("cat", logs, "--subscribe", "orders", "--value-format", "avro", "--columns", "offset,value", "-n", "2")
    line, none = result.stdout.splitlines()
    offset, value = line.split("\t")
    assert (offset, none) == ("0", "1\tnull")
    assert json.loads(value.replace("\\\\", "\\"))["tags"] == ["a", "b\t"]


def test_values_in_parquet(logs: Path, tmp_path: Path) -> None:
    to = tmp_path / "out.parquet"
    result = run("cat", logs, "--subscribe", "orders", "--values", "avro", "--format", "parquet", "--output", to)
    assert result.exit_code == 0, result.stderr
    ids = pq.read_table(to)["value"].combine_chunks().flatten()[0]
    assert ids.to_pylist() == [5, None, 5]


def test_what_does_not_fit(logs: Path) -> None:
    """An error that names flags as a command line writes them, or a null and a sentence."""
    write_values(logs, [framed(9, b"")])
    result = run("cat", logs, "--subscribe", "orders", "--values", "avro")
    assert result.exit_code == 1 and "found schema id 9, expected the only schema in _schemas" in result.stderr
    result = run("cat", logs, "--subscribe", "orders", "--values", "avro", "--value-mode", "PERMISSIVE", "--json")
    row = json.loads(result.stdout)
    assert (row["value"], row["_corrupt_record"]) == (None, "\x00\x00\x00\x00\t")
    assert "1 value does not fit, and is null: a schema that is not known" in result.stderr
    result = run("cat", logs, "--values", "avro", "--value-schema", "subject:none")
    assert result.exit_code == 2 and "--value-schema is 'subject:none'" in result.stderr


def test_schemas_are_a_table(logs: Path) -> None:
    result = run("schemas", logs)
    assert result.exit_code == 0
    assert "orders-value" in result.stdout and "AVRO" in result.stdout
