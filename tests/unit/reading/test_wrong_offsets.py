"""Offsets that no CRC covers: a base offset with a flipped bit gives no row of another offset, and loses no other
batch.

The logs are never compacted, so a batch begins where the one before it ends. What must come out follows from that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import DataError
from tests.support import writer
from tests.support.writer import Rec

BITS = (0, 1, 2, 5, 23, 62, 63)
Row = tuple[int, bytes]


def batch(first: int, last: int, epoch: int = 0) -> bytes:
    recs = [Rec(at, 1000 + first + at, b"k", b"v%d" % (first + at)) for at in range(last - first + 1)]
    return writer.record_batch(recs, base_offset=first, leader_epoch=epoch)


def flipped(data: bytes, bit: int) -> bytes:
    """The batch with one bit of its base offset flipped."""
    base = int.from_bytes(data[:8], "big") ^ (1 << bit)
    return base.to_bytes(8, "big") + data[8:]


def bad(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def put(folder: Path, batches: Sequence[bytes], entries: Sequence[tuple[int, int]] | None = None) -> Path:
    """Writes a copy of t-0. entries: of its `.index`, as (offset, number of the batch)."""
    directory = folder / "t-0"
    directory.mkdir(parents=True)
    (directory / writer.segment_name(0)).write_bytes(b"".join(batches))
    if entries is not None:
        places = [(offset, sum(map(len, batches[:number]))) for offset, number in entries]
        (directory / writer.segment_name(0, ".index")).write_bytes(writer.offset_index(places, 0))
    return folder


def rows(paths: Any, **options: Any) -> list[Row]:
    found = kafkaseg.scan(paths, ["offset", "value"], **options).read_all()
    return list(zip(found["offset"].to_pylist(), found["value"].to_pylist(), strict=True))


def wanted(first: int, last: int, but: Sequence[int] = ()) -> list[Row]:
    return [(offset, b"v%d" % offset) for offset in range(first, last + 1) if offset not in but]


SPANS = [(0, 9), (10, 11), (12, 13), (14, 15), (16, 17), (18, 19)]
WHOLE = [batch(*span) for span in SPANS]
READS: list[dict[str, Any]] = [
    {},
    {"mode": "DROPMALFORMED"},
    {"isolationLevel": "read_committed"},
    {"trustIndexes": False},
]


@pytest.mark.parametrize("bit", BITS)
@pytest.mark.parametrize("options", READS, ids=str)
@pytest.mark.parametrize("indexed", [True, False])
def test_a_flip_before_damage(tmp_path: Path, bit: int, options: dict[str, Any], indexed: bool) -> None:
    """The batch after it is damaged, and another copy is whole: every row once."""
    hurt = [WHOLE[0], flipped(WHOLE[1], bit), bad(WHOLE[2]), *WHOLE[3:]]
    one = put(tmp_path / "a", hurt, [(19, 5)] if indexed else None)
    for name, more in (("b", []), ("c", [batch(20, 49)])):
        other = put(tmp_path / name, [*WHOLE, *more])
        assert rows([one, other], **options) == wanted(0, 49 if more else 19)
        assert rows([other, one], **options) == wanted(0, 49 if more else 19)
    late = put(tmp_path / "d", WHOLE[1:])
    (late / "t-0" / writer.segment_name(0)).rename(late / "t-0" / writer.segment_name(10))
    assert rows([one, late], **options) == wanted(0, 19)


@pytest.mark.parametrize("bit", [bit for bit in BITS if bit not in (0, 2)])
def test_a_flip_before_damage_in_one_copy(tmp_path: Path, bit: int) -> None:
    """Without another copy: an error, or all rows but those of the two batches.

    Bits 0 and 2 move it into the place of the damaged batch, and a compacted log may look so (docs/damage.md).
    """
    one = put(tmp_path, [WHOLE[0], flipped(WHOLE[1], bit), bad(WHOLE[2]), *WHOLE[3:]])
    with pytest.raises(DataError):
        rows(one)
    assert rows(one, mode="DROPMALFORMED") == wanted(0, 19, but=[10, 11, 12, 13])


@pytest.mark.parametrize("bit", BITS)
@pytest.mark.parametrize("options", READS, ids=str)
@pytest.mark.parametrize("torn", [True, False])
def test_a_flip_in_the_last_batch(tmp_path: Path, bit: int, options: dict[str, Any], torn: bool) -> None:
    """Another copy has the same batch where it belongs."""
    one = put(tmp_path / "a", [*WHOLE[:5], flipped(WHOLE[5], bit), *([batch(20, 25)[:50]] if torn else [])])
    other = put(tmp_path / "b", WHOLE)
    assert rows([one, other], **options) == wanted(0, 19)
    assert rows([other, one], **options) == wanted(0, 19)
    longer = put(tmp_path / "c", [*WHOLE, batch(20, 29)])
    assert rows([one, longer], **options) == wanted(0, 29)


@pytest.mark.parametrize("bit", [1, 2, 5, 23, 62])
def test_verify_names_a_last_batch_that_the_index_contradicts(tmp_path: Path, bit: int) -> None:
    """One copy: a read cannot tell which of the two is damaged, and believes the log."""
    one = put(tmp_path, [*WHOLE[:5], flipped(WHOLE[5], bit)], [(18, 5)])
    assert any(not finding.path.endswith(".timeindex") for finding in kafkaseg.verify(one).problems)


LONG = [(0, 5), (6, 14), (15, 19), (20, 29)]


@pytest.mark.parametrize("bit", BITS)
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("entries", ["last", "first", "append", "none"])
def test_windows_of_one_copy(tmp_path: Path, bit: int, number: int, entries: str) -> None:
    """Any window, whatever the index says: right rows or an error, and DROPMALFORMED leaves out that batch alone.

    A read cannot notice a last batch that has moved up: nothing is behind it (docs/damage.md).
    """
    batches = [batch(*span) for span in LONG]
    batches[number] = flipped(batches[number], bit)
    named = {
        "last": [(last, at) for at, (_, last) in enumerate(LONG) if at],
        "first": [(first, at) for at, (first, _) in enumerate(LONG) if at],
        "append": [(19, 1)],  # of a follower's append of two batches
        "none": None,
    }[entries]
    one = put(tmp_path, batches, named)
    lost = range(LONG[number][0], LONG[number][1] + 1)
    is_last = number == 3
    for first in range(30):
        for last in (first, first + 3, 29):
            if last > 29:
                continue
            bounds = {"startingOffsets": {"t": {"0": first}}, "endingOffsets": {"t": {"0": last + 1}}}
            whole, kept = wanted(first, last), wanted(first, last, but=lost)
            reads = f"{first} to {last}, bit {bit}"
            if is_last and set(lost) & set(range(first, last + 1)):
                continue  # docs/damage.md: nothing can notice it
            with contextlib.suppress(DataError, kafkaseg.DataLossError):
                assert rows(one, **bounds) == whole, reads
            lenient = rows(one, mode="DROPMALFORMED", failOnDataLoss=False, **bounds)
            assert lenient in (whole, kept), reads
    for pieces in (2, 3, 4) if not is_last else ():
        with contextlib.suppress(DataError):
            assert rows(one, minPartitions=pieces) == wanted(0, 29)
        found = rows(one, minPartitions=pieces, mode="DROPMALFORMED")
        assert found in (wanted(0, 29, but=lost), wanted(0, 29)), pieces


@pytest.mark.parametrize("bit", [16, 20, 31, 64, 127, 4, 5, 6, 7])
@pytest.mark.parametrize("options", READS, ids=str)
@pytest.mark.parametrize("noted", [True, False])
def test_the_epoch_of_a_batch_whose_offset_is_wrong_decides_nothing(
    tmp_path: Path, bit: int, options: dict[str, Any], noted: bool
) -> None:
    """The end of the shorter copy falls into a jumped batch of an old epoch."""
    spans = [(0, 9, 1), (10, 11, 1), (12, 13, 1), (14, 14, 3), (15, 19, 3), (20, 39, 3)]
    whole = [batch(*span) for span in spans]
    one = put(tmp_path / "a", [*whole[:2], flipped(whole[2], bit % 63), *whole[3:]])
    other = put(tmp_path / "b", whole[:4])
    if noted:
        for copy in (one, other):
            (copy / "t-0" / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n3 14\n")
    assert rows([one, other], **options) == wanted(0, 39)
