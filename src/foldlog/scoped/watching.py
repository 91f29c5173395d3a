"""Watching a scope: what there is, then each change as the log records it."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import chain
from typing import Final

from foldlog.envelope import Recorded
from foldlog.errors import LogCorrupt, LogUnavailable, NotFound
from foldlog.scoped import records
from foldlog.scoped.indexes import Indexes
from foldlog.scoped.keys import Keys
from foldlog.scoped.models import Revision
from foldlog.scoped.records import key_of
from foldlog.scoped.scope import Scope
from foldlog.views.watching import watched, woken
from foldlog_projections.scoped import scoped

_IDS_REMEMBERED: Final = 4096
_PAUSE: Final = 0.5
"""Seconds before changes that could not be read are read again."""

_log: Final = logging.getLogger("foldlog")


async def watch(
    keys: Keys, indexes: Indexes, scope: Scope, prefix: str, behind: str | None
) -> AsyncGenerator[Revision]:
    """See `ScopedReader.watch`."""
    yielded: OrderedDict[str, None] = OrderedDict()
    found = None if behind is None else await _find(keys, scope, behind)
    after = 0 if found is None else found.seq - 1
    if found is None:
        after, present = await indexes.ask(
            scope, "strong", lambda index, now: index.present(now, prefix)
        )
        for key, version in present:
            held, payload = await keys.present(scope, key)
            if held is not None and held.version == version:  # else a change follows
                yield await keys.revision(scope, key, held, payload)
    async with aclosing(_changes(keys, scope, after)) as changes:
        async for changed, envelope in changes:
            if found is not None and envelope.position <= found.position:
                continue
            if not changed.startswith(prefix) or envelope.id in yielded:
                continue
            yielded[envelope.id] = None
            if len(yielded) > _IDS_REMEMBERED:
                yielded.popitem(last=False)
            try:
                revision = await keys.revision(scope, changed, records.read(envelope))
            except LogCorrupt:
                held = await keys.last(scope, changed, "strong")
                if held is not None and held.version == envelope.id:
                    raise
                continue  # it was cleared meanwhile, with the blob of its value
            yield revision


async def _changes(keys: Keys, scope: Scope, after: int) -> AsyncGenerator[tuple[str, Recorded]]:
    """What was written to keys of a scope, or deleted, after a sequence, without end."""
    core, unfollow = keys.core, None
    async with watched(core.hot_views, scoped.kind, keys.own(scope)) as wake:
        try:
            while True:
                try:
                    unfollow = unfollow or await core.forked_log.follow(
                        keys.branch(scope), lambda record: wake.set()
                    )
                    async with aclosing(keys.changes(scope, after)) as pages:
                        async for page in pages:
                            for record in page:
                                for envelope in record.envelopes:
                                    if envelope.type in (scoped.WRITTEN, scoped.DELETED):
                                        yield key_of(record.subject, envelope), envelope
                                after = record.seq
                except LogUnavailable as error:
                    _log.info("watching %s: %s; waiting for the log", scope, error)
                    await asyncio.sleep(_PAUSE)
                    continue
                if core.past is not None:
                    return
                await woken(wake)
        finally:
            if unfollow is not None:
                await unfollow()


async def _find(keys: Keys, scope: Scope, version: str) -> Recorded:
    """The change of that id. NotFound: there is none."""
    async with aclosing(keys.changes(scope)) as pages:
        async for page in pages:
            for envelope in chain.from_iterable(record.envelopes for record in page):
                if envelope.id == version:
                    return envelope
    raise NotFound("version", version, f"{scope} has had none of that id")
