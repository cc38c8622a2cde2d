"""Typed topics that a real broker kept and Confluent's serializers wrote: rows are those of its deserializers."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from tests.support.rows import FIXTURES

BROKER = FIXTURES / "schemas" / "broker"
ROWS = json.loads((BROKER / "rows.json").read_text())


def read(topic: str, **options: Any) -> list[Any]:
    options = {"subscribe": topic, "valueFormat": "auto"} | options
    found: list[Any] = kafkaseg.scan(BROKER / "data", **options).read_all()["value"].to_pylist()
    return found


def to_json(value: Any, name: str = "") -> Any:
    """A row as Protobuf's JSON has it: numbers of 64 bits are texts, and what is not there is left out."""
    if isinstance(value, dict):
        return {key: to_json(each, key) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        if name == "sums":
            return {key: to_json(each) for key, each in value}
        return [to_json(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, Decimal) or name == "id" else value


def test_avro() -> None:
    assert read("avro-orders") == ROWS["avro-orders"]
    assert len({json.dumps(row) for row in ROWS["avro-orders"]}) == 11


@pytest.mark.parametrize(
    ("topic", "schema"),
    [("proto-orders", "latest"), ("proto-headers", "latest"), ("proto-lines", "latest#shop.Line")],
)
def test_protobuf(topic: str, schema: str) -> None:
    pytest.importorskip("google.protobuf")
    assert [to_json(row) for row in read(topic, valueSchema=schema)] == ROWS[topic]


def test_the_schemas_of_the_registry() -> None:
    """Every schema of the captured records is there beside those of the typed topics, from the broker's own segment."""
    rows = kafkaseg.scan(BROKER / "data", view="schemas").read_all().to_pylist()
    captured = {row["id"] for row in rows if row["id"] < 1000}
    assert len(captured) >= 5
    assert {row["subject"] for row in rows if row["id"] >= 1000} == {f"{topic}-value" for topic in ROWS}
    assert {row["schemaType"] for row in rows} == {"AVRO", "PROTOBUF", "JSON"}
