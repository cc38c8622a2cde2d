"""The wheel holds both packages and nothing else, and says what it needs."""

from __future__ import annotations

import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import kafka_segment_source

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
    assert any(name.endswith("LICENSE") for name in wheel.namelist())


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
