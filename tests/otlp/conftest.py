"""The receiver on a port of this machine, and spans as OpenTelemetry's SDK makes and sends them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec
from typing import Any

import pytest

import foldlog
from tests.support.in_memory_first import backend as backend
from tests.support.serving import serving_http

NEEDED = ("starlette", "uvicorn", "httpx", "opentelemetry.exporter")
if not all(find_spec(name.partition(".")[0]) and find_spec(name) for name in NEEDED):
    collect_ignore_glob = ["test_*.py"]  # the environments of the frameworks do without it

Serving = Callable[..., AbstractAsyncContextManager[str]]


@pytest.fixture
def serving() -> Serving:
    """Serves the receiver of a store, with a real server; gives its address."""
    from foldlog import otlp

    @asynccontextmanager
    async def serve(store: foldlog.Store, **options: Any) -> AsyncIterator[str]:
        async with serving_http(otlp.app(store, **options)) as url:
            yield url

    return serve
