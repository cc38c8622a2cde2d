"""Reports to the user what no return value carries. It has one logger, which writes to standard error by default.

It also shortens lists of similar sentences, and reports the progress of long work.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

logger = logging.getLogger("kafka_segment_source")

_MOST_SENTENCES = 5

OnProgress = Callable[[int, int], None]
"""Is called with the number of bytes that are done, and the number of all bytes."""
Advance = Callable[[int], None]
"""Is called with the number of further bytes that are done."""


REMARK = {"is_remark": True}
"""`extra` of a warning that says what a read does, and not that data is damaged or lost."""


def ignore_progress(done: int, total: int) -> None:
    """An OnProgress that does nothing."""


def add_up(total: int, on_progress: OnProgress) -> Advance:
    """Returns an Advance that calls `on_progress` with the sum of all its calls. Several threads may call it."""
    done = 0
    lock = threading.Lock()

    def advance(count: int) -> None:
        nonlocal done
        with lock:
            done += count
            on_progress(done, total)

    return advance


def few(sentences: Iterable[str], most: int = _MOST_SENTENCES) -> list[str]:
    """Returns the first few of many sentences. The last one states how many similar ones are left out."""
    listed = list(dict.fromkeys(sentences))
    more = len(listed) - most
    if more <= 0:
        return listed
    return [*listed[: most - 1], f"{listed[most - 1]} (and {more:,} more like it)"]
