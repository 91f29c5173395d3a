"""Contents stored once, for as long as somebody claims them (`foldlog_projections.blobs`).

A copy is announced before its bytes are stored, and claimed before anything refers to it, so
`collect` finds what an interrupted save left behind. The last release removes the bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from foldlog.envelope import Draft, draft
from foldlog.errors import (
    AppendConflict,
    AppendFailed,
    AppendUnknown,
    FoldlogError,
    LogCorrupt,
    PastErased,
)
from foldlog.kind import Key
from foldlog.log.blobs import Blobs
from foldlog.store.payloads import encode
from foldlog.store.primitives import At, Decided, Primitives
from foldlog.store.tombstones import bury, clear_view
from foldlog_projections import blobs
from foldlog_projections.blobs import GRACE, Claim, Claimed, Content, Released

COLLECTED_SECONDS: Final = 3600.0
"""How old a claim must be to be collected: older than any save that is still under way."""

RENEWAL_SECONDS: Final = 600.0
"""How old a claim may become before claiming again renews it."""

_ATTEMPTS: Final = 10
_DECISION_SECONDS: Final = 30.0
_HASHED_IN_A_THREAD: Final = 1024 * 1024
"""Bytes from which hashing would block the event loop for longer than a thread costs."""

IsUsed = Callable[[str, Claim], Awaitable[bool]]
"""Given a SHA-256 and a claim: whether the claimant still refers to that content."""


class BlobStore:
    """The contents of one store. `users` say by family which claims are used, for `collect`."""

    def __init__(self, store: Primitives, stored: Blobs) -> None:
        self._store = store
        self._stored = stored
        self.users: dict[str, IsUsed] = {}

    async def claim(self, claim: Claim, data: bytes, sha256: str, *, ttl: int = 0) -> str:
        """Store bytes for as long as they are claimed; return the name of their copy.

        The claim ends by itself after `ttl` seconds; 0 for never.
        """
        needed = time.time() + ttl if ttl else math.inf
        lasts = ttl + 2 * int(GRACE) if ttl else None
        copy, begun = "", list[str]()

        def decide(content: Content) -> Draft | None:
            nonlocal copy
            own = next((each for each in begun if each in content.loose), "")
            copy = content.copy_until(needed) or own
            if not copy:
                return draft(blobs.BEGUN, b"\xc0", id=secrets.token_hex(10))
            known = content.claims.get(claim)
            is_fresh = known is not None and time.time() - known.since < RENEWAL_SECONDS
            if is_fresh and copy in content.copies:
                return None
            return encode(blobs.kind, Claimed(claim, copy, len(data), ttl))

        try:
            for _ in range(_ATTEMPTS):
                appended = await self._decide(sha256, decide)
                if copy:
                    break
                begun += [each.id for each in appended]
                await self._stored.put(_name(sha256, begun[-1]), data, ttl=lasts)
            else:
                raise AppendFailed(f"the bytes of {sha256} are removed as often as they are stored")
        except AppendUnknown:
            raise
        except FoldlogError:
            with suppress(FoldlogError):  # then it is left to `collect`
                await self._delete(sha256, begun)
            raise
        # Somebody else was first, or all was cleared meanwhile.
        await self._delete(sha256, [each for each in begun if each != copy])
        return _name(sha256, copy)

    async def release(
        self, sha256: str, claim: Claim, *, claimed_before: float = math.inf
    ) -> int | None:
        """Take a claim away, and the bytes with the last one; return how many bytes went.

        Repeating one that was interrupted removes the bytes that it has left.

        None if there is no such claim, or none as old: `claimed_before`, by the log's clock.
        """
        freed, copies = 0, list[str]()

        def decide(content: Content) -> Draft | None:
            nonlocal freed, copies
            if claim not in content.claims or content.claims[claim].since >= claimed_before:
                freed, copies = 0, content.released  # of a release that was cut short
                return None
            now = time.time()
            others = (term for other, term in content.claims.items() if other != claim)
            is_last = all(term.is_over(now) for term in others)
            freed, copies = (content.size, list(content.copies)) if is_last else (0, [])
            return encode(blobs.kind, Released(claim, is_last))

        is_released = bool(await self._decide(sha256, decide))
        if copies:
            await self._remove(sha256, copies)
        return freed if is_released else None

    async def read(self, sha256: str) -> Content:
        """Return a content as of now. Use it before the next await; never change it."""
        return (await self._store.read(blobs.kind, sha256, consistency="strong")).state

    async def get(self, name: str) -> bytes | None:
        """Return the bytes of a copy, or None if they are gone."""
        data = await self._stored.get(name)
        if data is None and self._store.past is not None:
            raise PastErased(f"blob {name}", "its bytes were removed since")
        if data is not None and await digest(data) != _sha256(name):
            raise LogCorrupt(blobs.kind.name, 0, "the bytes are not those that were saved")
        return data

    async def copy_of(self, sha256: str, claim: Claim) -> str | None:
        """Return the name of a content's copy, or None if there is no such claim."""
        content = await self.read(sha256)
        term = content.claims.get(claim)
        return _name(sha256, content.copy_until(term.until - GRACE)) if term is not None else None

    async def is_readable(self, name: str, claim: Claim) -> bool:
        """Return whether bytes are claimed, or there although nobody claims them."""
        claims = (await self.read(_sha256(name))).claims
        return claim in claims if claims else await self._stored.get(name) is not None

    async def all(self) -> list[str]:
        """Return the SHA-256 of every content there ever was. For operators."""
        return [s.keys[0] for s in await self._store.forked_log.subjects(blobs.kind.name)]

    async def collect(
        self, contents: Iterable[str], users: Mapping[str, IsUsed], *, older_than: float
    ) -> list[tuple[Claim, int]]:
        """Release claims that are `older_than` these seconds and not used, with the bytes freed."""
        before, users = time.time() - older_than, {**self.users, **users}
        collected: list[tuple[Claim, int]] = []
        for sha256 in contents:
            for claim, term in list((await self.read(sha256)).claims.items()):
                is_used = users.get(claim.family, _is_unknown)
                if not term.is_over(time.time()) and await is_used(sha256, claim):
                    continue
                freed = await self.release(sha256, claim, claimed_before=before)
                if freed is not None:
                    collected.append((claim, freed))
            loose = (await self.read(sha256)).loose
            await self._remove(sha256, [copy for copy, since in loose.items() if since < before])
        return collected

    async def clear(self) -> None:
        """Remove all, also what is claimed meanwhile."""
        for subject in await self._store.forked_log.subjects(blobs.kind.name):
            [sha256] = subject.keys
            while (found := await self.read(sha256)).claims or found.copies or found.loose:
                claims, copies = list(found.claims), [*found.copies, *found.loose]
                for claim in claims:
                    await self.release(sha256, claim)
                await self._remove(sha256, copies)
            await bury(self._store, [subject])

    async def _remove(self, sha256: str, copies: Collection[str]) -> None:
        """Remove the bytes of copies that nobody claims, and what the log says of them."""
        await self._delete(sha256, copies)
        folded, head = await self._store.read_stored_at(blobs.kind, sha256)
        content = folded.state
        if copies and not content.claims and content.loose.keys() <= set(copies):
            with suppress(AppendConflict):
                await clear_view(self._store, blobs.kind(sha256), remember=False, head=head)

    async def _delete(self, sha256: str, copies: Collection[str]) -> None:
        for copy in copies:
            await self._stored.delete(_name(sha256, copy))

    async def _decide(self, sha256: str, decide: Callable[[Content], Draft | None]) -> list[Draft]:
        """Append what `decide` says to a content, if anything, and return it."""
        key = blobs.kind(sha256)

        def decision(at: At) -> dict[Key[Any], Decided]:
            drafts = [each for each in [decide(at.folded.state)] if each is not None]
            return {key: Decided(drafts, drafts)}

        made = await self._store.decide_drafts(
            [key], decision, timeout=_DECISION_SECONDS, in_atomic="at once"
        )
        return list(made[key].value) if made else []


async def digest(data: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal."""
    if len(data) < _HASHED_IN_A_THREAD:
        return hashlib.sha256(data).hexdigest()
    return (await asyncio.to_thread(hashlib.sha256, data)).hexdigest()


async def _is_unknown(sha256: str, claim: Claim) -> bool:
    return True  # a newer version may have added its family


def _name(sha256: str, copy: str) -> str:
    return f"{sha256}-{copy}"


def _sha256(name: str) -> str:
    return name.partition("-")[0]
