"""What happens to the log meanwhile: what the broker says of it, and what its files show.

In: a broker and its topics. Out: `Moment`s for the judge, and counts of what compaction and retention did, so that a
soak in which nothing happened is not taken for a proof.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as Named
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # it leaves it out of __all__

from tests.conformance.soaking.judge import Ends, Moment
from tests.conformance.soaking.topics import TopicPartition

_ANSWER_SECONDS = 5
_LOOK_SECONDS = 0.1
_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class Watch:
    """Asks the broker where each partition starts and ends. `up` says whether it can be asked."""

    def __init__(self, bootstrap: str, log_dirs: list[Path], partitions: list[TopicPartition]) -> None:
        self.log_dirs = log_dirs
        self.partitions = partitions
        self.up = threading.Event()
        self._bootstrap = bootstrap
        self._admin = self._client()
        self._last: dict[TopicPartition, Ends] = {}

    def before(self) -> Moment:
        """The log as planning begins; while the broker is down, as it was last seen: a log only goes on."""
        ends = self.ends() or self._last
        return Moment(time.monotonic(), ends, oldest=self._bases(min), replicas=len(self.log_dirs))

    def active(self) -> dict[TopicPartition, int]:
        """The base offset of each partition's last segment now, by its files: the highest of its replicas."""
        return self._bases(max)

    def _bases(self, choose: Callable[[Iterable[int]], int]) -> dict[TopicPartition, int]:
        """The base offset of one segment of each partition, of those of all replicas."""
        return {
            where: choose([base for log_dir in self.log_dirs for base in segment_files(log_dir, where)] or [0])
            for where in self.partitions
        }

    def path(self, where: TopicPartition | None = None) -> str:
        """All that is to be read, or one partition of it, as the option `path` has it."""
        paths = [str(each if where is None else each / f"{where[0]}-{where[1]}") for each in self.log_dirs]
        return paths[0] if len(paths) == 1 else json.dumps(paths)

    def ends(self) -> dict[TopicPartition, Ends] | None:
        """What the broker says now; None if it is down."""
        if not self.up.is_set():
            return None
        try:
            earliest = self._ask(_EARLIEST)
            latest = self._ask(_LATEST)
            stable = self._ask(_LATEST, IsolationLevel.READ_COMMITTED)
        except (KafkaException, TimeoutError):
            self._admin = self._client()  # the old one goes on naming the leader epoch of before a restart
            return None
        ends = {where: Ends(earliest[where], latest[where], stable[where]) for where in self.partitions}
        self._last = ends
        return ends

    def _client(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})

    def _ask(
        self, spec: OffsetSpec, level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[TopicPartition, int]:
        asked = {Named(*where): spec for where in self.partitions}
        futures = self._admin.list_offsets(asked, isolation_level=level, request_timeout=_ANSWER_SECONDS)
        offsets = {
            (named.topic, named.partition): future.result(_ANSWER_SECONDS).offset for named, future in futures.items()
        }
        if min(offsets.values()) < 0:  # a partition without a leader at this moment
            raise TimeoutError(f"no offset of some partitions: {offsets}")
        return offsets


class Changes(threading.Thread):
    """Looks at the directories all the time and counts: segments rolled, removed, and replaced under the same name."""

    def __init__(self, log_dir: Path, partitions: list[TopicPartition]) -> None:
        super().__init__(name="changes", daemon=True)
        self._log_dir = log_dir
        self._partitions = partitions
        self._stopping = threading.Event()
        self._counts: dict[str, Counter[str]] = {topic: Counter() for topic, _ in partitions}

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        self.join()

    def run(self) -> None:
        """Looks until it is stopped."""
        seen: dict[TopicPartition, dict[int, tuple[int, int]]] = {}
        while not self._stopping.wait(_LOOK_SECONDS):
            for where in self._partitions:
                now = segment_files(self._log_dir, where)
                self._count(self._counts[where[0]], seen.get(where, now), now)
                seen[where] = now

    def counts(self) -> dict[str, dict[str, int]]:
        """By topic."""
        return {topic: dict(counts) for topic, counts in self._counts.items()}

    @staticmethod
    def _count(counts: Counter[str], before: dict[int, tuple[int, int]], now: dict[int, tuple[int, int]]) -> None:
        counts["rolled"] += len(now.keys() - before.keys())
        counts["removed"] += len(before.keys() - now.keys())
        for base in before.keys() & now.keys():
            (inode, size), (other, larger) = before[base], now[base]
            counts["replaced"] += inode != other
            counts["replaced by a larger one"] += inode != other and larger > size


def segment_files(log_dir: Path, where: TopicPartition) -> dict[int, tuple[int, int]]:
    """Inode and size of each segment of a partition by its base offset."""
    found: dict[int, tuple[int, int]] = {}
    directory = log_dir / f"{where[0]}-{where[1]}"
    if not directory.exists():  # not made yet
        return found
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(".log"):
                try:
                    info = entry.stat()
                except FileNotFoundError:
                    continue
                found[int(entry.name.removesuffix(".log"))] = (info.st_ino, info.st_size)
    return found
