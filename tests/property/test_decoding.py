"""`scan` beside the naive decoder: generated batches of every kind, in any portions; any bytes end in
rows or in our errors."""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding import records as decode
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.errors import DataError
from tests.support import naive, writer
from tests.support.batches import BatchSpec, control
from tests.support.chunks import read_in_chunks
from tests.support.logs import GeneratedLog, Segment, expected_rows, simple_log, simple_segment
from tests.support.rows import Row, decoded, in_scan_order, scanned
from tests.support.strategies import partition_logs
from tests.support.writer import Codec, Rec

CODECS: list[Codec] = ["none", "gzip", "snappy-raw", "snappy-xerial", "lz4", "zstd"]
LAST_MICROS = (2**63 - 1) // 1000  # ms; later ones do not fit Spark's timestamps

field = st.none() | st.binary(max_size=30) | st.integers(0, 2000).map(lambda n: b"." * n)
header_keys = st.text(max_size=4).map(str.encode)
rec_headers = st.lists(st.tuples(header_keys, field), max_size=3).map(tuple)


@st.composite
def logs_of_bytes(draw: st.DrawFn) -> bytes:
    """A `.log` of batches of any codec, with gaps, nulls, headers and any timestamp that microseconds can hold."""
    out, base = b"", 0
    for _ in range(draw(st.integers(1, 5))):
        base += draw(st.integers(0, 5))
        deltas = sorted(draw(st.sets(st.integers(0, 40), max_size=8)))
        timestamps = st.integers(-1, 2**41) | st.integers(-LAST_MICROS, LAST_MICROS)
        recs = [Rec(delta, draw(timestamps), draw(field), draw(field), draw(rec_headers)) for delta in deltas]
        last = (deltas[-1] if deltas else 0) + draw(st.integers(0, 3))
        out += writer.record_batch(
            recs,
            base_offset=base,
            codec=draw(st.sampled_from(CODECS)) if recs else "none",
            timestamp_type=draw(st.integers(0, 1)),
            last_offset_delta=last,
            producer_id=draw(st.integers(-1, 2)),
            base_sequence=draw(st.sampled_from([-1, 0, 2**31 - 3])),
            transactional=draw(st.booleans()),
            leader_epoch=draw(st.integers(-1, 3)),
            control=draw(st.integers(0, 9)) == 9,
        )
        base += last + 1
    return out


@contextlib.contextmanager
def log_file(data: bytes) -> Iterator[Path]:
    """The bytes as the only segment of orders-0; its directory."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / "orders-0"
        folder.mkdir()
        (folder / writer.segment_name(0)).write_bytes(data)
        yield folder


@contextlib.contextmanager
def portions(rows: int, most_bytes: int, chunk: int) -> Iterator[None]:
    """Makes every buffer on the way as small as asked for."""
    RECORDS.load_maker()  # a task loads it; it must not see the small numbers then
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "MAX_ROWS", rows)
        patch.setattr(decode, "MAX_BYTES", most_bytes)
        read_in_chunks(patch, chunk)
        yield


@given(data=logs_of_bytes())
def test_scan_agrees_with_the_naive_decoder(data: bytes) -> None:
    """Every field of every data record comes out as the naive decoder reads it, headers and nulls included."""
    with log_file(data) as folder:
        assert scanned(folder) == decoded(naive.decode_log(data))


@given(
    data=logs_of_bytes(),
    rows=st.integers(1, 9),
    most_bytes=st.sampled_from([1, 60, 500, 10**6]),
    chunk=st.sampled_from([61, 100, 700, 10**6]),
    mode=st.sampled_from(["FAILFAST", "DROPMALFORMED"]),
)
def test_portions_do_not_matter(data: bytes, rows: int, most_bytes: int, chunk: int, mode: str) -> None:
    """With buffers of a few rows and bytes the same rows come out, in batches within the limit, none of them empty."""
    with log_file(data) as folder, portions(rows, most_bytes, chunk):
        batches = list(kafkaseg.scan(folder, includeHeaders=True, includeMetadata=True, mode=mode))

    schema = RECORDS.arrow_schema([column.name for column in RECORDS.columns if column.name != "controlType"])
    for batch in batches:
        assert 0 < batch.num_rows <= rows
        assert batch.schema.equals(schema, check_metadata=True)
        batch.validate(full=True)
    assert in_scan_order(pa.Table.from_batches(batches, schema)) == decoded(naive.decode_log(data))


@given(data=logs_of_bytes())
def test_metadata_agrees_with_the_naive_decoder(data: bytes) -> None:
    """The metadata column says of each row what its batch's header says."""
    with log_file(data) as folder:
        found = kafkaseg.scan(folder, columns=["offset", "metadata"]).read_all().to_pylist()
        path = str(next(folder.iterdir()))
    assert found == [
        {
            "offset": r.offset,
            "metadata": {
                "baseOffset": r.base_offset,
                "position": r.position,
                "magic": 2,
                "compresscodec": r.codec,
                "partitionLeaderEpoch": r.leader_epoch,
                "producerId": r.producer_id,
                "producerEpoch": r.producer_epoch,
                "sequence": r.sequence,
                "isTransactional": r.is_transactional,
                "file_path": path,
                "file_name": "00000000000000000000.log",
            },
        }
        for r in naive.decode_log(data)
        if not r.is_control
    ]


@given(log=partition_logs(log_damage=True), chunk=st.sampled_from([100, 10**6]))
def test_generated_logs(log: GeneratedLog, chunk: int) -> None:
    """Partitions of several segments, compacted, with markers, torn or zero-filled at the end, are read
    whole and in order."""
    with tempfile.TemporaryDirectory() as directory, portions(100, 10**6, chunk):
        folder = log.write(Path(directory))
        assert scanned(folder) == decoded(expected_rows(log))


# --- any bytes -------------------------------------------------------------------------------------------------------


@st.composite
def damaged_logs(draw: st.DrawFn) -> bytes:
    """Batches with some bytes changed, lost or added; half of them with CRCs made good again after the damage."""
    data = bytearray(draw(logs_of_bytes()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        kind = draw(st.sampled_from(["bit", "byte", "loss", "noise", "huge"]))
        if kind == "bit":
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "byte":
            data[at] = draw(st.integers(0, 255))
        elif kind == "loss":
            del data[at : at + draw(st.integers(1, 40))]
        elif kind == "noise":
            data[at:at] = draw(st.binary(max_size=40))
        else:
            data[at : at + 4] = b"\x7f\xff\xff\xff"
        if not data:
            break
    return _believable(bytes(data)) if draw(st.booleans()) else bytes(data)


def _believable(data: bytes) -> bytes:
    """The bytes with the CRC of each batch that a walk by lengths finds made good."""
    out, at = b"", 0
    while len(data) - at >= 61:
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if size < 61 or size > len(data) - at:
            break
        out += writer.with_right_crc(data[at : at + size])
        at += size
    return out + data[at:]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Skipped batches are reported; thousands of reports here help nobody."""
    logger = logging.getLogger("kafka_segment_source")
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(logging.NOTSET)


modes = st.sampled_from(["FAILFAST", "DROPMALFORMED"])


def outcome(data: bytes, mode: str, check_crcs: bool) -> list[Row] | DataError:
    """The rows or the error of ours; whatever else is raised ends the test."""
    with log_file(data) as folder:
        try:
            return scanned(folder, mode=mode, checkCrcs=check_crcs, maxBatchBytes=100_000)
        except DataError as raised:
            error = raised
        assert error.path == str(next(folder.iterdir()))
        assert 0 <= error.position <= len(data)
        return error


@settings(max_examples=settings().max_examples * 4)
@given(
    data=st.binary(max_size=300) | st.binary(max_size=200).map(lambda b: b"\0" * 16 + b"\2" + b),
    mode=modes,
    check_crcs=st.booleans(),
)
def test_random_bytes(data: bytes, mode: str, check_crcs: bool) -> None:
    """Random bytes end in rows or in an error of ours that says where; with CRCs checked, never in rows."""
    found = outcome(data, mode, check_crcs)
    assert not check_crcs or found == [] or isinstance(found, DataError)


@settings(max_examples=settings().max_examples * 4)
@given(data=damaged_logs(), mode=modes, check_crcs=st.booleans())
def test_damaged_batches(data: bytes, mode: str, check_crcs: bool) -> None:
    """Damaged logs end in rows or in an error of ours; with CRCs checked and FAILFAST, rows are the naive decoder's."""
    found = outcome(data, mode, check_crcs)
    if mode == "FAILFAST" and check_crcs and isinstance(found, list):
        try:
            wanted = decoded(naive.decode_log(data))
        except naive.NaiveError:
            # Kafka decodes markers too, and refuses what this reader never looks into
            assert any(data[at + 22] & 0x20 for at in _batch_positions(data))
        else:
            assert found == wanted


def _batch_positions(data: bytes) -> list[int]:
    positions, at = [], 0
    while len(data) - at >= 61:
        positions.append(at)
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if at <= positions[-1]:
            break
    return positions


@given(body=st.binary(max_size=120), codec=st.integers(0, 7), count=st.integers(1, 5), mode=modes)
def test_any_body_under_a_good_crc(body: bytes, codec: int, count: int, mode: str) -> None:
    """A batch whose header and CRC are right but whose body is noise is an error of ours, or what the
    naive decoder reads."""
    data = writer.record_batch_of(body, attributes=codec, count=count, last_offset_delta=4)
    found = outcome(data, mode, True)
    if isinstance(found, list) and mode == "FAILFAST":
        assert found == decoded(naive.decode_log(data))


@given(
    data=st.data(),
    kept=st.lists(st.sampled_from(CODECS), min_size=2, max_size=4),
    mode=st.just("DROPMALFORMED"),
)
def test_dropping_loses_the_damaged_batch_alone(data: st.DataObject, kept: list[Codec], mode: str) -> None:
    """DROPMALFORMED gives every row of the batches that are whole, and none of the one that is not."""
    specs = [
        BatchSpec(10 * n, 10 * n + 2, tuple((10 * n + i, 50 + n) for i in range(3)), codec=codec, payload=40)
        for n, codec in enumerate(kept)
    ]
    segment: Segment = simple_segment([*specs, control(10 * len(kept), 99)])
    victim = data.draw(st.sampled_from(segment.batches[:-1]))
    changed = bytearray(segment.log)
    changed[data.draw(st.integers(victim.position + 21, victim.end - 1))] ^= 1 << data.draw(st.integers(0, 7))
    wanted = [r for r in expected_rows(simple_log(segment)) if r.position != victim.position]

    assert outcome(bytes(changed), mode, True) == decoded(wanted)
