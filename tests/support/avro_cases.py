"""Random Avro schemas, evolutions of them, values and their bytes, and what fastavro reads of these.

The encoder is written from the specification alone, as fastavro's cannot say which branch of a union a value has.
"""

from __future__ import annotations

import copy
import decimal
import io
import json
import random
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import fastavro

Schema = Any
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TEXTS = ["", "a", "naïve", "日本", "🙂", "x" * 40, "\x00", 'tab\t"quote"', "plain text"]
LOGICAL_LONGS = ["timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros"]
DEPTH = 3
NO_DEFAULT = object()


@dataclass
class Branch:
    """A value of a union: the place of its branch, and the value."""

    at: int
    value: Any


@dataclass
class Case:
    """What writers wrote under several schemas, to be read as another."""

    writers: list[Schema]
    reader: Schema
    values: list[tuple[int, Any]]  # the writer's place, and the value

    def encoded(self) -> list[bytes]:
        return [encode(self.writers[writer], value) for writer, value in self.values]

    def expected(self) -> list[Any]:
        """What fastavro reads, as Arrow would show it. An exception where it raises one."""
        reader = parse(self.reader)
        writers = [parse(each) for each in self.writers]
        return [
            read_by_fastavro(data, writers[writer], reader, self.reader)
            for data, (writer, _) in zip(self.encoded(), self.values, strict=True)
        ]


def parse(schema: Schema) -> Any:
    return fastavro.parse_schema(copy.deepcopy(schema))


# ---- schemas ----


class Maker:
    """Makes random schemas. Names are unique."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"N{self.count}"

    def record(self, depth: int = 0) -> Schema:
        fields = [self.field(depth) for _ in range(self.rng.randint(0 if depth else 1, 5))]
        record = {"type": "record", "name": self.name(), "fields": fields}
        if self.rng.random() < 0.2:
            record["namespace"] = self.rng.choice(["a", "a.b"])
        return record

    def field(self, depth: int) -> Schema:
        kind = self.type(depth + 1)
        field = {"name": f"f{self.count}_{self.rng.randrange(1000)}", "type": kind}
        self.count += 1
        if self.rng.random() < 0.8:
            default = default_of(kind, self.rng)
            return field if default is NO_DEFAULT else field | {"default": default}
        return field

    def type(self, depth: int) -> Schema:
        rng = self.rng
        roll = rng.random()
        if depth > DEPTH or roll < 0.5:
            return self.simple()
        if roll < 0.65:
            return self.union(depth)
        if roll < 0.75:
            return {"type": "array", "items": self.type(depth + 1)}
        if roll < 0.83:
            return {"type": "map", "values": self.type(depth + 1)}
        if roll < 0.95:
            return self.record(depth + 1)
        return "null"

    def simple(self) -> Schema:
        rng = self.rng
        size = rng.randint(1, 17)
        return rng.choice(
            [
                *("boolean", "int", "long", "float", "double", "bytes", "string", "string"),
                {"type": "enum", "name": self.name(), "symbols": [f"S{at}" for at in range(rng.randint(1, 5))]},
                {"type": "fixed", "name": self.name(), "size": rng.randint(0, 20)},
                {"type": "int", "logicalType": "date"},
                {"type": "int", "logicalType": "time-millis"},
                {"type": "long", "logicalType": "time-micros"},
                {"type": "long", "logicalType": rng.choice(LOGICAL_LONGS)},
                {"type": "string", "logicalType": "uuid"},
                {
                    "type": "bytes",
                    "logicalType": "decimal",
                    "precision": rng.randint(4, 38),
                    "scale": rng.randint(0, 4),
                },
                {
                    "type": "fixed",
                    "name": self.name(),
                    "size": size,
                    "logicalType": "decimal",
                    "precision": min(38, max(1, (size * 8 - 1) * 3 // 10)),
                    "scale": 0,
                },
            ]
        )

    def union(self, depth: int) -> Schema:
        """A union whose branches can be told apart by the values that fastavro gives."""
        rng = self.rng
        if rng.random() < 0.6:
            branches = ["null", self.not_union(depth)]
        else:
            classes = [
                *("boolean", rng.choice(["int", "long"]), rng.choice(["float", "double"]), "null"),
                rng.choice(["string", "bytes", {"type": "enum", "name": self.name(), "symbols": ["S0", "S1"]}]),
                self.record(depth + 1),
                {"type": "array", "items": self.type(depth + 1)},
            ]
            branches = sorted(rng.sample(classes, rng.randint(1, 5)), key=_order)
            return (
                branches
                if rng.random() < 0.5
                else [each for each in branches if each == "null"] + [each for each in branches if each != "null"]
            )
        rng.shuffle(branches)
        return branches

    def not_union(self, depth: int) -> Schema:
        while True:
            found = self.type(depth + 1)
            if not isinstance(found, list) and found != "null":
                return found


def _order(branch: Schema) -> int:
    """fastavro takes the first branch that a value can be promoted to, so those that can be come first."""
    order = ["int", "long", "float", "double", "string", "bytes"]
    return order.index(branch) if isinstance(branch, str) and branch in order else len(order)


def evolve(schema: Schema, rng: random.Random, maker: Maker) -> Schema:
    """Another version of a schema: fields added, dropped, moved, renamed, promoted, made nullable."""
    if isinstance(schema, list):
        branches = [each if isinstance(each, str) else evolve(each, rng, maker) for each in schema]
        return [each for each in branches if rng.random() < 0.95] or branches
    if isinstance(schema, str):
        promoted = {"int": ["long", "float", "double"], "long": ["float", "double"], "float": ["double"]}
        promoted |= {"string": ["bytes"]}
        if schema in promoted and rng.random() < 0.2:
            return rng.choice(promoted[schema])
        if schema not in ("null",) and rng.random() < 0.1:
            return ["null", schema]
        return schema
    schema = dict(schema)
    kind = schema["type"]
    if kind == "record":
        fields = [evolve_field(field, rng, maker) for field in schema["fields"] if rng.random() >= 0.15]
        if rng.random() < 0.3:
            fields.append(dict(maker.field(DEPTH), type=(kind := maker.simple()), default=default_of(kind, rng)))
        if rng.random() < 0.2:
            fields.append({"name": maker.name(), "type": ["null", "long"], "default": None})
        if rng.random() < 0.3:
            rng.shuffle(fields)
        return schema | {"fields": fields}
    if kind == "enum":
        symbols = [each for each in schema["symbols"] if rng.random() < 0.9] or schema["symbols"][:1]
        if rng.random() < 0.3:
            symbols = [*symbols, "NEW"]
        schema["symbols"] = symbols
        if rng.random() < 0.5:
            schema["default"] = symbols[0]
        return schema
    if kind == "array":
        return schema | {"items": evolve(schema["items"], rng, maker)}
    if kind == "map":
        return schema | {"values": evolve(schema["values"], rng, maker)}
    return schema


def evolve_field(field: Schema, rng: random.Random, maker: Maker) -> Schema:
    kind = evolve(field["type"], rng, maker)
    evolved = dict(field, type=kind)
    if kind != field["type"] and "default" in evolved:
        del evolved["default"]
        default = default_of(kind, rng)
        evolved |= {} if default is NO_DEFAULT else {"default": default}
    return dict(evolved, name=field["name"] + "x", aliases=[field["name"]]) if rng.random() < 0.1 else evolved


def default_of(kind: Schema, rng: random.Random) -> Any:
    """A default, as JSON."""
    if isinstance(kind, list):
        return None if kind[0] == "null" else NO_DEFAULT
    plain = kind if isinstance(kind, str) else kind["type"]
    if plain in ("null", "array", "map", "record"):
        return {"null": None, "array": [], "map": {}}.get(plain, NO_DEFAULT)
    if plain == "enum":
        return kind["symbols"][0]
    if plain == "fixed":
        return "\x01" * kind["size"] if kind.get("logicalType") != "decimal" else "\0" * kind["size"]
    if plain == "string":
        return rng.choice(TEXTS) if isinstance(kind, str) else str(uuid.UUID(int=5))
    return {"boolean": True, "int": 7, "long": 8, "float": 1.5, "double": -2.5, "bytes": "\x01"}[plain]


# ---- values ----


def value_of(schema: Schema, rng: random.Random) -> Any:
    if isinstance(schema, list):
        at = rng.randrange(len(schema))
        return Branch(at, value_of(schema[at], rng))
    kind = schema if isinstance(schema, str) else schema["type"]
    logical = "" if isinstance(schema, str) else schema.get("logicalType", "")
    if kind == "record":
        return {field["name"]: value_of(field["type"], rng) for field in schema["fields"]}
    if kind == "array":
        return [value_of(schema["items"], rng) for _ in range(rng.choice([0, 0, 1, 2, 5]))]
    if kind == "map":
        return {f"k{at}": value_of(schema["values"], rng) for at in range(rng.choice([0, 1, 3]))}
    if kind == "enum":
        return rng.randrange(len(schema["symbols"]))
    if logical:
        return logical_value(schema, logical, rng)
    size = 0 if isinstance(schema, str) else schema.get("size", 0)
    return {
        "null": lambda: None,
        "boolean": lambda: rng.random() < 0.5,
        "int": lambda: rng.choice([0, -1, 2**31 - 1, -(2**31), rng.randrange(-(2**31), 2**31), rng.randrange(-70, 70)]),
        "long": lambda: rng.choice(
            [0, -1, 2**63 - 1, -(2**63), rng.randrange(-(2**63), 2**63), rng.randrange(-70, 70)]
        ),
        "float": lambda: rng.choice([0.0, -1.5, 3.25e10, float("inf")]),
        "double": lambda: rng.choice([0.0, -1.5, 3.25e100, float("-inf"), rng.random()]),
        "bytes": lambda: rng.randbytes(rng.choice([0, 1, 20])),
        "string": lambda: rng.choice(TEXTS),
        "fixed": lambda: rng.randbytes(size),
    }[kind]()


def logical_value(schema: Any, logical: str, rng: random.Random) -> Any:
    if logical == "date":
        return rng.randrange(-100_000, 100_000)
    if logical == "time-millis":
        return rng.randrange(86_400_000)
    if logical == "time-micros":
        return rng.randrange(86_400_000_000)
    if logical.endswith("millis"):
        return rng.randrange(-(10**12), 10**13)
    if logical.endswith("micros"):
        return rng.randrange(-(10**15), 10**16)
    if logical == "uuid":
        return str(uuid.UUID(int=rng.getrandbits(128)))
    most = 10 ** schema["precision"] - 1
    number = rng.choice([0, 1, -1, most, -most, rng.randint(-most, most)])
    if schema["type"] == "fixed":
        most = 2 ** (schema["size"] * 8 - 1) - 1
        return max(-most, min(most, number)).to_bytes(schema["size"], "big", signed=True)
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def long(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def encode(schema: Schema, value: Any) -> bytes:
    if isinstance(schema, list):
        return long(value.at) + encode(schema[value.at], value.value)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        return b"".join(encode(field["type"], value[field["name"]]) for field in schema["fields"])
    if kind == "array":
        items = [encode(schema["items"], each) for each in value]
    elif kind == "map":
        items = [encode("string", key) + encode(schema["values"], each) for key, each in value.items()]
    else:
        return encode_simple(kind, value)
    if len(items) > 2:  # a block that says its size, and another
        first = b"".join(items[:2])
        rest = items[2:]
        return long(-2) + long(len(first)) + first + long(len(rest)) + b"".join(rest) + long(0)
    return (long(len(items)) + b"".join(items) if items else b"") + long(0)


def encode_simple(kind: str, value: Any) -> bytes:
    if kind == "null":
        return b""
    if kind == "boolean":
        return bytes([value])
    if kind in ("int", "long", "enum"):
        return long(value)
    if kind in ("float", "double"):
        return struct.pack("<f" if kind == "float" else "<d", value)
    data = value.encode() if isinstance(value, str) else value
    return data if kind == "fixed" else long(len(data)) + data


# ---- what fastavro reads ----


def read_by_fastavro(data: bytes, writer: Any, reader: Any, plain_reader: Schema) -> Any:
    try:
        found = fastavro.schemaless_reader(io.BytesIO(data), writer, reader)
    except Exception as error:
        return error
    return as_arrow(plain_reader, found)


def as_arrow(schema: Schema, value: Any) -> Any:
    """What fastavro gives, as Arrow's to_pylist would give it."""
    if isinstance(schema, list):
        return union_as_arrow(schema, value)
    kind = schema if isinstance(schema, str) else schema["type"]
    logical = "" if isinstance(schema, str) else schema.get("logicalType", "")
    if kind == "record":
        return {field["name"]: as_arrow(field["type"], value[field["name"]]) for field in schema["fields"]}
    if kind == "array":
        return [as_arrow(schema["items"], each) for each in value]
    if kind == "map":
        return [(key, as_arrow(schema["values"], each)) for key, each in value.items()]
    if logical:
        return logical_as_arrow(schema, logical, value)
    if kind in ("fixed", "bytes"):
        return value.encode("latin-1") if isinstance(value, str) and kind == "fixed" else _bytes(value)
    if kind in ("float", "double"):
        return struct.unpack("<f", struct.pack("<f", value))[0] if kind == "float" else float(value)
    return value


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1")


def logical_as_arrow(schema: Any, logical: str, value: Any) -> Any:
    if logical == "uuid":
        return str(value)
    if logical == "decimal":
        if isinstance(value, str):  # a default, which fastavro does not convert
            number = int.from_bytes(value.encode("latin-1"), "big", signed=True)
            return decimal.Decimal(number).scaleb(-schema.get("scale", 0), decimal.Context(prec=50))
        return value
    if isinstance(value, int):  # a default
        value = {
            "date": lambda: date(1970, 1, 1) + timedelta(value),
            "time-millis": lambda: value,
            "time-micros": lambda: value,
        }.get(logical, lambda: EPOCH + timedelta(microseconds=value * (1000 if "millis" in logical else 1)))()
    if isinstance(value, time):
        micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
        return micros // 1000 if logical == "time-millis" else micros
    if logical.startswith("local") and isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return value


def union_as_arrow(schema: Sequence[Schema], value: Any) -> Any:
    others = [each for each in schema if each != "null"]
    if value is None:
        return None
    if len(others) == 1:
        return as_arrow(others[0], value)
    if sorted(map(str, others)) in (["int", "long"], ["double", "float"]):
        return as_arrow(
            others[-1] if "long" not in others and "double" not in others else "long" if "long" in others else "double",
            value,
        )
    fitting = [at for at, each in enumerate(others) if is_of(each, value)]
    assert len(fitting) == 1, (schema, value)
    return {f"member{at}": as_arrow(each, value) if at == fitting[0] else None for at, each in enumerate(others)}


def is_of(schema: Schema, value: Any) -> bool:
    kind = schema if isinstance(schema, str) else schema["type"]
    kinds = {"boolean": bool, "bytes": bytes, "string": str, "enum": str, "record": dict, "array": list, "map": dict}
    kinds |= {"float": float, "double": float, "int": int, "long": int}
    return isinstance(value, kinds[kind]) and (kind not in ("int", "long") or not isinstance(value, bool))


def make_case(seed: int, rows: int = 6) -> Case:
    """A case of one seed: a reader, the same schema as a writer, and two evolutions that wrote too."""
    rng = random.Random(seed)
    maker = Maker(rng)
    base = maker.record() if rng.random() < 0.9 else maker.type(0)
    while base == "bytes" or (isinstance(base, dict) and base["type"] == "bytes") or base == "string":
        base = maker.type(0)  # Confluent's serializer writes bytes in another way
    reader = evolve(base, rng, maker) if rng.random() < 0.6 else base
    writers = [base, evolve(base, rng, maker), evolve(base, rng, maker)]
    values = []
    for _ in range(rows):
        writer = rng.randrange(len(writers))
        values.append((writer, value_of(writers[writer], rng)))
    return Case(writers, reader, values)


def as_text(schema: Schema) -> str:
    return json.dumps(schema)
