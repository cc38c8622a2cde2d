"""scanning: `scan` over real brokers' directories gives what a real consumer saw, through every form of
path and any bounds."""

from __future__ import annotations

import json
import random
import shutil
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.errors import OptionError, SchemaError
from tests.support import naive
from tests.support.rows import (
    FIXTURES,
    LOG_DIRECTORIES,
    MESSAGE_SETS,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TOPIC,
    Row,
    decoded,
    expected,
    keep,
    scanned,
)

ORDERS = LOG_DIRECTORIES["orders"]
TRIMMED = "trimmed"  # its log start lies above the first offset in its files


def topics_of(name: str) -> list[str]:
    """The topics of a fixture's directory, those to be read whole."""
    return sorted({row[TOPIC] for row in expected(LOG_DIRECTORIES[name])} - {TRIMMED})


# --- every fixture ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOG_DIRECTORIES)
def test_every_fixture(name: str) -> None:
    """The rows of a real broker's log directory are those that a real consumer saw, headers included, in order."""
    wanted = keep(expected(LOG_DIRECTORIES[name]), lambda row: row[TOPIC] != TRIMMED)
    assert len(wanted) > 50
    assert scanned(LOG_DIRECTORIES[name], subscribe=",".join(topics_of(name))) == wanted


def test_records_below_the_log_start() -> None:
    """Records that DeleteRecords removed lie in the files still, but no consumer sees them."""
    wanted = keep(expected(LOG_DIRECTORIES["compacted"]), lambda row: row[TOPIC] == TRIMMED)
    assert scanned(LOG_DIRECTORIES["compacted"], subscribe=TRIMMED) == wanted


@pytest.mark.parametrize("broker", ["broker-1", "broker-2"])
def test_both_replicas(broker: str) -> None:
    """A leader's files and a follower's, whose indexes differ, give the same rows."""
    assert scanned(FIXTURES / "follower" / broker) == expected(FIXTURES / "follower" / broker)


@pytest.mark.parametrize("name", MESSAGE_SETS)
def test_message_sets(name: str) -> None:
    """The directories of brokers that wrote message sets, mixed with newer batches or not, give what a consumer saw."""
    assert scanned(MESSAGE_SETS[name]) == expected(MESSAGE_SETS[name])


def test_internal_topics() -> None:
    """Kafka's own topics come when named, with the rows that a consumer saw, and not otherwise."""
    directory = LOG_DIRECTORIES["transactions"]
    assert "__consumer_offsets" not in {row[TOPIC] for row in scanned(directory)}
    (row,) = scanned(directory, subscribe="__consumer_offsets")
    (wanted,) = pq.read_table(directory.parent / "expected.internal.parquet").to_pylist()
    assert row[:7] == tuple(
        wanted[name] for name in ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value")
    )


def test_the_default_columns() -> None:
    """Without a list of columns there are Spark's seven, and those that options add."""
    schema = kafkaseg.scan(ORDERS).schema
    assert schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert kafkaseg.scan(ORDERS, includeHeaders=True, includeMetadata=True).schema.names[7:] == ["headers", "metadata"]


# --- every form of path ----------------------------------------------------------------------------------------------


def forms(directory: Path) -> dict[str, tuple[Any, Any]]:
    """Ways to name what is in a log directory: what to give, and which of the expected rows to get."""
    payments = directory / "payments-0"
    segments = sorted(payments.glob("*.log"))
    second, third = (int(path.stem) for path in segments[1:3])
    two = ("orders", 0), ("payments", 0)
    return {
        "log directory": (directory, lambda row: True),
        "partition directory": (payments, lambda row: row[TOPIC] == "payments"),
        "list of directories": ([directory / "orders-0", payments], lambda row: row[:2] in two),
        "one file": (segments[1], lambda row: row[TOPIC] == "payments" and second <= row[OFFSET] < third),
        "the last file": (segments[-1], lambda row: row[TOPIC] == "payments" and row[OFFSET] >= int(segments[-1].stem)),
        "glob of partitions": (directory / "orders-[12]", lambda row: row[TOPIC] == "orders" and row[PARTITION] > 0),
        "glob of files": (payments / "*.log", lambda row: row[TOPIC] == "payments"),
        "file URI": (directory.as_uri(), lambda row: True),
        "file URI with one slash": (f"file:{payments}", lambda row: row[TOPIC] == "payments"),
        "text": (str(directory), lambda row: True),
    }


@pytest.mark.parametrize("form", forms(ORDERS))
def test_every_form_of_path(form: str) -> None:
    """A partition, a log directory, several, a file, a glob and a URI: each gives the rows of what it names."""
    path, wanted = forms(ORDERS)[form]
    rows = keep(expected(ORDERS), wanted)
    assert len(rows) > 0
    assert scanned(path) == rows


def test_a_relative_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path counts from the working directory of the call, whatever it is while reading."""
    monkeypatch.chdir(ORDERS.parent)
    reader = kafkaseg.scan("data/payments-0", ["offset"])
    monkeypatch.chdir("/")
    wanted = keep(expected(ORDERS), lambda row: row[TOPIC] == "payments")
    assert reader.read_all()["offset"].to_pylist() == [row[OFFSET] for row in wanted]


# --- a live broker's directory ---------------------------------------------------------------------------------------

INDEX_BYTES = {".index": 10_485_760, ".timeindex": 10_485_756}


@pytest.fixture(scope="module")
def padded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The live fixture with the index files of each last segment padded as a broker pads them: to 10 MiB of zeros."""
    copy = tmp_path_factory.mktemp("live") / "data"
    shutil.copytree(LOG_DIRECTORIES["live"], copy)
    for partition in copy.glob("live*/"):
        last = max(partition.glob("*.log"))
        for suffix, size in INDEX_BYTES.items():
            with last.with_suffix(suffix).open("r+b") as file:
                file.truncate(size)  # a hole reads as zeros
    return copy


def test_full_padding(padded: Path) -> None:
    """Index files padded to their full 10 MiB change no row, with and without bounds."""
    rows = expected(LOG_DIRECTORIES["live"])
    times = sorted(row[TIMESTAMP] for row in rows)
    assert scanned(padded) == rows
    for at in (0, len(times) // 3, len(times) - 1):
        assert scanned(padded, since=times[at]) == keep(rows, lambda row: row[TIMESTAMP] >= times[at])  # noqa: B023
        assert scanned(padded, since=times[at] + 1) == keep(rows, lambda row: row[TIMESTAMP] > times[at])  # noqa: B023


def test_full_padding_costs_no_bytes_of_the_log(padded: Path) -> None:
    """Padding prunes as well as trimmed index files do."""
    late = max(row[TIMESTAMP] for row in expected(LOG_DIRECTORIES["live"]) if row[TOPIC] == "live")
    plans = [kafkaseg.plan(path, since=late, subscribe="live") for path in (LOG_DIRECTORIES["live"], padded)]
    assert plans[0].bytes_to_read == plans[1].bytes_to_read < plans[0].bytes_total / 2


# --- any bounds ------------------------------------------------------------------------------------------------------


def random_bounds(rows: list[Row], partitions: list[tuple[str, int]], seed: int) -> tuple[dict[str, Any], Any]:
    """Options, and what they keep of a row: offsets and times on, before and after what is there."""
    draw = random.Random(seed)
    options: dict[str, Any] = {}
    low, high = dict.fromkeys(partitions, 0), dict.fromkeys(partitions, 2**63 - 1)
    since, until = -(2**63), 2**63
    if draw.random() < 0.6:
        for tp in partitions:
            offsets = [row[OFFSET] for row in rows if row[:2] == tp] or [0]
            ends = sorted(draw.choice(offsets) + draw.choice([0, 1]) for _ in range(2))
            low[tp], high[tp] = ends[0], ends[1]
        options["startingOffsets"] = as_map(low)
        options["endingOffsets"] = as_map(high)
    if draw.random() < 0.7:
        since = draw.choice(rows)[TIMESTAMP] + draw.choice([-1, 0, 1])
        options["since"] = draw.choice([since, str(since), datetime.fromtimestamp(since / 1000, UTC)])
    if draw.random() < 0.7:
        until = max(since, draw.choice(rows)[TIMESTAMP] + draw.choice([-1, 0, 1]))
        options["until"] = until
    return options, lambda row: low[row[:2]] <= row[OFFSET] < high[row[:2]] and since <= row[TIMESTAMP] < until


def as_map(offsets: dict[tuple[str, int], int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        found.setdefault(topic, {})[str(partition)] = offset
    return found


@pytest.mark.parametrize("name", [name for name in LOG_DIRECTORIES if name != "records"])
def test_random_bounds(name: str) -> None:
    """Random offset and time bounds over real directories keep exactly the rows that filtering keeps."""
    topics = topics_of(name)
    rows = keep(expected(LOG_DIRECTORIES[name]), lambda row: row[TOPIC] in topics)
    partitions = [split.path for split in kafkaseg.plan(LOG_DIRECTORIES[name], subscribe=",".join(topics)).splits]
    selected = sorted({_topic_partition(path) for path in partitions} | {row[:2] for row in rows})
    kept = 0
    for seed in range(12):
        options, wanted = random_bounds(rows, selected, seed)
        more = {"failOnDataLoss": False, "subscribe": ",".join(topics)}
        found = scanned(LOG_DIRECTORIES[name], **options, **more)
        assert found == keep(rows, wanted), options
        kept += len(found)
    assert kept > 0


def _topic_partition(path: str) -> tuple[str, int]:
    topic, _, partition = Path(path).parent.name.rpartition("-")
    return topic, int(partition)


def test_ways_to_say_a_time() -> None:
    """The same moment as text, in a zone, as a number and as a datetime keeps the same rows."""
    at = 1_773_135_000_000  # 2026-03-10T09:30:00Z
    wanted = keep(expected(ORDERS), lambda row: row[TIMESTAMP] >= at)
    assert 0 < len(wanted) < 6000
    ways = [at, str(at), "2026-03-10T09:30:00Z", "2026-03-10T09:30", "2026-03-10T10:30:00+01:00"]
    ways += [
        datetime(2026, 3, 10, 9, 30, tzinfo=UTC),
        datetime(2026, 3, 10, 5, 30, tzinfo=timezone(timedelta(hours=-4))),
    ]
    for since in ways:
        assert scanned(ORDERS, since=since) == wanted
    assert scanned(ORDERS, since="2026-03-10T10:30:00", timeZone="Europe/Berlin") == wanted
    with pytest.raises(OptionError, match="without a zone"):
        kafkaseg.scan(ORDERS, since=datetime(2026, 3, 10, 9, 30))


def test_a_time_ago() -> None:
    """`-2h` counts back from now: everything here is older, or newer than 1970."""
    assert scanned(LOG_DIRECTORIES["codecs"], since="-1h") == []
    assert len(scanned(LOG_DIRECTORIES["codecs"], since="-2000 weeks")) == 3800


@pytest.mark.parametrize("since", [-(10**30), 10**30])
@pytest.mark.parametrize("option", ["since", "until"])
def test_times_past_all_timestamps(option: str, since: int) -> None:
    """A time beyond 64 bits is before or after everything."""
    everything = (since < 0) == (option == "since")
    assert len(scanned(ORDERS, **{option: since})) == (6000 if everything else 0)


def test_offsets_of_one_partition() -> None:
    """startingOffsets and endingOffsets take the words, numbers and -2 or -1 per partition; the end is exclusive."""
    path = ORDERS / "payments-0"
    rows = keep(expected(ORDERS), lambda row: row[TOPIC] == "payments")
    assert scanned(path, startingOffsets="earliest", endingOffsets="latest") == rows
    assert scanned(path, startingOffsets={"payments": {"0": 10}}, endingOffsets={"payments": {"0": 12}}) == rows[10:12]
    both = {"startingOffsets": {"payments": {"0": -2}}, "endingOffsets": {"payments": {"0": -1}}}
    assert scanned(path, **both) == rows
    assert scanned(path, startingOffsets=json.dumps({"payments": {"0": 10}})) == rows[10:]
    assert scanned(path, startingOffsets={"payments": {"0": 7}}, endingOffsets={"payments": {"0": 7}}) == []


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_offset_maps_must_name_what_is_selected(option: str) -> None:
    """A map that leaves out a selected partition, or names another, is an error that says which."""
    with pytest.raises(OptionError, match=rf"option '{option}' must name exactly the partitions selected.*orders-1"):
        kafkaseg.scan(ORDERS, assign={"orders": [0, 1]}, **{option: {"orders": {"0": 5}}})
    with pytest.raises(OptionError, match=rf"option '{option}' must name exactly the partitions selected.*orders-7"):
        kafkaseg.scan(ORDERS, assign={"orders": [0]}, **{option: {"orders": {"0": 5, "7": 5}}})


def test_a_start_after_the_end() -> None:
    """A start after the end is an error that names the partition and both."""
    bounds: dict[str, Any] = {"startingOffsets": {"payments": {"0": 9}}, "endingOffsets": {"payments": {"0": 8}}}
    with pytest.raises(
        OptionError, match=r"'startingOffsets' \(9\) is after option 'endingOffsets' \(8\) for partition payments-0"
    ):
        kafkaseg.scan(ORDERS / "payments-0", **bounds)


# --- columns and batches ---------------------------------------------------------------------------------------------


def test_any_columns_in_any_order() -> None:
    """The columns asked for come in the order asked for, headers and metadata without their options too."""
    names = ["offset", "headers", "metadata", "key"]
    table = kafkaseg.scan(ORDERS / "payments-0", names).read_all()
    whole = kafkaseg.scan(ORDERS / "payments-0", includeHeaders=True, includeMetadata=True).read_all()
    assert table.schema.equals(RECORDS.arrow_schema(names))
    assert table.equals(whole.select(names))


def test_no_column_at_all() -> None:
    """With no column asked for, the rows are still counted."""
    assert kafkaseg.scan(ORDERS, []).read_all().num_rows == 6000


@pytest.mark.parametrize("columns", [["offzet"], ["key", "key"], ["Offset"]])
def test_wrong_columns(columns: list[str]) -> None:
    """A column that is not there, or asked for twice, is an error at once."""
    with pytest.raises(SchemaError):
        kafkaseg.scan(ORDERS, columns)


def test_batches_share_nothing() -> None:
    """A batch keeps its values after the next ones were read: scratch arrays are not handed out."""
    batches = list(kafkaseg.scan(LOG_DIRECTORIES["codecs"], includeHeaders=True, includeMetadata=True))
    again = list(kafkaseg.scan(LOG_DIRECTORIES["codecs"], includeHeaders=True, includeMetadata=True))
    assert len(batches) > 9
    assert pa.Table.from_batches(batches).equals(pa.Table.from_batches(again))
    copies = [pa.RecordBatch.from_pylist(batch.to_pylist(), schema=batch.schema) for batch in batches]
    assert [batch.equals(copy) for batch, copy in zip(batches, copies, strict=True)] == [True] * len(batches)


def test_segments_in_order() -> None:
    """Rows come by topic, partition and offset."""
    keys = [row[:3] for row in scanned(LOG_DIRECTORIES["times"])]
    assert keys == sorted(keys)


def test_one_segment_against_the_naive_decoder() -> None:
    """Metadata of real batches of every codec is what the naive decoder reads from the same file."""
    for partition in sorted(LOG_DIRECTORIES["codecs"].glob("*-0/")):
        path = max(partition.glob("*.log"), key=lambda log: log.stat().st_size)
        topic = partition.name.rpartition("-")[0]
        records = [r for r in naive.decode_log(path.read_bytes()) if not r.is_control]
        assert scanned(path) == decoded(records, topic, 0)
        found = kafkaseg.scan(path, ["metadata"]).read_all()["metadata"].to_pylist()
        assert [(m["baseOffset"], m["position"], m["compresscodec"]) for m in found] == [
            (r.base_offset, r.position, r.codec) for r in records
        ]
        assert {(m["file_path"], m["file_name"], m["magic"]) for m in found} == {(str(path), path.name, 2)}


def test_warnings_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """What an option does not mean here is said once in the log."""
    kafkaseg.scan(ORDERS, **{"kafka.bootstrap.servers": "x:9092"})
    assert [message for message in caplog.messages if "kafka.bootstrap.servers" in message] == [
        "these options mean nothing when segments are read without a broker, and were ignored: kafka.bootstrap.servers"
    ]
