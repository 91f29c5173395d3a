"""Two actors, each with a store of its own, on one session, and a model of it."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
)

import foldlog
from foldlog.errors import NotFound
from foldlog.sessions import (
    IllegalTransition,
    Session,
)
from foldlog.sessions.errors import (
    GroupSealed,
)
from tests.support.stores import Backend, MemoryBackend

T = TypeVar("T")
Op = tuple[Any, ...]

actors = st.integers(0, 1)
ids = st.sampled_from(["a", "b", "c", "d"])


class Refused(Exception):
    """What a model says where the session raises an error of that name."""


class Acted(RuleBasedStateMachine):
    """Actors on one session, and a model of it."""

    def make_backend(self) -> Backend:
        return MemoryBackend()

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @initialize()
    def begin(self) -> None:
        self.backend = self.make_backend()
        self.stores = [self.run(self.backend.open()) for _ in range(2)]
        self.sessions = [self.run(opened(store)) for store in self.stores]
        self.prepare()

    def prepare(self) -> None:
        """What there is before anything happens."""

    @rule(actor=actors)
    def restart(self, actor: int) -> None:
        self.run(self.sessions[actor].close())
        self.run(self.stores[actor].close())
        self.stores[actor] = self.run(self.backend.open())
        self.sessions[actor] = self.run(opened(self.stores[actor]))

    def teardown(self) -> None:
        if hasattr(self, "stores"):
            for store in self.stores:
                self.run(store.close())
        self.runner.close()

    # --- doing, alone and at the same time --------------------------------------------------------

    model: Any

    def does(self, session: Session, op: Op) -> Awaitable[Any]:
        raise NotImplementedError

    def together(self, ops: list[tuple[int, Op]]) -> None:
        """Have actors do these at the same time; some order of them must explain what they got."""

        async def one(actor: int, op: Op) -> Any:
            try:
                return await self.does(self.sessions[actor], op)
            except (IllegalTransition, NotFound, GroupSealed) as error:
                return type(error).__name__

        async def every() -> list[Any]:
            return await asyncio.gather(*(one(actor, op) for actor, op in ops))

        results = self.run(every())
        for order in itertools.permutations(range(len(ops))):
            model = copy.deepcopy(self.model)
            expected: list[Any] = [None] * len(ops)
            for index in order:
                try:
                    expected[index] = model.do(*ops[index][1])
                except Refused as refused:
                    expected[index] = str(refused)
            if expected == results and self.is_as(model):
                self.model = model
                return
        raise AssertionError(f"no order of {ops} gives {results}")

    def is_as(self, model: Any) -> bool:
        """Whether the session stands as the model does."""
        raise NotImplementedError


async def opened(store: foldlog.Store) -> Session:
    return await store.session("s")
