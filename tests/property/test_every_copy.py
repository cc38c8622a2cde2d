"""`every_copy` beside a naive walk over all files: copies, leftovers of the broker, dead directories, and damage."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import OptionError
from tests.support import naive, writer
from tests.support.rows import FIXTURES, LOG_DIRECTORIES
from tests.support.tiers import AIVEN_STORES, LOCAL_TIER
from tests.support.writer import Codec, Rec

CODECS: list[Codec] = ["none", "gzip", "snappy-xerial", "lz4", "zstd"]
SUFFIXES = [".log", ".log.deleted", ".log.cleaned", ".log.swap", ".log.bak"]
DIRECTORIES = ["a/orders-0", "b/orders-0", "a/orders-1", "a/orders-0.0123456789abcdef-delete", "b/x-3.77-stray"]
LIVE = ".log"

keys = st.sampled_from([None, b"", b"k", b"j", b"kk", b"other"])
Place = tuple[str, int, int]  # path, position, offset


@st.composite
def trees(draw: st.DrawFn) -> dict[str, bytes]:
    """Files by their paths: in each directory some segments, in order, and leftovers of any offsets."""
    files: dict[str, bytes] = {}
    for directory in draw(st.sets(st.sampled_from(DIRECTORIES), min_size=1)):
        base = 0
        for suffix in [LIVE, *draw(st.lists(st.sampled_from(SUFFIXES), max_size=4))]:
            data, first = b"", base
            for _ in range(draw(st.integers(1, 2))):
                recs = [
                    Rec(delta, 5, draw(keys), draw(st.sampled_from([None, b"k", b"value"])))
                    for delta in range(draw(st.integers(1, 4)))
                ]
                data += writer.record_batch(recs, base_offset=base, codec=draw(st.sampled_from(CODECS)))
                base += len(recs)
            files[f"{directory}/{first:020d}{suffix}"] = data
    return files


def naive_walk(files: dict[str, bytes], key: bytes) -> list[Place]:
    """Every record of every file that has the key."""
    return [
        (path, record.position, record.offset)
        for path, data in files.items()
        for record in naive.decode_log(data)
        if record.key == key and not record.is_control
    ]


def write(files: dict[str, bytes], root: Path) -> list[Path]:
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return sorted({root / path.split("/")[0] for path in files})


@given(trees(), st.sampled_from([b"k", b"kk", b""]), st.sampled_from([1, 2]))
@settings(max_examples=settings().max_examples * 2)
def test_every_place_is_found(files: dict[str, bytes], key: bytes, threads: int) -> None:
    """All places, and no other; of live files, what supersedes them in their own copy."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        found = kafkaseg.every_copy(write(files, root), key, threads=threads)
        places = list(found)
        wanted = naive_walk(files, key)
        event(f"{min(len(wanted), 3)} places")

        assert sorted(
            (str(Path(each.file).relative_to(root)), each.position, each.offset) for each in places
        ) == sorted(wanted)
        assert found.unsearched == [] and found.files == len(files)
        for each in places:
            home = str(Path(each.file).parent.relative_to(root))
            is_dead = home.endswith(("-delete", "-stray"))
            if is_dead or not each.file.endswith(LIVE):
                assert each.state == "leftover" and each.superseded_by is None and each.keeps
                continue
            newer = [
                offset for path, _, offset in wanted
                if path.startswith(f"{home}/") and path.endswith(LIVE) and offset > each.offset
            ]  # fmt: skip
            assert each.superseded_by == min(newer, default=None)
            assert each.state == ("superseded" if newer else "newest")


@given(trees(), st.data())
@settings(max_examples=settings().max_examples * 2)
def test_damage_is_said(files: dict[str, bytes], data: st.DataObject) -> None:
    """With a byte changed, each place is found as before, or it is said that something could not be searched."""
    wanted = naive_walk(files, b"k")
    path = data.draw(st.sampled_from(sorted(files)))
    at = data.draw(st.integers(0, len(files[path]) - 1))
    damaged = bytearray(files[path])
    damaged[at] ^= data.draw(st.integers(1, 255))
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        found = kafkaseg.every_copy(write({**files, path: bytes(damaged)}, root), b"k")
        places = {(str(Path(each.file).relative_to(root)), each.position) for each in found}

    lost = [place for place in wanted if place[:2] not in places]  # no checksum is over offsets
    assert not lost or any(path in sentence for sentence in found.unsearched)
    assert all(place[0] == path for place in lost)


def test_damage_between_whole_batches_is_said(tmp_path: Path) -> None:
    batches = [writer.record_batch([Rec(0, 5, b"k", b"value")], base_offset=base) for base in range(3)]
    data = bytearray(b"".join(batches))
    data[2 * len(batches[0]) - 1] ^= 1
    path = f"a/orders-0/{0:020d}.log"
    found = kafkaseg.every_copy(write({path: bytes(data)}, tmp_path), b"k")
    assert [each.offset for each in found] == [0, 2]
    [sentence] = found.unsearched
    assert path in sentence


@pytest.mark.parametrize("fixture", ["compacted", "transactions", "live"])
def test_a_broker_s_directories(fixture: str) -> None:
    """In what real brokers left, deleted segments too, every key is found where a naive walk finds it."""
    root = LOG_DIRECTORIES[fixture]
    files = {
        str(path): path.read_bytes()
        for path in root.glob("*/*.log*")
        if not path.parent.name.startswith("__")
    }  # fmt: skip
    records = [record for data in files.values() for record in naive.decode_log(data) if not record.is_control]
    key = next(record.key for record in records if record.key is not None)
    found = kafkaseg.every_copy(root, key)

    places = [(each.file, each.position, each.offset) for each in found if not each.topic.startswith("__")]
    assert sorted(places) == sorted(naive_walk(files, key)) != []


def test_aborted_records_supersede_nothing() -> None:
    """What a consumer that reads committed records gets is newest or superseded. Other records of transactions are
    withheld."""
    root = LOG_DIRECTORIES["transactions"]
    columns = ["topic", "partition", "offset", "key", "metadata"]
    rows = kafkaseg.scan(root, columns, includeMetadata=True).read_all().to_pylist()
    committed = kafkaseg.scan(root, columns[:3], isolationLevel="read_committed").read_all().to_pylist()
    given = {tuple(row.values()) for row in committed}
    withheld = [row for row in rows if row["metadata"]["isTransactional"] and tuple(row.values())[:3] not in given]
    key = withheld[0]["key"]
    states = {
        (each.topic, each.partition, each.offset): each.state for each in kafkaseg.every_copy(root, key)
    }  # fmt: skip

    for row in rows:
        if row["key"] == key:
            state = states[row["topic"], row["partition"], row["offset"]]
            assert (state == "withheld") == (row in withheld)


def test_records_below_the_log_start_are_deleted() -> None:
    """DeleteRecords leaves bytes that no consumer gets."""
    states = {
        each.offset: each.state
        for each in kafkaseg.every_copy(LOG_DIRECTORIES["compacted"], "key-16", assign={"trimmed": [1]})
    }
    assert states[124] == "deleted" and states[160] == "superseded"


def test_torn_and_unknown_files_are_said(tmp_path: Path) -> None:
    """A torn end, with the key's bytes in it, and files that are not a broker's are said. Zeros at the end are not."""
    batch = writer.record_batch([Rec(key=b"secret")])
    write({"a-0/00000000000000000000.log": batch + bytes(99), "a-0/notes.txt": b"secret"}, tmp_path)
    write(
        {"b-0/00000000000000000000.log": batch + writer.record_batch([Rec(key=b"secret")], base_offset=1)[:-2]},
        tmp_path,
    )
    found = kafkaseg.every_copy(tmp_path, "secret")

    assert len(list(found)) == 2
    notes, torn = found.unsearched
    assert "notes.txt" in notes and "b-0" in torn and "the bytes of the key are there" in torn


def test_the_settings_of_a_topic_are_named() -> None:
    """Where the metadata of the cluster is there, what keeps a record is said by the settings of its topic."""
    root = FIXTURES / "groups" / "data"
    rows = kafkaseg.scan(root, ["topic", "key"], subscribe="payments").read_all().to_pylist()
    places = list(kafkaseg.every_copy(root, rows[0]["key"], subscribe="payments"))

    live = [each.keeps for each in places if each.state != "leftover"]
    assert live and all("retention.ms=900000000000" in keeps for keeps in live)
    assert any("file.delete.delay.ms" in each.keeps for each in places)


def test_other_directories_are_said(tmp_path: Path) -> None:
    """A backup inside of a log directory is not searched, and that is said. Tiers are known by their own names."""
    batch = writer.record_batch([Rec(key=b"secret")])
    write({"a-0/00000000000000000000.log": batch, "backup/a-0/00000000000000000000.log": batch}, tmp_path)
    found = kafkaseg.every_copy(tmp_path, "secret")

    assert len(list(found)) == 1
    [other] = found.unsearched
    assert "backup" in other


def test_what_is_beside_a_tier_is_said(tmp_path: Path) -> None:
    """A path is searched for a tier only where it holds no partition. What lies on the way to the tier was not.
    What a glob matches is not searched for one."""
    shutil.copytree(LOCAL_TIER, tmp_path / "all")
    [key, *_] = kafkaseg.scan(LOCAL_TIER / "data", ["key"], subscribe="kept").read_all()["key"].to_pylist()
    found = kafkaseg.every_copy(tmp_path / "all", key)
    assert all(each.kind == "tier" for each in found)
    said = [each for each in found.unsearched if str(tmp_path / "all" / "data") in each]
    assert len(said) == 1 and "is not the directory of a partition, and was not searched" in said[0]
    assert len(found.unsearched) == 1 + len([each for each in LOCAL_TIER.iterdir() if each.is_file()])

    whole = kafkaseg.every_copy([tmp_path / "all" / "data", tmp_path / "all" / "tier"], key)
    assert {each.kind for each in whole} == {"tier", "segment", "active segment"}
    assert whole.unsearched == []
    by_glob = kafkaseg.every_copy(tmp_path / "all" / "[dt]*", key)
    assert "tier" not in {each.kind for each in by_glob}
    assert by_glob.unsearched == [f"'{tmp_path}/all/tier' holds no partition, and was not searched"]
    disks = kafkaseg.every_copy([tmp_path / "all" / "data", FIXTURES / "compacted" / "d*"], key, subscribe="kept")
    assert disks.unsearched == []
    alone = kafkaseg.every_copy(tmp_path / "all" / "tier", key, assign={"kept": [0]})
    assert {each.topic for each in alone} == {"kept"} and alone.unsearched == []


def test_files_and_directories_of_none_are_said(tmp_path: Path) -> None:
    """A file beside the partitions, and a directory inside of one."""
    batch = writer.record_batch([Rec(key=b"secret")])
    path = "a-0/00000000000000000000.log"
    write({path: batch, f"a-0/before/{path}": batch, "a-0.0123456789abcdef-delete/x/y": batch}, tmp_path)
    (tmp_path / "backup.tar").write_bytes(batch)
    (tmp_path / "empty").touch()
    (tmp_path / "replication-offset-checkpoint").write_text("0\n0\n")
    found = kafkaseg.every_copy(tmp_path, "secret")

    assert len(list(found)) == 1
    assert [each.split("'")[1].removeprefix(f"{tmp_path}/") for each in sorted(found.unsearched)] == [
        "a-0.0123456789abcdef-delete/x",
        "a-0/before",
        "backup.tar",
    ]


def test_options() -> None:
    with pytest.raises(OptionError, match="since"):
        kafkaseg.every_copy("/", "key", since=5)


def test_tiers() -> None:
    """Objects of a tier are searched, and named: those that a read takes, and those that it does not."""
    store = AIVEN_STORES["aiven-zstd"]
    columns = ["topic", "partition", "offset", "key"]
    rows = kafkaseg.scan(store, columns).read_all().to_pylist()
    key = rows[0]["key"]
    places = list(kafkaseg.every_copy(store, key))

    assert all(each.kind == "tier" and each.object for each in places)
    assert kafkaseg.every_copy(store, key).unsearched == []
    found = {(each.topic, each.partition, each.offset) for each in places}
    assert {(row["topic"], row["partition"], row["offset"]) for row in rows if row["key"] == key} <= found
