"""export: files, commits, and a sentence for each target that does not fit."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import DataLossError, OptionError, PathError
from kafka_segment_source.exporting.data_files import parse_by
from kafka_segment_source.exporting.folders import Folder
from kafka_segment_source.exporting.parquet_table import ParquetTable
from kafka_segment_source.exporting.tables import State
from kafka_segment_source.storage.settings import Settings
from kafka_segment_source.streams import log_ends
from tests.support.growing_log import GrowingPartition

ORDERS = Path(__file__).parents[2] / "examples" / "data" / "orders" / "data"
FORMATS = ("parquet", "delta", "iceberg")
TABLE = "lake.kafka.events"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a test are new, and a stream waits a minute for what may still come beside new files."""
    monkeypatch.setattr(log_ends, "LATE_SECONDS", 0)


@pytest.fixture
def log(tmp_path: Path) -> GrowingPartition:
    """A partition with twenty records."""
    made = GrowingPartition(tmp_path / "logs" / "orders-0")
    made.write(20)
    return made


def run(log: GrowingPartition, form: str = "parquet", **options: Any) -> kafkaseg.TableReport:
    """Exports the log into a table beside it."""
    folder = log.directory.parent.parent
    if form == "iceberg":
        options["catalog"] = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/lake",
        }
    target = options.pop("to", TABLE if form == "iceberg" else str(folder / form))
    [report] = kafkaseg.export(log.directory.parent, target, form, **options)
    return report


@pytest.mark.parametrize("form", FORMATS)
def test_a_run_takes_what_is_new(log: GrowingPartition, form: str) -> None:
    assert run(log, form).rows == 20
    assert run(log, form).commits == 0
    log.write(5)
    report = run(log, form)
    assert (report.rows, report.files, report.commits) == (5, 1, 1)
    assert (report.begin, report.end) == ({("orders", 0): 20}, {("orders", 0): 25})


@pytest.mark.parametrize("form", FORMATS)
def test_offsets_without_records_are_remembered(log: GrowingPartition, form: str) -> None:
    """An aborted transaction adds no row, and is not read again."""
    run(log, form)
    log.write(3, producer=7)
    log.end_transaction(7, commits=False)
    report = run(log, form)
    assert (report.rows, report.files, report.commits, report.end) == (0, 0, 1, {("orders", 0): 24})
    assert run(log, form).commits == 0


@pytest.mark.parametrize("form", FORMATS)
def test_a_dry_run_writes_nothing(log: GrowingPartition, form: str) -> None:
    folder = log.directory.parent.parent
    report = run(log, form, dry_run=True)
    assert (report.rows, report.end) == (0, {("orders", 0): 20})
    assert report.bytes_to_read > 0
    assert not list(folder.rglob("*.parquet"))
    assert not (folder / form).exists()


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_that_is_divided(log: GrowingPartition, form: str) -> None:
    """By topic and day. Another rule later is refused."""
    day = datetime.fromtimestamp(1, UTC).date().isoformat()
    assert run(log, form, by=["topic", "day(timestamp)"]).rows == 20
    if form != "iceberg":
        [file] = (log.directory.parent.parent / form).rglob("kafkaseg-*.parquet")
        assert file.parent.name == f"day={day}"
        assert file.parent.parent.name == "topic=orders"
    with pytest.raises(
        kafkaseg.TargetError, match=r"is divided by .*, and this run by partition: export to a new target"
    ):
        run(log, form, by=["partition"])


@pytest.mark.parametrize("form", FORMATS)
def test_columns_that_the_table_has_not(log: GrowingPartition, form: str) -> None:
    run(log, form)
    log.write(1)
    with pytest.raises(kafkaseg.TargetError, match="has no column headers, which these options give"):
        run(log, form, includeHeaders=True)
    assert run(log, form).rows == 1


@pytest.mark.parametrize("form", FORMATS)
def test_a_log_that_was_cut(log: GrowingPartition, form: str) -> None:
    """Offsets that the table has and the log has no more."""
    run(log, form)
    (log.directory / f"{0:020}.log").write_bytes(b"")
    with pytest.raises(DataLossError, match="was read up to offset 20, but its files end at 0"):
        run(log, form)


@pytest.mark.parametrize("form", FORMATS)
def test_retention_over_the_last_offset(log: GrowingPartition, form: str) -> None:
    run(log, form)
    log.write(5)
    log.roll()
    log.write(5)
    log.delete_before(25)
    with pytest.raises(DataLossError, match="the offsets 20 to 24 are gone"):
        run(log, form)
    assert run(log, form, failOnDataLoss=False).rows == 5


@pytest.mark.parametrize("form", FORMATS)
def test_a_topic_that_was_made_again(log: GrowingPartition, form: str) -> None:
    metadata = log.directory / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA")
    run(log, form)
    metadata.write_text("version: 0\ntopic_id: BBBBBBBBBBBBBBBBBBBBBA")
    with pytest.raises(DataLossError, match="topic 'orders' was deleted and made again"):
        run(log, form)
    assert run(log, form, failOnDataLoss=False).rows == 20


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_a_directory_of_others(log: GrowingPartition, form: str) -> None:
    """Its files are not added to."""
    table = log.directory.parent.parent / form
    table.mkdir()
    pq.write_table(pa.table({"a": [1]}), table / "others.parquet")
    with pytest.raises(kafkaseg.TargetError, match="export to a new target"):
        run(log, form)
    assert [path.name for path in table.iterdir()] == ["others.parquet"]


def test_a_delta_table_of_others(log: GrowingPartition) -> None:
    import deltalake  # noqa: PLC0415  # an extra

    deltalake.write_deltalake(log.directory.parent.parent / "delta", pa.table({"a": [1]}))
    with pytest.raises(kafkaseg.TargetError, match="has no commit of an export"):
        run(log, "delta")


def test_a_delta_table_that_was_restored(log: GrowingPartition) -> None:
    """Its rows are those of an older version, and its transactions are not: nobody can say where to go on."""
    import deltalake  # noqa: PLC0415  # an extra

    run(log, "delta")
    log.write(5)
    run(log, "delta")
    table = deltalake.DeltaTable(log.directory.parent.parent / "delta")
    table.restore(0)
    with pytest.raises(kafkaseg.TargetError, match="was restored to an older version since its last export"):
        run(log, "delta")


def test_an_iceberg_table_that_was_rolled_back(log: GrowingPartition) -> None:
    """The same: the property with the offsets is not rolled back with the rows."""
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415  # an extra

    run(log, "iceberg")
    log.write(5)
    run(log, "iceberg")
    table = load_catalog("lake", type="sql", uri=f"sqlite:///{log.directory.parent.parent}/catalog.db").load_table(
        "kafka.events"
    )
    table.manage_snapshots().rollback_to_snapshot(table.history()[0].snapshot_id).commit()
    with pytest.raises(kafkaseg.TargetError, match="was rolled back to an older snapshot since its last export"):
        run(log, "iceberg")


def test_others_may_write_into_a_delta_table(log: GrowingPartition) -> None:
    """Its optimizer, for one."""
    import deltalake  # noqa: PLC0415  # an extra

    run(log, "delta", target_bytes=600)
    table = deltalake.DeltaTable(log.directory.parent.parent / "delta")
    table.optimize.compact()
    log.write(3)
    assert run(log, "delta").rows == 3
    table.update_incremental()
    assert pads.dataset([*table.file_uris()]).count_rows() == 23


def test_two_runs_at_a_time(log: GrowingPartition, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second commit is refused, in each format."""
    for form in FORMATS:
        run(log, form)
    log.write(5)
    folder = log.directory.parent.parent
    for form in FORMATS:
        from kafka_segment_source.exporting import export as module  # noqa: PLC0415  # its class is patched

        commit = module._Commits.add
        busy: list[int] = []

        def add(
            self: Any, files: Any, positions: Any, form: str = form, busy: list[int] = busy, commit: Any = commit
        ) -> None:
            if not busy:
                busy.append(1)
                run(log, form)
            commit(self, files, positions)

        monkeypatch.setattr(module._Commits, "add", add)
        with pytest.raises(kafkaseg.TargetError, match="was changed by somebody else during this run"):
            run(log, form)
        monkeypatch.setattr(module._Commits, "add", commit)
        assert run(log, form).rows == 0, form
    assert sum(pq.ParquetFile(path).metadata.num_rows for path in (folder / "parquet").glob("*.parquet")) >= 25


def test_a_file_that_somebody_removed(log: GrowingPartition) -> None:
    run(log)
    [file] = (log.directory.parent.parent / "parquet").glob("*.parquet")
    file.unlink()
    with pytest.raises(kafkaseg.TargetError, match=f"lacks {file.name}, which its last commit lists"):
        run(log)


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2}', '{"version": 1, "by": "none", "files": []}'])
def test_a_manifest_of_garbage(log: GrowingPartition, text: str) -> None:
    run(log)
    (log.directory.parent.parent / "parquet" / "_kafkaseg" / f"{2:020}.json").write_text(text)
    with pytest.raises(kafkaseg.TargetError, match=r"is no manifest of version 1|does not say which offsets it holds"):
        run(log)


def test_files_of_a_run_that_died_long_ago_go(log: GrowingPartition, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of today stay: their run may still be at work."""
    run(log)
    staged = log.directory.parent.parent / "parquet" / "_kafkaseg" / "staged"
    for begun in (1, 4_000_000_000):
        (staged / f"{begun}-kafkaseg-0.parquet").write_bytes(b"")
    run(log)
    assert [path.name for path in staged.iterdir()] == ["4000000000-kafkaseg-0.parquet"]


def test_files_have_the_asked_size(log: GrowingPartition) -> None:
    for _ in range(40):
        log.write(500)
    report = run(log, target_bytes="20k")
    sizes = sorted(path.stat().st_size for path in (log.directory.parent.parent / "parquet").glob("*.parquet"))
    assert report.files == len(sizes) > 4
    assert all(10_000 <= size <= 40_000 for size in sizes[1:])


def test_a_table_for_each_topic(tmp_path: Path) -> None:
    reports = kafkaseg.export(ORDERS, f"{tmp_path}/{{topic}}/events")
    assert [(report.target, report.rows) for report in reports] == [
        (f"{tmp_path}/orders/events", 4000),
        (f"{tmp_path}/payments/events", 2000),
    ]


def test_rows_are_those_of_a_scan(tmp_path: Path) -> None:
    kafkaseg.export(ORDERS, str(tmp_path / "table"), subscribe="orders", includeHeaders=True)
    found = pads.dataset(tmp_path / "table").to_table().sort_by([("partition", "ascending"), ("offset", "ascending")])
    wanted = kafkaseg.scan(ORDERS, subscribe="orders", includeHeaders=True, isolationLevel="read_committed").read_all()
    assert found.equals(wanted)


def test_wrong_use(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for wrong, error, words in [
        ({"format": "csv"}, OptionError, "format is 'csv'"),
        ({"by": ["offset"]}, OptionError, "by is 'offset': expected topic"),
        ({"by": ["topic", "topic"]}, OptionError, "each rule once"),
        ({"target_bytes": 0}, OptionError, "target_bytes is 0"),
        ({"to": str(file)}, PathError, "is a file, expected a directory"),
        ({"to": "lake.x", "format": "iceberg"}, OptionError, "CATALOG.NAMESPACE.TABLE"),
        ({"view": "batches"}, OptionError, "view"),
    ]:
        with pytest.raises(error, match=words):
            kafkaseg.export(ORDERS, **{"to": str(tmp_path / "table"), **wrong})  # type: ignore[arg-type]


def test_the_state_is_in_the_last_manifest(log: GrowingPartition) -> None:
    run(log)
    table = log.directory.parent.parent / "parquet"
    manifest = json.loads((table / "_kafkaseg" / f"{1:020}.json").read_text())
    assert manifest["offsets"] == {"orders": {"0": 20}}
    assert ParquetTable(Folder(str(table), Settings()), parse_by([])).read_state() == State({("orders", 0): 20}, {})
