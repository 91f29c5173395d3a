"""assistant-ui's streams over fresh data on an embedded server.

Without assistant-stream every module here is skipped, before it is imported.
"""

from __future__ import annotations

from tests.integrations.embedded import store  # noqa: F401
from tests.integrations.missing import make_has_it, only_with

pytest_pycollect_makemodule = only_with("assistant_stream", make_has_it("assistant-stream"))
