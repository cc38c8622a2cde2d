"""`kafkaseg topics`: prints the topics of a cluster, by its metadata log (KRaft)."""

from __future__ import annotations

from kafka_segment_source.cli.view_tables import Shown, columns_of, make_view_command
from kafka_segment_source.option_values import TOPICS

topics_command = make_view_command(
    "topics",
    TOPICS,
    Shown(
        lambda row: f"{row['topic']} {row['topicId']}",
        columns_of("partition", "leader", "replicas", "isr", "leaderEpoch", "configs"),
    ),
    "Topics of a cluster: partitions, replicas, leaders.",
    """Print the topics of a cluster with their ids, partitions, replicas, leaders and configurations.

    They are those of __cluster_metadata and its snapshots at the end of the files, or as of --until, for clusters with
    KRaft. docs/views.md says what each column is. Exits with 1 if damage was left out (--mode
    DROPMALFORMED).

    \b
    kafkaseg topics /var/kafka-logs
    kafkaseg topics /var/kafka-logs --json
    """,
    only_damage_counts=True,
)
