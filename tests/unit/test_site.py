"""The documentation site builds without a network and without a warning, and has every public name and every page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import kafka_segment_source
from tests.support.cases import takes_long

pytestmark = takes_long

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "site"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it. Sphinx ends with an error for a link to nothing."""
    target = tmp_path_factory.mktemp("site")
    command = ["-m", "sphinx", "-q", "-W", "--keep-going", "-c", str(SITE), "-d", str(target / "trees")]
    done = subprocess.run(
        [sys.executable, *command, str(ROOT), str(target / "html")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return target / "html"


def test_every_page_is_in_the_contents(site: Path) -> None:
    """The pages that the repository has, and the notebook with its picture."""
    contents = (SITE / "contents.md").read_text()
    for page in sorted(ROOT.glob("docs/*.md")):
        assert f"../{page.stem}\n" in contents
        assert (site / "docs" / f"{page.stem}.html").is_file()
    assert "data:image" in (site / "examples" / "time_range.html").read_text() or list((site / "_images").iterdir())


def test_the_front_page_leads_to_the_readme(site: Path) -> None:
    """The address of the site alone is enough."""
    [target] = re.findall(r"url=([^\"]+)", (site / "index.html").read_text())
    assert (site / target).is_file()


def test_the_api_page_has_every_public_name(site: Path) -> None:
    """Each is described where it stands, the errors too."""
    page = (site / "docs" / "site" / "api.html").read_text()
    for name in sorted(set(kafka_segment_source.__all__) - {"__version__", "errors"}):
        assert re.search(rf'id="kafka_segment_source\.(errors\.)?{name}"', page), name


def test_the_command_page_has_every_command(site: Path) -> None:
    """With its options as they are typed."""
    from kafka_segment_source.cli import cli  # noqa: PLC0415

    page = (site / "docs" / "site" / "cli.html").read_text()
    for name in cli.list_commands(None):  # type: ignore[arg-type]
        assert f">{name}<" in page
    assert "--timestamp-disorder" in page
