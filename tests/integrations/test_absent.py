"""No adapter is imported unless it is used, and one without its framework says what to install."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import foldlog.integrations
from foldlog.errors import ConfigurationError
from foldlog.integrations.penguiflow.classes import installed
from tests.integrations.missing import is_installed

ROOT = Path(__file__).parents[2]

FRAMEWORKS = {
    "a2a": "a2a",
    "agent_framework": "agent_framework",
    "assistant_ui": "assistant_stream",
    "autogen": "autogen_core",
    "claude_agent": "claude_agent_sdk",
    "google_adk": "google.adk",
    "langgraph": "langgraph",
    "openai_agents": "agents",
    "penguiflow": "penguiflow",
    "pydantic_ai": "pydantic_ai",
}
"""By the name of the adapter's module, the package of its framework."""

LATE = {"langgraph", "penguiflow"}
"""Adapters that can be imported without their framework, and say so when they are used."""

ADAPTERS = {info.name for info in pkgutil.iter_modules(foldlog.integrations.__path__)}


def test_every_adapter_has_an_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {extra.replace("-", "_") for extra in project["optional-dependencies"]}
    assert FRAMEWORKS.keys() <= extras


def test_foldlog_and_a_store_in_use_import_no_framework() -> None:
    code = (
        "import asyncio, sys, foldlog\n"
        "async def use():\n"
        "    async with foldlog.memory_store() as store:\n"
        "        await store.append_messages('s', [foldlog.Message('1', 'openai_agents', {})])\n"
        "asyncio.run(use())\n"
        f"print(sorted({set(FRAMEWORKS.values())!r} & sys.modules.keys()))\n"
        "print(sorted(m for m in sys.modules if m.startswith('foldlog.integrations')))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.split() == ["[]", "[]"]


@pytest.mark.parametrize("adapter", sorted(ADAPTERS & FRAMEWORKS.keys() - LATE))
def test_an_adapter_without_its_framework_names_the_extra(
    adapter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = f"foldlog.integrations.{adapter}", FRAMEWORKS[adapter]
    for name in list(sys.modules):
        if name.startswith((f"{theirs}.", f"{ours}.")) or name == ours:
            monkeypatch.delitem(sys.modules, name)
    if is_installed(theirs):
        monkeypatch.setitem(sys.modules, theirs, None)
    extra = adapter.replace("_", "[-_]")
    with pytest.raises(ConfigurationError, match=rf"pip install 'foldlog\[{extra}\]'"):
        importlib.import_module(ours)


def test_without_penguiflow_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "penguiflow.state", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'foldlog\[penguiflow\]'"):
        installed.__wrapped__()
