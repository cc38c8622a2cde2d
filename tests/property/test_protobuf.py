"""Random schemas of Protobuf, evolutions and values, against Google's compiler and parser."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("google.protobuf")
pytest.importorskip("grpc_tools")

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from kafka_segment_source.kernels import avro
from kafka_segment_source.values.misfits import NOT_PROTOBUF, REQUIRED
from kafka_segment_source.values.protobuf_files import load_file
from kafka_segment_source.values.protobuf_making import make_protobuf_meaning
from kafka_segment_source.values.protobuf_matching import check_match
from kafka_segment_source.values.protobuf_meaning import ProtobufMeaning, ProtobufWriter
from tests.support import protobuf_cases as cases
from tests.support.avro_reads import MOST
from tests.support.cases import count_cases
from tests.support.protobuf_reads import decode
from tests.support.schema_logs import framed

ROOT = "shop.v1.Root"


def make_meaning(text: str, ids: int = 1) -> ProtobufMeaning:
    file = load_file(text, lambda _: None)
    writers = [ProtobufWriter(at, {(0,): ""}) for at in range(ids)]
    return make_protobuf_meaning(file.files, ROOT, writers, "the test")


def strip(message: Any) -> Any:
    """A descriptor as both make it: names resolved, without options that do not count."""
    made = descriptor_pb2.DescriptorProto()
    message.CopyToProto(made)
    strip_message(made)
    return made


def strip_message(made: Any) -> None:
    made.ClearField("reserved_range")
    made.ClearField("reserved_name")
    for each in made.field:
        each.ClearField("options")
        each.ClearField("json_name")
    for each in made.enum_type:
        each.ClearField("reserved_range")
        for value in each.value:
            value.ClearField("options")
    for each in made.nested_type:
        strip_message(each)


@given(seed=st.integers(0, 2**63))
@settings(max_examples=count_cases(250, 1_500))
def test_what_google_parses(seed: int) -> None:
    """The descriptor is that of Google's compiler. Values of three writers are what its parser reads as the reader."""
    rng = random.Random(seed)
    proto3 = rng.random() < 0.6
    shape = cases.make_shape(rng, proto3)
    shapes = [shape, *(cases.evolve(rng, shape, proto3, new) for new in (range(50, 70), range(70, 90)))]
    texts = [cases.write_text(rng, each, proto3) for each in shapes]
    compiled = [cases.find_class(cases.compile_text({"a.proto": text}), ROOT) for text in texts]
    reader = rng.randrange(3)
    meaning = make_meaning(texts[reader], 3)
    ours = load_file(texts[reader], lambda _: None).find(ROOT)
    assert strip(ours) == strip(compiled[reader].DESCRIPTOR)
    values: list[bytes | None] = []
    expected: list[Any] = []
    for writer in range(3):
        check_match(compiled[writer].DESCRIPTOR, ours)
        for _ in range(4):
            message = compiled[writer]()
            cases.fill(rng, message)
            data = message.SerializePartialToString()
            values.append(framed(writer, b"\0" + data))
            try:
                expected.append(compiled[reader].FromString(data))
            except DecodeError as error:  # bytes became a string
                expected.append(error)
    values.append(None)
    expected.append(None)
    found, status = decode(meaning, values)
    for row, wanted, became in zip(found, expected, status, strict=True):
        if wanted is None or isinstance(wanted, Exception):
            assert (row, became) == (None, avro.IS_NULL if wanted is None else NOT_PROTOBUF)
        elif not wanted.IsInitialized():
            assert (row, became) == (None, REQUIRED)
        elif became == avro.BAD_UTF8:  # text of proto2, which its parser does not check
            assert not proto3
        else:
            assert became == avro.FITS
            assert cases.is_equal(row, cases.expect(wanted)), (row, cases.expect(wanted))


@given(seed=st.integers(0, 2**63))
@settings(max_examples=count_cases(100, 2_000))
def test_a_damaged_row_costs_no_other(seed: int) -> None:
    """Bytes of one value changed: the others are as they were, in batches of any size. The row is what Google says."""
    rng = random.Random(seed)
    shape = cases.make_shape(rng, proto3=True)
    text = cases.write_text(rng, shape, proto3=True)
    meaning = make_meaning(text)
    oracle = cases.find_class(meaning.files, ROOT)
    payloads = []
    for _ in range(8):
        message = oracle()
        cases.fill(rng, message)
        payloads.append(message.SerializeToString())
    values: list[bytes | None] = [framed(0, b"\0" + each) for each in payloads]
    whole = decode(meaning, values)
    hurt, data = rng.randrange(8), bytearray()
    data += payloads[hurt]
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
    found = decode(
        meaning, [*values[:hurt], framed(0, b"\0" + bytes(data)), *values[hurt + 1 :]], rng.choice([MOST, 50_000])
    )
    for at in range(8):
        if at != hurt:
            assert found[1][at] in (whole[1][at], avro.TOO_LARGE)
            assert repr(found[0][at]) == repr(whole[0][at]) or found[1][at] == avro.TOO_LARGE
    try:
        oracle.FromString(bytes(data))
    except DecodeError:
        assert found[1][hurt] in (NOT_PROTOBUF, avro.TOO_LARGE)
    else:
        assert found[1][hurt] in (avro.FITS, avro.BEYOND_TIME, avro.TOO_LARGE)
