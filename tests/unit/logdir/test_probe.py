"""probe: headers that planning may believe, one at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_segment_source.logdir.probe import BatchHeader, HeaderProbe
from kafka_segment_source.storage.files import InputFile
from kafka_segment_source.storage.store import LOCAL
from tests.support import writer
from tests.support.batches import control, data, empty
from tests.support.logs import simple_log, simple_segment
from tests.support.writer import Rec

SEGMENT = simple_segment(
    [
        data(5, 10, 30, 20),
        data(8, 40, codec="zstd", last=9, payload=6000),
        control(10, 99),
        empty(11, 14, 77),
        data(15, 1),
    ]
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The segment's .log."""
    return next(simple_log(SEGMENT).write(tmp_path).glob("*.log"))


def probe_of(file: InputFile, size: int, check_crcs: bool = True) -> HeaderProbe:
    return HeaderProbe(file, size, check_crcs)


def test_walk_tells_every_batch(path: Path) -> None:
    """A walk gives each batch's position, size, offsets, largest timestamp and kind, in order."""
    with InputFile(str(path), LOCAL) as file:
        headers = list(probe_of(file, path.stat().st_size).walk(0))

    found = [h and (h.position, h.size, h.end, h.base_offset, h.last_offset, h.max_timestamp) for h in headers]
    assert found == [
        (b.position, len(b.data), b.end, b.base_offset, b.last_offset, b.max_timestamp) for b in SEGMENT.batches
    ]
    assert [h and h.is_control for h in headers] == [False, False, True, False, False]
    assert [h and h.is_compressed for h in headers] == [False, True, False, False, False]
    assert [h and h.count for h in headers] == [3, 1, 1, 0, 1]


@pytest.mark.parametrize("magic", [0, 1])
def test_headers_of_message_sets(magic: int, tmp_path: Path) -> None:
    """A message's header tells its own offset and, in magic 1, its timestamp; its count is unknown."""
    (tmp_path / "x").write_bytes(writer.message(7, b"k", b"v", magic=magic, timestamp=55))
    with InputFile(str(tmp_path / "x"), LOCAL) as file:
        header = probe_of(file, (tmp_path / "x").stat().st_size).proven(0)

    assert header is not None
    assert (header.magic, header.base_offset, header.last_offset, header.count) == (magic, 7, 7, -1)
    assert header.max_timestamp == (55 if magic else -1)
    assert not header.is_control


@pytest.mark.parametrize("back_and_forth", [False, True])
def test_any_order_of_positions(path: Path, back_and_forth: bool) -> None:
    """Positions may be asked for in any order: what was read for one is not taken for another."""
    batches = list(SEGMENT.batches)[:: -1 if back_and_forth else 1]
    with InputFile(str(path), LOCAL) as file:
        probe = probe_of(file, path.stat().st_size)
        assert [probe.at(b.position).base_offset for b in batches] == [b.base_offset for b in batches]  # type: ignore[union-attr]


def test_a_batch_is_proven_once(tmp_path: Path) -> None:
    """What was proven is remembered, of many batches the last few; what was only read is not taken for proven."""
    segment = simple_segment([data(at, 10) for at in range(200)])
    path = next(simple_log(segment).write(tmp_path).glob("*.log"))
    with InputFile(str(path), LOCAL) as file:
        probe = probe_of(file, path.stat().st_size)
        first = probe.walk(0)
        assert next(first) is probe.proven(0)
        assert [header and header.base_offset for header in first] == list(range(1, 200))
        assert [header and header.base_offset for header in probe.walk(0)] == list(range(200))

    damaged = segment.batches[1]
    with path.open("r+b") as log:
        log.seek(damaged.end - 1)
        log.write(b"\xff")
    with InputFile(str(path), LOCAL) as file:
        probe = probe_of(file, path.stat().st_size)
        assert probe.at(damaged.position) is not None
        assert probe.proven(damaged.position) is None
        assert probe.proven(damaged.position) is None


@pytest.mark.parametrize("position", [-1, 1, 30, 61, 10**9])
def test_no_batch_there(path: Path, position: int) -> None:
    """A position outside the file, or inside a batch, is no batch that could be proven."""
    with InputFile(str(path), LOCAL) as file:
        assert probe_of(file, path.stat().st_size).proven(position) is None


def changed(at: int, value: bytes, crc: bool = True) -> bytes:
    """A batch of two records with bytes changed, and its CRC made good again."""
    batch = bytearray(writer.record_batch([Rec(0, 5, b"a", b"b"), Rec(1, 6)], base_offset=3))
    batch[at : at + len(value)] = value
    return writer.with_right_crc(bytes(batch)) if crc else bytes(batch)


IMPOSSIBLE = {
    "length below a header": changed(8, b"\0\0\0\x30"),
    "negative length": changed(8, b"\xff\0\0\0"),
    "length past the end": changed(8, b"\0\0\xff\0"),
    "magic 3": changed(16, b"\x03"),
    "negative magic": changed(16, b"\xff"),
    "negative lastOffsetDelta": changed(23, b"\xff\xff\xff\xff"),
    "negative count": changed(57, b"\xff\xff\xff\xff"),
    "negative base offset": changed(0, b"\xff" * 8),
    "cut header": changed(0, b"")[:60],
    "cut magic": changed(0, b"")[:16],
    "nothing": b"",
    "zeros": bytes(200),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_headers(name: str, tmp_path: Path) -> None:
    """Values that no batch can have are no header, CRC or not."""
    (tmp_path / "x").write_bytes(IMPOSSIBLE[name])
    with InputFile(str(tmp_path / "x"), LOCAL) as file:
        for check_crcs in (True, False):
            probe = probe_of(file, len(IMPOSSIBLE[name]), check_crcs)
            assert probe.at(0) is None
            assert probe.proven(0) is None


def test_a_header_is_believed_once_its_crc_holds(tmp_path: Path) -> None:
    """`at` tells what stands there; `proven` only what the CRC covers, unless CRCs are off."""
    (tmp_path / "x").write_bytes(changed(41, b"\x7f", crc=False))
    size = (tmp_path / "x").stat().st_size
    with InputFile(str(tmp_path / "x"), LOCAL) as file:
        assert isinstance(probe_of(file, size).at(0), BatchHeader)
        assert probe_of(file, size).proven(0) is None
        assert probe_of(file, size, check_crcs=False).proven(0) is not None


def test_a_walk_ends_where_proof_fails(path: Path) -> None:
    """A damaged batch is one None at the end of the walk; a walk to the end of the file has none."""
    third = SEGMENT.batches[2]
    damaged = bytearray(path.read_bytes())
    damaged[third.end - 1] ^= 1
    path.write_bytes(damaged)
    with InputFile(str(path), LOCAL) as file:
        headers = list(probe_of(file, len(damaged)).walk(0))
    assert [h and h.base_offset for h in headers] == [5, 8, None]


def test_the_size_planned_with_is_the_end(path: Path) -> None:
    """Bytes after the size given (a broker is appending) do not exist."""
    second = SEGMENT.batches[1]
    with InputFile(str(path), LOCAL) as file:
        assert [h and h.base_offset for h in probe_of(file, second.end).walk(0)] == [5, 8]
        assert [h and h.base_offset for h in probe_of(file, second.end - 1).walk(0)] == [5, None]
