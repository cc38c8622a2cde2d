"""cuts: maxRecordsPerPartition takes one walk over a segment, however many pieces it makes, with an index
or without."""

from __future__ import annotations

from dataclasses import dataclass
from operator import truediv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.logdir.catalog import list_logs
from kafka_segment_source.logdir.probe import BatchHeader, HeaderProbe
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.options import parse_options
from kafka_segment_source.planning.cuts import count_pieces, cut_by_records
from kafka_segment_source.storage.files import InputFile
from kafka_segment_source.trust import Trust
from tests.support.batches import BatchSpec, data
from tests.support.logs import Segment, simple_log, simple_segment


@dataclass
class Work:
    """What planning did: batches whose CRC it was asked to check, bytes that it read."""

    proofs: int = 0
    bytes_read: int = 0


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Counts from now on."""
    done = Work()
    proven, read_at = HeaderProbe.proven, InputFile.read_at

    def counted_proof(probe: HeaderProbe, position: int) -> BatchHeader | None:
        done.proofs += 1
        return proven(probe, position)

    def counted_read(file: InputFile, position: int, count: int) -> bytes:
        read = read_at(file, position, count)
        done.bytes_read += len(read)
        return read

    monkeypatch.setattr(HeaderProbe, "proven", counted_proof)
    monkeypatch.setattr(InputFile, "read_at", counted_read)
    return done


def batches_of(records: int, count: int, payload: int = 0) -> list[BatchSpec]:
    """`count` batches of `records` records each."""
    return [data(first, *[5] * records, payload=payload) for first in range(0, count * records, records)]


def offsets_of_pieces(path: Path, most: int, **options: Any) -> list[tuple[int, int | None]]:
    splits = kafkaseg.plan(path, maxRecordsPerPartition=most, **options).splits
    return [(split.start_offset, split.end_offset) for split in splits]


@pytest.mark.parametrize("count", [200, 400])
@pytest.mark.parametrize("most", [1, 7])
def test_small_batches_without_an_index(count: int, most: int, work: Work, tmp_path: Path) -> None:
    """Each batch is proven once for the cuts and once for the end of the log: twice as many batches cost
    twice as much."""
    segment = simple_segment(batches_of(1, count, payload=1000))
    path = simple_log(segment).write(tmp_path)

    pieces = offsets_of_pieces(path, most)

    assert pieces[:2] == [(0, most), (most, 2 * most)] and len(pieces) == -(-count // most)
    assert work.proofs <= 2 * count + 2
    assert work.bytes_read <= 4 * len(segment.log)


@pytest.mark.parametrize("with_index", [False, True])
def test_batches_with_more_records_than_a_piece(with_index: bool, work: Work, tmp_path: Path) -> None:
    """A batch that is cut into many pieces is proven once, not once for each; an index costs one proof more a batch."""
    count, records = 20, 500
    index = [(number * records, number) for number in range(1, count)] if with_index else None
    path = simple_log(simple_segment(batches_of(records, count), index=index)).write(tmp_path)

    pieces = offsets_of_pieces(path, 10)

    assert pieces[:-1] == [(first, first + 10) for first in range(0, count * records - 10, 10)]
    assert work.proofs <= 2 * count + 4


def test_an_index_spares_the_walk(work: Work, tmp_path: Path) -> None:
    """Large pieces of many batches: only batches near a cut are looked at, and the cuts are those without an index."""
    index = [(number, number) for number in range(10, 1000, 10)]
    indexed = simple_log(simple_segment(batches_of(1, 1000), index=index)).write(tmp_path / "with")
    plain = simple_log(simple_segment(batches_of(1, 1000))).write(tmp_path / "without")

    pieces = offsets_of_pieces(indexed, 205)

    assert work.proofs <= 60
    assert pieces == offsets_of_pieces(plain, 205) == offsets_of_pieces(indexed, 205, trustIndexes=False)
    assert [first for first, _ in pieces] == [0, 205, 410, 615, 820]


def test_an_index_leads_past_damage(tmp_path: Path) -> None:
    """Where a batch cannot be proven, cuts go on behind it if the index leads there, and end before it if not."""
    index = [(50, 50)]
    segment = simple_segment(batches_of(1, 100), index=index)
    at = segment.batches[45].position + 70
    torn = Segment(0, segment.log[:at] + b"\xa5" + segment.log[at + 1 :], segment.index, None, segment.batches)
    path = simple_log(torn).write(tmp_path)

    assert [first for first, _ in offsets_of_pieces(path, 20)] == [0, 20, 40, 60, 80]
    assert [first for first, _ in offsets_of_pieces(path, 20, trustIndexes=False)] == [0, 20, 40]


def test_a_piece_is_walked_from_its_start(work: Work, tmp_path: Path) -> None:
    """What lies before a range that zone maps left is not read again for it."""
    segment = simple_segment(batches_of(1, 300))
    path = simple_log(segment).write(tmp_path)
    (listed,) = list_logs(parse_options({"path": str(path)})[0].source)[0].segments
    (whole,) = kafkaseg.plan(path).splits
    bounds = whole.bounds._replace(offsets=OffsetRange(250))
    split = whole._replace(start=segment.batches[250].position, bounds=bounds)
    work.proofs = 0

    with SegmentView(listed, Trust()) as view:
        pieces = cut_by_records(view, split, 10)

    assert [piece.start_offset for piece in pieces] == [250, 260, 270, 280, 290]
    assert work.proofs <= 51


def test_an_absurd_offset_of_a_wrapper_makes_few_pieces(tmp_path: Path) -> None:
    """No checksum covers it. How many pieces it makes depends on bytes, not on offsets, and the rows are those of one
    split."""
    wrappers = [data(first, 5, 5, 5, magic=1, codec="gzip") for first in (0, 3)]
    folder = simple_log(simple_segment(wrappers)).write(tmp_path)
    [path] = folder.glob("*.log")
    log = bytearray(path.read_bytes())
    log[len(log) // 2 : len(log) // 2 + 8] = (2**30).to_bytes(8, "big")
    path.write_bytes(log)

    pieces = offsets_of_pieces(path, 1)

    assert 3 <= len(pieces) <= 160 * len(log)
    whole, cut = (
        kafkaseg.scan(path, ["offset"], **options).read_all()["offset"].to_pylist()
        for options in ({}, {"maxRecordsPerPartition": 2**50})
    )
    assert cut == whole and len(whole) == 6


def test_a_wide_batch_makes_few_pieces(tmp_path: Path) -> None:
    """Compaction leaves one record of a batch, or a hostile one says that it has two thousand million offsets."""
    folder = simple_log(simple_segment([data(0, 5, last=2**31 - 2), data(2**31 - 1, 5)])).write(tmp_path)
    assert len(offsets_of_pieces(folder, 1)) == 2
    assert kafkaseg.scan(folder, ["offset"], maxRecordsPerPartition=1).read_all().num_rows == 2

    folder = simple_log(simple_segment([data(0, 5, 5, 5, last=2**31 - 2)]), partition=1).write(tmp_path)
    size = sum(path.stat().st_size for path in folder.glob("*.log"))
    assert 2 <= len(offsets_of_pieces(folder, 2)) <= 160 * size


@given(sizes=st.lists(st.integers(0, 10**6), max_size=8), wanted=st.integers(1, 60))
def test_the_largest_piece_is_cut_first(sizes: list[int], wanted: int) -> None:
    """The counts are those of cutting one piece after the other, always a largest one."""
    slow = [1] * len(sizes)
    for _ in range(wanted - len(sizes) if sizes else 0):
        at = max(range(len(sizes)), key=lambda each: (sizes[each] / slow[each], -each))
        slow[at] += 1
    counts = count_pieces(sizes, wanted)
    assert sum(counts) == sum(slow)
    assert max(map(truediv, sizes, counts), default=0) == max(map(truediv, sizes, slow), default=0)


def test_an_absurd_number_of_pieces_costs_nothing() -> None:
    """A number far above that of the batches is divided, not counted up to."""
    counts = count_pieces([10, 30], 10**12)
    assert sum(counts) == 10**12 and counts[0] * 3 in range(counts[1] - 4, counts[1] + 5)


@pytest.mark.parametrize("bit", [5, 8, 40, 58])
def test_no_piece_begins_at_a_batch_that_jumped(bit: int, tmp_path: Path) -> None:
    """A range that zone maps left may begin at such a batch. Its offset is no bound of a piece."""
    segment = simple_segment(batches_of(1, 20))
    path = simple_log(segment).write(tmp_path)
    (listed,) = list_logs(parse_options({"path": str(path)})[0].source)[0].segments
    (whole,) = kafkaseg.plan(path).splits
    start = segment.batches[4].position
    log = bytearray(Path(listed.path).read_bytes())
    log[start : start + 8] = (4 ^ 1 << bit).to_bytes(8, "big")
    Path(listed.path).write_bytes(log)
    split = whole._replace(start=start, bounds=whole.bounds._replace(offsets=OffsetRange(4)))

    with SegmentView(listed._replace(version=whole.version), Trust(trust_indexes=False)) as view:
        pieces = cut_by_records(view, split, 3)

    assert [piece.start_offset for piece in pieces if piece.start_offset >= 20] == []


@pytest.mark.parametrize("kept", [1, 20, 70, 0])
def test_a_piece_begins_at_the_last_batch_before_a_torn_one(kept: int, tmp_path: Path) -> None:
    """A gap lies before it, and the end of the log after it: no neighbour contradicts its offset. 0: zeros follow."""
    segment = simple_segment([data(0, 5), data(2, 5), data(3, 5)])
    path = simple_log(segment).write(tmp_path)
    (listed,) = list_logs(parse_options({"path": str(path)})[0].source)[0].segments
    end = segment.batches[1].end
    Path(listed.path).write_bytes(segment.log[: end + kept] if kept < 70 else segment.log[:-1])
    if not kept:
        Path(listed.path).write_bytes(segment.log[:end] + bytes(40))

    plan = kafkaseg.plan(path, maxRecordsPerPartition=1, trustIndexes=False)

    assert len(plan.splits) == 2
