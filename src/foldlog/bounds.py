"""What a peer may send, and how much it may leave unread: one place for every server of foldlog.

`docs/reference/limits.md` lists each bound. A request holds bytes of its application's budget from
the first that arrives until it is answered. When the budget is spent, the request that holds most
is refused, so that a few large or slow senders keep nobody else out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # an extra has it
    from starlette.requests import Request

BUDGET_BYTES: Final = 128 * 1024 * 1024
"""Bytes that all requests of one application hold together, decoded ones by an estimate."""

SMALL_BYTES: Final = 64 * 1024
"""Up to so many bytes a request is small: it waits for no other one."""

BODY_SECONDS: Final = 30.0
"""How long a sender may take for a request."""

RETRY_SECONDS: Final = 5
"""When a sender is asked to send again what could not be taken now."""

OUTBOX_BYTES: Final = 4 * 1024 * 1024
"""Bytes that wait for a follower of a stream before it is let go."""

ANSWER_BYTES: Final = 4 * 1024 * 1024
"""About how many bytes an answer of the page's API has at most; the next page has the rest."""

RECORD_BYTES: Final = 128 * 1024
"""About how many bytes a record has in such an answer; it is cut, and asked for alone, whole."""

SHARE_BYTES: Final = 256 * 1024 * 1024
"""Bytes of a shared file at most."""


class Refused(Exception):
    """A request that is not served: the status, the reason, and headers by name."""

    def __init__(self, status: int, reason: str, **headers: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers: dict[str, str] = {
            name.replace("_", "-"): value for name, value in headers.items()
        }


def too_large(most: int, what: str = "bytes") -> Refused:
    """Return the refusal of a request that would never fit."""
    return Refused(413, f"a request has at most {most:,} {what}: send less at a time")


class Budget:
    """The bytes that the requests of an application hold."""

    def __init__(self, most: int = BUDGET_BYTES) -> None:
        self.most = most
        self.used: int = 0
        self._holds = set[Hold]()
        self._turn = asyncio.Lock()

    @contextmanager
    def hold(self) -> Iterator[Hold]:
        """Hold bytes for one request; they are free again when the block ends."""
        hold = Hold(self)
        self._holds.add(hold)
        try:
            yield hold
        finally:
            self._holds.discard(hold)
            self.used -= hold.size

    async def turn(self) -> None:
        """Wait until one may read on: of those who send much, one at a time, in order.

        Else all that is read between two steps of a small request would be read from all of them.
        """
        async with self._turn:
            await asyncio.sleep(0)

    def make_room(self, asking: Hold) -> None:
        """Refuse the largest of those who still send, until all fits. Raises Refused: `asking`."""
        while self.used > self.most:
            sending = [each for each in self._holds if each.is_sending or each is asking]
            largest = max(sending, key=lambda each: each.size)
            largest.let_go()
            if largest is asking:
                raise _busy()


class Hold:
    """What one request holds. `data` is what has arrived of its body."""

    def __init__(self, budget: Budget) -> None:
        self.size: int = 0
        self.data: bytearray = bytearray()
        self.is_sending: bool = True
        self.budget = budget
        self._is_refused = False

    def take(self, size: int) -> None:
        """Hold more bytes.

        Raises:
            Refused: they do not fit now, or would not fit at all.
        """
        if self._is_refused:
            raise _busy()
        if self.size + size > self.budget.most:
            raise too_large(self.budget.most, "bytes when it is decoded")
        self.size += size
        self.budget.used += size
        self.budget.make_room(self)

    def give(self, size: int) -> None:
        """Free bytes that are not needed any more."""
        self.size -= size
        self.budget.used -= size

    def let_go(self) -> None:
        """Free what has arrived. The request is refused when it next asks."""
        self.budget.used -= self.size
        self.size, self._is_refused, self.is_sending = 0, True, False
        self.data.clear()


async def read_body(request: Request, hold: Hold, most: int) -> bytearray:
    """Return the body of a request, counted as it arrives.

    Args:
        request: the request.
        hold: what it may hold.
        most: its bytes at most.

    Raises:
        Refused: it is too large, too slow, or not whole; or the budget of all is spent.
    """
    from starlette.requests import ClientDisconnect

    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared[:20]) > most:
        raise too_large(most)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                hold.take(len(chunk))
                hold.data += chunk
                if len(hold.data) > most:
                    raise too_large(most)
                if len(hold.data) > SMALL_BYTES:
                    await hold.budget.turn()
    except TimeoutError:
        raise Refused(408, f"the request did not arrive within {BODY_SECONDS:g} s") from None
    except ClientDisconnect:
        raise Refused(400, "the sender left before its request was whole") from None
    hold.is_sending = False
    return hold.data


class Outbox:
    """What waits for one follower of a stream. It ends, and frees all, when that is too much.

    A follower that was let go resumes where it had come to: each message says where that is.
    """

    def __init__(self, most: int = OUTBOX_BYTES) -> None:
        self.is_overrun: bool = False
        self._most = most
        self._waiting = deque[bytes]()
        self._size = 0
        self._is_ended = False
        self._wake = asyncio.Event()

    def put(self, data: bytes) -> None:
        """Add a message; nothing once it has ended."""
        if self._is_ended:
            return
        self._waiting.append(data)
        self._size += len(data)
        if self._size > self._most and len(self._waiting) > 1:
            self._waiting.clear()
            self.is_overrun = self._is_ended = True
        self._wake.set()

    def end(self) -> None:
        """Let the follower have what waits, and then the end."""
        self._is_ended = True
        self._wake.set()

    async def get(self) -> bytes | None:
        """Return the next message; None at the end."""
        while not self._waiting:
            if self._is_ended:
                return None
            self._wake.clear()
            await self._wake.wait()
        data = self._waiting.popleft()
        self._size -= len(data)
        return data


def _busy() -> Refused:
    reason = "others send a lot just now: send it again later, or less at a time"
    return Refused(429, reason, retry_after=str(RETRY_SECONDS))
