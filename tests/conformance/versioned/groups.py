"""Groups by brokers of any version: the stories of the fixtures `groups` and `new-groups`."""

from __future__ import annotations

from pathlib import Path

from tests.brokers.by_version import find_broker
from tests.brokers.features import read_features
from tests.conformance.versioned.compare import Outcome, compare_answers, compare_rows, find_problems
from tests.fixtures.consume import save_expected
from tests.fixtures.groups import GROUP_FEATURE, GROUPS_OVERRIDES, LEFT_TOPICS, ask_about_groups, perform_groups
from tests.fixtures.new_groups import NEW_GROUP_TOPICS, NEW_GROUPS_OVERRIDES, perform_new_groups
from tests.support.group_answers import GROUP_ANSWERS, NEW_GROUP_ANSWERS

#: What the story leaves open on purpose.
_OPEN = "offset commits belong to transactions that are open at the end"
_NO_WARNING = "(none)"


def run_groups(version: str, folder: Path) -> Outcome:
    """Classic groups, and those of KIP-848 where the version has them; transactional ids and topics too."""
    with find_broker(version)(folder / "broker", GROUPS_OVERRIDES) as broker:
        alive = perform_groups(broker)
        answers = ask_about_groups(broker)
        counts = save_expected(broker.bootstrap, LEFT_TOPICS, folder)
        data = broker.log_dir
        broker.stop()
        del alive
    wrong = compare_rows(data, LEFT_TOPICS, folder) + find_problems(data)
    wrong += compare_answers(data, answers, GROUP_ANSWERS, _OPEN)
    types = sorted(group["type"].lower() for group in answers["groups"].values())
    there = ", ".join(f"{types.count(kind)} {kind}" for kind in ("classic", "consumer") if kind in types)
    if "consumer" not in types:
        there = f"the broker has no {GROUP_FEATURE}: {there}"
    return Outcome(f"{there} groups, {len(answers['transactions_tool'])} transactional ids, {counts}", wrong)


def run_new_groups(version: str, folder: Path) -> Outcome:
    """Share groups and a streams group, where the version has them."""
    with find_broker(version)(folder / "broker", NEW_GROUPS_OVERRIDES) as broker:
        features = read_features(broker)
        lacking = [name for name in ("share.version", "streams.version") if name not in features]
        if lacking:
            return Outcome(f"not run, as the broker has no {' and no '.join(lacking)}", None)
        answers = perform_new_groups(broker, folder)
        counts = save_expected(broker.bootstrap, NEW_GROUP_TOPICS, folder)
        levels = ", ".join(
            f"{name}={read_features(broker)[name].level}" for name in ("share.version", "streams.version")
        )
        data = broker.log_dir
        broker.stop()
    wrong = compare_rows(data, NEW_GROUP_TOPICS, folder) + find_problems(data)
    wrong += compare_answers(data, answers, NEW_GROUP_ANSWERS, _NO_WARNING)
    groups = len({each["GROUP"] for each in answers["groups"]})
    return Outcome(f"{groups} groups by {levels}, {counts}", wrong)
