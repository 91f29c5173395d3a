"""What a user forgets or mistakes in the first hour is named by the error."""

from __future__ import annotations

import pytest

import foldlog
from foldlog import LogPosition, Misuse, UnknownMoment


def test_a_store_that_was_not_awaited_says_how_to_open_it() -> None:
    opening = foldlog.connect()
    with pytest.raises(AttributeError, match=r"await foldlog\.connect.*blocking.*list_messages"):
        opening.list_messages  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(Misuse, match=r"async with.*foldlog\.blocking\.connect"), opening:  # type: ignore[attr-defined]
        pass


async def test_a_session_that_was_not_awaited_says_how_to_open_it() -> None:
    async with foldlog.memory_store() as store:
        with pytest.raises(AttributeError, match=r"await store\.session"):
            store.session("trip").list_tasks  # type: ignore[attr-defined]  # noqa: B018


async def test_a_namespace_is_emptied_by_its_name() -> None:
    async with foldlog.memory_store() as store:
        await store.save_memory_state("acme:ann:trip", {"n": 1})
        with pytest.raises(Misuse, match="'default'"):
            await store.clear("other")
        assert await store.load_memory_state("acme:ann:trip") == {"n": 1}
        await store.clear("default")
        assert await store.load_memory_state("acme:ann:trip") is None


def test_a_position_is_read_from_a_text_by_parse() -> None:
    with pytest.raises(UnknownMoment, match=r"LogPosition\.parse"):
        LogPosition("20~62a9")  # type: ignore[arg-type]
