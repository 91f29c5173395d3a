"""The programs of the frameworks' pages print what the pages say, and the examples run.

Those of PenguiFlow have a form of their own.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, Block
from tests.docs.programs import run, with_outputs
from tests.integrations.missing import is_installed, make_has_it
from tests.integrations.test_absent import FRAMEWORKS

PAGES = {
    "autogen": "guides/frameworks/autogen.md",
    "langgraph": "guides/frameworks/langgraph.md",
    "a2a": "guides/frameworks/a2a.md",
    "assistant_ui": "guides/frameworks/assistant_ui.md",
    "agent_framework": "guides/frameworks/agent_framework.md",
    "claude_agent": "guides/frameworks/claude_agent.md",
    "google_adk": "guides/frameworks/google_adk.md",
    "openai_agents": "guides/frameworks/openai_agents.md",
    "pydantic_ai": "guides/frameworks/pydantic_ai.md",
}
DURABLE = dict.fromkeys(
    ["google_adk", "langgraph", "openai_agents", "pydantic_ai"], "guides/durable-agents.md"
)
"""The frameworks that have a tab there."""

PROGRAMS = [
    pytest.param(name, *pair, id=pair[0].name)
    for name, page in [*PAGES.items(), *DURABLE.items()]
    for pair in with_outputs(page, f"needs-{name.replace('_', '-')}")
]

WAITS = "waiting for approval; run it again\n"
EXAMPLES = {
    "a2a": ("Where to? Run it again.\n", "To Oslo: by train.\n"),
    "agent_framework": (WAITS, "order 7: paid back\n"),
    "google_adk": ("guide: I will remember Oslo.\n", "guide: You live in Oslo.\n"),
    "openai_agents": (WAITS, 'approved: refund {"order":7}\nIt is on its way.\n'),
    "pydantic_ai": (
        WAITS,
        "approved: {'train': 'the night train'}\nIt is booked: the night train.\n",
    ),
    "claude_agent": (
        "I was told 1 thing, at last: Hello\n",
        "I was told 2 things, at last: Hello\na session that began with 'Hello'\n",
    ),
}
"""How the first run of an example begins to print, and all that the second one prints."""

SCRIPTED = ROOT / "examples" / "scripted_claude.py"

# The page's programs name no executable: the SDK finds the one that is installed.
FOUND = {
    "claude_agent": f"""\
from claude_agent_sdk._internal.transport import subprocess_cli
subprocess_cli.SubprocessCLITransport._find_cli = lambda self: {str(SCRIPTED)!r}
"""
}


@pytest.fixture(autouse=True)
def _no_claude_of_the_developers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))


def skip_without(name: str) -> None:
    if not is_installed(FRAMEWORKS[name]):
        make_has_it(FRAMEWORKS[name])()
    if name == "openai_agents":
        pytest.importorskip("agents.testing", reason="this openai-agents has no scripted model")


@pytest.mark.parametrize(("name", "program", "output"), PROGRAMS)
def test_a_program_of_a_page_runs(name: str, program: Block, output: Block, tmp_path: Path) -> None:
    skip_without(name)
    ran = run(FOUND.get(name, "") + program.text, tmp_path)
    assert ran.stdout == output.text, ran.stderr


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_goes_on_in_another_process(name: str, tmp_path: Path) -> None:
    skip_without(name)
    shutil.copy(SCRIPTED, tmp_path)
    example = (ROOT / "examples" / f"{name}_agent.py").read_text("utf-8")
    first, second = run(example, tmp_path), run(example, tmp_path)
    begins, ends = EXAMPLES[name]
    assert first.stdout.startswith(begins), first.stderr
    assert second.stdout == ends, second.stderr
