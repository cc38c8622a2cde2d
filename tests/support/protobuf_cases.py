"""Random schemas of Protobuf as text, evolutions of them, and values. Google's compiler and parser are right."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

NUMBERS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64")
SCALARS = (*NUMBERS, "bool", "string", "bytes", "float", "double")
KEYS = ("string", "int32", "int64", "uint64", "sint32", "fixed64", "bool")
TIMES = (
    "google.protobuf.Timestamp",
    "google.protobuf.Duration",
    "google.protobuf.StringValue",
    "google.protobuf.Struct",
)
LIKE = {  # types that a field may change to
    "int32": ("int64", "uint32", "bool"), "uint64": ("int64", "bool"), "sint32": ("sint64",), "fixed32": ("sfixed32",),
    "string": ("bytes",), "int64": ("int32",), "sfixed64": ("fixed64",),
}  # fmt: skip


@dataclass
class Field:
    number: int
    name: str
    kind: str
    label: str = ""  # optional, repeated, required, map<KEY>, oneof
    default: str = ""


@dataclass
class Shape:
    """A message: its fields, and the messages and the enums inside it. group: the label and number of a group."""

    name: str
    fields: list[Field] = field(default_factory=list)
    nested: list[Shape] = field(default_factory=list)
    enums: list[str] = field(default_factory=list)
    group: str = ""


def make_shape(rng: random.Random, proto3: bool, depth: int = 0, name: str = "Root", path: str = "") -> Shape:
    shape = Shape(name)
    if depth < 3:
        for at in range(rng.choice([0, 1, 2]) if depth else 2):
            shape.nested.append(make_shape(rng, proto3, depth + 1, f"M{depth}{at}", f"{path}{name}."))
            if not proto3 and rng.random() < 0.3:
                shape.nested[-1].group = f"{rng.choice(['optional', 'repeated'])} group M{depth}{at} = {41 + at}"
    shape.enums = [f"E{depth}{at}" for at in range(rng.randint(0, 1))]
    numbers = rng.sample([*range(1, 40), 2000, 536870911], rng.randint(0, 7))
    for number in numbers:
        shape.fields.append(make_field(rng, shape, number, proto3, f"{path}{name}"))
    return shape


def make_field(rng: random.Random, shape: Shape, number: int, proto3: bool, full: str) -> Field:
    kinds = [*SCALARS, rng.choice(TIMES), *(each.name for each in shape.nested), *shape.enums]
    if shape.nested and rng.random() < 0.4:
        kinds = [rng.choice(shape.nested).name]
    kind = full.split(".", maxsplit=1)[0] if rng.random() < 0.03 else rng.choice(kinds)
    labels = ["", "optional", "repeated", "oneof", "map"] if proto3 else ["optional", "repeated", "oneof", "map"]
    if not proto3 and rng.random() < 0.04:
        labels = ["required"]
    made = Field(number, f"f_{number}", kind, rng.choice(labels))
    if made.label == "map":
        made.label = f"map<{rng.choice(KEYS)}>"
    if not proto3 and made.label == "optional" and rng.random() < 0.3:
        made.default = {"string": '"a\\tb\\303\\244"', "bytes": '"\\000x\\xff"', "bool": "true", "double": "-1.5e3", "float": "inf"}.get(
            kind, rng.choice(["-7", "-0x10", "010"]) if kind in ("int32", "sint64") else "12" if kind in NUMBERS else ""
        )  # fmt: skip
    return made


def evolve(rng: random.Random, shape: Shape, proto3: bool, numbers: range, full: str = "Root") -> Shape:
    """numbers: of fields that are new."""
    fields = [each for each in shape.fields if rng.random() < 0.85]
    made = Shape(
        shape.name,
        [],
        [evolve(rng, each, proto3, numbers, f"{full}.{each.name}") for each in shape.nested],
        shape.enums,
        shape.group if rng.random() < 0.8 else "",
    )
    for each in fields:
        kind = rng.choice(LIKE[each.kind]) if each.kind in LIKE and rng.random() < 0.3 else each.kind
        name = f"r_{each.number}" if rng.random() < 0.2 else each.name
        made.fields.append(Field(each.number, name, kind, each.label, each.default if kind == each.kind else ""))
    for number in rng.sample(numbers, rng.randint(0, 2)):
        made.fields.append(make_field(rng, made, number, proto3, full))
    rng.shuffle(made.fields)
    return made


def write_text(rng: random.Random, shape: Shape, proto3: bool) -> str:
    """Writes the schema in one of many styles."""
    lines = [f'syntax = "proto{3 if proto3 else 2}";', "package shop.v1;", "// said ; } {"]
    lines += ['option java_package = "com." "x";', "option optimize_for = SPEED;"]
    _write_message(rng, shape, proto3, lines)
    used = " ".join(lines)
    lines[2:2] = [
        f'import "google/protobuf/{file}.proto";'
        for file, name in zip(("timestamp", "duration", "wrappers", "struct"), TIMES, strict=True)
        if name in used
    ]
    lines += [
        "message Last { }",
        "enum Outer { OUTER_ZERO = 0; }",
        "service S { rpc A (Last) returns (stream Last) { option deprecated = true; } }",
    ]
    return rng.choice(["\n", " /* } */ \n", "\r\n\t"]).join(lines)


def _write_message(rng: random.Random, shape: Shape, proto3: bool, lines: list[str]) -> None:
    lines.append(f"{shape.group or f'message {shape.name}'} {{")
    if rng.random() < 0.3:
        lines.append('reserved 1000 to 1010, 1015; reserved "gone", "old";')
    for enum in shape.enums:
        lines.append(f"enum {enum} {{ option allow_alias = true; {enum}_Z = 0; {enum}_A = 1 [deprecated = true]; {enum}_B = 1; {enum}_N = -5; reserved 9; }}")  # fmt: skip
    fields, nested = list(shape.fields), list(shape.nested)
    oneof = [each for each in fields if each.label == "oneof"]
    fields = [each for each in fields if each.label != "oneof"]
    before = rng.random() < 0.5
    if before:
        for each in nested:
            _write_message(rng, each, proto3, lines)
    for each in fields:
        options = [f"default = {each.default}"] if each.default else []
        if rng.random() < 0.1:
            options.append("deprecated = true")
        if rng.random() < 0.1:
            options.append(f'json_name = "j{each.number}"')
        if each.label == "repeated" and each.kind in NUMBERS and rng.random() < 0.5:
            options.append(f"packed = {rng.choice(['true', 'false'])}")
        ending = f" = {rng.choice([str(each.number), hex(each.number)])}{' [' + ', '.join(options) + ']' if options else ''};"
        kind = f"{each.label[:-1]}, {each.kind}>" if each.label.startswith("map") else f"{each.label} {each.kind}"
        lines.append(f"{kind} {each.name}{ending}")
    if oneof:
        lines.append("oneof choice {")
        lines += [f"{each.kind} {each.name} = {each.number};" for each in oneof]
        lines.append("}")
    if not before:
        for each in nested:
            _write_message(rng, each, proto3, lines)
    lines.append("};" if rng.random() < 0.2 else "}")


def compile_text(texts: dict[str, str]) -> list[bytes]:
    """Compiles files by Google's compiler. Returns descriptors, each after those that it imports."""
    include = Path(protoc.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as held:
        for name, text in texts.items():
            (Path(held) / name).write_text(text)
        arguments = ["", f"-I{held}", f"-I{include}", f"--descriptor_set_out={held}/out", "--include_imports"]
        assert protoc.main([*arguments, *texts]) == 0, texts
        made = descriptor_pb2.FileDescriptorSet.FromString((Path(held) / "out").read_bytes())
    return [each.SerializeToString() for each in made.file]


def find_class(files: Sequence[bytes], name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for each in files:
        pool.AddSerializedFile(each)
    return GetMessageClass(pool.FindMessageTypeByName(name))


EDGES = {
    3: [-(2**63), 2**63 - 1, -1], 4: [2**64 - 1, 2**63], 5: [-(2**31), 2**31 - 1, -1], 6: [2**64 - 1], 7: [2**32 - 1],
    13: [2**32 - 1, 2**31], 15: [-(2**31)], 16: [-(2**63)], 17: [-(2**31), 2**31 - 1], 18: [-(2**63), 2**63 - 1],
    1: [0.1, -0.0, float("inf"), 1e300], 2: [1.5, -0.0, float("-inf")], 8: [True],
    9: ["", "ä\0", "text " * 5], 12: [b"", b"\xff\0", b"bytes" * 9],
}  # fmt: skip


def fill(rng: random.Random, message: Any, depth: int = 0) -> None:
    """Fills a message with random values."""
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        message.seconds, message.nanos = rng.randint(-(10**9), 10**10), rng.randrange(10**9)
        return
    if name == "google.protobuf.Duration":
        message.seconds = rng.randint(0, 10**9)
        message.nanos = rng.randrange(10**9)
        return
    if name == "google.protobuf.Struct":
        message.update({"a": 1.5, "b": [None, True, {"c": "x"}]} if rng.random() < 0.7 else {})
        return
    for each in message.DESCRIPTOR.fields:
        if rng.random() < 0.35 and not each.is_required:
            continue
        if each.message_type is not None and each.message_type.GetOptions().map_entry:
            value = each.message_type.fields_by_name["value"]
            for _ in range(rng.randint(0, 3)):
                key = make_value(rng, each.message_type.fields_by_name["key"])
                held = getattr(message, each.name)
                if value.message_type is not None:
                    if depth < 6:
                        fill(rng, held[key], depth + 1)
                else:
                    held[key] = make_value(rng, value)
        elif each.is_repeated:
            for _ in range(rng.randint(0, 3)):
                if each.message_type is None:
                    getattr(message, each.name).append(make_value(rng, each))
                elif depth < 6:
                    fill(rng, getattr(message, each.name).add(), depth + 1)
        elif each.message_type is not None:
            if depth < 6:
                getattr(message, each.name).SetInParent()
                fill(rng, getattr(message, each.name), depth + 1)
        else:
            setattr(message, each.name, make_value(rng, each))


def make_value(rng: random.Random, of: Any) -> Any:
    if of.type == 14:
        # numbers without a name are what a newer writer has, in proto3
        open_numbers = [7, -3] if of.file.serialized_pb.find(b"proto3") >= 0 else []
        return rng.choice([*(each.number for each in of.enum_type.values), *open_numbers])
    if rng.random() < 0.3:
        return rng.choice(EDGES[of.type])
    return (
        rng.choice([0, 1, 5, 100])
        if of.type not in (9, 12, 8)
        else {9: f"k{rng.randrange(9)}", 12: b"v", 8: False}[of.type]
    )


def expect(message: Any, inside: tuple[str, ...] = ()) -> Any:
    """A message as the row that it should be: one value after another, by the rules of docs/values.md."""
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    if name == "google.protobuf.Duration":
        return timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    if name == "google.protobuf.Struct" or name in inside:
        return ...
    row: dict[str, Any] = {}
    for each in message.DESCRIPTOR.fields:
        value = getattr(message, each.name)
        if each.message_type is not None and each.message_type.GetOptions().map_entry:
            key, item = (each.message_type.fields_by_name[part] for part in ("key", "value"))
            row[each.name] = [(_plain(key, at, ()), _plain(item, value[at], (*inside, name))) for at in sorted(value)]
        elif each.is_repeated:
            row[each.name] = [_plain(each, item, (*inside, name)) for item in value]
        elif each.has_presence and not message.HasField(each.name) and not each.has_default_value:
            row[each.name] = None
        else:
            row[each.name] = _plain(each, value, (*inside, name))
    return row


def _plain(of: Any, value: Any, inside: tuple[str, ...]) -> Any:
    if of.message_type is not None:
        return expect(value, inside)
    if of.enum_type is not None:
        names = [each.name for each in of.enum_type.values if each.number == value]
        return names[0] if names else str(value)
    return Decimal(value) if of.type in (4, 6) else value


def is_equal(found: Any, expected: Any) -> bool:
    """Compares rows. An ellipsis is a text of JSON."""
    if expected is ...:
        return isinstance(found, str)
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and list(found) == list(expected)
            and all(is_equal(found[k], expected[k]) for k in expected)
        )
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(is_equal(a, b) for a, b in zip(found, expected, strict=True))
    if isinstance(expected, float):
        return isinstance(found, float) and repr(found) == repr(expected)
    return bool(found == expected)
