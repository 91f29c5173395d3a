"""Fencing: one run holds a thread, and what others write to it has no effect."""

from __future__ import annotations

import asyncio
import contextvars
import math
import secrets
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from foldlog.errors import ConfigurationError, FoldlogError, StoreClosed
from foldlog.integrations.access import Access, WouldBlock
from foldlog.opening import Store
from foldlog_projections.langgraph import checkpoints
from foldlog_projections.langgraph.checkpointrecords import Held, Reason, Released
from foldlog_projections.langgraph.thread import Thread

_GIVE_UP_SECONDS: Final = 5.0
"""How long a hold that was broken off while it began tries to let go."""


class CheckpointGone(FoldlogError):
    """What a run goes on from was removed: the thread `thread_id`, or its `checkpoint_id`.

    Nothing of what the run saved takes effect. Start a new run.
    """

    def __init__(self, thread_id: str, checkpoint_id: str | None = None) -> None:
        of = f"checkpoint {checkpoint_id} of " if checkpoint_id else ""
        super().__init__(
            f"{of}thread {thread_id!r:.80} was deleted while a run went on from it; "
            "nothing was saved"
        )
        self.thread_id = thread_id
        self.checkpoint_id = checkpoint_id


class ThreadHeld(FoldlogError):
    """Another run holds the thread `thread_id`, or has taken it over: nothing was saved or deleted.

    `holder` is who holds it now, None if nobody does any more.
    """

    def __init__(self, thread_id: str, holder: str | None) -> None:
        by = "is no longer held by this run" if holder is None else f"is held by {holder!r:.80}"
        super().__init__(f"thread {thread_id!r:.80} {by}; nothing was changed")
        self.thread_id = thread_id
        self.holder = holder


_tokens: Final[contextvars.ContextVar[Mapping[str, str]]] = contextvars.ContextVar(
    "tokens", default=MappingProxyType({})
)
"""The tokens of the threads that the caller's run holds."""


def token_of(thread: Thread, thread_id: str) -> str:
    """The token with which the caller writes to a thread; "" if it holds none.

    To a fork of a thread that is held, everybody writes as its holder does.
    """
    token = _tokens.get().get(thread_id, "")
    if not token and thread.hold is not None and thread.holds_another(thread_id):
        return thread.hold.token
    return token


def check_free(thread: Thread, thread_id: str, now: float) -> None:
    """Raise ThreadHeld if the caller may not write to the thread; `now` in Unix seconds."""
    if not thread.admits(token_of(thread, thread_id), now):
        raise ThreadHeld(thread_id, None if thread.hold is None else thread.hold.holder)


def refusal(thread: Thread, thread_id: str, key: str) -> FoldlogError | None:
    """Why a record of a thread had no effect; None if it had."""
    reason: Reason | None = thread.refused.get(key)
    if reason is None:
        return None
    if reason == "gone":
        return CheckpointGone(thread_id)
    return ThreadHeld(thread_id, thread.hold.holder if thread.hold is not None else None)


class Holding:
    """Holds a thread while the block runs: `async with saver.hold(...)`, or `with` it.

    What the block's own tasks and threads save carries its token. The lease is renewed by itself,
    until the block ends or the process does.
    """

    def __init__(
        self, access: Access, thread_id: str, holder: str, lease: float, takes: bool
    ) -> None:
        if isinstance(lease, bool) or not isinstance(lease, int | float):
            raise ConfigurationError(f"a lease is a number of seconds, not {lease!r:.80}")
        if not 0 < lease < math.inf:
            raise ConfigurationError(f"a lease is more than 0 seconds, and finite, not {lease!r}")
        self._access = access
        self._thread_id = thread_id
        self._holder = holder
        self._lease = lease
        self._takes = takes
        self._token = secrets.token_hex(8)
        self._reset: contextvars.Token[Mapping[str, str]] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._is_over = False

    async def __aenter__(self) -> None:
        try:
            await self._access.acall(self._begin)
            self._note()
        except (ThreadHeld, GeneratorExit):
            raise
        except BaseException:  # it may be held already, and renewed, with no block that ends it
            giving_up = asyncio.create_task(self._give_up_there())
            await asyncio.wait([giving_up], timeout=2 * _GIVE_UP_SECONDS)
            raise

    async def __aexit__(self, *raised: object) -> None:
        self._forget()
        await self._access.acall(self._end)

    def __enter__(self) -> None:
        try:
            self._access.call(self._begin)
            self._note()
        except (ThreadHeld, WouldBlock):
            raise
        except BaseException:
            with suppress(FoldlogError):
                self._access.call(self._give_up)
            raise

    def __exit__(self, *raised: object) -> None:
        self._forget()
        self._access.call(self._end)

    def _note(self) -> None:
        self._reset = _tokens.set({**_tokens.get(), self._thread_id: self._token})

    def _forget(self) -> None:
        if self._reset is not None:
            _tokens.reset(self._reset)
            self._reset = None

    async def _begin(self, store: Store) -> None:
        self._is_over = False
        await self._append(store, renews=False)
        if self._is_over:  # its caller gave up meanwhile
            await self._release(store)
            return
        self._renewing = asyncio.create_task(self._renew(store), name="foldlog-langgraph-lease")

    async def _renew(self, store: Store) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            try:
                await self._append(store, renews=True)
            except (ThreadHeld, StoreClosed):
                return  # the next save says so
            except FoldlogError:
                continue  # the log is away: the lease may run out meanwhile, and saves say so

    async def _append(self, store: Store, *, renews: bool) -> None:
        key, name = checkpoints.kind(self._thread_id), self._thread_id
        is_fork = await store.view(key, lambda thread: thread.holds_another(name))
        takes = (self._takes or is_fork) and not renews
        held = Held(
            secrets.token_hex(8), self._token, name, self._holder, self._lease, renews, takes
        )
        await store.append(key, held)
        error = await store.view(key, lambda t: refusal(t, self._thread_id, held.key))
        if error is not None:
            raise error

    async def _end(self, store: Store) -> None:
        self._is_over = True
        renewing, self._renewing = self._renewing, None
        if renewing is not None:
            renewing.cancel()
            await asyncio.wait([renewing])
        await self._release(store)

    async def _give_up_there(self) -> None:
        with suppress(FoldlogError):
            await self._access.acall(self._give_up)

    async def _give_up(self, store: Store) -> None:
        """End what may have begun, as far as that can be done now: a lease runs out by itself."""
        with suppress(FoldlogError, TimeoutError):
            async with asyncio.timeout(_GIVE_UP_SECONDS):
                await self._end(store)

    async def _release(self, store: Store) -> None:
        released = Released(secrets.token_hex(8), self._token)
        await store.append(checkpoints.kind(self._thread_id), released)
