"""rebuild of what real brokers wrote: the same bytes again; and requests that are refused.

The fixtures' brokers had `index.interval.bytes=512`. Brokers of 4.1 look at each batch by itself, as a rebuild does. So
with that interval its index files are theirs, byte for byte.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_segment_source import kafka_format, rebuild, scan, verify
from kafka_segment_source.cli import cli
from kafka_segment_source.errors import CorruptRecordError, OptionError, PathError, UnsupportedError
from kafka_segment_source.logdir.checkpoints import parse_checkpoint
from kafka_segment_source.rebuilding import indexes
from tests.support import writer
from tests.support.jars import KAFKA_4
from tests.support.writer import Rec

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests/fixtures"
OF_4_1 = ("codecs", "records", "transactions", "compacted", "live")
ALL = (*OF_4_1, "groups", "message-sets", "message-sets-0.10")


def directories(*names: str) -> list[Path]:
    found = {path.parent for name in names for path in (FIXTURES / name / "data").rglob("*.log")}
    return sorted(path for path in found if not path.name.startswith("__cluster_metadata"))


def files_of(folder: Path, suffix: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob(f"*{suffix}")}


def without_padding(data: bytes, entry: int) -> bytes:
    return data[: -(-len(data.rstrip(b"\0")) // entry) * entry]


def in_order(snapshot: bytes) -> list[bytes]:
    """The entries of a `.snapshot`. A broker writes them in the order of a hash map."""
    body, size = snapshot[kafka_format.SNAPSHOT_HEADER.size :], kafka_format.SNAPSHOT_ENTRY.size
    return sorted(body[at : at + size] for at in range(0, len(body), size))


@pytest.mark.parametrize("name", OF_4_1)
def test_an_undamaged_log_comes_out_as_the_broker_wrote_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "INTERVAL", 512)
    for number, source in enumerate(directories(name)):
        if source.name.startswith("trimmed"):
            continue  # deleted records are not copied
        report = rebuild(source, tmp_path / str(number))
        new = Path(report.partitions[0].directory)
        strips = "prealloc" in source.name  # the active segment's file ends in zeros
        found, logs = (
            {p: without_padding(d, 1) if strips else d for p, d in files_of(each, ".log").items()}
            for each in (new, source)
        )
        assert found == logs, source
        for suffix, entry in ((".index", 8), (".timeindex", 12)):
            wanted = {path: without_padding(data, entry) for path, data in files_of(source, suffix).items()}
            assert files_of(new, suffix) == wanted, source
        if source.name != "compacted-transactions-0":  # the cleaner keeps entries whose records it took
            assert files_of(new, ".txnindex") == {
                path: data for path, data in files_of(source, ".txnindex").items() if data
            }
        [(snapshot, data)] = files_of(new, ".snapshot").items()
        if (source / snapshot).exists():
            assert in_order(data) == in_order((source / snapshot).read_bytes()), source
        for each in (kafka_format.PARTITION_METADATA, kafka_format.LEADER_EPOCH_CHECKPOINT):
            assert (new / each).read_bytes() == (source / each).read_bytes(), source


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All fixtures, rebuilt one after another, each into a folder of its own."""
    folder = tmp_path_factory.mktemp("rebuilt")
    for name in ALL:
        rebuild(FIXTURES / name / "data", folder / name, internal=True)
    return folder


@pytest.mark.parametrize("name", ALL)
def test_rebuilt_fixtures_have_their_rows(name: str, rebuilt: Path) -> None:
    """In both isolation levels, and nothing is wrong with them."""
    for level in ("read_uncommitted", "read_committed"):
        columns = ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
        options: dict[str, Any] = {"isolationLevel": level, "includeHeaders": True}
        assert (
            scan(rebuilt / name, columns, **options).read_all()
            == scan(FIXTURES / name / "data", columns, **options).read_all()
        )
    assert verify(rebuilt / name, deep=True).is_ok


def test_a_tier_and_a_disk_become_one_log(tmp_path: Path) -> None:
    paths = [FIXTURES / "tiered/local-tier/data", FIXTURES / "tiered/local-tier/tier"]
    rebuild(paths, tmp_path / "new")
    for level in ("read_uncommitted", "read_committed"):
        columns = ["topic", "partition", "offset", "timestamp", "key", "value"]
        found = scan(tmp_path / "new", columns, isolationLevel=level).read_all()
        assert found == scan(paths, columns, isolationLevel=level).read_all()
    assert verify(tmp_path / "new", deep=True).is_ok


@pytest.mark.skipif(not KAFKA_4.is_there, reason="needs Kafka's jars")
def test_kafka_s_own_index_checks_find_nothing(rebuilt: Path) -> None:
    """DumpLogSegments tells a wrong index by a sentence, and says nothing of a right one but its name."""
    for flag, suffixes in (
        ("--index-sanity-check", (".index", ".timeindex")),
        ("--verify-index-only", (".index", ".timeindex")),
    ):
        paths = [
            str(path) for suffix in suffixes for path in sorted(rebuilt.rglob(f"*{suffix}")) if path.stat().st_size
        ]
        command = ["java", "-cp", KAFKA_4.classpath(), "kafka.tools.DumpLogSegments", flag, "--files", ",".join(paths)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        said = [
            line
            for line in done.stdout.splitlines()
            if not line.startswith("Dumping ") and "passed sanity check" not in line
        ]
        assert len(paths) > 100
        assert not said, said[:5]


# ---- requests ----

ORDERS = ROOT / "examples/data/orders/data"


@pytest.mark.parametrize(
    ("to", "sentence"),
    [
        ("source/orders-0/new", "is inside"),
        ("source/new", "is inside"),
        (".", "is inside the target"),
        ("source", "is inside"),
        ("full", "holds 'file', expected an empty directory"),
        ("full/file", "is a file, expected a directory"),
    ],
)
def test_a_wrong_target_is_refused(to: str, sentence: str, tmp_path: Path) -> None:
    shutil.copytree(ORDERS, tmp_path / "source")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PathError, match=sentence):
        rebuild(tmp_path / "source", tmp_path / to)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_topic_s_name_leads_nowhere_else(tmp_path: Path) -> None:
    with pytest.raises(PathError, match="Kafka has no such topic"):
        rebuild(ORDERS / "orders-0", tmp_path / "a/new", topic="../../out", partition=0)
    assert not list(tmp_path.rglob("*out*"))


def test_a_bucket_is_no_target() -> None:
    with pytest.raises(UnsupportedError, match="on a local disk"):
        rebuild(ORDERS, "s3://bucket/new")


@pytest.mark.parametrize(
    "options",
    [{"segment_bytes": 0}, {"segment_bytes": "much"}, {"segment_bytes": "2g"}, {"threads": 0}, {"view": "batches"}],
)
def test_wrong_options_are_refused(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(OptionError):
        rebuild(ORDERS, tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


def test_a_selection_takes_whole_batches(tmp_path: Path) -> None:
    """Each batch that holds a selected row, and no other one."""
    options: dict[str, Any] = {"subscribe": "orders", "startingOffsets": {"orders": {"0": 100, "1": 0, "2": 0}}}
    options |= {"endingOffsets": {"orders": {"0": 300, "1": 10, "2": 10}}}
    rebuild(ORDERS, tmp_path / "new", **options)
    all_batches = (
        scan(ORDERS, ["partition", "baseOffset", "lastOffset"], view="batches", subscribe="orders")
        .read_all()
        .to_pylist()
    )
    ranges = {0: (100, 300), 1: (0, 10), 2: (0, 10)}
    wanted = [
        each
        for each in all_batches
        if each["lastOffset"] >= ranges[each["partition"]][0] and each["baseOffset"] < ranges[each["partition"]][1]
    ]
    found = scan(tmp_path / "new", ["partition", "baseOffset", "lastOffset"], view="batches").read_all().to_pylist()
    assert found == wanted
    assert verify(tmp_path / "new").is_ok


def test_a_time_range_takes_whole_batches(tmp_path: Path) -> None:
    times = {"since": "2026-03-10T09:30", "until": "2026-03-10T09:35"}
    report = rebuild(ORDERS, tmp_path / "new", subscribe="orders", **times)
    columns = ["partition", "offset", "key"]
    assert (
        scan(tmp_path / "new", columns, **times).read_all()
        == scan(ORDERS, columns, subscribe="orders", **times).read_all()
    )
    assert not report.left_out
    assert scan(tmp_path / "new", columns).read_all().num_rows == report.records < 1000


def test_internal_topics_come_when_asked_for(tmp_path: Path) -> None:
    groups = FIXTURES / "groups/data"
    topics = {
        name: {each.topic for each in rebuild(groups, tmp_path / name, **options).partitions}
        for name, options in {
            "none": {},
            "internal": {"internal": True},
            "some": {"internal": True, "subscribe": "orders"},
            "named": {"subscribe": "__consumer_offsets"},
        }.items()
    }
    assert not any(topic.startswith("__") for topic in topics["none"])
    assert topics["internal"] == topics["none"] | {"__consumer_offsets", "__transaction_state"}
    assert topics["some"] == {"orders", "__consumer_offsets", "__transaction_state"}
    assert topics["named"] == {"__consumer_offsets"}


def test_checkpoints_of_the_log_directory(tmp_path: Path) -> None:
    """The end of each log is its recovery point and its high watermark; a log that begins inside a batch says so."""
    source = FIXTURES / "compacted/data"
    report = rebuild(source, tmp_path / "new")
    ends = {(part.topic, part.partition): part.end_offset for part in report.partitions}
    for name in (kafka_format.RECOVERY_POINT_CHECKPOINT, kafka_format.HIGH_WATERMARK_CHECKPOINT):
        assert parse_checkpoint((tmp_path / "new" / name).read_bytes()) == ends
    starts = parse_checkpoint((tmp_path / "new" / kafka_format.LOG_START_CHECKPOINT).read_bytes())
    assert starts == {
        key: offset
        for key, offset in parse_checkpoint((source / kafka_format.LOG_START_CHECKPOINT).read_bytes()).items()
        if key in starts
    }
    assert ("trimmed", 0) in starts
    cleaned = parse_checkpoint((tmp_path / "new" / kafka_format.CLEANER_CHECKPOINT).read_bytes())
    assert {topic for topic, _ in cleaned} == {"compacted", "compacted-zstd", "compacted-transactions"}


def test_damage_ends_a_strict_rebuild_and_is_said_by_another(tmp_path: Path) -> None:
    shutil.copytree(ORDERS / "orders-0", tmp_path / "source/orders-0")
    path = sorted((tmp_path / "source/orders-0").glob("*.log"))[0]
    data = bytearray(path.read_bytes())
    data[3000] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptRecordError):
        rebuild(tmp_path / "source", tmp_path / "new")
    assert [each.name for each in (tmp_path / "new").iterdir()] == [".rebuild"]
    report = rebuild(tmp_path / "source", tmp_path / "new", mode="DROPMALFORMED")  # no segment was whole
    kinds = [each.kind for _, each in report.left_out]
    assert kinds == ["damage", "missing offsets"]
    said = json.loads((tmp_path / "new/rebuild.json").read_text())
    assert said == report.to_dict()
    gone = report.left_out[1][1]
    offsets = scan(tmp_path / "new", ["offset"]).read_all()["offset"].to_pylist()
    assert not {gone.first_offset, gone.last_offset} & set(offsets)
    assert {gone.first_offset - 1, gone.last_offset + 1} & set(offsets)


def test_a_torn_end_is_said(tmp_path: Path) -> None:
    shutil.copytree(ORDERS / "orders-0", tmp_path / "source/orders-0")
    path = sorted((tmp_path / "source/orders-0").glob("*.log"))[-1]
    with path.open("ab") as file:
        file.write(path.read_bytes()[:100])
    [(name, torn)] = rebuild(tmp_path / "source", tmp_path / "new").left_out
    assert (name, torn.kind, torn.bytes, torn.first_offset) == ("orders-0", "torn end", 100, 1164)
    assert verify(tmp_path / "new").is_ok


def test_the_last_batch_before_an_empty_segment_is_lost(tmp_path: Path) -> None:
    """The empty segment gets the name of the next offset, as readers take a gap before its name for a loss."""
    first = writer.record_batch([Rec(at, value=b"a") for at in range(4)])
    lost = writer.record_batch([Rec(at, value=b"b") for at in range(3)], base_offset=4)
    folder = tmp_path / "source/t-0"
    folder.mkdir(parents=True)
    (folder / writer.segment_name(0)).write_bytes(first + lost[:-1] + b"!")
    (folder / writer.segment_name(7)).write_bytes(b"")
    report = rebuild(tmp_path / "source", tmp_path / "new", mode="DROPMALFORMED", failOnDataLoss=False)
    assert [(each.kind, each.first_offset) for _, each in report.left_out] == [("damage", 4), ("missing offsets", 4)]
    assert sorted(path.name for path in (tmp_path / "new/t-0").glob("*.log")) == [*map(writer.segment_name, (0, 4))]
    assert scan(tmp_path / "new", ["offset"]).read_all()["offset"].to_pylist() == [0, 1, 2, 3]
    assert verify(tmp_path / "new").is_ok


# ---- the command ----


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    run = CliRunner().invoke(cli, ["rebuild", str(ORDERS), "--to", str(tmp_path / "new"), "--subscribe", "orders"])
    assert run.exit_code == 0, run.output
    assert (
        run.output == f"{tmp_path / 'new'}: 3 partitions, 4,000 records, 233 batches, 176.8 kB\nnothing is left out\n"
    )
    run = CliRunner().invoke(cli, ["rebuild", str(ORDERS), "--to", str(tmp_path / "new")])
    assert run.exit_code == 2
    assert "holds a finished rebuild" in run.output
    run = CliRunner().invoke(
        cli, ["rebuild", str(ORDERS), "--to", str(tmp_path / "json"), "--json", "--segment-bytes", "20k"]
    )
    assert json.loads(run.output)["partitions"][0]["endOffset"] == 1164


@pytest.mark.parametrize("size", [None, "1g"])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_gap_that_no_relative_offset_reaches_over(compacted: bool, size: str | None, tmp_path: Path) -> None:
    far = 3_000_000_000
    folder = tmp_path / "A/t-0"
    folder.mkdir(parents=True)
    for base in (0, far):
        data = writer.record_batch([writer.Rec(0, 1000, b"k", b"v")], base_offset=base)
        (folder / writer.segment_name(base)).write_bytes(data)
    if compacted:
        (tmp_path / "A/cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {far}\n")
    report = rebuild(tmp_path / "A", tmp_path / "new", segment_bytes=size, failOnDataLoss=compacted)
    new = Path(report.partitions[0].directory)
    assert sorted(files_of(new, ".log")) == [writer.segment_name(0), writer.segment_name(far)]
    problems = [each for each in verify(tmp_path / "new").problems if not each.is_loss]
    assert problems == [] and (
        compacted or ("missing offsets", 1) in [(e.kind, e.first_offset) for _, e in report.left_out]
    )


def test_segments_are_rolled_where_relative_offsets_end(tmp_path: Path) -> None:
    """An index entry has 4 bytes for an offset, so large segments of a compacted log are not joined beyond that."""
    (tmp_path / "logs/t-0").mkdir(parents=True)
    (tmp_path / "logs/cleaner-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    for base in (0, 2**31 - 1, 2**31):
        batch = writer.control_batch(
            "commit", offset=base, timestamp=5, producer_id=1, producer_epoch=0, leader_epoch=0
        )
        (tmp_path / "logs/t-0" / writer.segment_name(base)).write_bytes(batch)
    rebuild(tmp_path / "logs", tmp_path / "new", segment_bytes="1m")
    names = sorted(path.name for path in (tmp_path / "new/t-0").glob("*.log"))
    assert names == [writer.segment_name(0), writer.segment_name(2**31)]
