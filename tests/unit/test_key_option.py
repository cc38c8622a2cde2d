"""The option `key`: its texts, its Python values, and what it keeps of typed and untyped keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.compute as pc
import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import OptionError
from kafka_segment_source.keywords import option_texts
from kafka_segment_source.options import ReadOptions, parse_options
from tests.support import writer
from tests.support.schema_logs import SchemaLog, framed
from tests.support.writer import Rec


def parsed(key: object, **more: Any) -> ReadOptions:
    return parse_options(option_texts("/x", {"key": key, **more}))[0]


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("order-1", b"order-1"),
        ("", b""),
        (" a ", b" a "),
        ("0x00fF", b"\0\xff"),
        ("0x", b""),
        ("0X61", b"0X61"),
        ("base64:AP8=", b"\0\xff"),
        ("text:0x00", b"0x00"),
        ("text:[", b"["),
        ("texts:a", b"texts:a"),
        ("ä", "ä".encode()),
        ("null", b"null"),
        (b"\0\xff", b"\0\xff"),
        (b"0x61", b"0x61"),
        (bytearray(b"a"), b"a"),
        (42, b"42"),
    ],
)
def test_one_key(key: object, meant: bytes) -> None:
    """A text, or bytes in one of two forms."""
    assert parsed(key).content.raw_keys == frozenset([meant])
    assert parsed([key]).content.raw_keys == frozenset([meant])


def test_several_keys() -> None:
    """A JSON list, with the forms of single keys inside; a key that is there twice counts once."""
    assert parsed('["a", "0x62", "text:0x63", "a", 7]').content.raw_keys == frozenset([b"a", b"b", b"0x63", b"7"])
    assert parsed(["a", b"\xff", "a"]).content.raw_keys == frozenset([b"a", b"\xff"])
    assert parsed(None).content.raw_keys is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0x0", "expected bytes as 0x00ff"),
        ("0xgg", "is written as text:0xgg"),
        ("0x00 ff", "found a blank"),
        ("base64:?", "expected bytes as"),
        ("[1", "expected a JSON list of keys"),
        ("[order", "a key that begins with [ is written as text:["),
        ("[]", "expected at least one key"),
        ("[null]", "a null key is no key"),
        ("\ud800", "not text in UTF-8"),
    ],
)
def test_what_is_no_key(text: str, said: str) -> None:
    """The message says what was expected."""
    with pytest.raises(OptionError) as caught:
        parsed(text)
    assert said in str(caught.value) and "option 'key'" in str(caught.value)


def test_other_views_do_not_take_it() -> None:
    """A batch has many keys."""
    with pytest.raises(OptionError, match="option 'key' is not for view=batches"):
        parsed("a", view="batches")


def test_typed_keys_are_values_or_bytes() -> None:
    """Text under keyFormat=string is its bytes. Under the others, text is a value; bytes are what is stored."""
    assert parsed("a", keyFormat="string").content.raw_keys == frozenset([b"a"])
    assert (parsed("a", keyFormat="avro").content.raw_keys, parsed("a", keyFormat="avro").content.typed_keys) == (
        None,
        frozenset("a"),
    )
    assert parsed(b"a", keyFormat="avro").content.raw_keys == frozenset([b"a"])
    with pytest.raises(OptionError, match="mixes values and bytes"):
        parsed(["a", b"a"], keyFormat="json")


JSON_KEYS = [b'{"id":1,"at":"a"}', b'{"at":"b","id":1}', b'{"id": 2}', None, b'{"id":null}']


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """One batch of records with JSON keys; key n has offset n."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    recs = [Rec(at, 1000 + at, key, b"v") for at, key in enumerate(JSON_KEYS)]
    (folder / writer.segment_name(0)).write_bytes(writer.record_batch(recs))
    return folder


@pytest.mark.parametrize(
    ("key", "offsets"),
    [
        ('{"id":1}', [0, 1]),
        ({"id": 1}, [0, 1]),
        ('{"id":1,"at":"b"}', [1]),
        ([{"id": 2}, {"at": "a"}], [0, 2]),
        ('{"id":9}', []),
        (JSON_KEYS[1], [1]),
    ],
)
@pytest.mark.parametrize("columns", [["offset"], ["offset", "key"], []])
def test_fields_of_typed_keys(log: Path, key: object, offsets: list[int], columns: list[str]) -> None:
    """The fields that an object names are compared; bytes are compared as they are stored."""
    typed = {"keyFormat": "json", "keySchema": "id BIGINT, at STRING"}
    table = kafkaseg.scan(log, columns, key=key, **typed).read_all()  # type: ignore[arg-type]
    assert table.num_rows == len(offsets)
    if columns:
        assert table["offset"].to_pylist() == offsets


@pytest.mark.parametrize("how", [{}, {"fixed": True}, {"invert": True}, {"values": True}])
def test_a_search_finds_records_with_a_wanted_key_alone(log: Path, how: dict[str, Any]) -> None:
    """Whatever it searches for, and where."""
    pattern = "w" if "invert" in how else "v"
    found = kafkaseg.search(log, pattern, key=[JSON_KEYS[2], JSON_KEYS[0], b"none"], **how)
    assert found.read_all()["offset"].to_pylist() == [0, 2]


@pytest.mark.parametrize("key", ['{"id":1}', JSON_KEYS[1]])
def test_a_search_of_a_field_finds_records_with_a_wanted_key_alone(log: Path, key: str | bytes) -> None:
    found = kafkaseg.search(log, "b", field="key.at", key=key, keyFormat="json", keySchema="id BIGINT, at STRING")
    assert found.read_all()["offset"].to_pylist() == [1]
    found = kafkaseg.search(log, "a", field="key.at", key='{"id":2}', keyFormat="json", keySchema="id INT, at STRING")
    assert found.read_all().num_rows == 0


def test_statistics_are_of_records_with_a_wanted_key_alone(log: Path) -> None:
    """Typed keys are not for statistics."""
    [topic] = kafkaseg.stats(log, key=[JSON_KEYS[2], JSON_KEYS[0]])
    assert topic.sums["records"] == 2
    assert topic.sums["keyBytes"] == len(JSON_KEYS[2] or b"") + len(JSON_KEYS[0] or b"")
    assert topic.sums["nullKeys"] == 0
    assert [topic.sums["records"] for topic in kafkaseg.stats(log, key="none")] == [0]
    with pytest.raises(OptionError, match="statistics take stored keys"):
        kafkaseg.stats(log, key='{"id":1}', keyFormat="json")


@pytest.mark.parametrize(
    ("key", "said"),
    [('{"nr":1}', "there is no field 'nr'"), ("1", "a JSON object"), ('{"id":"x"}', "'x'"), ("{", "expected a key of")],
)
def test_texts_that_are_no_typed_keys(log: Path, key: str, said: str) -> None:
    """They are refused before a file is read."""
    with pytest.raises(OptionError) as caught:
        kafkaseg.scan(log, key=key, keyFormat="json", keySchema="id BIGINT, at STRING")
    assert said in str(caught.value)


@pytest.fixture
def two_forms(tmp_path: Path) -> Path:
    """Avro keys: the text `a` under two schema ids, `b`, and null, each in a segment of its own; with key filters."""
    log = SchemaLog(tmp_path / "logs")
    log.register("orders-key", 3, "string")
    log.register("orders-key", 4, {"type": "string", "doc": "again"}, version=2)
    folder = tmp_path / "logs" / "orders-0"
    folder.mkdir(parents=True, exist_ok=True)
    for offset, key in enumerate([framed(3, b"\2a"), framed(4, b"\2a"), framed(3, b"\2b"), None]):
        batch = writer.record_batch([Rec(0, 1000, key, b"v")], base_offset=offset)
        (folder / writer.segment_name(offset)).write_bytes(batch)
    kafkaseg.update_zone_maps_locally(folder.parent, tmp_path / "maps", keys=True, subscribe="orders")
    return tmp_path


def test_typed_keys_are_compared_after_decoding(two_forms: Path) -> None:
    """The same value is other bytes under another schema id: neither filters nor bytes may leave it out."""
    options: dict[str, Any] = {"subscribe": "orders", "keyFormat": "avro", "zoneMaps": two_forms / "maps"}
    logs = two_forms / "logs"

    def offsets(**more: Any) -> list[int]:
        found: list[int] = kafkaseg.scan(logs, ["offset"], **options, **more).read_all()["offset"].to_pylist()
        return found

    assert offsets(key="a") == [0, 1]
    assert offsets(key=["b", "c"]) == [2]
    assert offsets(key=framed(4, b"\2a")) == [1]
    made = kafkaseg.dataset(logs, **options)
    assert made.to_table(["offset"], pc.field("key") == "a")["offset"].to_pylist() == [0, 1]
    assert made.plan(pc.field("key") == "a").segments_kept == 4
    found = kafkaseg.search(logs, "a", field="key", key=["a"], **options)
    assert found.read_all()["offset"].to_pylist() == [0, 1]
    frame = kafkaseg.scan_polars(logs, **options).filter(pl.col("key") == "a")
    assert frame.select("offset").collect()["offset"].to_list() == [0, 1]


def test_control_records_have_no_typed_key(tmp_path: Path) -> None:
    """The bytes of a marker's key are text too, but its typed key is null. Untyped, the bytes are its key."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    marker = writer.control_batch("commit", offset=1, timestamp=1000, producer_id=1)
    batch = writer.record_batch([Rec(0, 1000, b"\0\0\0\1", b"v")], producer_id=1, producer_epoch=0, transactional=True)
    (folder / writer.segment_name(0)).write_bytes(batch + marker)
    asked: dict[str, Any] = {"key": "0x00000001", "includeControl": True}
    assert kafkaseg.scan(folder, ["offset"], **asked).read_all()["offset"].to_pylist() == [0, 1]
    typed = kafkaseg.scan(folder, ["offset"], **asked, keyFormat="string").read_all()
    assert typed["offset"].to_pylist() == [0]


def test_damage_beside_a_key_is_no_less_damage(tmp_path: Path) -> None:
    """A timestamp that microseconds cannot hold is an error, or costs the batch, whichever record has it."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    recs = [Rec(0, 1000, b"a", b"v"), Rec(1, 2**62, b"b", b"v")]
    (folder / writer.segment_name(0)).write_bytes(writer.record_batch(recs))
    with pytest.raises(kafkaseg.errors.DataError):
        kafkaseg.scan(folder, ["timestamp"], key="a").read_all()
    assert kafkaseg.scan(folder, ["timestamp"], key="a", mode="DROPMALFORMED").read_all().num_rows == 0
    assert kafkaseg.scan(folder, ["offset"], key="a").read_all().num_rows == 1
