"""Keeps the records that have one of some keys, before anything is built of them.

A null key is none of them. Keys are compared by their bytes, as they are stored.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache

import numpy as np

from kafka_segment_source.decoding.header_table import is_control
from kafka_segment_source.decoding.records import RecordColumns
from kafka_segment_source.kernels import keys, record_batches


class WantedKeys:
    """The keys that a read wants. Several threads may use it."""

    def __init__(self, wanted: Collection[bytes]) -> None:
        distinct = list(dict.fromkeys(wanted))
        lengths = [len(key) for key in distinct]
        self._bytes = np.frombuffer(bytearray(b"".join(distinct) or b"\0"), np.uint8)
        self._places = np.cumsum([0, *lengths], dtype=np.int64)
        self._slots = np.full(1 << (2 * len(distinct)).bit_length(), -1, np.int32)
        self._shortest, self._longest = min(lengths, default=0), max(lengths, default=-1)
        keys.fill_slots(self._bytes, self._places, self._slots)

    def keep(self, records: RecordColumns, data_only: bool = False) -> RecordColumns:
        """Returns the records with one of the keys. It moves them to the front of the same arrays.

        data_only: control records have no key.
        """
        if data_only:
            records = _leave_out_control(records)
        sizes = np.array([self._shortest, self._longest, 0, 0], np.int64)
        count: int = keys.keep_keys(
            records.source, self._bytes, self._places, self._slots, sizes, records.longs, records.ints, records.count
        )
        return replace(records, count=count, key_bytes=int(sizes[2]), value_bytes=int(sizes[3]))


@lru_cache(maxsize=2)
def find_wanted(wanted: frozenset[bytes]) -> WantedKeys:
    """Returns what keeps records with these keys. It is made once, as all splits of a task want the same."""
    return WantedKeys(wanted)


def find_control(records: RecordColumns) -> np.ndarray:
    """Returns which records are control records, bool[count]."""
    headers = records.headers
    return np.asarray(is_control(headers)[records.ints[record_batches.BATCH, : records.count]])


def _leave_out_control(records: RecordColumns) -> RecordColumns:
    """Gives control records a null key, in the same arrays."""
    control = find_control(records)
    if control.any():
        records.ints[record_batches.KEY_LENGTH, : records.count][control] = -1
    return records
