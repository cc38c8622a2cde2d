"""Which logs an open transaction holds up."""

from __future__ import annotations

from kafka_segment_source.streams.log_ends import LogSpan
from kafka_segment_source.streams.withheld import HANGING_SECONDS, WithheldOffsets
from tests.unit.streams.parts import T0, T1, Clock, span_of


def test_a_transaction_that_hangs(clock: Clock) -> None:
    """It is named after a minute, once. One that ended meanwhile, or another one, counts from its own begin."""
    named: list[tuple[float, str, int]] = []

    def say(span: LogSpan) -> None:
        named.append((clock.now, f"{span.log.topic}-{span.log.partition}", span.end))

    withheld = WithheldOffsets(clock)
    moves = {0: (5, 9), 50: (5, 9), 70: (5, 10), 200: (5, 11), 210: (11, 11), 220: (5, 12), 270: (5, 12), 281: (7, 12)}
    for clock.now, (end, files_end) in moves.items():
        withheld.note({T0: span_of(T0, 0, end, files_end), T1: span_of(T1, 0, 3, 3)}, say)
    assert named == [(70, "t-0", 5)]
    for clock.now in (281 + HANGING_SECONDS, 282 + HANGING_SECONDS, 300 + HANGING_SECONDS):
        withheld.note({T0: span_of(T0, 0, 7, 12)}, say)
    assert named[1:] == [(282 + HANGING_SECONDS, "t-0", 7)]
