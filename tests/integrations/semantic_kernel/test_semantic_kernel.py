"""Threads and processes of the real Semantic Kernel, without a model."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from semantic_kernel import Kernel
from semantic_kernel.agents import ChatHistoryAgentThread
from semantic_kernel.contents import ChatHistory, ChatMessageContent, FunctionCallContent
from semantic_kernel.functions import kernel_function
from semantic_kernel.processes import ProcessBuilder
from semantic_kernel.processes.kernel_process import (
    KernelProcessStep,
    KernelProcessStepContext,
    KernelProcessStepState,
)
from semantic_kernel.processes.local_runtime.local_event import KernelProcessEvent
from semantic_kernel.processes.local_runtime.local_kernel_process import start

import foldlog
from foldlog.errors import LogUnavailable
from foldlog.integrations.semantic_kernel import ProcessStates, ThreadHistory

# Semantic Kernel looks at every attribute of a step, those included that pydantic has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class CountState(BaseModel):
    seen: list[str] = []


class Count(KernelProcessStep[CountState]):
    """Remembers what it is told, and passes it on."""

    state: CountState | None = None

    async def activate(self, state: KernelProcessStepState[CountState]) -> None:
        self.state = state.state

    @kernel_function(name="told")
    async def told(self, context: KernelProcessStepContext, what: str = "") -> str:
        assert self.state is not None
        self.state.seen.append(what)
        return f"{what}!"


class First(Count):
    pass


class Second(Count):
    pass


MODELS = {"First": CountState, "Second": CountState}


def build() -> Any:
    builder = ProcessBuilder(name="two")
    first, second = builder.add_step(First), builder.add_step(Second)
    builder.on_input_event("begin").send_event_to(target=first, parameter_name="what")
    first.on_function_result(function_name="told").send_event_to(
        target=second, function_name="told", parameter_name="what"
    )
    return builder.build()


async def run(states: ProcessStates, what: str, *, restored: bool) -> None:
    process, kernel = build(), Kernel()
    assert await states.restore(process) is restored
    begin = KernelProcessEvent(id="begin", data=what)
    async with states.attached(process, kernel), await start(process, kernel, begin):
        pass


async def seen(store: foldlog.Store) -> dict[str, list[str]]:
    entries = await store.agents.get_agent_states("process/p", CountState)
    return {key: entry.state.seen for key, entry in entries.items()}


async def test_a_processs_steps_are_saved_after_every_message(store: foldlog.Store) -> None:
    await run(ProcessStates(store, "p", MODELS), "a", restored=False)
    versions = await store.agents.history("process/p")
    assert [version.label for version in versions] == ["First told", "Second told"]
    assert await seen(store) == {"First": ["a"], "Second": ["a!"]}


async def test_a_process_goes_on_with_the_states_of_another(store: foldlog.Store) -> None:
    await run(ProcessStates(store, "p", MODELS), "a", restored=False)
    await run(ProcessStates(store, "p", MODELS), "b", restored=True)
    assert await seen(store) == {"First": ["a", "b"], "Second": ["a!", "b!"]}


async def test_a_save_that_fails_is_heard_of(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*args: Any, **options: Any) -> Any:
        raise LogUnavailable("gone")

    monkeypatch.setattr(store._core.log, "append", failing)
    with pytest.raises(LogUnavailable):
        await run(ProcessStates(store, "p", MODELS), "a", restored=False)


async def test_a_threads_history_is_saved_with_every_message(store: foldlog.Store) -> None:
    history = ThreadHistory(store, "t")
    thread = ChatHistoryAgentThread(thread_id="t")
    call = FunctionCallContent(id="1", name="look", arguments='{"at": "it"}')
    async with history.attached(thread):
        for number, message in enumerate(
            [
                ChatMessageContent(role="user", content="hello", name="ann"),
                ChatMessageContent(role="assistant", items=[call]),
                ChatMessageContent(role="tool", content="seen", metadata={"k": [1]}),
            ],
            1,
        ):
            await thread.on_new_message(message)
            assert len(await ThreadHistory(store, "t").load(ChatHistory)) == number
    await thread.on_new_message("after the block")
    restored = await ThreadHistory(store, "t").load(ChatHistory)
    original = [message async for message in thread.get_messages()]
    assert restored.messages == original[:3]
    assert restored.messages[1].items[0].arguments == '{"at": "it"}'
    again = ChatHistoryAgentThread(chat_history=restored, thread_id="t")
    assert len(again) == 3


async def test_a_thread_without_a_history_is_empty(store: foldlog.Store) -> None:
    assert len(await ThreadHistory(store, "new").load(ChatHistory)) == 0
