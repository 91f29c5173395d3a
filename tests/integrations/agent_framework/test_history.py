"""What FoldlogHistoryProvider stores, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import agent_framework._sessions as sessions
import pytest
from agent_framework import Content, Message

import foldlog
import foldlog.blocking
from foldlog.integrations.agent_framework import FoldlogHistoryProvider
from foldlog.integrations.objects import Unreadable
from tests.integrations.agent_framework.desk import make_agent


def said(*texts: str, role: str = "user") -> list[Message]:
    return [Message(role, [text]) for text in texts]


async def texts(provider: FoldlogHistoryProvider, session_id: str = "trip") -> list[str]:
    return [each.text for each in await provider.get_messages(session_id)]


async def test_an_agent_goes_on_where_it_was(store: foldlog.Store) -> None:
    for heard in ("1 heard", "2 heard"):
        agent = make_agent(FoldlogHistoryProvider(store))
        session = agent.create_session(session_id="trip")
        assert (await agent.run("hello", session=session)).text == heard
    assert [
        (each.role, each.author, each.format) for each in await store.list_messages("trip")
    ] == [*(("user", None, "agent_framework"), ("assistant", "desk", "agent_framework")) * 2]
    assert await store.sessions() == ["trip"]
    history = await store.load_history("session:trip")
    assert [each.node_name for each in history] == ["user", "desk"] * 2


async def test_a_message_comes_back_as_it_was(store: foldlog.Store) -> None:
    call = Content.from_function_call("call-1", "refund", arguments={"order": 7})
    result = Content.from_function_result("call-1", result="done")
    given = [Message("assistant", [call], message_id="m1"), Message("tool", [result])]
    provider = FoldlogHistoryProvider(store)
    await provider.save_messages("trip", given)
    found = await provider.get_messages("trip")
    assert [each.to_dict() for each in found] == [each.to_dict() for each in given]


@pytest.mark.skipif(
    not hasattr(sessions, "filter_new_messages"), reason="this version stores what it is given"
)
async def test_what_a_run_gives_again_is_stored_once(store: foldlog.Store) -> None:
    provider = FoldlogHistoryProvider(store)
    first = [*said("a"), *said("b", role="assistant")]
    await provider.save_messages("trip", first)
    await provider.save_messages("trip", [*first, *said("c")])
    await provider.save_messages("trip", said("c"))  # an input may be repeated
    assert await texts(provider) == ["a", "b", "c", "c"]


async def test_each_provider_has_a_conversation_of_its_own(store: foldlog.Store) -> None:
    main, audit = FoldlogHistoryProvider(store), FoldlogHistoryProvider(store, "audit")
    await main.save_messages("trip", said("a"))
    await audit.save_messages("trip", said("b"))
    assert (await texts(main), await texts(audit)) == (["a"], ["b"])


@pytest.mark.parametrize("session_id", ["", None])
async def test_a_session_needs_an_id(store: foldlog.Store, session_id: Any) -> None:
    provider = FoldlogHistoryProvider(store)
    with pytest.raises(foldlog.InvalidId):
        await provider.save_messages(session_id, said("a"))
    with pytest.raises(foldlog.InvalidId):
        await provider.get_messages(session_id)
    with pytest.raises(foldlog.InvalidId):
        FoldlogHistoryProvider(store, "")


@pytest.mark.parametrize("given", ["hello", [{"role": "user"}], [*said("a"), None]])
async def test_what_is_no_message_is_refused_and_nothing_is_added(
    store: foldlog.Store, given: Any
) -> None:
    provider = FoldlogHistoryProvider(store)
    with pytest.raises(foldlog.PayloadError):
        await provider.save_messages("trip", given)
    assert await provider.get_messages("trip") == []


async def test_messages_of_another_framework_are_not_taken_for_history(
    store: foldlog.Store,
) -> None:
    await store.append_messages("trip", [foldlog.Message("1", "openai_agents", {"role": "user"})])
    with pytest.raises(foldlog.PayloadError, match="an id of its own"):
        await FoldlogHistoryProvider(store).get_messages("trip")


async def test_redaction_and_erasure_reach_it(embedded_path: Path, namespace: str) -> None:
    def masked(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: masked(each) for key, each in value.items()}
        if isinstance(value, list):
            return [masked(each) for each in value]
        return value.replace("secret", "***") if isinstance(value, str) else value

    redact: Any = lambda saving: masked(saving.values)  # noqa: E731
    async with foldlog.connect(path=embedded_path, namespace=namespace, redact=redact) as store:
        provider = FoldlogHistoryProvider(store)
        await provider.save_messages("trip", said("my secret"))
        assert await texts(provider) == ["my ***"]
        await store.erase_session("trip")
        assert await texts(provider) == []


def test_code_that_blocks_has_it_as_well(tmp_path: Path) -> None:
    import asyncio

    with foldlog.blocking.connect(path=tmp_path) as store:
        for _ in range(2):
            asyncio.run(FoldlogHistoryProvider(store).save_messages("trip", said("a")))
        assert len(store.list_messages("trip")) == 2


async def test_a_hook_that_leaves_nothing_of_a_message_breaks_no_session() -> None:
    redact: Any = lambda saving: dict.fromkeys(saving.values, "[redacted]")  # noqa: E731
    provider = FoldlogHistoryProvider(foldlog.memory_store(redact=redact))
    for text in ("a", "b"):
        await provider.save_messages("trip", said(text))
    assert await texts(provider) == []


@pytest.mark.parametrize("gone", ["gone", {"gone": 1}, [], None])
async def test_a_message_that_a_hook_replaced_is_left_out_or_told_by_name(gone: Any) -> None:
    async with foldlog.memory_store(redact=lambda s: dict.fromkeys(s.values, gone)) as store:
        provider = FoldlogHistoryProvider(store)
        await provider.save_messages("trip", [Message("user", ["hello"])])
        if isinstance(gone, dict):
            with pytest.raises(Unreadable, match="trip"):
                await provider.get_messages("trip")
        else:
            assert await provider.get_messages("trip") == []
