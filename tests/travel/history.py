"""Random histories, what a store shows after each step, and the oracle: a fold of the prefix."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st

import foldlog
from foldlog.envelope import FORKED, Recorded, unpack
from foldlog.log.forks import Forked
from foldlog.log.port import Log
from foldlog_projections.fold import Folded
from foldlog_projections.registry import FAMILIES
from tests.support.build import event, steering, task, trajectory, update
from tests.support.folding import fold

SESSIONS = ["s.*", "S"]
LOOK_EVERY = 3
"""Steps between two looks at all that the store shows."""

TRACES = ["a", "b"]
_sessions = st.sampled_from(SESSIONS) | st.integers(0, 2)
"""By name, or one of the forks, if there are any."""
_numbers = st.integers(0, 2)
_ids = st.sampled_from(["a", "b", "c", "d"])
_traces = st.sampled_from(TRACES)
_FORK = st.tuples(st.just("fork"), _sessions, st.integers(0, 30))
STEPS = st.one_of(
    st.tuples(st.just("update"), _sessions, _ids),
    st.tuples(st.just("updates"), _sessions, st.lists(_ids, min_size=2, max_size=5)),
    st.tuples(st.just("task"), _sessions, _ids, _numbers),
    st.tuples(st.just("steering"), _sessions, _ids),
    st.tuples(st.just("event"), _sessions, _traces, _numbers),
    st.tuples(st.just("trajectory"), _sessions, _traces, _numbers),
    st.tuples(st.just("memory"), _sessions, _ids, _numbers),
    st.tuples(st.just("artifact"), _sessions, _numbers),
    st.tuples(st.just("delete"), _sessions, _numbers),
    st.tuples(st.just("clear"), _sessions),
    _FORK,
)
HISTORIES = st.builds(
    lambda before, fork, after: [*before, fork, *after],
    st.lists(STEPS, min_size=2, max_size=8),
    _FORK,
    st.lists(STEPS, min_size=2, max_size=12),
)


class History:
    """A store, where its log ended after each step, and what it showed after some of them."""

    def __init__(self, store: foldlog.Store) -> None:
        self.store = store
        self.forks: list[str] = []
        self.parents: dict[str, str] = {}
        self.positions: list[foldlog.LogPosition] = []
        self.seen: list[tuple[foldlog.LogPosition, dict[str, Any]]] = []

    @property
    def sessions(self) -> list[str]:
        return [*SESSIONS, *self.forks]

    async def take(self, step: tuple[Any, ...]) -> None:
        kind, session, *rest = step
        if isinstance(session, int):
            known = self.forks or SESSIONS
            session = known[session % len(known)]
        await getattr(self, f"_{kind}")(session, *rest)
        self.positions.append(await self.store.position())
        if len(self.positions) % LOOK_EVERY == 0:
            shown = await portrait(self.store, self.sessions)
            self.seen.append((self.positions[-1], shown))

    async def _update(self, session: str, id_: str) -> None:
        await self.store.save_update(update(id_, session))

    async def _updates(self, session: str, ids: list[str]) -> None:
        async with self.store.atomic():  # one record with several envelopes
            for id_ in ids:
                await self.store.save_update(update(id_, session))

    async def _task(self, session: str, id_: str, n: int) -> None:
        await self.store.save_task(task(id_, session, priority=n))

    async def _steering(self, session: str, id_: str) -> None:
        await self.store.save_steering(steering(id_, session))

    async def _event(self, session: str, trace: str, n: int) -> None:
        await self.store.save_event(event(f"{session}/{trace}", float(n), payload={"n": n}))

    async def _trajectory(self, session: str, trace: str, n: int) -> None:
        await self.store.save_trajectory(f"{session}/{trace}", session, trajectory(str(n)))

    async def _memory(self, session: str, key: str, n: int) -> None:
        await self.store.save_memory_state(key, {"n": n, "of": session})

    async def _artifact(self, session: str, n: int) -> None:
        scope = foldlog.ArtifactScope(session_id=session)
        await self.store.artifact_store.put_text(f"text {n}", scope=scope)

    async def _delete(self, session: str, n: int) -> None:
        scope = foldlog.ArtifactScope(session_id=session)
        for ref in (await self.store.artifact_store.list(scope=scope))[n : n + 1]:
            await self.store.artifact_store.delete(ref.id)

    async def _clear(self, session: str) -> None:
        if session in self.parents.values():
            with pytest.raises(foldlog.SessionHasForks) as refused:
                await self.store.clear_session(session)
            assert set(refused.value.forks) == {
                fork for fork, parent in self.parents.items() if parent == session
            }
        else:
            await self.store.clear_session(session)
            self.parents.pop(session, None)

    async def _fork(self, session: str, which: int) -> None:
        if not self.positions:
            return
        position = self.positions[which % len(self.positions)]
        fork = f"fork-{len(self.forks)}"
        try:
            await self.store.fork(session, at=position, to=fork)
        except (foldlog.UnknownMoment, foldlog.PastErased):
            return
        self.forks.append(fork)
        self.parents[fork] = session
        # What it shows is what its origin showed then, but for whose it is.
        mine = await session_portrait(self.store, fork)
        theirs = await session_portrait(self.store.at(position), session)
        a, b = named(mine, "it"), named(theirs, "it")
        assert a == b, [(k, a[k], b[k]) for k in a if a[k] != b[k]]


async def portrait(store: foldlog.Store, sessions: list[str]) -> dict[str, Any]:
    """All that a store shows, as plain values; what is gone as its error."""
    shown: dict[str, Any] = {"sessions": await store.sessions()}
    for name in sessions:
        shown[f"session {name}"] = mine = await _shown(session_portrait(store, name))
        for trace in TRACES:
            history = store.load_history(f"{name}/{trace}")
            shown[f"trace {name}/{trace}"] = await _shown(history)
        for ref in mine["artifacts"] if isinstance(mine, dict) else ():
            data = store.artifact_store.get_with_session_check(ref.id, name)
            shown[f"bytes {name} {ref.id}"] = await _shown(data)
    for key in ("a", "b", "c", "d"):
        shown[f"memory {key}"] = await _shown(store.load_memory_state(key))
    return shown


async def session_portrait(store: foldlog.Store, session: str) -> dict[str, Any]:
    traces = await store.list_traces(session)
    artifacts = store.artifact_store
    refs = await artifacts.list(scope=foldlog.ArtifactScope(session_id=session))
    return {
        "tasks": await store.list_tasks(session),
        "updates": await store.list_updates(session),
        "steering": await store.list_steering(session),
        "history": await store.load_history(f"session:{session}"),
        "traces": traces,
        "trajectories": await asyncio.gather(*(store.get_trajectory(t, session) for t in traces)),
        "artifacts": refs,
    }


def named(shown: Any, name: str) -> Any:
    """The same with every session id replaced: a fork shows as its own what it shares."""
    plain = msgspec.to_builtins(shown, enc_hook=_plain)
    return _renamed(plain, name)


def _plain(value: Any) -> Any:
    return value.model_dump() if hasattr(value, "model_dump") else vars(value)


def _renamed(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {
            key: name
            if key == "session_id" or (key == "trace_id" and str(item).startswith("session:"))
            else _renamed(item, name)
            for key, item in value.items()
        }
    return [_renamed(item, name) for item in value] if isinstance(value, list) else value


async def _shown(reading: Any) -> Any:
    try:
        return await reading
    except foldlog.PastErased:
        return foldlog.PastErased


# --- the oracle ---------------------------------------------------------------------------------


class Oracle:
    """Every envelope of a log, by subject, in order: folded by hand, without any of the reading."""

    def __init__(self, envelopes: dict[str, list[Recorded]]) -> None:
        self.envelopes = envelopes

    @classmethod
    async def of(cls, log: Log) -> Oracle:
        envelopes: dict[str, list[Recorded]] = defaultdict(list)
        for shard in range(log.namespace.shards):
            async for page in log.scan(shard):
                for stored in page:
                    unpacked = unpack(stored.data, stored.seq, stored.time)
                    envelopes[stored.subject] += unpacked
        return cls(envelopes)

    @property
    def places(self) -> list[tuple[int, int]]:
        return sorted({(e.seq, e.index) for each in self.envelopes.values() for e in each})

    def prefix(self, log: Log, name: str, place: tuple[int, int]) -> list[Recorded]:
        own = [e for e in self.envelopes.get(name, []) if (e.seq, e.index) <= place]
        if not own or own[0].type != FORKED:
            return own
        forked = msgspec.msgpack.decode(own[0].payload, type=Forked)
        parent = log.namespace.subject(name.split(".")[3], *forked.keys)
        index = 10**9 if forked.index is None else forked.index
        return [*self.prefix(log, parent.name, (forked.seq, index)), *own]

    def folded(self, log: Log, name: str, place: tuple[int, int]) -> Folded[Any]:
        projection = FAMILIES[name.split(".")[3]]
        prefix = [each for each in self.prefix(log, name, place) if each.type != FORKED]
        return fold(projection, prefix[-1:] if projection.latest_only else prefix)
