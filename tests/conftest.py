"""Fixtures that every test may use: backends, stores over fresh data, a shiftable clock."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import foldlog
import foldlog.blocking
from tests.support.stores import (
    Backend,
    EmbeddedBackend,
    MemoryBackend,
    ServerBackend,
    fresh_namespace,
)

# A shell that runs the tests in the background has them ignore Ctrl-C, and so would every process
# that they start, the ones included that are to be stopped by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The environments of the real frameworks do without Hypothesis.
if find_spec("hypothesis") is not None:
    from tests.support import properties  # noqa: F401  # how many examples there are of each

OpenStore = Callable[..., Awaitable[foldlog.Store]]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The garbage collector leaves the tests alone, all of which each process collects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """What was collected goes with the process; extensions complain of what does not."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def tasks_are_watched(request: pytest.FixtureRequest) -> None:
    """A test that awaits leaves no task behind; the others are spared the event loop."""
    if pytest_asyncio.is_async_test(request.node):
        marks = request.node.iter_markers("asyncio")
        shared = any(mark.kwargs.get("loop_scope") == "session" for mark in marks)
        request.getfixturevalue("none_in_the_shared_loop" if shared else "no_leaked_tasks")


@pytest.fixture
async def no_leaked_tasks() -> AsyncIterator[None]:
    """No asyncio task outlives the test that caused it."""
    async with leaving_no_task():
        yield


@pytest_asyncio.fixture(loop_scope="session")
async def none_in_the_shared_loop() -> AsyncIterator[None]:
    """The same where tests share an event loop. What their fixtures run is older than the test."""
    async with leaving_no_task():
        yield


@asynccontextmanager
async def leaving_no_task() -> AsyncIterator[None]:
    """No asyncio task outlives the context.

    A task that was told to stop may take its last turn here; one that nobody told is a leak.
    """
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    stopping = {task for task in left if task.cancelling()}
    await asyncio.gather(*stopping, return_exceptions=True)
    leaked = [repr(task) for task in left - stopping if not task.done()]
    assert not leaked, "tasks outlived the test:\n" + "\n".join(leaked)


@pytest.fixture(scope="session")
def embedded_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory of one embedded server, kept running for the whole test run.

    On a thread: tests share the event loop of the session, which stands still between those that
    do, and the server gives up a connection that does not answer.
    """
    path = tmp_path_factory.mktemp("embedded")
    with foldlog.blocking.connect(path=path, namespace="keeper") as keeper:
        keeper.sessions()  # the first call opens it
        yield path


@pytest.fixture(scope="session")
def container_url() -> Iterator[str]:
    """The URL of a NATS container, where a container engine answers."""
    if find_spec("docker") is None:
        pytest.skip("Docker's client is in the environment of make test-long alone")
    from tests.support.containers import docker_reason, nats_container

    if reason := docker_reason():
        pytest.skip(reason)
    with nats_container() as url:
        yield url


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test uses."""
    return fresh_namespace()


CONTAINER = pytest.param("container", marks=pytest.mark.long)


BACKENDS = ["archived"] if os.environ.get("FOLDLOG_TEST_ARCHIVED") else ["memory", "embedded"]


@pytest.fixture(params=[*BACKENDS, CONTAINER])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """One backend over data that no other test sees: the one that the parameter names."""
    yield from backend_named(request)


def backend_named(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Give what the parameter of a fixture names, over empty data."""
    match request.param:
        case "memory":
            yield MemoryBackend()
        case "embedded":
            yield EmbeddedBackend(request.getfixturevalue("embedded_path"))
        case "archived":
            from tests.support.archived import EagerBackend

            archived = EagerBackend(request.getfixturevalue("tmp_path") / "archive")
            yield archived
            asyncio.run(archived.close())
        case _:
            yield ServerBackend(request.getfixturevalue("container_url"))


@pytest.fixture
async def reopen(backend: Backend) -> AsyncIterator[OpenStore]:
    """Opens another store on the test's data, with the options given; all are closed afterwards."""
    opened: list[foldlog.Store] = []

    async def open_store(**options: Any) -> foldlog.Store:
        opened.append(await backend.open(**options))
        return opened[-1]

    yield open_store
    for store in reversed(opened):
        await store.close()


@pytest.fixture
async def store(reopen: OpenStore) -> foldlog.Store:
    """A store over empty data."""
    return await reopen()


@pytest.fixture
def advance_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the wall clock forward by so many seconds; the event loop's clock stays."""
    offset = 0.0
    seconds, nanoseconds = time.time, time.time_ns

    def advance(by: float) -> None:
        nonlocal offset
        offset += by

    monkeypatch.setattr(time, "time", lambda: seconds() + offset)
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + int(offset * 1e9))
    return advance


@pytest.fixture
def purging_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A purge of what is archived waits for nobody: no other process believes an older manifest."""
    from foldlog.log.archive.manifests import Manifests

    monkeypatch.setattr(Manifests, "believed", 0.0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was skipped, once for each reason: a skipped check is not a passed one."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in reports)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"skipped {count}: {reason}", yellow=True)
