"""`kafkaseg grep`: what it prints, how it exits, and how little it reads."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from kafka_segment_source.cli.excerpts import cut_excerpt
from kafka_segment_source.cli.record_lines import escape
from kafka_segment_source.times import format_millis
from tests.cli.runner import LOGS, run
from tests.cli.test_cli_values import FAR, ROW, SCHEMA
from tests.support import writer
from tests.support.avro_cases import encode
from tests.support.rows import OFFSET, TIMESTAMP, TOPIC, expected, keep
from tests.support.schema_logs import SchemaLog, framed, write_values
from tests.support.writer import Rec

GRINDERS = keep(expected(LOGS), lambda row: b"hand grinder" in (row[6] or b""))


def lines(*arguments: object, exit_code: int = 0, columns: int = 140) -> list[str]:
    result = run("grep", *arguments, columns=columns)

    assert result.exit_code == exit_code, result.stderr or result.exception
    return result.stdout.splitlines()


def log_of(folder: Path, *values: bytes | None) -> Path:
    """A partition with these values."""
    folder.mkdir()
    data = writer.record_batch([Rec(delta, 5, b"key", value) for delta, value in enumerate(values)])
    (folder / writer.segment_name(0)).write_bytes(data)
    return folder


def test_lines() -> None:
    """One line a record, in the order of `cat`: partition, offset, time, place, excerpt."""
    found = [line.split("\t") for line in lines("hand grinder", LOGS)]

    assert [tuple(each[:4]) for each in found] == [
        (f"{row[TOPIC]}-{row[1]}", str(row[OFFSET]), format_millis(row[TIMESTAMP]), "value") for row in GRINDERS
    ]
    assert all("hand grinder" in each[4] for each in found)


def test_options_of_grep() -> None:
    """-c counts, -l lists, -m and -q stop, -v inverts, -i ignores case, --key and --header name places."""
    per_partition = {f"{row[TOPIC]}-{row[1]}": 0 for row in expected(LOGS)}
    for row in GRINDERS:
        per_partition[f"{row[TOPIC]}-{row[1]}"] += 1

    assert lines("-c", "hand grinder", LOGS) == [f"{name}:{count}" for name, count in per_partition.items()]
    assert lines("-l", "-F", "hand grinder", LOGS) == [name for name, count in per_partition.items() if count]
    assert lines("-l", "-m", 1, "hand grinder", LOGS) == ["orders-0"]
    assert len(lines("-m", 3, "hand grinder", LOGS)) == 3
    assert lines("-q", "hand grinder", LOGS) == []
    assert len(lines("-i", "HAND GRINDER", LOGS)) == len(GRINDERS)
    assert len(lines("-v", "hand grinder", LOGS)) == len(expected(LOGS)) - len(GRINDERS)
    assert lines("--key", "hand grinder", LOGS, exit_code=1) == []
    assert lines("--header", "no-such", "hand", LOGS, exit_code=1) == []
    assert lines("--hex", b"hand grinder".hex(), "-c", LOGS) == lines("-c", "hand grinder", LOGS)
    assert json.loads(lines("-c", "--json", "hand grinder", LOGS)[-1]) == {
        "topic": "payments", "partition": 0, "count": 0,
    }  # fmt: skip


def test_selection() -> None:
    """The options of a read select where it is searched."""
    since = GRINDERS[5][TIMESTAMP]
    wanted = keep(GRINDERS, lambda row: row[TIMESTAMP] >= since and row[1] == 2)

    found = lines("hand grinder", LOGS, "--since", since, "--assign", '{"orders":[2]}', "--json")
    assert [json.loads(line)["offset"] for line in found] == [row[OFFSET] for row in wanted] != []


def test_json() -> None:
    """A JSON object for each record: where, and where in it, in bytes."""
    row = GRINDERS[0]
    value = (row[6] or b"").decode()

    assert json.loads(lines("-m", 1, "--json", "hand gr", LOGS)[0]) == {
        "topic": "orders", "partition": row[1], "offset": row[OFFSET], "timestamp": format_millis(row[TIMESTAMP]),
        "place": "value", "name": None, "start": value.index("hand gr"), "length": 7,
        "key": (row[5] or b"").decode(), "value": value,
    }  # fmt: skip


def test_exit_codes(tmp_path: Path) -> None:
    """0 found, 1 not found, 2 an error: of use, of the files, of damage, and where damage was skipped."""
    log = log_of(tmp_path / "a-0", b"here", b"there")
    file = log / writer.segment_name(0)

    lines("here", log)
    lines("nowhere", log, exit_code=1)
    lines("(", log, exit_code=2)
    lines("(?=a)", log, exit_code=2)
    lines("here", tmp_path / "none", exit_code=2)
    lines("--field", "value.a", "here", log, exit_code=2)
    lines("--field", "value.a", "--key", "--value-format", "json", "here", log, exit_code=2)
    lines("--value-format", "json", "here", log, exit_code=2)
    lines("--hex", "xyz", log, exit_code=2)
    assert "is not a regular expression of RE2" in run("grep", "(", log).stderr
    file.write_bytes(file.read_bytes() + b"\x01" * 100 + writer.record_batch([Rec(value=b"here")], base_offset=9))
    lines("here", log, exit_code=2)
    assert len(lines("here", log, "--mode", "DROPMALFORMED", "--fail-on-data-loss", "false", exit_code=2)) == 3
    lines("-q", "here", log, exit_code=0)
    (log / writer.segment_name(20, ".index")).write_bytes(writer.offset_index([(29, 100)], 20))  # its .log is gone
    file.write_bytes(writer.record_batch([Rec(value=b"here")]))
    assert len(lines("here", log, "--fail-on-data-loss", "false", exit_code=2)) == 1


def test_a_terminal_is_safe(tmp_path: Path) -> None:
    """Control bytes and bytes that are not UTF-8 are escaped; one line a record."""
    log = log_of(tmp_path / "a-0", b"\x1b[2Jfind\nme\xff\x07", None)

    assert lines("find", log) == [f"a-0\t0\t{format_millis(5)}\tvalue\t\\x1b[2Jfind\\nme\\xff\\x07"]
    assert lines("-v", "--value", "find", log) == [f"a-0\t1\t{format_millis(5)}\t-\tnull"]


@pytest.mark.parametrize("text", [b"x" * 5000 + b"HIT" + b"y" * 5000, "日本".encode() * 99 + b"HIT", b"HIT\x00" * 50])
@pytest.mark.parametrize("room", [20, 57, 200])
def test_excerpts_fit(text: bytes, room: int) -> None:
    """An excerpt has the match, and no more columns than there are, apart from the marks of what was cut."""
    before, match, after = cut_excerpt(text, text.index(b"HIT"), 3, room)

    assert match == "HIT"
    assert cell_len(before.removeprefix("…")) + 3 + cell_len(after.removesuffix("…")) <= room
    assert re.sub("^…", "", before) in text.decode().replace("\0", "\\x00")
    _, match, after = cut_excerpt(text, 0, len(text), room)
    assert cell_len(match) <= room and (after == "…") == (cell_len(escape(text.decode())) > room)


def test_a_field_of_json(tmp_path: Path) -> None:
    """--field reads JSON without a schema, by names and numbers of items."""
    log = log_of(tmp_path / "a-0", b'{"a":{"b":[1,"two"]}}', b'{"a":{"b":[2,"2"]}}', b'"two"', None, b'{"a":"two"}')
    of_json = ("--value-format", "json", "--field")

    assert [line.split("\t")[1:5:2] for line in lines(*of_json, "value.a.b.1", "^two$", log)] == [["0", "value.a.b.1"]]
    assert [line.split("\t")[1] for line in lines(*of_json, "value.a", "two", log)] == ["0", "4"]
    assert [line.split("\t")[1] for line in lines(*of_json, "value", "two", log)] == ["0", "2", "4"]
    assert len(lines(*of_json, "value.a", "-v", "two", log)) == 3
    broken = log_of(tmp_path / "b-0", b"{no json", b'{"a":"two"}')
    assert run("grep", *of_json, "value.a", "two", broken).exit_code == 2
    permissive = run("grep", *of_json, "value.a", "two", broken, "--value-mode", "PERMISSIVE")
    assert len(permissive.stdout.splitlines()) == 1 and "not JSON" in permissive.stderr


FIELDS = {
    "id": "5", "price": r"2\.56", "at": "1970-01-01T00:00:01.000001Z", "day": "1970-01-02", "raw": "hi", "rate": "nan",
    "inner.x": "1", "tags": r'"b\\t"', "sizes": '{"k0":7}',
}  # fmt: skip


def test_fields_of_avro(tmp_path: Path) -> None:
    """--field decodes one field of Avro, whose text is that of `cat`. A field that there is not is an error."""
    SchemaLog(tmp_path).register("orders-value", 1, SCHEMA)
    write_values(tmp_path, [framed(1, encode(SCHEMA, ROW)), None, framed(1, encode(SCHEMA, FAR))])

    for name, text in FIELDS.items():
        pattern = f"^{text}$" if name != "tags" else text
        found = lines("--value-format", "avro", "--field", f"value.{name}", pattern, tmp_path, "--subscribe", "orders")
        assert [line.split("\t")[1] for line in found] == (["0", "2"] if name in ("id", "price", "raw") else ["0"])
    assert (
        "nix"
        in run(
            "grep", "--value-format", "avro", "--field", "value.nix", "1", tmp_path / "orders-0", "--schemas", tmp_path
        ).stderr
    )


def test_a_closed_pipe_ends_it() -> None:
    """`| head` stops it without a word."""
    command = f"{sys.executable} -m kafka_segment_source.cli grep . {LOGS} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)

    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_every_copy(tmp_path: Path) -> None:
    """A line for each place of a whole key, and how much was searched; 0 found, 1 not found, 2 not searched."""
    log = log_of(tmp_path / "a-0", b"one", None)
    (log / writer.segment_name(0, ".log.deleted")).write_bytes((log / writer.segment_name(0)).read_bytes())
    found = run("grep", "--key", "key", "--every-copy", tmp_path)
    places = [line.split("\t") for line in found.stdout.splitlines()]

    assert [(each[0], each[1], each[3]) for each in places] == [
        ("a-0", "0", "active segment, superseded"),
        ("a-0", "1", "active segment, newest"),
        ("a-0", "0", "deleted segment, leftover"),
        ("a-0", "1", "deleted segment, leftover"),
    ]
    assert found.exit_code == 0 and found.stderr.startswith("kafkaseg: 4 places in 2 files of ")
    of_json = [json.loads(line) for line in lines("--hex", b"key".hex(), "--every-copy", tmp_path, "--json")]
    assert [each["supersededBy"] for each in of_json] == [1, None, None, None]
    assert [each["isTombstone"] for each in of_json] == [False, True, False, True]
    assert [each["timestamp"] for each in of_json] == [place[2] for place in places]  # as in all JSON, a calendar's
    lines("--every-copy", "ke", tmp_path, exit_code=1)
    lines("--every-copy", "key", tmp_path, "--since", 5, exit_code=2)
    lines("--every-copy", "key", tmp_path, "--value", exit_code=2)
    lines("--every-copy", "key", tmp_path / "none", exit_code=2)
    (tmp_path / "other").mkdir()
    [newest] = lines("--every-copy", "key", log_of(tmp_path / "other" / "b-0", b"one"))
    assert "or retention takes its segment, after that is no longer the active one (" in newest
    (log / "unknown").write_bytes(b"key")
    assert len(lines("--every-copy", "key", tmp_path, exit_code=2)) == 4
    assert "was not searched" in run("grep", "--every-copy", "key", tmp_path).stderr
