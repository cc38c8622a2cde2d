"""The first pass of view=latest: chunks of one split → the hash of each record's key, and its offset.

They are Arrow batches, so damage, lost offsets, copies, transactions and threads are those of a read of records.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.payloads import Group
from kafka_segment_source.decoding.record_rows import keep_wanted
from kafka_segment_source.decoding.records import RecordColumns
from kafka_segment_source.decoding.scratch import MAX_ROWS, Scratch
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.decoding.tables import MakeRows, SplitTable
from kafka_segment_source.kernels import batch_headers, offset_map, record_batches
from kafka_segment_source.kernels.record_batches import OFFSET
from kafka_segment_source.request import Content
from kafka_segment_source.schema import RECORD_COLUMNS

Words = npt.NDArray[np.uint64]

SCHEMA = pa.schema([(name, pa.uint64()) for name in ("low", "high", "newest")])
_AT_ONCE = 1024  # records that are found and hashed at a time


class Hashed(NamedTuple):
    """The hashes of some keys, and the offset of the record of each, with `offset_map.TOMBSTONE`.

    without_key: how many records more there were, without a key.
    """

    low: Words
    high: Words
    newest: Words
    without_key: int


def hashes_of(secret: Words) -> SplitTable:
    """The table of a first pass. secret: uint64[2], of the hash."""
    return SplitTable(RECORD_COLUMNS, partial(_make_maker, secret))


def hash_records(records: RecordColumns, secret: Words, states: Words) -> pa.RecordBatch:
    """Returns a row for each record. Those without a key come last, and each is NO_KEY. states: of `make_states`."""
    found = np.empty((len(SCHEMA), records.count), np.uint64)
    places = (records.source, records.longs, records.ints, records.count)
    with np.errstate(over="ignore"):  # of kernels that run as Python
        keyed: int = offset_map.hash_records(*places, secret, states, *found)
    return _to_batch(found, records.count, keyed)


def _to_batch(found: Words, count: int, keyed: int) -> pa.RecordBatch:
    newest = found[-1]
    newest[keyed:count] = offset_map.NO_KEY
    columns = [pa.Array.from_buffers(pa.uint64(), count, [None, pa.py_buffer(row)]) for row in found]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def read_hashes(batch: pa.RecordBatch) -> Hashed:
    """Returns what a batch of `hash_records` holds."""
    low, high, newest = (_to_words(batch.column(name)) for name in SCHEMA.names)
    keyed = len(newest)
    if keyed and newest[-1] == offset_map.NO_KEY:
        keyed = int(np.argmax(newest == np.uint64(offset_map.NO_KEY)))
    return Hashed(low[:keyed], high[:keyed], newest[:keyed], len(newest) - keyed)


def make_states() -> Words:
    """Makes an array for `hash_records` to work in."""
    return np.empty((4, _AT_ONCE), np.uint64)


def _to_words(column: pa.Array) -> Words:
    """Returns the numbers of a column. Kernels take arrays that can be written to, so others are copied."""
    words = np.frombuffer(column.buffers()[1], np.uint64, len(column), column.offset * 8)
    return words if words.flags.writeable else words.copy()


def _make_maker(secret: Words) -> MakeRows:
    return partial(_HashedKeys, secret)


class _HashedKeys:
    """Hashes the keys of the wanted records of each chunk (a `RowMaker`)."""

    def __init__(self, secret: Words, source: SplitFile, content: Content, schema: pa.Schema, scratch: Scratch) -> None:
        self._secret = secret
        self._states = make_states()
        self._made = np.zeros(offset_map.MADE, np.int64)
        keep = keep_wanted(content.raw_keys)
        self._wants_all_keys = keep is None
        self._decoder = source.decoder(content.include_control, False, scratch, keep)

    def rows(self, chunk: Chunk) -> Iterator[tuple[pa.RecordBatch, int]]:
        for group in self._decoder.groups(chunk):
            if self._wants_all_keys and not group.is_message_set:
                yield from self._hash_group(group)
            else:
                for records in self._decoder.decode_group(group):
                    last = int(records.longs[OFFSET, records.count - 1])
                    yield hash_records(records, self._secret, self._states), last

    def _hash_group(self, group: Group) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Finds and hashes in one call. group: of magic 2."""
        cursor = np.zeros(record_batches.CURSOR, np.int64)
        most = min(MAX_ROWS, int(group.headers[batch_headers.COUNT].sum()))
        is_done = False
        while not is_done:
            found = np.empty((len(SCHEMA), most), np.uint64)
            into = (self._secret, self._states, *found, self._made)
            with np.errstate(over="ignore"):  # of kernels that run as Python
                keyed = self._decoder.find_into(offset_map.hash_batches, group, cursor, into)
            is_done = self._decoder.is_done
            count, last = self._made.tolist()
            if count:
                yield _to_batch(found, count, keyed), last
