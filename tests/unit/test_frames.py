"""dataset and scan_polars: what reaches the plan, what is read, and what is refused."""

from __future__ import annotations

import pickle
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.bounds import OffsetRange, RowFilter, TimeRange
from kafka_segment_source.errors import OptionError, PathError, SchemaError, UnsupportedError
from kafka_segment_source.frames.polars_frame import convert_predicate
from kafka_segment_source.frames.predicates import find_columns, find_possible_rows
from kafka_segment_source.schema import RECORD_COLUMNS, Table

ORDERS = Path(__file__).parents[2] / "examples" / "data" / "orders" / "data"
SCHEMA = Table(RECORD_COLUMNS).arrow_schema(["key", "topic", "partition", "offset", "timestamp"])
PARTITIONS = [("a", 0), ("a", 1), ("b", 0)]
OFFSET, TIME = pc.field("offset"), pc.field("timestamp")
EVERYWHERE: dict[str, Any] = {"topics": frozenset("ab"), "partitions": frozenset([0, 1])}


def moment(micros: int) -> pa.Scalar:
    return pa.scalar(micros, pa.timestamp("us", "UTC"))


@pytest.mark.parametrize(
    ("predicate", "found"),
    [
        (OFFSET >= 7, RowFilter(**EVERYWHERE, offsets=OffsetRange(7))),
        (OFFSET < 7, RowFilter(**EVERYWHERE, offsets=OffsetRange(0, 7))),
        (~(OFFSET <= 7), RowFilter(**EVERYWHERE, offsets=OffsetRange(8))),
        (OFFSET == 2**63 - 2, RowFilter(**EVERYWHERE, offsets=OffsetRange(2**63 - 2, 2**63 - 1))),
        (OFFSET.isin([9, 4]), RowFilter(**EVERYWHERE, offsets=OffsetRange(4, 10))),
        ((OFFSET == 4) | (OFFSET == 9), RowFilter(**EVERYWHERE, offsets=OffsetRange(4, 10))),
        ((OFFSET > 4) | pc.field("key").is_null(), RowFilter(**EVERYWHERE)),
        (pc.add(OFFSET, 1) > 4, RowFilter(**EVERYWHERE)),
        (pc.field("topic") == "b", RowFilter(frozenset("b"), partitions=frozenset([0]))),
        (pc.starts_with(pc.field("topic"), "a"), RowFilter(frozenset("a"), partitions=frozenset([0, 1]))),
        (pc.field("partition") > 0, RowFilter(frozenset("a"), partitions=frozenset([1]))),
        # a row's microseconds are its milliseconds times 1000
        (moment(5000) <= TIME, RowFilter(**EVERYWHERE, times=TimeRange(since=5))),
        (moment(5000) < TIME, RowFilter(**EVERYWHERE, times=TimeRange(since=6))),
        (moment(5001) <= TIME, RowFilter(**EVERYWHERE, times=TimeRange(since=6))),
        (moment(5000) > TIME, RowFilter(**EVERYWHERE, times=TimeRange(until=5))),
        (moment(5000) >= TIME, RowFilter(**EVERYWHERE, times=TimeRange(until=6))),
        (moment(5001) > TIME, RowFilter(**EVERYWHERE, times=TimeRange(until=6))),
        (moment(-1000) == TIME, RowFilter(**EVERYWHERE, times=TimeRange(-1, 0))),
    ],
)
def test_what_reaches_the_plan(predicate: pc.Expression, found: RowFilter) -> None:
    """Exactly what comparisons, IN and BETWEEN say; of anything else nothing."""
    assert find_possible_rows(predicate, SCHEMA, PARTITIONS, "records") == found


@pytest.mark.parametrize("predicate", [(OFFSET > 7) & (OFFSET < 7), pc.field("topic") == "c", pc.scalar(False)])
def test_what_no_row_can_pass(predicate: pc.Expression) -> None:
    assert find_possible_rows(predicate, SCHEMA, PARTITIONS, "records").is_empty


def test_a_predicate_that_does_not_fit() -> None:
    """It is an error, and not "perhaps"."""
    for predicate in (pc.field("ofset") > 1, OFFSET > "x"):
        with pytest.raises((pa.ArrowInvalid, pa.ArrowNotImplementedError)):
            find_possible_rows(predicate, SCHEMA, PARTITIONS, "records")


def test_the_columns_of_a_predicate() -> None:
    assert find_columns((OFFSET > 1) & pc.field("key").is_null(), SCHEMA) == {"offset", "key"}
    assert find_columns(pc.scalar(True), SCHEMA) == set()


def test_batches_are_found_by_their_last_offset() -> None:
    """view=batches: a bound on the base offset bounds nothing."""
    made = kafkaseg.dataset(ORDERS, subscribe="orders", view="batches")
    few = made.plan((pc.field("lastOffset") < 30) & (pc.field("partition") == 1))
    assert few.segments_kept == 1
    wanted = made.to_table().filter(pc.field("lastOffset") < 30)
    assert wanted.num_rows and made.to_table(filter=pc.field("lastOffset") < 30) == wanted


def test_other_views_are_filtered_after_the_read() -> None:
    made = kafkaseg.dataset(ORDERS, view="segments")
    assert made.to_table(["partition"], pc.field("partition") == 2)["partition"].unique().to_pylist() == [2]
    plan = made.plan()
    assert isinstance(plan, kafkaseg.ViewPlan) and plan.splits == ()
    assert plan.to_reader(["partition"]).read_all() == made.to_table(["partition"])


def test_the_first_rows_read_one_segment(tmp_path: Path) -> None:
    """The other segments are damaged, and no one notices."""
    log = Path(shutil.copytree(ORDERS / "orders-0", tmp_path / "orders-0"))
    for path in sorted(log.glob("*.log"))[1:]:
        data = path.read_bytes()
        path.write_bytes(data[:30] + b"damage" + data[36:])
    made = kafkaseg.dataset(log)
    assert made.head(10, ["offset"])["offset"].to_pylist() == [*range(10)]
    assert made.head(0).num_rows == 0
    frame = kafkaseg.scan_polars(log).select("offset").head(10).collect()
    assert frame["offset"].to_list() == [*range(10)]


def test_new_columns() -> None:
    """A dict of expressions, as pyarrow takes it."""
    made = kafkaseg.dataset(ORDERS, subscribe="orders")
    few = (pc.field("partition") == 0) & (OFFSET < 3)
    assert made.to_table({"double": OFFSET * 2}, few).to_pydict() == {"double": [0, 2, 4]}
    assert made.scanner({"double": OFFSET * 2}).projected_schema == pa.schema([("double", pa.int64())])


def test_a_column_that_is_not_there() -> None:
    made = kafkaseg.dataset(ORDERS)
    with pytest.raises(SchemaError, match=r"no column 'ofset'; did you mean 'offset'\?"):
        made.scanner(["ofset"])
    with pytest.raises(SchemaError, match="no column 'headers'"):
        made.scanner(["headers"])
    assert "headers" in kafkaseg.dataset(ORDERS, includeHeaders=True).schema.names


def test_rows_of_no_column_are_counted() -> None:
    made = kafkaseg.dataset(ORDERS, subscribe="orders")
    assert made.count_rows() == sum(batch.num_rows for batch in made.to_batches([])) == 4000


def test_a_path_is_looked_at_when_rows_are_wanted(tmp_path: Path) -> None:
    made = kafkaseg.dataset(tmp_path / "nothing")
    with pytest.raises(PathError):
        made.scanner().to_reader()
    with pytest.raises(OptionError, match="did you mean 'since'"):
        kafkaseg.dataset(ORDERS, sinc="-2h")  # type: ignore[call-arg]


def test_a_dataset_can_be_sent_to_another_process() -> None:
    made = kafkaseg.dataset(ORDERS, subscribe="orders").filter(OFFSET < 3)
    assert pickle.loads(pickle.dumps(made)).to_table() == made.to_table()


def test_what_a_dataset_of_a_log_has_not() -> None:
    """pyarrow's own methods would follow a pointer that is not there."""
    made = kafkaseg.dataset(ORDERS)
    others: list[tuple[str, tuple[Any, ...]]] = [("get_fragments", ()), ("replace_schema", (made.schema,))]
    for name, arguments in [*others, ("join", (made, "offset")), ("join_asof", (made, "offset", "key", 1))]:
        with pytest.raises(UnsupportedError, match=f"a dataset of a log has no {name}: `"):
            getattr(made, name)(*arguments)
    assert made.sort_by("offset").head(1)["offset"].to_pylist() == [0]
    assert made.take([1, 0], ["offset"])["offset"].to_pylist() == [1, 0]
    with pytest.raises(TypeError):
        pads.write_dataset(made, "nowhere", format="parquet")
    covered = {name for name in vars(pads.Dataset) if not name.startswith("__")} - {"_scan_options", "_scanner_options"}
    assert covered <= set(vars(kafkaseg.LogDataset)), "pyarrow has a new method"


def test_polars_converts_its_own_predicates() -> None:
    """What it converts narrows the plan. A function of Python is not converted."""
    made = kafkaseg.dataset(ORDERS, subscribe="orders")
    since = datetime(2026, 3, 10, 9, 50, tzinfo=UTC)
    converted = convert_predicate((pl.col("timestamp") >= since) & (pl.col("partition") == 1), made)
    assert 0 < made.plan(converted).segments_kept < 6
    opaque = pl.col("offset").map_elements(lambda offset: len(str(offset)) < 2, return_dtype=pl.Boolean)
    assert convert_predicate(opaque, made) is None
    assert kafkaseg.scan_polars(ORDERS, subscribe="orders").filter(opaque).collect().height == 30


def test_columns_that_polars_does_not_name_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    scanner = kafkaseg.LogDataset.scanner
    monkeypatch.setattr(
        kafkaseg.LogDataset,
        "scanner",
        lambda self, columns, narrow: asked.append(columns) or scanner(self, columns, narrow),
    )
    frame = kafkaseg.scan_polars(ORDERS, subscribe="orders").filter(pl.col("offset") < 2).select("partition")
    assert frame.collect().height == 6
    assert [sorted(names) for names in asked] == [["offset", "partition"]]
