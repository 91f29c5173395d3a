"""A log with a bit of everything that an export has to bring: see `write`."""

from __future__ import annotations

import itertools

import foldlog
from foldlog.scoped import Scope
from tests.support.build import event, steering, task, update

LONG = "s" * 300
"""A session whose subjects are hashed."""

LARGE = bytes(range(256)) * 1200


async def write(store: foldlog.Store) -> str:
    """Sessions, a fork, an erased one, a hashed one, artifacts, a run, scoped state.

    Returns the fork's id.
    """
    for session in ("a", "b", LONG, "gone"):
        for n in range(4):
            await store.save_update(update(f"u{n}", session, content={"n": n, "é": 1.5}))
        await store.save_task(task("t", session))
        trace = f"trace {session}"
        await store.save_event(event(trace, payload={"bytes": b"\x00\xff"}))
        await store.belong(session, foldlog.kinds.events(trace))
        await store.save_steering(steering("e", session))
        scope = foldlog.ArtifactScope(session_id=session)
        for text in ("shared", session):
            await store.artifact_store.put_text(text * 10, scope=scope)
    async with store.run("run", session_id="a") as run:
        await run.step("large", lambda: LARGE)
    await store.scoped.write(Scope.session("a"), "k/1", {"v": 1})
    await store.scoped.write(Scope.session("a"), "k/2", "large" * 60_000)
    async with store.atomic():
        await store.save_update(update("x1", "b"))
        await store.save_update(update("x2", "b"))
    await store.erase_session("gone")
    then = await store.position()
    await store.save_update(update("u4", "a"))
    kind, subject = foldlog.kinds.updates, store._core.log.namespace.subject
    names = (f"fork{n}" for n in itertools.count())
    home = subject(kind.family, "a").shard
    fork = next(name for name in names if subject(kind.family, name).shard == home)
    await store.fork("a", at=then, to=fork)
    await store.save_update(update("own", fork))
    return fork
