"""Which logs an open transaction holds up, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.streams.log_ends import LogSpan

HANGING_SECONDS = 60.0
"""After this, a warning says why a stream does not go on."""


@dataclass(frozen=True, slots=True)
class _Withheld:
    """A last stable offset before the end of a log.

    seen: when it was found first.
    is_said: whether it was named.
    """

    end: int
    seen: float
    is_said: bool = False


class WithheldOffsets:
    """The last stable offsets before which a stream waits, since when.

    clock: seconds of any origin.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[TopicPartition, _Withheld] = {}

    def note(self, spans: Mapping[TopicPartition, LogSpan], say: Callable[[LogSpan], None]) -> None:
        """Takes down what was found now. It calls `say` for a log that has waited before one offset for a minute, once
        for each offset."""
        now = self._clock()
        found: dict[TopicPartition, _Withheld] = {}
        for key, span in spans.items():
            if not span.is_withheld:
                continue
            since = self._known.get(key)
            if since is None or since.end != span.end:
                since = _Withheld(span.end, now)
            if not since.is_said and now - since.seen > HANGING_SECONDS:
                say(span)
                since = replace(since, is_said=True)
            found[key] = since
        self._known = found
