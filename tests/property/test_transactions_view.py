"""view=transactions against a naive walk: random transactions of several producers over several segments, with and
without the files beside the log, whole and damaged."""

from __future__ import annotations

import logging
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding import header_walk
from kafka_segment_source.errors import CorruptRecordError
from kafka_segment_source.transactions.walk import walk_file
from tests.support import writer
from tests.support.transactions import Batch, Log, broker, logs, spoils, write

Row = dict[str, Any]
COLUMNS = ["producerId", "producerEpoch", "firstOffset", "lastOffset", "state", "batches", "records", "bytes"]
COLUMNS += ["first", "last", "durationMs", "withheldRecords", "withheldBytes"]
MANY = settings(max_examples=settings().max_examples * 4)


@dataclass
class Open:
    """What a naive walk knows of an open transaction: its data batches, and how many batches were before them."""

    first: int
    batches: list[Batch]
    at: int


def walk(history: Sequence[Batch], begun: dict[int, int]) -> list[Row]:
    """The rows of a log, batch by batch. begun: the open transactions before it, producer → first offset."""
    is_open = {producer: Open(first, [], 0) for producer, first in begun.items()}
    rows: list[Row] = []
    for at, batch in enumerate(history):
        if batch.kind in ("data", "empty data"):
            is_open.setdefault(batch.producer, Open(batch.base, [], at)).batches.append(batch)
        elif batch.kind in ("commit", "abort") and batch.producer in is_open:
            state = {"commit": "committed", "abort": "aborted"}[batch.kind]
            rows.append(row(batch.producer, is_open.pop(batch.producer), state, batch))
    for producer, each in is_open.items():
        rest = history[each.at :]
        withheld = {"withheldRecords": sum(len(batch.timestamps) for batch in rest if not batch.is_control)}
        withheld["withheldBytes"] = sum(len(batch.data) for batch in rest)
        newest = max((max_timestamp(batch) for batch in history), default=None)
        rows.append(row(producer, each, "open", None, newest) | withheld)
    return rows


def row(producer: int, each: Open, state: str, marker: Batch | None, newest: int | None = None) -> Row:
    ended = marker.timestamps[0] if marker else newest
    begun = base_timestamp(each.batches[0]) if each.batches else None
    return {
        "producerId": producer,
        "producerEpoch": 3 if each.batches else None,
        "firstOffset": each.first,
        "lastOffset": marker.base if marker else None,
        "state": state,
        "batches": len(each.batches),
        "records": sum(len(batch.timestamps) for batch in each.batches),
        "bytes": sum(len(batch.data) for batch in each.batches),
        "first": begun,
        "last": max(map(max_timestamp, each.batches), default=None),
        "durationMs": None if ended is None or begun is None else ended - begun,
        "withheldRecords": None,
        "withheldBytes": None,
    }


def max_timestamp(batch: Batch) -> int:
    """By the header (section 1.1)."""
    return int(struct.unpack_from(">q", batch.data, 35)[0])


def base_timestamp(batch: Batch) -> int | None:
    """By the header (section 1.1). A batch without records has none."""
    found = int(struct.unpack_from(">q", batch.data, 27)[0])
    return None if found == -1 else found


def viewed(path: object, **options: Any) -> list[Row]:
    """The rows of the view, with timestamps in ms."""
    table = kafkaseg.scan(path, view="transactions", **options).read_all()
    rows = table.to_pylist()
    for each in rows:
        for name in ("first", "last"):
            moment = each[f"{name}Timestamp"]
            each[name] = None if moment is None else round(moment.timestamp() * 1000)
    return rows


def in_order(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    return sorted((tuple(each[name] for name in COLUMNS) for each in rows), key=lambda each: each[2])


@contextmanager
def small_reads(size: int, large: int) -> Iterator[None]:
    """Reads in chunks of `size` bytes, so that small logs have many. Batches of `large` bytes count as large."""
    with (
        mock.patch.dict(walk_file.__kwdefaults__, chunk_bytes=size),
        mock.patch.object(header_walk, "SMALL_BATCH", large),
        mock.patch.object(header_walk, "_FIRST_LOOK", 3),
    ):
        yield


sizes = st.sampled_from([150, 500, 8 * 1024 * 1024])
larges = st.sampled_from([0, 4096])


@MANY
@given(log=logs, spoil=spoils, clean_stop=st.booleans(), size=sizes, large=larges, crcs=st.booleans())
def test_rows_are_those_of_a_naive_walk(
    log: Log, spoil: list[int], clean_stop: bool, size: int, large: int, crcs: bool
) -> None:
    """Whatever is left of the files beside the log. The snapshot at its first offset says what began before."""
    with tempfile.TemporaryDirectory() as name, small_reads(size, large):
        write(log, Path(name), spoil, clean_stop)
        knows = log.gone > 0 and spoil[log.start % len(spoil)] == 0
        begun = broker([batch for batch in log.history if batch.base < log.start])[0] if knows else {}
        wanted = walk(log.there, begun)

        found = viewed(name, checkCrcs=crcs)

        event(f"states: {sorted({each['state'] for each in found})}, begun before: {bool(begun)}")
        assert in_order(found) == in_order(wanted)


@given(log=logs, number=st.integers(0, 39), byte=st.integers(21, 200), spoil=spoils, size=sizes)
def test_damage_makes_no_state_up(log: Log, number: int, byte: int, spoil: list[int], size: int) -> None:
    """With a bit flipped in some batch, DROPMALFORMED tells no ending that was not, and FAILFAST raises an error."""
    damaged = log.there[number % len(log.there)]
    flipped = bytearray(damaged.data)
    flipped[21 + (byte - 21) % (len(flipped) - 21)] ^= 1
    segments = tuple(
        tuple(replace(batch, data=bytes(flipped)) if batch is damaged else batch for batch in segment)
        for segment in log.segments
    )
    begun, _ = broker([batch for batch in log.history if batch.base < log.start])
    truth = {(each["producerId"], each["lastOffset"]): each for each in walk(log.there, begun)}
    with tempfile.TemporaryDirectory() as name, small_reads(size, 4096):
        write(replace(log, segments=segments), Path(name), spoil, clean_stop=False)
        found = viewed(name, checkCrcs=True, mode="DROPMALFORMED", failOnDataLoss=False)
        for each in found:
            if each["state"] in ("committed", "aborted"):
                told = truth[each["producerId"], each["lastOffset"]]
                assert told["state"] == each["state"]
                assert told["firstOffset"] <= each["firstOffset"]
                assert told["records"] >= each["records"]
        with pytest.raises(CorruptRecordError) as caught:
            viewed(name, checkCrcs=True, failOnDataLoss=False)
        assert Path(caught.value.path).name == writer.segment_name(log.bases[segment_of(log, damaged)])


@given(log=logs, number=st.integers(0, 39), byte=st.integers(21, 200), large=larges)
def test_a_marker_is_always_proven(log: Log, number: int, byte: int, large: int) -> None:
    """With checkCrcs=false too, a flipped bit in a marker is an error. DROPMALFORMED does not go by that marker."""
    markers = [batch for batch in log.there if batch.kind in ("commit", "abort")]
    if not markers:
        return
    damaged = markers[number % len(markers)]
    flipped = bytearray(damaged.data)
    flipped[61 + (byte - 21) % (len(flipped) - 61)] ^= 1
    segments = tuple(
        tuple(replace(batch, data=bytes(flipped)) if batch is damaged else batch for batch in segment)
        for segment in log.segments
    )
    with tempfile.TemporaryDirectory() as name, small_reads(8 * 1024 * 1024, large):
        write(replace(log, segments=segments), Path(name), [1], clean_stop=False)
        with pytest.raises(CorruptRecordError):
            viewed(name)
        dropped = viewed(name, mode="DROPMALFORMED")
        assert all(each["lastOffset"] != damaged.base for each in dropped)


@given(log=logs, size=sizes)
def test_a_whole_txnindex_contradicts_nothing(log: Log, size: int) -> None:
    """What a broker writes is what the log says, also where retention has deleted its beginning."""
    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("kafka_segment_source").addHandler(handler)
    try:
        with tempfile.TemporaryDirectory() as name, small_reads(size, 4096):
            write(log, Path(name), [0], clean_stop=True)
            viewed(name)
    finally:
        logging.getLogger("kafka_segment_source").removeHandler(handler)
    assert told == []


def segment_of(log: Log, batch: Batch) -> int:
    """The number of the segment that holds a batch."""
    return next(number for number, segment in enumerate(log.segments) if batch in segment)
