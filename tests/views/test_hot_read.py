"""What one read from memory runs."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from tests.conftest import OpenStore

MOST = 15


async def test_a_read_from_memory_runs_few_functions(reopen: OpenStore) -> None:
    store = await reopen()
    await store.list_tasks("trip")
    called: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            called.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        await store.list_tasks("trip", consistency="session")
    finally:
        sys.setprofile(before)
    if len(called) > MOST:
        pytest.fail(f"{len(called)} functions: {', '.join(called)}")
