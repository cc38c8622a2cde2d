"""Schemas and values of any text and any bytes: an error of ours or rows, in bounded time and memory.

Schemas are mutated as text and as JSON: parts exchanged, repeated, nested, renamed. A schema that is taken is used for
values that another one wrote, and for random bytes. Arrow validates every array.
"""

from __future__ import annotations

import copy
import json
import random
import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_segment_source.kernels import avro
from kafka_segment_source.values.avro_meaning import Writer, make_avro_meaning
from kafka_segment_source.values.avro_schema import AvroError, parse_schema
from tests.support.avro_cases import make_case
from tests.support.avro_reads import decode
from tests.support.schema_logs import framed

MOST = 4 * 1024 * 1024
SECONDS = 20  # of one case; far less is usual
ODD = [None, 0, -1, 2**70, "", "x" * 5000, [], {}, [[]], "null", "record", True, 1.5, "\ud800", {"type": None}]


def mutate_text(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.randint(0, 20))
        text = text[:at] + rng.choice(["", text[at:end] * 3, '"', "{", "]", "9" * 30, "\\ud800", "\x00"]) + text[end:]
    return text


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place inside a value of JSON: its holder and its key."""
    found: list[tuple[Any, Any]] = []
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        found += [(value, key), *places(value[key])]
    return found


def mutate_json(schema: Any, rng: random.Random) -> str:
    whole = [copy.deepcopy(schema)]
    for _ in range(rng.randint(1, 6)):
        holder, key = rng.choice([(whole, 0), *places(whole[0])])
        roll = rng.random()
        if roll < 0.3:
            holder[key] = copy.deepcopy(rng.choice(ODD))
        elif roll < 0.6:
            other, name = rng.choice([(whole, 0), *places(whole[0])])
            holder[key] = copy.deepcopy(other[name])
        elif roll < 0.8:
            for _ in range(rng.choice([1, 5, 40])):
                holder[key] = rng.choice([{"type": "array", "items": holder[key]}, [holder[key], "null"]])
        elif isinstance(holder, list):
            holder.extend(copy.deepcopy(holder) * rng.choice([1, 20]))
        else:
            del holder[key]
    return json.dumps(whole[0])


@given(seed=st.integers(0, 2**63))
@settings(max_examples=300)
def test_any_schema_and_any_value(seed: int) -> None:
    rng = random.Random(seed)
    begin = time.monotonic()
    case = make_case(seed, rows=3)
    text = json.dumps(case.reader)
    hurt = mutate_text(text, rng) if rng.random() < 0.3 else mutate_json(case.reader, rng)
    readers = [hurt, text]
    said: list[str] = []
    writers = [text, hurt]
    values = [framed(0, data) for data in case.encoded()]
    values += [framed(rng.randrange(3), rng.randbytes(rng.randint(0, 60))) for _ in range(20)]
    for reader in readers:
        try:
            parsed = [Writer(at, parse_schema(each)) for at, each in enumerate(writers)]
            meaning = make_avro_meaning(parsed, parse_schema(reader), avro.PREFIXED, "the test")
        except AvroError as error:
            said.append(str(error))
            continue
        found = decode(meaning, values, MOST)
        for row, status in zip(found.rows, found.status, strict=True):
            assert status == avro.FITS or row is None
    assert all(len(each) < 20_000 and "\n" not in each for each in said)
    assert time.monotonic() - begin < SECONDS
