"""The ArtifactBackend, on every backend."""

from __future__ import annotations

import asyncio
import datetime as dt
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

import foldlog
from foldlog.integrations.rh_agents import ArtifactBackend, StateBackend
from tests.conftest import OpenStore
from tests.contract.test_artifact_bytes import blob_names, blobs_of
from tests.integrations.rh_agents.build import snapshot
from tests.support.exact import same


class Chart(BaseModel):
    """What only pickle can hold."""

    title: str


def explode() -> None:
    raise AssertionError("a pickle was read")


class Bomb:
    """A pickle that does something when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return explode, ()


async def stored_bytes(store: foldlog.Store) -> int:
    """How many bytes of contents there are, counted where they are kept."""
    size = 0
    for held in await blob_names(store):
        size += len(await blobs_of(store).get(held.subject, held.name) or b"")
    return size


# --- saving and loading -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "artifact",
    [
        b"\x00\xff",
        "text with é",
        "",
        {"rows": [1, 2.5, None], "at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "t": (1, {2})},
        [Decimal("1.10")],
        None,
        7,
    ],
    ids=repr,
)
async def test_an_artifact_comes_back_exactly(
    store: foldlog.Store, reopen: OpenStore, artifact: Any
) -> None:
    assert await StateBackend(store).artifacts.save_artifact("a", artifact) is True
    for reader in (store, await reopen()):
        assert same(await StateBackend(reader).artifacts.load_artifact("a"), artifact)
        assert await StateBackend(reader).artifacts.exists("a")


async def test_there_is_nothing_where_nothing_was_saved(store: foldlog.Store) -> None:
    artifacts = StateBackend(store).artifacts
    assert await artifacts.load_artifact("unknown") is None
    assert await artifacts.exists("unknown") is False
    assert await artifacts.delete_artifact("unknown") is False
    with pytest.raises(foldlog.InvalidId):
        await artifacts.load_artifact("")
    with pytest.raises(foldlog.InvalidId):
        await artifacts.save_artifact("", b"x")


async def test_a_large_artifact_is_whole(store: foldlog.Store, reopen: OpenStore) -> None:
    large = bytes(range(256)) * 20_000
    await StateBackend(store).artifacts.save_artifact("large", large)
    assert await StateBackend(await reopen()).artifacts.load_artifact("large") == large


async def test_ids_follow_from_the_content(store: foldlog.Store) -> None:
    artifacts = StateBackend(store).artifacts
    assert await artifacts.add_artifact("abc") == await artifacts.add_artifact("abc")
    added = [await artifacts.add_artifact(each) for each in ("abc", b"abc", ["abc"])]
    assert len(set(added)) == 3
    assert [await artifacts.load_artifact(each) for each in added] == ["abc", b"abc", ["abc"]]


async def test_saving_the_same_again_appends_nothing(store: foldlog.Store) -> None:
    await StateBackend(store).artifacts.save_artifact("a", b"x")
    before = (await store.health()).streams[0].last_seq
    await StateBackend(store).artifacts.save_artifact("a", b"x")
    assert (await store.health()).streams[0].last_seq == before


async def test_another_content_takes_the_place_of_the_one_before(store: foldlog.Store) -> None:
    artifacts = StateBackend(store).artifacts
    for content in (b"one", b"two", "two", b"one"):
        await artifacts.save_artifact("a", content)
        assert await artifacts.load_artifact("a") == content


async def test_what_was_deleted_is_gone_with_its_bytes(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    artifacts = StateBackend(store).artifacts
    await artifacts.save_artifact("a", b"shared")
    await artifacts.save_artifact("b", b"shared")
    assert await artifacts.delete_artifact("a") is True
    assert await artifacts.delete_artifact("a") is False
    for reader in (store, await reopen()):
        assert await StateBackend(reader).artifacts.exists("a") is False
        assert await StateBackend(reader).artifacts.load_artifact("b") == b"shared"
    assert await artifacts.delete_artifact("b") is True
    assert await stored_bytes(store) == 0
    await artifacts.save_artifact("a", b"shared")
    assert await artifacts.load_artifact("a") == b"shared"


async def test_savers_and_deleters_at_once_leave_it_whole_or_gone(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    for _ in range(5):
        await asyncio.gather(
            StateBackend(store).artifacts.save_artifact("a", b"content"),
            StateBackend(other).artifacts.delete_artifact("a"),
            StateBackend(other).artifacts.save_artifact("b", b"content"),
            StateBackend(store).artifacts.delete_artifact("b"),
        )
        for artifact_id in ("a", "b"):
            found = await StateBackend(store).artifacts.load_artifact(artifact_id)
            assert found == (
                b"content" if await StateBackend(store).artifacts.exists(artifact_id) else None
            )


# --- codecs -------------------------------------------------------------------------------------


async def test_a_codec_is_chosen_by_name(store: foldlog.Store) -> None:
    as_json = StateBackend(store).artifacts.with_codec("json")
    await as_json.save_artifact("a", {"rows": [1, 2]})
    assert await StateBackend(store).artifacts.load_artifact("a") == {"rows": [1, 2]}
    with pytest.raises(foldlog.PayloadError):
        await as_json.save_artifact("b", {"t": (1,)})
    with pytest.raises(foldlog.PayloadError):
        await StateBackend(store).artifacts.with_codec("text").save_artifact("b", b"x")
    with pytest.raises(foldlog.PayloadError):
        await StateBackend(store).artifacts.with_codec("bytes").save_artifact("b", "x")
    with pytest.raises(foldlog.ConfigurationError):
        StateBackend(store).artifacts.with_codec("yaml")


async def test_objects_are_refused_unless_pickle_is_named(store: foldlog.Store) -> None:
    artifacts = StateBackend(store).artifacts
    with pytest.raises(foldlog.PayloadError):
        await artifacts.save_artifact("chart", Chart(title="t"))
    with pytest.raises(foldlog.PayloadError):
        await artifacts.with_codec("pickle").save_artifact("chart", lambda: None)
    await artifacts.with_codec("pickle").save_artifact("chart", Chart(title="t"))
    assert await artifacts.with_codec("pickle").load_artifact("chart") == Chart(title="t")


async def test_a_pickle_is_never_read_unasked(store: foldlog.Store) -> None:
    await StateBackend(store).artifacts.with_codec("pickle").save_artifact("bomb", Bomb())
    for artifacts in (
        StateBackend(store).artifacts,
        StateBackend(store).artifacts.with_codec("json"),
    ):
        with pytest.raises(foldlog.ConfigurationError, match="pickle"):
            await artifacts.load_artifact("bomb")


async def test_bytes_that_look_like_a_pickle_are_bytes(store: foldlog.Store) -> None:
    data = pickle.dumps({"a": 1})
    await StateBackend(store).artifacts.save_artifact("a", data)
    assert await StateBackend(store).artifacts.with_codec("pickle").load_artifact("a") == data


async def test_damaged_bytes_are_corrupt_and_not_data(store: foldlog.Store) -> None:
    await StateBackend(store).artifacts.save_artifact("a", b"whole")
    [held] = await blob_names(store)
    await blobs_of(store).delete(held.subject, held.name)
    with pytest.raises(foldlog.LogCorrupt, match="missing"):
        await StateBackend(store).artifacts.load_artifact("a")


# --- garbage ------------------------------------------------------------------------------------


async def referring(store: foldlog.Store, state_id: str, *artifact_ids: str) -> None:
    refs = {f"key {n}": artifact_id for n, artifact_id in enumerate(artifact_ids)}
    await StateBackend(store).save_state(snapshot(state_id, artifact_refs=refs))


async def existing(artifacts: ArtifactBackend, *artifact_ids: str) -> list[str]:
    return [each for each in artifact_ids if await artifacts.exists(each)]


async def test_what_no_snapshot_refers_to_is_collected_and_named(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    artifacts = StateBackend(store).artifacts
    for artifact_id, content in [("a", b"1" * 10), ("b", b"2" * 20), ("c", b"3" * 30)]:
        await artifacts.save_artifact(artifact_id, content)
    await referring(store, "s", "a", "b")
    collector = StateBackend(await reopen()).artifacts
    collected = await collector.collect_garbage(older_than=0)
    assert (collected.artifact_ids, collected.bytes) == (("c",), 30)
    assert await existing(artifacts, "a", "b", "c") == ["a", "b"]
    assert await stored_bytes(store) == 30

    await referring(store, "s", "b")
    assert (await collector.collect_garbage(older_than=0)).artifact_ids == ("a",)
    await StateBackend(store).delete_state("s")
    assert (await collector.collect_garbage(older_than=0)).artifact_ids == ("b",)
    assert await collector.collect_garbage(older_than=0) == ((), 0)
    assert await stored_bytes(store) == 0


async def test_a_content_that_another_artifact_needs_stays(store: foldlog.Store) -> None:
    artifacts = StateBackend(store).artifacts
    await artifacts.save_artifact("kept", b"shared")
    await artifacts.save_artifact("garbage", b"shared")
    await referring(store, "s", "kept")
    assert await artifacts.collect_garbage(older_than=0) == (("garbage",), len(b"shared"))
    assert await artifacts.load_artifact("kept") == b"shared"


async def test_what_gave_way_to_another_content_is_gone(store: foldlog.Store) -> None:
    artifacts = StateBackend(store).artifacts
    await artifacts.save_artifact("a", b"old" * 10)
    await artifacts.save_artifact("a", b"new")
    assert await stored_bytes(store) == len(b"new")
    assert await artifacts.load_artifact("a") == b"new"


async def test_a_young_artifact_waits_for_its_checkpoint(
    store: foldlog.Store, advance_clock: Callable[[float], None]
) -> None:
    artifacts = StateBackend(store).artifacts
    await artifacts.save_artifact("a", b"x")
    assert await artifacts.collect_garbage() == ((), 0)
    advance_clock(3590)
    assert await artifacts.collect_garbage() == ((), 0)
    advance_clock(20)
    assert await artifacts.collect_garbage() == (("a",), 1)


async def test_an_artifact_that_is_saved_again_is_as_young_as_that(
    store: foldlog.Store, advance_clock: Callable[[float], None]
) -> None:
    """The log's own clock says how old a save is; here both stand still but for the shift."""
    artifacts = StateBackend(store).artifacts
    await artifacts.save_artifact("a", b"x")
    advance_clock(700)
    before = (await store.health()).streams[0].last_seq
    await artifacts.save_artifact("a", b"x")
    assert (await store.health()).streams[0].last_seq == before + 1


async def test_clearing_the_namespace_removes_states_artifacts_and_bytes(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    await StateBackend(store).artifacts.save_artifact("a", b"x" * 1000)
    await referring(store, "s", "a")
    async with StateBackend(store).execution("run"):
        pass
    await store.clear(store.log.namespace.name)
    for reader in (store, await reopen()):
        assert await StateBackend(reader).list_states() == []
        assert await StateBackend(reader).load_state("run") is None
        assert await StateBackend(reader).artifacts.load_artifact("a") is None
    assert await stored_bytes(store) == 0
    await StateBackend(store).artifacts.save_artifact("a", b"x" * 1000)
    assert await StateBackend(store).artifacts.load_artifact("a") == b"x" * 1000


async def test_a_rebuild_finds_what_was_served(store: foldlog.Store) -> None:
    await StateBackend(store).artifacts.save_artifact("a", b"x")
    await referring(store, "s", "a")
    await StateBackend(store).save_state(snapshot("nan", storage={"n": float("nan")}))
    async with StateBackend(store).execution("run") as run:
        await run.step("a", run.save_checkpoint)
    report = await store.rebuild()
    assert report.differing == ()
    assert {"states", "statelist", "stateartifacts"} <= set(report.projections)
    assert await StateBackend(store).artifacts.load_artifact("a") == b"x"
