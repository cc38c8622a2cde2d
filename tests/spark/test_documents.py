"""Every example in README and docs is run: Python blocks with Spark, SQL statements, and `kafkaseg` commands."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import kafka_segment_source
from kafka_segment_source.cli import cli
from tests.support.rows import ORDERS
from tests.support.tiers import AIVEN_STORES, KEY_FILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.buckets import Bucket

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"```(python|sql)\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"`(kafkaseg [a-z]+ [^`]*)`|^(kafkaseg [a-z]+ (?:.*\\\n)*.*)$", re.MULTILINE)
# of docs/etl.md: run by tests/examples/test_etl_documents.py, over a log that holds Avro
APART = ("_corrupt_record IS NULL",)
BLOCKS = [
    (page.name, kind, code)
    for page in PAGES
    for kind, code in BLOCK.findall(page.read_text(encoding="utf-8"))
    if not any(name in code for name in APART)
]
COMMANDS = sorted(
    {found[1] or found[2] for page in PAGES for found in COMMAND.finditer(page.read_text(encoding="utf-8"))}
)


@pytest.fixture
def stored(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bucket | None:
    """The bucket of an example that needs one, with the demo's segments, and its options in the environment."""
    if not any("s3://" in str(each) or "s3a://" in str(each) for each in request.node.callspec.params.values()):
        return None
    bucket: Bucket = request.getfixturevalue("bucket")
    bucket.put_tree(ORDERS / "data", "kafka")
    bucket.put_tree(AIVEN_STORES["aiven-zstd"], "tier")
    for name, text in bucket.options.items():
        monkeypatch.setenv(name.upper(), text)
    return bucket


def on_this_machine(text: str, tmp_path: Path, bucket: Bucket | None = None) -> str:
    """The example with the demo's segments for its paths, on the disk and in the bucket."""
    if bucket is not None:
        for shown, real in (
            ("//backups/kafka/2026-11-21", f"//{bucket.name}/kafka"),
            ("//bucket/tier", f"//{bucket.name}/tier"),
            ("/etc/keys/tier.pem", str(KEY_FILE)),
            ("https://minio.example:9000", bucket.options["aws_endpoint_url"]),
            ("ACCESS-KEY", bucket.options["aws_access_key_id"]),
            ("SECRET-KEY", bucket.options["aws_secret_access_key"]),
        ):
            text = text.replace(shown, real)
    restored = tmp_path / "p0"
    if not restored.exists():
        shutil.copytree(ORDERS / "data" / "orders-0", restored)
    text = re.sub(r"(?<![\w.])/data/", f"{tmp_path}/data/", text)  # and not examples/data/
    for path, real in (
        ("/var/kafka-logs", ORDERS / "data"),
        ("/restore/p0", restored),
        ("PATH", ORDERS / "data"),
        ("/var/lib/kafkaseg", tmp_path / "maps"),
        ("--to report.html", f"--to {tmp_path / 'report.html'}"),
    ):
        text = text.replace(path, str(real))
    # the demo's rows are of 2026-03-10: every time ago reaches them
    return re.sub(r"-(2h|10 minutes)\b", "-500w", text)


@pytest.mark.parametrize(("page", "kind", "code"), BLOCKS, ids=[f"{page}-{n}" for n, (page, _, _) in enumerate(BLOCKS)])
def test_code_in_documents(
    page: str, kind: str, code: str, spark: SparkSession, tmp_path: Path, stored: Bucket | None
) -> None:
    """A block runs as it stands, but for its paths; what it reads has rows."""
    code = on_this_machine(code, tmp_path, stored)
    if kind == "sql":
        for statement in filter(None, (part.strip() for part in re.sub(r"--.*", "", code).split(";"))):
            spark.sql(statement).count()
        spark.sql("DROP TABLE IF EXISTS t")
        spark.catalog.dropTempView("v")
        return
    lines = [line for line in code.splitlines() if 'format("kafka")' not in line]  # that one needs a broker
    names: dict[str, Any] = {"spark": spark, "kafka_segment_source": kafka_segment_source}
    names |= {"options": stored.options if stored is not None else {}}
    exec("import os, sys\n" + "\n".join(lines), names)
    if "df" in names:
        assert names["df"].count() > 0


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_in_documents(command: str, tmp_path: Path, stored: Bucket | None) -> None:
    """A command ends with exit code 0 over the demo's segments, and leaves no file beside them."""
    (tmp_path / "data").mkdir()
    words = shlex.split(on_this_machine(command.replace("\\\n", ""), tmp_path, stored))[1:]
    before = set(Path.cwd().iterdir())
    told = CliRunner().invoke(cli, words)
    assert told.exit_code == 0, told.output
    assert set(Path.cwd().iterdir()) == before
