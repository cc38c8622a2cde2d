"""Partitions that a stream has read and that are not there any more: they are waited for, and then a loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafka_segment_source.logdir.topic_choice import is_selected
from kafka_segment_source.option_values import TopicPartition, TopicSelection
from kafka_segment_source.reporting import name_some
from kafka_segment_source.storage import retrying
from kafka_segment_source.streams.listings import GONE_SECONDS, PAUSE, Spans
from kafka_segment_source.streams.positions import Positions, name_partition
from kafka_segment_source.streams.said import SaidOnce

_MOST_NAMED = 5  # partitions in one sentence


class GonePartitions:
    """The partitions that are gone and were said to be. They are not waited for again until they are back.

    topics: which partitions the options select.
    clock: seconds of any origin.
    """

    def __init__(self, topics: TopicSelection, said: SaidOnce, clock: Callable[[], float]) -> None:
        self._topics = topics
        self._said = said
        self._clock = clock
        self._given_up: set[TopicPartition] = set()

    def wait_for(self, begin: Positions, spans: Spans, list_anew: Callable[[], Spans]) -> Spans:
        """Returns a listing with all partitions of `begin`, or the last one after some seconds.

        Then what is not there is a loss. What the options do not select is a loss at once.
        spans: what is there now.
        """
        others = [key for key in self._find(begin, spans) if not is_selected(key, self._topics)]
        if others:
            self._given_up.update(others)
            self._said.report_loss(
                f"the options select other partitions than before: not {_join_names(others, begin)}; give the old options,"
                " or begin anew with another checkpoint or target"
            )
        gone = self._find(begin, spans)
        end = self._clock() + GONE_SECONDS
        while gone and self._clock() < end:
            retrying.wait(PAUSE)
            spans = list_anew()
            gone = self._find(begin, spans)
        if gone:
            self._given_up.update(gone)
            self._said.report_loss(
                f"no directory holds what this stream has read of {_join_names(gone, begin)}: records after that may be lost"
            )
        return spans

    def _find(self, begin: Positions, spans: Spans) -> list[TopicPartition]:
        self._given_up -= spans.keys()
        return sorted(key for key in begin if key not in spans and key not in self._given_up)


def _join_names(keys: Sequence[TopicPartition], begin: Positions) -> str:
    return name_some(keys, _MOST_NAMED, lambda key: f"{name_partition(key)} (read up to offset {begin[key]})")
