"""Why a job failed, in one line: the first cause, not what Spark has wrapped around it."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kafka_segment_source.errors import cause_of

_MOST_KEPT = 1000  # lines of standard error
_SQLSTATE = re.compile(r" SQLSTATE: \w{5}$")
_THROWN = re.compile(r'(?:Exception in thread "main"|Caused by:) (?:[\w.$]+: )?(.*)')


def explain(error: BaseException) -> str:
    """Returns the reason of an error in one line: this package's words, or else Spark's and those of its cause."""
    cause = cause_of(error)
    if cause is not None:
        return _first_line(str(cause)) or type(cause).__name__
    said = [each for each in _list_java_messages(error) if each] or [_first_line(str(error)) or type(error).__name__]
    return said[0] if said[-1] in said[0] else f"{said[0]}: {said[-1]}"


def _list_java_messages(error: BaseException) -> list[str]:
    """Returns the first line of a Java exception, and of each cause. That a stream's query failed says nothing."""
    java = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    said = []
    while java is not None:
        inner = java.getCause()
        if inner is None or not java.getClass().getName().endswith(".StreamingQueryException"):
            said.append(_first_line(java.getMessage() or java.getClass().getSimpleName()))
        java = inner
    return said


def _first_line(text: str) -> str:
    return _SQLSTATE.sub("", (text.strip().splitlines() or [""])[0])


@contextmanager
def hear_jvm() -> Iterator[Callable[[], str | None]]:
    """Keeps what a JVM that is started meanwhile writes to standard error, and passes it on.

    Returns what gives, after the JVM has ended, why it did: the message of the exception that ended it, None without.
    Only its standard error has that. Standard error of this process is its own again afterwards.
    """
    lines: deque[str] = deque(maxlen=_MOST_KEPT)
    own = os.dup(2)
    reading, writing = os.pipe()

    def pass_on() -> None:  # until the JVM ends
        with os.fdopen(reading, "rb") as heard, os.fdopen(os.dup(own), "wb", buffering=0) as out:
            for line in heard:
                out.write(line)
                lines.append(line.decode(errors="replace"))

    thread = threading.Thread(target=pass_on, daemon=True)
    thread.start()

    def find_reason() -> str | None:
        thread.join(timeout=10)
        thrown = [found[1].strip() for found in map(_THROWN.match, lines) if found is not None]
        return thrown[-1] if thrown else None

    os.dup2(writing, 2)
    os.close(writing)
    try:
        yield find_reason
    finally:
        os.dup2(own, 2)
        os.close(own)
