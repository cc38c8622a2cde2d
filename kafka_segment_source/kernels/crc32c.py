"""CRC-32C (Castagnoli) of bytes in a buffer, eight at a time, by the processor's instruction where it has one.

The instruction takes three clock cycles, and a processor can begin one in each cycle. So three stretches of a message
are computed side by side, and their CRCs are put together by tables (Gopal and others, "Fast CRC Computation for iSCSI
Polynomial Using CRC32 Instruction", Intel, 2011). Kernels call it as `system_calls.crc32c`.
"""

from __future__ import annotations

import numpy as np

_POLYNOMIAL = 0x82F63B78  # its bits in reverse order, as the lowest bit of a byte comes first
_WORD = 8
_LONG = 1024  # bytes of a stretch
_SHORT = 128  # bytes of a stretch in what is left
_ALL = np.uint64(0xFFFFFFFF)
_BYTE = np.uint64(0xFF)


def _make_byte_tables() -> np.ndarray:  # uint64[8, 256]
    """tables[k, byte]: what a byte does to a CRC that k more bytes of zeros follow."""
    tables = np.zeros((_WORD, 256), np.uint64)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for step in range(1, _WORD):
        before = tables[step - 1]
        tables[step] = (before >> np.uint64(8)) ^ tables[0, (before & _BYTE).astype(np.int64)]
    return tables


_TABLES = _make_byte_tables()


def _make_shift(count: int) -> np.ndarray:  # uint64[4, 256]
    """Tables that make the CRC of a message the one of the message and `count` bytes of zeros, by its four bytes."""
    crcs = np.arange(256, dtype=np.uint64) << (np.arange(4, dtype=np.uint64)[:, None] * np.uint64(8))
    for _ in range(count):
        crcs = (crcs >> np.uint64(8)) ^ _TABLES[0, (crcs & _BYTE).astype(np.int64)]
    return crcs


_AFTER_LONG = _make_shift(_LONG)
_AFTER_SHORT = _make_shift(_SHORT)


def _shift(tables, crc):
    return (
        tables[0, np.int64(crc & _BYTE)]
        ^ tables[1, np.int64((crc >> np.uint64(8)) & _BYTE)]
        ^ tables[2, np.int64((crc >> np.uint64(16)) & _BYTE)]
        ^ tables[3, np.int64(crc >> np.uint64(24))]
    )


def add_word_by_tables(crc, src, at):
    """The CRC (uint64, not yet inverted) after the eight bytes src[at:at + 8] too."""
    low = np.int64(crc)
    return (
        _TABLES[7, (low & 0xFF) ^ src[at]]
        ^ _TABLES[6, ((low >> 8) & 0xFF) ^ src[at + 1]]
        ^ _TABLES[5, ((low >> 16) & 0xFF) ^ src[at + 2]]
        ^ _TABLES[4, (low >> 24) ^ src[at + 3]]
        ^ _TABLES[3, src[at + 4]]
        ^ _TABLES[2, src[at + 5]]
        ^ _TABLES[1, src[at + 6]]
        ^ _TABLES[0, src[at + 7]]
    )


def add_word(crc, src, at):
    """As `add_word_by_tables`. Machine code has one instruction here, if there is one (`compiler.py`)."""
    return add_word_by_tables(crc, src, at)


def compute(src, at, end):
    """CRC-32C of src[at:end] as a number from 0 to 2**32 - 1. The caller checks the bounds."""
    crc = _ALL
    while end - at >= 3 * _LONG:
        second = np.uint64(0)
        third = np.uint64(0)
        for i in range(at, at + _LONG, _WORD):
            crc = add_word(crc, src, i)
            second = add_word(second, src, i + _LONG)
            third = add_word(third, src, i + 2 * _LONG)
        crc = _shift(_AFTER_LONG, _shift(_AFTER_LONG, crc) ^ second) ^ third
        at += 3 * _LONG
    while end - at >= 3 * _SHORT:
        second = np.uint64(0)
        third = np.uint64(0)
        for i in range(at, at + _SHORT, _WORD):
            crc = add_word(crc, src, i)
            second = add_word(second, src, i + _SHORT)
            third = add_word(third, src, i + 2 * _SHORT)
        crc = _shift(_AFTER_SHORT, _shift(_AFTER_SHORT, crc) ^ second) ^ third
        at += 3 * _SHORT
    while end - at >= _WORD:
        crc = add_word(crc, src, at)
        at += _WORD
    for i in range(at, end):
        crc = (crc >> np.uint64(8)) ^ _TABLES[0, np.int64(crc & _BYTE) ^ src[i]]
    return np.int64(crc ^ _ALL)


HELPERS = (_shift, add_word_by_tables, add_word, compute)
"""The functions that machine code of `system_calls.crc32c` consists of."""
