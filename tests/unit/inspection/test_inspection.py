"""inspection: what is there, whether it is whole, which offset a time has; from Python alone, with typed answers."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import DataLossError, OptionError
from kafka_segment_source.storage.files import Bytes, InputFile
from tests.cli.runner import answer
from tests.support import writer
from tests.support.layouts import write_copies
from tests.support.writer import Rec

LOGS = Path(__file__).parents[3] / "examples" / "data" / "orders" / "data"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A partition with a byte that was changed in its first batch."""
    log = Path(shutil.copytree(LOGS / "orders-0", tmp_path / "orders-0"))
    first = min(log.glob("*.log"))
    data = bytearray(first.read_bytes())
    data[100] ^= 1
    first.write_bytes(data)
    return log


def test_answers_are_those_of_the_command_line(tmp_path: Path) -> None:
    """Each answer, as JSON, is what the command prints."""
    some: Any = {"subscribe": "orders"}
    flags = ("--subscribe", "orders", "--json")
    assert kafkaseg.list_partitions(LOGS, **some).to_dict() == answer("ls", LOGS, *flags)
    assert kafkaseg.verify(LOGS, **some).to_dict() == answer("verify", LOGS, *flags)
    found = kafkaseg.offsets_for_time(LOGS, "2026-03-10T09:30", isolationLevel="read_committed", **some)
    flags += ("--isolation-level", "read_committed")
    assert found.to_dict() == answer("offsets", LOGS, "--time", "2026-03-10T09:30", *flags)
    done = kafkaseg.update_zone_maps_locally(LOGS, tmp_path / "ours", **some)
    assert done.to_dict() == answer("zonemap", LOGS, "--to", tmp_path / "theirs", "--subscribe", "orders", "--json")


def test_damage_is_in_the_answer(damaged: Path) -> None:
    """It is no exception: a report with problems, and counts of what could be looked at."""
    report = kafkaseg.verify(damaged, deep=True)
    assert not report.is_ok and report.problems[0].path.endswith(".log")
    assert json.dumps(report.to_dict())
    assert kafkaseg.verify(LOGS / "orders-0").is_ok


@pytest.mark.parametrize(
    ("time", "offset"),
    [
        (datetime(2026, 3, 10, 9, 30, tzinfo=UTC), 579),
        (1_773_135_000_000, 579),
        ("2026-03-10T09:30", 579),
        ("earliest", 0),
        ("latest", 1164),
        ("2027-01-01", None),
    ],
)
def test_times_of_every_kind(time: Any, offset: int | None) -> None:
    """A time may be a datetime, milliseconds or text."""
    [found] = kafkaseg.offsets_for_time(LOGS / "orders-0", time).partitions
    assert (found.offset, found.end_offset, found.last_stable_offset) == (offset, 1164, None)


def test_zones_are_those_of_the_option() -> None:
    """A time without a zone is in timeZone."""
    [found] = kafkaseg.offsets_for_time(LOGS / "orders-0", "2026-03-10T10:30", timeZone="Europe/Berlin").partitions
    assert found.offset == 579


def test_progress_adds_up(tmp_path: Path) -> None:
    """What is done grows up to what there is to do."""
    for run in (
        lambda told: kafkaseg.list_partitions(LOGS, on_progress=told),
        lambda told: kafkaseg.verify(LOGS, on_progress=told),
        lambda told: kafkaseg.update_zone_maps_locally(LOGS, tmp_path / "maps", on_progress=told),
    ):
        seen: list[tuple[int, int]] = []
        run(lambda done, total, seen=seen: seen.append((done, total)))  # type: ignore[misc]
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert seen[-1][0] == seen[-1][1] > 0


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: kafkaseg.verify(LOGS, since="-2h"), "option 'since' is not for verify, which takes subscribe"),
        (lambda: kafkaseg.list_partitions(LOGS, mode="x"), "option 'mode' is not for list_partitions, which takes"),
        (
            lambda: kafkaseg.offsets_for_time(LOGS, 0, since=0),
            "option 'since' is not for offsets_for_time, which takes",
        ),
        (lambda: kafkaseg.offsets_for_time(LOGS, "noon"), "option 'time' is 'noon': expected ISO-8601"),
        (lambda: kafkaseg.offsets_for_time(LOGS, datetime(2026, 3, 10)), "option 'time' is datetime"),
    ],
)
def test_options_that_they_do_not_take(ask: Any, said: str) -> None:
    """An option that would change nothing is refused, as is a time that is none."""
    with pytest.raises(OptionError) as caught:
        ask()
    assert str(caught.value).startswith(said)


def test_padding_of_index_files_is_hardly_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker pads the two indexes of an active segment to 10 MiB each: they cost less than their log."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    batches = [writer.record_batch([Rec(0, 1000 + n, None, bytes(5000))], base_offset=n) for n in range(200)]
    size = len(batches[0])
    (folder / writer.segment_name(0)).write_bytes(b"".join(batches))
    offsets, times = [(n, n * size) for n in range(1, 200)], [(1000 + n, n) for n in range(1, 200)]
    (folder / writer.segment_name(0, ".index")).write_bytes(writer.offset_index(offsets, 0, padded_to=10_485_760))
    (folder / writer.segment_name(0, ".timeindex")).write_bytes(writer.time_index(times, 0, padded_to=10_485_756))
    read: list[int] = []
    read_at, read_into = InputFile.read_at, InputFile.read_into

    def count_at(file: InputFile, position: int, count: int) -> bytes:
        data = read_at(file, position, count)
        read.append(len(data) if file.path.endswith("index") else 0)
        return data

    def count_into(file: InputFile, position: int, target: Bytes) -> None:
        read.append(len(target) if file.path.endswith("index") else 0)
        read_into(file, position, target)

    monkeypatch.setattr(InputFile, "read_at", count_at)
    monkeypatch.setattr(InputFile, "read_into", count_into)

    assert kafkaseg.list_partitions(folder).partitions[0].summary.records == 200
    assert 199 * 20 <= sum(read) < 20_000
    read.clear()
    assert kafkaseg.verify(folder).is_ok
    assert 199 * 20 <= sum(read) < 20_000


def test_a_gap_behind_a_missing_segment_does_not_explain_it(tmp_path: Path) -> None:
    """Compaction shows in the file before the missing one, as a read of it decides."""
    [path] = write_copies(tmp_path, {0: "[0-1 e0] [2-3 e0]", 8: "[8 e0] [10 e0] [11 e0]"})
    with pytest.raises(DataLossError):
        kafkaseg.scan(path).read_all()
    [partition] = kafkaseg.verify(path).partitions
    assert [(problem.offset, problem.is_loss) for problem in partition.problems] == [(4, True)]
