"""Blocks of memory for Arrow's buffers, used again when nothing refers to a buffer any more.

A block that one thread takes from the C library and another one gives back goes back to the system, and fresh memory
costs a page fault for each 4 KiB that is written. With two threads that took a tenth of the time.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kafka_segment_source.storage.files import Bytes

_MOST_KEPT = 32 * 1024 * 1024  # bytes of blocks that wait for their next use
_LEAST = 256 * 1024  # bytes of a block that is worth keeping
_STEP = 64 * 1024  # sizes of these are multiples of it, so that a block fits more often
_SPARE = 4  # a block with more than a quarter of its bytes to spare is not taken, and what is in it is copied

_kept: list[Bytes] = []


class Block:
    """Memory for buffers. It is kept for the next use when the last buffer of it is gone.

    data: uint8[size].
    """

    __slots__ = ("_whole", "data")

    def __init__(self, whole: Bytes, size: int) -> None:
        self._whole = whole
        self.data = whole[:size]

    def make_buffers(self, parts: list[tuple[int, int]]) -> list[pa.Buffer]:
        """Returns buffers of some parts of the data: each (start, count) in bytes. What is left of a block that is
        mostly unused is copied."""
        used = sum(count for _, count in parts)
        if used < len(self.data) - len(self.data) // _SPARE:
            return [pa.py_buffer(self.data[start : start + count].copy()) for start, count in parts]
        whole = pa.foreign_buffer(self.data.ctypes.data, len(self.data), base=self)
        return [whole.slice(start, count) for start, count in parts]

    def __del__(self, kept: list[Bytes] = _kept, least: int = _LEAST, most: int = _MOST_KEPT) -> None:
        if len(self._whole) < least:
            return
        kept.append(self._whole)
        while sum(map(len, kept)) > most:
            _pop(kept, last=False)


def take_block(size: int) -> Block:
    """Returns a block of `size` bytes, whatever they are: one that is kept, if it fits, or a new one."""
    if size < _LEAST:
        return Block(np.empty(size, np.uint8), size)
    passed: list[Bytes] = []
    block: Bytes | None = None
    while block is None and (whole := _pop(_kept, last=True)) is not None:  # the last one may be in the caches
        if size <= len(whole) <= size + size // _SPARE + _STEP:
            block = whole
        else:
            passed.append(whole)
    _kept.extend(reversed(passed))
    if block is not None:
        return Block(block, size)
    return Block(np.empty(-(-size // _STEP) * _STEP, np.uint8), size)


def _pop(kept: list[Bytes], last: bool) -> Bytes | None:
    """Takes the last one or the first one. None if another thread has just taken the last that there was."""
    try:
        return kept.pop(-1 if last else 0)
    except IndexError:
        return None
