"""The services of Google's ADK on a store: what ADK's own tests of services do not look at."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types

import foldlog
import foldlog.blocking
from foldlog.errors import InvalidId, Misuse, PayloadError, SessionHasForks
from foldlog.integrations.google_adk import (
    FoldlogArtifactService,
    FoldlogMemoryService,
    FoldlogSessionService,
    session_id_of,
)
from foldlog.integrations.objects import Unreadable
from foldlog.scoped import Scope
from foldlog_projections.google_adk import adkstates
from tests.integrations.killing import dying_at
from tests.redaction.leaks import MASK, SECRET, Hook

ANN = {"app_name": "travel", "user_id": "ann"}
TRIP: dict[str, Any] = {**ANN, "session_id": "trip"}
ID = session_id_of(**TRIP)


@pytest.fixture
async def log() -> AsyncIterator[foldlog.Store]:
    async with foldlog.memory_store() as store:
        yield store


def said(text: str, *, author: str = "user", **delta: Any) -> Event:
    actions = EventActions(state_delta=delta)
    return Event(author=author, content=types.UserContent(text), actions=actions)


def plan(text: bytes = b"plan") -> types.Part:
    return types.Part.from_bytes(data=text, mime_type="text/plain")


async def events_of(sessions: FoldlogSessionService) -> list[str]:
    session = await sessions.get_session(**TRIP)
    assert session is not None
    return [each.content.parts[0].text for each in session.events]


# --- sessions ---------------------------------------------------------------------------------


async def test_an_event_that_answers_other_calls_is_no_repeat(log: foldlog.Store) -> None:
    sessions = FoldlogSessionService(log)
    session = await sessions.create_session(**TRIP)
    response = types.FunctionResponse(id="one", name="f", response={})
    content = types.UserContent([types.Part(function_response=response)])
    event = await sessions.append_event(session, Event(author="user", content=content))
    other = event.model_copy(deep=True)
    assert await sessions.append_event(session, other) is other
    other.content.parts[0].function_response.id = "two"
    with pytest.raises(AlreadyExistsError):
        await sessions.append_event(session, other)


def test_no_two_sessions_of_adk_are_one_of_foldlog() -> None:
    names = ["a", "b", "a/b", "a%2Fb", "%", "/"]
    ids = {session_id_of(x, y, z) for x in names for y in names for z in names}
    assert len(ids) == len(names) ** 3
    assert ID == "travel/ann/trip"


async def test_an_event_and_what_it_changes_are_one_append(
    log: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = FoldlogSessionService(log)
    session = await sessions.create_session(**TRIP)
    appended: list[list[str]] = []
    append = log.log.append

    async def note(appends: Any, *, atomic: bool = False) -> Any:
        appended.append([f"atomic={atomic}", *sorted(each.subject.family for each in appends)])
        return await append(appends, atomic=atomic)

    monkeypatch.setattr(log.log, "append", note)
    await sessions.append_event(session, said("hi", **{"n": 1, "user:n": 2, "app:n": 3}))
    assert appended == [["atomic=True", "adkstates", "adkstates", "messages"]]
    assert session.state == {"n": 1, "user:n": 2, "app:n": 3}
    got = await sessions.get_session(**TRIP)
    assert got is not None
    assert got.model_dump() == session.model_dump()


async def test_with_several_shards_shared_state_is_refused_and_the_rest_is_not() -> None:
    async with foldlog.memory_store(shards=8) as store:
        sessions = FoldlogSessionService(store)
        session = await sessions.create_session(**TRIP, state={"n": 1})
        await sessions.append_event(session, said("hi", n=2))
        with pytest.raises(Misuse, match="shard"):
            await sessions.append_event(session, said("there", **{"user:n": 3, "app:n": 4}))
        assert await events_of(sessions) == ["hi"]
        again = await sessions.get_session(**TRIP)
        assert again is not None
        assert again.state == {"n": 2}
        assert [each.id for each in (await sessions.list_sessions(**ANN)).sessions] == ["trip"]


async def test_of_many_who_create_a_session_one_does(log: foldlog.Store) -> None:
    services = [FoldlogSessionService(log) for _ in range(5)]
    await services[0].create_session(app_name="travel", user_id="bob", session_id="trip")
    made = await asyncio.gather(
        *(each.create_session(**TRIP, state={"n": n}) for n, each in enumerate(services)),
        return_exceptions=True,
    )
    [session] = [each for each in made if isinstance(each, Session)]
    assert [type(each) for each in made if each is not session] == 4 * [AlreadyExistsError]
    got = await services[0].get_session(**TRIP)
    assert got is not None
    assert got.state == session.state
    listed = {
        who: await services[0].list_sessions(app_name="travel", user_id=who)
        for who in (None, "", "ann")
    }
    assert [len(each.sessions) for each in listed.values()] == [2, 0, 1]


async def test_of_stale_copies_one_appends_and_those_who_share_a_session_all_do(
    log: foldlog.Store,
) -> None:
    sessions = FoldlogSessionService(log)
    session = await sessions.create_session(**TRIP)
    copies = [session.model_copy(deep=True) for _ in range(5)]
    others = [FoldlogSessionService(log) for _ in copies]  # as in five processes
    appended = await asyncio.gather(
        *(o.append_event(c, said("x")) for o, c in zip(others, copies, strict=True)),
        return_exceptions=True,
    )
    refused = [each for each in appended if isinstance(each, Exception)]
    assert [type(each) for each in refused] == 4 * [StaleSessionError]
    shared = await sessions.get_session(**TRIP)
    assert shared is not None
    await asyncio.gather(*(sessions.append_event(shared, said(f"{n}")) for n in range(5)))
    assert await events_of(sessions) == ["x", *map(str, range(5))]
    assert [each.content.parts[0].text for each in shared.events] == await events_of(sessions)


async def test_an_event_that_is_appended_again_has_no_effect(log: foldlog.Store) -> None:
    sessions = FoldlogSessionService(log)
    session = await sessions.create_session(**TRIP)
    stale = session.model_copy(deep=True)
    event = said("hi", n=1)
    await sessions.append_event(session, event)
    await sessions.append_event(session, said("more", n=2))
    await sessions.append_event(stale, event)  # as after an error that left the outcome open
    assert await events_of(sessions) == ["hi", "more"]
    assert [each.id for each in stale.events] == [event.id]
    with pytest.raises(StaleSessionError):  # it has not what was said since
        await sessions.append_event(stale, said("late"))
    other = said("another")
    other.id = event.id
    with pytest.raises(AlreadyExistsError, match=event.id):
        await sessions.append_event(session, other)
    assert len(session.events) == 2


async def test_a_session_that_was_deleted_and_begun_anew_is_another(log: foldlog.Store) -> None:
    sessions = FoldlogSessionService(log)
    old = await sessions.create_session(**TRIP, state={"user:n": 1})
    await sessions.append_event(old, said("hi"))
    await sessions.delete_session(**TRIP)
    assert await log.sessions() == []
    assert (await sessions.list_sessions(app_name="travel")).sessions == []
    assert (await sessions.list_sessions(app_name="travel", user_id="")).sessions == []
    with pytest.raises(SessionNotFoundError):
        await sessions.append_event(old, said("late"))
    new = await sessions.create_session(**TRIP)
    await sessions.append_event(new, said("hello"))
    with pytest.raises(StaleSessionError):  # as long as the old one was, and not the same
        await sessions.append_event(old, said("late"))
    assert await events_of(sessions) == ["hello"]
    assert new.state == {"user:n": 1}
    await sessions.delete_session(**ANN, session_id="never")


async def test_a_session_without_a_marker_is_refused_if_it_lacks_events(log: foldlog.Store) -> None:
    sessions = FoldlogSessionService(log)
    await sessions.create_session(**TRIP)
    made = Session(**ANN, id="trip")  # by hand
    await sessions.append_event(made, said("hi"))
    with pytest.raises(StaleSessionError):
        await sessions.append_event(Session(**ANN, id="trip"), said("late"))
    assert await events_of(sessions) == ["hi"]


@pytest.mark.parametrize("bad", ["", "\ud800", 7])
async def test_ids_that_are_none_are_refused(log: foldlog.Store, bad: Any) -> None:
    sessions = FoldlogSessionService(log)
    for name in ANN:
        asked = {**TRIP, name: bad}
        for call in (sessions.create_session, sessions.get_session, sessions.delete_session):
            with pytest.raises((InvalidId, ValueError)):
                await call(**asked)
        with pytest.raises(InvalidId):
            await sessions.get_user_state(**{**ANN, name: bad})
        with pytest.raises(InvalidId):
            await found(FoldlogMemoryService(log), "x", **{**ANN, name: bad})
    assert await log.sessions() == []


async def test_a_value_that_cannot_be_held_is_refused_whole(log: foldlog.Store) -> None:
    sessions = FoldlogSessionService(log)
    session = await sessions.create_session(**TRIP)
    with pytest.raises((PayloadError, ValueError)):
        await sessions.append_event(session, said("\ud800", n=1))
    assert await events_of(sessions) == []


async def test_a_session_whose_messages_were_cleared_can_be_created_again(
    log: foldlog.Store,
) -> None:
    sessions = FoldlogSessionService(log)
    await sessions.append_event(await sessions.create_session(**TRIP), said("hi"))
    await log.delete_messages(ID)
    assert await sessions.get_session(**TRIP) is None
    await sessions.append_event(await sessions.create_session(**TRIP), said("hello"))
    assert await events_of(sessions) == ["hello"]


async def test_what_others_keep_in_a_session_is_no_event(log: foldlog.Store) -> None:
    sessions = FoldlogSessionService(log)
    session = await sessions.create_session(**TRIP)
    notes = [foldlog.Message("m", "plain", "a note")]
    await log.append_messages(ID, notes, conversation="notes")
    await sessions.append_event(session, said("hi"))
    assert await events_of(sessions) == ["hi"]


async def test_sessions_are_as_they_were(log: foldlog.Store) -> None:
    sessions = FoldlogSessionService(log)
    session = await sessions.create_session(**TRIP, state={"app:n": 1})
    then = FoldlogSessionService(log.at(await log.position()))
    await sessions.append_event(session, said("hi", **{"app:n": 2}))
    was = await then.get_session(**TRIP)
    assert was is not None
    assert (was.state, was.events) == ({"app:n": 1}, [])


async def test_a_fork_is_a_session_that_goes_on_by_itself(log: foldlog.Store) -> None:
    sessions = FoldlogSessionService(log)
    session = await sessions.create_session(**TRIP, state={"n": 1})
    await sessions.append_event(session, said("hi"))
    await log.fork(ID, to=session_id_of(**ANN, session_id="fork"))
    await sessions.append_event(session, said("to Oslo", n=2))
    fork = await sessions.get_session(**ANN, session_id="fork")
    assert fork is not None
    await sessions.append_event(fork, said("to Rome"))
    fork = await sessions.get_session(**ANN, session_id="fork")
    assert fork is not None
    assert [each.content.parts[0].text for each in fork.events] == ["hi", "to Rome"]
    assert (fork.id, fork.state) == ("fork", {"n": 1})
    assert await events_of(sessions) == ["hi", "to Oslo"]
    with pytest.raises(SessionHasForks):
        await sessions.delete_session(**TRIP)


async def test_a_blocking_store_serves_runs_of_any_thread(tmp_path: Any) -> None:
    with foldlog.blocking.connect(path=tmp_path) as store:
        sessions = FoldlogSessionService(store)

        async def speak() -> None:
            session = await sessions.create_session(**ANN)
            await sessions.append_event(session, said("hi"))

        await asyncio.gather(*(asyncio.to_thread(asyncio.run, speak()) for _ in range(2)))
        assert len((await sessions.list_sessions(**ANN)).sessions) == 2


# --- what waits -------------------------------------------------------------------------------


def asking(id: str, name: str = "adk_request_confirmation") -> Event:
    call = types.FunctionCall(id=id, name=name, args={"n": 1})
    content = types.ModelContent([types.Part(function_call=call)])
    return Event(author="guide", content=content, long_running_tool_ids={id})


def responding(id: str, author: str = "user") -> Event:
    response = types.FunctionResponse(id=id, name="any", response={"confirmed": True})
    return Event(author=author, content=types.UserContent([types.Part(function_response=response)]))


async def test_a_call_waits_until_the_user_answers_it(log: foldlog.Store) -> None:
    sessions = FoldlogSessionService(log)
    session = await sessions.create_session(**TRIP)
    await sessions.append_event(session, asking("1"))
    await sessions.append_event(session, asking("2", "ticket"))
    await sessions.append_event(session, responding("2", "guide"))  # it is under way
    first, second = await log.waiting()
    assert (first.session_id, first.by, first.asked["reason"]) == (ID, "ann", "confirmation")
    assert second.asked["reason"] == "long_running_tool"
    about = {name: second.asked["payload"][name] for name in ("session_id", "id", "name", "args")}
    assert about == {"session_id": "trip", "id": "2", "name": "ticket", "args": {"n": 1}}
    await sessions.append_event(session, responding("1"))
    assert [each.id for each in await log.waiting()] == [second.id]
    await sessions.delete_session(**TRIP)
    assert await log.waiting() == []


async def test_a_call_waits_with_its_event_or_not_at_all(log: foldlog.Store) -> None:
    sessions = FoldlogSessionService(log)
    session = await sessions.create_session(**TRIP)
    with dying_at(log, "save_planner_state"):
        await sessions.append_event(session, asking("1"))
    await sessions.append_event(session, asking("1"))
    with dying_at(log, "load_planner_state"):
        await sessions.append_event(session, responding("1"))
    got = await sessions.get_session(**TRIP)
    assert got is not None
    assert ([each.author for each in got.events], len(await log.waiting())) == (["guide"], 1)


async def test_calls_wait_on_several_shards() -> None:
    async with foldlog.memory_store(shards=4) as log:
        sessions = FoldlogSessionService(log)
        for n in range(6):
            session = await sessions.create_session(**ANN, session_id=str(n))
            await sessions.append_event(session, asking("1"))
        assert len(await log.waiting()) == 6


# --- artifacts --------------------------------------------------------------------------------


async def test_those_who_save_at_once_get_versions_of_their_own(log: foldlog.Store) -> None:
    services = [FoldlogArtifactService(log) for _ in range(5)]
    parts = [plan(str(n).encode()) for n in range(5)]
    saved = await asyncio.gather(
        *(
            each.save_artifact(**TRIP, filename="a:0", artifact=part)
            for each, part in zip(services, parts, strict=True)
        )
    )
    assert sorted(saved) == list(range(5))
    for part, version in zip(parts, saved, strict=True):
        found = await services[0].load_artifact(**TRIP, filename="a:0", version=version)
        assert found == part
    assert await services[0].list_versions(**TRIP, filename="a") == []
    await services[0].delete_artifact(**TRIP, filename="a:0")
    assert await services[0].list_artifact_keys(**TRIP) == []
    assert await services[0].save_artifact(**TRIP, filename="a:0", artifact=plan()) == 0


async def test_a_large_artifact_comes_back(log: foldlog.Store) -> None:
    artifacts, part = FoldlogArtifactService(log), plan(bytes(range(256)) * 8192)
    await artifacts.save_artifact(**TRIP, filename="user:large", artifact=part)
    elsewhere = {**ANN, "session_id": "other"}
    assert await artifacts.load_artifact(**elsewhere, filename="user:large") == part
    [about] = await artifacts.list_artifact_versions(**ANN, filename="user:large")
    assert about.canonical_uri == "artifact://apps/travel/users/ann/artifacts/user:large/versions/0"


async def test_references_lead_within_reach_and_not_in_circles(log: foldlog.Store) -> None:
    artifacts = FoldlogArtifactService(log)
    await artifacts.save_artifact(**TRIP, filename="a", artifact=plan())

    def to(name: str, user: str = "ann") -> types.Part:
        uri = f"artifact://apps/travel/users/{user}/sessions/trip/artifacts/{name}/versions/0"
        return types.Part(file_data=types.FileData(file_uri=uri))

    await artifacts.save_artifact(**TRIP, filename="b", artifact=to("a"))
    assert await artifacts.load_artifact(**TRIP, filename="b") == plan()
    await artifacts.save_artifact(**TRIP, filename="circle", artifact=to("circle"))
    with pytest.raises(InputValidationError, match="refer to each other"):
        await artifacts.load_artifact(**TRIP, filename="circle")
    for bad in (to("a", "bob"), types.Part(file_data=types.FileData(file_uri="artifact://x"))):
        with pytest.raises(InputValidationError):
            await artifacts.save_artifact(**TRIP, filename="c", artifact=bad)
    with pytest.raises(InputValidationError, match="type"):
        await artifacts.save_artifact(**TRIP, filename="c", artifact=types.Part())
    with pytest.raises(InputValidationError, match="Session ID"):
        await artifacts.save_artifact(**ANN, filename="c", artifact=plan())
    for name in TRIP:
        with pytest.raises(InputValidationError, match=name):
            await artifacts.list_artifact_keys(**{**TRIP, name: "../x"})


async def test_what_a_rewind_removed_is_not_there(log: foldlog.Store) -> None:
    artifacts = FoldlogArtifactService(log)
    await artifacts.save_artifact(**TRIP, filename="a", artifact=plan())
    gone = types.Part.from_bytes(data=b"", mime_type="application/octet-stream")
    await artifacts.save_artifact(**TRIP, filename="a", artifact=gone)
    assert await artifacts.load_artifact(**TRIP, filename="a") is None
    assert await artifacts.load_artifact(**TRIP, filename="a", version=0) == plan()


# --- memory -----------------------------------------------------------------------------------


async def found(memory: FoldlogMemoryService, query: str, **whose: Any) -> list[str]:
    response = await memory.search_memory(**whose or ANN, query=query)
    return [each.content.parts[0].text for each in response.memories]


async def test_a_memory_that_was_deleted_does_not_come_back(log: foldlog.Store) -> None:
    memory, event = FoldlogMemoryService(log), said("I like trains")
    thought = types.Part(text="trains again", thought=True)
    event.content.parts.append(thought)
    session = Session(**ANN, id="trip", events=[event, said("and tea"), Event(author="user")])
    await memory.add_session_to_memory(session)
    await memory.add_session_to_memory(session)
    assert await found(memory, "trains") == ["I like trains"]
    assert await found(memory, "again") == []
    # Nothing but what was said is searched.
    assert [await found(memory, word) for word in ("user", "trip", "ann", event.id)] == [[]] * 4
    [kept] = (await memory.search_memory(**ANN, query="trains")).memories
    assert (kept.id, kept.author, kept.content.role) == (event.id, "user", "user")
    with dying_at(log.scoped, "erase"):
        await memory.delete_memory(**ANN, memory_id=event.id)
    assert await found(memory, "trains") == []
    for _ in range(2):
        await memory.add_session_to_memory(session)
        await memory.delete_memory(**ANN, memory_id=event.id)
    await memory.add_session_to_memory(session)
    assert await found(memory, "trains tea") == ["and tea"]
    await memory.delete_memory(**ANN, memory_id="never")


async def test_memories_are_found_by_meaning_where_there_is_an_embedder(
    log: foldlog.Store,
) -> None:
    pytest.importorskip("numpy")

    def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0] if "rail" in text or "train" in text else [0.0, 1.0] for text in texts]

    memory = FoldlogMemoryService(log, embedder=embed, max_results=1)
    events = [said("I like trains"), said("and tea")]
    await memory.add_events_to_memory(**ANN, events=events)
    assert await found(memory, "by rail") == ["I like trains"]


async def test_no_other_service_and_no_deletion_embeds_a_memory_again(log: foldlog.Store) -> None:
    pytest.importorskip("numpy")
    embedded: list[str] = []

    def embed(texts: list[str]) -> list[list[float]]:
        embedded.extend(texts)
        return [[1.0, 0.5] for _ in texts]

    memory = FoldlogMemoryService(log, embedder=embed)
    gone, *others = [said("I like trains"), said("and tea"), said("and rain")]
    await memory.add_events_to_memory(**ANN, events=[gone, *others])
    assert len(await found(memory, "by rail")) == 3
    assert len(embedded) == 4
    await memory.delete_memory(**ANN, memory_id=gone.id)
    async with foldlog.memory_store(log=log._core.log) as store:  # type: ignore[arg-type]
        for each in (log, store):
            memory = FoldlogMemoryService(each, embedder=embed)
            assert sorted(await found(memory, "by rail")) == ["and rain", "and tea"]
    assert [text for text in embedded[4:] if "and " in text or "train" in text] == []


# --- redaction and erasure --------------------------------------------------------------------


async def save_everything(store: foldlog.Store) -> None:
    """Hand a secret to all of the services."""
    sessions, artifacts = FoldlogSessionService(store), FoldlogArtifactService(store)
    state = {"own": SECRET, "user:own": SECRET, "app:own": SECRET}
    session = await sessions.create_session(**TRIP, state=state)
    await sessions.append_event(session, said(SECRET, **state))
    part = types.Part(text=SECRET)
    about = {"artifact": part, "custom_metadata": {"note": SECRET}}
    await artifacts.save_artifact(**TRIP, filename="plan", **about)
    await artifacts.save_artifact(**TRIP, filename="user:plan", **about)
    await FoldlogMemoryService(store).add_session_to_memory(session)


async def read_everything(store: foldlog.Store) -> str:
    sessions, artifacts = FoldlogSessionService(store), FoldlogArtifactService(store)
    memories = await FoldlogMemoryService(store).search_memory(**ANN, query="masked hunter2")
    session = await sessions.get_session(**TRIP)
    parts = [await artifacts.load_artifact(**TRIP, filename=n) for n in ("plan", "user:plan")]
    return repr((session, memories, parts))


async def test_the_hook_sees_all_that_is_saved() -> None:
    hook = Hook()
    async with foldlog.memory_store(redact=hook) as store:
        await save_everything(store)
        read = await read_everything(store)
        assert SECRET not in read
        assert len(re.findall(re.escape(MASK), read)) >= 9
    kinds = {saving.kind for saving in hook.shown}
    assert kinds == {"message.added", "adk.state_changed", "scoped.written"}


async def test_a_hook_may_leave_nothing_of_an_event() -> None:
    async with foldlog.memory_store(redact=lambda s: dict.fromkeys(s.values, "gone")) as store:
        sessions = FoldlogSessionService(store)
        session = await sessions.create_session(**TRIP, state={"n": 1, "user:n": 1})
        event = said("hi")
        await sessions.append_event(session, event)
        await sessions.append_event(session, event)
        got = await sessions.get_session(**TRIP)
        assert got is not None
        assert (got.events, got.state) == ([], {})


@pytest.mark.parametrize(
    "gone", ["gone", {"gone": 1}, {"timestamp": 1.0}, {"timestamp": 1.0, "actions": 1}, [], None]
)
async def test_what_a_hook_replaced_is_left_out_or_told_by_name(gone: Any) -> None:
    async with foldlog.memory_store(redact=lambda s: dict.fromkeys(s.values, gone)) as store:
        await save_everything(store)
        sessions, artifacts = FoldlogSessionService(store), FoldlogArtifactService(store)
        reads = [
            sessions.get_session(**TRIP),
            artifacts.load_artifact(**TRIP, filename="plan"),
            artifacts.get_artifact_version(**TRIP, filename="plan"),
        ]
        for each in await asyncio.gather(*reads, return_exceptions=True):
            assert not isinstance(each, Exception) or isinstance(each, Unreadable), repr(each)
        await sessions.list_sessions(**ANN)
        assert await found(FoldlogMemoryService(store), "gone timestamp") == []


async def test_erasing_a_session_takes_its_events_artifacts_and_memories(
    log: foldlog.Store,
) -> None:
    await save_everything(log)
    await log.erase_session(ID)
    sessions, artifacts = FoldlogSessionService(log), FoldlogArtifactService(log)
    assert await log.sessions() == []
    assert (await sessions.list_sessions(**ANN)).sessions == []
    assert await artifacts.list_artifact_keys(**TRIP) == ["user:plan"]
    assert await log.scoped.list(Scope.session(ID)) == []
    assert (await FoldlogMemoryService(log).search_memory(**ANN, query=SECRET)).memories == []
    assert await sessions.get_user_state(**ANN) == {"own": SECRET}
    await log.erase(adkstates.kind("travel", "user:ann"))
    assert await sessions.get_user_state(**ANN) == {}


async def test_a_list_has_forks_and_what_was_changed_since_and_reads_no_events(
    log: foldlog.Store,
) -> None:
    sessions = FoldlogSessionService(log)
    session = await sessions.create_session(**TRIP, state={"n": 1, "user:n": 2})
    await log.append_messages("travel", [foldlog.Message("m", "plain", 1)])  # is no session of ADK
    await log.fork(ID, to=session_id_of(**ANN, session_id="a/b"))
    await sessions.append_event(session, said("hi", n=3))
    listed = {each.id: each for each in (await sessions.list_sessions(**ANN)).sessions}
    got = {id: await sessions.get_session(**ANN, session_id=id) for id in ("trip", "a/b")}
    for each in got.values():
        assert each is not None
        each.events.clear()
    assert listed == got
    assert listed["trip"].state == {"n": 3, "user:n": 2}
    await sessions.append_event(listed["trip"], said("to Oslo"))  # it is not stale
    with pytest.raises(StaleSessionError):
        await sessions.append_event(session, said("late"))
