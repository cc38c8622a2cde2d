"""Copies of one partition that overlap anyhow give the rows of their union, each once."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.partition.choice import choose
from tests.support.logs import GeneratedLog, expected_rows
from tests.support.strategies import Bounds, logs_and_bounds, options_of, partition_logs

COLUMNS = ["offset", "key", "value"]
EXAMPLES = settings(max_examples=settings().max_examples * 2)

logs = partition_logs(index_damage=True, log_damage=True, max_segments=5, max_batches=5)
spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: OffsetRange(*pair)), max_size=6)


def copies_of(log: GeneratedLog, cuts: list[tuple[int, int]]) -> list[GeneratedLog]:
    """For each cut a copy with the segments from one number on up to another, at least one."""
    count = len(log.segments)
    firsts = [(first % count, 1 + (last % (count - first % count))) for first, last in cuts]
    return [replace(log, segments=log.segments[first : first + number]) for first, number in firsts]


def union(copies: list[GeneratedLog], asked: Bounds) -> list[tuple[int, bytes | None, bytes | None]]:
    rows = {
        record.offset: record
        for copy in copies
        for record in expected_rows(copy, asked.offsets, asked.since, asked.until)
    }
    return [(offset, rows[offset].key, rows[offset].value) for offset in sorted(rows)]


@EXAMPLES
@given(
    pair=logs_and_bounds(logs),
    cuts=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=4),
    how=st.fixed_dictionaries(
        {},
        optional={"trustIndexes": st.booleans(), "minPartitions": st.integers(1, 9), "mode": st.just("DROPMALFORMED")},
    ),
)
def test_copies_give_their_union(
    pair: tuple[GeneratedLog, Bounds], cuts: list[tuple[int, int]], how: dict[str, Any]
) -> None:
    """Whatever segments each copy has, whatever is asked: the rows of all copies together, once each, in order."""
    log, asked = pair
    if asked.since is not None and asked.until is not None and asked.since > asked.until:
        asked = replace(asked, until=None)
    copies = copies_of(log, cuts)
    with tempfile.TemporaryDirectory() as directory:
        paths = [str(copy.write(Path(directory) / str(at)).parent) for at, copy in enumerate(copies)]
        found = kafkaseg.scan(paths, COLUMNS, **options_of(asked), **how).read_all()
        assert list(zip(*(found[name].to_pylist() for name in COLUMNS), strict=True)) == union(copies, asked)
        plan = kafkaseg.plan(paths, **options_of(asked), **how)
        assert plan.segments_total == sum(len(copy.segments) for copy in copies)


@given(spans)
def test_the_choice_covers_every_offset_once(given_spans: list[OffsetRange]) -> None:
    """The ranges chosen are in order, disjoint, inside their spans, one for each span at most, and miss no offset."""
    chosen = choose(given_spans)
    covered = [offset for _, part in chosen for offset in range(part.start, part.end)]

    assert covered == sorted({offset for span in given_spans for offset in range(span.start, span.end)})
    assert len({at for at, _ in chosen}) == len(chosen)
    for at, part in chosen:
        assert given_spans[at].start <= part.start < part.end <= given_spans[at].end
