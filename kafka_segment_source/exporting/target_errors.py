"""Errors of the target of an export, and of the libraries that write it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafka_segment_source.errors import KafkaSegmentError, StorageError, UsageError
from kafka_segment_source.storage.folders import first_line


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
