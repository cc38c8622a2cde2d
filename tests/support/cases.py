"""How many cases a test tries, and which tests take too long for `make test`.

`make test` tries few. `make test-cases` tries many, and so does `.ci/run`. The many include the few. `KAFKASEG_LONG`
tries still more.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")

_WANTS_MANY = os.environ.get("KAFKASEG_CASES") == "many"

takes_long = pytest.mark.skipif(not _WANTS_MANY, reason="it takes long: make test-cases runs it")


def count_cases(few: int, many: int) -> int:
    """Returns the number of cases that the environment asks for (`KAFKASEG_CASES=many`)."""
    return many if _WANTS_MANY else few


def choose_cases(cases: Iterable[T], one_of: int) -> list[T]:
    """Returns all cases where the environment asks for many, and else one of so many."""
    return list(cases)[:: 1 if _WANTS_MANY else one_of]
