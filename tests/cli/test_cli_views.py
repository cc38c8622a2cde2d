"""`kafkaseg batches`, `transactions` and `count`: tables at 80 columns, JSON lines, CSV and Parquet."""

from __future__ import annotations

import csv
import json
import re
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.cli.transactions import format_duration
from kafka_segment_source.cli.view_tables import Shown, columns_of, print_table
from tests.cli.runner import LOGS, run
from tests.support import naive, writer
from tests.support.rows import FIXTURES
from tests.support.schema_logs import TYPED_LOGS
from tests.support.writer import Rec

LEDGER = FIXTURES / "transactions" / "data"
GROUPS = FIXTURES / "groups" / "data"
SCHEMAS = TYPED_LOGS
OF_COMMANDS = {
    "batches": ("batches", LEDGER),
    "transactions": ("transactions", LEDGER),
    "groups": ("consumerOffsets", GROUPS),
    "topics": ("topics", GROUPS),
    "segments": ("segments", LOGS),
    "schemas": ("schemas", SCHEMAS),
}
"""Command → its view, and a path that has rows of it."""
MINUTE = 60_000


def json_lines(*arguments: object) -> list[dict[str, Any]]:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr or result.exception
    return [json.loads(line) for line in result.stdout.splitlines()]


# --- views as tables -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", OF_COMMANDS)
def test_json_has_the_rows_of_scan(command: str) -> None:
    """All columns under their names, one row a line; --json is --format jsonl."""
    view, path = OF_COMMANDS[command]
    found = json_lines(command, path, "--json")
    wanted = kafkaseg.scan(path, view=view).read_all()
    assert [*found[0]] == wanted.schema.names
    plain = [
        name
        for name in wanted.schema.names
        if "imestamp" not in name and name not in ("deleteHorizon", "configs", "changed")
    ]
    assert [[row[name] for name in plain] for row in found] == [
        [row[name] for name in plain] for row in wanted.to_pylist()
    ]
    assert found == json_lines(command, path, "--format", "jsonl")


@pytest.mark.parametrize("command", OF_COMMANDS)
def test_parquet_has_the_rows_of_scan(command: str, tmp_path: Path) -> None:
    """With the types of the view; the file is whole, and the number of rows is said."""
    view, data = OF_COMMANDS[command]
    path = tmp_path / "found.parquet"
    result = run(command, data, "--format", "parquet", "--output", path)
    assert result.exit_code == 0
    wanted = kafkaseg.scan(data, view=view).read_all()
    assert pq.read_table(path).to_pylist() == wanted.to_pylist()
    assert f"kafkaseg: {wanted.num_rows} rows written to {str(path)!r}\n" in result.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["found.parquet"]


@pytest.mark.parametrize("command", ["batches", "transactions", "count"])
def test_parquet_needs_a_file(command: str) -> None:
    """And nothing else goes into one."""
    for arguments in (["--format", "parquet"], ["--output", "x"]):
        assert run(command, LEDGER, *arguments).exit_code == 2


@pytest.mark.parametrize("command", [*OF_COMMANDS, "count"])
def test_tables_fit_into_80_columns(command: str) -> None:
    """No line is longer, whatever does not fit is named."""
    _, path = OF_COMMANDS.get(command, ("", LEDGER))
    lines = run(command, path, columns=80).stdout.splitlines()
    assert len(lines) > 5
    assert max(map(len, lines)) <= 80
    assert command == "count" or any(line.startswith("not shown for lack of room: ") for line in lines)


def test_groups_that_are_behind() -> None:
    """Below the table, the furthest first. A history has other columns."""
    lines = run("groups", GROUPS, columns=80).stdout.splitlines()
    assert "  payments-1      12    3  2026-11-22T09:45:17.297Z            15            0" in lines
    assert next(line for line in lines if line.startswith("behind: ")) == "behind: manual by 30 offsets"
    history = run("groups", GROUPS, "--history", "true", columns=300).stdout.splitlines()
    assert history[0].split()[-4:] == ["isTombstone", "logPartition", "logOffset", "timestamp"]
    assert "lag" not in history[0]


def test_long_and_strange_texts(capsys: pytest.CaptureFixture[str]) -> None:
    """A table keeps one line a row: no value is longer than 60 characters, and none is a command to the terminal."""
    rows = [{"name": "a\nb\x1b[31m", "what": "x" * 100}, {"name": None, "what": ["y"]}]
    print_table(iter(rows), Shown(lambda _: "t\x07", columns_of("name", "what")))
    assert capsys.readouterr().out.splitlines() == [
        "  name          what",
        "t\\x07",
        f"  a\\nb\\x1b[31m  {'x' * 59}…",
        '  –             ["y"]',
    ]


def test_topics_as_a_table() -> None:
    """A map is JSON."""
    wide = run("topics", GROUPS, columns=500).stdout
    assert '{"cleanup.policy": "compact,delete"' in wide
    assert json_lines("topics", GROUPS, "--json")[-1]["configs"]["segment.index.bytes"] == "4096"


def test_a_wide_table_has_all_columns() -> None:
    """Where there is room, nothing is left out."""
    result = run("transactions", LEDGER, columns=300)
    assert "not shown" not in result.stdout
    assert "coordinatorEpoch" in result.stdout


def test_columns_that_are_named() -> None:
    """They alone are printed; an unknown one is refused with those that are there."""
    result = run("batches", LEDGER, "--columns", "partition, size", "-n", 2)
    assert result.stdout.splitlines() == ["partition  size", "        0   806", "        0   811"]
    assert [*json_lines("batches", LEDGER, "--columns", "size", "--json")[0]] == ["size"]
    result = run("transactions", LEDGER, "--columns", "sate")
    assert (result.exit_code, "did you mean 'state'" in result.stderr) == (2, True)


def test_the_first_rows() -> None:
    """--limit counts rows, over batches of any size; 0 gives none."""
    every = json_lines("batches", LOGS, "--json")
    assert json_lines("batches", LOGS, "--json", "--limit", 100) == every[:100]
    assert json_lines("batches", LOGS, "--json", "--limit", 0) == []


def test_open_transactions_are_said_below_the_table() -> None:
    """What is open, since when and what it withholds; --state keeps rows, also where the state is not printed."""
    result = run("transactions", LEDGER, columns=80)
    below = " ".join(result.stdout.partition("\n18 committed, ")[2].split())
    assert below.startswith("15 aborted, 1 open")
    assert "open in ledger-0: producer 4 since offset 531 (2026-03-10T09:08:54.000Z) withholds 152 records" in below
    found = json_lines("transactions", LEDGER, "--state", "open", "--columns", "firstOffset", "--json")
    assert found == [{"firstOffset": 531}]
    both = json_lines("transactions", LEDGER, "--state", "open", "--state", "aborted", "--json")
    assert Counter(row["state"] for row in both) == {"open": 1, "aborted": 15}


def test_a_contradiction_is_said_and_exits_with_1(tmp_path: Path) -> None:
    """As damage that was left out."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / writer.segment_name(0)).write_bytes(writer.record_batch([Rec(0, 1)]))
    (folder / writer.segment_name(0, ".txnindex")).write_bytes(writer.transaction_index([(7, 0, 0, 0)]))
    result = run("transactions", folder)
    assert result.exit_code == 1
    assert "contradicts the log" in result.stderr


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (None, None),
        (0, "0 ms"),
        (999, "999 ms"),
        (12_345, "12.3 s"),
        (245_000, "4 min 5 s"),
        (12_000_000, "3 h 20 min"),
        (1_051_200_000, "12 d 4 h"),
        (-5, "-5 ms"),
    ],
)
def test_durations(millis: int | None, text: str | None) -> None:
    """In the two largest units."""
    assert format_duration(millis) == text


# --- count -----------------------------------------------------------------------------------------------------------

moments = st.integers(0, 20 * MINUTE) | st.sampled_from([MINUTE - 1, MINUTE, 2**40])


@given(
    rows=st.lists(st.tuples(st.integers(0, 2), moments), min_size=1, max_size=30), by=st.sampled_from([1, 1000, MINUTE])
)
def test_counts_of_single_records_are_those_of_a_group_by(rows: list[tuple[int, int]], by: int) -> None:
    """Where each batch has one record, the headers tell everything."""
    batches: dict[int, list[bytes]] = {}
    wanted: Counter[tuple[int, int]] = Counter()
    sizes: Counter[tuple[int, int]] = Counter()
    for partition, timestamp in rows:
        own = batches.setdefault(partition, [])
        own.append(writer.record_batch([Rec(0, timestamp, b"k", b"v" * (timestamp % 7))], base_offset=len(own)))
        wanted[partition, timestamp // by * by] += 1
        sizes[partition, timestamp // by * by] += len(own[-1])
    with tempfile.TemporaryDirectory() as name:
        for partition, own in batches.items():
            folder = Path(name) / f"t-{partition}"
            folder.mkdir()
            (folder / writer.segment_name(0)).write_bytes(b"".join(own))
        found = json_lines("count", name, "--by", f"{by}ms", "--json")
    assert {(row["partition"], millis(row["time"])): row["records"] for row in found} == wanted
    assert {(row["partition"], millis(row["time"])): row["bytes"] for row in found} == sizes
    assert [(row["partition"], row["time"]) for row in found] == sorted(
        (row["partition"], row["time"]) for row in found
    )


def millis(text: str) -> int:
    return round(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)


@pytest.mark.parametrize("by", [1000, MINUTE, 60 * MINUTE])
def test_a_batch_counts_at_its_newest_record(by: int) -> None:
    """By the naive decoder, for every batch of the demo."""
    wanted: Counter[tuple[str, int, int]] = Counter()
    for log in sorted(LOGS.glob("*/*.log")):
        topic, _, partition = log.parent.name.rpartition("-")
        for batch in naive.decode_batches(log.read_bytes()):
            wanted[topic, int(partition), batch.max_timestamp // by * by] += len(batch.records)
    found = json_lines("count", LOGS, "--by", f"{by}ms", "--json")
    assert {(row["topic"], row["partition"], millis(row["time"])): row["records"] for row in found} == wanted


def test_bounds_leave_the_counts_of_a_minute_alone() -> None:
    """The same rows as without bounds, of those minutes."""
    every = json_lines("count", LOGS, "--json")
    found = json_lines("count", LOGS, "--json", "--since", "2026-03-10T09:30", "--until", "2026-03-10T09:35")
    assert found
    assert found == [row for row in every if "2026-03-10T09:30" <= row["time"] < "2026-03-10T09:35"]


def test_markers_and_aborted_records() -> None:
    """Markers are left out unless they are asked for; read_committed leaves out what was aborted or is open."""

    def sum_of(*arguments: object) -> int:
        return sum(row["records"] for row in json_lines("count", LEDGER, "--json", *arguments))

    rows = json_lines("batches", LEDGER, "--json")
    ended = json_lines("transactions", LEDGER, "--json")
    data = sum(row["count"] for row in rows if not row["isControl"])
    assert sum_of() == data
    assert sum_of("--include-control", "true") == sum(row["count"] for row in rows)
    aborted = sum(row["records"] for row in ended if row["state"] == "aborted")
    aborted_late = [row for row in ended if row["state"] == "aborted" and row["topic"] == "ledger"]
    withheld = sum(row["withheldRecords"] or 0 for row in ended)
    late = sum(row["records"] for row in aborted_late if row["partition"] == 0 and row["firstOffset"] >= 531)
    assert sum_of("--isolation-level", "read_committed") == data - aborted - withheld + late


def test_a_table_for_people() -> None:
    """Sums, a bar for each minute, partitions, and what the headers do not tell."""
    lines = run("count", LOGS, "--subscribe", "orders", columns=80).stdout.splitlines()
    assert lines[0] == "orders: 3 partitions, 4,000 records, 176.8 kB"
    assert lines[2].startswith("  2026-03-10T09:00       54  2.4 kB  ███")
    assert sum(line.startswith("  2026-03-10T") for line in lines) == 60
    begin = lines.index(next(line for line in lines if line.startswith("  partition")))
    assert [line.split()[0] for line in lines[begin + 1 : begin + 4]] == ["0", "1", "2"]
    assert lines[begin + 4].startswith("A batch counts at its newest timestamp: ")
    apart = run("count", LOGS, "--subscribe", "orders", "--each-partition", columns=80).stdout.splitlines()
    assert [line.split(":")[0] for line in apart if line.startswith("orders-")] == ["orders-0", "orders-1", "orders-2"]


def test_spans_without_records() -> None:
    """A long silence is one line."""
    result = run("count", FIXTURES / "times" / "data", "--subscribe", "times-ahead", "--by", "1d", columns=80)
    assert "… 3 spans without records\n" in result.stdout
    result = run("count", FIXTURES / "times" / "data", "--subscribe", "times-ahead", "--by", "2d", columns=80)
    assert re.search(r"^  2026-03-12 +0 +0 bytes$", result.stdout, re.MULTILINE)


def test_old_message_sets() -> None:
    """A wrapper states no count and perhaps no timestamp: its bytes count, and this is said."""
    result = run("count", FIXTURES / "message-sets" / "data", "--format", "csv", "--by", "1h")
    rows = list(csv.DictReader(result.stdout.splitlines()))
    batches = json_lines("batches", FIXTURES / "message-sets" / "data", "--json")
    assert sum(int(row["bytes"]) for row in rows) == sum(row["size"] for row in batches)
    assert sum(int(row["records"]) for row in rows) == sum(row["count"] or 0 for row in batches)
    assert any(row["time"] == "" for row in rows)
    wrappers = sum(row["count"] is None for row in batches)
    assert f"{wrappers} compressed message sets of Kafka before 0.11 without a count" in result.stderr


def test_parquet_of_counts(tmp_path: Path) -> None:
    """The same rows as JSON lines."""
    path = tmp_path / "counts.parquet"
    assert run("count", LOGS, "--format", "parquet", "--output", path).exit_code == 0
    table = pq.read_table(path)
    assert table["records"].to_pylist() == [row["records"] for row in json_lines("count", LOGS, "--json")]


@pytest.mark.parametrize("by", ["0", "a minute", "-1m"])
def test_a_span_that_is_none(by: str) -> None:
    """Exit code 2, and the option by name."""
    result = run("count", LOGS, "--by", by)
    assert result.exit_code == 2
    assert f"--by is {by!r}" in result.stderr
