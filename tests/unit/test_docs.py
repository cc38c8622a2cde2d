"""What the documentation says of options is what the package does. `python -m tests.unit.test_docs`
writes the table."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

from kafka_segment_source.option_table import OPTIONS

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "options.md"
TITLES = {
    page.stem: page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").partition(":")[0]
    for page in (ROOT / "docs").glob("*.md")
}
TABLE = re.compile(r"(<!-- options:begin -->\n).*?(<!-- options:end -->)", re.DOTALL)


def options_table() -> str:
    """The options as Markdown tables, one for each group, in the order of `OPTIONS`."""
    lines = []
    for group, options in groupby(OPTIONS, key=lambda option: option.group):
        lines += [
            f"## {group[0].upper()}{group[1:]}",
            "",
            "| option | default | stream | meaning |",
            "|---|---|---|---|",
        ]
        for option in options:
            meaning = option.help.replace("|", chr(92) + "|")
            meaning = re.sub(r"\bdocs/([a-z-]+)\.md", lambda page: f"[{TITLES[page[1]]}]({page[1]}.md)", meaning)
            lines.append(f"| `{option.name}` | {option.default_words} | {option.stream_words} | {meaning} |")
        lines.append("")
    lines.append(
        "The column *stream* says whether a [stream](streaming.md) has the option, or its default there.\n"
        "`kafka.*`, `groupIdPrefix`, `fetchOffset.*` and `kafkaConsumer.*` are accepted and mean nothing here."
    )
    return "\n".join(lines) + "\n"


def test_the_page_lists_every_option_as_it_is() -> None:
    """The table in docs/options.md is the one made from OPTIONS; write it again with python -m tests.unit.test_docs."""
    found = TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    assert found[0] == f"<!-- options:begin -->\n{options_table()}<!-- options:end -->"


def test_the_front_page_is_short() -> None:
    """A README that grows is a reference; that belongs into docs/."""
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 120


def test_links_in_documents_lead_somewhere() -> None:
    """Every relative link in README, docs and CONTRIBUTING names a file that is there."""
    for page in [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(lambda m: m[1] + options_table() + m[2], text), encoding="utf-8")
