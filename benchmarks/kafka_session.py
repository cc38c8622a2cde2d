"""A probe in the environment that has Spark's Kafka source: the same topic through the broker and from its files.
Prints JSON.

It imports neither broker code nor client: that environment has this package and pyspark, nothing else.
"""

from __future__ import annotations

import json
import sys

from benchmarks.measure import alternate
from benchmarks.sessions import start, touch


def main() -> None:
    """`python -m benchmarks.kafka_session BOOTSTRAP LOG_DIR TOPICS RUNS [JAR …]`, topics separated by commas."""
    bootstrap, log_dir, topics, runs, *jars = sys.argv[1:]
    spark = start({"spark.jars": ",".join(jars)})
    answers = {}
    for topic in topics.split(","):
        theirs = (
            spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
        )
        ours = spark.read.format("kafkaseg").option("subscribe", topic).load(log_dir)
        rows = touch(ours)
        if touch(theirs) != rows:
            raise AssertionError(f"{topic}: the two sources do not have the same rows")
        pairs = alternate(lambda ours=ours: touch(ours), lambda theirs=theirs: touch(theirs), int(runs))
        answers[topic] = {"rows": rows[0], "pairs": pairs}
    version = spark.version
    spark.stop()
    print(json.dumps({"spark": version, "topics": answers}))


if __name__ == "__main__":
    main()
