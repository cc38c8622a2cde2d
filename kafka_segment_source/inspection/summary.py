"""A segment's headers → its offsets, records, bytes, time span and codecs, and the health of its indexes.

Headers are believed without proof. No CRC is checked (`verify` does that), and nothing is decompressed. So some values
are only bounds, and their names show that:

- Kafka sets a batch's maxTimestamp to its newest record. So `newest` is exact.
- No header has the timestamp of a batch's oldest record. So `oldest_at_most` is the least maxTimestamp: some record is
  as old as that or older.
- A compressed message set (magic 0 and 1) states only its last offset. Its records are counted as if compaction had
  removed none of them, and `records_exact` is False.

Of a large segment with sound index files, only the headers at both ends are read, unless `deep` asks for all. A broker
adds to the time index whenever it adds to the offset index, so the last entries and the headers after them tell the
newest timestamp (Kafka: LogSegment.append). Its records are counted by its offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.header_table import end_of, is_control, is_wrapper, record_counts
from kafka_segment_source.errors import StorageError
from kafka_segment_source.inspection.header_tables import HeaderWalk, Stop
from kafka_segment_source.inspection.index_order import (
    sound_offsets,
    sound_times,
    written_offsets_of,
    written_times_of,
)
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.index_entries import most_entries
from kafka_segment_source.logdir.segments import Segment
from kafka_segment_source.reporting import Advance
from kafka_segment_source.storage.files import InputFile
from kafka_segment_source.times import format_millis

LARGE_SEGMENT = 16 * 1024 * 1024  # bytes of `.log`: of a smaller one, all headers are read
WORTH_AN_INDEX = 64 * 1024  # bytes of `.log`; a walk over a smaller file is fast without index entries
_CODECS = kafka_format.CODEC_MASK + 1


@dataclass(frozen=True, slots=True)
class IndexHealth:
    """Counts of index files (`.index` and `.timeindex`) that are missing, empty or damaged.

    empty: without entries beside a `.log` of more than WORTH_AN_INDEX bytes.
    damaged: out of order or too long.
    """

    missing: int = 0
    empty: int = 0
    damaged: int = 0

    def __add__(self, other: IndexHealth) -> IndexHealth:
        return IndexHealth(self.missing + other.missing, self.empty + other.empty, self.damaged + other.damaged)


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of some segments, from their headers.

    size: bytes of `.log` files.
    start_offset: the least base offset.
    end_offset: the offset after the last batch.
    batches: whose headers were read.
    records: without control records.
    is_sampled: whether only both ends of large segments were read. Then `records` is a bound, and codecs and magics are
    those of the batches at the ends.
    oldest_at_most, newest: timestamps of data records in ms, None where there is none.
    without_timestamp: records whose timestamp is -1, which means none, in batches that have no other records.
    magics: of batches, ascending.
    faults: one sentence each.
    unreadable: segments whose `.log` the storage does not give; only their sizes are in the sums. A partition directory
    that it does not list counts as one.
    """

    segments: int = 0
    size: int = 0
    start_offset: int = 0
    end_offset: int = 0
    batches: int = 0
    records: int = 0
    records_exact: bool = True
    control_records: int = 0
    oldest_at_most: int | None = None
    newest: int | None = None
    without_timestamp: int = 0
    codecs: tuple[str, ...] = ()
    magics: tuple[int, ...] = ()
    indexes: IndexHealth = field(default_factory=IndexHealth)
    faults: tuple[str, ...] = ()
    unreadable: int = 0
    is_sampled: bool = False

    def __add__(self, other: Summary) -> Summary:
        """Adds two summaries. `other` is of later segments of the same partition, or of another partition."""
        return Summary(
            segments=self.segments + other.segments,
            size=self.size + other.size,
            start_offset=min(self.start_offset, other.start_offset),
            end_offset=max(self.end_offset, other.end_offset),
            batches=self.batches + other.batches,
            records=self.records + other.records,
            records_exact=self.records_exact and other.records_exact,
            control_records=self.control_records + other.control_records,
            oldest_at_most=min(_drop_unknown(self.oldest_at_most, other.oldest_at_most), default=None),
            newest=max(_drop_unknown(self.newest, other.newest), default=None),
            without_timestamp=self.without_timestamp + other.without_timestamp,
            codecs=tuple(sorted({*self.codecs, *other.codecs})),
            magics=tuple(sorted({*self.magics, *other.magics})),
            indexes=self.indexes + other.indexes,
            faults=self.faults + other.faults,
            unreadable=self.unreadable + other.unreadable,
            is_sampled=self.is_sampled or other.is_sampled,
        )

    def to_dict(self) -> dict[str, Any]:
        """The summary as `kafkaseg ls --json` prints it."""
        return {
            "startOffset": self.start_offset,
            "endOffset": self.end_offset,
            "records": self.records,
            "recordsExact": self.records_exact,
            "controlRecords": self.control_records,
            "batches": None if self.is_sampled else self.batches,
            "bytes": self.size,
            "oldestTimestampAtMost": None if self.oldest_at_most is None else format_millis(self.oldest_at_most),
            "newestTimestamp": None if self.newest is None else format_millis(self.newest),
            "recordsWithoutTimestamp": self.without_timestamp,
            "codecs": list(self.codecs),
            "magics": list(self.magics),
            "indexFiles": {
                "missing": self.indexes.missing,
                "empty": self.indexes.empty,
                "damaged": self.indexes.damaged,
            },
            "damage": list(self.faults),
        }


def total(summaries: Sequence[Summary]) -> Summary:
    """Adds all summaries."""
    return reduce(Summary.__add__, summaries) if summaries else Summary()


def summarize(segment: Segment, advance: Advance = lambda _: None, *, deep: bool = True) -> Summary:
    """Summarizes the headers of one segment. It is a fault if the storage cannot read it.

    deep: whether all headers of a large segment are read.
    """
    tally = _Tally(segment)
    try:
        with InputFile(segment.path, segment.storage, segment.version) as file:
            sampled = None if deep or segment.size < LARGE_SEGMENT else _sample(segment, file)
            if sampled is not None:
                advance(segment.size)
                return sampled
            walk = HeaderWalk(file, segment.size, advance)
            for table in walk.tables():
                tally.add(table)
    except StorageError as error:
        base = segment.base_offset
        fault = f"cannot be read: {error.strerror or error}"
        return Summary(1, segment.size, base, base, records_exact=False, faults=(fault,), unreadable=1)
    summary = tally.summary(walk)
    return replace(summary, indexes=_check_indexes(segment, has_timestamps=summary.newest is not None))


def _sample(segment: Segment, file: InputFile) -> Summary | None:
    """Summarizes a segment by its index files, and by the headers at both ends. None if these do not fit together, or
    if they do not tell all: there are old formats, or records without a timestamp."""
    offsets, times = written_offsets_of(segment), written_times_of(segment)
    health = _check_indexes(segment, has_timestamps=True)
    if not len(offsets) or not len(times) or health != IndexHealth():
        return None
    ends = _Tally(segment)
    first = next(HeaderWalk(file, segment.size, lambda _: None).tables(), None)
    start = int(offsets.positions[-1])
    if first is None or not end_of(first) <= start < segment.size:
        return None
    ends.add(first)
    walk = HeaderWalk(file, segment.size, lambda _: None, start)
    for table in walk.tables():
        ends.add(table)
    found = ends.summary(walk)
    if found.faults or found.magics != (kafka_format.MAGIC_V2,) or found.newest is None or found.without_timestamp:
        return None
    newest = max(found.newest, int(times.timestamps[-1]))
    records = found.end_offset - segment.base_offset
    return replace(
        found, records=records, records_exact=False, control_records=0, newest=newest, indexes=health, is_sampled=True
    )


class _Tally:
    """Adds up the header tables of one segment."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._last = segment.base_offset - 1
        self._sum = Summary(1, segment.size, segment.base_offset, segment.base_offset)
        self._codecs = np.zeros(_CODECS, np.int64)

    def add(self, table: HeaderTable) -> None:
        """Adds a table of consecutive whole batches."""
        control = is_control(table)
        data = ~control & (table[batch_headers.COUNT] != 0)
        timestamps = table[batch_headers.MAX_TIMESTAMP, data & (table[batch_headers.MAX_TIMESTAMP] >= 0)]
        before = np.concatenate(([self._last], table[batch_headers.LAST_OFFSET, :-1]))
        counts, wrappers = record_counts(table), is_wrapper(table)
        counts[wrappers] = (table[batch_headers.LAST_OFFSET] - before)[wrappers]
        self._codecs += np.bincount(table[batch_headers.ATTRIBUTES, data] & kafka_format.CODEC_MASK, minlength=_CODECS)
        self._sum = self._sum + replace(
            self._sum,
            segments=0,
            size=0,
            batches=table.shape[1],
            records=int(counts[data].sum()),
            records_exact=not wrappers.any(),
            control_records=int(counts[control].sum()),
            oldest_at_most=int(timestamps.min()) if len(timestamps) else None,
            newest=int(timestamps.max()) if len(timestamps) else None,
            without_timestamp=int(
                counts[data & (table[batch_headers.MAX_TIMESTAMP] == kafka_format.NO_TIMESTAMP)].sum()
            ),
            magics=tuple(np.unique(table[batch_headers.MAGIC]).tolist()),
            end_offset=int(table[batch_headers.LAST_OFFSET].max()) + 1,
            faults=self._find_disorder(table, before),
        )
        self._last = int(table[batch_headers.LAST_OFFSET, -1])

    def summary(self, walk: HeaderWalk) -> Summary:
        """Returns the sums after the walk has ended."""
        names = tuple(_name_codec(codec) for codec in np.flatnonzero(self._codecs).tolist())
        tail_is_legal = self._segment.is_last and walk.stop in (Stop.TORN, Stop.ZEROS)
        faults = self._sum.faults
        if walk.stop is not Stop.END and not tail_is_legal:
            faults = (*faults, f"{walk.stop.value} at byte {walk.position:,}")
        return replace(self._sum, codecs=names, faults=faults)

    def _find_disorder(self, table: HeaderTable, before: npt.NDArray[np.int64]) -> tuple[str, ...]:
        limit = self._segment.span.end
        wrong = (table[batch_headers.BASE_OFFSET] <= before) | (table[batch_headers.LAST_OFFSET] >= limit)
        if self._sum.faults or not wrong.any():
            return ()
        return (f"a batch out of order at byte {int(table[batch_headers.POSITION, int(np.argmax(wrong))]):,}",)


def wants_indexes(segment: Segment) -> bool:
    """Whether a segment should have index files. A broker makes those of a new one when it needs them (Kafka:
    LazyIndex)."""
    return segment.size > WORTH_AN_INDEX or not segment.is_last


def _check_indexes(segment: Segment, has_timestamps: bool) -> IndexHealth:
    base = segment.base_offset
    indexed = segment.size > WORTH_AN_INDEX
    offsets, times = written_offsets_of(segment), written_times_of(segment)
    most = most_entries(segment.size)
    offsets_empty = segment.index_size is not None and not len(offsets) and indexed
    times_empty = segment.time_index_size is not None and not len(times) and indexed and has_timestamps
    return IndexHealth(
        missing=wants_indexes(segment) * ((segment.index_size is None) + (segment.time_index_size is None)),
        empty=offsets_empty + times_empty,
        damaged=(sound_offsets(offsets, base) < len(offsets) or len(offsets) > most)
        + (sound_times(times, base) < len(times) or len(times) > most),
    )


def _name_codec(codec: int) -> str:
    return kafka_format.CODEC_NAMES[codec] if codec < len(kafka_format.CODEC_NAMES) else f"codec {codec}"


def _drop_unknown(*values: int | None) -> list[int]:
    return [value for value in values if value is not None]
