"""Small logs of one partition, t-0, batch by batch: values and timestamps follow from the offsets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import writer
from .writer import Marker, Rec


def pl(
    base: int, count: int, *, leader: int = 0, word: str = "v", keep: Sequence[int] | None = None, **more: Any
) -> bytes:
    """A batch of `count` records from an offset on, of one leader epoch; `keep`: those that compaction left."""
    kept = range(count) if keep is None else keep
    recs = [Rec(at, 1000 + base + at, b"k%d" % (base + at), f"{word}{base + at}".encode()) for at in kept]
    return writer.record_batch(recs, base_offset=base, leader_epoch=leader, last_offset_delta=count - 1, **more)


def txn(base: int, count: int, producer: int, **more: Any) -> bytes:
    return pl(base, count, producer_id=producer, producer_epoch=0, transactional=True, **more)


def marker(kind: Marker, offset: int, producer: int) -> bytes:
    return writer.control_batch(kind, offset=offset, timestamp=2000, producer_id=producer, producer_epoch=0)


def put(root: Path, base: int, *batches: bytes) -> Path:
    """Writes a segment of t-0 below a log directory; answers the file."""
    path = root / "t-0" / writer.segment_name(base)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(batches))
    return path


def bad(batch: bytes) -> bytes:
    """The batch with another last byte, so that its CRC does not hold."""
    return batch[:-1] + bytes([batch[-1] ^ 1])
