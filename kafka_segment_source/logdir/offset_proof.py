"""What can be proven about the offsets of a batch. Kafka's CRC covers neither baseOffset nor partitionLeaderEpoch.

These facts contradict a wrong offset. What contradicts is damage, as a wrong CRC is.

- Neighbours in the file. Offsets grow along a file, so a batch that begins at or below the end of the batch before it
  is wrong. If the batch after it steps back to where the batch before it ends, it has jumped ahead. Damaged batches
  between them do not weaken this: the next proven batch is the witness (`decoding/offset_order.py`, `follows`,
  `has_jumped`).
- Damaged neighbours. If the batches around a batch leave exactly its length, but at another place than it states, it
  is wrong. They may be damaged themselves (`decoding/offset_order.py`, `is_misplaced`).
- Names. Every offset of a segment is at or above its own name and below the name of the next segment. An offset of the
  last segment is less than 2³¹ above its name, as an index entry has 31 bits for it.
- Index entries. An `.index` entry states the first offset (before Kafka 2.0) or the last offset of the append that
  begins at its position. So the batch there does not begin above it (`may_have_risen`).
- Another copy. Replicas have the same batches, byte for byte. If two copies have a batch of one CRC and size at two
  offsets, the one that leaves no gap after the batch before it is right (`partition/chain.py`).

Nothing here is decided by timestamps, as they may go back, or by a leader epoch, as no CRC covers it either. A reader
that would begin at a batch in doubt begins one index entry earlier, and sees the batch beside its neighbours.

Not provable: docs/damage.md, "What nothing can notice".
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


def may_have_fallen(header: BatchHeader, following: BatchHeader | None) -> bool:
    """Whether the true offsets of a batch may be higher than it says. following: the batch right after it, or None.

    A batch that has fallen leaves a gap before the batch after it. Compaction leaves gaps too. A wrapper of magic 0 or
    1 states only its last offset, so it proves nothing of the batch before it.
    """
    return following is None or following.base_offset != header.last_offset + 1


def overlaps(header: BatchHeader, following: BatchHeader | None) -> bool:
    """Whether the batch right after a batch begins inside it, or before it: one of the two is wrong."""
    return following is not None and following.base_offset <= header.last_offset


def may_have_risen(header: BatchHeader, following: BatchHeader | None, entry: int) -> bool:
    """Whether the true offsets of a batch may be lower than it says, as far as can be noticed.

    following: the batch right after it, or None. entry: the absolute offset of the index entry at its position. A batch
    that has risen reaches over the one after it, but for a gap there that compaction left.
    """
    is_other = contradicts_entry(header.base_offset, header.last_offset, header.count, entry)
    return is_other or following is None or overlaps(header, following)


def bears_out(header: BatchHeader, before: int | None, following: BatchHeader | None, is_last: bool) -> bool:
    """Whether the batches around a batch agree with its offsets. A piece of a segment may then begin there.

    The reader of a piece does not see the batch before it. So a batch that only this neighbour contradicts, or whose
    neighbour is damaged, must not be the first one of a piece. A wrapper of magic 0 or 1 states only its last offset,
    so it agrees with what lies before it.

    before: the last offset of the batch before it, or the one before the name of its file. None if that is not known.
    following: None where there is none, or none is proven. is_last: whether the log may end after the batch, so that it
    has no neighbour there.
    """
    if following is not None and following.base_offset <= header.last_offset:
        return False
    if before is None or header.magic < kafka_format.MAGIC_V2:
        return before is None or header.last_offset > before
    if header.base_offset == before + 1:
        return True
    return header.base_offset > before and (is_last or following is not None)


def follows(header: BatchHeader, before: int) -> bool:
    """Whether a batch can follow the offset `before` in a file."""
    return header.last_offset > before and (header.base_offset > before or header.magic < kafka_format.MAGIC_V2)


def has_jumped(
    header: BatchHeader, following: BatchHeader | None, before: int, third: BatchHeader | None = None
) -> bool:
    """Whether a batch that leaves a gap after the offset `before` has jumped ahead.

    The one after it then steps back into the gap. But if that one exactly fills the place between this one and the
    third, it is the one that has fallen.
    """
    if following is None or not before < following.base_offset <= header.last_offset:
        return False
    length = following.last_offset - following.base_offset + 1
    return third is None or third.base_offset - header.last_offset - 1 != length


def contradicts_entry(base: int, last: int, count: int, entry: int) -> bool:
    """Whether a batch cannot be the one that an index entry at its position was written for.

    base, last: the offsets that it states. count: its records; -1 if it is not known. entry: absolute. The entry of a
    batch with all its records states its first offset, its last one, or a later one. That of a batch that compaction
    has thinned may state one between (docs/kafka-log-format.md, 4.2).
    """
    return base > entry or (count == last - base + 1 and base < entry < last)
