"""What a run found, for people: Markdown, ratios first. For programs: `benchmarks.results`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.bench import Bench
from benchmarks.measuring import Goal, Measure, Record, Ref, Spread

_WHAT = {
    Measure.RATE: "a second",
    Measure.TIME: "time",
    Measure.P50: "time, median",
    Measure.P99: "time, 99th percentile",
    Measure.BYTES: "resident memory",
    Measure.STORED: "bytes in the log",
}


@dataclass(frozen=True)
class Report:
    """A finished run, and what it ran on."""

    bench: Bench
    machine: dict[str, str]
    versions: dict[str, str]

    def markdown(self) -> str:
        """The whole run as Markdown, beginning with the ratios."""
        parts = [self._introduction(), *self._goals(), *self._missing()]
        for record in self.bench.records:
            parts += [f"### {record.title}", record.about, *_tables(record)]
        return "\n\n".join([*parts, *self._conditions()]) + "\n"

    def _introduction(self) -> str:
        kind = "A quick run, too short to rely on," if self.bench.quick else "A run"
        where = ", ".join(
            f"{self.machine['cores']} cores" if name == "cores" else value
            for name, value in self.machine.items()
            if name in ("processor", "cores", "memory", "file system")
        )
        return (
            f"{kind} of {self.bench.rounds} rounds, on {where}; one 4 KiB write with fdatasync "
            f"takes {self.machine['one 4 KiB write with fdatasync']}. Each cell: the median of the "
            "rounds (the lowest to the highest). Ratios are formed within each round."
        )

    def _goals(self) -> list[str]:
        rows = []
        for record in self.bench.records:
            for goal in record.goals:
                spread = record.outcome(goal)
                found = "not measured" if spread is None else _outcome(goal, spread)
                met = "" if spread is None else "yes" if goal.is_met(spread) else "**no**"
                rows.append([goal.what, found, _bound(goal), met])
        if not rows:
            return []
        return ["### Ratios", _table(["what", "measured", "aim", "met"], rows)]

    def _missing(self) -> list[str]:
        if not self.bench.missing:
            return []
        rows = [[name, reason] for name, reason in self.bench.missing.items()]
        return ["### Not measured here", _table(["contender", "why"], rows)]

    def _conditions(self) -> list[str]:
        facts = self.bench.facts
        contenders = [
            [name, promise, ", ".join(f"{key} {value}" for key, value in facts[name].items())]
            for name, promise in self.bench.promises.items()
        ]
        surroundings = [[name, value] for name, value in {**self.machine, **self.versions}.items()]
        return [
            "### Conditions",
            _table(["contender", "once a save has returned", "as it says itself"], contenders),
            _table(["machine and packages", ""], surroundings),
        ]


def shown(measure: Measure, value: float) -> str:
    """A value with a unit that suits its size."""
    if measure is Measure.RATE:
        return f"{value:,.0f}/s"
    if measure in (Measure.BYTES, Measure.STORED):
        for unit, bits in (("bytes", 0), ("KiB", 10)):
            if value < 2 ** (bits + 14):
                return f"{value / 2**bits:,.0f} {unit}"
        return f"{value / 2**20:,.0f} MiB"
    for unit, scale in (("µs", 1e6), ("ms", 1e3)):
        if value * scale < 1000:
            return f"{value * scale:.3g} {unit}"
    return f"{value:.2f} s"


def _tables(record: Record) -> list[str]:
    measures = list(dict.fromkeys(ref.measure for ref in record.figures))
    cases = list(dict.fromkeys(ref.case for ref in record.figures))
    contenders = list(dict.fromkeys(ref.contender for ref in record.figures))
    peers = [name for name in contenders if not name.startswith(record.ours)]
    parts = []
    if peers:
        how = "needs less" if measures[0] in (Measure.BYTES, Measure.STORED) else "is faster"
        parts += [
            f"{record.ours} {how} by this factor:",
            _grid(cases, peers, partial(_ratio, record, measures[0])),
        ]
    for measure in measures:
        parts += [
            f"{_WHAT[measure].capitalize()}:",
            _grid(cases, contenders, partial(_figure, record, measure)),
        ]
    return parts


def _grid(cases: Sequence[str], contenders: Sequence[str], cell: Callable[[str, str], str]) -> str:
    """A table with whichever there are fewer of as columns, without those that are empty."""
    cases = [case for case in cases if any(cell(case, name) for name in contenders)]
    contenders = [name for name in contenders if any(cell(case, name) for case in cases)]
    if len(cases) > len(contenders):
        rows = [[case, *(cell(case, name) for name in contenders)] for case in cases]
        return _table(["", *contenders], rows)
    return _table(
        ["", *cases], [[name, *(cell(case, name) for case in cases)] for name in contenders]
    )


def _figure(record: Record, measure: Measure, case: str, contender: str) -> str:
    spread = record.spread(Ref(case, contender, measure))
    if spread is None:
        return ""
    median, low, high = (shown(measure, value) for value in spread)
    return f"{median} ({low} to {high})"


def _ratio(record: Record, measure: Measure, case: str, contender: str) -> str:
    spread = record.times_as_good(Ref(case, contender, measure))
    return "" if spread is None else _times(spread)


def _times(spread: Spread) -> str:
    median, low, high = (f"{value:.3g}" if value < 1000 else f"{value:,.0f}" for value in spread)
    return f"{median}x ({low} to {high})"


def _outcome(goal: Goal, spread: Spread) -> str:
    if goal.against is not None:
        return _times(spread)
    median, low, high = (shown(goal.of.measure, value) for value in spread)
    return f"{median} ({low} to {high})"


def _bound(goal: Goal) -> str:
    word, bound = "at most", goal.at_most
    if goal.at_least is not None:
        word, bound = "at least", goal.at_least
    assert bound is not None
    return f"{word} {f'{bound:g}x' if goal.against else shown(goal.of.measure, bound)}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
