"""Streams over logs that grow: each record comes once, in offset order, whatever happens between two micro-batches."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_segment_source.option_values import TopicPartition
from tests.support.growing_log import Engine, GrowingPartition, write_high_watermarks

CASES = 300
MOST_STEPS = 25


class Case:
    """One random history of a log directory and of the query that reads it."""

    def __init__(self, seed: int, root: Path) -> None:
        self.random = Random(seed)
        self.root = root
        self.partitions: dict[TopicPartition, GrowingPartition] = {}
        self.has_watermarks = self.chance(0.6)
        self.committed = self.chance(0.5)
        options = {"path": str(root), "startingOffsets": "earliest"}
        if self.committed:
            options["isolationLevel"] = "read_committed"
        if self.chance(0.5):
            self.most = self.random.randint(1, 30)
            options["maxOffsetsPerTrigger"] = str(self.most)
        else:
            self.most = None
        if self.chance(0.3):
            options["maxBytesPerTrigger"] = str(self.random.randint(1, 3000))
        if self.chance(0.2) and self.most is None:
            options["minOffsetsPerTrigger"] = str(self.random.randint(1, 20))
            options["maxTriggerDelay"] = "30s"
        self.is_free = not any(name.endswith("PerTrigger") for name in options)
        self.has_target = False
        self.engine = Engine(options)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def run(self) -> None:
        self.add_partition()
        self.grow()
        self.advance_watermarks()
        self.engine.start()
        for _ in range(self.random.randint(3, MOST_STEPS)):
            self.engine.clock += self.random.choice([0.1, 2.0, 40.0])
            self.random.choice(
                [self.grow, self.grow, self.trigger, self.trigger, self.restart, self.retain, self.add]
            )()
        self.finish()
        self.check()

    def add(self) -> None:
        if self.chance(0.3):
            self.add_partition()

    def add_partition(self) -> None:
        key = "t", len(self.partitions)
        self.partitions[key] = GrowingPartition(self.root / f"{key[0]}-{key[1]}")
        self.partitions[key].roll()
        self.advance_watermarks()

    def grow(self) -> None:
        for partition in self.partitions.values():
            for _ in range(self.random.randint(0, 4)):
                self.change(partition)
        self.advance_watermarks()

    def change(self, partition: GrowingPartition) -> None:
        if partition.torn:
            if self.chance(0.7):
                partition.mend()
            return
        kind = self.random.choice(["plain", "plain", "transaction", "end", "roll", "torn"])
        if kind == "plain":
            partition.write(self.random.randint(1, 8))
        elif kind == "transaction":
            partition.write(self.random.randint(1, 8), producer=self.random.randint(1, 3))
        elif kind == "end" and partition.open:
            partition.end_transaction(self.random.choice(sorted(partition.open)), commits=self.chance(0.5))
        elif kind == "roll":
            partition.roll()
        elif kind == "torn":
            partition.write(self.random.randint(1, 8), tears=True)

    def advance_watermarks(self, to_end: bool = False) -> None:
        """Lets the high watermarks follow. They lie between two batches, and never go back."""
        for partition in self.partitions.values():
            if to_end or self.chance(0.7):
                partition.high_watermark = partition.whole_end
        if self.has_watermarks:
            listed = {key: each.high_watermark for key, each in self.partitions.items()}
            write_high_watermarks(self.root, listed)

    def trigger(self) -> None:
        if self.engine.stream is None:
            self.engine.start()
            self.has_target = False
        self.engine.clock += 2  # so that the stream lists again
        before = self.engine.positions
        ended = self.engine.trigger(dies=self.chance(0.2))
        after = self.engine.positions
        taken = 0
        for key, position in after.items():
            partition = self.partitions[key]
            assert position >= before.get(key, 0)
            taken += position - before.get(key, 0)
            readable = partition.high_watermark if self.has_watermarks else partition.whole_end
            if self.committed:
                readable = partition.stable_end(readable)
            assert position <= max(readable, before.get(key, 0))
            if self.is_free and not self.has_target:
                assert position == max(readable, before.get(key, 0))
        assert ended == (after != before)
        if self.most is not None:
            assert taken <= self.most

    def restart(self) -> None:
        """The query stops, and begins again with its checkpoint."""
        self.has_target = self.chance(0.3)
        self.engine.start(available_now=self.has_target)

    def retain(self) -> None:
        """Retention removes what was read and committed."""
        for key, partition in self.partitions.items():
            partition.delete_before(min(self.engine.committed.get(key, 0), partition.high_watermark))

    def finish(self) -> None:
        """Ends what is open, and reads all of it."""
        for partition in self.partitions.values():
            partition.mend()
            for producer in sorted(partition.open):
                partition.end_transaction(producer, commits=self.chance(0.5))
        self.advance_watermarks(to_end=True)
        self.engine.start(available_now=self.chance(0.5))
        for _ in range(10_000):
            self.engine.clock += 2
            if not self.engine.trigger():
                self.engine.clock += 60  # minOffsetsPerTrigger waits at most that long
                if not self.engine.trigger():
                    return
        raise AssertionError("the stream does not end")

    def check(self) -> None:
        found = self.engine.rows()
        for key, partition in self.partitions.items():
            hidden = partition.aborted if self.committed else set()
            expected = [(at, value) for at, (value, _) in sorted(partition.rows.items()) if at not in hidden]
            assert found.get(key, []) == expected
            assert self.engine.positions[key] == partition.end


def run_case(seed: int) -> None:
    with TemporaryDirectory() as root:
        Case(seed, Path(root)).run()


@settings(max_examples=CASES, deadline=None)
@given(st.integers(0, 2**40))
def test_each_record_comes_once(seed: int) -> None:
    """Under random growth, limits and restarts. No micro-batch goes beyond what a consumer sees, or above its limit."""
    run_case(seed)


if __name__ == "__main__":  # python -m tests.property.test_streams FIRST COUNT
    first, count = map(int, sys.argv[1:])
    for number in range(first, first + count):
        try:
            run_case(number)
        except BaseException:
            print(f"seed {number}")
            raise
    print(f"{count} cases")
