"""What is there now: the partitions and what can be read of them, listed anew only where something may have changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kafka_segment_source.errors import PathError
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.storage import retrying
from kafka_segment_source.streams.log_ends import LogSpan

LISTING_SECONDS = 1.0
"""How long a listing answers. An idle query of Spark asks about a hundred times a second."""
GONE_SECONDS = 10.0
"""How long a partition or a path may be away before that is a loss or an error. A broker renames directories."""
PAUSE = 0.5
"""Seconds between two listings while something is away."""

Spans = Mapping[TopicPartition, LogSpan]
"""What can be read of each partition."""


class Watch(Protocol):
    """Tells whether anything has changed (`LogWatch`)."""

    def begin(self, logs: Iterable[PartitionLog]) -> None:
        """Looks at everything, just before the logs are listed again. logs: those of the last listing."""

    def is_unchanged(self, logs: Iterable[PartitionLog]) -> bool:
        """Whether all of it is as it was before the last listing. logs: what that found."""


@dataclass(slots=True)
class _Listing:
    """What was there at one moment.

    seen: the clock at that moment.
    """

    seen: float
    spans: Spans


class Listings:
    """The last listing of a stream.

    watch: of the paths.
    list_logs: lists the files. It takes whether all that the options name must be there, and may raise PathError.
    find_spans: says what can be read of the logs.
    clock: seconds of any origin.
    """

    def __init__(
        self,
        watch: Watch,
        list_logs: Callable[[bool], list[PartitionLog]],
        find_spans: Callable[[list[PartitionLog]], Spans],
        clock: Callable[[], float],
    ) -> None:
        self._watch = watch
        self._list_logs = list_logs
        self._find_spans = find_spans
        self._clock = clock
        self._last: _Listing | None = None

    @property
    def last(self) -> Spans | None:
        """The spans of the last listing, however old it is. None before the first one."""
        return None if self._last is None else self._last.spans

    def find(self) -> Spans:
        """Returns the spans of a listing that is not older than a second, or that nothing has changed since."""
        last, moment = self._last, self._clock()
        if last is None:
            return self.list_anew()
        if moment - last.seen < LISTING_SECONDS:
            return last.spans
        if self._watch.is_unchanged([span.log for span in last.spans.values()]):
            last.seen = moment
            return last.spans
        return self.list_anew()

    def list_anew(self, needs_all: bool = False) -> Spans:
        """Lists the files now. Tries it again if they change meanwhile."""
        self._last = retrying.try_again(lambda: self._list_once(needs_all))
        return self._last.spans

    def _list_once(self, needs_all: bool) -> _Listing:
        self._watch.begin([] if self._last is None else [span.log for span in self._last.spans.values()])
        seen = self._clock()
        return _Listing(seen, self._find_spans(self._list_waiting(needs_all)))

    def _list_waiting(self, needs_all: bool) -> list[PartitionLog]:
        """Lists the files. A path that was there before may be away for a moment."""
        end = self._clock() + GONE_SECONDS
        while True:
            try:
                return self._list_logs(needs_all)
            except PathError:
                if self._last is None or self._clock() >= end:
                    raise
                retrying.wait(PAUSE)
