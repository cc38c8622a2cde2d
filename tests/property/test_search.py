"""`search` beside a naive search: Python's own `re` over the rows of a scan or of the naive decoder, one at a time.

Patterns, places and selections are drawn, and logs of every codec, in any portions, with and without damage. Keys and
values are of few bytes, so that a pattern often matches across two parts or two records too.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding import records as decode
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.errors import DataError, KafkaSegmentError
from kafka_segment_source.kernels.text_search import find_text
from kafka_segment_source.searching import blocks
from tests.support import naive, writer
from tests.support.chunks import read_in_chunks
from tests.support.rows import COLUMNS, MESSAGE_SETS, Row, decoded, expected, in_scan_order
from tests.support.writer import Codec, Rec

CODECS: list[Codec] = ["none", "gzip", "snappy-raw", "snappy-xerial", "lz4", "zstd"]
HIT_COLUMNS = [*COLUMNS, "place", "name", "start", "length", "text"]
PIECES = [b"a", b"B", b"ab", b"\n", b"1", b"\xff", "é".encode(), "É".encode(), b"\x00"]
PATTERNS = [
    "a",
    "ab",
    "a.b",
    "a*",
    "[ab]1",
    "ba|1a",
    "^a",
    "b$",
    r"\bab",
    r"\Bb|1\B",
    r"^a|ab",
    r"(a|[(1])\b",
    "é",
    "a\n",
    "(ab)+",
    "aab?1",
    "",
    "[^a]",
    ".",
]
TEXTS = [b"a", b"ab", b"aB", b"", b"1\x00", b"\xff", b"a.b", "éa".encode(), b"ab1ab", b"\x02"]
HEADERS = [b"h", b"g"]

parts = st.none() | st.lists(st.sampled_from(PIECES), max_size=5).map(b"".join)
headers = st.lists(st.tuples(st.sampled_from(HEADERS), parts), max_size=2).map(tuple)


@st.composite
def batches(draw: st.DrawFn) -> list[bytes]:
    """Batches of magic 2 with any codec, some of them control batches or of a transaction."""
    out, base = [], 0
    for _ in range(draw(st.integers(1, 5))):
        recs = [
            Rec(delta, 1000 + draw(st.integers(0, 50)), draw(parts), draw(parts), draw(headers))
            for delta in range(draw(st.integers(1, 6)))
        ]
        codec = draw(st.sampled_from(CODECS))
        transactional = draw(st.integers(0, 3)) == 0
        producer = 7 if transactional else -1
        out.append(
            writer.record_batch(
                recs, base_offset=base, codec=codec, transactional=transactional, producer_id=producer,
                producer_epoch=0 if transactional else -1, base_sequence=0 if transactional else -1,
            )
        )  # fmt: skip
        base += len(recs)
        if transactional:
            marker = draw(st.sampled_from(["abort", "commit"]))
            out.append(writer.control_batch(marker, offset=base, timestamp=1020, producer_id=7))
            base += 1
    return out


@st.composite
def queries(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of `search` that say what is looked for and where."""
    is_fixed = draw(st.booleans())
    query: dict[str, Any] = {"pattern": draw(st.sampled_from(TEXTS if is_fixed else PATTERNS))}
    if is_fixed:
        query["fixed"] = True
    elif draw(st.booleans()):
        query["ignore_case"] = True
    places = draw(
        st.sampled_from([{}, {"keys": True}, {"values": True}, {"headers": ["h"]}, {"keys": True, "headers": ["g"]}])
    )
    return query | places | ({"invert": True} if draw(st.integers(0, 4)) == 0 else {})


selections = st.fixed_dictionaries(
    {},
    optional={
        "since": st.integers(1000, 1050),
        "until": st.integers(1000, 1060),
        "isolationLevel": st.sampled_from(["read_committed", "read_uncommitted"]),
        "startingOffsets": st.integers(0, 9).map(lambda offset: {"orders": {"0": offset}}),
        "failOnDataLoss": st.just(False),
    },
)


@contextmanager
def small_portions(rows: int, most_bytes: int, chunk: int, piece: int, found: int) -> Iterator[None]:
    """Makes every buffer on the way as small as asked for."""
    RECORDS.load_maker()  # a task loads it; it must not see the small numbers then
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "MAX_ROWS", rows)
        patch.setattr(decode, "MAX_BYTES", most_bytes)
        patch.setattr(blocks, "_PIECE", piece)
        patch.setattr(blocks, "_MOST_FOUND", found)
        read_in_chunks(patch, chunk)
        yield


def places_of(row: Row, query: dict[str, Any]) -> list[tuple[str, str | None, bytes]]:
    """The places of a row that a query searches, in their order, with their bytes."""
    _, _, _, _, _, key, value, of_row = row
    names = query.get("headers", ())
    is_all = not (query.get("keys") or query.get("values") or names)
    found: list[tuple[str, str | None, bytes | None]] = []
    if is_all or query.get("keys"):
        found.append(("key", None, key))
    if is_all or query.get("values"):
        found.append(("value", None, value))
    found += [("header", name, each) for name, each in of_row or () if is_all or name in names]
    return [(place, name, data) for place, name, data in found if data is not None]


def find_match(data: bytes, query: dict[str, Any]) -> tuple[int, int] | None:
    """Where a query first matches in some bytes, by Python's own search: start and length in bytes."""
    pattern = query["pattern"]
    if query.get("fixed"):
        at = data.find(pattern)
        return None if at < 0 else (at, len(pattern))
    # a byte that is not UTF-8 is no character: `.` does not match it
    text = data.decode("utf-8", "surrogateescape")
    flags = re.IGNORECASE if query.get("ignore_case") else 0
    no_bytes = pattern.replace("[^a]", "[^a\udc80-\udcff]").replace(".", "[^\n\udc80-\udcff]").replace("$", r"\Z")
    found = re.compile(no_bytes, flags | re.ASCII if r"\b" in pattern.lower() else flags).search(text)
    if found is None:
        return None
    begin = len(text[: found.start()].encode("utf-8", "surrogateescape"))
    return begin, len(found[0].encode("utf-8", "surrogateescape"))


def naive_search(rows: list[Row], query: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The matching rows, each with place, name, start, length and text of its first match."""
    hits: list[tuple[Any, ...]] = []
    for row in rows:
        matches = (
            (place, name, *at, data)
            for place, name, data in places_of(row, query)
            if (at := find_match(data, query)) is not None
        )
        first = next(matches, None)
        if query.get("invert"):
            if first is None:
                hits.append((*row, None, None, None, None, row[6]))
        elif first is not None:
            hits.append((*row, *first))
    return hits


def searched(path: Path, query: dict[str, Any], **options: Any) -> list[tuple[Any, ...]]:
    """What `search` answers."""
    table = kafkaseg.search(path, columns=HIT_COLUMNS, **query, **options).read_all()
    found = zip(*(table[name].to_pylist() for name in HIT_COLUMNS[len(COLUMNS) :]), strict=True)
    return [(*row, *hit) for row, hit in zip(in_scan_order(table), found, strict=True)]


@given(
    log=batches(),
    query=queries(),
    chosen=selections,
    portions=st.tuples(st.integers(1, 9), st.integers(1, 300), st.integers(70, 400), st.integers(1, 60), st.integers(1, 4)),
    cut=st.none() | st.integers(0, 5),
    damage=st.none() | st.tuples(st.integers(0, 10_000), st.integers(1, 255)),
    drops=st.booleans(),
    threads=st.sampled_from([1, 1, 3]),
)  # fmt: skip
@settings(max_examples=settings().max_examples * 4)
def test_search_is_a_naive_search_over_a_scan(
    log: list[bytes],
    query: dict[str, Any],
    chosen: dict[str, Any],
    portions: tuple[int, int, int, int, int],
    cut: int | None,
    damage: tuple[int, int] | None,
    drops: bool,
    threads: int,
) -> None:
    """The rows that a naive search finds among those of a scan with the same options, and the same error."""
    chosen = chosen | ({"mode": "DROPMALFORMED"} if drops else {})
    if chosen.get("until", 2000) <= chosen.get("since", 0):
        chosen.pop("until")
    with tempfile.TemporaryDirectory() as directory, small_portions(*portions):
        folder = Path(directory) / "orders-0"
        folder.mkdir()
        at = 0 if cut is None else min(cut, len(log) - 1)
        parts_of_log = [log] if at == 0 else [log[:at], log[at:]]
        for part in parts_of_log:
            data = bytearray(b"".join(part))
            if damage is not None and part is parts_of_log[-1]:
                data[damage[0] % len(data)] ^= damage[1]
            base = int.from_bytes(part[0][:8])
            (folder / writer.segment_name(base)).write_bytes(data)
        try:
            wanted: Any = naive_search(
                in_scan_order(kafkaseg.scan(folder, columns=COLUMNS, **chosen).read_all()), query
            )
        except KafkaSegmentError as error:
            wanted = type(error), str(error)
        event(f"{'error' if isinstance(wanted, tuple) else min(len(wanted), 3)}")
        if damage is None and not isinstance(wanted, tuple) and not chosen:
            assert wanted == naive_search(decoded(naive.decode_log(b"".join(log))), query)
        try:
            found: Any = searched(folder, query, threads=threads, **chosen)
        except KafkaSegmentError as error:
            found = type(error), str(error)
        assert found == wanted


@pytest.mark.parametrize("fixture", MESSAGE_SETS)
@pytest.mark.parametrize(
    "query", [{"pattern": b"1", "fixed": True}, {"pattern": "[0-5]+"}, {"pattern": "^k", "keys": True}]
)
def test_message_sets(fixture: str, query: dict[str, Any]) -> None:
    """Formats before headers are searched as well."""
    directory = MESSAGE_SETS[fixture]

    assert searched(directory, query) == naive_search(expected(directory), query) != []


@given(
    log=batches(),
    query=queries(),
    portions=st.tuples(st.integers(1, 9), st.integers(1, 300), st.integers(70, 400), st.integers(1, 60), st.integers(1, 4)),
    hurt=st.integers(0, 9),
    damage=st.tuples(st.integers(0, 10_000), st.integers(1, 255)),
    drops=st.booleans(),
    checks=st.booleans(),
)  # fmt: skip
def test_records_that_contradict_themselves_hide_no_match(
    log: list[bytes],
    query: dict[str, Any],
    portions: tuple[int, int, int, int, int],
    hurt: int,
    damage: tuple[int, int],
    drops: bool,
    checks: bool,
) -> None:
    """Damaged bytes under a right CRC: a text may be found without an error. Then the rows are all there are, with
    those of each sound batch. Any other search, and one without CRCs, has the error of a scan."""
    broken = bytearray(log[hurt % len(log)])
    broken[61 + damage[0] % (len(broken) - 61)] ^= damage[1]
    parts = [*log]
    parts[hurt % len(log)] = writer.with_right_crc(bytes(broken))
    chosen: dict[str, Any] = {"checkCrcs": checks} | ({"mode": "DROPMALFORMED"} if drops else {})
    may_skip = bool(checks and query.get("fixed") and query["pattern"] and not query.get("invert"))
    with tempfile.TemporaryDirectory() as directory, small_portions(*portions):
        folder = Path(directory) / "orders-0"
        folder.mkdir()
        (folder / writer.segment_name(0)).write_bytes(b"".join(parts))
        try:
            wanted: Any = in_scan_order(kafkaseg.scan(folder, columns=COLUMNS, **chosen).read_all())
            wanted = naive_search(wanted, query)
        except KafkaSegmentError as error:
            wanted = type(error), str(error)
        try:
            found: Any = searched(folder, query, **chosen)
        except KafkaSegmentError as error:
            found = type(error), str(error)
        if may_skip and isinstance(wanted, tuple) and not isinstance(found, tuple):
            sound = kafkaseg.scan(folder, columns=COLUMNS, mode="DROPMALFORMED").read_all()
            wanted = naive_search(in_scan_order(sound), query)
            event("a text without an error")
        assert found == wanted


def test_damage_without_a_match(tmp_path: Path) -> None:
    """A wrong CRC ends a search that it has no part in. Records that contradict themselves under a right CRC end one
    for a pattern, and one for a text that is in their batch."""
    sound = writer.record_batch([Rec(value=b"here")])
    broken = bytearray(writer.record_batch([Rec(value=b"x" * 30)], base_offset=1))
    broken[61] ^= 2  # the length of the record
    for folder, damaged in (("a-0", bytes(broken)), ("b-0", writer.with_right_crc(bytes(broken)))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / writer.segment_name(0)).write_bytes(sound + damaged)

    ends: list[tuple[str, dict[str, Any]]] = [
        ("a-0", {"fixed": True}),
        ("b-0", {}),
        ("b-0", {"fixed": True, "checkCrcs": False}),
    ]
    for folder, options in ends:
        with pytest.raises(DataError):
            kafkaseg.search(tmp_path / folder, "here", **options).read_all()
    with pytest.raises(DataError):
        kafkaseg.search(tmp_path / "b-0", "xx", fixed=True).read_all()
    assert kafkaseg.search(tmp_path / "b-0", "here", fixed=True).read_all().num_rows == 1
    for folder in ("a-0", "b-0"):
        dropped = kafkaseg.search(tmp_path / folder, "here", fixed=True, mode="DROPMALFORMED")
        assert dropped.read_all().num_rows == 1


def test_a_timestamp_that_cannot_be_a_row_is_an_error(tmp_path: Path) -> None:
    """As in a read, even of a record that does not match."""
    (tmp_path / "a-0").mkdir()
    recs = [Rec(value=b"here", timestamp=5), Rec(1, value=b"there", timestamp=2**62)]
    (tmp_path / "a-0" / writer.segment_name(0)).write_bytes(writer.record_batch(recs))

    for pattern in ("^here", "nowhere"):
        with pytest.raises(DataError):
            kafkaseg.search(tmp_path, pattern).read_all()


ROWS = [
    Rec(0, 1, b"ab", b"ab", ((b"g", b"ab"),)),
    Rec(1, 1, b"x", b"abab", ((b"h", b"ab"), (b"g", b"a"))),
    Rec(2, 1, b"x", b"nothing", ((b"g", b"ab"),)),
    Rec(3, 1, b"abc", None, ((b"h", b"a"), (b"h", b"ab"))),
    Rec(4, 1, None, b"ac"),
    Rec(5, 1, b"a", b"b"),
    Rec(6, 1, b"", b"ab"),
]
QUERIES: list[dict[str, Any]] = [
    {"pattern": pattern, "fixed": True} | places
    for pattern in (b"ab", b"abc", b"a", b"b", b"abab", b"nothing", b"bab", b"abb")
    for places in ({}, {"keys": True}, {"headers": ["h"]}, {"values": True, "headers": ["g"]})
]


@pytest.mark.parametrize("most_found", [1, 2, 4096])
@pytest.mark.parametrize("last", range(1, len(ROWS) + 1))
def test_texts_anywhere_in_a_block(most_found: int, last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts at the beginning and the end of a block, more of them than there is room for, and only in some places."""
    monkeypatch.setattr(blocks, "_MOST_FOUND", most_found)
    data = writer.record_batch(ROWS[:last])
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / writer.segment_name(0)).write_bytes(data)
    rows = decoded(naive.decode_log(data))

    for query in QUERIES:
        assert searched(tmp_path, query) == naive_search(rows, query), query


@pytest.mark.parametrize("size", [*range(118, 134), *range(246, 260)])
def test_a_text_at_the_end_of_a_block(size: int, tmp_path: Path) -> None:
    """The kernel looks at 128 positions together, and at the last ones one by one."""
    (tmp_path / "orders-0").mkdir()
    data = writer.record_batch([Rec(0, 1, b"", b"." * size + b"ab")])
    (tmp_path / "orders-0" / writer.segment_name(0)).write_bytes(data)

    assert len(searched(tmp_path, {"pattern": b"ab", "fixed": True})) == 1


def test_copies_mend_each_other(tmp_path: Path) -> None:
    """A record that is damaged in one copy is found in the other, and once."""
    good = [writer.record_batch([Rec(value=b"needle %d" % number)], base_offset=number) for number in range(4)]
    for name, damaged in (("a", 1), ("b", 3)):
        folder = tmp_path / name / "orders-0"
        folder.mkdir(parents=True)
        data = [bytes([*batch[:-1], batch[-1] ^ 1]) if at == damaged else batch for at, batch in enumerate(good)]
        (folder / writer.segment_name(0)).write_bytes(b"".join(data))
    paths = [tmp_path / "a", tmp_path / "b"]

    assert kafkaseg.search(paths, "needle", fixed=True).read_all()["offset"].to_pylist() == [0, 1, 2, 3]
    assert kafkaseg.stats(paths)[0].sums["records"] == 4
    found = kafkaseg.every_copy(paths, b"needle")
    assert list(found) == [] and len(found.unsearched) == 2


@pytest.mark.parametrize("most_found", [1, 2, 5, 4096])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_texts_in_some_batches(most_found: int, codec: Codec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches with a text and without, more texts than there is room for."""
    monkeypatch.setattr(blocks, "_MOST_FOUND", most_found)
    values = [b"x", b"ab", b"abab", b"x", b"x", b"ab", b"x", b"ab"]
    data = b"".join(
        writer.record_batch([Rec(0, 1, None, value)], base_offset=n, codec=codec) for n, value in enumerate(values)
    )
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / writer.segment_name(0)).write_bytes(data)
    query = {"pattern": b"ab", "fixed": True}

    found = searched(tmp_path, query)

    assert found == naive_search(decoded(naive.decode_log(data)), query)
    assert len(found) == 4


@given(
    text=st.binary(min_size=1, max_size=4),
    at=st.lists(st.integers(0, 3) | st.integers(124, 132) | st.integers(252, 260), max_size=3),
    after=st.integers(0, 130),
    start=st.integers(0, 2),
    choices=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    most=st.sampled_from([1, 500]),
)
def test_places_of_a_text(
    text: bytes, at: list[int], after: int, start: int, choices: tuple[int, int], most: int
) -> None:
    """Beside `bytes.find`, at both ends of the blocks that are looked at together and of the bytes."""
    data = bytearray(max(at, default=0) + len(text) + after)
    for place in at:
        data[place : place + len(text)] = text
    end = len(data)
    data += text  # behind the end: it is none of them
    one, other = (choice % len(text) for choice in choices)
    places = np.zeros(most, np.int64)
    source, wanted = (np.frombuffer(some, np.uint8) for some in (data, bytearray(text)))
    count = find_text(source, start, end, wanted, one, other, places)
    expected_places = [place for place in range(start, end - len(text) + 1) if data[place : place + len(text)] == text]
    assert places[:count].tolist() == expected_places[:most]
