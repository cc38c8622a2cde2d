"""batch_rules: what a batch read refuses, before and after it has listed what is there."""

from __future__ import annotations

from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import OptionError

WITHOUT_ROWS: list[tuple[dict[str, Any], str]] = [
    ({"startingOffsets": "latest"}, "option 'startingOffsets' is 'latest': a batch query would read nothing"),
    ({"startingOffsets": {"a": {"0": 5, "1": -1}}}, "option 'startingOffsets' has -1"),
    ({"endingOffsets": "earliest"}, "option 'endingOffsets' is 'earliest': a batch query would read nothing"),
    ({"endingOffsets": {"a": {"0": -2}}}, "option 'endingOffsets' has -2"),
    ({"startingOffsets": "latest", "startingTimestamp": "-2h"}, "option 'startingOffsets' is 'latest'"),
]


@pytest.mark.parametrize("read", [kafkaseg.plan, kafkaseg.scan])
@pytest.mark.parametrize(("options", "said"), WITHOUT_ROWS, ids=[str(row[0]) for row in WITHOUT_ROWS])
def test_reads_that_would_be_empty_by_a_slip(read: Any, options: dict[str, Any], said: str) -> None:
    """A start at the end or an end at the start is an error before any file is touched."""
    with pytest.raises(OptionError) as caught:
        read("/nowhere", **options)
    assert str(caught.value).startswith(said)


def test_maps_name_the_partitions_selected(tmp_path: Any) -> None:
    """A map that leaves out a partition, or names another one, is an error that says which."""
    for name in ("a-0", "a-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020d}.log").touch()
    assert kafkaseg.plan(tmp_path, startingOffsets={"a": {"0": -2, "1": -2}}).segments_total == 2
    with pytest.raises(OptionError, match=r"'startingOffsets' must name exactly the partitions .*: it leaves out a-1"):
        kafkaseg.plan(tmp_path, startingOffsets={"a": {"0": -2}})
    with pytest.raises(OptionError, match=r"'endingOffsets' must name exactly the partitions .*: a-7 is not selected"):
        kafkaseg.plan(tmp_path, endingOffsets={"a": {"0": -1, "1": -1, "7": -1}})
