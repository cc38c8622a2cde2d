"""Features of a cluster (KIP-584), by `kafka-features`: which levels a broker offers, and which one is in force."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.brokers.brokers import Broker

_TOOL = "org.apache.kafka.tools.FeatureCommand"
_LINE = re.compile(
    r"Feature: (\S+)\s+SupportedMinVersion: \S+\s+SupportedMaxVersion: (\d+)\s+FinalizedVersionLevel: (\d+)"
)


class Feature(NamedTuple):
    """A feature whose levels are numbers.

    highest: the level that the broker offers.
    level: the one in force.
    """

    highest: int
    level: int


def read_features(broker: Broker) -> dict[str, Feature]:
    """The features of the cluster by their names."""
    said = broker.run_tool(_TOOL, "--bootstrap-server", broker.bootstrap, "describe")
    return {name: Feature(int(highest), int(level)) for name, highest, level in _LINE.findall(said)}


def set_feature(broker: Broker, name: str, level: int) -> None:
    """Put a level in force, unless it is. Raises `KeyError` for a feature that the broker does not have."""
    now = read_features(broker)[name].level
    if now == level:
        return
    change = "upgrade" if now < level else "downgrade"
    broker.run_tool(_TOOL, "--bootstrap-server", broker.bootstrap, change, "--feature", f"{name}={level}")


def has_feature(broker: Broker, name: str) -> bool:
    """Whether the broker offers the feature; its highest level is put in force then."""
    feature = read_features(broker).get(name)
    if feature is None or not feature.highest:
        return False
    set_feature(broker, name, feature.highest)
    return True
