"""Repeats an action while a broker changes the files, and waits between two tries."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from kafka_segment_source.errors import FileChangedError

T = TypeVar("T")

_TRIES = 20  # most tries of an action while files change
_QUICK_TRIES = 4  # tries without a pause; a broker renames the files of one segment in less time
_PAUSE = 0.002  # s; each pause is twice as long as the one before
_LONGEST_PAUSE = 0.25  # s; 20 tries take about 3 s


def try_again(action: Callable[[], T], tries: int = _TRIES) -> T:
    """Returns the result of `action`. It repeats the action, with pauses, while that raises FileChangedError.

    The last FileChangedError is raised.
    """
    for at in range(1, tries):
        with suppress(FileChangedError):
            return action()
        pause(at)
    return action()


def pause(tries: int) -> None:
    """Waits before another try. The wait grows with the number of tries."""
    if tries >= _QUICK_TRIES:
        wait(min(_PAUSE * 2 ** (tries - _QUICK_TRIES), _LONGEST_PAUSE))


def wait(seconds: float) -> None:
    """Waits. All waits of the package for changing files call `retrying.wait`, so that a test can replace it."""
    time.sleep(seconds)
