"""Turns against a model of dicts: any turns, begun and ended in any order."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

import foldlog
from foldlog.agents import AgentStates, InMemoryStateRepository, TurnStateContext
from foldlog.errors import AppendConflict


class Number(BaseModel):
    n: int = -1


@dataclass
class ModelTurn:
    """`base` is what the scope held when the turn looked first, and how often it had changed."""

    scope: str
    base: tuple[int, dict[str, int]] | None = None
    overlay: dict[str, int | None] = field(default_factory=dict)


class Model:
    """Scopes as dicts, each with the number of turns that have changed it."""

    def __init__(self) -> None:
        self.scopes: dict[str, tuple[int, dict[str, int]]] = {}

    def state(self, scope: str) -> tuple[int, dict[str, int]]:
        return self.scopes.get(scope, (0, {}))

    def base(self, turn: ModelTurn) -> tuple[int, dict[str, int]]:
        if turn.base is None:
            turn.base = self.state(turn.scope)
        return turn.base

    def get(self, turn: ModelTurn, key: str) -> int:
        own = key in turn.overlay
        value = turn.overlay[key] if own else self.base(turn)[1].get(key)
        return -1 if value is None else value

    def complete(self, turn: ModelTurn) -> bool:
        """Whether the turn is stored, or had nothing to store; False for a conflict."""
        if not turn.overlay:
            return True
        version, before = self.base(turn)
        changed = {k: v for k, v in turn.overlay.items() if before.get(k) != v}
        if not changed:
            return True
        if self.state(turn.scope)[0] != version:
            return False
        after = {k: v for k, v in {**before, **changed}.items() if v is not None}
        self.scopes[turn.scope] = (version + 1, after)
        return True


class Turns:
    """Turns that are open at a time, each beside its model."""

    def __init__(self, manager: AgentStates[Any]) -> None:
        self.manager = manager
        self.model = Model()
        self.open: dict[
            int, tuple[AbstractAsyncContextManager[TurnStateContext], TurnStateContext, ModelTurn]
        ] = {}

    async def do(self, name: str, number: int, scope: str, key: str, value: int) -> None:
        if name == "look":
            entry = await self.manager.get_agent_state(scope, key, Number)
            expected = self.model.state(scope)[1].get(key)
            assert (None if entry is None else entry.state.n) == expected
            return
        if number not in self.open:
            block = self.manager.turn(scope)
            self.open[number] = (block, await block.__aenter__(), ModelTurn(scope))
        _, ctx, turn = self.open[number]
        match name:
            case "get":
                assert (await ctx.get(key, Number)).n == self.model.get(turn, key)
            case "update":
                ctx.update(key, Number(n=value))
                turn.overlay[key] = value
            case "delete":
                ctx.delete(key)
                turn.overlay[key] = None
            case "reset":
                ctx.reset(key)
                turn.overlay.pop(key, None)
            case "complete":
                await self.complete(number)
            case "fail":
                await self.fail(number)

    async def complete(self, number: int) -> None:
        block, _, turn = self.open.pop(number)
        expected = self.model.complete(turn)
        try:
            await block.__aexit__(None, None, None)
        except AppendConflict:
            assert not expected
        else:
            assert expected

    async def fail(self, number: int) -> None:
        block, _, _ = self.open.pop(number)
        assert not await block.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)

    async def check(self) -> None:
        """Every scope, as of now and through its history, is what the model says."""
        for number in list(self.open):
            await self.fail(number)
        for scope, (version, held) in self.model.scopes.items():
            assert len(await self.manager.history(scope)) == version
            dump = (await self.manager.dump_state()).get(scope, {})
            assert {key: entry["state"]["n"] for key, entry in dump.items()} == held


# Few places and few endings, so that open turns meet.
NAMES = ["get", "get", "update", "update", "update", "delete", "reset", "complete", "fail", "look"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.integers(0, 2),
        st.sampled_from(["a/1", "a/1", "a/1", "b/1"]),
        st.sampled_from("xxy"),
        st.integers(0, 2),
    ),
    min_size=12,
    max_size=40,
)


@pytest.mark.parametrize("on_a_log", [False, True], ids=["memory", "log"])
@given(steps=STEPS)
def test_turns_are_isolated(on_a_log: bool, steps: list[Any]) -> None:
    async def run() -> None:
        async with foldlog.memory_store() as store:
            repository = store.agents.repository if on_a_log else InMemoryStateRepository()
            turns = Turns(repository.create_manager(Number))
            for step in steps:
                await turns.do(*step)
            await turns.check()

    asyncio.run(run())
