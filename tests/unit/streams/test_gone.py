"""Partitions that are gone."""

from __future__ import annotations

import pytest

from kafka_segment_source.errors import DataLossError
from kafka_segment_source.option_values import TopicSelection
from kafka_segment_source.streams.gone import GonePartitions
from kafka_segment_source.streams.listings import GONE_SECONDS, PAUSE, Spans
from tests.unit.streams.parts import T0, T1, Clock, said, spans_of

BEGIN = {T0: 5, T1: 7}


def never() -> Spans:
    raise AssertionError("it must not list again")


def test_one_that_comes_back(clock: Clock) -> None:
    """It is waited for. Nothing is waited for while all are there."""
    gone = GonePartitions(TopicSelection(), said(), clock)
    assert gone.wait_for(BEGIN, spans_of(T0, T1), never) == spans_of(T0, T1)
    later = iter([spans_of(T0), spans_of(T0, T1)])
    assert gone.wait_for(BEGIN, spans_of(T0), lambda: next(later)) == spans_of(T0, T1)
    assert clock.now == 2 * PAUSE


def test_one_that_stays_away(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """After some seconds it is a loss. Then it is not waited for again, until it was there."""
    lost = r"no directory holds what this stream has read of t-1 \(read up to offset 7\)"
    with pytest.raises(DataLossError, match=lost):
        GonePartitions(TopicSelection(), said(), clock).wait_for(BEGIN, spans_of(T0), lambda: spans_of(T0))
    assert GONE_SECONDS <= clock.now < GONE_SECONDS + PAUSE
    gone = GonePartitions(TopicSelection(), said(fail_on_data_loss=False), clock)
    for waited in (GONE_SECONDS, 0):
        before = clock.now
        assert gone.wait_for(BEGIN, spans_of(T0), lambda: spans_of(T0)) == spans_of(T0)
        assert clock.now - before == waited
    assert len(caplog.messages) == 1
    gone.wait_for(BEGIN, spans_of(T0, T1), never)
    before = clock.now
    gone.wait_for(BEGIN, spans_of(T0), lambda: spans_of(T0))
    assert clock.now - before == GONE_SECONDS


def test_one_that_is_not_selected(clock: Clock) -> None:
    """It is a loss at once, in words of its own. The others are still waited for."""
    begin = {**BEGIN, ("u", 3): 9}
    selection = TopicSelection(subscribe=("t",))
    with pytest.raises(DataLossError, match=r"other partitions than before: not u-3 \(read up to offset 9\); give the"):
        GonePartitions(selection, said(), clock).wait_for(begin, spans_of(T0), never)
    assert clock.now == 0
    tolerant = GonePartitions(selection, said(fail_on_data_loss=False), clock)
    assert tolerant.wait_for(begin, spans_of(T0), lambda: spans_of(T0, T1)) == spans_of(T0, T1)
    assert clock.now == PAUSE


def test_many_of_them(clock: Clock) -> None:
    """The sentence names the first five."""
    begin = {("t", number): number for number in range(8)}
    with pytest.raises(DataLossError, match=r"t-0 \(read up to offset 0\), .*t-4 \(read up to offset 4\) and 3 more: "):
        GonePartitions(TopicSelection(), said(), clock).wait_for(begin, {}, dict)
