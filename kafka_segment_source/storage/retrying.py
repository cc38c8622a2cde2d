"""Repeats an action while a broker changes the files, and waits between two tries."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from kafka_segment_source.errors import FileChangedError

T = TypeVar("T")

_TRIES = 20  # most tries of an action while files change
TRIES_IN_A_ROW = 40  # most tries of a read that goes on where it was, without a batch read between them: about 8 s
_QUICK_TRIES = 4  # tries without a pause; a broker renames the files of one segment in less time
_PAUSE = 0.002  # s; each pause is twice as long as the one before
_LONGEST_PAUSE = 0.25  # s; 20 tries take about 3 s
SECOND_LOOK = 0.075  # s between two listings; a broker renames the files of one segment within a few ms


class Attempts:
    """Counts the tries of an action while files change, and waits between them.

    most: how many tries may fail in a row. docs/operating.md has the budget of each action.
    failed: how many have.
    """

    def __init__(self, most: int = TRIES_IN_A_ROW) -> None:
        self._most = most
        self.failed = 0

    def note_progress(self) -> None:
        """The action has come further: the tries before do not count any more."""
        self.failed = 0

    def may_go_on(self) -> bool:
        """Whether a try that has failed may be followed by another one. If so, it waits."""
        self.failed += 1
        if self.failed > self._most:
            return False
        pause(self.failed)
        return True

    def note_failure(self, error: FileChangedError) -> None:
        """Waits before another try. Raises `error` if there were too many."""
        if not self.may_go_on():
            raise error


def try_again(action: Callable[[], T]) -> T:
    """Returns the result of `action`. It repeats the action, with pauses, while that raises FileChangedError.

    The last FileChangedError is raised.
    """
    attempts = Attempts(_TRIES - 1)
    while True:
        try:
            return action()
        except FileChangedError as error:
            attempts.note_failure(error)


def pause(tries: int) -> None:
    """Waits before another try. The wait grows with the number of tries."""
    if tries >= _QUICK_TRIES:
        wait(min(_PAUSE * 2 ** (tries - _QUICK_TRIES), _LONGEST_PAUSE))


def wait_for_second_look(seen: float) -> None:
    """Waits until SECOND_LOOK has passed since a listing. seen: when it was made (time.monotonic)."""
    left = seen + SECOND_LOOK - time.monotonic()
    if left > 0:
        wait(left)


def wait(seconds: float) -> None:
    """Waits. All waits of the package for changing files call `retrying.wait`, so that a test can replace it."""
    time.sleep(seconds)
