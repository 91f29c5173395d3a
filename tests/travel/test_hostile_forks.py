"""Records that say what no fork says: whoever may write to the log can append them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

import foldlog
from foldlog.envelope import FORKED, draft
from foldlog.log import forks
from foldlog.log.forks import Forked
from foldlog.log.port import Append
from foldlog.store import forks as forking
from foldlog.store.payloads import dump
from tests.conftest import OpenStore
from tests.support.build import task, update

LAST = 2**40
encode = msgspec.msgpack.encode


def says(*keys: str, seq: int = LAST) -> bytes:
    """The payload of a record by which a subject begins with those keys' records."""
    return dump(Forked(keys, seq))


async def append(store: foldlog.Store, session_id: str, payload: bytes) -> None:
    for kind in ("updates", "tasks"):
        subject = store.log.namespace.subject(kind, session_id)
        made = draft(FORKED, payload, id=f"hostile {session_id}")
        await store.log.append([Append(subject, (made,))])


async def circle(store: foldlog.Store, reach: Sequence[int]) -> None:
    for session_id, other, seq in (("bad", "worse", reach[0]), ("worse", "bad", reach[1])):
        await append(store, session_id, says(other, seq=seq))


async def chain(store: foldlog.Store) -> None:
    """A chain with one fork more than is read."""
    await append(store, "link-0", says("nobody", seq=0))
    for n in range(1, forks.DEEPEST + 1):
        seq = (await store.position()).shards[0].seq
        await append(
            store, "bad" if n == forks.DEEPEST else f"link-{n}", says(f"link-{n - 1}", seq=seq)
        )


Hostile = Callable[[foldlog.Store], Awaitable[None]]

HOSTILE: dict[str, Hostile] = {
    "itself": lambda store: append(store, "bad", says("bad")),
    "a circle": lambda store: circle(store, (LAST, LAST)),
    "no keys": lambda store: append(store, "bad", says(seq=0)),
    "an empty key": lambda store: append(store, "bad", says("", seq=0)),
    "a key that is too long": lambda store: append(store, "bad", says("x" * 20_000, seq=0)),
    "no sequence": lambda store: append(store, "bad", msgspec.msgpack.encode({"keys": ["a"]})),
    "another type": lambda store: append(
        store, "bad", msgspec.msgpack.encode({"keys": 1, "seq": 1})
    ),
    "no MessagePack": lambda store: append(store, "bad", b"\xc1"),
    "a chain": chain,
}


@pytest.fixture(params=HOSTILE)
async def hostile(
    request: pytest.FixtureRequest, store: foldlog.Store, monkeypatch: pytest.MonkeyPatch
) -> foldlog.Store:
    """A store with a good session, and one that begins with a hostile record."""
    monkeypatch.setattr(forks, "DEEPEST", 8)
    await HOSTILE[request.param](store)
    await store.save_update(update("u", "good"))
    return store


READS: dict[str, Callable[[foldlog.Store], Awaitable[Any]]] = {
    "updates": lambda store: store.list_updates("bad", consistency="strong"),
    "tasks": lambda store: store.list_tasks("bad"),
    "items": lambda store: store.items(foldlog.kinds.updates("bad")),
    "decide": lambda store: store.decide(foldlog.kinds.updates("bad"), lambda _: None),
}


async def test_reads_say_where_and_what_and_all_else_goes_on(
    hostile: foldlog.Store, reopen: OpenStore
) -> None:
    for store in (hostile, await reopen()):
        for read in READS.values():
            with pytest.raises(foldlog.LogCorrupt) as raised:
                await read(store)
            assert raised.value.sequence
            assert raised.value.reason.startswith(("no fork: ", "a fork of forks"))
        assert {"bad", "good"} <= {*await store.sessions()}
        assert "u" in [each.update_id for each in await store.list_updates("good")]
        await store.save_update(update("v", "good"))
        assert not (await store.verify()).is_good
        with pytest.raises(foldlog.LogCorrupt):
            await store.rebuild()
        await store.health()
        async for _ in store.records():
            pass
        with pytest.raises(foldlog.LogCorrupt):
            await store.fork("bad")


@pytest.mark.parametrize("erases", [False, True])
async def test_such_a_session_is_cleared_and_erased(
    hostile: foldlog.Store, reopen: OpenStore, erases: bool
) -> None:
    store = await reopen()
    for session_id in [each for each in await store.sessions() if each != "good"]:
        if erases:
            assert (await store.erase_session(session_id)).readable == ()
        else:
            await store.clear_session(session_id)
    assert await store.sessions() == ["good"]
    for each in (store, hostile):
        assert await each.list_updates("bad", consistency="strong") == []
        assert await each.list_tasks("bad") == []
    await store.save_task(task("t", "bad"))
    assert len(await hostile.list_tasks("bad", consistency="strong")) == 1


async def test_a_circle_that_ends_before_it_begins_is_no_circle(store: foldlog.Store) -> None:
    await store.save_update(update("u", "other"))
    await append(store, "bad", says("worse", seq=1))
    await append(store, "worse", says("bad", seq=1))
    assert await store.list_updates("bad") == await store.list_updates("worse") == []


async def test_a_fork_of_forks_is_as_deep_as_can_be_read(
    store: foldlog.Store, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (forks, forking):
        monkeypatch.setattr(module, "DEEPEST", 3)
    await store.save_update(update("u", "trip"))
    made = ["trip"]
    while len(made) < 4:
        made.append(await store.fork(made[-1]))
    with pytest.raises(foldlog.Misuse, match="3 deep"):
        await store.fork(made[-1])
    cold = await reopen()
    for each in made:
        assert len(await cold.list_updates(each)) == 1


async def test_a_thousand_forks_of_forks_are_read() -> None:
    async with foldlog.memory_store() as store:
        await store.save_update(update("u", "link-0"))
        await append(store, "link-1", says("link-0", seq=1))
        for n in range(2, forks.DEEPEST + 1):
            seq = (await store.position()).shards[0].seq
            await append(store, f"link-{n}", says(f"link-{n - 1}", seq=seq))
        assert len(await store.list_updates(f"link-{forks.DEEPEST}")) == 1
        assert await store.log.info()  # all of it is stored
