"""A process that saves, decides, clears and erases in a few sessions until it is killed. A script.

Run as `clearing.py URL NAMESPACE NAME SEED PLANTED`. It says each attempt before it makes it, and
again when it knows how that ended: `[what, session, token, began, ended, outcome]`, the times by
the clock that all processes of a machine share. `PLANTED` is "" or a mistake of PLANTED.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

# Run as a script, so that it costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import foldlog
from foldlog.envelope import CLEARED
from foldlog.errors import AppendFailed, AppendUnknown, LogUnavailable
from foldlog.kind import Key
from foldlog.log.port import Append
from foldlog.store import removal
from foldlog.store.core import Core
from tests.property.promise_model import note, notes, verdicts
from tests.support.build import event, task, trajectory, update

KEPT: Final = "kept"
"""The session that nobody clears."""

SESSIONS: Final = (KEPT, "a", "b", "c")
DECIDED: Final = notes
KINDS: Final = (notes, verdicts)

_NOT_COMMITTED: Final = (AppendFailed, LogUnavailable)


def text_of(token: str) -> str:
    """What is said under an id. Ids outlive an erasure, in tombstones; no text does."""
    return hashlib.sha256(token.encode()).hexdigest()


async def save(store: foldlog.Store, session: str, token: str) -> None:
    """Save a text in several views of a session at once, under an id."""
    text = text_of(token)
    async with store.atomic():
        await store.append_messages(session, [foldlog.Message(token, "text", text)])
        await store.save_update(update(token, session, content=text))
        await store.save_task(task(token, session, description=text))
        await store.save_trajectory(token, session, trajectory(text))
        await store.save_event(event(token, payload={"said": text}))


async def found_in(store: foldlog.Store, session: str) -> dict[str, list[str]]:
    """The tokens that each view of a session holds."""
    messages = await store.list_messages(session, limit=100_000, consistency="strong")
    updates = await store.list_updates(session, limit=100_000, consistency="strong")
    tasks = await store.list_tasks(session, consistency="strong")
    traces = await store.list_traces(session, limit=100_000, consistency="strong")
    return {
        "messages": [each.id for each in messages],
        "updates": [each.update_id for each in updates],
        "tasks": [each.task_id for each in tasks],
        "traces": traces,
    }


async def decide(store: foldlog.Store, session: str, token: str) -> bool:
    """Take a place that only one may have, until the session is cleared."""
    key: Key[Any] = DECIDED(session)
    return bool(
        await store.decide(key, lambda state: None if state else [note(token, text_of(token))])
    )


class Caller:
    """Makes calls, and says what becomes of each."""

    def __init__(self, store: foldlog.Store, name: str, seed: int) -> None:
        self._store = store
        self._chance = random.Random(seed)
        self._tokens = (f"{name}-{n}" for n in itertools.count())
        self._made: list[tuple[str, str]] = []

    async def call(self) -> None:
        """Make one call."""
        session = self._chance.choice(SESSIONS)
        what = self._chance.choices(
            ["save", "repeat", "decide", "clear", "erase"], [60, 15, 15, 3, 2]
        )[0]
        token = next(self._tokens)
        if what == "repeat" and self._made:
            session, token = self._chance.choice(self._made[-50:])
        if what in ("clear", "erase") and session == KEPT:
            return
        if what in ("save", "repeat"):
            self._made.append((session, token))
            await self._tell("save", session, token, lambda: save(self._store, session, token))
        elif what == "decide":
            await self._tell(what, session, token, lambda: decide(self._store, session, token))
        elif what == "clear":
            await self._tell(what, session, token, lambda: self._store.clear_session(session))
        else:
            await self._tell("clear", session, token, lambda: self._store.erase_session(session))

    async def _tell(self, what: str, session: str, token: str, call: Callable[[], Any]) -> None:
        began = time.monotonic()
        _say([what, session, token, began, None, "begun"])
        try:
            answer = await call()
            outcome = "lost" if what == "decide" and not answer else "ok"
        except AppendUnknown:
            outcome = "unknown"
        except _NOT_COMMITTED:
            outcome = "unknown" if what == "clear" else "failed"
        except foldlog.FoldlogError as error:
            outcome = f"{type(error).__name__}: {error}"
        _say([what, session, token, began, time.monotonic(), outcome])


def _dropped() -> None:
    """Now and then what is saved in several views at once is acked and not stored."""
    append, count = Core._append, itertools.count(1)

    async def dropping(self: Core, log: Any, stamped: Sequence[Append], atomic: bool) -> list[int]:
        is_save = not any(each.type == CLEARED for append in stamped for each in append.drafts)
        if is_save and len(stamped) > 4 and not next(count) % 20:
            return [1] * len(stamped)
        return await append(self, log, stamped, atomic)

    Core._append = dropping  # type: ignore[method-assign]


def _one_by_one() -> None:
    """What goes together goes one by one."""
    bury = removal.bury

    async def one_by_one(core: Core, areas: Sequence[Any], **how: Any) -> dict[Any, Any]:
        return {
            area: held for each in areas for area, held in (await bury(core, [each], **how)).items()
        }

    removal.bury = one_by_one  # type: ignore[attr-defined]


def _forgotten() -> None:
    """One of the views stays."""
    owned_by = removal.owned_by

    async def some(*args: Any, **how: Any) -> list[Any]:
        return [each for each in await owned_by(*args, **how) if each.kind.name != "updates"]

    removal.owned_by = some  # type: ignore[attr-defined]


def _undecided() -> None:
    """A decision is appended whatever its view holds."""

    async def anyhow(store: foldlog.Store, session: str, token: str) -> bool:
        await store.append(DECIDED(session), note(token, text_of(token)))
        return True

    globals()["decide"] = anyhow


PLANTED: Final = {
    "dropped": _dropped,
    "one by one": _one_by_one,
    "forgotten": _forgotten,
    "undecided": _undecided,
}


def _say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def _connected(url: str, namespace: str) -> foldlog.Store:
    while True:
        try:
            return await foldlog.connect(url, namespace=namespace, kinds=KINDS)
        except LogUnavailable:
            continue  # the server has just been killed


async def _main(url: str, namespace: str, name: str, seed: str, planted: str) -> None:
    if planted:
        PLANTED[planted]()
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    async with await _connected(url, namespace) as store:
        caller = Caller(store, name, int(seed))
        while not ended.done():
            await caller.call()
    await ended


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
