"""The search for the first record of a time says how far it has come, so that it goes on from there."""

from __future__ import annotations

from pathlib import Path

import kafka_segment_source as kafkaseg
from kafka_segment_source.keywords import option_texts
from kafka_segment_source.options import parse_options
from kafka_segment_source.planning.time_lookup import _find_records
from tests.support.batches import data
from tests.support.logs import simple_log, simple_segment


def test_the_search_says_how_far_it_has_come(tmp_path: Path) -> None:
    """Where files change or are damaged behind it, other files are searched from there on (`Follower`)."""
    path = simple_log(simple_segment([data(base, base, base + 1) for base in range(0, 10, 2)])).write(tmp_path)
    (split,) = kafkaseg.plan(path).splits
    options, _ = parse_options(option_texts(str(path), {}))
    passed: list[int | None] = []
    first = [batch.offset for batch in _find_records(options.policy, split, passed.append)]
    assert first[0] == 0
    assert passed[-1] == 10
