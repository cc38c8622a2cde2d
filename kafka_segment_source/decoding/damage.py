"""What happens at a damaged batch: the query ends (FAILFAST), or the batch is skipped and logged (DROPMALFORMED)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.errors import DataError
from kafka_segment_source.reporting import log_skipped
from kafka_segment_source.trust import Policy

_KEPT = 1000  # errors kept in `skipped`; the log has all of them


def _believe_all() -> None:
    """Believes every error. It is for a file that cannot change."""


def _keep_as_is(error: DataError) -> DataError:
    """Returns the error of a file that knows no more about its damage."""
    return error


@dataclass(slots=True)
class Damage:
    """Ends the query at a damaged batch, or with `drop` logs the batch and goes on.

    A batch of a newer format is not damaged. It always ends the query.

    skipped: the first errors, for programs; the log has all of them.
    confirm: is called before an error is believed. It raises FileChangedError if the path now leads to another file
    (`split_file.py`).
    explain: returns what the file itself knows about an error.
    """

    drop: bool
    skipped: list[DataError] = field(default_factory=list)
    confirm: Callable[[], None] = _believe_all
    explain: Callable[[DataError], DataError] = _keep_as_is

    def report(self, error: DataError) -> None:
        """Raises `error`, or logs that its batch is skipped."""
        self.allow(error)
        error = self.explain(error)
        self._keep_error(error)
        log_skipped(error)

    def allow(self, error: DataError) -> None:
        """Raises `error` if it ends the query."""
        self.confirm()
        error = self.explain(error)
        if not self.drop or not error.is_skippable:
            raise error

    def skip(self, error: DataError, end: int) -> None:
        """Logs that the bytes from the position of `error` to `end` (exclusive) are skipped."""
        error = self.explain(error)
        self._keep_error(error)
        log_skipped(error, end)

    def _keep_error(self, error: DataError) -> None:
        if len(self.skipped) < _KEPT:
            self.skipped.append(error)


class UnloggedDamage(Damage):
    """Keeps errors in `skipped` and does not log them. The caller reports them, or another task logs them."""

    def report(self, error: DataError) -> None:
        self.allow(error)
        self.skipped.append(self.explain(error))

    def skip(self, error: DataError, end: int) -> None:
        self.skipped.append(self.explain(error))


class NotedDamage(UnloggedDamage):
    """Keeps damage without reporting it. It keeps a newer format too, as another copy may be readable."""

    def allow(self, error: DataError) -> None:
        self.confirm()


class Suspicion(Damage):
    """Handles damage in one of several copies: reading stops before the batch, and the other copies are searched.

    `drop` makes the decoder check all batches of a group before it returns a row of the group.
    """

    def __init__(self) -> None:
        super().__init__(drop=True)

    def report(self, error: DataError) -> NoReturn:
        self.allow(error)

    def allow(self, error: DataError) -> NoReturn:
        self.confirm()
        raise self.explain(error)

    def skip(self, error: DataError, end: int) -> NoReturn:
        raise self.explain(error)


def damage_in(split: SegmentSplit, policy: Policy) -> Damage:
    """Returns the handler for damaged batches of a split."""
    return Suspicion() if split.copies else Damage(policy.drop_malformed)
