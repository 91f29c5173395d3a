"""Threads of LangGraph: steps, reads, lists and deletions, of three checkpointers."""

from __future__ import annotations

import operator
import random
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from functools import partial
from importlib import import_module
from itertools import count as counting
from typing import Annotated, Any, Final, TypedDict

from benchmarks import workload
from benchmarks.bench import Bench
from benchmarks.contenders.langgraph import (
    FoldlogThreads,
    KeepsThreads,
    PostgresThreads,
    SqliteThreads,
)
from benchmarks.measuring import Measure, Ref
from benchmarks.scenarios.timing import one_by_one, side_by_side

CONTENDERS: Final[tuple[type[KeepsThreads], ...]] = (
    FoldlogThreads,
    SqliteThreads,
    PostgresThreads,
)
OTHERS: Final = (SqliteThreads.name, PostgresThreads.name)
TOGETHER: Final = 50
TASKS: Final = 3
LISTED: Final = 100

_ids = counting(1)
_WORDS: Final = random.Random(1)


async def run(bench: Bench) -> None:
    """Compare the calls first, then what a growing conversation takes."""
    bench.begin(
        "langgraph",
        "Threads of LangGraph",
        f"A step is a checkpoint and what {TASKS} tasks wrote after it, in a conversation that "
        f"grows by a message of some 250 characters: a lone step as a graph of {TASKS} nodes makes "
        f"it, alone on the store and waiting for each checkpoint; its {TASKS + 1} calls also one "
        f"after another, as no graph does. Latest, "
        f"cold: the first read of a thread by a process that has its connections. The threads read "
        f"have {LISTED} checkpoints; a list is of all of them, or by their metadata, one in each "
        f"of {TOGETHER} threads.",
    )
    async with bench.opened(CONTENDERS) as opened:
        await _sizes(bench, opened)  # first: what is deleted leaves pages to be used again
        for contender in opened:
            await _load(contender, bench)
        for contender in bench.turns(opened):
            await _steps(bench, contender)
            await _reads(bench, contender)
    _expect(bench)


async def _load(contender: KeepsThreads, bench: Bench) -> None:
    many = bench.size(20, 4)
    for thread in range(bench.size(TOGETHER, 10)):
        conversation = Conversation(contender.saver, f"listed-{thread}")
        await one_by_one(conversation.step, range(many))
        await conversation.step(many, about={"wanted": "yes"}, tasks=0)


async def _steps(bench: Bench, contender: KeepsThreads) -> None:
    saver, name = contender.saver, contender.name
    steps = bench.size(100, 20)
    bench.record("lone step", name, Measure.TIME, await _run_graph(saver, steps) / steps)
    alone = Conversation(saver, f"alone-{next(_ids)}")
    timing = await one_by_one(alone.step, range(steps))
    bench.record("its calls in turn", name, Measure.TIME, timing.seconds / steps)
    threads = [Conversation(saver, f"one-of-{next(_ids)}") for _ in range(TOGETHER)]
    each = bench.size(20, 5)
    work = [[thread] * each for thread in threads]
    timing = await side_by_side(lambda thread: thread.step(0), work)
    bench.record(f"steps of {TOGETHER} threads", name, Measure.RATE, timing.rate)


async def _run_graph(saver: Any, steps: int) -> float:
    """Seconds of a run of a graph whose nodes all write in every step."""
    graph = _graph(saver, steps)
    config = {"configurable": {"thread_id": f"graph-{next(_ids)}"}, "recursion_limit": steps + 2}
    began = time.perf_counter()
    end = await graph.ainvoke({"step": 0, "messages": []}, config, durability="sync")
    assert len(end["messages"]) == steps * TASKS, "every node has run in every step"
    return time.perf_counter() - began


def _graph(saver: Any, steps: int) -> Any:
    """A graph of `TASKS` nodes that run side by side, for so many steps."""
    graphs = import_module("langgraph.graph")
    fields = {"step": int, "messages": Annotated[list[str], operator.add]}
    builder = graphs.StateGraph(TypedDict("State", fields))  # type: ignore[operator]

    async def first(state: Any) -> dict[str, Any]:
        return {"step": state["step"] + 1, "messages": [_words()]}

    async def other(state: Any) -> dict[str, Any]:
        return {"messages": [_words()]}

    names = [f"node-{number}" for number in range(TASKS)]
    for name in names:
        builder.add_node(name, first if name == names[0] else other)
        builder.add_edge(graphs.START, name)
    builder.add_conditional_edges(
        names[0], lambda state: names if state["step"] < steps else graphs.END
    )
    return builder.compile(checkpointer=saver)


async def _reads(bench: Bench, contender: KeepsThreads) -> None:
    calls, cold = bench.size((50, 8), (5, 4))
    threads = [Conversation(contender.saver, f"read-{next(_ids)}") for _ in range(cold)]
    for thread in threads:
        await one_by_one(thread.step, range(LISTED))
    for case, call in (("latest, hot", _latest), (f"list of {LISTED}", _list)):
        await call(threads[0])
        timing = await one_by_one(call, [threads[0]] * calls)
        bench.record(case, contender.name, Measure.TIME, timing.seconds / calls)
    wanted = partial(_wanted, contender)
    await wanted(0)
    timing = await one_by_one(wanted, range(calls))
    bench.record("list by metadata", contender.name, Measure.TIME, timing.seconds / calls)
    await contender.reopen()
    again = [Conversation(contender.saver, thread.id) for thread in threads]
    await _latest(Conversation(contender.saver, "nobody"))
    timing = await one_by_one(_latest, again)
    bench.record("latest, cold", contender.name, Measure.TIME, timing.seconds / cold)
    timing = await one_by_one(lambda t: contender.saver.adelete_thread(t.id), threads)
    bench.record("delete", contender.name, Measure.TIME, timing.seconds / cold)


async def _sizes(bench: Bench, opened: list[KeepsThreads]) -> None:
    steps = bench.size(400, 100)
    for contender in bench.turns(opened):
        before = await contender.stored()
        conversation = Conversation(contender.saver, f"growing-{next(_ids)}")
        for number in range(steps):
            await conversation.step(number, tasks=1)
        taken = await contender.stored() - before
        bench.record("a growing conversation", contender.name, Measure.STORED, taken)


def _expect(bench: Bench) -> None:
    def compare(what: str, case: str, measure: Measure, **bound: float) -> None:
        for other in OTHERS:
            of = Ref(case, FoldlogThreads.name, measure)
            bench.expect(f"{what}, over {other}", of, Ref(case, other, measure), **bound)

    compare("a lone step", "lone step", Measure.TIME, at_most=1.0)
    many = f"steps of {TOGETHER} threads"
    compare(f"steps a second of {TOGETHER} threads", many, Measure.RATE, at_least=4.0)
    for case in ("latest, hot", "latest, cold", f"list of {LISTED}", "list by metadata", "delete"):
        compare(case, case, Measure.TIME, at_most=1.0)
    hot = Ref("latest, hot", FoldlogThreads.name, Measure.TIME)
    theirs = Ref("latest, hot", PostgresThreads.name, Measure.TIME)
    bench.expect("latest, hot, over half of PostgreSQL's", hot, theirs, at_most=0.5)
    compare(
        "bytes of a growing conversation", "a growing conversation", Measure.STORED, at_most=0.1
    )


async def _latest(thread: Conversation) -> None:
    await thread.saver.aget_tuple(thread.latest)


async def _list(thread: Conversation) -> None:
    found = await _listed(thread.saver.alist(thread.latest, limit=LISTED))
    assert len(found) == LISTED, "as many were saved"


async def _wanted(contender: KeepsThreads, _: int) -> None:
    found = await _listed(contender.saver.alist(None, filter={"wanted": "yes"}))
    assert found, "they were loaded"


async def _listed(found: AsyncIterator[Any]) -> list[Any]:
    return [each async for each in found]


class Conversation:
    """A thread whose every step adds a message, saved as LangGraph saves it."""

    def __init__(self, saver: Any, thread_id: str) -> None:
        self.id = thread_id
        self.latest = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        self.saver = saver
        self._config: dict[str, Any] = self.latest
        self._messages: list[Any] = []
        self._versions: dict[str, Any] = {}
        self._seen: dict[str, dict[str, Any]] = {"__input__": {}}
        self._numbers = _numbers()

    async def step(
        self, _: int, *, about: dict[str, Any] | None = None, tasks: int = TASKS
    ) -> None:
        """Save a checkpoint, and what tasks wrote after it."""
        number = next(self._numbers)
        message = _message()(f"{number}: {_words()}", id=f"{uuid.uuid4()}")
        self._messages.append(message)
        changed = {}
        for channel in ("messages", "branch:to:agent"):
            version = self.saver.get_next_version(self._versions.get(channel), None)
            changed[channel] = self._versions[channel] = version
        self._seen["agent"] = {"branch:to:agent": self._versions["branch:to:agent"]}
        checkpoint = {
            "v": 4,
            "id": f"{number:08x}-0000-6000-8000-{uuid.uuid4().hex[:12]}",
            "ts": "2026-01-01T00:00:00.000000+00:00",
            "channel_values": {"messages": list(self._messages)},
            "channel_versions": dict(self._versions),
            "versions_seen": {node: dict(each) for node, each in self._seen.items()},
            "updated_channels": ["messages"],
        }
        metadata = {"source": "loop", "step": number, "parents": {}, **(about or {})}
        self._config = await self.saver.aput(self._config, checkpoint, metadata, changed)
        for task in range(tasks):
            writes = [("messages", [message]), ("branch:to:agent", None)]
            await self.saver.aput_writes(self._config, writes, f"{uuid.uuid4()}", f"~{task}")


def _words() -> str:
    """A text of some 250 characters; no two are the same."""
    return " ".join(_WORDS.sample(workload.TEXT.split(), k=40))


def _message() -> Any:
    """LangChain's class of what a model answers, which comes with LangGraph."""
    return import_module("langchain_core.messages").AIMessage


def _numbers() -> Iterator[int]:
    return counting(0)
