"""A session on every backend that is tested, and another actor on the same one."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import foldlog
from foldlog.sessions import Session
from tests.conftest import OpenStore
from tests.support.in_memory_first import backend as backend

OpenSession = Callable[..., Awaitable[Session]]


@pytest.fixture
async def open_session(reopen: OpenStore) -> AsyncIterator[OpenSession]:
    """Opens session `s` by a store of its own, as another process would."""
    async with contextlib.AsyncExitStack() as stack:

        async def open_one(session_id: str = "s", **options: Any) -> Session:
            store: foldlog.Store = await reopen()
            opened = await store.session(session_id, **options)
            return await stack.enter_async_context(opened)

        yield open_one


@pytest.fixture
async def session(open_session: OpenSession) -> Session:
    """Session `s`, empty."""
    return await open_session()
