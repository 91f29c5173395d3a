"""What every contract class shares: models, knobs, and the fixtures that a store may leave out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

import foldlog
from foldlog.batches import side_by_side
from foldlog.testing.build import Build
from foldlog.testing.values import HOSTILE_IDS

Reopen = Callable[[], Awaitable[Any]]
"""Opens another store on the data of the test."""

Settle = Callable[[], Awaitable[None]]
"""Waits until every store on the data of the test sees what was saved."""


class Contract:
    """The base of every contract class. Override an attribute to say how your store differs.

    Attributes:
        models: where the model classes come from that your store takes and returns.
        concurrency: how many calls a test makes at once, where many are wanted.
        single_owner: only one store may have the data open at a time. Then what several at once
            owe each other is skipped, and restarts are checked alone.
        strong: the specification asks that every store sees at once what another saved. Else a
            fixture `settle` may give it the time it takes.
        hostile_ids: ids that must not be confused with each other. Take out what your store
            refuses by design, and says so.
        deviations: why your store is known to fail a test, by the test's name (with its
            parameters in brackets, where it has some). Such a test is reported as an expected
            failure; when it passes, it fails, so that the list stays true.
    """

    pytestmark: ClassVar[Any] = pytest.mark.asyncio

    models: ClassVar[Any] = foldlog
    concurrency: ClassVar[int] = 256
    single_owner: ClassVar[bool] = False
    strong: ClassVar[bool] = False
    hostile_ids: ClassVar[Sequence[str]] = HOSTILE_IDS
    deviations: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @property
    def build(self) -> Build:
        """Builders of what is saved, of this store's model classes."""
        return Build(self.models)

    @pytest.fixture(autouse=True)
    def expect_deviation(self, request: pytest.FixtureRequest) -> None:
        """Have a known deviation be an expected failure."""
        reason = self.deviations.get(request.node.name)
        if reason is not None:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))

    @pytest.fixture
    def restart(self, request: pytest.FixtureRequest, settled: Settle) -> Reopen:
        """Opens the data anew. What was open before is not used any more afterwards."""
        reopen: Reopen | None = _optional(request, "reopen")
        if reopen is None:
            pytest.skip("no fixture `reopen`: nothing was checked about a restart")
        if self.strong:
            return reopen

        async def open_settled() -> Any:
            await settled()
            return await reopen()

        return open_settled

    @pytest.fixture
    def beside(self, restart: Reopen) -> Reopen:
        """Opens a second store on the data, to be used at the same time as the first."""
        if self.single_owner:
            pytest.skip("a single owner: nothing was checked about several stores at once")
        return restart

    @pytest.fixture
    def settled(self, request: pytest.FixtureRequest) -> Settle:
        """Waits until every store sees what was saved, where a store says how."""
        settle: Settle | None = _optional(request, "settle")
        return _nothing_to_wait_for if settle is None else settle

    @pytest.fixture
    def pass_time(self, request: pytest.FixtureRequest) -> Callable[[float], None]:
        """Moves the store's clock forward by so many seconds."""
        advance: Callable[[float], None] | None = _optional(request, "advance_clock")
        if advance is None:
            pytest.skip("no fixture `advance_clock`: nothing was checked about expiry")
        return advance

    async def at_once(self, calls: Iterable[Awaitable[Any]]) -> list[Any]:
        """Await `calls`, `concurrency` of them at a time; return their results in order.

        Raises:
            Exception: what the first call raised that failed.
        """
        return await side_by_side(calls, _awaited, at_once=self.concurrency)


def _optional(request: pytest.FixtureRequest, name: str) -> Any:
    """The fixture, or None where there is none of that name."""
    try:
        return request.getfixturevalue(name)
    except pytest.FixtureLookupError as error:
        if error.argname != name:
            raise  # it is there, and lacks something itself
        return None


async def _nothing_to_wait_for() -> None:
    """A store's writes are seen at once."""


async def _awaited(call: Awaitable[Any]) -> Any:
    return await call
