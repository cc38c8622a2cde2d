"""Each kernel on one core, in CPU time, with the same bytes copied by memcpy beside it."""

from __future__ import annotations

import random
import statistics
import zlib
from collections.abc import Callable, Iterator

import numpy as np
from crc32c import crc32c

from benchmarks import chunks, values
from benchmarks.logs import ORIGIN, LogShape, column_names, log
from benchmarks.measure import repeat_cpu
from benchmarks.results import Goal, Row, Settings, row
from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.payloads import Group
from kafka_segment_source.kernels import arrow_buffers, batch_headers, batch_proof, record_batches
from kafka_segment_source.storage.files import Bytes
from tests.support import writer

TITLE = "kernels, one core"

GOAL = Goal(least=20)  # M rows/s of 119-byte values
_STORED = 64 * 2**20  # of each log: more than a CPU's caches hold
_CHUNKS = 4


def rows(settings: Settings) -> Iterator[Row]:
    """A row for each kernel; the one that finds records for each kind of record."""
    runs = 3 if settings.quick else 9
    for size, headers in ((20, False), (119, False), (1024, False), (119, True)):
        yield from _records(LogShape(1, value_bytes=size, headers=headers).of_bytes(_STORED), runs)
    yield from _columns(runs)
    yield from _headers_and_sums(runs)
    yield _message_sets(runs)


def _speeds(work: Callable[[], object], amount: float, runs: int) -> list[float]:
    return [amount / max(each, 1e-9) for each in repeat_cpu(work, runs)]


def _memcpy(size: int, runs: int) -> float:
    """Bytes a second of a memcpy of that number of bytes."""
    source, target = np.ones(size, np.uint8), np.empty(size, np.uint8)
    return statistics.median(_speeds(lambda: np.copyto(target, source), size, runs))


def _records(shape: LogShape, runs: int) -> Iterator[Row]:
    events = log(shape)
    split = chunks.first_split(events)
    source = chunks.chunks(split, _CHUNKS)
    groups = chunks.groups(split, source)
    records = chunks.Records.arrays()
    count = sum(records.find(group) for group in groups)
    size = sum(int(group.headers[batch_headers.SIZE].sum()) for group in groups)
    kind = f"{shape.value_bytes} B{', headers' if shape.headers else ''}"
    promised = shape.value_bytes == 119 and not shape.headers

    found = _speeds(lambda: [records.find(group) for group in groups], count / 1e6, runs)
    yield row(f"decode_records, {kind}", found, "M rows/s", GOAL if promised else None, headline=promised)
    names = column_names(shape.headers)
    whole = _speeds(lambda: chunks.to_arrow(split, source, names), count / 1e6, runs)
    share = statistics.median(whole) * 1e6 / count * size / _memcpy(size, runs)
    yield row(f"decode and Arrow, {kind}", whole, "M rows/s", note=f"{share:.2f} of memcpy")


def _columns(runs: int) -> Iterator[Row]:
    events = log(LogShape(1, headers=True).of_bytes(_STORED))
    split = chunks.first_split(events)
    group = chunks.groups(split, chunks.chunks(split, 1))[0]
    table = chunks.one_table(group)
    n = table.count
    starts, lengths = table.ints[record_batches.VALUE_AT], table.ints[record_batches.VALUE_LENGTH]
    offsets, validity = np.empty(n + 1, np.int32), np.zeros((n + 7) // 8, np.uint8)
    data = np.empty(table.value_bytes, np.uint8)
    measured = _speeds(
        lambda: arrow_buffers.copy_parts(group.source, starts, lengths, n, offsets, validity, data),
        len(data) / 1e9,
        runs,
    )
    share = statistics.median(measured) * 1e9 / _memcpy(len(data), runs)
    yield row("copy_parts, 119 B", measured, "GB/s", note=f"{share:.2f} of memcpy")
    parts = np.empty((4, int(table.ints[record_batches.HEADERS_COUNT, :n].sum())), np.int32)
    sizes = np.empty(2, np.int64)
    where = table.ints[record_batches.HEADERS_AT], table.ints[record_batches.HEADERS_COUNT]
    into = (n, parts, sizes)
    measured = _speeds(lambda: arrow_buffers.locate_headers(group.source, *where, *into), parts.shape[1] / 1e6, runs)
    yield row("locate_headers", measured, "M headers/s")


def _headers_and_sums(runs: int) -> Iterator[Row]:
    events = log(LogShape(1).of_bytes(_STORED))
    chunk = chunks.chunks(chunks.first_split(events), 1)[0]
    table, report = np.empty((batch_headers.FIELDS, 16384), np.int64), np.zeros(2, np.int64)
    size = len(chunk.data)
    measured = _speeds(
        lambda: batch_headers.walk_headers(chunk.data, size, 0, table, report), chunk.headers.shape[1] / 1e6, runs * 20
    )
    yield row("walk_headers, batches of 16 KiB", measured, "M batches/s")
    measured = _speeds(lambda: batch_headers.find_batch(chunk.data, 1, size, 2**62, 2**62 + 1), size / 1e9, runs)
    yield row("find_batch, nothing to be found", measured, "GB/s")
    measured = _speeds(lambda: crc32c(chunk.data.data), size / 1e9, runs)
    yield row(
        "crc32c (library)",
        measured,
        "GB/s",
        note=f"{statistics.median(measured) * 1e9 / _memcpy(size, runs):.2f} of memcpy",
    )
    measured = _speeds(_prove(chunk.data, chunk.headers.shape[1]), size / 1e9, runs)
    yield row("prove_batches, batches of 16 KiB", measured, "GB/s", note="headers, CRC-32C and order of offsets")


def _prove(data: Bytes, count: int) -> Callable[[], object]:
    """What proves `count` batches."""
    table, bad = np.empty((batch_headers.FIELDS, count), np.int64), np.zeros(count, np.bool_)
    report = np.zeros(batch_proof.REPORT, np.int64)
    return lambda: batch_proof.prove_batches(data, 0, True, -1, 2**63 - 1, table, bad, report)


def _message_sets(runs: int) -> Row:
    """Plain messages of magic 1, with their CRCs."""
    chance = random.Random(1)
    records = [writer.Rec(n, ORIGIN + n, values.key(chance), values.value(chance, 119)) for n in range(500)]
    entry = writer.message_set_v1(records)
    copies = 100
    data = np.frombuffer(entry * copies, np.uint8).copy()
    table, report = np.empty((batch_headers.FIELDS, len(records) * copies), np.int64), np.zeros(2, np.int64)
    count = int(batch_headers.walk_headers(data, len(data), 0, table, report))
    starts = table[batch_headers.POSITION]
    group = Group(data, table, np.stack((starts, starts + table[batch_headers.SIZE])))
    arrays = chunks.Records.arrays()
    if arrays.find(group) != count:
        raise AssertionError("the kernel does not find every message")
    sums = _speeds(_prove(data, count), len(data) / 1e9, runs)
    library = _speeds(lambda: zlib.crc32(data.data), len(data) / 1e9, runs)
    note = f"prove_batches {statistics.median(sums):.2f} GB/s (zlib's {statistics.median(library):.2f})"
    measured = _speeds(lambda: arrays.find(group), count / 1e6, runs)
    assert table[batch_headers.MAGIC, 0] == kafka_format.MAGIC_V1
    return row("decode_messages, magic 1, 119 B", measured, "M rows/s", note=note)
