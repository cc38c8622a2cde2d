"""The rules that are loosened on purpose, and the defects of the simulation, are still lines of the package."""

from __future__ import annotations

import pytest

from tests.loosened import LOOSENED, ROOT, Loosened
from tests.loosened_cases import FOUND_BY, GENERATORS
from tests.simulation.mutations import MUTATIONS, Mutation


@pytest.mark.parametrize("loosened", LOOSENED, ids=lambda each: each.rule)
def test_a_loosened_rule_is_one_line(loosened: Loosened) -> None:
    """`python -m tests.loosened` tries each: the text that it changes stands in its file once."""
    assert loosened.change.count(ROOT) == 1


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_a_mutation_is_of_the_package(mutation: Mutation) -> None:
    """`python -m tests.simulation.mutations` makes each: the text that it changes stands in its file once."""
    for change in mutation.changes:
        assert change.count(ROOT) == 1


def test_generators_find_rules_that_there_are() -> None:
    """`python -m tests.loosened_cases` runs the generator of each rule."""
    assert FOUND_BY.keys() <= GENERATORS.keys()
    assert {name for names in FOUND_BY.values() for name in names} <= {each.rule for each in LOOSENED}
