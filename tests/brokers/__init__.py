"""Real Kafka brokers for fixtures and conformance runs: started from Maven jars, bound to the loopback address only."""

from tests.brokers.brokers import Broker, KRaftBroker, TieredBroker, ZooKeeper, ZooKeeperBroker, free_port
from tests.support.jars import KAFKA_0_10, KAFKA_2, KAFKA_4, KAFKA_4_TIERED, Distribution

__all__ = [
    "KAFKA_0_10",
    "KAFKA_2",
    "KAFKA_4",
    "KAFKA_4_TIERED",
    "Broker",
    "Distribution",
    "KRaftBroker",
    "TieredBroker",
    "ZooKeeper",
    "ZooKeeperBroker",
    "free_port",
]
