"""A live broker's directory is copied to a bucket by `aws s3 sync`, while it is written to, and the bucket is read:
`KAFKASEG_STORES=s3proxy python -m tests.conformance.bucket_sync --aws PROGRAM [--seconds 600]`.

Opt-in: it starts a Kafka 4.1 broker and an S3 server, and needs the AWS command line. The load is that of the soak:
segments are rolled, compacted and deleted all the time, and transactions commit and abort. A round copies as
docs/object-stores.md says, logs first and then all files, and reads each topic from the bucket under both isolation
levels. The ledger of the soak judges the rows: each is what was acknowledged at its offset, none comes twice, none is
of an aborted or an open transaction.

A row that was acknowledged before the round began must be there. This is not asked of a partition in which compaction
replaced or removed a file during the round, as the copy is then of several moments. Such a copy may also end in an
error, and so may one of a topic with retention. A topic that only grows must be read whole each time.

Out: counts for each topic. Exit status 1 for a wrong row, for a missing one, and for any other error.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.brokers import KRaftBroker
from tests.conformance.soaking.judge import Moment, judge
from tests.conformance.soaking.ledger import Ledger
from tests.conformance.soaking.load import LoadThread, loads
from tests.conformance.soaking.readers import SPLITS, Question, Reader
from tests.conformance.soaking.topics import AGGRESSIVE, TOPICS, SoakTopic, TopicPartition
from tests.conformance.soaking.watching import Changes, Watch, segment_files
from tests.fixtures.produce import create_topics
from tests.support.buckets import Bucket, make_bucket, serving_s3

_HEAD_START = 5.0  # seconds of load before the first copy
# An index file that shrinks while it is copied, as its segment is rolled, keeps the server waiting for bytes.
_TIMEOUTS = ("--cli-read-timeout", "5", "--cli-connect-timeout", "5")
_SHOWN = 5  # samples of each kind
_PREFIX = "kafka"
_INTERNAL = "__*"  # Kafka's own topics have index files of 10 MiB in each of 50 partitions


@dataclass
class Tally:
    """What came of one topic."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    samples: dict[str, list[str]] = field(default_factory=dict)

    def note(self, what: str, sample: str) -> None:
        """Counts an outcome, and keeps some samples of it."""
        self.counts[what] += 1
        shown = self.samples.setdefault(what, [])
        if len(shown) < _SHOWN:
            shown.append(sample)


class Run:
    """One run: rounds of a copy and its reads."""

    def __init__(self, arguments: argparse.Namespace, broker: KRaftBroker, bucket: Bucket, reader: Reader) -> None:
        self.tallies = {topic.name: Tally() for topic in TOPICS}
        self.ledger = Ledger(TOPICS)
        self.rounds = 0
        self.sync_exits: Counter[int] = Counter()
        self._aws: str = arguments.aws
        self._log_dir = broker.log_dir
        self._bucket = bucket
        self._reader = reader
        self._partitions: list[TopicPartition] = list(self.ledger.partitions)
        self.watch = Watch(broker.bootstrap, broker.log_dir, self._partitions)

    def round(self) -> None:
        """Copies, reads and judges."""
        ends = self.watch.ends()
        files = {where: segment_files(self._log_dir, where) for where in self._partitions}
        if ends is None:
            return
        before = Moment(time.monotonic(), ends)
        self._sync("--exclude", "*", "--include", "*.log", "--exclude", _INTERNAL)
        self._sync("--exclude", "*.lock", "--exclude", _INTERNAL, "--delete")
        copied = time.monotonic()
        later = self.watch.ends()
        if later is None:
            return
        after = Moment(copied, later, self.watch.active())
        changed = {
            where
            for where in self._partitions
            if any(
                segment_files(self._log_dir, where).get(base, (0, 0))[0] != at[0] for base, at in files[where].items()
            )
        }
        for topic in TOPICS:
            for committed in (False, True):
                self._read(topic, committed, before, after, changed)
        self.rounds += 1
        print(
            f"copy {self.rounds}: {copied - before.time:.0f} s, its reads {time.monotonic() - copied:.0f} s", flush=True
        )

    def _sync(self, *flags: str) -> None:
        options = self._bucket.options
        command = [
            self._aws,
            "--endpoint-url",
            options["aws_endpoint_url"],
            *_TIMEOUTS,
            "s3",
            "sync",
            "--only-show-errors",
        ]
        environment = {
            **os.environ,
            "AWS_ACCESS_KEY_ID": options["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": options["aws_secret_access_key"],
            "AWS_DEFAULT_REGION": options["aws_region"],
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_MAX_ATTEMPTS": "2",
        }
        command += [str(self._log_dir), f"{self._bucket.url}/{_PREFIX}", *flags]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        self.sync_exits[done.returncode] += 1
        if done.returncode not in (0, 1, 2):  # 1, 2: a file was gone, or changed, when its turn came
            raise RuntimeError(f"aws s3 sync failed: {done.stderr[-2000:]}")

    def _read(
        self, topic: SoakTopic, committed: bool, before: Moment, after: Moment, changed: set[TopicPartition]
    ) -> None:
        level = "read_committed" if committed else "read_uncommitted"
        options = {
            "path": f"{self._bucket.url}/{_PREFIX}",
            "subscribe": topic.name,
            "isolationLevel": level,
            **self._bucket.options,
        }
        where = tuple(topic.topic_partitions)
        question = Question(topic.name, where, SPLITS, 0, options, committed)
        answer = self._reader.ask(question)
        verdict = judge(question, answer, self.ledger, before, after)
        tally = self.tallies[topic.name]
        tally.counts["reads"] += 1
        tally.counts["rows"] += verdict.rows
        tally.failures += [sample for sample in verdict.samples if verdict.wrong and not sample.startswith("missing")]
        grows_only = not topic.compacted and not topic.loses
        if answer.kind is not None:
            said = f"{level}: {answer.message}"
            tally.note(f"error {answer.kind}", said)
            if grows_only:
                tally.failures.append(f"{answer.kind}: {said}")
            return
        if topic.compacted and changed.intersection(where):
            tally.counts["reads of a copy of several moments"] += 1
            tally.counts["rows that it lacks"] += verdict.missing
            return
        tally.counts["rows that must be there"] += verdict.expected
        if verdict.missing:
            tally.failures += [sample for sample in verdict.samples if sample.startswith("missing")]


def main() -> int:
    """Returns 0 if nothing is wrong."""
    parser = argparse.ArgumentParser(description="Copy a live broker's directory to a bucket, and read it there.")
    parser.add_argument("--aws", required=True, help="the program of the AWS command line")
    parser.add_argument("--seconds", type=float, default=600)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that everything is stopped on the way
    with tempfile.TemporaryDirectory(prefix="kafkaseg-sync-", ignore_cleanup_errors=True) as name, ExitStack() as stack:
        scratch = Path(name)
        bucket = make_bucket(stack.enter_context(serving_s3()))
        reader = stack.enter_context(Reader(False, scratch / "reader.log"))
        broker = stack.enter_context(KRaftBroker(scratch / "broker", AGGRESSIVE))
        create_topics(broker.bootstrap, [topic.request() for topic in TOPICS])
        run = Run(arguments, broker, bucket, reader)
        run.watch.up.set()
        changes = Changes(broker.log_dir, list(run.ledger.partitions))
        changes.start()
        stack.callback(changes.stop)
        threads = [LoadThread(broker.bootstrap, run.ledger, load) for load in loads()]
        for thread in threads:
            thread.start()
        try:
            time.sleep(_HEAD_START)
            end = time.monotonic() + arguments.seconds
            while time.monotonic() < end:
                run.round()
                for thread in threads:
                    if thread.failure is not None:
                        raise thread.failure
        finally:
            for thread in threads:
                thread.stop()
            for thread in threads:
                thread.join()
    return _report(run, changes)


def _report(run: Run, changes: Changes) -> int:
    print(
        f"{run.rounds} copies, exit codes of aws s3 sync {dict(run.sync_exits)}; {run.ledger.acknowledged():,} records"
    )
    failed = False
    for topic, tally in run.tallies.items():
        files = ", ".join(f"{count} {what}" for what, count in sorted(changes.counts()[topic].items()))
        print(f"{topic}: {', '.join(f'{what} {count:,}' for what, count in tally.counts.items())} (segments: {files})")
        for what, samples in tally.samples.items():
            print(*(f"  {what}: {sample}" for sample in samples), sep="\n")
        for failure in tally.failures[:_SHOWN]:
            failed = True
            print(f"  FAILED: {failure}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
