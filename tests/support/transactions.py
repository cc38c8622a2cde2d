"""Random logs of transactions: several producers, interleaved and over several segments, and the naive broker of them.

In: choices that hypothesis draws. Out: a `Log`, and its files in a directory, with the files that say the same
(`.snapshot`, `.txnindex`), whole or spoiled. The broker is docs/kafka-log-format.md 5.1 to 5.4, written plainly.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hypothesis import strategies as st

from . import ledgers, writer
from .writer import Codec, Rec

PRODUCERS = 4
CODECS: tuple[Codec, ...] = ("none", "none", "none", "zstd", "lz4")
ALL = 2**62

Kind = Literal["data", "plain", "idempotent", "commit", "abort", "empty marker", "empty data", "leader"]


@dataclass(frozen=True)
class Batch:
    """One batch of a log and what a naive reader needs of it."""

    kind: Kind
    producer: int
    base: int
    timestamps: tuple[int, ...]
    size: int  # offsets that it takes
    data: bytes

    @property
    def last(self) -> int:
        return self.base + self.size - 1

    @property
    def is_control(self) -> bool:
        return self.kind in ("commit", "abort", "empty marker", "leader")


@dataclass(frozen=True)
class Log:
    """Segments of batches; the first `gone` of them were deleted by retention."""

    segments: tuple[tuple[Batch, ...], ...]
    gone: int

    @property
    def bases(self) -> list[int]:
        """Base offsets of all segments, those that are gone included."""
        ends = [segment[-1].last + 1 for segment in self.segments]
        return [0, *ends[:-1]]

    @property
    def history(self) -> list[Batch]:
        return [batch for segment in self.segments for batch in segment]

    @property
    def there(self) -> list[Batch]:
        return [batch for segment in self.segments[self.gone :] for batch in segment]

    @property
    def start(self) -> int:
        return self.bases[self.gone]

    @property
    def end(self) -> int:
        return self.history[-1].last + 1


# --- the naive broker ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Aborted:
    """An entry of a `.txnindex`."""

    producer: int
    first: int
    last: int
    stable: int


def broker(batches: Sequence[Batch]) -> tuple[dict[int, int], list[Aborted]]:
    """Open transactions at the end (producer → first offset), and those that were aborted, in order of
    their markers."""
    is_open: dict[int, int] = {}
    aborted: list[Aborted] = []
    for batch in batches:
        if batch.kind in ("data", "empty data"):
            is_open.setdefault(batch.producer, batch.base)
        elif batch.kind in ("commit", "abort"):
            first = is_open.pop(batch.producer, None)
            if first is not None and batch.kind == "abort":
                aborted.append(Aborted(batch.producer, first, batch.base, min([*is_open.values(), batch.last + 1])))
    return is_open, aborted


# --- random logs -----------------------------------------------------------------------------------------------------

KINDS: tuple[Kind, ...] = (
    *("data",) * 6, *("commit",) * 3, *("abort",) * 3, "plain", "idempotent", "empty marker", "empty data", "leader"
)  # fmt: skip


def build(choices: Sequence[tuple[Kind, int, int, int]], rolls: Sequence[int], gone: int) -> Log:
    """The log that the choices (kind, producer, size and codec, timestamp) make; `rolls`: batches that
    begin a segment."""
    segments: list[list[Batch]] = [[]]
    offset = 0
    for number, (kind, producer, shape, timestamp) in enumerate(choices):
        if number in rolls and segments[-1]:
            segments.append([])
        batch = make(kind, producer, offset, shape, timestamp)
        segments[-1].append(batch)
        offset = batch.last + 1
    return Log(tuple(map(tuple, segments)), min(gone, len(segments) - 1))


def make(kind: Kind, producer: int, base: int, shape: int, timestamp: int) -> Batch:
    size = 1 + shape % 4
    data = {"base_offset": base, "producer_id": producer, "producer_epoch": 3}
    if kind in ("commit", "abort"):  # Kafka 4 bumps the epoch with the marker
        bumped = writer.control_batch(
            kind, offset=base, timestamp=timestamp, producer_id=producer, producer_epoch=3 + shape % 2
        )
        return Batch(kind, producer, base, (timestamp,), 1, bumped)
    if kind == "leader":
        rec = Rec(timestamp=timestamp, key=struct.pack(">hh", 0, 2), value=b"\x00" * 8)
        return Batch(kind, -1, base, (timestamp,), 1, writer.record_batch([rec], base_offset=base, control=True))
    if kind in ("empty marker", "empty data"):
        control = kind == "empty marker"
        empty = writer.record_batch(
            [], last_offset_delta=size - 1, max_timestamp=timestamp, transactional=True, control=control, **data
        )
        return Batch(kind, producer, base, (), size, empty)
    timestamps = tuple(timestamp + (shape * at) % 7 for at in range(size))
    recs = [Rec(at, moment, b"%d" % (base + at), b"v" * (shape % 60)) for at, moment in enumerate(timestamps)]
    if kind == "plain":
        data = {"base_offset": base}
    codec = CODECS[shape % len(CODECS)]
    return Batch(
        kind,
        producer,
        base,
        timestamps,
        size,
        writer.record_batch(recs, codec=codec, transactional=kind == "data", **data),
    )


batches = st.tuples(st.sampled_from(KINDS), st.integers(1, PRODUCERS), st.integers(0, 255), st.integers(1000, 1050))
logs = st.builds(
    build,
    st.lists(batches, min_size=1, max_size=12) | st.lists(batches, min_size=12, max_size=40),
    st.lists(st.integers(1, 39), max_size=4),
    st.integers(0, 4).map(lambda drawn: max(0, drawn - 2)),
)


# --- their files -----------------------------------------------------------------------------------------------------


def snapshot(batches: Sequence[Batch]) -> bytes:
    """`.snapshot` bytes after these batches (section 5.4)."""
    is_open, _ = broker(batches)
    producers = {batch.producer for batch in batches if batch.kind not in ("plain", "leader")}
    return ledgers.snapshot({each: is_open.get(each, -1) for each in sorted(producers)}, epoch=3)


def write(log: Log, directory: Path, spoil: Sequence[int], clean_stop: bool) -> bool:
    """Writes the partition, as a broker leaves it; what each number of `spoil` does to a file: 0 keeps it as it is.

    Answers whether a snapshot that can be believed is among the files.
    """
    folder = directory / "ledger-0"
    folder.mkdir()
    _, aborted = broker(log.history)
    bases = log.bases
    for number in range(log.gone, len(log.segments)):
        segment = log.segments[number]
        (folder / writer.segment_name(bases[number])).write_bytes(b"".join(batch.data for batch in segment))
        own = [each for each in aborted if segment[0].base <= each.last <= segment[-1].last]
        if own:
            entries = writer.transaction_index((each.producer, each.first, each.last, each.stable) for each in own)
            spoiled(folder / writer.segment_name(bases[number], ".txnindex"), entries, spoil[number % len(spoil)])
    usable = False
    for at in [*bases[max(log.gone, 1) :], *([log.end] if clean_stop else [])]:
        state = snapshot([batch for batch in log.history if batch.base < at])
        usable |= spoiled(folder / writer.segment_name(at, ".snapshot"), state, spoil[at % len(spoil)])
    return usable


def spoiled(path: Path, data: bytes, how: int) -> bool:
    """Writes a file, or loses, cuts or garbles it; whether it is whole."""
    if how == 1:
        return False
    if how == 2:
        data = data[: -1 - how % len(data)]
    elif how > 2:
        at = how % len(data)
        data = data[:at] + bytes([data[at] ^ (1 + how % 255)]) + data[at + 1 :]
    path.write_bytes(data)
    return how == 0


spoils = (
    st.just([0]) | st.just([1]) | st.lists(st.sampled_from([0, 0, 1, 2, 3, 9, 40, 77, 130]), min_size=3, max_size=8)
)
