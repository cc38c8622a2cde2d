"""Decodes rows of Protobuf by the package's parts, without files."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafka_segment_source.values.protobuf_meaning import ProtobufMeaning
from tests.support.avro_reads import MOST, as_rows, to_rows


def decode(meaning: ProtobufMeaning, values: list[bytes | None], most: int = MOST) -> tuple[list[Any], list[int]]:
    """Decodes values. Every array is validated."""
    rows, status = as_rows(values), np.zeros(len(values), np.uint8)
    decoder = meaning.make_decoder(most)
    found: list[Any] = []
    at = 0
    while at < len(values):
        array, end = decoder.decode(rows, at, len(values), status)
        assert end > at
        array.validate(full=True)
        assert array.type == meaning.arrow
        found += to_rows(array)
        at = end
    return found, status.tolist()
