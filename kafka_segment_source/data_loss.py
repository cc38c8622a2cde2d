"""Decides what lost offsets lead to (failOnDataLoss): an error, or a warning. No other module decides it.

Planning and reading find losses. They report them here.
"""

from __future__ import annotations

from kafka_segment_source.errors import DataLossError, PathError
from kafka_segment_source.reporting import logger
from kafka_segment_source.trust import Policy


def allow_loss(error: DataLossError | PathError, policy: Policy) -> None:
    """Raises `error`, unless failOnDataLoss=false allows the loss. Then the caller must warn."""
    if policy.fail_on_data_loss:
        raise error


_READ_ON = "reading what is there (failOnDataLoss=false)"
_REMEDY = "give offsets that are there, or failOnDataLoss=false to read what is"


def report_lost_offsets(lost: str, policy: Policy, remedy: str = _REMEDY) -> str:
    """Reports offsets that planning misses. Raises DataLossError, or returns the warning for the plan.

    lost: which offsets are missing, and how that is known, as a sentence without its end. remedy: the end of the error.
    """
    allow_loss(DataLossError(lost, remedy), policy)
    return f"{lost}: {_READ_ON}"


def says_loss(warning: str) -> bool:
    """Whether a warning of a plan is one of `report_lost_offsets`."""
    return warning.endswith(_READ_ON)


def report_lost_rows(error: DataLossError, policy: Policy) -> None:
    """Reports rows that reading misses. Raises `error`, or logs that reading goes on without them."""
    allow_loss(error, policy)
    logger.warning("%s; going on without it (failOnDataLoss=false)", error.what)
