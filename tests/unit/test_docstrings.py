"""The examples in docstrings of public functions that need no Spark: each is run, and prints what it says."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from pathlib import Path

import pytest

import kafka_segment_source as kafkaseg

ROOT = Path(__file__).parents[2]
PUBLIC = [getattr(kafkaseg, name) for name in kafkaseg.__all__]
FUNCTIONS = [each for each in PUBLIC if inspect.isfunction(each) and "spark" not in inspect.signature(each).parameters]
FUNCTIONS += [kafkaseg.ReadPlan.to_reader]
FUNCTIONS += [kind.read for kind in (kafkaseg.OffsetIndex, kafkaseg.TimeIndex, kafkaseg.TransactionIndex)]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__qualname__)
def test_the_example_prints_what_it_says(function: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the repository, whose example data the examples read."""
    monkeypatch.chdir(ROOT)
    [example] = doctest.DocTestFinder().find(function, globs={})
    assert example.examples
    printed: list[str] = []
    doctest.DocTestRunner().run(example, out=printed.append)
    assert not printed, "".join(printed)


def fields_of(kind: ast.ClassDef) -> set[str]:
    """The names of a class's annotated fields."""
    return {
        node.target.id for node in kind.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


CLASSES = [
    (f"{path.name}:{node.name}", node)
    for path in sorted(Path(kafkaseg.__file__).parent.rglob("*.py"))
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.ClassDef) and ast.get_docstring(node)
]


@pytest.mark.parametrize("kind", [node for _, node in CLASSES], ids=[name for name, _ in CLASSES])
def test_each_field_has_a_line_of_its_own(kind: ast.ClassDef) -> None:
    """`path: of the file. size: in bytes.` on one line hides the second field."""
    told = ast.get_docstring(kind) or ""
    inside = re.findall(r"(?<=[.!;] )\w+(?=: )", told)
    assert not fields_of(kind) & {*inside}


@pytest.mark.parametrize("path", sorted((ROOT / "kafka_segment_source").rglob("*.py")), ids=lambda path: path.name)
def test_a_name_says_what_it_holds(path: Path) -> None:
    """`segment` does, and `each` does not."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {node.id for node in nodes if isinstance(node, ast.Name)} | {n.arg for n in nodes if isinstance(n, ast.arg)}
    assert not names & {"each"}
