"""What becomes of a damaged batch: the query ends (FAILFAST), or the batch is left out and named (DROPMALFORMED)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kafka_segment_source.errors import DataError
from kafka_segment_source.reporting import logger

_KEPT = 1000  # errors kept for a program; the log has all


def _believe_all() -> None:
    """Believes every error: the file cannot change."""


@dataclass(slots=True)
class Damage:
    """Ends the query at a damaged batch, or names the batch and goes on (`drop`). A batch of a newer format is not
    damaged, and always ends the query.

    skipped: the first errors, for a program; the log names all. confirm: called before an error is believed; raises
    FileChangedError where the file is another one by now (`split_file.py`).
    """

    drop: bool
    skipped: list[DataError] = field(default_factory=list)
    confirm: Callable[[], None] = _believe_all

    def report(self, error: DataError) -> None:
        """Raises `error`, or reports that its batch is left out."""
        self.allow(error)
        self._keep_error(error)
        logger.warning("skipped (mode=DROPMALFORMED): %s", error)

    def allow(self, error: DataError) -> None:
        """Raises `error` where damage ends the query."""
        self.confirm()
        if not self.drop or not error.is_skippable:
            raise error

    def skip(self, error: DataError, end: int) -> None:
        """Reports that nothing was read from where `error` is to the byte position `end`."""
        self._keep_error(error)
        logger.warning("skipped up to byte %d (mode=DROPMALFORMED): %s", end, error)

    def _keep_error(self, error: DataError) -> None:
        if len(self.skipped) < _KEPT:
            self.skipped.append(error)


class UnloggedDamage(Damage):
    """Damage that is kept in `skipped`, and not logged: what is made of it says enough, or another task logs it."""

    def report(self, error: DataError) -> None:
        self.allow(error)
        self.skipped.append(error)

    def skip(self, error: DataError, end: int) -> None:
        self.skipped.append(error)
