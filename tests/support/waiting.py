"""Waits for what other threads or processes do."""

from __future__ import annotations

import time
from collections.abc import Callable

_SECONDS = 60


def wait_until(is_done: Callable[[], bool]) -> None:
    """Returns when `is_done` answers true. Raises AssertionError if it has not after a minute."""
    end = time.monotonic() + _SECONDS
    while not is_done():
        assert time.monotonic() < end, "what was waited for did not happen"
        time.sleep(0.01)
