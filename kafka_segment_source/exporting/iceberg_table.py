"""An Iceberg table, by pyiceberg, which sends requests of its own. The files are ours, and a commit of
Iceberg adds them.

The next offsets are a property of the table, set in the same commit. So they stay when snapshots expire and files are
rewritten. The catalog refuses a commit whose table has changed since it was loaded.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from kafka_segment_source.errors import OptionError, UnsupportedError
from kafka_segment_source.exporting.data_files import DataFile, Part
from kafka_segment_source.exporting.target_errors import TargetError, explain_race, foreign_errors
from kafka_segment_source.exporting.target_tables import State, check_columns, describe_columns, name_parts, parse_state
from kafka_segment_source.storage.folders import first_line

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction

_STATE = "kafkaseg.offsets"  # a property of the table
_NAME_PARTS = 3
_COMMIT = "kafkaseg.commit"  # in the summary of each snapshot of an export, and in the state


class IcebergExport:
    """A table of a catalog.

    name: the catalog, the namespace and the table, in parts.
    properties: of the catalog, over those of .pyiceberg.yaml.
    """

    keeps_parts = True

    def __init__(self, name: Sequence[str], parts: Sequence[Part], properties: Mapping[str, str]) -> None:
        try:
            from pyiceberg.catalog import load_catalog  # noqa: PLC0415  # an extra
        except ImportError as error:
            raise UnsupportedError("--format iceberg needs pyiceberg: pip install '.[iceberg]'") from error
        whole = ".".join(name)
        if len(name) < _NAME_PARTS or not all(name):
            raise OptionError(f"the target is {whole!r}: an Iceberg table is named CATALOG.NAMESPACE.TABLE")
        self.where = f"the Iceberg table {whole}"
        self._name = tuple(name[1:])
        self._parts = parts
        self._table: Table | None = None
        self._schema: pa.Schema | None = None
        try:
            self._catalog = load_catalog(name[0], **properties)
        except Exception as error:  # of any library that a catalog is made of
            raise OptionError(
                f"the Iceberg catalog {name[0]!r} cannot be opened: {first_line(error)}; its properties are in"
                " .pyiceberg.yaml, or given as catalog options"
            ) from error

    def find_location(self) -> str:
        if self._table is not None:
            return str(self._table.location())
        warehouse = self._catalog.properties.get("warehouse", "")
        return warehouse if ":/" in warehouse or warehouse.startswith("/") else "catalog:"  # that of a server is a name

    def read_state(self) -> State | None:
        from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415  # an extra

        with foreign_errors(self.where):
            try:
                self._table = self._catalog.load_table(self._name)
            except NoSuchTableError:
                return None
        written = self._table.properties.get(_STATE)
        if written is None:
            raise TargetError(
                f"{self.where} is not a table of an export, as it has no property {_STATE}: export to a new target"
            )
        divided = [field.name for field in self._table.spec().fields]
        if divided != [_field_name(part) for part in self._parts]:
            raise TargetError(
                f"{self.where} is divided by {', '.join(divided) or 'nothing'}, and this run by"
                f" {name_parts(self._parts)}: export to a new target"
            )
        try:
            state = json.loads(written)
        except ValueError:
            state = written
        self._check_snapshot(self._table, state)
        return parse_state(state, self.where)

    def finish_last_run(self) -> None:
        """Nothing is left to do: a commit is one change of the catalog."""

    def _check_snapshot(self, table: Table, state: Any) -> None:
        """Raises TargetError if the rows were rolled back. Properties stay as they are then."""
        snapshot = table.current_snapshot()
        while snapshot is not None:
            commit = snapshot.summary.additional_properties.get(_COMMIT) if snapshot.summary else None
            if commit is not None:
                if isinstance(state, dict) and commit == state.get(_COMMIT):
                    return
                break
            snapshot = table.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id else None
        if snapshot is not None or (table.current_snapshot() is None and isinstance(state, dict) and _COMMIT in state):
            raise TargetError(
                f"{self.where} was rolled back to an older snapshot since its last export: its rows and its offsets no"
                " longer fit together; export to a new target"
            )

    def check_schema(self, schema: pa.Schema) -> None:
        self._schema = schema
        if self._table is not None:
            there = describe_columns(self._table.schema().as_arrow())
            check_columns(there, describe_columns(schema), self.where, can_add=True)

    def _need_table(self) -> Table:
        """Returns the table, and makes it at first."""
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError  # noqa: PLC0415  # an extra

        if self._table is None:
            with foreign_errors(self.where):
                try:
                    self._table = self._create()
                except (CommitFailedException, TableAlreadyExistsError) as error:
                    raise explain_race(self.where) from error
        return self._table

    def _create(self) -> Table:
        from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform  # noqa: PLC0415  # an extra

        transforms: dict[str, Any] = {
            "topic": IdentityTransform(),
            "partition": IdentityTransform(),
            "day": DayTransform(),
            "hour": HourTransform(),
        }
        self._catalog.create_namespace_if_not_exists(self._name[:-1])
        properties = {_STATE: json.dumps(State({}, {}).to_json())}
        creation = self._catalog.create_table_transaction(self._name, self._schema, properties=properties)
        with creation as change, change.update_spec() as divided:
            for part in self._parts:
                divided.add_field(part.of, transforms[part.column], _field_name(part))
        return self._catalog.load_table(self._name)

    def open_file(self, name: str) -> IO[bytes]:
        table = self._need_table()
        path = f"{table.location().rstrip('/')}/data/{name}"
        with foreign_errors(self.where):
            return table.io.new_output(path).create()  # type: ignore[return-value]

    def commit(self, files: Sequence[DataFile], state: State) -> None:
        from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415  # an extra
        from pyiceberg.table import TableProperties  # noqa: PLC0415  # with it

        table = self._need_table()
        # pyiceberg would add the files again after those of another run. This is not stored in the table.
        table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
        with foreign_errors(self.where):
            try:
                with table.transaction() as change:
                    self._change(change, [f"{table.location().rstrip('/')}/data/{file.name}" for file in files], state)
            except CommitFailedException as error:
                raise explain_race(self.where) from error

    def _change(self, change: Transaction, paths: list[str], state: State) -> None:
        commit = uuid.uuid4().hex
        if paths:
            change.add_files(paths, snapshot_properties={_COMMIT: commit}, check_duplicate_files=False)
        else:  # a snapshot without files: its catalog checks that no other one came before
            with change.update_snapshot(snapshot_properties={_COMMIT: commit}).fast_append():
                pass
        change.set_properties({_STATE: json.dumps(state.to_json() | {_COMMIT: commit})})


def _field_name(part: Part) -> str:
    return part.column if part.column == part.of else f"{part.of}_{part.column}"
