"""The heaviest keys, in bounded memory: the summary of Misra and Gries, which can be merged.

A key's weight is known to be at least what is kept, and at most `error` more. The error is at most the weight of all
keys divided by the number of counters and one more. So every heavier key is there. Source: P. K. Agarwal and others,
"Mergeable summaries", 2012.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

COUNTERS = 1000
_MOST_WAITING = 16 * COUNTERS

Hashes = npt.NDArray[np.uint64]
Weights = npt.NDArray[np.int64]


def keep_heaviest(weights: Weights, most: int = COUNTERS) -> tuple[npt.NDArray[np.int64], Weights, int]:
    """Returns the places of the heaviest, what is kept of their weights, and what each may be more."""
    if len(weights) <= most:
        return np.arange(len(weights)), weights, 0
    taken = int(
        np.partition(weights, len(weights) - most - 1)[len(weights) - most - 1]
    )  # of the heaviest without place
    places = np.flatnonzero(weights > taken)
    return places, weights[places] - taken, taken


class Heaviest:
    """Adds up keys by their hashes. Two keys with one hash of 64 bits count as one, which hardly ever happens.

    error: what each weight may be more.
    """

    def __init__(self) -> None:
        self.error = 0
        self._hashes: list[Hashes] = []
        self._weights: list[Weights] = []
        self._keys: list[pa.Array] = []
        self._count = 0

    def add(self, hashes: Hashes, weights: Weights, keys: pa.Array, error: int) -> None:
        """Adds a summary of some keys: what `keep_heaviest` returns of their weights."""
        self.error += error
        self._hashes.append(hashes)
        self._weights.append(weights)
        self._keys.append(keys)
        self._count += len(hashes)
        if self._count > _MOST_WAITING:
            self._merge()

    def top(self, most: int) -> list[tuple[bytes, int]]:
        """Returns the heaviest keys with what is known of their weights, heaviest first."""
        if not self._hashes:
            return []
        self._merge()
        [weights], [keys] = self._weights, self._keys
        pairs = list(zip(keys.to_pylist(), weights.tolist(), strict=True))
        return sorted(pairs, key=lambda item: (-item[1], item[0]))[:most]

    def _merge(self) -> None:
        hashes, first, inverse = np.unique(np.concatenate(self._hashes), return_index=True, return_inverse=True)
        sums = np.zeros(len(hashes), np.int64)
        np.add.at(sums, inverse, np.concatenate(self._weights))
        places, weights, error = keep_heaviest(sums)
        self.error += error
        self._hashes = [hashes[places]]
        self._weights = [weights]
        self._keys = [pa.concat_arrays(self._keys).take(pa.array(first[places]))]
        self._count = len(places)
