"""Servers of others, for the tests of object stores: s3proxy from Maven Central, Azurite from npm.

Each is fetched once into the cache directory of `jars.py`, listens on 127.0.0.1, and is stopped at the end.
`python -m tests.support.store_servers` fetches both, and prints the names of those that are there.
"""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.jars import S3PROXY, cache_directory, java_command

AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account of every Azurite, and its key, which Microsoft's documentation has."""

_AZURITE = "3.35.0"
_SECONDS = 60  # for a server to start, on a busy machine
_QUIET = '<configuration><root level="WARN"/></configuration>\n'


@contextmanager
def serving_s3proxy(user: str, secret: str) -> Iterator[str]:
    """Runs s3proxy with a directory of its own. The URL of it."""
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="kafkaseg-s3proxy-") as folder:
        (Path(folder) / "buckets").mkdir()
        (Path(folder) / "logback.xml").write_text(_QUIET)
        properties = {
            "s3proxy.endpoint": f"http://127.0.0.1:{port}",
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": user,
            "s3proxy.credential": secret,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": f"{folder}/buckets",
            "jclouds.identity": user,
            "jclouds.credential": secret,
        }
        settings = Path(folder) / "s3proxy.conf"
        settings.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
        java, *rest = java_command(S3PROXY, "org.gaul.s3proxy.Main", "--properties", str(settings))
        with _running([java, f"-Dlogback.configurationFile={folder}/logback.xml", *rest], port):
            yield f"http://127.0.0.1:{port}"


@contextmanager
def serving_azurite() -> Iterator[str]:
    """Runs Azurite's blob service in memory. The URL of its account."""
    program = _find_azurite()
    port = _free_port()
    words = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--silent"]
    with _running([str(program), *words, "--skipApiVersionCheck", "--disableTelemetry"], port):
        yield f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"


def _find_azurite() -> Path:
    """Returns Azurite's program. It is fetched the first time, into a directory that is renamed when it is whole."""
    folder = cache_directory() / f"azurite-{_AZURITE}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as part:
            command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", part, f"azurite@{_AZURITE}"]
            subprocess.run(command, check=True, capture_output=True)
            Path(part).rename(folder)
            Path(part).mkdir()  # for its removal
    return folder / "node_modules" / ".bin" / "azurite-blob"


def main() -> None:
    """Fetches the servers, and prints the names of those that are there."""
    for name, fetch in (("s3proxy", S3PROXY.directory), ("azurite", _find_azurite)):
        with suppress(OSError, subprocess.CalledProcessError):  # no mvn, no npm, or no way to a registry
            fetch()
            print(name)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    """Runs a server until the end of the block, which begins when its port answers."""
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + _SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < end, f"{command[0]} does not start"
                time.sleep(0.05)
        yield
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
