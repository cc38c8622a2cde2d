"""ranges: the counter-examples that break simpler pruning rules, each small, and that healthy index files do prune.

In the notation of the rules: v batches of [offsets] timestamps; time entries (T @O); index entries (O → batch).
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.planning.plan import ReadPlan
from tests.support import writer
from tests.support.batches import BatchSpec, Written, control, data, empty
from tests.support.far_files import distance
from tests.support.index_writers import Append, IndexWriter, index_entries
from tests.support.logs import Segment, expected_rows, lay_out, simple_log, simple_segment, torn
from tests.support.writer import Rec

pytestmark = pytest.mark.usefixtures(distance.__name__)


class Case:
    """Segments of orders-0 in a directory, and what is asked of them."""

    def __init__(self, directory: Path, *segments: Segment) -> None:
        self.log = simple_log(*segments)
        self.path = self.log.write(directory)
        self.positions = [batch.position for segment in segments for batch in segment.batches]

    def rows(self, **options: Any) -> list[int]:
        """Offsets of the rows, which must be those of filtering every record."""
        found: list[int] = kafkaseg.scan(self.path, ["offset"], **options).read_all()["offset"].to_pylist()
        offsets = options.get("startingOffsets"), options.get("endingOffsets")
        start, end = (limit["orders"]["0"] if limit else None for limit in offsets)
        bounds = None if start is end is None else (start or 0, 2**63 if end is None else end)
        assert found == [r.offset for r in expected_rows(self.log, bounds, options.get("since"), options.get("until"))]
        return found

    def plan(self, **options: Any) -> ReadPlan:
        return kafkaseg.plan(self.path, **options)

    def range(self, **options: Any) -> tuple[int, int]:
        """Numbers of the first batch to read and of the first one not to, in a plan of one split."""
        (split,) = self.plan(**options).splits
        ends = [*self.positions, split.segment_size]
        return ends.index(split.start), ends.index(split.end)


def start(offset: int) -> dict[str, Any]:
    return {"startingOffsets": {"orders": {"0": offset}}}


def end(offset: int) -> dict[str, Any]:
    return {"endingOffsets": {"orders": {"0": offset}}}


def ten(first: int, *timestamps: int) -> BatchSpec:
    """A batch of ten offsets, its last rows with these timestamps and the others at 1."""
    return data(first, *[1] * (10 - len(timestamps)), *timestamps)


# --- healthy index files do prune ------------------------------------------------------------------------------------


def per_batch(specs: list[BatchSpec], **more: Any) -> Segment:
    """A segment with the index files that Kafka 4.1 writes for an index interval of 0."""
    groups = lay_out(specs)
    appends = [Append(IndexWriter.PER_BATCH, tuple(group)) for group in groups]
    offset_entries, time_entries = index_entries(appends, interval=0)
    places = {group[0].position: number for number, group in enumerate(groups)}
    index = [(offset, places[position]) for offset, position in offset_entries]
    return simple_segment(specs, index=index, timeindex=time_entries, **more)


def test_offsets_prune(tmp_path: Path) -> None:
    """Exact index files lead to exactly the batches that hold the offsets asked for."""
    case = Case(tmp_path, per_batch([data(10 * n, *[n] * 10) for n in range(8)]))
    assert case.rows(**start(35), **end(55)) == list(range(35, 55))
    assert case.range(**start(35), **end(50)) == (3, 5)
    assert case.range(**start(30), **end(60)) == (3, 6)
    assert case.range(**start(39), **end(51)) == (3, 6)


def test_since_prunes(tmp_path: Path) -> None:
    """A trusted time index leads to the first batch that may reach `since`."""
    case = Case(tmp_path, per_batch([ten(10 * n, 100 * n + 100) for n in range(8)]))
    assert case.rows(since=401) == [49, 59, 69, 79]
    assert case.range(since=401) == (4, 8)
    assert case.range(since=400) == (3, 8)


def test_since_drops_whole_segments(tmp_path: Path) -> None:
    """Segments whose index and tail prove that nothing reaches `since` are dropped with the reason, open ones too."""
    case = Case(tmp_path, *[per_batch([ten(40 * s + 10 * n, 1000 * s + n) for n in range(4)]) for s in range(3)])
    plan = case.plan(since=1004)
    assert [dropped.reason for dropped in plan.dropped] == [
        "nothing after 1970-01-01T00:00:00.003Z (time index)",
        "nothing after 1970-01-01T00:00:01.003Z (time index)",
    ]
    assert case.rows(since=1004) == [89, 99, 109, 119]
    assert case.plan(since=2204).splits == () and case.rows(since=2204) == []


def test_names_alone_drop_segments(tmp_path: Path) -> None:
    """Base offsets decide on whole segments, and the plan says so."""
    case = Case(tmp_path, *[simple_segment([ten(100 * s)]) for s in range(4)])
    assert case.rows(**start(100), **end(200), failOnDataLoss=False) == list(range(100, 110))
    assert [dropped.reason for dropped in case.plan(**start(100), **end(200)).dropped] == [
        "ends before offset 100, the bounds start at 100",
        "starts at offset 200, the bounds end before 200",
        "starts at offset 300, the bounds end before 200",
    ]


@pytest.mark.parametrize("trust", [True, False])
def test_tight_start_in_a_followers_index(trust: bool, tmp_path: Path) -> None:
    """An entry tells the end of a whole fetch: offset O_k+1 starts at the next entry's batch, not a fetch before it."""
    specs = [data(10 * n, *[n] * 10) for n in range(9)]
    case = Case(tmp_path, simple_segment(specs, index=[(59, 3), (89, 6)]))
    assert case.rows(**start(60), trustIndexes=trust) == list(range(60, 90))
    assert case.range(**start(60), trustIndexes=trust)[0] == (6 if trust else 0)
    assert case.range(**start(59), trustIndexes=trust)[0] == (3 if trust else 0)


# --- offsets: what an index entry is not -----------------------------------------------------------------------------

FETCHED = [data(10 * n, *[n] * 10) for n in range(9)]
FOLLOWER = {"index": [(89, 5)]}  # one entry for the last four batches of a fetch, with the first one's position


@pytest.mark.parametrize("bound", range(0, 91, 5))
def test_an_entry_is_not_the_offset_at_its_position(bound: int, tmp_path: Path) -> None:
    """An entry's offset may be that of a batch far on: ending at the P of the first O ≥ b would lose 50
    to 69 for b=70."""
    case = Case(tmp_path, simple_segment(FETCHED, **FOLLOWER))
    assert case.rows(**end(bound), failOnDataLoss=False) == list(range(bound))


@pytest.mark.parametrize("bound", range(0, 91, 5))
def test_an_entry_is_not_the_end_of_its_batch(bound: int, tmp_path: Path) -> None:
    """Starting at the P of the least O ≥ a (right for Kafka 4.1) would lose 40 to 49 for a=40 in a follower's index."""
    case = Case(tmp_path, simple_segment(FETCHED, **FOLLOWER))
    assert case.rows(**start(bound), failOnDataLoss=False) == list(range(bound, 90))


@pytest.mark.parametrize("bound", range(0, 91, 7))
@pytest.mark.parametrize("shift", [1, 2, 5, -1, -3])
def test_a_stale_index(shift: int, bound: int, tmp_path: Path) -> None:
    """An index copied before a compaction swapped the log leads to other batches: the header there must
    prove the entry."""
    entries = [(10 * n, min(max(n + shift, 1), 8)) for n in range(9) if 0 < n + shift < 9]
    case = Case(tmp_path, simple_segment(FETCHED, index=entries))
    more = {"failOnDataLoss": False}
    assert case.rows(**start(bound), **more) == list(range(bound, 90))
    assert case.rows(**end(bound), **more) == list(range(bound))
    assert case.rows(**start(bound), **end(min(bound + 13, 90)), **more) == list(range(bound, min(bound + 13, 90)))


def test_an_entry_inside_a_batch(tmp_path: Path) -> None:
    """A position inside a batch, where bytes happen to look like a header, is not believed: its CRC does not hold."""
    trap = bytearray(writer.record_batch([Rec(0, 1)], base_offset=5))
    trap[-1] ^= 1
    first = writer.record_batch([Rec(n, 1, None, bytes(trap)) for n in range(3)])
    second = writer.record_batch([Rec(n, 1) for n in range(3)], base_offset=10)
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / writer.segment_name(0)).write_bytes(first + second)
    (folder / writer.segment_name(0, ".index")).write_bytes(writer.offset_index([(1, first.index(trap))], 0))
    for options in (start(2), end(2)):
        offsets = kafkaseg.scan(folder, ["offset"], **options).read_all()["offset"].to_pylist()
        assert offsets == ([2, 10, 11, 12] if options == start(2) else [0, 1])


def test_an_index_beyond_the_log(tmp_path: Path) -> None:
    """An index that ran ahead of a log cut short loses nothing that is left of it."""
    segment = per_batch([data(10 * n, *[n] * 10) for n in range(8)])
    case = Case(tmp_path, torn(segment, segment.batches[4].position + 30))
    assert case.rows(**start(25)) == list(range(25, 40))
    assert case.rows(since=3) == list(range(30, 40))
    assert case.rows(since=4) == case.rows(since=6) == []
    assert case.rows(**start(60), failOnDataLoss=False) == []


# --- since: what a time entry is not ---------------------------------------------------------------------------------


def test_the_entry_at_since_itself(tmp_path: Path) -> None:
    """v[100..199] all 1000, (1000 @199), since=1000: starting at the entry with T_k ≤ T would lose 100 to 198."""
    specs = [data(0, *[5] * 100), data(100, *[1000] * 100), data(200, 7)]
    case = Case(tmp_path, simple_segment(specs, index=[(199, 1), (200, 2)], timeindex=[(5, 99), (1000, 199)]))
    assert case.rows(since=1000) == list(range(100, 200))
    assert case.rows(since=999) == list(range(100, 200))
    assert case.rows(since=1001) == []


def test_the_first_entry_past_since(tmp_path: Path) -> None:
    """(1000 @199), (2000 @399), since=1500: starting at the first entry with T_k ≥ T would lose rows of 200 to 398."""
    specs = [data(0, *[1000] * 200), data(200, *[1500] * 199, 2000), data(400, 3)]
    case = Case(tmp_path, simple_segment(specs, index=[(399, 1), (400, 2)], timeindex=[(1000, 199), (2000, 399)]))
    assert case.rows(since=1500) == list(range(200, 400))


FORGOTTEN_MAXIMUM = [data(10 * n, *[timestamp] * 10) for n, timestamp in enumerate([1000, 500, 600, 700])]


@pytest.mark.parametrize("since", [450, 550, 650, 701, 800, 1000, 1001])
def test_a_maximum_that_was_forgotten(since: int, tmp_path: Path) -> None:
    """Kafka 2.3 to 4.2 forget the running maximum when truncating after a restart: the head of the log tells."""
    case = Case(
        tmp_path, simple_segment(FORGOTTEN_MAXIMUM, index=[(19, 1), (29, 2), (39, 3)], timeindex=[(600, 29), (700, 39)])
    )
    case.rows(since=since)


@pytest.mark.parametrize("since", [0, 50, 99, 100, 101, 500, 501])
def test_a_forgotten_maximum_in_the_batch_of_the_first_entry(since: int, tmp_path: Path) -> None:
    """The batch that holds O_0 counts for the head too: v[0..2] 500,9,100 with (100 @2) is distrusted."""
    case = Case(tmp_path, simple_segment([data(0, 500, 9, 100), data(3, 8)], timeindex=[(100, 2)]))
    case.rows(since=since)


@pytest.mark.parametrize("since", [0, 60, 150, 151, 999, 1000])
def test_a_last_entry_that_never_reached_the_disk(since: int, tmp_path: Path) -> None:
    """A snapshot without the final entry: later batches may be newer than T_n, so the tail is looked at
    before dropping."""
    specs = [data(0, 50), data(1, 150), data(2, 40), data(3, 999)]
    first = simple_segment(specs, index=[(1, 1)], timeindex=[(50, 0), (150, 1)])
    case = Case(tmp_path, first, simple_segment([data(4, 10)]))
    case.rows(since=since)
    assert case.plan(since=1000).dropped[0].path.endswith("0.log")
    assert case.plan(since=999).splits[0].path.endswith("0.log")


@pytest.mark.parametrize("entries", range(4))
def test_a_time_index_cut_at_an_entry(entries: int, tmp_path: Path) -> None:
    """A partly copied time index, cut between entries, prunes less and loses nothing."""
    specs = [data(n, 100 * n + 100) for n in range(4)]
    times = [(100 * n + 100, n) for n in range(4)]
    case = Case(tmp_path, simple_segment(specs, index=[(1, 1), (2, 2), (3, 3)], timeindex=times[:entries]))
    for since in (0, 100, 101, 250, 400, 401):
        case.rows(since=since)


@pytest.mark.parametrize("padding", [12, 24, 1200])
def test_zeros_are_never_an_entry(padding: int, tmp_path: Path) -> None:
    """A live index of nothing but padding says nothing: (0 @base) as an entry would lose the first record."""
    case = Case(tmp_path, simple_segment([data(0, 7), data(1, 3)]))
    (case.path / writer.segment_name(0, ".timeindex")).write_bytes(bytes(padding))
    assert case.rows(since=1) == [0, 1]
    assert case.range(since=1) == (0, 2)


def test_zeros_where_the_first_offset_is_above_the_base(tmp_path: Path) -> None:
    """In a compacted segment that begins above its base, (0 @base) would even drop the whole segment."""
    case = Case(tmp_path, simple_segment([data(5, 7), data(9, 3)], base=0))
    (case.path / writer.segment_name(0, ".timeindex")).write_bytes(bytes(24))
    assert case.rows(since=1) == [5, 9]


def test_an_index_that_belongs_to_no_batch(tmp_path: Path) -> None:
    """If no batch begins at or before O_0, the index belongs to another log: v[5] 700, (100 @2), since=200."""
    case = Case(tmp_path, simple_segment([data(5, 700), data(6, 50)], base=0, timeindex=[(100, 2)]))
    assert case.rows(since=200) == [5]
    assert case.rows(since=60) == [5]


@pytest.mark.parametrize("since", [5, 15, 25, 100, 500, 501])
def test_a_time_entry_beyond_the_log(since: int, tmp_path: Path) -> None:
    """An entry whose offset the log does not reach says nothing about it: v[0] 10 … v[2] 500 with (30
    @7), since=100."""
    specs = [data(0, 10), data(1, 20), data(2, 500), data(3, 5)]
    index = [(1, 1), (2, 2), (3, 3)]
    case = Case(tmp_path, simple_segment(specs, index=index, timeindex=[(10, 0), (30, 7)]))
    case.rows(since=since)


@pytest.mark.parametrize("since", [5, 15, 25, 100, 500, 501])
def test_a_time_entry_in_the_gap_before_the_next_segment(since: int, tmp_path: Path) -> None:
    """Nor does an entry in a gap between a compacted segment's last offset and the next segment."""
    specs = [data(0, 10), data(1, 20), data(2, 500), data(3, 5)]
    first = simple_segment(specs, index=[(1, 1), (2, 2), (3, 3)], timeindex=[(10, 0), (30, 7)])
    Case(tmp_path, first, simple_segment([data(20, 1)])).rows(since=since, failOnDataLoss=False)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_segment_that_begins_with_a_message_set(magic: int, tmp_path: Path) -> None:
    """Old wrappers carry whatever the producer sent: a segment that begins with one is read whole (g1)."""
    wrapper = data(0, 10, 20, 900, magic=magic, codec="gzip", max_timestamp=50)  # type: ignore[arg-type]
    case = Case(tmp_path, simple_segment([wrapper, data(3, 60)], index=[(3, 1)], timeindex=[(50, 2), (60, 3)]))
    for since in (30, 55, 61, 800):
        assert case.range(since=since) == (0, 2)


def test_a_message_set_in_the_tail(tmp_path: Path) -> None:
    """Nor may a segment be dropped if a message set stands in its tail, whatever timestamp its header has."""
    old = data(2, 10, 900, magic=1, codec="gzip", max_timestamp=50)
    entries = [
        (40, 0),
        (45, 1),
    ]  # the first is proven by the batch after it, so that the message set is in the tail alone
    case = Case(tmp_path, simple_segment([data(0, 40), data(1, 45), old], index=[(1, 1), (3, 2)], timeindex=entries))
    assert case.plan(since=100).dropped == ()
    assert case.rows(since=100) == [3]


@pytest.mark.parametrize("since", [1, 20, 21, 30, 31, 90])
def test_maxima_of_markers_and_empty_batches(since: int, tmp_path: Path) -> None:
    """Markers and empty batches count in a time index with timestamps that no row has: upper bounds, no more."""
    specs = [data(0, 20), control(1, 90), data(2, 5), empty(3, 4, 80), data(5, 30), data(6, 1)]
    entries = [(1, 1), (2, 2), (4, 3), (5, 4), (6, 5)]
    case = Case(tmp_path, simple_segment(specs, index=entries, timeindex=[(20, 0), (90, 1)]))
    case.rows(since=since)


# --- both bounds, rows cut exactly -----------------------------------------------------------------------------------


def test_no_early_stop_without_a_word_of_the_user(tmp_path: Path) -> None:
    """`until` alone stops nowhere: leader A (clock +10 s) appends 110, leader B appends 101; U = 105."""
    specs = [data(0, 5, append_time=100), data(1, 5, append_time=110), data(2, 5, append_time=101)]
    case = Case(tmp_path, simple_segment(specs, index=[(1, 1), (2, 2)], timeindex=[(100, 0), (110, 1)]))
    assert case.rows(until=105) == [0, 2]
    assert case.rows(until=105, since=101) == [2]


def test_a_missing_timestamp_counts_as_minus_one(tmp_path: Path) -> None:
    """Rows without a timestamp match every `until` above -1 and every `since` up to -1, as the column shows them."""
    case = Case(tmp_path, simple_segment([data(0, -1, 5, -1), data(3, -1), data(4, 9)], timeindex=[(5, 2), (9, 4)]))
    assert case.rows(until=0) == [0, 2, 3]
    assert case.rows(until=-1) == []
    assert case.rows(since=-1) == [0, 1, 2, 3, 4]
    assert case.rows(since=0) == [1, 4]
    assert case.rows(since=-1, until=0) == [0, 2, 3]


def test_fractions_of_a_millisecond(tmp_path: Path) -> None:
    """Bounds between two milliseconds are rounded up, so that t ≥ bound and t < bound stay exact (C8)."""
    case = Case(tmp_path, simple_segment([data(0, 1000, 1001, 1002)]))
    fraction = "1970-01-01T00:00:01.000001Z"
    assert kafkaseg.scan(case.path, ["offset"], since=fraction).read_all()["offset"].to_pylist() == [1, 2]
    assert kafkaseg.scan(case.path, ["offset"], until=fraction).read_all()["offset"].to_pylist() == [0]


def test_append_time_rows_have_the_batchs_time(tmp_path: Path) -> None:
    """Under LogAppendTime the producers' timestamps do not count, for bounds neither."""
    case = Case(tmp_path, simple_segment([data(0, 1, 99, 5, append_time=50), data(3, 7)]))
    assert case.rows(since=50) == case.rows(since=8) == [0, 1, 2]
    assert case.rows(since=51) == []
    assert case.rows(until=50) == [3]


@pytest.mark.parametrize("since", [2**62, 2**63 - 1])
def test_timestamps_near_the_end_of_64_bits(since: int, tmp_path: Path) -> None:
    """Far-future timestamps neither wrap nor end anything early."""
    specs = [data(0, 5), data(1, 2**63 - 1), data(2, 6), data(3, 2**62)]
    case = Case(tmp_path, simple_segment(specs, index=[(1, 1), (2, 2), (3, 3)], timeindex=[(5, 0), (2**63 - 1, 1)]))
    case.rows(since=since)
    case.rows(until=since)


# --- damage in the log itself, while planning ------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(4))
def test_a_damaged_header_proves_nothing(number: int, tmp_path: Path) -> None:
    """A flipped bit in maxTimestamp must not drop a segment: what planning believes has held its CRC."""
    segment = simple_segment([data(n, 1000) for n in range(4)], index=[(1, 1), (2, 2), (3, 3)], timeindex=[(10, 0)])
    damaged = bytearray(segment.log)
    for batch in segment.batches:  # every header lies, one has its CRC made good
        struct.pack_into(">q", damaged, batch.position + 35, 10)
    good: Written = segment.batches[number]
    damaged[good.position : good.end] = writer.with_right_crc(bytes(damaged[good.position : good.end]))
    folder = simple_log(segment).write(tmp_path)
    (folder / writer.segment_name(0)).write_bytes(damaged)
    assert kafkaseg.plan(folder, since=500).dropped == ()


def test_a_live_log_may_grow_under_the_plan(tmp_path: Path) -> None:
    """The tail is proven up to the size that the scan will use: what comes after is neither read nor counted."""
    case = Case(tmp_path, per_batch([ten(10 * n, 100 * n + 100) for n in range(4)]))
    plan = case.plan()
    (log,) = case.path.glob("*.log")
    with log.open("ab") as file:
        file.write(writer.record_batch([Rec(0, 10_000)], base_offset=40))
    assert plan.splits[0].end == plan.splits[0].segment_size < log.stat().st_size
    assert kafkaseg.scan(case.path, ["offset"], since=5000).read_all()["offset"].to_pylist() == [40]
