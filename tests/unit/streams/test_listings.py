"""When a stream lists the files again, and what it does while they are away."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kafka_segment_source.errors import FileChangedError, PathError
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.streams.listings import GONE_SECONDS, LISTING_SECONDS, PAUSE, Listings
from tests.unit.streams.parts import T0, T1, Clock, log_of, span_of


class Watched:
    """The files, as a test has them. listed: whether all had to be there, of each listing that was tried."""

    def __init__(self, clock: Clock) -> None:
        self.changed = False
        self.failures: list[Exception] = []
        self.there = [log_of(T0)]
        self.listed: list[bool] = []
        self.looks: list[int] = []
        self.listings = Listings(
            self,
            self.list_logs,
            lambda logs: {log.topic_partition: span_of(log.topic_partition) for log in logs},
            clock,
        )

    def begin(self, logs: Iterable[PartitionLog]) -> None:
        self.looks.append(len(list(logs)))

    def is_unchanged(self, logs: Iterable[PartitionLog]) -> bool:
        return not self.changed

    def list_logs(self, needs_all: bool) -> list[PartitionLog]:
        self.listed.append(needs_all)
        if self.failures:
            raise self.failures.pop(0)
        return self.there


def test_how_long_a_listing_answers(clock: Clock) -> None:
    """For a second without a look, and then as long as nothing has changed; a look counts for a second too."""
    files = Watched(clock)
    assert files.listings.last is None
    assert list(files.listings.find()) == [T0]
    files.changed, files.there = True, [log_of(T0), log_of(T1)]
    clock.now += LISTING_SECONDS / 2
    assert list(files.listings.find()) == [T0]
    files.changed = False
    clock.now += LISTING_SECONDS
    assert list(files.listings.find()) == [T0]
    files.changed = True
    clock.now += LISTING_SECONDS / 2
    assert list(files.listings.find()) == [T0]
    clock.now += LISTING_SECONDS
    assert list(files.listings.find()) == [T0, T1] == list(files.listings.last)
    assert list(files.listings.list_anew(needs_all=True)) == [T0, T1]
    assert files.listed == [False, False, True]
    assert files.looks == [0, 1, 2]  # it looks at what the listing before found


def test_files_that_change_while_they_are_listed(clock: Clock) -> None:
    """The listing is tried again, with a look before each try."""
    files = Watched(clock)
    files.failures = [FileChangedError("/logs/t-0", "it changed")] * 3
    assert list(files.listings.find()) == [T0]
    assert len(files.listed) == len(files.looks) == 4


def test_a_path_that_is_away(clock: Clock) -> None:
    """It is waited for some seconds if it was there before. Then it is an error, and the last listing stays."""
    files = Watched(clock)
    files.failures = [PathError("away")]
    with pytest.raises(PathError, match="away"):
        files.listings.find()
    assert clock.now == 0
    before = files.listings.find()
    files.failures = [PathError("away")] * 3
    assert list(files.listings.list_anew()) == [T0]
    assert clock.now == 3 * PAUSE
    files.failures = [PathError("away")] * 100
    with pytest.raises(PathError, match="away"):
        files.listings.list_anew()
    assert GONE_SECONDS <= clock.now - 3 * PAUSE < GONE_SECONDS + PAUSE
    assert files.listings.last == before
