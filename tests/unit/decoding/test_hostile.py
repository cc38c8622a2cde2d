"""What somebody could write on purpose, or what fuzzing found: one bad batch costs one batch, in bounded
work and memory."""

from __future__ import annotations

import gzip
import logging
import os
import struct
import time
import zlib
from pathlib import Path
from typing import Any

import lz4.frame
import pyarrow as pa
import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding import arrow
from kafka_segment_source.decoding.compression import DecompressionError
from kafka_segment_source.errors import CorruptRecordError
from kafka_segment_source.storage.files import InputFile
from tests.support import writer
from tests.support.chunks import read_in_chunks
from tests.support.layouts import write_copies
from tests.support.plain import plain_bytes
from tests.support.reads import error_of, offsets, write
from tests.support.writer import Rec

LZ4, GZIP = writer.CODEC_IDS["lz4"], writer.CODEC_IDS["gzip"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty orders-0."""
    (tmp_path / "orders-0").mkdir()
    return tmp_path / "orders-0"


def batch(base: int, **fields: Any) -> bytes:
    """A batch of three records."""
    recs = [Rec(n, 1000 + base, b"key-%04d" % (base + n), b"value" * 20) for n in range(3)]
    return writer.record_batch(recs, base_offset=base, **fields)


def moved(data: bytes, base: int) -> bytes:
    """A batch with another base offset, which no checksum covers."""
    return struct.pack(">q", base) + data[8:]


# --- offsets, which no checksum covers -------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [8 * 1024 * 1024, len(batch(0)), 2 * len(batch(0)) + 5])
@pytest.mark.parametrize("ahead", [1, 2, 3, 2**20, 2**40, 2**62])
def test_an_offset_that_jumped_ahead_costs_its_own_batch(
    ahead: int, chunk: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flipped bit in baseOffset is told by the next batch, which steps back: the rest of the segment is not lost."""
    read_in_chunks(monkeypatch, chunk)
    path = write(folder, batch(0), moved(batch(3), 3 + ahead), batch(6), batch(9))
    error = error_of(folder)

    assert (error.what, error.path, error.position) == ("batch out of order", path, len(batch(0)))
    assert (error.found, error.expected) == (f"{3 + ahead} to {5 + ahead}", "offsets from 3 to 5")
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2, 6, 7, 8, 9, 10, 11]


def test_the_largest_offset_of_all(folder: Path) -> None:
    """Nothing can follow it, so it is no offset of a batch."""
    largest, second = moved(batch(0), 2**63 - 3), batch(3)
    torn = bytearray(batch(6))
    torn[-1] ^= 1
    write(folder, largest, second, bytes(torn))

    assert error_of(folder).what == "batch of impossible offsets"
    assert offsets(folder, mode="DROPMALFORMED") == [3, 4, 5]


@pytest.mark.parametrize("back", [1, 2, 5])
def test_an_offset_that_fell_back_costs_its_own_batch(back: int, folder: Path) -> None:
    """A baseOffset at or behind an earlier one is out of order itself."""
    write(folder, batch(0), batch(3), moved(batch(6), 6 - back), batch(9))
    assert error_of(folder).position == 2 * len(batch(0))
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2, 3, 4, 5, 9, 10, 11]


def test_a_wrapper_that_fell_back_over_the_one_before(folder: Path) -> None:
    """A wrapper's offset moves all its messages: where they reach behind the wrapper before, it is damaged."""
    recs = [Rec(n, 1000, None, b"v") for n in range(5)]
    first, second, third = (writer.message_set_v1(recs, base_offset=base, codec="gzip") for base in (0, 5, 10))
    write(folder, first, moved(second, 7), third)
    error = error_of(folder)

    assert (error.what, error.position, error.found) == ("message out of order", len(first), 3)
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]


def test_a_wrapper_behind_damage_that_states_its_offsets(folder: Path) -> None:
    """The header of a wrapper states only its last offset: here it follows the last one that the damage states."""
    damaged = batch(3)[:-3] + bytes([batch(3)[-3] ^ 4]) + batch(3)[-2:]
    recs = [Rec(n, 1000, None, b"v") for n in range(3)]
    write(folder, batch(0), damaged, writer.message_set_v1(recs, base_offset=4, codec="gzip"), batch(7))
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_a_duplicate_costs_nothing_but_itself(folder: Path) -> None:
    """The second of two equal batches is out of order, not the first, and not what follows."""
    write(folder, batch(0), batch(30), batch(30), batch(60))
    assert error_of(folder).position == 2 * len(batch(0))
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2, 30, 31, 32, 60, 61, 62]


# --- going on after damage -------------------------------------------------------------------------------------------


def with_false_headers(base: int) -> bytes:
    """A batch whose value is full of what looks like headers of batches that reach almost to the end of the file."""
    false = struct.pack(">qiibI", base + 1, 4000, 0, 2, 0) + bytes(2 + 4 + 34)
    return writer.record_batch([Rec(0, 1000, None, false * 100)], base_offset=base)


def test_many_false_headers_in_a_small_segment(folder: Path) -> None:
    """The next whole batch is found behind many that only look like one, in a small segment too."""
    damaged = bytearray(with_false_headers(3))
    struct.pack_into(">i", damaged, 8, len(damaged) + 100)  # its length is wrong: the next one must be searched for
    write(folder, batch(0), bytes(damaged), batch(6), batch(9), bytes(batch(12)) * 20)
    assert offsets(folder, mode="DROPMALFORMED")[:9] == [0, 1, 2, 6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("damage", ["a flipped bit", "a negative count"])
def test_a_batch_inside_a_value_is_no_batch(damage: str, folder: Path) -> None:
    """Kafka's bytes kept as somebody's value do not become rows when the batch around them is damaged."""
    outer = bytearray(writer.record_batch([Rec(0, 1000, b"copy", batch(4))], base_offset=3))
    if damage == "a flipped bit":
        outer[-1] ^= 1
    else:
        struct.pack_into(">i", outer, 57, -1)
    write(folder, batch(0), bytes(outer), batch(7))
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2, 7, 8, 9]


class Meter:
    """Counts the bytes that are read from files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.total = 0
        read_at, read_into = InputFile.read_at, InputFile.read_into

        def metered_at(file: InputFile, position: int, count: int) -> bytes:
            data = read_at(file, position, count)
            self.total += len(data)
            return data

        def metered_into(file: InputFile, position: int, target: Any) -> None:
            self.total += len(target)
            read_into(file, position, target)

        monkeypatch.setattr(InputFile, "read_at", metered_at)
        monkeypatch.setattr(InputFile, "read_into", metered_into)


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


INTERLEAVED = {
    "every other batch damaged": lambda n: batch(3 * n) if n % 2 else flipped(batch(3 * n)),
    "junk between": lambda n: batch(3 * n) + b"\x01" + b"junk" * 10,
    "zeros between": lambda n: batch(3 * n) + bytes(100),
    "offsets that jump": lambda n: moved(batch(3 * n), 3 * n + 10**6 * (n % 2)),
}


@pytest.mark.parametrize("how", INTERLEAVED)
def test_damage_everywhere_is_read_about_once(how: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment that is damaged in a thousand places is read a few times over, not a thousand times."""
    count = 2000
    path = write(folder, *[INTERLEAVED[how](n) for n in range(count)], batch(3 * count))
    meter = Meter(monkeypatch)
    found = offsets(folder, mode="DROPMALFORMED")

    assert len(found) >= 3 * count // 2 and found[-3:] == [3 * count + n for n in range(3)]
    assert meter.total <= 4096 * count + 20 * Path(path).stat().st_size


def test_lengths_that_claim_the_rest_of_the_segment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where every batch claims all that follows, checksums would take the square: the rest is given up,
    and reported."""
    count, size = 3000, len(batch(0))
    monkeypatch.setattr("kafka_segment_source.decoding.batch_search._LEAST_EFFORT", 0)
    claims = [
        batch(3 * n)[:8] + struct.pack(">i", (2 * count - n) * size - 12) + batch(3 * n)[12:] for n in range(count)
    ]
    pieces = [piece for n, claim in enumerate(claims) for piece in (batch(3 * n), moved(claim, 3 * n + 2))]
    path = write(folder, *pieces)
    meter = Meter(monkeypatch)
    with caplog.at_level(logging.WARNING, "kafka_segment_source"):
        found = offsets(folder, mode="DROPMALFORMED")

    assert found == list(range(len(found)))
    assert f"skipped up to byte {Path(path).stat().st_size} " in caplog.messages[-1]
    assert meter.total <= 20 * Path(path).stat().st_size


# --- inside a batch --------------------------------------------------------------------------------------------------


def test_bytes_after_a_wrappers_value(folder: Path) -> None:
    """A wrapper ends with its value: bytes left over are damage under a right CRC."""
    whole = writer.message_set_v1([Rec(0, 5, None, b"v")], base_offset=3, codec="gzip")
    longer = whole[:8] + struct.pack(">i", len(whole) - 12 + 7) + whole[12:] + b"surplus"
    longer = longer[:12] + struct.pack(">I", zlib.crc32(longer[16:])) + longer[16:]
    write(folder, batch(0), longer, batch(6))
    error = error_of(folder)

    assert (error.what, error.position) == ("batch that cannot be decompressed", len(batch(0)))
    assert error.found == "a wrapper with 7 bytes left over after its value"
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2, 6, 7, 8]


@pytest.mark.parametrize("far", [2**63 - 1, -(2**63), 2**63 // 1000 + 1])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_dropmalformed_drops_a_timestamp_beyond_microseconds(
    far: int, codec: writer.Codec, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch whose timestamp Spark cannot hold is dropped like any other that cannot be rows, if
    timestamps are wanted."""
    odd = writer.record_batch([Rec(0, 1), Rec(1, far), Rec(2, 1)], base_offset=3, codec=codec)
    write(folder, batch(0), odd, batch(6))
    with caplog.at_level(logging.WARNING, "kafka_segment_source"):
        rows = kafkaseg.scan(folder, columns=["offset", "timestamp"], mode="DROPMALFORMED").read_all()

    assert rows["offset"].to_pylist() == [0, 1, 2, 6, 7, 8]
    assert len(caplog.messages) == 1 and f"found {far} ms" in caplog.messages[0]
    assert offsets(folder, mode="DROPMALFORMED") == list(range(9))


@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED"])
def test_headers_count_against_max_batch_bytes(mode: str, folder: Path) -> None:
    """A header of no bytes takes two in the log and sixteen times as much in a column: the limit is on
    what it takes."""
    headers = ((b"", None),) * 2000
    write(folder, batch(0), writer.record_batch([Rec(0, 5, headers=headers)], base_offset=3, codec="zstd"), batch(6))
    assert offsets(folder, mode=mode, maxBatchBytes=64_000) == [0, 1, 2, 3, 6, 7, 8]
    if mode == "DROPMALFORMED":
        assert offsets(folder, mode=mode, maxBatchBytes=63_000) == [0, 1, 2, 6, 7, 8]
    else:
        error = error_of(folder, maxBatchBytes=63_000)
        assert (error.what, error.found) == ("record with too many headers", 2000)


def test_many_header_keys_that_are_not_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that are not UTF-8 become Python objects some at a time, and stay in order."""
    monkeypatch.setattr(arrow, "_KEYS_AT_ONCE", 3)
    raw = [b"k%d" % n if n % 2 else b"\xff%d" % n for n in range(10)]
    keys = pa.Array.from_buffers(pa.string(), 10, pa.array(raw, pa.binary()).buffers())
    assert arrow._replace_invalid_utf8(keys).to_pylist() == [key.decode("utf-8", "replace") for key in raw]


# --- decompressors ---------------------------------------------------------------------------------------------------


def test_lz4_after_a_frame_that_failed() -> None:
    """A damaged frame that says its content size leaves no trace: later frames are read as ever."""
    good = writer.compress("lz4", b"abc" * 1000)
    damaged = bytearray(lz4.frame.compress(os.urandom(1000), store_size=True, block_checksum=True))
    damaged[500] ^= 1
    for _ in range(3):
        with pytest.raises(DecompressionError):
            plain_bytes(LZ4, bytes(damaged), 10_000)
        with pytest.raises(DecompressionError, match="maxBatchBytes"):
            plain_bytes(LZ4, good, 100)
        assert plain_bytes(LZ4, good, 10_000) == b"abc" * 1000


def test_gzip_members_take_linear_time() -> None:
    """A hundred thousand empty members in a row are read one by one, not each with a copy of all that follow."""
    began = time.process_time()
    assert plain_bytes(GZIP, gzip.compress(b"", mtime=0) * 300_000, 1000) == b""
    assert time.process_time() - began < 15  # copying takes 40 s, this takes 1


@pytest.mark.parametrize("rest", [b"\0", b"\0" * 40, b"anything"])
def test_what_follows_gzip_members(rest: bytes) -> None:
    """Whatever follows gzip members without being one is not looked at: Java's reader, and so Kafka, does neither."""
    stored = gzip.compress(b"plain") + gzip.compress(b" text") + rest
    assert plain_bytes(GZIP, stored, 1000) == b"plain text"


# --- sizes and names -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not os.environ.get("KAFKASEG_LONG"), reason="reads 5 GB of zeros: KAFKASEG_LONG=1")
def test_a_log_beyond_four_gib(folder: Path) -> None:
    """Positions above 2**32 are right, in columns and in errors, although Kafka makes no such segments."""
    path = write(folder, batch(0))
    os.truncate(path, 5 << 30)
    assert offsets(folder) == [0, 1, 2]
    with Path(path).open("r+b") as file:
        file.seek((4 << 30) + 5)
        file.write(batch(3))
    rows = kafkaseg.scan(folder, includeMetadata=True, mode="DROPMALFORMED").read_all()
    assert [each["position"] for each in rows["metadata"].to_pylist()] == [0] * 3 + [(4 << 30) + 5] * 3


def test_a_name_that_is_not_utf8(folder: Path) -> None:
    """A file or directory with a name in another encoding is not Kafka's, and harms nobody."""
    write(folder, batch(0))
    (Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.log"))).touch()
    (Path(os.fsdecode(os.fsencode(folder.parent) + b"/caf\xe9-0"))).mkdir()
    assert offsets(folder) == offsets(folder.parent) == [0, 1, 2]


def test_errors_kept_are_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment of nothing but damage does not fill memory with errors; each is logged all the same."""
    from kafka_segment_source.decoding.damage import Damage  # noqa: PLC0415

    monkeypatch.setattr("kafka_segment_source.decoding.damage._KEPT", 2)
    damage = Damage(drop=True)
    for n in range(5):
        damage.report(CorruptRecordError("damage", path="x", position=n, found=1, expected=2))
    assert [error.position for error in damage.skipped] == [0, 1]


def test_a_batch_where_there_is_room_for_none(tmp_path: Path) -> None:
    """The next file begins right behind the batch before it. The error says so, and not "from 3 to 2"."""
    [path] = write_copies(tmp_path, {0: "[0 e0] [1-2 e0] [0 e0]", 3: "[3 e0]"})
    with pytest.raises(CorruptRecordError) as caught:
        kafkaseg.scan(path).read_all()
    assert (caught.value.found, caught.value.expected) == ("0 to 0", "no batch before offset 3")
