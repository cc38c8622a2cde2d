"""`kafkaseg ls`: what headers tell agrees with what a consumer saw, and what they do not tell is said to be a bound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_segment_source.cli import ls
from kafka_segment_source.errors import StorageError
from kafka_segment_source.inspection.header_tables import CHUNK_BYTES
from kafka_segment_source.inspection.summary import summarize, total
from kafka_segment_source.options import parse_options
from kafka_segment_source.partition.logs import shown_logs
from kafka_segment_source.storage.files import InputFile
from kafka_segment_source.times import format_millis
from tests.cli.runner import LOGS, answer, copy_of, run
from tests.support import writer
from tests.support.batches import data
from tests.support.logs import simple_log, simple_segment
from tests.support.rows import LOG_DIRECTORIES, MESSAGE_SETS, OFFSET, TIMESTAMP, Row, expected
from tests.support.writer import Rec

UNTRIMMED = {name: path for name, path in LOG_DIRECTORIES.items() if name != "compacted"}


def by_partition(directory: Path) -> dict[tuple[str, int], list[Row]]:
    rows = defaultdict(list)
    for row in expected(directory):
        rows[row[0], row[1]].append(row)
    return rows


@pytest.mark.parametrize("name", UNTRIMMED)
def test_json_agrees_with_a_consumer(name: str) -> None:
    """Records, offsets and newest timestamp are exact; the oldest is no later than said, and in no other order."""
    listed = answer("ls", LOG_DIRECTORIES[name], "--json")["partitions"]
    seen = by_partition(LOG_DIRECTORIES[name])

    assert {(each["topic"], each["partition"]) for each in listed} >= set(seen)
    for each in listed:
        rows = seen.get((each["topic"], each["partition"]))
        if rows:
            timestamps = [row[TIMESTAMP] for row in rows if row[TIMESTAMP] >= 0]
            assert each["recordsExact"]
            assert each["records"] == len(rows) == sum(segment["records"] for segment in each["segments"])
            assert each["startOffset"] <= rows[0][OFFSET]
            assert each["endOffset"] > rows[-1][OFFSET]
            assert each["damage"] == []
            assert each["newestTimestamp"] == format_millis(max(timestamps))
            assert each["oldestTimestampAtMost"] >= format_millis(min(timestamps))


@pytest.mark.parametrize("name", MESSAGE_SETS)
def test_records_in_message_sets_are_at_most_what_is_said(name: str) -> None:
    """A compressed wrapper tells its last offset only: without compaction the count is right, and is called a bound."""
    seen = by_partition(MESSAGE_SETS[name])
    for each in answer("ls", MESSAGE_SETS[name], "--json")["partitions"]:
        rows = seen[each["topic"], each["partition"]]
        if each["recordsExact"] or "compacted" not in each["topic"]:
            assert each["records"] == len(rows)
        assert each["records"] >= len(rows)


@pytest.mark.parametrize("columns", [80, 100, 140, 200])
def test_table_fits_the_terminal(columns: int) -> None:
    """No line is wider than the terminal, and every partition and each of its facts is there."""
    result = run("ls", LOGS, columns=columns)

    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= columns
    for fact in ("orders-0", "0 – 1163", "1,164", "51.6 kB", "oldest ≤", "2026-03-10T09:00:54.962Z", "lz4", "ok"):
        assert fact in result.stdout


def test_control_records_are_counted_apart() -> None:
    """Transaction markers are not records."""
    ledger = answer("ls", LOG_DIRECTORIES["transactions"], "--assign", '{"ledger":[0]}', "--json")["partitions"][0]

    assert (ledger["records"], ledger["controlRecords"]) == (668, 17)
    assert "668 + 17 control" in run("ls", LOG_DIRECTORIES["transactions"] / "ledger-0", columns=160).stdout
    assert "668 + 17 control" in run("ls", LOG_DIRECTORIES["transactions"] / "ledger-0", columns=80).stdout


def test_log_starts_inside_the_files() -> None:
    """Records that are deleted though still in the files are counted, for that is what is there, and said."""
    listed = answer("ls", LOG_DIRECTORIES["compacted"], "--subscribe", "trimmed", "--json")["partitions"]

    assert [(each["startOffset"], each["logStartOffset"]) for each in listed] == [(0, 14), (0, 137)]
    assert "trimmed-0: records below offset 14 are deleted" in run("ls", LOG_DIRECTORIES["compacted"]).stdout


def test_what_is_not_read_is_named(tmp_path: Path) -> None:
    """Directories that a broker has given up, and files that a compaction left; they take up the disk."""
    folder = copy_of(LOGS / "orders-0", tmp_path)
    copy_of(LOGS / "orders-1", tmp_path).rename(tmp_path / "orders-1.0123456789abcdef-delete")
    (folder / "00000000000000000174.log").rename(folder / "00000000000000000174.log.swap")

    listed = answer("ls", tmp_path, "--json")
    told = run("ls", tmp_path).stdout

    assert [Path(each["directory"]).name for each in listed["notRead"]] == ["orders-1.0123456789abcdef-delete"]
    assert listed["notRead"][0]["bytes"] > 60_000
    assert listed["partitions"][0]["swaps"] == [str(folder / "00000000000000000174.log.swap")]
    assert "not read: orders-1.0123456789abcdef-delete, " in told
    assert "not read" not in run("ls", tmp_path, "--subscribe", "orders").stdout
    assert "orders-0: 00000000000000000174.log.swap, left by a compaction" in told


def test_a_name_wider_than_the_terminal(tmp_path: Path) -> None:
    """A long topic name has a line for itself, and the numbers stay in their columns."""
    folder = copy_of(LOGS / "orders-0", tmp_path).rename(tmp_path / f"{'long' * 17}-0")
    lines = run("ls", folder, columns=80).stdout.splitlines()

    assert lines[2] == folder.name
    assert lines[1].split()[1:] == ["segments", "records", "bytes"]
    assert lines[3].split() == ["6", "1,164", "51.6", "kB"]
    assert len(lines[1]) == len(lines[3]) <= 80


def test_whose_replica_a_partition_is(tmp_path: Path) -> None:
    """Where there are several log directories, each partition has the name of its own, also if no other holds it."""
    copy_of(LOGS / "orders-0", tmp_path / "disks" / "a")
    copy_of(LOGS / "orders-1", tmp_path / "disks" / "b")
    paths = tmp_path / "disks" / "a", tmp_path / "disks" / "b"
    assert [line.split()[0] for line in run("ls", *paths).stdout.splitlines()[2:]] == ["a/orders-0", "b/orders-1"]
    assert [line.split()[0] for line in run("ls", paths[0]).stdout.splitlines()[2:]] == ["orders-0"]
    assert run("ls", "-l", *paths).stdout.splitlines()[2].split()[0] == "a/orders-0/0"


def test_many_copies_have_one_note(tmp_path: Path) -> None:
    """Not one for each partition."""
    for broker in ("a", "b"):
        for number in reversed(range(4)):
            copy_of(LOGS / "orders-0", tmp_path / broker).rename(tmp_path / broker / f"orders-{number}")
    shown = run("ls", tmp_path / "a", tmp_path / "b").stdout
    assert "4 partitions are in several directories; the sums count each of these\n" in shown
    assert "directories hold it" not in shown


def test_empty_partitions_of_internal_topics(tmp_path: Path) -> None:
    """All of them have one line. One that is damaged, or of the user's own topic, has its own line."""
    copy_of(LOG_DIRECTORIES["transactions"] / "__consumer_offsets-0", tmp_path)
    for name in ("mine-0", *(f"__consumer_offsets-{number}" for number in (1, 2, 3, 7, 10))):
        (tmp_path / name).mkdir()
        (tmp_path / name / writer.segment_name(0)).touch()
    (tmp_path / "__consumer_offsets-11").mkdir()
    (tmp_path / "__consumer_offsets-11" / writer.segment_name(0)).write_bytes(b"\xff" * 100)

    lines = run("ls", tmp_path, columns=200).stdout.splitlines()

    assert [line.split()[0] for line in lines[2:5]] == ["__consumer_offsets-0", "__consumer_offsets-11", "mine-0"]
    assert lines[5:] == ["__consumer_offsets: 5 partitions are empty (1 – 3, 7, 10)"]
    alone = run("ls", tmp_path / "__consumer_offsets-7").stdout.splitlines()
    assert alone[1:] == ["__consumer_offsets: 1 partition is empty (7)"]
    assert len(answer("ls", tmp_path, "--json", exit_code=1)["partitions"]) == 8
    assert "__consumer_offsets" in run("ls", "-t", tmp_path / "__consumer_offsets-7").stdout.splitlines()[2]


def test_records_without_a_timestamp(tmp_path: Path) -> None:
    """-1 is no time of 1969: such records are counted, and no time is shown for them."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    none = [writer.record_batch([Rec(0, -1, None, b""), Rec(1, -1, None, b"")], base_offset=0)]
    some = [writer.record_batch([Rec(0, 0, None, b"")], base_offset=2)]
    (folder / writer.segment_name(0)).write_bytes(b"".join(none))
    for columns in (80, 200):
        shown = run("ls", folder, columns=columns).stdout
        assert "2 records (2 without a timestamp)" in shown and "no timestamp" in shown and "19" not in shown
    (folder / writer.segment_name(0)).write_bytes(b"".join(none + some))
    (listed,) = answer("ls", folder, "--json")["partitions"]
    assert (listed["records"], listed["recordsWithoutTimestamp"]) == (3, 2)
    assert listed["oldestTimestampAtMost"] == listed["newestTimestamp"] == "1970-01-01T00:00:00.000Z"
    assert "3 records (2 without a timestamp)" in run("ls", folder).stdout
    (folder / writer.segment_name(0)).write_bytes(b"".join(some))
    assert "without a timestamp" not in run("ls", folder).stdout and "1 record," in run("ls", folder).stdout


def test_topics_and_segments() -> None:
    """-t adds partitions up, -l takes them apart; internal topics are there."""
    topics = run("ls", LOG_DIRECTORIES["transactions"], "-t", columns=160).stdout
    segments = run("ls", LOGS / "orders-0", "-l").stdout

    assert "__consumer_offsets" in topics
    assert "704 + 26 control" in topics
    assert [line.split()[0] for line in segments.splitlines()[2:]] == [
        f"orders-0/{base}" for base in (0, 174, 382, 615, 798, 1006)
    ]


def test_index_files_missing_and_damaged(tmp_path: Path) -> None:
    """A missing index is said, a damaged one is said; neither is an error of the log."""
    folder = copy_of(LOGS / "orders-0", tmp_path)
    (folder / "00000000000000000174.index").unlink()
    index = folder / "00000000000000000382.timeindex"
    index.write_bytes(index.read_bytes()[12:24] + index.read_bytes())

    listed = answer("ls", folder, "--json")["partitions"][0]

    assert listed["indexFiles"] == {"missing": 1, "empty": 0, "damaged": 1}
    assert "1 damaged, 1 missing" in run("ls", folder).stdout


def test_an_empty_index_matters_beside_a_large_log(tmp_path: Path) -> None:
    """An index without entries is mentioned where a read has to walk 64 KiB or more for it."""
    folder = large_log(tmp_path)
    for suffix in (".index", ".timeindex"):
        (folder / writer.segment_name(0, suffix)).write_bytes(b"")

    assert answer("ls", folder, "--json")["partitions"][0]["indexFiles"]["empty"] == 2


def large_log(tmp_path: Path, batches: int = 3, size: int = CHUNK_BYTES + 17) -> Path:
    """Batches larger than what is read at a time."""
    folder = tmp_path / "large-0"
    folder.mkdir()
    data = [writer.record_batch([Rec(0, 1000 + n, None, bytes(size))], base_offset=n) for n in range(batches)]
    (folder / writer.segment_name(0)).write_bytes(b"".join(data))
    return folder


def test_batches_larger_than_a_chunk(tmp_path: Path) -> None:
    """A batch that does not fit is stepped over by its header, and every byte is accounted for."""
    (log,) = shown_logs(parse_options({"path": str(large_log(tmp_path))})[0].source)
    done: list[int] = []

    summary = total([summarize(segment, done.append) for segment in log.segments])

    assert (summary.batches, summary.records, summary.end_offset, summary.newest) == (3, 3, 3, 1002)
    assert sum(done) == summary.size


def noise(log: bytes) -> bytes:
    """The log with its second batch's header overwritten."""
    second = int.from_bytes(log[8:12], "big") + 12
    return log[:second] + b"\xff" * 40 + log[second + 40 :]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (noise, "bytes that cannot be a batch at byte"),
        (lambda log: log[:-10], "a batch that the file ends in the middle of at byte"),
        (lambda log: log + bytes(100), "zeros at byte 28,266"),
        (lambda log: log + log, "a batch out of order at byte 28,266"),
    ],
)
def test_damage_in_a_closed_segment(tmp_path: Path, change: Callable[[bytes], bytes], said: str) -> None:
    """Headers that cannot be right are said on standard error, with where to ask further; exit code 1."""
    folder = copy_of(LOGS / "payments-0", tmp_path)
    log = folder / "00000000000000000324.log"
    log.write_bytes(change(log.read_bytes()))

    result = run("ls", folder)

    assert result.exit_code == 1
    assert f"kafkaseg: damaged data: {log}: {said}" in result.stderr
    assert "kafkaseg verify" in result.stderr


def test_the_end_of_a_live_log_is_no_damage(tmp_path: Path) -> None:
    """A torn or zero-filled tail of the last segment is how logs end."""
    folder = copy_of(LOGS / "payments-0", tmp_path)
    log = folder / "00000000000000001682.log"
    log.write_bytes(log.read_bytes()[:-10])

    assert run("ls", folder).exit_code == 0
    assert run("ls", LOG_DIRECTORIES["live"]).exit_code == 0


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said in the line of its partition, and the others are listed."""
    simple_log(*[simple_segment([data(base, 1000)]) for base in (0, 1, 2)]).write(tmp_path)
    read_into, descriptor = InputFile.read_into, InputFile.descriptor

    def describe(self: InputFile) -> int | None:
        return -1 if self.path.endswith("1.log") else descriptor(self)

    def fail(self: InputFile, *arguments: Any) -> None:
        if self.path.endswith("1.log"):
            raise StorageError(f"file {self.path!r} cannot be read: Input/output error", strerror="Input/output error")
        read_into(self, *arguments)

    monkeypatch.setattr(InputFile, "read_into", fail)
    monkeypatch.setattr(InputFile, "descriptor", describe)
    done = run("ls", tmp_path)
    assert done.exit_code == 1
    assert "log unreadable" in done.stdout and "log damaged" not in done.stdout
    assert "unreadable: " in done.stderr and "1.log: cannot be read: Input/output error" in done.stderr

    (partition,) = answer("ls", tmp_path, "--json", exit_code=1)["partitions"]
    assert (partition["records"], partition["recordsExact"]) == (2, False)
    assert partition["damage"] == ["cannot be read: Input/output error"]


def test_a_missing_segment_is_said(tmp_path: Path) -> None:
    """Offsets between two segments that no file holds: named, and exit code 1. `verify` finds the same."""
    copy = copy_of(LOGS / "payments-0", tmp_path)
    second, third, *_ = sorted(copy.glob("*.log"))[1:]
    following = int(sorted(copy.glob("*.log"))[3].stem)
    for file in copy.glob(f"{third.stem}.*"):
        file.unlink()
    result = run("ls", copy)
    assert result.exit_code == 1
    lost = f"no file holds the offsets {int(third.stem)} to {following - 1} of payments-0"
    assert f"a segment is not there after {second.name}: {lost}" in result.stdout
    [missing] = answer("ls", copy, "--json", exit_code=1)["partitions"][0]["missing"]
    assert (missing["startOffset"], missing["endOffset"], missing["harmless"]) == (int(third.stem), following, None)
    assert str(int(third.stem)) in run("verify", copy).stdout


def test_a_glob_that_matches_no_partition(tmp_path: Path) -> None:
    """One sentence that names the path, and no internal topics."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    result = run("count", f"{tmp_path}/*")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "internal" not in result.stderr


def test_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many rows, those with something wrong are shown, then the largest, and a line says what is left."""
    for name in ("orders-0", "orders-1", "orders-2", "payments-0"):
        copy_of(LOGS / name, tmp_path)
    (tmp_path / "orders-1" / f"{0:020d}.timeindex").unlink()
    whole = run("ls", tmp_path).stdout.splitlines()
    monkeypatch.setattr(ls, "_MANY_ROWS", 3)
    monkeypatch.setattr(ls, "_MOST_ROWS", 2)
    lines = run("ls", tmp_path).stdout.splitlines()
    assert lines[0] == whole[0]
    assert [line.split()[0] for line in lines[2:4]] == ["orders-1", "payments-0"]
    assert "1 missing" in lines[2]
    sizes = [sum(file.stat().st_size for file in (tmp_path / name).glob("*.log")) for name in ("orders-0", "orders-2")]
    assert lines[4] == f"… and 2 partitions more, {sum(sizes) / 1000:.1f} kB; --all shows them"
    assert len(lines) == 5
    assert run("ls", tmp_path, "--all").stdout.splitlines() == whole
    assert run("ls", tmp_path, "--segments").stdout.splitlines()[-1].endswith("--all shows them")


def test_many_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line says how many notes are left out."""
    copy_of(LOGS / "orders-0", tmp_path)
    for number in range(5):
        (tmp_path / f"orders-{number}.0123456789abcdef-delete").mkdir()
    monkeypatch.setattr(ls, "_MANY_ROWS", 4)
    monkeypatch.setattr(ls, "_MOST_NOTES", 2)
    assert len(run("ls", tmp_path, "--all").stdout.splitlines()) == 8
    lines = run("ls", tmp_path).stdout.splitlines()
    assert len(lines) == 6
    assert lines[-1] == "… and 3 more notes; --all shows them"
