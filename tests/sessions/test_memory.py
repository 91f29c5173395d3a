"""Short-term memory: what it keeps, whose it is, and how it is saved."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st

import foldlog
from foldlog.errors import PayloadError
from foldlog.sessions import (
    MemoryHealth,
    MemoryIsolation,
    MemoryState,
    Session,
    ShortTermMemory,
    TrajectoryDigest,
)
from tests.sessions.conftest import OpenSession
from tests.sessions.remembering import config, messages, summed, turn

# --- strategies ---------------------------------------------------------------------------------


async def kept(session: Session, strategy: str) -> ShortTermMemory:
    memory = await session.memory(config(strategy), key="k", summarizer=summed)
    for number in range(5):
        await memory.add_turn(turn(number))
    await memory.flush()
    return memory


async def test_none_keeps_nothing(store: foldlog.Store, session: Session) -> None:
    memory = await kept(session, "none")
    assert (memory.get_llm_context(), await store.load_memory_state("k")) == ({}, None)


async def test_truncation_keeps_recent_turns(session: Session) -> None:
    memory = await kept(session, "truncation")
    recent = [{"user": "q3", "assistant": "a3"}, {"user": "q4", "assistant": "a4"}]
    assert memory.get_llm_context() == {"conversation_memory": {"recent_turns": recent}}


async def test_a_rolling_summary_has_the_rest(session: Session) -> None:
    memory = await kept(session, "rolling_summary")
    context = memory.get_llm_context()["conversation_memory"]
    assert context["summary"] == "q0 q1 q2"
    assert [each["user"] for each in context["recent_turns"]] == ["q3", "q4"]
    assert (memory.health, memory.state.pending) == (MemoryHealth.HEALTHY, ())


async def test_turns_that_wait_are_shown_as_they_are(session: Session) -> None:
    asked = asyncio.Event()

    async def slow(request: Mapping[str, Any]) -> dict[str, str]:
        asked.set()
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    memory = await session.memory(config(), key="k", summarizer=slow)
    for number in range(3):
        await memory.add_turn(turn(number))
    await asked.wait()
    context = memory.get_llm_context()["conversation_memory"]
    assert [each["user"] for each in context["pending_turns"]] == ["q0"]


async def test_a_memory_is_taken_up_where_it_was_left(
    session: Session, open_session: OpenSession
) -> None:
    memory = await kept(session, "rolling_summary")
    again = await (await open_session()).memory(config(), key="k", summarizer=summed)
    assert again.state.to_dict() == memory.state.to_dict()
    assert again.get_llm_context() == memory.get_llm_context()


async def test_a_memory_is_taken_up_as_the_log_has_it(
    store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as pushes have told so far, or a worker would save over what another one did."""
    await kept(await store.session("s"), "truncation")
    session = await store.session("s")
    last, asked = store._core.log.last, list[Any]()

    async def noted(*args: Any, **options: Any) -> Any:
        asked.append(options["strong"])
        return await last(*args, **options)

    monkeypatch.setattr(store._core.log, "last", noted)
    memory = await session.memory(config("truncation"), key="k")
    assert messages(memory.state.turns) == ["q3", "q4"]
    assert asked == [True]


async def test_a_session_has_one_memory_of_a_key(session: Session) -> None:
    chosen = config("truncation")
    one, two = [await session.memory(chosen, key="k") for _ in range(2)]
    await asyncio.gather(one.add_turn(turn("one")), two.add_turn(turn("two")))
    again = await session.memory(chosen, key="k")
    assert sorted(messages(again.state.turns)) == ["qone", "qtwo"]
    with pytest.raises(foldlog.Misuse, match="in use"):
        await session.memory(config("none"), key="k")


async def test_who_asks_at_once_gets_the_same_memory(store: foldlog.Store) -> None:
    calls = list[object]()

    async def slow(request: Any) -> Any:
        calls.append(request)
        await asyncio.Event().wait()

    saved = await store.session("s")
    first = await saved.memory(config(), key="k", summarizer=slow)
    for number in range(4):
        await first.add_turn(turn(number))
    await saved.close()
    calls.clear()
    async with await store.session("s") as session:  # what was pending is summarised anew
        asked = [session.memory(config(), key="k", summarizer=slow) for _ in range(2)]
        one, two = await asyncio.gather(*asked)
        assert one is two
        await asyncio.sleep(0)
        assert len(calls) <= 1


async def test_a_session_that_was_closed_has_its_memories_anew(session: Session) -> None:
    await kept(session, "rolling_summary")
    await session.close()
    memory = await session.memory(config(), key="k", summarizer=summed)
    await memory.add_turn(turn("more"))
    await memory.flush()
    assert memory.state.summary == "q0 q1 q2 q3"


async def test_a_digest_is_shown_if_it_is_wanted(session: Session) -> None:
    digest = TrajectoryDigest(["search"], "found", artifacts_refs=["a"])
    for wanted in (True, False):
        chosen = config("truncation", include_trajectory_digest=wanted)
        memory = await session.memory(chosen, key=f"k{wanted}")
        await memory.add_turn(turn(trajectory_digest=digest))
        [shown] = memory.get_llm_context()["conversation_memory"]["recent_turns"]
        assert ("trajectory_digest" in shown) is wanted


async def test_what_cannot_be_saved_is_not_kept(session: Session) -> None:
    memory = await session.memory(config("truncation"), key="k")
    with pytest.raises(foldlog.PayloadError):
        await memory.add_turn(turn(artifacts_shown={"x": object()}))
    assert memory.state.turns == ()


async def test_rolling_summaries_need_a_summarizer(session: Session) -> None:
    with pytest.raises(foldlog.ConfigurationError):
        await session.memory(config(), key="k")


# --- isolation ----------------------------------------------------------------------------------


def test_a_key_is_found_by_its_paths() -> None:
    isolation = MemoryIsolation("org.id", "user.name", "session_id")
    context = {"org": {"id": 7}, "user": {"name": "ann"}, "session_id": "s"}
    assert isolation.key(context) == "7:ann:s"


@given(st.lists(st.text(min_size=1, max_size=3), min_size=6, max_size=6))
def test_no_two_share_a_key(parts: list[str]) -> None:
    names = ("tenant_id", "user_id", "session_id")
    one, two = ([text.strip() or "x" for text in parts[at : at + 3]] for at in (0, 3))
    keys = [MemoryIsolation().key(dict(zip(names, each, strict=True))) for each in (one, two)]
    assert (keys[0] == keys[1]) == (one == two)


def test_what_is_missing_is_refused_unless_it_may_be() -> None:
    context = {"tenant_id": "t", "session_id": "s", "user_id": " "}
    with pytest.raises(PayloadError, match="user_id"):
        MemoryIsolation().key(context)
    lenient = MemoryIsolation(require_explicit_key=False)
    assert lenient.key(context) == "t:_:s"
    assert lenient.key({**context, "user_id": "_"}) == "t:%5F:s"


async def test_the_contexts_of_two_users_have_two_memories(
    session: Session, open_session: OpenSession
) -> None:
    for user in ("a:b", "a"):
        await session.update_context(
            tool_context={"tenant_id": "t", "user_id": user, "session_id": "b:s"}
        )
        memory = await session.memory(config("truncation"))
        assert memory.state.turns == ()
        await memory.add_turn(turn(user))
    assert memory.key == "t:a:b%3As"


# --- the format ---------------------------------------------------------------------------------

SAVED = {
    "version": 1,
    "health": "degraded",
    "summary": "they want to fly",
    "turns": [
        {
            "user_message": "hello",
            "assistant_response": "hi",
            "trajectory_digest": {
                "tools_invoked": ["search"],
                "observations_summary": "none",
                "reasoning_summary": None,
                "artifacts_refs": ["a"],
            },
            "artifacts_shown": {"a": 1},
            "artifacts_hidden_refs": ["b"],
            "ts": 1702857600.0,
        }
    ],
    "pending": [],
    "backlog": [
        {
            "user_message": "old",
            "assistant_response": "older",
            "trajectory_digest": None,
            "artifacts_shown": {},
            "artifacts_hidden_refs": [],
            "ts": 0.0,
        }
    ],
    "config_snapshot": {"strategy": "rolling_summary", "retry_attempts": 3},
}
"""As PenguiFlow writes it."""


def test_what_penguiflow_saved_comes_back_as_it_was() -> None:
    assert MemoryState.from_dict(SAVED).to_dict() == SAVED
    assert MemoryState.from_dict({**SAVED, "more": [1]}).to_dict() == {**SAVED, "more": [1]}


@pytest.mark.parametrize(
    "broken",
    [
        {"version": 2},
        {"health": "unwell"},
        {"health": None},
        {"turns": "many"},
        {"turns": [1]},
        {"turns": [{"user_message": 7}]},
        {"backlog": [{"trajectory_digest": "long"}]},
    ],
)
async def test_what_is_no_memory_is_told(
    store: foldlog.Store, session: Session, broken: dict[str, Any]
) -> None:
    await store.save_memory_state("k", {**SAVED, **broken})
    with pytest.raises(foldlog.LogCorrupt):
        await session.memory(config("truncation"), key="k")


async def test_a_memory_that_is_json_stays_json(store: foldlog.Store, session: Session) -> None:
    await kept(session, "rolling_summary")
    saved = await store.load_memory_state("k")
    assert json.loads(json.dumps(saved)) == saved
