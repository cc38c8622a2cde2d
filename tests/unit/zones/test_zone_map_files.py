"""Zone maps on disk and kept up to date: whole files whatever happens, and nothing decoded twice without need."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kafka_segment_source.decoding import split_file as split_files
from kafka_segment_source.errors import OptionError, StorageError
from kafka_segment_source.storage import files, store
from kafka_segment_source.storage.store import LOCAL
from kafka_segment_source.zones import making as zone_making
from kafka_segment_source.zones import zone_table
from kafka_segment_source.zones.update_plan import plan_updates
from kafka_segment_source.zones.updates import parse_update, run_updates
from tests.support.batches import BatchSpec, data
from tests.support.logs import simple_log, simple_segment
from tests.support.maps import make_maps, map_path, table_of
from tests.support.rows import ORDERS

LONG_AGO = 10 * 10**9
"""ns after which a change of a file cannot be mistaken for an earlier one."""


def some_zones(count: int, first: int = 0) -> zone_table.ZoneTable:
    table = zone_table.no_zones(count)
    table[zone_table.START] = table[zone_table.LAST_POSITION] = 100 * np.arange(count)
    table[zone_table.END] = table[zone_table.START] + 100
    table[zone_table.FIRST_OFFSET] = table[zone_table.LAST_OFFSET] = np.arange(count)
    table[zone_table.MIN_TIMESTAMP], table[zone_table.MAX_TIMESTAMP] = first, zone_table.NO_MAXIMUM
    return table


@pytest.mark.parametrize("topic_id", [None, "A" * 22])
@pytest.mark.parametrize("count", [0, 1, 5000])
def test_what_is_written_is_read(tmp_path: Path, topic_id: str | None, count: int) -> None:
    """Every number of a table, the extremes of int64 among them, and the topic's id; twice the same bytes."""
    written = zone_table.ZoneMap(some_zones(count, zone_table.NO_MINIMUM), topic_id)
    path = str(tmp_path / "deep" / "maps" / "orders-0.parquet")

    zone_table.write_zone_map(path, LOCAL, written)

    found = zone_table.read_zone_map(path, LOCAL)
    assert found is not None and found.equals(written)
    assert zone_table.to_parquet(found) == Path(path).read_bytes()
    assert os.listdir(Path(path).parent) == ["orders-0.parquet"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: b"", "it is damaged"),
        (lambda data: data[:-1], "it is damaged"),
        (lambda data: b"x" * 500, "it is damaged"),
        (lambda data: data.replace(b"kafkaseg.version", b"kafkaseg.versioN"), "found version 'none'"),
    ],
)
def test_a_file_that_is_no_map(tmp_path: Path, change, reason: str) -> None:  # type: ignore[no-untyped-def]
    """Whatever is wrong with a file is one sentence, and no map."""
    path = tmp_path / "orders-0.parquet"
    path.write_bytes(change(zone_table.to_parquet(zone_table.ZoneMap(some_zones(10)))))

    with pytest.raises(ValueError, match=reason):
        zone_table.read_zone_map(str(path), LOCAL)


@pytest.mark.parametrize("ends", [b"", b"PAR1"])
def test_a_file_too_large_for_a_map(tmp_path: Path, ends: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is read but its ends."""
    path = tmp_path / "orders-0.parquet"
    with path.open("wb") as out:
        out.write(ends)
        out.truncate(2**30)
    read: list[int] = []
    monkeypatch.setattr(files.InputFile, "read_all", lambda file, most: read.append(most))

    with pytest.raises(ValueError, match=r"found 1,073,741,824 bytes, expected at most 134,217,728"):
        zone_table.read_zone_map(str(path), LOCAL)
    os.truncate(path, 2**20)
    with pytest.raises(ValueError, match=r"it is damaged: it begins with b'.*' and ends in b'.*', expected b'PAR1'"):
        zone_table.read_zone_map(str(path), LOCAL)
    assert not read


def test_more_zones_than_a_partition_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file may say that it has any number of rows: none is made before that is looked at."""
    data = zone_table.to_parquet(zone_table.ZoneMap(some_zones(11)))
    monkeypatch.setattr(zone_table, "_MOST_ZONES", 10)

    with pytest.raises(ValueError, match="found 11 zones, expected at most 10"):
        zone_table.from_parquet(data)


def test_maps_with_arrows_own_schema_are_read() -> None:
    """Older versions wrote it, and the metadata inside it. The file may have several row groups."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    written = zone_table.ZoneMap(some_zones(10), "A" * 22)
    file = pq.ParquetFile(pa.BufferReader(zone_table.to_parquet(written)))
    table = file.read().replace_schema_metadata(file.metadata.metadata)
    out = pa.BufferOutputStream()
    pq.write_table(table, out, row_group_size=4)

    assert pq.ParquetFile(pa.BufferReader(out.getvalue())).num_row_groups == 3
    assert zone_table.from_parquet(out.getvalue().to_pybytes()).equals(written)


@pytest.mark.parametrize("column", [pa.array([0.5] * 10), pa.array([None] + [1] * 9, pa.int64()), pa.array(["1"] * 10)])
def test_columns_that_are_no_integers_are_damage(column: pa.Array) -> None:
    """A map has nothing to guess: fractions, nulls and texts are one sentence."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    file = pq.ParquetFile(pa.BufferReader(zone_table.to_parquet(zone_table.ZoneMap(some_zones(10)))))
    table = file.read().set_column(zone_table.MIN_TIMESTAMP, "minTimestamp", column)
    out = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(file.metadata.metadata), out)

    with pytest.raises(ValueError, match="it is damaged"):
        zone_table.from_parquet(out.getvalue().to_pybytes())


def test_other_parquet_files_are_no_maps(tmp_path: Path) -> None:
    """Somebody's own file under the name of a map."""
    out = pa.BufferOutputStream()
    import pyarrow.parquet as pq  # noqa: PLC0415

    pq.write_table(pa.table({"a": ["text"]}), out)

    with pytest.raises(ValueError, match="found version 'none', expected '2'"):
        zone_table.from_parquet(out.getvalue().to_pybytes())


def test_a_topic_by_an_odd_name_stays_in_the_directory() -> None:
    """The option `topic` may be anything; a file's name may not."""
    assert zone_table.zone_map_path("/maps", "orders.eu_1-2", 3) == "/maps/orders.eu_1-2-3.parquet"
    assert zone_table.zone_map_path("/maps", "../x/y", 3) == "/maps/..%2Fx%2Fy-3.parquet"


def test_two_writers_and_a_reader_at_once(tmp_path: Path) -> None:
    """A reader sees one of the maps that were written, whole; in the end one is there, and nothing else."""
    path = str(tmp_path / "orders-0.parquet")
    maps = [zone_table.ZoneMap(some_zones(2000, first)) for first in range(2)]
    zone_table.write_zone_map(path, LOCAL, maps[0])
    writers = [
        threading.Thread(target=lambda m=m: [zone_table.write_zone_map(path, LOCAL, m) for _ in range(30)])
        for m in maps
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        found = zone_table.read_zone_map(path, LOCAL)
        assert found is not None and any(found.equals(each) for each in maps)
    for writer in writers:
        writer.join()
    assert os.listdir(tmp_path) == ["orders-0.parquet"]


def test_a_death_half_way_leaves_the_old_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before the rename, and a rename that fails: the old map is read as before."""
    path = str(tmp_path / "orders-0.parquet")
    old, new = zone_table.ZoneMap(some_zones(3)), zone_table.ZoneMap(some_zones(4))
    zone_table.write_zone_map(path, LOCAL, old)

    def full(*_: str) -> None:
        raise OSError(28, "No space left on device")

    def dead(_: str) -> None:
        raise OSError("dead by then")

    monkeypatch.setattr(store.os, "replace", full)
    monkeypatch.setattr(store.os, "unlink", dead)
    with pytest.raises(StorageError, match=r"orders-0.parquet' cannot be written: No space left on device"):
        zone_table.write_zone_map(path, LOCAL, new)
    monkeypatch.undo()

    found = zone_table.read_zone_map(path, LOCAL)
    assert found is not None and found.equals(old)
    assert len(os.listdir(tmp_path)) == 2  # what the dead one left is no map, and in nobody's way
    assert [
        update.before is not None for update in plan_updates(*parse_update(ORDERS / "data", {}), str(tmp_path))
    ] == [
        True,
        False,
        False,
        False,
    ]


# ---- kept up to date ----


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every file had been changed long ago."""
    monkeypatch.setattr(files, "_RACY_NANOS", -LONG_AGO)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A partition of three segments of three batches."""
    parts = [simple_segment([data(3 * n + m, 100 * n + m) for m in range(3)], base=3 * n) for n in range(3)]
    return simple_log(*parts).write(tmp_path / "logs")


@pytest.mark.usefixtures("settled")
def test_nothing_new_is_nothing_to_do(folder: Path, tmp_path: Path) -> None:
    """A second run decodes nothing and does not touch the file."""
    first = make_maps(folder, tmp_path / "maps")
    assert (first.segments_mapped, first.segments_kept, first.zones, first.files_written) == (3, 0, 9, 1)
    before = map_path(tmp_path / "maps").stat()

    second = make_maps(folder, tmp_path / "maps")

    assert (second.segments_mapped, second.segments_kept, second.bytes_read, second.files_written) == (0, 3, 0, 0)
    assert map_path(tmp_path / "maps").stat() == before


def test_a_file_that_was_just_changed_is_looked_at_again(folder: Path, tmp_path: Path) -> None:
    """A change that follows another at once may leave size and ctime as they were: from the last zone on, once more."""
    make_maps(folder, tmp_path / "maps")

    table = table_of(tmp_path / "maps")

    again = make_maps(folder, tmp_path / "maps")

    assert (again.segments_mapped, again.bytes_read) == (
        3,
        int(sum((table[zone_table.END] - table[zone_table.START])[2::3])),
    )


@pytest.mark.usefixtures("settled")
def test_a_segment_that_grew_is_decoded_from_its_last_zone_on(folder: Path, tmp_path: Path) -> None:
    """The others stay."""
    make_maps(folder, tmp_path / "maps")
    live = folder / f"{6:020d}.log"
    table = table_of(tmp_path / "maps")
    more = simple_segment([data(9, 500)]).log
    live.write_bytes(live.read_bytes() + more)

    done = make_maps(folder, tmp_path / "maps")

    assert (done.segments_mapped, done.segments_kept, done.bytes_read) == (
        1,
        2,
        table[zone_table.END, -1] - table[zone_table.START, -1] + len(more),
    )
    assert table_of(tmp_path / "maps")[zone_table.MAX_TIMESTAMP].max() == 500


@pytest.mark.usefixtures("settled")
def test_a_segment_that_was_swapped_is_decoded_again(folder: Path, tmp_path: Path) -> None:
    """Compaction leaves the name and the old file's mtime; even the size may be the same."""
    make_maps(folder, tmp_path / "maps")
    path = folder / f"{3:020d}.log"
    old = path.stat()
    swap = folder / "swap"
    swap.write_bytes(simple_segment([data(3 + m, 700 + m) for m in range(3)], base=3).log)
    os.utime(swap, ns=(old.st_atime_ns, old.st_mtime_ns))
    swap.rename(path)
    assert path.stat().st_size == old.st_size and path.stat().st_mtime_ns == old.st_mtime_ns

    done = make_maps(folder, tmp_path / "maps")

    assert (done.segments_mapped, done.segments_kept) == (1, 2)
    assert table_of(tmp_path / "maps")[zone_table.MAX_TIMESTAMP].max() == 702


@pytest.mark.usefixtures("settled")
def test_segments_that_are_gone_leave_the_map(folder: Path, tmp_path: Path) -> None:
    """Those that retention took; not those that a path of single files leaves out."""
    make_maps(folder, tmp_path / "maps")
    make_maps(folder / f"{6:020d}.log", tmp_path / "maps")
    assert sorted(set(table_of(tmp_path / "maps")[zone_table.SEGMENT].tolist())) == [0, 3, 6]
    (folder / f"{0:020d}.log").unlink()

    done = make_maps(folder, tmp_path / "maps")

    assert sorted(set(table_of(tmp_path / "maps")[zone_table.SEGMENT].tolist())) == [3, 6]
    assert done.files_written == 1


@pytest.mark.usefixtures("settled")
def test_damage_ends_a_segments_zones(folder: Path, tmp_path: Path) -> None:
    """What lies before it is mapped, and so is every other segment; each run says so again."""
    path = folder / f"{3:020d}.log"
    whole = path.read_bytes()
    path.write_bytes(whole[:-3] + b"???")
    for _ in range(2):
        done = make_maps(folder, tmp_path / "maps")
        assert len(done.damage) == 1 and "CRC" in done.damage[0] and str(path) in done.damage[0]
        assert [int(sum(table_of(tmp_path / "maps")[zone_table.SEGMENT] == base)) for base in (0, 3, 6)] == [3, 2, 3]


def test_a_damaged_record_costs_its_batch_and_what_follows(tmp_path: Path) -> None:
    """The CRC may hold over bytes that are no record: the batches before it are decoded once more without it."""
    part = simple_segment([data(0, 5), data(1, 7), data(2, 6), data(3, 8)])
    record_batch = bytearray(part.batches[2].data)
    record_batch[61] = 0x7F  # the length of its record
    record_batch[17:21] = __import__("crc32c").crc32c(bytes(record_batch[21:])).to_bytes(4, "big")
    log = b"".join([part.batches[0].data, part.batches[1].data, bytes(record_batch), part.batches[3].data])
    folder = simple_log(part).write(tmp_path / "logs")
    (folder / f"{0:020d}.log").write_bytes(log)

    done = make_maps(folder, tmp_path / "maps", cell=10**6)

    table = table_of(tmp_path / "maps")
    assert len(done.damage) == 1
    assert table[
        [zone_table.END, zone_table.RECORDS, zone_table.MIN_TIMESTAMP, zone_table.MAX_TIMESTAMP]
    ].T.tolist() == [[part.batches[1].end, 2, 5, 7]]


def test_a_zone_may_go_on_in_the_next_chunk(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zones are cells of the file, however it is read."""
    make_maps(ORDERS / "data", tmp_path / "whole", cell=3000)
    real = split_files.BatchReader
    small = lambda *given, **named: real(*given, **{**named, "chunk_bytes": 1000})  # noqa: E731
    monkeypatch.setattr(split_files, "BatchReader", small)

    make_maps(ORDERS / "data", tmp_path / "small", cell=3000)

    for partition in range(3):
        both = [table_of(tmp_path / name, "orders", partition) for name in ("whole", "small")]
        assert np.array_equal(*both) and both[0].shape[1] > 6


def test_a_log_that_is_refilled_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zones that were decoded before the truncation go: the last batch, which is there, would prove them."""
    before = simple_segment([data(n, 900 + n) for n in range(6)])
    after = simple_segment([data(0, 900), *(BatchSpec(n, n, ((n, 100 + n),), leader_epoch=1) for n in range(1, 6))])
    assert len(before.log) == len(after.log)
    folder = simple_log(before).write(tmp_path / "logs")
    real = zone_making._decode_chunk

    def decoded(*given):  # type: ignore[no-untyped-def]
        found = real(*given)
        (folder / f"{0:020d}.log").write_bytes(after.log)
        return found

    monkeypatch.setattr(zone_making, "_decode_chunk", decoded)
    reader = split_files.BatchReader
    chunk = len(before.batches[0].data) * 3 + 5
    monkeypatch.setattr(
        split_files, "BatchReader", lambda *given, **named: reader(*given, **{**named, "chunk_bytes": chunk})
    )

    make_maps(folder, tmp_path / "maps")

    assert table_of(tmp_path / "maps")[zone_table.MAX_TIMESTAMP].tolist() == [900]


def test_a_file_that_vanishes_is_left_out(folder: Path, tmp_path: Path) -> None:
    """Retention may take a segment between listing and decoding."""
    updates = plan_updates(*parse_update(folder, {}), str(tmp_path / "maps"))
    (folder / f"{0:020d}.log").unlink()

    run_updates(updates, 2**28)

    assert sorted(set(table_of(tmp_path / "maps")[zone_table.SEGMENT].tolist())) == [3, 6]


def test_bounds_are_not_for_maps() -> None:
    """A map of a part of a log would be taken for one of all of it."""
    with pytest.raises(OptionError, match="option 'since' is not for zone maps, which take subscribe"):
        parse_update("x", {"since": 5})
