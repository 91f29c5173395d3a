"""Stores with one bug each, and the tests of the kit that find it: these and no others.

Each gets one thing wrong, in one method of the plain store or in the same way in several. They are
bugs that stores have had.
"""

from __future__ import annotations

from tests.testing.broken import (
    artifacts,
    events,
    everywhere,
    payloads,
    retention,
    sessions,
    state,
)
from tests.testing.broken.registry import BROKEN

__all__ = [
    "BROKEN",
    "artifacts",
    "events",
    "everywhere",
    "payloads",
    "retention",
    "sessions",
    "state",
]
