"""Computes the CRC of a stored batch: CRC-32C for magic 2, CRC-32 for message sets."""

from __future__ import annotations

import zlib

from crc32c import crc32c

from kafka_segment_source import kafka_format


def crc_of(batch: memoryview | bytes, magic: int) -> int:
    """Returns the CRC that the batch should have. `batch` is the whole batch with its header.

    A newer magic is treated as magic 2.
    """
    view = memoryview(batch)
    if magic >= kafka_format.MAGIC_V2:
        return int(crc32c(view[kafka_format.CRC_FROM :]))
    return zlib.crc32(view[kafka_format.MAGIC_AT :])


def crc_holds(batch: memoryview | bytes, magic: int, stored: int) -> bool:
    """Whether the batch has the CRC `stored` that its header states. `batch` is the whole batch with its header."""
    return crc_of(batch, magic) == stored
