"""Agent Framework over fresh data on an embedded server, and in other processes.

Without agent-framework-core every module here is skipped, before it is imported.
"""

from __future__ import annotations

import warnings
from contextlib import suppress

from tests.integrations.embedded import start_worker, store  # noqa: F401
from tests.integrations.missing import make_has_it, only_with

with warnings.catch_warnings(), suppress(ModuleNotFoundError):
    warnings.simplefilter("ignore")  # some versions warn of experimental parts of their own
    import agent_framework  # noqa: F401

pytest_pycollect_makemodule = only_with("agent_framework", make_has_it("agent-framework-core"))
