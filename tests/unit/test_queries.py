"""queries: a plan that was shown is what is read, and `scan` is that in one step."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import DataLossError, OptionError, PathError, SchemaError
from kafka_segment_source.planning import planner

ORDERS = Path(__file__).parents[2] / "examples" / "data" / "orders" / "data"
WINDOW = {"subscribe": "orders", "since": "2026-03-10T09:30", "until": "2026-03-10T09:35"}


def test_a_plan_reads_what_a_scan_reads() -> None:
    """The same rows in the same order, with the columns that the options ask for, or those that are named."""
    plan = kafkaseg.plan(ORDERS, includeHeaders=True, **WINDOW)
    assert plan.to_reader().read_all().equals(kafkaseg.scan(ORDERS, includeHeaders=True, **WINDOW).read_all())
    named = plan.to_reader(columns=["offset", "metadata"]).read_all()
    assert named.equals(kafkaseg.scan(ORDERS, ["offset", "metadata"], **WINDOW).read_all())
    assert named.num_rows == 346


def test_a_plan_is_not_made_again(tmp_path: Path) -> None:
    """What came after the plan is not read; what it wants and is gone is an error."""
    log = Path(shutil.copytree(ORDERS / "orders-0", tmp_path / "orders-0"))
    last = max(log.glob("*.log")).stem
    hidden = [path.rename(tmp_path / path.name) for path in log.glob(f"{last}.*")]
    plan = kafkaseg.plan(log)
    for path in hidden:
        path.rename(log / path.name)
    assert plan.to_reader(["offset"]).read_all().num_rows < kafkaseg.scan(log, ["offset"]).read_all().num_rows
    for path in log.glob("*.log"):
        path.unlink()
    with pytest.raises((DataLossError, PathError)):
        plan.to_reader(["offset"]).read_all()


def test_a_plan_keeps_the_time_that_it_was_made_for() -> None:
    """A time ago is a moment once it is planned."""
    plan = kafkaseg.plan(ORDERS, subscribe="orders", since="-2h")
    assert isinstance(plan.options.bounds.since, int)
    assert plan.options.source.topics.subscribe == ("orders",)


def test_warnings_are_said_once_it_is_read(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan holds its warnings, and reading it logs them."""
    monkeypatch.setattr(planner, "WORTH_SAYING", 1)
    plan = kafkaseg.plan(ORDERS, **WINDOW)
    assert plan.warnings and not caplog.records
    with caplog.at_level(logging.WARNING):
        plan.to_reader(["offset"])
    assert [record.getMessage() for record in caplog.records] == list(plan.warnings)


def test_a_name_that_is_nearly_columns() -> None:
    """`scan` has a parameter that is no option: a slip of the pen is told of it."""
    with pytest.raises(OptionError, match=r"^option 'column' is unknown; did you mean 'columns'\?$"):
        kafkaseg.scan(ORDERS, column=["offset"])  # type: ignore[call-arg]
    with pytest.raises(SchemaError, match="no column 'ofset'; did you mean 'offset'"):
        kafkaseg.scan(ORDERS, columns=["ofset"])
