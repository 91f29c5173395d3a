"""Whatever append a process dies in, before it is stored or after: every effect happens once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import foldlog
from foldlog.integrations.rh_agents import StateBackend, StateStatus
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Append
from foldlog.runs import RunPaused, StepUnknown
from tests.integrations.rh_agents.running import answered

PICTURE = b"picture" * 100


class MortalLog(MemoryLog):
    """A log whose process dies in the append number `fuse`, which is stored if `too_late`."""

    def __init__(self) -> None:
        super().__init__()
        self.fuse = -1
        self.too_late = False
        self.appends = 0
        self.is_dead = False

    async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        if self.is_dead:
            raise foldlog.StoreClosed  # a dead process settles nothing any more
        self.appends += 1
        if self.appends - 1 != self.fuse:
            return await super().append(appends, atomic=atomic)
        self.is_dead = True
        if self.too_late:
            await super().append(appends, atomic=atomic)
        raise foldlog.AppendUnknown([], "the process dies")


class Lives:
    """One pipeline, through as many lives as it takes."""

    def __init__(self, log: MortalLog) -> None:
        self.log = log
        self.effects: list[str] = []
        self.results = {"search": "flight 7", "draw": PICTURE, "pay": {"receipt": 1}}

    async def done(self) -> list[Any]:
        """Live until the pipeline has come to its end."""
        while True:
            async with foldlog.memory_store(log=self.log) as store:
                try:
                    if (result := await self._advance(store)) is not None:
                        return result
                except foldlog.FoldlogError:
                    if not self.log.is_dead:
                        raise
                    self.log.is_dead = False

    async def _advance(self, store: foldlog.Store) -> list[Any] | None:
        """Run it, or see to what keeps it from going on."""
        try:
            return await self._life(store)
        except RunPaused:
            await answered(store, "yes")
        except StepUnknown as unknown:
            await self._settle(store, unknown.step)
        return None

    async def _life(self, store: foldlog.Store) -> list[Any]:
        async with StateBackend(store).execution("s") as run:
            found = await run.step("search", self._effect, "search")
            run.storage["found"] = found
            drawn = await run.step("draw", self._effect, "draw", artifact=True)
            await run.save_checkpoint()
            answer = await run.ask("approve", found)
            return [found, drawn, answer, await run.step("pay", self._effect, "pay")]

    async def _effect(self, name: str) -> Any:
        self.effects.append(name)
        return self.results[name]

    async def _settle(self, store: foldlog.Store, address: str) -> None:
        """Look whether it has happened, and say so."""
        [item] = await store.waiting()
        if address not in self.effects:
            await store.retract(item.id)
        elif address == "draw":
            self.effects.remove(address)  # a drawing that nobody has kept is drawn again
            await store.retract(item.id)
        else:
            await store.confirm(item.id, self.results[address])


@pytest.mark.parametrize("too_late", [False, True], ids=["not stored", "stored"])
async def test_every_effect_happens_once_wherever_the_process_dies(too_late: bool) -> None:
    whole = MortalLog()
    expected = await Lives(whole).done()
    assert expected == ["flight 7", PICTURE, "yes", {"receipt": 1}]
    for fuse in range(whole.appends):
        log = MortalLog()
        log.fuse, log.too_late = fuse, too_late
        lives = Lives(log)
        assert await lives.done() == expected, fuse
        assert log.appends > fuse
        assert sorted(lives.effects) == ["draw", "pay", "search"], fuse
        async with foldlog.memory_store(log=log) as store:
            found = await StateBackend(store).load_state("s")
            assert found is not None
            assert found.status is StateStatus.COMPLETED
            events = found.execution_state["history"]["events"]
            assert {event["execution_status"] for event in events} == {"completed"}
            assert found.execution_state["storage"]["data"] == {"found": "flight 7"}
            [listed] = await StateBackend(store).list_states(status=StateStatus.COMPLETED)
            assert listed == found
            drawn = await StateBackend(store).artifacts.load_artifact(found.artifact_refs["draw"])
            assert drawn == PICTURE
