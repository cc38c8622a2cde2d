"""`python -m benchmarks.readme`: rewrites the figures of README.md and docs/speed.md from the saved results.

In: results.json beside this file. Out: new text between `<!-- NAME:begin -->` and `<!-- NAME:end -->`: in the README
one paragraph (front), in docs/speed.md what a user feels (felt) and all headline figures (all). ValueError, and nothing
written into that file, where it does not have exactly these two markers, in this order.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.measure import ROOT

_CODECS = ("none", "lz4", "snappy", "zstd", "gzip")

#: What each group's figures are about, in the order of the table.
_ABOUT = {
    "spark": "full scan in Spark",
    "stages": "full scan without Spark",
    "kafka": "against Spark's Kafka source and a broker on the same machine",
    "scan": "full scan without Spark, one thread",
    "threads": "full scan without Spark, two threads",
    "processes": "full scan without Spark, two processes",
    "windows": "a window of 0.5 % of a large log",
    "zone-maps": "a window of 0.5 % of a log with late records",
    "keys": "by key filters",
    "planning": "planning",
    "scale": "10,000 partitions",
    "tiny": "1,000 tiny segments",
    "streams": "a stream",
    "views": "batches as a table",
    "latest": "the newest record of each key",
    "grep": "a search for a text that occurs nowhere",
    "lines": "text out, beyond a scan",
    "listings": "ls and report",
    "exports": "an export",
    "values": "values of Avro beside a library",
    "kernels": "one core",
    "codecs": "decompression",
    "cold-start": "cold start",
    "memory": "peak memory of a Python worker",
}


def main() -> None:
    """Rewrites both files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readme")
    parser.add_argument("--results", type=Path, default=results.COMMITTED)
    saved = results.load(parser.parse_args().results)
    for page, parts in PARTS.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        for name, figures in parts.items():
            text = rewritten(text, name, figures(saved))
        (ROOT / page).write_text(text, encoding="utf-8")


def rewritten(text: str, name: str, figures: str) -> str:
    """The text with new figures between the markers of this name."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"the text must have one {begin} and, after it, one {end}")
    before, rest = text.split(begin)
    return f"{before}{begin}\n{figures}\n{end}{rest.split(end)[1]}"


def front_figures(saved: dict[str, Any]) -> str:
    """What a user feels, in one paragraph of Markdown. A clause whose figures were not measured is left out."""
    rows = _span([_cell(saved, "scan", f"{codec}, 119 B") for codec in _CODECS])
    ratios = _span([_cell(saved, "kafka", f"{codec}, 119 B") for codec in _CODECS])
    window = _cell(saved, "windows", "time, timestampDisorder: time in Spark").partition(" ")[0]
    clauses = [
        f"A record of 119 bytes takes {rows} ns of CPU without Spark, by its codec." if rows else "",
        f"In Spark, a full scan is {ratios} times as fast as Spark's Kafka source with a broker on the same machine."
        if ratios
        else "",
        f"A window of 0.5 % of a log takes {window} times as long as the whole." if window else "",
    ]
    return " ".join(
        ["**Figures.**", *filter(None, clauses), "[Speed](docs/speed.md) has all of them, with the machine."]
    )


def _span(cells: list[str]) -> str:
    """The least and the greatest of some figures: `146 to 352`; empty where none was measured."""
    figures = sorted((cell.partition(" ")[0] for cell in cells if cell), key=lambda each: float(each.replace(",", "")))
    return f"{figures[0]} to {figures[-1]}" if figures else ""


def felt_figures(saved: dict[str, Any]) -> str:
    """What a user feels, by codec and for a window, as Markdown."""
    columns = [
        ("spark", "{codec}, 119 B: CPU"),
        ("spark", "{codec}, 119 B: CPU of the ceiling"),
        ("scan", "{codec}, 119 B"),
        ("kafka", "{codec}, 119 B"),
        ("memory", "{codec}, 119 B, 1000 MB"),
    ]
    lines = [
        "CPU time of a row of 119 bytes, in ns: in Spark, of which Spark itself takes the *ceiling*, and without Spark.",
        "",
        "| codec | in Spark | ceiling | without Spark | times as fast as Spark's Kafka source | memory of a Python worker |",
        "|---|---|---|---|---|---|",
    ]
    for codec in _CODECS:
        *figures, memory = (_cell(saved, group, name.format(codec=codec)) for group, name in columns)
        numbers = " | ".join(figure.partition(" ")[0] for figure in figures)
        lines.append(f"| {codec} | {numbers} | {memory} |")
    size = _cell(saved, "windows", "time, timestampDisorder: bytes, 1678 MB")
    time = _cell(saved, "windows", "time, timestampDisorder: time in Spark")
    window = (
        f"A time window of 0.5 % of a log of 1.7 GB, with `timestampDisorder`, reads {size.removesuffix(' of its own')} times"
        f" the bytes of the window, and takes {time.removesuffix(' of a full scan')} times as long as a full scan in Spark."
        " [All figures](#all-figures) have what they are held against."
    )
    return f"{_machine(saved)}\n\n" + "\n".join(lines) + f"\n\n{window}"


def _cell(saved: dict[str, Any], group: str, name: str) -> str:
    """One figure with its unit; empty where it was not measured."""
    rows = saved["groups"].get(group, {"rows": []})["rows"]
    return next((f"{_number(row['figure'])} {row['unit']}" for row in rows if row["name"] == name), "")


def all_figures(saved: dict[str, Any]) -> str:
    """A sentence about the machine, and a table of the headline figures of each run, as Markdown.

    Runs have tables of their own, as the speed of the machine changes from one to the next.
    """
    tables: dict[tuple[str, str], list[str]] = {}
    loads: dict[tuple[str, str], list[float]] = {}
    for group, about in _ABOUT.items():
        found = saved["groups"].get(group, {"rows": []})
        lines = [_line(about, row) for row in found["rows"] if row.get("headline")]
        if lines:
            run = found["date"], found["command"]
            tables.setdefault(run, []).extend(lines)
            loads.setdefault(run, []).append(found["load"])
    parts = [_machine(saved)]
    for (date, command), lines in tables.items():
        least, most = min(loads[date, command]), max(loads[date, command])
        load = f"{least:g}" if least == most else f"{least:g} to {most:g}"
        parts.append(f"`{_shorten(command)}` on {date}, at a load of {load}:")
        parts.append("\n".join(["| what | figure | quartiles | goal | holds |", "|---|---|---|---|---|", *lines]))
    return "\n\n".join(parts)


def _line(about: str, row: dict[str, Any]) -> str:
    holds = {True: "yes", False: "no", None: ""}[row["holds"]]
    spread = f"{_number(row['low'])} – {_number(row['high'])}" if "low" in row else ""
    return f"| {about}: {row['name']} | {_number(row['figure'])} {row['unit']} | {spread} | {row.get('goal', '')} | {holds} |"


def _shorten(command: str) -> str:
    """A command without the file that it has written."""
    return command.partition(" --output")[0]


def _machine(saved: dict[str, Any]) -> str:
    machine = saved["machine"]
    dates = sorted({group["date"] for group in saved["groups"].values()})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    versions = ", ".join(f"{name} {machine[name]}" for name in ("pyspark", "pyarrow", "numba"))
    where = f"{machine['cpu']}, {machine['cores']} cores, {machine['memory']}, {machine['os']}"
    return (
        f"Medians of runs of the benchmark, {when}: {where}, Python {machine['python']}, Java {machine['java']},"
        f" {versions}."
    )


def _number(figure: float) -> str:
    digits = 0 if figure >= 100 else 1 if figure >= 10 else 2
    return f"{figure:,.{digits}f}"


#: The pages that have figures: the names of their parts, and what is written there.
PARTS: dict[str, dict[str, Callable[[dict[str, Any]], str]]] = {
    "README.md": {"front": front_figures},
    "docs/speed.md": {"felt": felt_figures, "all": all_figures},
}


if __name__ == "__main__":
    main()
