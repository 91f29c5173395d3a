"""`FoldlogSession`: the session of a run, and runs that wait for a person."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from agents.memory import SessionABC, SessionSettings

from agents import RunState
from foldlog import kinds
from foldlog.errors import AppendConflict, PayloadError, shown
from foldlog.integrations.access import AnyStore, access_to
from foldlog.integrations.objects import items_of, read_as, said_in
from foldlog.models import WaitingKind
from foldlog.opening import Store
from foldlog.store.waiting import text_in
from foldlog.subjects import checked_id
from foldlog_projections.messages import MAIN, Conversations, Message, MessagesRemoved
from foldlog_projections.pauses import PauseSaved

FORMAT: Final = "openai_agents"
"""What the messages of a session say of their shape: items of OpenAI's Responses API."""

APPROVAL: Final = "tool_approval"
"""The `reason` of a run that waits for a person."""


class FoldlogSession(SessionABC):
    """A conversation of OpenAI Agents: `Runner.run(agent, input, session=session)`.

    It takes the place of `SQLiteSession`. Any number of processes may use one session: an item
    is there once, in the order in which it was acked. Making an object asks the log nothing, and
    it need not be closed.

    Args:
        session_id: the session that the conversation belongs to, and is erased with.
        store: an open store; or one of `foldlog.blocking.connect()`, for `Runner.run_sync`.
        session_settings: its `limit` is what `get_items` takes by default. A dict will do.

    Raises:
        InvalidId: `session_id` is empty, or no string.
        TypeError: openai-agents knows no such setting.
    """

    def __init__(
        self,
        session_id: str,
        store: AnyStore,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id: str = checked_id(session_id, "session_id")
        self.session_settings: SessionSettings = SessionSettings().resolve(session_settings)
        self._do = access_to(store).acall

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the items, oldest first: all that were acked to anybody before.

        Args:
            limit: the latest so many at most. None: what `session_settings` says, or all.

        Raises:
            PayloadError: `limit` is no number, or the session has another framework's messages.
                What `redact=` has left no mapping of is left out.
            LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
        """
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        return [each.body for each in await self._messages(limit)]

    async def add_items(self, items: list[Any]) -> None:
        """Add items in order: one append, all of them or none.

        Raises:
            PayloadError: an item is no mapping, or holds what cannot be stored.
            RedactionFailed: `redact=` failed. Nothing was added.
            AppendFailed, LogUnavailable: nothing was added.
            AppendUnknown: they may have been added. Then, and where the call was cancelled, read
                before adding again: items may be equal.
        """
        if messages := _drafted(items):
            await self._do(lambda store: store.append_messages(self.session_id, messages))

    async def pop_item(self) -> Any | None:
        """Remove the latest item and return it; None if there is none.

        Exactly one of many callers gets an item.

        Raises:
            AppendConflict, AppendFailed, LogUnavailable, LogCorrupt: nothing was removed.
            AppendUnknown: it may have been removed.
        """
        while (popped := await self._do(_popped(self.session_id))) is not None:
            if found := said_in(self.session_id, [popped], FORMAT):
                return found[0].body
        return None

    async def clear_session(self) -> None:
        """Remove all items. Earlier moments still show them; `store.erase_session` erases them.

        Raises:
            AppendConflict, AppendFailed, LogUnavailable, LogCorrupt: nothing was removed.
            AppendUnknown: they may have been removed; clearing again is safe.
        """
        await self._do(lambda store: store.delete_messages(self.session_id))

    # --- what OpenAIResponsesCompactionSession asks for, if a session has it --------------------

    async def _atomic_replace_items(self, items: list[Any]) -> bool:
        """Replace all items in one append; False leaves it to the caller."""
        return self._is_plain() and await self._replace(None, items)

    async def _get_compaction_snapshot(self, limit: int) -> _Snapshot | None:
        """Return the latest items, and how to replace the end of them if it is still the end."""
        if not self._is_plain():
            return None
        seen = await self._messages(limit + 1)
        complete = len(seen) <= limit
        seen = seen if complete else seen[1:]

        async def replace_suffix(start: int, output: list[Any]) -> bool:
            replaced = [each.id for each in seen[start:]]
            return bool(replaced) and await self._replace(replaced, output)

        return _Snapshot([each.body for each in seen], complete, replace_suffix)

    def _is_plain(self) -> bool:
        """Whether items are stored as they are given: a subclass may do something with them."""
        names = ("get_items", "add_items", "clear_session")
        return all(getattr(type(self), each) is getattr(FoldlogSession, each) for each in names)

    async def _replace(self, last: list[str] | None, items: list[Any]) -> bool:
        """Put items in place of those ids if they are the last ones; None: in place of all."""
        removed = MessagesRemoved(None if last is None else tuple(last))
        added = _drafted(items)

        def replace(found: Conversations) -> Sequence[Message | MessagesRemoved]:
            end = None if last is None else [each.id for each in found[MAIN].latest(len(last))]
            return [removed, *added] if end == last else []

        key = kinds.messages(self.session_id)
        try:
            return bool(await self._do(lambda store: store.decide(key, replace, copy=False)))
        except AppendConflict:
            return False  # others write all the time

    # --- runs that wait for a person ------------------------------------------------------------

    async def pause(
        self, state: RunState[Any, Any], *, user_id: str | None = None, **options: Any
    ) -> str:
        """Store a run that waits for approval, for any process to go on with; return its token.

        It is in `store.waiting()` until somebody resumes it, its session is cleared, or it expires:
        after an hour, unless `connect(pause_ttl=)` says otherwise.

        Args:
            state: `result.to_state()` of a run that has `interruptions`.
            user_id: who is to decide; shown with what waits.
            options: of `RunState.to_json`, as `context_serializer=`.

        Raises:
            PayloadError: it is no RunState.
            RedactionFailed: `redact=` failed. Nothing was stored.
            AppendFailed, LogUnavailable: nothing was stored.
            AppendUnknown: it may have been stored; `store.waiting()` shows whether.
            agents.UserError: the state cannot be serialised.
        """
        if not isinstance(state, RunState):
            raise PayloadError("state", f"{shown(state)} is no RunState: result.to_state() is one")
        token = f"openai_agents:{os.urandom(16).hex()}"
        asked = [
            {"agent": each.agent.name, "tool": each.name, "arguments": each.arguments}
            for each in state.get_interruptions()
        ]
        paused = {
            "reason": APPROVAL,
            "payload": {"token": token, "asked": asked},
            "answer_in": "your program: session.resume(agent, token), then run it",
            "tool_context": {"session_id": self.session_id, "user_id": user_id},
            "state": state.to_json(**options),
        }
        await self._do(
            lambda store: store.save_planner_state(token, paused, session_id=self.session_id)
        )
        return token

    async def resume(
        self, agent: Any, token: str | None = None, **options: Any
    ) -> RunState[Any, Any] | None:
        """Take a run that waits: approve or reject, then `Runner.run(agent, state)`.

        Exactly one caller, in any process, gets a run. What `agent` cannot go on with, waits on.

        Args:
            agent: the one that the run began with.
            token: of `pause`. None: the run of this session that has waited longest.
            options: of `RunState.from_json`, as `context_override=`.

        Returns:
            The run. None: none waits; it was resumed, has expired, or never paused.

        Raises:
            Unreadable: `redact=` has replaced it; it waits on.
            LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
            AppendUnknown: this call may have taken the run.
            agents.UserError: the run does not fit the agent, or comes of a newer openai-agents.
        """
        for each in await self._do(self._waiting) if token is None else [token]:
            paused = await self._do(_paused(each))
            if paused is not None:
                what = f"the run that was paused under {shown(each)}"
                stored = read_as(_state_of, paused, what)
                state = await RunState.from_json(agent, stored, **options)
                if await self._do(_consumed(each)) is not None:
                    return state
        return None

    async def _waiting(self, store: Store) -> list[str]:
        """The tokens of the runs of this session that wait, oldest first."""
        return [
            token
            for item in await store.waiting(session_id=self.session_id)
            if item.kind is WaitingKind.PAUSE and item.asked.get("reason") == APPROVAL
            if (token := text_in(item.asked.get("payload"), "token")) is not None
        ]

    # --- messages -------------------------------------------------------------------------------

    async def _messages(self, limit: int | None) -> list[Message]:
        found = await self._do(
            lambda store: store.list_messages(self.session_id, limit=limit, consistency="strong")
        )
        return said_in(self.session_id, found, FORMAT)


class _Snapshot(NamedTuple):
    """As `agents.memory.session._CompactionSnapshot`, which not every version has."""

    items: list[Any]
    complete: bool
    replace_suffix: Callable[[int, list[Any]], Awaitable[bool]]


def _drafted(items: list[Any]) -> list[Message]:
    """Items as messages. Each has an id of its own: equal items may follow each other."""
    return [_message(each) for each in items_of(items, Mapping, "items", "mapping")]


def _message(item: Mapping[str, Any]) -> Message:
    role = item.get("role")
    if not isinstance(role, str):
        role = "tool" if str(item.get("type")).endswith("_output") else "assistant"
    return Message.new(FORMAT, dict(item), role=role)


def _paused(token: str) -> Callable[[Store], Any]:
    """What was paused under a token, without consuming it; None if nothing was."""

    async def read(store: Store) -> Any:
        key = kinds.pauses(token)
        last = await store.items(key, newest_first=True, limit=1, consistency="strong")
        return last[0].record.payload if last and isinstance(last[0].record, PauseSaved) else None

    return read


def _state_of(paused: Any) -> dict[str, Any]:
    """The run of a pause."""
    state = paused["state"]
    if not isinstance(state, dict):
        raise TypeError(f"{shown(state)} is no run")
    return state


def _popped(session_id: str) -> Callable[[Store], Any]:
    return lambda store: store.pop_message(session_id)


def _consumed(token: str) -> Callable[[Store], Any]:
    return lambda store: store.load_planner_state(token)
