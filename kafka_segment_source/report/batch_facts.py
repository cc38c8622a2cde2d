"""Batches of one partition after the other → sums for the report: time, codecs, sizes, producers, gaps, disorder.

Input: Arrow batches of view=batches, by partition and offset. Nothing here opens a file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Longs = npt.NDArray[np.int64]

COLUMNS = (
    *("topic", "partition", "baseOffset", "lastOffset", "count", "size", "compresscodec"),
    *("baseTimestamp", "maxTimestamp", "producerId", "isTransactional", "isControl"),
)
_LEAST_LONG = -(2**63)


@dataclass(slots=True)
class ProducerFacts:
    """What a producer id wrote.

    first, last: ms of the earliest and of the latest batch's largest timestamp.
    """

    batches: int = 0
    records: int = 0
    size: int = 0
    is_transactional: bool = False
    first: int = 2**63 - 1
    last: int = -1


@dataclass(slots=True)
class CodecFacts:
    """Batches of a topic with one codec.

    sizes: of each batch's size, rounded up to a power of two, the number.
    """

    batches: int = 0
    records: int = 0
    size: int = 0
    sizes: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True)
class PartitionBatches:
    """Sums over the batches of one partition.

    width: of a slot of time, in µs.
    slots: records and bytes by number of the slot that a batch's largest timestamp is in.
    gaps, missing: places where offsets are missing between batches, and how many offsets.
    lateness: ms, the most by which a batch's first record is older than the newest record before it.
    """

    width: int
    batches: int = 0
    records: int = 0
    size: int = 0
    gaps: int = 0
    missing: int = 0
    lateness: int = 0
    slots: dict[int, tuple[int, int]] = field(default_factory=dict)
    _last: int | None = None
    _newest: int = _LEAST_LONG

    def find_gaps(self, rows: pa.RecordBatch) -> Longs:
        """Takes the offsets of the next batches, control batches too. Returns the last offset before each batch."""
        base, last = _longs(rows["baseOffset"]), _longs(rows["lastOffset"])
        known = np.asarray(rows["baseOffset"].is_valid())
        first = int(base[0] if known[0] else last[0]) - 1
        before = np.concatenate(([first if self._last is None else self._last], last[:-1]))
        gap = np.where(known, base - before - 1, 0)
        self.gaps += int(np.count_nonzero(gap > 0))
        self.missing += int(gap[gap > 0].sum())
        self._last = int(last[-1])
        return before

    def add(self, rows: pa.RecordBatch, counts: Longs) -> None:
        """Adds the next data batches of the partition. counts: records of each."""
        size = _longs(rows["size"])
        self.batches += len(size)
        self.records += int(counts.sum())
        self.size += int(size.sum())
        self._add_times(rows, counts, size)

    def _add_times(self, rows: pa.RecordBatch, counts: Longs, size: Longs) -> None:
        timed = np.asarray(rows["maxTimestamp"].is_valid())
        newest = _longs(rows["maxTimestamp"])[timed]
        if not len(newest):
            return
        first = _longs(rows["baseTimestamp"])[timed]
        first = np.where(np.asarray(rows["baseTimestamp"].is_valid())[timed], first, newest)
        before = np.maximum.accumulate(np.concatenate(([self._newest], newest)))
        late = np.where(before[:-1] == _LEAST_LONG, 0, before[:-1] - first)
        self.lateness = max(self.lateness, int(late.max()) // 1000)
        self._newest = int(before[-1])
        slots, places = np.unique(newest // self.width, return_inverse=True)
        records = np.bincount(places, counts[timed]).astype(np.int64)
        sizes = np.bincount(places, size[timed]).astype(np.int64)
        for slot, some, more in zip(slots.tolist(), records.tolist(), sizes.tolist(), strict=True):
            had = self.slots.get(slot, (0, 0))
            self.slots[slot] = had[0] + some, had[1] + more


class BatchFacts:
    """Sums over all batches, by partition, by topic and codec, and by producer.

    width: of a slot of time, in µs.
    """

    def __init__(self, width: int) -> None:
        self.partitions: dict[tuple[str, int], PartitionBatches] = defaultdict(lambda: PartitionBatches(width))
        self.codecs: dict[tuple[str, str], CodecFacts] = defaultdict(CodecFacts)
        self.producers: dict[tuple[str, int], ProducerFacts] = defaultdict(ProducerFacts)

    def add(self, rows: pa.RecordBatch) -> None:
        """Adds rows of one partition: those of COLUMNS. They follow the rows that were added before."""
        topic = rows["topic"][0].as_py()
        partition = self.partitions[topic, rows["partition"][0].as_py()]
        # a compressed message set states no count: its offsets count, as if none were missing
        stated = np.asarray(rows["count"].is_valid())
        counts = np.where(stated, _longs(rows["count"]), _longs(rows["lastOffset"]) - partition.find_gaps(rows))
        is_data = pc.invert(rows["isControl"])
        rows, counts = rows.filter(is_data), counts[np.asarray(is_data)]
        if not rows.num_rows:
            return
        partition.add(rows, counts)
        size = _longs(rows["size"])
        for codec in pc.unique(rows["compresscodec"]).to_pylist():
            of_codec = np.asarray(pc.equal(rows["compresscodec"], codec))
            facts = self.codecs[topic, codec]
            facts.batches += int(of_codec.sum())
            facts.records += int(counts[of_codec].sum())
            facts.size += int(size[of_codec].sum())
            powers, numbers = np.unique(np.ceil(np.log2(size[of_codec])).astype(np.int64), return_counts=True)
            facts.sizes.update(dict(zip(powers.tolist(), numbers.tolist(), strict=True)))
        self._add_producers(topic, rows, counts, size)

    def _add_producers(self, topic: str, rows: pa.RecordBatch, counts: Longs, size: Longs) -> None:
        ids = _longs(rows["producerId"])
        newest = np.where(np.asarray(rows["maxTimestamp"].is_valid()), _longs(rows["maxTimestamp"]) // 1000, -1)
        transactional = np.asarray(rows["isTransactional"])
        for producer in np.unique(ids).tolist():
            of_producer = ids == producer
            facts = self.producers[topic, producer]
            facts.batches += int(of_producer.sum())
            facts.records += int(counts[of_producer].sum())
            facts.size += int(size[of_producer].sum())
            facts.is_transactional |= bool(transactional[of_producer].any())
            facts.first = min(facts.first, int(newest[of_producer].min()))
            facts.last = max(facts.last, int(newest[of_producer].max()))


def _longs(column: pa.Array) -> Longs:
    """The numbers of a column, timestamps in µs. Nulls are 0."""
    numbers = column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column.cast(pa.int64())
    return np.asarray(numbers.fill_null(0))
