"""The oracle itself: writer and naive decoder agree, and generated logs keep what the format promises."""

from __future__ import annotations

import contextlib
import struct
import zlib
from pathlib import Path
from typing import Any

import lz4.frame
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import naive, writer
from tests.support.batches import control, data, empty
from tests.support.index_writers import Append, IndexWriter, index_entries
from tests.support.logs import GeneratedLog, Segment, disorder, expected_rows, lay_out, simple_log, simple_segment
from tests.support.strategies import Bounds, logs_and_bounds, partition_logs
from tests.support.writer import Codec, Rec

CODECS: list[Codec] = ["none", "gzip", "snappy-raw", "snappy-xerial", "lz4", "zstd"]
LEGACY_CODECS = CODECS[:-1]

small_bytes = st.one_of(st.none(), st.binary(max_size=40))
headers = st.lists(st.tuples(st.binary(max_size=5), small_bytes), max_size=3).map(tuple)


@st.composite
def rec_lists(draw: st.DrawFn, min_size: int = 1, with_headers: bool = True) -> list[Rec]:
    """Records with rising, gapped offsets and any 64-bit timestamps."""
    deltas = sorted(draw(st.sets(st.integers(0, 200), min_size=min_size, max_size=6)))
    timestamps = st.integers(-1, 2**40) | st.integers(-(2**63), 2**63 - 1)
    return [
        Rec(delta, draw(timestamps), draw(small_bytes), draw(small_bytes), draw(headers) if with_headers else ())
        for delta in deltas
    ]


def seen(records: list[naive.Record]) -> list[tuple[Any, ...]]:
    """What of a record the round trips compare."""
    return [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records]


def wanted(records: list[Rec], base_offset: int, timestamp: int | None = None) -> list[tuple[Any, ...]]:
    """What `seen` should give."""
    return [
        (base_offset + r.offset_delta, r.timestamp if timestamp is None else timestamp, r.key, r.value, list(r.headers))
        for r in records
    ]


@settings(max_examples=15, deadline=None)
@given(records=rec_lists(min_size=0), base=st.integers(0, 2**40), base_timestamp=st.none() | st.integers(-1, 2**62))
@pytest.mark.parametrize("codec", CODECS)
def test_v2_round_trip(codec: Codec, records: list[Rec], base: int, base_timestamp: int | None) -> None:
    """A v2 batch of any codec, gaps and base timestamp gives its records back."""
    data = writer.record_batch(records, base_offset=base, codec=codec, base_timestamp=base_timestamp)

    assert wanted(records, base) == seen(naive.decode_log(data))


def test_v2_batch_fields() -> None:
    """Batch facts reach every record, and the sequence wraps from 2^31-1 to 0."""
    recs = [Rec(0, 5, b"a", b"b"), Rec(7, 4, None, None, ((b"h", None), (b"h", b"")))]
    data = writer.record_batch(
        recs,
        base_offset=100,
        timestamp_type=1,
        max_timestamp=77,
        leader_epoch=3,
        producer_id=9,
        producer_epoch=2,
        base_sequence=2**31 - 2,
        transactional=True,
        last_offset_delta=9,
    )
    first, last = naive.decode_log(data)
    (batch,) = naive.decode_batches(data)

    assert (batch.base_offset, batch.last_offset, batch.max_timestamp, batch.is_control) == (100, 109, 77, False)
    assert naive.Record(100, 77, 1, b"a", b"b", [], 100, 0, 2, "none", 3, 9, 2, 2**31 - 2, True, False) == first
    assert (last.offset, last.sequence, last.headers) == (107, 5, [(b"h", None), (b"h", b"")])


def test_control_batch() -> None:
    """A marker is one transactional control record with version and type in its key."""
    data = writer.control_batch("commit", offset=4, timestamp=8, producer_id=6, producer_epoch=1)
    (marker,) = naive.decode_log(data)

    assert (
        marker.offset,
        marker.timestamp,
        marker.key,
        marker.is_control,
        marker.is_transactional,
    ) == (4, 8, b"\x00\x00\x00\x01", True, True)


@settings(max_examples=15, deadline=None)
@given(records=rec_lists(with_headers=False), base=st.integers(0, 2**40))
@pytest.mark.parametrize("old_lz4_checksum", [True, False])
@pytest.mark.parametrize("codec", LEGACY_CODECS)
def test_v0_round_trip(codec: Codec, old_lz4_checksum: bool, records: list[Rec], base: int) -> None:
    """A v0 set, plain or wrapped, gives its records back without timestamps, whatever lz4 header checksum it has."""
    data = writer.message_set_v0(records, base_offset=base, codec=codec, old_lz4_checksum=old_lz4_checksum)
    decoded = naive.decode_log(data)

    assert wanted(records, base, timestamp=-1) == seen(decoded)
    assert {-1} == {record.timestamp_type for record in decoded}


@settings(max_examples=15, deadline=None)
@given(
    records=rec_lists(with_headers=False),
    base=st.integers(0, 2**40),
    inner=st.sampled_from(["relative", "absolute"]),
    append_time=st.none() | st.integers(0, 2**41),
)
@pytest.mark.parametrize("codec", LEGACY_CODECS)
def test_v1_round_trip(codec: Codec, records: list[Rec], base: int, inner: Any, append_time: int | None) -> None:
    """A v1 set, plain or wrapped, relative or absolute inside, gives its records back under either timestamp type."""
    data = writer.message_set_v1(
        records,
        base_offset=base,
        codec=codec,
        timestamp_type=0 if append_time is None else 1,
        inner_offsets=inner,
        wrapper_timestamp=append_time,
    )
    decoded = naive.decode_log(data)

    assert wanted(records, base, append_time) == seen(decoded)
    assert {0 if append_time is None else 1} == {record.timestamp_type for record in decoded}


def test_mixed_wrapper_magic() -> None:
    """The wrapper's magic decides on relative offsets, the inner one on timestamps (KAFKA-4298)."""
    recs = [Rec(0, 50, b"a"), Rec(2, 60, b"b")]
    v0_inside = naive.decode_log(writer.message_set_v1(recs, base_offset=10, codec="gzip", inner_magic=0))
    v1_inside = naive.decode_log(writer.message_set_v0(recs, base_offset=10, codec="gzip", inner_magic=1))

    assert [(r.offset, r.timestamp, r.timestamp_type) for r in v0_inside] == [(10, -1, -1), (12, -1, -1)]
    assert [(r.offset, r.timestamp, r.timestamp_type) for r in v1_inside] == [(10, 50, -1), (12, 60, -1)]


def test_librdkafka_wrapper_offset_zero() -> None:
    """A wrapper at offset 0 holds absolute offsets from 0."""
    recs = [Rec(0, 1), Rec(1, 2)]
    data = writer.message_set_v1(recs, codec="lz4", wrapper_offset=0)

    assert [r.offset for r in naive.decode_log(data)] == [0, 1]


def test_wrapper_drops_a_truncated_last_inner_entry() -> None:
    """An inner entry cut off at the end is left out, without an error."""
    whole = writer.message_set_v0([Rec(0, key=b"a"), Rec(1, key=b"b")])
    wrapper = writer.message(0, None, writer.compress("gzip", whole[:-1]), magic=0, codec="gzip")

    assert [r.key for r in naive.decode_log(wrapper)] == [b"a"]


@pytest.mark.parametrize("tail", [b"\x00" * 5, b"\x00" * 500])
def test_tails_end_quietly(tail: bytes) -> None:
    """A torn last batch, at any byte, and a tail of zeros end the log."""
    first = writer.record_batch([Rec(0, 1, b"a", b"b")])
    second = writer.record_batch([Rec(0, 1, b"c", b"d")], base_offset=1)

    assert len(naive.decode_log(first + second + tail)) == 2
    assert {1} == {len(naive.decode_log(first + second[:cut])) for cut in range(len(second))}


def test_damage_is_an_error() -> None:
    """Every flipped bit of a batch that its CRC covers is noticed."""
    batch = writer.record_batch([Rec(0, 1, b"a", b"b")])
    for at in range(21, len(batch)):
        with pytest.raises(naive.NaiveError):
            naive.decode_log(batch[:at] + bytes([batch[at] ^ 1]) + batch[at + 1 :])


def test_garbage_is_an_error_or_an_end() -> None:
    """A tail of garbage raises NaiveError when it has an impossible size."""
    with pytest.raises(naive.NaiveError):
        naive.decode_log(b"\x01" + b"\x00" * 40)


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=200), count=st.integers(0, 3), codec=st.integers(0, 7))
def test_garbage_bodies_raise_only_naive_error(data: bytes, count: int, codec: int) -> None:
    """A v2 batch with any body under a right CRC is decoded or raises NaiveError, nothing else."""
    with contextlib.suppress(naive.NaiveError):
        naive.decode_log(writer.record_batch_of(data, attributes=codec, count=count))


def test_right_and_old_lz4_checksums() -> None:
    """The library refuses the old header checksum, and our xxh32 agrees with the library on the right one."""
    frame = writer.compress("lz4", b"x" * 100)

    assert frame[6] == writer.xxh32_short(frame[4:6]) >> 8 & 0xFF
    with pytest.raises(RuntimeError):
        lz4.frame.get_frame_info(writer.with_old_lz4_checksum(frame))


def test_snappy_framing_of_many_blocks_and_repeated_headers() -> None:
    """Xerial blocks and a header in the middle of a stream decode to one run of bytes."""
    data = bytes(range(256)) * 10
    stream = writer.xerial(data, block=100) + writer.xerial(data, block=700)

    assert data + data == naive.decompress("snappy", stream)


def test_known_bytes() -> None:
    """Fixed bytes, worked out by hand from the field tables, so that writer and decoder cannot err alike."""
    message = bytes.fromhex("01 00 0000000000000005 00000001 61 ffffffff")
    entry = bytes.fromhex("0000000000000007 00000017") + zlib.crc32(message).to_bytes(4, "big") + message

    assert writer.message(7, b"a", None, magic=1, timestamp=5) == entry
    assert writer.varint(-1) == b"\x01" and writer.varint(150) == b"\xac\x02" and writer.varint(-64) == b"\x7f"
    # length 10, attributes, timestamp +1, offset +1, key "a", value null, one header "h" with null
    record = bytes.fromhex("14 00 02 02 02 61 01 02 02 68 01")
    assert record == writer.record(Rec(1, 6, b"a", None, ((b"h", None),)), base_timestamp=5)


def test_index_bytes() -> None:
    """Index entries are relative to the base and padding is zeros."""
    assert bytes.fromhex("00000005 0000001000000000") == writer.offset_index([(15, 16)], base=10, padded_to=12)
    assert bytes.fromhex("00000000000003e8 00000005") == writer.time_index([(1000, 15)], base=10)
    assert writer.segment_name(42) == "00000000000000000042.log"


# --- generated logs --------------------------------------------------------------------------------------------------

ANY_FORMAT = partition_logs(magics=(0, 1, 2), log_damage=True)


@settings(max_examples=100, deadline=None)
@given(log=ANY_FORMAT | partition_logs(far_future=True, index_damage=True, wrong_maximum=True))
def test_generated_logs_decode_to_their_truth(log: GeneratedLog) -> None:
    """What the naive decoder finds in the bytes of every segment is what the generator says is there."""
    for segment in log.segments:
        assert list(segment.records) == naive.decode_log(segment.log)
        found = [(b.position, b.size, b.base_offset, b.last_offset, b.max_timestamp) for b in segment_batches(segment)]
        assert found == [
            (b.position, len(b.data), b.base_offset, b.last_offset, b.max_timestamp) for b in segment.batches
        ]


def segment_batches(segment: Segment) -> list[naive.Batch]:
    """The batches as the naive decoder sees them, so that no fact is taken from the generator."""
    return naive.decode_batches(segment.log)


@settings(max_examples=100, deadline=None)
@given(log=partition_logs(magics=(0, 1, 2), wrong_maximum=True))
def test_offset_index_invariants(log: GeneratedLog) -> None:
    """I1 and I2 of section 4.3 hold for the entries of every writer."""
    for segment in log.segments:
        batches = segment_batches(segment)
        for k, (offset, position) in enumerate(segment.offset_entries):
            assert position in {batch.position for batch in batches[1:]}
            assert all(batch.last_offset < offset for batch in batches if batch.position < position)
            if k + 1 < len(segment.offset_entries):
                following = segment.offset_entries[k + 1][1]
                assert all(batch.base_offset > offset for batch in batches if batch.position >= following)


@settings(max_examples=100, deadline=None)
@given(log=partition_logs(magics=(0, 1, 2), far_future=True))
def test_time_index_guarantee(log: GeneratedLog) -> None:
    """Guarantee G of section 4.4 holds, and timestamps and offsets of the entries rise."""
    for segment in log.segments:
        for timestamp, offset in segment.time_entries:
            assert all(r.timestamp <= timestamp for r in segment.records if r.offset <= offset)
        for (t0, o0), (t1, o1) in zip(segment.time_entries, segment.time_entries[1:], strict=False):
            assert t0 < t1 and o0 < o1


@settings(max_examples=50, deadline=None)
@given(data=st.data(), wanted_disorder=st.integers(0, 100))
def test_declared_disorder_holds(data: st.DataObject, wanted_disorder: int) -> None:
    """With a declared disorder no data row is further behind an earlier one."""
    log = data.draw(partition_logs(disorder=wanted_disorder))

    assert disorder(log.records) <= wanted_disorder


@settings(max_examples=50, deadline=None)
@given(pair=logs_and_bounds(partition_logs(magics=(0, 1, 2))))
def test_expected_rows(pair: tuple[GeneratedLog, Bounds]) -> None:
    """The rows expected are the data rows inside all bounds, in offset order."""
    log, asked = pair
    rows = expected_rows(log, asked.offsets, asked.since, asked.until)

    assert [r.offset for r in rows] == sorted({r.offset for r in rows})
    for record in log.records:
        inside = asked.offsets is None or record.offset in range(*asked.offsets)
        inside = inside and (asked.since is None or record.timestamp >= asked.since)
        inside = inside and (asked.until is None or record.timestamp < asked.until)
        assert (inside and not record.is_control) == (record in rows)


def test_write(tmp_path: Path) -> None:
    """A log becomes a partition directory with Kafka's file names; absent files are absent."""
    log = simple_log(
        simple_segment([data(5, 10, 11), control(7, 12)], index=[(7, 1)], timeindex=()),
        simple_segment([data(8, 13, codec="zstd"), empty(9, 11, 50)]),
        topic="a-b",
        partition=3,
    )
    folder = log.write(tmp_path)

    assert folder.name == "a-b-3"
    assert {f"{5:020d}.log": 1, f"{5:020d}.index": 8, f"{5:020d}.timeindex": 0, f"{8:020d}.log": 1} == {
        path.name: min(path.stat().st_size, 1 if path.suffix == ".log" else 99) for path in folder.iterdir()
    }
    assert [r.offset for r in expected_rows(log)] == [5, 6, 8]
    assert log.next_offset == 12


# --- the rules of docs/pruning-rules.md, naively, so that no visible damage is in truth an invisible lie
# ------------------


def naive_time_entries(segment: Segment, batches: list[naive.Batch]) -> list[tuple[int, int]]:
    """The valid prefix of the time index if the head and tail proofs hold, else nothing."""
    entries: list[tuple[int, int]] = []
    last_offset = batches[-1].last_offset
    data = segment.timeindex or b""
    for timestamp, relative in struct.iter_unpack(">qi", data[: len(data) // 12 * 12]):
        offset = segment.base_offset + relative
        if (timestamp, relative) == (0, 0) or relative < 0 or offset > last_offset:
            break
        if entries and (timestamp <= entries[-1][0] or offset < entries[-1][1]):
            break
        entries.append((timestamp, offset))
    if not entries or batches[0].magic != 2:
        return []
    head = [batch.max_timestamp for batch in batches if batch.base_offset <= entries[0][1]]
    return entries if head and max(head) <= entries[0][0] else []


def naive_since_start(segment: Segment, since: int) -> int | None:
    """The offset from which rows with timestamp >= since must be read, None: the segment may be skipped."""
    batches = segment_batches(segment)
    if not batches:
        return None
    entries = naive_time_entries(segment, batches)
    if entries and entries[-1][0] < since:
        tail = [batch.max_timestamp for batch in batches if batch.last_offset >= entries[-1][1]]
        if max(tail) < since:
            return None
    before = [offset for timestamp, offset in entries if timestamp < since]
    return before[-1] + 1 if before else segment.base_offset


@settings(max_examples=200, deadline=None)
@given(
    pair=logs_and_bounds(
        partition_logs(
            magics=(2, 1), index_damage=True, log_damage=True, wrong_maximum=True, wrong_wrappers=True, far_future=True
        )
    )
)
def test_no_generated_time_index_fools_the_rules(pair: tuple[GeneratedLog, Bounds]) -> None:
    """With the head and tail proofs checked, damage and wrong maxima never lose a row: the generator
    keeps to visible damage."""
    log, asked = pair
    since = 0 if asked.since is None else asked.since
    for segment in log.segments:
        start = naive_since_start(segment, since)
        lost = [r for r in segment.records if r.timestamp >= since and (start is None or r.offset < start)]
        assert [r for r in lost if not r.is_control] == []


def test_route_three_of_c1() -> None:
    """The forgotten maximum of docs/pruning-rules.md writes what Kafka 4.1.0 did, and the head proof sees it."""
    specs = [data(10 * i, *[timestamp] * 10) for i, timestamp in enumerate([1000, 500, 600, 700])]
    appends = [Append(IndexWriter.PER_BATCH, tuple(group)) for group in lay_out(specs)]
    _, right = index_entries(appends, interval=0)
    _, wrong = index_entries(appends, interval=0, forget_at=2)
    segment = simple_segment(specs, timeindex=wrong)

    assert (right, wrong) == ([(1000, 9)], [(600, 29), (700, 39)])
    assert naive_time_entries(segment, segment_batches(segment)) == []
    assert len(expected_rows(simple_log(segment), since=800)) == 10


@pytest.mark.parametrize(
    ("index_writer", "offsets", "times"),
    [
        (IndexWriter.LEADER_PRE_2_0, [10, 20], [(90, 11), (95, 20)]),
        (IndexWriter.LEADER_2_0, [12, 22], [(90, 11), (95, 20)]),
        (IndexWriter.LEADER_3_8, [12, 22], [(90, 12), (95, 22)]),
        (IndexWriter.CLEANER_2_0, [12, 21], [(90, 12), (95, 22)]),
        (IndexWriter.PER_BATCH, [12, 22], [(90, 12), (95, 22)]),
    ],
)
def test_index_writers(index_writer: IndexWriter, offsets: list[int], times: list[tuple[int, int]]) -> None:
    """Entries of one-batch appends as the tables of 4.2 and 4.4 have them."""
    specs = [data(0, 50, 60), data(10, 70, 90, 80), data(20, 95, 94, last=22)]
    groups = lay_out(specs)
    appends = [Append(index_writer, tuple(group)) for group in groups]
    expected = list(zip(offsets, [groups[1][0].position, groups[2][0].position], strict=True))

    assert (expected, times) == index_entries(appends, interval=0)


def test_index_of_a_whole_fetch() -> None:
    """A follower's fetch of two batches is one entry: its position is the first batch, its offset the last one's."""
    one, two, three = (group[0] for group in lay_out([data(0, 5), data(1, 9, 8), data(3, 7)]))
    for index_writer, offset in [(IndexWriter.FOLLOWER_2_0, 3), (IndexWriter.FOLLOWER_PRE_2_0, 1)]:
        appends = [Append(index_writer, (one,)), Append(index_writer, (two, three))]

        assert ([(offset, two.position)], [(9, 2)]) == index_entries(appends, interval=0)


# --- real brokers ----------------------------------------------------------------------------------------------------

FIXTURES = Path(__file__).parent.parent / "fixtures"
REAL = sorted({path.parent.parent for path in FIXTURES.glob("*/data/*-*/")})


@pytest.mark.parametrize("fixture", REAL, ids=lambda path: path.name)
def test_real_logs_decode_to_what_a_consumer_saw(fixture: Path) -> None:
    """The naive decoder agrees with a consumer of a real broker, record for record."""
    expected_file = fixture / "expected.read_uncommitted.parquet"
    columns = ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"]
    expected = sorted(tuple(row[name] for name in columns) for row in pq.read_table(expected_file).to_pylist())
    starts = log_starts(fixture / "data")
    found = []
    for log in sorted(fixture.glob("data/*/*.log")):
        topic, _, partition = log.parent.name.rpartition("-")
        if topic.startswith("__"):  # Kafka's own; the consumer did not ask for them
            continue
        for r in naive.decode_log(log.read_bytes()):
            if not r.is_control and r.offset >= starts.get(log.parent.name, 0):
                headers = [{"key": key.decode(), "value": value} for key, value in r.headers] or None
                found.append((topic, int(partition), r.offset, r.timestamp, r.timestamp_type, r.key, r.value, headers))

    assert expected == sorted(found)


def log_starts(directory: Path) -> dict[str, int]:
    """Start offsets of partitions with deleted records (section 6)."""
    checkpoint = directory / "log-start-offset-checkpoint"
    lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in map(str.split, lines)}


@pytest.mark.parametrize("partition", ["ledger-0", "ledger-1", "ledger-v2-0"])
def test_naive_read_committed_is_what_a_consumer_saw(partition: str) -> None:
    """Committed, aborted and open transactions of a real broker."""
    fixture = FIXTURES / "transactions"
    topic, _, number = partition.rpartition("-")
    logs = sorted((fixture / "data" / partition).glob("*.log"))
    records = naive.committed([record for log in logs for record in naive.decode_log(log.read_bytes())])
    saw = pq.read_table(fixture / "expected.read_committed.parquet").to_pylist()
    expected = [row["offset"] for row in saw if (row["topic"], row["partition"]) == (topic, int(number))]
    assert [record.offset for record in records] == expected
