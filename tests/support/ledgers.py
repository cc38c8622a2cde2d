"""Small logs of transactions, ledger-0, batch by batch: data and markers of producers, and `.snapshot` files."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import crc32c

from . import writer
from .writer import Marker, Rec


def data(base: int, producer: int | None = None, count: int = 1, timestamp: int = 1000, size: int = 5) -> bytes:
    """A batch, of a producer's transaction or of none. size: of each value."""
    recs = [Rec(at, timestamp + at, b"k", b"v" * size) for at in range(count)]
    if producer is None:
        return writer.record_batch(recs, base_offset=base)
    return writer.record_batch(recs, base_offset=base, producer_id=producer, producer_epoch=1, transactional=True)


def marker(kind: Marker, offset: int, producer: int, timestamp: int = 2000) -> bytes:
    return writer.control_batch(
        kind, offset=offset, timestamp=timestamp, producer_id=producer, producer_epoch=2, coordinator_epoch=9
    )


def flipped(batch: bytes) -> bytes:
    """The batch with one bit of its payload flipped."""
    return batch[:-1] + bytes([batch[-1] ^ 1])


CROSSING = {
    0: [data(0, 7), data(1), data(2, 8)],
    3: [marker("abort", 3, 7), data(4, 7)],
    5: [marker("commit", 5, 8), marker("commit", 6, 7)],
}
"""Transactions of 7 (aborted, then committed) and 8 (committed), each with its marker in a later segment."""


def write(directory: Path, segments: Mapping[int, Sequence[bytes]]) -> Path:
    """A partition of these segments, by base offset."""
    folder = directory / "ledger-0"
    folder.mkdir(parents=True, exist_ok=True)
    for base, batches in segments.items():
        (folder / writer.segment_name(base)).write_bytes(b"".join(batches))
    return folder


def snapshot(transactions_open: Mapping[int, int], version: int = 1, epoch: int = 1) -> bytes:
    """`.snapshot` bytes that know these producers: id → first offset of an open transaction, -1 for none."""
    entries = [
        struct.pack(">qhiqiqiq", producer, epoch, 0, 0, 0, 0, -1, first)
        for producer, first in transactions_open.items()
    ]
    return of_checked(struct.pack(">i", len(entries)) + b"".join(entries), version)


def of_checked(entries: bytes, version: int = 1) -> bytes:
    """`.snapshot` bytes with a right CRC around any count and entries."""
    return struct.pack(">hI", version, crc32c.crc32c(entries)) + entries
