"""scanning: several threads give the rows of one, within a bound of memory, and leave nothing behind."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from benchmarks.logs import LogShape, log
from kafka_segment_source import scanning_threads
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.errors import CorruptRecordError, KafkaSegmentError, OptionError, UsageError
from kafka_segment_source.in_order import InOrder
from kafka_segment_source.planning import plan as plan_module
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.scanning import read_splits
from kafka_segment_source.scanning_threads import read_splits_in_threads
from kafka_segment_source.storage.store import ReadCost
from tests.support import writer
from tests.support.chunks import read_in_chunks
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
SCHEMA = RECORDS.arrow_schema(["offset", "value"])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two segments of 400 kB, in batches of 4 KiB."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKASEG_BENCH_DIR", str(tmp_path_factory.mktemp("log")))
        return log(LogShape(6_000, "lz4", segments=2, batch_bytes=4096)).path


@pytest.fixture(autouse=True)
def _many_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small log has many chunks, and is worth several threads."""
    read_in_chunks(monkeypatch, 20_000)
    monkeypatch.setattr(plan_module, "_BYTES_A_THREAD", 1)
    monkeypatch.setattr(scanning_threads, "_BYTES_A_THREAD", 1)
    monkeypatch.setattr(scanning_threads, "_MOST_WAITING", 100_000)


def scan_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("kafkaseg-scan")]


def open_segments(directory: Path) -> list[str]:
    """The files of a directory that this process has open."""
    names = []
    for each in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{each}"))
        except OSError:
            continue
    return [name for name in names if Path(name).parent == directory]


def hurt(directory: Path, to: Path, at: float) -> Path:
    """A copy of the log with a wrong byte in its first segment."""
    copy = to / directory.name
    copy.mkdir()
    for path in directory.iterdir():
        data = bytearray(path.read_bytes())
        if path.name == "00000000000000000000.log":
            data[int(len(data) * at)] ^= 1
        (copy / path.name).write_bytes(data)
    return copy


@pytest.mark.parametrize(
    "options", [{}, {"isolationLevel": "read_committed"}, {"view": "batches", "checkCrcs": True}, {"view": "latest"}]
)
def test_the_batches_are_those_of_one_thread(
    directory: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same Arrow batches in the same order, and three threads decode them at the same time: the caller's too."""
    one = kafkaseg.scan(directory, threads=1, **options).read_all().to_batches()
    meeting, looking = threading.Barrier(3), threading.Lock()
    decoding: set[int] = set()
    make = scanning_threads._Piece.results

    def results(piece: Any) -> Iterator[Any]:
        with looking:
            is_new = threading.get_ident() not in decoding and len(decoding) < 3
            decoding.add(threading.get_ident())
        if is_new:
            meeting.wait(30)
        return make(piece)

    monkeypatch.setattr(scanning_threads._Piece, "results", results)
    assert [*kafkaseg.scan(directory, threads=3, **options)] == one
    assert threading.get_ident() in decoding and len(decoding) >= 3
    assert len(one) > (3 if options.get("view") == "latest" else 10)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of threads of all reads that take more than one, on a machine of three processors."""
    noted: list[int] = []

    def note(*arguments: Any) -> Any:
        noted.append(arguments[-1])
        return iter(())

    monkeypatch.setattr(scanning_threads, "read_splits_in_threads", note)
    monkeypatch.setattr(plan_module, "count_processors", lambda: 3)
    return noted


def test_the_default_is_every_processor_for_compressed_batches(
    directory: Path, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`scan`, a plan's reader and a dataset take as many threads as there are processors, and four at most."""
    for threads in (None, 1, 7):
        kafkaseg.scan(directory, threads=threads).read_all()
        kafkaseg.plan(directory).to_reader(threads=threads).read_all()
        kafkaseg.dataset(directory, threads=threads).to_table()
    assert asked == [3, 3, 3, 7, 7, 7]
    monkeypatch.setattr(plan_module, "count_processors", lambda: 64)
    kafkaseg.scan(directory).read_all()
    assert asked[-1] == 4


def test_the_default_is_one_thread_for_others(directory: Path, tmp_path: Path, asked: list[int]) -> None:
    """Two are hardly faster for plain batches, of headers alone and in a bucket. Nor is a file read that is gone."""
    shutil.copytree(directory, tmp_path / "events-0")
    plain = writer.record_batch([writer.Rec(number, 1, b"key", bytes(1000)) for number in range(100)])
    (tmp_path / "events-0" / "00000000000000000000.log").write_bytes(plain * 20)
    plan = kafkaseg.plan(tmp_path, assign={"events": [0]})
    kafkaseg.scan(directory, view="batches").read_all()
    assert next(plan.to_reader(), None) is not None
    for path in tmp_path.glob("*/*.log"):
        path.unlink()
    with pytest.raises(KafkaSegmentError):
        plan.to_reader().read_all()
    far = plan.splits[0]._replace(storage=Far(ReadCost(at_once=8, block=65_536)))  # type: ignore[arg-type]  # nothing else is asked
    assert not plan_module._begins_compressed(far)
    assert asked == []


class Far:
    """A bucket, as far as the choice of threads asks."""

    def __init__(self, cost: ReadCost) -> None:
        self._cost = cost

    def read_cost(self, _: str) -> ReadCost:
        return self._cost


def test_the_newest_records_take_every_processor(directory: Path, tmp_path: Path, asked: list[int]) -> None:
    """Of plain batches too, but not in a bucket: two threads take turns with the map."""
    plain = writer.record_batch([writer.Rec(number, 1, b"key", bytes(1000)) for number in range(100)])
    (tmp_path / "events-0").mkdir()
    (tmp_path / "events-0" / "00000000000000000000.log").write_bytes(plain * 20)
    kafkaseg.scan(tmp_path, view="latest").read_all()
    assert asked == [3]
    plan = kafkaseg.plan(tmp_path, view="latest")
    far = plan.splits[0]._replace(storage=Far(ReadCost(at_once=8, block=65_536)))  # type: ignore[arg-type]  # nothing else is asked
    assert replace(plan, splits=(far,))._choose_threads() == 1


def test_the_newest_records_of_a_small_partition_take_one(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are started for each partition anew, of which there may be thousands."""
    began: list[object] = []
    monkeypatch.setattr(scanning_threads, "InOrder", lambda *arguments: began.append(arguments) or InOrder(*arguments))
    one = kafkaseg.scan(directory, view="latest", threads=3).read_all()
    assert len(began) == 2  # a pass each
    monkeypatch.setattr(scanning_threads, "_BYTES_A_THREAD", 500_000)
    assert kafkaseg.scan(directory, view="latest", threads=3).read_all() == one
    assert len(began) == 2


def test_little_data_takes_one_thread(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread is started only for some megabytes."""
    monkeypatch.undo()
    assert kafkaseg.scan(directory, threads=8).read_next_batch().num_rows > 0
    assert not scan_threads()


def test_what_is_no_number_of_threads(directory: Path) -> None:
    """The error comes before anything is read."""
    with pytest.raises(OptionError, match=r"^threads is 0: expected a number of at least 1$"):
        kafkaseg.scan(directory, threads=0)
    with pytest.raises(OptionError, match=r"^threads is 'all'"):
        kafkaseg.plan(directory).to_reader(threads="all")  # type: ignore[arg-type]


@pytest.mark.parametrize("batches", [0, 1, 5])
def test_a_reader_that_is_dropped_early_leaves_nothing(directory: Path, batches: int) -> None:
    """No thread, and no open file."""
    reader = kafkaseg.scan(directory, threads=3)
    for _ in range(batches):
        reader.read_next_batch()
    del reader
    wait_until(lambda: not scan_threads())
    assert not open_segments(directory)


def test_a_reader_that_waits_has_no_thread_at_work(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that wait have at most their bound, and one batch more of each thread. The open files are few."""
    sizes: list[int] = []
    begun: list[InOrder[Any, Any]] = []

    class Noted(InOrder[Any, Any]):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            begun.append(self)

    def results(piece: Any) -> Iterator[Any]:
        for rows, size in make(piece):
            sizes.append(size)
            yield rows, size

    make = scanning_threads._Piece.results
    monkeypatch.setattr(scanning_threads._Piece, "results", results)
    monkeypatch.setattr(scanning_threads, "InOrder", Noted)
    reader = kafkaseg.scan(directory, threads=2)
    reader.read_next_batch()
    wait_until(lambda: not (begun[0]._working or begun[0]._is_starting))
    assert sum(sizes) <= 2 * 100_000 + 3 * max(sizes)
    assert len(open_segments(directory)) <= 2
    assert reader.read_all().num_rows > 5000
    assert sum(sizes) > 3 * 2 * 100_000


def test_an_error_comes_after_the_same_rows(directory: Path, tmp_path: Path) -> None:
    """Damage in the middle: the rows before it come first, and the threads end."""
    path = hurt(directory, tmp_path, 0.6)
    found: dict[int, tuple[int, str]] = {}
    for threads in (1, 4):
        rows: list[int] = []
        with pytest.raises(CorruptRecordError) as caught:
            rows.extend(batch.num_rows for batch in kafkaseg.scan(path, ["offset"], threads=threads))
        found[threads] = sum(rows), str(caught.value)
    assert found[1] == found[4]
    assert 0 < found[1][0] < 6000
    wait_until(lambda: not scan_threads())


def test_a_warning_is_logged_once(directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A batch that is skipped is one warning."""
    path = hurt(directory, tmp_path, 0.6)
    with caplog.at_level(logging.WARNING):
        rows = kafkaseg.scan(path, ["offset"], threads=4, mode="DROPMALFORMED").read_all().num_rows
    assert 0 < rows < 6000
    [record] = caplog.records
    assert "skipped" in record.getMessage()


def test_splits_in_any_order(directory: Path) -> None:
    """The splits are read in the given order, and each is reported when it is done."""
    plan: ReadPlan = kafkaseg.plan(directory, minPartitions=7)
    splits = [plan.splits[at] for at in (5, 0, 3, 3)]
    done: list[int] = []
    found = [*read_splits_in_threads(splits, plan.reading, SCHEMA, done.append, 3)]
    assert found == [*read_splits(splits, plan.reading, SCHEMA)]
    assert done == [split.size for split in splits]


_INTERRUPTED = """
import sys, threading, time
import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding import record_rows
slow = record_rows.RecordRows.rows
def rows(self, chunk):
    sys.stdout.write("decoding\\n")  # at once: two threads come here
    sys.stdout.flush()
    time.sleep(0.2)
    yield from slow(self, chunk)
record_rows.RecordRows.rows = rows
try:
    for batch in kafkaseg.scan(sys.argv[1], threads=2):
        pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_an_interrupt_ends_it(directory: Path) -> None:
    """SIGINT ends a scan that waits for its threads, as it ends one without threads."""
    code = f"from kafka_segment_source.planning import plan\nplan._BYTES_A_THREAD = 1\n{_INTERRUPTED}"
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(directory)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "decoding\n"
    child.send_signal(signal.SIGINT)
    printed, complaint = child.communicate(timeout=60)
    assert printed.endswith("interrupted\n"), complaint
    assert child.returncode == 0
    assert complaint == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("begun", [False, True])
def test_a_forked_process_says_that_it_cannot_go_on(directory: Path, begun: bool) -> None:
    """It does not wait for threads that are in the other process, nor for their locks. A reader of its own works."""
    reader = kafkaseg.scan(directory, ["offset"], threads=3)
    rows = reader.read_next_batch().num_rows if begun else 0
    child = os.fork()
    if child == 0:
        status = 1
        try:
            own = kafkaseg.scan(directory, ["offset"], threads=3).read_all().num_rows
            try:
                rest = reader.read_all().num_rows
                status = 0 if not begun and rest == own else 2
            except UsageError:
                status = 0 if begun else 3
            del reader
        finally:
            os._exit(status)
    ended: list[int] = []

    def has_ended() -> bool:
        found, status = os.waitpid(child, os.WNOHANG)
        ended.extend([status] if found else [])
        return bool(found)

    try:
        wait_until(has_ended)
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        raise
    assert [os.waitstatus_to_exitcode(status) for status in ended] == [0]
    assert rows + reader.read_all().num_rows == kafkaseg.scan(directory, ["offset"], threads=1).read_all().num_rows
