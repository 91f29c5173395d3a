"""Forks: what they share, how they diverge, and who may be removed when; on every backend."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

import foldlog
from foldlog.envelope import draft
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Append
from foldlog.scoped import Scope
from foldlog.store.ownership import session_kinds
from tests.conftest import OpenStore
from tests.support.build import event, steering, task, trajectory, update
from tests.support.stores import EmbeddedBackend, appended

SCOPE = foldlog.ArtifactScope(session_id="session")


async def ids(store: foldlog.Store, session: str) -> list[str]:
    return [each.update_id for each in await store.list_updates(session, limit=10_000)]


async def updated(store: foldlog.Store, session: str, *update_ids: str) -> foldlog.LogPosition:
    for update_id in update_ids:
        await store.save_update(update(update_id, session))
    return await store.position()


# --- sharing ------------------------------------------------------------------------------------


async def test_a_fork_shows_what_its_origin_held_as_its_own(store: foldlog.Store) -> None:
    await store.save_task(task("t1", result={"deep": [1]}))
    await store.save_steering(steering("s1"))
    await store.save_trajectory("trace", "session", trajectory("then"))
    await store.save_event(event("session:session", 5.0, kind="mine"))
    ref = await store.artifact_store.put_text("text", scope=SCOPE)
    then = await updated(store, "session", "u1", "u2")
    await updated(store, "session", "u3")
    await store.save_trajectory("trace", "session", trajectory("later"))
    await store.save_event(event("session:session", 6.0, kind="later"))

    fork = await store.fork("session", at=then, to="fork")

    assert fork == "fork"
    [one] = await store.list_tasks("fork")
    assert (one.task_id, one.session_id, one.result) == ("t1", "fork", {"deep": [1]})
    updates = await store.list_updates("fork")
    assert [(u.update_id, u.session_id) for u in updates] == [("u1", "fork"), ("u2", "fork")]
    assert [u.update_id for u in await store.list_updates("fork", since_id="u1")] == ["u2"]
    assert [u.update_id for u in await store.list_updates("fork", task_id="task")] == ["u1", "u2"]
    assert [(s.event_id, s.session_id) for s in await store.list_steering("fork")] == [
        ("s1", "fork")
    ]
    assert await store.list_traces("fork") == ["trace"]
    found = await store.get_trajectory("trace", "fork")
    assert found is not None
    assert found.query == "then"
    history = await store.load_history("session:fork")
    assert sorted(each.kind for each in history) == [
        "mine",
        "session.steering",
        "session.task",
        "session.update",
        "session.update",
    ]
    assert {each.trace_id for each in history} == {"session:fork"}
    [listed] = await store.artifact_store.list(scope=foldlog.ArtifactScope(session_id="fork"))
    assert (listed.id, listed.scope.session_id if listed.scope else None) == (ref.id, "fork")
    assert await store.artifact_store.get_with_session_check(ref.id, "fork") == b"text"
    assert await store.artifact_store.get(ref.id) == b"text"
    assert "fork" in await store.sessions()


async def test_both_go_on_and_neither_hears_of_the_other(store: foldlog.Store) -> None:
    await updated(store, "session", "u1")
    await store.save_task(task("t1", priority=1))
    await store.fork("session", to="fork")
    await updated(store, "session", "u2")
    await updated(store, "fork", "u1", "u3")  # u1 is known to it
    [shared] = await store.list_tasks("fork")
    shared.priority = 2
    await store.save_task(shared)  # goes to the fork
    assert (await ids(store, "session"), await ids(store, "fork")) == (["u1", "u2"], ["u1", "u3"])
    assert [t.priority for t in await store.list_tasks("session")] == [1]
    assert [t.priority for t in await store.list_tasks("fork")] == [2]


async def test_a_fork_of_a_fork_shares_with_both(store: foldlog.Store) -> None:
    await updated(store, "session", "u1")
    await store.save_trajectory("t1", "session", trajectory("one"))
    await store.fork("session", to="child")
    then = await updated(store, "child", "u2")
    await store.save_trajectory("t2", "child", trajectory("two"))
    await updated(store, "session", "u3")
    await store.fork("child", to="grandchild")
    early = await store.fork("child", at=then)
    await updated(store, "child", "u4")
    await updated(store, "grandchild", "u5")
    assert await ids(store, "grandchild") == ["u1", "u2", "u5"]
    assert await ids(store, early) == ["u1", "u2"]
    assert await store.list_traces("grandchild") == ["t2", "t1"]
    assert await store.list_traces(early) == ["t1"]
    for trace, query in (("t1", "one"), ("t2", "two")):
        found = await store.get_trajectory(trace, "grandchild")
        assert found is not None
        assert found.query == query
    assert (await store.rebuild()).differing == ()


async def test_a_damaged_record_that_forks_share_is_named_where_it_is(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    await updated(store, "session", "u1")
    subject = store._core.subject("updates", "session")
    damage = draft("update.saved", b"\xc1", id="damage")
    [at] = await store._core.log.append([Append(subject, (damage,))])
    await store.fork("session", to="fork")
    await store.fork("fork", to="fork of it")
    for reader in (store, await reopen(), store.at(await store.position())):
        for session in ("session", "fork", "fork of it"):
            with pytest.raises(foldlog.LogCorrupt) as raised:
                await reader.list_updates(session, consistency="strong")
            assert (raised.value.stream, raised.value.sequence) == (subject.name, at)
    found = {(each.where, each.sequence) for each in (await store.verify()).findings}
    assert found == {(subject.name, at)}


async def test_a_fork_is_one_append_however_much_it_shares(store: foldlog.Store) -> None:
    sizes = []
    for count in (1, 200):
        session = f"session-{count}"
        await asyncio.gather(*(updated(store, session, f"u{n}") for n in range(count)))
        before = await appended(store)
        fork = await store.fork(session)
        sizes.append(await appended(store) - before)
        assert len(await ids(store, fork)) == count
    assert sizes[0] == sizes[1] <= len(session_kinds(store._core)) + 2


async def test_forks_from_inside_a_record_and_from_an_event(store: foldlog.Store) -> None:
    async with store.atomic():
        for update_id in ("u1", "u2", "u3"):
            await store.save_update(update(update_id))
    assert await ids(store, await store.fork("session", at="u2")) == ["u1", "u2"]
    assert await ids(store, await store.fork("session", at=update("u1"))) == ["u1"]


async def test_a_long_fork_is_read_through_snapshots(reopen: OpenStore) -> None:
    store = await reopen()
    names = [f"u{n:04}" for n in range(1500)]
    await asyncio.gather(*(store.save_update(update(name)) for name in names))
    then = await store.position()
    await store.fork("session", at=then, to="fork")
    await updated(store, "fork", "mine")
    assert len(await ids(store, "fork")) == 1501
    await store.close()
    again = await reopen()
    assert sorted(await ids(again, "fork")) == ["mine", *names]
    assert [u.update_id for u in await again.list_updates("fork", limit=1)] == ["mine"]
    page = await again.list_updates("fork", since_id=(await ids(again, "fork"))[9], limit=3)
    assert [u.update_id for u in page] == (await ids(again, "session"))[10:13]


async def test_whoever_looked_at_the_fork_before_it_was_one_sees_it(reopen: OpenStore) -> None:
    store, other = await reopen(), await reopen()
    await updated(store, "session", "u1")
    assert await ids(other, "fork") == []  # its view is hot from now on
    watching = other.watch_updates("fork")
    first = asyncio.ensure_future(anext(watching))
    await asyncio.sleep(0)
    await store.fork("session", to="fork")
    async with asyncio.timeout(30):
        assert (await first).update_id == "u1"
        strong = await other.list_updates("fork", consistency="strong")
        assert [each.update_id for each in strong] == ["u1"]
        await updated(store, "fork", "u2")
        assert (await anext(watching)).update_id == "u2"
    await watching.aclose()


async def test_a_fork_is_not_there_before_it_was_made(store: foldlog.Store) -> None:
    before = await updated(store, "session", "u1")
    await store.fork("session", to="fork")
    made = await store.position()
    await updated(store, "fork", "u2")
    assert await ids(store.at(before), "fork") == []
    assert await store.at(before).sessions() == ["session"]
    assert await ids(store.at(made), "fork") == ["u1"]
    assert await store.at(made).sessions() == ["fork", "session"]


# --- refusals -----------------------------------------------------------------------------------


async def test_a_fork_needs_a_new_session_and_something_to_share(store: foldlog.Store) -> None:
    beginning = await store.position()
    await updated(store, "session", "u1")
    await updated(store, "taken", "u1")
    before = await appended(store)
    with pytest.raises(foldlog.SessionExists):
        await store.fork("session", to="taken")
    with pytest.raises(foldlog.SessionExists):
        await store.fork("session", to="session")
    with pytest.raises(foldlog.UnknownMoment):
        await store.fork("nobody")
    with pytest.raises(foldlog.UnknownMoment):
        await store.fork("session", at=beginning)
    with pytest.raises(foldlog.UnknownMoment):
        await store.fork("session", at="no such event")
    for arguments in ({"session_id": ""}, {"session_id": "session", "to": ""}):
        with pytest.raises(foldlog.InvalidId):
            await store.fork(**arguments)
    assert await appended(store) == before


async def test_of_two_who_fork_into_the_same_session_one_does(reopen: OpenStore) -> None:
    stores = [await reopen(), await reopen()]
    await updated(stores[0], "session", "u1")
    made = await asyncio.gather(
        *(store.fork("session", to="fork") for store in stores), return_exceptions=True
    )
    assert sorted(map(str, map(type, made))) == sorted(map(str, [str, foldlog.SessionExists]))
    assert await ids(stores[0], "fork") == ["u1"]


class InterruptedLog(MemoryLog):
    """A log on which something happens before the next append with an expectation."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        if self.meanwhile is not None and any(a.expect is not None for a in appends):
            happens, self.meanwhile = self.meanwhile, None
            await happens()
        return await super().append(appends, atomic=atomic)


async def test_the_same_fork_is_made_once(store: foldlog.Store) -> None:
    then = await updated(store, "session", "u1")
    await store.fork("session", at=then, to="fork")
    for at in (then, await updated(store, "session", "u2")):
        with pytest.raises(foldlog.SessionExists):
            await store.fork("session", at=at, to="fork")
    assert await ids(store, "fork") == ["u1"]


async def test_a_session_that_had_nothing_but_scoped_keys_was_used(store: foldlog.Store) -> None:
    await filled(store, 1)
    await store.scoped.write(Scope.session("fork"), "small", 2)
    for _ in range(2):
        with pytest.raises(foldlog.SessionExists):
            await store.fork("session", to="fork")
        await store.scoped.erase(Scope.session("fork"))


async def test_a_session_that_is_cleared_meanwhile_is_not_forked() -> None:
    log = InterruptedLog()
    store, other = foldlog.memory_store(log=log), foldlog.memory_store(log=log)
    await updated(store, "session", "u1")
    log.meanwhile = lambda: other.clear_session("session")
    with pytest.raises(foldlog.PastErased):
        await store.fork("session", to="fork")
    assert await ids(store, "fork") == []
    await updated(store, "session", "u2")
    assert await ids(store, await store.fork("session")) == ["u2"]


class BrokenLog(MemoryLog):
    """A log that refuses an append after some others."""

    after: int | None = None
    error: BaseException = foldlog.LogUnavailable("cut off")

    async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        if self.after is not None:
            self.after -= 1
            if self.after < 0:
                self.after = None
                raise self.error
        return await super().append(appends, atomic=atomic)


@pytest.mark.parametrize("after", range(3))
async def test_a_fork_that_fails_leaves_nothing_that_outlives_its_origin(after: int) -> None:
    log = BrokenLog()
    store = foldlog.memory_store(log=log)
    await filled(store, 1)
    log.after = after
    with pytest.raises(foldlog.LogUnavailable):
        await store.fork("session", to="fork")
    assert await store.sessions() == ["session"]
    assert await held(store, "fork") == {}
    assert (await store.erase_session("session")).readable == ()
    assert await held(store, "fork") == {}


async def test_an_origin_names_the_fork_that_a_cancelled_call_has_left() -> None:
    log = BrokenLog()
    store = foldlog.memory_store(log=log)
    await filled(store, 1)
    log.after, log.error = 2, asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await store.fork("session", to="fork")
    assert await store.sessions() == ["session"]
    with pytest.raises(foldlog.SessionHasForks, match="fork"):
        await store.erase_session("session")
    assert (await store.erase_session("fork")).readable == ()
    assert (await store.erase_session("session")).readable == ()


async def test_a_session_that_is_forked_meanwhile_is_not_cleared() -> None:
    log = InterruptedLog()
    store, other = foldlog.memory_store(log=log), foldlog.memory_store(log=log)
    await updated(store, "session", "u1")
    log.meanwhile = lambda: other.fork("session", to="fork")
    with pytest.raises(foldlog.SessionHasForks) as refused:
        await store.clear_session("session")
    assert refused.value.forks == ["fork"]
    assert (await ids(store, "session"), await ids(store, "fork")) == (["u1"], ["u1"])


# --- what else is the session's -----------------------------------------------------------------


async def filled(store: foldlog.Store, value: object) -> None:
    await store.save_memory_state("acme:ann:session", {"value": value})
    await store.scoped.write(Scope.session("session"), "small", value)
    await store.scoped.write(Scope.session("session"), "large", str(value) * 300_000)
    await store.scoped.write(Scope.session("session"), f"only {value}", value)


async def held(store: foldlog.Store, session: str) -> dict[str, object]:
    scope = Scope.session(session)
    keys = await store.scoped.list(scope, consistency="strong")
    found = {key: await store.scoped.read(scope, key, consistency="strong") for key in keys}
    memory = await store.load_memory_state(f"acme:ann:{session}", consistency="strong")
    return found | ({} if memory is None else {"memory": memory["value"]})


def one(value: object) -> dict[str, object]:
    return {"small": value, "large": str(value) * 300_000, f"only {value}": value, "memory": value}


@pytest.mark.parametrize("shards", [1, 3])
async def test_a_fork_has_its_origins_scope_and_memory(reopen: OpenStore, shards: int) -> None:
    store = await reopen(shards=shards)
    await filled(store, 1)
    then = await store.position()
    await filled(store, 2)
    child = await store.fork("session", at=then)
    grandchild = await store.fork(child)
    for reader in (store, await reopen(shards=shards)):
        for fork in (child, grandchild):
            assert await held(reader, fork) == one(1)
        assert await held(reader, "session") == one(2) | {"only 1": 1}

    scope = Scope.session(child)
    version = await store.scoped.entry(scope, "small")
    assert version is not None
    await store.scoped.write(scope, "small", 3, expected=version.version)
    await store.scoped.write(scope, "new", 3)
    await store.scoped.delete(scope, "large")
    await store.save_memory_state(f"acme:ann:{child}", {"value": 3})
    for reader in (store, await reopen(shards=shards)):
        assert await held(reader, child) == {"small": 3, "only 1": 1, "new": 3, "memory": 3}
        assert await held(reader, grandchild) == one(1)
        assert await held(reader, "session") == one(2) | {"only 1": 1}
    assert (await store.rebuild()).differing == ()


async def test_clearing_a_fork_leaves_its_origins_scope_and_memory(store: foldlog.Store) -> None:
    await filled(store, 1)
    await store.save_planner_state("token", {"n": 1}, session_id="session")
    await store.fork("session", to="fork")
    await store.save_planner_state("own", {"n": 2}, session_id="fork")
    assert await held(store, "fork") == one(1)
    assert (await store.erase_session("fork")).readable == ()
    assert await held(store, "fork") == {}
    assert await held(store, "session") == one(1)
    assert await store.load_planner_state("own") is None
    assert await store.load_planner_state("token") == {"n": 1}
    assert (await store.erase_session("session")).readable == ()
    assert await held(store, "session") == {}


async def test_what_forks_share_is_not_deleted(store: foldlog.Store) -> None:
    await filled(store, 1)
    await store.fork("session", to="fork")
    with pytest.raises(foldlog.SessionHasForks):
        await store.erase(foldlog.kinds.memory("acme:ann:session"))
    with pytest.raises(foldlog.SessionHasForks):
        await store.scoped.erase(Scope.session("session"))
    with pytest.raises(foldlog.SessionHasForks):
        await store.scoped.erase(Scope.session("session"), "small")
    assert await held(store, "fork") == one(1)


# --- clearing -----------------------------------------------------------------------------------


async def test_an_origin_outlives_its_forks_and_not_the_other_way(store: foldlog.Store) -> None:
    await store.save_trajectory("shared", "session", trajectory())
    await store.save_event(event("shared", 1.0))
    await updated(store, "session", "u1")
    await store.fork("session", to="child")
    await store.save_trajectory("own", "child", trajectory())
    await store.save_event(event("own", 1.0))
    await store.fork("child", to="grandchild")
    for session, forks in (("session", ["child"]), ("child", ["grandchild"])):
        with pytest.raises(foldlog.SessionHasForks) as refused:
            await store.clear_session(session)
        assert refused.value.forks == forks
        with pytest.raises(foldlog.SessionHasForks):
            await store.erase_session(session)
    await store.clear_session("grandchild")
    assert await ids(store, "grandchild") == []
    assert len(await store.load_history("own")) == 1  # it was the child's
    await store.clear_session("child")
    assert await ids(store, "child") == []
    assert await store.load_history("own") == []
    assert len(await store.load_history("shared")) == 1
    assert await ids(store, "session") == ["u1"]
    assert await store.sessions() == ["session"]
    await store.clear_session("session")
    assert await store.sessions() == []
    assert await store.load_history("shared") == []
    assert (await store.rebuild()).differing == ()


async def test_a_cleared_fork_begins_anew_on_its_own(store: foldlog.Store) -> None:
    await updated(store, "session", "u1")
    await store.fork("session", to="fork")
    await store.clear_session("fork")
    await updated(store, "fork", "u2", "u1", "u2")  # u1 was cleared, and is saved anew
    assert await ids(store, "fork") == ["u2", "u1"]
    assert await ids(store, "session") == ["u1"]
    await store.clear_session("session")
    assert await ids(store, "fork") == ["u2", "u1"]


async def test_memory_that_a_fork_deletes_is_gone_there_alone(store: foldlog.Store) -> None:
    await updated(store, "session", "u1")
    await store.save_memory_state("acme:ann:session", {"n": 1})
    await store.fork("session", to="fork")
    assert await store.load_memory_state("acme:ann:fork") == {"n": 1}
    await store.erase(foldlog.kinds.memory("acme:ann:fork"))
    assert await store.load_memory_state("acme:ann:fork") is None
    assert await store.load_memory_state("acme:ann:session") == {"n": 1}


async def test_erasing_a_fork_counts_and_removes_its_own(store: foldlog.Store) -> None:
    await store.save_trajectory("shared", "session", trajectory())
    await store.save_event(event("shared", 1.0))
    ref = await store.artifact_store.put_text("text", scope=SCOPE)
    await updated(store, "session", "u1", "u2")
    await store.fork("session", to="fork")
    await updated(store, "fork", "u3")
    erased = await store.erase_session("fork")
    assert erased.readable == ()
    assert erased.removed == {"updates": 1}
    assert await store.artifact_store.get(ref.id) == b"text"
    assert len(await store.load_history("shared")) == 1


async def test_clearing_everything_clears_forks(store: foldlog.Store) -> None:
    await updated(store, "session", "u1")
    await store.fork("session", to="fork")
    await store.clear(store.log.namespace.name)
    assert await store.sessions() == []
    assert (await ids(store, "session"), await ids(store, "fork")) == ([], [])
    await updated(store, "session", "u1")
    await store.clear_session("session")  # nobody shares it any more


# --- artifacts ----------------------------------------------------------------------------------


async def test_bytes_stay_until_nobody_has_them(store: foldlog.Store) -> None:
    artifacts, fork = store.artifact_store, foldlog.ArtifactScope(session_id="fork")
    ref = await artifacts.put_text("text", scope=SCOPE)
    await store.fork("session", to="fork")
    assert await artifacts.delete(ref.id)
    assert await artifacts.list(scope=SCOPE) == []
    assert await artifacts.get_with_session_check(ref.id, "session") is None
    assert await artifacts.get_with_session_check(ref.id, "fork") == b"text"
    assert await artifacts.get(ref.id) == b"text"  # the fork has it
    assert await artifacts.delete(ref.id)
    assert await artifacts.list(scope=fork) == []
    assert not await artifacts.exists(ref.id)
    assert not await artifacts.delete(ref.id)


async def test_clearing_a_fork_leaves_its_origins_artifacts(store: foldlog.Store) -> None:
    ref = await store.artifact_store.put_text("text", scope=SCOPE)
    await store.fork("session", to="fork")
    fork = foldlog.ArtifactScope(session_id="fork")
    own = await store.artifact_store.put_text("text", scope=fork)
    assert own.id != ref.id
    await store.clear_session("fork")
    assert await store.artifact_store.get(ref.id) == b"text"
    assert await store.artifact_store.get_with_session_check(ref.id, "session") == b"text"
    assert not await store.artifact_store.exists(own.id)


async def test_a_budget_that_a_fork_overruns_evicts_in_the_fork_only(reopen: OpenStore) -> None:
    store = await reopen(retention=foldlog.ArtifactRetentionConfig(max_artifacts_per_session=2))
    shared = [await store.artifact_store.put_text(f"text {n}", scope=SCOPE) for n in range(2)]
    await store.fork("session", to="fork")
    fork = foldlog.ArtifactScope(session_id="fork")
    new = await store.artifact_store.put_text("new", scope=fork)
    listed = await store.artifact_store.list(scope=fork)
    assert {ref.id for ref in listed} == {shared[1].id, new.id}
    assert [await store.artifact_store.get(ref.id) for ref in shared] == [b"text 0", b"text 1"]


async def test_a_fork_of_before_a_deletion_says_that_the_bytes_are_gone(
    store: foldlog.Store,
) -> None:
    ref = await store.artifact_store.put_text("text", scope=SCOPE)
    then = await store.position()
    await store.artifact_store.delete(ref.id)
    await store.fork("session", at=then, to="fork")
    with pytest.raises(foldlog.PastErased):
        await store.artifact_store.get_with_session_check(ref.id, "fork")


# --- shards -------------------------------------------------------------------------------------


async def test_with_several_shards_a_fork_is_on_its_origins(embedded_path: Path) -> None:
    for store in (
        foldlog.memory_store(shards=4),
        await EmbeddedBackend(embedded_path).open(shards=4),
    ):
        async with store:
            for number in range(8):
                session = f"session-{number}"
                await store.save_event(event(f"session:{session}", 1.0))
                await updated(store, session, "u1")
                fork = await store.fork(session)
                assert await ids(store, fork) == ["u1"]
                assert len(await store.load_history(f"session:{fork}")) == 2
            shards = {
                store._core.log.namespace.subject("updates", f"x-{n}").shard: f"x-{n}"
                for n in range(40)
            }
            home = store._core.log.namespace.subject("updates", "session-0").shard
            [elsewhere, *_] = [name for shard, name in shards.items() if shard != home]
            with pytest.raises(foldlog.Misuse) as refused:
                await store.fork("session-0", to=elsewhere)
            suggested = str(refused.value).split("'")[3]
            assert await store.fork("session-0", to=suggested) == suggested
            assert (await store.rebuild()).differing == ()


async def test_a_cleared_fork_of_what_was_cleared_before_is_as_a_rebuild_finds_it(
    store: foldlog.Store,
) -> None:
    """What it shares begins with its origin's tombstone; its own clearing is another one."""
    await store.save_update(update("a", "origin"))
    await store.clear_session("origin")
    await store.save_task(task("t", "origin"))
    await store.fork("origin", to="fork")
    assert await store.list_updates("fork") == []
    await store.clear_session("fork")
    await store.list_updates("fork")
    assert (await store.rebuild()).differing == ()
