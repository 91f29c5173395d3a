"""Checkpoints of a runtime: listed, compared, resumed from, and what they promise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from autogen_core import (
    AgentId,
    CancellationToken,
    DefaultTopicId,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TypeSubscription,
    message_handler,
)

import foldlog
from foldlog.agents.opening import NoRuntimeState
from foldlog.errors import AppendConflict, LogUnavailable, Misuse, NotFound
from foldlog.integrations.autogen import Checkpoint, RuntimeCheckpoints
from tests.integrations.autogen.agents import (
    ROUNDS,
    Answer,
    Ask,
    Draft,
    Halt,
    Library,
    Remembers,
    no_halt,
    register_writers,
)

ANN = DefaultTopicId(type="ann")


async def done(runtime: SingleThreadedAgentRuntime) -> dict[str, list[str]]:
    return {name: state["done"] for name, state in (await runtime.save_state()).items()}


async def run_writers(store: foldlog.Store, run_id: str) -> dict[str, list[str]]:
    """From the beginning, or from where the run stands, to the end."""
    runtime = SingleThreadedAgentRuntime()
    checkpoints = RuntimeCheckpoints(store, run_id)
    async with checkpoints.attached(runtime):
        await register_writers(runtime)
        restored = await checkpoints.restore()
        runtime.start()
        if restored is None:
            await runtime.publish_message(Draft("begin", 1), ANN)
        await runtime.stop_when_idle()
    return await done(runtime)


async def test_there_is_a_checkpoint_after_every_turn(store: foldlog.Store) -> None:
    await run_writers(store, "r")
    checkpoints = RuntimeCheckpoints(store, "r")
    listed = await checkpoints.list()
    turns = [f"{'ann' if n % 2 else 'bob'}/default Draft" for n in range(1, ROUNDS + 1)]
    assert [checkpoint.label for checkpoint in listed] == ["accepted", *turns]
    held = await checkpoints.load(listed[2])
    assert held["agent:ann/default"] == {"done": ["1: 1 about begin"]}
    [change] = [
        change
        for change in await checkpoints.compare(listed[1], listed[3])
        if change.key == "agent:ann/default"
    ]
    assert [(diff.path, diff.after) for diff in change.diff] == [
        ("state.state.done[1]", "3: 3 about bob1")
    ]


async def test_it_resumes_from_any_checkpoint_to_the_same_end(store: foldlog.Store) -> None:
    whole = await run_writers(store, "r")
    for checkpoint in await RuntimeCheckpoints(store, "r").list():
        runtime = SingleThreadedAgentRuntime()
        checkpoints = RuntimeCheckpoints(store, "r")
        async with checkpoints.attached(runtime):
            await register_writers(runtime)
            restored = await checkpoints.restore(checkpoint)
            assert restored is not None
            assert restored.version >= checkpoint.version
            assert await checkpoints.load() == await checkpoints.load(checkpoint)
            runtime.start()
            await runtime.stop_when_idle()
        assert await done(runtime) == whole


async def test_the_runtime_goes_on_while_checkpoints_are_saved(store: foldlog.Store) -> None:
    """The host sees each one without stopping anything."""
    runtime = SingleThreadedAgentRuntime()
    checkpoints = RuntimeCheckpoints(store, "r")
    async with checkpoints.attached(runtime):
        await register_writers(runtime)
        runtime.start()
        await runtime.publish_message(Draft("begin", 1), ANN)
        states = store.agents.repository.create_manager(NoRuntimeState, "autogen/r")
        seen = []
        async for change in states.watch("checkpoints", after=0):
            seen.append(change.label)
            if len(seen) == ROUNDS + 1:
                break
        await runtime.stop_when_idle()
    assert seen[-1] == "bob/default Draft"


async def test_a_second_process_cannot_save_checkpoints_of_the_run(store: foldlog.Store) -> None:
    first = RuntimeCheckpoints(store, "r")
    runtime = SingleThreadedAgentRuntime()
    with pytest.raises(AppendConflict):  # noqa: PT012 - the block is tested
        async with first.attached(runtime):
            await register_writers(runtime)
            runtime.start()
            await runtime.publish_message(Draft("begin", ROUNDS), ANN)
            await runtime.stop_when_idle()
            await run_writers(store, "r")
            other = SingleThreadedAgentRuntime()
            second = RuntimeCheckpoints(store, "r")
            async with second.attached(other):
                await register_writers(other)
                await second.restore()
                other.start()
                await other.publish_message(Draft("more", ROUNDS), ANN)
                await other.stop_when_idle()
            await runtime.publish_message(Draft("again", ROUNDS), ANN)
    assert isinstance(first.failure, AppendConflict)
    await runtime.close()


async def test_what_a_turn_publishes_leaves_when_the_turn_is_on_record(
    store: foldlog.Store,
) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def halt(where: str, what: str) -> None:
        if (where, what) == ("within", "ann 1"):
            begun.set()
            await go.wait()

    runtime = SingleThreadedAgentRuntime()
    checkpoints = RuntimeCheckpoints(store, "r")
    async with checkpoints.attached(runtime):
        await register_writers(runtime, halt)
        runtime.start()
        await runtime.publish_message(Draft("begin", 1), ANN)
        await begun.wait()
        assert len(await checkpoints.list()) == 1
        assert "bob/default" not in await done(runtime)
        go.set()
        await runtime.stop_when_idle()
    assert len((await done(runtime))["bob/default"]) == ROUNDS / 2


async def test_an_answer_to_the_host_is_on_record_when_it_comes(store: foldlog.Store) -> None:
    runtime = SingleThreadedAgentRuntime()
    checkpoints = RuntimeCheckpoints(store, "r")
    async with checkpoints.attached(runtime):
        await register_writers(runtime)
        runtime.start()
        answer = await runtime.send_message(Ask("x"), AgentId("library", "default"))
        assert answer.text == "1 about x"
        held = await RuntimeCheckpoints(store, "r").load()
        assert held["agent:library/default"] == {"done": ["x"]}
        assert held["inbox"] == {"messages": []}
        await runtime.stop_when_idle()


class Stubborn(Remembers):
    """Raises when it is told to, having begun."""

    @message_handler
    async def on_ask(self, message: Ask, ctx: MessageContext) -> None:
        self.done.append(message.text)
        if message.text == "raise":
            raise ZeroDivisionError
        if message.text == "cancelled":
            waited_for = asyncio.get_running_loop().create_future()
            waited_for.cancel()
            await waited_for
        if message.text == "wait":
            await self.halt("waits", "here")
            await asyncio.Event().wait()


class Forgetful(RoutedAgent):
    """Has no state to save."""

    @message_handler
    async def on_ask(self, message: Ask, ctx: MessageContext) -> None:
        await self.publish_message(message, ANN)


@asynccontextmanager
async def stubborn(store: foldlog.Store, halt: Halt = no_halt) -> Any:
    runtime = SingleThreadedAgentRuntime()
    checkpoints = RuntimeCheckpoints(store, "r")
    async with checkpoints.attached(runtime):
        await Stubborn.register(runtime, "ann", lambda: Stubborn(halt))
        await runtime.add_subscription(TypeSubscription(topic_type="ann", agent_type="ann"))
        await Forgetful.register(runtime, "bob", lambda: Forgetful("bob"))
        await checkpoints.restore()
        runtime.start()
        yield runtime
        await runtime.stop_when_idle()


@pytest.mark.parametrize("how", ["raise", "cancelled"])
async def test_a_handler_that_raises_has_handled_its_message(
    store: foldlog.Store, how: str
) -> None:
    async with stubborn(store) as runtime:
        await runtime.publish_message(Ask(how), ANN)
        await runtime.publish_message(Ask("go on"), ANN)
    async with stubborn(store) as runtime:
        pass
    assert await done(runtime) == {"ann/default": [how, "go on"]}


async def test_a_cancellation_token_reaches_the_handler(store: foldlog.Store) -> None:
    seen, token = [], CancellationToken()

    class Careful(RoutedAgent):
        @message_handler
        async def on_ask(self, message: Ask, ctx: MessageContext) -> None:
            seen.append(ctx.cancellation_token)

    runtime = SingleThreadedAgentRuntime()
    async with RuntimeCheckpoints(store, "r").attached(runtime):
        await Careful.register(runtime, "ann", lambda: Careful("careful"))
        await runtime.add_subscription(TypeSubscription(topic_type="ann", agent_type="ann"))
        runtime.start()
        await runtime.publish_message(Ask("x"), ANN, cancellation_token=token)
        await runtime.stop_when_idle()
    assert seen == [token]


async def test_a_handler_that_was_cancelled_is_given_its_message_again(
    store: foldlog.Store,
) -> None:
    token, waits = CancellationToken(), asyncio.Event()

    async def halt(where: str, what: str) -> None:
        waits.set()

    async with stubborn(store, halt) as runtime:
        asking = asyncio.ensure_future(
            runtime.send_message(Ask("wait"), AgentId("ann", "default"), cancellation_token=token)
        )
        await waits.wait()
        token.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        break_off(runtime)
    held = await RuntimeCheckpoints(store, "r").load()
    assert [post["to"] for post in held["inbox"]["messages"]] == [["ann/default"]]


def break_off(runtime: Any) -> None:
    """Cancel what the runtime is at, as the end of a process does."""
    for task in asyncio.all_tasks():
        if "_process_send" in repr(task):
            task.cancel()


class Peer(Remembers):
    """Asks the other when it is told a draft, and answers what it is asked."""

    @message_handler
    async def on_draft(self, message: Draft, ctx: MessageContext) -> None:
        self.done.append(f"told {message.text}")
        await self.halt(self.id.type, "told")
        answer = await self.send_message(Ask(message.text), AgentId(message.text, "default"))
        self.done.append(answer.text)

    @message_handler
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        self.done.append("asked")
        return Answer("answered")


async def test_two_that_ask_each_other_at_the_same_time_are_stored_together(
    store: foldlog.Store,
) -> None:
    both = asyncio.Barrier(2)

    async def halt(where: str, what: str) -> None:
        await both.wait()

    runtime = SingleThreadedAgentRuntime()
    checkpoints = RuntimeCheckpoints(store, "r")
    async with checkpoints.attached(runtime):
        for name in ("ann", "bob"):
            await Peer.register(runtime, name, lambda: Peer(halt))
            await runtime.add_subscription(TypeSubscription(topic_type=name, agent_type=name))
        runtime.start()
        await runtime.publish_message(Draft("bob", 1), ANN)
        await runtime.publish_message(Draft("ann", 1), DefaultTopicId(type="bob"))
        await runtime.stop_when_idle()
    *_, last = await checkpoints.list()
    assert sorted(last.label.split(", ")) == ["ann/default Draft", "bob/default Draft"]
    held = await checkpoints.load()
    for name, other in (("ann", "bob"), ("bob", "ann")):
        assert held[f"agent:{name}/default"] == {"done": [f"told {other}", "asked", "answered"]}


async def test_agents_without_state_of_their_own_are_left_alone(store: foldlog.Store) -> None:
    async with stubborn(store) as runtime:
        await runtime.send_message(Ask("hello"), AgentId("bob", "default"))
    held = await RuntimeCheckpoints(store, "r").load()
    assert set(held) == {"inbox", "agent:ann/default"}
    assert held["agent:ann/default"] == {"done": ["hello"]}


async def test_a_message_to_nobody_does_not_stay(store: foldlog.Store) -> None:
    async with stubborn(store) as runtime:
        await runtime.publish_message(Ask("x"), DefaultTopicId(type="nobody"))
        with pytest.raises(Exception, match="Recipient not found"):
            await runtime.send_message(Ask("x"), AgentId("nobody", "default"))
    held = await RuntimeCheckpoints(store, "r").load()
    assert held["inbox"] == {"messages": []}


async def test_of_several_who_are_told_only_those_are_told_again_who_have_not_heard(
    store: foldlog.Store,
) -> None:
    async def tell(checkpoint: Checkpoint | None) -> list[Checkpoint]:
        runtime = SingleThreadedAgentRuntime()
        checkpoints = RuntimeCheckpoints(store, "r")
        async with checkpoints.attached(runtime):
            for name in ("ann", "bob", "cid"):
                await Stubborn.register(runtime, name, lambda: Stubborn(no_halt))
                subscription = TypeSubscription(topic_type="all", agent_type=name)
                await runtime.add_subscription(subscription)
            await checkpoints.restore(checkpoint)
            runtime.start()
            if checkpoint is None:
                await runtime.publish_message(Ask("x"), DefaultTopicId(type="all"))
            await runtime.stop_when_idle()
        assert await done(runtime) == {f"{name}/default": ["x"] for name in ("ann", "bob", "cid")}
        return await checkpoints.list()

    first = await tell(None)
    assert len(first) == 4
    for checkpoint in first:
        await tell(checkpoint)


async def test_agents_that_are_registered_as_instances(store: foldlog.Store) -> None:
    for expected in (["x"], ["x", "y"]):
        runtime = SingleThreadedAgentRuntime()
        checkpoints = RuntimeCheckpoints(store, "r")
        library = Library(no_halt)
        async with checkpoints.attached(runtime):
            await library.register_instance(runtime, AgentId("library", "default"))
            await checkpoints.restore()
            runtime.start()
            await runtime.send_message(Ask(expected[-1]), AgentId("library", "default"))
            await runtime.stop_when_idle()
        assert library.done == expected


async def test_what_is_not_known_here_is_refused_by_name(store: foldlog.Store) -> None:
    await run_writers(store, "r")
    checkpoints = RuntimeCheckpoints(store, "r")
    first, *_ = await checkpoints.list()
    async with checkpoints.attached(SingleThreadedAgentRuntime()):
        with pytest.raises(Misuse, match="ann/default"):
            await checkpoints.restore()
        with pytest.raises(Misuse, match="Draft"):
            await checkpoints.restore(first)
        with pytest.raises(NotFound, match="no checkpoint"):
            await checkpoints.restore(first._replace(version=10**6))
        with pytest.raises(Misuse, match="attached"):
            async with checkpoints.attached(SingleThreadedAgentRuntime()):
                pass


async def test_without_checkpoints_nothing_is_restored(store: foldlog.Store) -> None:
    checkpoints = RuntimeCheckpoints(store, "r")
    async with checkpoints.attached(SingleThreadedAgentRuntime()):
        assert await checkpoints.restore() is None
    assert await checkpoints.list() == []
    assert await checkpoints.load() == {}


async def test_a_checkpoint_that_cannot_be_saved_stops_the_run(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = SingleThreadedAgentRuntime()
    checkpoints = RuntimeCheckpoints(store, "r")
    appends: list[Any] = []
    original: Callable[..., Any] = store._core.log.append

    async def failing(given: Any, **options: Any) -> Any:
        appends.append(given)
        if len(appends) == 3:
            raise LogUnavailable("gone")
        return await original(given, **options)

    with pytest.raises(LogUnavailable):  # noqa: PT012 - the block is tested
        async with checkpoints.attached(runtime):
            await register_writers(runtime)
            monkeypatch.setattr(store._core.log, "append", failing)
            runtime.start()
            await runtime.publish_message(Draft("begin", 1), ANN)
            await runtime.stop_when_idle()
    assert len(appends) == 3
    assert len(await checkpoints.list()) == 2
    monkeypatch.undo()
    assert await run_writers(store, "r") == await run_writers(store, "whole")


async def test_the_runtime_is_as_it_was_afterwards(store: foldlog.Store) -> None:
    runtime = SingleThreadedAgentRuntime()
    before = set(vars(runtime))
    async with RuntimeCheckpoints(store, "r").attached(runtime):
        assert set(vars(runtime)) != before
    assert set(vars(runtime)) == before


async def test_state_may_be_any_mapping(store: foldlog.Store) -> None:
    class Odd(Remembers):
        async def save_state(self) -> Mapping[str, Any]:
            return {"done": self.done, "tuple": (1, 2), "bytes": b"\xff"}

        @message_handler
        async def on_ask(self, message: Ask, ctx: MessageContext) -> None:
            self.done.append(message.text)

    runtime = SingleThreadedAgentRuntime()
    checkpoints = RuntimeCheckpoints(store, "r")
    async with checkpoints.attached(runtime):
        await Odd.register(runtime, "odd", lambda: Odd(no_halt))
        runtime.start()
        await runtime.send_message(Ask("x"), AgentId("odd", "default"))
        await runtime.stop_when_idle()
    held = await checkpoints.load()
    assert held["agent:odd/default"] == {"done": ["x"], "tuple": (1, 2), "bytes": b"\xff"}
