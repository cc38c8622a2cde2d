"""What a broker's admin client and Kafka's tools said of its groups, transactional ids and topics; and what views say.

Each pair of functions makes the same thing of both: of a log directory, and of the answers that
`tests/fixtures/groups.py` and `tests/fixtures/new_groups.py` save.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import kafka_segment_source as kafkaseg

Answers = Mapping[str, Any]


def read_view(data: Path, view: str, **options: Any) -> list[dict[str, Any]]:
    """The rows of a view."""
    rows: list[dict[str, Any]] = kafkaseg.scan(data, view=view, **options).read_all().to_pylist()
    return rows


def offsets_seen(data: Path, _: Answers) -> Any:
    """Committed offsets of every group, with their metadata."""
    # confluent-kafka sends metadata with a NUL at their end, and cuts them there in its answers
    return [
        (row["group"], row["topic"], row["partition"], row["offset"], row["metadata"].rstrip("\0"))
        for row in read_view(data, "consumerOffsets")
    ]


def offsets_said(answers: Answers) -> Any:
    """list_consumer_group_offsets of every group: classic, KIP-848, without members, transactional, thinned."""
    return sorted(
        (group, each["topic"], each["partition"], each["offset"], each["metadata"] or "")
        for group, listed in answers["offsets"].items()
        for each in listed
    )


def lags_seen(data: Path, _: Answers) -> Any:
    """Offset, log end offset and lag of each partition of a group."""
    return {
        (row["group"], row["topic"], str(row["partition"])): tuple(
            str(row[name]) for name in ("offset", "logEndOffset", "lag")
        )
        for row in read_view(data, "consumerOffsets")
    }


def lags_said(answers: Answers) -> Any:
    """kafka-consumer-groups --describe --all-groups."""
    return {
        (each["GROUP"], each["TOPIC"], each["PARTITION"]): (each["CURRENT-OFFSET"], each["LOG-END-OFFSET"], each["LAG"])
        for each in answers["consumer_groups_tool"]
        if each["CURRENT-OFFSET"] != "-"
    }


def types_seen(data: Path, _: Answers) -> Any:
    """The type of each group that has offsets."""
    return {row["group"]: row["groupType"].upper() for row in read_view(data, "consumerOffsets")}


def types_said(answers: Answers) -> Any:
    """list_consumer_groups."""
    return {group: answers["groups"][group]["type"] for group, offsets in answers["offsets"].items() if offsets}


def transactional_ids_seen(data: Path, _: Answers) -> Any:
    """The state of each transactional id."""
    return {
        row["transactionalId"]: (
            str(row["producerId"]),
            str(row["producerEpoch"]),
            row["state"],
            str(row["timeoutMs"]),
            {f"{each['topic']}-{number}" for each in row["topicPartitions"] for number in each["partitions"]},
            str(round(row["startTimestamp"].timestamp() * 1000)) if row["state"] == "Ongoing" else None,
        )
        for row in read_view(data, "transactionalIds")
    }


def transactional_ids_said(answers: Answers) -> Any:
    """kafka-transactions list and describe: committed and aborted ones, and those that were left open."""
    return {
        each["TransactionalId"]: (
            each["ProducerId"],
            each["ProducerEpoch"],
            each["TransactionState"],
            each["TransactionTimeoutMs"],
            set(filter(None, each["TopicPartitions"].split(","))),
            each["CurrentTransactionStartTimeMs"] if each["TransactionState"] == "Ongoing" else None,
        )
        for each in answers["transactions_tool"]
    }


def topics_seen(data: Path, answers: Answers) -> Any:
    """Partitions and configurations of each topic, right before the stop, which takes the leaders away."""
    topics: dict[str, Any] = {}
    for row in read_view(data, "topics", until=answers["taken"]):
        topic = topics.setdefault(
            row["topic"], {"topic_id": row["topicId"], "partitions": [], "configs": dict(row["configs"])}
        )
        topic["partitions"].append({name: row[name] for name in ("partition", "leader", "replicas", "isr")})
    return topics


def topics_said(answers: Answers) -> Any:
    """describe_topics and describe_configs."""
    # confluent-kafka prints ids in the other alphabet of base64
    return {
        name: topic
        | {"topic_id": topic["topic_id"].replace("/", "_").replace("+", "-"), "configs": answers["configs"][name]}
        for name, topic in answers["topics"].items()
    }


def share_offsets_seen(data: Path, _: Answers) -> Any:
    """Where each share group stands; a null is a dash."""
    return {
        (row["group"], row["topic"], str(row["partition"])): tuple(
            "-" if row[name] is None else str(row[name]) for name in ("startOffset", "lag")
        )
        for row in read_view(data, "shareOffsets")
    }


def share_offsets_said(answers: Answers) -> Any:
    """kafka-share-groups --describe --all-groups --offsets."""
    return {
        (each["GROUP"], each["TOPIC"], each["PARTITION"]): (each["START-OFFSET"], each["LAG"])
        for each in answers["share_offsets"]
    }


def streams_offsets_seen(data: Path, _: Answers) -> Any:
    """The partitions of streams groups with the lags that are known."""
    return {
        (row["group"], row["topic"], str(row["partition"]))
        for row in read_view(data, "consumerOffsets")
        if row["groupType"] == "streams" and row["lag"] in (0, None)
    }


def streams_offsets_said(answers: Answers) -> Any:
    """kafka-streams-groups --describe --offsets, when all was read."""
    return {(each["GROUP"], each["TOPIC"], each["PARTITION"]) for each in answers["streams_offsets"]}


Seen = Callable[[Path, Answers], Any]
Said = Callable[[Answers], Any]

#: What `tests/fixtures/groups.py` asks.
GROUP_ANSWERS: dict[str, tuple[Seen, Said]] = {
    "committed offsets": (offsets_seen, offsets_said),
    "lags": (lags_seen, lags_said),
    "types of groups": (types_seen, types_said),
    "transactional ids": (transactional_ids_seen, transactional_ids_said),
    "topics": (topics_seen, topics_said),
}
#: What `tests/fixtures/new_groups.py` asks.
NEW_GROUP_ANSWERS: dict[str, tuple[Seen, Said]] = {
    "share groups": (share_offsets_seen, share_offsets_said),
    "streams groups": (streams_offsets_seen, streams_offsets_said),
}
