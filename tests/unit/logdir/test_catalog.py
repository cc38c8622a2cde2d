"""catalog: which directories and files are segments, whose they are, and what is said where there are none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import KafkaSegmentError, OptionError, PathError, UnsupportedError
from kafka_segment_source.keywords import option_texts
from kafka_segment_source.logdir.catalog import list_logs
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.options import parse_options
from tests.support import batches, writer
from tests.support.logs import simple_log, simple_segment
from tests.support.writer import Rec

ARABIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")
SUFFIXES = (".log", ".index", ".timeindex")


def segment(directory: Path, base: int = 0, suffixes: tuple[str, ...] = SUFFIXES) -> Path:
    """A segment of one record in a directory that is made if need be; its `.log`."""
    directory.mkdir(parents=True, exist_ok=True)
    for suffix in suffixes:
        (directory / writer.segment_name(base, suffix)).write_bytes(b"")
    log = directory / writer.segment_name(base)
    log.write_bytes(writer.record_batch([Rec(0, 5, b"k", directory.name.encode())], base_offset=base))
    return log


def logs_of(path: Any, **options: Any) -> list[PartitionLog]:
    return list_logs(parse_options(option_texts(path, options))[0].source)


def partitions(path: Any, **options: Any) -> list[tuple[str, int]]:
    return [log.topic_partition for log in logs_of(path, **options)]


def error_of(path: Any, **options: Any) -> str:
    with pytest.raises(KafkaSegmentError) as caught:
        logs_of(path, **options)
    assert type(caught.value) in (PathError, OptionError, UnsupportedError)
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A broker's log directory: data, dead directories and everything else that lies in one."""
    data = tmp_path / "data"
    for name in ("orders-0", "orders-1", "orders-10", "payments-0", "__consumer_offsets-3", "_private-0"):
        segment(data / name)
    segment(data / "orders-1", 7)
    for name in ("gone-0.0123456789abcdef0123456789abcdef-delete", "orders-2.0123-future", "lost-0.ab-stray"):
        segment(data / name)
    (data / "lost+found").mkdir()
    (data / "remote-log-index-cache").mkdir()
    for name in ("recovery-point-offset-checkpoint", "meta.properties", ".lock", "orders-7"):
        (data / name).write_text("0\n0\n")
    return data


# --- a partition's files ---------------------------------------------------------------------------------------------


def test_segments_of_a_partition(tmp_path: Path) -> None:
    """Segments come by base offset, each with its size, its index files' sizes or None, and the next one's base."""
    folder = tmp_path / "orders-3"
    segment(folder, 20, (".index",))
    first, last = segment(folder, 3), segment(folder, 10**15)
    (folder / writer.segment_name(3, ".index")).write_bytes(bytes(16))
    (log,) = logs_of(folder)

    assert (log.topic, log.partition, log.directory) == ("orders", 3, str(folder))
    assert [s.base_offset for s in log.segments] == [3, 20, 10**15]
    assert [s.next_base_offset for s in log.segments] == [20, 10**15, None]
    assert [s.is_last for s in log.segments] == [False, False, True]
    assert [s.path for s in log.segments][::2] == [str(first), str(last)]
    assert [(s.index_size, s.time_index_size) for s in log.segments] == [(16, 0), (0, None), (0, 0)]
    assert log.segments[0].size == first.stat().st_size
    assert log.segments[0].index_path == str(folder / writer.segment_name(3, ".index"))
    assert log.segments[0].time_index_path == str(folder / writer.segment_name(3, ".timeindex"))


NOT_SEGMENTS = [
    "00000000000000000007.log.deleted",
    "00000000000000000007.log.cleaned",
    "00000000000000000007.log.swap",
    "00000000000000000007.index",
    "00000000000000000007.txnindex",
    "00000000000000000007.snapshot",
    "00000000000000000007-0000000001.checkpoint",
    "7.log",
    "000000000000000000007.log",
    "0000000000000000000x.log",
    "-0000000000000000007.log",
    "99999999999999999999.log",
    "leader-epoch-checkpoint",
    "partition.metadata",
    ".log",
    "00000000000000000007.LOG",
]


@pytest.mark.parametrize("name", NOT_SEGMENTS)
def test_what_is_no_segment(name: str, tmp_path: Path) -> None:
    """Dead, unfinished and foreign files beside a segment are not data."""
    segment(tmp_path / "orders-0")
    (tmp_path / "orders-0" / name).write_bytes(b"x")
    assert [s.base_offset for s in logs_of(tmp_path / "orders-0")[0].segments] == [0]


def test_a_directory_named_like_a_segment(tmp_path: Path) -> None:
    """A directory with a segment's name is no segment, and is not passed over: its records are missing."""
    segment(tmp_path / "orders-0")
    (tmp_path / "orders-0" / writer.segment_name(9)).mkdir()
    with pytest.raises(PathError, match=r"9.log' is named like a segment, but is a directory: its records are missing"):
        logs_of(tmp_path / "orders-0")


@pytest.mark.parametrize("link", ["orders-0/00000000000000000001.log", "orders-3"])
def test_a_link_to_nothing(link: str, tmp_path: Path) -> None:
    """A segment or a partition behind a broken link is missing: never passed over in silence."""
    segment(tmp_path / "orders-0")
    (tmp_path / link).symlink_to("/no/such")

    assert error_of(tmp_path) == (
        f"PathError: {str(tmp_path / link)!r} is a link to '/no/such', which is not there: its records are missing"
    )


def test_links_that_hold_no_records(tmp_path: Path) -> None:
    """Any other broken link is none of our business, and links to data are followed."""
    segment(tmp_path / "elsewhere" / "orders-0")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "orders-0").symlink_to(tmp_path / "elsewhere" / "orders-0")
    (tmp_path / "data" / "orders-0" / "leader-epoch-checkpoint").symlink_to("/no/such")
    (tmp_path / "data" / "backup").symlink_to("/no/such")

    assert partitions(tmp_path / "data") == [("orders", 0)]


def test_digits_of_another_locale(tmp_path: Path) -> None:
    """A JVM with Arabic digits names its files with them: they are numbers all the same, index files included."""
    folder = tmp_path / "orders-0"
    for path in (segment(folder, 12), *(folder / writer.segment_name(12, s) for s in SUFFIXES[1:])):
        path.rename(path.with_name(path.name.translate(ARABIC)))
    (log,) = logs_of(folder)
    assert [(s.base_offset, s.index_size, s.time_index_size) for s in log.segments] == [(12, 0, 0)]
    assert kafkaseg.scan(folder).read_all()["offset"].to_pylist() == [12]


# --- directories -----------------------------------------------------------------------------------------------------


def test_a_log_directory(data: Path) -> None:
    """Of a log directory every live partition is found, by topic and number, internal topics and dead ones left out."""
    assert partitions(data) == [("_private", 0), ("orders", 0), ("orders", 1), ("orders", 10), ("payments", 0)]
    assert [len(log.segments) for log in logs_of(data)] == [1, 1, 2, 1, 1]


NAMES = {
    "x-delete-0": ("x-delete", 0),
    "x.y-delete-4": ("x.y-delete", 4),
    "a-0.b-stray-1": ("a-0.b-stray", 1),
    "_underscore-0": ("_underscore", 0),
    "dotted.name_with.both-12": ("dotted.name_with.both", 12),
    "sensor-12-0": ("sensor-12", 0),
    "UPPER.lower-0_1-0": ("UPPER.lower-0_1", 0),
    "-5-0": ("-5", 0),
    "t-007": ("t", 7),
}


@pytest.mark.parametrize("name", NAMES)
def test_topic_names_that_look_like_other_things(name: str, tmp_path: Path) -> None:
    """A directory's name is split at its last dash; topics may look like dead directories, hidden files
    or partitions."""
    segment(tmp_path / name)
    segment(tmp_path / "z-0")
    assert partitions(tmp_path) == sorted([NAMES[name], ("z", 0)])
    assert partitions(tmp_path / name) == [NAMES[name]]


@pytest.mark.parametrize(
    "name", ["orders", "orders-", "orders-x", "-0", "or ders-0", "t-0.abc-delete", "t-0.abc-future", "t-0.abc-stray"]
)
def test_directories_that_are_no_partitions(name: str, tmp_path: Path) -> None:
    """Other directories with segments in them, dead ones above all, are left out of a log directory and of globs."""
    segment(tmp_path / name)
    segment(tmp_path / "z-0")
    assert partitions(tmp_path) == [("z", 0)]
    if name.startswith("t-0"):
        assert partitions(tmp_path / "*") == [("z", 0)]


def test_a_dead_directory_by_name(tmp_path: Path) -> None:
    """A dead directory is read if the path is that directory and the options say whose it was: data recovery."""
    dead = tmp_path / "gone-0.0123-delete"
    segment(dead)
    assert error_of(dead).startswith(f"PathError: directory '{dead}' does not say which topic and partition it holds")
    assert partitions(dead, topic="gone", partition=0) == [("gone", 0)]


def test_internal_topics_only_when_named(data: Path) -> None:
    """Kafka's own topics come only by name: in subscribe, in assign, or as the path itself; a pattern
    does not name them."""
    offsets = ("__consumer_offsets", 3)
    assert offsets not in partitions(data)
    assert offsets not in partitions(data, subscribePattern=".*")
    assert partitions(data, subscribe="__consumer_offsets") == [offsets]
    assert partitions(data, assign={"__consumer_offsets": [3]}) == [offsets]
    assert partitions(data / "__consumer_offsets-3") == [offsets]
    assert partitions(next((data / "__consumer_offsets-3").glob("*.log"))) == [offsets]


def test_a_glob_of_everything_names_nothing(data: Path) -> None:
    """A glob of a log directory finds what the directory itself gives: no internal topic, unless the glob spells it."""
    assert partitions(data / "*") == partitions(data)
    assert partitions(data / "*-3", subscribe="__consumer_offsets") == [("__consumer_offsets", 3)]
    assert partitions(data / "__consumer*") == [("__consumer_offsets", 3)]


# --- forms of a path -------------------------------------------------------------------------------------------------


def test_one_log_file(data: Path) -> None:
    """One .log file is that segment alone, and it still knows where the next one begins."""
    (log,) = logs_of(data / "orders-1" / writer.segment_name(0))
    assert log.topic_partition == ("orders", 1)
    assert [(s.base_offset, s.next_base_offset) for s in log.segments] == [(0, 7)]


def test_globs(data: Path) -> None:
    """Globs may match partitions, log directories or .log files; what else they match is passed over."""
    assert partitions(data / "orders-*") == [("orders", 0), ("orders", 1), ("orders", 10)]
    assert partitions(data / "orders-?") == [("orders", 0), ("orders", 1)]
    assert partitions(data / "[op]*-0") == [("orders", 0), ("payments", 0)]
    assert partitions(data.parent / "d*") == partitions(data)
    assert [s.base_offset for s in logs_of(data / "orders-1" / "*.log")[0].segments] == [0, 7]
    assert [s.base_offset for s in logs_of(data / "orders-1" / "*7.log")[0].segments] == [7]
    assert partitions(data / "orders-*" / "*") == [("orders", 0), ("orders", 1), ("orders", 10)]


def test_a_name_with_glob_characters(tmp_path: Path) -> None:
    """A path that exists is that path, whatever characters it has."""
    segment(tmp_path / "back[up]*" / "orders-0")
    assert partitions(tmp_path / "back[up]*") == [("orders", 0)]


def test_several_paths(data: Path, tmp_path: Path) -> None:
    """Several log directories, partitions and files together; the same one twice counts once."""
    segment(tmp_path / "other" / "clicks-0")
    assert partitions([data, tmp_path / "other"]) == sorted([*partitions(data), ("clicks", 0)])
    assert partitions([data / "orders-1", data / "payments-0"]) == [("orders", 1), ("payments", 0)]
    (log,) = logs_of([data / "orders-1", data / "orders-1" / writer.segment_name(7), f"{data}/orders-1/"])
    assert [s.base_offset for s in log.segments] == [0, 7]
    files = [data / "orders-1" / writer.segment_name(base) for base in (7, 0)]
    assert [s.base_offset for s in logs_of(files)[0].segments] == [0, 7]


@pytest.mark.parametrize("form", ["file:{}", "file://{}", "FILE:{}", "{}/", "{}/../data", "//{}"])
def test_ways_to_write_a_path(form: str, data: Path) -> None:
    """file: URIs with one or three slashes, trailing slashes and dots name the same directory."""
    assert partitions(form.format(data)) == partitions(data)


def test_relative_and_home_paths(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths count from the working directory, ~ is the home directory; what is planned is absolute."""
    monkeypatch.chdir(data.parent)
    monkeypatch.setenv("HOME", str(data.parent))
    for path in ("data", "./data", "~/data", Path("data")):
        assert partitions(path) == partitions(data)
    assert all(os.path.isabs(s.path) for log in logs_of("data") for s in log.segments)


@pytest.mark.parametrize("name", ["a b", "ключ", "per%cent", "a%20b", "a//b"])
def test_paths_with_odd_characters(name: str, tmp_path: Path) -> None:
    """Blanks, percent signs and other scripts in a path are themselves; in a file: URI they may be escaped."""
    directory = tmp_path / name
    segment(directory / "orders-0")
    assert partitions(directory) == [("orders", 0)]
    assert partitions(directory.as_uri()) == [("orders", 0)]
    assert partitions(directory.as_uri().replace("file:///", "file:/")) == [("orders", 0)]
    assert partitions(directory.as_uri() + "//orders-0") == [("orders", 0)]


@pytest.mark.parametrize("path", ["hdfs:/x", "dbfs:/x"])
def test_other_file_systems(path: str) -> None:
    """Other file systems are refused in words."""
    assert error_of(path).startswith(f"UnsupportedError: path '{path}': ")


# --- names by option -------------------------------------------------------------------------------------------------


def test_names_by_option(tmp_path: Path) -> None:
    """A directory whose name does not say takes its topic and partition from options; one that says may be renamed."""
    segment(tmp_path / "backup")
    assert error_of(tmp_path / "backup") == (
        f"PathError: directory '{tmp_path / 'backup'}' does not say which topic and partition it holds:"
        " give the options 'topic' and 'partition'"
    )
    assert "give the options" in error_of(tmp_path / "backup", topic="orders")
    assert partitions(tmp_path / "backup", topic="orders", partition=4) == [("orders", 4)]
    assert partitions(tmp_path / "backup" / writer.segment_name(0), topic="orders", partition=4) == [("orders", 4)]

    segment(tmp_path / "orders-0")
    assert partitions(tmp_path / "orders-0", topic="clicks") == [("clicks", 0)]
    assert partitions(tmp_path / "orders-0", partition=9) == [("orders", 9)]
    found = kafkaseg.scan(tmp_path / "backup", ["topic", "partition"], topic="orders", partition=4).read_all()
    assert found.to_pylist() == [{"topic": "orders", "partition": 4}]


def test_names_for_several_directories(data: Path) -> None:
    """One name for several partitions would mix them, and is refused."""
    said = error_of(data, topic="all")
    assert said.startswith(
        "OptionError: options 'topic' and 'partition' name one partition directory, but the path holds"
    )


def test_a_partition_number_that_no_int_holds(tmp_path: Path) -> None:
    """A directory whose number is past 32 bits is nobody's partition: no row could carry it."""
    segment(tmp_path / "orders-4294967296")
    assert error_of(tmp_path).startswith("PathError:")
    assert error_of(tmp_path / "orders-4294967296").startswith("PathError:")


# --- selection -------------------------------------------------------------------------------------------------------


def test_selection(data: Path) -> None:
    """Topics by name, by whole-name pattern, and partitions one by one."""
    assert partitions(data, subscribe="payments,_private") == [("_private", 0), ("payments", 0)]
    assert partitions(data, subscribePattern="o.*s") == [("orders", 0), ("orders", 1), ("orders", 10)]
    assert partitions(data, subscribePattern="pay|_priv.*") == [("_private", 0)]
    assert partitions(data, assign={"orders": [10, 1], "payments": [0]}) == [
        ("orders", 1),
        ("orders", 10),
        ("payments", 0),
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"subscribe": "orders,clicks"},
            "OptionError: option 'subscribe' names topic 'clicks', but the path holds"
            " '__consumer_offsets', '_private', 'orders', 'payments'",
        ),
        (
            {"subscribePattern": "x+"},
            "OptionError: option 'subscribePattern' (x+) matches none of '__consumer_offsets'",
        ),
        ({"assign": {"orders": [0, 2]}}, "OptionError: option 'assign' names partition orders-2, but the path holds"),
    ],
)
def test_selection_of_what_is_not_there(options: dict[str, Any], said: str, data: Path) -> None:
    """What is asked for by name must be there: the error says what is."""
    assert error_of(data, **options).startswith(said)


def test_internal_topics_alone(tmp_path: Path) -> None:
    """They are there, and are read only by name: the error says both, for a path and for a pattern."""
    segment(tmp_path / "__cluster_metadata-0")
    segment(tmp_path / "__consumer_offsets-3")
    assert error_of(tmp_path) == (
        f"PathError: path '{tmp_path}' holds internal topics alone: name those to read by option 'subscribe'"
        " ('__cluster_metadata', '__consumer_offsets')"
    )
    assert error_of(tmp_path, subscribePattern="__co.*") == (
        "OptionError: option 'subscribePattern' (__co.*) matches internal topics alone: name those to read by option"
        " 'subscribe' ('__consumer_offsets')"
    )
    assert partitions(tmp_path, subscribe="__cluster_metadata") == [("__cluster_metadata", 0)]
    assert partitions(tmp_path / "__cluster_metadata-0") == [("__cluster_metadata", 0)]


def test_a_message_names_a_few_topics(tmp_path: Path) -> None:
    """Those that resemble the one that is asked for, and how many others there are."""
    for number in range(30):
        segment(tmp_path / f"topic-{chr(97 + number % 26) * 20}-{number}")
    segment(tmp_path / "orders-7")
    assert error_of(tmp_path, subscribe="order").startswith(
        "OptionError: option 'subscribe' names topic 'order', but the path holds 'orders', "
    )
    assert error_of(tmp_path, subscribe="order").endswith("and 23 more")
    assert "but the path holds 'orders-7', " in error_of(tmp_path, assign={"orders": [0]})


def test_replicas_are_listed_one_by_one(data: Path, tmp_path: Path) -> None:
    """The same partition in two directories is two logs here, in the order of the paths; `partition/chain.py` makes
    them one."""
    segment(tmp_path / "replica" / "orders-1")
    for paths in ([data, tmp_path / "replica"], [tmp_path / "replica", data]):
        found = [log.directory for log in logs_of(paths) if log.topic_partition == ("orders", 1)]
        assert found == [str(path / "orders-1") for path in paths]
    assert partitions([data, tmp_path / "replica"], subscribe="payments") == [("payments", 0)]


# --- nothing there ---------------------------------------------------------------------------------------------------


def test_nothing_there(tmp_path: Path) -> None:
    """A missing path, a glob without a match, an empty or a foreign directory, a foreign file: each its own words."""
    assert error_of(tmp_path / "none") == f"PathError: path '{tmp_path / 'none'}' does not exist"
    assert error_of(tmp_path / "none-*") == f"PathError: nothing matches the path '{tmp_path / 'none-*'}'"
    holds_none = f"PathError: path '{tmp_path}' holds no log segments: expected files like 00000000000000000000.log"
    assert error_of(tmp_path).startswith(holds_none)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    assert error_of(tmp_path).startswith(holds_none)
    assert error_of(tmp_path / "notes.txt") == (
        f"PathError: path '{tmp_path / 'notes.txt'}' is a file, but not a segment: expected 20 digits and .log"
    )
    assert error_of(tmp_path / "note*").startswith("PathError:")
    (tmp_path / "orders-0").mkdir()
    assert error_of(tmp_path) == f"PathError: no log segments are in '{tmp_path / 'orders-0'}'"
    (tmp_path / "clicks-0").mkdir()
    (tmp_path / "clicks-1").mkdir()
    first = tmp_path / "clicks-0"
    assert error_of(tmp_path) == f"PathError: no log segments are in '{first}' and 2 more directories"
    assert error_of(tmp_path, subscribe="orders") == f"PathError: no log segments are in '{tmp_path / 'orders-0'}'"
    assert error_of(tmp_path / "orders-0").startswith("PathError:")


def test_one_path_of_several_is_missing(data: Path) -> None:
    """One wrong path among good ones is an error, not a smaller answer."""
    assert error_of([data, data / "nope"]) == f"PathError: path '{data / 'nope'}' does not exist"


@pytest.mark.parametrize("bounds", [{"startingOffsets": {"orders": {"0": 0, "5": 0}}}, {"endingTimestamp": 10}, {}])
def test_an_empty_partition_among_others(bounds: dict[str, Any], data: Path) -> None:
    """A partition directory without a segment has no rows, and keeps no other from being read, whatever the bounds."""
    (data / "orders-5").mkdir()
    found = kafkaseg.scan(data, ["partition"], assign={"orders": [0, 5]}, **bounds).read_all()
    assert found["partition"].to_pylist() == [0]


def test_errors_come_before_work(tmp_path: Path) -> None:
    """scan and plan raise at once, not from the first batch."""
    for call in (kafkaseg.scan, kafkaseg.plan):
        with pytest.raises(PathError, match="does not exist"):
            call(tmp_path / "none")


def test_the_input_is_left_as_it_was(data: Path) -> None:
    """Reading changes neither names, nor bytes, nor times of anything in the input, and works where
    nothing may be written."""
    for path in [*data.rglob("*"), data]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ctime_ns, path.stat().st_size) for path in data.rglob("*")}
    try:
        kafkaseg.scan(data, since=0, startingOffsets="earliest", failOnDataLoss=False).read_all()
        kafkaseg.plan(data, since=0)
        after = {
            path: (path.stat().st_mtime_ns, path.stat().st_ctime_ns, path.stat().st_size) for path in data.rglob("*")
        }
        assert after == before
    finally:
        for path in [data, *data.rglob("*")]:
            path.chmod(0o755)


def test_uris_and_colons(tmp_path: Path) -> None:
    """file: URIs of every form lead to the same place; a colon in a name that exists is only a colon."""
    directory = simple_log(simple_segment([batches.data(0, 1)])).write(tmp_path / "backup:2026 x")
    quoted = str(directory).replace(" ", "%20")
    for path in (
        str(directory),
        f"file:{quoted}",
        f"file://{quoted}",
        f"file://localhost{quoted}",
        f"file:{directory}",
    ):
        assert [log.directory for log in list_logs(parse_options({"path": path})[0].source)] == [str(directory)]
    with pytest.raises(UnsupportedError, match="not dbfs:"):
        list_logs(parse_options({"path": "dbfs:/orders-0"})[0].source)


def test_a_name_with_a_colon_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path that exists is taken as it is, even if it begins like a URI."""
    directory = simple_log(simple_segment([batches.data(0, 1)])).write(tmp_path / "backup:2026")
    monkeypatch.chdir(tmp_path)
    [log] = list_logs(parse_options({"path": f"backup:2026/{directory.name}"})[0].source)
    assert log.directory == str(directory)
