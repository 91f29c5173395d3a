"""Erasing on disk: no file of the data directory holds what was erased."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import foldlog
from tests.support.build import update

SECRET = "4929 1234 5678 9012 belongs to nobody"


def files_with(directory: Path, text: str = SECRET) -> list[str]:
    """The files below a directory that hold a text."""
    return [
        str(path.relative_to(directory))
        for path in sorted(directory.rglob("*"))
        if path.is_file() and text.encode() in path.read_bytes()
    ]


async def fill(store: foldlog.Store, session: str, content: object, ids: range) -> None:
    await asyncio.gather(
        *(store.save_update(update(f"u{n}", session, content=content)) for n in ids)
    )


@pytest.mark.parametrize("steps", ["erase", "erase again", "clear, then erase"])
async def test_no_file_holds_what_was_erased(tmp_path: Path, steps: str) -> None:
    async with foldlog.connect(path=tmp_path) as store:
        await fill(store, "other", "kept", range(50))
        for n in range(0, 300, 3):
            await fill(store, "session", {"n": n, "card": SECRET}, range(n, n + 3))
        await fill(store, "other", "kept", range(50, 100))
        assert files_with(tmp_path)
        if steps == "clear, then erase":
            await store.clear_session("session")
        erased = await store.erase_session("session")
        if steps == "erase again":
            erased = await store.erase_session("session")
        assert (erased.readable, files_with(tmp_path)) == ((), [])
        assert len(await store.list_updates("other", consistency="strong")) == 100
    assert files_with(tmp_path) == []
    async with foldlog.connect(path=tmp_path) as store:
        assert await store.list_updates("session") == []
        assert len(await store.list_updates("other")) == 100
