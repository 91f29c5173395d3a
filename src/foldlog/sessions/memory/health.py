"""The health of a memory's summaries, and the ways from one to the other.

As the StateStore specification 2.11 draws them, section "Memory Health States & Recovery", with the
one way that it leaves out: a retry that succeeds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class MemoryHealth(StrEnum):
    """Summaries are made; an attempt failed and is repeated; it failed too often, and turns are
    merely kept; they are being summarised after all.
    """

    HEALTHY = "healthy"
    RETRY = "retry"
    DEGRADED = "degraded"
    RECOVERING = "recovering"


EDGES: Final = frozenset(
    {
        (MemoryHealth.HEALTHY, MemoryHealth.RETRY),  # the summarizer failed
        (MemoryHealth.RETRY, MemoryHealth.HEALTHY),  # it succeeded when it was asked again
        (MemoryHealth.RETRY, MemoryHealth.DEGRADED),  # it failed once too often
        (MemoryHealth.DEGRADED, MemoryHealth.RECOVERING),  # another attempt, after a while
        (MemoryHealth.RECOVERING, MemoryHealth.HEALTHY),  # which succeeded
        (MemoryHealth.RECOVERING, MemoryHealth.DEGRADED),  # which failed
    }
)
"""Every way there is."""
