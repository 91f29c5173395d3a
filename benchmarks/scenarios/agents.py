"""Agent state: what a turn costs that reads, that changes nothing, and that changes something."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from pydantic import BaseModel

from benchmarks.bench import Bench
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.measuring import Measure, Ref, percentile
from benchmarks.scenarios.timing import one_by_one
from benchmarks.site import Site
from foldlog.agents import AgentStates, InMemoryStateRepository

SCOPE = "writer/1"
MESSAGES = 500


class Talk(BaseModel):
    """A conversation, as agents keep it."""

    messages: list[str] = []
    rounds: int = 0


class InMemory:
    """The baseline: state in dicts of this process."""

    name: ClassVar[str] = "agents in memory"
    promise: ClassVar[str] = "none: in the memory of one process"

    def __init__(self, site: Site) -> None:
        self.agents: AgentStates[Any] = InMemoryStateRepository().create_manager(Talk)

    async def open(self) -> None:
        """Nothing to open."""

    async def facts(self) -> dict[str, str]:
        """Nothing to tell."""
        return {}

    async def close(self) -> None:
        """Nothing to close."""


class OnTheLog(Foldlog):
    """State on the log: `store.agents`."""

    @property
    def agents(self) -> AgentStates[Any]:
        """The manager of the store."""
        return self.store.agents


class Whole(OnTheLog):
    """What is done without it: all of the state, saved after each turn."""

    name: ClassVar[str] = "foldlog, saved whole"


CONTENDERS: tuple[type[OnTheLog] | type[InMemory], ...] = (OnTheLog, Whole, InMemory)


async def run(bench: Bench) -> None:
    """Record the time of a turn of each kind, and check that the cheap ones append nothing."""
    turns = bench.size(500, 60)
    bench.begin(
        "agents",
        "Turns of an agent",
        f"An agent with a small state and a conversation of {MESSAGES} messages. Each round has "
        f"{turns} turns of each kind: they do nothing, read the small state, update it to the same "
        f"value, or add a message. {Whole.name} saves the conversation with save_memory_state "
        "instead.",
    )
    async with bench.opened(CONTENDERS) as opened:
        for contender in opened:
            async with contender.agents.turn(SCOPE) as ctx:
                ctx.update("small", Talk(messages=["a", "b"]))
                ctx.update("talk", Talk(messages=[_message(n) for n in range(MESSAGES)]))
        for contender in bench.turns(opened):
            for case, turn in _kinds(contender).items():
                before = await _log_bytes(contender)
                timing = await one_by_one(turn, range(turns))
                bench.record(case, contender.name, Measure.P50, percentile(timing.calls, 50))
                grown = await _log_bytes(contender) - before
                if case == ADDS and not isinstance(contender, InMemory):
                    bench.record(IN_LOG, contender.name, Measure.STORED, grown / turns)
                elif case != ADDS:
                    assert not grown, f"{case} appended something"
    bench.expect("a hot get, its turn included", Ref(GETS, Foldlog.name, Measure.P50), at_most=5e-5)
    bench.expect(
        "a message added to a conversation, log bytes saved whole over by turns",
        Ref(IN_LOG, Whole.name, Measure.STORED),
        Ref(IN_LOG, Foldlog.name, Measure.STORED),
        at_least=50,
    )


NOTHING = "a turn that touches nothing"
GETS = "a turn that reads hot state"
SAME = "a turn that updates to the same"
ADDS = "a turn that adds a message"
IN_LOG = "that turn, in the log"


def _kinds(contender: OnTheLog | InMemory) -> dict[str, Callable[[int], Awaitable[None]]]:
    agents = contender.agents

    async def nothing(number: int) -> None:
        async with agents.turn(SCOPE):
            pass

    async def gets(number: int) -> None:
        async with agents.turn(SCOPE) as ctx:
            await ctx.get("small", Talk)

    async def same(number: int) -> None:
        async with agents.turn(SCOPE) as ctx:
            ctx.update("small", await ctx.get("small", Talk))

    async def adds(number: int) -> None:
        async with agents.turn(SCOPE) as ctx:
            talk = await ctx.get("talk", Talk)
            ctx.update("talk", _longer(talk))

    async def adds_whole(number: int) -> None:
        assert isinstance(contender, Whole)
        state = await contender.store.load_memory_state(SCOPE)
        talk = Talk.model_validate(state or {"messages": [_message(n) for n in range(MESSAGES)]})
        await contender.store.save_memory_state(SCOPE, _longer(talk).model_dump())

    if isinstance(contender, Whole):
        return {ADDS: adds_whole}
    return {NOTHING: nothing, GETS: gets, SAME: same, ADDS: adds}


def _longer(talk: Talk) -> Talk:
    return Talk(messages=[*talk.messages, _message(talk.rounds)], rounds=talk.rounds + 1)


def _message(number: int) -> str:
    return f"message {number} of a conversation that has gone on for a while " * 4


async def _log_bytes(contender: OnTheLog | InMemory) -> int:
    """What the log takes; for what has none, how many turns it knows."""
    if isinstance(contender, InMemory):
        return len(await contender.agents.history(SCOPE))
    return sum(stream.bytes for stream in (await contender.store.health()).streams)
