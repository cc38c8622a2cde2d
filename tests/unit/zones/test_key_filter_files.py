"""Key filters: their files, what a plan says of them, and what real logs give through them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
import xxhash

import kafka_segment_source as kafkaseg
from kafka_segment_source.storage import files as storage_files
from kafka_segment_source.storage.store import LOCAL
from kafka_segment_source.zones import key_filters
from kafka_segment_source.zones.key_making import make_filter
from tests.support import writer
from tests.support.rows import LOG_DIRECTORIES, MESSAGE_SETS
from tests.support.writer import Rec

TEN = range(10)


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every file had been changed long ago."""
    monkeypatch.setattr(storage_files, "_RACY_NANOS", -10 * 10**9)


def write_log(folder: Path, segments: range = TEN) -> Path:
    """A partition of segments of two records: segment n has the keys `k<n>` and `all`, at offsets 2n and 2n + 1."""
    partition = folder / "orders-0"
    partition.mkdir(parents=True, exist_ok=True)
    for n in segments:
        recs = [Rec(0, 1000 + n, b"k%d" % n, b"v"), Rec(1, 1000 + n, b"all", b"v")]
        (partition / writer.segment_name(2 * n)).write_bytes(writer.record_batch(recs, base_offset=2 * n))
    return partition


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "logs")


@pytest.fixture
def maps(log: Path, tmp_path: Path) -> Path:
    """The zone maps and key filters of the log."""
    done = kafkaseg.update_zone_maps_locally(log, tmp_path / "maps", keys=True)
    assert done.segments_mapped == 10 and done.filter_bytes > 0
    return tmp_path / "maps"


def files(maps: Path) -> list[Path]:
    return sorted((maps / "orders-0.keys").iterdir())


def test_a_filter_that_another_program_made(tmp_path: Path) -> None:
    """DuckDB writes Bloom filters into Parquet files: hash, blocks and bits are those that a plan looks for."""
    import duckdb  # noqa: PLC0415  # not before pytest has collected all tests (conftest.py)

    path = tmp_path / "rows.parquet"
    duckdb.sql(f"COPY (SELECT ('key-' || (i % 900))::BLOB AS key FROM range(9000) t(i)) TO '{path}' (FORMAT parquet)")
    asked = f"SELECT bloom_filter_offset, bloom_filter_length FROM parquet_metadata('{path}')"
    [(offset, length)] = duckdb.sql(asked).fetchall()
    size = 1 << (length.bit_length() - 1)  # the header before the bits is short
    bits = path.read_bytes()[offset + length - size : offset + length]

    def may_hold(key: bytes) -> bool:
        query = key_filters.KeyQuery([key])
        [(block, numbers)] = query.by_block(size // 32).items()
        return bool(query.may_hold(bits[32 * block : 32 * block + 32], numbers)[0])

    assert all(may_hold(b"key-%d" % n) for n in range(900))
    assert sum(may_hold(b"other-%d" % n) for n in range(2000)) < 100


@pytest.mark.parametrize("name", [*LOG_DIRECTORIES, *MESSAGE_SETS])
def test_rows_of_real_logs(name: str, tmp_path: Path) -> None:
    """Of every log that a broker wrote, the records of a key are those of a full read, by filters and without."""
    logs = {**LOG_DIRECTORIES, **MESSAGE_SETS}[name]
    kafkaseg.update_zone_maps_locally(logs, tmp_path, keys=True)
    full = kafkaseg.scan(logs).read_all()
    keys = [key for key in full["key"].unique().to_pylist() if key is not None]
    for asked in (keys[:1], keys[-2:], [b"no such key"]):
        if not asked:
            continue
        wanted = full.filter(pc.field("key").isin(asked)).to_pylist()
        for maps in (None, tmp_path):
            assert kafkaseg.scan(logs, key=asked, zoneMaps=maps).read_all().to_pylist() == wanted


def test_a_plan_says_what_filters_leave_out(log: Path, maps: Path) -> None:
    """One segment of ten is read, and the plan names the reason of the others."""
    plan = kafkaseg.plan(log, key="k3", zoneMaps=maps)
    assert [split.base_offset for split in plan.splits] == [6]
    assert {each.reason for each in plan.dropped} == {"no row with the key (key filter)"}
    assert plan.bytes_saved_by_key_filters == plan.bytes_total - plan.bytes_to_read == plan.bytes_saved_by_zone_maps
    assert "less by key filters" in " ".join(str(plan).split()) and plan.warnings == ()
    assert plan.to_dict()["bytesSavedByKeyFilters"] == plan.bytes_saved_by_key_filters
    assert kafkaseg.plan(log, key=["k3", "k7"], zoneMaps=maps).segments_kept == 2
    assert kafkaseg.plan(log, key="all", zoneMaps=maps).segments_kept == 10
    assert kafkaseg.plan(log, key="none", zoneMaps=maps).segments_kept == 0


def test_keys_and_times_together(log: Path, maps: Path) -> None:
    """Each leaves out what the other cannot, and the plan tells them apart."""
    plan = kafkaseg.plan(log, key=["k3", "k7"], until=1005, zoneMaps=maps)
    assert [split.base_offset for split in plan.splits] == [6]
    reasons = [each.reason for each in plan.dropped]
    assert reasons.count("no row with the key and the time (key filter)") == 4
    assert reasons.count("no row inside the time bounds (zone map)") == 5
    assert 0 < plan.bytes_saved_by_key_filters < plan.bytes_saved_by_zone_maps
    assert "of it by key filters" in " ".join(str(plan).split())


def test_pushed_keys_use_filters(log: Path, maps: Path) -> None:
    """A predicate of a dataset prunes as the option does."""
    made = kafkaseg.dataset(log, zoneMaps=maps)
    assert made.plan(pc.field("key") == b"k3").segments_kept == 1
    assert made.to_table(["offset"], pc.field("key") == b"k3")["offset"].to_pylist() == [6]
    assert kafkaseg.dataset(log, zoneMaps=maps, keyFormat="string").plan(pc.field("key") == "k3").segments_kept == 1


def test_keys_that_contradict_each_other(log: Path) -> None:
    """A key as an option and another one in the predicate: nothing is read."""
    plan = kafkaseg.dataset(log, key="k3").plan(pc.field("key") == b"k4")
    assert plan.segments_kept == 0 and {each.reason for each in plan.dropped} == {
        "no key passes both the option key and the filter"
    }
    assert kafkaseg.dataset(log, key="k3").count_rows(pc.field("key") == b"k4") == 0


def test_typed_keys_use_no_filters(tmp_path: Path) -> None:
    """The same value may be other bytes, which no filter knows. The stored bytes may be asked for."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    batches = [
        writer.record_batch([Rec(0, 1000, key, b"v")], base_offset=n)
        for n, key in enumerate([b'{ "id":7}', b'{"id":8}'])
    ]
    for n, batch in enumerate(batches):
        (folder / writer.segment_name(n)).write_bytes(batch)
    kafkaseg.update_zone_maps_locally(folder, tmp_path / "maps", keys=True)
    options: dict[str, Any] = {"zoneMaps": tmp_path / "maps", "keyFormat": "json", "keySchema": "id BIGINT"}
    made = kafkaseg.dataset(folder, **options)
    assert made.count_rows(pc.field("key", "id") == 7) == 1
    assert kafkaseg.scan(folder, ["offset"], key={"id": 7}, **options).read_all().num_rows == 1
    plan = kafkaseg.plan(folder, key=b'{ "id":7}', **options)
    assert (plan.segments_kept, plan.to_reader(["key"]).read_all()["key"].to_pylist()) == (1, [{"id": 7}])


def test_control_records_are_in_no_filter(log: Path, maps: Path) -> None:
    """A read of control records reads all."""
    plan = kafkaseg.plan(log, key="k3", zoneMaps=maps, includeControl=True)
    assert plan.segments_kept == 10 and "say nothing about control records" in plan.warnings[0]


def test_missing_filters_are_said(log: Path, tmp_path: Path) -> None:
    """Zone maps alone, and a segment that came later: what has no filter is read, and the plan names the command."""
    maps = tmp_path / "maps"
    kafkaseg.update_zone_maps_locally(log, maps)
    plan = kafkaseg.plan(log, key="k3", zoneMaps=maps)
    assert plan.segments_kept == 10
    assert "lacks key filters of 10 of the segments" in plan.warnings[0] and "--keys`" in plan.warnings[0]
    again = kafkaseg.update_zone_maps_locally(log, maps, keys=True)
    assert (again.segments_mapped, again.files_written) == (10, 0)
    assert kafkaseg.update_zone_maps_locally(log, maps, keys=True).segments_mapped == 0
    write_log(log.parent, range(10, 11))
    assert [split.base_offset for split in kafkaseg.plan(log, key="k3", zoneMaps=maps).splits] == [6, 20]
    assert kafkaseg.update_zone_maps_locally(log, maps, keys=True).segments_mapped == 1
    assert kafkaseg.plan(log, key="k3", zoneMaps=maps).segments_kept == 1


def test_filters_of_segments_that_are_gone_are_removed(log: Path, maps: Path) -> None:
    """With retention, the directory holds what the log holds. Another file there stays."""
    (maps / "orders-0.keys" / "mine.txt").write_text("mine")
    for n in range(4):
        (log / writer.segment_name(2 * n)).unlink()
    kafkaseg.update_zone_maps_locally(log, maps, keys=True)
    assert [path.name for path in files(maps)] == [
        *(f"{2 * n:020d}.keys" for n in range(4, 10)),
        "mine.txt",
    ]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "found 0 bytes"),
        (b"x" * 100, "expected b'KSEGKEYS'"),
        (b"KSEGKEYS\2\0\0\0\1\0\0\0" + bytes(100), "found version 2, expected 1"),
        (b"KSEGKEYS\1\0\0\0\xff\xff\xff\xff" + bytes(100), "expected at most"),
        (b"KSEGKEYS\1\0\0\0\1\0\0\0" + bytes(100), "another checksum"),
    ],
)
def test_damaged_files_are_said_and_made_again(
    log: Path, maps: Path, data: bytes, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The segment is read, a warning says why, and the next update makes its filters again."""
    path = files(maps)[5]
    path.write_bytes(data)
    plan = kafkaseg.plan(log, key="k3", zoneMaps=maps)
    assert [split.base_offset for split in plan.splits] == [6, 10]
    assert said in plan.warnings[0] and str(path) in plan.warnings[0] and "makes them again" in plan.warnings[0]
    assert kafkaseg.update_zone_maps_locally(log, maps, keys=True).segments_mapped == 1
    assert "are made again" in caplog.text
    assert kafkaseg.plan(log, key="k3", zoneMaps=maps).warnings == ()


def test_every_flipped_bit_is_found() -> None:
    """No bit of a file may turn "perhaps" into "no"."""
    hashes = np.array([xxhash.xxh64_intdigest(b"k%d" % n) for n in range(30)], np.uint64)
    data = key_filters.to_bytes([(1, make_filter(np.unique(hashes))), (2, None), (3, make_filter(hashes[:0]))])
    query = key_filters.KeyQuery([b"k7"])
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with suppress(ValueError):
            assert key_filters.parse_header(lambda at, count: bytes(changed[at : at + count])).may_hold(query)[0]  # noqa: B023


def test_a_directory_in_place_of_a_file(log: Path, maps: Path) -> None:
    """Nothing that lies there makes a plan fail."""
    path = files(maps)[5]
    path.unlink()
    path.mkdir()
    assert kafkaseg.plan(log, key="k3", zoneMaps=maps).segments_kept == 2


def test_too_many_keys(log: Path, maps: Path) -> None:
    """Filters with a small error each say "perhaps" of most zones, so they are not asked."""
    plan = kafkaseg.plan(log, key=[f"x{n}" for n in range(257)], zoneMaps=maps)
    assert plan.segments_kept == 10 and "more than 256 keys" in plan.warnings[0]
    assert kafkaseg.plan(log, key=[f"x{n}" for n in range(256)], zoneMaps=maps).segments_kept < 10


def test_a_look_up_reads_little(tmp_path: Path) -> None:
    """Of a file of many large filters: the header, and a row of one block each."""
    filters = [(n, np.zeros((2048, 8), np.uint32)) for n in range(200)]
    data = key_filters.to_bytes(filters)
    reads: list[int] = []

    def read_at(position: int, count: int) -> bytes:
        found = data[position : position + count]
        reads.append(len(found))
        return found

    found = key_filters.parse_header(read_at).may_hold(key_filters.KeyQuery([b"a"]))
    assert not found.any() and sum(reads) < 20_000 < len(data) // 500


def test_files_are_replaced_whole(log: Path, maps: Path) -> None:
    """No temporary file stays beside them."""
    assert [path.suffix for path in files(maps)] == [".keys"] * 10
    assert all(key_filters.read_filters(str(path), LOCAL) for path in files(maps))
