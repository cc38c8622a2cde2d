"""The tally: attempts, answers, errors and verdicts by topic and delay, and what of it the goals forbid.

In: each attempt with its verdict. Out: a report as text, as figures for JSON, and the sentences that say what failed.
"""

from __future__ import annotations

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.conformance.soaking.judge import Moment, Verdict
from tests.conformance.soaking.readers import SPARK, Answer, Question
from tests.conformance.soaking.topics import BY_NAME, TopicPartition

LOSS = ("DataLossError", "FileChangedError", "RetentionError")
_SAMPLES = 5  # of each kind
_WARNINGS = 3  # of each sample


@dataclass(frozen=True, order=True)
class Place:
    """What figures are kept for: a topic or "all", the seconds between planning and reading, with Spark or without."""

    topic: str
    spark: bool
    delay: float

    def __str__(self) -> str:
        return f"{self.topic}{', Spark' if self.spark else ''}, delay {self.delay:g} s"


@dataclass
class Figures:
    """The figures of one place. excused: data loss where retention had removed something that was asked for.

    silent, said: rows missing without a word, and with a warning.
    """

    attempts: int = 0
    answers: int = 0
    rows: int = 0
    expected: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    excused: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    silent: int = 0
    said: int = 0

    @property
    def failed(self) -> int:
        """Attempts that ended in an error."""
        return self.errors.total()

    def as_json(self) -> dict[str, object]:
        """All of them."""
        return {
            "attempts": self.attempts,
            "answers": self.answers,
            "rows": self.rows,
            "rowsExpected": self.expected,
            "errors": dict(self.errors),
            "errorsPerAttempt": round(self.failed / self.attempts, 4) if self.attempts else None,
            "excusedDataLoss": self.excused,
            "wrongRows": dict(self.wrong),
            "missedInSilence": self.silent,
            "missedWithAWarning": self.said,
        }


class Tally:
    """Takes attempts from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figures: defaultdict[Place, Figures] = defaultdict(Figures)
        self._samples: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, question: Question, answer: Answer, verdict: Verdict, before: Moment, after: Moment) -> None:
        """One attempt."""
        place = Place(question.topic, question.way == SPARK, question.delay)
        with self._lock:
            figures = self._figures[place]
            figures.attempts += 1
            figures.rows += verdict.rows
            figures.expected += verdict.expected
            figures.wrong.update(verdict.wrong)
            if answer.kind is None:
                figures.answers += 1
            else:
                figures.errors[answer.kind] += 1
                excused = _is_excused(question, answer, before, after)
                figures.excused += excused
                kind = f"{answer.kind}, {place.topic}{', excused' if excused else ''}"
                self._keep(kind, f"{answer.message} ({question})")
            said = bool(verdict.missing) and _is_said(question, answer)
            figures.said += verdict.missing if said else 0
            figures.silent += 0 if said else verdict.missing
            for sample in verdict.samples:
                what = sample.partition(":")[0] + (" with a warning" if said else "")
                heard = "; ".join(answer.warnings[-_WARNINGS:]) if said else ""
                ends = [
                    (before.ends[where], after.ends[where]) for where in question.partitions if _is_of(sample, where)
                ]
                self._keep(f"{what}, {place.topic}", f"{sample} ({question}) {heard} {ends}")

    def _keep(self, kind: str, sample: str) -> None:
        if len(self._samples[kind]) < _SAMPLES:
            self._samples[kind].append(sample)

    def failures(self) -> list[str]:
        """What the goals forbid, a sentence each; empty if they are met."""
        found = []
        for place, figures in sorted(self._figures.items()):
            found += [f"{place}: {count} rows {what}" for what, count in sorted(figures.wrong.items())]
            if figures.silent:
                found.append(f"{place}: {figures.silent} rows missing in silence")
            if figures.said:
                found.append(f"{place}: {figures.said} rows that the log still held left out with a warning")
            forbidden = figures.failed - figures.excused
            if forbidden:
                kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(figures.errors.items()))
                found.append(f"{place}: {forbidden} errors that are not data loss where it happened ({kinds})")
        answered = {place.topic for place, figures in self._figures.items() if figures.answers}
        asked = {place.topic for place in self._figures}
        return found + [f"{topic}: no answer at all" for topic in sorted(asked - answered)]

    def text(self) -> str:
        """The table, then a few samples of each kind of error and fault."""
        head = (
            "topic",
            "delay",
            "attempts",
            "answers",
            "rows",
            "expected",
            "errors",
            "excused",
            "wrong",
            "silent",
            "said",
        )
        lines = [head, *(_line(place, figures) for place, figures in sorted(self._figures.items()))]
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        kinds = [f"{place}: {_kinds(figures)}" for place, figures in sorted(self._figures.items()) if figures.failed]
        samples = [f"  {kind}:\n" + "\n".join(f"    {each}" for each in kept) for kind, kept in self._sorted_samples()]
        return "\n".join(
            [*table, *(["errors by kind:", *kinds] if kinds else []), *(["samples:", *samples] if samples else [])]
        )

    def as_json(self) -> dict[str, object]:
        """The same, for a program."""
        places = [
            {"topic": place.topic, "spark": place.spark, "delay": place.delay, **figures.as_json()}
            for place, figures in sorted(self._figures.items())
        ]
        return {"places": places, "samples": dict(self._sorted_samples()), "failures": self.failures()}

    def _sorted_samples(self) -> Iterable[tuple[str, list[str]]]:
        return sorted(self._samples.items())


def _line(place: Place, figures: Figures) -> tuple[str, ...]:
    share = f" ({figures.failed / figures.attempts:.0%})" if figures.failed else ""
    name = f"{place.topic}{' (Spark)' if place.spark else ''}"
    counts = figures.attempts, figures.answers, figures.rows, figures.expected
    last = figures.excused, figures.wrong.total(), figures.silent, figures.said
    return (name, f"{place.delay:g}", *map(str, counts), f"{figures.failed}{share}", *map(str, last))


def _kinds(figures: Figures) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(figures.errors.items()))


def _is_excused(question: Question, answer: Answer, before: Moment, after: Moment) -> bool:
    """Whether the error is data loss, on a topic that loses data, some of which was asked for."""
    return answer.kind in LOSS and any(
        _has_lost(where, question, before, after)
        and (question.topic in BY_NAME or re.search(rf"\b{where[0]}-{where[1]}\b", answer.message) is not None)
        for where in question.partitions
    )


def _has_lost(where: TopicPartition, question: Question, before: Moment, after: Moment) -> bool:
    asked_from = max(min(before.ends[where].earliest, before.oldest[where]), question.start or 0)
    return BY_NAME[where[0]].loses and after.ends[where].earliest > asked_from


def _is_of(sample: str, where: TopicPartition) -> bool:
    return f": {where[0]}-{where[1]} " in sample


def _is_said(question: Question, answer: Answer) -> bool:
    """Whether missing rows were spoken of. What Spark's workers log is not heard here: they may have
    warned if allowed to."""
    if question.way == SPARK:
        return not question.strict or "mode" in question.options
    return answer.said_loss
