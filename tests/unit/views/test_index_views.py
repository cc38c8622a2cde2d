"""view=segments and the views of index files, against a naive decoding of the files that brokers wrote."""

from __future__ import annotations

import logging
import shutil
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.inspection.index_rules import SHOWN
from kafka_segment_source.logdir.segments import ListedLog, Segment
from kafka_segment_source.options import parse_options
from kafka_segment_source.storage.store import LocalStorage
from kafka_segment_source.views import index_files
from kafka_segment_source.views.by_name import view_of
from kafka_segment_source.views.view import plan_view
from tests.conformance.dump_index import SAVED
from tests.conformance.dump_log import ROOT
from tests.support import writer
from tests.support.rows import FIXTURES, LOG_DIRECTORIES

FORMS = {".index": ">ii", ".timeindex": ">qi", ".txnindex": ">hqqqq"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LEDGER = LOG_DIRECTORIES["transactions"] / "ledger-0"


def rows_of(path: Path, view: str, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = kafkaseg.scan(path, view=view, **options).read_all().to_pylist()
    return rows


def entries(log: Path, suffix: str) -> list[tuple[int, ...]]:
    """Every entry of the file beside a `.log`, up to the zeros."""
    path = log.with_suffix(suffix)
    data = path.read_bytes() if path.exists() else b""
    found = [tuple(each) for each in struct.iter_unpack(FORMS[suffix], data)]
    while found and not any(found[-1]):
        found.pop()
    return found


def moment(millis: int) -> datetime:
    return EPOCH + timedelta(milliseconds=millis)


def logs_of(directory: Path) -> list[Path]:
    """The `.log` files in order of topic, partition and offset, without those of internal topics."""
    logs = (log for log in directory.glob("*-*/*.log") if not log.parent.name.startswith("__"))
    return sorted(logs, key=lambda log: (*name_of(log), log.name))


def name_of(log: Path) -> tuple[str, int]:
    """Topic and partition."""
    topic, _, partition = log.parent.name.rpartition("-")
    return topic, int(partition)


@pytest.mark.parametrize("name", LOG_DIRECTORIES)
def test_segments_are_those_of_the_files(name: str) -> None:
    """One row a `.log`, with what its name, its size and its index files say."""
    logs = logs_of(LOG_DIRECTORIES[name])
    found = {row["file_path"]: row for row in rows_of(LOG_DIRECTORIES[name], "segments")}

    assert set(found) == {str(log) for log in logs}
    for log in logs:
        row, base = found[str(log)], int(log.stem)
        times, aborts = entries(log, ".timeindex"), entries(log, ".txnindex")
        later = [int(each.stem) for each in logs if each.parent == log.parent and int(each.stem) > base]
        topic, partition = name_of(log)
        status = log.stat()
        assert row == {
            "topic": topic,
            "partition": partition,
            "baseOffset": base,
            "nextBaseOffset": min(later, default=None),
            "size": status.st_size,
            "indexEntries": len(entries(log, ".index")),
            "timeIndexEntries": len(times),
            "largestTimestamp": moment(times[-1][0]) if times else None,
            "largestTimestampOffset": base + times[-1][1] if times else None,
            "isActive": not later,
            "abortedTransactions": len(aborts),
            "changed": EPOCH + timedelta(microseconds=status.st_ctime_ns // 1000),
            "file_path": str(log),
        }


@pytest.mark.parametrize("name", LOG_DIRECTORIES)
def test_entries_are_those_of_the_files(name: str) -> None:
    """One row an entry, in order, without padding, with absolute offsets."""
    offsets, times, aborts = [], [], []
    for log in logs_of(LOG_DIRECTORIES[name]):
        base = int(log.stem)
        for suffix, found in ((".index", offsets), (".timeindex", times), (".txnindex", aborts)):
            for slot, entry in enumerate(entries(log, suffix)):
                found.append((*name_of(log), base, slot, entry, str(log.with_suffix(suffix))))

    start = ("topic", "partition", "baseOffset", "slot")
    for view, found, names in (
        ("offsetIndex", [(*r[:4], r[2] + r[4][0], r[4][1], r[5]) for r in offsets], ("offset", "position")),
        ("timeIndex", [(*r[:4], moment(r[4][0]), r[2] + r[4][1], r[5]) for r in times], ("timestamp", "offset")),
        (
            "abortedTransactions",
            [(*r[:4], *r[4], r[5]) for r in aborts],
            ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset"),
        ),
    ):
        rows = rows_of(LOG_DIRECTORIES[name], view)
        expected = [dict(zip((*start, *names, "file_path"), row, strict=True)) for row in found]
        assert rows == expected


@pytest.mark.parametrize("name", LOG_DIRECTORIES)
def test_entries_are_those_of_kafka_dump_log(name: str) -> None:
    """Every entry that Kafka's own inspector prints, with its numbers, and no other, but for zeros of a file without
    entries."""
    saved = pq.read_table(SAVED)
    printed: dict[str, list[list[int]]] = {}
    for file, numbers in zip(saved["file"].to_pylist(), saved["entry"].to_pylist(), strict=True):
        if (ROOT / file).is_relative_to(LOG_DIRECTORIES[name]) and "/__" not in file and any(numbers):
            printed.setdefault(str(ROOT / file), []).append(numbers)
    shown: dict[str, list[list[int]]] = {}
    for view in ("offsetIndex", "timeIndex", "abortedTransactions"):
        for row in rows_of(LOG_DIRECTORIES[name], view):
            numbers = list(row.values())[4:-1]
            if view == "timeIndex":
                numbers[0] = (numbers[0] - EPOCH) // timedelta(milliseconds=1)
            shown.setdefault(row["file_path"], []).append(numbers)
    assert shown and shown == printed


@pytest.mark.parametrize("name", LOG_DIRECTORIES)
def test_what_brokers_wrote_is_borne_out(name: str) -> None:
    """No entry of a broker's is wrong. Entries of batches that kafka-dump-log saw are proven, but for old formats."""
    saved = pq.read_table(FIXTURES / "dump_log.parquet")
    is_old = name.startswith("message-sets")
    for view in ("offsetIndex", "timeIndex", "abortedTransactions"):
        rows = rows_of(LOG_DIRECTORIES[name], view, checkCrcs=True)
        assert all(row["isProven"] in ((True, None) if is_old else (True,)) for row in rows)
        if view == "offsetIndex" and rows:
            kept = {
                (Path(file).parent.name, Path(file).stem, position)
                for file, position in zip(saved["file"].to_pylist(), saved["position"].to_pylist(), strict=True)
            }
            for row in rows:
                path = Path(row["file_path"])
                assert (path.parent.name, path.stem, row["position"]) in kept


def test_no_log_is_opened_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index files are; a `.log` only where checkCrcs=true asks for proof."""
    opened: list[str] = []
    real = LocalStorage.open

    def noted(self: LocalStorage, path: str, *more: Any) -> Any:
        opened.append(path)
        return real(self, path, *more)

    monkeypatch.setattr(LocalStorage, "open", noted)
    for view in ("segments", "offsetIndex", "timeIndex", "abortedTransactions"):
        assert rows_of(LEDGER, view)
    assert opened and not [path for path in opened if path.endswith(".log")]
    rows_of(LEDGER, "offsetIndex", checkCrcs=True)
    assert [path for path in opened if path.endswith(".log")]


def copy_ledger(tmp_path: Path) -> Path:
    return Path(shutil.copytree(LEDGER, tmp_path / LEDGER.name))


def test_damaged_and_missing_index_files_are_nulls_and_warnings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A missing file, one that breaks its order, and one that is another's: never an error, never a guess."""
    log = copy_ledger(tmp_path)
    first, second, third = sorted(log.glob("*.log"))[:3]
    first.with_suffix(".index").unlink()
    times = entries(second, ".timeindex")
    second.with_suffix(".timeindex").write_bytes(
        b"".join(struct.pack(FORMS[".timeindex"], *entry) for entry in [times[1], times[0]])
    )
    aborts = entries(third, ".txnindex")[0]
    third.with_suffix(".txnindex").write_bytes(struct.pack(FORMS[".txnindex"], 7, *aborts[1:]))
    with caplog.at_level(logging.WARNING):
        rows = rows_of(log, "segments")

    names = ("indexEntries", "timeIndexEntries", "largestTimestamp", "largestTimestampOffset", "abortedTransactions")
    nulls = [[name for name in names if row[name] is None] for row in rows]
    assert nulls[:3] == [["indexEntries"], list(names[1:4]), ["abortedTransactions"]]
    assert not any(nulls[3:])
    said = [record.getMessage() for record in caplog.records]
    assert f"file '{first.with_suffix('.index')}' does not exist; its columns are null" in said
    assert any(f"entry 1 of 2 in '{second.with_suffix('.timeindex')}' breaks the order" in text for text in said)
    assert any(f"entry 0 of 1 in '{third.with_suffix('.txnindex')}' breaks the order" in text for text in said)


def test_entries_are_shown_as_they_are_stored_and_judged(tmp_path: Path) -> None:
    """A wrong entry is a row that is not proven. Those that break the order are too, and so are all after them."""
    log = copy_ledger(tmp_path)
    first, second = sorted(log.glob("*.log"))[:2]
    base = int(second.stem)
    good = entries(first, ".index")
    first.with_suffix(".index").write_bytes(
        b"".join(struct.pack(FORMS[".index"], *entry) for entry in [*good[:2], (good[2][0], good[2][1] + 1), *good[3:]])
    )
    second.with_suffix(".index").write_bytes(
        writer.offset_index([(base + 9, 99), (base + 5, 200), (base + 9, 300)], base)
    )
    rows = rows_of(log, "offsetIndex", checkCrcs=True)

    of_first = [row["isProven"] for row in rows if row["baseOffset"] == int(first.stem)]
    assert of_first == [True, True, False, *[True] * (len(good) - 3)]
    assert [(row["offset"], row["isProven"]) for row in rows if row["baseOffset"] == base] == [
        (base + 9, False), (base + 5, False), (base + 9, False),
    ]  # fmt: skip


def test_damage_in_the_log_leaves_it_open(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An entry that leads into damage is neither proven nor wrong, and a warning names the damage."""
    log = copy_ledger(tmp_path)
    first = min(log.glob("*.log"))
    (_, position), *_ = entries(first, ".index")
    data = bytearray(first.read_bytes())
    data[position + 70] ^= 1
    first.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        offsets = rows_of(log, "offsetIndex", checkCrcs=True)
        times = rows_of(log, "timeIndex", checkCrcs=True)

    of_first = [row["isProven"] for row in offsets if row["baseOffset"] == int(first.stem)]
    assert of_first == [None, *[True] * (len(of_first) - 1)]
    assert {row["isProven"] for row in times if row["baseOffset"] == int(first.stem)} == {None}
    assert any(f"file '{first}' is damaged at byte {position}" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    ("suffix", "view", "column", "change"),
    [
        (".index", "offsetIndex", 0, -3),
        (".index", "offsetIndex", 0, 3),
        (".index", "offsetIndex", 1, 1),
        (".timeindex", "timeIndex", 0, -1),
        (".timeindex", "timeIndex", 0, 1),
        (".txnindex", "abortedTransactions", 1, 1),
        (".txnindex", "abortedTransactions", 3, -1),
    ],
)
def test_false_is_what_verify_calls_a_problem(suffix: str, view: str, column: int, change: int, tmp_path: Path) -> None:
    """For each entry that is changed: the false ones are those that `verify` names. It names the first of a broken
    order."""
    log = copy_ledger(tmp_path)
    first = min(log.glob("*.log"))
    kept = entries(first, suffix)
    size = struct.calcsize(FORMS[suffix])
    is_caught = False
    for slot in range(len(kept)):
        changed = [list(entry) for entry in kept]
        changed[slot][column] += change
        first.with_suffix(suffix).write_bytes(b"".join(struct.pack(FORMS[suffix], *entry) for entry in changed))
        false = [row["slot"] for row in rows_of(log, view, checkCrcs=True) if row["isProven"] is False]
        problems = [each for each in kafkaseg.verify(log).problems if each.path.endswith(suffix)]
        named = sorted({(each.position or 0) // size for each in problems})
        broken = [(each.position or 0) // size for each in problems if "breaks the order" in each.what]
        assert len(false) <= SHOWN or broken
        assert false == sorted({*named, *(range(broken[0], len(kept)) if broken else ())})
        is_caught = is_caught or bool(false)
    assert is_caught


# --- tasks -----------------------------------------------------------------------------------------------------------


def listed(*counts: int, size: int = 10) -> list[ListedLog]:
    return [
        ListedLog("t", number, f"/t-{number}", tuple(Segment(f"/t-{number}/{at}", at, size) for at in range(count)))
        for number, count in enumerate(counts)
    ]


@pytest.mark.parametrize(
    ("counts", "most_bytes", "sizes"),
    [
        ((), None, []),
        ((0, 0), None, []),
        ((3, 0, 4), None, [7]),
        ((64,), None, [64]),
        ((60, 60), None, [64, 56]),
        ((5,), 20, [2, 2, 1]),
        ((1, 1, 1), 5, [1, 1, 1]),
    ],
)
def test_tasks_hold_many_segments(counts: tuple[int, ...], most_bytes: int | None, sizes: list[int]) -> None:
    """Small partitions share one, in order, and large ones are cut; by bytes too where logs are read."""
    logs = listed(*counts)
    tasks = index_files.group_segments(logs, most_bytes)
    assert [sum(len(log.segments) for log in task) for task in tasks] == sizes
    given = [(log.partition, segment) for log in logs for segment in log.segments]
    assert [(log.partition, segment) for task in tasks for log in task for segment in log.segments] == given


def test_a_million_segments_are_a_few_hundred_tasks() -> None:
    """Not a million, and not one."""
    segment = Segment("/t-0/0", 0, 10)
    log = ListedLog("t", 0, "/t-0", (segment,) * 1_000_000)
    assert len(index_files.group_segments([log], None)) == 256


def test_a_plan_can_be_sent() -> None:
    """Its tasks hold no more than the segments that are read."""
    options, _ = parse_options({"path": str(LEDGER), "view": "segments"})
    view = view_of("segments")
    assert view is not None
    [task] = plan_view(view, options, ()).tasks
    [log] = task
    assert len(log.segments) == len(list(LEDGER.glob("*.log")))
