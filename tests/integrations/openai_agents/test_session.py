"""What FoldlogSession does beyond openai-agents' own tests, which `upstream.py` runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agents.exceptions import UserError
from agents.memory import OpenAIResponsesCompactionSession, SessionSettings

import foldlog
import foldlog.blocking
from agents import Runner
from foldlog.integrations.objects import Unreadable
from foldlog.integrations.openai_agents import FoldlogSession
from tests.integrations.openai_agents.desk import make_desk


def said(*contents: str) -> list[Any]:
    return [{"role": "user", "content": content} for content in contents]


async def contents(session: FoldlogSession, limit: int | None = None) -> list[str]:
    return [each["content"] for each in await session.get_items(limit)]


async def test_limit_is_the_latest_in_order(store: foldlog.Store) -> None:
    session = FoldlogSession("trip", store, session_settings=SessionSettings(limit=2))
    await session.add_items(said("a", "b", "a"))
    assert await contents(session) == ["b", "a"]
    assert await contents(session, 9) == ["a", "b", "a"]
    assert await contents(session, 0) == []
    assert (await session.pop_item()) == said("a")[0]
    assert await contents(FoldlogSession("trip", store)) == ["a", "b"]


async def test_what_one_process_was_acked_another_reads_at_once(
    store: foldlog.Store, embedded_path: Path, namespace: str
) -> None:
    async with foldlog.connect(path=embedded_path, namespace=namespace) as other:
        sessions = [FoldlogSession("trip", each) for each in (store, other)]
        for number in range(50):
            await sessions[number % 2].add_items(said(str(number)))
            assert len(await sessions[(number + 1) % 2].get_items()) == number + 1


async def test_a_session_is_read_as_it_was_and_goes_on_another_way(store: foldlog.Store) -> None:
    session = FoldlogSession("trip", store)
    await session.add_items(said("a"))
    then = await store.position()
    await session.add_items(said("b"))
    assert await contents(FoldlogSession("trip", store.at(then))) == ["a"]
    await store.fork("trip", at=then, to="trip-2")
    fork = FoldlogSession("trip-2", store)
    await fork.add_items(said("c"))
    assert (await contents(fork), await contents(session)) == (["a", "c"], ["a", "b"])


@pytest.mark.parametrize(
    ("method", "given", "error"),
    [
        ("add_items", "hello", foldlog.PayloadError),
        ("add_items", {"role": "user"}, foldlog.PayloadError),
        ("add_items", ["hello"], foldlog.PayloadError),
        ("add_items", [*said("a"), {"content": object()}], foldlog.PayloadError),
        ("get_items", "2", foldlog.PayloadError),
        ("pause", {"state": 1}, foldlog.PayloadError),
    ],
)
async def test_bad_input_is_refused_and_nothing_is_added(
    store: foldlog.Store, method: str, given: Any, error: type[Exception]
) -> None:
    session = FoldlogSession("trip", store)
    with pytest.raises(error):
        await getattr(session, method)(given)
    assert await session.get_items() == []
    assert await store.waiting() == []


@pytest.mark.parametrize("session_id", ["", None, 7])
async def test_a_session_needs_an_id(store: foldlog.Store, session_id: Any) -> None:
    with pytest.raises(foldlog.InvalidId):
        FoldlogSession(session_id, store)


async def test_messages_of_another_framework_are_not_taken_for_items(store: foldlog.Store) -> None:
    await store.append_messages("trip", [foldlog.Message("1", "claude_agent", {"text": "hi"})])
    with pytest.raises(foldlog.PayloadError, match="an id of its own"):
        await FoldlogSession("trip", store).get_items()


async def test_each_item_says_whose_it_is(store: foldlog.Store) -> None:
    session = FoldlogSession("trip", store)
    call = {"type": "function_call", "call_id": "1", "name": "refund", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "1", "output": "done"}
    await session.add_items([*said("a"), call, output])
    found = await store.list_messages("trip")
    assert [(each.role, each.format) for each in found] == [
        (role, "openai_agents") for role in ("user", "assistant", "tool")
    ]
    assert await store.sessions() == ["trip"]
    history = await store.load_history("session:trip")
    assert [each.payload["body"] for each in history] == await session.get_items()


async def test_redaction_and_erasure_reach_items_and_runs_that_wait(
    embedded_path: Path, namespace: str
) -> None:
    def masked(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("refund 7", "refund *").replace('"order": 7', '"order": 0')
        if isinstance(value, dict):
            return {key: masked(each) for key, each in value.items()}
        return [masked(each) for each in value] if isinstance(value, list) else value

    options: Any = {"path": embedded_path, "namespace": namespace}
    async with foldlog.connect(redact=lambda saving: masked(saving.values), **options) as store:
        session = FoldlogSession("trip", store)
        result = await Runner.run(make_desk(), "refund 7", session=session)
        await session.pause(result.to_state())
        assert (await session.get_items())[0]["content"] == "refund *"
        [waits] = await store.waiting(session_id="trip")
        assert waits.asked["payload"]["asked"][0]["arguments"] == '{"order": 0}'
        await store.erase_session("trip")
        assert await store.waiting() == []
        assert await session.get_items() == []
        assert await session.resume(make_desk()) is None


async def test_a_run_that_does_not_fit_the_agent_waits_on(store: foldlog.Store) -> None:
    session = FoldlogSession("trip", store)
    result = await Runner.run(make_desk(), "refund 7", session=session)
    token = await session.pause(result.to_state())
    with pytest.raises(UserError):
        await session.resume(make_desk(name="another"), token)
    taken = await asyncio.gather(*(session.resume(make_desk(), token) for _ in range(4)))
    assert len([each for each in taken if each is not None]) == 1
    assert await session.resume(make_desk(), "never paused") is None


async def test_a_run_that_waits_is_resumed_and_not_answered(store: foldlog.Store) -> None:
    session = FoldlogSession("trip", store)
    result = await Runner.run(make_desk(), "refund 7", session=session)
    state = result.to_state()
    await session.pause(state)
    [waits] = await store.waiting()
    with pytest.raises(foldlog.Misuse, match=r"session\.resume"):
        await store.answer(waits.id)
    assert await store.waiting() == [waits]
    assert await session.resume(make_desk()) is not None
    with pytest.raises(foldlog.AlreadyAnswered):
        await store.answer(waits.id)
    assert await session.resume(make_desk()) is None
    await session.pause(state)  # it may wait again
    assert await session.resume(make_desk()) is not None


class Compacting:
    """OpenAI's service, as far as it compacts; `meanwhile` is done before it answers."""

    def __init__(self, meanwhile: Any = None) -> None:
        self.responses = self
        self._meanwhile = meanwhile

    async def compact(self, **_: Any) -> Any:
        if self._meanwhile is not None:
            await self._meanwhile()
        return SimpleNamespace(output=said("in short"), usage=None)


def compacted(session: FoldlogSession, service: Compacting) -> OpenAIResponsesCompactionSession:
    client: Any = service
    return OpenAIResponsesCompactionSession(
        session.session_id, session, client=client, compaction_mode="input"
    )


async def test_compaction_replaces_the_items(store: foldlog.Store) -> None:
    session = FoldlogSession("trip", store)
    wrapped = compacted(session, Compacting())
    await wrapped.add_items(said("a", "b"))
    await wrapped.run_compaction({"force": True})
    assert await contents(session) == ["in short"]
    await wrapped.add_items(said("c"))
    assert await contents(session) == ["in short", "c"]


async def test_a_replacement_is_one_append(store: foldlog.Store) -> None:
    """A process that is killed leaves the items from before, or those from after."""
    session = FoldlogSession("trip", store)
    await session.add_items(said("a", "b"))
    before = await store.position()
    assert await session._atomic_replace_items(said("in short", "in shorter"))
    items = await store.items(foldlog.kinds.messages("trip"))
    assert len({item.recorded_at for item in items[2:]}) == 1  # the log's time of one append
    assert await contents(FoldlogSession("trip", store.at(before))) == ["a", "b"]


async def test_an_end_that_went_on_is_not_replaced(store: foldlog.Store) -> None:
    session, elsewhere = (FoldlogSession("trip", store) for _ in range(2))
    await session.add_items(said("a", "b", "c"))
    snapshot = await session._get_compaction_snapshot(2)
    assert snapshot is not None
    assert (snapshot.items, snapshot.complete) == (said("b", "c"), False)
    await elsewhere.add_items(said("d"))
    assert not await snapshot.replace_suffix(0, said("in short"))
    assert await contents(session) == ["a", "b", "c", "d"]
    snapshot = await session._get_compaction_snapshot(4)
    assert snapshot is not None
    assert snapshot.complete
    assert await snapshot.replace_suffix(1, said("in short"))
    assert await contents(elsewhere) == ["a", "in short"]


async def test_a_session_that_changes_items_compacts_by_its_own_methods(
    store: foldlog.Store,
) -> None:
    class Loud(FoldlogSession):
        async def add_items(self, items: list[Any]) -> None:
            await super().add_items(
                [{**each, "content": each["content"].upper()} for each in items]
            )

    session = Loud("trip", store)
    await session.add_items(said("a"))
    assert await session._get_compaction_snapshot(2) is None
    await compacted(session, Compacting()).run_compaction({"force": True})
    assert await contents(session) == ["IN SHORT"]


def test_code_that_blocks_has_it_as_well(tmp_path: Path) -> None:
    with foldlog.blocking.connect(path=tmp_path) as store:
        for heard in ("1 heard", "2 heard"):  # as Runner.run_sync, but with the event loop closed
            result = asyncio.run(Runner.run(make_desk(), "hi", session=FoldlogSession("t", store)))
            assert result.final_output == heard
        assert len(store.list_messages("t")) == 4


@pytest.mark.parametrize("gone", ["gone", [], None])
async def test_items_that_a_hook_replaced_are_left_out(gone: Any) -> None:
    async with foldlog.memory_store(redact=lambda s: dict.fromkeys(s.values, gone)) as store:
        session = FoldlogSession("trip", store)
        await session.add_items([{"role": "user", "content": "hello"}])
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await store.save_planner_state("paused", {"state": 1}, session_id="trip")
        if gone is not None:
            with pytest.raises(Unreadable, match="paused"):
                await session.resume(None, "paused")
        assert await session.resume(None) is None
