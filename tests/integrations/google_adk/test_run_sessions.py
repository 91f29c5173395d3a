"""Sessions of ADK in runs: a run that goes on has each event stored once."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events import Event
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.genai import types

import foldlog
from foldlog.integrations.google_adk import (
    FoldlogSessionService,
    agent_in,
    session_id_of,
    sessions_in,
)

ANN = {"app_name": "app", "user_id": "ann"}
TRIP: dict[str, Any] = {**ANN, "session_id": "trip"}

seen: list[list[str]] = []
"""What each model call was given, and each tool."""


begun: list[Any] = []
"""The state with which each execution began."""


class Script(BaseLlm):  # type: ignore[misc, unused-ignore]
    """Calls `note` twice, then says how much it was asked."""

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
        parts = [part for each in llm_request.contents for part in each.parts or ()]
        seen.append([part.text or "call" for part in parts])
        noted = [each for each in parts if each.function_response]
        if len(noted) % 2 == 0 or parts[-1].function_response is None:
            call = types.Part.from_function_call(name="note", args={"text": str(len(noted))})
            yield LlmResponse(content=types.ModelContent([call]))
        else:
            yield LlmResponse(content=types.ModelContent(f"{len(parts)} parts"))


async def note(text: str, tool_context: Any) -> str:
    """Note it."""
    seen.append([text])
    tool_context.state["noted"] = text
    return text


class Dies(ConnectionError):
    """In place of a process that dies."""


async def converse(store: foldlog.Store, *prompts: str, sessions: Any = sessions_in) -> str:
    """Ask in a run."""
    async with store.run("talk", session_id="s") as run:
        agent = LlmAgent(name="desk", model=Script(model="script"), tools=[note])
        service = sessions(run)
        session = await service.create_session(**TRIP, state={"noted": "nothing"})
        begun.append(dict(session.state))
        runner = Runner(app_name="app", agent=agent_in(run, agent), session_service=service)
        for prompt in prompts:
            ids = {"user_id": "ann", "session_id": "trip"}
            events = await runner.run_debug(prompt, quiet=True, **ids)
        return str(events[-1].content.parts[0].text)


async def stored(store: foldlog.Store, session_id: str = "trip") -> list[Any]:
    """What a session has: each event without its ids and its time. No id is there twice."""
    session = await FoldlogSessionService(store).get_session(**ANN, session_id=session_id)
    assert session is not None
    assert len({each.id for each in session.events}) == len(session.events)
    invocations = list(dict.fromkeys(each.invocation_id for each in session.events))
    ours = {"id", "timestamp", "invocation_id"}
    return [
        dict(session.state),
        *(
            (invocations.index(each.invocation_id), each.model_dump(mode="json", exclude=ours))
            for each in session.events
        ),
    ]


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    seen.clear()
    begun.clear()


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(1, 9))
async def test_an_event_is_stored_once_wherever_the_run_ends(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch, number: int, is_after: bool
) -> None:
    """Two prompts make eight events; the first execution ends at one of them."""
    append, appended = FoldlogSessionService.append_event, 0

    async def dying(self: Any, session: Any, event: Any) -> Any:
        nonlocal appended
        appended += 1
        if appended == number and not is_after:
            raise Dies
        given = await append(self, session, event)
        if appended == number:
            raise Dies
        return given

    async with foldlog.memory_store() as other:
        said = await converse(other, "one", "two")
        expected, given = await stored(other), list(seen)
    seen.clear()
    begun.clear()
    monkeypatch.setattr(FoldlogSessionService, "append_event", dying)
    with pytest.raises(Dies):
        await converse(store, "one", "two")
    assert await converse(store, "one", "two") == said
    assert (seen, begun) == (given, [{"noted": "nothing"}] * 2)
    assert await stored(store) == expected


async def test_with_the_plain_service_events_are_stored_twice(store: foldlog.Store) -> None:
    class Existing(FoldlogSessionService):
        async def create_session(self, **given: Any) -> Any:
            found = await self.get_session(**TRIP)
            return found or await super().create_session(**given)

    for _ in range(2):
        await converse(store, "one", sessions=lambda run: Existing(run.store))
    assert [text_of(each) for each in await events_of(store)].count("one") == 2


async def test_what_others_add_meanwhile_stays(store: foldlog.Store) -> None:
    async with store.run("talk", session_id="s") as run:
        mine = sessions_in(run)
        session = await mine.create_session(**TRIP)
        await mine.append_event(session, said("one"))
    service = FoldlogSessionService(store)
    theirs = await service.get_session(**TRIP)
    await service.append_event(theirs, said("theirs"))
    async with store.run("talk", session_id="s") as run:
        mine = sessions_in(run)
        session = await mine.create_session(**TRIP)
        assert [text_of(each) for each in session.events] == ["theirs"]
        await mine.append_event(session, said("one"))
        await mine.append_event(session, said("two"))
    assert [text_of(each) for each in await events_of(store)] == ["one", "theirs", "two"]


async def test_a_session_of_somebody_else_is_not_created_again(store: foldlog.Store) -> None:
    await FoldlogSessionService(store).create_session(**TRIP)
    async with store.run("talk", session_id="s") as run:
        with pytest.raises(AlreadyExistsError):
            await sessions_in(run).create_session(**TRIP)


async def test_sessions_without_an_id_have_the_same_ones_in_each_execution(
    store: foldlog.Store,
) -> None:
    async def created() -> list[str]:
        async with store.run("talk", session_id="s") as run:
            sessions = sessions_in(run)
            return [(await sessions.create_session(**ANN)).id for _ in range(2)]

    first = await created()
    assert await created() == first
    assert len(set(first)) == 2


async def test_results_beside_a_tool_that_raises_are_said_with_its_own(
    store: foldlog.Store,
) -> None:
    has_failed = False

    class CallsBoth(BaseLlm):  # type: ignore[misc, unused-ignore]
        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> Any:
            if llm_request.contents[-1].parts[-1].function_response:
                yield LlmResponse(content=types.ModelContent("both"))
                return
            calls = [types.Part.from_function_call(name=name, args={}) for name in ("good", "bad")]
            yield LlmResponse(content=types.ModelContent(calls))

    async def good() -> str:
        return "good"

    async def bad() -> str:
        nonlocal has_failed
        if not has_failed:
            has_failed = True
            raise Dies
        return "bad"

    async def come_to() -> None:
        async with store.run("talk", session_id="s") as run:
            agent = LlmAgent(name="desk", model=CallsBoth(model="script"), tools=[good, bad])
            service = sessions_in(run)
            runner = Runner(app_name="app", agent=agent_in(run, agent), session_service=service)
            await runner.run_debug("one", quiet=True, user_id="ann", session_id="trip")

    with pytest.raises(Dies):
        await come_to()
    assert len(await events_of(store)) == len(["user", "model"])
    await come_to()
    answered = [[each.name for each in e.get_function_responses()] for e in await events_of(store)]
    assert answered == [[], [], ["good", "bad"], []]


async def test_an_error_is_in_the_run_and_not_in_the_conversation(store: foldlog.Store) -> None:
    async with store.run("talk", session_id="s") as run:
        mine = sessions_in(run)
        session = await mine.create_session(**TRIP)
        await mine.append_event(session, Event(author="desk", error_code="ConnectionError"))
    assert len(await stored(store)) == 1


async def test_a_fork_goes_on_with_the_conversation_as_it_was(store: foldlog.Store) -> None:
    async def ask(session_id: str) -> None:
        app, user, id = session_id.split("/")
        async with store.run("talk", session_id=session_id) as run:
            agent = LlmAgent(name="desk", model=Script(model="script"), tools=[note])
            service = sessions_in(run)
            runner = Runner(app_name=app, agent=agent_in(run, agent), session_service=service)
            await runner.run_debug("one", quiet=True, user_id=user, session_id=id)

    await ask(session_id_of(**TRIP))
    before = len(seen)
    await store.fork(session_id_of(**TRIP), at="before step desk: model 2", to="app/ann/again")
    assert len(await stored(store, "again")) == 1 + len(["user", "model", "tool"])
    await ask("app/ann/again")
    assert len(seen) == before + len(["model"])
    assert await stored(store, "again") == await stored(store)


def said(text: str) -> Event:
    return Event(author="user", content=types.UserContent(text))


def text_of(event: Event) -> str:
    return str(event.content.parts[0].text)


async def events_of(store: foldlog.Store) -> list[Event]:
    found = await FoldlogSessionService(store).get_session(**TRIP)
    return list(found.events)
