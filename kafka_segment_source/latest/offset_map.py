"""The newest offset of each key, in bounded memory. With more keys than fit, some slices of the keys at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kafka_segment_source.errors import OptionError
from kafka_segment_source.kernels import offset_map
from kafka_segment_source.kernels.offset_map import AT, COUNT, FIRST_SLICE, LAST_SLICE, SLICES
from kafka_segment_source.latest.hashed_keys import Hashed

BYTES_A_KEY = 40  # an entry of 24 bytes, and its share of the slots
_FEWEST_SLOTS = 1024
_FEWEST_ENTRIES = 16
_MOST_ROOM = 16  # offsets between the first and the last one, for each that is sorted: a byte for each
_AT_ONCE = 1024  # records whose slots and entries are read at a time

Offsets = npt.NDArray[np.int64]


class OffsetMap:
    """Takes the records of a log, several times if need be, and gives the newest offsets of some slices each time.

    The slices are parts of all keys, by their hashes. So each key belongs to one slice, and its newest offset comes out
    once.
    """

    def __init__(self, most_bytes: int) -> None:
        """most_bytes: of the map. It takes no memory that it does not need."""
        most_keys = min(max(most_bytes // BYTES_A_KEY, _FEWEST_ENTRIES), offset_map.keys_of(offset_map.MOST_SLOTS))
        self._entries = np.empty((most_keys, offset_map.ENTRY), np.uint64)
        self._room = _make_room(most_keys)
        self._slots = self._room[:_FEWEST_SLOTS]
        self._state = np.zeros(offset_map.STATE, np.int64)
        self._state[LAST_SLICE] = SLICES - 1
        self._guesses = np.empty(_AT_ONCE, np.int64)

    @property
    def has_more(self) -> bool:
        """Whether keys are left: the records of the log have to be noted, from the first one on."""
        return int(self._state[FIRST_SLICE]) < SLICES

    def note(self, hashed: Hashed) -> None:
        """Notes some records."""
        self._state[AT] = 0
        while True:
            arrays = (self._slots, self._entries, self._guesses, self._state)
            words = (hashed.low, hashed.high, hashed.newest)
            status = offset_map.note_records(*words, len(hashed.newest), *arrays)
            if status == offset_map.DONE:
                return
            if status == offset_map.ENTRIES_FULL:
                self._leave_slices()
            else:
                self._double_slots()

    def take_newest(self, with_tombstones: bool) -> Offsets:
        """Returns the newest offsets of the keys that were noted, sorted, and turns to the next slices.

        with_tombstones: False leaves out those of records with a null value.
        """
        count = int(self._state[COUNT])
        newest = self._entries[:count, offset_map.NEWEST].copy()
        self._entries = np.empty_like(self._entries)  # gives the memory back while the records are read
        self._free_slots(_FEWEST_SLOTS)
        is_tombstone = newest >= np.uint64(offset_map.TOMBSTONE)
        if with_tombstones:
            newest &= np.uint64(offset_map.TOMBSTONE - 1)
        else:
            newest = newest[~is_tombstone]
        width = int(self._state[LAST_SLICE] - self._state[FIRST_SLICE])
        self._state[COUNT] = 0
        self._state[FIRST_SLICE] = self._state[LAST_SLICE] + 1
        self._state[LAST_SLICE] = min(int(self._state[FIRST_SLICE]) + width, SLICES - 1)
        return _sort(newest.view(np.int64))

    def _leave_slices(self) -> None:
        """Leaves half of the slices to the next time."""
        first, last = int(self._state[FIRST_SLICE]), int(self._state[LAST_SLICE])
        if first == last:
            raise OptionError(
                f"option 'offsetMapBytes': a {SLICES:,}th of the keys does not fit: give it more",
                options=("offsetMapBytes",),
            )
        self._state[LAST_SLICE] = (first + last) // 2
        self._state[COUNT] = offset_map.keep_slices(
            self._entries, int(self._state[COUNT]), int(self._state[LAST_SLICE])
        )
        self._fill_slots(len(self._slots))

    def _double_slots(self) -> None:
        """Takes twice as many slots, in the same memory: they are never there twice."""
        count = 2 * len(self._slots)
        self._slots = self._room[:count]
        if not offset_map.spread_slots(self._slots, self._guesses):
            self._fill_slots(count)

    def _fill_slots(self, count: int) -> None:
        self._free_slots(count)
        offset_map.fill_slots(self._slots, self._entries, int(self._state[COUNT]))

    def _free_slots(self, count: int) -> None:
        """Makes `count` slots, all free."""
        self._slots = self._room = np.empty(0, np.int64)  # first, so that both are never there
        self._room = _make_room(len(self._entries))
        self._slots = self._room[:count]


def _sort(offsets: Offsets) -> Offsets:
    """Returns different offsets, sorted. Where they lie close, marks at their places take a fifth of the time."""
    if not len(offsets):
        return offsets
    first = int(offsets.min())
    room = int(offsets.max()) - first + 1
    if room > _MOST_ROOM * len(offsets):
        return np.sort(offsets)
    marks = np.zeros(room, np.bool_)
    marks[offsets - first] = True
    return np.flatnonzero(marks) + first


def _make_room(most_keys: int) -> npt.NDArray[np.int64]:
    """Makes room for the slots of this number of keys, all free, whose buckets are cache lines. It takes no memory
    before it is used."""
    count = _FEWEST_SLOTS
    while offset_map.keys_of(count) < most_keys:
        count *= 2
    slots = np.zeros(count + offset_map.BUCKET, np.int64)
    first = -(slots.ctypes.data // slots.itemsize) % offset_map.BUCKET
    return slots[first : first + count]
