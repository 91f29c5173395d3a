"""Semantic Kernel 1 on foldlog: thread histories and process-step states, saved per message.

from foldlog.integrations.semantic_kernel import ProcessStates, ThreadHistory

Only public methods of the caller's own objects are used, so that nothing is imported here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Final, TypeVar

from pydantic import BaseModel

from foldlog.agents import TurnStateContext
from foldlog.errors import FoldlogError
from foldlog.opening import Store

__all__ = ["ProcessStates", "ThreadHistory"]

H = TypeVar("H", bound=BaseModel)

_FILTER: Final = "function_invocation"


class _Messages(BaseModel):
    """The messages of a thread, as Semantic Kernel dumps them."""

    state_type: ClassVar[str] = "foldlog.semantic_kernel.Messages"

    messages: list[dict[str, Any]] = []


class ThreadHistory:
    """The history of one ChatHistoryAgentThread, by its id.

        history = ThreadHistory(store, "thread-1")
        chat = await history.load(ChatHistory)
        thread = ChatHistoryAgentThread(chat_history=chat, thread_id="thread-1")
        async with history.attached(thread):
            response = await agent.get_response(messages="...", thread=thread)

    Each message is stored before its contributor goes on. One process at a time: a save is of the
    whole thread, and the last one stands.

    Args:
        store: an open store.
        thread_id: the thread.
    """

    def __init__(self, store: Store, thread_id: str) -> None:
        self._agents = store.agents
        self._scope = f"thread/{thread_id}"

    async def load(self, chat_history: type[H]) -> H:
        """Return the history as that class, a new object; empty if there is none.

        Raises:
            LogUnavailable, LogCorrupt: it could not be read.
        """
        entry = await self._agents.get_agent_state(
            self._scope, "history", _Messages, consistency="strong"
        )
        messages = [] if entry is None else entry.state.messages
        return chat_history.model_validate({"messages": messages})

    async def save(self, thread: Any) -> None:
        """Store the messages of a thread, as they are now.

        Raises:
            PayloadError, RedactionFailed: the input was refused. Nothing was stored.
            AppendConflict, AppendFailed, LogUnavailable, LogCorrupt: nothing was stored.
            AppendUnknown: they may have been stored; saving again is safe.
        """
        # `inner_content` is the service's own object, which Semantic Kernel cannot read back.
        messages = [
            message.model_dump(mode="json", exclude_none=True, exclude={"inner_content"})
            async for message in thread.get_messages()
        ]

        async def body(ctx: TurnStateContext) -> None:
            ctx.update("history", _Messages(messages=messages))

        await self._agents.run_turn(self._scope, body, label="message")

    @asynccontextmanager
    async def attached(self, thread: Any) -> AsyncIterator[None]:
        """Save the thread after each new message inside the block.

        Raises:
            PayloadError, RedactionFailed: the input was refused. Nothing was stored.
            AppendConflict, AppendFailed, LogUnavailable, LogCorrupt: nothing was stored.
            AppendUnknown: they may have been stored; saving again is safe.
        """
        original = thread.on_new_message

        async def on_new_message(new_message: Any) -> None:
            await original(new_message)
            await self.save(thread)

        vars(thread)["on_new_message"] = on_new_message
        try:
            yield
        finally:
            vars(thread).pop("on_new_message", None)


class ProcessStates:
    """The states of a process's steps, by the process's id.

        states = ProcessStates(store, "order-1", {"pay": PayState})
        process = builder.build()
        await states.restore(process)
        async with states.attached(process, kernel):
            async with await start(process, kernel, initial_event="begin"):
                ...

    On the local runtime, one operating system process at a time. It stores the states, not the
    messages between the steps: the caller sends the event to go on with.

    Args:
        store: an open store.
        process_id: the process.
        models: the state model of each step that has one, by the step's name.
    """

    def __init__(self, store: Store, process_id: str, models: Mapping[str, type[BaseModel]]):
        self._agents = store.agents
        self._scope = f"process/{process_id}"
        self._models = models
        self._saving = asyncio.Lock()

    async def restore(self, process: Any) -> bool:
        """Give the steps of a process that has not been started the states that are stored.

        Returns whether there are any.

        Raises:
            IncompatibleAgentState: another model wrote the state.
            LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
        """
        found = False
        for step in self._steps(process):
            name = step.state.name
            entry = await self._agents.get_agent_state(
                self._scope, name, self._models[name], consistency="strong"
            )
            if entry is not None:
                step.state.state = entry.state
                found = True
        return found

    async def save(self, process: Any, label: str = "") -> None:
        """Store the states of the steps, as they are now, all at once.

        Raises:
            PayloadError, RedactionFailed: the input was refused. Nothing was stored.
            AppendConflict, AppendFailed, LogUnavailable, LogCorrupt: nothing was stored.
            AppendUnknown: they may have been stored; saving again is safe.
        """

        async def body(ctx: TurnStateContext) -> None:
            for step in self._steps(process):
                if step.state.state is not None:
                    ctx.update(step.state.name, step.state.state)

        async with self._saving:
            await self._agents.run_turn(self._scope, body, label=label)

    @asynccontextmanager
    async def attached(self, process: Any, kernel: Any) -> AsyncIterator[None]:
        """Save the states after each message that a step has handled, inside the block.

        Raises:
            FoldlogError: what a save has raised, when the block ends: a step's error is an event to
                Semantic Kernel, so that nobody hears of it before.
        """
        failures: list[FoldlogError] = []

        async def saving(context: Any, next: Callable[[Any], Awaitable[None]]) -> None:
            await next(context)
            name = context.function.plugin_name
            if any(step.state.name == name for step in process.steps):
                try:
                    await self.save(process, f"{name} {context.function.name}")
                except FoldlogError as error:
                    failures.append(error)
                    raise

        kernel.add_filter(_FILTER, saving)
        try:
            yield
        finally:
            kernel.remove_filter(_FILTER, filter_id=id(saving))
        if failures:
            raise failures[0]

    def _steps(self, process: Any) -> list[Any]:
        return [step for step in process.steps if step.state.name in self._models]
