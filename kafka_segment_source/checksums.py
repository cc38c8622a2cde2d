"""The CRC of a batch as it is stored: CRC-32C for magic 2, CRC-32 for message sets. Bytes in, True or False out."""

from __future__ import annotations

import zlib

from crc32c import crc32c

from kafka_segment_source import format as fmt


def crc_holds(batch: memoryview | bytes, magic: int, stored: int) -> bool:
    """Whether the whole batch `batch` (header included) has the CRC that its header states, `stored`."""
    view = memoryview(batch)
    if magic == fmt.MAGIC_V2:
        return bool(crc32c(view[fmt.CRC_FROM :]) == stored)
    return zlib.crc32(view[fmt.MAGIC_AT :]) == stored
