"""JSON Schemas and DDL of any text, and values of any bytes: an error of ours or rows, in bounded time and memory.

What Arrow reads of many values at once must be what each value is alone, read by Python's own parser.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_segment_source.kernels import avro
from kafka_segment_source.values import json_meaning
from kafka_segment_source.values.json_meaning import JsonMeaning
from kafka_segment_source.values.json_types import JsonType, JsonTypeError, parse_ddl, parse_json_schema
from tests.fuzz.test_avro_fuzz import mutate_json, mutate_text
from tests.support.avro_reads import as_rows
from tests.support.cases import count_cases
from tests.support.schema_logs import framed

MOST = 64 * 1024 * 1024
SECONDS = 20  # of one case; far less is usual
NAMES = ["a", "b", "a b", "naïve", "type", "", "`"]
NUMBERS = [0, -1, 2**31, 2**63 - 1, 2**63, -(2**63), 2**70, 1.5, -0.0, 1e300, 1e-320, 5.0]
TEXTS = ["", "x", "日本", "\x00", "\ud83d", "🙂", '"\\', "1", "null"]


def make_schema(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.choice(["object", "array", "string", "integer", "number", "boolean"][0 if depth < 4 else 2 :])
    if kind == "object":
        made = {rng.choice(NAMES): make_schema(rng, depth + 1) for _ in range(rng.randint(0, 4))}
        return {"type": kind, "properties": made}
    if kind == "array":
        return {"type": kind, "items": make_schema(rng, depth + 1)}
    return rng.choice([{"type": kind}, {"type": ["null", kind]}, {"oneOf": [{"type": kind}]}, {"$ref": "#/x"}])


def make_value(rng: random.Random, of: JsonType) -> Any:
    """A value that often is of a type."""
    roll = rng.random()
    if roll < 0.1:
        return None
    if of.is_text or roll < 0.13:
        return rng.choice([*NUMBERS, *TEXTS, True, [], {}, [1, [None]], {"a": {"b": "c"}}])
    if of.names:
        made = {
            name: make_value(rng, part) for name, part in zip(of.names, of.parts, strict=True) if rng.random() < 0.8
        }
        return made | ({"other": rng.choice(TEXTS)} if rng.random() < 0.2 else {})
    if of.parts:
        return [make_value(rng, of.parts[0]) for _ in range(rng.choice([0, 1, 3]))]
    return rng.choice({"string": TEXTS, "boolean": [True, False], "double": NUMBERS}.get(of.spark, NUMBERS))


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(made) + 1)
        parts = [b"", b"}", b"{}", b"\n", b'"n":0}\n{"v":', b"[" * 3000, b"\xff", b"\\u", b"NaN", b"1e999", b"0", b"\0"]
        made[at : at + rng.choice([0, 0, 1, 4])] = rng.choice(parts)
    return bytes(made)


def parse(by: Callable[[str], JsonType], text: str) -> JsonType | None:
    """Parses a text. None where it is refused, in one short line."""
    said = ""
    try:
        return by(text)
    except JsonTypeError as error:
        said = str(error)
    assert 0 < len(said) < 2000
    assert "\n" not in said
    return None


def decode(of: JsonType, values: list[bytes | None], most: int) -> tuple[list[Any], list[int]]:
    decoder, rows, status = JsonMeaning(of).make_decoder(most), as_rows(values), np.zeros(len(values), np.uint8)
    found: list[Any] = []
    while len(found) < len(values):
        array, end = decoder.decode(rows, len(found), len(values), status)
        array.validate(full=True)
        assert array.type == of.arrow
        assert end > len(found)
        found += array.to_pylist()
    return found, status.tolist()


@given(seed=st.integers(0, 2**63))
@settings(max_examples=count_cases(300, 5000))
def test_any_schema_and_any_value(seed: int) -> None:
    rng = random.Random(seed)
    begin = time.monotonic()
    declared = make_schema(rng)
    text = json.dumps(declared)
    of = parse_json_schema(text)
    if rng.random() < 0.6:
        hurt = mutate_text(text, rng) if rng.random() < 0.3 else mutate_json(declared, rng)
        of = parse(parse_json_schema, hurt) or of
    values: list[bytes | None] = [json.dumps(make_value(rng, of), ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass") for _ in range(8)]  # fmt: skip
    if rng.random() < 0.7:
        at = rng.randrange(8)
        values[at] = mutate_bytes(values[at] or b"", rng)
    values = [each if each is None or rng.random() < 0.5 else framed(7, each) for each in values]
    values[rng.randrange(8)] = None
    together, status = decode(of, values, MOST)
    with patch.object(json_meaning, "_parse_together", lambda *_: None):
        singly, of_singly = decode(of, values, MOST)
    assert status == of_singly
    assert together == singly  # 0.0 equals -0.0: Python reads -0 as the integer 0
    for row, became in zip(together, status, strict=True):
        assert became == avro.FITS or row is None
    cut, of_cut = decode(of, values, rng.choice([50, 500]))
    for row, became, whole, before in zip(cut, of_cut, together, status, strict=True):
        assert became in (before, avro.TOO_LARGE)
        assert row == whole or became == avro.TOO_LARGE
    assert time.monotonic() - begin < SECONDS


@given(seed=st.integers(0, 2**63))
@settings(max_examples=count_cases(300, 5000))
def test_any_ddl(seed: int) -> None:
    rng = random.Random(seed)
    text = parse_json_schema(json.dumps({"type": "object", "properties": {"a": make_schema(rng)}})).spark
    assert parse_ddl(text.removeprefix("struct<").removesuffix(">").replace("`:", "` ")).arrow.num_fields == 1
    made = parse(parse_ddl, mutate_text(text, rng))
    assert made is None or pa.types.is_struct(made.arrow)
