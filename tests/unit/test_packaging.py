"""The wheel holds both packages and nothing else, and says what it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import kafka_segment_source
from kafka_segment_source.kernels import machine_code

ROOT = Path(kafka_segment_source.__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built by the project's own backend, without a network."""
    builders = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    (path,) = builders.WheelBuilder(str(ROOT)).build(
        directory=str(tmp_path_factory.mktemp("dist")), versions=["standard"]
    )
    return zipfile.ZipFile(path)


def test_the_wheel_holds_both_packages(wheel: zipfile.ZipFile) -> None:
    """Every module of both packages is in the wheel, and no test, fixture or example."""
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    there = {
        str(path.relative_to(ROOT))
        for package in ("kafka_segment_source", "pyspark_kafkaseg")
        for path in (ROOT / package).rglob("*.py")
    }
    assert {name for name in names if name.endswith(".py")} == there
    assert {name.split("/")[0] for name in names} == {"kafka_segment_source", "pyspark_kafkaseg"}
    assert not any(name.endswith((".pyc", ".nbi", ".nbc", ".parquet")) for name in names)
    assert {name for name in names if name.endswith(".typed")} == {"kafka_segment_source/py.typed"}
    demo = {name for name in names if not name.endswith((".py", ".typed"))}
    demo.remove("kafka_segment_source/report/page.html.j2")
    assert all(name.startswith("kafka_segment_source/demo_data/") for name in demo)


def test_the_wheels_metadata(wheel: zipfile.ZipFile) -> None:
    """Name, version and needs: pyspark only as an extra, so that a cluster keeps its own Spark."""
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = Parser().parsestr(wheel.read(name).decode())
    needs = metadata.get_all("Requires-Dist") or []

    assert (metadata["Name"], metadata["Version"]) == ("kafka-segment-source", kafka_segment_source.__version__)
    assert metadata["Requires-Python"] == ">=3.11"
    assert [need for need in needs if need.startswith("pyspark")] == ["pyspark<5,>=4.0; extra == 'spark'"]
    assert not any(need.startswith("pytest") and "extra ==" not in need for need in needs)
    assert {"LICENSE", "NOTICE"} <= {Path(name).name for name in wheel.namelist()}


def test_every_import_is_declared() -> None:
    """What the package imports is in its dependencies; what is in its dependencies is imported."""
    import ast  # noqa: PLC0415
    import sys  # noqa: PLC0415

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {need.split(";")[0].strip().split(">")[0].split("[")[0] for need in project["dependencies"]}
    imported = set()
    for path in (ROOT / "kafka_segment_source").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.split(".")[0])
    imported -= set(sys.stdlib_module_names) | {"kafka_segment_source", "pyspark"}
    of_extras = {
        "boto3",
        "botocore",
        "cryptography",
        "deltalake",
        "google",
        "jinja2",
        "matplotlib",
        "polars",
        "pyiceberg",
    }  # AWS profiles, tiers, exports, Protobuf, the report, frames
    assert of_extras <= imported
    imported -= of_extras
    assert {name for name in declared if name != "tzdata"} == imported


def test_the_sdist_builds_the_same_wheel(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """What pip builds from the sdist is what is built from a clone."""
    from hatchling.builders.sdist import SdistBuilder  # noqa: PLC0415
    from hatchling.builders.wheel import WheelBuilder  # noqa: PLC0415

    (path,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(path) as packed:
        packed.extractall(tmp_path, filter="data")
    (again,) = WheelBuilder(path.removesuffix(".tar.gz")).build(directory=str(tmp_path), versions=["standard"])

    with zipfile.ZipFile(again) as built:
        assert {info.filename: info.CRC for info in built.infolist()} == {
            info.filename: info.CRC for info in wheel.infolist()
        }


def test_the_wheel_answers_by_itself(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Unpacked elsewhere, it answers by its own modules and its own data, and Spark finds the format in it."""
    wheel.extractall(tmp_path / "site")
    checked = (
        "import kafka_segment_source, pyspark_kafkaseg, sys;"
        "print(kafka_segment_source.__file__, pyspark_kafkaseg.DefaultSource.name());"
        "from kafka_segment_source.cli import main; sys.argv = ['kafkaseg', 'demo', '--json']; main()"
    )
    environment = os.environ | {
        "PYTHONPATH": str(tmp_path / "site"),
        "NUMBA_CACHE_DIR": str(machine_code._find_directory()),
    }
    done = subprocess.run(
        [sys.executable, "-c", checked], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    first, _, rest = done.stdout.partition("\n")
    assert first == f"{tmp_path / 'site' / 'kafka_segment_source' / '__init__.py'} kafkaseg"
    assert json.loads(rest)["path"].endswith("demo_data")
    assert sum(json.loads(rest)["ordersPerMinute"].values()) == 346


@pytest.mark.skipif("KAFKASEG_RELEASE" not in os.environ, reason="make test-release: pip installs what it needs")
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_a_fresh_environment(kind: str, tmp_path: Path) -> None:
    """pip installs it with what it declares and nothing else: the command, a read, and no Spark. Then Spark, by its
    extra, and a query of the format by its name."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(tmp_path)], cwd=ROOT, check=True)
    (built,) = tmp_path.glob("kafka_segment_source-*")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    bin_folder = tmp_path / "venv" / "bin"
    environment = {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")}

    def answer_of(*command: str) -> str:
        told = subprocess.run(
            [str(bin_folder / command[0]), *command[1:]],
            env=environment | {"PYSPARK_PYTHON": str(bin_folder / "python")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert told.returncode == 0, told.stderr[-2000:]
        return told.stdout

    answer_of("python", "-m", "pip", "install", "--quiet", str(built))
    assert answer_of("kafkaseg", "--version") == f"kafkaseg {kafka_segment_source.__version__}\n"
    assert "customer-0347" in answer_of("kafkaseg", "demo")
    found = json.loads(answer_of("kafkaseg", "demo", "--json"))
    logs = str(tmp_path / found["path"])
    assert answer_of("python", "-c", f"import kafka_segment_source as k; print(k.scan({logs!r}).read_all().num_rows)")
    assert "No module named 'pyspark'" in answer_of(
        "python", "-c", "import kafka_segment_source as k\ntry: k.read\nexcept ImportError as error: print(error)"
    )
    assert answer_of("python", "-m", "pip", "check") == "No broken requirements found.\n"

    if kind == "wheel":
        answer_of("python", "-m", "pip", "install", "--quiet", f"{built}[spark]")
        query = f"""
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").getOrCreate()
print(spark.read.format("kafkaseg").option("subscribe", "orders").load({logs!r}).count())
"""
        assert answer_of("python", "-c", query).split()[-1] == "4000"
