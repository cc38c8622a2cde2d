"""Real Kafka brokers for fixtures and conformance runs: started from Maven jars, bound to the loopback address only."""

from tests.brokers.brokers import Broker, KRaftBroker, ZooKeeper, ZooKeeperBroker, free_port
from tests.support.jars import KAFKA_0_10, KAFKA_2, KAFKA_4, Distribution

__all__ = [
    "KAFKA_0_10",
    "KAFKA_2",
    "KAFKA_4",
    "Broker",
    "Distribution",
    "KRaftBroker",
    "ZooKeeper",
    "ZooKeeperBroker",
    "free_port",
]
