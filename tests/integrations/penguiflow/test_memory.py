"""PenguiFlow's short-term memory and foldlog's: either takes up what the other has saved."""

from __future__ import annotations

from typing import Any

from penguiflow.planner.memory import (
    ConversationTurn,
    DefaultShortTermMemory,
    ShortTermMemoryConfig,
    TrajectoryDigest,
)

import foldlog
from foldlog import sessions
from foldlog.sessions import MemoryState


def theirs() -> DefaultShortTermMemory:
    return DefaultShortTermMemory(config=ShortTermMemoryConfig(strategy="truncation"))


async def test_what_they_saved_comes_back_to_them_as_it_was() -> None:
    memory = theirs()
    digest = TrajectoryDigest(["search"], "found", artifacts_refs=["a"])
    await memory.add_turn(ConversationTurn("q", "a", digest, {"shown": 1}, ["hidden"], 1.5))
    saved = memory.to_dict()
    assert MemoryState.from_dict(saved).to_dict() == saved


async def test_each_takes_up_what_the_other_has_saved() -> None:
    store: Any = foldlog.memory_store()
    memory = theirs()
    await memory.add_turn(ConversationTurn("first", "1"))
    await memory.persist(store, "k")
    async with await store.session("s") as session:
        config = sessions.ShortTermMemoryConfig(strategy="truncation")
        ours = await session.memory(config, key="k")
        await ours.add_turn(sessions.ConversationTurn("second", "2"))
        shown = ours.get_llm_context()
    again = theirs()
    await again.hydrate(store, "k")
    assert await again.get_llm_context() == shown
    await store.close()
