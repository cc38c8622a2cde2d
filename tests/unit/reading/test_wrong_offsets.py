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
from kafka_segment_source.errors import CorruptRecordError, DataError
from tests.support import writer
from tests.support.cases import choose_cases
from tests.support.internal_logs import offset_key, offset_value
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
    for first in choose_cases(range(30), 3):
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


# --- the end of a log ------------------------------------------------------------------------------------------------


def stating(data: bytes, base: int) -> bytes:
    """The batch with another base offset."""
    return base.to_bytes(8, "big") + data[8:]


HEAD, MIDDLE, LAST = batch(0, 4), batch(5, 9), batch(10, 14)
DOUBTFUL_ENDS = {
    "the last one fell": ({0: [HEAD, MIDDLE, stating(LAST, 2)]}, 10),
    "the last one fell to the end of the one before it": ({0: [HEAD, MIDDLE, stating(LAST, 9)]}, 10),
    "the last one of two in a file fell below its name": ({0: [HEAD], 5: [MIDDLE, stating(LAST, 1)]}, 10),
    "the last file is an earlier one": ({0: [HEAD], 5: [MIDDLE], 10: [HEAD]}, 10),
    "the last file is the first two": ({0: [HEAD], 5: [MIDDLE], 10: [HEAD, MIDDLE]}, 10),
    "the last one rose beyond a segment": ({0: [HEAD, MIDDLE, flipped(LAST, 40)]}, 10),
    "the one before the last rose": ({0: [HEAD, stating(MIDDLE, 50), LAST]}, 15),
}


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("case", DOUBTFUL_ENDS)
def test_an_end_in_doubt(case: str, indexed: bool, tmp_path: Path) -> None:
    """The last batch, or the one before it, contradicts the other one or its file. Nobody knows where the log ends:
    that is damage, not another end."""
    segments, end = DOUBTFUL_ENDS[case]
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base, batches in segments.items():
        (folder / writer.segment_name(base)).write_bytes(b"".join(batches))
    if indexed and len(segments[0]) == 3:
        (folder / writer.segment_name(0, ".index")).write_bytes(
            writer.offset_index([(9, len(HEAD)), (14, len(HEAD) + len(MIDDLE))], 0)
        )
    lenient = {"mode": "DROPMALFORMED"}

    if "before the last" not in case:
        answer = kafkaseg.offsets_for_time(folder, 1007)
        assert (answer.partitions[0].offset, answer.partitions[0].log_end_offset) == (7, end)
        assert [said for said in answer.warnings if f"the end of partition t-0, {end}, is in doubt" in said]
    with pytest.raises(DataError, match="batch out of order"):
        kafkaseg.offsets_for_time(folder, "latest")
    answer = kafkaseg.offsets_for_time(folder, "latest", **lenient)
    assert (answer.partitions[0].offset, len(answer.warnings)) == (end, 1)

    place = kafkaseg.locate_offset(folder, 3)
    assert place.partitions[0].batch is not None and len(place.warnings) == 1
    with pytest.raises(DataError, match="batch out of order"):
        kafkaseg.locate_offset(folder, end)
    assert kafkaseg.locate_offset(folder, end, **lenient).partitions[0].batch is None

    strategy = {"startingTimestamp": 9000, "startingOffsetsByTimestampStrategy": "latest"}
    with pytest.raises(DataError, match="batch out of order"):
        rows(folder, **strategy)
    assert rows(folder, **strategy, **lenient) == []

    commits = tmp_path / "__consumer_offsets-0"
    commits.mkdir()
    commit = Rec(0, 1000, offset_key("readers", "t"), offset_value(5))
    (commits / writer.segment_name(0)).write_bytes(writer.record_batch([commit]))
    assert kafkaseg.scan(tmp_path, view="consumerOffsets").read_all()["lag"].to_pylist() == [None]
    (folder.parent / "replication-offset-checkpoint").write_text("0\n1\nt 0 8\n")
    answer = kafkaseg.offsets_for_time(folder, "latest", endAt="highWatermark")
    assert (answer.partitions[0].offset, answer.warnings) == (8, ())


@pytest.mark.parametrize("is_last", [False, True])
def test_latest_behind_damage(is_last: bool, tmp_path: Path) -> None:
    """Sound batches behind damage count. Damage at the end leaves the end in doubt."""
    hurt = [MIDDLE[:-1] + bytes([MIDDLE[-1] ^ 1]), LAST] if not is_last else [MIDDLE, LAST[:-1] + bytes([LAST[-1] ^ 1])]
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / writer.segment_name(0)).write_bytes(b"".join([HEAD, *hurt]))
    if is_last:
        with pytest.raises(CorruptRecordError, match="do not have the CRC"):
            kafkaseg.offsets_for_time(folder, "latest")
        answer = kafkaseg.offsets_for_time(folder, "latest", mode="DROPMALFORMED")
        assert (answer.partitions[0].offset, len(answer.warnings)) == (10, 1)
    else:
        assert kafkaseg.offsets_for_time(folder, "latest").partitions[0].offset == 15
