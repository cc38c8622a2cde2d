"""The Declarative Pipelines example, by Spark's own command line: twice over a log that grows in between.

`make test-pipelines` runs it, as pip fetches what Spark Connect needs. Spark 4.0 has no pipelines.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from tests.support.rows import ORDERS

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "pipeline"
SPARK_HOME = Path(pyspark.__file__).parent
COMMAND = SPARK_HOME / "bin" / "spark-pipelines"
NEEDS = ("grpcio", "grpcio-status", "googleapis-common-protos", "pandas", "pyyaml", "zstandard")

pytestmark = [
    pytest.mark.skipif("KAFKASEG_PIPELINES" not in os.environ, reason="make test-pipelines: pip fetches Connect"),
    pytest.mark.skipif(not COMMAND.exists(), reason="this Spark has no pipelines"),
]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has this environment, and beside it what Spark Connect needs."""
    folder = tmp_path_factory.mktemp("connect")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    found = folder / "bin" / "python"
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "base.pth").write_text(f"{ROOT}\n{SPARK_HOME.parent}\n")
    subprocess.run([str(found), "-m", "pip", "install", "--quiet", *NEEDS], check=True)
    return found


def run_pipeline(folder: Path, python: Path) -> None:
    """`spark-pipelines run` ends without an error."""
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python), "PATH": path}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [str(COMMAND), "run", "--conf", "spark.sql.catalogImplementation=hive"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "Run is COMPLETED" in done.stdout + done.stderr


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of one of the pipeline's tables."""
    files = sorted((folder / "spark-warehouse" / name).glob("*.parquet"))
    return pa.concat_tables([pq.read_table(file) for file in files]).to_pylist()


def seen_by_a_consumer(ends: dict[int, int]) -> list[dict[str, Any]]:
    """What a consumer saw of the topic, up to these offsets."""
    rows = pq.read_table(ORDERS / "expected.read_uncommitted.parquet").to_pylist()
    return [row for row in rows if row["topic"] == "orders" and row["offset"] < ends[row["partition"]]]


def test_a_log_that_grows(tmp_path: Path, python: Path) -> None:
    """Every order once, and the newest of each customer, after each run."""
    shutil.copytree(EXAMPLE, tmp_path / "pipeline")
    spec = tmp_path / "pipeline" / "spark-pipeline.yml"
    text = spec.read_text()
    for shown, real in (
        ("../data/orders/data", tmp_path / "logs"),
        ("/tmp/kafkaseg-pipeline", tmp_path / "storage"),
    ):
        assert shown in text
        text = text.replace(shown, str(real))
    spec.write_text(text)
    segments = {
        partition: sorted((ORDERS / "data" / f"orders-{partition}").glob("*.log"), key=lambda path: path.name)
        for partition in range(3)
    }
    for kept in (2, None):
        ends = {}
        for partition, files in segments.items():
            folder = tmp_path / "logs" / f"orders-{partition}"
            folder.mkdir(parents=True, exist_ok=True)
            for file in files[:kept]:
                shutil.copy(file, folder)
            ends[partition] = 1 << 40 if kept is None else int(files[kept].stem)
        run_pipeline(tmp_path / "pipeline", python)

        expected = seen_by_a_consumer(ends)
        found = table(tmp_path / "pipeline", "orders")
        assert sorted((row["partition"], row["position"], row["orderId"]) for row in found) == sorted(
            (row["partition"], row["offset"], json.loads(row["value"])["orderId"]) for row in expected
        )
        newest = {
            row["key"]: json.loads(row["value"])["orderId"] for row in sorted(expected, key=lambda row: row["offset"])
        }
        rows = table(tmp_path / "pipeline", "newest_orders")
        assert {row["customer"].encode(): row["orderId"] for row in rows} == newest
        assert len(rows) == len(newest)
