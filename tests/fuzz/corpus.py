"""What is mutated: small real logs of every magic and codec, each two segments with their index files, from the
fixtures.

In: nothing but the fixtures. Out: `SEEDS`, values that write themselves as a partition directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tests.support import naive, writer
from tests.support.rows import FIXTURES

TOPIC = "orders"
PARTITION = 0
MOST_BYTES = 6000  # of one segment: what is longer is cut after a whole batch


@dataclass(frozen=True)
class RealSegment:
    """Whole batches that a broker wrote, and its index files as they are (None: no such file)."""

    base_offset: int
    log: bytes
    index: bytes | None = None
    timeindex: bytes | None = None

    @property
    def batches(self) -> list[naive.Batch]:
        return naive.decode_batches(self.log)


@dataclass(frozen=True)
class Seed:
    """A log to mutate: one or two segments; the last of them may end in a torn batch without harm."""

    name: str
    segments: tuple[RealSegment, ...]

    def with_segment(self, at: int, segment: RealSegment) -> Seed:
        """The same log with one segment exchanged."""
        return replace(self, segments=(*self.segments[:at], segment, *self.segments[at + 1 :]))

    def write(self, directory: Path) -> Path:
        """Writes the log as a partition's directory below `directory`; returns its own directory."""
        return writer.write_partition(directory, TOPIC, PARTITION, self.segments)


_DIRECTORIES = (
    *(f"codecs/data/codec-{name}-0" for name in ("none", "gzip-java", "gzip-librdkafka", "snappy-java")),
    *(f"codecs/data/codec-{name}-0" for name in ("snappy-librdkafka", "lz4-java", "lz4-librdkafka")),
    *(f"codecs/data/codec-{name}-0" for name in ("zstd-java", "zstd-librdkafka")),
    *(f"message-sets/data/sets-v0-{codec}-0" for codec in ("none", "gzip", "snappy", "lz4")),
    *(f"message-sets/data/sets-v1-{codec}-0" for codec in ("none", "gzip", "snappy", "lz4", "append")),
    *(f"message-sets/data/sets-compacted-v{magic}-0" for magic in (0, 1)),
    *(f"message-sets-0.10/data/old-{name}-0" for name in ("gzip-v0", "lz4", "snappy-append")),
    *(f"compacted/data/{name}-0" for name in ("compacted", "compacted-zstd", "compacted-transactions")),
    "transactions/data/ledger-1",
    "transactions/data/ledger-v2-0",
    "times/data/times-append-1",
    "live/data/live-zstd-0",
    "records/data/records-1",
    "follower/broker-2/copied-lz4-0",
)


@cache
def seeds() -> tuple[Seed, ...]:
    """All logs to mutate, in an order that does not change."""
    return tuple(_seeds())


def _seeds() -> Iterator[Seed]:
    for name in _DIRECTORIES:
        logs = sorted((FIXTURES / name).glob("*.log"))[:2]
        yield Seed(name, tuple(_segment(path) for path in logs))
    upgraded = FIXTURES / "message-sets" / "data" / "sets-upgraded-0" / writer.segment_name(0)
    yield Seed("magics mixed", (_thinned(upgraded),))


def _segment(path: Path) -> RealSegment:
    """A segment cut to its first batches; its index files stay, so they may run ahead of it."""
    data = path.read_bytes()
    ends = [batch.position + batch.size for batch in naive.decode_batches(data)]
    end = max(end for end in ends if end <= max(MOST_BYTES, ends[0]))
    files = [path.with_suffix(suffix) for suffix in (".index", ".timeindex")]
    index, timeindex = (file.read_bytes()[:600] if file.exists() else None for file in files)
    return RealSegment(int(path.stem), data[:end], index, timeindex)


def _thinned(path: Path) -> RealSegment:
    """Some batches of each magic of one segment, as if the others had been compacted away."""
    data = path.read_bytes()
    of_magic: dict[int, list[naive.Batch]] = {}
    for batch in naive.decode_batches(data):
        of_magic.setdefault(batch.magic, []).append(batch)
    few = [batch for batches in of_magic.values() for batch in (*batches[:3], *batches[-3:])]
    few.sort(key=lambda batch: batch.position)
    log = b"".join(data[batch.position : batch.position + batch.size] for batch in few)
    return RealSegment(int(path.stem), log)
