"""CRC-32 (IEEE, as in zlib) over many small messages of a message set.

A library would need one call, and so one object, for each message. This loop takes eight bytes in each step. Its tables
are computed once from the definition.
"""

from __future__ import annotations

import numpy as np

from kafka_segment_source.kernels.jit import inline

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
