"""Reports to the user what no return value carries. It has one logger, which writes to standard error by default.

It also shortens lists of similar sentences, and reports the progress of long work.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Self, TypeVar

logger = logging.getLogger("kafka_segment_source")

_MOST_SENTENCES = 5

T = TypeVar("T")

OnProgress = Callable[[int, int], None]
"""Is called with the number of bytes that are done, and the number of all bytes."""
Advance = Callable[[int], None]
"""Is called with the number of further bytes that are done."""


REMARK = {"is_remark": True}
"""`extra` of a warning that says what a read does, and not that data is damaged or lost."""
DAMAGE = {"is_damage": True}
"""`extra` of a warning that says that damage was left out."""


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


class Warned(str):
    """A sentence for the user that many partitions or segments may have.

    kind: the same for all such sentences, in words without numbers or names.
    """

    kind: str

    def __new__(cls, sentence: str, kind: str = "") -> Self:
        """A copy by pickle gives the kind afterwards."""
        self = super().__new__(cls, sentence)
        self.kind = kind
        return self


class Warnings(list[str]):
    """Collects what the driver says to the user: one sentence for each problem. The results for users end with them."""

    def add(self, sentence: str, kind: str | None = None) -> None:
        """Adds a sentence.

        kind: of a sentence that many partitions or segments may have. Where there are too many, the first of each kind
            is shown.
        """
        self.append(sentence if kind is None else Warned(sentence, kind))

    def add_all(self, sentences: Iterable[str], kind: str) -> None:
        """Adds several sentences of one kind."""
        self.extend(Warned(sentence, kind) for sentence in sentences)

    def add_new(self, sentences: Iterable[str]) -> None:
        """Adds the sentences that are not there yet: a listing that was made again says the same again."""
        known = set(self)
        self.extend(sentence for sentence in sentences if sentence not in known)


def log_warnings(warnings: Iterable[str]) -> None:
    """Writes warnings to the log, where a function has no other place for them."""
    for warning in warnings:
        logger.warning("%s", warning)


def log_skipped(error: Exception, end: int | None = None) -> None:
    """Writes to the log that damage is left out. end: the byte up to which it is (exclusive). None: one batch."""
    up_to = "" if end is None else f" up to byte {end}"
    logger.warning("skipped%s (mode=DROPMALFORMED): %s", up_to, error, extra=DAMAGE)


def first_of_each_kind(sentences: Iterable[str]) -> list[str]:
    """Returns the first sentence of each kind. It states how many others are left out."""
    kinds: dict[str, list[str]] = {}
    for sentence in sentences:
        kinds.setdefault(sentence.kind if isinstance(sentence, Warned) else sentence, []).append(sentence)
    return [add_more(alike[0], len(alike) - 1) for alike in kinds.values()]


def add_more(sentence: str, more: int) -> str:
    """Returns a sentence with the number of those that are like it and left out."""
    return f"{sentence} (and {more:,} more like it)" if more > 0 else sentence


def name_some(things: Sequence[T], most: int, name: Callable[[T], str] = str) -> str:
    """Names the first few of many things, and counts the others: `a, b and 3 more`."""
    more = len(things) - most
    return ", ".join(map(name, things[:most])) + (f" and {more:,} more" if more > 0 else "")


def few(sentences: Iterable[str], most: int = _MOST_SENTENCES) -> list[str]:
    """Returns the first few of many sentences. The last one states how many similar ones are left out."""
    listed = list(dict.fromkeys(sentences))
    more = len(listed) - most
    if more <= 0:
        return listed
    return [*listed[: most - 1], add_more(listed[most - 1], more)]
