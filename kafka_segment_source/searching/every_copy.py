"""`every_copy`: every place where the bytes of a key still lie, and what keeps them there.

A read takes each offset from one file. This looks into every file instead: every copy of a partition, remote tiers,
files that a broker has marked as deleted or that a compaction left, and directories that no broker uses any more. What
could not be searched is said, as it may hold the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from kafka_segment_source.errors import KafkaSegmentError, OptionError
from kafka_segment_source.in_order import InOrder, count_processors
from kafka_segment_source.keywords import DecodeOptions, PathsLike, check_names, count_threads, option_texts
from kafka_segment_source.options import ReadOptions, parse_options
from kafka_segment_source.planning.plan import read_rows
from kafka_segment_source.queries import scan
from kafka_segment_source.reporting import OnProgress, Warnings, add_up, ignore_progress
from kafka_segment_source.request import Content
from kafka_segment_source.searching.key_files import ACTIVE, TIER, KeyFile, list_key_files
from kafka_segment_source.searching.key_records import KeyRecord, search_file
from kafka_segment_source.searching.pattern import Pattern
from kafka_segment_source.searching.search import plan_search
from kafka_segment_source.source import Source
from kafka_segment_source.times import format_millis
from kafka_segment_source.trust import Policy, Trust

_AHEAD = 16 * 1024 * 1024  # bytes of found records that may wait for their turn
_A_RECORD = 200  # bytes that one takes
_DELETED = "below the log start offset {}, so no consumer gets it; its segment goes once all of it is below that"
_NO_OFFSETS: npt.NDArray[np.int64] = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """A place where a key lies.

    copy: the partition directory.
    file: the path of the `.log`, or of the file that was one.
    kind: of the file.
    object: of a tier, the name of the segment's objects without suffix.
    position: of the batch in the file, in bytes.
    timestamp: ms.
    size: bytes of the key and the value. state, among the live files of the copy: newest, superseded, withheld (of an
    aborted transaction, or after the begin of an open one), or deleted (below the log start offset); leftover in other
    files.
    superseded_by: the offset of the next record of the key in the same copy.
    keeps: what keeps the bytes, and what removes them.
    """

    topic: str
    partition: int
    copy: str
    file: str
    kind: str
    object: str | None
    position: int
    offset: int
    timestamp: int
    size: int
    is_tombstone: bool
    state: str
    superseded_by: int | None
    keeps: str

    def to_dict(self) -> dict[str, Any]:
        """The place as `kafkaseg grep --every-copy --json` prints it."""
        names = {"is_tombstone": "isTombstone", "superseded_by": "supersededBy"}
        values = asdict(self) | {"timestamp": format_millis(self.timestamp)}
        return {names.get(name, name): value for name, value in values.items()}


@dataclass(slots=True)
class KeyPlaces:
    """An iterator over the places where a key lies, by topic, partition, copy and file.

    After its end: unsearched: a sentence for each thing that could not be searched.

    files, size: how many files were searched, and their bytes.
    """

    places: Iterator[KeyPlace]
    unsearched: list[str] = field(default_factory=list)
    files: int = 0
    size: int = 0

    def __iter__(self) -> Iterator[KeyPlace]:
        return self.places

    def __next__(self) -> KeyPlace:
        return next(self.places)


def every_copy(
    path: PathsLike,
    key: bytes | str,
    *,
    threads: int | None = None,
    on_progress: OnProgress = ignore_progress,
    **options: Unpack[DecodeOptions],
) -> KeyPlaces:
    """Finds every place where the bytes of a key still lie: what a request for erasure asks for.

    It looks into every copy of each partition under the paths, internal topics too, and into files and directories
    that are no part of a log any more. Keys inside values, and keys in other forms, are other bytes: see `search`.

    Args:
        path: A log directory, a partition directory, a `.log` file or a glob; or a list of these.
        key: The whole key. A text is its UTF-8.
        threads: How many threads search. By default, one for each processor.
        on_progress: Is called with the bytes that are done, and with all bytes.
        options: The options of docs/options.md that select topics, and maxBatchBytes.

    Returns:
        The places. What could not be searched is known after the last one.

    Raises:
        UsageError: An invalid path or option, or a topic that is not there.
        StorageError: A directory cannot be listed. A file that cannot be read is among what could not be searched.

    Example:
        >>> import kafka_segment_source
        >>> places = kafka_segment_source.every_copy("examples/data/orders/data", "customer-0170")
        >>> place = next(places)
        >>> place.offset, place.state, place.superseded_by
        (3, 'superseded', 212)
    """
    check_names(options, DecodeOptions, "every_copy, which takes")
    parsed, warnings = parse_options(option_texts(path, options), parameters=("threads", "on_progress"))
    raw = key.encode("utf-8") if isinstance(key, str) else key
    files = list_key_files(parsed.source, warnings)
    places = KeyPlaces(iter(()), unsearched=warnings)
    count = count_processors() if threads is None else count_threads(threads)
    places.places = _Search(parsed.source, parsed.policy, raw, places, files, on_progress).run(count)
    return places


class _Piece:
    """A file to search (a `Piece` of `InOrder`)."""

    size = 0

    def __init__(self, file: KeyFile, key: bytes, trust: Trust) -> None:
        self.file = file
        self.unsearched: list[str] = []
        self._key = key
        self._trust = trust

    def results(self) -> Iterator[tuple[KeyRecord, int]]:
        for record in search_file(self.file, self._key, self._trust, self.unsearched):
            yield record, _A_RECORD

    def release(self) -> None:
        """Nothing is kept."""


class _Search:
    """Puts what is found in the files in order, and says of each record what keeps it."""

    def __init__(
        self,
        source: Source,
        policy: Policy,
        key: bytes,
        places: KeyPlaces,
        files: list[KeyFile],
        on_progress: OnProgress,
    ) -> None:
        self._source = source
        self._policy = policy
        self._key = key
        self._found = places
        self._files = files
        self._advance = add_up(sum(file.size for file in files), on_progress)
        self._waiting: list[KeyPlace] = []
        self._configs: Mapping[str, Mapping[str, str]] | None = None
        self._committed: tuple[str, npt.NDArray[np.int64]] = "", _NO_OFFSETS  # of which directory

    def run(self, threads: int) -> Iterator[KeyPlace]:
        """Yields the places, and notes what could not be searched."""
        pieces = (_Piece(file, self._key, self._policy.trust) for file in self._files)
        work: InOrder[_Piece, KeyRecord] = InOrder(pieces, threads, _AHEAD)
        with work:
            while (piece := work.next_piece()) is not None:
                if self._waiting and (self._waiting[0].copy != piece.file.directory or not piece.file.is_live):
                    yield from self._end_waiting(None)
                for record in work.results():
                    yield from self._place(piece.file, record)
                self._found.unsearched += piece.unsearched
                self._found.files += 1
                self._found.size += piece.file.size
                self._advance(piece.file.size)
        yield from self._end_waiting(None)

    def _place(self, file: KeyFile, record: KeyRecord) -> Iterator[KeyPlace]:
        """Yields the places that are decided by now, in order."""
        place = _make_place(file, record)
        if not file.is_live:
            yield replace(place, keeps=file.note)
        elif record.offset < file.log_start:
            yield replace(place, state="deleted", keeps=_DELETED.format(file.log_start))
        elif record.is_transactional and not self._is_committed(file, record.offset):
            why = f"of a transaction that was aborted, or that is withheld by an open one; {self._removals(place).superseded}"
            self._waiting.append(replace(place, state="withheld", keeps=why))
            if len(self._waiting) == 1:
                yield self._waiting.pop()
        else:
            yield from self._end_waiting(record.offset)
            self._waiting.append(place)

    def _end_waiting(self, newer: int | None) -> Iterator[KeyPlace]:
        """Yields the live place that waited for the next record of its copy, and the withheld ones after it."""
        waiting, self._waiting = self._waiting, []
        for number, place in enumerate(waiting):
            yield self._finish(place, newer) if number == 0 else place

    def _finish(self, place: KeyPlace, newer: int | None) -> KeyPlace:
        removals = self._removals(place)
        if newer is not None:
            why = f"superseded by offset {newer}; {removals.superseded}"
            return replace(place, state="superseded", superseded_by=newer, keeps=why)
        if place.is_tombstone:
            return replace(place, state="newest", keeps=f"a tombstone, the newest of its key; {removals.tombstone}")
        return replace(place, state="newest", keeps=f"the newest of its key; {removals.newest}")

    def _removals(self, place: KeyPlace) -> _Removals:
        if self._configs is None:
            self._configs = _read_configs(self._source.paths)
        return _name_removals(place.kind, self._configs.get(place.topic))

    def _is_committed(self, file: KeyFile, offset: int) -> bool:
        directory, offsets = self._committed
        if directory != file.directory:
            self._committed = file.directory, self._find_committed(file)
            offsets = self._committed[1]
        at = int(np.searchsorted(offsets, offset))
        return at < len(offsets) and int(offsets[at]) == offset

    def _find_committed(self, file: KeyFile) -> npt.NDArray[np.int64]:
        """Returns the offsets of the key's records in one copy that are of no aborted or open transaction."""
        options = ReadOptions(
            Source(self._source.storage, (file.directory,), file.topic, file.partition),
            Content(read_committed=True),
            policy=self._policy._replace(reads_control=True, drop_malformed=True, fail_on_data_loss=False),
        )
        pattern = Pattern(self._key, fixed=True)
        try:
            plan = plan_search(options, Warnings(), pattern, key=True, value=False, headers=())
            batches = read_rows(plan, plan.schema(["offset"]))
            offsets = [batch.column("offset").to_numpy(zero_copy_only=False) for batch in batches]
        except KafkaSegmentError as error:
            self._found.unsearched.append(
                f"which transactions of {file.directory!r} were committed cannot be told, so their records are shown as"
                f" withheld: {error}"
            )
            return _NO_OFFSETS
        return np.concatenate([_NO_OFFSETS, *offsets])


def _read_configs(paths: tuple[str, ...]) -> Mapping[str, Mapping[str, str]]:
    """Reads what `__cluster_metadata` says of the topics. It is empty where the paths do not hold it."""
    try:
        reader = scan(list(paths), view="topics", mode="DROPMALFORMED", failOnDataLoss=False)
        rows = reader.read_all().to_pylist()
    except KafkaSegmentError:
        return {}
    return {row["topic"]: dict(row["configs"] or ()) for row in rows}


def _make_place(file: KeyFile, record: KeyRecord) -> KeyPlace:
    return KeyPlace(
        topic=file.topic,
        partition=file.partition,
        copy=file.directory,
        file=file.path,
        kind=file.kind,
        object=file.object,
        position=record.position,
        offset=record.offset,
        timestamp=record.timestamp,
        size=record.size,
        is_tombstone=record.is_tombstone,
        state="leftover",
        superseded_by=None,
        keeps="",
    )


@dataclass(frozen=True, slots=True)
class _Removals:
    """What removes records, in words: the newest of a key, a tombstone that is, and a superseded one."""

    newest: str
    tombstone: str
    superseded: str


def _name_removals(kind: str, config: Mapping[str, str] | None) -> _Removals:
    """config: what was set for the topic; None where that is not known."""
    if kind == TIER:
        return _Removals(*["until retention removes its segment from the tier"] * 3)
    rolled = ", after that is no longer the active one" if kind == ACTIVE else ""
    if config is None:
        unknown = f"{rolled} (its cleanup.policy is not in these files)"
        superseded = f"until retention or the log cleaner takes its segment{unknown}"
        newest = f"until a newer record comes, or retention takes its segment{unknown}"
        return _Removals(newest, superseded, superseded)
    policy = config.get("cleanup.policy", "delete")
    retention = (
        f"until retention (retention.ms={config.get('retention.ms', 'of the broker')}) takes its segment{rolled}"
    )
    if "compact" not in policy:
        assumed = "" if "cleanup.policy" in config else " (cleanup.policy is the broker's default, taken to be delete)"
        return _Removals(*[f"{retention}{assumed}"] * 3)
    other = f", or {retention}" if "delete" in policy else ""
    return _Removals(
        f"compaction keeps it until a newer record or a tombstone of the key comes{other}",
        f"until delete.retention.ms after the log cleaner has taken its segment{rolled}{other}",
        f"until the log cleaner takes its segment{rolled}{other}",
    )


def check_key_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that were given. Raises OptionError for one that `every_copy` does not take."""
    given = {name: value for name, value in options.items() if value is not None}
    known = {name.lower() for name in DecodeOptions.__annotations__}
    for name in given:
        if name.lower() not in known:
            raise OptionError(
                f"option {name!r} selects records, and every copy of a key is looked for: leave it out", options=(name,)
            )
    return given
