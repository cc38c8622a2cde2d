"""Decodes rows of Avro by the package's parts, without files: schemas as JSON, values as bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_segment_source.kernels import avro
from kafka_segment_source.values.avro_arrays import Rows
from kafka_segment_source.values.avro_meaning import AvroMeaning, Writer, make_avro_meaning
from kafka_segment_source.values.avro_schema import parse_schema
from kafka_segment_source.values.plain_values import to_plain
from tests.support.schema_logs import framed

MOST = 64 * 1024 * 1024


@dataclass
class Decoded:
    """Rows, and what became of each (`kernels.avro`). whys: of each writer. batches: how many there were."""

    rows: list[Any]
    status: list[int]
    whys: Sequence[str]
    batches: int


def as_rows(values: Sequence[bytes | None]) -> Rows:
    sizes = np.array([-1 if value is None else len(value) for value in values], np.int32)
    kept = np.maximum(sizes, 0)
    places = (np.cumsum(kept) - kept).astype(np.int32)
    source = np.frombuffer(bytearray(b"".join(value or b"" for value in values)) or bytearray(1), np.uint8)
    return Rows(source, places, sizes)


def make_meaning(writers: Sequence[Any], reader: Any, form: int = avro.PREFIXED) -> AvroMeaning:
    """The writers have the ids 0, 1 and so on."""
    parsed = [Writer(at, parse_schema(json.dumps(each))) for at, each in enumerate(writers)]
    return make_avro_meaning(parsed, parse_schema(json.dumps(reader)), form, "the test")


def decode(meaning: AvroMeaning, values: Sequence[bytes | None], most: int = MOST) -> Decoded:
    """Decodes values that have their prefix already. Every array is validated."""
    rows, status = as_rows(values), np.zeros(len(values), np.uint8)
    decoder = meaning.make_decoder(most)
    found: list[Any] = []
    at = batches = 0
    while at < len(values):
        array, end = decoder.decode(rows, at, len(values), status)
        assert end > at or not values
        array.validate(full=True)
        assert array.type == meaning.arrow
        found += to_rows(array)
        at, batches = end, batches + 1
    return Decoded(found, status.tolist(), meaning.whys, batches)


def to_rows(array: pa.Array) -> list[Any]:
    """The values of an array. A row with a moment that Python cannot hold is as the command line prints it."""
    try:
        return array.to_pylist()  # type: ignore[no-any-return]
    except OverflowError:
        if len(array) == 1:
            return to_plain(array, bytes.hex)
        return [row for at in range(len(array)) for row in to_rows(array.slice(at, 1))]


def decode_one(schema: Any, payload: bytes, reader: Any = None) -> tuple[Any, int]:
    """Decodes the value of one writer. Returns it, and what became of the row."""
    decoded = decode(make_meaning([schema], schema if reader is None else reader), [framed(0, payload)])
    return decoded.rows[0], decoded.status[0]
