"""A plan beside a broker that replaces files faster than segments can be cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.options import parse_options
from kafka_segment_source.planning import planner
from kafka_segment_source.storage import retrying
from tests.support.batches import data
from tests.support.logs import simple_log, simple_segment


@pytest.mark.parametrize("failures", [19, 20, 25, 39])
def test_a_plan_is_tried_without_cuts_where_files_change_too_fast_for_cuts(
    failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 tries, and then 20 in which a segment that was replaced stays one task."""
    options, _ = parse_options(
        {"path": str(simple_log(simple_segment([data(0, 5, 5)])).write(tmp_path)), "minPartitions": "2"}
    )
    examine, tries = planner.examined_logs, []

    def examine_changing(*arguments: object) -> object:
        tries.append(arguments)
        if len(tries) <= failures:
            raise FileChangedError("the file was replaced")
        return examine(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(retrying, "wait", lambda seconds: None)
    monkeypatch.setattr(planner, "examined_logs", examine_changing)
    assert len(planner.make_plan(options).splits) >= 1
    assert len(tries) == failures + 1


def test_a_plan_ends_with_the_error_after_all_tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options, _ = parse_options({"path": str(simple_log(simple_segment([data(0, 5, 5)])).write(tmp_path))})
    tries = []

    def examine_changing(*arguments: object) -> object:
        tries.append(arguments)
        raise FileChangedError("the file was replaced")

    monkeypatch.setattr(retrying, "wait", lambda seconds: None)
    monkeypatch.setattr(planner, "examined_logs", examine_changing)
    with pytest.raises(FileChangedError, match="was replaced"):
        planner.make_plan(options)
    assert len(tries) == 40
