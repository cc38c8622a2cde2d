"""Sums by time → two SVG pictures: volume of each topic, and of each partition.

Colours of texts and lines are those of the page, so the pictures fit its light and its dark side.
"""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from kafka_segment_source.report.facts import Facts

_TEXT, _LINE = "#010203", "#040506"  # stand-ins: the page's colours take their place
_COLOURS = ("#3b82f6", "#f59e0b", "#10b981", "#ef4444", "#8b5cf6", "#14b8a6", "#ec4899", "#84cc16")
_OTHERS = "#94a3b8"
MOST_PARTITIONS = 40  # rows of the second picture
_WIDTH, _RIGHT = 10.0, 1.9  # inches: of a picture, and to the right of its axes
_LEAST_LEFT, _PER_CHARACTER = 0.75, 0.078  # inches: to the left of the axes, for numbers and for names
_NAME, _LEGEND = 30, 24  # characters of a name, to the left of a picture and in its legend
Doubles = npt.NDArray[np.float64]


def draw_volume(facts: Facts) -> str:
    """Draws records and bytes a slot of time, stacked by topic. One topic alone is stacked by partition."""
    series = _sum_series(facts)
    if not facts.slots or not series:
        return ""
    with _style():
        figure = _make_figure(facts, 4.6, above=0.15)
        above, below = figure.subplots(2, 1, sharex=True)
        for axes, which, label in ((above, 0, "records"), (below, 1, "bytes")):
            bottom = np.zeros(facts.slots)
            for (name, sums), colour in zip(series.items(), (*_COLOURS, _OTHERS), strict=False):
                axes.bar(
                    _moments(facts),
                    sums[which],
                    _days(facts),
                    bottom,
                    color=colour,
                    label=_shorten(name, _LEGEND),
                    align="edge",
                )
                bottom += sums[which]
            axes.set_ylabel(label)
            axes.yaxis.set_major_formatter(mpl.ticker.EngFormatter())
            axes.grid(axis="y")
            axes.set_axisbelow(True)
        _label_times(below, facts)
        above.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=8, handlelength=1.2)
        return _to_svg(figure, "Records and bytes by time")


def draw_partitions(facts: Facts) -> str:
    """Draws a row for each partition, darker where more records came in. A hole in time is a gap in its row."""
    shown = _select_partitions(facts)
    if not facts.slots or not shown:
        return ""
    counts = np.array([_sums_of(facts, [partition])[0] for partition in shown])
    with _style():
        figure = _make_figure(facts, 0.7 + 0.24 * len(shown), above=0.1)
        axes = figure.subplots()
        edges = [*_moments(facts), _moments(facts)[-1] + _days(facts)]
        shades = [(*mpl.colors.to_rgb(_COLOURS[0]), alpha) for alpha in np.linspace(0.15, 1, 64)]
        mesh = axes.pcolormesh(
            edges,
            np.arange(len(shown) + 1),
            np.ma.masked_equal(counts, 0),
            cmap=mpl.colors.ListedColormap(shades),
            norm=mpl.colors.LogNorm(1, max(counts.max(), 2)),
            rasterized=True,
        )
        axes.set_yticks(np.arange(len(shown)) + 0.5, [_name(partition) for partition in shown])
        axes.invert_yaxis()
        _label_times(axes, facts)
        height = figure.get_figheight()
        tall = min(1.6, height - 0.7)
        beside = figure.add_axes((1 - _RIGHT / _WIDTH + 0.02, 1 - (tall + 0.1) / height, 0.015, tall / height))
        figure.colorbar(mesh, cax=beside, label="records", format=mpl.ticker.EngFormatter())
        return _to_svg(figure, "Records of each partition by time")


def _sum_series(facts: Facts) -> Mapping[str, Doubles]:
    """Sums by topic, or by partition of a single topic: the largest by themselves, and the others in one."""
    partitions = facts.batches.partitions
    groups: dict[str, list[tuple[str, int]]] = defaultdict(list)
    is_single = len({topic for topic, _ in partitions}) == 1
    for topic, number in sorted(partitions):
        groups[f"{topic}-{number}" if is_single else topic].append((topic, number))
    sums = {name: _sums_of(facts, members) for name, members in groups.items()}
    order = sorted(sums, key=lambda name: -float(sums[name][1].sum()))
    series = {name: sums[name] for name in order[: len(_COLOURS)]}
    if order[len(_COLOURS) :]:
        series[f"{len(order) - len(_COLOURS)} others"] = sum(
            (sums[name] for name in order[len(_COLOURS) :]), np.zeros(1)
        )
    return series


def _sums_of(facts: Facts, members: Sequence[tuple[str, int]]) -> Doubles:
    """Records and bytes of some partitions in each slot: double[2, slots]. What lies outside the slots is left out."""
    sums = np.zeros((2, facts.slots))
    first = facts.start // 1000 // facts.width
    for member in members:
        for slot, (records, size) in facts.batches.partitions[member].slots.items():
            if 0 <= slot - first < facts.slots:
                sums[:, slot - first] += records, size
    return sums


def _moments(facts: Facts) -> list[float]:
    start = facts.start // 1000
    return [float(date2num(datetime.fromtimestamp(start + slot * facts.width, UTC))) for slot in range(facts.slots)]


def _days(facts: Facts) -> float:
    """A slot's width, as matplotlib counts time."""
    return facts.width / 86400


def _select_partitions(facts: Facts) -> list[tuple[str, int]]:
    """The partitions of the second picture: those with most bytes, in order."""
    partitions = facts.batches.partitions
    return sorted(sorted(partitions, key=lambda partition: -partitions[partition].size)[:MOST_PARTITIONS])


def _name(partition: tuple[str, int]) -> str:
    topic, number = partition
    return _shorten(f"{topic}-{number}")


def _make_figure(facts: Facts, height: float, above: float) -> Figure:
    """Makes a figure whose axes begin and end where those of the other picture do. height, above: inches.

    To the left is room for the names of the second picture.
    """
    left = max(
        _LEAST_LEFT, 0.2 + _PER_CHARACTER * max(len(_name(partition)) for partition in _select_partitions(facts))
    )
    figure = Figure(figsize=(_WIDTH, height))
    figure.subplots_adjust(left / _WIDTH, 0.5 / height, 1 - _RIGHT / _WIDTH, 1 - above / height, hspace=0.15)
    return figure


def _label_times(axes: Axes, facts: Facts) -> None:
    axes.set_xlim(_moments(facts)[0], _moments(facts)[-1] + _days(facts))
    axes.xaxis_date(tz=UTC)
    locator = AutoDateLocator(tz=UTC)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))


def _shorten(name: str, most: int = _NAME) -> str:
    """A name with its middle left out, if it is long. Its partition number stays."""
    return name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-most // 2 :]}"


@contextmanager
def _style() -> Iterator[None]:
    with mpl.rc_context(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "kafkaseg",
            "font.family": "sans-serif",
            "font.size": 10,
            "text.color": _TEXT,
            "axes.labelcolor": _TEXT,
            "xtick.color": _TEXT,
            "ytick.color": _TEXT,
            "axes.edgecolor": _LINE,
            "grid.color": _LINE,
            "grid.linewidth": 0.5,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.facecolor": "none",
            "axes.facecolor": "none",
            "text.parse_math": False,
        }
    ):
        yield


def _to_svg(figure: Figure, title: str) -> str:
    out = io.StringIO()
    FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None, "Creator": None, "Title": title})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :].replace(_TEXT, "currentColor").replace(_LINE, "var(--line)")
    # a page holds two pictures, so their ids must differ
    prefix = re.sub(r"\W+", "-", title.lower())
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", svg)
    return re.sub(r'<svg ([^>]*?)width="[^"]*"', r'<svg role="img" \1width="100%"', svg, count=1).replace(
        'height="', 'data-height="', 1
    )
