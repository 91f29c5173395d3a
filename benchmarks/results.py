"""A run as `results.json` holds it, and back: seconds, bytes, calls a second, by rounds."""

from __future__ import annotations

from typing import Any, Final

from benchmarks.bench import Bench
from benchmarks.measuring import Goal, Measure, Record, Ref, Spread
from benchmarks.report import Report
from benchmarks.site import Site

FORMAT: Final = 1


def dumped(report: Report) -> dict[str, Any]:
    """Return a run as JSON takes it. Medians and outcomes are there for those who only look."""
    bench = report.bench
    return {
        "format": FORMAT,
        "quick": bench.quick,
        "rounds": bench.rounds,
        "machine": report.machine,
        "versions": report.versions,
        "contenders": {
            name: {"promise": promise, **bench.facts[name]}
            for name, promise in bench.promises.items()
        },
        "missing": bench.missing,
        "scenarios": [_scenario(record) for record in bench.records],
    }


def loaded(data: dict[str, Any]) -> Report:
    """Return the run that `dumped` was given. It can be shown, and not gone on with.

    Raises:
        ValueError: the format is another one.
    """
    if data["format"] != FORMAT:
        raise ValueError(f"results of format {data['format']}; this program reads {FORMAT}")
    bench = Bench(Site(), rounds=data["rounds"], quick=data["quick"], missing=data["missing"])
    for name, facts in data["contenders"].items():
        bench.promises[name] = facts.pop("promise")
        bench.facts[name] = facts
    bench.records = [_record(scenario) for scenario in data["scenarios"]]
    return Report(bench, data["machine"], data["versions"])


def _scenario(record: Record) -> dict[str, Any]:
    return {
        "name": record.name,
        "title": record.title,
        "about": record.about,
        "ours": record.ours,
        "goals": [_goal(record, goal) for goal in record.goals],
        "figures": [
            {**ref._asdict(), **Spread.of(rounds)._asdict(), "rounds": rounds}
            for ref, rounds in record.figures.items()
        ],
    }


def _goal(record: Record, goal: Goal) -> dict[str, Any]:
    spread = record.outcome(goal)
    return {
        "what": goal.what,
        "of": goal.of._asdict(),
        "against": goal.against._asdict() if goal.against else None,
        "at_least": goal.at_least,
        "at_most": goal.at_most,
        "measured": spread._asdict() if spread else None,
        "met": goal.is_met(spread) if spread else None,
    }


def _record(scenario: dict[str, Any]) -> Record:
    record = Record(scenario["name"], scenario["title"], scenario["about"], scenario["ours"])
    for figure in scenario["figures"]:
        record.figures[_ref(figure)] = figure["rounds"]
    for goal in scenario["goals"]:
        of, against = _ref(goal["of"]), _ref(goal["against"]) if goal["against"] else None
        record.goals.append(Goal(goal["what"], of, against, goal["at_least"], goal["at_most"]))
    return record


def _ref(found: dict[str, Any]) -> Ref:
    return Ref(found["case"], found["contender"], Measure(found["measure"]))
