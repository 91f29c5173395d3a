"""Scoped state: writes, reads, lists and searches in one scope of several sizes."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count as counting
from typing import Any, Final

from benchmarks.bench import Bench
from benchmarks.contenders.scoped import (
    AT_ONCE,
    FindsText,
    Fts5,
    KeepsKeys,
    LangGraphSqlite,
    ScopedFoldlog,
)
from benchmarks.measuring import Measure, Ref
from benchmarks.scenarios.timing import one_by_one

CONTENDERS: tuple[type[KeepsKeys], ...] = (ScopedFoldlog, Fts5, LangGraphSqlite)
GROUP: Final = 100
"""Keys that share a prefix."""

_WORDS: Final = [f"w{number:04}" for number in range(5_000)]


async def run(bench: Bench) -> None:
    """Compare each size by itself: what grows with it is the question."""
    for size in bench.size((1_000, 10_000, 100_000), (1_000,)):
        await _warm(bench, size)
        await _cold(bench, size)


async def _warm(bench: Bench, size: int) -> None:
    calls = bench.size(200, 20)
    bench.begin(
        f"scoped-{size}",
        f"A scope of {size:,} keys",
        f"Values of some 400 bytes of text; {calls} calls a round, of a process that has used the "
        f"scope before. A list returns {GROUP} keys by prefix; LangGraph's, with the values. A "
        "search for two words, each in one of 60 values, returns the best ten with snippets. "
        "LangGraph has no search by text.",
    )
    async with bench.opened(CONTENDERS) as opened:
        for contender in opened:
            await _load(contender, size)
            bench.say(f"  {contender.name} holds {size:,} keys")
            for call in _calls(contender, size).values():
                await call(0)
        numbers = counting(1)
        for contender in bench.turns(opened):
            for case, call in _calls(contender, size).items():
                asked = [next(numbers) for _ in range(calls)]
                timing = await one_by_one(call, asked)
                bench.record(case, contender.name, Measure.TIME, timing.seconds / calls)
    for case in ("write", "read", "list", "search"):
        bench.expect(
            f"a {case} among {size:,} keys, over SQLite used directly",
            Ref(case, ScopedFoldlog.name, Measure.TIME),
            Ref(case, Fts5.name, Measure.TIME),
            at_most=3,
        )


async def _cold(bench: Bench, size: int) -> None:
    bench.begin(
        f"scoped-{size}-cold",
        f"The first calls of a process on a scope of {size:,} keys",
        "After opening anew, in this order: a read, a list, a search; processes share the search "
        "index; the first search of a machine makes it.",
    )
    async with bench.opened(CONTENDERS) as opened:
        for contender in opened:
            await _load(contender, size)
            if isinstance(contender, ScopedFoldlog):
                await contender.reopen()
                timing = await one_by_one(partial(_search, contender), [0])
                bench.record("very first search", contender.name, Measure.TIME, timing.seconds)
        numbers = counting(1)
        for contender in bench.turns(opened):
            await contender.reopen()
            for case, call in _calls(contender, size).items():
                if case != "write":
                    timing = await one_by_one(call, [next(numbers)])
                    bench.record(f"first {case}", contender.name, Measure.TIME, timing.seconds)
    for case, at_most in (("read", 10), ("list", 10), ("search", 10)):
        bench.expect(
            f"a first {case} among {size:,} keys, over SQLite used directly",
            Ref(f"first {case}", ScopedFoldlog.name, Measure.TIME),
            Ref(f"first {case}", Fts5.name, Measure.TIME),
            at_most=at_most,
        )


def _calls(contender: Any, size: int) -> dict[str, Callable[[int], Awaitable[None]]]:
    calls: dict[str, Callable[[int], Awaitable[None]]] = {
        "write": partial(_write, contender, size),
        "read": partial(_read, contender, size),
        "list": partial(_list, contender, size),
    }
    if not isinstance(contender, LangGraphSqlite):
        calls["search"] = partial(_search, contender)
    return calls


async def _load(contender: KeepsKeys, size: int) -> None:
    for start in range(0, size, AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, size))
        await contender.write_many({_key(number): _value(number) for number in numbers})


async def _write(contender: KeepsKeys, size: int, number: int) -> None:
    await contender.write(_key(number * 7919 % size), _value(number))


async def _read(contender: KeepsKeys, size: int, number: int) -> None:
    assert (await contender.read(_key(number * 104_729 % size)))["text"]


async def _list(contender: KeepsKeys, size: int, number: int) -> None:
    assert len(await contender.list_keys(f"group:{number % (size // GROUP)}:")) == GROUP


async def _search(contender: FindsText, number: int) -> None:
    chosen = random.Random(number)
    found = await contender.search(" ".join(chosen.sample(_WORDS, 2)), 10)
    assert len(found) <= 10


def _key(number: int) -> str:
    return f"group:{number // GROUP}:{number % GROUP}"


def _value(number: int) -> dict[str, Any]:
    chosen = random.Random(number)
    return {"text": " ".join(chosen.choices(_WORDS, k=80)), "number": number}
