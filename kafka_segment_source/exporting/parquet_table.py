"""A directory of Parquet files. A small manifest for each commit is written last, and only if no other run wrote it.

    TARGET/kafkaseg-….parquet, TARGET/day=2026-03-10/kafkaseg-….parquet     rows
    TARGET/_kafkaseg/00000000000000000007.json                             commit 7: its files, and the next offsets
    TARGET/_kafkaseg/staged/…                                              files of a commit that is not there yet

Names that begin with `_` are no data for Spark, pyarrow and others. So a reader of the directory never sees a record
twice. A file gets its own name right after its manifest was written. If a run dies between the two, the next run does
it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from typing import IO, Any

import pyarrow as pa

from kafka_segment_source.exporting.data_files import DataFile, Part, is_ours
from kafka_segment_source.exporting.target_errors import TargetError, explain_race
from kafka_segment_source.exporting.target_tables import State, check_columns, describe_columns, name_parts, parse_state
from kafka_segment_source.storage.folders import Folder

_MANIFESTS = "_kafkaseg"
_MANIFEST = re.compile(rf"{_MANIFESTS}/([0-9]{{20}})\.json")
_STAGED = f"{_MANIFESTS}/staged"
_VERSION = 1
_KEYS = {"by", "columns", "begun", "files", "filesInAll"}
_STALE_SECONDS = 24 * 3600  # files of a run that died are removed after this time


class ParquetTable:
    """Parquet files below one folder."""

    keeps_parts = False

    def __init__(self, folder: Folder, parts: Sequence[Part]) -> None:
        self._folder = folder
        self._parts = name_parts(parts)
        self.where = f"the target {folder.path}"
        self._number = 0  # of the last commit
        self._count = 0  # of the files of all commits
        self._columns: dict[str, str] | None = None
        self._last: tuple[dict[str, Any], list[str]] | None = None  # the last manifest, and all names that were there
        self._begun = int(time.time())
        self._schema: pa.Schema | None = None

    def find_location(self) -> str:
        return self._folder.path

    def read_state(self) -> State | None:
        names = self._folder.list("")
        numbered = [name for name in names if _MANIFEST.fullmatch(name)]
        placed = {name for name in names if not name.startswith(f"{_MANIFESTS}/")}
        if not numbered:
            if any(name.endswith(".parquet") for name in placed):
                raise TargetError(
                    f"{self.where} has Parquet files, and no manifest of an export: export to a new target"
                )
            return None
        manifest = self._read_manifest(numbered[-1])
        self._number = int(numbered[-1][len(_MANIFESTS) + 1 : -len(".json")])
        if manifest.get("by") != self._parts:
            raise TargetError(
                f"{self.where} is divided by {manifest.get('by')}, and this run by {self._parts}: export to a new target"
            )
        self._columns, self._count = manifest["columns"], manifest["filesInAll"]
        listed = {file["name"] for file in manifest["files"]}
        files = len({name for name in placed if is_ours(name)} | listed)
        if files > self._count:
            raise TargetError(
                f"{self.where} has {files} files of exports, and its manifests list {self._count}: a manifest was removed,"
                " files were added, or another run is under way; run it again, or export to a new target"
            )
        for name in listed - placed:
            if _name_staged(manifest["begun"], name) not in names:
                raise TargetError(
                    f"{self.where} lacks {name}, which its last commit lists: somebody removed it; export to a new target"
                )
        self._last = manifest, names
        return parse_state(manifest, self.where)

    def finish_last_run(self) -> None:
        if self._last is None:
            return
        manifest, names = self._last
        staged = {_name_staged(manifest["begun"], file["name"]): file["name"] for file in manifest["files"]}
        for name in names:
            if name in staged:
                self._folder.move(name, staged[name])
            elif name.startswith(f"{_STAGED}/"):
                self._remove_if_stale(name)

    def check_schema(self, schema: pa.Schema) -> None:
        self._schema = schema
        if self._columns is not None:
            check_columns(self._columns, describe_columns(schema), self.where, can_add=False)

    def open_file(self, name: str) -> IO[bytes]:
        return self._folder.open_new(_name_staged(self._begun, name))

    def commit(self, files: Sequence[DataFile], state: State) -> None:
        assert self._schema is not None
        manifest = {
            "version": _VERSION,
            "by": self._parts,
            "columns": describe_columns(self._schema),
            "begun": self._begun,
            "filesInAll": self._count + len(files),
            "files": [{"name": file.name, "rows": file.rows, "bytes": file.size} for file in files],
            **state.to_json(),
        }
        name = f"{_MANIFESTS}/{self._number + 1:020}.json"
        if not self._folder.create(name, json.dumps(manifest, indent=1).encode()):
            raise explain_race(self.where)
        self._number += 1
        self._count += len(files)
        for file in files:
            self._folder.move(_name_staged(self._begun, file.name), file.name)

    def _read_manifest(self, name: str) -> dict[str, Any]:
        data = self._folder.read(name)
        try:
            manifest = json.loads(data or b"")
        except ValueError:
            manifest = None
        if not isinstance(manifest, dict) or manifest.get("version") != _VERSION or not manifest.keys() >= _KEYS:
            raise TargetError(f"{self.where}: {name} is no manifest of version {_VERSION}: export to a new target")
        return manifest

    def _remove_if_stale(self, name: str) -> None:
        """Removes a file of a run that died long ago. No manifest lists it."""
        begun = name.removeprefix(f"{_STAGED}/").partition("-")[0]
        if begun.isdigit() and time.time() - int(begun) > _STALE_SECONDS:
            self._folder.delete(name)


def _name_staged(begun: int, name: str) -> str:
    """Where a file waits for its manifest. begun: when its run began, in seconds."""
    return f"{_STAGED}/{begun}-{name.rpartition('/')[2]}"
