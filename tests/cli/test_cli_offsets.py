"""`kafkaseg offsets`: in every partition the lowest offset with a timestamp at or after T, control records included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_segment_source.times import format_millis
from tests.cli.runner import LOGS, answer, copy_of, run
from tests.support import naive
from tests.support.rows import LOG_DIRECTORIES, OFFSET, TIMESTAMP, expected

LOG_STARTS = {"trimmed-0": 14, "trimmed-1": 137}  # log-start-offset-checkpoint of the fixture "compacted"


def records(directory: Path) -> list[tuple[int, int]]:
    """Offset and timestamp of every record of a partition, control records too, by the naive decoder."""
    found = [naive.decode_log(log.read_bytes()) for log in sorted(directory.glob("*.log"))]
    start = LOG_STARTS.get(directory.name, 0)
    return [(record.offset, record.timestamp) for segment in found for record in segment if record.offset >= start]


def moments(timestamps: list[int]) -> list[int]:
    """Before all, after all, and on and beside some that are there."""
    some = sorted(set(timestamps))[:: max(1, len(set(timestamps)) // 5)]
    return [0, *(each + shift for each in some for shift in (-1, 0, 1)), max(timestamps), max(timestamps) + 1]


@pytest.mark.parametrize("name", LOG_DIRECTORIES)
def test_naive_answer(name: str) -> None:
    """The answer is the naive one for moments on, beside and between timestamps; null and the log end
    after the last."""
    for directory in sorted(LOG_DIRECTORIES[name].glob("*-*/")):
        held = records(directory)
        for moment in moments([timestamp for _, timestamp in held])[:8] if held else [0]:
            (found,) = answer("offsets", directory, "--time", moment, "--json")["partitions"]

            assert found["offset"] == min((o for o, timestamp in held if timestamp >= moment), default=None)
            if held:
                assert found["logEndOffset"] >= held[-1][0] + 1


def test_the_three_forms_of_a_time() -> None:
    """Epoch milliseconds, ISO-8601 with or without a zone, and a time ago; the rows are those of a consumer."""
    rows = [row for row in expected(LOGS) if row[:2] == ("orders", 0)]
    after = min(row[OFFSET] for row in rows if row[TIMESTAMP] >= 1773135000000)

    for moment in ("1773135000000", "2026-03-10T09:30:00Z", "2026-03-10T09:30", "2026-03-10 10:30:00+01:00"):
        found = answer("offsets", LOGS / "orders-0", "--time", moment, "--json")
        assert found["timestamp"] == format_millis(1773135000000)
        assert found["partitions"] == [{"topic": "orders", "partition": 0, "offset": after, "logEndOffset": 1164}]
    berlin = answer(
        "offsets", LOGS / "orders-0", "--time", "2026-03-10T10:30", "--time-zone", "Europe/Berlin", "--json"
    )
    assert berlin["partitions"][0]["offset"] == after
    assert answer("offsets", LOGS / "orders-0", "--time", "-5000 weeks", "--json")["partitions"][0]["offset"] == 0


@pytest.mark.parametrize(("word", "offset"), [("earliest", 0), ("-2", 0), ("latest", 1164), ("-1", 1164)])
def test_earliest_and_latest(word: str, offset: int) -> None:
    """As kafka-get-offsets has them."""
    found = answer("offsets", LOGS / "orders-0", "--time", word, "--json")

    assert found["timestamp"] is None
    assert found["partitions"][0]["offset"] == offset


def test_earliest_is_the_log_start() -> None:
    """Records below the log start are deleted, though still in the files."""
    found = answer("offsets", LOG_DIRECTORIES["compacted"], "--subscribe", "trimmed", "--time", "earliest", "--json")

    assert [each["offset"] for each in found["partitions"]] == [14, 137]


@pytest.mark.parametrize("columns", [80, 140])
def test_the_table_says_which_it_is(columns: int) -> None:
    """An offset is the first at or after the time, or the log end because there is none."""
    lines = run("offsets", LOGS, "--time", "2026-03-10T10:00", columns=columns).stdout.splitlines()

    assert max(map(len, lines)) <= columns
    assert lines[1].split()[:2] == ["orders-0", "1164"]
    assert "the log end: no record before it is at or after that time" in lines[1]
    assert "payments-0    1999  the first at or after 2026-03-10T10:00:00.000Z" in lines[4]


def test_an_empty_partition_answers_null() -> None:
    """No record, no offset; the log end is where it begins."""
    found = answer("offsets", LOG_DIRECTORIES["live"] / "live-empty-0", "--time", "0", "--json")["partitions"][0]

    assert (found["offset"], found["logEndOffset"]) == (None, 0)


def committed(moment: object) -> dict[str, Any]:
    """The answer for ledger-0 of the fixture, whose last transactions are open from offset 531 on."""
    folder = LOG_DIRECTORIES["transactions"] / "ledger-0"
    (found,) = answer("offsets", folder, "--time", moment, "--isolation-level", "read_committed", "--json")[
        "partitions"
    ]
    return found


def test_read_committed_ends_at_the_last_stable_offset() -> None:
    """As a broker answers a consumer of that level: latest is the last stable offset, and what lies
    beyond is not found."""
    held = records(LOG_DIRECTORIES["transactions"] / "ledger-0")
    newest = max(timestamp for _, timestamp in held)

    assert committed("latest") == {
        "topic": "ledger", "partition": 0, "offset": 531, "logEndOffset": 685, "lastStableOffset": 531,
    }  # fmt: skip
    assert committed("earliest")["offset"] == 0
    for moment in moments([timestamp for _, timestamp in held]):
        first = min((offset for offset, timestamp in held if timestamp >= moment), default=None)
        assert committed(moment)["offset"] == (first if first is not None and first < 531 else None)
    told = run(
        "offsets",
        LOG_DIRECTORIES["transactions"] / "ledger-0",
        "--time",
        newest + 1,
        "--isolation-level",
        "read_committed",
    )
    assert "531  the last stable offset: no record before it" in told.stdout


def test_no_such_time() -> None:
    """A time that is none is wrong use, and the message says what would be one."""
    result = run("offsets", LOGS, "--time", "yesterday")

    assert result.exit_code == 2
    assert result.stderr.startswith("kafkaseg: --time is 'yesterday': expected ISO-8601 (")


def test_long_names_have_lines_of_their_own(tmp_path: Path) -> None:
    """At 80 columns neither a name nor an offset is broken."""
    name = "long-name-" * 7
    copy_of(LOGS / "orders-0", tmp_path).rename(tmp_path / f"{name}-10")
    shown = {
        "2026-03-10T09:50": "  966  the first at or after 2026-03-10T09:50:00.000Z",
        "earliest": "  0  the log start",
    }
    for time, said in shown.items():
        assert run("offsets", tmp_path, "--time", time, columns=80).stdout.splitlines() == [f"{name}-10", said]
    assert run("offsets", tmp_path, "--time", "earliest", columns=140).stdout.splitlines()[1].split()[1] == "0"
