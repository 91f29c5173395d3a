"""Kinds of users' own that fold the records of others get what the built-in ones get."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import msgspec
import pytest

import foldlog
from foldlog.log.memory import MemoryLog
from foldlog.store import options as chosen
from foldlog_projections.events import kind as events
from tests.conftest import OpenStore
from tests.rebuilding.test_rebuild import LONG, wait_for_snapshots
from tests.support.build import event, update


class Costs:
    """What the events of a trace say that each tool has cost: calls and tokens."""

    name = "tool_costs"
    version = 1
    keep: Any = None
    restore: Any = None

    def initial(self) -> dict[str, list[int]]:
        return {}

    def apply(self, state: dict[str, list[int]], event: Any, _: Any) -> dict[str, list[int]]:
        entry = state.setdefault(event.node_name or "?", [0, 0])
        entry[0] += 1
        entry[1] += event.payload["tokens"]
        return state


class KeptCosts(Costs):
    """The same, with snapshots."""

    keep = staticmethod(msgspec.msgpack.encode)
    restore = staticmethod(msgspec.msgpack.decode)


def kind_of(fold: Any) -> foldlog.Kind[Any]:
    made = foldlog.Fold(fold.initial, fold.apply, keep=fold.keep, restore=fold.restore)
    return foldlog.Kind(fold.name, of=events, fold=made, version=fold.version)


def call(n: int, tokens: int = 1) -> foldlog.StoredEvent:
    return event(ts=float(n), node_name=f"tool-{n % 2}", payload={"tokens": tokens})


@pytest.fixture(params=[Costs, KeptCosts])
def costs(request: pytest.FixtureRequest) -> Any:
    return kind_of(request.param())


async def test_a_view_of_ones_own_is_read(reopen: OpenStore) -> None:
    costs = kind_of(Costs())
    store, other = await reopen(kinds=[costs]), await reopen(kinds=[costs])
    assert await store.view(costs("trace")) == {}
    await store.save_events([call(n) for n in range(5)])
    expected = {"tool-0": [3, 3], "tool-1": [2, 2]}
    assert await store.view(costs("trace")) == expected
    assert await other.view(costs("trace"), consistency="strong") == expected
    await other.save_event(call(5, tokens=40))
    assert (await store.view(costs("trace"), consistency="strong"))["tool-1"] == [3, 42]
    assert len(await store.load_history("trace")) == 6
    assert (await store.view(costs("another"))) == {}


async def test_what_a_caller_does_to_a_state_stays_with_the_caller(costs: Any) -> None:
    async with foldlog.memory_store(kinds=[costs]) as store:
        await store.save_event(call(1))
        state = await store.view(costs("trace"))
        state["tool-1"][0] = 99
        assert await store.view(costs("trace")) == {"tool-1": [1, 1]}


async def test_ones_own_views_are_rebuilt_verified_and_compared(costs: Any) -> None:
    async with foldlog.memory_store(kinds=[costs]) as store:
        await store.save_events([call(n) for n in range(10)])
        await store.load_history("trace")
        await store.view(costs("trace"))
        report = await store.rebuild()
        assert report.projections["tool_costs"] == report.projections["events"] == 1
        assert report.differing == ()
        await store.view(costs("trace"))
        view = store._core.hot_views.peek(costs, store._core.subject(events, "trace"))
        assert view is not None
        view.folded.state["tool-0"][1] = 7
        [difference] = (await store.verify("tool_costs")).differing
        assert difference.view == "tool_costs/trace"
        assert difference.first == "state.tool-0[1]: 7 was served, 5 is in the log"
        assert (await store.rebuild("tool_costs")).differing == (difference,)
        assert (await store.view(costs("trace")))["tool-0"] == [5, 5]


def slots(log: MemoryLog) -> set[tuple[str, str]]:
    names = [name.split(".") for name in log.snapshots._side.stored]
    return {(family, where) for _, where, _, _, _, family, *_ in names}


async def test_one_that_can_be_kept_has_snapshots_with_its_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, costs = MemoryLog(), kind_of(KeptCosts())
    async with foldlog.memory_store(log=log, kinds=[costs]) as store:
        for n in range(LONG):  # one by one, so that each has a record of its own
            await store.save_event(call(n))
        state = await store.view(costs("trace"))
        await store.load_history("trace")
        await wait_for_snapshots(store)
    assert {where.rpartition("~")[0] for _, where in slots(log)} == {"events", "tool_costs"}
    applied: list[int] = []

    class Watched(KeptCosts):
        def apply(self, state: Any, event: Any, envelope: Any) -> Any:
            applied.append(envelope.seq)
            return super().apply(state, event, envelope)

    async with foldlog.memory_store(log=log, kinds=[watching := kind_of(Watched())]) as store:
        assert await store.view(watching("trace")) == state
        assert len(applied) < LONG  # the rest came with the snapshot
        watched = Watched()
    monkeypatch.setattr(Watched, "version", 2)
    applied.clear()
    async with foldlog.memory_store(log=log, kinds=[watching := kind_of(watched)]) as store:
        assert await store.view(watching("trace")) == state
        assert len(applied) >= LONG
        report = await store.rebuild("tool_costs")
        assert report.differing == ()
        await store.close()
    applied.clear()
    async with foldlog.memory_store(log=log, kinds=[watching := kind_of(watched)]) as store:
        assert await store.view(watching("trace")) == state
        assert len(applied) < LONG  # the rebuild has written the snapshot of this version


async def test_ones_own_views_travel_in_time(costs: Any) -> None:
    async with foldlog.memory_store(kinds=[costs]) as store:
        await store.save_event(call(1))
        moment = await store.position()
        await store.save_event(call(2))
        async with store.at(moment) as past:
            assert await past.view(costs("trace")) == {"tool-1": [1, 1]}
        assert await store.view(costs("trace")) == {"tool-1": [1, 1], "tool-0": [1, 1]}


async def test_one_that_the_store_was_not_opened_with_sees_the_stores_own_writes() -> None:
    class Silent(MemoryLog):
        """Pushes nothing: pushes are hints."""

        async def follow(self, subject: Any, on_record: Any) -> Any:
            async def unfollow() -> None:
                return

            return unfollow

    costs = kind_of(Costs())
    async with foldlog.memory_store(log=Silent()) as store:
        await store.save_event(call(1))
        assert await store.view(costs("trace")) == {"tool-1": [1, 1]}
        await store.save_event(call(3))
        assert await store.view(costs("trace")) == {"tool-1": [2, 2]}
        assert store.peek(costs("trace"), dict) == {"tool-1": [2, 2]}
        view = store._core.hot_views.peek(costs, store._core.subject(events, "trace"))
        assert view is not None
        view.folded.state["tool-1"][1] = 7
        [difference] = (await store.verify()).differing
        assert difference.view == "tool_costs/trace"
        await store.rebuild()
        assert await store.view(costs("trace")) == {"tool-1": [2, 2]}


async def test_views_of_ones_own_are_evicted_like_others(costs: Any) -> None:
    async with foldlog.memory_store(kinds=[costs], max_hot_bytes=0) as store:
        for n in range(20):
            await store.save_event(event(f"trace-{n}", node_name="t", payload={"tokens": n}))
            assert await store.view(costs(f"trace-{n}")) == {"t": [1, n]}
        assert (await store.health()).hot_views <= 1


async def test_what_a_projection_raises_is_told_with_its_position() -> None:
    costs = kind_of(Costs())
    async with foldlog.memory_store(kinds=[costs]) as store:
        await store.save_event(event(payload={"no": "tokens"}))
        with pytest.raises(foldlog.LogCorrupt, match=r"tool_costs, event.saved: KeyError"):
            await store.view(costs("trace"))
        assert len(await store.load_history("trace")) == 1
        [finding] = (await store.verify()).findings
        assert finding.sequence == 1


class Failing(Costs):
    """Fails on what costs nothing, in a way of its own."""

    name = "failing"

    def apply(self, state: dict[str, list[int]], event: Any, _: Any) -> dict[str, list[int]]:
        if not event.payload["tokens"]:
            raise RuntimeError("nothing is free")
        return super().apply(state, event, _)


async def test_one_that_fails_in_any_way_breaks_no_save_and_no_other_view() -> None:
    """It was hot when the envelope came on which it fails, and so was one beside it."""
    failing, costs = kind_of(Failing()), kind_of(Costs())
    async with foldlog.memory_store(kinds=[failing, costs]) as store:
        await store.save_event(call(1))
        for each in (failing, costs):
            assert await store.view(each("trace")) == {"tool-1": [1, 1]}
        await store.save_event(call(2, tokens=0))
        await store.save_event(call(3))
        with pytest.raises(foldlog.LogCorrupt, match=r"failing, event.saved: RuntimeError"):
            await store.view(failing("trace"))
        assert await store.view(costs("trace")) == {"tool-1": [2, 2], "tool-0": [1, 0]}
        report = await store.verify()
        assert report.differing == ()
        [finding] = report.findings
        assert (finding.sequence, "RuntimeError" in finding.reason) == (2, True)


async def test_one_whose_states_cannot_be_kept_or_restored_is_folded_from_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(state: Any) -> Any:
        raise KeyError("tokens")

    log, costs, plain = MemoryLog(), kind_of(KeptCosts()), kind_of(Costs())
    async with foldlog.memory_store(log=log, kinds=[costs]) as store:
        for n in range(LONG):
            await store.save_event(call(n))
        state = await store.view(costs("trace"))
        await wait_for_snapshots(store)
    monkeypatch.setattr(KeptCosts, "restore", staticmethod(fails))
    async with foldlog.memory_store(log=log, kinds=[plain]) as store:
        assert await store.view(plain("trace")) == state
    async with foldlog.memory_store(log=log, kinds=[kind_of(KeptCosts())]) as store:
        snapshots = store._core.hot_views.snapshots
        assert snapshots is not None
        subject = store._core.subject(events, "trace")
        assert await snapshots.load(kind_of(KeptCosts()), subject) is None
        monkeypatch.setattr(KeptCosts, "keep", staticmethod(fails))
        report = await store.rebuild()
        assert report.projections["tool_costs"] == 1
        # What writes snapshots behind everybody's back goes on, too.
        assert len(await store.load_history("trace")) == LONG
        await wait_for_snapshots(store)
        assert snapshots._writer is None or snapshots._writer.exception() is None


async def test_a_built_in_view_is_read_the_same_way() -> None:
    async with foldlog.memory_store() as store:
        await store.save_update(update("u"))
        [saved] = await store.view(foldlog.kinds.updates("session"))
        assert saved.update_id == "u"
        with pytest.raises(foldlog.ConfigurationError, match="weather"):
            await store.view(foldlog.Kind("weather", records={}, fold=foldlog.every)("session"))
        with pytest.raises(foldlog.InvalidId):
            await store.view(foldlog.kinds.updates(""))


def refused(**arguments: Any) -> Any:
    return lambda: foldlog.Kind(**{"name": "n", "keys": ("k",), "fold": foldlog.every} | arguments)


class Saved(msgspec.Struct, frozen=True):
    text: foldlog.Content[str]


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (refused(name=""), "name"),
        (refused(name="a b"), "name"),
        (refused(version=0), "version"),
        (refused(version="2"), "version"),
        (refused(keys=()), "key"),
        (refused(owner="weather"), "owner"),
        (refused(fold=None), "foldlog.Fold"),
        (refused(records={"a type": Saved}), "type"),
        (refused(records={"n.saved": dict}), "struct"),
        (refused(of=events, records={"n.saved": Saved}), "events"),
    ],
)
def test_what_is_no_kind_is_refused(make: Any, word: str) -> None:
    with pytest.raises(foldlog.ConfigurationError, match=word):
        make()


def kind(name: str = "n", type: str = "n.saved") -> foldlog.Kind[Any]:
    return foldlog.Kind(name, keys=("k",), records={type: Saved}, fold=foldlog.every)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ([kind("events")], "two kinds"),
        ([kind(), kind(type="other.saved")], "two kinds"),
        ([kind(), kind("other")], "n.saved is a record of n"),
        ([kind(type="task.saved")], "task.saved is a record of tasks"),
        ([foldlog.Kind("costs", of=kind(), fold=foldlog.every)], "not given"),
        (["a name"], "no foldlog.Kind"),
        ([Costs()], "no foldlog.Kind"),
        ("a name", "list"),
        (7, "list"),
    ],
)
def test_kinds_that_do_not_go_together_are_refused(given: Any, word: str) -> None:
    with pytest.raises(foldlog.ConfigurationError, match=word):
        foldlog.memory_store(kinds=given)
    with pytest.raises(foldlog.ConfigurationError, match=word):
        foldlog.connect(kinds=given)


COSTS = kind_of(Costs())


def test_installed_packages_bring_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = metadata.EntryPoint("costs", f"{__name__}:COSTS", chosen.GROUP)
    missing = metadata.EntryPoint("missing", "no_such_module:x", chosen.GROUP)
    found: list[metadata.EntryPoint] = [entry]

    def entry_points(*, group: str) -> list[metadata.EntryPoint]:
        assert group == "foldlog.kinds"
        return found

    monkeypatch.setattr(chosen.metadata, "entry_points", entry_points)
    chosen._installed.cache_clear()
    try:
        assert [each.name for each in chosen.chosen_kinds(None)] == ["tool_costs"]
        assert [each.name for each in chosen.chosen_kinds([kind()])] == ["tool_costs", "n"]
        found[:] = [missing]
        chosen._installed.cache_clear()
        with pytest.raises(foldlog.ConfigurationError, match="no_such_module"):
            foldlog.memory_store()
    finally:
        chosen._installed.cache_clear()
