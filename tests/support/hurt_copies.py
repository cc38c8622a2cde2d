"""Copies of one generated history, each hurt on its own, and what a reader must make of them.

In: a number. Out: `Case`, which writes two to four copies of a partition, and knows what was done to each. What must
come out follows from the history and the damage alone; nothing here uses the package.

A history is a list of batches under growing leader epochs, some of transactions. A copy has a stretch of it in segments
of its own rolls. It may be stale: then it has, from a change of leaders on, what the old leader went on to write. One
copy may be compacted. Then files are lost, cut, or damaged, single files picked, or a copy is given twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise, permutations, product
from random import Random
from typing import Literal

from kafka_segment_source import kafka_format

from . import writer
from .simulated_files import SimulatedFiles
from .writer import Rec

TOPIC = "t"
Kind = Literal["data", "txn", "commit", "abort"]
Row = tuple[int, int, bytes | None]
"""Offset, timestamp, value."""
FIRST_TIME = 1_000_000


@dataclass(frozen=True)
class Batch:
    """One batch of a history: its offsets, its rows (a marker has none), and its bytes."""

    base: int
    last: int
    epoch: int
    kind: Kind
    producer: int
    rows: tuple[Row, ...]
    data: bytes
    magic: int = 2

    @property
    def after(self) -> int:
        return self.last + 1


@dataclass(frozen=True)
class Held:
    """A batch in a copy's file, whole or not. has_wrong_length: whether its length has a flipped bit."""

    batch: Batch
    whole: bool = True
    has_wrong_length: bool = False


@dataclass
class File:
    """A segment of a copy: what was written into it in order, and what of it is there."""

    base: int
    batches: list[Held]
    log: bytes
    index: bytes | None = None
    timeindex: bytes | None = None


@dataclass
class Copy:
    """One copy: its files; is_stale: whether it has another leader's tail, from offset `diverged` on; is_compacted;
    is_thinned_further: whether its cleaner has removed more than that of another compacted copy; marked: whether the
    broker's cleaner-offset-checkpoint is beside it; epochs: its leader-epoch-checkpoint, if it is there."""

    files: list[File]
    diverged: int | None = None
    is_compacted: bool = False
    is_thinned_further: bool = False
    marked: bool = False
    epochs: str | None = None
    single: bool = False
    link_to: int | None = None
    twice: bool = False
    damaged: bool = False
    misfiled: str = ""  # what was done to one of its files: rolled, doubled, emptied or replaced
    orphans: list[File] = field(default_factory=list)  # index files are all that is left of them
    unhurt: list[File] = field(default_factory=list)  # its files before they were hurt

    def held(self) -> list[Batch]:
        """The batches of the winning history that are whole in its files."""
        found = [held.batch for file in self.files for held in file.batches if held.whole]
        return [batch for batch in found if self.diverged is None or batch.base < self.diverged]


@dataclass
class Case:
    """The history, and the copies."""

    number: int
    history: list[Batch]
    copies: list[Copy]
    random: Random
    notes: list[str] = field(default_factory=list)

    def before(self) -> dict[str, bytes]:
        """Every file by its path, before any copy was hurt."""
        return dict(each for at, copy in enumerate(self.copies) for each in written(at, copy, copy.unhurt))

    def after(self) -> dict[str, bytes]:
        """The same, after it."""
        return dict(each for at, copy in enumerate(self.copies) for each in written(at, copy, copy.files))

    def files_by_path(self) -> dict[str, File]:
        """The segments of all copies by the paths of their `.log` files."""
        return {
            f"{folder_of(at)}/{writer.segment_name(file.base)}": file
            for at, copy in enumerate(self.copies)
            for file in copy.files
        }

    def write(self, files: SimulatedFiles) -> list[str]:
        """Writes all copies, over what is there of them; answers the paths to be read."""
        wanted = self.after()
        for at, copy in enumerate(self.copies):
            folder = folder_of(at)
            if copy.link_to is not None:
                files.link(folder_of(copy.link_to), folder)
                continue
            files.make_directory(folder)
            for name in files.names(folder):
                if f"{folder}/{name}" not in wanted:
                    files.unlink(f"{folder}/{name}")
        put(files, wanted)
        return self.paths()

    def paths(self) -> list[str]:
        """The paths to be read."""
        paths: list[str] = []
        for at, copy in enumerate(self.copies):
            if copy.single:
                paths += [f"{folder_of(at)}/{writer.segment_name(file.base)}" for file in copy.files]
            else:
                paths += [os.path.dirname(folder_of(at))] * (2 if copy.twice else 1)
        Random(self.number).shuffle(paths)
        return paths


def folder_of(at: int) -> str:
    """The partition directory of copy number `at`."""
    return f"/copy{at}/{TOPIC}-0"


def written(at: int, copy: Copy, segments: list[File]) -> Iterator[tuple[str, bytes]]:
    """What a copy's directory holds with these segments: paths and bytes."""
    folder = folder_of(at)
    for file in segments:
        yield f"{folder}/{writer.segment_name(file.base)}", file.log
    for file in (*segments, *copy.orphans):
        if file.index is not None and file.timeindex is not None and (file.index or file not in copy.orphans):
            yield f"{folder}/{writer.segment_name(file.base, '.index')}", file.index
            yield f"{folder}/{writer.segment_name(file.base, '.timeindex')}", file.timeindex
    if copy.marked:
        yield f"{os.path.dirname(folder)}/cleaner-offset-checkpoint", f"0\n1\n{TOPIC} 0 1\n".encode()
    if copy.epochs is not None:
        yield f"{folder}/leader-epoch-checkpoint", copy.epochs.encode()


def put(files: SimulatedFiles, wanted: dict[str, bytes]) -> None:
    """Writes files; one that is there stays the same file."""
    for path, data in wanted.items():
        files.make_directory(os.path.dirname(path))
        if not files.has(path):
            files.create(path, data)
        elif files.node(path).data != data:
            files.truncate(files.node(path), len(data))
            files.write(files.node(path), 0, data)


# --- the history -----------------------------------------------------------------------------------------------------


def make_batch(random: Random, base: int, epoch: int, kind: Kind, producer: int, word: str) -> Batch:
    """A batch from an offset on, with what is random about it."""
    now = FIRST_TIME + 10 * base + random.randrange(25)
    if kind in ("commit", "abort"):
        data = writer.control_batch(
            kind,  # type: ignore[arg-type]  # one of two words
            offset=base,
            timestamp=now,
            producer_id=producer,
            producer_epoch=0,
            leader_epoch=epoch,
        )
        return Batch(base, base, epoch, kind, producer, (), data)
    rows = tuple((base + at, now + at, f"{word}{base + at}".encode()) for at in range(random.randint(1, 4)))
    return encoded(Batch(base, rows[-1][0], epoch, kind, producer, rows, b""), random.choice(["none", "none", "lz4"]))


def make_legacy(random: Random, base: int, magic: int, word: str) -> Batch:
    """A message of an old format from an offset on, or some in a wrapper."""
    codec = random.choice(["none", "gzip"])
    now = FIRST_TIME + 10 * base + random.randrange(25)
    count = 1 if codec == "none" else random.randint(1, 4)
    rows = tuple((base + at, now + at if magic else -1, f"{word}{base + at}".encode()) for at in range(count))
    return encoded(Batch(base, rows[-1][0], -1, "data", -1, rows, b"", magic), codec)


HORIZON = 1_700_000_000_000  # ms: so far from the timestamps of the rows that each of their deltas takes more bytes


def encoded(batch: Batch, codec: str = "none", has_horizon: bool = False) -> Batch:
    """The batch with the bytes of its rows. has_horizon: whether the cleaner has set a delete horizon (KIP-534)."""
    recs = [Rec(offset - batch.base, timestamp, b"k%d" % offset, value) for offset, timestamp, value in batch.rows]
    if batch.magic < 2:
        write = writer.message_set_v1 if batch.magic else writer.message_set_v0
        return replace(batch, data=write(recs, base_offset=batch.base, codec=codec))  # type: ignore[operator]
    data = writer.record_batch(
        recs,
        base_offset=batch.base,
        codec=codec,  # type: ignore[arg-type]  # one of two words
        leader_epoch=batch.epoch,
        last_offset_delta=batch.last - batch.base,
        producer_id=batch.producer,
        producer_epoch=0 if batch.producer >= 0 else -1,
        transactional=batch.kind == "txn",
        base_timestamp=HORIZON if has_horizon else None,
        delete_horizon=has_horizon,
    )
    return replace(batch, data=data)


def codec_of(batch: Batch) -> str:
    """The codec of a batch of magic 2, by its attributes."""
    return {0: "none", 3: "lz4"}[batch.data[22] & 7]


def go_on(random: Random, history: list[Batch], count: int, epoch: int, word: str, magic: int = 2) -> list[Batch]:
    """`count` batches more after a history, of one epoch; in old formats there are no epochs."""
    added: list[Batch] = []
    for _ in range(count):
        before = (history + added)[-1:]
        base = before[0].after if before else 0
        if magic < 2:
            added.append(make_legacy(random, base, magic, word))
            continue
        is_open = open_producers(history + added)
        kind: Kind = random.choice(["data", "data", "data", "txn", "txn", "commit", "abort"])
        producer = random.randrange(1, 4)
        if kind in ("commit", "abort"):
            if not is_open:
                kind = "txn"
            else:
                producer = random.choice(sorted(is_open))
        added.append(make_batch(random, base, epoch, kind, -1 if kind == "data" else producer, word))
    return added


def open_producers(batches: list[Batch]) -> dict[int, int]:
    """Whose transactions have no marker yet: the first offset of each."""
    is_open: dict[int, int] = {}
    for batch in batches:
        if batch.kind == "txn":
            is_open.setdefault(batch.producer, batch.base)
        elif batch.kind in ("commit", "abort"):
            is_open.pop(batch.producer, None)
    return is_open


# --- copies ----------------------------------------------------------------------------------------------------------


def rolled(random: Random, batches: list[Batch], indexed: bool) -> list[File]:
    """The batches in segments, rolled anywhere."""
    files: list[File] = []
    current: list[Batch] = []
    odds = random.choice([0.1, 0.25, 0.5])
    for batch in batches:
        if current and random.random() < odds:
            files.append(file_of(random, current[0].base, current, indexed))
            current = []
        current.append(batch)
    files.append(file_of(random, current[0].base if current else 0, current, indexed))
    return files


def file_of(random: Random, base: int, batches: list[Batch], indexed: bool) -> File:
    """A segment of these batches, with the index entries that a broker may have written."""
    file = File(base, [Held(batch) for batch in batches], b"".join(batch.data for batch in batches))
    if indexed:
        entries, times, position, newest = [], [], 0, -1
        for batch in batches:
            latest = [(row[1], row[0]) for row in batch.rows if row[1] > newest]
            if position and random.random() < 0.6:
                entries.append((batch.base, position))
            if latest:
                newest = max(latest)[0]
                if random.random() < 0.6:
                    times.append(max(latest))
            position += len(batch.data)
        file.index, file.timeindex = writer.offset_index(entries, base), writer.time_index(times, base)
    return file


def compacted(random: Random, files: list[File], history: list[Batch], *, has_horizons: bool = True) -> None:
    """Cleans some of the first segments, never the last one, below the first open transaction, as a cleaner does: rows
    of aborted transactions go, others may; a marker goes only after the rows of its transaction. Some or all of the
    batches that stay get a delete horizon, and more bytes."""
    until = min([*open_producers(history).values(), files[-1].base])
    every = 1 if len(history) % 4 == 0 else 5
    cleaned = [file for file in files[:-1] if file.batches and file.batches[-1].batch.after <= until]
    cleaned = cleaned[: random.randint(1, len(cleaned))] if cleaned else []
    for file in cleaned:
        kept: list[Batch] = []
        for held in file.batches:
            batch = held.batch
            rows = tuple(row for row in batch.rows if random.random() < 0.6)
            if batch.kind == "txn" and fate_of(history, batch) == "abort":
                rows = ()
            has_horizon = has_horizons and bool(rows) and batch.magic == 2 and (batch.base + len(history)) % every == 0
            if rows == batch.rows and rows and not has_horizon:
                kept.append(batch)
            elif rows:  # the cleaner keeps the codec
                kept.append(encoded(replace(batch, rows=rows), codec_of(batch), has_horizon))
            elif batch.kind in ("commit", "abort") and (random.random() < 0.5 or not is_gone(history, files, batch)):
                kept.append(batch)
        made = file_of(random, file.base, kept, file.index is not None)
        file.batches, file.log, file.index, file.timeindex = made.batches, made.log, made.index, made.timeindex


def compacted_further(random: Random, copy: Copy, history: list[Batch]) -> Copy:
    """Another copy of the same offsets, in segments of its own rolls, of which the cleaner has removed more rows.

    It has fewer bytes of every batch, as only the bytes of copies that both lack records say which has more of them.
    """
    batches = [held.batch for file in copy.files for held in file.batches]
    further = Copy(rolled(random, batches, indexed=copy.files[0].index is not None), is_compacted=True)
    compacted(random, further.files, history, has_horizons=False)
    further.unhurt = [replace(file, batches=list(file.batches)) for file in further.files]
    return further


def fate_of(history: list[Batch], batch: Batch) -> str | None:
    """How the transaction of a batch ended; None if it is open."""
    later = (each for each in history if each.base > batch.base and each.producer == batch.producer)
    return next((each.kind for each in later if each.kind in ("commit", "abort")), None)


def is_gone(history: list[Batch], files: list[File], marker: Batch) -> bool:
    """Whether no row of the transaction that a marker ends is in the files."""
    before = [each for each in history if each.producer == marker.producer and each.base < marker.base]
    ends = [each.base for each in before if each.kind in ("commit", "abort")]
    first = ends[-1] if ends else -1
    held = [each.batch for file in files for each in file.batches]
    return not any(
        each.kind == "txn" and each.producer == marker.producer and first < each.base < marker.base and each.rows
        for each in held
    )


def flip(random: Random, file: File, at: int) -> None:
    """Flips a bit of batch number `at`, of those that its CRC covers or that say what it is: not of its
    offset and epoch."""
    position = sum(len(held.batch.data) for held in file.batches[:at])
    data = file.batches[at].batch.data
    records = 61 if file.batches[at].batch.magic == 2 else 26
    place = random.choice(
        [*range(8, 12), *range(16, len(data))] if random.random() < 0.5 else range(records, len(data))
    )
    log = bytearray(file.log)
    bit = random.randrange(8)
    bit += place == 16 and data[16] == 2 and bit == 0  # magic 3 counts as a newer format (docs/damage.md)
    log[position + place] ^= 1 << bit
    file.log = bytes(log)
    file.batches[at] = Held(file.batches[at].batch, whole=False, has_wrong_length=place in range(8, 12))


def move(random: Random, file: File) -> int | None:
    """Flips a bit of the baseOffset of a batch. Answers its base; None if no batch will do.

    A whole batch follows it in the file, and nothing was compacted before that one: so any other offset contradicts its
    neighbours. Without a batch behind it, nothing need contradict it (docs/damage.md).
    """
    whole = [at for at, held in enumerate(file.batches) if held.whole and held.batch.magic == 2]
    usable = [at for at in whole[:-1] if all(held.batch.magic == 2 for held in file.batches)]
    if not usable:
        return None
    at = random.choice(usable)
    position = sum(len(held.batch.data) for held in file.batches[:at])
    log = bytearray(file.log)
    bit = random.choice([*range(8), random.randrange(64)])
    log[position + 7 - bit // 8] ^= 1 << bit % 8
    if bit == 61:  # the largest offset, in place of one of the higher bits
        log[position : position + 8] = kafka_format.MAX_OFFSET.to_bytes(8)
    file.log = bytes(log)
    file.batches[at] = Held(file.batches[at].batch, whole=False)
    return file.batches[at].batch.base


def move_behind(random: Random, copy: Copy) -> int | None:
    """Flips a bit of the baseOffset of a segment's last batch, so that it states offsets of a later segment.

    Answers its base; None if no batch will do. The name of the next segment contradicts it.
    """
    usable = [
        (file, following.base)
        for file, following in pairwise(copy.files)
        if file.batches and file.batches[-1].whole and all(held.batch.magic == 2 for held in file.batches)
    ]
    if not usable:
        return None
    file, limit = random.choice(usable)
    moved = file.batches[-1].batch
    stated = random.choice([moved.base ^ 1 << bit for bit in range(62) if moved.base ^ 1 << bit >= limit])
    position = sum(len(held.batch.data) for held in file.batches[:-1])
    file.log = file.log[:position] + stated.to_bytes(8) + file.log[position + 8 :]
    file.batches[-1] = Held(moved, whole=False)
    return moved.base


def move_last(random: Random, copy: Copy, others: list[Copy]) -> int | None:
    """Flips a bit of the baseOffset of a copy's last batch, which another copy has whole or compacted.

    Answers its base; None if no batch will do. No batch behind it contradicts it: the other copy's batch does.
    """
    file = copy.files[-1] if copy.files else None
    if file is None or not file.batches or any(held.batch.magic < 2 or not held.whole for held in file.batches):
        return None
    moved = file.batches[-1].batch
    twins = [batch for other in others for batch in other.held() if batch.base == moved.base and batch.rows]
    if not moved.rows or not twins:
        return None
    position = sum(len(held.batch.data) for held in file.batches[:-1])
    bit = random.randrange(62)
    stated = moved.base ^ 1 << bit if bit < 61 else kafka_format.MAX_OFFSET
    file.log = file.log[:position] + stated.to_bytes(8) + file.log[position + 8 :]
    file.batches[-1] = Held(moved, whole=False)
    return moved.base


def hide_end(random: Random, copy: Copy, others: list[Copy]) -> list[int]:
    """Damages the last batch of a segment, and maybe another one before it. Answers their bases; none if it cannot be.

    What lies before and between them is whole, and nothing behind it says where the segment ends. Another copy may end
    before the damage.
    """
    usable = [file for file in copy.files if len(file.batches) > 1 and all(held.whole for held in file.batches)]
    if not usable:
        return []
    ends = {other.held()[-1].after for other in others if other.held()}
    outlasting = [file for file in usable if ends & {held.batch.base for held in file.batches[1:]}]
    file = random.choice(outlasting or usable)
    last = len(file.batches) - 1
    places = sorted({random.randrange(last), last}) if random.random() < 0.3 else [last]
    for at in places:
        flip(random, file, at)
    return [file.batches[at].batch.base for at in places]


def bend(random: Random, file: File) -> int | None:
    """Flips a bit of the leader epoch of a batch between two of one epoch. Answers its base; None if no batch will do.

    Its neighbours contradict it, so it decides nothing, and all its rows count.
    """
    held = file.batches
    usable = [
        at
        for at in range(1, len(held) - 1)
        if all(each.whole and each.batch.epoch == held[at].batch.epoch >= 0 for each in held[at - 1 : at + 2])
    ]
    if not usable:
        return None
    return _flip_epoch(random, file, random.choice(usable))


def bend_last(random: Random, copy: Copy) -> int | None:
    """Flips a bit of the leader epoch of the last batch. Answers its base; None if the copy's checkpoint does not say
    which epochs it has, or the batch before has another one."""
    held = copy.files[-1].batches if copy.files else []
    if copy.epochs is None or len(held) < 2 or not all(each.whole for each in held[-2:]):
        return None
    return (
        _flip_epoch(random, copy.files[-1], len(held) - 1)
        if held[-1].batch.epoch == held[-2].batch.epoch >= 0
        else None
    )


def has_undecided_end(made: Case) -> bool:
    """Whether the last batch of a copy states a later leader epoch than the lines of its checkpoint, and no other copy
    has the batch as it is there, in a file without damage.

    The checkpoint may be the older one (docs/damage.md, "Where an error says more than is lost").
    """
    for copy in made.copies:
        last = next((file for file in reversed(copy.files) if file.batches), None)
        if copy.epochs is None or last is None:
            continue
        position = sum(len(held.batch.data) for held in last.batches[:-1])
        stated = int.from_bytes(last.log[position + 12 : position + 16], signed=True)
        others = [other for other in made.copies if other is not copy and other.link_to is None]
        sound = [file for other in others for file in other.files if all(held.whole for held in file.batches)]
        has_twin = any(last.batches[-1].batch == held.batch for file in sound for held in file.batches)
        if stated > int(copy.epochs.split()[-2]) and not has_twin:
            return True
    return False


def has_one_offset_wrong_twice(made: Case) -> bool:
    """Whether the same batch has a wrong offset in two copies: each may bear out the other."""
    moved = [note for note in made.notes if note.startswith("moved ")]
    return len(set(moved)) < len(moved)


def has_equal_twins(made: Case) -> bool:
    """Whether two leaders wrote the same bytes at one offset, but for the epoch: no CRC covers it."""
    files = [file for copy in made.copies for file in copy.unhurt or copy.files]
    written = {held.batch for file in files for held in file.batches}
    return any(
        one.base == other.base and one.epoch != other.epoch and one.data[16:] == other.data[16:]
        for one, other in combinations(written, 2)
    )


def is_contested(made: Case) -> bool:
    """Whether two copies have batches of different epochs at an offset where a third one, with a later epoch, has no
    whole batch, and it shares no batch behind with one of them (docs/damage.md, "Where an error says more than is
    lost")."""
    sound = [
        [held.batch for file in copy.files for held in file.batches if held.whole]
        for copy in made.copies
        if copy.link_to is None
    ]
    for one, other, counting in permutations(sound, 3):
        if max([-1, *(batch.epoch for batch in one + other)]) >= max([-1, *(batch.epoch for batch in counting)]):
            continue
        for mine, theirs in product(one, other):
            offset = max(mine.base, theirs.base)
            if mine.epoch == theirs.epoch or offset > min(mine.last, theirs.last):
                continue
            behind = {(batch.base, batch.epoch) for batch in counting if batch.last >= offset}
            common = behind & {(batch.base, batch.epoch) for batch in one + other}
            if not common and not any(batch.base <= offset <= batch.last for batch in counting):
                return True
    return False


def _flip_epoch(random: Random, file: File, at: int) -> int:
    position = sum(len(each.batch.data) for each in file.batches[:at])
    log = bytearray(file.log)
    bit = random.randrange(32)
    log[position + 15 - bit // 8] ^= 1 << bit % 8
    file.log = bytes(log)
    return file.batches[at].batch.base


def misfile(random: Random, copy: Copy, is_stale_case: bool) -> str | None:
    """Leaves a copy with a file that is empty, or that has the bytes of another one. Answers what was done.

    A new last file is what a roll leaves, or a backup that wrote a file under a wrong name. Where some copies are
    stale, no other file changes, as they prove where the histories part.
    """
    filled = [file for file in copy.files if file.batches and file.log]
    if not filled or filled[-1] is not copy.files[-1]:
        return None
    if len(filled[-1].log) != sum(len(held.batch.data) for held in filled[-1].batches):
        return None  # no broker rolls behind a torn batch, or behind zeros
    end = filled[-1].batches[-1].batch.after
    what = random.choice(["rolled", "doubled"] if is_stale_case else ["rolled", "doubled", "emptied", "replaced"])
    if what == "rolled":
        copy.files.append(File(end, [], b""))
        return f"rolled at {end}"
    source = random.choice(filled)
    if not all(held.whole for held in source.batches):
        return None
    if what == "doubled":
        copy.files.append(File(end, [], source.log))
        return f"doubled {source.base} as {end}"
    file = random.choice(copy.files)
    if what == "replaced" and source.base < file.base:
        file.log = source.log
    elif what == "emptied":
        file.log = b""
    else:
        return None
    file.batches = []
    return f"{what} {file.base}"


def retain_nothing(random: Random, copy: Copy, others: list[Copy]) -> int | None:
    """Leaves a copy one file of no bytes. Retention leaves an idle log so, named after its end, and the others may end
    before it. Or the broker has fetched nothing yet, and the others may begin later. Answers the name; None if the copy
    has no end."""
    if not copy.files or not copy.files[-1].batches or not all(held.whole for held in copy.files[-1].batches):
        return None
    end = copy.files[-1].batches[-1].batch.after
    if len(copy.files[-1].log) != sum(len(held.batch.data) for held in copy.files[-1].batches):
        return None  # no broker rolls behind a torn batch, or behind zeros
    is_fresh = random.random() < 0.3
    name = copy.files[0].base if is_fresh else end
    copy.files, copy.orphans, copy.single = [File(name, [], b"")], [], False
    for other in others:
        if len(other.files) < 2 or random.random() < 0.3:
            continue
        if is_fresh:
            del other.files[0]
        elif all(held.whole for held in other.files[-2].batches[-1:]):
            other.files.pop()  # what is its last batch then has no wrong offset
    return name


def hurt(random: Random, copy: Copy, spare: set[int], notes: list[str]) -> None:
    """Does something to a copy's files; batches whose base is in `spare` stay whole."""
    for _ in range(random.choice([0, 1, 1, 2, 3])):
        what = random.choice(["flip", "flip", "flip", "file", "tear", "zeros", "start"])
        file = random.choice(copy.files)
        if what == "flip" and file.batches:
            at = random.randrange(len(file.batches))
            if file.batches[at].batch.base not in spare and file.batches[at].whole:
                flip(random, file, at)
                copy.damaged = True
                notes.append(f"flipped {file.batches[at].batch.base}")
        elif what == "file" and len(copy.files) > 1:
            if not any(held.batch.base in spare for held in file.batches):
                copy.files.remove(file)
                if random.random() < 0.3:
                    copy.orphans.append(file)
                notes.append(f"lost {file.base}")
        elif what == "start" and len(copy.files) > 1:
            if not any(held.batch.base in spare for held in copy.files[0].batches):
                notes.append(f"lost {copy.files[0].base}")
                del copy.files[0]
        elif what == "tear" and copy.files[-1].batches:
            last = copy.files[-1]
            held = last.batches[-1]
            if held.batch.base not in spare and held.whole:
                last.log = last.log[: -random.randint(1, len(held.batch.data) - 1)]
                last.batches.pop()
                notes.append(f"torn {held.batch.base}")
                return  # the file ends here
        elif what == "zeros" and copy.files[-1].batches and copy.files[-1].batches[-1].whole:
            copy.files[-1].log += bytes(random.randint(1, 300))
            notes.append("zeros")
            return


# --- a case ----------------------------------------------------------------------------------------------------------


def case(number: int) -> Case:
    """Case number `number`, the same each time."""
    random = Random(number)
    notes: list[str] = []
    history: list[Batch] = []
    changes: list[int] = []  # batches at which a leader's epoch begins, after another epoch
    epoch = random.randrange(3)
    magics = random.choice([[2, 2, 2]] * 5 + [[0, 0, 1], [1, 1, 1], [1, 2, 2], [0, 2, 2]])
    for magic in magics[: random.randint(1, 3)]:
        if history:
            epoch += random.randint(1, 2)
        if history and history[-1].epoch >= 0:
            changes.append(len(history))
        history += go_on(random, history, random.randint(2, 9), epoch, "v", magic)
    indexed = random.random() < 0.7
    copies: list[Copy] = []
    count = random.randint(2, 4)
    stale = set(random.sample(range(1, count), min(random.choice([1, 1, 2]), count - 1)))
    if not changes or random.random() < 0.5:
        stale = set()
    compacted_at = random.randrange(count) if random.random() < 0.3 else None
    is_cleaned_twice = not stale and number % 12 == 1
    if is_cleaned_twice:
        compacted_at = 0
    if stale and compacted_at == 0:
        # of the copy that proves where a stale one diverges, the batches must be there
        return case(number + 1_000_000_007)
    tails: dict[int, list[Batch]] = {}
    spare: set[int] = set()
    for at in range(count):
        if at in stale:
            turn = random.choice(changes)
            if turn not in tails:
                tails[turn] = go_on(random, history[:turn], random.randint(1, 8), history[turn - 1].epoch, "old")
            tail = tails[turn][: random.randint(1, len(tails[turn]))]  # one leader wrote it: a follower may have less
            first = random.randrange(turn)
            copy = Copy(rolled(random, history[first:turn] + tail, indexed), diverged=history[turn].base)
            spare |= {history[turn].base, history[turn - 1].base, tail[0].base}
            told = epochs_text(copy)
            notes.append(f"{at} stale from {history[turn].base} on")
        else:
            first = random.randrange(len(history)) if at and random.random() < 0.4 else 0
            last = random.randint(first + 1, len(history)) if at and random.random() < 0.5 else len(history)
            copy = Copy(rolled(random, history[first:last], indexed))
            told = epochs_text(copy)
            if at == compacted_at and len(copy.files) > 1 and magics[0] == 2:
                compacted(random, copy.files, history)
                copy.is_compacted = True
                copy.marked = random.random() < 0.5
                notes.append(f"{at} compacted")
        if random.random() < 0.5:
            copy.epochs = told
        copy.unhurt = [replace(file, batches=list(file.batches)) for file in copy.files]
        copies.append(copy)
    if is_cleaned_twice and copies[0].is_compacted:
        copies[0].marked = False  # a mark says more than the bytes
        copies[1] = compacted_further(Random(~number * 11), copies[0], history)
        copies[1].is_thinned_further = True
        if number % 48 == 25:  # of equal copies the first one is read
            copies[:2] = copies[1::-1]
        notes.append("1 compacted further")
    if is_cleaned_twice and number % 24 == 1:
        return Case(number, history, copies, random, notes)
    for at, copy in enumerate(copies):
        notes.append(f"copy {at}")
        hurt(random, copy, spare if stale and at in (0, *stale) else set(), notes)
        if not stale and not copy.is_compacted and number % 2 and random.random() < 0.7:
            moved = move(random, random.choice(copy.files)) if copy.files else None
            if moved is not None:
                copy.damaged = True
                notes.append(f"moved {moved}")
        is_plain = copy.diverged is None and not copy.is_compacted
        if random.random() < 0.15 and is_plain:
            copy.single = True
            notes.append("single files")
        elif random.random() < 0.1:
            copy.twice = True
    if not stale and compacted_at is not None and number % 13 in (1, 6):
        other = Random(~number * 7)
        at = compacted_at if number % 13 == 1 else other.randrange(count)
        hidden = hide_end(other, copies[at], copies[:at] + copies[at + 1 :])
        if hidden:
            copies[at].damaged = True
            notes.append(f"flipped {hidden} of copy {at}")
    if not stale and not number % 2:
        moved = move_behind(Random(~number), copies[number % len(copies)])
        if moved is not None:
            copies[number % len(copies)].damaged = True
            notes.append(f"moved {moved} behind its segment")
    if not stale and number % 4 == 2:
        at = number // 4 % len(copies)
        moved = move_last(Random(~number), copies[at], copies[:at] + copies[at + 1 :])
        if moved is not None:
            copies[at].damaged = True
            notes.append(f"moved {moved}, the last of copy {at}")
    if number % 7 == 3:
        other = Random(~number * 2)
        files = [(at, file) for at, copy in enumerate(copies) for file in copy.files]
        at, file = other.choice(files) if files else (0, None)
        bent = bend(other, file) if file is not None else None
        if bent is not None:
            notes.append(f"another epoch at {bent} of copy {at}")
    if number % 7 == 5:
        other = Random(~number * 5)
        at = other.randrange(len(copies))
        bent = bend_last(other, copies[at])
        if bent is not None:
            notes.append(f"another epoch at {bent}, the last of copy {at}")
    if number % 5 == 4 and number % 4 != 2:  # what proves a moved last batch stays
        other = Random(~number * 3)
        at = other.randrange(len(copies))
        done = misfile(other, copies[at], bool(stale))
        if done is not None:
            copies[at].misfiled = done.split()[0]
            notes.append(f"{done} in copy {at}")
    if not stale and number % 11 == 8 and number % 4 != 2:  # as above
        other = Random(~number * 13)
        at = other.randrange(len(copies))
        end = retain_nothing(other, copies[at], copies[:at] + copies[at + 1 :])
        if end is not None:
            copies[at].misfiled = "retained"
            notes.append(f"copy {at} has an empty file {end} alone")
    if random.random() < 0.1 and len(copies) < 4:
        linked = random.randrange(len(copies))
        if not copies[linked].single:
            copies.append(Copy([], link_to=linked))
    return Case(number, history, copies, random, notes)


def epochs_text(copy: Copy) -> str:
    """A `leader-epoch-checkpoint` of what the copy was given, before it is hurt."""
    entries: dict[int, int] = {}
    for file in copy.files:
        for held in file.batches:
            if held.batch.epoch >= 0:
                entries.setdefault(held.batch.epoch, held.batch.base)
    lines = "".join(f"{epoch} {start}\n" for epoch, start in entries.items())
    return f"0\n{len(entries)}\n{lines}"
