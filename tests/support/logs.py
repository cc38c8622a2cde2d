"""A simulated partition: segments with their bytes, index bytes and the records that they hold.

In: `BatchSpec`s and index entries, by hand (`simple_log`) or from `strategies.py`. Out: `GeneratedLog`, which writes
itself as a partition directory and knows every row that a reader must find. Section numbers: docs/kafka-log-format.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from . import writer
from .batches import BatchSpec, Written, write_batch
from .naive import Record

Entries = tuple[tuple[int, int], ...]


@dataclass(frozen=True, repr=False)
class Segment:
    """One segment: what is in its files (None: no such file), and the truth about them.

    `offset_entries` and `time_entries` are those that Kafka wrote, absolute and before any damage.
    """

    base_offset: int
    log: bytes
    index: bytes | None
    timeindex: bytes | None
    batches: tuple[Written, ...]
    offset_entries: Entries = ()
    time_entries: Entries = ()
    note: str = ""

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """All its records in offset order, control records included."""
        return tuple(record for batch in self.batches for record in batch.records)

    def __repr__(self) -> str:
        """In the notation of docs/pruning-rules.md: v data, C control; [offsets] timestamps."""
        batches = "; ".join(_show(batch) for batch in self.batches)
        entries = f"index {list(self.offset_entries)} time {list(self.time_entries)}"
        return f"segment {self.base_offset}: {batches} | {entries} | {self.note or 'undamaged'}"


@dataclass(frozen=True, repr=False)
class GeneratedLog:
    """A partition: segments by base offset."""

    segments: tuple[Segment, ...]
    topic: str = "orders"
    partition: int = 0

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """All records of the partition in offset order, control records included."""
        return tuple(record for segment in self.segments for record in segment.records)

    @property
    def next_offset(self) -> int:
        """One past the last offset that a whole batch covers."""
        last = [batch.last_offset + 1 for segment in self.segments for batch in segment.batches]
        return last[-1] if last else self.segments[-1].base_offset

    def write(self, directory: Path) -> Path:
        """Write the partition below `directory`; returns its own directory."""
        return writer.write_partition(directory, self.topic, self.partition, self.segments)

    def __repr__(self) -> str:
        """One line for each segment."""
        return "\n" + "\n".join(repr(segment) for segment in self.segments)


def _show(batch: Written) -> str:
    kind = "C" if batch.is_control else "v"
    form = ("" if batch.magic == 2 else f"{batch.magic}") + ("z" if batch.compressed else "")
    offsets = " ".join(str(record.offset) for record in batch.records)
    if not batch.records or (batch.base_offset, batch.last_offset) != (
        batch.records[0].offset,
        batch.records[-1].offset,
    ):
        offsets = f"{batch.base_offset}..{batch.last_offset}: {offsets}"
    timestamps = ",".join(str(record.timestamp) for record in batch.records)
    kept = f" max {batch.max_timestamp}" if not batch.records else ""
    return f"{kind}{form}@{batch.position}[{offsets}] {timestamps}{kept}{' LAT' if batch.append_time else ''}"


def simple_segment(
    batches: Sequence[BatchSpec],
    *,
    index: Sequence[tuple[int, int]] | None = None,
    timeindex: Sequence[tuple[int, int]] | None = None,
    base: int | None = None,
) -> Segment:
    """A segment by hand: `index` entries are (offset, number of the batch), `timeindex` entries (timestamp, offset).

    None means no such file, () an empty one. The base offset is that of the first batch unless given.
    """
    written = lay_out(batches)
    base = batches[0].base_offset if base is None else base
    positions = [group[0].position for group in written]
    offset_entries = tuple((offset, positions[number]) for offset, number in index or ())
    time_entries = tuple(timeindex or ())
    flat = tuple(batch for group in written for batch in group)
    return Segment(
        base_offset=base,
        log=b"".join(batch.data for batch in flat),
        index=None if index is None else writer.offset_index(offset_entries, base),
        timeindex=None if timeindex is None else writer.time_index(time_entries, base),
        batches=flat,
        offset_entries=offset_entries,
        time_entries=time_entries,
    )


def simple_log(*segments: Segment, topic: str = "orders", partition: int = 0) -> GeneratedLog:
    """A partition of segments made by `simple_segment`."""
    return GeneratedLog(segments, topic, partition)


def lay_out(specs: Sequence[BatchSpec]) -> list[list[Written]]:
    """The specs one after the other from position 0; a plain v0/v1 set makes several entries."""
    groups: list[list[Written]] = []
    position = 0
    for spec in specs:
        groups.append(write_batch(spec, position))
        position = groups[-1][-1].end
    return groups


def torn(segment: Segment, size: int, zeros: int = 0) -> Segment:
    """The segment with a `.log` cut to `size` bytes and `zeros` bytes of zeros after it (section 4.6).

    Its truth shrinks to whole batches; the index files stay, so that they may run ahead of the log.
    """
    return replace(
        segment,
        log=segment.log[:size] + bytes(zeros),
        batches=tuple(batch for batch in segment.batches if batch.end <= size),
        note=f"{segment.note} log cut to {size}, {zeros} zeros".strip(),
    )


# --- what a reader must answer ---------------------------------------------------------------------------------------


def expected_rows(
    log: GeneratedLog,
    offsets: tuple[int, int] | None = None,
    since: int | None = None,
    until: int | None = None,
) -> list[Record]:
    """The data rows with a <= offset < b and since <= timestamp < until; a missing timestamp counts as -1."""
    return [
        record
        for record in log.records
        if not record.is_control
        and (offsets is None or offsets[0] <= record.offset < offsets[1])
        and (since is None or since <= record.timestamp)
        and (until is None or record.timestamp < until)
    ]


def disorder(records: Sequence[Record]) -> int:
    """The least D for which the declaration of docs/pruning-rules.md, section 3, holds of the data
    records with a timestamp."""
    least, newest = 0, -1
    for record in records:
        if not record.is_control and record.timestamp >= 0:
            least = max(least, newest - record.timestamp)
            newest = max(newest, record.timestamp)
    return least
