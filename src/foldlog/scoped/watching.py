"""Watching a scope: what there is, then each change as the log records it."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from foldlog.envelope import Recorded
from foldlog.errors import LogUnavailable, StoreClosed
from foldlog.log.port import Record
from foldlog.scoped.keys import Keys
from foldlog.scoped.models import Revision
from foldlog.scoped.scope import Scope
from foldlog.store.restoring import load
from foldlog_projections import scopes
from foldlog_projections.scopes import Deleted

LOOK_SECONDS: Final = 5.0
"""How long pushes are trusted without a look at the log: a lost last push is found by then."""

_IDS_REMEMBERED: Final = 4096

_log: Final = logging.getLogger("foldlog")


class Watching:
    """Those who watch a store's scopes. Lives as long as the store."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._wakes: set[asyncio.Event] = set()
        self._closed = False

    def wake(self) -> None:
        """Have everybody look at the log: pushes may have been missed."""
        for wake in self._wakes:
            wake.set()

    def close(self) -> None:
        """End everybody's watch with StoreClosed."""
        self._closed = True
        self.wake()

    async def watch(self, scope: Scope, prefix: str, since: str | None) -> AsyncGenerator[Revision]:
        """See `ScopedReader.watch`."""
        subject = self._keys.index_subject(scope)
        wake = asyncio.Event()

        def hint(_: Record) -> None:
            wake.set()

        self._wakes.add(wake)
        unfollow = None
        try:
            unfollow = await self._keys.journal.forked_log.follow(subject, hint)
            folded, after = await self._keys.journal.read_at(scopes.kind, *subject.keys)
            if since is not None and since in folded.seen:
                after = 0
            else:
                since = None
                now = self._keys.journal.now()
                present = [
                    (key, entry.version)
                    for key, entry in folded.state.entries.items()
                    if key.startswith(prefix) and not entry.is_over(now)
                ]
                for key, version in present:
                    async for revision in self._revision(scope, key, version):
                        yield revision
            told: OrderedDict[str, None] = OrderedDict()
            async for envelope in self._following(scope, after, wake):
                if since is not None:
                    since = None if envelope.id == since else since
                    continue
                changed = _changed(envelope)
                if changed is None or not changed.startswith(prefix) or envelope.id in told:
                    continue
                told[envelope.id] = None
                if len(told) > _IDS_REMEMBERED:
                    told.popitem(last=False)
                async for revision in self._revision(scope, changed, envelope.id):
                    yield revision
        finally:
            self._wakes.discard(wake)
            if unfollow is not None:
                await unfollow()

    async def _following(
        self, scope: Scope, after: int, wake: asyncio.Event
    ) -> AsyncIterator[Recorded]:
        """The index's envelopes after a sequence, without end."""
        subject = self._keys.index_subject(scope)
        while not self._closed:
            wake.clear()
            try:
                async with aclosing(
                    self._keys.journal.forked_log.read(subject, after=after)
                ) as pages:
                    async for page in pages:
                        for record in page:
                            for envelope in record.envelopes:
                                yield envelope
                            after = record.seq
            except LogUnavailable as error:
                _log.info("watching %s: %s; waiting for the log", subject.name, error)
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await wake.wait()
            except TimeoutError:
                pass  # a look at the log costs little, and finds a push that was lost
        raise StoreClosed

    async def _revision(self, scope: Scope, key: str, version: str) -> AsyncIterator[Revision]:
        """What that version was; nothing if it was cleared meanwhile."""
        held = await self._keys.version(scope, key, version)
        if held is not None:
            yield await self._keys.revision(key, held)


def _changed(envelope: Recorded) -> str | None:
    """The key that an envelope of an index writes or deletes."""
    if envelope.type not in (scopes.WRITTEN, scopes.DELETED):
        return None
    key: str = load(Deleted, envelope.payload).key  # both begin so
    return key
