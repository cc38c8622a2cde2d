"""The examples in docstrings of public functions that take a Spark session: each is run, and prints what it says."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import kafka_segment_source as kafkaseg

ROOT = Path(__file__).parents[2]
PUBLIC = [getattr(kafkaseg, name) for name in kafkaseg.__all__]
FUNCTIONS = [each for each in PUBLIC if inspect.isfunction(each) and "spark" in inspect.signature(each).parameters]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_the_example_prints_what_it_says(function: object, spark: SparkSession) -> None:
    """The path of each example is taken from the repository: Spark's own processes do not change their directory."""
    [example] = doctest.DocTestFinder().find(function, globs={"spark": spark, "kafka_segment_source": kafkaseg})
    assert example.examples
    for step in example.examples:
        step.source = step.source.replace('"examples/', f'"{ROOT}/examples/')
    printed: list[str] = []
    doctest.DocTestRunner().run(example, out=printed.append)
    assert not printed, "".join(printed)
