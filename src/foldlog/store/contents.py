"""Contents: bytes stored once, for as long as an artifact claims them.

A content's subject is the only truth about it. Who claims and who releases compare-and-set there,
so that bytes are never removed under somebody who has just found them.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from typing import Final

from foldlog.envelope import Draft, draft, upsert_id
from foldlog.errors import AppendConflict, AppendUnknown, FoldlogError
from foldlog.log.blobs import Blobs
from foldlog.store.payloads import dump
from foldlog.store.primitives import Primitives
from foldlog.store.tombstones import clear_view
from foldlog_projections import statecontents
from foldlog_projections.statecontents import Claim, Content

RENEWAL_SECONDS: Final = 600.0
"""How old a claim may become before claiming again renews it."""

_CONTENTION_PAUSE: Final = 0.002
"""Seconds to let the write that a server saw in flight settle before looking again."""


class Contents:
    """The contents of one store, by their SHA-256."""

    def __init__(self, store: Primitives, blobs: Blobs) -> None:
        self._store = store
        self._blobs = blobs

    async def read(self, sha256: str) -> Content:
        """Return a content as of now: the caller's own. Errors as `Journal.read`."""
        folded = await self._store.read(statecontents.kind, sha256, consistency="strong")
        held = folded.state
        return Content(held.blob, held.size_bytes, dict(held.claims))

    async def bytes_of(self, content: Content) -> bytes | None:
        """Return the bytes, or None if they are gone. Errors as `Blobs.get`."""
        return await self._blobs.get(content.blob) if content.blob else None

    async def all(self) -> list[str]:
        """Return the SHA-256 of every content there ever was. For operators."""
        return [s.keys[0] for s in await self._store.forked_log.subjects(statecontents.kind.name)]

    async def claim(self, sha256: str, data: bytes, artifact_id: str) -> None:
        """Have a content be there, and stay while the artifact claims it.

        Raises:
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`. Claiming again is
                safe.
        """
        blob = ""
        try:
            while True:
                folded, head = await self._store.read_at(statecontents.kind, sha256)
                content = folded.state
                if not content.blob and not blob:
                    blob = await self._stored(sha256, data)
                    continue  # that took its time: look again
                if content.blob and _is_fresh(content, artifact_id):
                    break
                if await self._appended(sha256, _claim(content, artifact_id, blob, data), head):
                    break
        except AppendUnknown:
            raise  # the log may come to refer to the bytes
        except FoldlogError:
            await self._removed(blob)
            raise
        if blob and (await self.read(sha256)).blob != blob:
            await self._removed(blob)  # somebody else was first

    async def release(
        self, sha256: str, artifact_id: str, *, claimed_before: float = math.inf
    ) -> int | None:
        """Take an artifact's claim away, and the bytes with the last one.

        Returns the bytes that were removed; None if there is no claim, or none so old.

        Args:
            claimed_before: Unix seconds by the log's clock.

        Raises:
            AppendFailed, LogUnavailable, AppendUnknown: releasing again is safe; the bytes may
                stay behind.
        """
        while True:
            folded, head = await self._store.read_at(statecontents.kind, sha256)
            content = folded.state
            if content.claims.get(artifact_id, math.inf) >= claimed_before:
                return None
            blob, size = content.blob, content.size_bytes
            is_last = len(content.claims) == 1
            body = dump(Claim(artifact_id))
            released = draft(statecontents.RELEASED, body, id=upsert_id(body))
            if await self._appended(sha256, released, head):
                if not is_last:
                    return 0
                await self._removed(blob)
                return size

    async def clear(self) -> None:
        """Remove all. Errors as `Clearing.clear`."""
        for sha256 in await self.all():
            held = await clear_view(self._store, statecontents.kind(sha256), remember=False)
            await self._removed(held.blob)

    async def _appended(self, sha256: str, envelope: Draft, head: int) -> bool:
        """Append if the content ends at `head`; False if it does not."""
        subject = self._store.subject(statecontents.kind, sha256)
        try:
            await self._store.compare_and_append(subject, [envelope], head)
        except AppendConflict as conflict:
            if conflict.actual is None:
                await asyncio.sleep(_CONTENTION_PAUSE)
            return False
        return True

    async def _stored(self, sha256: str, data: bytes) -> str:
        blob = f"{sha256}-{secrets.token_hex(8)}"
        await self._blobs.put(blob, data, sha256=sha256, ttl=None)
        return blob

    async def _removed(self, blob: str) -> None:
        if blob:
            await self._blobs.delete(blob)


def _is_fresh(content: Content, artifact_id: str) -> bool:
    return time.time() - content.claims.get(artifact_id, -math.inf) < RENEWAL_SECONDS


def _claim(content: Content, artifact_id: str, blob: str, data: bytes) -> Draft:
    if content.blob:
        type, claim = statecontents.CLAIMED, Claim(artifact_id)
    else:
        type, claim = statecontents.STORED, Claim(artifact_id, blob, len(data))
    body = dump(claim)
    return draft(type, body, id=upsert_id(body))
