"""The state machine that drives a store and the reference model side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import foldlog
from tests.property.model import Model
from tests.support.build import event, planner_event, steering, task, trajectory, update
from tests.support.stores import Backend

T = TypeVar("T")

# Few names and contents, so that saves meet; awkward names, so that escaping is on the way.
sessions = st.sampled_from(["s.*", "S"])
tasks = st.sampled_from(["t", ">"])
tokens = st.just("token")
ids = st.sampled_from(["a", "b", "c", "d", "e"])
numbers = st.integers(0, 1)

QUERIES = [
    {"task_id": task_id, "since_id": since_id, "limit": limit}
    for task_id in (None, "t", ">", "unknown")
    for since_id in (None, "a", "b", "c", "d", "e", "unknown")
    for limit in (-1, 0, 1, 2, 500)
]


def trace_of(session_id: str, number: int) -> str:
    """A trace that only this session uses: whose trace it is must never be in doubt."""
    return f"{session_id}/{number}"


def update_of(id_: str, session_id: str) -> foldlog.StateUpdate:
    """The update with that id: an id that is saved again has the same content."""
    return update(id_, session_id, task_id=task_of(id_))


def steering_of(id_: str, session_id: str) -> foldlog.SteeringEvent:
    """The steering event with that id."""
    return steering(id_, session_id, task_id=task_of(id_))


def task_of(id_: str) -> str:
    """The task of the update and of the steering event with that id."""
    return "t" if id_ in "ace" else ">"


class StoreMachine(RuleBasedStateMachine):
    """Two stores over one log do everything; both must read as the model does.

    The second one reads strongly: it learns of the first one's writes through the log only.
    """

    def make_backend(self) -> Backend:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.model = Model()
        self.stores: list[foldlog.Store] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @initialize()
    def open(self) -> None:
        self.backend = self.make_backend()
        self.stores = [self.run(self.backend.open()) for _ in range(2)]

    def teardown(self) -> None:
        if self.stores:
            self.run(self.check_subscriptions(self.stores[0]))
        for store in self.stores:
            self.run(store.close())
        self.runner.close()

    # --- saves: by either store -----------------------------------------------------------------

    @rule(which=st.booleans(), session=sessions, number=numbers, ts=numbers, n=numbers)
    def save_event(self, which: bool, session: str, number: int, ts: int, n: int) -> None:
        trace_id = trace_of(session, number)
        item = event(trace_id, float(ts), payload={"n": n})
        self.run(self.stores[which].save_event(item))
        self.model.events[trace_id].save("", item, key=(ts, n))

    @rule(which=st.booleans(), session=sessions, number=numbers, n=numbers)
    def save_events(self, which: bool, session: str, number: int, n: int) -> None:
        trace_id = trace_of(session, number)
        items = [event(trace_id, float(ts), payload={"n": n}) for ts in (2, 0, 2)]
        self.run(self.stores[which].save_events(items))
        for item in items:
            self.model.events[trace_id].save("", item, key=(int(item.ts), n))

    @rule(which=st.booleans(), session=sessions, number=numbers, n=numbers)
    def save_planner_event(self, which: bool, session: str, number: int, n: int) -> None:
        trace_id = trace_of(session, number)
        item = planner_event(float(n))
        self.run(self.stores[which].save_planner_event(trace_id, item))
        self.model.planner_events[trace_id].save("", item, key=n)

    @rule(which=st.booleans(), session=sessions, task_id=tasks, n=numbers)
    def save_task(self, which: bool, session: str, task_id: str, n: int) -> None:
        item = task(task_id, session, priority=n)
        self.run(self.stores[which].save_task(item))
        self.model.sessions[session].tasks.save(task_id, item)

    @rule(which=st.booleans(), session=sessions, id_=ids)
    def save_update(self, which: bool, session: str, id_: str) -> None:
        item = update_of(id_, session)
        self.run(self.stores[which].save_update(item))
        self.model.sessions[session].updates.save(id_, item)

    @rule(which=st.booleans(), session=sessions, id_=ids)
    def save_steering(self, which: bool, session: str, id_: str) -> None:
        item = steering_of(id_, session)
        self.run(self.stores[which].save_steering(item))
        self.model.sessions[session].steering.save(id_, item)

    @rule(which=st.booleans(), session=sessions, number=numbers, n=numbers)
    def save_trajectory(self, which: bool, session: str, number: int, n: int) -> None:
        trace_id = trace_of(session, number)
        item = trajectory(str(n))
        self.run(self.stores[which].save_trajectory(trace_id, session, item))
        self.model.save_trajectory(trace_id, session, item)

    @rule(which=st.booleans(), session=sessions, id_=ids)
    def save_atomically(self, which: bool, session: str, id_: str) -> None:
        store, target = self.stores[which], self.model.sessions[session]
        items = update_of(id_, session), steering_of(id_, session)

        async def save() -> None:
            async with store.atomic():
                await store.save_update(items[0])
                await store.save_steering(items[1])

        self.run(save())
        target.updates.save(id_, items[0])
        target.steering.save(id_, items[1])

    @rule(which=st.booleans(), session=sessions, wanted=st.lists(ids, min_size=1, max_size=12))
    def save_concurrently(self, which: bool, session: str, wanted: list[str]) -> None:
        store, feed = self.stores[which], self.model.sessions[session].updates
        items = [update_of(id_, session) for id_ in wanted]

        async def save() -> None:
            await asyncio.gather(*(store.save_update(item) for item in items))

        self.run(save())
        # Concurrent callers of one store are served in the order in which they came.
        for item in items:
            feed.save(item.update_id, item)

    # --- memory and pauses ----------------------------------------------------------------------

    @rule(which=st.booleans(), key=sessions, n=numbers)
    def save_memory(self, which: bool, key: str, n: int) -> None:
        self.run(self.stores[which].save_memory_state(key, {"n": n}))
        self.model.memory[key] = {"n": n}

    @rule(which=st.booleans(), token=tokens, n=numbers)
    def save_pause(self, which: bool, token: str, n: int) -> None:
        self.run(self.stores[which].save_planner_state(token, {"n": n}))
        self.model.save_pause(token, {"n": n}, n)

    @rule(which=st.booleans(), token=tokens)
    def load_pause(self, which: bool, token: str) -> None:
        loaded = self.run(self.stores[which].load_planner_state(token))
        assert loaded == self.model.take_pause(token)

    @rule(token=tokens)
    def race_for_pause(self, token: str) -> None:
        async def race() -> list[Any]:
            loads = (store.load_planner_state(token) for store in self.stores * 3)
            return await asyncio.gather(*loads)

        won = [payload for payload in self.run(race()) if payload is not None]
        expected = self.model.take_pause(token)
        assert won == ([] if expected is None else [expected])

    # --- clearing, reopening, rebuilding --------------------------------------------------------

    @rule(which=st.booleans(), session=sessions)
    def clear_session(self, which: bool, session: str) -> None:
        self.run(self.stores[which].clear_session(session))
        self.model.clear_session(session)

    @rule(which=st.booleans())
    def reopen(self, which: bool) -> None:
        self.run(self.stores[which].close())
        self.stores[which] = self.run(self.backend.open())

    @rule(which=st.booleans())
    def rebuild(self, which: bool) -> None:
        assert self.run(self.stores[which].rebuild()).differing == ()

    # --- reads ----------------------------------------------------------------------------------

    @rule(which=st.booleans(), session=sessions)
    def list_pages(self, which: bool, session: str) -> None:
        self.run(self.compare_pages(self.stores[which], session))

    async def compare_pages(self, store: foldlog.Store, session: str) -> None:
        model = self.model.sessions[session]
        for query in QUERIES:
            updates = await store.list_updates(session, **query, consistency="strong")
            assert updates == model.updates.read(**query), query
            events = await store.list_steering(session, **query, consistency="strong")
            assert events == model.steering.read(**query), query

    @rule(which=st.booleans(), session=sessions, limit=st.integers(-1, 2))
    def list_traces(self, which: bool, session: str, limit: int) -> None:
        listed = self.run(
            self.stores[which].list_traces(session, limit=limit, consistency="strong")
        )
        assert listed == self.model.sessions[session].traces[::-1][: max(limit, 0)]

    @rule(which=st.booleans())
    def list_sessions(self, which: bool) -> None:
        assert sorted(self.run(self.stores[which].sessions())) == self.model.session_names()

    @invariant()
    def both_stores_read_as_the_model(self) -> None:
        for store in self.stores:
            self.run(self.compare(store))

    async def compare(self, store: foldlog.Store) -> None:
        model, strong = self.model, {"consistency": "strong"}
        for trace_id in model.trace_names():
            assert await store.load_history(trace_id, **strong) == model.history(trace_id)
            planner_events = [item for _, item in model.planner_events[trace_id].items]
            assert await store.list_planner_events(trace_id, **strong) == planner_events
        for name, session in model.sessions.items():
            assert await store.list_tasks(name, **strong) == list(session.tasks.values.values())
            updates = [item for _, item in session.updates.items]
            assert await store.list_updates(name, **strong) == updates
            events = [item for _, item in session.steering.items]
            assert await store.list_steering(name, **strong) == events
            assert await store.list_traces(name, **strong) == session.traces[::-1]
            for number in range(2):
                trace_id = trace_of(name, number)
                found = await store.get_trajectory(trace_id, name, **strong)
                assert found == session.trajectories.values.get(trace_id)
        for key, state in model.memory.items():
            assert await store.load_memory_state(key, **strong) == state

    async def check_subscriptions(self, store: foldlog.Store) -> None:
        """A subscription yields of each view what its reader finds, from the start or in parts."""
        for parts in (1, 3):
            held: dict[tuple[str, ...], list[foldlog.LogItem]] = {}
            count, position = 0, None
            while True:
                count, before = 0, position
                async for item in store.subscribe(
                    ["updates", "steering"], after=before, live=False
                ):
                    of_view = held.setdefault((item.kind, *item.keys), [])
                    if item.was_cleared:
                        of_view.clear()
                    else:
                        of_view.append(item)
                    count, position = count + 1, item.position
                    if parts > 1 and count == parts:
                        break
                if count < parts or parts == 1:
                    break
            for name, session in self.model.sessions.items():
                for kind, wanted in ("updates", session.updates), ("steering", session.steering):
                    found = [each.id for each in held.get((kind, name), [])]
                    assert found == [id for id, _ in wanted.items], (kind, name, parts)
