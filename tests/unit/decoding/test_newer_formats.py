"""Batches of a magic or codec that this version does not read: an error in every mode, told from damage by the CRC."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.compression import _DECOMPRESSORS
from kafka_segment_source.errors import CorruptRecordError, UnsupportedFormatError
from tests.cli.runner import answer
from tests.support import writer
from tests.support.reads import error_of, offsets, write
from tests.support.writer import Rec


def batch(base: int, **fields: Any) -> bytes:
    """Three records from `base` on."""
    recs = [Rec(n, 1000 + base, b"key-%04d" % (base + n), b"value" * 20) for n in range(3)]
    return writer.record_batch(recs, base_offset=base, **fields)


FIRST, SECOND, THIRD = batch(0), batch(10), batch(20)
SIZE = len(FIRST)


def of_magic(data: bytes, magic: int) -> bytes:
    """The batch with another magic: the CRC does not cover it."""
    return data[:16] + bytes([magic]) + data[17:]


def of_codec(data: bytes, codec: int) -> bytes:
    """The batch with another codec, its CRC right."""
    (attributes,) = struct.unpack_from(">h", data, 21)
    return writer.with_right_crc(data[:21] + struct.pack(">h", attributes & ~7 | codec) + data[23:])


def message_set(base: int, magic: int, codec: int) -> bytes:
    """A gzip wrapper of three messages that claims another codec, its CRC right."""
    records = [Rec(n, 1000, b"k", b"v" * 50) for n in range(3)]
    make = writer.message_set_v0 if magic == 0 else writer.message_set_v1
    data = make(records, base_offset=base, codec="gzip")
    data = data[:17] + bytes([data[17] & ~7 | codec]) + data[18:]
    return data[:12] + struct.pack(">I", zlib.crc32(data[16:])) + data[16:]


def flip(data: bytes, at: int, bits: int) -> bytes:
    return data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty orders-0."""
    (tmp_path / "orders-0").mkdir()
    return tmp_path / "orders-0"


ALL = "none, gzip, snappy, lz4 or zstd"
OLD = "none, gzip, snappy or lz4"
MAGIC = "batch of a magic that this version does not read"
CODEC = "batch of a codec that this version does not read"
NEWER: dict[str, tuple[bytes, str, object, str]] = {
    **{f"magic {n}": (of_magic(SECOND, n), MAGIC, n, "0, 1 or 2") for n in (3, 4, 7, 127)},
    **{f"codec {n}": (of_codec(SECOND, n), CODEC, f"codec {n}", ALL) for n in (5, 6, 7)},
    **{
        f"codec {n} under magic {magic}": (message_set(10, magic, n), CODEC, f"codec {n}{name}", OLD)
        for magic in (0, 1)
        for n, name in ((4, " (zstd)"), (5, ""), (7, ""))
    },
}
MODES = ["FAILFAST", "DROPMALFORMED"]


@pytest.mark.parametrize("check_crcs", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NEWER)
def test_no_mode_skips_a_newer_format(name: str, mode: str, check_crcs: bool, folder: Path) -> None:
    """A magic or codec above those known, under a right CRC: an error of its own that says what and where."""
    newer, what, found, expected = NEWER[name]
    path = write(folder, FIRST, newer, THIRD)
    error = error_of(folder, mode=mode, checkCrcs=check_crcs)

    assert type(error) is UnsupportedFormatError
    assert (error.what, error.found, error.expected) == (what, found, expected)
    assert (error.path, error.position) == (path, SIZE)
    assert error.offset == struct.unpack_from(">q", newer)[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("newer", [of_magic(SECOND, 3), of_codec(SECOND, 5)], ids=["magic", "codec"])
def test_a_newer_format_behind_damage(newer: bytes, mode: str, folder: Path) -> None:
    """What skips damage does not pass over a newer format behind it, whether the damaged length can be believed or
    not."""
    for damaged in (flip(FIRST, 100, 1), flip(FIRST, 11, 1), flip(FIRST, 9, 1), FIRST[:-9]):
        write(folder, damaged, newer, THIRD)
        kind = UnsupportedFormatError if mode == "DROPMALFORMED" else CorruptRecordError
        assert type(error_of(folder, mode=mode)) is kind


@pytest.mark.parametrize("mode", MODES)
def test_a_log_that_goes_on_in_a_newer_magic(mode: str, folder: Path) -> None:
    """After an upgrade nothing but the new format follows, up to the end of the log."""
    write(folder, FIRST, of_magic(SECOND, 3), of_magic(THIRD, 3))
    error = error_of(folder, mode=mode)
    assert (type(error), error.position, error.offset) == (UnsupportedFormatError, SIZE, 10)
    assert offsets(folder, mode=mode, failOnDataLoss=False, endingOffsets={"orders": {"0": 10}}) == [0, 1, 2]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("newer", [of_magic(SECOND, 3), of_codec(SECOND, 5)], ids=["magic", "codec"])
def test_offsets_around_a_newer_format(newer: bytes, mode: str, folder: Path) -> None:
    """Offsets before and after it can be read."""
    write(folder, FIRST, newer, THIRD)
    assert offsets(folder, mode=mode, endingOffsets={"orders": {"0": 3}}) == [0, 1, 2]
    assert offsets(folder, mode=mode, failOnDataLoss=False, endingOffsets={"orders": {"0": 10}}) == [0, 1, 2]
    after = {"mode": mode, "failOnDataLoss": False}
    assert offsets(folder, startingOffsets={"orders": {"0": 20}}, **after) == [20, 21, 22]
    for start in (2, 12):
        error = error_of(folder, startingOffsets={"orders": {"0": start}}, **after)
        assert type(error) is UnsupportedFormatError


@pytest.mark.parametrize("mode", MODES)
def test_committed_rows_before_a_newer_format(mode: str, folder: Path) -> None:
    """A newer magic may hide the marker of a transaction that is open there. A newer codec hides none."""
    opened = batch(0, producer_id=7, transactional=True)
    commit = writer.control_batch("commit", offset=3, timestamp=2000, producer_id=7)
    later = writer.control_batch("commit", offset=20, timestamp=2000, producer_id=7)
    before = {"isolationLevel": "read_committed", "mode": mode, "endingOffsets": {"orders": {"0": 3}}}

    write(folder, opened, commit, of_magic(SECOND, 3))
    assert offsets(folder, **before) == [0, 1, 2]
    write(folder, opened, of_codec(SECOND, 5), later)
    assert offsets(folder, **before) == [0, 1, 2]
    write(folder, opened, of_magic(SECOND, 3), later)
    assert type(error_of(folder, **before)) is UnsupportedFormatError
    assert offsets(folder, **before | {"isolationLevel": "read_uncommitted"}) == [0, 1, 2]


DAMAGED = {
    **{f"bit {bit} of the magic": flip(SECOND, 16, 1 << bit) for bit in range(1, 8)},
    **{f"bit {bit} of the codec": flip(SECOND, 22, 1 << bit) for bit in range(3)},
    "magic 3 under a wrong CRC": flip(of_magic(SECOND, 3), 100, 1),
    "magic 3 with a length beyond its bytes": flip(of_magic(SECOND, 3), 11, 1),
    "a negative magic": of_magic(SECOND, 0x83),
    **{f"bit {bit} of a message's codec": flip(message_set(10, 1, 1), 17, 1 << bit) for bit in (1, 2)},
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_flipped_bit_is_damage(name: str, folder: Path) -> None:
    """A flipped bit of the attributes breaks the CRC. One of the magic byte does not, so the values that it makes of 2
    are damage, but for 3, the next format."""
    write(folder, FIRST, DAMAGED[name], THIRD)
    assert type(error_of(folder)) is CorruptRecordError
    assert offsets(folder, mode="DROPMALFORMED") == [0, 1, 2, 20, 21, 22]


@pytest.mark.parametrize("codec", [5, 7])
def test_a_codec_without_proof(codec: int, folder: Path) -> None:
    """With checkCrcs=false the CRC is still what tells a newer codec from a flipped bit."""
    damaged = of_codec(SECOND, codec)
    write(folder, FIRST, flip(damaged, 100, 1), THIRD)
    error = error_of(folder, checkCrcs=False)
    assert (type(error), error.what, error.found) == (CorruptRecordError, "batch of unknown codec", f"codec {codec}")
    assert offsets(folder, checkCrcs=False, mode="DROPMALFORMED") == [0, 1, 2, 20, 21, 22]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("newer", [of_magic(SECOND, 3), of_codec(SECOND, 5)], ids=["magic", "codec"])
def test_a_newer_format_in_one_of_several_copies(newer: bytes, mode: str, tmp_path: Path) -> None:
    """What another copy holds in a format that is read comes from there; what none does is refused in every mode."""
    copies = [tmp_path / name / "orders-0" for name in ("a", "b")]
    for copy in copies:
        copy.mkdir(parents=True)
    write(copies[0], FIRST, newer, THIRD)
    write(copies[1], FIRST, SECOND, THIRD)
    assert offsets(copies, mode=mode) == [0, 1, 2, 10, 11, 12, 20, 21, 22]  # type: ignore[arg-type]
    write(copies[1], FIRST, newer, THIRD)
    error = error_of(copies, mode=mode)  # type: ignore[arg-type]
    assert (type(error), error.position, error.offset) == (UnsupportedFormatError, SIZE, 10)


@pytest.mark.parametrize("newer", [of_magic(SECOND, 3), of_codec(SECOND, 5)], ids=["magic", "codec"])
def test_verify_goes_on_behind_a_newer_format(newer: bytes, folder: Path) -> None:
    """It is a problem that says what to do, and no damage; damage behind it is found."""
    write(folder, FIRST, newer, flip(THIRD, 100, 1))
    problems = answer("verify", folder, "--deep", "--json", exit_code=1)["problems"]
    by_place = {problem["position"]: problem for problem in problems}
    assert sorted(by_place) == [SIZE, 2 * SIZE]
    assert "a newer Kafka wrote this" in by_place[SIZE]["meaning"]
    assert "a newer Kafka" not in by_place[2 * SIZE]["meaning"]


def test_every_codec_has_its_function() -> None:
    """The codecs of the format are those that can be decompressed."""
    assert {0, *_DECOMPRESSORS} == set(kafka_format.CODECS[2]) == set(range(len(kafka_format.CODEC_NAMES)))
