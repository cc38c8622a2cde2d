"""The version of a `.log` that stands for a segment of a tier: it names the segment's objects.

Every segment of a plan is asked for it, so this module loads nothing of tiers.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from kafka_segment_source.storage.store import FileVersion

_IDENTITY = "tier"


class Identity(NamedTuple):
    """What the version of a shown `.log` says: its objects, and the facts of its manifest.

    stem: the name of its objects, without suffix.
    log: the version of the `.log` object.
    manifest: that of the manifest, None for a tier without. last_offset, latest (ms): by the manifest, None where it is
    not believed.
    """

    stem: str
    log: FileVersion
    manifest: FileVersion | None
    last_offset: int | None
    latest: int | None

    def make_version(self, size: int) -> FileVersion:
        """Returns the version of the shown file."""
        return FileVersion(size, json.dumps([_IDENTITY, *self], separators=(",", ":")), 0)


def read_identity(version: FileVersion | None) -> Identity | None:
    """Returns what the version of a shown `.log` says. None for the version of any other file."""
    if version is None or not isinstance(version.identity, str) or not version.identity.startswith(f'["{_IDENTITY}",'):
        return None
    _, stem, log, manifest, last_offset, latest = json.loads(version.identity)
    return Identity(stem, FileVersion(*log), None if manifest is None else FileVersion(*manifest), last_offset, latest)
