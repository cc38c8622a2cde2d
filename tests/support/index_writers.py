"""Which index entries each version of Kafka writes for the same appends (docs/kafka-log-format.md, 4.2 and 4.4).

In: the appends of one segment, in order. Out: `.index` entries (offset, position) and `.timeindex` entries (timestamp,
offset), offsets absolute. The logic is that of `LogSegment.append`: an append looks at the bytes since the last entry,
then counts its own.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from .batches import Written


class IndexWriter(enum.Enum):
    """Who wrote the entries: each row of the tables of 4.2 and 4.4."""

    LEADER_PRE_2_0 = "leader 0.10.1 to 1.1: first offset of the append; exact time entries"
    FOLLOWER_PRE_2_0 = "follower 0.10.1 to 1.1: offset field of the first entry of a whole fetch"
    CLEANER_PRE_2_0 = "cleaner 0.10.2 to 1.1: first offset of the chunk"
    REBUILD_PRE_2_0 = "recovery 0.10.1 to 1.1: first offset of the batch"
    LEADER_2_0 = "leader 2.0 to 3.6: last offset of the append; exact time entries"
    LEADER_3_8 = "leader 3.8 to 4.0: last offset of the append"
    FOLLOWER_2_0 = "follower 2.0 to 4.0: last offset of a whole fetch"
    CLEANER_2_0 = "cleaner 2.0 to 4.0: largest retained offset of the chunk"
    PER_BATCH = "anyone 4.1 and later, and recovery since 2.0: last offset of the batch"

    @property
    def takes_many(self) -> bool:
        """Whether its appends hold many batches (fetch responses, cleaner chunks)."""
        return self in MANY_BATCH_WRITERS

    @property
    def per_batch(self) -> bool:
        """Whether it looks at each batch of an append by itself."""
        return self in (IndexWriter.REBUILD_PRE_2_0, IndexWriter.PER_BATCH)


MANY_BATCH_WRITERS = (
    IndexWriter.FOLLOWER_PRE_2_0,
    IndexWriter.CLEANER_PRE_2_0,
    IndexWriter.FOLLOWER_2_0,
    IndexWriter.CLEANER_2_0,
)
EXACT_TIME_WRITERS = (IndexWriter.LEADER_PRE_2_0, IndexWriter.LEADER_2_0)

# Gaps and empty batches never reach a leader from a producer; followers fetch them, cleaners make them.
COMPACTED_WRITERS = (*MANY_BATCH_WRITERS, IndexWriter.REBUILD_PRE_2_0, IndexWriter.PER_BATCH)


@dataclass(frozen=True)
class Append:
    """Batches that one call of `LogSegment.append` wrote, and who did."""

    writer: IndexWriter
    batches: tuple[Written, ...]


def index_entries(
    appends: Sequence[Append], interval: int, *, final_entry: bool = True, forget_at: int | None = None
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(`.index` entries, `.timeindex` entries) of one segment.

    `interval` is index.interval.bytes. `final_entry` is the time entry of a roll or a clean stop; a crash leaves it
    out. `forget_at` is the number of an append before which the running maximum is lost and the time index emptied:
    the ways of docs/pruning-rules.md, section 2, which all come down to this.
    """
    offset_entries: list[tuple[int, int]] = []
    time_entries: list[tuple[int, int]] = []
    max_timestamp, max_offset = -1, -1
    since_entry = 0

    def add_time_entry() -> None:
        if max_timestamp > (time_entries[-1][0] if time_entries else -1):
            time_entries.append((max_timestamp, max_offset))

    for number, append in enumerate(appends):
        if number == forget_at:
            time_entries.clear()
            max_timestamp = -1
        for group in [(batch,) for batch in append.batches] if append.writer.per_batch else [append.batches]:
            group_max = max(batch.max_timestamp for batch in group)
            if group_max > max_timestamp:
                max_timestamp, max_offset = group_max, max_timestamp_offset(append.writer, group)
            if since_entry > interval:
                offset_entries.append((entry_offset(append.writer, group), group[0].position))
                add_time_entry()
                since_entry = 0
            since_entry += sum(len(batch.data) for batch in group)
    if final_entry:
        add_time_entry()
    return offset_entries, time_entries


def entry_offset(writer: IndexWriter, group: Sequence[Written]) -> int:
    """Offset that an offset-index entry gets for this append (table of 4.2)."""
    first, last = group[0], group[-1]
    if writer in (IndexWriter.LEADER_PRE_2_0, IndexWriter.CLEANER_PRE_2_0, IndexWriter.REBUILD_PRE_2_0):
        return first.base_offset
    if writer is IndexWriter.FOLLOWER_PRE_2_0:
        return first.shallow_offset
    if writer is IndexWriter.CLEANER_2_0:
        return last.max_retained_offset
    return last.last_offset


def max_timestamp_offset(writer: IndexWriter, group: Sequence[Written]) -> int:
    """Offset that goes with the largest timestamp of this append (table of 4.4)."""
    largest = max(batch.max_timestamp for batch in group)
    first_having = next(batch for batch in group if batch.max_timestamp == largest)
    if writer not in EXACT_TIME_WRITERS or first_having.compressed:
        return first_having.last_offset
    if not first_having.append_time:
        return first_having.exact_offset
    return group[0].base_offset if first_having.magic == 1 else first_having.last_offset
