"""One opening attempt for all who need it, and what becomes of them when it or they end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import foldlog
from foldlog.errors import LogUnavailable, StoreClosed
from foldlog.integrations.penguiflow.failures import Failures
from foldlog.integrations.penguiflow.line import Line

PATIENCE = 30  # seconds until what should end is called hung
REPORT = Failures(degrade=False).of("save")


class Opener:
    """Opens stores, each attempt when the test says so."""

    def __init__(self, *errors: Exception) -> None:
        self.attempts = 0
        self.given_up = 0
        self.store = foldlog.memory_store()
        self.before_success: Callable[[], object] = lambda: None
        self._errors = list(errors)
        self._asked = asyncio.Event()
        self._answer = asyncio.Event()

    async def __call__(self) -> foldlog.Store:
        self.attempts += 1
        self._asked.set()
        try:
            await self._answer.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        if self._errors:
            raise self._errors.pop(0)
        self.before_success()
        return self.store

    async def asked(self) -> None:
        """Until somebody needs the store; by then all who began in the same turn have."""
        async with asyncio.timeout(PATIENCE):
            await self._asked.wait()

    def answer(self) -> None:
        self._answer.set()


def noting(done: list[int], number: int) -> Callable[[foldlog.Store], Awaitable[None]]:
    async def call(store: foldlog.Store) -> None:
        done.append(number)

    return call


async def nothing(store: foldlog.Store) -> None:
    """A call for which only the store has to be there."""


async def test_an_attempt_that_fails_does_so_for_all_who_wait_and_the_next_call_tries_again() -> (
    None
):
    opener = Opener(LogUnavailable("away"))
    line, done = Line(opener), list[int]()
    calls = [asyncio.create_task(line.write(noting(done, n), REPORT)) for n in range(8)]
    calls.append(asyncio.create_task(line.read(nothing)))
    await opener.asked()
    opener.answer()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [LogUnavailable] * 9
    assert (opener.attempts, done) == (1, [])

    await line.write(noting(done, 8), REPORT)
    assert (opener.attempts, done) == (2, [8])
    await line.close()


async def test_writes_keep_their_order_across_the_moment_in_which_it_opens() -> None:
    opener = Opener()
    line, done = Line(opener), list[int]()
    loop = asyncio.get_running_loop()
    # Begins when the store is open and nobody who waits for it has been told.
    opener.before_success = lambda: loop.call_soon(line.begin, noting(done, 3), REPORT)
    for n in range(3):
        line.begin(noting(done, n), REPORT)
    await opener.asked()
    opener.answer()
    await line.read(nothing)
    await line.close()
    assert done == [0, 1, 2, 3]


async def test_one_who_is_cancelled_leaves_the_attempt_to_the_others() -> None:
    opener = Opener()
    line, done = Line(opener), list[int]()
    first = asyncio.create_task(line.read(nothing))
    saved = asyncio.create_task(line.write(noting(done, 1), REPORT))
    third = asyncio.create_task(line.read(nothing))
    await opener.asked()
    first.cancel()
    saved.cancel()
    assert len(await asyncio.gather(first, saved, return_exceptions=True)) == 2
    opener.answer()
    await third
    assert (opener.attempts, opener.given_up) == (1, 0)
    assert done == [1]  # begun is begun
    await line.close()


async def test_closing_gives_up_an_attempt_for_which_only_reads_wait() -> None:
    opener = Opener()
    line = Line(opener)
    reads = [asyncio.create_task(line.read(nothing)) for _ in range(2)]
    await opener.asked()
    async with asyncio.timeout(PATIENCE):
        await line.close()
    for read in reads:
        with pytest.raises(StoreClosed):
            await read
    assert (opener.attempts, opener.given_up) == (1, 1)


async def test_closing_gives_up_an_attempt_that_has_not_begun() -> None:
    opener = Opener()
    line = Line(opener)
    read = asyncio.ensure_future(line.read(nothing))
    closing = asyncio.create_task(line.close())  # in the turn in which the read begins
    async with asyncio.timeout(PATIENCE):
        await closing
    with pytest.raises(StoreClosed):
        await read
    assert opener.attempts == 0


async def test_closing_gives_up_an_attempt_for_which_nobody_waits_any_more() -> None:
    opener = Opener()
    line = Line(opener)
    read = asyncio.create_task(line.read(nothing))
    await opener.asked()
    read.cancel()
    await asyncio.gather(read, return_exceptions=True)
    async with asyncio.timeout(PATIENCE):
        await line.close()
    assert (opener.attempts, opener.given_up) == (1, 1)


async def test_closing_lets_writes_have_the_attempt_that_they_wait_for() -> None:
    opener = Opener()
    line, done = Line(opener), list[int]()
    line.begin(noting(done, 1), REPORT)
    read = asyncio.create_task(line.read(nothing))
    await opener.asked()
    closing = asyncio.create_task(line.close())
    with pytest.raises(StoreClosed):
        await asyncio.create_task(line.read(nothing))
    opener.answer()
    await asyncio.gather(closing, read)
    assert (done, opener.given_up) == ([1], 0)
    await line.close()


async def test_closing_waits_for_one_attempt_however_many_writes_there_are() -> None:
    opener = Opener(*[LogUnavailable("away")] * 8)
    line, done, failures = Line(opener), list[int](), Failures(degrade=False)
    for n in range(8):
        line.begin(noting(done, n), failures.of("save"))
    await opener.asked()
    opener.answer()
    await line.close()
    assert (opener.attempts, done, failures.counts) == (1, [], {"save": 8})


async def test_a_failure_is_reported_to_its_caller_or_counted_never_both() -> None:
    async def failing(store: foldlog.Store) -> None:
        raise LogUnavailable("gone")

    opener, failures = Opener(), Failures(degrade=False)
    line = Line(opener)
    heard = asyncio.create_task(line.write(failing, failures.of("heard")))
    unheard = asyncio.create_task(line.write(failing, failures.of("unheard")))
    await opener.asked()
    unheard.cancel()
    opener.answer()
    with pytest.raises(LogUnavailable):
        await heard
    with pytest.raises(asyncio.CancelledError):
        await unheard
    await line.close()
    assert failures.counts == {"unheard": 1}
