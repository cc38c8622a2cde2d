"""view=latest against a dictionary: over the rows of a naive consumer, and over those of the same read as records.

Logs have few keys in many records, keys that are null or empty, tombstones, transactions of two producers, several
segments, compacted ones, and damage. The map is so small at times that there are several passes.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding import records as records_module
from kafka_segment_source.decoding.records import RecordColumns
from kafka_segment_source.errors import DataError, KafkaSegmentError, OptionError
from kafka_segment_source.kernels import batch_headers, offset_map, record_batches
from kafka_segment_source.latest.hashed_keys import Hashed, hash_records, make_states, read_hashes
from kafka_segment_source.latest.offset_map import BYTES_A_KEY, OffsetMap, _sort
from tests.support import naive, writer
from tests.support.logs import GeneratedLog
from tests.support.strategies import Bounds, logs_and_bounds, options_of, partition_logs

MANY = settings(max_examples=settings().max_examples * 4)
START = 1_770_000_000_000  # ms
SECRET = np.array([0x0123456789ABCDEF, 42], np.uint64)
CODECS: tuple[writer.Codec, ...] = ("none", "none", "zstd", "lz4", "snappy-xerial")
Found = tuple[int, bytes | None, bytes | None, int]  # offset, key, value, timestamp


def make_log(seed: int, keys: int, compacts: bool) -> list[tuple[int, bytes]]:
    """Segments of a random log: base offset and bytes. The last transactions may stay open."""
    chance = random.Random(seed)
    names: list[bytes | None] = [f"key-{n}".encode() for n in range(keys)] + [None, b"", b"\xff\x00"]
    segments: list[tuple[int, bytes]] = []
    offset, parts, base = 0, b"", 0
    open_ones: set[int] = set()
    for _ in range(chance.randrange(1, 60)):
        producer = chance.choice([-1, -1, 7, 8])
        if producer in open_ones and chance.random() < 0.4:
            marker: writer.Marker = chance.choice(["commit", "abort"])
            parts += writer.control_batch(marker, offset=offset, producer_id=producer, timestamp=START + offset)
            open_ones.discard(producer)
            offset += 1
        else:
            count = chance.randrange(1, 8)
            # a cleaner takes nothing from a transaction that may be open
            kept = [n for n in range(count) if producer != -1 or not compacts or chance.random() < 0.7]
            records = [
                writer.Rec(
                    n,
                    START + offset + n - chance.choice([0, 0, 0, 5]),
                    chance.choice(names),
                    chance.choice([None, b"", b"value %d" % (offset + n)]),
                    ((b"h", b"1"),) if chance.random() < 0.1 else (),
                )
                for n in kept
            ]
            transactional = producer != -1
            open_ones |= {producer} if transactional else set()
            parts += writer.record_batch(
                records,
                base_offset=offset,
                codec=chance.choice(CODECS),
                producer_id=producer,
                producer_epoch=0 if transactional else -1,
                transactional=transactional,
                last_offset_delta=count - 1,
                base_timestamp=START + offset,
            )
            offset += count
        if chance.random() < 0.2:
            segments.append((base, parts))
            parts, base = b"", offset
    return [*segments, (base, parts)] if parts or not segments else segments


def write_log(folder: Path, segments: Iterable[tuple[int, bytes]]) -> Path:
    path = folder / "orders-0"
    path.mkdir()
    for base, data in segments:
        (path / writer.segment_name(base)).write_bytes(data)
    return path


def newest_of(rows: Iterable[Found], with_tombstones: bool) -> list[Found]:
    """The answer, from a consumer's rows in the order of their offsets."""
    latest = {row[1]: row for row in rows if row[1] is not None}
    return sorted(row for row in latest.values() if with_tombstones or row[2] is not None)


def read(path: Path, **options: Any) -> list[Found]:
    table = kafkaseg.scan(path, columns=["offset", "key", "value", "timestamp"], **options).read_all()
    micros = table["timestamp"].cast(pa.int64()).to_pylist()
    columns = [table[name].to_pylist() for name in ("offset", "key", "value")]
    return list(zip(*columns, [each // 1000 for each in micros], strict=True))


asked = st.fixed_dictionaries(
    {},
    optional={
        "isolationLevel": st.sampled_from(["read_committed", "read_uncommitted"]),
        "since": st.integers(START, START + 120),
        "until": st.integers(START + 120, START + 240),
        "endingOffsets": st.integers(0, 200).map(lambda offset: {"orders": {"0": offset}}),
        "startingOffsets": st.integers(0, 100).map(lambda offset: {"orders": {"0": offset}}),
        "timestampDisorder": st.just("5ms"),
        "trustIndexes": st.booleans(),
        "key": st.lists(st.sampled_from([b"key-0", b"key-2", b"", b"nobody"]), min_size=1, max_size=3),
    },
)


@MANY
@given(
    seed=st.integers(0, 2**32),
    keys=st.sampled_from([1, 3, 40, 90]),
    compacts=st.booleans(),
    options=asked,
    tombstones=st.booleans(),
    small=st.booleans(),
)
def test_latest_is_the_last_of_each_key(
    seed: int, keys: int, compacts: bool, options: dict[str, Any], tombstones: bool, small: bool
) -> None:
    """Whatever the selection, the isolation level and the size of the map."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_log(Path(folder), make_log(seed, keys, compacts))
        asks = options | {"failOnDataLoss": False}
        if {"startingOffsets", "endingOffsets"} <= asks.keys():
            del asks["startingOffsets"]
        extra = {"offsetMapBytes": 1} if small else {}
        found = read(path, view="latest", includeTombstones=tombstones, **asks, **extra)
        expected = newest_of(read(path, **asks), tombstones)
        assert sorted(found) == expected
        if not small:
            assert found == expected
        elif len(expected) > 16:
            event("several passes")


@given(seed=st.integers(0, 2**32), committed=st.booleans(), compacts=st.booleans())
def test_latest_of_a_consumers_rows(seed: int, committed: bool, compacts: bool) -> None:
    """Against the naive reader, which shares no code."""
    with tempfile.TemporaryDirectory() as folder:
        segments = make_log(seed, 12, compacts)
        path = write_log(Path(folder), segments)
        records = [record for _, data in segments for record in naive.decode_log(data)]
        seen = naive.committed(records) if committed else records
        rows = [(r.offset, r.key, r.value, r.timestamp) for r in seen if not r.is_control]
        level = "read_committed" if committed else "read_uncommitted"
        assert read(path, view="latest", isolationLevel=level) == newest_of(rows, False)


@given(seed=st.integers(0, 2**32), at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_latest_of_a_damaged_log(seed: int, at: float, bit: int) -> None:
    """A flipped bit is the error of a read of records; or it is left out in both, and said."""
    with tempfile.TemporaryDirectory() as folder:
        segments = make_log(seed, 6, False)
        data = bytearray(segments[-1][1])
        if not data:
            return
        data[int(at * len(data))] ^= 1 << bit
        path = write_log(Path(folder), [*segments[:-1], (segments[-1][0], bytes(data))])
        try:
            rows = read(path)
        except (DataError, kafkaseg.DataLossError) as error:
            with pytest.raises(type(error)):
                read(path, view="latest")
        else:
            assert read(path, view="latest") == newest_of(rows, False)
        try:
            rows = read(path, mode="DROPMALFORMED", failOnDataLoss=False)
        except DataError:
            return
        lenient = read(path, mode="DROPMALFORMED", failOnDataLoss=False, view="latest", includeTombstones=True)
        assert lenient == newest_of(rows, True)


# ---- the map ----


def siphash(data: bytes, key: tuple[int, int], rounds: tuple[int, int] = (1, 3)) -> tuple[int, int]:
    """SipHash with 128 bits, from its description."""
    mask = 2**64 - 1

    def rotate(x: int, by: int) -> int:
        return (x << by | x >> (64 - by)) & mask

    def mix(v: list[int], times: int) -> None:
        for _ in range(times):
            v[0] = (v[0] + v[1]) & mask
            v[1] = rotate(v[1], 13) ^ v[0]
            v[0] = rotate(v[0], 32)
            v[2] = (v[2] + v[3]) & mask
            v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & mask
            v[3] = rotate(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & mask
            v[1] = rotate(v[1], 17) ^ v[2]
            v[2] = rotate(v[2], 32)

    v = [key[0] ^ 0x736F6D6570736575, key[1] ^ 0x646F72616E646F6D ^ 0xEE]
    v += [key[0] ^ 0x6C7967656E657261, key[1] ^ 0x7465646279746573]
    whole = data + bytes(7 - len(data) % 8) + bytes([len(data) & 255])
    for place in range(0, len(whole), 8):
        word = int.from_bytes(whole[place : place + 8], "little")
        v[3] ^= word
        mix(v, rounds[0])
        v[0] ^= word
    v[2] ^= 0xEE
    mix(v, rounds[1])
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    mix(v, rounds[1])
    return low, v[0] ^ v[1] ^ v[2] ^ v[3]


def records_of(rows: Sequence[tuple[int, bytes | None, bool]]) -> RecordColumns:
    """Records of these offsets and keys, as the kernels find them. Each value is null or one byte."""
    longs = np.zeros((record_batches.LONGS, len(rows)), np.int64)
    ints = np.zeros((record_batches.INTS, len(rows)), np.int32)
    source = b""
    for n, (offset, key, is_tombstone) in enumerate(rows):
        longs[record_batches.OFFSET, n] = offset
        ints[record_batches.KEY_AT, n] = len(source)
        ints[record_batches.KEY_LENGTH, n] = -1 if key is None else len(key)
        ints[record_batches.VALUE_LENGTH, n] = -1 if is_tombstone else 1
        source += key or b""
    data = np.frombuffer(bytearray(source or b"\0"), np.uint8)
    return RecordColumns(len(rows), data, np.zeros((batch_headers.FIELDS, 0), np.int64), longs, ints, 0, 0)


def hashed(rows: Sequence[tuple[int, bytes | None, bool]]) -> Hashed:
    return read_hashes(hash_records(records_of(rows), SECRET, make_states()))


def as_stream(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def test_the_description_is_that_of_siphash() -> None:
    """A published value of SipHash-2-4 with 128 bits, of no bytes under the key 00 01 … 0f (the authors' vectors)."""
    key = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
    found = b"".join(part.to_bytes(8, "little") for part in siphash(b"", key, (2, 4)))
    assert found.hex() == "a3817f04ba25a8e66df67214c7550293"


@given(
    keys=st.lists(st.none() | st.binary(max_size=40), min_size=1, max_size=20),
    secret=st.tuples(*[st.integers(0, 2**64 - 1)] * 2),
    at_once=st.integers(1, 24),
)
def test_the_kernels_hash(keys: Sequence[bytes | None], secret: tuple[int, int], at_once: int) -> None:
    """Is that of the description, whatever the length. A null key has none."""
    rows = [(7 + n, key, n % 3 == 0) for n, key in enumerate(keys)]
    records, size = records_of(rows), len(rows)
    states, (low, high, newest) = np.empty((4, at_once), np.uint64), np.empty((3, size), np.uint64)
    with np.errstate(over="ignore"):
        into = (np.array(secret, np.uint64), states, low, high, newest)
        count = offset_map.hash_records(records.source, records.longs, records.ints, size, *into)
    found = zip(*(words[:count].tolist() for words in (low, high, newest)), strict=True)
    keyed = [row for row in rows if row[1] is not None]
    assert [*found] == [(*siphash(key, secret), offset | dead << 63) for offset, key, dead in keyed]


@given(
    keys=st.lists(st.none() | st.sampled_from([b"a", b"b", b""]), min_size=1, max_size=9),
    way=st.sampled_from(["as they are", "behind others", "of another process"]),
)
def test_hashes_as_rows(keys: Sequence[bytes | None], way: str) -> None:
    """Those of records with a key come back in order, and the others are counted, wherever the memory comes from."""
    rows = [(7 + n, key, n % 3 == 0) for n, key in enumerate(keys)]
    batch = hash_records(records_of(rows), SECRET, make_states())
    if way != "as they are":
        batch = pa.concat_batches([hash_records(records_of([(1, b"c", False)]), SECRET, make_states()), batch]).slice(1)
    if way == "of another process":
        [batch] = pa.ipc.open_stream(as_stream(batch)).read_all().to_batches()
    found = read_hashes(batch)
    keyed = [row for row in rows if row[1] is not None]
    secret = tuple(SECRET.tolist())
    assert found.newest.tolist() == [offset | dead << 63 for offset, _, dead in keyed]
    assert [*zip(found.low.tolist(), found.high.tolist(), strict=True)] == [siphash(key, secret) for _, key, _ in keyed]
    assert found.without_key == len(rows) - len(keyed)
    assert all(words.flags.writeable for words in (found.low, found.high, found.newest))


@given(offsets=st.sets(st.integers(0, 60) | st.integers(0, 2**63 - 2)), is_dense=st.booleans())
def test_newest_offsets_are_sorted(offsets: set[int], is_dense: bool) -> None:
    """Whether they lie close or not."""
    some = [offset % 128 for offset in offsets] if is_dense else [*offsets]
    assert _sort(np.array([*set(some)], np.int64)).tolist() == sorted(set(some))


@given(
    pair=logs_and_bounds(partition_logs(magics=(0, 1, 2), log_damage=True)),
    small=st.booleans(),
    limit=st.sampled_from([1, 3, 65_536]),
)
def test_latest_of_old_formats(pair: tuple[GeneratedLog, Bounds], small: bool, limit: int) -> None:
    """Message sets beside batches, whole and damaged, a few records at a time: against a dictionary over the read."""
    log, asked = pair
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(records_module, "MAX_ROWS", limit):
        path = log.write(Path(folder))
        options = options_of(asked) | {"mode": "DROPMALFORMED", "failOnDataLoss": False}
        try:
            rows = read(path, **options)
        except KafkaSegmentError as error:
            with pytest.raises(type(error)):
                read(path, view="latest", **options)
            return
        extra = {"offsetMapBytes": 1} if small else {}
        assert sorted(read(path, view="latest", **options, **extra)) == newest_of(rows, False)


@given(
    gaps=st.lists(st.integers(1, 4), max_size=30),
    wanted=st.sets(st.integers(0, 60)).map(sorted),
)
def test_records_with_a_wanted_offset(gaps: list[int], wanted: list[int]) -> None:
    """Stay, in order, with the bytes of their keys and values; the others do not."""
    offsets = np.cumsum(gaps).tolist()
    records, sizes = records_of([(at, b"k" * (at % 5), at % 2 == 0) for at in offsets]), np.ones(2, np.int64)
    kept = [at for at in offsets if at in wanted]
    before = sum(at < min(offsets, default=0) for at in wanted)
    arrays = (np.array(wanted, np.int64), before, records.longs, records.ints, len(offsets), sizes)
    assert offset_map.keep_offsets(*arrays) == len(kept)
    assert records.longs[record_batches.OFFSET, : len(kept)].tolist() == kept
    assert records.ints[record_batches.KEY_LENGTH, : len(kept)].tolist() == [at % 5 for at in kept]
    assert sizes.tolist() == [sum(at % 5 for at in kept), sum(at % 2 for at in kept)]


@given(
    numbers=st.lists(st.integers(0, 60), max_size=300), most=st.sampled_from([1, 40 * 20, 40 * 50, 2**20]), at=st.data()
)
def test_the_map_against_a_dictionary(numbers: list[int], most: int, at: st.DataObject) -> None:
    """Each key comes once, whatever fits, and in whatever order its records are noted."""
    known: dict[int, tuple[int, bool]] = {}
    for offset, number in enumerate(numbers):
        known[number] = (offset, offset % 3 == 0)
    rows = list(enumerate(numbers))
    if at.draw(st.booleans()):
        rows.reverse()
    the_map, found = OffsetMap(most), []
    while the_map.has_more:
        for place in range(0, len(rows), 64):
            some = rows[place : place + 64]
            keyed = [(offset, b"%d" % number, offset % 3 == 0) for offset, number in some]
            the_map.note(hashed(keyed))
        newest = the_map.take_newest(with_tombstones=False).tolist()
        assert newest == sorted(newest)
        found += newest
    assert sorted(found) == sorted(offset for offset, is_tombstone in known.values() if not is_tombstone)


@pytest.mark.parametrize("at_once", [1, 4])
def test_keys_are_told_apart_by_the_whole_hash(at_once: int) -> None:
    """Two keys whose hashes have the same slot and the same tag, but not the same bits elsewhere."""
    hashes = np.array([[5, 5 + (1 << 40), 5, 5], [9, 9, 9 + (1 << 40), 9]], np.uint64)
    entries, slots = np.empty((8, offset_map.ENTRY), np.uint64), np.zeros(16, np.int64)
    state = np.zeros(offset_map.STATE, np.int64)
    state[offset_map.LAST_SLICE] = offset_map.SLICES - 1
    newest, guesses = np.arange(4, dtype=np.uint64), np.empty(at_once, np.int64)
    assert offset_map.note_records(*hashes, newest, 4, slots, entries, guesses, state) == offset_map.DONE
    assert entries[: state[offset_map.COUNT], offset_map.NEWEST].tolist() == [3, 1, 2]


@given(buckets=st.lists(st.integers(0, 7) | st.sampled_from([6, 7]), max_size=22), room=st.sampled_from([1, 4, 64]))
def test_slots_that_grow(buckets: list[int], room: int) -> None:
    """Each key is found after it, also one that lies before its bucket: behind the end of the slots comes the first."""
    count, half = len(buckets), 32
    highs = np.array([(bucket * 8) | number << 6 for number, bucket in enumerate(buckets)], np.uint64)
    entries = np.zeros((half, offset_map.ENTRY), np.uint64)
    entries[:count, offset_map.HIGH_HASH] = highs
    slots, aside = np.zeros(2 * half, np.int64), np.empty(room, np.int64)
    offset_map.fill_slots(slots[:half], entries, count)
    before = int(np.argmin(slots[:half] != 0))
    assert offset_map.spread_slots(slots, aside) == (before <= room)
    if before > room:
        return
    state = np.zeros(offset_map.STATE, np.int64)
    state[[offset_map.LAST_SLICE, offset_map.COUNT]] = offset_map.SLICES - 1, count
    arrays = (slots, entries, np.empty(8, np.int64), state)
    newest = np.arange(1, count + 1, dtype=np.uint64)
    assert offset_map.note_records(np.zeros(count, np.uint64), highs, newest, count, *arrays) == offset_map.DONE
    assert state[offset_map.COUNT] == count
    assert np.count_nonzero(slots) == count
    assert entries[:count, offset_map.NEWEST].tolist() == newest.tolist()


@given(
    bits=st.sampled_from([0, 0x38, 0x7FF00000, 0x7FFFFFFF]),
    most=st.sampled_from([713, 714, 715, 1_428, 1_429, 5_000]),
    count=st.integers(700, 3_000) | st.sampled_from([713, 714, 715, 1_428, 1_429]),
    at_once=st.sampled_from([100, 5_000]),
    seed=st.integers(0, 9),
)
def test_the_map_grows(bits: int, most: int, count: int, at_once: int, seed: int) -> None:
    """Up to its limit, beside it, and past it, also where few bits of the hashes differ that choose the slot and its
    tag. Slots that grow wrongly may be searched without an end, so the test before this one looks at them alone."""
    chance = random.Random(seed)
    highs = [(number << 44) | chance.getrandbits(31) & bits for number in chance.sample(range(2**20), count)]
    newest = chance.sample(range(1, 2 * count), count)
    records = [*enumerate(newest), *((key, 0) for key in range(count))]
    chance.shuffle(records)
    the_map, found, passes = OffsetMap(most * BYTES_A_KEY), [], 0
    while the_map.has_more:
        passes += 1
        for at in range(0, len(records), at_once):
            some = records[at : at + at_once]
            words = ([key for key, _ in some], [highs[key] for key, _ in some], [offset for _, offset in some])
            the_map.note(Hashed(*(np.array(word, np.uint64) for word in words), without_key=0))
        found += the_map.take_newest(with_tombstones=True).tolist()
    assert sorted(found) == sorted(newest)
    assert (passes == 1) == (count <= most)


# ---- what the user is told ----


def test_keys_that_are_null_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They are in no row: a compacted topic has none."""
    records = [writer.Rec(n, START, key, b"v") for n, key in enumerate([b"a", None, b"a", None])]
    path = write_log(tmp_path, [(0, writer.record_batch(records))])
    assert [row[0] for row in read(path, view="latest")] == [2]
    assert "orders-0 has 2 records without a key" in caplog.text


def test_one_key_alone_is_noted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With the option `key`, the newest records of other keys are not missed: nothing is lost, and nothing is said."""
    batches = [[b"a", b"b"], [b"b", b"c"], [b"a", None]]
    parts = b"".join(
        writer.record_batch([writer.Rec(n, START, key, b"v") for n, key in enumerate(keys)], base_offset=2 * at)
        for at, keys in enumerate(batches)
    )
    path = write_log(tmp_path, [(0, parts)])
    assert [row[:2] for row in read(path, view="latest", key="b")] == [(2, b"b")]
    assert read(path, view="latest", key="nobody") == []
    assert not caplog.records


def test_a_newest_record_that_goes_between_the_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Is an error, or a warning under failOnDataLoss=false: a file was replaced by one without two of the records."""

    def batch(*names: bytes | None) -> bytes:
        records = [writer.Rec(n, START, name, b"v") for n, name in enumerate(names) if name is not None]
        return writer.record_batch(records, last_offset_delta=len(names) - 1)

    path = write_log(tmp_path, [(0, b"")])
    log = path / writer.segment_name(0)
    find_newest = OffsetMap.take_newest

    def replace_then_find(found: OffsetMap, with_tombstones: bool) -> Any:
        (tmp_path / "cleaned").write_bytes(batch(None, b"b", None, b"d"))
        (tmp_path / "cleaned").replace(log)
        return find_newest(found, with_tombstones)

    monkeypatch.setattr(OffsetMap, "take_newest", replace_then_find)
    log.write_bytes(batch(b"a", b"b", b"c", b"d"))
    with pytest.raises(kafkaseg.DataLossError, match="2 of the newest records of orders-0 were there"):
        read(path, view="latest")
    log.write_bytes(batch(b"a", b"b", b"c", b"d"))
    assert [row[0] for row in read(path, view="latest", failOnDataLoss=False)] == [1, 3]
    assert "2 of the newest records of orders-0 were there" in caplog.text


def test_options_of_other_views_are_refused(tmp_path: Path) -> None:
    """And the two of view=latest elsewhere."""
    path = write_log(tmp_path, [(0, writer.record_batch([writer.Rec(0, START, b"k", b"v")]))])
    for options in ({"view": "latest", "includeControl": True}, {"includeTombstones": True}, {"offsetMapBytes": 1}):
        with pytest.raises(OptionError, match="is not for view="):
            read(path, **options)
