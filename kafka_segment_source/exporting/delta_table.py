"""A Delta table, by deltalake, which sends requests of its own with the settings of the folder. The files are ours, and
a commit of Delta lists them.

The next offsets are in the same commit: as the versions of application transactions, one for each partition
(`kafkaseg/orders-0`), which Delta keeps for ever. A commit is never tried again, so of two exports at once only one
commits. The metadata of the commit has the whole state, as JSON.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from kafka_segment_source.errors import UnsupportedError
from kafka_segment_source.exporting.data_files import DataFile, Part, is_ours
from kafka_segment_source.exporting.target_errors import TargetError, explain_race, foreign_errors
from kafka_segment_source.exporting.target_tables import State, check_columns, describe_columns, name_parts, parse_state
from kafka_segment_source.storage.folders import Folder, first_line

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, Schema
    from deltalake.transaction import AddAction

_STATE = "kafkaseg"  # the key in the metadata of a commit
_MOST_COMMITS = 1000  # of others since the last export


class DeltaExport:
    """A Delta table at one path."""

    keeps_parts = False

    def __init__(self, folder: Folder, parts: Sequence[Part]) -> None:
        try:
            import deltalake  # noqa: F401, PLC0415  # an extra
        except ImportError as error:
            raise UnsupportedError("--format delta needs deltalake: pip install '.[delta]'") from error
        self._folder = folder
        self._parts = parts
        self._options = folder.settings or None
        self.where = f"the Delta table {folder.path}"
        self._table: DeltaTable | None = None
        self._schema: pa.Schema | None = None

    def find_location(self) -> str:
        return self._folder.path

    def read_state(self) -> State | None:
        from deltalake import DeltaTable  # noqa: PLC0415  # an extra
        from deltalake.exceptions import TableNotFoundError  # noqa: PLC0415  # with it

        with foreign_errors(self.where):
            try:
                self._table = DeltaTable(self._folder.path, storage_options=self._options)
            except TableNotFoundError:
                if not all(is_ours(name) for name in self._folder.list("")):  # a first run that died leaves files
                    raise TargetError(
                        f"there is no Delta table in {self._folder.path}, and there are files of others: export to a new"
                        " target"
                    ) from None
                return None
            divided = self._table.metadata().partition_columns
            commits = self._table.history(_MOST_COMMITS)
        if divided != [part.column for part in self._parts]:
            raise TargetError(
                f"{self.where} is divided by {', '.join(divided) or 'nothing'}, and this run by"
                f" {name_parts(self._parts)}: export to a new target"
            )
        for commit in commits:
            if commit.get("operation") == "RESTORE":
                raise TargetError(
                    f"{self.where} was restored to an older version since its last export: its rows and its offsets no longer"
                    " fit together; export to a new target"
                )
            if _STATE in commit:
                return self._check_versions(parse_state(json.loads(commit[_STATE]), self.where))
        raise TargetError(
            f"{self.where} has no commit of an export among its last {_MOST_COMMITS}: its offsets are not known; export to"
            " a new target"
        )

    def finish_last_run(self) -> None:
        """Nothing is left to do: a commit of Delta is one file."""

    def _check_versions(self, state: State) -> State:
        """Compares the state with the application transactions. They are written together."""
        assert self._table is not None
        for key, offset in state.positions.items():
            version = self._table.transaction_version(_app_id(*key))
            if version != offset:
                raise TargetError(
                    f"{self.where} says two things of {key[0]}-{key[1]}: its last export ended at offset {offset}, its"
                    f" transaction at {version}; export to a new target"
                )
        return state

    def check_schema(self, schema: pa.Schema) -> None:
        self._schema = pa.schema([*schema, *self._added_columns(schema)])
        if self._table is not None:
            there = pa.schema(self._table.schema().to_arrow())
            check_columns(describe_columns(there), describe_columns(self._schema), self.where, can_add=True)

    def _added_columns(self, schema: pa.Schema) -> list[pa.Field]:
        return [pa.field(part.column, part.arrow_type) for part in self._parts if part.column not in schema.names]

    def open_file(self, name: str) -> IO[bytes]:
        return self._folder.open_new(name)

    def commit(self, files: Sequence[DataFile], state: State) -> None:
        from deltalake import CommitProperties, Schema, Transaction  # noqa: PLC0415  # an extra
        from deltalake.exceptions import CommitFailedError  # noqa: PLC0415  # with it
        from deltalake.transaction import AddAction  # noqa: PLC0415  # with it

        now = int(time.time() * 1000)
        actions = [
            AddAction(file.name, file.size, dict(file.values), now, True, json.dumps({"numRecords": file.rows}))
            for file in files
        ]
        said = CommitProperties(
            custom_metadata={_STATE: json.dumps(state.to_json())},
            app_transactions=[Transaction(_app_id(*key), offset, now) for key, offset in state.positions.items()],
            max_commit_retries=0,
        )
        with foreign_errors(self.where):
            try:
                self._commit(actions, Schema.from_arrow(self._schema), said)  # type: ignore[arg-type]  # pyarrow has no types
            except CommitFailedError as error:
                raise explain_race(self.where) from error

    def _commit(self, actions: list[AddAction], schema: Schema, said: CommitProperties) -> None:
        from deltalake import DeltaTable  # noqa: PLC0415  # an extra
        from deltalake.exceptions import CommitFailedError, DeltaError  # noqa: PLC0415  # with it
        from deltalake.transaction import create_table_with_add_actions  # noqa: PLC0415  # with it

        divided = [part.column for part in self._parts]
        if self._table is not None:
            self._table.create_write_transaction([*actions], "append", schema, divided, commit_properties=said)
            self._table.update_incremental()
            return
        path, options = self._folder.path, self._options
        try:
            create_table_with_add_actions(
                path, schema, actions, "error", divided, storage_options=options, commit_properties=said
            )
        except DeltaError as error:
            if DeltaTable.is_deltatable(path, options):
                raise CommitFailedError(first_line(error)) from error
            raise
        self._table = DeltaTable(path, storage_options=options)


def _app_id(topic: str, partition: int) -> str:
    return f"kafkaseg/{topic}-{partition}"
