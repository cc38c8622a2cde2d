"""Jars that some tests add to Spark: table formats and Avro. Maven fetches them, only if `KAFKASEG_MAVEN` is set."""

from __future__ import annotations

import os

import pytest

from tests.support.jars import Distribution


def find_jars(coordinate: str) -> str:
    """Returns the jars of a Maven coordinate and of what it needs, separated by commas, as spark.jars has them.

    Skips the test if they were not fetched before, and are not to be fetched.
    """
    _, name, version = coordinate.split(":")
    jars = Distribution(f"{name}-{version}", version, (coordinate,))
    if not jars.is_there and not os.environ.get("KAFKASEG_MAVEN"):
        pytest.skip(f"the jars of {coordinate} are not here: make test-tables fetches them")
    return ",".join(sorted(str(path) for path in jars.directory().glob("*.jar")))
