"""The pictures of a run, as SVG. Needs matplotlib, which the bench dependency group names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from benchmarks.measuring import Measure, Record, Ref
from benchmarks.report import shown
from benchmarks.unavailable import Unavailable

_OURS: Final = "#c2410c"
_COLOURS: Final = {
    "foldlog": _OURS,
    "JetStream publish": "#94a3b8",
    "JetStream batch": "#475569",
    "PostgreSQL": "#2563eb",
    "Redis + PostgreSQL": "#7c3aed",
    "SQLite": "#0f766e",
    "PenguiFlow in memory": "#ca8a04",
    "foldlog with its server": "#fdba74",
}
_STYLE: Final = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "font.size": 10,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.hashsalt": "foldlog",  # so that the same figures give the same file
}

Draw = Callable[[Any, Record], None]


def draw(records: Iterable[Record], directory: Path) -> list[Path]:
    """Write a picture for each scenario that has one; return their paths.

    Raises Unavailable where matplotlib is not installed.
    """
    try:
        matplotlib = import_module("matplotlib")
    except ImportError:
        raise Unavailable("matplotlib is not installed") from None
    matplotlib.use("svg")
    pyplot = import_module("matplotlib.pyplot")
    written = []
    by_name = {record.name: record for record in records}
    with pyplot.rc_context(_STYLE):
        for name, scenario, picture in _PICTURES:
            record = by_name.get(scenario)
            if record is None or not record.figures:
                continue
            figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
            picture(axes, record)
            path = directory / f"{name}.svg"
            figure.savefig(path, metadata={"Date": None})
            pyplot.close(figure)
            written.append(path)
    return written


def _throughput(axes: Any, record: Record) -> None:
    _lines(axes, record, Measure.RATE)
    axes.set(
        title="Durable saves a second, by writers",
        xlabel="writers, each awaiting its save before the next",
        ylabel="saves a second",
        xscale="log",
        yscale="log",
    )
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    _ticks(axes, record)


def _latency(axes: Any, record: Record) -> None:
    """A bar from the median to the 99th percentile, for one writer and for the most."""
    cases = _cases(record)
    shown_cases = [cases[0], cases[len(cases) // 2], cases[-1]]
    # A batch of the ceiling is no save: its time says nothing here.
    names = [name for name in _contenders(record) if name != "JetStream batch"]
    for place, case in enumerate(shown_cases):
        for row, name in enumerate(names):
            p50, p99 = (record.spread(Ref(case, name, m)) for m in (Measure.P50, Measure.P99))
            if p50 is None or p99 is None:
                continue
            at = row + (place - 1) * 0.25
            colour, alpha = _colour(name), 1 - 0.3 * place
            axes.plot([p50.median, p99.median], [at, at], color=colour, alpha=alpha, lw=3)
            axes.plot(p50.median, at, "o", color=colour, alpha=alpha, ms=6)
            axes.plot(p99.median, at, "|", color=colour, alpha=alpha, ms=11, mew=2)
            axes.annotate(
                f"{case}: {shown(Measure.P50, p50.median)} / {shown(Measure.P99, p99.median)}",
                (p99.median, at),
                xytext=(7, 0),
                textcoords="offset points",
                va="center",
                fontsize=7,
            )
    axes.set(
        title="Time of one save: median (dot) to 99th percentile (bar)",
        xlabel="milliseconds",
        xscale="log",
        yticks=range(len(names)),
        yticklabels=names,
    )
    axes.set_xlim(right=axes.get_xlim()[1] * 6)  # room for the words
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value * 1e3:g}")


def _opening(axes: Any, record: Record) -> None:
    _lines(axes, record, Measure.TIME, 1e3)
    axes.set(
        title=record.title,
        xlabel="updates in the log, or in the table",
        ylabel="milliseconds",
        xscale="log",
    )
    axes.set_ylim(bottom=0)
    _ticks(axes, record)


def _memory(axes: Any, record: Record) -> None:
    _lines(axes, record, Measure.BYTES, 2**-20)
    axes.set(title=record.title, xlabel="sessions written so far", ylabel="resident memory, MiB")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


_PICTURES: Final[tuple[tuple[str, str, Draw], ...]] = (
    ("throughput", "saves", _throughput),
    ("latency", "saves", _latency),
    ("opening", "cold-open", _opening),
    ("memory", "memory", _memory),
)
"""Each picture's file, the scenario it shows, and how."""


def _lines(axes: Any, record: Record, measure: Measure, scale: float = 1) -> None:
    """A line for each contender through the medians, the rounds' range behind it."""
    for name in _contenders(record):
        points = [
            (_number(case), spread)
            for case in _cases(record)
            if (spread := record.spread(Ref(case, name, measure))) is not None
        ]
        at = [x for x, _ in points]
        own = name == record.ours
        line = {"marker": "o", "ms": 4, "lw": 2.5 if own else 1.5, "zorder": 3 if own else 2}
        axes.plot(
            at, [s.median * scale for _, s in points], label=name, color=_colour(name), **line
        )
        low, high = [s.low * scale for _, s in points], [s.high * scale for _, s in points]
        axes.fill_between(at, low, high, color=_colour(name), alpha=0.12, lw=0)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))


def _ticks(axes: Any, record: Record) -> None:
    numbers = [_number(case) for case in _cases(record)]
    axes.set_xticks(numbers, [f"{number:,}" for number in numbers])
    axes.minorticks_off()


def _cases(record: Record) -> list[str]:
    return list(dict.fromkeys(ref.case for ref in record.figures))


def _contenders(record: Record) -> list[str]:
    return list(dict.fromkeys(ref.contender for ref in record.figures))


def _colour(name: str) -> str:
    return _COLOURS.get(name, "#64748b")


def _number(case: str) -> int:
    """The number with which a case's name begins."""
    return int(case.split()[0].replace(",", ""))
