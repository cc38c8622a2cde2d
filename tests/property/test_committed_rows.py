"""read_committed against a naive consumer: random transactions of several producers, interleaved and over several
segments, with and without the files that say the same (`.snapshot`, `.txnindex`), whole and through any bounds.

The naive side is kafka-log-format.md 5.1 to 5.4, written plainly: a broker that keeps a list of aborted transactions,
and a client that filters batches with it.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import crc32c
from hypothesis import event, given, settings
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding import split_file
from kafka_segment_source.errors import CorruptRecordError
from kafka_segment_source.reading import marker_walk
from tests.support import writer
from tests.support.maps import EACH_BATCH, make_maps
from tests.support.writer import Codec, Rec

MANY = settings(max_examples=settings().max_examples * 8)
PRODUCERS = 4
CODECS: tuple[Codec, ...] = ("none", "none", "none", "zstd", "lz4")
ALL = 2**62

Kind = Literal["data", "plain", "idempotent", "commit", "abort", "empty marker", "empty data", "leader"]
Row = tuple[int, bytes | None]


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


# --- the naive broker and the naive client ---------------------------------------------------------------------------


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


def client(
    batches: Sequence[Batch], aborted: Sequence[Aborted], stable: int, start: int, end: int, control: bool
) -> list[tuple[int, int]]:
    """(offset, timestamp) of what a consumer is given of start ≤ offset < end (CompletedFetch);
    `control`: markers too."""
    queue = sorted((each for each in aborted if each.last >= start), key=lambda each: each.first)
    ongoing: set[int] = set()
    rows = []
    for batch in batches:
        if batch.last < start:
            continue
        while queue and queue[0].first <= batch.last:
            ongoing.add(queue.pop(0).producer)
        if batch.kind == "abort":
            ongoing.discard(batch.producer)
        if batch.kind == "data" and batch.producer in ongoing:
            continue
        if batch.is_control and not control:
            continue
        rows += [(batch.base + at, timestamp) for at, timestamp in enumerate(batch.timestamps)]
    return [(offset, timestamp) for offset, timestamp in rows if start <= offset < min(end, stable)]


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
    entries = b"".join(
        struct.pack(">qhiqiqiq", each, 3, 0, 0, 0, 0, -1, is_open.get(each, -1)) for each in sorted(producers)
    )
    checked = struct.pack(">i", len(producers)) + entries
    return struct.pack(">hI", 1, crc32c.crc32c(checked)) + checked


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


# --- the tests -------------------------------------------------------------------------------------------------------


@contextmanager
def small_chunks(size: int) -> Iterator[None]:
    """Reads in chunks of `size` bytes, so that small logs have many."""
    with (
        mock.patch.dict(split_file.SplitFile.__init__.__kwdefaults__, chunk_bytes=size),
        mock.patch.dict(marker_walk.walk_split.__kwdefaults__, chunk_bytes=size),
        mock.patch.object(marker_walk, "_AHEAD_BYTES", size),
    ):
        yield


ways = st.fixed_dictionaries(
    {},
    optional={
        "trustIndexes": st.booleans(),
        "checkCrcs": st.booleans(),
        "minPartitions": st.integers(1, 9),
        "maxRecordsPerPartition": st.integers(1, 7),
        "includeControl": st.booleans(),
    },
)
spoils = (
    st.just([0]) | st.just([1]) | st.lists(st.sampled_from([0, 0, 1, 2, 3, 9, 40, 77, 130]), min_size=3, max_size=8)
)


@MANY
@given(
    log=logs,
    edges=st.none() | st.tuples(st.integers(0, 110), st.integers(0, 110)),
    times=st.none() | st.tuples(st.integers(995, 1060), st.integers(995, 1060)),
    spoil=spoils,
    clean_stop=st.booleans(),
    chunk=st.sampled_from([150, 500, 8 * 1024 * 1024]),
    how=ways,
    cell=st.none() | st.sampled_from([EACH_BATCH, 200, 1000]),
)
def test_rows_are_those_of_a_naive_consumer(
    log: Log,
    edges: tuple[int, int] | None,
    times: tuple[int, int] | None,
    spoil: list[int],
    clean_stop: bool,
    chunk: int,
    how: dict[str, Any],
    cell: int | None,
) -> None:
    """Whatever producers do, whatever is left of the files beside the log, by zone maps or not, and whichever bounds: a
    consumer's rows."""
    with tempfile.TemporaryDirectory() as name, small_chunks(chunk):
        usable = write(log, Path(name), spoil, clean_stop) and how.get("trustIndexes", True)
        known = log.history if usable else log.there
        is_open, _ = broker(known)
        stable = min([*is_open.values(), log.end])
        start, end = (0, ALL) if edges is None else (min(edges), max(edges))
        since, until = (0, ALL) if times is None else (min(times), max(times))
        options = {"isolationLevel": "read_committed", "failOnDataLoss": False, **how}
        if edges is not None:
            options |= {"startingOffsets": {"ledger": {"0": start}}, "endingOffsets": {"ledger": {"0": end}}}
        if times is not None:
            options |= {"since": since, "until": until}
        if cell is not None:
            make_maps(Path(name), Path(name) / "maps", cell)
            options["zoneMaps"] = Path(name) / "maps"
        _, aborted = broker(log.history)
        given_rows = client(log.there, aborted, stable, max(start, log.start), end, how.get("includeControl", False))
        wanted = [(offset, timestamp) for offset, timestamp in given_rows if since <= timestamp < until]

        table = kafkaseg.scan(name, ["offset", "timestamp"], **options).read_all()

        event(f"open at the end: {bool(is_open)}, aborted: {bool(aborted)}, rows: {bool(wanted)}, gone: {log.gone > 0}")
        millis = [int(moment.timestamp() * 1000 + 0.5) for moment in table["timestamp"].to_pylist()]
        assert list(zip(table["offset"].to_pylist(), millis, strict=True)) == wanted


@given(
    log=logs,
    number=st.integers(0, 39),
    byte=st.integers(21, 200),
    edges=st.none() | st.tuples(st.integers(0, 110), st.integers(0, 110)),
    clean_stop=st.booleans(),
    chunk=st.sampled_from([150, 8 * 1024 * 1024]),
    spoil=spoils,
)
@settings(max_examples=settings().max_examples * 4)
def test_damage_never_shows_what_was_not_committed(
    log: Log,
    number: int,
    byte: int,
    edges: tuple[int, int] | None,
    clean_stop: bool,
    chunk: int,
    spoil: list[int],
) -> None:
    """With a bit flipped in some batch, DROPMALFORMED gives only rows that were committed, and FAILFAST
    all or an error."""
    damaged = log.there[number % len(log.there)]
    flipped = bytearray(damaged.data)
    flipped[21 + (byte - 21) % (len(flipped) - 21)] ^= 1
    segments = tuple(
        tuple(replace(batch, data=bytes(flipped)) if batch is damaged else batch for batch in segment)
        for segment in log.segments
    )
    is_open, aborted = broker(log.history)
    never = [*aborted, *(Aborted(producer, first, ALL, ALL) for producer, first in is_open.items())]
    right = client(log.there, never, ALL, log.start, ALL, False)
    options: dict[str, Any] = {"isolationLevel": "read_committed", "failOnDataLoss": False}
    if edges is not None:
        options["startingOffsets"], options["endingOffsets"] = ({"ledger": {"0": each}} for each in sorted(edges))
    with tempfile.TemporaryDirectory() as name, small_chunks(chunk):
        write(replace(log, segments=segments), Path(name), spoil, clean_stop)
        dropped = kafkaseg.scan(name, ["offset"], mode="DROPMALFORMED", **options).read_all()["offset"].to_pylist()
        assert set(dropped) <= {offset for offset, _ in right}
        assert not any(damaged.base <= offset <= damaged.last for offset in dropped)
        where = Path(name) / "ledger-0" / writer.segment_name(log.bases[segment_of(log, damaged)])
        strict, complaint = rows_or_error(name, options)
        event(f"FAILFAST: {'rows' if complaint is None else 'an error'}")
        assert strict == dropped if complaint is None else complaint.path == str(where)


def rows_or_error(path: str, options: dict[str, Any]) -> tuple[list[int], CorruptRecordError | None]:
    """Offsets under FAILFAST, or none and the error."""
    try:
        return kafkaseg.scan(path, ["offset"], **options).read_all()["offset"].to_pylist(), None
    except CorruptRecordError as error:
        return [], error


def segment_of(log: Log, batch: Batch) -> int:
    """The number of the segment that holds a batch."""
    return next(number for number, segment in enumerate(log.segments) if batch in segment)
