"""index: look-ups against sorted lists, and how much of a damaged file is believed."""

from __future__ import annotations

import bisect
import struct
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_segment_source.errors import PathError
from kafka_segment_source.logdir import index_entries
from kafka_segment_source.logdir.indexes import (
    read_offset_index,
    read_time_index,
    written_offsets,
    written_times,
)
from kafka_segment_source.named_indexes import OffsetIndex, TimeIndex, TransactionIndex
from kafka_segment_source.storage.files import Bytes, InputFile
from kafka_segment_source.storage.store import LOCAL
from tests.support import writer

BASE = 1000
LOG_SIZE = 2**31 - 1
INDEX_BYTES = 10 * 1024 * 1024  # segment.index.bytes, as brokers set it: an active index file is padded to it
BLOCK = 8192  # entries that may be read past the valid ones

rising = st.lists(st.integers(1, 50), max_size=60).map(lambda steps: np.cumsum(steps).tolist())


def offsets_of(path: Path, log_size: int = LOG_SIZE, base: int = BASE) -> list[tuple[int, int]]:
    found = read_offset_index(str(path), LOCAL, path.stat().st_size if path.exists() else None, base, log_size)
    assert (found.offsets.dtype, found.positions.dtype) == (np.int64, np.int64)
    assert len(found) == len(found.offsets) == len(found.positions)
    return list(zip(found.offsets.tolist(), found.positions.tolist(), strict=True))


def times_of(path: Path, next_base: int | None = None, base: int = BASE) -> list[tuple[int, int]]:
    found = read_time_index(str(path), LOCAL, path.stat().st_size if path.exists() else None, base, next_base)
    assert (found.timestamps.dtype, found.offsets.dtype) == (np.int64, np.int64)
    assert len(found) == len(found.offsets) == len(found.timestamps)
    return list(zip(found.timestamps.tolist(), found.offsets.tolist(), strict=True))


# --- look-ups --------------------------------------------------------------------------------------------------------


@given(offsets=rising, target=st.integers(-2, 3200))
def test_floor_and_ceiling(offsets: list[int], target: int) -> None:
    """floor is the last slot with offset ≤ the target or -1, ceiling the first with offset ≥ it or the length."""
    found = OffsetIndex("", np.array(offsets, np.int64), np.array(offsets, np.int64))

    assert found.floor(target) == bisect.bisect_right(offsets, target) - 1
    assert found.ceiling(target) == bisect.bisect_left(offsets, target)


@given(timestamps=rising, target=st.integers(-2, 3200))
def test_before(timestamps: list[int], target: int) -> None:
    """before is the last slot with a timestamp strictly below the target, or -1."""
    found = TimeIndex("", np.array(timestamps, np.int64), np.array(timestamps, np.int64))
    below = [slot for slot, timestamp in enumerate(timestamps) if timestamp < target]

    assert found.before(target) == (below[-1] if below else -1)


@given(timestamps=rising, target=st.integers(-2, 3200))
def test_floor_and_ceiling_of_times(timestamps: list[int], target: int) -> None:
    """floor is Kafka's TimeIndex.lookup: the last slot with timestamp ≤ the target, or -1."""
    found = TimeIndex("", np.array(timestamps, np.int64), np.array(timestamps, np.int64))

    assert found.floor(target) == bisect.bisect_right(timestamps, target) - 1
    assert found.ceiling(target) == bisect.bisect_left(timestamps, target)


@given(positions=rising, position=st.integers(0, 3200), size=st.integers(0, 100))
def test_upper_bound(positions: list[int], position: int, size: int) -> None:
    """As Kafka's fetchUpperBoundOffset: the first slot whose position the fetch does not reach, or the length."""
    found = OffsetIndex("", np.arange(len(positions), dtype=np.int64), np.array(positions, np.int64))
    beyond = [slot for slot, each in enumerate(positions) if each >= position + size]

    assert found.upper_bound(position, size) == (beyond[0] if beyond else len(positions))


aborts = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=30)


@given(aborts=aborts, start=st.integers(0, 300), length=st.integers(0, 60))
def test_aborted_transactions_of_a_fetch(aborts: list[tuple[int, int]], start: int, length: int) -> None:
    """overlapping gives those that have a record or their marker in the fetch; floor and ceiling go by the marker."""
    lasts = np.cumsum([step for _, step in aborts]).tolist()
    firsts = [max(last - back, 0) for last, (back, _) in zip(lasts, aborts, strict=True)]
    columns = (np.zeros(len(lasts)), np.ones(len(lasts)), firsts, lasts, lasts)
    found = TransactionIndex("", *(np.array(column, np.int64) for column in columns))
    end = start + length

    assert found.overlapping(start, end).tolist() == [
        slot for slot, (first, last) in enumerate(zip(firsts, lasts, strict=True)) if last >= start and first < end
    ]
    assert found.floor(start) == bisect.bisect_right(lasts, start) - 1
    assert found.ceiling(start) == bisect.bisect_left(lasts, start)


# --- files that a user names -----------------------------------------------------------------------------------------


def test_files_are_read_by_their_paths_alone(tmp_path: Path) -> None:
    """The name says where the segment begins; without it base_offset does. The `.log` beside bounds the positions."""
    entries = [(BASE + 5, 300), (BASE + 9, 900)]
    path = tmp_path / f"{BASE:020}.index"
    path.write_bytes(writer.offset_index(entries, BASE) + bytes(800))
    found = OffsetIndex.read(path)
    assert list(zip(found.offsets.tolist(), found.positions.tolist(), strict=True)) == entries
    path.with_suffix(".log").write_bytes(bytes(800))
    assert OffsetIndex.read(str(path)).positions.tolist() == [300]

    times = [(50, BASE + 3), (60, BASE + 8)]
    path = tmp_path / f"{BASE:020}.timeindex"
    path.write_bytes(writer.time_index(times, BASE) + bytes(120))
    renamed = path.rename(tmp_path / "saved")
    read = TimeIndex.read(renamed, base_offset=BASE)
    assert list(zip(read.timestamps.tolist(), read.offsets.tolist(), strict=True)) == times


def test_a_transaction_index_is_read_as_it_is_stored(tmp_path: Path) -> None:
    """All fields, up to an entry whose marker is not after the one before."""
    rows = [(0, 7, 3, 9, 9), (0, 8, 2, 12, 4), (0, 8, 2, 12, 4)]
    path = tmp_path / f"{0:020}.txnindex"
    path.write_bytes(b"".join(struct.pack(">hqqqq", *row) for row in rows) + b"torn")
    found = TransactionIndex.read(path)
    columns = (found.versions, found.producer_ids, found.first_offsets, found.last_offsets, found.last_stable_offsets)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == rows[:2]


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """A public reader raises where a plan goes on without the file."""
    with pytest.raises(PathError, match="does not exist"):
        OffsetIndex.read(tmp_path / "00000000000000000000.index")
    (tmp_path / "saved").write_bytes(bytes(8))
    with pytest.raises(PathError, match="does not say where its segment begins: found no 20 digits; give base_offset"):
        OffsetIndex.read(tmp_path / "saved")
    with pytest.raises(PathError, match="is a directory, expected an index file"):
        TransactionIndex.read(tmp_path)
    entries = np.zeros((8193, 2), ">i4")
    entries[:] = np.arange(1, 8194)[:, None]
    path = tmp_path / "00000000000000000000.index"
    path.write_bytes(entries.tobytes())
    path.with_suffix(".log").write_bytes(bytes(90_000))
    with pytest.raises(PathError, match="found more than 8,192 entries"):
        OffsetIndex.read(path)


@given(base=st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**40, 2**62]), steps=rising)
def test_entries_are_absolute(base: int, steps: list[int]) -> None:
    """Offsets come out absolute whatever the base, past 32 bits too."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "x"
        entries = [(base + step, 100 + step) for step in steps]
        path.write_bytes(writer.offset_index(entries, base))
        assert offsets_of(path, base=base) == entries

        entries = [(10 * step, base + step) for step in steps]
        path.write_bytes(writer.time_index(entries, base))
        assert times_of(path, base=base) == entries


# --- valid prefixes --------------------------------------------------------------------------------------------------

OFFSETS = [(1000, 70), (1007, 300), (1020, 301), (1500, 9000)]
OFFSET_FILES = {
    "as written": (OFFSETS, 4),
    "empty": ([], 0),
    "offset not growing": ([*OFFSETS[:2], (1007, 400), *OFFSETS[2:]], 2),
    "position not growing": ([*OFFSETS[:2], (1010, 300), *OFFSETS[2:]], 2),
    "offset below the base": ([*OFFSETS[:1], (999, 100), *OFFSETS[1:]], 1),
    "position 0": ([(1001, 0), *OFFSETS[1:]], 0),
    "negative position": ([*OFFSETS[:3], (1400, -5)], 3),
    "position at the end of the log": ([*OFFSETS, (1600, 10_000)], 4),
    "position before the end of the log": ([*OFFSETS, (1600, 9_999)], 5),
}


@pytest.mark.parametrize("name", OFFSET_FILES)
def test_valid_prefix_of_an_offset_index(name: str, tmp_path: Path) -> None:
    """Entries count up to the first that does not grow or lies outside the log; the rest does not."""
    entries, valid = OFFSET_FILES[name]
    (tmp_path / "x").write_bytes(writer.offset_index(entries, BASE))
    assert offsets_of(tmp_path / "x", log_size=10_000) == entries[:valid]


TIMES = [(50, 1003), (60, 1003), (61, 1009), (700, 1500)]
TIME_FILES = {
    "as written": (TIMES, 4),
    "empty": ([], 0),
    "timestamp not growing": ([*TIMES[:2], (60, 1005), *TIMES[2:]], 2),
    "offset shrinking": ([*TIMES[:3], (62, 1008), *TIMES[3:]], 3),
    "offset below the base": ([*TIMES[:3], (62, 999)], 3),
    "offset in the next segment": ([*TIMES, (800, 2000)], 4),
    "offset just before the next segment": ([*TIMES, (800, 1999)], 5),
    "timestamp 0 at a later offset": ([(0, 1001), *TIMES], 5),
    "the largest timestamp": ([*TIMES, (2**63 - 1, 1600)], 5),
    "negative timestamp": ([(-5, 1001), *TIMES], 0),
    "(0, 0) first": ([(0, 1000), *TIMES], 0),
    "(0, 0) alone": ([(0, 1000)], 0),
}


@pytest.mark.parametrize("name", TIME_FILES)
def test_valid_prefix_of_a_time_index(name: str, tmp_path: Path) -> None:
    """Entries count up to the first that does not grow or lies outside the segment; (0, 0) is always padding."""
    entries, valid = TIME_FILES[name]
    (tmp_path / "x").write_bytes(writer.time_index(entries, BASE))
    assert times_of(tmp_path / "x", next_base=2000) == entries[:valid]


@pytest.mark.parametrize("damage", ["padded", "torn", "garbled", "missing", "all padding"])
def test_damaged_files_give_their_valid_prefix(damage: str, tmp_path: Path) -> None:
    """Padding, a torn last entry, noise, and no file at all: a shorter answer, never an error."""
    for entries, read, write, size in [
        (OFFSETS, offsets_of, writer.offset_index, 8),
        (TIMES, times_of, writer.time_index, 12),
    ]:
        path = tmp_path / f"{size}"
        data = write(entries, BASE)
        changed, valid = {
            "padded": (data + bytes(size * 5 + 3), 4),
            "torn": (data[:-1], 3),
            "garbled": (data[: size * 2] + b"\xa7" * 40, 2),
            "missing": (b"", 0),
            "all padding": (bytes(len(data)), 0),
        }[damage]
        if damage != "missing":
            path.write_bytes(changed)
        assert read(path) == entries[:valid]  # type: ignore[operator]


def test_a_file_that_cannot_be_read_is_no_hint(tmp_path: Path) -> None:
    """An index that was listed but is gone, or is a directory, gives no entries."""
    assert len(read_offset_index(str(tmp_path / "gone"), LOCAL, 80, BASE, LOG_SIZE)) == 0
    assert len(read_time_index(str(tmp_path / "gone"), LOCAL, 120, BASE, None)) == 0
    assert len(read_offset_index(str(tmp_path), LOCAL, 80, BASE, LOG_SIZE)) == 0


def test_a_file_shorter_than_listed(tmp_path: Path) -> None:
    """An index cut after it was listed gives what is still there."""
    (tmp_path / "x").write_bytes(writer.offset_index(OFFSETS, BASE)[:20])
    found = read_offset_index(str(tmp_path / "x"), LOCAL, 800, BASE, LOG_SIZE)
    assert found.offsets.tolist() == [1000, 1007]


@given(data=st.binary(max_size=400))
def test_garbage_keeps_the_promises(data: bytes) -> None:
    """Whatever the bytes, offsets and positions grow strictly inside the log, and so do timestamps in the segment."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "x"
        path.write_bytes(data)
        offsets, times = offsets_of(path, log_size=5000), times_of(path, next_base=9000)
    assert all(a < b and p < q for (a, p), (b, q) in pairwise(offsets))
    assert all(a >= BASE and 0 < p < 5000 for a, p in offsets)
    assert all(s < t and a <= b for (s, a), (t, b) in pairwise(times))
    assert all(t >= 0 and BASE <= a < 9000 for t, a in times)


# --- long files ------------------------------------------------------------------------------------------------------


class CountingFile(InputFile):
    """Counts the bytes it reads."""

    count = 0

    def read_at(self, position: int, count: int) -> bytes:
        data = super().read_at(position, count)
        CountingFile.count += len(data)
        return data

    def read_into(self, position: int, target: Bytes) -> None:
        super().read_into(position, target)
        CountingFile.count += len(target)


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many bytes were read from index files."""
    monkeypatch.setattr(index_entries, "InputFile", CountingFile)
    CountingFile.count = 0
    return lambda: CountingFile.count


@pytest.mark.parametrize("valid", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_a_padded_file_costs_its_valid_part_and_a_block(
    valid: int, tmp_path: Path, bytes_read: Callable[[], int]
) -> None:
    """Of a 10 MiB live index file, no more than the valid entries and one block are read."""
    path = tmp_path / "x"
    offsets = [(BASE + n, 10 * n) for n in range(1, valid + 1)]
    path.write_bytes(writer.offset_index(offsets, BASE, padded_to=INDEX_BYTES))
    assert offsets_of(path) == offsets
    assert bytes_read() <= 8 * (valid + BLOCK)

    CountingFile.count = 0
    times = [(n, BASE + n) for n in range(1, valid + 1)]
    path.write_bytes(writer.time_index(times, BASE, padded_to=INDEX_BYTES - INDEX_BYTES % 12))
    assert path.stat().st_size == 10_485_756
    assert times_of(path) == times
    assert bytes_read() <= 12 * (valid + BLOCK)


@pytest.mark.parametrize("at", [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK])
def test_order_is_checked_across_blocks(at: int, tmp_path: Path) -> None:
    """An entry that repeats the one before it ends the prefix, on the border of two blocks too."""
    path = tmp_path / "x"
    entries = [(BASE + n, 10 * n) for n in range(1, 3 * BLOCK)]
    path.write_bytes(writer.offset_index([*entries[:at], entries[at - 1], *entries[at:]], BASE))
    assert offsets_of(path) == entries[:at]

    times = [(n, BASE + n) for n in range(1, 3 * BLOCK)]
    path.write_bytes(writer.time_index([*times[:at], times[at - 1], *times[at:]], BASE))
    assert times_of(path) == times[:at]


# --- every entry, for the checks of index files ----------------------------------------------------------------------

LOG = 32 * 1024 * 1024
LIKELY = LOG // 4096  # entries of a log of this size, by Kafka's default of index.interval.bytes


def written_of(path: Path, log_size: int = LOG) -> list[tuple[int, int]]:
    found = written_offsets(str(path), LOCAL, path.stat().st_size, BASE, log_size)
    assert found.fault is None
    return list(zip(found.offsets.tolist(), found.positions.tolist(), strict=True))


@pytest.mark.parametrize("count", [0, 1, LIKELY, LIKELY + 300, LIKELY + 5000])
def test_the_checks_read_little_of_padding(count: int, tmp_path: Path, bytes_read: Callable[[], int]) -> None:
    """A padded index costs the entries that its log makes likely and 640 more; where it has more, all of it."""
    path = tmp_path / "x"
    offsets = [(BASE + n, 10 * n) for n in range(1, count + 1)]
    path.write_bytes(writer.offset_index(offsets, BASE, padded_to=INDEX_BYTES))
    assert written_of(path) == offsets
    assert bytes_read() <= (8 * (LIKELY + 640) if count <= LIKELY + 300 else 2 * INDEX_BYTES)

    CountingFile.count = 0
    times = [(n, BASE + n) for n in range(1, count + 1)]
    path.write_bytes(writer.time_index(times, BASE, padded_to=INDEX_BYTES - INDEX_BYTES % 12))
    found = written_times(str(path), LOCAL, path.stat().st_size, BASE, LOG)
    assert list(zip(found.timestamps.tolist(), found.offsets.tolist(), strict=True)) == times
    assert bytes_read() <= (12 * (LIKELY + 640) if count <= LIKELY + 300 else 2 * INDEX_BYTES)


@pytest.mark.parametrize(
    "slot", [5, LIKELY - 1, LIKELY + 511, INDEX_BYTES // 8 - 128, INDEX_BYTES // 8 - 1], ids=lambda slot: f"slot-{slot}"
)
def test_the_checks_find_entries_after_padding(slot: int, tmp_path: Path) -> None:
    """As far as the log makes entries likely, and at the end of the file, where a broker looks for the last one."""
    path = tmp_path / "x"
    data = bytearray(writer.offset_index([(BASE + 1, 10), (BASE + 2, 20)], BASE, padded_to=INDEX_BYTES))
    data[8 * slot : 8 * slot + 8] = writer.offset_index([(BASE + 7, 70)], BASE)
    path.write_bytes(data)
    found = written_of(path)
    assert len(found) == slot + 1
    assert (found[1], found[-1]) == ((BASE + 2, 20), (BASE + 7, 70))


def test_the_checks_read_a_file_that_has_shrunk(tmp_path: Path) -> None:
    """A broker cuts the padding when it rolls a segment: the entries are those that are left."""
    path = tmp_path / "x"
    path.write_bytes(writer.offset_index([(BASE + 1, 10)], BASE))
    assert written_offsets(str(path), LOCAL, INDEX_BYTES, BASE, LOG).offsets.tolist() == [BASE + 1]
    path.unlink()
    assert written_offsets(str(path), LOCAL, INDEX_BYTES, BASE, LOG).offsets.tolist() == []


few = st.integers(-2, 6)


@given(entries=st.lists(st.tuples(few, few), max_size=6), last=st.tuples(few, few), limit=st.integers(0, 6))
def test_few_entries_and_many_have_the_same_rules(
    entries: list[tuple[int, int]], last: tuple[int, int], limit: int
) -> None:
    """Short blocks are judged by a loop, long ones by arrays: which entries are valid does not depend on it."""
    of_offsets = np.array(entries, index_entries.OFFSET_ENTRY)
    offsets, positions = of_offsets["offset"].astype(np.int64), of_offsets["position"].astype(np.int64)
    by_arrays = index_entries._are_valid_offsets(offsets, positions, *last, limit)
    assert index_entries._count_few_offsets(of_offsets, *last, limit) == index_entries.count_leading(by_arrays)

    of_times = np.array(entries, index_entries.TIME_ENTRY)
    timestamps, offsets = of_times["timestamp"].astype(np.int64), of_times["offset"].astype(np.int64)
    by_arrays = index_entries._are_valid_times(timestamps, offsets, *last, limit)
    assert index_entries._count_few_times(of_times, *last, limit) == index_entries.count_leading(by_arrays)
