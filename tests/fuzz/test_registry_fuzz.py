"""Records of `_schemas` that say anything: rows and typed reads, or an error of ours, in bounded time.

Records of a real registry are mutated as JSON and as bytes: parts exchanged, references in circles, ids that repeat.
"""

from __future__ import annotations

import json
import logging
import random
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("google.protobuf")

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import KafkaSegmentError
from tests.fuzz.test_avro_fuzz import mutate_json
from tests.fuzz.test_json_fuzz import mutate_bytes
from tests.support.cases import count_cases
from tests.support.schema_logs import SchemaLog, captured, framed, write_values

SECONDS = 20  # of one case; far less is usual
RECORDS = [*captured("references"), *captured("administration")]
SUBJECTS = sorted({json.loads(key)["subject"] for key, _ in RECORDS if json.loads(key).get("subject")})


def mutate_record(key: bytes, value: bytes | None, rng: random.Random) -> tuple[bytes, bytes | None]:
    roll = rng.random()
    if roll < 0.3:
        return key, rng.choice([None, b"null", b"", b"[]", rng.choice(RECORDS)[1]])
    if roll < 0.5:
        return mutate_json(json.loads(key), rng).encode(), value
    if roll < 0.6:
        return mutate_bytes(key, rng), value
    if value is None:
        return rng.choice(RECORDS)[0], value
    return key, mutate_bytes(value, rng) if roll < 0.7 else mutate_json(json.loads(value), rng).encode()


@given(seed=st.integers(0, 2**63))
@settings(max_examples=count_cases(60, 3000), deadline=None)
def test_any_records_of_a_registry(seed: int) -> None:
    rng = random.Random(seed)
    begin = time.monotonic()
    logging.getLogger("kafka_segment_source").addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory() as held:
        path = Path(held)
        log = SchemaLog(path)
        for record in rng.sample(RECORDS, rng.randint(1, len(RECORDS))):
            log.add(*(mutate_record(*record, rng) if rng.random() < 0.4 else record))
        write_values(path, [framed(rng.randrange(8), rng.randbytes(rng.randrange(20))) for _ in range(5)])
        for options in ({}, {"history": True}):
            rows = kafkaseg.scan(path, view="schemas", **options).read_all()
            rows.validate(full=True)
            assert rows.num_rows <= len(RECORDS)
        for subject in [*rng.sample(SUBJECTS, 2), "\ud800"]:
            form = rng.choice(["auto", "avro", "json", "protobuf"])
            given_options = {"valueFormat": form, "valueSchema": f"subject:{subject}", "valueMode": "PERMISSIVE"}
            said = ""
            try:
                values = kafkaseg.scan(path, subscribe="orders", **given_options).read_all()
            except KafkaSegmentError as error:
                said = str(error)
            else:
                values.validate(full=True)
                assert values.num_rows == 5
            assert len(said) < 20_000
            assert "\n" not in said
    assert time.monotonic() - begin < SECONDS
