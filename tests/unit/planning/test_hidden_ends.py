"""Where a log ends, if bytes follow its last whole batch: what looks like a torn batch may hide whole ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError
from tests.support.small_logs import bad, pl, put

HURT = pytest.mark.parametrize("hurt", [bytes(100), pl(5, 5)[:9] + b"\x10" + pl(5, 5)[10:]], ids=["zeros", "length"])
DROP: dict[str, Any] = {"mode": "DROPMALFORMED"}


def offsets_between(path: Path, start: int, end: int, **options: Any) -> list[int]:
    bounds = {"startingOffsets": {"t": {"0": start}}, "endingOffsets": {"t": {"0": end}}}
    found: list[int] = kafkaseg.scan(path, ["offset"], **bounds, **options).read_all()["offset"].to_pylist()
    return found


@HURT
def test_whole_batches_behind_what_looks_torn(hurt: bytes, tmp_path: Path) -> None:
    put(tmp_path, 0, pl(0, 5), hurt, pl(10, 5))
    assert offsets_between(tmp_path, 3, 15, **DROP) == [3, 4, *range(10, 15)]
    assert offsets_between(tmp_path, 12, 13, **DROP) == [12]
    with pytest.raises(CorruptRecordError):
        offsets_between(tmp_path, 0, 15)
    [found] = kafkaseg.offsets_for_time(tmp_path, "latest", **DROP).partitions
    assert found.log_end_offset == 15


def test_a_torn_batch_or_zeros_that_nothing_follows(tmp_path: Path) -> None:
    for tail in (pl(5, 5)[:40], bytes(100), b"\0"):
        put(tmp_path, 0, pl(0, 5), tail)
        [found] = kafkaseg.offsets_for_time(tmp_path, "latest").partitions
        assert (found.log_end_offset, found.offset) == (5, 5)


@pytest.mark.parametrize("copies", [("a",), ("a", "b")])
def test_damage_at_the_end_leaves_it_in_doubt(copies: tuple[str, ...], tmp_path: Path) -> None:
    for copy in copies:
        put(tmp_path / copy, 0, pl(0, 5), bad(pl(5, 5)))
    paths = [tmp_path / copy for copy in copies]
    with pytest.raises(CorruptRecordError):
        kafkaseg.offsets_for_time(paths, "latest")
    answer = kafkaseg.offsets_for_time(paths, "1970-01-01T00:00:01Z")
    assert any("the end of partition t-0, 5, is in doubt" in warning for warning in answer.warnings)
