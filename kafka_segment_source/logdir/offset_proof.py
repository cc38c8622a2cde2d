"""What can be proven about the offsets of a batch. Kafka's CRC covers neither baseOffset nor partitionLeaderEpoch.

These facts contradict a wrong offset. What contradicts is damage, as a wrong CRC is.

- Neighbours in the file. Offsets grow along a file, so a batch that begins at or below the end of the batch before it is
  wrong. If the batch after it steps back to where the batch before it ends, it has jumped ahead. Damaged batches between
  them do not weaken this: the next proven batch is the witness (`decoding/offset_order.py`, `follows`, `has_jumped`).
- Names. Every offset of a segment is at or above its own name and below the name of the next segment. An offset of the
  last segment is less than 2³¹ above its name, as an index entry has 31 bits for it.
- Index entries. An `.index` entry states the first offset (before Kafka 2.0) or the last offset of the append that begins
  at its position. So the batch there begins at or below it (`is_borne_out`).
- Another copy. Replicas have the same batches, byte for byte. If two copies have a batch of one CRC and size at two
  offsets, the one that leaves no gap after the batch before it is right (`partition/chain.py`).

Nothing here is decided by timestamps, as they may go back, or by a leader epoch, as no CRC covers it either. A position
that is not borne out is only not used as a start: a reader begins earlier, and sees the batch beside its neighbours.

Not provable: docs/damage.md, "What nothing can notice". Wrappers of magic 0 and 1 state only their last offset. Their
index entries prove nothing, as an entry may state the first one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_segment_source import kafka_format

if TYPE_CHECKING:
    from kafka_segment_source.logdir.probe import BatchHeader

RELATIVE_OFFSETS = 2**31  # an index entry has 31 bits for an offset above the base, so Kafka rolls a segment before


def limit_of(base_offset: int, next_base_offset: int | None) -> int:
    """Returns the exclusive bound of a segment's offsets. next_base_offset: None for the last segment."""
    limit = min(base_offset + RELATIVE_OFFSETS, kafka_format.MAX_OFFSET)
    return limit if next_base_offset is None else next_base_offset


def is_borne_out(header: BatchHeader, following: BatchHeader | None, entry: int) -> bool:
    """Whether an index entry and the batch after it agree with the offsets of a batch.

    header: the batch at the entry's position. following: the batch right after it; None if there is none. entry: the
    absolute offset of the entry. A batch that ends at the entry is borne out. Any other one must leave no gap before
    the batch after it: a batch that fell back leaves one.
    """
    if header.magic < kafka_format.MAGIC_V2 or header.last_offset == entry:
        return True
    if header.base_offset > entry or following is None:
        return False
    return following.magic < kafka_format.MAGIC_V2 or following.base_offset == header.last_offset + 1


def follows(header: BatchHeader, before: int) -> bool:
    """Whether a batch can follow the offset `before` in a file."""
    return header.last_offset > before and (header.base_offset > before or header.magic < kafka_format.MAGIC_V2)


def has_jumped(header: BatchHeader, following: BatchHeader | None, before: int) -> bool:
    """Whether a batch that leaves a gap after the offset `before` has jumped ahead: the one after it steps back into the
    gap."""
    return following is not None and before < following.base_offset <= header.last_offset
