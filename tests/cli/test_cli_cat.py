"""`kafkaseg cat`: the records of a read as text, JSON lines and Parquet, no more of them than are wanted."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kafka_segment_source.times import format_millis
from tests.cli.runner import LOGS, copy_of, run
from tests.support import naive, writer
from tests.support.rows import LOG_DIRECTORIES, OFFSET, Row, expected, in_scan_order, keep
from tests.support.writer import Rec


def lines(*arguments: object) -> list[str]:
    result = run("cat", *arguments)

    assert result.exit_code == 0, result.stderr or result.exception
    return [line for line in result.stdout.split("\n") if line]


def text(data: bytes | None) -> str:
    return "null" if data is None else data.decode("utf-8", "backslashreplace")


def test_text_is_what_a_consumer_saw() -> None:
    """One line a record: partition, offset, timestamp, key, value."""
    wanted = [
        f"{topic}-{partition}\t{offset}\t{format_millis(timestamp)}\t{text(key)}\t{text(value)}"
        for topic, partition, offset, timestamp, _, key, value, _ in expected(LOGS)
    ]

    assert lines(LOGS) == wanted


def as_row(record: dict[str, Any], decode: Any) -> Row:
    """A JSON line as a row, timestamps aside."""
    headers = record["headers"]
    return (
        record["topic"],
        record["partition"],
        record["offset"],
        0,
        record["timestampType"],
        decode(record["key"]),
        decode(record["value"]),
        None if headers is None else [(each["key"], decode(each["value"])) for each in headers],
    )


@pytest.mark.parametrize(("encoding", "decode"), [("hex", bytes.fromhex), ("base64", base64.b64decode)])
def test_json_lines_hold_every_byte(encoding: str, decode: Any) -> None:
    """In hex and base64 the columns come back exactly: nulls, headers, bytes that are no UTF-8."""
    directory = LOG_DIRECTORIES["records"]
    found = [json.loads(line) for line in lines(directory, "--json", "--as", encoding, "--include-headers", "true")]

    rows = [as_row(each, lambda data: None if data is None else decode(data)) for each in found]
    assert rows == [(*row[:3], 0, *row[4:]) for row in expected(directory)]
    assert list(found[0]) == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert [each["timestamp"] for each in found] == [format_millis(row[3]) for row in expected(directory)]


def test_parquet(tmp_path: Path) -> None:
    """A Parquet file of the rows of a window of time."""
    file = tmp_path / "window.parquet"
    result = run(
        "cat", LOGS, "--subscribe", "orders", "--since", "2026-03-10T09:30", "--until", "1773135300000",
        "--include-headers", "true", "--format", "parquet", "--output", file,
    )  # fmt: skip

    assert result.exit_code == 0
    wanted = keep(expected(LOGS), lambda row: row[0] == "orders" and 1773135000000 <= row[3] < 1773135300000)
    assert in_scan_order(pq.read_table(file)) == wanted


def test_parquet_is_whole_or_not_there(damaged: Path, tmp_path: Path) -> None:
    """Damage on the way leaves no file that looks finished."""
    file = tmp_path / "out" / "all.parquet"
    file.parent.mkdir()

    assert run("cat", damaged, "--format", "parquet", "--output", file).exit_code == 1
    assert list(file.parent.iterdir()) == []
    assert run("cat", damaged, "--format", "parquet", "--output", file, "--mode", "DROPMALFORMED").exit_code == 1
    assert pq.read_table(file).num_rows > 1000
    assert run("cat", damaged, "--format", "parquet", "--output", tmp_path / "no" / "such").exit_code == 1


def test_by_offset_and_limit() -> None:
    """The options of a read, under their own names."""
    found = lines(LOGS / "orders-0", "--starting-offsets", '{"orders":{"0":600}}', "-n", 3)

    assert [line.split("\t")[1] for line in found] == ["600", "601", "602"]
    assert lines(LOGS, "--limit", 0) == []
    assert len(lines(LOGS, "--limit", 1170)) == 1170


def segment(tmp_path: Path, *batches: bytes) -> Path:
    folder = tmp_path / "made-0"
    folder.mkdir()
    (folder / writer.segment_name(0)).write_bytes(b"".join(batches))
    return folder


def test_a_record_is_one_line_whatever_it_holds(tmp_path: Path) -> None:
    """Tabs, line ends and commands to the terminal are escaped in text; in JSON by its own rules."""
    nasty = "a\tb\nc\\d\r\x1b[31m\u2028\x85é".encode()
    folder = segment(tmp_path, writer.record_batch([Rec(0, 1000, None, nasty), Rec(1, 1000, b"\xff", b"")]))

    assert lines(folder) == [
        "made-0\t0\t1970-01-01T00:00:01.000Z\tnull\ta\\tb\\nc\\\\d\\r\\x1b[31m\\u2028\\u0085é",
        "made-0\t1\t1970-01-01T00:00:01.000Z\t\\xff\t",
    ]
    first, second = (json.loads(line) for line in lines(folder, "--format", "jsonl"))
    assert (first["key"], first["value"].encode()) == (None, nasty)
    assert (second["key"], second["value"]) == ({"base64": "/w=="}, "")


def from_json(field: Any) -> bytes | None:
    """The bytes of a key, a value or a header value in a line of JSON, as the documents say."""
    if isinstance(field, dict):
        assert [*field] == ["base64"]
        return base64.b64decode(field["base64"], validate=True)
    return None if field is None else str(field).encode()


def from_text(field: str) -> bytes | None:
    """The bytes of a key or a value in a line of text, as the documents say."""
    if field == "null":
        return None
    named = {"t": b"\t", "n": b"\n", "r": b"\r", "\\": b"\\"}

    def unescape(found: re.Match[str]) -> str:
        code = found[1]
        data = named.get(code) or (bytes.fromhex(code[1:]) if code[0] == "x" else chr(int(code[1:], 16)).encode())
        return data.decode("utf-8", "surrogateescape")

    whole = re.sub(r"\\(x..|u....|.)", unescape, field)
    return whole.encode("utf-8", "surrogateescape")


@settings(max_examples=60)
@given(st.lists(st.tuples(st.none() | st.binary(), st.none() | st.binary() | st.text().map(str.encode)), min_size=1))
def test_no_byte_is_lost(pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    """Text and JSON lines can be read back, whatever bytes the records have. It is said once that some are no text."""
    assume(all(b"null" not in pair for pair in pairs))
    records = [Rec(at, 1000, key, value, ((b"h", value),)) for at, (key, value) in enumerate(pairs)]
    is_binary = any(each != each.decode("utf-8", "replace").encode() for pair in pairs for each in pair if each)
    with TemporaryDirectory() as directory:
        folder = segment(Path(directory), writer.record_batch(records))
        printed = run("cat", folder)
        in_json = run("cat", folder, "--json", "--include-headers", "true")

    fields = [line.split("\t")[3:] for line in printed.stdout.split("\n")[:-1]]
    found = [json.loads(line) for line in in_json.stdout.split("\n")[:-1]]
    assert [(from_text(key), from_text(value)) for key, value in fields] == pairs
    assert [(from_json(each["key"]), from_json(each["value"])) for each in found] == pairs
    assert [from_json(each["headers"][0]["value"]) for each in found] == [value for _, value in pairs]
    for result in (printed, in_json):
        assert result.exit_code == 0
        assert result.stderr.count("are not UTF-8") == result.stderr.count("--as base64") == is_binary
        assert result.stderr.count("\n") == result.stderr.count("--format parquet") == is_binary


def test_bytes_that_are_not_text_are_said_once(tmp_path: Path) -> None:
    """Over many files one sentence, and none in base64, which was asked for."""
    for at in range(3):
        folder = tmp_path / f"made-{at}"
        folder.mkdir()
        (folder / writer.segment_name(0)).write_bytes(writer.record_batch([Rec(0, 1000, b"k", b"\xfe")]))

    assert run("cat", tmp_path).stderr.count("\n") == 1
    assert run("cat", tmp_path, "--json", "--as", "base64").stderr == ""
    assert run("cat", tmp_path, "--columns", "key").stderr == ""


def test_metadata_and_headers_in_text(tmp_path: Path) -> None:
    """Columns that were asked for follow as JSON."""
    batch = writer.record_batch([Rec(0, 1000, b"k", b"v", ((b"h", None), (b"h", b"x")))])
    (line,) = lines(segment(tmp_path, batch), "--include-headers", "true", "--include-metadata", "true")

    _, _, _, _, _, headers, metadata = line.split("\t")
    assert json.loads(headers) == [{"key": "h", "value": None}, {"key": "h", "value": "x"}]
    assert json.loads(metadata)["magic"] == 2


def test_columns() -> None:
    """Those named and no others, in that order, in every format."""
    folder = LOGS / "orders-0"
    wanted = [[str(row[OFFSET]), text(row[5])] for row in expected(LOGS) if row[:2] == ("orders", 0)]

    assert [line.split("\t") for line in lines(folder, "--columns", "offset, key")] == wanted
    found = [json.loads(line) for line in lines(folder, "--columns", "offset,key", "--json")]
    assert [[str(each["offset"]), each["key"]] for each in found] == wanted
    assert [list(each) for each in found] == [["offset", "key"]] * len(wanted)
    (line,) = lines(folder, "--columns", "metadata", "--limit", 1)
    assert json.loads(line)["compresscodec"] == "lz4"


def test_columns_in_parquet(tmp_path: Path) -> None:
    """What was written is said on standard error."""
    result = run("cat", LOGS, "-n", 7, "--columns", "offset,key", "--format", "parquet", "-o", tmp_path / "x.parquet")

    assert result.stderr == f"kafkaseg: 7 records written to {str(tmp_path / 'x.parquet')!r}\n"
    assert pq.read_table(tmp_path / "x.parquet").column_names == ["offset", "key"]


def test_a_column_that_is_not_there() -> None:
    """Wrong use, with the nearest name."""
    result = run("cat", LOGS, "--columns", "offset,vlaue")

    assert result.exit_code == 2
    assert "did you mean 'value'?" in result.stderr


def test_control_records_say_what_they_are() -> None:
    """COMMIT and ABORT where the naive decoder finds markers; data whose key looks like one stays data."""
    folder = LOG_DIRECTORIES["transactions"] / "ledger-0"
    decoded = [record for log in sorted(folder.glob("*.log")) for record in naive.decode_log(log.read_bytes())]
    seen = {row[OFFSET] for row in expected(LOG_DIRECTORIES["transactions"]) if row[:2] == ("ledger", 0)}
    wanted = {each.offset: ("ABORT", "COMMIT")[each.key[3]] for each in decoded if each.offset not in seen}

    found = [json.loads(line) for line in lines(folder, "--include-control", "true", "--json")]
    shown = [line.split("\t") for line in lines(folder, "--include-control", "true")]

    assert {each["offset"]: each["controlType"] for each in found if each["controlType"]} == wanted
    assert {int(each[1]): each[3].removeprefix("controlType: ") for each in shown if int(each[1]) in wanted} == wanted
    assert {each[4] for each in shown if int(each[1]) in wanted} == {"coordinatorEpoch: 0"}
    assert [len(each) for each in shown] == [5] * len(found)


def test_data_that_looks_like_a_control_record(tmp_path: Path) -> None:
    """Its batch decides."""
    folder = segment(tmp_path, writer.record_batch([Rec(0, 1000, b"\0\0\0\1", b"\0\0\0\0\0\0")]))

    (line,) = lines(folder, "--include-control", "true", "--json")
    assert json.loads(line)["controlType"] is None


def test_control_types_as_a_column(tmp_path: Path) -> None:
    """--columns takes it like any other, and Parquet has it."""
    folder = LOG_DIRECTORIES["transactions"] / "ledger-0"
    shown = lines(folder, "--include-control", "true", "--columns", "offset,controlType")
    output = tmp_path / "control.parquet"
    lines(folder, "--include-control", "true", "--format", "parquet", "-o", str(output))

    saved = pq.read_table(output, columns=["offset", "controlType"]).to_pylist()
    assert [line.split("\t") for line in shown] == [[str(row["offset"]), row["controlType"] or "null"] for row in saved]
    assert {row["controlType"] for row in saved} == {None, "COMMIT", "ABORT"}


@pytest.mark.parametrize("format_", ["text", "jsonl"])
def test_no_record_matches(format_: str) -> None:
    """Nothing on standard output, where to ask on standard error, exit code 0."""
    result = run("cat", LOGS, "--since", "2026-03-11", "--format", format_)

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("kafkaseg: no record matches; ")


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """orders-0 with a damaged batch in its second segment."""
    folder = copy_of(LOGS / "orders-0", tmp_path)
    log = folder / "00000000000000000174.log"
    data = bytearray(log.read_bytes())
    data[5000] ^= 4
    log.write_bytes(data)
    return folder


def test_damage_ends_it(damaged: Path) -> None:
    """What was read before is printed; then one sentence with file and position, and exit code 1."""
    result = run("cat", damaged)

    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) >= 174
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("kafkaseg: batch whose bytes do not have the CRC")


def test_damage_skipped_is_said(damaged: Path) -> None:
    """Under DROPMALFORMED the rest is printed, what is missing is said, and the exit code tells scripts."""
    result = run("cat", damaged, "--mode", "DROPMALFORMED")

    assert result.exit_code == 1
    assert 1000 < len(result.stdout.splitlines()) < 1164
    assert "skipped" in result.stderr


def test_limit_reads_no_further(damaged: Path) -> None:
    """Damage after the last record that is wanted is not met."""
    assert len(lines(damaged, "-n", 174)) == 174


@pytest.mark.parametrize("flags", [("--format", "parquet"), ("--output", "x.parquet"), ("--as", "utf-16")])
def test_flags_that_contradict(flags: tuple[str, ...]) -> None:
    """Wrong use, said before anything is read."""
    assert run("cat", LOGS, *flags).exit_code == 2


@pytest.mark.parametrize("format_", ["text", "jsonl"])
def test_a_reader_that_has_seen_enough(format_: str) -> None:
    """`| head -1` is no error: exit code 0, nothing on standard error."""
    command = [sys.executable, "-m", "kafka_segment_source.cli", "cat", str(LOGS), "--format", format_]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()

        assert process.stderr.read() == b""
    assert process.returncode == 0
