"""`python -m benchmarks.readme [README.md]`: rewrites the figures between the markers from the saved results.

In: results.json beside this file. Out: the file with a new text between `<!-- benchmark:begin -->` and
`<!-- benchmark:end -->`; ValueError, and nothing written, where it has not exactly these two, in this order.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.measure import ROOT

BEGIN, END = "<!-- benchmark:begin -->", "<!-- benchmark:end -->"

#: What each group's figures are about, in the order of the table.
_ABOUT = {
    "spark": "full scan in Spark",
    "kafka": "against Spark's Kafka source and a broker on the same machine",
    "scan": "full scan without Spark, one thread",
    "windows": "a window of 0.5 % of a large log",
    "zone-maps": "a window of 0.5 % of a log with late records",
    "planning": "planning",
    "tiny": "1,000 tiny segments",
    "kernels": "one core",
    "codecs": "decompression",
    "cold-start": "cold start",
    "memory": "peak memory of a Python worker",
}


def main() -> None:
    """Rewrites the file that is named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readme")
    parser.add_argument("readme", nargs="?", type=Path, default=ROOT / "README.md")
    parser.add_argument("--results", type=Path, default=results.COMMITTED)
    arguments = parser.parse_args()
    text = arguments.readme.read_text(encoding="utf-8")
    arguments.readme.write_text(rewritten(text, results.load(arguments.results)), encoding="utf-8")


def rewritten(text: str, saved: dict[str, Any]) -> str:
    """The text with new figures between its markers."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"the text must have one {BEGIN} and, after it, one {END}")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{figures(saved)}\n{END}{rest.split(END)[1]}"


def figures(saved: dict[str, Any]) -> str:
    """A sentence about the machine, and a table of the headline figures, as Markdown."""
    lines = ["| what | figure | quartiles | goal | holds |", "|---|---|---|---|---|"]
    for group, about in _ABOUT.items():
        for row in saved["groups"].get(group, {"rows": []})["rows"]:
            if row.get("headline"):
                holds = {True: "yes", False: "no", None: ""}[row["holds"]]
                spread = f"{_number(row['low'])} – {_number(row['high'])}" if "low" in row else ""
                figure = f"{_number(row['figure'])} {row['unit']}"
                lines.append(f"| {about}: {row['name']} | {figure} | {spread} | {row.get('goal', '')} | {holds} |")
    return f"{_machine(saved)}\n\n" + "\n".join(lines)


def _machine(saved: dict[str, Any]) -> str:
    machine = saved["machine"]
    dates = sorted({group["date"] for group in saved["groups"].values()})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    versions = ", ".join(f"{name} {machine[name]}" for name in ("pyspark", "pyarrow", "numba"))
    where = f"{machine['cpu']}, {machine['cores']} cores, {machine['memory']}, {machine['os']}"
    return (
        f"Medians of `make bench BENCH=--kafka` on {when}: {where}, Python {machine['python']}, Java {machine['java']},"
        f" {versions}."
    )


def _number(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.2f}"


if __name__ == "__main__":
    main()
