"""Schemas of Protobuf of any text, and values of any bytes: an error of ours or rows, in bounded time and memory."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("google.protobuf")
pytest.importorskip("grpc_tools")

from kafka_segment_source.kernels import avro
from kafka_segment_source.values.protobuf_errors import ProtobufError
from kafka_segment_source.values.protobuf_files import find_message, load_file
from kafka_segment_source.values.protobuf_making import make_protobuf_meaning
from kafka_segment_source.values.protobuf_matching import check_match
from kafka_segment_source.values.protobuf_meaning import ProtobufWriter
from tests.support import protobuf_cases as cases
from tests.support.cases import count_cases
from tests.support.protobuf_reads import decode
from tests.support.schema_logs import framed

MOST = 4 * 1024 * 1024
SECONDS = 20  # of one case; far less is usual
PARTS = [
    "",
    "{",
    "}",
    ";",
    "= 1;",
    '"',
    "/*",
    "9" * 30,
    "-",
    "\x00",
    "\ud800",
    "map<",
    "message A {",
    "message A {" * 50,
    "oneof o {",
]
PARTS += [
    "repeated",
    "optional optional",
    "= 0;",
    "[default = ]",
    "google.protobuf.Any",
    "option a = { ;",
    "\\x",
    "reserved",
    "extend A {",
]


def mutate(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.randint(0, 20))
        other = rng.randrange(len(text) + 1)
        parts = [*PARTS, text[at:end] * 3, text[other : other + rng.randint(0, 60)]]
        text = text[:at] + rng.choice(parts) + text[end if rng.random() < 0.7 else at :]
    return text


@given(seed=st.integers(0, 2**63))
@settings(max_examples=count_cases(300, 5000))
def test_any_schema_and_any_value(seed: int) -> None:
    rng = random.Random(seed)
    begin = time.monotonic()
    proto3 = rng.random() < 0.5
    text = cases.write_text(rng, cases.make_shape(rng, proto3), proto3)
    said: list[str] = []
    try:
        file = load_file(mutate(text, rng), lambda _: None)
        name = rng.choice(sorted(file.messages.values()))
        writers = [ProtobufWriter(at, {(0,): ""}) for at in range(2)]
        meaning = make_protobuf_meaning(file.files, name, writers, "the test")
        check_match(load_file(text, lambda _: None).find("shop.v1.Root"), find_message(file.files, name))
    except ProtobufError as error:
        said.append(str(error))
    except IndexError:  # no message is left
        assert not file.messages
    else:
        values: list[bytes | None] = [framed(rng.randrange(3), rng.randbytes(rng.randint(0, 60))) for _ in range(20)]
        values += [framed(0, b"\0" + bytes(rng.choice([8, 10, 18, 0, 255, 2]) for _ in range(20))) for _ in range(20)]
        rows, status = decode(meaning, values, MOST)
        for row, became in zip(rows, status, strict=True):
            assert became == avro.FITS or row is None
    assert all(len(each) < 20_000 and "\n" not in each for each in said)
    assert time.monotonic() - begin < SECONDS
