"""A store on an embedded server, and workers of its own kind beside it."""

from __future__ import annotations

from tests.integrations.embedded import start_worker, store  # noqa: F401
