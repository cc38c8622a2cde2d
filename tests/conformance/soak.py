"""A soak: kafkaseg beside a real broker that is at work: `python -m tests.conformance.soak [--seconds 600] [--spark]`.

Opt-in: it starts a Kafka 4.1 broker, and the first time it downloads its jars. Producers write some 1,450 records a
second to topics with retention, compaction, transactions, both of the latter, and LogAppendTime. Cleaning and deletion
look for work all the time. The broker is killed twice (SIGKILL) and started again. With `--replicas 2` there are two
that replicate each other. They are killed in turn, so that leaders change, and are read as two copies.

Meanwhile readers plan, wait for a delay, and read, with random options, by `make_plan` and `read_split`, by `scan`, and
with `--spark` by Spark. Every answer is judged against a ledger of what was acknowledged and how each transaction ended
(`soaking/judge.py` says by which rules). Inspectors run the commands of `kafkaseg`, and no error of theirs may be
needless.

In: options, see `--help`. Out: a table of attempts, answers and errors for each topic and delay, samples of every kind
of error and fault, and one line with the result; `--json FILE` keeps the figures. "excused" counts data loss on a topic
with retention whose log start did pass an offset that was asked for; "silent" and "said" count rows that the log held
all the time and that did not come out, without and with a warning. Exit status 1 for any row that is wrong or missing,
and for any error but excused ones, of reads and of commands. Raises `BrokerError` if the broker does not come up.
Whatever happens, everything that was started is stopped.

Only the loopback address is used. Times are of one run on one machine: a rate depends on the load beside it. What a
soak cannot see: an error in a moment that no reader happened to hit (the simulated broker looks for those).
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import threading
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from tests.brokers import KRaftBroker
from tests.conformance.soaking.inspectors import Inspector, describe, say_failures
from tests.conformance.soaking.judge import Moment, judge
from tests.conformance.soaking.ledger import Fate, Ledger
from tests.conformance.soaking.load import LoadThread, loads
from tests.conformance.soaking.readers import SCAN, SPARK, SPLITS, Answer, Question, Reader
from tests.conformance.soaking.tally import Tally
from tests.conformance.soaking.topics import AGGRESSIVE, TOPICS, SoakTopic, TopicPartition
from tests.conformance.soaking.watching import Changes, Watch
from tests.fixtures.produce import create_topics

ROOT = Path(__file__).parents[2]
WARM_UP = ROOT / "examples" / "data" / "orders" / "data"

ALL = "all"  # topics in one read
_DOWN_SECONDS = 8.0  # at most, before a killed broker is started again
_HEAD_START = 3.0  # seconds of load before the first question
_PAUSE = 0.2  # seconds between the questions of one reader
_MOST_ROWS = 30_000  # asked for at once of a topic that keeps everything
_TICK = 0.2
_MOST_WAITING = 10  # answers of one reader; of a dead broker's files a few are enough
_JUDGE_SECONDS = 60.0
_READERS_OF_A_LONG_DELAY = 2  # of a second or more: they mostly wait


@dataclass(frozen=True)
class _Attempt:
    """An answer that waits for its judge: while the broker is down nobody says where the log starts."""

    question: Question
    answer: Answer
    before: Moment
    read_until: float
    active: dict[TopicPartition, int]


class Asker(threading.Thread):
    """Asks one reader question after question, and has the answers judged."""

    def __init__(self, soak: Soak, name: str, delays: tuple[float, ...], spark: bool) -> None:
        super().__init__(name=name, daemon=True)
        self.failure: BaseException | None = None
        self.ready = threading.Event()
        self._watch, self._ledger, self._tally = soak.watch, soak.ledger, soak.tally
        self._chance = random.Random(f"{soak.seed} {name}")
        self._delays = delays
        self._spark = spark
        self._reader = Reader(spark, soak.scratch / f"{name}.log")
        self._waiting: deque[_Attempt] = deque()
        self._begin = threading.Event()
        self._stopping = threading.Event()

    def begin(self) -> None:
        """From now on it asks; until then it only gets its reader ready."""
        self._begin.set()

    def stop(self) -> None:
        """Ask it to come to an end."""
        self._stopping.set()
        self._begin.set()

    def run(self) -> None:
        try:
            with self._reader:
                self._warm_up()
                self.ready.set()
                self._begin.wait()
                while not self._stopping.is_set():
                    if len(self._waiting) < _MOST_WAITING:
                        self._ask()
                    self._judge()
                    self._stopping.wait(_PAUSE)
            self._judge_the_rest()
        except BaseException as error:
            self.failure = error

    def _warm_up(self) -> None:
        """Compiling kernels and starting Spark are not what is measured."""
        way = SPARK if self._spark else SCAN
        options = {"path": str(WARM_UP), "isolationLevel": "read_committed", "minPartitions": "4"}
        answer = self._reader.ask(Question("", (), way, 0, options))
        if answer.kind is not None:
            raise RuntimeError(f"reading {WARM_UP} failed: {answer.kind}: {answer.message}")

    def _ask(self) -> None:
        ends = self._watch.before()
        question = self._question(ends)
        before = replace(ends, time=time.monotonic())
        answer = self._reader.ask(question)
        self._waiting.append(_Attempt(question, answer, before, time.monotonic(), self._watch.active()))

    def _judge(self) -> None:
        """Judges what waits, if the broker can be asked."""
        ends = self._watch.ends() if self._waiting else None
        while self._waiting and ends is not None:
            attempt = self._waiting.popleft()
            after = Moment(attempt.read_until, ends, attempt.active)
            verdict = judge(attempt.question, attempt.answer, self._ledger, attempt.before, after)
            self._tally.add(attempt.question, attempt.answer, verdict, attempt.before, after)

    def _judge_the_rest(self) -> None:
        """No answer is let off for want of a judge."""
        deadline = time.monotonic() + _JUDGE_SECONDS
        self._judge()
        while self._waiting:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the broker could not be asked: {len(self._waiting)} answers were not judged")
            time.sleep(_TICK)
            self._judge()

    # ---- questions ----

    def _question(self, now: Moment) -> Question:
        chance = self._chance
        way = SPARK if self._spark else chance.choice((SPLITS, SCAN))
        delay = chance.choice(self._delays)
        committed, strict = chance.random() < 0.5, chance.random() < 0.7
        options = {
            "isolationLevel": "read_committed" if committed else "read_uncommitted",
            "failOnDataLoss": str(strict).lower(),
        }
        for name, share, values in (
            ("minPartitions", 0.4, range(2, 9)),
            ("maxRecordsPerPartition", 0.1, range(100, 2000)),
            ("trustIndexes", 0.1, ("false",)),
            ("mode", 0.1, ("DROPMALFORMED",)),
        ):
            if chance.random() < share:
                options[name] = str(chance.choice(values))
        since = until = None
        if chance.random() < 0.25:
            since = int((time.time() - chance.uniform(1, 60)) * 1000)
            options["since"] = str(since)
            if chance.random() < 0.5:
                until = since + int(chance.uniform(500, 30_000))
                options["until"] = str(until)
        topic = chance.choice((*TOPICS, None))
        partitions, start, end = self._place(topic, now, options)
        name = ALL if topic is None else topic.name
        return Question(name, partitions, way, delay, options, committed, strict, start, end, since, until)

    def _place(
        self, topic: SoakTopic | None, now: Moment, options: dict[str, str]
    ) -> tuple[tuple[TopicPartition, ...], int | None, int | None]:
        """What is read: all topics, one, or one partition, the last perhaps from an offset to another."""
        chance = self._chance
        options["path"] = self._watch.path()
        if topic is None:
            return tuple(self._watch.partitions), None, None
        where = chance.choice(topic.topic_partitions)
        ends = now.ends[where]
        large = not topic.loses and ends.latest - ends.earliest > _MOST_ROWS
        if not large and chance.random() < 0.3:
            options["subscribe"] = topic.name
            return tuple(topic.topic_partitions), None, None
        options["path"] = self._watch.path(where)
        if chance.random() < 0.5 and not (large and not topic.compacted):
            return (where,), None, None
        start = chance.randint(ends.earliest, ends.latest)
        end = chance.randint(start, min(ends.latest, start + _MOST_ROWS))
        options["startingOffsets"] = json.dumps({where[0]: {str(where[1]): start}})
        options["endingOffsets"] = json.dumps({where[0]: {str(where[1]): end}})
        return (where,), start, end


class Soak:
    """One run."""

    def __init__(self, arguments: argparse.Namespace, scratch: Path) -> None:
        self.ledger = Ledger(TOPICS)
        self.tally = Tally()
        self.seed: str = arguments.seed
        self.scratch = scratch
        self._seconds: float = arguments.seconds
        self._planned_kills: int = arguments.kills
        self._brokers = [KRaftBroker(scratch / "broker", AGGRESSIVE)]
        for number in range(2, arguments.replicas + 1):
            follower = KRaftBroker(scratch / f"broker-{number}", AGGRESSIVE, self._brokers[0], number)
            self._brokers.append(follower)
        partitions = list(self.ledger.partitions)
        bootstrap = ",".join(broker.bootstrap for broker in self._brokers)
        log_dirs = [broker.log_dir for broker in self._brokers]
        self.watch = Watch(bootstrap, log_dirs, partitions)
        self._changes = Changes(log_dirs[0], partitions)
        self._inspectors = [Inspector(f"inspector {at}", log_dirs, scratch) for at in range(arguments.inspectors)]
        delays: tuple[float, ...] = arguments.delays
        each = [delay for delay in delays for _ in range(_READERS_OF_A_LONG_DELAY if delay >= 1 else 1)]
        self._askers = [Asker(self, f"reader {at}", (delay,), False) for at, delay in enumerate(each)]
        if arguments.spark:
            self._askers.append(Asker(self, "spark", delays, True))
        self._loads = [LoadThread(bootstrap, self.ledger, load) for load in loads()]
        self._loaded_seconds = 0.0
        self._kills: list[str] = []

    def run(self) -> None:
        """All of it; returns when everything has been stopped."""
        with ExitStack() as stack:
            stack.callback(self._stop_askers)
            for asker in self._askers:  # one after the other: the first compiles the kernels, the others find them
                asker.start()
                while not asker.ready.wait(_TICK):
                    self._check()
            for broker in self._brokers:
                stack.enter_context(broker)
            create_topics(self._brokers[0].bootstrap, [topic.request(len(self._brokers)) for topic in TOPICS])
            self.watch.up.set()
            self._changes.start()
            stack.callback(self._changes.stop)
            stack.callback(self._stop_loads)
            began = time.monotonic()
            for load in self._loads:
                load.start()
            self._wait(_HEAD_START)
            for asker in self._askers:
                asker.begin()
            stack.callback(self._stop_inspectors)
            for inspector in self._inspectors:
                inspector.start()
            self._soak(time.monotonic())
            self._stop_inspectors()
            self._stop_askers()
            self._check()
            self._stop_loads()
            self._loaded_seconds = time.monotonic() - began

    def _soak(self, began: float) -> None:
        """The time of the run, with its kills; the time that they take is added."""
        stretch = self._seconds / (self._planned_kills + 1)
        for number in range(self._planned_kills):
            self._wait(stretch)
            broker = self._brokers[-1 - number % len(self._brokers)]  # the last one leads where there are two
            if broker is self._brokers[0]:  # the controller: without it nobody can be asked
                self.watch.up.clear()
            broker.kill()
            killed = time.monotonic()
            self._wait(min(self._seconds / 20, _DOWN_SECONDS))
            broker.start()
            self.watch.up.set()
            back = f"back after {time.monotonic() - killed:.0f} s"
            self._kills.append(f"{broker.node_id} killed after {killed - began:.0f} s, {back}")
        self._wait(stretch)

    def _wait(self, seconds: float) -> None:
        """Waits; what fails meanwhile ends the run."""
        deadline = time.monotonic() + seconds
        while True:
            self._check()
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _TICK))

    def _check(self) -> None:
        """Raises what a thread ended with."""
        for failure in (each.failure for each in (*self._askers, *self._loads, *self._inspectors)):
            if failure is not None:
                raise failure

    def _stop_askers(self) -> None:
        for asker in self._askers:
            asker.stop()
        for asker in self._askers:
            if asker.ident is not None:
                asker.join()

    def _stop_inspectors(self) -> None:
        for inspector in self._inspectors:
            inspector.stop()
        for inspector in self._inspectors:
            if inspector.ident is not None:
                inspector.join()

    def _stop_loads(self) -> None:
        for load in self._loads:
            load.stop()
        for load in self._loads:
            if load.ident is not None:
                load.join()

    # ---- what to say ----

    def facts(self) -> dict[str, object]:
        """What the run was."""
        fates = self.ledger.fates().fate
        return {
            "acknowledged": self.ledger.acknowledged(),
            "acknowledgedPerSecond": round(self.ledger.acknowledged() / max(self._loaded_seconds, 1)),
            "transactions": {fate.name.lower(): int((fates == fate).sum()) for fate in Fate},
            "producersReplaced": sum(load.replaced for load in self._loads),
            "kills": self._kills,
            "files": self._changes.counts(),
        }

    def failures(self) -> list[str]:
        """What the goals forbid, a sentence each."""
        return self.tally.failures() + say_failures(self._inspectors)

    def report(self) -> str:
        """What the run was, and what came of it."""
        facts = self.facts()
        files = "\n".join(
            f"  {topic}: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
            for topic, counts in self._changes.counts().items()
        )
        return (
            f"{facts['acknowledged']:,} records acknowledged, {facts['acknowledgedPerSecond']:,} a second; transactions"
            f" {facts['transactions']}, {facts['producersReplaced']} of their producers had to be replaced; broker {'; '.join(self._kills) or 'never killed'}\nsegments seen to be\n{files}\n"
            + self.tally.text()
            + "\n"
            + describe(self._inspectors)
        )


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Read beside a real broker at work, and judge every answer.")
    parser.add_argument("--seconds", type=float, default=600, help="how long to ask while the broker is up (600)")
    parser.add_argument("--spark", action="store_true", help="ask by Spark too, local[2]")
    parser.add_argument("--delays", type=_delays, default=(0, 0.3, 2), help="seconds from plan to read (0,0.3,2)")
    parser.add_argument("--kills", type=int, default=2, help="how often to kill the broker (2)")
    parser.add_argument("--replicas", type=int, default=1, help="brokers, each with a copy of everything (1)")
    parser.add_argument("--inspectors", type=int, default=1, help="how many run commands beside the broker (1)")
    parser.add_argument("--seed", default="1", help="what the random questions follow from; the broker's time does not")
    parser.add_argument("--keep", type=Path, help="a new directory for the brokers' files, which stay there")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    return parser.parse_args(arguments)


def _delays(text: str) -> tuple[float, ...]:
    return tuple(float(each) for each in text.split(","))


def main() -> None:
    """Soak, and say what was found."""
    arguments = parse()
    sys.setswitchinterval(0.0005)  # judging must not keep the producers waiting
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that everything is stopped on the way
    with ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix="kafkaseg-soak-", ignore_cleanup_errors=True)
        soak = Soak(arguments, arguments.keep or Path(stack.enter_context(temporary)))
        soak.run()
    print(soak.report())
    failures = soak.failures()
    if arguments.json:
        figures = {"seconds": arguments.seconds, **soak.facts(), **soak.tally.as_json()}
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    print("\n".join(f"FAILED: {failure}" for failure in failures) or "every answer was right, and nothing failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
