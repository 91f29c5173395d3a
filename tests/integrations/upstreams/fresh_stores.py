"""Stores over empty data, for the plugins that run frameworks' own tests on foldlog.

They are on an embedded server; in memory with FOLDLOG_UPSTREAM_LOG=memory.
"""

from __future__ import annotations

import os
from itertools import count
from typing import Any

from foldlog.blocking.bridge import StoreThread
from foldlog.integrations.access import Opened

_numbers = count()


def fresh_store() -> StoreThread:
    """Return a store on a thread."""
    if os.environ.get("FOLDLOG_UPSTREAM_LOG") == "memory":
        return StoreThread(Opened(":memory:", _same, {}))
    place, namespace = os.environ["FOLDLOG_UPSTREAM_DATA"], f"upstream-{next(_numbers)}"
    return StoreThread(Opened(place, _same, {"namespace": namespace}))


def _same(store: Any) -> Any:
    return store
