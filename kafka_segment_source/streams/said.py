"""What a stream says: each sentence once, however often its cause is found again."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_segment_source.data_loss import report_lost_offsets
from kafka_segment_source.reporting import logger
from kafka_segment_source.trust import Policy

LOSS_REMEDY = "failOnDataLoss=false goes on with what is there"
_MOST_REMEMBERED = 1000  # sentences that were said; a query may run for months


class SaidOnce:
    """Logs warnings, and remembers which ones."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._said: set[str] = set()

    def warn(self, warnings: Iterable[str]) -> None:
        """Logs each sentence that was not said yet."""
        for warning in warnings:
            if warning not in self._said:
                if len(self._said) >= _MOST_REMEMBERED:
                    self._said.clear()
                self._said.add(warning)
                logger.warning("%s", warning)

    def report_loss(self, lost: str) -> None:
        """Raises DataLossError, or says the loss once under failOnDataLoss=false. lost: as in `report_lost_offsets`."""
        self.warn([report_lost_offsets(lost, self._policy, LOSS_REMEDY)])
