"""Avro values decoded into Arrow, one core, in CPU time; and fastavro over the same bytes beside it."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from benchmarks.measure import repeat_cpu
from benchmarks.results import Goal, Row, Settings, row
from kafka_segment_source.kernels import avro
from kafka_segment_source.values.avro_meaning import AvroMeaning, Writer, make_avro_meaning
from kafka_segment_source.values.avro_schema import parse_schema
from tests.support.avro_cases import Branch, encode
from tests.support.avro_reads import as_rows
from tests.support.schema_logs import framed

TITLE = "typed values, one core"

_MOST = 512 * 1024 * 1024
_FLAT = {
    "type": "record",
    "name": "Flat",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "count", "type": "int"},
        {"name": "paid", "type": "boolean"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "city", "type": "string"},
    ],
}
_LINE = {
    "type": "record",
    "name": "Line",
    "fields": [
        {"name": "sku", "type": "string"},
        {"name": "count", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
    ],
}
_NESTED = {
    "type": "record",
    "name": "Nested",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "PAID", "SENT"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 8}},
        {"name": "lines", "type": {"type": "array", "items": _LINE}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "sizes", "type": {"type": "array", "items": "int"}},
        {"name": "ship", "type": ["null", {"type": "record", "name": "Ship", "fields": [
            {"name": "street", "type": "string"}, {"name": "zip", "type": ["null", "string"]}]}]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "ok", "type": "boolean"},
        {"name": "rate", "type": "float"},
    ],
}  # fmt: skip


def rows(settings: Settings) -> Iterator[Row]:
    """Flat and nested values, of one writer and of two in turn."""
    count = 10_000 if settings.quick else 100_000
    runs = settings.runs
    rng = random.Random(1)
    flat, nested = [_flat(rng) for _ in range(count)], [_nested(rng) for _ in range(count)]
    wider = dict(_FLAT, fields=[*_FLAT["fields"][::-1], {"name": "more", "type": "long", "default": 0}])
    yield from _measure("flat", _FLAT, [encode(_FLAT, each) for each in flat], runs, Goal(least=3))
    yield from _measure("nested", _NESTED, [encode(_NESTED, each) for each in nested], runs, Goal(least=1.3))
    mixed = [framed(at % 2, encode((_FLAT, wider)[at % 2], each | {"more": 1})) for at, each in enumerate(flat)]
    meaning = _make_meaning([_FLAT, wider], wider)
    speeds = _speeds(_decode(meaning, mixed), count, runs)
    yield row("flat, two writers in turn", speeds, "M rows/s", note="each resolved to the newer schema")


def _measure(name: str, schema: Any, payloads: list[bytes], runs: int, goal: Goal) -> Iterator[Row]:
    values = [framed(0, payload) for payload in payloads]
    size = sum(map(len, values)) / len(values)
    own = _speeds(_decode(_make_meaning([schema], schema), values), len(values), runs)
    yield row(name, own, "M rows/s", goal, f"{size:.0f} B a value, {len(schema['fields'])} fields", headline=True)
    some = payloads[:5000]
    text = json.dumps(schema).replace(', "logicalType": "uuid"', "")  # Arrow takes no UUID objects
    parsed = fastavro.parse_schema(json.loads(text))
    theirs = _speeds(lambda: _read_by_fastavro(some, parsed), len(some), 3)
    ratio = sorted(own)[len(own) // 2] / sorted(theirs)[len(theirs) // 2]
    yield row(f"{name}, to fastavro into Arrow", ratio, "times", Goal(least=20))


def _make_meaning(writers: list[Any], reader: Any) -> AvroMeaning:
    made = [Writer(at, parse_schema(json.dumps(each))) for at, each in enumerate(writers)]
    return make_avro_meaning(made, parse_schema(json.dumps(reader)), avro.PREFIXED, "the benchmark")


def _decode(meaning: AvroMeaning, values: list[bytes]) -> Callable[[], object]:
    made, status = as_rows(values), np.zeros(len(values), np.uint8)
    decoder = meaning.make_decoder(_MOST)

    def decode() -> object:
        found = [
            decoder.decode(made, at, min(at + 65_536, len(values)), status) for at in range(0, len(values), 65_536)
        ]
        assert not status.any()
        return found

    return decode


def _speeds(work: Callable[[], object], count: int, runs: int) -> list[float]:
    return [count / max(each, 1e-9) / 1e6 for each in repeat_cpu(work, runs)]


def _read_by_fastavro(payloads: list[bytes], schema: Any) -> object:
    return pa.array([fastavro.schemaless_reader(io.BytesIO(each), schema) for each in payloads])


def _flat(rng: random.Random) -> dict[str, Any]:
    return {
        "id": rng.randrange(10**9),
        "customer": f"customer-{rng.randrange(10**6)}",
        "amount": rng.random(),
        "count": rng.randrange(100),
        "paid": rng.random() < 0.5,
        "note": Branch(1, "leave it at the door") if rng.random() < 0.6 else Branch(0, None),
        "at": 1_700_000_000_000 + rng.randrange(10**9),
        "city": "Frankfurt am Main",
    }


def _nested(rng: random.Random) -> dict[str, Any]:
    lines = [
        {
            "sku": f"sku-{rng.randrange(1000)}",
            "count": rng.randrange(9),
            "price": rng.randrange(30_000).to_bytes(2, "big"),
        }
        for _ in range(2)
    ]
    ship = {"street": "Main street 5", "zip": Branch(1, "60311")}
    return {
        "id": rng.randrange(10**9),
        "key": "0b8f3ab5-1d2e-4c56-9c31-6a6f7b8c9d0e",
        "kind": rng.randrange(3),
        "hash": rng.randbytes(8),
        "lines": lines,
        "tags": {"source": "web"},
        "sizes": [rng.randrange(1000) for _ in range(3)],
        "ship": Branch(1, ship) if rng.random() < 0.7 else Branch(0, None),
        "day": 19_000,
        "at": 1_700_000_000_000_000,
        "ok": True,
        "rate": 0.5,
    }
