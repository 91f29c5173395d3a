"""Runs agent_framework's own tests: python -m tests.integrations.agent_framework.upstream CHECKOUT

CHECKOUT is a clone of microsoft/agent-framework, whose own version is what is tested. Nothing of it
is copied: its tests of checkpoints, and of workflows that have them, run where they lie, with
FoldlogCheckpointStorage in the place of its storages. Whatever follows the checkout goes to pytest.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.integrations.upstream import run_pytest

PLUGIN: Final = Path(__file__).with_name("upstream_checkpoints.py")
CORE: Final = "python/packages/core"
FILES: Final = (
    "checkpoint",
    "checkpoint_validation",
    "agent_executor",
    "functional_workflow",
    "request_info_event_rehydrate",
    "runner",
    "sub_workflow",
    "workflow",
    "workflow_agent",
)


def main(checkout: str, *arguments: str) -> int:
    """Run them; return what pytest returns."""
    core = Path(checkout).resolve() / CORE
    tests = [f"tests/workflow/test_{name}.py" for name in FILES]
    return run_pytest(core, *tests, *arguments, plugin=PLUGIN, paths=[core])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
