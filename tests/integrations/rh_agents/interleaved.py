"""A log on which something else happens just before an append."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from foldlog.log.memory import MemoryLog
from foldlog.log.port import Append


class InterleavedLog(MemoryLog):
    """Awaits `meanwhile` once, before the next append that has an envelope of type `before`."""

    def __init__(self) -> None:
        super().__init__()
        self.before = ""
        self.meanwhile: Callable[[], Awaitable[Any]] | None = None

    def interleave(self, before: str, meanwhile: Callable[[], Awaitable[Any]]) -> None:
        self.before, self.meanwhile = before, meanwhile

    async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        types = {draft.type for append in appends for draft in append.drafts}
        if self.meanwhile is not None and self.before in types:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return await super().append(appends, atomic=atomic)
