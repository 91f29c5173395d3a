"""assistant-ui's resumable streams on foldlog, which any server goes on with.

    context = create_resumable_stream_context(store=FoldlogResumableStreamStore(store))

The contract is `ResumableStreamStore` of assistant_stream.resumable, with the leases of its
TypeScript: https://github.com/assistant-ui/assistant-ui/tree/main/packages/assistant-stream
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Literal

from foldlog.integrations.required import not_installed

try:
    from assistant_stream import resumable
except ModuleNotFoundError as _error:
    raise not_installed("assistant-ui", _error) from _error

from foldlog.bounds import Refused
from foldlog.errors import NotFound
from foldlog.opening import Store
from foldlog.streams import POLL_SECONDS, deciding
from foldlog.streams.deciding import Asked
from foldlog.streams.keeping import PAGE_BYTES, Streams, key_of
from foldlog.streams.waking import Wakes
from foldlog_projections.streams import Appended, Closed, Opened, Stream

_TYPE: Final = "text/plain; charset=utf-8"


class FoldlogResumableStreamStore:
    """Streams of answers: the producer and its readers may be on any servers of the store.

    It takes the place of `create_redis_resumable_stream_store`. A stream is one of
    `foldlog.streams` at `<prefix>/<id>`. It lives as long as its store, and on its event loop.

    Args:
        store: the store that has the streams.
        prefix: `sessions/<session>` has the streams cleared, erased and forked with that session.
        default_ttl_ms: milliseconds that a stream stays after its last append, where `acquire` says
            nothing else. It is rounded up to seconds, and the stream goes an eighth later at most.
    """

    def __init__(
        self,
        store: Store,
        *,
        prefix: str = "assistant-ui",
        default_ttl_ms: int = resumable.DEFAULT_TTL_MS,
    ) -> None:
        self._store = store
        self._streams = Streams(store)
        self._wakes = Wakes(store, ("streams",))
        self._prefix = prefix
        self._ttl_ms = default_ttl_ms
        self._leases: dict[str, str] = {}

    async def acquire(
        self, stream_id: str, *, ttl_ms: int | None = None
    ) -> resumable.ResumableStreamRole:
        """Return "producer" to the first who asks for a stream, "consumer" to all others.

        Errors as `acquire_lease`.
        """
        lease = await self.acquire_lease(stream_id, ttl_ms=ttl_ms)
        return "consumer" if lease is None else "producer"

    async def acquire_lease(self, stream_id: str, *, ttl_ms: int | None = None) -> str | None:
        """Return the lease of a new stream; None: there is such a stream already.

        A producer who passes it to `append` and `finalize` cannot write into a later stream of the
        same id. Without it, this store passes the last one that it was given for the id.

        Args:
            stream_id: of letters, digits and `_.:-`, 256 at most.
            ttl_ms: milliseconds that the stream stays after its last append.

        Raises:
            ResumableStreamError: the id is invalid.
            AppendFailed, LogUnavailable: nothing was stored.
            AppendUnknown: the stream may have been made, and has no producer.
        """
        ttl = math.ceil((self._ttl_ms if ttl_ms is None else ttl_ms) / 1000)
        opened = Opened(secrets.token_hex(8), _TYPE, ttl=max(1, ttl))
        asked, path = Asked(_TYPE, (), False, opened.id), self._path(stream_id)
        try:
            made = await self._streams.create(path, opened, asked)
        except Refused:
            return None  # it has ended, or lives for another time
        if made.status != 201:
            return None
        self._leases[stream_id] = opened.id
        return opened.id

    async def append(self, stream_id: str, chunk: bytes, lease: str | None = None) -> None:
        """Append to a stream. Readers may get a chunk of more than 256 KiB in several.

        Raises:
            ResumableStreamError: "finalized": it has ended; "missing": another one has its id now.
            RuntimeError: there is no such stream.
            AppendFailed, LogUnavailable: nothing was stored.
            AppendUnknown: the chunk may have been stored.
        """
        pieces, tag = deciding.pieces_of(_TYPE, chunk), secrets.token_hex(8)

        def append(stream: Stream) -> Sequence[Any]:
            return deciding.append(stream, Asked(_TYPE, pieces, False, tag)).records

        await self._decide(stream_id, lease, append)

    async def finalize(
        self,
        stream_id: str,
        status: Literal["done", "error"],
        error: str | None = None,
        lease: str | None = None,
    ) -> bool:
        """End a stream; False: it has ended before, or another one has its id now.

        Raises:
            ResumableStreamError: the id is invalid.
            RuntimeError: there is no such stream.
            AppendFailed, LogUnavailable: nothing was stored.
            AppendUnknown: it may have ended; finalizing again is safe.
        """
        self._path(stream_id)
        closed = Closed(error=(error or "Stream errored") if status == "error" else "")
        try:
            await self._decide(stream_id, lease, lambda _: (closed,))
        except resumable.ResumableStreamError:
            return False
        self._leases.pop(stream_id, None)
        return True

    async def read(
        self, stream_id: str, cursor: str, signal: resumable.CancellationSignal
    ) -> AsyncGenerator[resumable.ResumableStreamEntry]:
        """Yield what is behind a cursor, "" for all, and then what comes, until the stream ends.

        It also ends once the signal is set, or the stream is deleted or expires.

        Raises:
            ResumableStreamError: the id is invalid.
            RuntimeError: there is no such stream; or its producer ended it with this error.
            NotFound: the stream has had no such cursor.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        path = self._path(stream_id)
        key, after = key_of(path), cursor or None
        begun = self._there(stream_id, await self._streams.state(path))
        left = asyncio.ensure_future(signal.wait())
        try:
            async with self._wakes.listening(key.keys) as wake:
                left.add_done_callback(lambda _: wake.set())
                while not signal.is_set():
                    wake.clear()
                    stream = await self._streams.state(path)
                    if stream.id != begun.id:
                        return
                    try:
                        found = await self._store.items(
                            key, after=after, max_bytes=PAGE_BYTES, consistency="strong"
                        )
                    except NotFound:
                        if (await self._streams.state(path)).id == begun.id:
                            raise
                        return  # it was deleted meanwhile
                    for item in found:
                        after, record = item.id, item.record
                        if signal.is_set():
                            return
                        if isinstance(record, Appended):
                            yield resumable.ResumableStreamEntry(item.id, record.body)
                        elif isinstance(record, Closed):
                            if record.error:
                                raise RuntimeError(record.error)
                            return
                    if not found:
                        ttl = stream.opened and stream.opened.ttl
                        with suppress(TimeoutError):
                            async with asyncio.timeout(min(ttl or POLL_SECONDS, POLL_SECONDS)):
                                await wake.wait()
        finally:
            left.cancel()
            await asyncio.wait({left})

    async def status(self, stream_id: str) -> resumable.ResumableStreamStatus:
        """Return "missing", "streaming", "done" or "error". Errors as `read`."""
        stream = await self._streams.state(self._path(stream_id))
        if not stream or stream.is_gone:
            return "missing"
        if not stream.is_closed:
            return "streaming"
        return "error" if stream.error else "done"

    async def delete(self, stream_id: str) -> None:
        """Remove a stream, if there is one: its readers end. Errors as `Store.erase`."""
        path = self._path(stream_id)
        with suppress(Refused):
            await self._streams.delete(path)
        self._leases.pop(stream_id, None)

    async def _decide(
        self, stream_id: str, lease: str | None, decide: Callable[[Stream], Sequence[Any]]
    ) -> None:
        """Append what is decided on, unless the stream has ended or is another's."""
        lease = self._leases.get(stream_id) if lease is None else lease

        def decision(stream: Stream) -> Sequence[Any]:
            self._there(stream_id, stream)
            if lease not in (None, stream.id):
                said = f"Stream superseded by a new acquisition: {stream_id}"
                raise resumable.ResumableStreamError("missing", said)
            if stream.is_closed:
                said = f"Stream already finalized: {stream_id}"
                raise resumable.ResumableStreamError("finalized", said)
            return decide(stream)

        await self._store.decide(key_of(self._path(stream_id)), decision, copy=False)

    def _there(self, stream_id: str, stream: Stream) -> Stream:
        if not stream or stream.is_gone or deciding.is_expired(stream, time.time()):
            raise RuntimeError(f"Stream not found: {stream_id}")
        return stream

    def _path(self, stream_id: str) -> str:
        resumable.validate_stream_id(stream_id)
        return f"{self._prefix}/{stream_id}"
