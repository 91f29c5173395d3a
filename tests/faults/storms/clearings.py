"""Sessions that are cleared and erased while others save in them and everybody is killed."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import random
import signal
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import foldlog
from tests.faults import clearing
from tests.faults.checker import Violation
from tests.faults.clearing import DECIDED, KINDS, SESSIONS, found_in, text_of
from tests.faults.storms.figures import Figures
from tests.support.freezing import freeze
from tests.support.server import LocalServer
from tests.support.workers import StartWorker, Worker, starting

ROUND: Final = 20
"""Blows after which a round is judged, and another begins in a namespace of its own."""

_PROCESSES: Final = 3
_BLOWS: Final = ("process kills", "freezes", "server kills")


class Attempt(NamedTuple):
    """A call of a process: `ended` is infinite where nobody knows when it took effect."""

    what: str
    session: str
    token: str
    began: float
    ended: float
    outcome: str


async def clearings(directory: Path, blows: int, seed: int = 1, planted: str = "") -> Figures:
    """Kill the server, and kill and freeze the processes, so many times together.

    With a mistake that is `planted` it ends once something is broken.
    """
    figures, chance = Figures("clearings and erasures"), random.Random(seed)
    script = Path(clearing.__file__)
    for first in range(0, blows, ROUND):
        async with (
            LocalServer(directory / f"round-{first}") as server,
            starting(script, server.url, f"round-{first}") as start,
        ):
            async with asyncio.TaskGroup() as hearing:
                crowd = _Crowd(start, hearing, seed * 1_000_000 + first * 100, planted)
                # Every other round, the server stays up.
                possible = _BLOWS[: 2 if first // ROUND % 2 else 3]
                for _ in range(first, min(first + ROUND, blows)):
                    figures.counts[await crowd.be_struck(server, chance, possible)] += 1
                attempts = await crowd.told()
            async with foldlog.connect(
                server.url, namespace=f"round-{first}", kinds=KINDS
            ) as store:
                figures.broken += await judged(store, attempts)
                left = await left_behind(store, server, attempts, figures)
            if "server kills" in possible:
                figures.counts["records that a killed server did not overwrite"] += len(left)
            else:
                figures.broken += left
        for each in attempts:
            figures.counts[f"{each.what}s {each.outcome.partition(':')[0]}"] += 1
        figures.tell()
        if planted and figures.broken:
            break
    return figures


class _Crowd:
    """Processes that call; another takes the place of each that is killed."""

    def __init__(
        self, start: StartWorker, hearing: asyncio.TaskGroup, seed: int, planted: str
    ) -> None:
        self._start, self._hearing = start, hearing
        self._seed, self._planted = seed, planted
        self._running: list[tuple[Worker, asyncio.Task[list[Any]]]] = []
        self._heard: list[asyncio.Task[list[Any]]] = []

    async def _begin(self) -> None:
        seed = self._seed + len(self._heard)
        worker = await self._start(f"p{seed}", seed, self._planted)
        self._heard.append(self._hearing.create_task(worker.hear_rest()))
        self._running.append((worker, self._heard[-1]))

    async def be_struck(
        self, server: LocalServer, chance: random.Random, possible: Sequence[str]
    ) -> str:
        """Let them call for a while; kill or freeze one of them, or kill the server."""
        while len(self._running) < _PROCESSES:
            await self._begin()
        await asyncio.sleep(0.3 + chance.random() * 0.7)
        blow = chance.choice(possible)
        if blow == "server kills":
            await server.kill()
            await server.start()
            return blow
        worker, heard = chance.choice(self._running)
        if blow == "freezes":
            freeze(worker.process.pid)
            await asyncio.sleep(chance.random() * 2)
            os.kill(worker.process.pid, signal.SIGCONT)
            return blow
        self._running.remove((worker, heard))
        await worker.kill()
        return blow

    async def told(self) -> list[Attempt]:
        """Let all end; return what everybody attempted."""
        for worker, _ in self._running:
            await worker.finish()
        said = [each for heard in await asyncio.gather(*self._heard) for each in heard]
        last = {(what, token, began): each for each in said for what, _, token, began, *_ in [each]}
        return [_attempt(*each) for each in last.values()]


def _attempt(
    what: str, session: str, token: str, began: float, ended: float | None, outcome: str
) -> Attempt:
    known = outcome in ("ok", "lost", "failed")
    return Attempt(what, session, token, began, ended if known and ended else math.inf, outcome)


async def judged(store: foldlog.Store, attempts: Sequence[Attempt]) -> list[Violation]:
    """What is broken, by what is there now."""
    broken = [
        Violation("untyped", f"{each.what} of {each.session}: {each.outcome}")
        for each in attempts
        if each.outcome not in ("ok", "lost", "failed", "unknown", "begun")
        and "clear" not in each.outcome
    ]
    for session in SESSIONS:
        own = [each for each in attempts if each.session == session]
        clears = [each for each in own if each.what == "clear"]
        saves = defaultdict[str, list[Attempt]](list)
        for each in own:
            if each.what == "save":
                saves[each.token].append(each)
        found = {name: Counter(tokens) for name, tokens in (await found_in(store, session)).items()}
        for token, made in saves.items():
            counts = {name: counted[token] for name, counted in found.items()}
            broken += _judge_save(token, made, clears, counts)
        decisions = [each for each in own if each.what == "decide" and each.outcome == "ok"]
        broken += _judge_decisions(decisions, clears)
        state: Any = await store.view(DECIDED(session), consistency="strong")
        if len(state) > 1:
            broken.append(Violation("decided", f"{session} has {[each.id for each in state]}"))
    return broken


def _judge_save(
    token: str, made: Sequence[Attempt], clears: Iterable[Attempt], counts: dict[str, int]
) -> list[Violation]:
    broken = list[Violation]()
    if len(set(counts.values())) > 1:
        broken.append(Violation("torn", f"{made[0].session} has {token} as {counts}"))
    if max(counts.values()) > 1:
        broken.append(Violation("doubled", f"{made[0].session} has {token} as {counts}"))
    acked = [each for each in made if each.outcome == "ok"]
    last = max((each.began for each in acked), default=None)
    if last is not None and not any(counts.values()) and all(c.ended < last for c in clears):
        broken.append(Violation("lost", f"{made[0].session} has no {token}, acked at {last}"))
    ends = max((each.ended for each in made if each.outcome != "failed"), default=0.0)
    done = [each for each in clears if each.outcome == "ok" and each.began > ends]
    if done and any(counts.values()):
        broken.append(Violation("back", f"{made[0].session} has {token}, cleared since: {counts}"))
    return broken


def _judge_decisions(won: Sequence[Attempt], clears: Iterable[Attempt]) -> list[Violation]:
    """Between two that won there was a clearing."""
    ordered = sorted(won, key=lambda each: each.ended)
    return [
        Violation("decided", f"{one.token} and {two.token} both won {one.session}")
        for one, two in itertools.pairwise(ordered)
        if not any(c.began <= two.ended and c.ended >= one.began for c in clears)
    ]


async def left_behind(
    store: foldlog.Store, server: LocalServer, attempts: Sequence[Attempt], figures: Figures
) -> list[Violation]:
    """Erase every session, after which no read has any text; return those that files have.

    A server that is killed while it deletes notes first that the record is gone, and overwrites it
    then (nats-server, `removeMsgFromBlock`): a record may stay in its file, which nobody can read.
    """
    for session in SESSIONS:
        erased = await store.erase_session(session)
        figures.counts["envelopes erased in the end"] += sum(erased.removed.values())
        if erased.readable:
            figures.broken.append(Violation("erased", f"{session}: {erased.readable}"))
    left, texts = list[Violation](), dict[bytes, str]()
    for each in attempts:
        if each.what in ("save", "decide"):
            texts[text_of(each.token).encode()] = each.token
    for path in await asyncio.to_thread(lambda: list(server.directory.rglob("*"))):
        content = path.read_bytes() if path.is_file() else b""
        left += [
            Violation("erased", f"{path.name} has what was said as {token}")
            for text, token in texts.items()
            for _ in range(content.count(text))
        ]
    return left
