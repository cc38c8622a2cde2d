"""The stages of a scan by themselves: a chunk of a log, its group of plain batches, a table of records.
For one core's work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

import kafka_segment_source
from benchmarks.logs import Log
from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.arrow import RECORD_BUILDERS, to_record_batch
from kafka_segment_source.decoding.batches import BatchReader, Chunk
from kafka_segment_source.decoding.damage import Damage
from kafka_segment_source.decoding.payloads import Group, Unpacker
from kafka_segment_source.decoding.records import MAX_BYTES, Decoder, RecordColumns
from kafka_segment_source.decoding.scratch import MAX_ROWS, STRIDE, Scratch
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.kernels import batch_headers, block_codecs, message_sets, record_batches
from kafka_segment_source.storage.files import InputFile
from kafka_segment_source.trust import Trust

LIMIT = 2**28


def first_split(log: Log) -> SegmentSplit:
    """The first segment, whole."""
    return kafka_segment_source.plan(str(log.path)).splits[0]


def chunks(split: SegmentSplit, count: int) -> list[Chunk]:
    """The first chunks of a segment, each in arrays of its own."""
    damage = Damage(False)
    with InputFile(split.path, split.storage) as file:
        reader = BatchReader(file, split, Trust(max_batch_bytes=LIMIT), damage)
        return [
            Chunk(each.data.copy(), np.ascontiguousarray(each.headers), each.position)
            for each in islice(reader.chunks(), count)
        ]


def groups(split: SegmentSplit, source: list[Chunk]) -> list[Group]:
    """Their plain records, each group in a buffer of its own."""
    unpacker = Unpacker(split.path, LIMIT, Damage(False), Scratch().plain)
    return [
        Group(group.source.copy(), group.headers, group.payloads)
        for chunk in source
        for group in unpacker.groups(chunk, chunk.headers)
    ]


def kernel_of_codec(source: list[Chunk], codec: int) -> Callable[[], None]:
    """What unpacks the batches of chunks by the kernel of lz4 and snappy, into a buffer that is used again."""
    out = np.empty(2**24, np.uint8)
    calls = []
    for chunk in source:
        starts = chunk.headers[batch_headers.POSITION] - chunk.position
        ends = starts + chunk.headers[batch_headers.SIZE]
        codecs, places = np.full(len(starts), codec), np.empty(len(starts), np.int64)
        calls.append(
            (chunk.data, starts + kafka_format.BATCH_OVERHEAD, ends, codecs, 0, out, 0, len(out), LIMIT, places)
        )

    def unpack() -> None:
        for call in calls:
            if block_codecs.unpack_batches(*call) != len(call[-1]):
                raise AssertionError("the kernel does not take a batch of a sound log")

    return unpack


@dataclass
class Records:
    """What the kernel fills for one group, again and again."""

    longs: npt.NDArray[np.int64]
    ints: npt.NDArray[np.int32]
    report: npt.NDArray[np.int64]
    limits: npt.NDArray[np.int64]
    bounds: npt.NDArray[np.int64]

    @classmethod
    def arrays(cls) -> Records:
        """Room for as many rows as one Arrow batch has."""
        every = np.iinfo(np.int64)
        return cls(
            np.empty((record_batches.LONGS, STRIDE), np.int64),
            np.empty((record_batches.INTS, STRIDE), np.int32),
            np.zeros(record_batches.REPORT, np.int64),
            np.array([MAX_ROWS, MAX_BYTES, LIMIT], np.int64),
            np.array([0, every.max, every.min, every.max], np.int64),
        )

    def find(self, group: Group) -> int:
        """Runs the kernel over the group until it is done; answers how many records."""
        cursor = np.zeros(record_batches.CURSOR, np.int64)
        found = 0
        into = (self.limits, cursor, self.longs, self.ints, self.report)
        while True:
            if group.is_message_set:
                found += message_sets.decode_messages(
                    group.source, group.headers, group.payloads, self.bounds, *into, True
                )
            else:
                found += record_batches.decode_records(group.source, group.headers, group.payloads, self.bounds, *into)
            if self.report[record_batches.STATUS] == record_batches.DONE:
                return int(found)
            if self.report[record_batches.STATUS] != record_batches.FULL:
                raise AssertionError(f"status {self.report[record_batches.STATUS]} in a sound log")


def to_arrow(split: SegmentSplit, source: list[Chunk], columns: tuple[str, ...]) -> int:
    """Chunks to Arrow batches, as a task does it; answers how many rows."""
    decoder = Decoder(split, Trust(max_batch_bytes=LIMIT), Damage(False), include_control=False)
    arrow_schema = RECORDS.arrow_schema(columns)
    return sum(
        to_record_batch(records, split, arrow_schema, RECORD_BUILDERS).num_rows
        for chunk in source
        for records in decoder.decode(chunk)
    )


def one_table(group: Group) -> RecordColumns:
    """The records of a group up to the first limit."""
    records = Records.arrays()
    cursor = np.zeros(record_batches.CURSOR, np.int64)
    into = (records.limits, cursor, records.longs, records.ints, records.report)
    count = record_batches.decode_records(group.source, group.headers, group.payloads, records.bounds, *into)
    sizes = records.report[[record_batches.KEY_BYTES, record_batches.VALUE_BYTES]].tolist()
    return RecordColumns(int(count), group.source, group.headers, records.longs, records.ints, *sizes)
