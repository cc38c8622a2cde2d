"""Pruning never loses or adds a row: generated partitions by every index writer of every Kafka version, damaged index
files included, asked for any bounds; and nothing outside the planned byte ranges is read.
"""

from __future__ import annotations

import tempfile
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.errors import OptionError
from kafka_segment_source.kafka_format import LENGTH_AT
from kafka_segment_source.keywords import option_texts
from kafka_segment_source.options import parse_options
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.scanning import read_split
from kafka_segment_source.storage.store import LOCAL, FileVersion
from tests.support.logs import GeneratedLog, expected_rows
from tests.support.strategies import Bounds, logs_and_bounds, options_of, partition_logs

COLUMNS = ["offset", "key", "value"]  # without timestamp: some are past what microseconds hold
MANY = settings(max_examples=settings().max_examples * 4)

KeyedRow = tuple[int, bytes | None, bytes | None]

anything = partition_logs(index_damage=True, log_damage=True, wrong_maximum=True, far_future=True)
ways = st.fixed_dictionaries(
    {},
    optional={
        "trustIndexes": st.booleans(),
        "checkCrcs": st.booleans(),
        "minPartitions": st.integers(1, 9),
        "maxRecordsPerPartition": st.integers(1, 7),
    },
)
"""Options that change how rows are found, never which."""


def written(log: GeneratedLog) -> AbstractContextManager[str]:
    """A directory with the log in it."""
    directory = tempfile.TemporaryDirectory()
    log.write(Path(directory.name))
    return directory


def wanted(log: GeneratedLog, asked: Bounds) -> list[KeyedRow]:
    """The naive answer."""
    return [(r.offset, r.key, r.value) for r in expected_rows(log, asked.offsets, asked.since, asked.until)]


def rows(table: Any) -> list[KeyedRow]:
    """Rows of a table of COLUMNS, in its order."""
    return list(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))


def scanned(directory: str, asked: Bounds, **more: Any) -> list[KeyedRow]:
    return rows(kafkaseg.scan(directory, COLUMNS, **options_of(asked), **more).read_all())


def note(plan: ReadPlan) -> None:
    """So that `pytest --hypothesis-show-statistics` tells how often pruning does anything at all."""
    event(f"segments dropped: {min(len(plan.dropped), 2)}")
    event(f"starts after 0: {any(split.start for split in plan.splits)}")
    event(f"ends before the file: {any(split.end < split.segment_size for split in plan.splits)}")


def in_order(asked: Bounds) -> bool:
    return asked.since is None or asked.until is None or asked.since <= asked.until


@MANY
@given(pair=logs_and_bounds(anything), how=ways)
def test_rows_are_the_naive_ones(pair: tuple[GeneratedLog, Bounds], how: dict[str, Any]) -> None:
    """For any log, any index files and any bounds, the rows are those of filtering every record."""
    log, asked = pair
    with written(log) as directory:
        if not in_order(asked):
            with pytest.raises(OptionError, match="is after option 'until'"):
                scanned(directory, asked)
            return
        note(kafkaseg.plan(directory, **options_of(asked), **how))
        assert scanned(directory, asked, **how) == wanted(log, asked)


@MANY
@given(pair=logs_and_bounds(anything), how=ways)
def test_nothing_outside_the_plan_is_read(pair: tuple[GeneratedLog, Bounds], how: dict[str, Any]) -> None:
    """Once planned, every byte outside the planned ranges may turn into noise without changing a row."""
    log, asked = pair
    assume(in_order(asked))
    with written(log) as directory:
        options, _ = parse_options(option_texts(directory, {**options_of(asked), **how}))
        plan = make_plan(options)
        plan = poison(plan, Path(directory))
        schema = RECORDS.arrow_schema(COLUMNS)
        found = [
            row for split in plan.splits for batch in read_split(split, plan.reading, schema) for row in rows(batch)
        ]
        assert found == wanted(log, asked)


def poison(plan: ReadPlan, directory: Path) -> ReadPlan:
    """Overwrites whatever of the files is not to be read, and removes the files of which nothing is.

    The first eight bytes after a range stay: by the offset of the batch there a reader sees that it may stop. Answers
    the plan as if the files had been so before: a reader looks for its offsets again in a file that was changed.
    """
    for path in directory.glob("*/*"):
        ranges = [(split.start, split.end) for split in plan.splits if split.path == str(path)]
        if not ranges:
            path.unlink()
            continue
        data = path.read_bytes()
        changed = bytearray(b"\xff" * len(data))
        for start, end in ranges:
            changed[start : end + LENGTH_AT] = data[start : end + LENGTH_AT]
        path.write_bytes(changed)
    return replace(plan, splits=tuple(split._replace(version=_version(split.path)) for split in plan.splits))


def _version(path: str) -> FileVersion:
    found = LOCAL.look_at(path)
    assert found is not None
    return found.version


@given(pair=logs_and_bounds(anything), most=st.integers(1, 7))
def test_pieces_are_as_small_as_asked(pair: tuple[GeneratedLog, Bounds], most: int) -> None:
    """With maxRecordsPerPartition no Spark partition has more rows."""
    log, asked = pair
    assume(in_order(asked))
    with written(log) as directory:
        given_options = {**options_of(asked), "maxRecordsPerPartition": most}
        options, _ = parse_options(option_texts(directory, given_options))
        schema = RECORDS.arrow_schema(COLUMNS)
        plan = make_plan(options)
        for split in plan.splits:
            assert sum(batch.num_rows for batch in read_split(split, plan.reading, schema)) <= most


@given(pair=logs_and_bounds(partition_logs(crashes=False)))
def test_healthy_indexes_are_used(pair: tuple[GeneratedLog, Bounds]) -> None:
    """A plan never reads more than it would without index files, and its bytes are inside the files."""
    log, asked = pair
    assume(in_order(asked))
    with written(log) as directory:
        by_index = kafkaseg.plan(directory, **options_of(asked))
        without = kafkaseg.plan(directory, **options_of(asked), trustIndexes=False)
        assert by_index.bytes_to_read <= without.bytes_to_read <= without.bytes_total
        assert by_index.bytes_total == sum(len(segment.log) for segment in log.segments)
        assert all(0 <= split.start <= split.end <= split.segment_size for split in by_index.splits)
