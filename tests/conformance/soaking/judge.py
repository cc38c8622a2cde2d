"""The judge: one answer against the ledger.

In: a question, its answer, what the broker said of the log before planning and after reading, and the ledger as of
afterwards. Out: a `Verdict`: what is wrong with rows that came out, and which rows are missing. Raises nothing for an
answer, whatever it holds.

Wrong is a row that was never sent, or was acknowledged at another offset, or is not what was acknowledged at its own;
an offset twice; a row outside the bounds, or of a partition not asked for; under read_committed, a row of a transaction
that was aborted, or was not asked to commit until the read was over, or at or after the last stable offset of that
moment. A record without an acknowledgement may be there: after a crash nobody knows.

Where several replicas are read, the last stable offset may wait for a follower that lacks a marker: there the rows of
open transactions, and those behind them, are wrong. A row at or past the high watermark of before may be of a leader
that died: sent, never confirmed, and replaced later. So may a row below the log start of after, where the broker that
died has the only copy. Only what was never sent is wrong there.

Missing is a row that was acknowledged before planning began (under read_committed: committed, and below the last stable
offset that the broker named before), lies within the bounds, and that the log held all the time:

- It is at or after the log start that the broker names after the read.
- Where compaction is at work, it has a value, was not aborted, and no record of its key is between it and the active
  segment as it is after the read. Compaction looks at no more than that. A key of which a record is on its way counts
  as overwritten.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_segment_source.kafka_format import MAX_OFFSET
from tests.conformance.soaking.ledger import NO_OFFSET, NO_TRANSACTION, Fate, Fates, Ledger, Sent
from tests.conformance.soaking.readers import SCAN, SPLITS, Answer, Question
from tests.conformance.soaking.topics import BY_NAME, SoakTopic, TopicPartition, key_bytes

_SHOWN = 8  # offsets in a sample

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Ends:
    """What the broker says of one partition: its log start, its end, its last stable offset."""

    earliest: int
    latest: int
    stable: int


@dataclass(frozen=True)
class Moment:
    """The log at one moment.

    active: the base offset of each partition's last segment; oldest: of the first one that any replica still had,
    perhaps below the log start; replicas: how many copies were read.
    """

    time: float
    ends: dict[TopicPartition, Ends]
    active: dict[TopicPartition, int] = field(default_factory=dict)
    oldest: dict[TopicPartition, int] = field(default_factory=dict)
    replicas: int = 1


@dataclass
class Verdict:
    """What the judge found. wrong: rows by what is wrong with them; samples: a sentence for each kind."""

    rows: int = 0
    expected: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    missing: int = 0
    samples: list[str] = field(default_factory=list)

    def note_wrong(self, what: str, where: TopicPartition, offsets: Longs) -> None:
        """Counts rows that are wrong in the same way."""
        if len(offsets):
            self.wrong[what] += len(offsets)
            self.samples.append(f"{what}: {where[0]}-{where[1]} {_shown(offsets)}")


def judge(question: Question, answer: Answer, ledger: Ledger, before: Moment, after: Moment) -> Verdict:
    """Every row of the answer, and if it came to its end, every row that should be in it."""
    verdict = Verdict(answer.rows.num_rows)
    sent = {where: ledger.partitions[where].sent() for where in question.partitions}
    fates = ledger.fates()  # after the records, so that it knows the transaction of each
    if not answer.in_order and question.way in (SCAN, SPLITS):
        verdict.wrong["out of order"] += 1
        verdict.samples.append("out of order: the offsets of one partition do not grow")
    asked = pa.array([f"{topic}-{partition}" for topic, partition in question.partitions])
    names = pc.binary_join_element_wise(
        answer.rows["topic"], pc.cast(answer.rows["partition"], pa.string()), "-"
    ).combine_chunks()
    strange = pc.invert(pc.is_in(names, asked))
    verdict.note_wrong("of another partition", ("", -1), _longs(answer.rows["offset"].filter(strange)))
    for where in question.partitions:
        rows = answer.rows.filter(pc.equal(names, f"{where[0]}-{where[1]}"))
        one = _Partition(question, where, before.ends[where], after.ends[where], sent[where], fates, before.replicas)
        one.check_rows(rows, after.time, verdict)
        if answer.kind is None:
            one.check_missing(_longs(rows["offset"]), before.time, after.active[where], verdict)
    return verdict


@dataclass(frozen=True)
class _Partition:
    """One partition's part of a question, with all that is known of it."""

    question: Question
    where: TopicPartition
    before: Ends
    after: Ends
    sent: Sent
    fates: Fates
    replicas: int

    @property
    def topic(self) -> SoakTopic:
        return BY_NAME[self.where[0]]

    # ---- rows that are there ----

    def check_rows(self, rows: pa.Table, read_until: float, verdict: Verdict) -> None:
        """What is wrong with rows that came out."""
        offsets, times = _longs(rows["offset"]), _longs(pc.cast(rows["timestamp"], pa.int64())) // 1000
        where, question = self.where, self.question
        known, numbers = self._numbers(rows, offsets, times)
        same = self._same(rows, numbers, times, known)
        # the tail of a leader that died, which nothing on the disks contradicts
        is_of_tail = (self.replicas > 1) & ((offsets >= self.before.latest) | (offsets < self.after.earliest))
        if is_of_tail.any():
            same |= is_of_tail & self._was_sent(rows, times)
        verdict.note_wrong("not what was acknowledged", where, offsets[known & ~same])
        verdict.note_wrong("never sent", where, offsets[~known & ~same])
        elsewhere = ~known & same & (self.sent.offset[numbers] != NO_OFFSET)
        elsewhere &= ~is_of_tail
        verdict.note_wrong("acknowledged at another offset", where, offsets[elsewhere])
        ordered = np.sort(offsets)
        verdict.note_wrong("offset twice", where, ordered[1:][ordered[1:] == ordered[:-1]])
        outside = ~self._inside(offsets, times) | ((offsets >= self.after.latest) & (self.replicas == 1))
        verdict.note_wrong("outside the bounds", where, offsets[outside])
        if not question.committed:
            return
        verdict.note_wrong("beyond the last stable offset", where, offsets[offsets >= self._stable_end()])
        transactions = self.sent.transaction[np.maximum(numbers, 0)]
        inside = (numbers >= 0) & (transactions != NO_TRANSACTION)
        fate = self.fates.fate[transactions[inside]]
        asked = self.fates.commit_asked[transactions[inside]]
        aborted = fate == Fate.ABORTED
        verdict.note_wrong("aborted", where, offsets[inside][aborted])
        verdict.note_wrong("open", where, offsets[inside][~aborted & (asked > read_until)])

    def _stable_end(self) -> int:
        """The offset from which on no committed row can be. The broker's last stable offset also waits for the follower
        of a marker (Kafka: ProducerStateManager.unreplicatedTxns), which the leader's disk has. So where replicas are
        read, it is that of the first open transaction."""
        stable = self.after.stable
        if self.replicas == 1:
            return stable
        is_open = self.sent.transaction != NO_TRANSACTION
        is_open[is_open] = self.fates.fate[self.sent.transaction[is_open]] == Fate.OPEN
        return int(self.sent.offset[is_open & (self.sent.offset >= stable)].min(initial=MAX_OFFSET))

    def _numbers(self, rows: pa.Table, offsets: Longs, times: Longs) -> tuple[Mask, Longs]:
        """Which rows are at offsets that were acknowledged, and the number of each row's record (-1: none has it)."""
        acknowledged, number_of = self._by_offset()
        at = np.minimum(np.searchsorted(acknowledged, offsets), max(len(acknowledged) - 1, 0))
        known = acknowledged[at] == offsets if len(acknowledged) else np.zeros(len(offsets), np.bool_)
        numbers = np.full(len(offsets), -1, np.int64)
        numbers[known] = number_of[at[known]]
        for row in np.flatnonzero(~known).tolist():
            numbers[row] = self._claimed(rows["value"][row].as_py(), int(times[row]))
        return known, numbers

    def _claimed(self, value: bytes | None, time: int) -> int:
        """The number of the record that a row without an acknowledgement says it is; -1 if there is none."""
        if value is None:  # no two of a partition have one timestamp
            at = int(np.searchsorted(self.sent.timestamp, time))
            return at if at < self.sent.count and self.sent.timestamp[at] == time else -1
        digits = value[self.topic.number_at(self.where[1])]
        return int(digits) if digits.isdigit() and int(digits) < self.sent.count else -1

    def _was_sent(self, rows: pa.Table, times: Longs) -> Mask:
        """Which rows are records that were sent, whatever became of them."""
        values = rows["value"].to_pylist()
        numbers = [self._claimed(value, time) for value, time in zip(values, times.tolist(), strict=True)]
        claimed = np.array(numbers, np.int64)
        return self._same(rows, claimed, times, np.zeros(len(claimed), np.bool_))

    def _same(self, rows: pa.Table, numbers: Longs, times: Longs, known: Mask) -> Mask:
        """Which rows are the records that they should be."""
        sent, partition = self.sent, self.where[1]
        keys = [key_bytes(key) for key in sent.key[numbers].tolist()] if len(numbers) else []
        values = [
            None if tombstone else self.topic.value(partition, number)
            for number, tombstone in zip(numbers.tolist(), sent.tombstone[numbers].tolist(), strict=True)
        ]
        same = (numbers >= 0) & _equal(rows["key"], keys) & _equal(rows["value"], values)
        by_broker = self.topic.append_time
        same &= _longs(rows["timestampType"]) == by_broker
        return np.asarray(same & ((sent.timestamp[numbers] == times) | (by_broker & ~known)), np.bool_)

    # ---- rows that are not there ----

    def check_missing(self, offsets: Longs, planned: float, active: int, verdict: Verdict) -> None:
        """Which rows should have come out and did not."""
        sent = self.sent
        due = (sent.offset >= self.after.earliest) & (sent.acknowledged < planned)
        due &= self._inside(sent.offset, sent.timestamp)
        fate = self._fate()
        if self.question.committed:
            due &= (sent.offset < self.before.stable) & (fate == Fate.COMMITTED)
        if self.topic.compacted:
            due &= (fate == Fate.COMMITTED) & (sent.tombstone == 0) & self._latest(active, fate)
        wanted = sent.offset[due]
        missing = np.setdiff1d(wanted, offsets)
        verdict.expected += len(wanted)
        verdict.missing += len(missing)
        if len(missing):
            verdict.samples.append(f"missing: {self.where[0]}-{self.where[1]} {_shown(missing)} of {len(wanted)}")

    def _fate(self) -> npt.NDArray[np.int8]:
        """The fate of each record; what is of no transaction is committed."""
        fate = np.full(self.sent.count, Fate.COMMITTED, np.int8)
        inside = self.sent.transaction != NO_TRANSACTION
        fate[inside] = self.fates.fate[self.sent.transaction[inside]]
        return fate

    def _latest(self, active: int, fate: npt.NDArray[np.int8]) -> Mask:
        """Which records no other one of their key can have replaced, in what compaction may have looked at."""
        sent = self.sent
        replaces = fate != Fate.ABORTED
        nowhere = replaces & (sent.offset == NO_OFFSET)
        placed = replaces & (sent.offset != NO_OFFSET) & (sent.offset < active)
        keys, at = np.unique(sent.key, return_inverse=True)
        last = np.full(len(keys), -1, np.int64)
        np.maximum.at(last, at[placed], sent.offset[placed])
        last[at[nowhere]] = np.iinfo(np.int64).max
        return np.asarray(sent.offset >= last[at])

    def _by_offset(self) -> tuple[Longs, Longs]:
        """Acknowledged offsets in order, and the number of the record at each."""
        numbers = np.flatnonzero(self.sent.offset != NO_OFFSET)
        order = np.argsort(self.sent.offset[numbers], kind="stable")
        return self.sent.offset[numbers][order], numbers[order]

    def _inside(self, offsets: Longs, times: Longs) -> Mask:
        """Which are inside the bounds of the question."""
        question = self.question
        inside = np.ones(len(offsets), np.bool_)
        for array, least, limit in (
            (offsets, question.start, question.end),
            (times, question.since, question.until),
        ):
            inside &= array >= (np.iinfo(np.int64).min if least is None else least)
            inside &= array < (np.iinfo(np.int64).max if limit is None else limit)
        return inside


def _longs(column: pa.ChunkedArray) -> Longs:
    return np.asarray(column.to_numpy(), np.int64)


def _equal(column: pa.ChunkedArray, expected: list[bytes | None] | list[bytes]) -> Mask:
    """Where a column has what is expected; null equals null."""
    other = pa.array(expected, pa.binary())
    equal = pc.fill_null(pc.equal(column, other), False)
    both = pc.and_(pc.is_null(column), pc.is_null(other))
    return np.asarray(pc.or_(equal, both).to_numpy(), np.bool_)


def _shown(offsets: Longs) -> str:
    named = ", ".join(map(str, offsets[:_SHOWN].tolist()))
    return f"offsets {named}" + (f" and {len(offsets) - _SHOWN} more" if len(offsets) > _SHOWN else "")
