"""Each kernel beside a naive twin: the same answer for every input, odd and damaged ones included."""

from __future__ import annotations

import struct

import crc32c as library
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.offset_order import find_disorder, needs_witness
from kafka_segment_source.kernels import arrow_buffers, batch_headers, batch_proof, crc32c, primitives, record_batches
from kafka_segment_source.kernels.jit import kernel
from kafka_segment_source.logdir.checksums import crc_holds
from tests.support import naive, writer
from tests.support.logs import GeneratedLog
from tests.support.strategies import partition_logs
from tests.support.writer import Rec

GUARD = 0xA5  # fills what a kernel must not touch


VARLONG, VARINT = 10, 5  # bytes at most


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8).copy()


@kernel("void(uint8[::1], int64, int64[::1])")
def read_fixed(src, at, found):  # type: ignore[no-untyped-def]
    """The three integers of fixed width, as machine code reads them."""
    found[0] = primitives.read_int64(src, at)
    found[1] = primitives.read_int32(src, at)
    found[2] = primitives.read_int16(src, at)


@kernel("void(uint8[::1], int64, int64, int64, int64[::1])")
def read_variable(src, at, end, most, found):  # type: ignore[no-untyped-def]
    """A varlong or a varint, as machine code reads it: its value, and the position after it."""
    if most == VARLONG:
        found[0], found[1] = primitives.read_varlong(src, at, end)
    else:
        found[0], found[1] = primitives.read_varint(src, at, end)


@kernel("int64(uint8[::1], int64, int64)")
def compute_crc(src, at, end):  # type: ignore[no-untyped-def]
    """The CRC of some bytes, by the processor's instruction if there is one."""
    return crc32c.compute(src, at, end)


@kernel("int64(int64, uint8[::1], int64)")
def add_word(crc, src, at):  # type: ignore[no-untyped-def]
    """What a processor without the instruction does."""
    return np.int64(crc32c.add_word_by_tables(np.uint64(crc), src, at))


def varint_at(src: np.ndarray, at: int, end: int, most: int) -> tuple[int, int]:
    found = np.zeros(2, np.int64)
    read_variable(src, at, end, most, found)
    return int(found[0]), int(found[1])


# --- integers --------------------------------------------------------------------------------------------------------


@given(number=st.integers(-(2**63), 2**63 - 1))
def test_fixed_width_integers(number: int) -> None:
    """Big-endian integers of 16, 32 and 64 bits are read signed, as struct reads them."""
    raw = struct.pack(">q", number)
    found = np.zeros(3, np.int64)
    read_fixed(array(b"\x99" + raw), 1, found)
    assert found.tolist() == [number, struct.unpack_from(">i", raw)[0], struct.unpack_from(">h", raw)[0]]


@given(
    number=st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300) | st.integers(-(2**34), 2**34 - 1),
    rest=st.binary(max_size=3),
)
def test_varints_round_trip(number: int, rest: bytes) -> None:
    """What a writer wrote is read back, in 64 bits always and in 32 bits exactly if it fits."""
    written = writer.varint(number, 64)
    source = array(b"\xff" + written + rest)
    assert varint_at(source, 1, len(source), VARLONG) == (number, 1 + len(written))

    value, after = varint_at(source, 1, len(source), VARINT)
    if -(2**31) <= number < 2**31:
        assert (value, after) == (number, 1 + len(written))
    else:
        assert after == primitives.FAILED


@given(data=st.binary(max_size=14) | st.lists(st.integers(0x70, 0xFF), max_size=14).map(bytes), end=st.integers(0, 14))
def test_varints_of_any_bytes(data: bytes, end: int) -> None:
    """Any bytes give the naive decoder's value and end, or FAILED where it fails; nothing at or after `end` is read."""
    source, end = array(data), min(end, len(data))
    for most in (VARLONG, VARINT):
        try:
            wanted = naive._read_varint(data[:end], 0, most=most)
        except (naive.NaiveError, IndexError):
            wanted = None
        value, after = varint_at(source, 0, end, most)
        if wanted is None:
            assert after == primitives.FAILED
        elif most == VARINT and after == primitives.FAILED:  # Java drops bits above the 32nd; here they are an error
            assert int.from_bytes([data[4] & 0x7F], "big") >> 4 != 0
        else:
            assert (value, after) == wanted


# --- checksums -------------------------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**32),
    start=st.integers(0, 9),
    size=st.integers(0, 40) | st.integers(300, 500) | st.integers(3000, 9000),
)
def test_crcs_are_those_of_the_library(seed: int, start: int, size: int) -> None:
    """For any bytes, any length, and wherever they begin: whole stretches, short ones, and what is left."""
    source = np.random.default_rng(seed).integers(0, 256, start + size + 5, np.uint8)
    assert compute_crc(source, start, start + size) == library.crc32c(source[start : start + size].data)


@given(data=st.binary(min_size=8, max_size=8), crc=st.integers(0, 2**32 - 1), start=st.integers(0, 3))
def test_a_word_by_tables(data: bytes, crc: int, start: int) -> None:
    """A processor without the instruction adds eight bytes by tables."""
    inverted = 0xFFFFFFFF
    found = int(add_word(crc, array(bytes(start) + data), start))
    assert found ^ inverted == library.crc32c(data, crc ^ inverted)


# --- headers ---------------------------------------------------------------------------------------------------------


def walk(data: bytes, columns: int = 64, position: int = 0) -> tuple[np.ndarray, int, np.ndarray]:
    """The header table, how many of its columns are filled, and the report."""
    table = np.full((batch_headers.FIELDS, columns), GUARD, np.int64)
    report = np.zeros(2, np.int64)
    count = batch_headers.walk_headers(array(data), len(data), position, table, report)
    assert (table[:, count + 1 :] == GUARD).all()  # a refused batch may have been begun, in the next column
    return table, count, report


@given(
    log=partition_logs(magics=(0, 1, 2), max_segments=1),
    flips=st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 7)), max_size=2),
    columns=st.integers(1, 20),
    check=st.booleans(),
    before=st.integers(-1, 1),
    room=st.integers(-2, 2),
)
def test_proof_of_batches(
    log: GeneratedLog, flips: list[tuple[int, int]], columns: int, check: bool, before: int, room: int
) -> None:
    """The columns of a walk, the batches with a wrong CRC, and whether no rule about offsets can be broken."""
    (segment,) = log.segments
    data = array(segment.log)
    for at, bit in flips if len(data) else ():
        data[at % len(data)] ^= 1 << bit
    walked, count, told = walk(data.tobytes(), columns, 7000)
    before += int(walked[batch_headers.BASE_OFFSET, 0]) - 1 if count else 0
    limit = max(int(walked[batch_headers.LAST_OFFSET, :count].max(initial=0)) + room, 0)
    table, bad = np.full((batch_headers.FIELDS, columns), GUARD, np.int64), np.ones(columns, np.bool_)
    report = np.zeros(batch_proof.REPORT, np.int64)

    found = batch_proof.prove_batches(data, 7000, check, before, limit, table, bad, report)

    assert found == count and report[:2].tolist() == told.tolist()
    assert (table[: batch_headers.AFTER] == walked[: batch_headers.AFTER]).all()
    batches = table[[batch_headers.POSITION, batch_headers.SIZE, batch_headers.MAGIC, batch_headers.CRC], :count].T
    wrong = [not crc_holds(data[at - 7000 :][:size].tobytes(), magic, crc) for at, size, magic, crc in batches.tolist()]
    assert bad.tolist() == [check and each for each in wrong] + [True] * (columns - count)
    base, last = table[[batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET], :count].tolist()
    follow = base == [before + 1, *(each + 1 for each in last[:-1])][:count]
    in_order = follow and not bad[:count].any() and max(last, default=-1) < limit
    assert report[batch_proof.IN_ORDER] == in_order or not count
    if in_order:
        assert not count or not needs_witness(table[:, :count], before)
        assert find_disorder(table[:, :count].copy(), before, limit, limit) is None
        assert table[batch_headers.AFTER, :count].tolist() == [before, *last[:-1]][:count]


@given(
    log=partition_logs(magics=(0, 1, 2), max_segments=1, log_damage=True, far_future=True), columns=st.integers(1, 20)
)
def test_walk_finds_every_whole_batch(log: GeneratedLog, columns: int) -> None:
    """A walk fills in what the naive decoder finds, up to the table's width, and reports why it stopped."""
    (segment,) = log.segments
    table, count, report = walk(segment.log, columns, position=7000)
    batches = naive.decode_batches(segment.log)

    found = table[
        [
            batch_headers.POSITION,
            batch_headers.SIZE,
            batch_headers.MAGIC,
            batch_headers.LAST_OFFSET,
            batch_headers.MAX_TIMESTAMP,
        ],
        :count,
    ].T.tolist()
    assert found == [[7000 + b.position, b.size, b.magic, b.last_offset, b.max_timestamp] for b in batches][:columns]
    v2 = [(n, b) for n, b in enumerate(batches[:columns]) if b.magic == 2]
    assert [table[batch_headers.BASE_OFFSET, n] for n, _ in v2] == [b.base_offset for _, b in v2]
    assert [table[batch_headers.COUNT, n] for n, _ in v2] == [len(b.records) for _, b in v2]
    end = batches[count - 1].position + batches[count - 1].size if count else 0
    if count == len(batches) < columns and end < len(segment.log):
        rest = segment.log[end:]
        assert report[batch_headers.STOPPED_BY] == (
            batch_headers.ZEROS if len(rest) >= 17 and not any(rest) else batch_headers.INCOMPLETE
        )
    else:
        assert report[batch_headers.STOPPED_BY] == batch_headers.USED_UP


@given(data=st.binary(max_size=200), columns=st.integers(1, 4))
def test_walk_over_any_bytes(data: bytes, columns: int) -> None:
    """Random bytes are walked without reading or writing outside, and every batch accepted is whole."""
    table, count, _ = walk(data, columns)
    assert 0 <= count <= columns
    ends = table[batch_headers.POSITION, :count] + table[batch_headers.SIZE, :count]
    assert (ends <= len(data)).all()
    assert table[batch_headers.POSITION, :count].tolist() == [0, *ends.tolist()][:count]


BATCH = writer.record_batch([Rec(0, 5, b"a", b"b"), Rec(1, 6)], base_offset=3)
STOPS = [
    ("cut", BATCH[:-1], batch_headers.INCOMPLETE, len(BATCH)),
    ("cut before the magic", BATCH[:16], batch_headers.INCOMPLETE, 17),
    ("zeros", bytes(17), batch_headers.ZEROS, None),
    ("too short for magic 2", BATCH[:8] + b"\0\0\0\x30" + BATCH[12:], batch_headers.BAD_LENGTH, 48),
    ("negative length", BATCH[:8] + b"\x80\0\0\0" + BATCH[12:], batch_headers.BAD_LENGTH, -(2**31)),
    ("too short for magic 1", writer.message(0, None, None, magic=1)[:8] + b"\0\0\0\x15" + bytes(4) + b"\1" + bytes(21), batch_headers.BAD_LENGTH, 21),
    ("magic 3", BATCH[:16] + b"\3" + BATCH[17:], batch_headers.BAD_MAGIC, 3),
    ("negative magic", BATCH[:16] + b"\xff" + BATCH[17:], batch_headers.BAD_MAGIC, 255),
    ("negative count", BATCH[:57] + b"\xff" * 4 + BATCH[61:], batch_headers.BAD_COUNT, -1),
    ("negative delta", BATCH[:23] + b"\xff" * 4 + BATCH[27:], batch_headers.BAD_LAST_OFFSET, 2),
    ("negative base", b"\xff" * 8 + BATCH[8:], batch_headers.BAD_LAST_OFFSET, 0),
    ("offsets past 64 bits", b"\x7f" + b"\xff" * 7 + BATCH[8:], batch_headers.BAD_LAST_OFFSET, -(2**63)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "stopped_by", "found"), STOPS, ids=[stop[0] for stop in STOPS])
def test_why_a_walk_stops(name: str, data: bytes, stopped_by: int, found: int | None) -> None:
    """After a whole batch, each impossible header is reported with its place and the value found."""
    table, count, report = walk(BATCH + data)

    assert (count, report[batch_headers.STOPPED_BY]) == (1, stopped_by)
    assert table[batch_headers.POSITION, 0] + table[batch_headers.SIZE, 0] == len(BATCH)
    assert found is None or report[batch_headers.FOUND] == found


@given(
    prefix=st.binary(max_size=80),
    suffix=st.binary(max_size=80),
    base=st.integers(0, 20),
    first=st.integers(0, 25),
    room=st.integers(0, 25),
)
def test_find_batch(prefix: bytes, suffix: bytes, base: int, first: int, room: int) -> None:
    """The first place that could be a batch header, of any magic, is found, exactly as by trying every byte."""
    batch = writer.record_batch([Rec(0, 5, b"a", b"b"), Rec(2, 6)], base_offset=base)
    data = prefix + batch + suffix
    end = first + room

    def likely(at: int) -> bool:
        head = data[at : at + kafka_format.BATCH_OVERHEAD]
        if len(head) < kafka_format.LOG_OVERHEAD + kafka_format.MIN_LENGTH_V0:
            return False
        offset, length, magic = *struct.unpack_from(">qi", head), head[kafka_format.MAGIC_AT]
        least = {0: kafka_format.MIN_LENGTH_V0, 1: kafka_format.MIN_LENGTH_V1}.get(magic, kafka_format.MIN_BATCH_LENGTH)
        if magic > kafka_format.LARGEST_MAGIC or length < least:
            return False
        if magic != kafka_format.MAGIC_V2:
            return first <= offset < end
        if len(head) < kafka_format.BATCH_OVERHEAD:
            return False
        _, _, _, _, _, attributes, delta, *_, count = kafka_format.BATCH_HEADER.unpack(head)
        return first <= offset and delta >= 0 and offset + delta < end and 0 <= attributes < 0x80 and count >= 0

    wanted = next((at for at in range(len(data)) if likely(at)), -1)
    assert batch_headers.find_batch(array(data), 0, len(data), first, end) == wanted
    if first <= base and base + 2 < end:
        assert 0 <= wanted <= len(prefix)


# --- records ---------------------------------------------------------------------------------------------------------

field = st.none() | st.binary(max_size=20)
rec_headers = st.lists(st.tuples(st.binary(max_size=4), field), max_size=3).map(tuple)


@st.composite
def records(draw: st.DrawFn) -> list[Rec]:
    """Records with growing, gapped offsets and any 64-bit timestamps."""
    deltas = sorted(draw(st.sets(st.integers(0, 300), max_size=8)))
    timestamps = st.integers(-1, 2**40) | st.integers(-(2**63), 2**63 - 1)
    return [Rec(delta, draw(timestamps), draw(field), draw(field), draw(rec_headers)) for delta in deltas]


def decode(batches: list[bytes], rows: int, most_bytes: int) -> tuple[list[tuple[object, ...]], int]:
    """(offset, timestamp, key, value, headers) of every record, by calls of at most `rows` rows; and the
    last status."""
    source = array(b"".join(batches))
    table, count, _ = walk(source.tobytes(), max(len(batches), 1))
    table = np.ascontiguousarray(table[:, :count])
    payloads = np.stack(
        (
            table[batch_headers.POSITION] + kafka_format.BATCH_OVERHEAD,
            table[batch_headers.POSITION] + table[batch_headers.SIZE],
        )
    )
    bounds = np.array([0, 2**63 - 1, -(2**63), 2**63 - 1], np.int64)
    cursor, report = np.zeros(4, np.int64), np.zeros(record_batches.REPORT, np.int64)
    found: list[tuple[object, ...]] = []
    while True:
        longs = np.full((record_batches.LONGS, rows + 1), GUARD, np.int64)
        ints = np.full((record_batches.INTS, rows + 1), GUARD, np.int32)
        limits = np.array([rows, most_bytes, 2**31], np.int64)
        n = record_batches.decode_records(source, table, payloads, bounds, limits, cursor, longs, ints, report)
        assert n <= rows and (longs[:, n:] == GUARD).all() and (ints[:, n:] == GUARD).all()
        found += [_parts(source, longs[:, i], ints[:, i]) for i in range(n)]
        lengths = ints[[record_batches.KEY_LENGTH, record_batches.VALUE_LENGTH], :n].clip(min=0)
        if report[record_batches.STATUS] in (record_batches.DONE, record_batches.FULL):
            sizes = report[[record_batches.KEY_BYTES, record_batches.VALUE_BYTES]]
            assert sizes.tolist() == lengths.sum(axis=1).tolist()
        if report[record_batches.STATUS] != record_batches.FULL:
            return found, int(report[record_batches.STATUS])


def _parts(source: np.ndarray, longs: np.ndarray, ints: np.ndarray) -> tuple[object, ...]:
    def sliced(at: int, length: int) -> bytes | None:
        return None if length < 0 else source[at : at + length].tobytes()

    count = int(ints[record_batches.HEADERS_COUNT])
    parts, sizes = np.zeros((4, count), np.int32), np.zeros(2, np.int64)
    headers_at = ints[record_batches.HEADERS_AT : record_batches.HEADERS_AT + 1]
    arrow_buffers.locate_headers(source, headers_at, np.array([count], np.int32), 1, parts, sizes)
    assert sizes.tolist() == [parts[row].clip(min=0).sum() for row in (1, 3)]
    pairs = [(sliced(parts[0, i], parts[1, i]), sliced(parts[2, i], parts[3, i])) for i in range(count)]
    key, value = (
        sliced(ints[record_batches.KEY_AT], ints[record_batches.KEY_LENGTH]),
        sliced(ints[record_batches.VALUE_AT], ints[record_batches.VALUE_LENGTH]),
    )
    return int(longs[record_batches.OFFSET]), int(longs[record_batches.TIMESTAMP]), key, value, pairs


@given(
    groups=st.lists(records(), max_size=4),
    append_time=st.booleans(),
    base_timestamp=st.none() | st.integers(-1, 2**62),
    rows=st.integers(1, 6),
    most_bytes=st.sampled_from([1, 20, 10**6]),
)
def test_records_in_any_portions(
    groups: list[list[Rec]], append_time: bool, base_timestamp: int | None, rows: int, most_bytes: int
) -> None:
    """However small the portions, the kernel gives the naive decoder's records, and nothing beyond its
    arrays is written."""
    batches = [
        writer.record_batch(
            group, base_offset=1000 * n, timestamp_type=int(append_time), base_timestamp=base_timestamp, max_timestamp=9
        )
        for n, group in enumerate(groups)
    ]
    wanted = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in naive.decode_log(b"".join(batches))]

    assert decode(batches, rows, most_bytes) == (wanted, record_batches.DONE)


@given(body=st.binary(max_size=60), count=st.integers(1, 4), last=st.integers(0, 4), rows=st.integers(1, 3))
def test_any_record_bytes(body: bytes, count: int, last: int, rows: int) -> None:
    """Random record bytes give the naive decoder's records, or a status where it fails or offsets do not grow."""
    _agree(writer.record_batch_of(body, count=count, last_offset_delta=last), rows)


@given(group=records().filter(bool), at=st.integers(0, 10**6), byte=st.integers(0, 255), rows=st.integers(1, 3))
def test_a_changed_record_byte(group: list[Rec], at: int, byte: int, rows: int) -> None:
    """A changed byte among the records gives the naive decoder's records, or a status where it fails."""
    batch = bytearray(writer.record_batch(group))
    batch[61 + at % (len(batch) - 61)] = byte
    _agree(writer.with_right_crc(bytes(batch)), rows)


def _agree(batch: bytes, rows: int) -> None:
    found, status = decode([batch], rows, 10**6)
    assert 0 <= status <= record_batches.BAD_OFFSET_DELTA and status != record_batches.FULL
    try:
        wanted = naive.decode_batch(batch)
    except naive.NaiveError:
        assert status != record_batches.DONE
        return
    offsets = [r.offset for r in wanted.records]
    grow = offsets == sorted(set(offsets)) and all(0 <= offset <= wanted.last_offset for offset in offsets)
    if status == record_batches.DONE:
        assert grow and found == [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in wanted.records]
    else:  # stricter than Java in two points only: the order of offsets, and varints with bits above the 32nd
        assert not grow or status in (record_batches.BAD_VARINT,)


# --- columns ---------------------------------------------------------------------------------------------------------


@given(counts=st.lists(st.integers(-1, 5), max_size=40))
def test_offsets_and_validity(counts: list[int]) -> None:
    """Arrow offsets add up the counts, and the bitmap has a bit for each list that is not empty."""
    n = len(counts)
    offsets, validity = np.full(n + 2, GUARD, np.int32), np.zeros((n + 7) // 8, np.uint8)
    nulls = arrow_buffers.offsets_and_validity(np.array([*counts, 99], np.int32), n, offsets, validity)

    there = [count > 0 for count in counts]
    sums = np.cumsum([0] + [max(count, 0) for count in counts])
    assert nulls == n - sum(there)
    assert offsets.tolist() == [*sums.tolist(), GUARD]
    assert np.unpackbits(validity, bitorder="little")[:n].tolist() == [int(ok) for ok in there]


@given(pieces=st.lists(st.tuples(st.integers(0, 30), st.integers(-2, 9)), max_size=40))
def test_copy_parts(pieces: list[tuple[int, int]]) -> None:
    """The parts lie side by side with their offsets, a negative length is a null, and nothing else is written."""
    n = len(pieces)
    source = np.arange(40, dtype=np.uint8)
    starts, lengths = (np.array([*column, 0], np.int32) for column in zip(*pieces, (0, 9), strict=True))
    size = sum(max(length, 0) for _, length in pieces)
    offsets, validity = np.full(n + 2, GUARD, np.int32), np.zeros((n + 7) // 8, np.uint8)
    data = np.full(size + 8, GUARD, np.uint8)
    nulls = arrow_buffers.copy_parts(source, starts, lengths, n, offsets, validity, data)

    assert nulls == sum(length < 0 for _, length in pieces)
    assert offsets.tolist() == [*np.cumsum([0] + [max(length, 0) for _, length in pieces]).tolist(), GUARD]
    bits = [int(length >= 0 and nulls > 0) for _, length in pieces]  # without a null, there is no bitmap
    assert np.unpackbits(validity, bitorder="little")[:n].tolist() == bits
    wanted = b"".join(source[start : start + max(length, 0)].tobytes() for start, length in pieces)
    assert data.tobytes() == wanted + bytes([GUARD]) * 8


@given(millis=st.lists(st.integers(-12, 12), max_size=20), most=st.integers(0, 12))
def test_to_microseconds(millis: list[int], most: int) -> None:
    """It multiplies up to the first value whose microseconds would be too large, and says where that is."""
    n = len(millis)
    micros = np.full(n + 1, GUARD, np.int64)
    at = arrow_buffers.to_microseconds(np.array([*millis, 99], np.int64), n, most, micros)

    wanted = next((i for i, value in enumerate(millis) if abs(value) > most), n)
    assert at == wanted and micros.tolist() == [1000 * value for value in millis[:at]] + [GUARD] * (n + 1 - at)
