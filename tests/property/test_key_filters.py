"""Key filters never lose or add a row: of any log, made when it was this one or another, whole, in part or damaged.

And they prune: of a log that they fit, a segment whose filters say no of every key is not read.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.storage.store import LOCAL
from kafka_segment_source.zones import key_filters, key_making, zone_table
from tests.property.test_pruning import KeyedRow, in_order, poison, wanted, ways
from tests.property.test_zone_maps import CELLS, EDITS, PARTS, Case, any_log, edited, histories, read, stories
from tests.support.histories import share_a_batch
from tests.support.logs import GeneratedLog
from tests.support.strategies import Bounds, bounds

MANY = settings(max_examples=settings().max_examples * 2)

ABSENT = (b"", b"absent", b"k", b"\xff\0")


def filters_of(case: Case) -> Path:
    return Path(key_filters.filters_directory(str(case.map_path)))


@st.composite
def keys_of(draw: st.DrawFn, *logs: GeneratedLog) -> list[bytes]:
    """Keys of some records of logs, and keys that no record has."""
    written = {r.key for log in logs for s in log.segments for b in s.batches for r in b.records if not r.is_control}
    known = sorted(key for key in written if key is not None)
    some = draw(st.lists(st.sampled_from(known), max_size=4)) if known else []
    return some + draw(st.lists(st.sampled_from(ABSENT), min_size=0 if some else 1, max_size=2))


def with_keys(rows: list[KeyedRow], keys: list[bytes]) -> list[KeyedRow]:
    return [row for row in rows if row[1] in keys]


@MANY
@given(
    story=stories(), data=st.data(), cell=CELLS, edit=st.sampled_from(EDITS), salt=st.binary(min_size=4, max_size=4),
    how=ways, same_topic=st.booleans(), update=st.sampled_from([None, False, True]),
)  # fmt: skip
def test_rows_are_the_naive_ones(
    story: tuple[str, GeneratedLog, GeneratedLog, Bounds],
    data: st.DataObject,
    cell: int,
    edit: str,
    salt: bytes,
    how: dict[str, Any],
    same_topic: bool,
    update: bool | None,
) -> None:
    """Whatever maps and filters were made of and have gone through, the rows are those of filtering every record.

    Once planned, every byte outside the planned ranges may turn into noise. update: with filters or without, or none.
    """
    what, before, now, asked = story
    other_topic = what == "another log" and not same_topic
    assume(what != "another log" or other_topic or not share_a_batch(before, now))
    keys = data.draw(keys_of(before, now))
    with Case() as case:
        case.write(before, "A" * 22)
        case.make_maps(cell, keys=True)
        zones = edited(case.table(), edit, salt)
        zone_table.write_zone_map(str(case.map_path), LOCAL, zone_table.ZoneMap(zones, "A" * 22))
        case.write(now, "B" * 22 if other_topic else "A" * 22)
        if update is not None:
            case.make_maps(cell, keys=update)
        options = case.options(asked, key=keys, **how)
        plan = make_plan(options)
        event(f"key filters save: {plan.bytes_saved_by_key_filters > 0}")
        plan = poison(plan, case.logs)
        assert read(plan) == with_keys(wanted(now, asked), keys)


@given(log=any_log, other=any_log, data=st.data(), cell=CELLS)
def test_filters_of_another_log_hide_nothing(
    log: GeneratedLog, other: GeneratedLog, data: st.DataObject, cell: int
) -> None:
    """A fresh map beside the filters of another log, under the same name: the filters are of other batches."""
    assume(not share_a_batch(log, other))
    keys = data.draw(keys_of(log))
    with Case() as case:
        case.write(other)
        case.make_maps(cell, keys=True)
        old = case.root / "old"
        if filters_of(case).exists():
            shutil.move(filters_of(case), old)
        case.map_path.unlink(missing_ok=True)
        case.write(log)
        case.make_maps(cell)
        if old.exists():
            shutil.move(old, filters_of(case))
        options = case.options(Bounds(), key=keys)
        assert read(make_plan(options)) == with_keys(wanted(log, Bounds()), keys)


@given(
    log=any_log, data=st.data(), cell=CELLS, end=st.just(PARTS) | st.integers(0, PARTS),
    flips=st.lists(st.tuples(st.integers(0, PARTS - 1), st.integers(0, 7)), max_size=3),
)  # fmt: skip
def test_damaged_filters_are_ignored(
    log: GeneratedLog, data: st.DataObject, cell: int, end: int, flips: list[tuple[int, int]]
) -> None:
    """Any byte of a file of filters may change, and any part of its end be missing: the rows are the same."""
    asked = data.draw(bounds(log))
    assume(in_order(asked))
    keys = data.draw(keys_of(log))
    with Case() as case:
        case.write(log)
        case.make_maps(cell, keys=True)
        for path in filters_of(case).glob("*.keys"):
            changed = bytearray(path.read_bytes())
            whole = len(changed)
            for place, bit in flips:
                changed[place * whole // PARTS] ^= 1 << bit
            del changed[end * whole // PARTS :]
            path.write_bytes(changed)
        options = case.options(asked, key=keys)
        plan = poison(make_plan(options), case.logs)
        assert read(plan) == with_keys(wanted(log, asked), keys)


@given(log=any_log, cell=CELLS)
def test_no_filter_says_no_of_a_key_that_is_there(log: GeneratedLog, cell: int) -> None:
    """Each key of each zone, by the log that was written; a zone without keys holds none."""
    with Case() as case:
        case.write(log)
        case.make_maps(cell, keys=True)
        table = case.table()
        for segment in log.segments:
            zones = table[:, table[zone_table.SEGMENT] == segment.base_offset]
            if not zones.shape[1]:
                continue
            path = key_filters.filter_path(str(filters_of(case)), segment.base_offset)
            ends = zones[zone_table.END].tolist()
            for batch in segment.batches:
                zone = next((n for n, end in enumerate(ends) if batch.position < end), None)
                for record in batch.records if zone is not None else ():
                    if record.key is None or record.is_control:
                        continue
                    holding, is_whole = find(path, [record.key], zones)
                    assert is_whole and holding[zone]


def find(path: str, keys: list[bytes], zones: zone_table.ZoneTable) -> tuple[Any, bool]:
    version = LOCAL.look_at(path)
    assert version is not None and version.version is not None
    query = key_filters.KeyQuery(keys)
    return key_filters.find_holding(path, LOCAL, version.version, query, key_filters.identify(zones))


@given(story=histories(), cell=CELLS)
def test_filters_brought_up_to_date_are_as_if_made_again(
    story: tuple[str, GeneratedLog, GeneratedLog], cell: int
) -> None:
    """A log that grew, was cut, refilled or compacted, with a map alone at first: the files are the same."""
    what, before, now = story
    with Case() as case:
        case.write(before)
        case.make_maps(cell, keys=what != "nothing")
        case.write(now)
        case.make_maps(cell, keys=True)
        updated = {path.name: path.read_bytes() for path in filters_of(case).glob("*")}
        shutil.rmtree(case.maps, ignore_errors=True)
        case.make_maps(cell, keys=True)
        assert updated == {path.name: path.read_bytes() for path in filters_of(case).glob("*")}


FILTERS = st.lists(st.none() | st.sets(st.binary(max_size=40), max_size=60), min_size=1, max_size=6)


@given(sets=FILTERS, asked=st.lists(st.binary(max_size=40), min_size=1, max_size=3))
def test_the_file_is_what_the_format_says(sets: list[set[bytes] | None], asked: list[bytes]) -> None:
    """Filters of any sizes, written and read: as a slow reading of Parquet's specification fills and asks them."""
    made = [None if keys is None else fill(keys) for keys in sets]
    data = key_filters.to_bytes(list(enumerate(made)))
    found = key_filters.parse_header(lambda position, count: data[position : position + count])
    again = found.filters()
    for number, blocks in enumerate(made):
        stored = again[number]
        assert stored is blocks is None or np.array_equal(stored, blocks)
    some = [*asked, *(next(iter(keys)) for keys in sets if keys)]
    expected = [blocks is None or any(naive_may_hold(blocks.tolist(), key) for key in some) for blocks in made]
    assert found.may_hold(key_filters.KeyQuery(some)).tolist() == expected


def fill(keys: set[bytes]) -> key_filters.Blocks:
    hashes = np.unique(np.array([xxhash.xxh64_intdigest(key) for key in keys], np.uint64))
    blocks = key_making.make_filter(hashes)
    assert blocks is not None
    naive = [[0] * 8 for _ in blocks]
    for key in keys:
        block, bits = naive_bits(len(naive), key)
        naive[block] = [word | bit for word, bit in zip(naive[block], bits, strict=True)]
    assert blocks.tolist() == naive
    return blocks


def naive_bits(blocks: int, key: bytes) -> tuple[int, list[int]]:
    """The block of a key, and its bit in each word, as Parquet's BloomFilter.md says."""
    digest = xxhash.xxh64_intdigest(key)
    salts = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
    low = digest & 0xFFFFFFFF
    return ((digest >> 32) * blocks) >> 32, [1 << ((low * salt & 0xFFFFFFFF) >> 27) for salt in salts]


def naive_may_hold(blocks: list[list[int]], key: bytes) -> bool:
    if not blocks:
        return False
    block, bits = naive_bits(len(blocks), key)
    return all(word & bit for word, bit in zip(blocks[block], bits, strict=True))


@pytest.mark.parametrize("count", [0, 1, 20, 21, 22, 1000, 40_000, 131_072, 131_073])
def test_sizes_of_filters(count: int) -> None:
    """At least twelve bits a key, as long as 64 KiB have room for them; no filter where they have room for three."""
    made = key_making.make_filter(np.arange(count, dtype=np.uint64))
    if count > 131_072:
        assert made is None
        return
    assert made is not None and len(made) <= 2048
    assert len(made) == 2048 or count * 12 <= len(made) * 256 <= max(count * 12 * 1.26, 1) + 255


@pytest.mark.parametrize(("count", "most"), [(1_707, 0.3), (1_000, 0.8), (43_690, 0.8), (60_000, 2.7), (131_072, 35)])
def test_how_often_filters_are_wrong(count: int, most: float) -> None:
    """Of keys that are not there, they say "perhaps" of no more than docs/zone-maps.md tells, in %. Of those that are
    there, of all."""
    present = [b"order-%d" % number for number in range(1_000)]
    others = np.random.default_rng(count).integers(0, 2**64, count - len(present), dtype=np.uint64)
    hashes = np.array([xxhash.xxh64_intdigest(key) for key in present], np.uint64)
    made = key_making.make_filter(np.unique(np.concatenate([hashes, others])))
    data = key_filters.to_bytes([(7, made)])
    found = key_filters.parse_header(lambda position, size: data[position : position + size])
    asked = [key_filters.KeyQuery([b"absent-%d" % number]) for number in range(10_000)]
    assert 100 * sum(int(found.may_hold(each).sum()) for each in asked) / len(asked) <= most
    assert all(found.may_hold(key_filters.KeyQuery([key])).all() for key in present)
