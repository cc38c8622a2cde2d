"""`kafkaseg offsets --explain` and `--offset`: every number is one of the files, by a naive decoding of them."""

from __future__ import annotations

import shutil
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import LOGS, answer, run
from tests.cli.test_cli_offsets import LOG_STARTS
from tests.support import naive
from tests.support.rows import LOG_DIRECTORIES


def batches_of(log: Path) -> list[naive.Batch]:
    return naive.decode_batches(log.read_bytes())


def has_entry(log: Path, suffix: str, form: str, slot: int, entry: tuple[int, int]) -> bool:
    """Whether the index file beside a `.log` has this entry at the slot."""
    data = log.with_suffix(suffix).read_bytes()
    return struct.unpack_from(form, data, slot * struct.calcsize(form)) == entry


def check_step(step: dict[str, Any]) -> None:
    """The scan begins where the index entry says, and no later than what was found."""
    log = Path(step["path"])
    entry, found = step["offsetIndexEntry"], step["found"]
    if entry is None:
        assert step["scannedFrom"] == 0
    else:
        assert has_entry(log, ".index", ">ii", entry["slot"], (entry["offset"] - step["baseOffset"], entry["position"]))
        assert step["scannedFrom"] == entry["position"]
    [batch] = [each for each in batches_of(log) if each.position == found["position"]]
    assert (batch.size, batch.last_offset) == (found["size"], found["lastOffset"])
    assert step["scannedFrom"] <= batch.position < step["scannedTo"] == batch.position + batch.size


@pytest.mark.parametrize("name", [name for name in LOG_DIRECTORIES if not name.startswith("message-sets")])
def test_the_steps_of_a_time(name: str) -> None:
    """The last step found the answer. Its time index entry is before the time; no record is in what was left out."""
    for directory in sorted(LOG_DIRECTORIES[name].glob("[!_]*-*/")):
        start = LOG_STARTS.get(directory.name, 0)
        records = [each for log in sorted(directory.glob("*.log")) for each in naive.decode_log(log.read_bytes())]
        for moment in sorted({each.timestamp for each in records})[:: max(1, len(records) // 3)]:
            (found,) = answer("offsets", directory, "--time", moment, "--explain", "--json")["partitions"]
            if found["offset"] is None:
                continue
            *before, last = found["steps"]
            check_step(last)
            assert last["found"]["offset"] == found["offset"]
            [record] = [each for each in records if each.offset == found["offset"]]
            assert record.timestamp >= moment
            for step in before:
                held = naive.decode_log(Path(step["path"]).read_bytes())
                assert all(each.timestamp < moment for each in held if each.offset >= start)
            entry = last["timeIndexEntry"]
            if entry is not None:
                covered = [each.timestamp for each in records if last["baseOffset"] <= each.offset <= entry["offset"]]
                assert all(timestamp < moment for timestamp in covered)


@pytest.mark.parametrize("fetch", [1, 700, 5000, 1 << 20])
def test_the_place_of_an_offset(fetch: int) -> None:
    """The batch holds it. The fetch takes at least that batch, and the upper bound is above all that it can hold."""
    directory = LOGS / "orders-0"
    logs = sorted(directory.glob("*.log"))
    for offset in range(0, 1164, 97):
        asked = ("offsets", directory, "--offset", offset, "--explain", "--fetch-bytes", fetch, "--json")
        (found,) = answer(*asked)["partitions"]
        *before, last = found["steps"]
        check_step(last)
        assert found["batch"]["baseOffset"] <= offset <= found["batch"]["lastOffset"]
        log = Path(last["path"])
        assert [Path(step["path"]) for step in before] == logs[: logs.index(log)]
        limits = found["fetch"]
        size = log.stat().st_size
        start = limits["startPosition"]
        assert start == found["batch"]["position"]
        assert limits["endPosition"] == min(size, start + max(fetch, found["batch"]["size"]))
        reached = [each for each in batches_of(log) if start <= each.position < limits["endPosition"]]
        assert reached[-1].last_offset < limits["upperBoundOffset"]
        entry = limits["upperBoundEntry"]
        if entry is None:
            assert limits["upperBoundOffset"] == (last["nextBaseOffset"] or found["logEndOffset"])
        else:
            kept = (entry["offset"] - last["baseOffset"], entry["position"])
            assert has_entry(log, ".index", ">ii", entry["slot"], kept)
            assert entry["position"] >= limits["endPosition"]
            if entry["slot"]:
                data = log.with_suffix(".index").read_bytes()
                assert struct.unpack_from(">ii", data, 8 * entry["slot"] - 8)[1] < limits["endPosition"]


def test_the_text_at_80_columns() -> None:
    """A line for each step. Offsets and bytes are printed as they can be pasted."""
    told = run("offsets", LOGS / "orders-0", "--time", "2026-03-10T09:30", "--explain", columns=80)
    assert max(map(len, told.stdout.splitlines())) <= 80
    assert told.stdout.splitlines() == [
        "orders-0: offset 579, the first at or after 2026-03-10T09:30:00.000Z",
        "  left out      2 segments, the last of them 00000000000000000174.log: nothing",
        "                after 2026-03-10T09:20:30.090Z (time index)",
        "  segment       00000000000000000382.log, the first that may hold such a record",
        "  time index    entry 6: no record up to offset 571 is after",
        "                2026-03-10T09:29:32.708Z",
        "  offset index  entry 6 (floor): offset 571, byte 7855",
        "  scan          bytes 7855 to 9141 (1,286 bytes)",
        "  found         offset 579 of 2026-03-10T09:30:01.957Z, in the batch of offsets",
        "                572 to 589 at byte 8357 (784 bytes)",
    ]
    told = run("offsets", LOGS / "orders-0", "--offset", 383, "--explain", "--fetch-bytes", 1000, columns=80)
    assert "upper bound   offset 415, of index entry 0 (ceiling), which leads to byte 1021" in told.stdout
    assert max(map(len, told.stdout.splitlines())) <= 80


def test_an_offset_in_short() -> None:
    """Its batch, where that lies, and in which file; or why there is none."""
    told = run("offsets", LOGS / "orders-0", "--offset", 579, columns=80).stdout.splitlines()
    assert told[1] == "orders-0   572 to 589  at byte 8357 of 00000000000000000382.log (784 bytes)"
    told = run("offsets", LOGS / "orders-0", "--offset", 1164, columns=80).stdout.splitlines()
    assert told[1].split(maxsplit=1)[1] == "none  the log ends at offset 1164"
    trimmed = run("offsets", LOG_DIRECTORIES["compacted"], "--subscribe", "trimmed", "--offset", 100, "--explain")
    assert "trimmed-1: offset 100 is not there: the log starts at offset 137" in trimmed.stdout


def test_an_offset_that_compaction_removed() -> None:
    """It leads to the next batch, as in a broker, and the text says that no batch holds it."""
    directory = LOG_DIRECTORIES["compacted"] / "compacted-0"
    held = [batch for log in sorted(directory.glob("*.log")) for batch in batches_of(log)]
    [gone] = [after.base_offset - 1 for one, after in pairwise(held) if after.base_offset > one.last_offset + 1][:1]
    (found,) = answer("offsets", directory, "--offset", gone, "--json")["partitions"]
    assert found["batch"]["baseOffset"] == gone + 1
    assert (
        "which are the next ones: no batch holds it" in run("offsets", directory, "--offset", gone, "--explain").stdout
    )


def test_a_record_behind_the_last_stable_offset() -> None:
    """The search finds it, and the text says why it is no answer."""
    folder = LOG_DIRECTORIES["transactions"] / "ledger-0"
    records = [each for log in sorted(folder.glob("*.log")) for each in naive.decode_log(log.read_bytes())]
    newest = max(each.timestamp for each in records)
    told = run("offsets", folder, "--time", newest, "--isolation-level", "read_committed", "--explain")
    assert "but           the log ends before it, at offset 531" in told.stdout


def test_damage_on_the_way(tmp_path: Path) -> None:
    """It is an error with file and byte, or is skipped and said."""
    directory = Path(shutil.copytree(LOGS / "orders-0", tmp_path / "orders-0"))
    log = directory / "00000000000000000382.log"
    data = bytearray(log.read_bytes())
    data[8357 + 80] ^= 1
    log.write_bytes(data)
    told = run("offsets", directory, "--offset", 579, "--explain")
    assert told.exit_code == 1 and "at byte 8357, offset 572" in told.stderr
    told = run("offsets", directory, "--offset", 579, "--mode", "DROPMALFORMED", "--json")
    assert told.exit_code == 1 and '"baseOffset": 590' in told.stdout


@pytest.mark.parametrize("asked", [(), ("--time", "latest", "--offset", "3"), ("--offset", "-1")])
def test_wrong_use(asked: tuple[str, ...]) -> None:
    """One of both is asked for, and an offset is not negative."""
    assert run("offsets", LOGS, *asked).exit_code == 2
