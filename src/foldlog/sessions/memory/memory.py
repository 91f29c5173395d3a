"""A short-term memory at work: it keeps turns, has them summarised, and saves what it holds."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from foldlog.errors import ConfigurationError, FoldlogError, LogCorrupt
from foldlog.sessions.memory import machine
from foldlog.sessions.memory.config import ShortTermMemoryConfig
from foldlog.sessions.memory.machine import Attempt
from foldlog.sessions.memory.state import ConversationTurn, MemoryHealth, MemoryState, Summarizer
from foldlog.store.core import core_of
from foldlog.store.store import BaseStore
from foldlog_projections import memory as projection

OnHealth = Callable[[MemoryHealth, MemoryHealth], Awaitable[None]]
"""Called with each change of health: the one before, and the one after."""

_log: Final = logging.getLogger("foldlog")


class ShortTermMemory:
    """One memory of a store, by its key, made by `Session.memory`; lives as long as the session.

    It is saved whenever it changes. Of several processes that use one memory at a time, the last
    one that saves it stands. Summaries are made in the background; `flush` waits for them.
    """

    def __init__(
        self,
        config: ShortTermMemoryConfig,
        store: BaseStore,
        key: str,
        *,
        summarizer: Summarizer | None = None,
        on_health: OnHealth | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if config.strategy == "rolling_summary" and summarizer is None:
            raise ConfigurationError(
                'strategy "rolling_summary" needs a summarizer: give summarizer=, an async function'
            )
        self.key = key
        self._config = config
        self._store = store
        self._summarizer = summarizer
        self._on_health = on_health
        self._clock = clock
        self._state = MemoryState()
        self._turn = asyncio.Lock()
        self._attempt: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def state(self) -> MemoryState:
        """The state of the memory."""
        return self._state

    @property
    def health(self) -> MemoryHealth:
        """The health of its summaries."""
        return self._state.health

    def estimate_tokens(self) -> int:
        """Return how many tokens it takes in a prompt, by the config's estimate."""
        return machine.tokens(self._state, self._config)

    def get_llm_context(self) -> dict[str, Any]:
        """Return what goes into a model's prompt; {} for the strategy "none".

        That is `conversation_memory` with `recent_turns`, and for rolling summaries `pending_turns`
        and `summary`, if there are any.
        """
        return machine.llm_context(self._state, self._config)

    async def hydrate(self) -> None:
        """Load what was saved last. An attempt that is due is made.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        # Strongly: the next save would undo a save of another worker that this one has not seen.
        saved = await self._store.load_memory_state(self.key, consistency="strong")
        try:
            self._state = MemoryState() if saved is None else MemoryState.from_dict(saved)
        except (TypeError, ValueError) as fault:
            raise LogCorrupt(projection.kind.name, 0, f"{self.key!r:.80}: {fault}") from fault
        self._closed = False
        self._schedule()

    async def add_turn(self, turn: ConversationTurn) -> None:
        """Add a turn, and save the memory; inside `store.atomic()` with the block.

        Args:
            turn: what was said.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
            MemoryBudgetExceeded: the memory is full, and its policy is "error". It is unchanged.
        """
        if self._config.strategy == "none":
            return
        async with self._turn:
            before = self._state
            self._state = machine.with_turn(before, turn, self._config)
            try:
                await self._save()
            except FoldlogError:
                self._state = before
                raise
            after = self._state

        def undo() -> None:
            if self._state is after:  # no summary has come meanwhile
                self._state = before

        core_of(self._store).unless_stored(undo)
        self._schedule()

    async def flush(self) -> None:
        """Make the summaries that are due, and wait for them; not for a later recovery.

        Raises nothing.
        """
        while not self._closed and (self._is_under_way or self._is_due):
            self._schedule()
            if self._attempt is not None:
                await asyncio.wait([self._attempt])
            if self.health is MemoryHealth.DEGRADED:
                return

    async def erase(self) -> None:
        """Forget everything, and erase what was saved with its history. It stays usable.

        Raises:
            SessionHasForks: forks share the memory. Nothing was erased.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: some may remain; erase again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        async with self._turn:
            await self._cancel_attempt()
            await self._store.erase(projection.kind(self.key))
            self._state = MemoryState()

    async def close(self) -> None:
        """Cancel the summary under way. What is saved stays. Raises nothing."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._cancel_attempt()

    async def _cancel_attempt(self) -> None:
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.wait([self._attempt])

    @property
    def _is_due(self) -> bool:
        at = machine.due(self._state, self._config)
        return at is not None and at <= self._clock()

    @property
    def _is_under_way(self) -> bool:
        return self._attempt is not None and not self._attempt.done()

    def _schedule(self) -> None:
        """See to it that the next attempt is made, in its time."""
        at = machine.due(self._state, self._config)
        if at is None or self._is_under_way or self._closed:
            return
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at > self._clock():
            self._timer = loop.call_later(at - self._clock(), self._schedule)
        else:
            self._attempt = loop.create_task(self._run(), name="foldlog memory")
            self._attempt.add_done_callback(lambda _: self._schedule())

    async def _run(self) -> None:
        async with self._turn:
            await self._become(machine.begun(self._state))
            asked = machine.attempt(self._state)
        summary = await self._answered(asked)
        async with self._turn:
            await self._become(self._ended(asked, summary))

    async def _answered(self, asked: Attempt) -> str | None:
        failure: BaseException
        try:
            return await self._summarized(asked)
        except Exception as error:  # noqa: BLE001 - a summarizer is anybody's code
            failure = error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            failure = error  # the summarizer was cancelled, not this task
        _log.warning("memory %r: no summary: %r", self.key, failure)
        return None

    def _ended(self, asked: Attempt, summary: str | None) -> MemoryState:
        if summary is not None:
            try:
                return machine.succeeded(self._state, asked, summary, self._config)
            except Exception as error:  # noqa: BLE001 - the token estimator is anybody's code
                _log.warning("memory %r: the summary is refused: %r", self.key, error)
        return machine.failed(self._state, self._config, self._clock())

    async def _summarized(self, asked: Attempt) -> str:
        assert self._summarizer is not None, "rolling summaries have one"
        turns = machine.shown(asked.turns, self._config)
        request = {"previous_summary": asked.previous_summary, "turns": turns}
        answer = await self._summarizer(request)
        summary = answer.get("summary") if isinstance(answer, Mapping) else None
        if not isinstance(summary, str):
            # The answer is not quoted: it may hold the conversation, and this is logged.
            found = type(answer).__name__
            raise TypeError(f'a summarizer returns {{"summary": text}}, not {found}')
        return summary

    async def _become(self, state: MemoryState) -> None:
        """Take up another state, also where it cannot be saved now."""
        if state is self._state:
            return
        before, self._state = self._state.health, state
        try:
            await self._save()
        except FoldlogError as error:
            _log.warning("memory %r: not saved before its next change: %s", self.key, error)
        for change in machine.path(before, state.health):
            try:
                if self._on_health is not None:
                    await self._on_health(*change)
            except Exception:  # noqa: BLE001 - the caller's code; the memory goes on
                _log.exception("memory %r: on_health", self.key)

    async def _save(self) -> None:
        self._state = replace(self._state, config_snapshot=self._config.snapshot())
        await self._store.save_memory_state(self.key, self._state.to_dict())


def is_made_with(memory: ShortTermMemory, *how: object) -> bool:
    """Whether a memory was made with this config, summarizer and `on_health`."""
    return how == (memory._config, memory._summarizer, memory._on_health)
