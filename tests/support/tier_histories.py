"""Tiers that several leaders filled: segments uploaded twice with other boundaries, segments of fenced leaders.

In: terms of leadership that hypothesis draws. Out: a `TierHistory`: what each leader uploaded, what the last one has on
its disk, and the records that a broker serves: each offset once, along the leader epochs of the last leader.

The rules are Kafka's. A leader begins with the segment that holds the first offset of its history that the tier does
not have (RemoteLogManager.RLMCopyTask: `findHighestRemoteOffset`, then `candidateLogSegments`, which takes the whole
segment of that offset). It never uploads the active segment, nor anything past the last stable offset. Where it rolls
its segments is up to each broker. So uploads overlap (KAFKA-16511), or one holds another (KAFKA-15168, where the
earlier leader's lag let the next one begin further back). A leader that is elected uncleanly lacks records that the
tier has.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from hypothesis import strategies as st

from . import naive, transactions, writer
from .naive_tier import follow_lineage
from .tiered_encoder import LocalSegment, Names, Objects
from .transactions import Batch, Kind

KINDS: tuple[Kind, ...] = (*("data",) * 3, *("commit",) * 4, *("abort",) * 4, *("plain",) * 8, "idempotent")


@dataclass(frozen=True)
class Term:
    """One leader's term.

    lost: the batches at the end of the log that it lacks when it is elected. skipped: elections before it without a
    record. choices: its batches, as in `transactions.build`. every, shift: where it rolls segments. back: how many
    segments it uploads again. uploads: how many it uploads at most.
    """

    lost: int
    skipped: int
    choices: tuple[tuple[Kind, int, int, int], ...]
    every: int
    shift: int
    back: int
    uploads: int


@dataclass(frozen=True)
class TierHistory:
    """What became of a partition. uploads: in their order. local: the segments that the last leader still has.

    local_epochs: its `leader-epoch-checkpoint`. whole: its log from the beginning, as bytes.
    """

    uploads: tuple[LocalSegment, ...]
    local: tuple[LocalSegment, ...]
    local_epochs: dict[int, int]
    whole: bytes = field(repr=False)

    @cached_property
    def records(self) -> list[naive.Record]:
        """What a broker serves, control records included: the log of the last leader."""
        return naive.decode_log(self.whole)

    @cached_property
    def tier_records(self) -> list[naive.Record]:
        """What the tier alone tells: the history of the segment of the latest epoch that ends last."""
        if not self.uploads:
            return []
        newest = max(self.uploads, key=lambda each: (max(each.epochs), each.end))
        return follow_lineage([r for each in self.uploads for r in naive.decode_log(each.log)], newest.epochs)

    @property
    def tier_is_of_the_last_leader(self) -> bool:
        """Whether everything that `tier_records` has is still a part of the log."""
        places = {(record.offset, record.leader_epoch) for record in self.records}
        return all((record.offset, record.leader_epoch) in places for record in self.tier_records)

    @property
    def has_overlap(self) -> bool:
        """Whether an offset is in two uploads."""
        spans = sorted((each.base, each.end) for each in self.uploads)
        return any(two[0] <= one[1] for one, two in itertools.pairwise(spans))

    @property
    def has_lost(self) -> bool:
        """Whether the tier has records that are not a part of the log."""
        places = {(record.offset, record.leader_epoch) for record in self.records}
        uploaded = (record for each in self.uploads for record in naive.decode_log(each.log))
        return any((record.offset, record.leader_epoch) not in places for record in uploaded)

    def write_local(self, directory: Path, names: Names) -> Path:
        """Write the last leader's log directory. Returns `directory`, which holds the partition's own."""
        folder = directory / f"{names.topic}-{names.partition}"
        folder.mkdir(parents=True)
        for each in self.local:
            files = {".log": each.log, ".index": each.index, ".timeindex": each.timeindex, ".txnindex": each.txnindex}
            for suffix, data in files.items():
                if data is not None:
                    (folder / writer.segment_name(each.base, suffix)).write_bytes(data)
            (folder / writer.segment_name(each.end + 1, ".snapshot")).write_bytes(each.snapshot)
        text = "".join(f"{epoch} {start}\n" for epoch, start in sorted(self.local_epochs.items()))
        (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(self.local_epochs)}\n{text}")
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {names.id_text}")
        (directory / "log-start-offset-checkpoint").write_text(f"0\n1\n{names.topic} {names.partition} 0\n")
        return directory


def play(terms: Sequence[Term]) -> TierHistory:
    """Let the leaders write, roll and upload, one after the other."""
    log: list[Batch] = []
    epochs: dict[int, int] = {}
    epoch = -1
    uploads: list[LocalSegment] = []
    segments: list[list[Batch]] = []
    first_missing = 0
    for term in terms:
        log = log[: max(len(log) - term.lost, 1)]
        epoch += 1 + term.skipped
        start = _end(log)
        epochs = {each: begin for each, begin in epochs.items() if begin < start} | {epoch: start}
        for choice in term.choices:
            log.append(_write(choice, _end(log), epoch))
        segments = _roll(log, term)
        first_missing = _find_missing(segments, uploads)
        is_open, _ = transactions.broker(log)
        stable = min(is_open.values(), default=_end(log))
        begin = max(first_missing - term.back, 0)
        for number in range(begin, min(begin + term.uploads, len(segments) - 1)):
            if segments[number + 1][0].base > stable:
                break
            uploads.append(_store(segments[number], log, epochs))
        first_missing = _find_missing(segments, uploads)
    kept = segments[max(min(first_missing, len(segments) - 1) - terms[-1].back, 0) :]
    return TierHistory(
        uploads=tuple(uploads),
        local=tuple(_store(each, log, epochs) for each in kept),
        local_epochs=epochs,
        whole=b"".join(batch.data for batch in log),
    )


def _end(log: Sequence[Batch]) -> int:
    return log[-1].last + 1 if log else 0


def _write(choice: tuple[Kind, int, int, int], base: int, epoch: int) -> Batch:
    """A batch of this leader epoch, which its CRC does not cover. Its times tell it from one of another epoch."""
    kind, producer, shape, timestamp = choice
    batch = transactions.make(kind, producer, base, shape, timestamp + 10_000 + 100 * epoch)
    return replace(batch, data=batch.data[:12] + struct.pack(">i", epoch) + batch.data[16:])


def _roll(log: list[Batch], term: Term) -> list[list[Batch]]:
    begins = [0, *(at for at in range(1, len(log)) if (at + term.shift) % term.every == 0), len(log)]
    return [log[one:two] for one, two in itertools.pairwise(begins)]


def _find_missing(segments: list[list[Batch]], uploads: list[LocalSegment]) -> int:
    """The first of these segments that has a batch which no upload has."""
    known = {batch for each in uploads for batch in _split(each.log)}
    for number, segment in enumerate(segments):
        if any(batch.data not in known for batch in segment):
            return number
    return len(segments)


def _split(log: bytes) -> list[bytes]:
    found, position = [], 0
    while position < len(log):
        size = 12 + int.from_bytes(log[position + 8 : position + 12])
        found.append(log[position : position + size])
        position += size
    return found


def _store(segment: list[Batch], log: list[Batch], epochs: dict[int, int]) -> LocalSegment:
    """A segment's files, with the state at its end."""
    base, end = segment[0].base, segment[-1].last
    until = [batch for batch in log if batch.last <= end]
    _, aborted = transactions.broker(until)
    own = [each for each in aborted if each.last >= base]
    offsets, times = [], []
    position, largest, entered = 0, (-1, -1), -1
    for number, batch in enumerate(segment):
        largest = max(largest, (max(batch.timestamps), batch.last), key=lambda each: each[0])
        if number % 2:
            offsets.append((batch.last, position))
        if (number % 2 or number == len(segment) - 1) and largest[0] > entered:
            times.append(largest)
            entered = largest[0]
        position += len(batch.data)
    entries = [(each.producer, each.first, each.last, each.stable) for each in own]
    return LocalSegment(
        base=base,
        end=end,
        log=b"".join(batch.data for batch in segment),
        index=writer.offset_index(offsets, base),
        timeindex=writer.time_index(times, base),
        txnindex=writer.transaction_index(entries) if entries else None,
        snapshot=transactions.snapshot(until),
        epochs={epoch: start for epoch, start in epochs.items() if start <= end},
        max_timestamp=largest[0],
    )


# --- objects that are no data -----------------------------------------------------------------------------------------


def add_orphans(objects: Objects, others: Objects, parts: Sequence[str]) -> Objects:
    """The store with objects of uploads that never came to their end: those of `others` with these endings."""
    return objects | {key: data for key, data in others.items() if key.endswith(tuple(parts)) and key not in objects}


# --- random ones ------------------------------------------------------------------------------------------------------

_batches = st.tuples(
    st.sampled_from(KINDS), st.integers(1, transactions.PRODUCERS), st.integers(0, 255), st.integers(1000, 1050)
)


def _terms(first: bool) -> st.SearchStrategy[Term]:
    return st.builds(
        Term,
        lost=st.just(0) if first else st.sampled_from([0, 0, 2, 5, 9]),
        skipped=st.integers(0, 2),
        choices=st.lists(_batches, min_size=3 if first else 0, max_size=12).map(tuple),
        every=st.sampled_from([1, 2, 2, 3, 5]),
        shift=st.integers(0, 4),
        back=st.sampled_from([0, 0, 1, 2]),
        uploads=st.sampled_from([0, 1, 3, 20, 20, 20, 20]),
    )


tier_histories = st.builds(
    lambda first, more: play([first, *more]),
    _terms(True),
    st.integers(0, 3).flatmap(lambda n: st.lists(_terms(False), min_size=n, max_size=n)),
)
