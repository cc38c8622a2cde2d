"""A log in a bucket is read as the same log on a disk, by every way to read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import FileChangedError, PathError
from kafka_segment_source.keywords import option_texts
from kafka_segment_source.options import parse_options
from kafka_segment_source.storage.files import InputFile
from kafka_segment_source.storage.store import ReplacedError, Storage
from kafka_segment_source.zones.making import map_segment
from kafka_segment_source.zones.update_plan import plan_updates
from kafka_segment_source.zones.updates import ZoneMapSummary, finish_update, parse_update
from tests.cli.runner import LOGS, run
from tests.support.apart import run_apart
from tests.support.batches import data
from tests.support.buckets import Bucket
from tests.support.logs import simple_log, simple_segment
from tests.support.rows import FIXTURES
from tests.support.writer import segment_name

FORMATS = ["codecs", "compacted", "message-sets", "message-sets-0.10", "records", "times", "transactions"]
SINCE, UNTIL = "2026-03-10T09:30", "2026-03-10T09:35"
BOUNDS: list[dict[str, Any]] = [
    {"since": SINCE, "until": UNTIL},
    {"since": SINCE, "until": UNTIL, "timestampDisorder": "5s"},
    {"since": SINCE, "trustIndexes": False},
    {"startingTimestamp": SINCE, "endingTimestamp": UNTIL},
    {"assign": {"orders": [0]}, "startingOffsets": {"orders": {"0": 500}}},
    {"minPartitions": 30, "isolationLevel": "read_committed"},
    {"includeMetadata": False, "maxRecordsPerPartition": 100, "includeHeaders": True},
]


def storage_of(bucket: Bucket) -> Storage:
    return parse_options(option_texts(bucket.url, {"storage_options": bucket.options}))[0].source.storage


def small_log(folder: Path) -> Path:
    """orders-0: offsets 0 to 39 in four segments."""
    segments = [simple_segment([data(at, 10 * at) for at in range(base, base + 10)]) for base in (0, 10, 20, 30)]
    return simple_log(*segments).write(folder)


def offsets(path: Any, bucket: Bucket, **options: Any) -> list[int]:
    reader = kafkaseg.scan(path, ["offset"], storage_options=bucket.options, **options)
    found: list[int] = reader.read_all()["offset"].to_pylist()
    return found


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_every_format(level: str, name: str, bucket: Bucket) -> None:
    """Rows and columns are those of the disk, under both isolation levels."""
    local = FIXTURES / name / "data"
    url = bucket.put_tree(local, "backup/kafka")
    options: dict[str, Any] = {"isolationLevel": level, "includeHeaders": True}
    expected = kafkaseg.scan(local, **options).read_all()
    assert expected.num_rows
    assert kafkaseg.scan(url, storage_options=bucket.options, **options).read_all() == expected


def test_bounds(bucket: Bucket) -> None:
    """A plan keeps and drops the same segments, and its rows are the same."""
    url = bucket.put_tree(LOGS, "orders")
    for bounds in BOUNDS:
        here, there = kafkaseg.plan(LOGS, **bounds), kafkaseg.plan(url, storage_options=bucket.options, **bounds)
        assert (there.segments_kept, there.bytes_to_read) == (here.segments_kept, here.bytes_to_read), bounds
        assert there.to_reader().read_all() == here.to_reader().read_all(), bounds


def test_spellings_of_paths(bucket: Bucket, tmp_path: Path) -> None:
    """A log directory, a partition, a `.log`, globs, lists of these, other schemes, and a bucket itself."""
    small_log(tmp_path)
    bucket.put_tree(tmp_path, "a b/x=1%20y")
    bucket.put_tree(tmp_path, "a b/other")
    name = bucket.name
    for path in (
        f"s3://{name}/a b/x=1%20y",
        f"s3a://{name}/a b/x=1%20y/",
        f"s3n://{name}//a b/x=1%20y/orders-0",
        f"s3://{name}/a b/x*",
        f"s3://{name}/a b/x=[0-9]*/orders-*",
        f"s3://{name}/*/x*/*/*.log",
        [f"s3://{name}/a b/x=1%20y/orders-0/{segment_name(base)}" for base in (0, 10, 20, 30)],
    ):
        assert offsets(path, bucket) == list(range(40)), path
    assert offsets(f"s3://{name}/a b/x*/orders-0/{segment_name(20)}", bucket) == list(range(20, 30))
    bucket.put_tree(tmp_path, "orders-1")  # a bucket may hold the log directory at its root
    for key in bucket.list_keys():
        if key.startswith("a b/"):
            bucket.delete(key)
    (plan,) = {split.path.rpartition("/")[0] for split in _plan(f"s3://{name}/orders-1", bucket).splits}
    assert plan == f"s3://{name}/orders-1/orders-0"


def _plan(path: Any, bucket: Bucket, **options: Any) -> kafkaseg.ReadPlan:
    return kafkaseg.plan(path, storage_options=bucket.options, **options)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("s3://{}/nothing", "path 's3://{}/nothing' does not exist"),
        ("s3://{}/lo", "path 's3://{}/lo' does not exist"),
        ("s3://{}/no*", "nothing matches the path"),
        ("s3://{}", "holds no log segments"),
        ("s3://not-{}/x", "there is no bucket 'not-{}' at http://127.0.0.1"),
        ("s3://not-{}/x*", "there is no bucket 'not-{}' at http://127.0.0.1"),
    ],
)
def test_what_is_not_there(path: str, said: str, bucket: Bucket) -> None:
    """A prefix without objects does not exist; a bucket that does not exist is another thing."""
    bucket.put("log/readme", b"x")
    with pytest.raises(PathError, match=said.format(bucket.name)):
        _plan(path.format(bucket.name), bucket)


def test_markers_of_directories_are_no_files(bucket: Bucket, tmp_path: Path) -> None:
    """Consoles and Hadoop write an empty object `prefix/` for a directory."""
    small_log(tmp_path)
    url = bucket.put_tree(tmp_path, "logs")
    for prefix in ("logs", "logs/orders-0"):
        bucket.put_marker(prefix)
    assert offsets(url, bucket) == list(range(40))


def test_replicas_on_a_disk_and_in_a_bucket(bucket: Bucket, tmp_path: Path) -> None:
    """Each lacks a segment that the other one has."""
    folder = small_log(tmp_path)
    url = bucket.put_tree(tmp_path, "copy")
    bucket.delete(f"copy/orders-0/{segment_name(10)}")
    (folder / segment_name(20)).unlink()
    for paths in ([str(tmp_path), url], [url, str(tmp_path)]):
        assert offsets(paths, bucket) == list(range(40))


def test_zone_maps_in_a_bucket(bucket: Bucket) -> None:
    """They are made there, used from there, and made again only for what has changed."""
    url = bucket.put_tree(LOGS, "orders")
    maps = f"{bucket.url}/maps/of orders"
    options = {"storage_options": bucket.options, "subscribe": "orders"}
    first = kafkaseg.update_zone_maps_locally(url, maps, **options)
    assert (first.segments_mapped, first.files_written) == (18, 3)
    second = kafkaseg.update_zone_maps_locally(url, maps, **options)
    assert (second.segments_mapped, second.bytes_read, second.files_written) == (0, 0, 0)
    wanted = {"subscribe": "orders", "since": SINCE, "until": UNTIL}
    without, used = _plan(url, bucket, **wanted), _plan(url, bucket, zoneMaps=maps, **wanted)
    assert used.bytes_to_read < without.bytes_to_read and not used.warnings[1:]
    assert used.to_reader().read_all() == without.to_reader().read_all()


def test_key_filters_in_a_bucket(bucket: Bucket) -> None:
    """They are made there, used from there by small reads, made again for what has changed, and removed."""
    url = bucket.put_tree(LOGS, "orders")
    maps = f"{bucket.url}/maps/with keys"
    options = {"storage_options": bucket.options, "subscribe": "orders", "keys": True}
    assert kafkaseg.update_zone_maps_locally(url, maps, **options).segments_mapped == 18
    assert kafkaseg.update_zone_maps_locally(url, maps, **options).segments_mapped == 0
    wanted = {"subscribe": "orders", "key": "customer-0347"}
    without, used = _plan(url, bucket, **wanted), _plan(url, bucket, zoneMaps=maps, **wanted)
    assert used.bytes_to_read < without.bytes_to_read and used.warnings == ()
    assert used.to_reader().read_all().to_pylist() == without.to_reader().read_all().to_pylist() != []
    base = used.splits[0].base_offset
    [gone] = [key for key in bucket.list_keys() if key.endswith(f"orders-2/{segment_name(base)}")]
    bucket.delete(gone)
    kafkaseg.update_zone_maps_locally(url, maps, **options)
    assert len([key for key in bucket.list_keys() if key.endswith(".keys")]) == 17


def test_two_writers_of_one_zone_map(bucket: Bucket, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A map that another process has written meanwhile is left as it is."""
    url, maps = bucket.put_tree(small_log(tmp_path).parent, "logs"), f"{bucket.url}/maps"
    [update] = plan_updates(*parse_update(url, {"storage_options": bucket.options}), maps)
    kafkaseg.update_zone_maps_locally(url, maps, storage_options=bucket.options)
    written = bucket.get("maps/orders-0.parquet")
    summary = ZoneMapSummary()
    finish_update(update, [map_segment(split, 2**28, cell=1) for split in update.splits], summary)
    assert summary.files_written == 0 and bucket.get("maps/orders-0.parquet") == written
    assert "is left as it is" in caplog.text


# --- objects that change ---------------------------------------------------------------------------------------------


def test_an_object_that_was_written_again(bucket: Bucket, tmp_path: Path) -> None:
    """Between planning and reading the last segment grew, and another one was compacted: no row is lost or doubled."""
    folder = small_log(tmp_path)
    url = bucket.put_tree(tmp_path, "logs")
    plan = _plan(url, bucket)
    last = folder / segment_name(30)
    more = simple_segment([data(at, 10 * at) for at in range(30, 50)])
    bucket.put(f"logs/orders-0/{last.name}", more.log)
    fewer = simple_segment([data(at, 10 * at) for at in (10, 13, 19)])
    bucket.put(f"logs/orders-0/{segment_name(10)}", fewer.log)
    found = plan.to_reader(["offset"]).read_all()["offset"].to_pylist()
    assert found == [*range(10), 10, 13, 19, *range(20, 40)]


def test_an_object_that_was_deleted(bucket: Bucket, tmp_path: Path) -> None:
    """Retention between planning and reading is a loss, as on a disk."""
    small_log(tmp_path)
    url = bucket.put_tree(tmp_path, "logs")
    strict, lenient = _plan(url, bucket), _plan(url, bucket, failOnDataLoss=False)
    for base in (0, 10):
        bucket.delete(f"logs/orders-0/{segment_name(base)}")
    with pytest.raises(FileChangedError, match="offsets 0 to 9 of partition orders-0 are gone"):
        strict.to_reader(["offset"]).read_all()
    assert lenient.to_reader(["offset"]).read_all()["offset"].to_pylist() == list(range(20, 40))


def test_reads_at_the_end_of_an_object(bucket: Bucket) -> None:
    """A range over the end is short, one past it is empty, whether the size is known or not."""
    storage = storage_of(bucket)
    bucket.put("some", bytes(range(10)))
    bucket.put("none", b"")
    for version in (None, storage.look_at(f"{bucket.url}/some").version):  # type: ignore[union-attr]
        for position, expected in ((5, bytes(range(5, 10))), (10, b""), (50, b"")):
            with InputFile(f"{bucket.url}/some", storage, version) as file:
                assert file.read_at(position, 20) == expected
    with InputFile(f"{bucket.url}/none", storage) as file:
        assert file.read_all(5) == b"" and file.version().size == 0


def test_one_version_is_read(bucket: Bucket) -> None:
    """An open object stays what it was: another version is an error, and so is one that is gone."""
    storage, path = storage_of(bucket), f"{bucket.url}/some"
    bucket.put("some", b"before" + bytes(200_000))
    with InputFile(path, storage) as file:
        assert file.read_at(0, 3) == b"bef"
        bucket.put("some", b"afterwards")
        with pytest.raises(FileChangedError, match="has changed since it was listed: it is another version now"):
            file.read_at(190_000, 3)
    with InputFile(path, storage) as file:
        assert file.version().size == len(b"afterwards")
        bucket.delete("some")
        with pytest.raises(FileChangedError, match="is gone now"):
            file.read_at(0, 3)
    known = storage.look_at(f"{bucket.url}/some")
    assert known is None
    bucket.put("some", b"x")
    version = storage.look_at(path).version  # type: ignore[union-attr]
    bucket.put("some", b"y")
    with pytest.raises(ReplacedError):
        storage.replace(path, b"z", version)
    assert bucket.get("some") == b"y"


# --- the command line, and processes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["ls", "--json"],
        ["ls", "--segments"],
        ["plan", "--since", SINCE, "--json"],
        ["cat", "-n", "5", "--include-control", "true"],
        ["verify", "--deep", "--json"],
        ["offsets", "--time", SINCE, "--json"],
    ],
    ids=lambda words: words[0],
)
def test_commands(words: list[str], bucket: Bucket) -> None:
    """Each command prints for a bucket what it prints for a disk, but for the path."""
    url = bucket.put_tree(LOGS, "orders")
    command, *flags = words
    here, there = run(command, LOGS, *flags), run(command, url, *flags, *bucket.flags)
    assert (there.exit_code, there.stderr) == (here.exit_code, here.stderr.replace(str(LOGS), url))
    expected = here.stdout.replace(json.dumps(str(LOGS))[1:-1], url)
    if command == "plan":  # a small segment needs no index files, and requests are counted
        expected = expected.replace("(time index)", "(batch headers)")
        expected = expected.replace('"requests": 0,', f'"requests": {json.loads(there.stdout)["requests"]},')
    assert there.stdout == expected


def test_command_for_zone_maps(bucket: Bucket) -> None:
    """Maps of a log in a bucket, in that bucket."""
    url = bucket.put_tree(LOGS / "orders-0", "orders-0")
    done = run("zonemap", url, "--to", f"{bucket.url}/maps", *bucket.flags)
    assert done.exit_code == 0 and "maps/orders-0.parquet" in bucket.list_keys()


def test_a_process_that_is_forked_after_a_read(bucket: Bucket, tmp_path: Path) -> None:
    """The client library waits for ever in such a process, if nothing is done about it."""
    small_log(tmp_path)
    url = bucket.put_tree(tmp_path, "logs")
    assert run_apart(scan_in_child, url, bucket.options, seconds=60) == [list(range(40))] * 3


def scan_in_child(url: str, options: dict[str, str]) -> list[list[int]]:
    """The offsets that a process, its forked child, and that child's child read."""
    import os  # noqa: PLC0415
    import pickle  # noqa: PLC0415
    import traceback  # noqa: PLC0415

    found = kafkaseg.scan(url, ["offset"], storage_options=options).read_all()["offset"].to_pylist()
    if os.environ.get("KAFKASEG_FORKS", "0") == "2":
        return [found]
    os.environ["KAFKASEG_FORKS"] = str(int(os.environ.get("KAFKASEG_FORKS", "0")) + 1)
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writes, pickle.dumps(scan_in_child(url, options)))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return [found, *pickle.loads(answer)]


@pytest.mark.parametrize("view", ["segments", "offsetIndex", "timeIndex", "abortedTransactions"])
def test_views_of_index_files(view: str, bucket: Bucket) -> None:
    """Rows are those of the disk, but for paths and the time of the last change, which a bucket does not have."""
    local = FIXTURES / "transactions" / "data"
    url = bucket.put_tree(local, "backup/kafka")
    options: dict[str, Any] = {} if view == "segments" else {"checkCrcs": True}
    rows = kafkaseg.scan(url, view=view, storage_options=bucket.options, **options).read_all().to_pylist()
    expected = kafkaseg.scan(local, view=view, **options).read_all().to_pylist()
    assert rows
    for row, other in zip(rows, expected, strict=True):
        assert row["file_path"] == other["file_path"].replace(str(local), url)
        ours, theirs = ({**each, "file_path": "", "changed": None} for each in (row, other))
        assert ours == theirs
        assert row.get("changed") is None
