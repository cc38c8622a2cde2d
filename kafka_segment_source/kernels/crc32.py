"""CRC-32 (IEEE, as in zlib) over many small messages of a message set.

A library would need one call, and so one object, for each message. This loop takes eight bytes in each step. Its tables
are computed once from the definition.
"""

from __future__ import annotations

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.jit import inline, kernel

_POLYNOMIAL = 0xEDB88320
_SLICES = 8


def _tables() -> np.ndarray:  # int64[8, 256]
    tables = np.zeros((_SLICES, 256), np.int64)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for step in range(1, _SLICES):
        before = tables[step - 1]
        tables[step] = (before >> 8) ^ tables[0, before & 0xFF]
    return tables


_TABLES = _tables()


@inline
def crc32(src, at, end):
    """CRC-32 of src[at:end] as a number from 0 to 2**32 - 1."""
    crc = np.int64(0xFFFFFFFF)
    while end - at >= _SLICES:
        low = crc ^ (
            np.int64(src[at]) | np.int64(src[at + 1]) << 8 | np.int64(src[at + 2]) << 16 | np.int64(src[at + 3]) << 24
        )
        crc = (
            _TABLES[7, low & 0xFF]
            ^ _TABLES[6, (low >> 8) & 0xFF]
            ^ _TABLES[5, (low >> 16) & 0xFF]
            ^ _TABLES[4, low >> 24]
            ^ _TABLES[3, src[at + 4]]
            ^ _TABLES[2, src[at + 5]]
            ^ _TABLES[1, src[at + 6]]
            ^ _TABLES[0, src[at + 7]]
        )
        at += _SLICES
    for i in range(at, end):
        crc = (crc >> 8) ^ _TABLES[0, (crc ^ src[i]) & 0xFF]
    return crc ^ 0xFFFFFFFF


@kernel("void(uint8[::1], int64, int64[:,:], boolean[::1])")
def bad_crc32s(src, position, headers, bad):
    """Sets bad[i] where column i of a header table is a message of magic 0 or 1 with a wrong CRC.

    position: where src[0] lies in the file. Batches of magic 2 are skipped, since they have a CRC-32C.
    """
    for i in range(headers.shape[1]):
        if headers[batch_headers.MAGIC, i] < kafka_format.MAGIC_V2:
            at = headers[batch_headers.POSITION, i] - position
            if (
                crc32(src, at + kafka_format.MAGIC_AT, at + headers[batch_headers.SIZE, i])
                != headers[batch_headers.CRC, i]
            ):
                bad[i] = True
