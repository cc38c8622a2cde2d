"""Several reads at a time, where a read takes a round trip of the network.

`map_ahead` works on the next items in threads, and gives the results in order. `RangeReader` fetches the next ranges of
one object in threads, while its caller works on the range before them. A local file system needs neither.

A fork copies no threads, so each process has its own.
"""

from __future__ import annotations

import concurrent.futures  # it loads its classes when they are first used
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

from kafka_segment_source.storage.store import Storage

RANGE_BYTES = 4 * 1024 * 1024  # of one request
RANGES_AT_ONCE = 4  # under way for one open object
_FILES_AT_ONCE = 8  # of files that are read whole, each with its ranges
_PIECES = RANGES_AT_ONCE + 2  # of it in memory: those, and two that are read, so at most 24 MiB
_THREADS = 64  # of one level
# Levels of threads. A level never waits for itself, so that no thread waits for ever.
_DEEPEST = 2  # `map_ahead`: partitions, and inside it the segments of each
_TOGETHER = 3  # `run_together`: the files of a segment
_RANGES = 4  # `RangeReader`: the ranges of a file

T = TypeVar("T")
Item = TypeVar("Item")

_pools: dict[tuple[int, int], concurrent.futures.ThreadPoolExecutor] = {}  # by process and level
_place = threading.local()  # `level`: of the thread that runs


def requests_at_once(places: Iterable[tuple[Storage, str]]) -> int:
    """Returns how many of these files or directories are worth a thread each, as the `at_once` of `map_ahead`.

    It is 1 where none of them takes a round trip. places: each with its storage.
    """
    return max((storage.read_cost(path).at_once for storage, path in places), default=1)


def map_ahead(action: Callable[[Item], T], items: Iterable[Item], at_once: int) -> Iterator[T]:
    """Returns the results of `action` for all items, in order. An error comes in the place of its result.

    If the caller ends early, items that are not begun are left out.

    at_once: items that threads work on at the same time. 1: the items are done one by one, when they are asked for.
    """
    if at_once <= 1:
        return _map_one_by_one(action, items)
    level = getattr(_place, "level", 0)
    todo = list(items)
    if len(todo) <= 1 or level >= _DEEPEST:
        return _map_one_by_one(action, todo)
    return _map_in_threads(action, todo, at_once, _find_pool(level + 1))


def _map_one_by_one(action: Callable[[Item], T], items: Iterable[Item]) -> Generator[T, None, None]:
    """As `map`, but a StopIteration of `action` is an error (PEP 479). `map` would end there, as if there were no more
    items."""
    for item in items:
        yield action(item)


def _map_in_threads(
    action: Callable[[Item], T], todo: list[Item], at_once: int, pool: concurrent.futures.ThreadPoolExecutor
) -> Generator[T, None, None]:
    begun: deque[concurrent.futures.Future[T]] = deque()
    try:
        for item in todo:
            begun.append(pool.submit(action, item))
            if len(begun) == at_once:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        for future in begun:
            future.cancel()


class Turns:
    """Lets a number of threads work at the same time, on items that are nested: partitions, and the segments of each.

    threads: at least 1.
    at_once: as in `map_ahead`; more than 1 where a read takes a round trip.
    """

    def __init__(self, threads: int = 1, at_once: int = 1) -> None:
        self.count = max(threads, min(at_once, _FILES_AT_ONCE))
        self._free = threading.Semaphore(self.count)

    def map(self, action: Callable[[Item], T], items: Iterable[Item]) -> Iterator[T]:
        """Returns the results of `action` in order, as `map_ahead` does. `action` has a turn while it runs."""

        def take_turn(item: Item) -> T:
            with self._free:
                return action(item)

        return map_ahead(take_turn, items, self.count)


def run_together(*actions: Callable[[], object]) -> None:
    """Runs all at the same time, and ends with the last of them. Raises the first error in their order."""
    begun = [_find_pool(_TOGETHER).submit(action) for action in actions]
    concurrent.futures.wait(begun)
    for future in begun:
        future.result()


class RangeReader:
    """The bytes of one range, fetched in pieces. Some of them are always under way.

    Read it from its start to its end. A read may begin before the end of the last one, in the same piece or in the
    last one that it touched.
    """

    def __init__(self, fetch: Callable[[int, int], Any], start: int, end: int) -> None:
        """fetch: position and count → the bytes there, as a buffer. The range has start ≤ position < end."""
        self._fetch = fetch
        self._pieces: deque[tuple[int, int, concurrent.futures.Future[Any]]] = deque()  # from, to, bytes
        self._next = start
        self._end = end
        self._begin_next()

    def read_into(self, position: int, target: memoryview) -> int:
        """Fills `target` from `position`, and returns the number of bytes. It is 0 if they are outside the range."""
        while self._pieces and self._pieces[0][1] <= position:
            self._drop_first()
        done = slot = 0
        while done < len(target) and self._pieces:
            if slot == len(self._pieces):
                if self._next >= self._end:
                    break
                self._drop_first()  # a long read uses up its pieces
                slot -= 1
            start, end, future = self._pieces[slot]
            at = position + done
            if at < start:
                break
            data = memoryview(future.result())[at - start : at - start + len(target) - done]
            target[done : done + len(data)] = data
            done += len(data)
            if at + len(data) < end:
                break  # the target is full, or the object has ended
            slot += 1
        return done

    def holds(self, position: int, count: int) -> bool:
        """Whether all these bytes are at hand, or under way."""
        return bool(self._pieces) and self._pieces[0][0] <= position and position + count <= self._pieces[-1][1]

    @property
    def is_all_under_way(self) -> bool:
        """Whether no piece is left to begin."""
        return self._next >= self._end

    def close(self) -> None:
        """Begins no more requests."""
        self._next = self._end
        for *_, future in self._pieces:
            future.cancel()
        self._pieces.clear()

    def _drop_first(self) -> None:
        self._pieces.popleft()
        self._begin_next()

    def _begin_next(self) -> None:
        while self._next < self._end and len(self._pieces) < _PIECES:
            start, end = self._next, min(self._next + RANGE_BYTES, self._end)
            future = _find_pool(_RANGES).submit(self._fetch, start, end - start)
            self._pieces.append((start, end, future))
            self._next = end


def _find_pool(level: int) -> concurrent.futures.ThreadPoolExecutor:
    """Returns the threads of a level in this process."""
    key = os.getpid(), level
    pool = _pools.get(key)
    if pool is None:
        made = concurrent.futures.ThreadPoolExecutor(
            _THREADS, f"kafkaseg-{level}", initializer=_set_level, initargs=(level,)
        )
        pool = _pools.setdefault(key, made)
    return pool


def _set_level(level: int) -> None:
    _place.level = level
