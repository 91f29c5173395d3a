"""One share of an agent's state: what its token opens, or that it was revoked.

The subject carries a hash of the token, so that the log reveals no token.
"""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.kind import Kind
from foldlog.words import Shown
from foldlog_projections.folds import last

SHARED: Final = "agent.shared"
REVOKED: Final = "agent.revoked"


class Shared(msgspec.Struct, frozen=True, omit_defaults=True):
    """`agent.shared`: the token opens this key. `ttl`: seconds from its record; 0: for ever."""

    scope: str
    key: str
    writable: bool = False
    ttl: float = 0.0


class Revoked(msgspec.Struct, frozen=True):
    """`agent.revoked`: the token opens nothing any more."""


kind: Final = Kind(
    "agentshares",
    keys=("runtime", "token"),
    records={SHARED: Shared, REVOKED: Revoked},
    fold=last,
    shown=Shown({SHARED: "{key} of {scope} shared", REVOKED: "share revoked"}, group="memory"),
)
