"""A caller of a store: makes the calls that the checker knows, and records how each ends."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

from foldlog import Store, StoredEvent
from foldlog.envelope import draft
from foldlog.log.port import Append
from foldlog.scoped import Scope
from tests.faults.history import Read, Recorder, Resume, Save, Swap, Watch
from tests.support.build import binding, event, steering, task, trajectory, update

ALTERED = "altered:"
SCOPE = Scope.workflow("w")
_EVERYTHING = 1_000_000


def content(token: str) -> dict[str, Any]:
    """What is saved under a token: follows from it, so that a reader can tell what was altered."""
    return {"token": token, "text": token * (1 + sum(token.encode()) % 7)}


def checked(token: str, found: Any) -> str:
    """The token, if what was found is what is saved under it."""
    return token if found == content(token) else f"{ALTERED}{found!r:.200}"


class Actor:
    """Makes calls on `store` in one order, told by `recorder`."""

    def __init__(self, store: Store, recorder: Recorder) -> None:
        self.store = store
        self._recorder = recorder
        self._recorded = recorder.recorded
        self._client = recorder.client

    # --- saves ----------------------------------------------------------------------------------

    def _saving(self, subject: str, token: str) -> tuple[Callable[[], Awaitable[None]], str]:
        """The call that saves a token under a subject, and that subject."""
        family, key = subject.split("/")
        store = self.store
        match family:
            case "updates":
                item: Any = update(token, key, content=content(token))
                return lambda: store.save_update(item), subject
            case "steering":
                item = steering(token, key, payload=content(token))
                return lambda: store.save_steering(item), subject
            case "tasks":
                item = task(token.partition("#")[0], key, description=token, result=content(token))
                return lambda: store.save_task(item), subject
            case "memory":
                return lambda: store.save_memory_state(key, content(token)), subject
            case "pauses":
                return lambda: store.save_planner_state(key, content(token)), subject
            case "trajectory":
                item = trajectory(token, metadata=content(token))
                return lambda: store.save_trajectory(key, key, item), subject
            case "bindings":
                item = binding(trace_id=key, agent_url=token, metadata=content(token))
                return lambda: store.save_remote_binding(item), subject
            case "scoped":

                async def write() -> None:
                    await store.scoped.write(SCOPE, key, content(token))

                return write, subject
            case _:
                item = _event(key, token)
                return lambda: store.save_event(item), subject

    async def save(self, subject: str, token: str) -> str:
        """Save a token; return how that ended."""
        call, _ = self._saving(subject, token)
        with self._recorded(Save(client=self._client, writes=[(subject, token)])) as op:
            await call()
        return str(op.outcome)

    async def save_block(self, writes: Sequence[tuple[str, str]]) -> None:
        """Save several tokens as one append."""
        calls = [self._saving(*write)[0] for write in writes]
        with self._recorded(Save(client=self._client, writes=list(writes), atomic=True)):
            async with self.store.atomic():
                for call in calls:
                    await call()

    async def save_events(self, writes: Sequence[tuple[str, str]]) -> None:
        """Save several events at once: each is stored or not."""
        events = [_event(subject.split("/")[1], token) for subject, token in writes]
        with self._recorded(Save(client=self._client, writes=list(writes))):
            await self.store.save_events(events)

    async def swap(self, subject: str, token: str, expect: int) -> int:
        """Append if the subject ends at `expect`; return what it was found or made to end at."""
        family, key = subject.split("/")
        where = self.store._core.log.namespace.subject(family, key)
        append = Append(where, (draft("swapped", b"\xc0", id=token),), expect)
        op: Swap
        with self._recorded(
            Swap(client=self._client, subject=subject, token=token, expect=expect)
        ) as op:
            (op.seq,) = await self.store._core.log.append([append], atomic=True)
        return op.seq or op.actual or expect

    # --- reads ----------------------------------------------------------------------------------

    async def read(self, subject: str, consistency: str) -> None:
        """Read all that is saved under a subject."""
        with self._recorded(
            Read(client=self._client, subject=subject, consistency=consistency)
        ) as op:
            op.found = await self._found(*subject.split("/"), consistency)

    async def _found(self, family: str, key: str, consistency: Any) -> list[str]:
        store = self.store
        match family:
            case "updates":
                updates = await store.list_updates(key, limit=_EVERYTHING, consistency=consistency)
                return [checked(each.update_id, each.content) for each in updates]
            case "steering":
                steered = await store.list_steering(key, limit=_EVERYTHING, consistency=consistency)
                return [checked(each.event_id, each.payload) for each in steered]
            case "tasks":
                tasks = await store.list_tasks(key, consistency=consistency)
                return [checked(str(each.description), each.result) for each in tasks]
            case "memory":
                state = await store.load_memory_state(key, consistency=consistency)
                return [] if state is None else [checked(str(state.get("token")), state)]
            case "trajectory":
                kept = await store.get_trajectory(key, key, consistency=consistency)
                return [] if kept is None else [checked(kept.query, kept.metadata)]
            case "bindings":
                bound = await store.list_bindings(trace_id=key, consistency=consistency)
                return [checked(each.agent_url, each.metadata) for each in bound]
            case "scoped":
                value = await store.scoped.read(SCOPE, key, consistency=consistency)
                return [] if value is None else [checked(str(value.get("token")), value)]
            case _:
                events = await store.load_history(key, consistency=consistency)
                return [checked(str(each.payload.get("token")), each.payload) for each in events]

    async def resume(self, subject: str) -> None:
        """Try to resume a pause."""
        with self._recorded(Resume(client=self._client, subject=subject)) as op:
            state = await self.store.load_planner_state(subject.split("/")[1])
            op.got = None if state is None else checked(str(state.get("token")), state)

    async def watch(self, subject: str, since: str | None, op: Watch) -> None:
        """Watch until cancelled; what is given is in `op.got`."""
        family, key = subject.split("/")
        watched: Any
        if family == "updates":
            watched = self.store.watch_updates(key, after=since)
        else:
            watched = self.store.watch_steering(key, after=since)
        with self._recorded(op):
            async with aclosing(watched) as items:
                async for item in items:
                    if family == "updates":
                        op.got.append(checked(item.update_id, item.content))
                    else:
                        op.got.append(checked(item.event_id, item.payload))
                    self._recorder.note(op)


def _event(trace: str, token: str) -> StoredEvent:
    return event(trace, ts=float(sum(token.encode())), node_id=token, payload=content(token))


async def impatiently(call: Awaitable[Any], patience: float) -> None:
    """Make a call, and give it up after so many seconds."""
    calling = asyncio.ensure_future(call)
    try:
        done, _ = await asyncio.wait([calling], timeout=patience)
    finally:
        calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    if done and not calling.cancelled():
        calling.result()


class Script:
    """What a caller does, drawn from `rng`, over a few subjects.

    `name` begins each of its tokens, and nobody else's.
    """

    def __init__(self, actor: Actor, rng: random.Random, name: str, keys: int) -> None:
        self._actor = actor
        self._rng = rng
        self._name = name
        self._keys = keys
        self._count = self._steps = 0
        self._ends: dict[str, int] = {}
        self._unknown: list[tuple[str, str]] = []

    async def step(self) -> None:
        """Make one call."""
        rng, actor = self._rng, self._actor
        self._steps += 1
        # Callers come to the same pause at about the same time.
        pause = f"pauses/{self._steps // 4}"
        match rng.randrange(15):
            case 0 | 1 | 2 | 3:
                await self._save(self._subject("updates", "updates", "steering", "events"))
            case 4 | 5:
                await self._save(self._subject("memory", "tasks"))
            case 6:
                families = ("updates", "updates", "memory", "steering", "events")
                writes = [self._write(self._subject(*families)) for _ in range(rng.randint(2, 4))]
                await actor.save_block(writes)
            case 7:
                writes = [self._write(self._subject("events")) for _ in range(rng.randint(2, 4))]
                await actor.save_events(writes)
            case 8 | 9:
                subject = self._subject("updates", "steering", "tasks", "memory", "events")
                levels = ("strong", "strong", "session", "session", "eventual")
                await actor.read(subject, rng.choice(levels))
            case 10:
                # One content a pause: who resumes it, and that somebody does, can be told then.
                await actor.save(pause, f"{pause}.content")
            case 11:
                await actor.save(pause, f"{pause}.content")
                await asyncio.gather(actor.resume(pause), actor.resume(pause))
            case 12:
                await actor.resume(pause)
            case _:
                subject = f"updates/swap-{rng.randrange(2)}"
                end = self._ends.get(subject, 0)
                self._ends[subject] = await actor.swap(subject, self._token(), end)

    async def _save(self, subject: str) -> None:
        if self._unknown and self._rng.random() < 0.5:  # settle what was left open, by the same id
            subject, token = self._unknown.pop()
        else:
            subject, token = self._write(subject)
        if await self._actor.save(subject, token) != "ok" and subject.startswith(_SAME_ID):
            self._unknown.append((subject, token))

    def _write(self, subject: str) -> tuple[str, str]:
        token = self._token()
        if subject.startswith("tasks/"):
            return subject, f"task-{self._rng.randrange(3)}#{token}"
        return subject, token

    def _subject(self, *families: str) -> str:
        return f"{self._rng.choice(families)}/{self._rng.randrange(self._keys)}"

    def _token(self) -> str:
        self._count += 1
        return f"{self._name}.{self._count}"


_SAME_ID = ("updates/", "steering/", "events/")
"""Where a second save of the same is the same envelope."""
