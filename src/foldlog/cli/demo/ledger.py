"""The importer's way to the store, with a list of the acked messages."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

from foldlog import Message
from foldlog.opening import Store


class Ledger:
    """A store for the importer. `acked` are the messages whose save has returned, by session.

    Args:
        begun: from how many records on, whose save has begun, `moment` may come.
        crowd: how many saves must be on their way then.
    """

    def __init__(self, store: Store, *, begun: int, crowd: int) -> None:
        self.acked: defaultdict[str, list[Message]] = defaultdict(list)
        self.in_flight: int = 0
        self._store = store
        self._to_begin = begun
        self._crowd = crowd
        self._ack = asyncio.Event()
        self._ended = False

    def __getattr__(self, name: str) -> Any:
        """Return a method of the store; one that saves is counted while it is under way."""
        method = getattr(self._store, name)

        async def save(*args: Any) -> Any:
            messages = args[1] if name == "append_messages" else ()
            self.in_flight += 1
            self._to_begin -= len(messages) or 1
            try:
                found = await method(*args)
            finally:
                self.in_flight -= 1
                # While one group of saves is acked, the next one is on its way.
                if self._to_begin <= 0 and self.in_flight >= self._crowd - 1:
                    self._ack.set()
            if messages:
                self.acked[args[0]].extend(messages)
            return found

        return save if name.startswith(("save_", "append_")) else method

    async def moment(self) -> bool:
        """Wait until enough is under way for a kill to be worth something.

        That is right after an ack. False: the import ended before.
        """
        while not self._ended:
            self._ack.clear()
            await self._ack.wait()
            if self.in_flight:  # by now the whole group that was acked has returned
                return True
        return False

    def end(self) -> None:
        """There will be no more saves."""
        self._ended = True
        self._ack.set()
