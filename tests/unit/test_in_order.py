"""in_order: results of several threads come in the order of the pieces, within bounded memory, and leave no thread."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from kafka_segment_source.errors import OptionError
from kafka_segment_source.in_order import InOrder
from kafka_segment_source.keywords import count_threads
from tests.support.waiting import wait_until


@dataclass
class Steps:
    """A piece that gives numbers. before: is called before each of them. size, each: bytes of it, and of a number."""

    numbers: list[int]
    before: Callable[[int], None] = lambda _: None
    size: int = 0
    each: int = 1
    released: list[int] = field(default_factory=list)

    def results(self) -> Iterator[tuple[int, int]]:
        for number in self.numbers:
            self.before(number)
            yield number, self.each

    def release(self) -> None:
        self.released.append(threading.get_ident())


def collect(pieces: Iterator[Steps], threads: int, most: int = 1000) -> list[int]:
    """All results, in the order in which they come."""
    found: list[int] = []
    with InOrder[Steps, int](pieces, threads, most) as work:
        while work.next_piece() is not None:
            found += work.results()
    return found


def threads_at_work() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("kafkaseg-scan")]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("most", [1, 7, 1000])
def test_results_come_in_order(threads: int, most: int) -> None:
    """However long each piece takes, and however little may wait."""
    pieces = [Steps([*range(at, at + at % 4)], lambda number: time.sleep(number % 3 / 5000)) for at in range(0, 90, 10)]
    assert collect(iter(pieces), threads, most) == [number for piece in pieces for number in piece.numbers]
    assert [len(piece.released) for piece in pieces] == [1] * len(pieces)


def test_pieces_are_worked_on_at_the_same_time() -> None:
    """Two threads meet inside two pieces."""
    meeting = threading.Barrier(2)
    pieces = [Steps([at], lambda _: meeting.wait(10) and None) for at in range(4)]
    assert collect(iter(pieces), 2) == [0, 1, 2, 3]


def test_one_thread_at_a_time_takes_pieces() -> None:
    """The iterator of pieces needs no lock of its own."""
    inside = threading.Lock()

    def pieces() -> Iterator[Steps]:
        for at in range(50):
            assert inside.acquire(blocking=False)
            time.sleep(0.0002)
            inside.release()
            yield Steps([at])

    assert collect(pieces(), 4) == [*range(50)]


def test_little_is_done_early() -> None:
    """While the caller takes nothing, results and pieces have at most `most` bytes, and one more of each thread."""
    made: list[int] = []
    pieces = [Steps([*range(at, at + 10)], made.append, size=5, each=10) for at in range(0, 1000, 10)]
    with InOrder[Steps, int](iter(pieces), 3, 100) as work:
        work.next_piece()
        wait_until(lambda: not (work._working or work._is_starting))
        assert 0 < sum(10 for _ in made) + 5 * 3 <= 100 + 3 * (10 + 5)
        results = work.results()
        assert [next(results) for _ in range(10)] == [*range(10)]


def test_few_pieces_are_begun_early() -> None:
    """However small they are, as each may have an open file."""
    taken: list[int] = []
    pieces = (taken.append(at) or Steps([at], each=0) for at in range(1000))  # type: ignore[func-returns-value]
    with InOrder[Steps, int](pieces, 3, 100) as work:
        work.next_piece()
        wait_until(lambda: not (work._working or work._is_starting))
        assert 3 < len(taken) <= 3 * 8


def test_the_first_piece_goes_on_beyond_the_bound() -> None:
    """A result that is larger than all that may wait comes nevertheless."""
    assert collect(iter([Steps([at, at + 1], each=10**9) for at in range(0, 20, 2)]), 3, 10) == [*range(20)]


def test_an_error_comes_in_its_place() -> None:
    """Results before it come first, although a thread has met the error long before. Later pieces can follow."""

    def fail(number: int) -> None:
        if number == 11:
            raise ValueError("eleven")

    pieces = [Steps([0, 1], lambda _: time.sleep(0.01)), Steps([10, 11, 12], fail), Steps([20])]
    with InOrder[Steps, int](iter(pieces), 3, 100) as work:
        work.next_piece()
        assert [*work.results()] == [0, 1]
        work.next_piece()
        results = work.results()
        assert next(results) == 10
        with pytest.raises(ValueError, match="eleven"):
            next(results)
        assert work.next_piece() is pieces[2]
        assert [*work.results()] == [20]
        assert work.next_piece() is None


def test_an_error_of_the_iterator_comes_after_all_pieces() -> None:
    """And again, if it is asked again."""

    def pieces() -> Iterator[Steps]:
        yield Steps([1], lambda _: time.sleep(0.01))
        raise ValueError("no more")

    with InOrder[Steps, int](pieces(), 2, 100) as work:
        work.next_piece()
        assert [*work.results()] == [1]
        for _ in range(2):
            with pytest.raises(ValueError, match="no more"):
                work.next_piece()


def test_a_caller_that_ends_early_leaves_nothing() -> None:
    """No thread, no piece that is not released, and the iterator is closed."""
    closed: list[bool] = []
    made: list[Steps] = []

    def pieces() -> Iterator[Steps]:
        try:
            while True:
                made.append(Steps([1, 2, 3], lambda _: time.sleep(0.0005)))
                yield made[-1]
        finally:
            closed.append(True)

    with InOrder[Steps, int](pieces(), 3, 20) as work:
        work.next_piece()
        next(work.results())
    assert closed == [True]
    assert made and all(len(piece.released) == 1 for piece in made)
    wait_until(lambda: not threads_at_work())


def test_the_caller_works_too() -> None:
    """Where the next result is not ready. So one thread needs no other."""
    workers: set[int] = set()
    pieces = [Steps([at, at + 1], lambda _: workers.add(threading.get_ident())) for at in range(0, 20, 2)]
    assert collect(iter(pieces), 1) == [*range(20)]
    assert workers == {threading.get_ident()}


@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("delay", [0, 0.0005])
def test_no_change_is_missed(threads: int, delay: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another thread has done between the caller's look and its wait ends no wait later, as it was before."""
    helped = InOrder._help

    def help_late(self: InOrder[Steps, int], is_ready: Callable[[], bool]) -> None:
        if delay:
            time.sleep(delay)
        helped(self, is_ready)

    monkeypatch.setattr(InOrder, "_help", help_late)
    found: list[int] = []

    def collect_often() -> None:
        for _ in range(40):
            found.extend(collect(iter([Steps([at, at + 1]) for at in range(0, 40, 2)]), threads))

    caller = threading.Thread(target=collect_often, daemon=True)
    caller.start()
    caller.join(60)
    assert not caller.is_alive()
    assert found == [*range(40)] * 40


def test_a_system_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's thread does all the work, as under a limit of processes."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert collect(iter([Steps([at]) for at in range(20)]), 3) == [*range(20)]


@pytest.mark.parametrize("place", ["piece", "iterator"])
def test_an_interrupt_of_the_caller_comes_at_once(place: str) -> None:
    """It does not wait for its place, and leaves nothing."""
    made: list[Steps] = []
    stopped = threading.Event()  # until then, the other thread stays in its piece: the caller must work

    def interrupt(here: str) -> None:
        if here == place and threading.current_thread() is threading.main_thread():
            stopped.set()
            raise KeyboardInterrupt

    def work(_: int) -> None:
        interrupt("piece")
        if threading.current_thread() is not threading.main_thread():
            stopped.wait(10)

    def pieces() -> Iterator[Steps]:
        for at in range(100):
            if at:
                interrupt("iterator")
            made.append(Steps([at], work))
            yield made[-1]

    with pytest.raises(KeyboardInterrupt):
        collect(pieces(), 2)
    wait_until(lambda: not threads_at_work())
    assert len(made) < 90 and all(len(piece.released) == 1 for piece in made)


def test_a_thread_never_waits_for_the_caller() -> None:
    """Once all that may wait is there, no thread is at work."""
    with InOrder[Steps, int](iter([Steps([1, 2, 3])] * 50), 3, 10) as work:
        work.next_piece()
        wait_until(lambda: not (work._working or work._is_starting))


def test_a_garbage_collection_in_a_thread_may_end_the_caller() -> None:
    """The thread does not wait for itself, and all is given back in the end."""
    made: list[Steps] = []
    closed: list[bool] = []
    is_garbage = threading.Event()

    def collect_garbage(number: int) -> None:
        if number:
            is_garbage.wait(10)
            gc.collect()

    def pieces() -> Iterator[Steps]:
        try:
            for number in range(5):
                made.append(Steps([number], collect_garbage))
                yield made[-1]
        finally:
            closed.append(True)

    def rows() -> Iterator[int]:
        work: InOrder[Steps, int] = InOrder(pieces(), 2, 100)
        with work:
            while work.next_piece() is not None:
                yield from work.results()

    gc.disable()
    try:
        cycle: list[object] = [rows()]
        cycle.append(cycle)
        assert next(cycle[0]) == 0  # type: ignore[call-overload]
        del cycle  # only a collection ends the rows now, and only their own threads collect
        is_garbage.set()
        wait_until(lambda: closed == [True])
    finally:
        gc.enable()
    wait_until(lambda: not threads_at_work())
    assert made and all(len(piece.released) == 1 for piece in made)


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2"])
def test_what_is_no_number_of_threads(threads: object) -> None:
    """One sentence says what was given, and what is expected."""
    with pytest.raises(OptionError, match=r"^threads is .*: expected a number of at least 1$"):
        count_threads(threads)


def test_the_default_is_the_cores_of_the_process() -> None:
    """At least one; a number is itself."""
    assert count_threads(None) == 1
    assert count_threads(7) == 7
