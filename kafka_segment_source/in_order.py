"""Several threads work on pieces of a sequence, and the results come in the order of the sequence.

`InOrder` takes one piece after the other from an iterator, so the iterator itself runs in one thread at a time. The
pieces are worked on at the same time. What is done too early waits, up to a number of bytes. The caller's thread works
too, where the next result is not ready. A thread never waits for the caller: where nothing more may be done early, it
ends, and the caller's next step starts it again. So a caller that stops asking leaves no thread at work.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from kafka_segment_source.errors import UsageError

_PIECES_AHEAD = 8  # for each thread: pieces that were begun before their turn; each may have an open file


Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class Piece(Protocol[Result_co]):
    """A piece of work."""

    size: int
    """Bytes that it keeps in memory while it is worked on."""

    def results(self) -> Iterator[tuple[Result_co, int]]:
        """Yields its results, each with its size in bytes. Any thread may take the next one."""

    def release(self) -> None:
        """Is called when its last result was made, or is not wanted. It gives back what the work needed."""


AnyPiece = TypeVar("AnyPiece", bound=Piece)  # type: ignore[type-arg]  # of any results

_place = threading.local()  # `is_worker`: of a thread of any InOrder


def count_processors() -> int:
    """Returns how many threads of this process can run at the same time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Slot(Generic[AnyPiece, Result]):
    """A piece, and how far it is. `work` is None until a thread has begun it, and `is_at_work` while one does."""

    __slots__ = ("error", "is_at_work", "is_done", "is_wanted", "piece", "ready", "work")

    def __init__(self, piece: AnyPiece) -> None:
        self.piece = piece
        self.ready: deque[tuple[Result, int]] = deque()
        self.work: Iterator[tuple[Result, int]] | None = None
        self.error: BaseException | None = None
        self.is_at_work = True
        self.is_done = False
        self.is_wanted = True


class InOrder(Generic[AnyPiece, Result]):
    """A context manager over the threads. Call `next_piece`, and then `results` of this piece, in turns.

    pieces: is used by one thread at a time.
    threads: at most this number work at the same time, with the caller's.
    most: bytes of pieces and results that may wait. The first piece in order goes on even beyond that, one result at a
    time.
    """

    def __init__(self, pieces: Iterator[AnyPiece], threads: int, most: int) -> None:
        self._pieces = pieces
        self._threads = threads
        self._most = most
        self._changed = threading.Condition()  # its lock may be taken twice: a garbage collection may call `close`
        self._slots: deque[_Slot[AnyPiece, Result]] = deque()
        self._held = 0  # bytes of pieces at work, and of results that wait
        self._working = 0  # threads beside the caller's
        self._is_starting = False  # a thread was started that does not work yet
        self._is_taking = False  # a thread takes the next piece
        self._is_at_end = False  # no piece follows
        self._error: BaseException | None = None  # of `pieces`; it comes in the place of the next piece
        self._is_closed = False
        self._is_forked = False  # this is the copy in a process that was forked meanwhile: its threads are elsewhere
        _living.add(self)

    # ---- the caller ----

    def next_piece(self) -> AnyPiece | None:
        """Returns the next piece in order, or None after the last one. Raises the error of the iterator there.

        The results of the piece before it are no longer wanted.
        """
        self._check_process()
        with self._changed:
            if self._slots:
                self._drop_first()
        while True:
            with self._changed:
                if self._slots:
                    return self._slots[0].piece
                if self._is_at_end:
                    if self._error is not None:
                        raise self._error
                    return None
            self._help(lambda: bool(self._slots) or self._is_at_end)

    def results(self) -> Iterator[Result]:
        """Yields the results of the piece that `next_piece` returned. Raises its error in the place of a result."""
        slot = self._slots[0]
        while True:
            self._check_process()
            with self._changed:
                result = slot.ready.popleft() if slot.ready else None
                if result is not None:
                    self._held -= result[1]
                    self._start_thread()
                elif slot.is_done:
                    if slot.error is not None:
                        raise slot.error
                    return
            if result is not None:
                yield result[0]
            else:
                self._help(lambda: bool(slot.ready) or slot.is_done)

    def close(self) -> None:
        """Ends all work, and waits until no thread is in it. What the pieces have kept is given back."""
        if self._is_forked:
            return
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            # A garbage collection in a thread of any InOrder may end the caller. That thread must not wait for itself.
            while self._working and not getattr(_place, "is_worker", False):
                self._changed.wait()
            if not self._working:
                self._clean_up()

    def __enter__(self) -> InOrder[AnyPiece, Result]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_process(self) -> None:
        if self._is_forked:
            raise UsageError(
                "a reader with several threads cannot go on in a process that was forked from the one that began it;"
                " make another reader there, or read with threads=1"
            )

    # ---- the state. All of these are called with the lock ----

    def _start_thread(self) -> None:
        """Starts a thread if there is work for one more. It starts the next one when it has taken a piece.

        If the system has no thread to give, none is asked for again: the caller's thread does the work.
        """
        if self._is_starting or self._working >= self._threads - 1 or self._is_closed or not self._has_work():
            return
        self._is_starting = True  # until the thread is here
        with suppress(RuntimeError):
            threading.Thread(target=self._work, name="kafkaseg-scan").start()

    def _has_work(self) -> bool:
        return self._find_paused() is not None or self._may_take()

    def _may_take(self) -> bool:
        if self._is_at_end or self._is_taking or len(self._slots) >= _PIECES_AHEAD * self._threads:
            return False
        return self._held < self._most or not self._slots

    def _find_paused(self) -> _Slot[AnyPiece, Result] | None:
        for slot in self._slots:
            if not slot.is_at_work and not slot.is_done and self._may_go_on(slot):
                return slot
        return None

    def _may_go_on(self, slot: _Slot[AnyPiece, Result]) -> bool:
        return slot.is_wanted and (self._held < self._most or (slot is self._slots[0] and not slot.ready))

    def _drop_first(self) -> None:
        """Drops the first piece. If a thread is at work on it, that thread gives back what the piece has kept."""
        slot = self._slots.popleft()
        slot.is_wanted = False
        self._held -= sum(size for _, size in slot.ready)
        slot.ready.clear()
        if not slot.is_done and not slot.is_at_work:
            self._finish(slot)
        while slot.is_at_work and self._working:  # it may use a file that the caller is about to close
            self._changed.wait()

    def _finish(self, slot: _Slot[AnyPiece, Result]) -> None:
        slot.is_done, slot.work = True, None
        self._held -= slot.piece.size
        slot.piece.release()

    def _clean_up(self) -> None:
        """Closes the iterator of pieces, and gives back what they have kept. No thread is at work."""
        while self._slots:
            self._drop_first()
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()

    # ---- the work. All of these take the lock themselves ----

    def _work(self) -> None:
        """Works as long as there is something to do. It runs in a thread."""
        _place.is_worker = True
        with self._changed:
            self._is_starting = False
            if self._is_closed:
                return
            self._working += 1
        try:
            while self._is_wanted():
                slot = self._begin()
                if slot is not None:
                    self._go_on(slot)
        finally:
            with self._changed:
                self._working -= 1
                if self._is_closed and not self._working:
                    self._clean_up()
                self._changed.notify_all()

    def _is_wanted(self) -> bool:
        """Whether a thread has something to do. It waits while another thread takes a piece."""
        with self._changed:
            while self._is_taking and not self._is_closed and not self._has_work():
                self._changed.wait()
            return not self._is_closed and self._has_work()

    def _help(self, is_ready: Callable[[], bool]) -> None:
        """Does one step of the work in the caller's thread. If none can be done, it waits for another thread's.

        is_ready: whether there is what the caller needs. It may be there by now: then nobody would end the wait.
        """
        with self._changed:
            self._start_thread()
            if not self._has_work():
                if not is_ready():
                    self._changed.wait()
                return
        slot = self._begin()
        if slot is not None:
            self._go_on(slot, most=1)
        error = self._error if slot is None else slot.error
        if error is not None and not isinstance(error, Exception):  # an interrupt does not wait for its place
            raise error

    def _begin(self) -> _Slot[AnyPiece, Result] | None:
        """Returns a piece to work on: the first one that was left, or else a new one. None: there is none now."""
        with self._changed:
            slot = self._find_paused()
            if slot is not None:
                slot.is_at_work = True
                return slot
            if not self._may_take():
                return None
            self._is_taking = True
        return self._take()

    def _take(self) -> _Slot[AnyPiece, Result] | None:
        slot: _Slot[AnyPiece, Result] | None = None
        error = None
        try:
            slot = _Slot(next(self._pieces))
        except StopIteration:
            pass
        except BaseException as raised:  # it is the caller's, in its place
            error = raised
        with self._changed:
            self._is_taking = False
            if slot is None:
                self._is_at_end, self._error = True, error
            else:
                self._slots.append(slot)
                self._held += slot.piece.size
            self._changed.notify_all()
            self._start_thread()
        return slot

    def _go_on(self, slot: _Slot[AnyPiece, Result], most: int | None = None) -> None:
        """Works on a piece until it is done, until it has made `most` results, or until they take too much memory."""
        made = 0
        is_at_work = True
        while is_at_work:
            result: tuple[Result, int] | None = None
            is_done = False
            try:
                if slot.work is None:
                    slot.work = slot.piece.results()
                result = next(slot.work, None)
                is_done = result is None
            except BaseException as raised:  # it is the caller's, in its place
                is_done, slot.error = True, raised
            made += 1
            with self._changed:
                if result is not None and slot.is_wanted:
                    slot.ready.append(result)
                    self._held += result[1]
                if is_done or self._is_closed or made == most or not self._may_go_on(slot):
                    slot.is_at_work = is_at_work = False
                    if is_done or not slot.is_wanted:
                        self._finish(slot)
                self._changed.notify_all()


_living: weakref.WeakSet[InOrder[Any, Any]] = weakref.WeakSet()


def _note_fork() -> None:
    """Marks the copies in a forked process. Their threads are in the other one, and their locks may never be free."""
    for work in _living:
        work._is_forked = True


os.register_at_fork(after_in_child=_note_fork)
