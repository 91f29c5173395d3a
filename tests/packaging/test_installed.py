"""The wheel in an empty environment outside the checkout, on every Python that can be had."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, read
from tests.packaging.support import (
    PROJECT,
    PYTHONS,
    Distributions,
    Outside,
    environment,
    interpreter,
    without_hashes,
)

pytestmark = pytest.mark.long

OUTSIDE = Path(__file__).with_name("outside.py")
README = next(
    block
    for block in read(ROOT / "README.md").blocks
    if block.language == "python" and block.marker is None
)
FRAMEWORKS = {
    "a2a",
    "ag-ui",
    "agent-framework",
    "assistant-ui",
    "autogen",
    "claude-agent",
    "google-adk",
    "langgraph",
    "openai-agents",
    "penguiflow",
    "pydantic-ai",
    "semantic",
}
"""Extras whose packages constraints-integrations.txt names."""


@pytest.mark.parametrize("version", PYTHONS)
def test_the_wheel_works(version: str, distributions: Distributions, tmp_path: Path) -> None:
    wheel = shutil.copy(distributions.wheel, tmp_path)
    with environment(version, tmp_path) as outside:
        outside.install(wheel, without_hashes("constraints.txt", tmp_path))

        assert outside.run("python", "--version").startswith(f"Python {version}.")
        assert outside.run("foldlog", "--version") == f"foldlog {PROJECT['project']['version']}\n"
        outside.run("python", "-W", "error", "-c", README.text)
        assert json.loads(outside.run("foldlog", "doctor", "--json"))["healthy"]
        needing = dict(line.split() for line in outside.run("python", OUTSIDE).splitlines())
        assert needing["foldlog.testing"] == "testing"
        assert needing["foldlog.integrations.openai_agents"] == "openai-agents"


@pytest.mark.parametrize("constraints", ["constraints.txt", "constraints-integrations.txt"])
def test_the_extras_can_be_installed(
    constraints: str, distributions: Distributions, tmp_path: Path
) -> None:
    all_extras = set(PROJECT["project"]["optional-dependencies"])
    ours = all_extras & FRAMEWORKS if "integrations" in constraints else all_extras - FRAMEWORKS
    python = next(filter(None, map(interpreter, PYTHONS)))
    wheel = f"{distributions.wheel}[{','.join(sorted(ours))}]"
    pinned = without_hashes(constraints, tmp_path)
    report = json.loads(
        Outside(python, tmp_path).install(wheel, pinned, "--dry-run", "--quiet", "--report", "-")
    )
    [foldlog] = [e for e in report["install"] if e["metadata"]["name"] == "foldlog"]
    assert set(foldlog["requested_extras"]) == ours
