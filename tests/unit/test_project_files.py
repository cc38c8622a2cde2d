"""The files around the code say what the code and `.ci/run` do: workflows, constraints, Dockerfile, citation."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import kafka_segment_source

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())


def steps(job: str) -> list[dict[str, Any]]:
    """The steps of a job of the workflow."""
    found: list[dict[str, Any]] = WORKFLOW["jobs"][job]["steps"]
    return found


def test_the_workflow_runs_what_ci_runs() -> None:
    """One job is `.ci/run` itself. Every other one runs targets that the Makefile has."""
    assert {"run": ".ci/run"} in steps("everything")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    texts = [step["run"] for job in WORKFLOW["jobs"] for step in steps(job) if "run" in step]
    texts += re.findall(r"^make .*$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    words = [word for text in texts if text.startswith("make ") for word in shlex.split(text)[1:]]
    asked = {word for word in words if "=" not in word}
    assert {"lint", "demo", "test", "check"} <= asked <= targets


def test_every_test_that_counts_cases_has_many() -> None:
    """`make test-cases` runs every property, and every other file that asks how many cases it tries or takes long."""
    line = subprocess.run(["make", "-n", "test-cases"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    imports = re.compile(r"^from tests\.support\.cases import ", re.MULTILINE)
    tests = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")]
    counting = {str(path) for path in tests if path.parts[1] == "property" or imports.search((ROOT / path).read_text())}
    assert {word for word in shlex.split(line) if word.startswith("tests/")} == counting
    assert len(counting) >= 15


def test_the_workflow_has_every_version() -> None:
    """All Spark versions that the Makefile names, and every Python of the classifiers."""
    sparks = set(re.findall(r"SPARK=(4\.\d)", (ROOT / "docs" / "compatibility.md").read_text()))
    newest = re.search(r"^SPARK_NEWEST = (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert newest is not None
    assert set(WORKFLOW["jobs"]["spark"]["strategy"]["matrix"]["spark"]) == sparks - {newest[1]}
    pythons = {text.rpartition(" ")[2] for text in PROJECT["classifiers"] if ":: Python :: 3" in text}
    assert {"3.11", *WORKFLOW["jobs"]["python"]["strategy"]["matrix"]["python"]} == pythons


def test_actions_are_pinned() -> None:
    """A tag can be moved to other code; a hash cannot."""
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for action in re.findall(r"uses: (.*)", path.read_text()):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", action), action


def test_every_requirement_has_a_version() -> None:
    """constraints.txt has one for everything that pyproject.toml names, within its bounds, and for all that this needs.

    `python .ci/write_constraints.py` writes it. pyspark is chosen by the Makefile.
    """
    lines = (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
    versions = dict(line.split("==") for line in lines if not line.startswith("#"))
    wanted = [*PROJECT["dependencies"]]
    for name, needs in PROJECT["optional-dependencies"].items():
        wanted += needs if name not in ("spark", "fixtures") else []
    for need in map(Requirement, wanted):
        if need.name != "tzdata":  # not on Linux
            assert need.specifier.contains(versions[need.name]), need


def test_the_oldest_versions_are_those_of_the_project() -> None:
    """oldest.txt has the lower bound of each dependency, down to its patch releases."""
    lines = (ROOT / ".ci" / "oldest.txt").read_text().splitlines()
    versions = dict(line.split("==") for line in lines if not line.startswith("#"))
    bounds = {need.name: next(iter(need.specifier)).version for need in map(Requirement, PROJECT["dependencies"])}
    del bounds["tzdata"]  # not on Linux
    assert versions.keys() == bounds.keys()
    for name, bound in bounds.items():
        least = Version(bound).release
        assert Version(versions[name]).release[: len(least)] == least, name


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name
)
def test_issue_templates(path: Path) -> None:
    """A form has a name, a description and questions with labels."""
    form = yaml.safe_load(path.read_text())
    if path.name == "config.yml":
        assert set(form) == {"blank_issues_enabled"}
        return
    assert form["name"] and form["description"]
    assert all(part["attributes"]["label"] for part in form["body"])


def test_the_dockerfile_names_what_is_there() -> None:
    """What it copies is in its context, and the extras that it installs exist."""
    text = (ROOT / "Dockerfile").read_text()
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert all((ROOT / name).exists() for name in kept)
    assert ".ci/constraints.txt" in kept
    force_included = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [
        *force_included["packages"],
        *force_included["force-include"],
        *PROJECT["license-files"],
        PROJECT["readme"],
    ]
    assert all(any(Path(name).is_relative_to(each) for each in kept) for name in needed)
    [extras] = re.findall(r"\$\{wheel\}\[([a-z,]+)\]", text)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    assert text.count("FROM python:") == 2
    assert 'ENTRYPOINT ["kafkaseg"]' in text


def test_the_citation_is_of_this_version() -> None:
    """And has the licence and the address of the project."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == kafka_segment_source.__version__
    assert citation["license"] == PROJECT["license"]
    assert citation["repository-code"] == PROJECT["urls"]["Source"]
