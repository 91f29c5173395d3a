"""Checkpoints of a team: listed, compared, resumed from, and what they promise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import MagenticOneGroupChat, RoundRobinGroupChat
from autogen_core import CancellationToken, SingleThreadedAgentRuntime

import foldlog
from foldlog.agents.ledger import Ledger
from foldlog.errors import AppendConflict, AppendUnknown, LogUnavailable, Misuse
from foldlog.integrations.autogen import RuntimeCheckpoints, TeamCheckpoints
from tests.integrations.autogen.agents import LINES, Model as Replay, lines_of, make_team, no_halt

LAST = "Maximum number of messages 8 reached, current message count: 8"


@asynccontextmanager
async def attached(
    store: foldlog.Store, run_id: str = "r", **options: Any
) -> AsyncIterator[TeamCheckpoints]:
    """A team with its checkpoints, on a runtime that runs."""
    runtime = SingleThreadedAgentRuntime()
    team, condition = make_team(runtime, **options)
    checkpoints = await TeamCheckpoints.attach(store, run_id, team, runtime, condition)
    runtime.start()
    yield checkpoints
    await runtime.stop_when_idle()


async def whole_run(store: foldlog.Store, run_id: str = "r") -> list[list[str]]:
    async with attached(store, run_id) as checkpoints:
        result = await checkpoints.run(task="a poem")
    assert result.stop_reason == LAST
    return lines_of([message.dump() for message in result.messages])


async def test_a_team_runs_as_it_does_without_checkpoints(store: foldlog.Store) -> None:
    runtime = SingleThreadedAgentRuntime()
    team, _ = make_team(runtime)
    runtime.start()
    plain = await team.run(task="a poem")
    await runtime.stop_when_idle()
    assert await whole_run(store) == lines_of([message.dump() for message in plain.messages])
    assert lines_of(await TeamCheckpoints(store, "r").transcript()) == await whole_run(store, "2")


async def test_there_is_a_checkpoint_after_every_turn(store: foldlog.Store) -> None:
    said = await whole_run(store)
    checkpoints = TeamCheckpoints(store, "r")
    listed = await checkpoints.list()
    speakers = [source for source, _ in said[1:]]
    assert [checkpoint.label for checkpoint in listed] == ["began", *speakers[:-1], "ended"]
    changes = await checkpoints.compare(listed[1], listed[2])
    [thread] = [
        [difference.path for difference in change.diff]
        for change in changes
        if change.key == "agent:RoundRobinGroupChatManager"
    ]
    assert "state.state.message_thread[2]" in thread
    assert "state.state.current_turn" in thread


async def test_it_resumes_from_any_checkpoint_to_the_same_end(store: foldlog.Store) -> None:
    said = await whole_run(store)
    *listed, end = await TeamCheckpoints(store, "r").list()
    for turns, checkpoint in enumerate(listed):
        known = [{"source": source} for source, _ in said[1 : turns + 1]]
        async with attached(store, said=known) as checkpoints:
            restored = await checkpoints.restore(checkpoint)
            assert restored is not None
            assert len(await checkpoints.transcript()) == (turns and turns + 1)
            result = await checkpoints.run()
            assert result.stop_reason == LAST
            assert lines_of(await checkpoints.transcript()) == said
    known = [{"source": source} for source, _ in said[1:]]
    async with attached(store, said=known) as checkpoints:
        await checkpoints.restore(end)
        assert lines_of(await checkpoints.transcript()) == said


async def test_another_run_of_the_team_follows_the_first(store: foldlog.Store) -> None:
    async with attached(store, said=[]) as checkpoints:
        await checkpoints.run(task="a poem")
        result = await checkpoints.run(task=[TextMessage(content="go on", source="user")])
        assert result.stop_reason.startswith("Text 'APPROVE' mentioned")
        transcript = await checkpoints.transcript()
    assert lines_of(transcript) == [["user", "go on"], ["critic", "APPROVE"]]
    async with attached(store, said=[{"source": "poet"}] * 4 + [{"source": "critic"}] * 4) as again:
        assert await again.restore() is not None
        assert await again.transcript() == transcript


async def test_a_team_inside_a_team_is_part_of_its_state(store: foldlog.Store) -> None:
    runtime = SingleThreadedAgentRuntime()

    def speaker(name: str, lines: list[str]) -> AssistantAgent:
        return AssistantAgent(name, model_client=Replay(name, lines, no_halt))

    condition = MaxMessageTermination(5)
    inner = RoundRobinGroupChat(
        [speaker("poet", ["roses", "violets"]), speaker("critic", ["better", "good"])],
        termination_condition=MaxMessageTermination(4),
        runtime=runtime,
    )
    team = RoundRobinGroupChat(
        [inner, speaker("printer", ["printed", "sold"])],
        termination_condition=condition,
        runtime=runtime,
    )
    checkpoints = await TeamCheckpoints.attach(store, "r", team, runtime, condition)
    runtime.start()
    await checkpoints.run(task="a poem")
    await runtime.stop_when_idle()
    listed = await checkpoints.list()
    assert [each.label for each in listed][0 :: len(listed) - 1] == ["began", "ended"]
    assert len(listed) == 3
    assert "poet" in str(await checkpoints.load())


async def test_messages_are_heard_while_the_team_runs(store: foldlog.Store) -> None:
    heard, recorded = [], []
    async with attached(store) as checkpoints:
        async for message in checkpoints.run_stream(task="a poem"):
            heard.append(getattr(message, "content", "result"))
            recorded.append(len(await checkpoints.list()))
    assert heard[0] == "a poem"
    assert heard[-1] == "result"
    assert recorded[0] < recorded[-1] == 8


@pytest.mark.parametrize("number", [2, 3, 4])
@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_team_that_was_cancelled_runs_again(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, number: int, is_stored: bool
) -> None:
    token, original, appends = CancellationToken(), store._core.log.append, list[Any]()

    async def append(given: Any, **options: Any) -> Any:
        appends.append(given)
        if len(appends) == number and not is_stored:
            token.cancel()
            await asyncio.sleep(0)
        seqs = await original(given, **options)
        if len(appends) == number and is_stored:
            token.cancel()
            await asyncio.sleep(0)
        return seqs

    async with attached(store) as checkpoints:
        monkeypatch.setattr(store._core.log, "append", append)
        with pytest.raises(asyncio.CancelledError):
            await checkpoints.run(task="a poem", cancellation_token=token)
        monkeypatch.undo()
        result = await checkpoints.run(task="once more")
        assert result.stop_reason
        assert lines_of(await checkpoints.transcript())[0] == ["user", "once more"]
    assert [c.label for c in await checkpoints.list()][-1] == "ended"


@pytest.mark.parametrize("number", [1, 2, 3, 4])
async def test_when_a_cancelled_run_has_ended_its_checkpoints_have(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    token, original, appends = CancellationToken(), store._core.log.append, list[Any]()

    async def append(given: Any, **options: Any) -> Any:
        appends.append(given)
        if len(appends) == number:
            token.cancel()
            for _ in range(200):  # a slow log
                await asyncio.sleep(0)
        return await original(given, **options)

    async with attached(store) as checkpoints:
        monkeypatch.setattr(store._core.log, "append", append)
        with pytest.raises(asyncio.CancelledError):
            await checkpoints.run(task="a poem", cancellation_token=token)
        async with attached(store) as others:
            await others.restore()
            result = await others.run(task="once more")
    assert result.stop_reason
    assert [c.label for c in await checkpoints.list()][-1] == "ended"


async def test_a_run_that_has_ended_gives_its_result_again(store: foldlog.Store) -> None:
    said = await whole_run(store)
    asked = list[str]()

    async def halt(where: str, what: str) -> None:
        asked.append(what)

    async with attached(store, halt=halt) as checkpoints:
        before = await checkpoints.list()
        assert await checkpoints.restore() == before[-1]
        again = await checkpoints.run()
        assert (lines_of([m.dump() for m in again.messages]), again.stop_reason) == (said, LAST)
        assert await checkpoints.list() == before
        assert not asked
        assert await checkpoints.result() == again


async def test_tasks_are_taken_as_the_team_takes_them(store: foldlog.Store) -> None:
    async with attached(store) as checkpoints:
        for task in ([], ["text"], 7):
            with pytest.raises(ValueError, match=r"[Tt]ask"):
                await checkpoints.run(task=task)
        assert await checkpoints.list() == []
        result = await checkpoints.run(
            task=TextMessage(content="a poem", source="user"), output_task_messages=False
        )
        assert lines_of([m.dump() for m in result.messages])[0][0] == "poet"


async def test_a_second_process_cannot_run_the_team(store: foldlog.Store) -> None:
    async def overtake(where: str, what: str) -> None:
        if what == LINES["critic"][1] and not overtaken:
            overtaken.append(what)
            async with attached(store, said=[{"source": "poet"}] * 2 + [{"source": "critic"}]) as c:
                await c.restore()
                await c.run()

    overtaken: list[str] = []
    runtime = SingleThreadedAgentRuntime()
    team, condition = make_team(runtime, halt=overtake)
    checkpoints = await TeamCheckpoints.attach(store, "r", team, runtime, condition)
    runtime.start()
    with pytest.raises(AppendConflict):
        await checkpoints.run(task="a poem")
    await runtime.stop_when_idle()
    assert overtaken


async def test_a_checkpoint_that_cannot_be_saved_stops_the_team(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    appends: list[Any] = []
    original = store._core.log.append

    async def failing(given: Any, **options: Any) -> Any:
        appends.append(given)
        if len(appends) == 3:
            raise LogUnavailable("gone")
        return await original(given, **options)

    async with attached(store) as checkpoints:
        monkeypatch.setattr(store._core.log, "append", failing)
        with pytest.raises(LogUnavailable):
            await checkpoints.run(task="a poem")
    assert [checkpoint.label for checkpoint in await checkpoints.list()] == ["began", "poet"]


@pytest.mark.parametrize("number", [2, 3, 4])
@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_team_goes_on_after_a_checkpoint_of_which_nobody_knows(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, number: int, is_stored: bool
) -> None:
    commits, original = list[Any](), Ledger.commit

    async def doubtful(ledger: Ledger, *given: Any) -> Any:
        commits.append(given)
        if len(commits) != number:
            return await original(ledger, *given)
        if is_stored:
            await original(ledger, *given)
        raise AppendUnknown(["checkpoint"], "the ack was lost, and the log did not answer")

    async with attached(store) as checkpoints:
        monkeypatch.setattr(Ledger, "commit", doubtful)
        with pytest.raises(AppendUnknown):
            await checkpoints.run(task="a poem")
        monkeypatch.undo()
        assert (await checkpoints.run(task="once more")).stop_reason
    assert [c.label for c in await checkpoints.list()][-1] == "ended"


async def test_a_participant_that_raises_is_the_teams_error(store: foldlog.Store) -> None:
    async def broken(where: str, what: str) -> None:
        if what == LINES["critic"][0]:
            raise ZeroDivisionError("the model is gone")

    async with attached(store, halt=broken) as checkpoints:
        with pytest.raises(RuntimeError, match="the model is gone"):
            await checkpoints.run(task="a poem")
    async with attached(store, said=[{"source": "poet"}]) as checkpoints:
        await checkpoints.restore()
        assert (await checkpoints.run()).stop_reason == LAST


async def test_what_cannot_be_attached_is_refused(store: foldlog.Store) -> None:
    runtime, other = SingleThreadedAgentRuntime(), SingleThreadedAgentRuntime()
    team, condition = make_team(runtime)
    with pytest.raises(Misuse, match="runtime that it was given"):
        await TeamCheckpoints.attach(store, "r", team, other, condition)
    with pytest.raises(Misuse, match="before it first runs"):
        await TeamCheckpoints.attach(store, "r", team, runtime, condition)


async def test_a_team_whose_manager_does_not_select_speakers_is_refused(
    store: foldlog.Store,
) -> None:
    runtime = SingleThreadedAgentRuntime()
    agent = AssistantAgent("poet", model_client=Replay("poet", ["x"], no_halt))
    model = Replay("orchestrator", ["x"], no_halt)
    team = MagenticOneGroupChat([agent], model_client=model, runtime=runtime)
    with pytest.raises(Misuse, match="manager that selects speakers"):
        await TeamCheckpoints.attach(store, "r", team, runtime)


async def test_a_run_of_agents_is_no_teams(store: foldlog.Store) -> None:
    runtime = SingleThreadedAgentRuntime()
    agents = RuntimeCheckpoints(store, "r")
    async with agents.attached(runtime):
        await agents._save({"inbox": {"messages": []}}, "accepted")
    async with attached(store) as checkpoints:
        with pytest.raises(Misuse, match="not a team's"):
            await checkpoints.restore()


async def test_a_team_without_a_condition_ends_after_its_turns(store: foldlog.Store) -> None:
    async def run(lines: list[str], turns: int) -> tuple[TeamCheckpoints, Any]:
        runtime = SingleThreadedAgentRuntime()
        agent = AssistantAgent("poet", model_client=Replay("poet", lines, no_halt))
        team = RoundRobinGroupChat([agent], max_turns=turns, runtime=runtime)
        checkpoints = await TeamCheckpoints.attach(store, "r", team, runtime)
        runtime.start()
        listed = await checkpoints.list()
        restored = await checkpoints.restore(listed[1]) if listed else None
        result = await checkpoints.run(task=None if restored else "a poem")
        await runtime.stop_when_idle()
        return checkpoints, result

    await run(LINES["poet"], 3)
    checkpoints, result = await run(LINES["poet"][1:], 3)
    assert result.stop_reason == "Maximum number of turns 3 reached."
    assert len(await checkpoints.transcript()) == 4


async def test_a_condition_is_reminded_of_the_turns_and_not_of_more(store: foldlog.Store) -> None:
    await whole_run(store)
    _, _, third, *_ = await TeamCheckpoints(store, "r").list()
    runtime = SingleThreadedAgentRuntime()
    team, _ = make_team(runtime, [{"source": "poet"}, {"source": "critic"}])
    shown: list[int] = []

    class Watched(MaxMessageTermination):
        async def __call__(self, messages: Any) -> Any:
            shown.append(len(messages))
            return await super().__call__(messages)

    condition = Watched(8)
    checkpoints = await TeamCheckpoints.attach(store, "r", team, runtime, condition)
    await checkpoints.restore(third)
    assert shown == [1, 1, 1]
    assert not condition.terminated
