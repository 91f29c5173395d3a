"""Whatever is done, it does what Pydantic AI's store in memory does. So does the bench's peer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from benchmarks.contenders.framework_conversations import SqliteConversations
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelRequest, UserPromptPart

import foldlog
from foldlog.integrations.pydantic_ai import FoldlogConversationStore

hypothesis = pytest.importorskip("hypothesis", reason="Hypothesis is not installed")
st = hypothesis.strategies

NAMES = ("a", "b", "c")


class Twins(ConversationStore):
    """Asks theirs and ours the same, and wants one answer."""

    def __init__(self, ours: ConversationStore) -> None:
        self.theirs = InMemoryConversationStore()
        self.ours = ours

    async def _both(self, ask: Callable[[ConversationStore], Awaitable[Any]]) -> Any:
        answers = []
        for store in (self.theirs, self.ours):
            try:
                answers.append(await ask(store))
            except (ConversationConflict, LookupError) as error:
                answers.append(error)
        theirs, ours = answers
        if isinstance(theirs, Exception):
            assert isinstance(ours, type(theirs)), ours
            raise theirs
        assert ours == theirs
        return ours

    async def read_record(self, conversation_id: str) -> Any:
        return await self._both(lambda store: store.read_record(conversation_id))

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Any:
        return await self._both(lambda store: store.read_records(scope=scope, limit=limit))

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        await self._both(
            lambda store: store.write_record(
                record, new_entries=new_entries, expected_revision=expected_revision
            )
        )

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        await self._both(
            lambda store: store.delete_record(conversation_id, expected_revision=expected_revision)
        )

    async def read_entry(self, entry_id: str) -> Any:
        return await self._both(lambda store: store.read_entry(entry_id))

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> Any:
        return await self._both(lambda store: store.read_history(head_id, limit=limit))


name = st.sampled_from(NAMES)
few = st.integers(0, 3)
scope = st.sampled_from([None, "ann", "bob"])
step = st.one_of(
    st.tuples(st.just("load"), name, st.none() | few, scope),
    st.tuples(st.just("say"), name, st.integers(1, 3)),
    st.tuples(st.just("rewrite"), name, few),
    st.tuples(st.just("save"), name, scope),
    st.tuples(st.just("branch"), name, few),
    st.tuples(st.just("return"), name, few),
    st.tuples(st.just("fork"), name, name, st.none() | few),
    st.tuples(st.just("delete"), name, scope),
    st.tuples(st.just("list"), scope, st.none() | few),
)


class Run:
    """Takes steps. By name, the conversation that somebody has in memory."""

    def __init__(self, ours: ConversationStore) -> None:
        self.twins = Twins(ours)
        self.held = {each: Conversation(conversation_id=each) for each in NAMES}
        self.said = 0

    def message(self) -> ModelRequest:
        self.said += 1
        return ModelRequest([UserPromptPart(f"{self.said}")])

    async def load(self, id: str, limit: int | None, scope: str | None) -> None:
        loaded = await self.twins.load(id, limit=limit, scope=scope)
        self.held[id] = loaded or Conversation(conversation_id=id)

    async def say(self, id: str, count: int) -> None:
        self.held[id].messages += [self.message() for _ in range(count)]
        self.held[id].usage.requests += 1

    async def rewrite(self, id: str, at: int) -> None:
        self.held[id].messages[at:] = [self.message()]

    async def save(self, id: str, scope: str | None) -> None:
        await self.twins.save(self.held[id], scope=scope)

    async def branch(self, id: str, at: int) -> None:
        revision = self.held[id].revision
        self.held[id] = await self.twins.branch(id, at=at, expected_revision=revision)

    async def return_(self, id: str, at: int) -> None:
        record = await self.twins.read_record(id)
        if record is not None and at < len(record.branches):
            tip, revision = record.branches[at], record.revision
            self.held[id] = await self.twins.branch(id, from_entry=tip, expected_revision=revision)

    async def fork(self, id: str, into: str, at: int | None) -> None:
        self.held[into] = await self.twins.fork(id, at=at, new_conversation_id=into)

    async def delete(self, id: str, scope: str | None) -> None:
        await self.twins.delete(id, scope=scope)

    async def list(self, scope: str | None, limit: int | None) -> None:
        await self.twins.list_conversations(scope=scope, limit=limit)


async def take(steps: list[tuple[Any, ...]], ours: ConversationStore) -> None:
    run = Run(ours)
    for what, *arguments in steps:
        try:
            await getattr(run, "return_" if what == "return" else what)(*arguments)
        except UserError:  # a conflict, or what the contract refuses: both stores have said so
            continue
    for each in NAMES:
        entries = await run.twins.load_entries(each)
        for entry in entries or ():
            assert await run.twins.read_entry(entry.id) == entry


@hypothesis.given(st.lists(step, max_size=25))
def test_it_does_what_the_store_in_memory_does(steps: list[tuple[Any, ...]]) -> None:
    async def take_ours() -> None:
        async with foldlog.memory_store() as log:
            await take(steps, FoldlogConversationStore(log))

    asyncio.run(take_ours())


@hypothesis.given(st.lists(step, max_size=25))
def test_the_benchmarks_peer_does_what_the_store_in_memory_does(
    steps: list[tuple[Any, ...]],
) -> None:
    async def take_theirs() -> None:
        peer = await SqliteConversations.open(":memory:")
        try:
            await take(steps, peer)
        finally:
            await peer.close()

    asyncio.run(take_theirs())
