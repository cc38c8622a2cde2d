"""Replicas of a compacted partition, each compacted on its own, with the epoch files that brokers write.

In: a number. Out: `Case`, which writes two to four copies and knows the log of the last leader. What may and must come
out follows from this construction alone; nothing here uses the package.

A small cluster plays: leaders append, followers fetch what compaction has left of the leader's log, each broker cleans
its own segments, old segments are deleted, a disk is replaced, and leaders are elected, cleanly or not. A broker that
no longer takes part keeps its log as it was, maybe with a tail that the cluster has given up. Then single batches are
damaged.

Epoch files (Kafka: LeaderEpochFileCache): a leader notes its epoch at the end of its log before its first record. A
follower notes an epoch at the first batch of it that it fetched. A truncation removes the lines at or above its offset.
Retention moves the line of the log's start up to it, and removes those before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from kafka_segment_source.kafka_format import MAX_OFFSET

from . import writer
from .hurt_copies import put
from .simulated_files import SimulatedFiles
from .writer import Rec

TOPIC = "t"
FIRST_TIME = 1_000_000
KEYS = 6
FEW_KEYS = 2  # compaction then takes most batches, also those that would show where two histories part
Row = tuple[int, int, bytes | None]
"""Offset, timestamp, value."""


@dataclass(frozen=True)
class Batch:
    """A batch as its leader wrote it. keys: the key of each record by offset; a marker has none. name: no other batch
    has it."""

    base: int
    last: int
    epoch: int
    name: int
    producer: int
    codec: str
    keys: dict[int, int] = field(hash=False)

    def row(self, offset: int) -> Row:
        return offset, FIRST_TIME + 10 * offset, b"%d of batch %d" % (offset, self.name)

    def encode(self, kept: frozenset[int]) -> bytes:
        """Its bytes with these records."""
        if not self.keys:
            return writer.control_batch(
                "commit",
                offset=self.base,
                timestamp=FIRST_TIME + 10 * self.base,
                producer_id=1_000_000 + self.name,
                producer_epoch=0,
                leader_epoch=self.epoch,
            )
        rows = [self.row(offset) for offset in sorted(kept)]
        recs = [Rec(row[0] - self.base, row[1], b"k%d" % self.keys[row[0]], row[2]) for row in rows]
        return writer.record_batch(
            recs,
            base_offset=self.base,
            codec=self.codec if recs else "none",  # type: ignore[arg-type]  # one of two words
            leader_epoch=self.epoch,
            last_offset_delta=self.last - self.base,
            producer_id=self.producer,
            producer_epoch=0 if self.producer >= 0 else -1,
        )


@dataclass
class Held:
    """A batch in a replica's file: the records that compaction left, and whether its bytes are whole. moved_to: the
    baseOffset that its bytes state, if a flipped bit has changed it. epoch: the same for its leader epoch."""

    batch: Batch
    kept: frozenset[int]
    whole: bool = True
    moved_to: int | None = None
    epoch: int | None = None

    @property
    def is_thin(self) -> bool:
        """Whether compaction has removed records of it."""
        return len(self.kept) <= self.batch.last - self.batch.base

    @property
    def stated(self) -> int:
        """The leader epoch that its bytes state."""
        return self.batch.epoch if self.epoch is None else self.epoch


@dataclass
class Replica:
    """One broker's copy. story: all batches of its history, also those that compaction removed. rolls: the base
    offsets of its segments. lines: its epoch file."""

    story: list[Batch] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    rolls: list[int] = field(default_factory=lambda: [0])
    lines: dict[int, int] = field(default_factory=dict)
    has_lines: bool = True
    is_cleaned: bool = False
    is_marked: bool = False
    is_gone: bool = False
    emptied: int | None = None  # the base offset of the segment whose `.log` has lost all its bytes
    cut: int | None = None  # the base offset of the batch from which on a `.log` has lost its bytes

    @property
    def end(self) -> int:
        return self.held[-1].batch.last + 1 if self.held else self.rolls[0]

    @property
    def start(self) -> int:
        return self.rolls[0]

    def named(self) -> int:
        """The latest leader epoch that its files name."""
        epochs = [held.batch.epoch for held in self.sound()]
        return max([-1, *epochs, *(self.lines if self.has_lines else ())])

    def epochs(self) -> set[int]:
        """The leader epochs that its files state."""
        return {held.stated for held in self.held} | ({*self.lines} if self.has_lines else set())

    def sound(self) -> list[Held]:
        return [held for held in self.held if held.whole]

    def append(self, batch: Batch, kept: frozenset[int], rolls: bool) -> None:
        if rolls and self.held and batch.base > self.rolls[-1]:
            self.rolls.append(batch.base)
        latest = max(self.lines, default=-1)
        if batch.epoch != latest or batch.base < self.lines[latest]:  # Kafka: LeaderEpochFileCache.assign
            earlier = {
                epoch: start for epoch, start in self.lines.items() if epoch < batch.epoch and start < batch.base
            }
            self.lines = earlier | {batch.epoch: batch.base}
        self.held.append(Held(batch, kept))

    def is_thinned(self) -> bool:
        """Whether compaction has removed something of it, here or in the replica that it was fetched from."""
        ends = [self.start, *(held.batch.last + 1 for held in self.held)]
        has_gaps = any(held.batch.base > end for held, end in zip(self.held, ends, strict=False))
        return has_gaps or any(held.kept != held.batch.keys.keys() for held in self.held)

    def truncate(self, offset: int) -> None:
        self.story = [batch for batch in self.story if batch.base < offset]
        self.held = [held for held in self.held if held.batch.base < offset]
        self.rolls = [base for base in self.rolls if base < offset] or [min(offset, self.rolls[0])]
        while len(self.rolls) > 1 and not (self.held and self.held[-1].batch.base >= self.rolls[-1]):
            self.rolls.pop()  # no empty last file
        self.lines = {epoch: start for epoch, start in self.lines.items() if start < offset}

    def delete_before(self, base: int) -> None:
        """Deletes the segments below one of its segments."""
        self.rolls = [each for each in self.rolls if each >= base]
        self.held = [held for held in self.held if held.batch.base >= base]
        before = [epoch for epoch, start in self.lines.items() if start <= base]
        self.lines = {
            epoch: max(start, base) for epoch, start in self.lines.items() if epoch >= max(before, default=-1)
        }

    def clean(self, random: Random) -> None:
        """Compacts some of the first segments, never the last one: of each key it keeps the last record."""
        if len(self.rolls) < 2:
            return
        until = random.choice(self.rolls[1:])
        latest: dict[int, int] = {}
        for held in self.held:
            if held.batch.base < until:
                latest |= {held.batch.keys[offset]: offset for offset in sorted(held.kept)}
        cleaned: list[Held] = []
        for held in self.held:
            kept = frozenset(offset for offset in held.kept if latest.get(held.batch.keys[offset], -1) <= offset)
            if held.batch.base >= until or kept or (not held.batch.keys and random.random() < 0.7):
                cleaned.append(Held(held.batch, kept))
            elif held.batch.producer >= 0 and random.random() < 0.5:
                cleaned.append(Held(held.batch, kept))  # an empty one, for the state of its producer
        self.held = cleaned
        merged = [base for base in self.rolls[1:] if base < until and random.random() < 0.4]
        self.rolls = [base for base in self.rolls if base not in merged]
        bases = [base for base, held in self.files() if held]
        self.rolls = [self.rolls[0], *bases[1:]]  # segments that are emptied are put together with others
        self.is_cleaned = True

    def noted_at(self, offset: int) -> int:
        """The leader epoch that its epoch file has for an offset, or -1."""
        return max((epoch for epoch, start in self.lines.items() if start <= offset), default=-1)

    def is_damaged_at(self, offset: int) -> bool:
        """Whether a batch with an offset is damaged."""
        return any(held.batch.base <= offset <= held.batch.last for held in self.held if not held.whole)

    def is_emptied_at(self, offset: int) -> bool:
        """Whether the file of an offset has lost all its bytes, or its end with this offset."""
        base = max((base for base in self.rolls if base <= offset), default=None)
        return base is not None and (base == self.emptied or (self.cut is not None and base <= self.cut <= offset))

    def files(self) -> Iterator[tuple[int, list[Held]]]:
        for at, base in enumerate(self.rolls):
            after = self.rolls[at + 1] if at + 1 < len(self.rolls) else 2**62
            yield base, [held for held in self.held if base <= held.batch.base < after]


@dataclass
class Case:
    """The replicas, and the one that led last."""

    number: int
    replicas: list[Replica]
    leader: Replica
    log: list[str] = field(default_factory=list)

    def rows(self) -> dict[int, Row]:
        """The rows of the last leader's whole history."""
        return {offset: batch.row(offset) for batch in self.leader.story for offset in batch.keys}

    def is_stale(self, replica: Replica) -> bool:
        return replica.story != self.leader.story[: len(replica.story)]

    def shared_end(self, replica: Replica) -> int:
        """The offset up to which a replica has the last leader's history."""
        return find_shared_end(replica, self.leader)

    def required(self) -> dict[int, Row]:
        """The rows that must come out: all valid copies of their offset have them, and one of them whole."""
        found: dict[int, Row] = {}
        valid = [replica for replica in self.replicas if not self.is_stale(replica)]
        for offset, row in self.rows().items():
            covering = [each for each in valid if each.start <= offset < each.end]
            holding = [next((h for h in each.held if offset in h.kept), None) for each in covering]
            certain = [
                each
                for each in valid
                for held in each.held
                if offset in held.kept and not is_in_doubt(each, held) and not (held.is_thin and self.seems_stale(each))
            ]
            if holding and None not in holding and certain:
                found[offset] = row
        return found

    def seems_stale(self, replica: Replica) -> bool:
        """Whether the last batch of a replica was moved beyond all copies, and none has it whole at its place. Then the
        replica is taken for a stale one, and what compaction left there may be less than the log has."""
        last, end = replica.held[-1], max(each.end for each in self.replicas)
        twins = [held for each in self.replicas for held in each.held if held.batch == last.batch and held.whole]
        return (last.moved_to or 0) >= end and not twins

    def noticed(self) -> dict[int, Row]:
        """The rows that all valid copies of their offset have, whole or not. A strict read gives them, or an error.

        Those of a batch that was moved beyond all copies come out at its place there, if no copy has it whole.
        """
        valid = [replica for replica in self.replicas if not self.is_stale(replica)]
        end = max(replica.end for replica in self.replicas)
        found: dict[int, Row] = {}
        for offset, row in self.rows().items():
            covering = [each for each in valid if each.start <= offset < each.end]
            having = [held for each in covering for held in each.held if offset in held.kept]
            if any((held.moved_to or 0) >= end for held in having) and not any(held.whole for held in having):
                continue
            if covering and len(having) == len(covering):
                found[offset] = row
        return found

    def can_tell(self, offset: int) -> bool:
        """Whether the copies with the last leader's history tell what is at an offset: not between those that begin
        after it and those that end before it, not where all of them are damaged or a file has lost all its bytes, and
        not in a last batch whose wrong offsets lie beyond all copies, and not where none of them shows that a stale one
        parts from them there or before, and no copy has the row."""
        end = max(replica.end for replica in self.replicas)
        if offset >= end and any((held.moved_to or 0) >= end for replica in self.replicas for held in replica.held):
            return False
        valid = [each for each in self.replicas if not self.is_stale(each)]
        holders = [each for each in self.replicas if self.is_stale(each) and offset >= self.shared_end(each)]
        covering = [each for each in valid if each.start <= offset < each.end]
        sharing = [each for each in self.replicas if offset < self.shared_end(each)]
        if (
            covering
            and not any(has_row(each, offset) and not each.is_damaged_at(offset) for each in sharing)
            and any(has_row(each, offset) for each in holders)
            and not any(shows_parting(other, self.shared_end(each), offset) for each in holders for other in covering)
        ):
            return False
        hiding = [
            each
            for each in covering
            if each.is_emptied_at(offset) or (each.is_damaged_at(offset) and not states_leader(each, offset))
        ]
        return len(covering) > len(hiding) or offset >= max(each.end for each in valid)

    def undecided(self) -> list[Replica]:
        """The stale replicas that nothing on the disks of valid ones contradicts, by comparing each batch with each."""
        valid = [replica for replica in self.replicas if not self.is_stale(replica)]
        return [
            stale
            for stale in self.replicas
            if self.is_stale(stale)
            and not any(each.named() > stale.named() and contradict(stale, each) for each in valid)
        ]

    def has_holes(self) -> bool:
        """Whether offsets of the history are in no copy's range."""
        reached: int | None = None
        for start, end in sorted(
            (each.start, max(each.start, min(each.end, self.shared_end(each)))) for each in self.replicas
        ):
            if reached is not None and start > reached:
                return True
            reached = max(reached or 0, end)
        return False

    def may_look_like_loss(self) -> bool:
        """Whether compaction may have emptied the end of a segment, and no checkpoint says that there was any."""
        return any(replica.is_thinned() and not replica.is_marked for replica in self.replicas)

    def has_bent_epoch(self) -> bool:
        """Whether the leader epoch of a batch has a flipped bit, beside a stale replica."""
        return self.is_bent() and any(self.is_stale(replica) for replica in self.replicas)

    def has_undecided_end(self) -> bool:
        """Whether the epoch of a last batch is in doubt, and decides. Damage and flipped epochs may hide what shows
        which one is right."""
        if self.has_chance_epoch() or any(contradicts_its_lines(replica) for replica in self.replicas):
            return True
        if any(self.has_two_epochs(replica) for replica in self.replicas):
            return True
        return any(self.has_open_end(replica) for replica in self.replicas if lacks_its_last_epoch(replica))

    def has_two_epochs(self, replica: Replica) -> bool:
        """Whether another replica states another epoch for the last batch of a replica, and a stale one has an epoch
        between the two."""
        last = replica.held[-1]
        stated = {held.stated for other in self.replicas for held in other.held if held.batch == last.batch}
        stale = {epoch for other in self.replicas if self.is_stale(other) for epoch in other.epochs()}
        return any(min(stated) <= epoch <= max(stated) for epoch in stale) and len(stated) > 1

    def has_chance_epoch(self) -> bool:
        """Whether a flipped last epoch is by chance the one that another replica notes there."""
        ends = [
            (replica.held[-1], other) for replica in self.replicas for other in self.replicas if other is not replica
        ]
        return any(end.epoch is not None and end.epoch == other.noted_at(end.batch.base) for end, other in ends)

    def has_open_end(self, replica: Replica) -> bool:
        """Whether no other replica shows the epoch of a last batch that the epoch file beside it lacks, and that
        matters: something is damaged, or another replica notes that epoch there, or none notes a later one, or one has
        an epoch between the least that is possible and the stated one."""
        others = [other for other in self.replicas if other is not replica]
        stated, line = replica.held[-1].stated, max(replica.lines)
        if any(shows_epoch(replica, other) for other in others):
            return False
        if self.is_damaged() or self.is_bent():
            return True
        if any(shows_later_epoch(replica, other) for other in others):
            least = max([line + 1, *(held.stated for held in replica.held[-2:-1])])
            return any(least <= epoch <= stated for other in others for epoch in other.epochs())
        noted = max((epoch for other in self.replicas if other.has_lines for epoch in other.lines), default=-1)
        is_noted = any(other.has_lines and other.noted_at(replica.held[-1].batch.base) == stated for other in others)
        return stated >= noted or is_noted

    def is_contested(self) -> bool:
        """Whether two replicas have different batches where a later leader's log has lost its own, or compaction has
        removed it, and nothing behind shows which of them it had."""
        return any(
            has_hole_at(leader, offset) and not agree_behind(replica, leader, offset)
            for stale in self.replicas
            for replica in self.replicas
            for leader in self.replicas
            if self.is_stale(stale) and leader.named() > replica.named()
            for held in stale.held
            for other in replica.held
            for offset in range(max(held.batch.base, other.batch.base), min(held.batch.last, other.batch.last) + 1)
            if other.batch != held.batch
        )

    def has_silent_leader(self) -> bool:
        """Whether the last leader wrote nothing. Then a line alone contradicts a stale replica that goes on."""
        last = max(self.leader.lines, default=-1)
        return last > max((batch.epoch for batch in self.leader.story), default=-1)

    def has_later_stale(self) -> bool:
        """Whether a stale replica names an epoch as late as those of all others: damage and an older epoch file hide
        that of the leader."""
        named = [replica.named() for replica in self.replicas if not self.is_stale(replica)]
        return any(replica.named() >= max(named, default=-1) for replica in self.undecided())

    def is_bent(self) -> bool:
        """Whether the leader epoch of a batch has a flipped bit."""
        return any(held.epoch is not None for replica in self.replicas for held in replica.held)

    def is_damaged(self) -> bool:
        return any(not held.whole for replica in self.replicas for held in replica.held)

    def write(self, files: SimulatedFiles) -> list[str]:
        """Writes the copies; answers the paths to be read."""
        put(
            files,
            {path: data for at, each in enumerate(self.replicas) for path, data in written(at, each, self.number)},
        )
        paths = [f"/copy{at}" for at in range(len(self.replicas))]
        Random(self.number).shuffle(paths)
        return paths


def is_in_doubt(replica: Replica, held: Held) -> bool:
    """Whether a batch is damaged, or lies between damage and a gap: nothing proves its offset then, and the reader says
    that no copy holds it whole."""
    base, batches = next((base, batches) for base, batches in replica.files() if held in batches)
    at = batches.index(held)
    before, after = batches[:at][-1:], batches[at + 1 :][:1]
    is_beside_damage = any(not each.whole for each in before + after)
    ends = [each.batch.last + 1 for each in before] or [base]
    starts = [each.batch.base if each.moved_to is None else each.moved_to for each in after]
    is_beside_gap = ends != [held.batch.base] or any(start != held.batch.last + 1 for start in starts)
    return not held.whole or (is_beside_damage and is_beside_gap)


def lacks_its_last_epoch(replica: Replica) -> bool:
    """Whether the last batch of a replica states a later epoch than its epoch file has."""
    return replica.has_lines and bool(replica.lines) and replica.held[-1].stated > max(replica.lines)


def contradicts_its_lines(replica: Replica) -> bool:
    """Whether the last batch of a replica states an earlier epoch than its epoch file has there."""
    last = replica.held[-1]
    base = last.batch.base if last.moved_to is None else last.moved_to
    return replica.has_lines and 0 <= last.stated < replica.noted_at(base)


def shows_epoch(replica: Replica, other: Replica) -> bool:
    """Whether another replica shows that the last batch of a replica is of the epoch that it states, which its epoch
    file lacks: the other one has the batch and notes that epoch there, and no later one before, or has it with no epoch
    file. A damaged batch is not known to be the same one if compaction has left other records of it."""
    last = replica.held[-1]
    same = [held for held in other.held if held.batch == last.batch and not is_behind_damage(other, held)]
    same = [held for held in same if held.whole or held.kept == last.kept]
    if not other.has_lines:
        return any(held.whole and held.kept == last.kept and held.stated == last.stated for held in same)
    before = replica.held[-2:-1]
    is_noted = bool(same) and other.noted_at(last.batch.base) == last.stated
    return is_noted and all(other.noted_at(held.batch.base) <= held.stated for held in before)


def is_behind_damage(replica: Replica, held: Held) -> bool:
    """Whether the file of a batch has lost all its bytes, or is damaged before the batch."""
    batches = next(batches for _, batches in replica.files() if held in batches)
    return replica.is_emptied_at(held.batch.base) or any(not each.whole for each in batches[: batches.index(held)])


def shows_later_epoch(replica: Replica, other: Replica) -> bool:
    """Whether another replica has another batch of the last noted epoch where a replica has its last batch."""
    last = replica.held[-1]
    return any(
        held.batch != last.batch and held.stated == max(replica.lines) and held.kept & last.kept
        for held in other.held
        if held.batch.base <= last.batch.base <= held.batch.last
    )


def has_hole_at(replica: Replica, offset: int) -> bool:
    """Whether a replica has no whole batch at an offset before its end."""
    there = any(held.batch.base <= offset <= held.batch.last for held in replica.sound())
    return offset < replica.end and not there


def agree_behind(one: Replica, other: Replica, offset: int) -> bool:
    """Whether two replicas have the same whole batch beyond an offset, or batches of one epoch, or the same line of
    their epoch files."""
    if any(held.epoch is not None for each in (one, other) for held in each.held):
        return False  # a wrong epoch may hide it
    epochs = [{held.batch.epoch for held in each.sound() if held.batch.last >= offset} for each in (one, other)]
    lines = [{*each.lines.items()} if each.has_lines else set() for each in (one, other)]
    return bool(epochs[0] & epochs[1]) or any(start > offset for _, start in lines[0] & lines[1])


def has_row(replica: Replica, offset: int) -> bool:
    return any(offset in held.kept for held in replica.sound())


def states_leader(replica: Replica, offset: int) -> bool:
    """Whether the header of a damaged or moved batch at an offset shows who wrote it: the batches around it are whole,
    and their epochs bear out its own. Compaction left no gap before it, nor behind it if it was moved."""
    at = next(at for at, held in enumerate(replica.held) if held.batch.base <= offset <= held.batch.last)
    held, around = replica.held[at], [*replica.held[max(at - 1, 0) : at], *replica.held[at + 1 : at + 2]]
    reached = replica.held[at - 1].batch.last + 1 if at else replica.rolls[0]
    reached = held.batch.base if held.batch.base in replica.rolls else reached
    epochs = [each.stated for each in around]
    is_between = at + 1 < len(replica.held) and epochs == sorted(epochs) and epochs[-1] >= held.stated >= epochs[0]
    is_sound = all(each.whole and not replica.is_emptied_at(each.batch.base) for each in around)
    is_in_place = held.moved_to is None or [held.batch.last + 1] == [each.batch.base for each in around[-1:]]
    is_there = replica.cut is None or not replica.is_emptied_at(held.batch.base)
    is_right = held.epoch is None and reached == held.batch.base
    return is_right and is_there and is_between and is_sound and is_in_place


def shows_parting(replica: Replica, start: int, offset: int) -> bool:
    """Whether a replica has a whole batch, or a line of its epoch file, that begins from `start` to `offset`, or an
    epoch file that lacks none of its epochs, without compaction. Another replica has another history from there on."""
    if replica.has_lines and not replica.is_cleaned and max(replica.lines, default=-1) >= replica.named():
        return True
    bases = [held.batch.base for held in replica.held if held.whole or states_leader(replica, held.batch.base)]
    return any(start <= base <= offset for base in [*bases, *(replica.lines.values() if replica.has_lines else ())])


def find_shared_end(one: Replica, other: Replica) -> int:
    end = 0
    for mine, theirs in zip(one.story, other.story, strict=False):
        if mine != theirs:
            break
        end = mine.last + 1
    return end


def contradict(stale: Replica, valid: Replica) -> bool:
    """Whether files prove that two replicas have different histories: two batches of different epochs at one offset, or
    a lower epoch at a higher offset, or a line that its own batches bear out against the last batch of the other. A
    batch whose offset nothing proves shows nothing."""
    proven = [
        [
            held
            for held in each.held
            if not is_in_doubt(each, held) or (not held.whole and states_leader(each, held.batch.base))
        ]
        for each in (stale, valid)
    ]
    for mine in proven[0]:
        for theirs in proven[1]:
            one, other = mine.batch, theirs.batch
            low, high = (one, other) if one.base <= other.base else (other, one)
            if high.epoch < low.epoch or (high.base <= low.last and high.epoch != low.epoch):
                return True
    last = stale.sound()[-1].batch if stale.sound() else None
    lines = valid.lines.items() if valid.has_lines else ()
    line = next(((epoch, start) for epoch, start in lines if last is not None and epoch > last.epoch), None)
    if line is None or last is None:
        return False
    if line[1] > last.base and (
        stale.is_marked
        or valid.is_marked
        or has_gap_in_file(valid, last.base)
        or not 0 <= valid.noted_at(last.base) < last.epoch
    ):
        return False  # without compaction, a broker notes each epoch
    first = next((held.batch for held in valid.sound() if held.batch.base >= line[1]), None)
    return first is not None and first.epoch >= line[0]


def has_gap_in_file(replica: Replica, offset: int) -> bool:
    """Whether a replica has no batch at an offset, but one behind it in the same file: compaction made the gap."""
    held = next((held for base, held in reversed([*replica.files()]) if base <= offset), [])
    after = next((each for each in held if each.batch.last >= offset), None)
    return after is not None and after.batch.base > offset


def written(at: int, replica: Replica, number: int) -> Iterator[tuple[str, bytes]]:
    """The files of copy number `at`: paths and bytes."""
    folder = f"/copy{at}/{TOPIC}-0"
    random = Random(number * 8 + at)
    indexed = random.random() < 0.6
    for base, batches in replica.files():
        log, entries = b"", []
        is_cut = any(held.batch.base == replica.cut for held in batches)
        end = 0  # of the bytes that are left
        for held in batches:
            end = len(log) if held.batch.base == replica.cut else end
            data = held.batch.encode(held.kept)
            if not held.whole and held.moved_to is None:
                place = random.choice([*range(17, 21), *range(21, len(data))])
                data = data[:place] + bytes([data[place] ^ 1 << random.randrange(8)]) + data[place + 1 :]
            if held.moved_to is not None:
                data = held.moved_to.to_bytes(8) + data[8:]
            if held.epoch is not None:
                data = data[:12] + held.epoch.to_bytes(4, signed=True) + data[16:]
            if log and (is_cut or random.random() < 0.6):
                entries.append((held.batch.base, len(log)))
            log += data
        is_emptied = base == replica.emptied
        yield f"{folder}/{writer.segment_name(base)}", b"" if is_emptied else log[:end] if is_cut else log
        if is_emptied or is_cut:  # its last entry tells that there was something
            last = batches[-1].batch.last
            times = writer.time_index([(FIRST_TIME + 10 * last, last)], base)
            yield f"{folder}/{writer.segment_name(base, '.timeindex')}", times
        if indexed or is_cut:
            yield f"{folder}/{writer.segment_name(base, '.index')}", writer.offset_index(entries, base)
    if replica.has_lines:
        lines = "".join(f"{epoch} {start}\n" for epoch, start in replica.lines.items())
        yield f"{folder}/leader-epoch-checkpoint", f"0\n{len(replica.lines)}\n{lines}".encode()
    if replica.is_marked:
        yield f"/copy{at}/cleaner-offset-checkpoint", f"0\n1\n{TOPIC} 0 1\n".encode()


class Cluster:
    """Plays a case, step by step."""

    def __init__(self, random: Random, keys: int) -> None:
        self.random = random
        self.keys = keys
        self.replicas = [Replica() for _ in range(random.choice([2, 2, 3, 3, 4]))]
        self.leader = self.replicas[0]
        self.epoch = random.randrange(2)
        self.leader.lines[self.epoch] = 0
        self.names = 0
        self.log: list[str] = []

    def say(self, what: str, replica: Replica | None = None) -> None:
        number = "" if replica is None else next(at for at, each in enumerate(self.replicas) if each is replica)
        self.log.append(f"{what} {number}")

    def append(self, most: int = 4) -> None:
        random, leader = self.random, self.leader
        for _ in range(random.randint(1, most)):
            base = leader.end
            is_marker = random.random() < 0.1
            last = base if is_marker else base + random.randint(0, 4)
            keys = {} if is_marker else {offset: random.randrange(self.keys) for offset in range(base, last + 1)}
            producer = random.choice([-1, 1, 2])
            batch = Batch(base, last, self.epoch, self.names, producer, random.choice(["none", "lz4"]), keys)
            self.names += 1
            leader.story.append(batch)
            leader.append(batch, frozenset(keys), random.random() < 0.4)
        self.say(f"append to {leader.end}")

    def fetch(self, replica: Replica) -> None:
        """A follower cuts its log to the leader's history, and takes some batches as they are on the leader's disk."""
        leader, random = self.leader, self.random
        shared = find_shared_end(replica, leader)
        if replica.story and replica.story != leader.story[: len(replica.story)]:
            replica.truncate(shared)
        if replica.end < leader.start or (not replica.held and replica.start != leader.start):
            self.replace_disk(replica)
        coming = [held for held in leader.held if held.batch.base >= replica.end]
        for held in coming[: random.choice([1, 3, 9, 99])]:
            replica.append(held.batch, held.kept, random.random() < 0.3)
        replica.story = [batch for batch in leader.story if batch.last < replica.end]
        self.say(f"fetch to {replica.end}", replica)

    def replace_disk(self, replica: Replica) -> None:
        fresh = Replica(rolls=[self.leader.start])
        replica.__dict__.update(fresh.__dict__)
        self.say("replace the disk of", replica)

    def elect(self) -> None:
        random = self.random
        here = [each for each in self.replicas if not each.is_gone and each.held]
        if len(here) < 1:
            return
        if random.random() < 0.4:
            furthest = max(each.end for each in here if not find_stale(each, self.leader))
            here = [each for each in here if each.end == furthest and not find_stale(each, self.leader)]
        self.lead(random.choice(here))

    def lead(self, leader: Replica) -> None:
        self.leader = leader
        self.epoch += self.random.randint(1, 2)
        leader.lines = {epoch: start for epoch, start in leader.lines.items() if start < leader.end}
        leader.lines[self.epoch] = leader.end
        self.say(f"elect for epoch {self.epoch} at {leader.end}", leader)

    def play(self) -> None:
        random = self.random
        self.append()
        elections = random.choice([2, 2, 6])
        for _ in range(random.randint(6, 24)):
            here = [each for each in self.replicas if not each.is_gone]
            followers = self.followers()
            what = random.choice(
                [*["append"] * 3, *["fetch"] * 4, *["clean"] * 3, *["elect"] * elections, "go", "trim", "disk"]
            )
            replica = random.choice(followers) if followers else self.leader
            if what == "append":
                self.append()
            elif what == "fetch" and followers:
                self.fetch(replica)
            elif what == "clean":
                replica = random.choice(here)
                replica.clean(random)
                self.say("clean", replica)
            elif what == "elect":
                self.elect()
            elif what == "go" and len(followers) > 0 and random.random() < 0.7:
                replica.is_gone = True
                self.say("lose", replica)
            elif what == "trim" and random.random() < 0.3:
                replica = random.choice(here)
                if len(replica.rolls) > 1:
                    replica.delete_before(replica.rolls[random.randint(1, len(replica.rolls) - 1)])
                    self.say(f"trim to {replica.start}", replica)
            elif what == "disk" and followers and random.random() < 0.3:
                self.replace_disk(replica)
        if random.random() < 0.8:
            self.append()

    def part(self, most: int = 4) -> None:
        """A leader goes with a tail of some batches at most that nobody fetched. Compaction takes from its successor
        what shows where the two part."""
        random, gone = self.random, self.leader
        self.append()
        for replica in self.replicas[1:]:
            self.fetch(replica)
        self.append(most)
        gone.is_gone = True
        self.say("lose", gone)
        self.elect()
        for _ in range(random.randint(3, 8)):
            self.append()
            if random.random() < 0.6:
                self.leader.clean(random)
                self.say("clean", self.leader)

    def hand_over(self) -> None:
        """Leaders go with a tail that nobody fetched. The log of the last one ends with one batch of its epoch, which
        some fetch."""
        random = self.random
        self.append()
        turns = random.choice([1, 2])
        for turn in range(turns):
            for replica in self.followers():
                self.fetch(replica)
            gone = self.leader
            self.append(2)
            if self.followers() and (turn + 1 == turns or random.random() < 0.3):
                gone.is_gone = True
                self.say("lose", gone)
            self.elect()
        self.append(1)
        for replica in self.followers():
            if random.random() < 0.6:
                self.fetch(replica)

    def fall_back(self) -> None:
        """A leader goes with a tail that nobody fetched. Its successor has the log of the leader before."""
        random, before = self.random, self.leader
        self.append()
        for replica in self.followers():
            self.fetch(replica)
        gone, *others = self.followers()
        self.append(2)
        for replica in others:
            if random.random() < 0.8:
                self.fetch(replica)
        self.lead(gone)
        self.append(2)
        gone.is_gone = True
        self.say("lose", gone)
        self.lead(random.choice([before, *(each for each in others if each.end == before.end)]))
        self.append(3)
        for replica in self.followers():
            if random.random() < 0.3:
                self.fetch(replica)

    def followers(self) -> list[Replica]:
        return [replica for replica in self.replicas if not replica.is_gone and replica is not self.leader]


def find_stale(replica: Replica, leader: Replica) -> bool:
    return replica.story != leader.story[: len(replica.story)]


def move_last(random: Random, made: Case) -> Batch | None:
    """Flips a bit of the baseOffset of a replica's last batch, where another one proves it. Answers the batch.

    Nothing was compacted right before it, and another replica has records of it, or more than it has.
    """
    valid = [replica for replica in made.replicas if not made.is_stale(replica)]
    usable: list[Held] = []
    for replica in valid:
        last, base = replica.held[-1], replica.rolls[-1]
        expected = max([base, *(held.batch.last + 1 for held in replica.held[:-1])])
        twins = [held for each in valid if each is not replica for held in each.held if held.batch == last.batch]
        fits = any(twin.whole and twin.kept and (twin.kept <= last.kept or last.kept <= twin.kept) for twin in twins)
        if last.kept and last.batch.base == expected and fits:
            usable.append(last)
    if not usable or made.is_damaged():
        return None
    moved = random.choice(usable)
    bit = random.randrange(62)
    moved.whole, moved.moved_to = False, moved.batch.base ^ 1 << bit if bit < 61 else MAX_OFFSET
    return moved.batch


def move_beyond(random: Random, made: Case) -> Batch | None:
    """Flips a bit of the baseOffset of a replica's last batch, so that it lies beyond all copies. Nothing need prove
    that it is wrong. Answers the batch."""
    end = max(replica.end for replica in made.replicas)
    valid = [replica for replica in made.replicas if not made.is_stale(replica) and replica.held[-1].moved_to is None]
    usable = [replica.held[-1] for replica in valid if replica.held[-1].kept and replica.held[-1].whole]
    if not usable or len(made.replicas) < 2:
        return None
    moved = random.choice(usable)
    moved.whole, moved.moved_to = False, moved.batch.base | 1 << random.randrange(end.bit_length(), 31)
    return moved.batch


def age_checkpoint(random: Random, replicas: Iterable[Replica]) -> int | None:
    """Takes the last lines of the epoch file of one of some replicas, as if it was copied before the `.log` files.
    Answers how many."""
    usable = [replica for replica in replicas if replica.has_lines and len(replica.lines) > 1]
    if not usable:
        return None
    replica = random.choice(usable)
    kept = [*replica.lines.items()][: random.randint(1, len(replica.lines) - 1)]
    taken = len(replica.lines) - len(kept)
    replica.lines = dict(kept)
    return taken


def empty_file(random: Random, replicas: Iterable[Replica]) -> int | None:
    """Takes all bytes of a `.log` before the last one of one of some replicas. Answers its base."""
    usable = [(replica, base) for replica in replicas for base, held in [*replica.files()][:-1] if held]
    if not usable:
        return None
    replica, replica.emptied = random.choice(usable)
    for held in dict(replica.files())[replica.emptied]:
        held.whole = False
    return replica.emptied


def cut_file(random: Random, replicas: Iterable[Replica]) -> int | None:
    """Takes the end of a `.log` before the last one of one of some replicas, from one of its batches on. Answers the
    base of that batch."""
    usable = [(replica, held) for replica in replicas for _, held in [*replica.files()][:-1] if len(held) > 1]
    if not usable:
        return None
    replica, batches = random.choice(usable)
    lost = batches[random.randrange(1, len(batches)) :]
    replica.cut = lost[0].batch.base
    for held in lost:
        held.whole = False
    return replica.cut


def bend(random: Random, made: Case) -> Batch | None:
    """Flips a bit of the leader epoch of a batch between two of one epoch, in one replica. Answers the batch."""
    usable = [
        held
        for replica in made.replicas
        for before, held, after in zip(replica.held, replica.held[1:], replica.held[2:], strict=False)
        if before.batch.epoch == held.batch.epoch == after.batch.epoch and before.whole and held.whole and after.whole
    ]
    return _flip_epoch(random, random.choice(usable)) if usable else None


def bend_last(random: Random, replicas: Sequence[Replica], bits: int) -> Batch | None:
    """Flips one of the lowest bits of the leader epoch of the last batch of one of some replicas, whose checkpoint
    stands beside it. The checkpoint has that epoch, or the batch before. Answers the batch."""
    usable = [
        held
        for replica in replicas
        if len(replica.held) > 1
        for before, held in [replica.held[-2:]]
        if replica.has_lines and before.whole and held.whole
        if before.batch.epoch == held.batch.epoch or (len(replicas) == 1 and held.batch.epoch in replica.lines)
    ]
    return _flip_epoch(random, random.choice(usable), bits) if usable else None


def bend_common(random: Random, replicas: Sequence[Replica]) -> Batch | None:
    """Flips one of the lowest bits of the leader epoch of a last batch that another replica has too. Answers the
    batch."""
    lasts = [replica.held[-1] for replica in replicas if len(replica.held) > 1 and replica.held[-1].whole]
    names = [held.batch.name for replica in replicas for held in replica.held]
    usable = [held for held in lasts if names.count(held.batch.name) > 1]
    if not usable:
        return None
    bent = random.choice(usable)
    flipped = _flip_epoch(random, bent, 3)
    if any(replica.has_lines and replica.noted_at(flipped.base) == bent.epoch for replica in replicas):
        bent.epoch = None  # just the epoch of a line: nothing shows that it is wrong
    return flipped


def _flip_epoch(random: Random, bent: Held, bits: int = 32) -> Batch:
    stated = (bent.batch.epoch % 2**32) ^ 1 << random.randrange(bits)
    bent.epoch = stated - 2**32 if stated >= 2**31 else stated
    return bent.batch


def case(number: int) -> Case:
    """Case number `number`, the same each time."""
    random = Random(number)
    cluster = Cluster(random, FEW_KEYS if number % 12 in (2, 7) else KEYS)
    is_short = number % 24 in (8, 23)
    is_noted = number % 24 == 11  # the same, and all epoch files are whole
    is_holed = number % 24 == 20
    if number % 12 == 7:
        cluster.part()
    elif number % 24 == 14:
        cluster.part(1)
    elif is_short or is_noted:
        cluster.hand_over()
    elif is_holed:
        cluster.fall_back()
    else:
        cluster.play()
    replicas = [each for each in cluster.replicas if each.held]
    for replica in replicas:
        replica.has_lines = random.random() < 0.8
        replica.is_marked = replica.is_cleaned and random.random() < 0.5
    if random.random() < 0.4:
        for _ in range(random.choice([1, 1, 2])):
            held = random.choice(random.choice(replicas).held)
            held.whole = False
            cluster.log.append(f"damage {held.batch.base}")
    made = Case(number, replicas, cluster.leader, cluster.log)
    if number % 3 == 0 and (moved := move_last(Random(~number), made)) is not None:
        cluster.log.append(f"move {moved.base}")
    beyond = move_beyond(Random(~number), made) if number % 3 == 1 and number % 4 == 2 else None
    if beyond is not None:
        cluster.log.append(f"move beyond {beyond.base}")
    is_emptied = is_holed or (number % 7 == 3 and number % 3 and beyond is None)
    holders = [made.leader] if is_holed else replicas
    if is_emptied and (base := empty_file(Random(~number), holders)) is not None:
        cluster.log.append(f"empty {base}")
    is_cut = not is_emptied and beyond is None and number % 3 > 0 and number % 23 in (5, 17)
    if is_cut and (base := cut_file(Random(~number), replicas)) is not None:
        cluster.log.append(f"cut at {base}")
    is_aged = (number % 12 in (5, 7) and number % 5 > 2) or is_short
    if is_aged and (taken := age_checkpoint(Random(~number), [made.leader] if is_short else replicas)) is not None:
        cluster.log.append(f"an older checkpoint, by {taken} lines")
    others = [replica for replica in replicas if replica is not made.leader]
    if is_short and number % 5 < 2:
        bare = [replica for replica in others if not made.is_stale(replica)]
        for replica in bare:
            replica.has_lines = False
        if number % 3 and (base := empty_file(Random(~number), bare)) is not None:
            cluster.log.append(f"empty {base} beside no epoch file")
    if is_short and number % 5 > 1 and (taken := age_checkpoint(Random(~number), others)) is not None:
        cluster.log.append(f"an older checkpoint in another copy, by {taken} lines")
    if number % 5 == 1 and not is_aged and number % 24 != 14 and (bent := bend(Random(~number), made)) is not None:
        cluster.log.append(f"another epoch at {bent.base}")
    is_bent = not is_aged and (number % 5 == 2 or (number % 5 != 1 and number % 12 == 7))
    is_bent |= number % 24 == 14 or (is_short and number % 5 == 2) or is_noted
    is_common = is_short and number % 5 == 4 and not made.is_damaged()
    if is_common and (bent := bend_common(Random(~number), replicas)) is not None:
        cluster.log.append(f"another epoch at {bent.base}, the last one of two copies")
    bits = 2 if is_short or is_noted else 32
    if is_bent and (bent := bend_last(Random(~number), [made.leader] if is_noted else replicas, bits)) is not None:
        cluster.log.append(f"another epoch at {bent.base}, the last one")
    return made
