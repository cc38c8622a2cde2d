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
from kafka_segment_source.errors import (
    CorruptRecordError,
    DataLossError,
    MisfitError,
    OptionError,
    PathError,
    StorageError,
    UnsupportedError,
)
from kafka_segment_source.exporting.data_files import parse_by
from kafka_segment_source.exporting.parquet_table import ParquetTable
from kafka_segment_source.exporting.target_tables import State
from kafka_segment_source.storage.folders import Folder
from kafka_segment_source.storage.settings import Settings
from kafka_segment_source.streams import log_ends
from tests.support.avro_cases import Branch, encode
from tests.support.growing_log import GrowingPartition
from tests.support.rows import LOG_DIRECTORIES, MESSAGE_SETS
from tests.support.schema_logs import SchemaLog, framed, write_records, write_values
from tests.support.writer import Rec

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


def catalog_in(folder: Path) -> dict[str, str]:
    """Properties of an Iceberg catalog in a file."""
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}


def run(log: GrowingPartition, form: str = "parquet", **options: Any) -> kafkaseg.TableReport:
    """Exports the log into a table beside it."""
    folder = log.directory.parent.parent
    if form == "iceberg":
        options["catalog"] = catalog_in(folder)
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


def test_a_column_and_a_delete_of_others(log: GrowingPartition) -> None:
    """Rows that somebody deleted do not come again, and a column that somebody added is null."""
    import deltalake  # noqa: PLC0415  # an extra

    run(log, "delta")
    table = deltalake.DeltaTable(log.directory.parent.parent / "delta")
    table.alter.add_columns([deltalake.Field("note", deltalake.schema.PrimitiveType("string"))])
    table.delete('"offset" < 5')
    log.write(3)
    assert run(log, "delta").rows == 3
    table.update_incremental()
    assert sorted(table.to_pyarrow_table()["offset"].to_pylist()) == list(range(5, 23))


@pytest.mark.parametrize("is_first", [True, False])
def test_two_runs_at_a_time(log: GrowingPartition, monkeypatch: pytest.MonkeyPatch, is_first: bool) -> None:
    """The second commit is refused, in each format, also where there is no table yet."""
    for form in () if is_first else FORMATS:
        run(log, form)
    log.write(5)
    folder = log.directory.parent.parent
    for form in FORMATS:
        from kafka_segment_source.exporting import export_run as module  # noqa: PLC0415  # its class is patched

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


def test_a_manifest_that_somebody_removed(log: GrowingPartition) -> None:
    """Its rows would come again."""
    run(log)
    log.write(5)
    run(log)
    (log.directory.parent.parent / "parquet" / "_kafkaseg" / f"{2:020}.json").unlink()
    with pytest.raises(kafkaseg.TargetError, match="has 2 files of exports, and its manifests list 1: a manifest was"):
        run(log)


def test_files_that_others_made_of_ours(log: GrowingPartition) -> None:
    """A directory may be compacted, and old files may go: the offsets stay."""
    run(log)
    log.write(5)
    run(log)
    table = log.directory.parent.parent / "parquet"
    first = json.loads((table / "_kafkaseg" / f"{1:020}.json").read_text())["files"][0]["name"]
    (table / first).rename(table / "compacted.parquet")
    log.write(1)
    assert run(log).rows == 1


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
    told: list[kafkaseg.TableReport] = []
    reports = kafkaseg.export(ORDERS, f"{tmp_path}/{{topic}}/events", on_report=told.append)
    assert [(report.target, report.rows) for report in reports] == [
        (f"{tmp_path}/orders/events", 4000),
        (f"{tmp_path}/payments/events", 2000),
    ]
    assert told == reports
    only = {"assign": {"orders": [1], "payments": [0]}, "startingOffsets": {"orders": {1: 1400}, "payments": {0: 1990}}}
    reports = kafkaseg.export(ORDERS, f"{tmp_path}/some/{{topic}}", **only)  # type: ignore[arg-type]
    assert [report.rows for report in reports] == [76, 10]


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
        ({"until": "-1h"}, OptionError, "the rows that it leaves out would not come with the next run"),
        ({"endingOffsets": "latest"}, OptionError, "which takes all that is there when it begins"),
        ({"maxOffsetsPerTrigger": 5}, OptionError, "'maxOffsetsPerTrigger' is not for an export"),
        ({"catalog": {"a": "b"}}, OptionError, "catalog is for format iceberg alone"),
        ({"to": " "}, OptionError, "the name of a target is empty"),
        ({"rejected": "/a"}, OptionError, "rejected needs option 'valueFormat' or option 'keyFormat'"),
        ({"rejected": "/{topic}"}, OptionError, "must be in both targets"),
        ({"rejected": str(tmp_path / "table" / "x")}, OptionError, "neither may be inside the other"),
        ({"rejected": "/a", "valueMode": "FAILFAST"}, OptionError, "'valueMode' does not go with rejected"),
    ]:
        with pytest.raises(error, match=words):
            kafkaseg.export(ORDERS, **{"to": str(tmp_path / "table"), **wrong})  # type: ignore[arg-type]


def test_the_state_is_in_the_last_manifest(log: GrowingPartition) -> None:
    run(log)
    table = log.directory.parent.parent / "parquet"
    manifest = json.loads((table / "_kafkaseg" / f"{1:020}.json").read_text())
    assert manifest["offsets"] == {"orders": {"0": 20}}
    assert ParquetTable(Folder(str(table), Settings()), parse_by([])).read_state() == State({("orders", 0): 20}, {})


def test_a_table_that_fails_leaves_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The error comes at the end."""
    for topic in ("orders", "payments"):
        (tmp_path / topic).mkdir()
        (tmp_path / topic / "a.parquet").touch()
    (tmp_path / "payments" / "a.parquet").unlink()
    told: list[kafkaseg.TableReport] = []
    with pytest.raises(kafkaseg.TargetError, match="orders has Parquet files, and no manifest"):
        kafkaseg.export(ORDERS, f"{tmp_path}/{{topic}}", on_report=told.append)
    assert [report.rows for report in told] == [2000]
    (tmp_path / "payments" / "_kafkaseg" / f"{2:020}.json").touch()
    with pytest.raises(kafkaseg.TargetError, match="orders has Parquet files, and no manifest"):
        kafkaseg.export(ORDERS, f"{tmp_path}/{{topic}}")
    assert "is no manifest of version 1" in caplog.text


def test_names_of_topics(log: GrowingPartition) -> None:
    """A dot is no border of an Iceberg name. Two dots are no directory."""
    folder = log.directory.parent.parent
    log.directory.rename(log.directory.parent / "a.b-0")
    assert run(log, "iceberg", to="lake.kafka.{topic}").target == "lake.kafka.a.b"
    assert (folder / "lake" / "kafka" / "a.b" / "data").is_dir()
    (log.directory.parent / "a.b-0").rename(log.directory.parent / "..-0")
    with pytest.raises(PathError, match=r"topic '\.\.' cannot name a target"):
        run(log, to=f"{folder}/tables/{{topic}}")


@pytest.mark.parametrize("form", FORMATS)
def test_a_partition_without_records(tmp_path: Path, form: str) -> None:
    """Its table is there, with no row, and it may get some."""
    log = GrowingPartition(tmp_path / "logs" / "orders-0")
    log.roll()
    assert [run(log, form).commits for _ in range(2)] == [1, 0]
    log.write(2)
    assert run(log, form).rows == 2


@pytest.mark.parametrize("name", [*LOG_DIRECTORIES, *MESSAGE_SETS])
def test_logs_of_real_brokers(name: str, tmp_path: Path) -> None:
    """The rows are those of a scan, and a second run adds none."""
    path = {**LOG_DIRECTORIES, **MESSAGE_SETS}[name]
    [first] = kafkaseg.export(path, str(tmp_path), endAt="end")
    [second] = kafkaseg.export(path, str(tmp_path), endAt="end")
    wanted = kafkaseg.scan(path, isolationLevel="read_committed").read_all()
    assert (first.rows, second.rows, second.commits) == (wanted.num_rows, 0, 0)
    order = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
    if wanted.num_rows:
        assert pads.dataset(tmp_path).to_table().sort_by(order).equals(wanted.sort_by(order))


def test_a_target_inside_the_logs(log: GrowingPartition) -> None:
    """A broker does not start with directories that it does not know."""
    logs = log.directory.parent
    (logs / "meta.properties").touch()
    there = sorted(logs.rglob("*"))
    for path, to in [(logs, logs), (logs, logs / "a"), (f"{logs.parent}/l*", logs / "a"), (log.directory, logs / "a")]:
        with pytest.raises(PathError, match="which is read and never written to"):
            kafkaseg.export(path, str(to))
    with pytest.raises(PathError, match=r"the Iceberg table l\.k\.e is inside"):
        kafkaseg.export(logs, "l.k.e", "iceberg", catalog=catalog_in(logs.parent) | {"warehouse": f"file://{logs}/wh"})
    with pytest.raises(PathError, match="which is read and never written to"):
        kafkaseg.export(logs, str(logs.parent / "a"), valueFormat="string", rejected=str(logs / "b"))
    assert sorted(logs.rglob("*")) == there


@pytest.mark.parametrize("form", FORMATS)
def test_a_target_that_cannot_be_written(log: GrowingPartition, form: str) -> None:
    options: dict[str, Any] = {"to": "/proc/kafkaseg"}
    if form == "iceberg":
        options = {"catalog": catalog_in(log.directory.parent.parent) | {"warehouse": "file:///proc/kafkaseg"}}
        with pytest.raises(StorageError, match=r"the Iceberg table l\.k\.e cannot be read or written: .*/proc"):
            kafkaseg.export(log.directory.parent, "l.k.e", form, **options)
        return
    with pytest.raises(StorageError, match="/proc/kafkaseg cannot be read or written: "):
        run(log, form, **options)


def test_a_catalog_that_is_not_there(log: GrowingPartition, tmp_path: Path) -> None:
    for catalog, error, words in [
        ({"type": "sql"}, OptionError, "the Iceberg catalog 'l' cannot be opened: URI missing"),
        ({"type": "sql", "uri": f"sqlite:///{tmp_path}/no/c.db"}, OptionError, "unable to open database file"),
    ]:
        with pytest.raises(error, match=words):
            kafkaseg.export(log.directory.parent, "l.k.e", "iceberg", catalog=catalog)


def test_a_log_that_is_damaged(log: GrowingPartition) -> None:
    """What comes before the damage is not lost; what comes after it, only if the user says so."""
    path = log.directory / f"{0:020}.log"
    log.write(5)
    damaged = path.stat().st_size - 1
    log.write(5)
    data = bytearray(path.read_bytes())
    data[damaged] ^= 1
    path.write_bytes(data)
    for _ in range(2):
        with pytest.raises(CorruptRecordError):
            run(log, target_bytes=100)
    assert run(log, mode="DROPMALFORMED").end == {("orders", 0): 30}
    rows = pads.dataset(log.directory.parent.parent / "parquet").to_table()
    assert sorted(rows["offset"].to_pylist()) == [*range(20), *range(25, 30)]


@pytest.mark.parametrize(("rolls", "follows"), [(False, True), (False, False), (True, False)])
def test_what_comes_before_damage(rolls: bool, follows: bool, log: GrowingPartition) -> None:
    """It is in the table, also where its file is small: with read_committed only if no whole batch follows."""
    if rolls:
        log.roll()
    path = sorted(log.directory.glob("*.log"))[-1]
    log.write(5)
    damaged = path.stat().st_size - 1
    if follows:
        log.write(5)
    data = bytearray(path.read_bytes())
    data[damaged] ^= 1
    path.write_bytes(data)
    isolation = "read_uncommitted" if follows else "read_committed"
    for _ in range(2):
        with pytest.raises(CorruptRecordError):
            run(log, isolationLevel=isolation)
        rows = pads.dataset(log.directory.parent.parent / "parquet").to_table()
        assert rows["offset"].to_pylist() == [*range(20)]


def test_a_last_offset_that_is_damaged(log: GrowingPartition) -> None:
    """No CRC covers a batch's base offset. A run never goes on behind an offset that no record of this segment has."""
    path = log.directory / f"{0:020}.log"
    base = path.stat().st_size
    log.write(5)
    data = bytearray(path.read_bytes())
    data[base + 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptRecordError):
        run(log)
    assert run(log, mode="DROPMALFORMED").end == {("orders", 0): 20}


def test_a_dry_run_leaves_a_broken_commit(log: GrowingPartition, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run finishes it."""
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "move", lambda *_: (_ for _ in ()).throw(StorageError("died")))
        with pytest.raises(StorageError, match="died"):
            run(log)
    table = log.directory.parent.parent / "parquet"
    before = sorted(table.rglob("*"))
    assert run(log, dry_run=True).bytes_to_read == 0
    assert sorted(table.rglob("*")) == before
    assert run(log).rows == 0
    assert pads.dataset(table).count_rows() == 20


# ---- typed values ----

OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NEW = OLD | {"fields": [*OLD["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}  # type: ignore[misc]
GOOD = framed(1, encode(OLD, {"id": 5}))


def write_orders(folder: Path, values: list[bytes | None]) -> SchemaLog:
    """Orders of a registry with one schema."""
    schemas = SchemaLog(folder / "logs")
    schemas.register("orders-value", 1, OLD)
    write_values(folder / "logs", values)
    return schemas


def run_typed(folder: Path, form: str, **options: Any) -> kafkaseg.TableReport:
    catalog = {"catalog": catalog_in(folder)} if form == "iceberg" else {}
    to = {"to": "l.k.orders", "rejected": "l.k.rejected"} if form == "iceberg" else {}
    options = {"to": f"{folder}/good", "rejected": f"{folder}/rejected", "subscribe": "orders"} | to | catalog | options
    [report] = kafkaseg.export(folder / "logs", format=form, valueFormat="avro", **options)  # type: ignore[arg-type]
    return report


def read_typed(folder: Path, form: str, name: str) -> list[dict[str, Any]]:
    """The rows of `good` or `rejected`, as another program reads them."""
    if form == "iceberg":
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415  # an extra

        table = load_catalog("l", **catalog_in(folder)).load_table(f"k.{name.replace('good', 'orders')}")
        found = table.scan().to_arrow()
    elif form == "delta":
        import deltalake  # noqa: PLC0415  # an extra

        found = deltalake.DeltaTable(folder / name).to_pyarrow_table()
    else:
        found = pads.dataset(folder / name).to_table()
    rows: list[dict[str, Any]] = found.sort_by("offset").to_pylist()
    return rows


@pytest.mark.parametrize("form", FORMATS)
def test_rows_that_do_not_fit(tmp_path: Path, form: str, caplog: pytest.LogCaptureFixture) -> None:
    """They are in a table beside the other one, with their bytes and the reason. A tombstone fits."""
    write_orders(tmp_path, [GOOD, b"no avro", None, framed(7, b"x"), GOOD])
    report = run_typed(tmp_path, form)
    assert (report.rows, report.rejected, report.commits) == (3, 2, 1)
    good, rejected = (read_typed(tmp_path, form, name) for name in ("good", "rejected"))
    assert [(row["offset"], row["value"]) for row in good] == [(0, {"id": 5}), (2, None), (4, {"id": 5})]
    assert "_corrupt_record" not in good[0]
    assert [(row["topic"], row["partition"], row["offset"], row["key"], row["value"]) for row in rejected] == [
        ("orders", 0, 1, b"k1", b"no avro"),
        ("orders", 0, 3, b"k3", framed(7, b"x")),
    ]
    assert rejected[1]["reason"].startswith("value: found schema id 7, expected the only schema in ")
    assert "1 value does not fit, and is rejected: a schema that is not known (the first at offset 3" in caplog.text
    again = run_typed(tmp_path, form)
    assert (again.rows, again.rejected, again.commits) == (0, 0, 0)


@pytest.mark.parametrize("form", FORMATS)
def test_a_run_that_died_between_the_two_tables(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rejected rows were committed, and the others were not: the next run adds the others."""
    from kafka_segment_source.exporting import export_run as module  # noqa: PLC0415  # its class is patched

    write_orders(tmp_path, [GOOD, b"no avro"])
    with monkeypatch.context() as patch:
        commits: list[int] = []
        add = module._Commits.add

        def die(self: Any, *arguments: Any) -> None:
            if commits:
                raise StorageError("died")
            commits.append(1)
            add(self, *arguments)

        patch.setattr(module._Commits, "add", die)
        with pytest.raises(StorageError, match="died"):
            run_typed(tmp_path, form)
    assert [row["offset"] for row in read_typed(tmp_path, form, "rejected")] == [1]
    report = run_typed(tmp_path, form)
    assert (report.rows, report.rejected) == (1, 0)
    assert [row["offset"] for row in read_typed(tmp_path, form, "rejected")] == [1]


def test_two_runs_that_died_between_the_two_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one dies before it comes to a partition whose rejected rows the first one committed."""
    from kafka_segment_source.exporting import export_run as module  # noqa: PLC0415  # its class is patched

    add = module._Commits.add
    commits: list[int] = []

    def die(self: Any, *arguments: Any) -> None:
        if commits:
            raise StorageError("died")
        commits.append(1)
        add(self, *arguments)

    write_orders(tmp_path, [b"no avro"])
    write_records(tmp_path / "logs" / "orders-1", [Rec(0, 0, b"k", b"no avro")])
    for count, size in ((1, 10**6), (2, 100)):
        write_values(tmp_path / "logs", [b"no avro"] * count)
        commits.clear()
        with monkeypatch.context() as patch:
            patch.setattr(module._Commits, "add", die)
            with pytest.raises(StorageError, match="died"):
                run_typed(tmp_path, "parquet", target_bytes=size)
    assert run_typed(tmp_path, "parquet").rejected == 0
    rejected = read_typed(tmp_path, "parquet", "rejected")
    assert sorted((row["partition"], row["offset"]) for row in rejected) == [(0, 0), (0, 1), (1, 0)]


def test_keys_that_do_not_fit(tmp_path: Path) -> None:
    write_orders(tmp_path, [GOOD, b"no avro"])
    assert run_typed(tmp_path, "parquet", keyFormat="json", keySchema="a bigint").rejected == 2
    rejected = read_typed(tmp_path, "parquet", "rejected")
    assert [(row["key"], row["value"]) for row in rejected] == [(b"k0", GOOD), (b"k1", b"no avro")]
    assert rejected[0]["reason"] == "key: found bytes that are not JSON, expected JSON of type struct<`a`:bigint>"
    assert "; value: found 7 bytes that begin with " in rejected[1]["reason"]


def test_without_a_table_for_them(tmp_path: Path) -> None:
    """The first one ends the run, and nothing after it is exported."""
    write_orders(tmp_path, [GOOD, b"no avro"])
    with pytest.raises(MisfitError, match="offset 1"):
        run_typed(tmp_path, "parquet", rejected=None)
    assert not (tmp_path / "good" / "_kafkaseg").exists() or not list((tmp_path / "good").glob("*.parquet"))


@pytest.mark.parametrize("form", FORMATS)
def test_a_schema_that_grew(tmp_path: Path, form: str) -> None:
    """The table stays as it is, until the user says what to do."""
    schemas = write_orders(tmp_path, [GOOD])
    run_typed(tmp_path, form)
    schemas.register("orders-value", 2, NEW, 2)
    values: list[bytes | None] = [GOOD, framed(2, encode(NEW, {"id": 6, "note": Branch(1, "a")}))]
    write_values(tmp_path / "logs", values)
    with pytest.raises(
        kafkaseg.TargetError, match=r"has no field value\.note, which the schema has now: .*'valueSchema'"
    ):
        run_typed(tmp_path, form)
    assert run_typed(tmp_path, form, valueSchema="id:1").rows == 1
    assert [row["value"] for row in read_typed(tmp_path, form, "good")] == [{"id": 5}, {"id": 6}]


KINDS: dict[str, tuple[Any, Any]] = {
    "decimal": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, b"\x01\x02"),
    "uuid": ({"type": "string", "logicalType": "uuid"}, "123e4567-e89b-12d3-a456-426614174000"),
    "date": ({"type": "int", "logicalType": "date"}, 5),
    "moment": ({"type": "long", "logicalType": "timestamp-millis"}, 5),
    "local": ({"type": "long", "logicalType": "local-timestamp-micros"}, 5),
    "branches": (["null", "int", "string"], Branch(1, 5)),
    "maps": (
        {"type": "map", "values": {"type": "array", "items": {"type": "map", "values": "bytes"}}},
        {"x": [{"y": b"1"}]},
    ),
    "rows": (
        {"type": "array", "items": {"type": "record", "name": "I", "fields": [{"name": "q", "type": "int"}]}},
        [{"q": 1}],
    ),
    "symbol": ({"type": "enum", "name": "E", "symbols": ["A"]}, 0),
    "single": ("float", 1.5),
    "yes": ("boolean", True),
}
"""A type of each kind, with a value."""


@pytest.mark.parametrize("form", FORMATS)
def test_columns_of_every_type(tmp_path: Path, form: str) -> None:
    """The table takes them, and a second run finds its own columns again."""
    fields = [{"name": name, "type": kind} for name, (kind, _) in KINDS.items()]
    schema = {"type": "record", "name": "All", "fields": fields}
    value = framed(1, encode(schema, {name: each for name, (_, each) in KINDS.items()}))
    SchemaLog(tmp_path / "logs").register("orders-value", 1, schema)
    for count in (1, 2, 3):
        write_values(tmp_path / "logs", [value] * count)
        assert run_typed(tmp_path, form, rejected=None).rows == 1
    wanted = kafkaseg.scan(tmp_path / "logs", ["value"], subscribe="orders", valueFormat="avro").read_all()
    found = read_typed(tmp_path, form, "good")
    assert len(found) == 3
    if form == "parquet":
        assert [row["value"] for row in found] == wanted["value"].to_pylist()


@pytest.mark.parametrize("form", FORMATS)
def test_a_column_that_no_file_can_have(tmp_path: Path, form: str) -> None:
    """A record of Avro may have no field."""
    schema = {
        "type": "record",
        "name": "All",
        "fields": [{"name": "a", "type": {"type": "record", "name": "E", "fields": []}}],
    }
    SchemaLog(tmp_path / "logs").register("orders-value", 1, schema)
    write_values(tmp_path / "logs", [framed(1, b"")])
    with pytest.raises(UnsupportedError, match="cannot have these columns: Cannot write struct type 'a' with no child"):
        run_typed(tmp_path, form, rejected=None)
