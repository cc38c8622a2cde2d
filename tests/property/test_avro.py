"""Random Avro schemas, evolutions and values, against fastavro."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_segment_source.kernels import avro
from tests.support.avro_cases import Case, encode, make_case
from tests.support.avro_reads import Decoded, decode, make_meaning
from tests.support.schema_logs import framed

CASES = 500


def read(case: Case, most: int = 64 * 1024 * 1024) -> Decoded:
    values = [framed(writer, data) for data, (writer, _) in zip(case.encoded(), case.values, strict=True)]
    return decode(make_meaning(case.writers, case.reader), values, most)


@given(seed=st.integers(0, 2**63))
@settings(max_examples=CASES)
def test_what_fastavro_reads(seed: int) -> None:
    """Three writers in one batch, each resolved to the reader: the same rows, and none that only fastavro reads.

    fastavro refuses an empty list whose items could not be resolved. Avro says that this is an error of the items.
    """
    case = make_case(seed)
    expected, found = case.expected(), read(case)
    for wanted, row, status in zip(expected, found.rows, found.status, strict=True):
        if isinstance(wanted, Exception):
            assert status > avro.IS_NULL or "'array'" in str(wanted) or "'map'" in str(wanted), (wanted, row)
        else:
            assert status == avro.FITS, (found.whys, wanted)
            assert row == wanted


@given(seed=st.integers(0, 2**63), most=st.sampled_from([2000, 20_000]))
@settings(max_examples=50)
def test_rows_are_the_same_in_batches_of_any_size(seed: int, most: int) -> None:
    """With little memory a batch ends early. No row is lost, but for one that is too large alone."""
    case = make_case(seed, rows=40)
    whole, cut = read(case), read(case, most)
    for row, part, before, status in zip(whole.rows, cut.rows, whole.status, cut.status, strict=True):
        assert status in (before, avro.TOO_LARGE)
        assert part == row or status == avro.TOO_LARGE


@given(seed=st.integers(0, 2**63))
@settings(max_examples=CASES)
def test_a_damaged_row_costs_no_other(seed: int) -> None:
    """Bytes of one value changed, cut or added: the others are as they were, and Arrow finds nothing wrong."""
    rng = random.Random(seed)
    case = make_case(seed, rows=8)
    values = [framed(writer, data) for data, (writer, _) in zip(case.encoded(), case.values, strict=True)]
    meaning = make_meaning(case.writers, case.reader)
    whole = decode(meaning, values)
    hurt = rng.randrange(len(values))
    data = bytearray(values[hurt])
    for _ in range(rng.randint(1, 4)):
        change = rng.randrange(3)
        if change == 0 and data:
            data[rng.randrange(len(data))] = rng.randrange(256)
        elif change == 1:
            del data[rng.randrange(len(data) + 1) :]
        else:
            data[rng.randrange(len(data) + 1) : 0] = rng.randbytes(rng.randint(1, 12))
    found = decode(meaning, [*values[:hurt], bytes(data), *values[hurt + 1 :]])
    for at in range(len(values)):
        if at != hurt:
            assert (found.rows[at], found.status[at]) == (whole.rows[at], whole.status[at])


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_every_shorter_value_does_not_fit(cut: int) -> None:
    """All bytes of a value count."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}
    payload = encode(schema, {"a": 2**40, "b": "twelve bytes"})
    found = decode(make_meaning([schema], schema), [framed(0, payload[:-cut]), framed(0, payload + b"\0" * cut)])
    assert found.rows == [None, None]
    assert found.status == [avro.BAD_LENGTH, avro.LEFT_OVER]
