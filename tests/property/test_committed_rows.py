"""read_committed against a naive consumer: random transactions of several producers, interleaved and over several
segments, with and without the files that say the same (`.snapshot`, `.txnindex`), whole and through any bounds.

The naive side is docs/kafka-log-format.md 5.1 to 5.4, written plainly: a broker that keeps a list of aborted
transactions, and a client that filters batches with it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import event, given, settings
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding import split_file
from kafka_segment_source.errors import CorruptRecordError
from kafka_segment_source.transactions import walk
from tests.support import writer
from tests.support.maps import EACH_BATCH, make_maps
from tests.support.transactions import ALL, Aborted, Batch, Log, broker, logs, spoils, write

MANY = settings(max_examples=settings().max_examples * 8)
Row = tuple[int, bytes | None]


# --- the naive client ------------------------------------------------------------------------------------------------


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


# --- the tests -------------------------------------------------------------------------------------------------------


@contextmanager
def small_chunks(size: int) -> Iterator[None]:
    """Reads in chunks of `size` bytes, so that small logs have many."""
    with (
        mock.patch.dict(split_file.SplitFile.__init__.__kwdefaults__, chunk_bytes=size),
        mock.patch.dict(walk.walk_split.__kwdefaults__, chunk_bytes=size),
        mock.patch.dict(walk.walk_file.__kwdefaults__, chunk_bytes=size),
        mock.patch.object(walk, "_AHEAD_BYTES", size),
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
