"""A conflict that deciding again cannot mend is raised at once; another one is worth a retry."""

from __future__ import annotations

import pytest

import foldlog
from foldlog import AppendConflict, Message
from tests.conftest import OpenStore
from tests.support.build import update


async def test_a_stale_version_is_not_tried_again(store: foldlog.Store) -> None:
    runs = 0

    async def add() -> None:
        nonlocal runs
        runs += 1
        await store.append_messages("session", [Message("2", "plain", "hi")], expected=7)

    await store.append_messages("session", [Message("1", "plain", "hi")])
    with pytest.raises(AppendConflict) as raised:
        await store.transact(add, timeout=0.2)
    assert (runs, raised.value.expected, raised.value.actual) == (1, 7, 1)
    assert [each.id for each in await store.list_messages("session")] == ["1"]


async def test_a_final_conflict_and_one_that_passes_have_different_types(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()

    async def overtaken() -> None:
        async with store.atomic():
            await store.decide(
                foldlog.kinds.messages("session"), lambda found: [Message("1", "plain", "mine")]
            )
            await other.append_messages("session", [Message("2", "plain", "theirs")])

    with pytest.raises(AppendConflict) as passing:
        await overtaken()
    with pytest.raises(AppendConflict) as final:
        await store.append_messages("session", [Message("3", "plain", "mine")], expected=7)
    assert type(final.value) is not type(passing.value)


async def test_a_conflict_that_passes_is_tried_again(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    other = await reopen()
    runs = 0

    async def add() -> None:
        nonlocal runs
        runs += 1
        await store.decide(
            foldlog.kinds.messages("session"), lambda found: [Message("1", "plain", "mine")]
        )
        await store.save_update(update("u"))
        if runs == 1:
            await other.append_messages("session", [Message("2", "plain", "theirs")])

    await store.transact(add)
    assert runs == 2
    found = await other.list_messages("session", consistency="strong")
    assert [each.id for each in found] == ["2", "1"]
