"""The part of what waits that a micro-batch takes, and where it is cut."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import OptionError
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.options import parse_options
from kafka_segment_source.partition.logs import available_logs
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.request import Pace
from kafka_segment_source.streams.batch_edges import cut_at_offset, cut_by_bytes
from kafka_segment_source.streams.limits import spread
from kafka_segment_source.trust import Trust
from tests.support import writer
from tests.support.small_logs import pl, put

KEY = ("t", 0)


def limits_of(**given: str) -> Pace:
    return parse_options({"path": "/x", **given}, is_stream=True)[0].pace


@given(limit=st.integers(1, 10**6), waiting=st.lists(st.integers(0, 10**6), max_size=20))
def test_shares(limit: int, waiting: list[int]) -> None:
    """They add up to the limit, are in proportion up to rounding, and never more than what waits."""
    sizes = dict(enumerate(waiting))
    shares = spread(limit, sizes)
    total = sum(waiting)
    assert sum(shares.values()) == min(limit, total)
    for key, size in sizes.items():
        assert 0 <= shares[key] <= size
        if total > limit:
            assert abs(shares[key] - limit * size / total) < 1


def test_limits_from_options() -> None:
    """A least above the most is a contradiction."""
    assert limits_of().names == []
    found = limits_of(
        maxOffsetsPerTrigger="9", maxBytesPerTrigger="1k", minOffsetsPerTrigger="3", maxTriggerDelay="90s"
    )
    assert found == Pace(9, 1024, 3, 90_000)
    assert found.names == ["maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger"]
    with pytest.raises(
        OptionError, match=r"'minOffsetsPerTrigger' \(10\) is above option 'maxOffsetsPerTrigger' \(9\)"
    ):
        limits_of(maxOffsetsPerTrigger="9", minOffsetsPerTrigger="10")


@st.composite
def layouts(draw: Any) -> list[list[tuple[int, int]]]:
    """Segments of batches: base offset and number of records. Offsets are missing between some of them."""
    at, segments = draw(st.integers(0, 5)), []
    for _ in range(draw(st.integers(1, 4))):
        batches = []
        for _ in range(draw(st.integers(1, 6))):
            count = draw(st.integers(1, 9))
            batches.append((at, count))
            at += count + (draw(st.integers(0, 3)) if draw(st.booleans()) else 0)
        segments.append(batches)
    return segments


def write(root: Path, segments: list[list[tuple[int, int]]], indexed: bool) -> tuple[PartitionLog, dict[int, int]]:
    """Writes t-0. Returns its log, and the bytes of each batch by its base offset."""
    sizes: dict[int, int] = {}
    for batches in segments:
        made = [pl(base, count, word="v" * (base * 37 % 90)) for base, count in batches]
        sizes |= {base: len(batch) for (base, _), batch in zip(batches, made, strict=True)}
        path = put(root, batches[0][0], *made)
        entries, position = [], 0
        for (base, count), batch in zip(batches, made, strict=True):
            if position and indexed:
                entries.append((base + count - 1, position))
            position += len(batch)
        path.with_suffix(".index").write_bytes(writer.offset_index(entries, batches[0][0]))
    options, _ = parse_options({"path": str(root)})
    (log,) = available_logs(options.source, options.policy, Warnings())
    return log, sizes


@settings(max_examples=150, deadline=None)
@given(segments=layouts(), indexed=st.booleans(), choice=st.integers(0, 10**6))
def test_a_cut_by_offset(segments: list[list[tuple[int, int]]], indexed: bool, choice: int) -> None:
    """It is the last offset at or before the limit where a batch begins, or the limit if that leaves nothing."""
    batches = [each for batches in segments for each in batches]
    first, end = batches[0][0], sum(batches[-1])
    start = first + choice % (end - first)
    most = start + 1 + choice // 7 % (end - start)
    with TemporaryDirectory() as root:
        log, _ = write(Path(root), segments, indexed)
        found = cut_at_offset(log, OffsetRange(start, most), Trust())
    assert start < found <= most
    edges = {base for base, _ in batches} | {base + count for base, count in batches}
    inside = [edge for edge in edges if start < edge <= most]
    across = any(base < most < base + count for base, count in batches)
    if inside and across:
        assert found == max(inside)
    else:
        assert found == most or (found in inside and not across)


@settings(max_examples=150, deadline=None)
@given(segments=layouts(), indexed=st.booleans(), choice=st.integers(0, 10**6), most=st.integers(1, 3000))
def test_a_cut_by_bytes(segments: list[list[tuple[int, int]]], indexed: bool, choice: int, most: int) -> None:
    """The batches up to it have at most that many bytes, or it is one batch."""
    batches = [each for batches in segments for each in batches]
    first, end = batches[0][0], sum(batches[-1])
    start = first + choice % (end - first)
    with TemporaryDirectory() as root:
        log, sizes = write(Path(root), segments, indexed)
        found = cut_by_bytes({KEY: log}, {KEY: OffsetRange(start, end)}, most, Trust()).get(KEY, end)
    taken = [sizes[base] for base, count in batches if base + count > start and base < found]
    assert start < found <= end
    assert sum(taken) <= most or len(taken) == 1
    whole = {base for base, _ in batches} | {base + count for base, count in batches}
    assert found in whole


def test_bytes_of_several_partitions(tmp_path: Path) -> None:
    """They share the limit. Only if not one batch fits, the largest one takes one."""
    put(tmp_path, 0, *[pl(base, 10) for base in range(0, 100, 10)])
    options, _ = parse_options({"path": str(tmp_path)})
    (log,) = available_logs(options.source, options.policy, Warnings())
    size = log.segments[0].size
    keys = [("t", 0), ("u", 0), ("v", 0)]
    logs, waiting = dict.fromkeys(keys, log), dict.fromkeys(keys, OffsetRange(0, 100))
    assert cut_by_bytes(logs, waiting, 3 * size, Trust()) == {}
    assert cut_by_bytes(logs, waiting, 3 * size // 2, Trust()) == dict.fromkeys(keys, 50)
    assert cut_by_bytes(logs, waiting, 1, Trust()) == {("t", 0): 10, ("u", 0): 0, ("v", 0): 0}
    assert all(
        a < b for a, b in pairwise([0, *cut_by_bytes({KEY: log}, {KEY: OffsetRange(0, 100)}, 300, Trust()).values()])
    )
