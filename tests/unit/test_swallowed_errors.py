"""Every place of the package that may take an error of the package, or of the system, for something else.

No such place may turn an error into fewer partitions or fewer rows. So each was judged, and stands in JUDGED with what
becomes of the error instead. A new one fails the test until it was judged too. A handler that ends in `raise`, and has
no other way out, passes the error on and is not listed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafka_segment_source
from kafka_segment_source import errors

PACKAGE = Path(kafka_segment_source.__file__).parent

# Names of errors that can be one of the package's own, or of the system's. UsageError is a ValueError too.
CAUGHT = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)} | {
    *("BaseException", "Exception", "ValueError", "UNUSABLE", "OSError"),
    *("FileNotFoundError", "NotADirectoryError", "PermissionError"),
    *("DamagedPartError", "ManifestError", "EpochsError", "ReplacedError", "ServiceError", "VanishedError"),
}

JUDGED: dict[str, str] = {
    "errors:_find_storage_fields: SyntaxError, ValueError": "a text that is no literal has no file name",
    "exporting.export_run:_check_apart: UnsupportedError": "an Iceberg table is where no log can be, so it is not inside one",
    "exporting.export:export: KafkaSegmentError": "the tables of other topics get their rows; then it is raised, and others are said",
    "exporting.iceberg_table:IcebergExport.read_state: ValueError": "a TargetError that shows the property",
    "exporting.parquet_table:ParquetTable._read_manifest: ValueError": "a TargetError that names the manifest",
    "frames.predicates:_find_literals: ArrowException, TypeError, ValueError": "no literal is known, so no key is left out",
    "frames.polars_frame:_find_keys: Exception": "no key is left out, and Polars applies its predicate to every row",
    "frames.polars_frame:convert_predicate: Exception": "nothing is left out, and Polars applies its predicate to every row",
    "in_order:InOrder._go_on: BaseException": "kept, and raised in its place of the sequence",
    "in_order:InOrder._take: BaseException": "kept, and raised in its place of the sequence",
    "inspection.contents:_note_copies: FileChangedError, PathError, StorageError": "`ls` lists each copy, and warns that a read of all is not possible",
    "inspection.contents:_follow_changes: PathError": "a warning: the partition was removed while it was listed",
    "inspection.contents:_try_to_summarize: FileChangedError": "the directory is listed again; raised after too many tries",
    "inspection.copies:_read_once: DataError, DataLossError": "a problem",
    "inspection.copies:combine_copies: FileChangedError": "a note that asks to verify again",
    "inspection.copies:combine_copies: PathError, StorageError": "a problem",
    "inspection.epoch_rules:check_epochs: StorageError": "a problem",
    "inspection.summary:summarize: StorageError": "a fault of the segment",
    "inspection.verification:_list_again: StorageError, UsageError": "the findings of the last pass stand, which say that files changed",
    "inspection.segment_check:SegmentCheck._look_at_chunk: DataError": "a problem",
    "inspection.segment_check:SegmentCheck._read_chunks: DataLossError": "`_find_gaps` and `_find_missing` report it, once all segments are read",
    "inspection.segment_check:SegmentCheck.read: FileChangedError": "a note that asks to verify again",
    "inspection.segment_check:SegmentCheck.read: StorageError": "a problem",
    "inspection.verify:_find_missing: FileChangedError": "a note that asks to verify again",
    "internal_topics.partition_ends:find_ends: DataError, StorageError": "lag is null, with a warning; no row is left out",
    "internal_topics.snapshots:newest_snapshot: DataError, DataLossError, MessageError": "a warning; the older snapshot and the log after it are read",
    "kernels.machine_code:_in_turn: OSError": "without a lock, several processes compile the same",
    "kernels.machine_code:_read: OSError": "the kernel is compiled again",
    "kernels.machine_code:_write: OSError": "the next process compiles again",
    "kernels.system_calls:read_file: OSError": "the walk of headers ends there, and the usual reader goes on from there and raises it",
    "logdir.catalog:_find_dead: StorageError": "a warning, or a partition that `ls` shows with the error",
    "logdir.catalog:_find_directories.find: StorageError": "`ls` and `verify` show the directory with the error",
    "logdir.catalog:_point_below: UNUSABLE": "the error about the path above it is raised; it names one directory less",
    "logdir.catalog:_list_files.list_one: StorageError": "`ls` and `verify` show the directory with the error",
    "logdir.catalog:list_dead_directories: StorageError": "a warning; no query reads such a directory",
    "logdir.checkpoints:_read_checkpoint: UNUSABLE": "a warning; the one that asks for the high watermark raises it",
    "logdir.checkpoints:_read_checkpoint: ValueError": "a warning; the one that asks for the high watermark raises it",
    "logdir.checkpoints:_read_file: FileChangedError": "there is no such file, which brokers write late",
    "logdir.checkpoints:read_topic_id: PathError": "a file that cannot be one has no id; the directory is read",
    "logdir.index_entries:_ends_in_padding: FileChangedError, UNUSABLE": "the whole file is read then, which reports it",
    "logdir.index_entries:read_blocks: FileChangedError": "index entries are hints: without them more headers are walked",
    "logdir.index_entries:valid_last_offsets: FileChangedError": "index entries are hints: without them more headers are walked",
    "logdir.index_entries:valid_time_ends: FileChangedError": "index entries are hints: without them more headers are walked",
    "logdir.index_entries:written_entries: UNUSABLE": "the reason is returned, and said by the views and by `verify`",
    "logdir.indexes:read_last_offsets: UNUSABLE": "the fault is in the result; without the index more headers are walked",
    "logdir.indexes:read_offset_index: UNUSABLE": "the fault is in the result; without the index more headers are walked",
    "logdir.indexes:read_time_ends: UNUSABLE": "the fault is in the result; without the index more headers are walked",
    "logdir.indexes:read_time_index: UNUSABLE": "the fault is in the result; without the index more headers are walked",
    "logdir.leader_epochs:read_epochs: EpochsError, PathError": "a warning, and a problem for `verify`; the epochs of the batches are used",
    "logdir.leader_epochs:read_epochs: FileChangedError": "there is no such file; the epochs of the batches are used",
    "logdir.producer_snapshots:_read_open_transactions: FileChangedError, error": "the next older snapshot, or the batches, say what is open",
    "logdir.producer_snapshots:_read_open_transactions: UNUSABLE": "a warning; the next older snapshot, or the batches, say what is open",
    "logdir.cut_segments:find_lost_end: FileChangedError, UNUSABLE": "an index that cannot be read is no evidence; no row depends on it",
    "logdir.segment_view:SegmentView.find_last_indexed: FileChangedError, UNUSABLE": "one piece of soft evidence is not known; no row depends on it",
    "logdir.segment_view:SegmentView.log_end: UNUSABLE": "the end is not known in planning; the task that reads the file raises it",
    "logdir.tiers:_read_topics.read: FileChangedError, PathError, StorageError": "the topic stands under its id with the error, which a selection raises",
    "logdir.tiers:_read_topics.read: ManifestError": "the topic stands under its id with the error, and its segments are damaged",
    "logdir.topic_choice:_read_id: StorageError": "nothing is left out; whoever combines the copies reads the id too: a problem of `verify`, a warning of `ls`",
    "option_values:parse_paths: ValueError": "a text that is no JSON is one path",
    "partition.logs:follow_changes: FileChangedError": "the partition is listed again; raised after too many tries",
    "partition.logs:follow_changes: PathError": "a warning: the partition was removed meanwhile",
    "partition.histories:_find_fences_with: PathError": "no fences: where there are some with the other epoch, a PathError says that nothing decides",
    "partition.chain:_find_same: StorageError": "the copy does not count as one that has the same; the first error is raised",
    "partition.chain:_leave_unreadable: StorageError": "a warning, where another copy has the same bytes or more; else it is raised",
    "partition.chain:merge_replicas.merge: FileChangedError": "the partition is listed again; raised after too many tries",
    "partition.chain:_read_both: StorageError": "it comes again when the fact is asked for",
    "partition.copy_view:CopyView.rows_in: DataError": "the caller compares what can be decoded, and reading reports the damage",
    "partition.missing:_find_epoch_at_end: FileChangedError, UNUSABLE": "then a line is believed, which gives a warning; no row depends on it",
    "partition.missing:_find_last_epoch: StorageError": "one piece of evidence is not known, and no row depends on it",
    "partition.survey:_rate_rest: DataLossError": "how well the copy holds the rest is not known, so another one goes first",
    "planning.plan:_begins_compressed: KafkaSegmentError": "one thread reads, and raises it",
    "planning.planner:_cut_each.cut_one: FileChangedError": "the split stays whole, with a warning",
    "planning.planner:plan_selected: FileChangedError": "the plan is made again",
    "reading.following:Follower._find_again: FileChangedError": "the directory is listed again, and the last error is raised",
    "reading.following:Follower._mend_damage: FileChangedError": "the directory is listed again",
    "reading.following:Follower.run: DataError, DataLossError, UNUSABLE": "other copies are asked; without one it is reported or raised",
    "reading.following:Follower.run: FileChangedError": "the offsets are looked for again, and reported if they are gone",
    "reading.following:find_again: PathError": "the offsets are reported as lost",
    "transactions.walk:_walk_copies: DataError, DataLossError, UNUSABLE": "other copies are asked, and what none has is a loss or damage",
    "transactions.walk:walk_split: DataLossError": "the stretch says that it ends in a loss, which withholds transactions",
    "transactions.walk:_find_own_copy: KafkaSegmentError": "the walk of all copies follows, which meets the same error",
    "transactions.walk:walk_after: DataError, DataLossError, UNUSABLE": "the walk of all copies follows from the chunk on, which reports it",
    "transactions.walk:_walk_on: FileChangedError": "the directory is listed again, and the last error is raised",
    "reading.damaged_batches:read_damaged_batch: UNUSABLE": "the damage stays as large as it was",
    "reading.mending:survey_copies: UNUSABLE": "the failure is in the report of offsets that no copy gives",
    "report.facts:_read_stats: KafkaSegmentError": "the report says why this part is missing",
    "report.facts:_read_batches: KafkaSegmentError": "the page shows the error",
    "report.facts:_read_view: KafkaSegmentError": "the page shows the error",
    "report.facts:_read_view: PathError": "the page says that the internal topic is not there",
    "scanning:follow_split: DataLossError": "`report_lost_rows` raises or warns, by failOnDataLoss",
    "scanning_threads:_walk: Exception": "kept, and raised in its place of the sequence",
    "rebuilding.log_writer:LogWriter.abandon: StorageError": "the error that ends the rebuild is raised; the segment is written again",
    "rebuilding.pieces:read_batches: DataLossError": "raised under failOnDataLoss=true; else a warning, and it stands in rebuild.json",
    "schema_registry.stream_schemas:SchemaFollower._look: PathError": "no schemas are there, so none is new; rows go on",
    "schema_registry.stream_schemas:SchemaFollower._say_newer: OptionError": "the newest schema cannot be used; the stream keeps its own",
    "schema_registry.registry_messages:_shorten: RecursionError, ValueError": "a value that cannot be printed is named by its type",
    "schema_registry.protobuf:_load_beside.load: OptionError": "no file beside it has that name: the import is not found, and an error says so",
    "schema_registry.protobuf:_make_writer: OptionError, ProtobufError": "its values are misfits, with this reason",
    "schema_registry.resolving:Known.find: PathError": "no topic of schemas: a read that needs one says so",
    "schema_registry.resolving:_parse_writer: AvroError, OptionError": "its values are misfits, with this reason",
    "spark.limit:_head_holds: DataError, StorageError": "every split is planned; the task that reads the file raises it",
    "spark.remembered:_Turn.remember: FileNotFoundError, PermissionError": "every row is planned",
    "spark.remembered:_Turn.remember: OSError, TypeError, ValueError": "every row is planned",
    "spark.remembered:_make_memory: FileNotFoundError": "another process removed an old file of pushed filters",
    "spark.remembered:load: OSError": "nothing is pushed, so every row is planned",
    "searching.every_copy:_Search._find_committed: KafkaSegmentError": "said among what could not be searched, so it exits with 2",
    "searching.every_copy:_read_configs: KafkaSegmentError": "what keeps a key is said without the settings of its topic",
    "searching.key_files:_leave_out_dead: PathError": "the dead directories of that path are searched; without one it is raised",
    "searching.key_files:_list_dead: StorageError": "said among what could not be searched",
    "searching.key_records:search_file: KafkaSegmentError": "said among what could not be searched",
    "searching.match_rows:FieldRows._find_texts: ValueError": "MisfitError, or counted and said as a misfit (valueMode=PERMISSIVE)",
    "storage.files:list_directory: VanishedError": "the directory is listed again, and the last error is raised",
    "storage.folders:Folder.has.head: FileNotFoundError": "there is no such file in a target",
    "storage.folders:Folder.read.get: FileNotFoundError": "there is no such file in a target",
    "storage.object_client:_make_client: ValueError, client_errors": "another error with the names of the options is raised after it",
    "storage.object_store:ObjectStorage._call: BaseException": "a broken listing is asked for again; all else is raised after the tries",
    "storage.object_store:_head: FileNotFoundError, client_errors": "only an object that is not there is None; all else is raised",
    "storage.paths:_is_there: OSError, ValueError": "only how a text is read as a path depends on it; the path itself is asked again",
    "storage.private:make_private_directory: OSError": "another directory is made for files of our own",
    "storage.retrying:try_again: FileChangedError": "the action is tried again, and the last error is raised",
    "storage.store:LocalStorage.list: FileNotFoundError": "a directory that is gone has no entries, as the protocol says",
    "storage.store:LocalStorage.list: FileNotFoundError, NotADirectoryError": "a link to nothing is an entry, and any other name is listed again",
    "storage.store:LocalStorage.list: OSError": "a link that leads to itself is an entry; all else is raised",
    "storage.store:LocalStorage.look_at: FileNotFoundError, NotADirectoryError": "nothing is there, or a link to nothing",
    "storage.store:LocalStorage.remove: FileNotFoundError": "the file is gone already",
    "storage.store:LocalStorage.replace: OSError": "the temporary file stays; the first error is raised",
    "storage.tiered.encryption:_read_private_key: Exception": "another error, which does not quote the file, is raised after it",
    "storage.tiered.partition:_find_lineage: EpochsError": "said of the segment; another segment of its epoch has the same epochs",
    "storage.tiered.segments:load_by_bytes: EpochsError": "said of the segment; its batches have the epochs",
    "storage.tiered.segments:read_manifest: ManifestError": "the segment is damaged, and its error is raised where it is read",
    "streams.log_ends:LogEnds._read_rest: DataError": "a warning, and raised once all before it was read",
    "streams.log_watch:LogWatch._find_holding: FileChangedError, UNUSABLE": "the directory counts as changed, and is listed again",
    "streams.listings:Listings._list_waiting: PathError": "tried again for a time, and raised then",
    "streams.stream:LogStream.plan: FileChangedError": "the plan is made again",
    "times:other_meaning: ValueError": "a text that has no other meaning",
    "views.transaction_walk:_walk: DataLossError": "`report_lost_rows` raises or warns, and the stretch says that it ends in a loss",
    "values.avro_schema:_Parser.parse_text: RecursionError, ValueError": "an AvroError in its place",
    "values.avro_schema:shorten: RecursionError, TypeError, ValueError": "a value that cannot be printed is named by its type",
    "values.json_meaning:JsonDecoder._parse_singly: ValueError": "the value is a misfit",
    "zones.key_lookup:KeyFilters.find_holding: FileChangedError": "no filter is used for the segment, with a warning: nothing is pruned",
    "zones.key_lookup:KeyFilters.find_holding: ValueError": "no filter is used for the segment, with a warning: nothing is pruned",
    "zones.key_lookup:KeyFilters.versions: FileChangedError, UNUSABLE": "no filter is used, with a warning: nothing is pruned",
    "zones.making:_decode_chunk: DataError": "a map of sound batches alone; the damage is returned and said",
    "zones.making:map_segment: DataError": "a map up to the damage; the damage is returned and said",
    "zones.maps:ZoneMaps._read_usable: ValueError": "the map is not used, with a warning: nothing is pruned",
    "zones.update_plan:_keep_present_zones: FileChangedError": "the segment is mapped anew",
    "zones.update_plan:plan_again: PathError": "the last plan stands, and its missing files are tried again",
    "zones.update_plan:read_usable_filters: FileChangedError": "there are no filters: the segment is mapped anew",
    "zones.update_plan:read_usable_filters: ValueError": "the filters are made again, with a warning",
    "zones.update_plan:_read_usable: ValueError": "the map is made again, with a warning",
    "zones.updates:finish_update: FileChangedError": "another process wrote a map that is as good",
    "zones.updates:map_or_none: FileChangedError": "the update is planned again",
    "zones.zone_table:read_zone_map: FileChangedError": "there is no map: nothing is pruned",
}


# Each `next(…)` without a default. Where there is nothing left it raises StopIteration, which ends a `for` or a `map`
# around it as if no item was left.
TAKEN: dict[str, str] = {
    "in_order:InOrder._take": "the end of the pieces, which is what it asks for",
    "inspection.contents:_summarize_logs": "one summary for each segment",
    "logdir.catalog:_list_files": "there is a failure",
    "schema_registry.sources:read_given": "there is one topic",
    "searching.every_copy:KeyPlaces.__next__": "the end of the places, which is what it says",
    "searching.key_files:_list_dead": "the name has one of the endings",
    "spark.zone_maps:update_zone_maps": "one answer for each split",
    "storage.object_store:ObjectStorage.look_at": "one answer for each of two questions",
    "values.avro_columns:_Maker._make": "there is a wanted field",
    "values.protobuf_columns:_Maker._make_field": "there is a wanted field",
    "values.protobuf_columns:_Maker._make_single": "there is a wanted field",
    "values.protobuf_columns:_Maker._refuse_wanted": "there is a wanted field",
    "views.transaction_replay:Replay.add": "one sum for each run of data",
}


def find_taken(path: Path) -> Iterator[str]:
    """Yields the place of each `next(…)` without a default: module and function."""
    module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)

    def walk(node: ast.AST, function: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            own = child.name if isinstance(child, (ast.FunctionDef, ast.ClassDef)) else None
            inside = ".".join(filter(None, [function, own]))
            if isinstance(child, ast.Call) and ast.unparse(child.func) == "next" and len(child.args) == 1:
                yield f"{module}:{inside}"
            yield from walk(child, inside)

    yield from walk(ast.parse(path.read_text()), "")


def test_every_next_without_a_default_was_judged() -> None:
    """One that may find nothing has a default, or says what is missing."""
    assert sorted({place for path in PACKAGE.rglob("*.py") for place in find_taken(path)}) == sorted(TAKEN)


def find_places(path: Path) -> Iterator[str]:
    """Yields the place of each handler that may swallow: module, function, and the errors that it names."""
    module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)

    def walk(node: ast.AST, function: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            own = child.name if isinstance(child, (ast.FunctionDef, ast.ClassDef)) else None
            inside = ".".join(filter(None, [function, own]))
            caught: set[str] = set()
            if isinstance(child, ast.ExceptHandler) and not passes_on(child):
                caught = names_in(child.type) if child.type is not None else {"BaseException"}
            elif isinstance(child, ast.Call) and "suppress" in names_in(child.func):
                caught = {name for argument in child.args for name in names_in(argument)}
            if caught & CAUGHT:
                yield f"{module}:{inside}: {', '.join(sorted(caught))}"
            yield from walk(child, inside)

    yield from walk(ast.parse(path.read_text()), "")


def names_in(node: ast.expr) -> set[str]:
    """The last part of each name in an expression."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    parts = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    owners = {
        each.value.id for each in ast.walk(node) if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name)
    }
    return (names - owners) | parts


def passes_on(handler: ast.ExceptHandler) -> bool:
    """Whether a handler ends in `raise`, and nothing in it leads elsewhere."""
    others = (ast.Return, ast.Continue, ast.Break, ast.Yield, ast.YieldFrom)
    return isinstance(handler.body[-1], ast.Raise) and not any(isinstance(each, others) for each in ast.walk(handler))


def all_places() -> list[str]:
    return sorted({place for path in sorted(PACKAGE.rglob("*.py")) for place in find_places(path)})


def test_every_place_was_judged() -> None:
    """What is new is judged first: does a row, a partition or a file go missing in silence?"""
    assert [place for place in all_places() if place not in JUDGED] == []


def test_what_was_judged_is_there() -> None:
    """A place that is gone leaves the list, so that it cannot excuse another one later."""
    assert sorted(JUDGED.keys() - set(all_places())) == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("try: f()\nexcept OSError: pass", 1),
        ("try: f()\nexcept KeyError: pass", 0),
        ("try: f()\nexcept (KeyError, *UNUSABLE): x = 1", 1),
        ("try: f()\nexcept: pass", 1),
        ("try: f()\nexcept errors.DataError as e:\n  raise A from e", 0),
        ("def f():\n  try: g()\n  except DataError:\n    if a: return\n    raise", 1),
        ("with suppress(PathError): f()", 1),
        ("with contextlib.suppress(PathError): f()", 1),
    ],
)
def test_what_is_found(code: str, found: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search itself: which handlers count."""
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    (tmp_path / "module.py").write_text(code)
    assert len(all_places()) == found
