"""Finds a text of bytes in a buffer."""

from __future__ import annotations

import numpy as np

from kafka_segment_source.kernels.jit import kernel

_BLOCK = 128  # positions that are looked at together


@kernel("int64(uint8[::1], int64, int64, uint8[::1], int64, int64, int64[::1])")
def find_text(src, start, end, text, one, other, places):
    """Fills `found` with the positions of `text` in src[start:end], in order, until it is full. Returns their number.

    one, other: which two bytes of the text are looked for first. The rarer they are in src, the faster it is. LLVM
    makes vector instructions of the loop over a block.
    """
    n = 0
    size = len(text)
    a, b = text[one], text[other]
    at = start
    while at <= end - size:
        stop = min(at + _BLOCK, end - size + 1)
        if stop - at == _BLOCK:
            near = np.uint8(255)  # 0 where both bytes are those of the text
            for i in range(_BLOCK):
                near = min(near, np.uint8(src[np.uint64(at + one + i)] ^ a | src[np.uint64(at + other + i)] ^ b))
            if near != 0:
                at = stop
                continue
        for position in range(at, stop):
            if src[position + one] != a or src[position + other] != b:
                continue
            i = 0
            while i < size and src[position + i] == text[i]:
                i += 1
            if i == size:
                if n == len(places):
                    return n
                places[n] = position
                n += 1
        at = stop
    return n
