"""Brokers of any version of Kafka since 3.9, by its number."""

from __future__ import annotations

from dataclasses import replace

from tests.brokers.brokers import KRaftBroker, TieredBroker
from tests.support.jars import KAFKA_4, KAFKA_4_TIERED, Distribution

#: Of these versions Maven has neither the tools nor the jars of the tests: those of another one serve.
_NEXT_BEST = {"4.4.0": "4.3.1"}


def find_distribution(version: str) -> Distribution:
    """The jars of a broker, and of its tools where Maven has them."""
    if version == KAFKA_4.version:
        return KAFKA_4
    artifacts = ("kafka_2.13", "kafka-server", *(() if version in _NEXT_BEST else ("kafka-tools",)))
    coordinates = [f"org.apache.kafka:{artifact}:{version}" for artifact in artifacts]
    return Distribution(f"kafka-{version}", version, (*coordinates, "org.slf4j:slf4j-simple:1.7.36"))


def find_tools(version: str) -> Distribution:
    """The jars of the tools: those of the version, or of the next best one."""
    return find_distribution(_NEXT_BEST.get(version, version))


def find_tiered_distribution(version: str) -> Distribution:
    """The same with LocalTieredStorage, which lies in the jars of Kafka's tests."""
    if version == KAFKA_4_TIERED.version:
        return KAFKA_4_TIERED
    broker = find_distribution(version)
    if version in _NEXT_BEST:
        return replace(broker, behind=find_tiered_distribution(_NEXT_BEST[version]))
    jars = [f"org.apache.kafka:{artifact}:{version}:test" for artifact in ("kafka-storage", "kafka-clients")]
    return Distribution(f"{broker.name}-tiered", version, (*broker.coordinates, *jars))


def find_broker(version: str) -> type[KRaftBroker]:
    """The broker of a version."""

    class OfVersion(KRaftBroker):
        distribution = find_distribution(version)
        tools = find_tools(version)

    return OfVersion


def find_tiered_broker(version: str) -> type[TieredBroker]:
    """The broker of a version, with a tier."""

    class TieredOfVersion(TieredBroker):
        distribution = find_tiered_distribution(version)
        tools = find_tools(version)

    return TieredOfVersion
