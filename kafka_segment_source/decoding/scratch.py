"""The large arrays that decoding needs, used for one file after another.

Fresh memory costs a page fault for each 4 KiB that is written. For a window of 1 MB, that took as long as decoding it.
So a process keeps the arrays of one file, about 15 MiB, for its next one. Two files that are open at the same time have
their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np

from kafka_segment_source.decoding.batches import CHUNK_BYTES
from kafka_segment_source.decoding.compression import Plain
from kafka_segment_source.kernels import record_batches
from kafka_segment_source.storage.files import Bytes

MAX_ROWS = 65_536  # of one Arrow batch
STRIDE = MAX_ROWS + 64  # with columns a power of two apart, each would evict the others from the processor's cache
GROUP_BYTES = 4 * 1024 * 1024  # a group of decompressed batches ends after this many plain bytes
_PLAIN_BYTES = 2 * GROUP_BYTES
_FREED_BYTES = 16 * 1024 * 1024


class Scratch:
    """Arrays for one file at a time.

    longs: int64[LONGS, STRIDE], ints: int32[INTS, STRIDE]: the columns of records (kernels.record_batches). plain:
    decompressed bytes.
    """

    def __init__(self) -> None:
        self.longs = np.empty((record_batches.LONGS, STRIDE), np.int64)
        self.ints = np.empty((record_batches.INTS, STRIDE), np.int32)
        self.plain = Plain(_PLAIN_BYTES)
        self._chunk: Bytes = np.empty(CHUNK_BYTES, np.uint8)
        self._keys: Bytes = np.empty(_PLAIN_BYTES, np.uint8)  # memory that is not used is never touched

    def take_keys(self, size: int) -> Bytes:
        """Returns a buffer of `size` bytes for the keys of some records. Those before are no longer in use."""
        if size > len(self._keys):
            self._keys = np.empty(size, np.uint8)
        return self._keys[:size]

    def take_buffer(self, size: int) -> Bytes:
        """Returns a buffer of `size` bytes for a chunk. The chunk before it is no longer in use."""
        if size > len(self._chunk):
            self._chunk = np.empty(size, np.uint8)
        return self._chunk[:size]

    def forget_large(self) -> None:
        """Gives memory back that a large batch has taken."""
        if len(self.plain.data) > _PLAIN_BYTES:
            self.plain = Plain(_PLAIN_BYTES)
        if len(self._chunk) > CHUNK_BYTES:
            self._chunk = np.empty(CHUNK_BYTES, np.uint8)
        if len(self._keys) > _PLAIN_BYTES:
            self._keys = np.empty(_PLAIN_BYTES, np.uint8)


_kept: list[Scratch] = []


@cache
def _keep_freed_memory() -> None:
    """Makes the C library keep the memory of freed Arrow batches, up to 32 MiB, for the next ones.

    glibc gives free memory at the end of its heap back to the system, beyond twice the size of the largest block that
    it ever took from the system by itself and that was freed (mallopt(3), M_MMAP_THRESHOLD). So one is freed here.
    Other C libraries are not changed by it.
    """
    np.empty(_FREED_BYTES, np.uint8)


@contextmanager
def lend_scratch() -> Iterator[Scratch]:
    """Lends arrays for one file. Nothing may refer to them afterwards."""
    try:
        scratch = _kept.pop()
    except IndexError:  # the first file, or another one has them
        _keep_freed_memory()
        scratch = Scratch()
    try:
        yield scratch
    finally:
        if not _kept:
            scratch.forget_large()
            _kept.append(scratch)
