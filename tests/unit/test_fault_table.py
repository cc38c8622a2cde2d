"""The fault table of docs/damage.md: every fault names the tests that show it, and they are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "damage.md"
NAMED = re.compile(r"`((?:unit|cli|fuzz|property|storage)/(?:\w+/)*\w+\.py)::(\w+)`")


def _rows() -> list[str]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.count("|") == 5 and "tests/…" not in line and set(line) != set("|-")]


def test_the_table_is_not_empty() -> None:
    """The page names at least as many faults as it did once."""
    assert len(_rows()) > 20


@pytest.mark.parametrize("row", _rows())
def test_the_tests_of_a_fault_exist(row: str) -> None:
    """A fault without a test, or with one that has been renamed, is a claim that nobody checks."""
    named = NAMED.findall(row)
    assert named
    for file, name in named:
        assert f"def {name}(" in (TESTS / file).read_text(encoding="utf-8"), f"{file} has no {name}"
