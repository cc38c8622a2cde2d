"""Where this package says what a user should know and no return value carries: one logger, to standard error by
default.

And how it says the same of many things, and how far long work is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

logger = logging.getLogger("kafka_segment_source")

_MOST_SAID = 5

OnProgress = Callable[[int, int], None]
"""Is told how many bytes are done, and how many there are to do."""
Advance = Callable[[int], None]
"""Is told how many bytes more are done."""


def ignore_progress(done: int, total: int) -> None:
    """The OnProgress that does nothing."""


def add_up(total: int, on_progress: OnProgress) -> Advance:
    """Makes an Advance that tells `on_progress` the sum of what it was told."""
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        on_progress(done, total)

    return advance


def few(sentences: Iterable[str]) -> list[str]:
    """The first of many sentences, the last of them with how many more there are like it."""
    said = list(sentences)
    more = len(said) - _MOST_SAID
    return said if more <= 0 else [*said[: _MOST_SAID - 1], f"{said[_MOST_SAID - 1]} (and {more:,} more like it)"]
