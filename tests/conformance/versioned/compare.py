"""Comparing what the package reads with what consumers and tools of the broker said.

Out: a line for each difference, and none where all is equal.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kafka_segment_source import verify
from tests.fixtures.consume import ISOLATION_LEVELS
from tests.support.group_answers import Answers, Said, Seen
from tests.support.rows import TIMESTAMP, Row, read_answer, scanned

MINUTE = 60_000


class Outcome(NamedTuple):
    """The result of one piece.

    there: what the broker wrote, in a few words.
    wrong: what differs, one line each. None if the broker cannot write this.
    """

    there: str
    wrong: list[str] | None


def compare_rows(paths: Path | Sequence[Path], topics: Sequence[str], folder: Path) -> list[str]:
    """Rows under both isolation levels, whole and of one minute, with the answers in `folder`."""
    wrong = []
    for isolation in ISOLATION_LEVELS:
        seen = read_answer(folder / f"expected.{isolation}.parquet")
        if scanned(paths, subscribe=topics, isolationLevel=isolation) != seen:
            wrong.append(f"{isolation}: the rows differ")
        wrong += compare_a_minute(paths, topics, isolation, seen)
    return wrong


def compare_a_minute(
    paths: Path | Sequence[Path], topics: Sequence[str], isolation: str, seen: Sequence[Row]
) -> list[str]:
    """The rows of a minute in the middle, which index files prune. `seen`: all rows."""
    middle = sorted(row[TIMESTAMP] for row in seen)[len(seen) // 2]
    pruned = scanned(paths, subscribe=topics, isolationLevel=isolation, since=middle, until=middle + MINUTE)
    if pruned != [row for row in seen if middle <= row[TIMESTAMP] < middle + MINUTE]:
        return [f"{isolation}: the rows of a minute differ"]
    return []


def find_problems(paths: Path | Sequence[Path]) -> list[str]:
    """The findings of `verify` that are problems."""
    return [f"{problem.path}: {problem.what}" for problem in verify(paths).problems]


def compare_answers(data: Path, answers: Answers, pairs: Mapping[str, tuple[Seen, Said]], normal: str) -> list[str]:
    """What views say, and what tools said. `normal`: the words of a warning that is none."""
    wrong = []
    with catch_warnings() as warned:
        for name, (see, said) in pairs.items():
            expected = said(answers)
            found = see(data, answers)
            if not expected:
                wrong.append(f"{name}: the tools said nothing")
            if found != expected:
                wrong.append(f"{name}: {found} is not {expected}")
    return wrong + [each for each in dict.fromkeys(warned) if normal not in each]


@contextmanager
def catch_warnings() -> Iterator[list[str]]:
    """What the package warns of."""
    caught: list[str] = []

    class Catcher(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            caught.append(record.getMessage())

    logger, catcher = logging.getLogger("kafka_segment_source"), Catcher(logging.WARNING)
    logger.addHandler(catcher)
    try:
        yield caught
    finally:
        logger.removeHandler(catcher)
