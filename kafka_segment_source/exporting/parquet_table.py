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
import time
import uuid
from collections.abc import Sequence
from typing import IO, Any

import pyarrow as pa

from kafka_segment_source.exporting.data_files import DataFile, Part
from kafka_segment_source.exporting.folders import Folder
from kafka_segment_source.exporting.tables import (
    State,
    TargetError,
    check_columns,
    explain_race,
    name_parts,
    parse_state,
)

_MANIFESTS = "_kafkaseg"
_STAGED = f"{_MANIFESTS}/staged"
_VERSION = 1
_STALE_SECONDS = 24 * 3600  # files of a run that died are removed after this time


class ParquetTable:
    """Parquet files below one folder."""

    keeps_parts = False

    def __init__(self, folder: Folder, parts: Sequence[Part]) -> None:
        self._folder = folder
        self._parts = name_parts(parts)
        self._where = f"the target {folder.path}"
        self._number = 0  # of the last commit
        self._columns: dict[str, str] | None = None
        self._run = f"{_STAGED}/{int(time.time())}-{uuid.uuid4().hex}"
        self._schema: pa.Schema | None = None

    def read_state(self) -> State | None:
        """Reads the last manifest, and finishes its commit if a run died in it."""
        names = self._folder.list(_MANIFESTS)
        numbered = [name for name in names if name.endswith(".json") and not name.startswith(_STAGED)]
        if not numbered:
            if any(name.endswith(".parquet") for name in self._folder.list("") if not name.startswith(_MANIFESTS)):
                raise TargetError(
                    f"{self._where} has Parquet files, and no manifest of an export: export to a new target"
                )
            return None
        manifest = self._read_manifest(numbered[-1])
        self._number = int(numbered[-1].rpartition("/")[2].removesuffix(".json"))
        if manifest.get("by") != self._parts:
            raise TargetError(
                f"{self._where} is divided by {manifest.get('by')}, and this run by {self._parts}: export to a new target"
            )
        self._columns = manifest.get("columns")
        self._place_files(manifest)
        self._remove_stale([name for name in names if name.startswith(f"{_STAGED}/")])
        return parse_state(manifest, self._where)

    def check_schema(self, schema: pa.Schema) -> None:
        self._schema = schema
        if self._columns is not None:
            check_columns(self._columns, {column.name: str(column.type) for column in schema}, self._where)

    def open_file(self, name: str) -> IO[bytes]:
        return self._folder.open_new(f"{self._run}/{name}")

    def commit(self, files: Sequence[DataFile], state: State, before: State | None) -> None:
        assert self._schema is not None
        manifest = {
            "version": _VERSION,
            "by": self._parts,
            "columns": {column.name: str(column.type) for column in self._schema},
            "staged": self._run,
            "files": [{"name": file.name, "rows": file.rows, "bytes": file.size} for file in files],
            **state.to_json(),
        }
        name = f"{_MANIFESTS}/{self._number + 1:020}.json"
        if not self._folder.create(name, json.dumps(manifest, indent=1).encode()):
            raise explain_race(self._where)
        self._number += 1
        self._place_files(manifest)

    def _read_manifest(self, name: str) -> dict[str, Any]:
        data = self._folder.read(name)
        try:
            manifest = json.loads(data or b"")
        except ValueError:
            manifest = None
        if not isinstance(manifest, dict) or manifest.get("version") != _VERSION:
            raise TargetError(f"{self._where}: {name} is no manifest of version {_VERSION}: export to a new target")
        return manifest

    def _place_files(self, manifest: dict[str, Any]) -> None:
        """Gives the files of a manifest their own names, those that have them already apart."""
        for file in manifest["files"]:
            staged = f"{manifest['staged']}/{file['name']}"
            if self._folder.has(staged):
                self._folder.move(staged, file["name"])
            elif not self._folder.has(file["name"]):
                raise TargetError(
                    f"{self._where} lacks {file['name']}, which its last commit lists: somebody removed it; export to a"
                    " new target"
                )

    def _remove_stale(self, names: Sequence[str]) -> None:
        """Removes files of runs that died long ago. No manifest lists them: a listed file is moved by the next run."""
        for name in names:
            begun = name.removeprefix(f"{_STAGED}/").partition("-")[0]
            is_stale = begun.isdigit() and time.time() - int(begun) > _STALE_SECONDS
            if is_stale and self._folder.has(name):
                self._folder.delete(name)
