"""Streams on a port of this machine, over any backend."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec
from typing import Any

import pytest

import foldlog
from tests.support.serving import serving_http

if not all(find_spec(name) for name in ("starlette", "uvicorn", "httpx")):
    collect_ignore_glob = ["test_*.py"]  # the environments of the frameworks do without them

Serving = Callable[..., AbstractAsyncContextManager[str]]


@pytest.fixture
def serving() -> Serving:
    """Serves the streams of a store, with a real server; gives its address."""
    return served


@asynccontextmanager
async def served(store: foldlog.Store, **options: Any) -> AsyncIterator[str]:
    """See `serving`."""
    from foldlog import streams

    async with serving_http(streams.application(store, **options)) as url:
        yield url
