"""For tests of schemas: logs of the topic `_schemas`, and values in the wire formats.

Written from the formats alone, without the code that is tested.
"""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

from tests.support import writer
from tests.support.avro_cases import Branch, encode
from tests.support.internal_logs import InternalLog
from tests.support.rows import FIXTURES
from tests.support.writer import Rec

CAPTURED = FIXTURES / "schemas"
"""Records that a Schema Registry of Confluent, version 7.4.0, wrote. `administration.json`: versions and subjects that
are deleted and imported. `references.json`: schemas of all three types that refer to others."""


TYPED_LOGS = Path(__file__).parent / "typed_logs"
"""A log directory: `_schemas` with the records of `references.json` and two versions of orders-value, and orders of
both, with tombstones. `write_typed_logs` wrote it."""


def captured(name: str) -> list[tuple[bytes, bytes | None]]:
    """The records of one of these files: keys and values, in order."""
    records = json.loads((CAPTURED / f"{name}.json").read_text())
    return [(each["key"].encode(), None if each["value"] is None else each["value"].encode()) for each in records]


class SchemaLog(InternalLog):
    """A log of `_schemas`."""

    def __init__(self, parent: Path) -> None:
        super().__init__(parent / "_schemas-0")

    def register(self, subject: str, number: int, schema: Any, version: int = 1, **fields: Any) -> int:
        """Adds a version of a subject, as the Confluent registry does. schema: JSON, or a text as it is."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
        value = {"subject": subject, "version": version, "id": number, "schema": text, "deleted": False} | fields
        return self.add(json.dumps(key).encode(), json.dumps(value).encode())

    def remove(self, subject: str, version: int = 1) -> int:
        """Removes a version for good."""
        key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
        return self.add(json.dumps(key).encode(), None)


def framed(number: int, payload: bytes) -> bytes:
    """A value with the prefix of Confluent's serializers."""
    return struct.pack(">bi", 0, number) + payload


def write_records(directory: Path, records: list[Rec]) -> Path:
    """Writes records as one batch of a partition's log. Returns the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / writer.segment_name(0)).write_bytes(writer.record_batch(records, base_offset=0))
    return directory


def write_values(parent: Path, values: list[bytes | None], topic: str = "orders") -> Path:
    """Writes values as a log of one batch. Returns the log directory."""
    write_records(parent / f"{topic}-0", [Rec(at, at, b"k%d" % at, value) for at, value in enumerate(values)])
    return parent


def write_typed_logs() -> None:
    """Writes TYPED_LOGS again."""
    price = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    fields = [
        {"name": "orderId", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "price", "type": price},
    ]
    old = {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}
    new = old | {"fields": [*fields, {"name": "voucher", "type": ["null", "string"], "default": None}]}
    log = SchemaLog(TYPED_LOGS)
    log.step = 1000
    for key, value in captured("references"):
        log.add(key, value)
    log.register("orders-value", 7, old)
    log.register("orders-value", 8, new, 2)
    rng = random.Random(1)
    values: list[bytes | None] = []
    for at in range(40):
        cents = rng.randrange(100, 9999).to_bytes(2, "big")
        row = {"orderId": 100 + at, "customer": f"customer-{rng.randrange(10)}", "price": cents}
        voucher = Branch(1, "SPRING") if at % 5 == 0 else Branch(0, None)
        if at % 13 == 12:
            values.append(None)
        elif at < 20:
            values.append(framed(7, encode(old, row)))
        else:
            values.append(framed(8, encode(new, row | {"voucher": voucher})))
    write_values(TYPED_LOGS, values)
