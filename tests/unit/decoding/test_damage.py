"""reading and decode: each kind of damage is one clear error, or one reported gap; where a log may end,
it ends quietly."""

from __future__ import annotations

import logging
import struct
import zlib
from pathlib import Path
from typing import Any

import crc32c
import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError, DataError, FileChangedError
from tests.support import naive, writer
from tests.support.chunks import read_in_chunks
from tests.support.reads import error_of, offsets, write
from tests.support.rows import decoded, scanned
from tests.support.writer import Codec, Rec

BASES = (0, 10, 20)


def batch(base: int, codec: Codec = "none", records: int = 3, **fields: Any) -> bytes:
    """A batch of some records from `base` on, all of one size whatever the base."""
    recs = [Rec(n, 1000 + base, b"key-%04d" % (base + n), b"value" * 20, ((b"h", b"x"),)) for n in range(records)]
    return writer.record_batch(recs, base_offset=base, codec=codec, **fields)


FIRST, SECOND, THIRD = (batch(base) for base in BASES)
SIZE = len(FIRST)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty orders-0."""
    (tmp_path / "orders-0").mkdir()
    return tmp_path / "orders-0"


def said(error: DataError) -> dict[str, Any]:
    return {name: getattr(error, name) for name in ("path", "position", "offset", "inside", "found", "expected")}


def put(data: bytes, at: int, form: str, *values: int, crc: bool = True) -> bytes:
    """The batch with a field changed, its CRC made good again unless that is the point."""
    changed = bytearray(data)
    struct.pack_into(">" + form, changed, at, *values)
    return writer.with_right_crc(bytes(changed)) if crc else bytes(changed)


# --- damage in the middle --------------------------------------------------------------------------------------------

FLIPPED = SECOND[:100] + bytes([SECOND[100] ^ 4]) + SECOND[101:]
(STORED_CRC,) = struct.unpack_from(">I", SECOND, 17)
BODY = SECOND[61:]
TRUNCATED: dict[str, bytes] = {}
for _codec in ("gzip", "snappy-raw", "snappy-xerial", "lz4", "zstd"):
    _stored = batch(10, _codec)[61:]  # type: ignore[arg-type]
    TRUNCATED[_codec] = writer.record_batch_of(
        _stored[: len(_stored) * 2 // 3],
        base_offset=10,
        attributes=writer.CODEC_IDS[_codec],
        last_offset_delta=2,
        count=3,
        max_timestamp=1010,
    )


def of_body(body: bytes, **fields: int) -> bytes:
    """A batch at offset 10 with any body under a good CRC."""
    return writer.record_batch_of(body, **{"base_offset": 10, "last_offset_delta": 2, "count": 3, **fields})


def varied(at: int, value: bytes) -> bytes:
    """The second batch with bytes of its records changed, under a good CRC."""
    return of_body(BODY[:at] + value + BODY[at + len(value) :], max_timestamp=1010)


def inside(at: int) -> dict[str, str]:
    """The place of a fault at a byte of the batch's records."""
    return {"inside": f"byte {61 + at} of the batch"}


RECORD = writer.record(Rec(0, 0, b"k", b"v"), 0)
AT_SECOND = {"position": SIZE, "offset": 10}
OFFSETS = "baseOffset ≥ 0, lastOffsetDelta ≥ 0, and their sum below 2^63 - 1"
DAMAGE: dict[str, tuple[bytes, str, dict[str, Any]]] = {
    "a flipped bit": (
        FLIPPED,
        "batch whose bytes do not have the CRC that its header states",
        {**AT_SECOND, "found": f"0x{crc32c.crc32c(FLIPPED[21:]):08x}", "expected": f"0x{STORED_CRC:08x}"},
    ),
    "a length below the least": (
        put(SECOND, 8, "i", 30),
        "batch of impossible length",
        {"position": SIZE, "found": 30, "expected": "at least 14 bytes, 49 for magic 2"},
    ),
    "a negative length": (
        put(SECOND, 8, "i", -7),
        "batch of impossible length",
        {"position": SIZE, "found": -7, "expected": "at least 14 bytes, 49 for magic 2"},
    ),
    "a length past the end of the file": (
        put(SECOND, 8, "i", 1_000_000),
        "batch cut short",
        {"position": SIZE, "found": f"{2 * SIZE} bytes", "expected": "1000012 bytes"},
    ),
    "zeros in the middle": (
        bytes(SIZE),
        "zeros where a batch should be",
        {"position": SIZE, "found": "zeros", "expected": "a batch or the end of the log"},
    ),
    "an unknown magic": (
        put(SECOND, 16, "b", 6),
        "batch of unknown magic",
        {"position": SIZE, "found": 6, "expected": "0, 1 or 2"},
    ),
    "a negative count": (
        put(SECOND, 57, "i", -2),
        "batch with a negative count",
        {"position": SIZE, "found": -2, "expected": "0 records or more"},
    ),
    "a negative last offset": (
        put(SECOND, 23, "i", -1),
        "batch of impossible offsets",
        {"position": SIZE, "found": 9, "expected": OFFSETS},
    ),
    "a last offset that none can follow": (
        put(SECOND, 0, "q", 2**63 - 3),
        "batch of impossible offsets",
        {"position": SIZE, "found": 2**63 - 1, "expected": OFFSETS},
    ),
    "a last offset of more than 64 bits": (
        put(SECOND, 0, "q", 2**63 - 1),
        "batch of impossible offsets",
        {"position": SIZE, "found": 1 - 2**63, "expected": OFFSETS},
    ),
    "offsets that go back": (
        put(SECOND, 0, "q", 1),
        "batch out of order",
        {"position": SIZE, "offset": 1, "found": "1 to 3", "expected": f"offsets from 3 to {2**31 - 1}"},
    ),
    "offsets given twice": (
        FIRST,
        "batch out of order",
        {"position": SIZE, "offset": 0, "found": "0 to 2", "expected": f"offsets from 3 to {2**31 - 1}"},
    ),
    "more records than the count": (
        put(SECOND, 57, "i", 2),
        "batch with bytes left over after its last record",
        {**AT_SECOND, **inside(len(BODY) * 2 // 3), "found": len(BODY) // 3, "expected": "0 bytes left over"},
    ),
    "fewer records than the count": (
        put(SECOND, 57, "i", 4),
        "record with an unreadable varint",
        {
            **AT_SECOND,
            **inside(len(BODY)),
            "found": "no bytes",
            "expected": "a varint inside the record, of at most 32 (timestamps 64) bits",
        },
    ),
    "a record longer than the batch": (
        of_body(writer.varint(5000) + BODY[2:]),
        "record of impossible length",
        {**AT_SECOND, **inside(0), "found": 5000, "expected": "a length inside the batch"},
    ),
    "a record of no bytes": (
        of_body(writer.varint(0) + BODY),
        "record of impossible length",
        {**AT_SECOND, **inside(0), "found": 0, "expected": "a length inside the batch"},
    ),
    "a key longer than the record": (
        of_body(b"\x10\0\0\0" + writer.varint(60) + b"abc\x01", count=1),
        "key, value or header of impossible length",
        {**AT_SECOND, **inside(4), "found": 60, "expected": "-1 (null) or a length inside the record"},
    ),
    "a value one byte longer than the record": (
        of_body(b"\x0e\0\0\0\x01\x06ab", count=1),
        "key, value or header of impossible length",
        {**AT_SECOND, **inside(5), "found": 3, "expected": "-1 (null) or a length inside the record"},
    ),
    "a null header key": (
        of_body(b"\x10\0\0\0\x01\x01\x02\x01\x01", count=1),
        "key, value or header of impossible length",
        {**AT_SECOND, **inside(7), "found": -1, "expected": "-1 (null) or a length inside the record"},
    ),
    "more headers than fit": (
        of_body(b"\x10\0\0\0\x01\x01\x06\0\0", count=1),
        "record with an impossible number of headers",
        {**AT_SECOND, **inside(6), "found": 3, "expected": "0 or as many as fit the record"},
    ),
    "a negative number of headers": (
        of_body(b"\x0c\0\0\0\x01\x01\x01", count=1),
        "record with an impossible number of headers",
        {**AT_SECOND, **inside(6), "found": -1, "expected": "0 or as many as fit the record"},
    ),
    "bytes after a record's last header": (
        of_body(b"\x10\0\0\0\x01\x01\0\x07\x07", count=1),
        "record with bytes left over",
        {**AT_SECOND, **inside(7), "found": 2, "expected": "0 bytes left over"},
    ),
    "a varint of more bits than its type": (
        of_body(b"\x14\0\0\xff\xff\xff\xff\x1f\0\0\0", count=1),
        "record with an unreadable varint",
        {
            **AT_SECOND,
            **inside(3),
            "found": "ff ff ff ff 1f",
            "expected": "a varint inside the record, of at most 32 (timestamps 64) bits",
        },
    ),
    "a varint too long": (
        of_body(b"\xff" * 20, count=1),
        "record with an unreadable varint",
        {
            **AT_SECOND,
            **inside(0),
            "found": " ".join(["ff"] * 10),
            "expected": "a varint inside the record, of at most 32 (timestamps 64) bits",
        },
    ),
    "records out of order": (
        of_body(RECORD + RECORD, count=2),
        "record out of order",
        {
            **AT_SECOND,
            **inside(len(RECORD)),
            "found": 0,
            "expected": "offset deltas that grow from 0 to lastOffsetDelta",
        },
    ),
    "a record past the batch's last offset": (
        of_body(writer.record(Rec(3, 0), 0), count=1),
        "record out of order",
        {**AT_SECOND, **inside(0), "found": 3, "expected": "offset deltas that grow from 0 to lastOffsetDelta"},
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_failfast_says_what_and_where(name: str, folder: Path) -> None:
    """Damage in the middle of a log is an error of file, position, offset, found and expected."""
    damaged, what, fields = DAMAGE[name]
    path = write(folder, FIRST, damaged, THIRD)
    error = error_of(folder)

    assert error.what == what
    assert said(error) == {"path": path, "offset": None, "inside": None, **fields}
    assert type(error) is CorruptRecordError


@pytest.mark.parametrize("name", DAMAGE)
def test_dropmalformed_skips_the_batch_and_says_so(name: str, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """DROPMALFORMED leaves out the damaged batch, all of it and nothing else, and logs the same error."""
    damaged, _, _ = DAMAGE[name]
    write(folder, FIRST, damaged, THIRD)
    error = error_of(folder)
    with caplog.at_level(logging.WARNING, "kafka_segment_source"):
        assert offsets(folder, mode="dropmalformed") == [0, 1, 2, 20, 21, 22]
    (message,) = caplog.messages
    assert message in (
        f"skipped (mode=DROPMALFORMED): {error}",
        f"skipped up to byte {2 * SIZE} (mode=DROPMALFORMED): {error}",
    )


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_fault_after_decompression(codec: Codec, folder: Path) -> None:
    """The place of a record's fault is one in the decompressed bytes, and the error says so."""
    body = RECORD + b"\x10\0\0\x02" + writer.varint(60) + b"abc\x01"
    stored = writer.compress(codec, body)
    damaged = writer.record_batch_of(
        stored, base_offset=10, attributes=writer.CODEC_IDS[codec], last_offset_delta=2, count=2
    )
    write(folder, batch(0, codec), damaged)
    error = error_of(folder)
    assert error.inside == f"byte {len(RECORD) + 4} after decompression"
    assert f"offset 10, byte {len(RECORD) + 4} after decompression: found " in str(error)


@pytest.mark.parametrize("hurt", range(3))
@pytest.mark.parametrize("records", [3, 40])
def test_a_flipped_bit_where_all_offsets_follow_each_other(hurt: int, records: int, folder: Path) -> None:
    """A wrong CRC is found wherever the bit is, in a log whose offsets leave no doubt: in the first, the middle or the
    last batch, of one or of several kilobytes."""
    batches = [batch(number * records, records=records) for number in range(3)]
    size = len(batches[0])
    path = Path(write(folder, *batches))
    assert offsets(folder) == [*range(3 * records)]
    for at in range(size * hurt + 21, size * hurt + size, 29):
        data = bytearray(b"".join(batches))
        data[at] ^= 4
        path.write_bytes(data)
        error = error_of(folder)
        assert (error.position, error.what[:26]) == (size * hurt, "batch whose bytes do not h")


def test_a_fault_inside_a_wrapper(folder: Path) -> None:
    """A message whose CRC is wrong: its place after decompression, and both numbers."""
    first, second = (writer.message(n, None, b"value", magic=1, timestamp=5) for n in range(2))
    hurt = second[:-1] + b"?"
    wrapper = writer.message(1, None, writer.compress("gzip", first + hurt), magic=1, timestamp=5, codec="gzip")
    write(folder, wrapper)
    error = error_of(folder)
    assert error.what == "message inside a wrapper whose bytes do not have the CRC that it states"
    assert error.inside == f"byte {len(first)} after decompression"
    assert error.found == f"0x{zlib.crc32(hurt[16:]):08x}" and error.expected == f"0x{second[12:16].hex()}"


@pytest.mark.parametrize("codec", TRUNCATED)
def test_a_truncated_compressed_block(codec: str, folder: Path) -> None:
    """A block cut short under a good CRC is an error at its batch, and DROPMALFORMED drops it whole."""
    path = write(folder, FIRST, TRUNCATED[codec], THIRD)
    error = error_of(folder)

    assert (error.path, error.position, error.offset) == (path, SIZE, 10)
    assert error.what == "batch that cannot be decompressed" or codec == "zstd"
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2, 20, 21, 22]


@pytest.mark.parametrize("codec", ["none", "zstd", "lz4"])
def test_damage_late_in_a_batch_drops_its_early_rows_too(codec: Codec, folder: Path) -> None:
    """No row of a damaged batch goes out under DROPMALFORMED, those before the damage included."""
    body = BODY + b"\x02\x00"
    damaged = writer.record_batch_of(
        writer.compress(codec, body),
        base_offset=10,
        attributes=writer.CODEC_IDS[codec],
        last_offset_delta=9,
        count=4,
        base_timestamp=1010,
        max_timestamp=1010,
    )
    write(folder, batch(0, codec), damaged, batch(20, codec))
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2, 20, 21, 22]


def test_damage_in_several_batches(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Damaged batches are skipped one by one or in runs, at the very start and the very end, and each run
    is reported."""
    data = [bytearray(batch(10 * n)) for n in range(8)]
    for n in (0, 2, 3, 7):
        data[n][90] ^= 1
    write(folder, *data)
    with caplog.at_level(logging.WARNING, "kafka_segment_source"):
        assert offsets(folder, mode="DROPMALFORMED") == [10 * n + i for n in (1, 4, 5, 6) for i in range(3)]
    skipped = [(0, SIZE), (2 * SIZE, 4 * SIZE), (7 * SIZE, 8 * SIZE)]
    assert len(caplog.messages) == len(skipped)
    for message, (start, end) in zip(caplog.messages, skipped, strict=True):
        assert message.startswith(f"skipped up to byte {end} (mode=DROPMALFORMED): ") and f"at byte {start}," in message


def test_without_crc_checks_a_flipped_value_byte_is_a_value(folder: Path) -> None:
    """checkCrcs=false believes the bytes: what only the CRC covers is not noticed."""
    changed = bytearray(SECOND)
    changed[-10] ^= 1
    write(folder, FIRST, changed, THIRD)
    wanted = naive.decode_log(FIRST + writer.with_right_crc(bytes(changed)) + THIRD)
    assert scanned(folder, checkCrcs=False) == decoded(wanted)
    assert error_of(folder).position == SIZE


def test_a_bad_crc_outside_the_range_read_is_nobodys_business(folder: Path) -> None:
    """Bytes that a query does not read are not checked: a damaged first segment does not stop a query of the second."""
    write(folder, FLIPPED, base=0)
    write(folder, batch(100), base=100)
    assert offsets(folder, startingOffsets={"orders": {"0": 100}}) == [100, 101, 102]


# --- where a log may end ---------------------------------------------------------------------------------------------

TAILS = {
    "a torn batch": SECOND[:-1],
    "a torn header": SECOND[:40],
    "a torn magic": SECOND[:16],
    "one byte": SECOND[:1],
    "zeros": bytes(500),
    "a few zeros": bytes(5),
    "many zeros": bytes(100_000),
    "a torn batch that claims a gigabyte": put(SECOND, 8, "i", 2**30)[:100],
}


@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED"])
@pytest.mark.parametrize("name", TAILS)
def test_the_last_segment_ends_quietly(name: str, mode: str, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A torn batch or zeros at the end of the last segment end the log without an error and without a word."""
    write(folder, FIRST, TAILS[name])
    with caplog.at_level(logging.DEBUG, "kafka_segment_source"):
        assert offsets(folder, mode=mode) == [0, 1, 2]
    assert caplog.messages == []


@pytest.mark.parametrize("name", TAILS)
def test_a_log_that_is_all_tail(name: str, folder: Path) -> None:
    """A segment that holds nothing but a torn batch or zeros has no rows."""
    write(folder, TAILS[name])
    assert offsets(folder) == []


@pytest.mark.parametrize("name", TAILS)
def test_an_earlier_segment_may_not_end_so(name: str, folder: Path) -> None:
    """The same tail before another segment is damage: Kafka trims a segment when it rolls, so rows may be missing."""
    path = write(folder, FIRST, TAILS[name])
    write(folder, THIRD, base=20)
    error = error_of(folder)

    assert (error.path, error.position, error.offset) == (path, SIZE, None)
    assert error.what in ("batch cut short", "zeros where a batch should be")
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2, 20, 21, 22]


@pytest.mark.parametrize("claimed", [2 * SIZE - 11, 2 * SIZE, 10**6, 2**31 - 1])
def test_a_length_that_looks_torn_in_the_middle(claimed: int, folder: Path) -> None:
    """A length past the end of the file with whole batches after it is damage, not the end of the log."""
    path = write(folder, FIRST, put(SECOND, 8, "i", claimed), THIRD)
    error = error_of(folder)
    assert (error.what, error.path, error.position) == ("batch cut short", path, SIZE)
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2, 20, 21, 22]


@pytest.mark.parametrize("length", [SIZE * 2 - 12, SIZE - 12 + 10])
def test_a_length_that_swallows_the_next_batch(length: int, folder: Path) -> None:
    """A length inside the file but wrong fails its CRC, and the batch that it swallowed is found again."""
    path = write(folder, FIRST, put(SECOND, 8, "i", length, crc=False), THIRD)
    assert (error_of(folder).path, error_of(folder).position) == (path, SIZE)
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2, 20, 21, 22]


@pytest.mark.parametrize("count", [1, 2])
def test_a_length_that_swallows_batches_up_to_another_one(count: int, folder: Path) -> None:
    """It ends where a batch begins. The batches that it covers are found, as offsets are missing before that one."""
    more = [batch(30), batch(40)]
    write(folder, FIRST, put(SECOND, 8, "i", SIZE * (1 + count) - 12, crc=False), THIRD, *more)
    assert error_of(folder).position == SIZE
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2, 20, 21, 22, 30, 31, 32, 40, 41, 42]


def test_zeros_before_a_whole_batch(folder: Path) -> None:
    """Zeros with something after them are damage, in the last segment too."""
    write(folder, FIRST, bytes(300), b"\x01")
    error = error_of(folder)
    assert (error.what, error.position) == ("zeros where a batch should be", SIZE)
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2]


def test_a_bad_crc_in_the_last_batch_is_damage(folder: Path) -> None:
    """A last batch that is whole but fails its CRC is an error, not a torn tail: its rows are missing."""
    write(folder, FIRST, FLIPPED)
    assert error_of(folder).position == SIZE
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2]


@pytest.mark.parametrize("chunk", [61, 100, SIZE, SIZE + 1, 2 * SIZE - 1])
@pytest.mark.parametrize("damage", ["a flipped bit", "a length past the end of the file", "zeros in the middle"])
def test_damage_across_chunks(damage: str, chunk: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where chunks begin and end changes neither the error nor what is dropped."""
    read_in_chunks(monkeypatch, chunk)
    damaged, what, fields = DAMAGE[damage]
    write(folder, FIRST, damaged, THIRD)
    error = error_of(folder)
    assert (error.what, error.position) == (what, fields["position"])
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2, 20, 21, 22]


# --- offsets and segments --------------------------------------------------------------------------------------------


def test_offsets_of_the_next_segment(folder: Path) -> None:
    """A batch whose offsets belong to the next segment is out of order: it would give rows twice."""
    path = write(folder, FIRST, SECOND, base=0)
    write(folder, SECOND, THIRD, base=10)
    error = error_of(folder)
    assert (error.what, error.path, error.position, error.offset) == ("batch out of order", path, SIZE, 10)
    assert (error.found, error.expected) == ("10 to 12", "offsets from 3 to 9")
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2, 10, 11, 12, 20, 21, 22]


def test_offsets_below_the_segments_base(folder: Path) -> None:
    """A batch below its segment's base offset is out of order."""
    write(folder, FIRST, base=5)
    error = error_of(folder)
    assert (error.position, error.found, error.expected) == (0, "0 to 2", f"offsets from 5 to {5 + 2**31 - 1}")


def test_gaps_are_no_damage(folder: Path) -> None:
    """Gaps between batches and inside them are compaction's, not damage."""
    gapped = writer.record_batch([Rec(3, 1), Rec(70, 2)], base_offset=50, last_offset_delta=90)
    write(folder, FIRST, THIRD, gapped, batch(1000))
    assert offsets(folder) == [0, 1, 2, 20, 21, 22, 53, 120, 1000, 1001, 1002]


# --- sizes and columns ------------------------------------------------------------------------------------------------


def test_max_batch_bytes_of_stored_bytes(folder: Path) -> None:
    """A batch larger than maxBatchBytes as stored is not read into memory, but named, once chunks are
    smaller than it."""
    large = writer.record_batch([Rec(0, 5, b"k", bytes(9 * 1024 * 1024))], base_offset=10)
    path = write(folder, FIRST, large, THIRD)
    error = error_of(folder, maxBatchBytes=1_000_000)
    assert (error.what, error.path, error.position) == ("batch larger than maxBatchBytes", path, SIZE)
    assert (error.found, error.expected) == (f"{len(large)} bytes", "at most 1000000")
    assert offsets(folder) == [0, 1, 2, 10, 20, 21, 22]


@pytest.mark.parametrize("codec", ["gzip", "snappy-raw", "snappy-xerial", "lz4", "zstd"])
def test_max_batch_bytes_of_plain_bytes(codec: Codec, folder: Path) -> None:
    """A batch that decompresses to more than maxBatchBytes is damaged, one that fits exactly is not."""
    rec = Rec(0, 5, b"k", bytes(50_000))
    size = len(writer.record(rec, 5))
    path = write(folder, FIRST, writer.record_batch([rec], base_offset=10, codec=codec), THIRD)
    error = error_of(folder, maxBatchBytes=size - 1)

    assert (error.path, error.position, error.offset) == (path, SIZE, 10)
    assert error.found == f"more than {size - 1} bytes"
    assert error.expected == f"at most {size - 1} bytes after decompression (maxBatchBytes)"
    assert offsets(folder, maxBatchBytes=size - 1, mode="DROPMALFORMED") == [0, 1, 2, 20, 21, 22]
    assert offsets(folder, maxBatchBytes=str(size)) == [0, 1, 2, 10, 20, 21, 22]


def test_a_batch_larger_than_a_chunk(folder: Path) -> None:
    """A batch larger than a chunk is read whole, between smaller ones."""
    large = writer.record_batch([Rec(0, 5, b"k", bytes(20 * 1024 * 1024)), Rec(1, 6)], base_offset=10)
    write(folder, FIRST, large, THIRD)
    found = kafkaseg.scan(folder, columns=["offset", "value"]).read_all()
    assert found["offset"].to_pylist() == [0, 1, 2, 10, 11, 20, 21, 22]
    assert found["value"][3].as_py() == bytes(20 * 1024 * 1024)


def test_header_keys_that_are_not_utf8(folder: Path) -> None:
    """Header keys that are not UTF-8 come with the replacement character, the others as they are; values stay bytes."""
    keys = [b"plain", b"\xff\xfe", "ключ".encode(), b"cut \xd0", b""]
    write(folder, writer.record_batch([Rec(0, 1, None, None, tuple((key, b"\xff") for key in keys)), Rec(1, 2)]))
    (headers, none) = kafkaseg.scan(folder, columns=["headers"]).read_all()["headers"].to_pylist()
    assert [header["key"] for header in headers] == ["plain", "��", "ключ", "cut �", ""]
    assert {header["value"] for header in headers} == {b"\xff"} and none is None


LAST_MICROS = (2**63 - 1) // 1000


@pytest.mark.parametrize("far", [LAST_MICROS + 1, 2**63 - 1, -(2**63), -LAST_MICROS - 1])
def test_a_timestamp_that_microseconds_cannot_hold(far: int, folder: Path) -> None:
    """It is an error only where the column timestamp is asked for, and names the record; by milliseconds
    it can be cut off."""
    recs = [Rec(0, 1000), Rec(1, far), Rec(2, 3000)]
    path = write(folder, FIRST, writer.record_batch(recs, base_offset=10))
    with pytest.raises(CorruptRecordError, match="leave the column timestamp out") as caught:
        kafkaseg.scan(folder).read_all()

    assert (caught.value.path, caught.value.position, caught.value.offset) == (path, SIZE, 11)
    assert caught.value.found == f"{far} ms"
    assert offsets(folder) == [0, 1, 2, 10, 11, 12]
    bound = {"until": LAST_MICROS} if far > 0 else {"since": 0}
    assert [row[2] for row in scanned(folder, **bound)] == [0, 1, 2, 10, 12]


def test_the_last_timestamps_that_microseconds_hold(folder: Path) -> None:
    """The ends of what microseconds can hold come out exactly."""
    write(folder, writer.record_batch([Rec(0, LAST_MICROS), Rec(1, -LAST_MICROS), Rec(2, -1)]))
    micros = kafkaseg.scan(folder, columns=["timestamp"]).read_all()["timestamp"].cast("int64").to_pylist()
    assert micros == [LAST_MICROS * 1000, -LAST_MICROS * 1000, -1000]


def test_no_rows_before_an_error_are_lost(folder: Path) -> None:
    """Whole batches before the damage come out before the error is raised."""
    write(folder, FIRST, FLIPPED, THIRD)
    reader = kafkaseg.scan(folder, columns=["offset"])
    assert reader.read_next_batch()["offset"].to_pylist() == [0, 1, 2]
    with pytest.raises(CorruptRecordError):
        reader.read_next_batch()


def test_a_file_that_shrank_after_planning(folder: Path) -> None:
    """A file cut between planning and reading is an error that says so, never fewer rows."""
    path = Path(write(folder, FIRST, SECOND, THIRD))
    reader = kafkaseg.scan(folder)
    path.write_bytes(FIRST)
    with pytest.raises(FileChangedError, match="has shrunk since it was listed"):
        reader.read_all()


def test_a_file_that_grew_after_planning(folder: Path) -> None:
    """What a broker appends after planning is not read: a plan is a snapshot."""
    path = Path(write(folder, FIRST))
    reader = kafkaseg.scan(folder, columns=["offset"])
    with path.open("ab") as file:
        file.write(SECOND)
    assert reader.read_all()["offset"].to_pylist() == [0, 1, 2]
