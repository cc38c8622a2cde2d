"""`kafkaseg verify`: no false alarm on any real log of any version, and each kind of damage found where it is."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_segment_source.errors import StorageError
from kafka_segment_source.inspection import index_rules, segment_check
from kafka_segment_source.inspection.findings import Finding
from kafka_segment_source.storage.files import InputFile
from tests.cli.runner import LOGS, answer, copy_of, run
from tests.support import naive, writer
from tests.support.batches import BatchSpec
from tests.support.logs import simple_log, simple_segment
from tests.support.rows import FIXTURES, LOG_DIRECTORIES, MESSAGE_SETS
from tests.support.writer import Rec

WHOLE = {**LOG_DIRECTORIES, **MESSAGE_SETS}
WHOLE |= {f"follower-{n}": FIXTURES / "follower" / f"broker-{n}" for n in (1, 2)}

FIRST, SECOND, THIRD, LAST = (f"{base:020d}" for base in (0, 174, 382, 1006))


@pytest.mark.parametrize("name", WHOLE)
def test_nothing_is_wrong_with_real_logs(name: str) -> None:
    """Leaders and followers, compacted, transactional, magic 0 to 2, live and preallocated: exit code 0."""
    found = answer("verify", WHOLE[name], "--deep", "--json")

    assert found["ok"]
    assert found["problems"] == []
    assert found["batches"] > 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of a real partition of six segments."""
    return copy_of(LOGS / "orders-0", tmp_path)


Change = Callable[[bytes], bytes]


def edit(path: Path, change: Change) -> None:
    path.write_bytes(change(path.read_bytes()))


def flip(at: int, bit: int = 4) -> Change:
    return lambda data: data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


def add(at: int, form: str, number: int) -> Change:
    """A change of the number at a position."""

    def change(data: bytes) -> bytes:
        changed = bytearray(data)
        struct.pack_into(">" + form, changed, at, struct.unpack_from(">" + form, data, at)[0] + number)
        return bytes(changed)

    return change


def second_batch(log: bytes) -> int:
    return int(struct.unpack_from(">i", log, 8)[0]) + 12


def in_second(change: Callable[[int], Change]) -> Change:
    """A change relative to the second batch."""
    return lambda log: change(second_batch(log))(log)


def one_problem(folder: Path, *flags: str) -> dict[str, Any]:
    """The only problem that is found."""
    found = answer("verify", folder, "--json", *flags, exit_code=1)

    assert not found["ok"]
    assert len(found["problems"]) == 1, found["problems"]
    problem: dict[str, Any] = found["problems"][0]
    return problem


LOG_DAMAGE = {
    "a bit of a record": (in_second(lambda at: flip(at + 100)), "CRC"),
    "a bit of the CRC": (in_second(lambda at: flip(at + 17)), "CRC"),
    "an impossible length": (in_second(lambda at: add(at + 8, "i", -(2**20))), "impossible length"),
    "an unknown magic": (in_second(lambda at: flip(at + 16)), "unknown magic"),
    "an earlier offset": (in_second(lambda at: add(at, "q", -100)), "out of order"),
    "an offset of the next segment": (in_second(lambda at: add(at, "q", 10_000)), "out of order"),
    "zeros": (in_second(lambda at: lambda log: log[:at] + bytes(61) + log[at + 61 :]), "zeros where a batch should be"),
}


@pytest.mark.parametrize("damage", LOG_DAMAGE)
def test_damage_to_a_batch(folder: Path, damage: str) -> None:
    """One damaged batch is one problem: where it is, what it means; what follows is still verified."""
    change, what = LOG_DAMAGE[damage]
    log = folder / f"{SECOND}.log"
    at = second_batch(log.read_bytes())
    edit(log, change)

    problem = one_problem(folder)

    assert problem["path"] == str(log)
    assert problem["position"] == at
    assert what in problem["what"]
    assert "replica" in problem["meaning"]


def test_verifying_goes_on_after_damage(folder: Path) -> None:
    """Two damaged batches in one segment and one in the next are three problems, and the rest is counted."""
    healthy = answer("verify", folder, "--json")
    for name, positions in ((SECOND, (100, 5000)), (THIRD, (100,))):
        for at in positions:
            edit(folder / f"{name}.log", flip(at))

    found = answer("verify", folder, "--json", exit_code=1)

    assert [Path(each["path"]).stem for each in found["problems"]] == [SECOND, SECOND, THIRD]
    assert found["batches"] == healthy["batches"] - 3


def test_a_closed_segment_cut_short(folder: Path) -> None:
    """What ends a live log quietly is damage before another segment."""
    edit(folder / f"{SECOND}.log", lambda log: log[:-10])

    assert "cut short" in one_problem(folder)["what"]


def test_a_missing_segment(folder: Path) -> None:
    """Offsets that no file holds, in a log that was never compacted, are lost."""
    for file in folder.glob(f"{THIRD}.*"):
        file.unlink()

    problem = one_problem(folder)

    assert "no segment holds the offsets 382 to 614" in problem["what"]
    assert problem["offset"] == 382


def next_append(index: bytes) -> bytes:
    """The second entry's offset inside the batch of the third."""
    return index[:8] + struct.pack(">i", struct.unpack_from(">i", index, 16)[0] - 1) + index[12:]


INDEX_DAMAGE = {
    "a position inside a batch": (".index", add(12, "i", 1), "where no batch begins"),
    "a position of another batch": (".index", lambda data: data[:12] + data[20:24] + data[24:], "order|past records"),
    "an offset below the batch": (".index", add(0, "i", -9), "past records of its offset"),
    "an offset of a later append": (".index", next_append, "not below the batches after"),
    "entries swapped": (".index", lambda data: data[8:16] + data[:8] + data[16:], "breaks the order"),
    "noise at the end": (".index", lambda data: data[:-8] + b"\xff" * 8, "breaks the order"),
    "an entry past the log": (
        ".index",
        lambda data: data + struct.pack(">ii", 900, 10**6),
        "past the last whole batch",
    ),
    "zeros in the middle": (".index", lambda data: data[:16] + bytes(8) + data[24:], "breaks the order"),
    "a timestamp too low": (".timeindex", add(12, "q", -1), "a batch up to there is later"),
    "a timestamp too high": (".timeindex", add(12, "q", 1), "none up to there is so late"),
    "timestamps swapped": (".timeindex", lambda data: data[12:24] + data[:12] + data[24:], "breaks the order"),
    "an offset past the log": (".timeindex", add(8, "i", 10**6), "order|past the last"),
    "noise behind": (".timeindex", lambda data: data + b"\x01" * 12, "past the last"),
}


@pytest.mark.parametrize("damage", INDEX_DAMAGE)
def test_damage_to_an_index(folder: Path, damage: str) -> None:
    """Each way in which an entry can be wrong is found in that file."""
    suffix, change, what = INDEX_DAMAGE[damage]
    index = folder / f"{SECOND}{suffix}"
    edit(index, change)

    problems = answer("verify", folder, "--json", exit_code=1)["problems"]

    assert {each["path"] for each in problems} == {str(index)}
    assert any(each in problems[0]["what"] for each in what.split("|")), problems
    assert problems[0]["position"] is not None


def test_every_bit_of_a_time_index(folder: Path) -> None:
    """Any flipped bit of a timestamp is found; of an offset, if it leaves the batch."""
    index = folder / f"{SECOND}.timeindex"
    healthy = index.read_bytes()
    for at in range(8):
        index.write_bytes(flip(24 + at, 1)(healthy))

        assert run("verify", folder).exit_code == 1, at


def test_damage_to_a_transaction_index(tmp_path: Path) -> None:
    """An aborted transaction of another producer, or without its marker, is no abort of this segment."""
    folder = copy_of(LOG_DIRECTORIES["transactions"] / "ledger-v2-0", tmp_path)
    index = next(folder.glob("*.txnindex"))
    healthy = index.read_bytes()
    for change in (add(2, "q", 1), add(10, "q", 10**6), add(18, "q", -1), flip(1)):
        edit(index, change)

        assert "names no abort" in one_problem(folder)["what"]
        index.write_bytes(healthy)
    assert run("verify", folder).exit_code == 0


def test_damage_to_a_producer_snapshot(tmp_path: Path) -> None:
    """A `.snapshot` has a CRC, which is checked too; an empty one is a note."""
    folder = copy_of(LOG_DIRECTORIES["transactions"] / "ledger-v2-0", tmp_path)
    snapshot = folder / "00000000000000000679.snapshot"
    edit(snapshot, flip(20))

    assert one_problem(folder)["path"] == str(snapshot)

    snapshot.write_bytes(b"")
    assert "empty" in answer("verify", folder, "--json")["notes"][0]["what"]


NOTES: dict[str, tuple[str, Change | None, str]] = {
    "a missing index": (f"{SECOND}.index", None, "1 of 6 is missing"),
    "a missing time index": (f"{SECOND}.timeindex", None, "1 of 6 is missing"),
    "a torn tail": (f"{LAST}.log", lambda log: log[:-10], "bytes of a torn batch"),
    "a preallocated tail": (f"{LAST}.log", lambda log: log + bytes(5000), "ends in 5,000 bytes of zeros"),
    "a torn index": (f"{SECOND}.index", lambda data: data + b"\x00\x00\x01", "no whole entry"),
}


@pytest.mark.parametrize("note", NOTES)
def test_what_is_only_a_note(folder: Path, note: str) -> None:
    """Legal, but worth knowing: said, with exit code 0."""
    name, change, what = NOTES[note]
    if change is None:
        (folder / name).unlink()
    else:
        edit(folder / name, change)

    found = answer("verify", folder, "--json")

    assert found["ok"]
    assert any(what in each["what"] for each in found["notes"])


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("name", [FIRST, LAST])
def test_padding_and_empty_indexes_are_fine(folder: Path, name: str, suffix: str) -> None:
    """Zeros behind the entries, all zeros, and no bytes at all beside a small log: nothing to say, in any segment."""
    index = folder / f"{name}{suffix}"
    entries = index.read_bytes()
    for data in (entries + bytes(1200), bytes(1200), b""):
        index.write_bytes(data)

        assert answer("verify", folder, "--json")["notes"] == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_young_segment_without_index_files(folder: Path, suffix: str) -> None:
    """A broker makes them when the segment needs them: nothing is missing, for `verify` and for `ls`."""
    (folder / f"{LAST}{suffix}").unlink()

    assert answer("verify", folder, "--json")["notes"] == []
    assert answer("ls", folder, "--json")["partitions"][0]["indexFiles"]["missing"] == 0


def test_an_index_that_goes_on_with_the_log(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker appends between the look at the `.log` and the look at its index: nothing was cut."""
    log = folder / f"{LAST}.log"
    whole = log.read_bytes()
    last = naive.decode_batches(whole)[-1].position
    log.write_bytes(whole[:last])
    (folder / f"{LAST}.index").write_bytes(
        struct.pack(">ii", naive.decode_batches(whole)[-1].last_offset - int(LAST), last)
    )
    assert "past the last whole batch" in str(answer("verify", folder, "--json")["notes"])

    check = index_rules.check_offset_index

    def append(facts: index_rules.Facts) -> Iterator[Finding]:
        log.write_bytes(whole)
        return check(facts)

    monkeypatch.setattr(segment_check, "check_offset_index", append)
    assert answer("verify", folder, "--json")["notes"] == []


def segment_of(tmp_path: Path, *batches: bytes) -> Path:
    folder = tmp_path / "made-0"
    folder.mkdir()
    (folder / writer.segment_name(0)).write_bytes(b"".join(batches))
    return folder


def test_deep_decodes_records(tmp_path: Path) -> None:
    """A batch whose CRC holds but whose records cannot be decoded is found only with --deep."""
    good = writer.record_batch([Rec(0, 1000, b"k", b"v")])
    bad = writer.record_batch_of(b"\x7f" * 20, base_offset=1, count=1, max_timestamp=1000)
    folder = segment_of(tmp_path, good, bad)

    assert run("verify", folder).exit_code == 0
    assert one_problem(folder, "--deep")["position"] == len(good)


def test_deep_finds_records_that_a_read_would_miss(tmp_path: Path) -> None:
    """A record later than its batch's maxTimestamp hides from `since`."""
    lying = writer.record_batch([Rec(0, 1000), Rec(1, 5000)], max_timestamp=2000)
    folder = segment_of(tmp_path, lying)

    problem = one_problem(folder, "--deep")

    assert problem["offset"] == 1
    assert "since" in problem["meaning"]


def test_an_upgraded_log_gives_notes(tmp_path: Path) -> None:
    """Kafka 0.10 left wrong maxima in time indexes: legal for a segment of that age, wrong for a later one."""
    batches = [BatchSpec(0, 0, ((0, 9000),), magic=1), BatchSpec(1, 1, ((1, 1000),)), BatchSpec(2, 2, ((2, 1500),))]
    log = simple_log(simple_segment(batches, index=[], timeindex=[(1000, 1), (1500, 2)]))
    found = answer("verify", log.write(tmp_path), "--json")

    assert found["ok"]
    assert "is later" in found["notes"][0]["what"]


@pytest.mark.parametrize("columns", [80, 140])
def test_the_report_is_readable(folder: Path, columns: int) -> None:
    """What, where, what it means, and a verdict as the last line; no line wider than the terminal."""
    assert run("verify", folder).stdout == "nothing wrong: 1 partition, 6 segments, 68 batches, 51.6 kB\n"

    edit(folder / f"{SECOND}.log", flip(100))
    result = run("verify", folder, columns=columns)

    assert result.exit_code == 1
    assert max(map(len, result.stdout.splitlines())) <= columns
    assert f"problem  orders-0/{SECOND}.log  byte 0  offset 174" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("1 problem: 1 partition, 6 segments")


def test_many_problems_are_counted(tmp_path: Path) -> None:
    """A disk full of damage does not flood the terminal; --json has it all."""
    batches = [writer.record_batch([Rec(0, 1000, None, b"v")], base_offset=n) for n in range(200)]
    broken = [flip(62)(batch) if n % 2 else batch for n, batch in enumerate(batches)]
    folder = segment_of(tmp_path, *broken)

    assert "… and 50 more; --json lists them all" in run("verify", folder).stdout
    assert len(answer("verify", folder, "--json", exit_code=1)["problems"]) == 100


@pytest.mark.parametrize("failing", ["read_into", "version"])
def test_a_disk_that_does_not_give_its_bytes(failing: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An I/O error, in the middle of a segment or at once, is a problem of that segment; the others are still
    verified."""
    method = getattr(InputFile, failing)

    def fail(self: InputFile, *arguments: Any) -> Any:
        if SECOND in self.path and self.path.endswith(".log"):
            raise StorageError(f"file {self.path!r} cannot be read: Input/output error")
        return method(self, *arguments)

    monkeypatch.setattr(InputFile, failing, fail)

    problem = one_problem(folder)

    assert "Input/output error" in problem["what"]
    assert problem["path"].endswith(f"{SECOND}.log")
