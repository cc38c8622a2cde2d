"""Errors of the target of an export, and of the libraries that write it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from kafka_segment_source.errors import KafkaSegmentError, StorageError, UsageError


class TargetError(UsageError):
    """The target of an export does not fit: it is no table of exports, or it has changed meanwhile."""


def explain_race(where: str) -> TargetError:
    """The error of two exports into one table at a time."""
    return TargetError(f"{where} was changed by somebody else during this run, which adds nothing more: run it again")


@contextmanager
def foreign_errors(where: str) -> Iterator[None]:
    """Makes a StorageError of what a library or a catalog raises. These have no errors in common."""
    try:
        yield
    except KafkaSegmentError:
        raise
    except Exception as error:
        raise StorageError(f"{where} cannot be read or written: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """The first line of an error, and the last of its causes as deltalake lists them.

    Other lines may be a request with its headers.
    """
    lines = re.sub("\\x1b\\[[0-9;]*m", "", str(error)).strip().splitlines() or [type(error).__name__]
    causes = [line.partition("↳")[2].strip() for line in lines if line.strip().startswith("↳")]
    return ": ".join([lines[0].strip(), *causes[-1:]])
