"""`stats` beside a naive pass over the records: exact figures are equal, and estimates within the error they state."""

from __future__ import annotations

import json
import struct
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding import records as decode
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.errors import DataError, OptionError
from kafka_segment_source.kernels.key_hashes import hash_parts
from kafka_segment_source.statistics import heavy, totals
from kafka_segment_source.statistics.distinct import STANDARD_ERROR, Distinct
from kafka_segment_source.statistics.totals import TopicStats
from tests.cli.runner import answer, run
from tests.support import naive, writer
from tests.support.chunks import read_in_chunks
from tests.support.rows import LOG_DIRECTORIES, MESSAGE_SETS, expected
from tests.support.writer import Codec, Rec

CODECS: list[Codec] = ["none", "gzip", "snappy-xerial", "lz4", "zstd"]

framed = st.tuples(st.integers(0, 1), st.integers(-1, 2), st.binary(max_size=3)).map(
    lambda parts: struct.pack(">bi", *parts[:2]) + parts[2]
)
keys = st.none() | st.sampled_from([b"", b"a", b"b", b"a longer key than others"]) | st.binary(max_size=20) | framed
values = st.none() | st.binary(max_size=40) | framed
headers = st.lists(st.tuples(st.sampled_from([b"h", b"\xff", b"name"]), values), max_size=3).map(tuple)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches of any codec and of several producers."""
    out, base = b"", 0
    for _ in range(draw(st.integers(1, 5))):
        recs = [Rec(delta, 5, draw(keys), draw(values), draw(headers)) for delta in range(draw(st.integers(1, 8)))]
        producer = draw(st.integers(-1, 3))
        out += writer.record_batch(recs, base_offset=base, codec=draw(st.sampled_from(CODECS)), producer_id=producer)
        base += len(recs)
    return out


def size_of(record: naive.Record) -> int:
    return len(record.key or b"") + len(record.value or b"") + header_bytes(record)


def header_bytes(record: naive.Record) -> int:
    return sum(len(name) + len(value or b"") for name, value in record.headers)


def schema_of(data: bytes | None) -> int | None:
    if data is None or len(data) < 5 or data[0] != 0:
        return None
    found: int = struct.unpack(">i", data[1:5])[0]
    return found if found > 0 else None


def share(records: list[naive.Record], ids: list[Any]) -> dict[Any, tuple[int, int]]:
    found: dict[Any, tuple[int, int]] = {}
    for record, each in zip(records, ids, strict=True):
        if each is not None:
            count, size = found.get(each, (0, 0))
            found[each] = count + 1, size + size_of(record)
    return found


def check(stats: TopicStats, records: list[naive.Record]) -> None:
    """Compares all but the estimate of different keys with a naive pass."""
    assert stats.sums == {
        "records": len(records),
        "keyBytes": sum(len(each.key or b"") for each in records),
        "valueBytes": sum(len(each.value or b"") for each in records),
        "headers": sum(len(each.headers) for each in records),
        "headerBytes": sum(map(header_bytes, records)),
        "nullKeys": sum(each.key is None for each in records),
        "tombstones": sum(each.value is None for each in records),
    }
    largest = sorted(records, key=lambda each: (-size_of(each), each.offset))[: stats.most]
    assert [each.size for each in stats.largest] == [size_of(each) for each in largest]
    by_offset = {each.offset: each for each in records}
    assert all(
        (size_of(by_offset[each.offset]), by_offset[each.offset].key) == (each.size, each.key) for each in stats.largest
    )
    names = Counter(name for each in records for name, _ in each.headers)
    assert {name: each.records for name, each in stats.header_names.of.items()} == names
    assert sum(each.size for each in stats.header_names.of.values()) == stats.sums["headerBytes"]
    for found, wanted in (
        (stats.producers, share(records, [each.producer_id for each in records])),
        (stats.key_schemas, share(records, [schema_of(each.key) for each in records])),
        (stats.value_schemas, share(records, [schema_of(each.value) for each in records])),
    ):
        assert {key: (each.records, each.size) for key, each in found.of.items()} == wanted
    weights: Counter[bytes] = Counter()
    sizes: Counter[bytes] = Counter()
    for each in records:
        if each.key is not None:
            weights[each.key] += 1
            sizes[each.key] += size_of(each)
    for heaviest, true in ((stats.by_records, weights), (stats.by_bytes, sizes)):
        found_keys = dict(heaviest.top(10**6))
        assert all(weight <= true[key] <= weight + heaviest.error for key, weight in found_keys.items())
        assert all(weight <= heaviest.error for key, weight in true.items() if key not in found_keys)
        [most] = heavy.keep_heaviest.__defaults__ or ()
        assert heaviest.error <= sum(true.values()) // (most + 1)
        assert heaviest.error == 0 or len(true) > most


@given(
    logs(),
    st.tuples(st.integers(1, 9), st.integers(1, 300), st.integers(70, 400)),
    st.integers(1, 6),
    st.integers(1, 4),
    st.sampled_from([1, 3]),
)
@settings(max_examples=settings().max_examples * 2)
def test_stats_are_those_of_a_naive_pass(
    log: bytes, portions: tuple[int, int, int], counters: int, most: int, threads: int
) -> None:
    """With few counters, and blocks of few records."""
    RECORDS.load_maker()
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        folder = Path(directory) / "orders-0"
        folder.mkdir()
        (folder / writer.segment_name(0)).write_bytes(log)
        patch.setattr(decode, "MAX_ROWS", portions[0])
        patch.setattr(decode, "MAX_BYTES", portions[1])
        patch.setattr(heavy.keep_heaviest, "__defaults__", (counters,))
        patch.setattr(heavy, "_MOST_WAITING", 2 * counters)
        read_in_chunks(patch, portions[2])
        [stats] = kafkaseg.stats(folder, most=most, threads=threads)
        records = naive.decode_log(log)

        check(stats, records)
        different = len({each.key for each in records} - {None})
        assert abs(stats.distinct_keys - different) <= 1  # of so few, registers are hardly ever shared
        json.dumps(stats.to_dict())


@pytest.mark.parametrize("number", [0, 1, 100, 5000, 40_000, 200_000, 1_000_000])
def test_the_estimate_keeps_its_error(number: int) -> None:
    """From nothing to many keys: within four standard errors, which one of 16,000 estimates is not."""
    distinct = Distinct()
    for first in range(0, number, 50_000):
        texts = [f"user-{each}".encode() for each in range(first, min(first + 50_000, number))]
        ends = np.cumsum([0, *map(len, texts)])
        hashes = np.empty(len(texts), np.uint64)
        source = np.frombuffer(bytearray(b"".join(texts)), np.uint8)
        hash_parts(source, ends[:-1].astype(np.int32), np.diff(ends).astype(np.int32), len(texts), hashes)
        distinct.add(hashes)
        distinct.add(hashes)

    assert abs(distinct.estimate() - number) <= 4 * STANDARD_ERROR * number


def test_many_header_names_share_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded: further names, producers and schemas are summed together."""
    monkeypatch.setattr(totals, "MOST_IDS", 2)
    (tmp_path / "a-0").mkdir()
    names = tuple((f"h{number}".encode(), b"12") for number in range(5))
    (tmp_path / "a-0" / writer.segment_name(0)).write_bytes(writer.record_batch([Rec(headers=names)]))
    [stats] = kafkaseg.stats(tmp_path)

    assert len(stats.header_names.of) == 2
    assert (stats.header_names.others.records, stats.header_names.others.size) == (3, 12)


def test_long_names_are_cut(tmp_path: Path) -> None:
    """Keys and header names are kept up to 256 bytes; their sums are whole."""
    (tmp_path / "a-0").mkdir()
    rec = Rec(key=b"k" * 1000, headers=((b"h" * 1000, b"12"),))
    (tmp_path / "a-0" / writer.segment_name(0)).write_bytes(writer.record_batch([rec]))
    [stats] = kafkaseg.stats(tmp_path)

    assert stats.sums["keyBytes"] == 1000 and stats.sums["headerBytes"] == 1002
    assert list(stats.header_names.of) == [b"h" * 256] and stats.header_names.of[b"h" * 256].size == 1002
    assert stats.largest[0].key == b"k" * 256 and stats.by_records.top(1) == [(b"k" * 256, 1)]


@pytest.mark.parametrize("name", ["records", "transactions", "codecs"])
def test_what_a_consumer_saw(name: str) -> None:
    """The sums of real logs are those of the rows that a consumer saw; options select."""
    root = LOG_DIRECTORIES[name]
    rows = expected(root)
    found = kafkaseg.stats(root)

    assert {each.topic: each.sums["records"] for each in found} == Counter(row[0] for row in rows)
    assert sum(each.sums["valueBytes"] for each in found) == sum(len(row[6] or b"") for row in rows)
    [one] = kafkaseg.stats(root, assign={rows[0][0]: [rows[0][1]]}, until=rows[5][3], mode="DROPMALFORMED")
    assert one.sums["records"] == sum(row[:2] == rows[0][:2] and row[3] < rows[5][3] for row in rows)


def test_message_sets() -> None:
    for name, root in MESSAGE_SETS.items():
        assert sum(each.sums["records"] for each in kafkaseg.stats(root)) == len(expected(root)), name


def test_damage_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a-0").mkdir()
    file = tmp_path / "a-0" / writer.segment_name(0)
    batch = bytearray(writer.record_batch([Rec(value=b"12345")]))
    batch[-3] ^= 1
    file.write_bytes(batch + writer.record_batch([Rec(value=b"12")], base_offset=1))

    with pytest.raises(DataError):
        kafkaseg.stats(tmp_path)
    assert run("stats", tmp_path).exit_code == 1
    found = run("stats", tmp_path, "--mode", "DROPMALFORMED", "--json")
    assert found.exit_code == 1 and json.loads(found.stdout)[0]["valueBytes"] == 2
    with pytest.raises(OptionError):
        kafkaseg.stats(tmp_path, view="batches")


def test_the_command() -> None:
    """JSON, and tables at 80 columns."""
    root = LOG_DIRECTORIES["orders"]
    [orders, payments] = answer("stats", root, "--top", 2, "--json")
    text = run("stats", root, "--top", 2, columns=80).stdout

    assert orders["topic"] == "orders" and payments["records"] == sum(row[0] == "payments" for row in expected(root))
    assert len(orders["largestRecords"]) == len(orders["heaviestKeysByBytes"]["keys"]) == 2
    assert max(map(len, text.splitlines())) <= 80
    for part in (f"{orders['records']:,} records", orders["heaviestKeysByRecords"]["keys"][0]["key"], "channel"):
        assert part in text
