"""Cases by number: some of them as a test, any of them by hand: `python -m tests.property.test_hurt_copies 4711`."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable

import pytest

_MOST_FAILED = 30  # cases by hand, then it ends
_MOST_SHOWN = 400  # characters of an error

Check = Callable[[int], str]
"""Tries the case of a number. It returns what happened, in a word, and raises AssertionError if that is wrong."""


def check_part(check: Check, part: int, parts: int, cases: int) -> Counter[str]:
    """Tries one of several equal parts of the first cases, as a test. Returns how often each word came."""
    words: Counter[str] = Counter()
    for number in range(part * cases // parts, (part + 1) * cases // parts):
        try:
            words[check(number)] += 1
        except Exception as error:
            pytest.fail(f"case {number}: {error!r}")
    return words


def run_numbered(arguments: list[str], check: Check, show: Callable[[int], None] = lambda _: None) -> int:
    """Tries cases by hand, and prints those that fail. arguments: the first number, and how many; one by default.

    A single case that fails is shown, and its error is raised. `--stop` ends with the first one that fails. Returns the
    exit status.
    """
    logging.disable(logging.CRITICAL)
    most_failed = 0 if "--stop" in arguments else _MOST_FAILED
    first, count = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 1
    words: Counter[str] = Counter()
    failed, began = 0, time.monotonic()
    for number in range(first, first + count):
        try:
            words[check(number)] += 1
        except Exception as error:
            failed += 1
            print(f"case {number}: {type(error).__name__} {str(error)[:_MOST_SHOWN]}", flush=True)
            if count == 1:
                show(number)
                raise
            if failed > most_failed:
                break
    print(f"{words.total() + failed} cases, {failed} failed, {dict(words)}, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0
