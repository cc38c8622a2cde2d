"""An Iceberg table, by pyiceberg. The files are ours, and a commit of Iceberg adds them.

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
from kafka_segment_source.exporting.delta_table import _in_words
from kafka_segment_source.exporting.tables import State, TargetError, check_columns, explain_race, parse_state

if TYPE_CHECKING:
    from pyiceberg.table import Table

_STATE = "kafkaseg.offsets"  # a property of the table
_COMMIT = "kafkaseg.commit"  # in the summary of each snapshot of an export, and in the state


class IcebergExport:
    """A table of a catalog.

    name: `catalog.namespace.table`. properties: of the catalog, over those of .pyiceberg.yaml.
    """

    keeps_parts = True

    def __init__(self, name: str, parts: Sequence[Part], properties: Mapping[str, str]) -> None:
        try:
            from pyiceberg.catalog import load_catalog  # noqa: PLC0415  # an extra
        except ImportError as error:
            raise UnsupportedError("--format iceberg needs pyiceberg: pip install '.[iceberg]'") from error
        catalog, _, self._name = name.partition(".")
        if "." not in self._name:
            raise OptionError(f"the target is {name!r}: an Iceberg table is named CATALOG.NAMESPACE.TABLE")
        self._catalog = load_catalog(catalog, **properties)
        self._parts = parts
        self._where = f"the Iceberg table {name}"
        self._table: Table | None = None

    def read_state(self) -> State | None:
        from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415  # an extra

        try:
            self._table = self._catalog.load_table(self._name)
        except NoSuchTableError:
            return None
        written = self._table.properties.get(_STATE)
        if written is None:
            raise TargetError(f"{self._where} is not a table of an export: it has no property {_STATE}")
        divided = [field.name for field in self._table.spec().fields]
        if divided != [_field_name(part) for part in self._parts]:
            raise TargetError(
                f"{self._where} is divided by {', '.join(divided) or 'none'}, and this run by"
                f" {', '.join(map(_field_name, self._parts)) or 'none'}: export to a new target"
            )
        state = json.loads(written)
        self._check_snapshot(self._table, state)
        return parse_state(state, self._where)

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
                f"{self._where} was rolled back to an older snapshot since its last export: its rows and its offsets no"
                " longer fit together; export to a new target"
            )

    def check_schema(self, schema: pa.Schema) -> None:
        if self._table is None:
            self._table = self._create(schema)
            return
        check_columns(_in_words(self._table.schema().as_arrow()), _in_words(schema), self._where)

    def _create(self, schema: pa.Schema) -> Table:
        from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform  # noqa: PLC0415  # an extra

        transforms: dict[str, Any] = {"day": DayTransform(), "hour": HourTransform()}
        namespace = self._name.rpartition(".")[0]
        self._catalog.create_namespace_if_not_exists(namespace)
        properties = {_STATE: json.dumps(State({}, {}).to_json())}
        creation = self._catalog.create_table_transaction(self._name, schema, properties=properties)
        with creation as change, change.update_spec() as divided:
            for part in self._parts:
                divided.add_field(part.of, transforms.get(part.column, IdentityTransform()), _field_name(part))
        return self._catalog.load_table(self._name)

    def open_file(self, name: str) -> IO[bytes]:
        assert self._table is not None
        path = f"{self._table.location().rstrip('/')}/data/{name}"
        return self._table.io.new_output(path).create()  # type: ignore[return-value]

    def commit(self, files: Sequence[DataFile], state: State, before: State | None) -> None:
        from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415  # an extra
        from pyiceberg.table import TableProperties  # noqa: PLC0415  # with it

        assert self._table is not None
        # pyiceberg would add the files again after those of another run. This is not stored in the table.
        self._table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
        location = self._table.location().rstrip("/")
        commit = uuid.uuid4().hex
        said = json.dumps(state.to_json() | {_COMMIT: commit})
        try:
            with self._table.transaction() as change:
                if files:
                    paths = [f"{location}/data/{file.name}" for file in files]
                    change.add_files(paths, snapshot_properties={_COMMIT: commit}, check_duplicate_files=False)
                else:  # a snapshot without files: its catalog checks that no other one came before
                    with change.update_snapshot(snapshot_properties={_COMMIT: commit}).fast_append():
                        pass
                change.set_properties({_STATE: said})
        except CommitFailedException as error:
            raise explain_race(self._where) from error


def _field_name(part: Part) -> str:
    return part.column if part.column == part.of else f"{part.of}_{part.column}"
