"""The names of remote tiers: those of their objects, and those of the partition directories that stand for them.

A tier keeps a segment under a name of its own: `<base offset>-<segment id>.log`. `TieredStorage` shows the segments of
one partition as a directory of Kafka's own layout. Its path is that of the tier's partition, then `tier@` and a number,
then the partition:

    s3://bucket/prefix/orders-ErIM7Yr2QtmpDczrRhoFJg/0/tier@1/orders-0/00000000000000000000.log

Segments whose offsets overlap are in directories of different numbers, as the copies of a partition are.

Aiven: ObjectKeyFactory. Kafka: RemoteLogSegmentFileset (LocalTieredStorage).
"""

from __future__ import annotations

import re
from typing import NamedTuple

_ID = r"[A-Za-z0-9_-]{21}[AQgw]"  # 16 bytes in base64, as Kafka writes a Uuid
_OBJECT = re.compile(rf"(?P<stem>(?P<base>[0-9]{{20}})-(?P<id>{_ID}))\.(?P<suffix>[a-z_-]+)")
_TOPIC_DIRECTORY = re.compile(rf"(?P<topic>.+)-(?P<id>{_ID})")
_PARTITION_DIRECTORY = re.compile(rf"(?P<topic>[A-Za-z0-9._-]{{1,249}})-(?P<partition>[0-9]{{1,10}})-(?P<id>{_ID})")
_NUMBER = re.compile(r"[0-9]{1,10}")
_MARK = "/tier@"
_SHOWN = re.compile(
    rf"(?P<home>.+){_MARK}(?P<copy>[0-9]{{0,6}})(?:/(?P<directory>[^/]+)(?:/(?P<name>[^/]+))?)?", re.DOTALL
)

DAMAGED_EPOCHS = ".damaged_epochs"
"""The suffix of a name that stands for a segment whose leader epochs are damaged. Its version has the sentence."""

UNFINISHED = ".unfinished"
"""The suffix of a name that stands for a segment of which some objects are missing. It is not data."""


class TierObject(NamedTuple):
    """What the name of an object says: `<stem>.<suffix>`, where the stem is the base offset and the segment's id."""

    stem: str
    base_offset: int
    segment_id: str
    suffix: str


class TierHome(NamedTuple):
    """What the path of a tier's partition says.

    topic: None where only a manifest says it (Aiven).
    above: the key prefix and the topic, one after the other.
    """

    topic: str | None
    partition: int
    topic_id: str
    above: str


class ShownPath(NamedTuple):
    """The parts of a path that stands for a part of a tier.

    home: the tier's directory of the partition.
    copy: a number, None for the list of all numbers.
    directory: the partition's name in Kafka's layout.
    name: of a file in it.
    """

    home: str
    copy: int | None
    directory: str | None
    name: str | None


def parse_object(name: str) -> TierObject | None:
    """Returns what an object's name says, or None for any other name."""
    match = _OBJECT.fullmatch(name)
    return None if match is None else TierObject(match["stem"], int(match["base"]), match["id"], match["suffix"])


def parse_home(path: str) -> TierHome | None:
    """Returns what the path of a tier's partition says, or None for any other path."""
    parent, _, name = path.rpartition("/")
    match = _PARTITION_DIRECTORY.fullmatch(name)
    if match is not None and int(match["partition"]) < 2**31:
        return TierHome(match["topic"], int(match["partition"]), match["id"], match["topic"])
    above = _TOPIC_DIRECTORY.fullmatch(parent.rpartition("/")[2])
    if above is not None and _NUMBER.fullmatch(name) and int(name) < 2**31:
        return TierHome(None, int(name), above["id"], above["topic"])
    return None


def find_topic_id(name: str) -> str | None:
    """Returns the topic id at the end of the name of a topic's directory, or None if there is none."""
    match = _TOPIC_DIRECTORY.fullmatch(name)
    return None if match is None else match["id"]


def is_of_tier(name: str, is_directory: bool) -> bool:
    """Whether a name in a directory can be that of a part of a tier."""
    return (find_topic_id(name) if is_directory else parse_object(name)) is not None


def is_partition_number(name: str) -> bool:
    """Whether a name is that of a partition's directory in Aiven's layout."""
    return _NUMBER.fullmatch(name) is not None and int(name) < 2**31


def is_shown(path: str) -> bool:
    """Whether a path stands for a part of a tier."""
    return _MARK in path and _SHOWN.fullmatch(path) is not None


def split_shown(path: str) -> ShownPath | None:
    """Returns the parts of a path that stands for a part of a tier, or None for any other path."""
    if _MARK not in path:
        return None
    match = _SHOWN.fullmatch(path)
    if match is None:
        return None
    copy = int(match["copy"]) if match["copy"] else None
    return ShownPath(match["home"], copy, match["directory"], match["name"])


def list_path(home: str) -> str:
    """Returns the path whose entries are the numbers of the directories that stand for a tier's partition."""
    return f"{home}{_MARK}"


def shown_directory(home: str, copy: int, topic: str, partition: int) -> str:
    """Returns the path of the directory number `copy` that stands for a tier's partition."""
    return f"{home}{_MARK}{copy}/{topic}-{partition}"
