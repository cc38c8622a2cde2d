"""The tiered stores among the fixtures, and the broker's own copies beside them."""

from __future__ import annotations

import io
import tarfile
from functools import cache
from pathlib import Path

import zstandard

from tests.support import naive
from tests.support.rows import FIXTURES, Row, decoded

TIERED = FIXTURES / "tiered"
AIVEN_STORES = {name: TIERED / name / "store" for name in ("aiven-zstd", "aiven-encrypted")}
LOCAL_TIER, MOVED_TIER = TIERED / "local-tier", TIERED / "moved-tier"
KEY_FILE = TIERED / "keys" / "key1.pem"
KEYS = {"key1": KEY_FILE}
"""Key id, as the manifests say it → PEM file. `tieredKeys` is this as JSON, with the paths as text."""


@cache
def read_local(name: str) -> dict[str, bytes]:
    """The broker's log directory of a fixture: path → bytes."""
    packed = (TIERED / name / "local.tar.zst").read_bytes()
    data = zstandard.ZstdDecompressor().stream_reader(packed).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        files = {member.name: archive.extractfile(member) for member in archive if member.isfile()}
        return {name: file.read() for name, file in files.items() if file is not None}


def unpack_local(name: str, root: Path) -> Path:
    """Write the broker's log directory of a fixture below `root`, which is returned."""
    for path, data in read_local(name).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


@cache
def read_rows(name: str, topic: str, isolation: str = "read_uncommitted") -> list[Row]:
    """What a consumer would see of a topic in a store of Aiven's plugin and in the log beside it, by offset.

    No consumer's answer was kept of these stores. The naive decoder gives it, from the broker's own files.
    """
    local = read_local(name)
    logs = [local[path] for path in sorted(local) if path.startswith(f"{topic}-0/") and path.endswith(".log")]
    records = [record for log in logs for record in naive.decode_log(log)]
    return decoded(naive.committed(records) if isolation == "read_committed" else records, topic)
