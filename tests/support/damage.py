"""Damage to index files that a check can see: after any of it a reader may be slower, never wrong.

In: the entries that Kafka wrote, as (absolute) pairs, and what is true of the `.log`. Out: file bytes, or None for no
file. A time index gets no well-formed lies, as none can be told from the truth; an offset index may lie as it likes,
since every entry is proven by the header it leads to (docs/pruning-rules.md, section 1).
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from . import writer

Entries = list[tuple[int, int]]


class Damage(enum.Enum):
    """What happened to an index file; `salt` of `damaged_index` picks where."""

    NONE = "none"
    MISSING = "no such file"
    EMPTY = "0 bytes"
    PADDED = "live: zeros after the entries"
    ALL_PADDING = "live: nothing but zeros"
    TORN = "last entry cut in the middle"
    CUT = "entries lost at the end"
    HEADLESS = "entries lost at the start"
    SWAPPED = "two neighbours swapped"
    GARBAGE = "entries overwritten by noise from somewhere on"
    BEYOND = "an entry beyond the end of the log"
    NO_BOUNDARY = "a position inside a batch (offset index)"
    WRONG_BATCH = "well-formed lies: positions of later batches (offset index)"


@dataclass(frozen=True)
class LogFacts:
    """What damage to an index needs to know of its segment."""

    base_offset: int
    last_offset: int
    size: int


def damaged_index(damage: Damage, entries: Sequence[tuple[int, int]], facts: LogFacts, salt: bytes) -> bytes | None:
    """`.index` bytes of (offset, position) entries after `damage`; None: no file."""
    changed = list(entries)
    place = salt[0] % len(changed) if changed else 0
    if damage is Damage.GARBAGE and changed:
        noise = (salt * 8)[: 8 * (len(changed) - place)]
        return writer.offset_index(changed[:place], facts.base_offset) + noise
    if damage is Damage.BEYOND:
        changed.append((facts.last_offset + 1 + salt[0], facts.size + (salt[1] if salt[1] % 4 else 0)))
    elif damage is Damage.NO_BOUNDARY and changed:
        offset, position = changed[place]
        changed[place] = (offset, position + 1 + salt[1] % 60)
    elif damage is Damage.WRONG_BATCH:
        shift = 1 + salt[0] % 8
        changed = [(offset - shift, position) for offset, position in entries if offset - shift >= facts.base_offset]
    else:
        return _damaged(damage, writer.offset_index(_moved(damage, changed, place), facts.base_offset), 8, salt)
    return writer.offset_index(changed, facts.base_offset)


def damaged_time_index(
    damage: Damage, entries: Sequence[tuple[int, int]], facts: LogFacts, salt: bytes
) -> bytes | None:
    """`.timeindex` bytes of (timestamp, offset) entries after `damage`; None: no file."""
    changed = list(entries)
    place = salt[0] % len(changed) if changed else 0
    if damage is Damage.GARBAGE and changed:
        return writer.time_index(changed[:place], facts.base_offset) + b"".join(
            _noise_entry(salt, facts, i) for i in range(place, len(changed))
        )
    if damage is Damage.BEYOND:
        newest = changed[-1][0] if changed else -1
        changed.append((min(newest + 1 + salt[1], 2**63 - 1), facts.last_offset + 1 + salt[0]))
        return writer.time_index(changed, facts.base_offset)
    return _damaged(damage, writer.time_index(_moved(damage, changed, place), facts.base_offset), 12, salt)


def _noise_entry(salt: bytes, facts: LogFacts, number: int) -> bytes:
    """12 bytes that cannot be an entry: an offset before the base, or after the last one."""
    (timestamp,) = struct.unpack(">q", (salt * 2)[:8])
    far = 1 + salt[number % len(salt)]
    return struct.pack(">qi", timestamp, -far if far % 2 else facts.last_offset - facts.base_offset + far)


def _moved(damage: Damage, entries: Entries, place: int) -> Entries:
    """Damage that loses or moves whole entries."""
    if damage is Damage.CUT:
        return entries[:place]
    if damage is Damage.HEADLESS:
        return entries[place:]
    if damage is Damage.SWAPPED and place + 1 < len(entries):
        return [*entries[:place], entries[place + 1], entries[place], *entries[place + 2 :]]
    return entries


def _damaged(damage: Damage, data: bytes, entry_size: int, salt: bytes) -> bytes | None:
    """Damage that does not care what an entry is."""
    if damage is Damage.MISSING:
        return None
    if damage is Damage.EMPTY:
        return b""
    if damage is Damage.PADDED:
        return data + bytes(1 + salt[0] % 64)
    if damage is Damage.ALL_PADDING:
        return bytes(len(data) + salt[0] % 64)
    if damage is Damage.TORN:
        return data[: max(0, len(data) - 1 - salt[0] % (entry_size - 1))]
    return data
