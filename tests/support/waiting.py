"""Waits for what other threads or processes do, and does without waits where nothing changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kafka_segment_source.storage import retrying

_SECONDS = 60


def wait_until(is_done: Callable[[], bool]) -> None:
    """Returns when `is_done` answers true. Raises AssertionError if it has not after a minute."""
    end = time.monotonic() + _SECONDS
    while not is_done():
        assert time.monotonic() < end, "what was waited for did not happen"
        time.sleep(0.01)


@contextmanager
def without_pauses() -> Iterator[None]:
    """Lets reads try again at once, inside it. For files that no one changes meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrying, "wait", lambda _: None)
        yield
