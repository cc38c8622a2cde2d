"""What kernels ask of the C library or of the processor. Here it is in Python. `compiler.py` has its machine code."""

from __future__ import annotations

import os

import numpy as np


def copy_bytes(dst: np.ndarray, dst_at: int, src: np.ndarray, src_at: int, count: int) -> None:
    """dst[dst_at:][:count] = src[src_at:][:count]. The caller checks the bounds."""
    dst[dst_at : dst_at + count] = src[src_at : src_at + count]


def read_file(descriptor: int, target: np.ndarray, count: int, position: int) -> int:
    """Fills target[:count] (uint8) from a position of an open file (pread). Returns the number of bytes, or -1."""
    try:
        return os.preadv(descriptor, [target[:count].data], position)
    except OSError:
        return -1


def crc32c(src: np.ndarray, at: int, end: int) -> int:
    """Returns the CRC-32C of src[at:end] (`crc32c.compute`). The caller checks the bounds."""
    import crc32c as library  # noqa: PLC0415  # machine code does without

    return int(library.crc32c(src[at:end].data))
