"""Values that Confluent's own serializers write, against a registry in memory: prefix, header and JSON.

They are in the extra `fixtures`.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from tests.support.schema_logs import SchemaLog, write_records
from tests.support.writer import Rec

registry = pytest.importorskip("confluent_kafka.schema_registry")
avro = pytest.importorskip("confluent_kafka.schema_registry.avro")
json_schema = pytest.importorskip("confluent_kafka.schema_registry.json_schema")
serialization = pytest.importorskip("confluent_kafka.serialization")

SCHEMA = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
ROWS = [
    {"id": 1, "price": Decimal("1.50"), "at": datetime(2026, 3, 10, 9, tzinfo=UTC), "tags": ["a"], "note": None},
    {"id": -7, "price": Decimal("-20.01"), "at": datetime(1969, 3, 10, tzinfo=UTC), "tags": [], "note": "ä"},
]


def write(tmp_path: Path, serializer: Any, client: Any, rows: list[Any], kind: str) -> None:
    """Writes what a serializer makes of rows, and what the registry then has."""
    records = []
    for at, row in enumerate(rows):
        context = serialization.SerializationContext("orders", serialization.MessageField.VALUE, [])
        value = serializer(row, context)
        headers = tuple((name.encode(), data) for name, data in context.headers or [])
        records.append(Rec(at, at, None, value, headers))
    write_records(tmp_path / "orders-0", records)
    found = client.get_latest_version("orders-value")
    guid = base64.b64encode(bytes.fromhex(found.guid.replace("-", ""))).decode() if found.guid else None
    stored = {"md5": guid} if guid else {}
    SchemaLog(tmp_path).register("orders-value", found.schema_id, found.schema.schema_str, schemaType=kind, **stored)


def read(tmp_path: Path) -> list[Any]:
    found: list[Any] = kafkaseg.scan(tmp_path, subscribe="orders", valueFormat="auto").read_all()["value"].to_pylist()
    return found


@pytest.mark.parametrize("form", ["prefix_schema_id_serializer", "header_schema_id_serializer"])
def test_avro(form: str, tmp_path: Path) -> None:
    client = registry.SchemaRegistryClient.new_client({"url": f"mock://{form}"})
    options = {"schema.id.serializer": getattr(registry, form)}
    serializer = avro.AvroSerializer(client, json.dumps(SCHEMA), conf=options)
    write(tmp_path, serializer, client, ROWS, "AVRO")
    assert read(tmp_path) == ROWS


def test_json(tmp_path: Path) -> None:
    properties = {"id": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}}
    schema = {"title": "Order", "type": "object", "properties": properties}
    client = registry.SchemaRegistryClient.new_client({"url": "mock://json"})
    rows = [{"id": 1, "tags": ["a"]}, {"id": 2, "tags": []}]
    write(tmp_path, json_schema.JSONSerializer(json.dumps(schema), client), client, rows, "JSON")
    assert read(tmp_path) == rows


@pytest.mark.parametrize("form", ["prefix_schema_id_serializer", "header_schema_id_serializer"])
def test_protobuf(form: str, tmp_path: Path) -> None:
    """Two messages of one file, the second inside the first: their indexes are [0] and [0, 0]."""
    protobuf = pytest.importorskip("confluent_kafka.schema_registry.protobuf")
    factory = pytest.importorskip("google.protobuf.message_factory")
    text = 'syntax = "proto3"; package shop; message Order { int64 id = 1; message In { string s = 1; } repeated In in = 2; }'
    files = pytest.importorskip("kafka_segment_source.values.protobuf_files")
    found = files.load_file(text, lambda _: None).find("shop.Order")
    order = factory.GetMessageClass(found)
    inner = factory.GetMessageClass(found.nested_types[0])
    client = registry.SchemaRegistryClient.new_client({"url": f"mock://protobuf-{form}"})
    options = {"schema.id.serializer": getattr(registry, form), "use.deprecated.format": False}
    for at, (kind, row, wanted) in enumerate(
        (
            (order, {"id": 5, "in": [{"s": "a"}]}, "latest"),
            (inner, {"s": "x"}, "latest#shop.Order.In"),
        )
    ):
        directory = tmp_path / str(at)
        serializer = protobuf.ProtobufSerializer(kind, client, options)
        write(directory, serializer, client, [kind(**row)], "PROTOBUF")
        read = kafkaseg.scan(directory, subscribe="orders", valueFormat="auto", valueSchema=wanted).read_all()
        assert read["value"].to_pylist() == [row]
