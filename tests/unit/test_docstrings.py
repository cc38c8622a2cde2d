"""The examples in docstrings of public functions that need no Spark: each is run, and prints what it says."""

from __future__ import annotations

import doctest
import inspect
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
