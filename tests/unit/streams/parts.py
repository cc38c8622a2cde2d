"""What the tests of a stream's parts share: a clock that they set, and logs and spans without files."""

from __future__ import annotations

import pytest

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.storage import retrying
from kafka_segment_source.streams.log_ends import LogSpan
from kafka_segment_source.streams.said import SaidOnce
from kafka_segment_source.trust import Policy

T0: TopicPartition = ("t", 0)
T1: TopicPartition = ("t", 1)


class Clock:
    """A clock that tests set. Waits move it on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(retrying, "wait", self.wait)

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


def log_of(key: TopicPartition = T0) -> PartitionLog:
    return PartitionLog(*key, f"/logs/{key[0]}-{key[1]}", ())


def span_of(key: TopicPartition = T0, start: int = 0, end: int = 10, files_end: int | None = None) -> LogSpan:
    """What can be read of a log. It waits for a transaction where its files go on behind its end."""
    files_end = end if files_end is None else files_end
    return LogSpan(log_of(key), start, end, files_end, is_withheld=end < files_end)


def spans_of(*keys: TopicPartition) -> dict[TopicPartition, LogSpan]:
    return {key: span_of(key) for key in keys}


def waits(**ends: int) -> dict[TopicPartition, OffsetRange]:
    """Offsets from 0 on that wait in partition 0 of each topic."""
    return {(topic, 0): OffsetRange(0, end) for topic, end in ends.items()}


def said(fail_on_data_loss: bool = True) -> SaidOnce:
    return SaidOnce(Policy(fail_on_data_loss=fail_on_data_loss))
