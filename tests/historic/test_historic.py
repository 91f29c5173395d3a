"""Logs as earlier versions wrote them, read by this one; and payloads brought up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import foldlog
from foldlog.envelope import draft, unpack
from foldlog.log.embedded import EmbeddedServer
from foldlog.log.jetstream import JetStreamLog
from foldlog.log.port import Append
from foldlog.upcasting import UPCASTERS
from foldlog_projections.updates import kind as updates
from tests.historic.stored import HERE, answers, expected, holding, loaded, logs, messages
from tests.support.stores import fresh_namespace

CHAIN = HERE / "chains" / "tool-priced.jsonl"
TYPE = "tool.priced"


class Prices:
    """Cents by tool and currency: what version 3 of `tool.priced` tells."""

    name = "prices"

    def initial(self) -> dict[str, int]:
        return {}

    def apply(self, state: dict[str, int], envelope: Any, /) -> dict[str, int]:
        assert envelope.v == 3
        paid = msgspec.msgpack.decode(envelope.payload)
        key = f"{paid['tool']} {paid['cost']['currency']}"
        state[key] = state.get(key, 0) + paid["cost"]["amount"]
        return state


class Count:
    """How many there are, whatever they say."""

    name = "count"

    def initial(self) -> int:
        return 0

    def apply(self, state: int, envelope: Any, /) -> int:
        return state + 1


def kind_of(fold: Any) -> foldlog.Kind[Any]:
    made = foldlog.Fold(fold.initial, fold.apply, takes="envelope")
    return foldlog.Kind(fold.name, of=foldlog.kinds.planner, fold=made)


def in_cents(payload: Any) -> Any:
    return {"tool": payload["tool"], "cents": round(payload["dollars"] * 100)}


def with_currency(payload: Any) -> Any:
    return {"tool": payload["tool"], "cost": {"amount": payload["cents"], "currency": "USD"}}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> foldlog.Upcasters:
    """The program's upcasters, as they were again afterwards."""
    monkeypatch.setattr(UPCASTERS, "_steps", dict(UPCASTERS._steps))
    monkeypatch.setattr(UPCASTERS, "newest", dict(UPCASTERS.newest))
    return UPCASTERS


# --- stored logs --------------------------------------------------------------------------------


def test_there_is_a_stored_log_of_the_first_format() -> None:
    assert "format-1" in {path.stem for path in logs()}


@pytest.mark.parametrize("path", logs(), ids=lambda path: path.stem)
async def test_a_stored_log_reads_as_it_did(path: Path) -> None:
    async with foldlog.memory_store(log=loaded(path)) as store:
        assert await answers(store) == expected(path)
        assert (await store.verify()).is_good
        assert (await store.rebuild()).differing == ()
        assert await answers(store) == expected(path)


@pytest.mark.parametrize("path", logs(), ids=lambda path: path.stem)
async def test_a_stored_log_reads_as_it_did_from_a_server(path: Path, embedded_path: Path) -> None:
    """The same bytes under the same subjects of a namespace, as a server holds them."""
    name = fresh_namespace()
    server = await EmbeddedServer.join(embedded_path)
    options = {"user": server.user, "password": server.password}
    log = await JetStreamLog.open(server.url, name, options=options)
    for each in messages(path):
        subject = each.subject.replace("foldlog.default.", f"foldlog.{name}.", 1)
        await log.connection.request(subject, each.data, timeout=5)
    await log.close()
    await server.leave()
    async with foldlog.connect(path=embedded_path, namespace=name) as store:
        assert await answers(store) == expected(path)
        assert (await store.verify()).is_good


# --- upcasters ----------------------------------------------------------------------------------


async def test_a_chain_brings_every_version_to_the_newest(registry: foldlog.Upcasters) -> None:
    registry.register(TYPE, 1)(in_cents)
    registry.register(TYPE, 2)(with_currency)
    async with foldlog.memory_store(
        log=loaded(CHAIN), kinds=[prices_of := kind_of(Prices())]
    ) as store:
        prices = await store.view(prices_of("agent"))
        assert prices == {"search USD": 55, "fetch USD": 150, "search EUR": 12}
        assert (await store.rebuild("prices")).differing == ()
        assert await store.view(prices_of("agent")) == prices


@pytest.mark.parametrize(
    ("given", "version", "sequence"),
    [
        pytest.param([], 2, 2, id="none"),
        pytest.param([1], 3, 3, id="newer than the program"),
        pytest.param([2], 1, 1, id="a gap"),
    ],
)
async def test_a_missing_step_is_an_error_that_says_what_and_where(
    given: list[int], version: int, sequence: int, registry: foldlog.Upcasters
) -> None:
    steps = {1: in_cents, 2: with_currency}
    for each in given:
        registry.register(TYPE, each)(steps[each])
    async with foldlog.memory_store(log=loaded(CHAIN), kinds=[count := kind_of(Count())]) as store:
        with pytest.raises(foldlog.MissingUpcaster) as error:
            await store.view(count("agent"))
        found = error.value
        assert (found.type, found.version, found.sequence, found.index) == (
            (TYPE, version, sequence, 0)
        )
        assert isinstance(found, foldlog.LogCorrupt)
        for word in (TYPE, f"version {version}", f"sequence {sequence}"):
            assert word in str(found)
        assert sequence in {each.sequence for each in (await store.verify("count")).findings}
        with pytest.raises(foldlog.MissingUpcaster):
            await store.rebuild("count")


async def test_what_an_upcaster_raises_is_told_with_its_position(
    registry: foldlog.Upcasters,
) -> None:
    @registry.register(TYPE, 1)
    def broken(payload: Any) -> Any:
        return payload["nothing"]

    registry.register(TYPE, 2)(with_currency)
    async with foldlog.memory_store(
        log=loaded(CHAIN), kinds=[prices_of := kind_of(Prices())]
    ) as store:
        with pytest.raises(
            foldlog.LogCorrupt, match=r"upcaster from tool.priced version 1"
        ) as error:
            await store.view(prices_of("agent"))
        assert error.value.sequence == 1


def test_a_step_is_registered_once(registry: foldlog.Upcasters) -> None:
    registry.register(TYPE, 1)(in_cents)
    with pytest.raises(foldlog.Misuse, match="two upcasters"):
        registry.register(TYPE, 1)(in_cents)
    for wrong in (0, True, "1"):
        with pytest.raises(foldlog.ConfigurationError, match="1 or more"):
            registry.register(TYPE, wrong)  # type: ignore[arg-type]  # that is the point


def test_what_is_of_the_newest_version_is_not_touched(registry: foldlog.Upcasters) -> None:
    registry.register(TYPE, 1)(in_cents)
    [stored] = messages(CHAIN)[1:2]
    [envelope] = unpack(stored.data, stored.seq, stored.time)
    assert registry.bring_up(envelope) is envelope


async def test_absent_pages_are_brought_up_to_date_as_well(registry: foldlog.Upcasters) -> None:
    """What a snapshot leaves in the log is read from there, and not by a fold."""
    log = holding([])
    subject = log.namespace.subject("updates", "s")
    payload = {
        "session_id": "s",
        "task_id": "t",
        "update_type": "PROGRESS",
        "created_at": "2026-01-01T00:00:00+00:00",
    }
    for n in range(1500):
        body = msgspec.msgpack.encode({**payload, "update_id": f"{n}", "text": f"step {n}"})
        await log.append([Append(subject, (draft("update.saved", body, id=f"{n}"),))])

    @registry.register("update.saved", 1)
    def text_is_content(payload: Any) -> Any:
        return {**payload, "content": {"text": payload.pop("text")}}

    async with foldlog.memory_store(log=log) as store:
        assert len(await store.list_updates("s", limit=1)) == 1
        await store.rebuild("updates")
        [latest] = await store.list_updates("s", limit=1)
        assert latest.content == {"text": "step 1499"}
        view = store._core.hot_views.peek(updates, subject)
        assert view is not None
        assert view.folded.state.absent > 5
        everything = await store.list_updates("s", limit=2000)
    assert [each.content for each in everything] == [{"text": f"step {n}"} for n in range(1500)]


async def test_a_snapshot_of_before_an_upcaster_is_not_used(registry: foldlog.Upcasters) -> None:
    before = registry.fingerprint
    registry.register(TYPE, 1)(in_cents)
    one = registry.fingerprint
    registry.register(TYPE, 2)(with_currency)
    assert len({before, one, registry.fingerprint}) == 3
