"""Hostile neighbours: pipes, devices, directories and absurd sizes in the place of every file that planning reads.

Each is named in a warning or an error, nothing hangs, and memory stays in bounds. Every read runs in a process of its
own with a limit on time, and tells how much memory it took more than the same read of a sound directory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafka_segment_source.errors import StorageError
from kafka_segment_source.logdir.indexes import read_time_index, written_offsets
from kafka_segment_source.storage.files import InputFile
from kafka_segment_source.storage.store import LOCAL
from tests.cli.runner import run
from tests.support.apart import plan_and_scan, run_apart
from tests.support.batches import data as batch
from tests.support.logs import simple_log, simple_segment

SECONDS = 120
MIB = 2**20
GIB = 2**30

CHECKPOINTS = ("log-start-offset-checkpoint", "cleaner-offset-checkpoint")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """orders-0 with segments 0 and 10 of ten offsets each, with indexes; `sound` is another of the kind."""
    entries: dict[str, Any] = {"index": [(3, 1), (7, 3)], "timeindex": [(30, 3), (90, 9)]}
    specs = [batch(base, 10 * base, 10 * base + 10) for base in range(0, 20, 2)]
    segments = (simple_segment(specs[:5], base=0, **entries), simple_segment(specs[5:], base=10))
    simple_log(*segments).write(tmp_path / "sound")
    return simple_log(*segments).write(tmp_path / "data")


def read(path: Path, **options: Any) -> tuple[list[int], list[str], int]:
    """Offsets, warnings of the plan, and how much memory planning took, in MiB."""
    sound = path.parent / "sound" if (path.parent / "sound").exists() else path.parent.parent / "sound"
    offsets, warnings, grown = run_apart(plan_and_scan, str(path), options, str(sound), seconds=SECONDS)
    return offsets, warnings, grown


def put(path: Path, kind: str) -> None:
    """Puts something in the place of a file."""
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "directory":
        path.mkdir()
    else:
        path.touch()
        os.truncate(path, GIB)


KINDS = {
    "pipe": "neither a file nor a directory, but a pipe, a socket or a device",
    "device": "neither a file nor a directory, but a pipe, a socket or a device",
    "directory": "a directory",
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_regular_file(kind: str, folder: Path) -> None:
    """Every file beside the segments that a plan may read is named where it is no file; the rows are all there."""
    beside = [f"{0:020d}.index", f"{0:020d}.timeindex", f"{0:020d}.txnindex", f"{10:020d}.snapshot"]
    odd = [folder / name for name in (*beside, "partition.metadata")]
    checkpoints = [folder.parent / name for name in CHECKPOINTS]
    for path in (*odd, *checkpoints):
        put(path, kind)
    offsets, warnings, _ = read(folder.parent, since=20, isolationLevel="read_committed")
    assert offsets == list(range(2, 20))
    for path in odd:
        assert f"'{path}' is {KINDS[kind]}, so it is not used" in warnings
    for path in checkpoints:
        assert [each for each in warnings if f"checkpoint '{path}' cannot be read" in each and KINDS[kind] in each]


@pytest.mark.parametrize("kind", KINDS)
def test_a_high_watermark_that_is_no_regular_file(kind: str, folder: Path) -> None:
    """Where the option needs the file it is an error that names it."""
    put(folder.parent / "replication-offset-checkpoint", kind)
    done = run("plan", folder, "--end-at", "highWatermark")
    assert done.exit_code == 2 and "replication-offset-checkpoint' cannot be read" in done.stderr


def test_a_high_watermark_that_the_disk_does_not_give(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option is right and the disk fails: exit code 1, not 2."""
    (folder.parent / "replication-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    opened = InputFile.__init__

    def fail(self: InputFile, path: str, *rest: Any) -> None:
        if path.endswith("checkpoint"):
            raise StorageError(f"file {path!r} cannot be read: Input/output error")
        opened(self, path, *rest)

    monkeypatch.setattr(InputFile, "__init__", fail)
    done = run("plan", folder, "--end-at", "highWatermark")
    assert done.exit_code == 1 and "Input/output error" in done.stderr


@pytest.mark.parametrize("suffix", [".log", ".log.swap"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_named_like_a_segment(kind: str, suffix: str, folder: Path) -> None:
    """It may have been a segment: an error that names it."""
    put(folder / f"{20:020d}{suffix}", kind)
    done = run("plan", folder)
    assert done.exit_code == 2 and f"{20:020d}{suffix}' is named like a segment, but is {KINDS[kind]}" in done.stderr


@pytest.mark.parametrize("name", [*CHECKPOINTS, "replication-offset-checkpoint"])
@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "sparse"])
def test_many_kinds_of_checkpoints(kind: str, name: str, folder: Path) -> None:
    """One warning names the checkpoint, and little memory is taken."""
    put(folder.parent / name, kind)
    offsets, warnings, grown = read(folder.parent)
    said = [each for each in warnings if f"checkpoint '{folder.parent / name}' cannot be read" in each]
    assert (offsets, len(said)) == (list(range(20)), len(warnings))
    assert len(said) == 1 or name not in CHECKPOINTS
    assert grown < 200


GARBAGE = {
    "zeros": b"\0" * MIB,
    "line ends": b"0\n7\n" + b"\n" * MIB,
    "one line": b"0\n1\n" + b"x" * MIB,
    "words": b"0\n1\n" + b"x " * (MIB // 2),
    "short lines": b"0\n1\n" + b"a\n" * (MIB // 2),
    "entries": b"0\n1\n" + b"a 0 1\n" * (MIB // 6),
    "the count": b"0\n" + b"9" * MIB,
}


@pytest.mark.parametrize("what", GARBAGE)
def test_a_checkpoint_of_garbage(what: str, folder: Path) -> None:
    """As many bytes as a checkpoint may have, of any kind: a warning, and a small multiple of the bytes in memory."""
    path = folder.parent / "cleaner-offset-checkpoint"
    head, rest = GARBAGE[what][:4], GARBAGE[what][4:]
    with path.open("wb") as file:
        file.write(head)
        for _ in range(63):
            file.write(rest)
    offsets, [warning], grown = read(folder.parent)
    assert offsets == list(range(20))
    assert warning.startswith(f"checkpoint '{path}' is damaged: found ") and len(warning) < 400
    assert grown < 200


@pytest.mark.parametrize("name", [f"{10:020d}.snapshot", "partition.metadata"])
def test_sizes_that_the_listing_gives_away(name: str, folder: Path) -> None:
    """A snapshot or partition.metadata of a gigabyte is named and not read."""
    put(folder / name, "sparse")
    offsets, warnings, grown = read(folder, isolationLevel="read_committed")
    assert offsets == list(range(20))
    assert [each for each in warnings if f"'{folder / name}' has 1,073,741,824 bytes, where at most" in each]
    assert grown < 150


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_an_index_of_zeros(suffix: str, folder: Path) -> None:
    """Padding is legal, however much of it there is: nothing to say, and none of it is read."""
    put(folder / f"{0:020d}{suffix}", "sparse")
    offsets, warnings, grown = read(folder, since=20)
    assert (offsets, warnings) == (list(range(2, 20)), [])
    assert grown < 100
    assert run("verify", folder).exit_code == (suffix == ".txnindex")  # which has no padding


def monotone(path: Path, dtype: list[tuple[str, str]], count: int) -> None:
    """Entries that grow for ever."""
    with path.open("wb") as file:
        for first in range(1, count, 2**20):
            block = np.zeros(min(2**20, count - first), dtype)
            for name, _ in dtype:
                block[name] = np.arange(first, first + len(block))
            file.write(block.tobytes())


@pytest.mark.parametrize("base", [0, 10])
def test_a_time_index_that_grows_for_ever(base: int, folder: Path) -> None:
    """More entries than the log has batches: a warning names the file, memory stays small, and the rows
    are all there."""
    path = folder / f"{base:020d}.timeindex"
    monotone(path, [("timestamp", ">i8"), ("offset", ">i4")], 8 * 2**20)
    if base == 0:
        (folder / f"{10:020d}.log").unlink()
    offsets, warnings, grown = read(folder, since=20)
    assert offsets == list(range(2, 20 if base else 10))
    assert [
        each for each in warnings if each.startswith(f"file '{path}' cannot be the index of its segment: found more")
    ]
    assert grown < 100
    verified = run("verify", folder)
    assert verified.exit_code == 1 and "holds more than 8,192 entries beside a .log of" in verified.stdout
    assert "damaged" in run("ls", folder, columns=200).stdout


def test_entries_are_bounded_whatever_the_log(tmp_path: Path) -> None:
    """Beside a log of two gigabytes an index may have 64 MiB of entries; what is looked at is never more."""
    path = tmp_path / "x.timeindex"
    monotone(path, [("timestamp", ">i8"), ("offset", ">i4")], 6 * 2**20)
    found = read_time_index(str(path), LOCAL, path.stat().st_size, 0, None)
    assert len(found) == 0 and "expected at most 5,592,405 beside a .log of 2,147,483,647 bytes" in str(found.fault)
    half = read_time_index(str(path), LOCAL, 33 * MIB // 12 * 12, 0, None)
    assert len(half) == 33 * MIB // 12 and half.fault is None
    monotone(path, [("offset", ">i4"), ("position", ">i4")], 9 * 2**20)
    assert len(written_offsets(str(path), LOCAL, path.stat().st_size, 0, 2**31 - 1)) == 8 * MIB


def test_many_odd_files_are_said_once(folder: Path) -> None:
    """Five are named, and how many more there are."""
    for base in range(100):
        (folder / f"{base:020d}.snapshot").mkdir()
    _, warnings, _ = read(folder)
    assert len(warnings) == 5 and warnings[-1].endswith(" (and 95 more like it)")


def test_verify_names_what_is_no_index(folder: Path) -> None:
    """It is a note: reads do without such a file."""
    put(folder / f"{0:020d}.index", "pipe")
    done = run("verify", folder, columns=400)
    assert done.exit_code == 0 and f"{0:020d}.index' is neither a file nor a directory" in done.stdout
