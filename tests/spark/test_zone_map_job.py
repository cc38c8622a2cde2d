"""Zone maps made by a Spark job, and read through in Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kafka_segment_source
from kafka_segment_source.errors import OptionError
from tests.support.maps import map_path
from tests.support.rows import KEY, ORDERS, TIMESTAMP, expected, in_scan_order, keep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGS = ORDERS / "data"
SINCE, UNTIL = 1773135000000, 1773135300000


def test_the_job_makes_what_the_command_makes(spark: SparkSession, tmp_path: Path) -> None:
    """The same zones; a second run decodes only what it must."""
    done = kafka_segment_source.update_zone_maps(spark, LOGS, str(tmp_path / "by Spark"))
    assert (done.partitions, done.segments_mapped, done.zones, done.damage) == (4, 24, 24, [])
    assert done.bytes_read == sum(path.stat().st_size for path in LOGS.glob("*/*.log"))
    from tests.cli.runner import run  # noqa: PLC0415

    run("zonemap", LOGS, "--to", tmp_path / "by command")
    for partition in range(3):
        both = [map_path(tmp_path / name, "orders", partition).read_bytes() for name in ("by Spark", "by command")]
        assert both[0] == both[1]

    again = kafka_segment_source.update_zone_maps(spark, LOGS, str(tmp_path / "by Spark"), subscribe="orders")

    assert (again.partitions, again.segments_mapped, again.files_written) == (3, 0, 0)


def test_rows_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Options and pushed filters alike: what a real consumer saw of that time."""
    kafka_segment_source.update_zone_maps(spark, LOGS, str(tmp_path))
    wanted = keep(expected(LOGS), lambda row: SINCE <= row[TIMESTAMP] < UNTIL)
    by_option = spark.read.format("kafkaseg").options(
        since=SINCE, until=UNTIL, zoneMaps=str(tmp_path), includeHeaders=True
    )
    assert sorted(in_scan_order(by_option.load(str(LOGS)).toArrow())) == wanted
    frame = kafka_segment_source.read(spark, LOGS, zoneMaps=str(tmp_path), includeHeaders=True)
    bounds = "timestamp >= '2026-03-10 09:30:00' AND timestamp < '2026-03-10 09:35:00'"
    assert sorted(in_scan_order(frame.filter(bounds).toArrow())) == wanted


def test_key_filters(spark: SparkSession, tmp_path: Path) -> None:
    """The job makes the filters that the command makes. A key is found by the option and by a pushed filter."""
    kafka_segment_source.update_zone_maps(spark, LOGS, str(tmp_path / "by Spark"), keys=True)
    kafka_segment_source.update_zone_maps_locally(LOGS, tmp_path / "by command", keys=True)
    both = [
        {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).glob("*.keys/*")}
        for name in ("by Spark", "by command")
    ]
    assert len(both[0]) == 24 and both[0] == both[1]
    maps = {"zoneMaps": str(tmp_path / "by Spark")}
    wanted = keep(expected(LOGS), lambda row: row[KEY] in (b"customer-0347", b"customer-0348"))
    reader = spark.read.format("kafkaseg").options(
        **maps, includeHeaders="true", key='["customer-0347","customer-0348"]'
    )
    assert sorted(in_scan_order(reader.load(str(LOGS)).toArrow())) == wanted != []
    for condition in (
        "key IN ('customer-0347', X'637573746F6D65722D30333438')",
        "(key = 'customer-0347' OR key <=> 'customer-0348') AND offset >= 0",
    ):
        frame = kafka_segment_source.read(spark, LOGS, includeHeaders=True, **maps).filter(condition)
        assert sorted(in_scan_order(frame.toArrow())) == wanted


def test_bounds_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A map is of whole segments."""
    with pytest.raises(OptionError, match="option 'until' is not for zone maps"):
        kafka_segment_source.update_zone_maps(spark, LOGS, str(tmp_path), until=UNTIL)
