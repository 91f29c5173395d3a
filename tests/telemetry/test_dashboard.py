"""The dashboard asks for what the code measures: every metric by its name, every label by its own.

Prometheus gets OpenTelemetry's names with underscores, the unit and what a counter ends in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from foldlog.telemetry import METRICS, Metric
from foldlog.telemetry.metrics import BOUNDARIES
from foldlog.telemetry.outcomes import OUTCOMES

ROOT = Path(__file__).parents[2]
BOARD = json.loads((ROOT / "deploy/grafana/foldlog.json").read_text("utf-8"))
UNITS = {"s": "_seconds", "By": "_bytes"}
FAMILY = re.compile(r"\b(foldlog_\w+)(?:\{([^}]*)\})?")


def prometheus_name(metric: Metric) -> str:
    """The name without what a histogram's series end in."""
    name = metric.name.replace(".", "_") + UNITS.get(metric.unit, "")
    return f"{name}_total" if "counter" in metric.kind else name


def series(metric: Metric) -> set[str]:
    name = prometheus_name(metric)
    if metric.kind == "histogram":
        return {f"{name}{suffix}" for suffix in ("_bucket", "_sum", "_count")}
    return {name}


def expressions(panels: list[dict[str, Any]]) -> Iterator[str]:
    for panel in panels:
        yield from (target["expr"] for target in panel.get("targets", []))
        yield from expressions(panel.get("panels", []))


ASKED = list(expressions(BOARD["panels"]))
BY_SERIES = {name: metric for metric in METRICS for name in series(metric)}


def test_every_name_is_one_that_the_code_has() -> None:
    asked = {name for expression in ASKED for name, _ in FAMILY.findall(expression)}
    assert asked - BY_SERIES.keys() == set()
    assert len(asked) > 10


def test_every_metric_is_shown() -> None:
    asked = {name for expression in ASKED for name, _ in FAMILY.findall(expression)}
    assert [metric.name for metric in METRICS if not series(metric) & asked] == []


def test_every_label_is_one_that_its_metric_has() -> None:
    for expression in ASKED:
        for name, selector in FAMILY.findall(expression):
            known = {"namespace", *BY_SERIES[name].attributes}
            selected = set(re.findall(r"(\w+)[!=]", selector))
            grouped = re.findall(r"by \(([^)]*)\)", expression)
            by = {label.strip() for group in grouped for label in group.split(",")} - {"le"}
            assert (selected | by) - known == set(), expression


def test_outcomes_that_are_asked_for_exist() -> None:
    asked = {word for e in ASKED for word in re.findall(r'outcome!?="([^"]*)"', e)}
    assert asked <= set(OUTCOMES)
    sources = {word for e in ASKED for word in re.findall(r'source="([^"]*)"', e)}
    assert sources == {"hit", "hydration"}


def test_panels_have_names_and_ids_of_their_own() -> None:
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert all(panel["title"] for panel in BOARD["panels"])


def test_histograms_have_buckets() -> None:
    histograms = [metric for metric in METRICS if metric.kind == "histogram"]
    assert all(BOUNDARIES[metric.unit] for metric in histograms)
    assert all(list(b) == sorted(set(b)) for b in BOUNDARIES.values())


def test_the_page_names_every_metric() -> None:
    page = (ROOT / "docs/reference/metrics.md").read_text("utf-8")
    assert [metric.name for metric in METRICS if f"| `{metric.name}` |" not in page] == []
